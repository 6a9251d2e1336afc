//! The paths that traces are named after, and the names that these give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::ingest::find::{Root, names};
use crate::store::names::names_of;

/// The path that the trace of one file is named after: the file, under the run that it is of.
pub(crate) fn file_label(root: &Path, file: &Path) -> PathBuf {
    let run = names::run_of(file).unwrap_or_default();
    root.join(run).join(names::base_name(file))
}

/// The path that one of several traces of a folder is named after: the run of its files.
pub(crate) fn run_label(root: &Path, file: &Path) -> Option<PathBuf> {
    names::run_of(file).map(|run| root.join(run))
}

/// The paths that names come from, as far as they are known before files are read, by the names
/// that each may give.
#[derive(Default)]
pub(crate) struct Labels(BTreeMap<String, BTreeSet<PathBuf>>);

impl Labels {
    pub(crate) fn of<'r>(roots: impl Iterator<Item = &'r Root>) -> Self {
        let mut out = Self::default();
        for root in roots {
            out.add(match root_is_one_file(root) {
                true => file_label(&root.path, &root.candidates[0].place.logical()),
                false => root.path.clone(),
            });
        }
        out
    }

    fn add(&mut self, label: PathBuf) {
        for name in names_of(&label) {
            self.0.entry(name).or_default().insert(label.clone());
        }
    }

    /// The names that a trace of this path may have, the shortest first; without those that another
    /// path of the same call may have too, as far as that leaves any.
    pub(crate) fn names(&self, label: &Path) -> Vec<String> {
        let all = names_of(label);
        let is_own = |name: &&String| {
            self.0.get(*name).is_none_or(|labels| labels.iter().all(|other| other == label))
        };
        let own: Vec<String> = all.iter().filter(is_own).cloned().collect();
        if own.is_empty() { all } else { own }
    }
}

pub(crate) fn root_is_one_file(root: &Root) -> bool {
    matches!(&root.candidates[..], [c] if c.direct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_call_are_told_apart() {
        let paths =
            ["/d/x/jobA/iteration_10", "/d/y/jobA/iteration_10", "/d/y/jobA/it 5", "/d/y/jobB"]
                .map(PathBuf::from);
        let mut labels = Labels::default();
        assert_eq!(labels.names(&paths[0])[0], "jobA.iteration_10");
        paths.iter().for_each(|path| labels.add(path.clone()));
        assert_eq!(
            paths.map(|path| labels.names(&path)[0].clone()),
            ["x.jobA.iteration_10", "y.jobA.iteration_10", "jobA.it_5", "jobB"]
        );
    }
}
