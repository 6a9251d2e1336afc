//! The folders of the jobs below the paths that were given: their files, their cards, and the names
//! that their traces may have.

pub(crate) mod folders;
pub mod labels;
pub mod names;
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::ingest::find::walk::Candidate;
use crate::ingest::options::{Options, Outcome};
use crate::input::place::{Place, absolute};
use crate::readers::contract::Kind;
use crate::readers::xla;

/// A folder that holds the files of one job (or of several unrelated traces).
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// Highest folder in which its card may lie.
    pub(crate) top: PathBuf,
    pub(crate) candidates: Vec<Candidate>,
    /// Other files in its folder, and what they are.
    pub(crate) others: Vec<(String, String)>,
    /// Files that cannot be read, in whose place others of the same run are; and why.
    pub(crate) replaced: Vec<(String, String)>,
}

impl Root {
    /// The same files, with a card looked for up to the highest of these paths.
    pub(crate) fn reaching(self, paths: &[PathBuf]) -> Self {
        let higher = paths.iter().filter(|path| self.top.starts_with(path));
        let top = higher.min_by_key(|path| path.components().count()).cloned();
        Self { top: top.unwrap_or_else(|| self.top.clone()), ..self }
    }
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
            path.parent().unwrap_or(Path::new("")).join(names::base_name(&path))
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
                    out.xplanes.insert(folder.join(names::base_name(&path)));
                    out.folders.insert(folder);
                }
                Kind::XlaJson if names::base_name(&path) != "perfetto_trace" => {
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
        let (folder, base) = (path.parent()?, names::base_name(&path));
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
        Path::new(&file.with_file_name(names::base_name(file) + ending)).is_file()
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
pub(crate) fn roots(
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
                top: folders::folder_above(&root).unwrap_or_else(|| root.clone()),
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
        let candidates = walk::below(path, None)?;
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
                    let root = folders::job_root(&logical);
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
        for mut candidate in walk::below(file, Some(*rank))? {
            candidate.direct = true;
            if joins_others(candidate.kind) {
                let top = absolute(file);
                snapshots.push((candidate, top, true));
                continue;
            }
            let root = first_root
                .get_or_insert_with(|| folders::job_root(&absolute(&candidate.place.file)))
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
            let mut folders = folders::folders_beside(&root.path, &first.unwrap_or_default());
            folders.extend(folders::folders_of_only(&root.path));
            for folder in folders {
                let mut found = walk::below(&folder, None)?;
                found.retain(|c| c.kind.is_read() && c.kind.source() == "memory");
                snapshots.extend(found.into_iter().map(|c| (c, root.path.clone(), false)));
            }
        }
    }
    for path in &options.memory {
        let found = folders::given(path)?;
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
                folders::bench_home(&place.logical(), roots)
            }
            _ => folders::home(&place.logical(), homes.iter(), given),
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

pub(crate) fn not_a_trace(candidate: &Candidate, what: &str) -> Error {
    Error::new("not-a-trace", format!("the file is no trace: {what}"))
        .at(candidate.place.display())
        .hint("give a Kineto trace (a JSON object with `traceEvents`), an SQLite export of Nsight Systems, a profile of XLA (.xplane.pb, .trace.json.gz), a torch memory snapshot (.pickle), or a result of an inference benchmark (.json, .jsonl)")
}
