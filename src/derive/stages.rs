//! The stages in which derived tables are made.

use std::collections::{BTreeMap, BTreeSet};

use crate::registry::{Registry, SqlFile};
use crate::schema;

/// The tables whose rows say which ranks are looked at together.
pub(super) const COUNTED: [&str; 3] = ["ranks", "device_events", "host_ranges"];

/// The tables that are read behind the last file of a stage: by the sweeps, and for the findings.
const READ_AFTER: [&str; 4] = ["_collective_events", "_threads", "steps", FINDINGS];

/// The step whose rows are findings.
pub(super) const FINDINGS: &str = "_findings";

/// Derived tables that are made together. Stages by rank and stages over all ranks take turns, and
/// each reads what those before made.
pub(super) struct Stage<'r> {
    /// What it makes, each behind what it reads.
    pub(super) files: Vec<&'r SqlFile>,
    /// The tables and steps that it reads.
    pub(super) reads: BTreeSet<&'r str>,
    /// The steps on the way, of its own, that other stages read.
    pub(super) passed: BTreeSet<&'r str>,
    /// Whether it is made for some ranks at a time.
    pub(super) by_rank: bool,
    /// Whether it is the first, which looks at events.
    pub(super) is_first: bool,
}

impl Stage<'_> {
    /// The tables that nobody reads any more when the file at a place is made.
    pub(super) fn spent(&self, at: usize) -> Vec<&str> {
        let later: BTreeSet<&str> =
            self.files[at + 1..].iter().flat_map(|file| file.header.inputs()).collect();
        let mut read: BTreeSet<&str> = self.files[at].header.inputs().collect();
        read.insert(&self.files[at].header.name);
        let made = self.files[..=at].iter().map(|file| &*file.header.name);
        let is_spent = |name: &&str| {
            read.contains(name) && !later.contains(name) && !READ_AFTER.contains(name)
        };
        made.filter(is_spent).collect()
    }
}

/// Makes the stage of each file of a registry.
pub(super) fn stages(registry: &Registry) -> Vec<Stage<'_>> {
    let mut numbers: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let mut stages: Vec<Vec<&SqlFile>> = Vec::new();
    for file in registry.derived() {
        let by_rank = file.header.by_rank;
        let behind = file.header.inputs().filter_map(|input| numbers.get(input));
        let number = behind.map(|(number, of)| number + usize::from(*of != by_rank)).max();
        let number = number.unwrap_or_default().max(usize::from(!by_rank));
        numbers.insert(&file.header.name, (number, by_rank));
        stages.resize_with(stages.len().max(number + 1), Vec::new);
        stages[number].push(file);
    }
    let of_stage = |(number, files): (usize, Vec<_>)| {
        let others =
            registry.derived().into_iter().filter(|f| numbers[&*f.header.name].0 != number);
        let read_elsewhere: BTreeSet<&str> = others.flat_map(|f| f.header.inputs()).collect();
        let is_passed =
            |name: &&str| schema::table(name).is_none() && read_elsewhere.contains(name);
        let names = files.iter().map(|f: &&SqlFile| &*f.header.name);
        Stage {
            reads: read_by(&files, number == 0),
            passed: names.filter(is_passed).collect(),
            by_rank: number % 2 == 0,
            is_first: number == 0,
            files,
        }
    };
    stages.into_iter().enumerate().map(of_stage).collect()
}

/// The tables and steps that these files read, and those that the sweeps of the first stage do.
fn read_by<'a>(files: &[&'a SqlFile], is_first: bool) -> BTreeSet<&'a str> {
    let of_sweeps = COUNTED.into_iter().filter(|_| is_first);
    files.iter().flat_map(|f| f.header.inputs()).chain(of_sweeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stage_makes_goes_with_its_last_reader() {
        let registry = Registry::load(None).expect("the registry loads");
        let mut left = BTreeSet::new();
        for stage in stages(&registry) {
            let mut gone = BTreeSet::new();
            for (at, file) in stage.files.iter().enumerate() {
                let missed = file.header.inputs().find(|input| gone.contains(input));
                assert_eq!(missed, None, "read by {}", file.path);
                for name in stage.spent(at) {
                    assert!(gone.insert(name), "{name} goes twice");
                }
            }
            let names = stage.files.iter().map(|file| &*file.header.name);
            left.extend(names.filter(|name| !gone.contains(name)).map(str::to_owned));
        }
        assert_eq!(left, READ_AFTER.map(str::to_owned).into());
    }
}
