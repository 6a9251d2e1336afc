//! The folders of the jobs below the paths that were given: their files, their cards, and the names
//! that their traces may have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::card::{self, Card, Given};
use super::discover::{self, Candidate, Kind};
use super::input::Place;
use super::log::Log;
use super::{Options, Outcome, names, snapshots, xla};
use crate::error::{Error, Result};

/// A folder that holds the files of one job (or of several unrelated traces).
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Highest folder in which its card may lie.
    top: PathBuf,
    pub(super) candidates: Vec<Candidate>,
    /// Other files in its folder, and what they are.
    pub(super) others: Vec<(String, String)>,
    /// Files that cannot be read, in whose place others of the same run are; and why.
    pub(super) replaced: Vec<(String, String)>,
}

impl Root {
    /// The same files, with a card looked for up to the highest of these paths.
    pub(super) fn reaching(self, paths: &[PathBuf]) -> Self {
        let higher = paths.iter().filter(|path| self.top.starts_with(path));
        let top = higher.min_by_key(|path| path.components().count()).cloned();
        Self { top: top.unwrap_or_else(|| self.top.clone()), ..self }
    }
}

/// The path from the root. Folders are resolved; the file itself keeps the name it was given, so that
/// links under different rank names are different ranks.
pub fn absolute(path: &Path) -> PathBuf {
    let resolved = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !path.is_dir() => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::canonicalize(parent).map(|p| p.join(name))
        }
        _ => std::fs::canonicalize(path),
    };
    resolved.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Files of XLA below a path: which of one run wins.
struct OfXla {
    /// Paths of those in protocol buffers, without their endings.
    xplanes: BTreeSet<PathBuf>,
    /// Their folders.
    folders: BTreeSet<PathBuf>,
    /// Folders of those in JSON that are not for Perfetto.
    json: BTreeSet<PathBuf>,
    /// Those in protocol buffers that are damaged, while the same in JSON lies beside them; and why.
    damaged: BTreeMap<PathBuf, String>,
}

impl OfXla {
    /// `keep_partial` says that what a damaged file still has is wanted.
    fn of(candidates: &[Candidate], keep_partial: bool) -> Self {
        let mut out = Self {
            xplanes: BTreeSet::new(),
            folders: BTreeSet::new(),
            json: BTreeSet::new(),
            damaged: BTreeMap::new(),
        };
        let without_endings = |candidate: &Candidate| {
            let path = candidate.place.logical();
            path.parent().unwrap_or(Path::new("")).join(discover::base_name(&path))
        };
        let in_json: BTreeSet<PathBuf> =
            candidates.iter().filter(|c| c.kind == Kind::XlaJson).map(without_endings).collect();
        for candidate in candidates {
            if candidate.kind == Kind::XPlane
                && !keep_partial
                && candidate.place.member.is_none()
                && in_json.contains(&without_endings(candidate))
                && let Some(why) = xla::fault(&candidate.place.file)
            {
                out.damaged.insert(candidate.place.file.clone(), why);
                continue;
            }
            let path = candidate.place.logical();
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            match candidate.kind {
                Kind::XPlane => {
                    out.xplanes.insert(folder.join(discover::base_name(&path)));
                    out.folders.insert(folder);
                }
                Kind::XlaJson if discover::base_name(&path) != "perfetto_trace" => {
                    out.json.insert(folder);
                }
                _ => {}
            }
        }
        out
    }

    /// Why a file is not read: another of the same run says more.
    fn left_out(&self, candidate: &Candidate) -> Option<&'static str> {
        let path = candidate.place.logical();
        let (folder, base) = (path.parent()?, discover::base_name(&path));
        let is_perfetto = base == "perfetto_trace";
        if candidate.kind != Kind::XlaJson || candidate.direct {
            None
        } else if self.xplanes.contains(&folder.join(&base))
            || is_perfetto && self.folders.contains(folder)
        {
            Some("the .xplane.pb file of the same run lies beside it, and says more")
        } else if is_perfetto && self.json.contains(folder) {
            Some("the .trace.json file of the same run lies beside it")
        } else {
            None
        }
    }
}

/// Why a candidate is not read, although there is a reader for it.
fn left_out(candidate: &Candidate, options: &Options) -> Option<String> {
    if !candidate.kind.is_read() {
        return None;
    }
    let source = candidate.kind.source();
    if let Some(wanted) = options.only().filter(|wanted| *wanted != source) {
        return Some(format!("it is of {source}, and --source {wanted} was given"));
    }
    // A report or a folder whose export into a database lies beside it.
    let exported = |ending: &str| {
        let file = &candidate.place.file;
        Path::new(&file.with_file_name(discover::base_name(file) + ending)).is_file()
    };
    let file = candidate.place.file.as_os_str().as_encoded_bytes();
    if candidate.kind == Kind::Sqlite && !candidate.direct && file.ends_with(b".sqlite.gz") {
        let unpacked = candidate.place.file.with_extension("");
        return unpacked.is_file().then(|| "the same file lies unpacked beside it".to_owned());
    }
    (matches!(candidate.kind, Kind::NsysReport | Kind::NsysFolder)
        && !candidate.direct
        && [".sqlite", ".sqlite.gz"].into_iter().any(exported))
    .then(|| "its export into a database lies beside it".to_owned())
}

/// The candidates of all paths by the folder of their job.
pub(super) fn roots(
    paths: &[PathBuf],
    options: &Options,
    outcome: &mut Outcome,
) -> Result<Vec<Root>> {
    let mut by_root: BTreeMap<PathBuf, Root> = BTreeMap::new();
    let mut seen: BTreeSet<Place> = BTreeSet::new();
    let by_hand: Vec<(PathBuf, i64)> =
        options.ranks.iter().map(|(rank, file)| (absolute(file), *rank)).collect();
    let mut add = |candidate: Candidate, root: PathBuf, top: &Path, seen: &mut BTreeSet<Place>| {
        let place = Place { file: absolute(&candidate.place.file), ..candidate.place.clone() };
        if seen.insert(place) {
            let entry = by_root.entry(root.clone()).or_insert_with(|| Root {
                top: snapshots::folder_above(&root).unwrap_or_else(|| root.clone()),
                path: root,
                candidates: Vec::new(),
                others: Vec::new(),
                replaced: Vec::new(),
            });
            if entry.top.starts_with(top) {
                top.clone_into(&mut entry.top);
            }
            entry.candidates.push(candidate);
        }
    };
    let mut first_root = None;
    let mut snapshots: Vec<(Candidate, PathBuf, bool)> = Vec::new();
    let mut others: Vec<(PathBuf, String, String)> = Vec::new();
    let mut replaced: Vec<(PathBuf, String, String)> = Vec::new();
    for path in paths {
        let top = absolute(path);
        let candidates = discover::below(path, None)?;
        let of_xla = OfXla::of(&candidates, options.asked.keep_partial);
        for mut candidate in candidates {
            let file = absolute(&candidate.place.file);
            if let Some(why) = of_xla.damaged.get(&candidate.place.file) {
                let why =
                    format!("{why}; the .trace.json file of the same run was read in its place");
                replaced.push((file, candidate.place.display(), why));
                continue;
            }
            candidate.rank = by_hand.iter().find(|(f, _)| *f == file).map(|(_, rank)| *rank);
            let why = left_out(&candidate, options);
            if let Some(why) = why.or_else(|| of_xla.left_out(&candidate).map(str::to_owned)) {
                others.push((file, candidate.place.display(), why));
                continue;
            }
            match candidate.kind {
                kind if kind.is_read() && joins_others(kind) => {
                    snapshots.push((candidate, top.clone(), false));
                }
                kind if kind.is_read() => {
                    let logical = Place { file, ..candidate.place.clone() }.logical();
                    let root = discover::job_root(&logical);
                    first_root.get_or_insert_with(|| root.clone());
                    let top = if root.starts_with(&top) { &top } else { &root };
                    add(candidate, root.clone(), top, &mut seen);
                }
                Kind::Yaml | Kind::Prose if !candidate.direct => {}
                kind => {
                    let why = match kind {
                        Kind::Other(what) => what.to_owned(),
                        Kind::Prose => "a text to read".to_owned(),
                        _ => "a YAML file".to_owned(),
                    };
                    if candidate.direct {
                        outcome.errors.push(not_a_trace(&candidate, &why));
                    } else {
                        others.push((file, candidate.place.display(), why));
                    }
                }
            }
        }
    }
    // Files of --rank that lie under no PATH belong to the job of the first PATH, or to each other.
    for (rank, file) in &options.ranks {
        for mut candidate in discover::below(file, Some(*rank))? {
            candidate.direct = true;
            if joins_others(candidate.kind) {
                let top = absolute(file);
                snapshots.push((candidate, top, true));
                continue;
            }
            let root = first_root
                .get_or_insert_with(|| discover::job_root(&absolute(&candidate.place.file)))
                .clone();
            add(candidate, root.clone(), &root, &mut seen);
        }
    }
    place_snapshots(snapshots, options, &by_hand, &mut by_root, &mut seen)?;
    let others = others.into_iter().map(|other| (other, false));
    for ((file, shown, why), is_replaced) in others.chain(replaced.into_iter().map(|r| (r, true))) {
        // The job whose folder it lies in, the innermost one.
        let root = by_root.values_mut().filter(|r| file.starts_with(&r.path));
        if let Some(root) = root.max_by_key(|r| r.path.components().count()) {
            let list = if is_replaced { &mut root.replaced } else { &mut root.others };
            list.push((shown.clone(), why.clone()));
        }
        outcome.set_aside.push((shown, why));
    }
    Ok(by_root.into_values().collect())
}

/// Whether a file of this kind belongs to the job beside it, whatever folder it lies in itself.
fn joins_others(kind: Kind) -> bool {
    matches!(kind.source(), "memory" | "bench")
}

/// Adds snapshots of memory and records of benchmarks to the jobs that they belong to: those below the
/// paths, those in the folders beside them, and those given by hand.
fn place_snapshots(
    mut snapshots: Vec<(Candidate, PathBuf, bool)>,
    options: &Options,
    by_hand: &[(PathBuf, i64)],
    by_root: &mut BTreeMap<PathBuf, Root>,
    seen: &mut BTreeSet<Place>,
) -> Result<()> {
    let homes: Vec<PathBuf> = by_root.keys().cloned().collect();
    if options.only().is_none_or(|wanted| wanted == "memory") {
        for root in by_root.values() {
            let first = root.candidates.first().map(|c| absolute(&c.place.file));
            let mut folders = snapshots::folders_beside(&root.path, &first.unwrap_or_default());
            folders.extend(snapshots::folders_of_only(&root.path));
            for folder in folders {
                let mut found = discover::below(&folder, None)?;
                found.retain(|c| c.kind.is_read() && c.kind.source() == "memory");
                snapshots.extend(found.into_iter().map(|c| (c, root.path.clone(), false)));
            }
        }
    }
    for path in &options.memory {
        let found = snapshots::given(path)?;
        snapshots.extend(found.into_iter().map(|c| (c, absolute(path), true)));
    }
    // Records of benchmarks last: they join what there is of snapshots, too.
    snapshots.sort_by_key(|(candidate, ..)| candidate.kind.source() == "bench");
    let mut with_snapshots: Option<Vec<PathBuf>> = None;
    for (mut candidate, top, given) in snapshots {
        let file = absolute(&candidate.place.file);
        candidate.rank = by_hand.iter().find(|(f, _)| *f == file).map(|(_, rank)| *rank);
        let place = Place { file, ..candidate.place.clone() };
        let home = match candidate.kind.source() {
            "bench" => {
                let roots = with_snapshots.get_or_insert_with(|| by_root.keys().cloned().collect());
                snapshots::bench_home(&place.logical(), roots)
            }
            _ => snapshots::home(&place.logical(), homes.iter(), given),
        };
        if seen.insert(place) {
            let top = if home.starts_with(&top) { top } else { home.clone() };
            let entry = by_root.entry(home.clone()).or_insert_with(|| Root {
                path: home,
                top,
                candidates: Vec::new(),
                others: Vec::new(),
                replaced: Vec::new(),
            });
            entry.candidates.push(candidate);
        }
    }
    Ok(())
}

pub(super) fn not_a_trace(candidate: &Candidate, what: &str) -> Error {
    Error::new("not-a-trace", format!("the file is no trace: {what}"))
        .at(candidate.place.display())
        .hint("give a Kineto trace (a JSON object with `traceEvents`), an SQLite export of Nsight Systems, a profile of XLA (.xplane.pb, .trace.json.gz), a torch memory snapshot (.pickle), or a result of an inference benchmark (.json, .jsonl)")
}

/// What a trace may be named after: its folder, or its file, under the run that it is of.
pub(super) fn file_label(root: &Path, file: &Path) -> PathBuf {
    let run = discover::run_of(file).unwrap_or_default();
    root.join(run).join(discover::base_name(file))
}

/// What the trace of several files is named after, where it is one of several in its folder: the run.
pub(super) fn run_label(root: &Path, file: &Path) -> Option<PathBuf> {
    discover::run_of(file).map(|run| root.join(run))
}

/// The paths that names come from, as far as they are known before files are read, by the names that
/// each may give.
#[derive(Default)]
pub(super) struct Labels(BTreeMap<String, BTreeSet<PathBuf>>);

impl Labels {
    pub(super) fn of<'r>(roots: impl Iterator<Item = &'r Root>) -> Self {
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
        for name in names::names(&label) {
            self.0.entry(name).or_default().insert(label.clone());
        }
    }

    /// The names that a trace of this path may have, the shortest first; without those that another path
    /// of the same call may have too, as far as that leaves any.
    pub(super) fn names(&self, label: &Path) -> Vec<String> {
        let all = names::names(label);
        let is_own = |name: &&String| {
            self.0.get(*name).is_none_or(|labels| labels.iter().all(|other| other == label))
        };
        let own: Vec<String> = all.iter().filter(is_own).cloned().collect();
        if own.is_empty() { all } else { own }
    }
}

pub(super) fn root_is_one_file(root: &Root) -> bool {
    matches!(&root.candidates[..], [c] if c.direct)
}

/// The card of a job with the configuration (`--config`) beside it; of a configuration alone a card
/// that says nothing yet.
pub(super) fn find_card(root: &Root, given: &Given, log: &mut Log) -> Option<Card> {
    let card = given.card.clone().or_else(|| card_beside(root, log));
    if let Some(card) = &card {
        card.note_odd(log);
    }
    match (card, given.config.clone()) {
        (Some(card), config) => Some(Card { config, ..card }),
        (None, Some(config)) => Some(Card {
            path: config.0.clone(),
            value: serde_json::Value::Null,
            config: Some(config),
        }),
        (None, None) => None,
    }
}

/// The card in the folder of a job or one above it, up to the PATH that was given, and up to the folder
/// that holds the folder of the traces (`profile_traces/iteration_N`).
fn card_beside(root: &Root, log: &mut Log) -> Option<Card> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for c in &root.candidates {
        let file = absolute(&c.place.file);
        folders.extend(
            file.ancestors().skip(1).take_while(|a| a.starts_with(&root.path)).map(Path::to_owned),
        );
    }
    folders
        .extend(root.path.ancestors().take_while(|a| a.starts_with(&root.top)).map(Path::to_owned));
    // Nearest to the job's own folder first, then upwards, then the folders of ranks.
    folders.sort_by_key(|f| {
        (!root.path.starts_with(f), std::cmp::Reverse(f.components().count()), f.clone())
    });
    folders.dedup();
    for folder in folders {
        let mut yaml: Vec<PathBuf> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok().map(|e| e.path()))
            .filter(|p| matches!(p.extension().and_then(|e| e.to_str()), Some("yaml" | "yml")))
            .collect();
        yaml.sort();
        if let Some(card) = card::choose(&folder, &yaml, log) {
            return Some(card);
        }
    }
    None
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
