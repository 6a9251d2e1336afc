//! The folders of the jobs below the paths that were given: their files, their cards, and the names
//! that their traces may have.

pub(crate) mod folders;
pub(crate) mod labels;
pub(crate) mod left_out;
pub(crate) mod names;
mod objects;
pub(crate) mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::ingest::find::left_out::{OfXla, left_out};
use crate::ingest::find::walk::Candidate;
use crate::ingest::options::{Options, Outcome, Within};
use crate::input::place::{Place, absolute};
use crate::readers::contract::Kind;
use crate::schema::source::Source;

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
    /// The folders that may be read.
    pub(crate) within: Within,
}

impl Root {
    /// A job without files yet.
    pub(crate) fn new(path: PathBuf, top: PathBuf) -> Self {
        let (candidates, within) = (Vec::new(), Within::default());
        Self { path, top, candidates, others: Vec::new(), replaced: Vec::new(), within }
    }

    /// Whether this path, as manifests keep it, is that of a file of the job.
    pub(crate) fn has(&self, absolute: &Path) -> bool {
        self.candidates.iter().any(|candidate| candidate.absolute == absolute)
    }

    /// The same files, with a card looked for up to the highest of these paths.
    pub(crate) fn reaching(self, paths: &[PathBuf]) -> Self {
        let higher = paths.iter().filter(|path| self.top.starts_with(path));
        let top = higher.min_by_key(|path| path.components().count()).cloned();
        Self { top: top.unwrap_or_else(|| self.top.clone()), ..self }
    }
}

/// The candidates of all paths by the folder of their job.
pub(crate) fn roots(
    paths: &[PathBuf],
    options: &Options,
    outcome: &mut Outcome,
) -> Result<Vec<Root>> {
    let mut roots = Roots::new(options);
    for path in paths {
        roots.add_path(path, outcome)?;
    }
    roots.add_ranks(outcome)?;
    roots.find_snapshots()?;
    roots.place_joining();
    Ok(roots.finish(outcome))
}

/// A file that joins the job of others, whatever folder it lies in: a snapshot of memory, or a
/// record of a benchmark.
struct Joining {
    candidate: Candidate,
    /// The path under which it was found.
    top: PathBuf,
    /// Whether the user gave it by hand.
    is_given: bool,
}

/// A file that is not read: its path, its path as shown, why, and whether another was read in its
/// place.
struct NotRead {
    file: PathBuf,
    shown: String,
    why: String,
    is_replaced: bool,
}

/// The jobs below the paths of a call, while their files are gathered.
struct Roots<'o> {
    options: &'o Options,
    /// Ranks given by hand.
    by_hand: Vec<(PathBuf, i64)>,
    /// The jobs by their folders.
    by_root: BTreeMap<PathBuf, Root>,
    /// The files that are in a job.
    seen: BTreeSet<Place>,
    /// The folder of the job that was found first.
    first: Option<PathBuf>,
    joining: Vec<Joining>,
    not_read: Vec<NotRead>,
}

impl<'o> Roots<'o> {
    fn new(options: &'o Options) -> Self {
        let by_hand = options.ranks.iter().map(|(rank, file)| (absolute(file), *rank));
        Self {
            options,
            by_hand: by_hand.collect(),
            by_root: BTreeMap::new(),
            seen: BTreeSet::new(),
            first: None,
            joining: Vec::new(),
            not_read: Vec::new(),
        }
    }

    /// The rank that the user gave a file.
    fn given_rank(&self, candidate: &Candidate) -> Option<i64> {
        self.by_hand.iter().find(|(file, _)| *file == candidate.file).map(|(_, rank)| *rank)
    }

    /// Whether a candidate is in no job yet; it counts as in one from now on.
    fn is_new(&mut self, candidate: &Candidate) -> bool {
        self.seen.insert(Place { file: candidate.file.clone(), ..candidate.place.clone() })
    }

    /// Adds a candidate to the job of a folder, whose card lies at or below `top`.
    fn add(&mut self, candidate: Candidate, root: PathBuf, top: &Path) {
        if !self.is_new(&candidate) {
            return;
        }
        let entry = self.by_root.entry(root.clone()).or_insert_with(|| {
            let above = folders::folder_above(&root);
            Root::new(root.clone(), above.unwrap_or(root))
        });
        if entry.top.starts_with(top) {
            top.clone_into(&mut entry.top);
        }
        entry.candidates.push(candidate);
    }

    /// Adds the files below a path.
    fn add_path(&mut self, path: &Path, outcome: &mut Outcome) -> Result<()> {
        let top = absolute(path);
        let candidates = walk::below(path, None, &self.options.kinds)?;
        let of_xla = OfXla::of(&candidates, self.options.asked.keep_partial);
        for mut candidate in candidates {
            if !self.may_read(&candidate) {
                let why = "it lies outside of the folders that may be read";
                self.leave(&candidate, why.to_owned(), false);
                continue;
            }
            if let Some(why) = of_xla.damaged.get(&candidate.place.file) {
                let why =
                    format!("{why}; the .trace.json file of the same run was read in its place");
                self.leave(&candidate, why, true);
                continue;
            }
            candidate.rank = self.given_rank(&candidate);
            let why = left_out(&candidate, self.options);
            if let Some(why) = why.or_else(|| of_xla.left_out(&candidate).map(str::to_owned)) {
                self.leave(&candidate, why, false);
                continue;
            }
            match candidate.kind {
                kind if kind.is_read() && kind.source().joins_others() => {
                    self.joining.push(Joining { candidate, top: top.clone(), is_given: false });
                }
                kind if kind.is_read() => {
                    let root = folders::job_root(&candidate.absolute);
                    self.first.get_or_insert_with(|| root.clone());
                    let top = if root.starts_with(&top) { &top } else { &root };
                    self.add(candidate, root.clone(), top);
                }
                Kind::Yaml | Kind::Prose if !candidate.direct => {}
                kind if candidate.direct => {
                    outcome.errors.push(not_a_trace(&candidate, in_words(kind)));
                }
                kind => self.leave(&candidate, in_words(kind).to_owned(), false),
            }
        }
        Ok(())
    }

    /// Whether a candidate lies in the folders that may be read.
    fn may_read(&self, candidate: &Candidate) -> bool {
        let within = &self.options.within;
        let is_folder = candidate.kind == Kind::NsysFolder;
        within.holds(&candidate.file) && (!is_folder || within.holds_entries(&candidate.file))
    }

    /// Notes a file that is not read.
    fn leave(&mut self, candidate: &Candidate, why: String, is_replaced: bool) {
        let (file, shown) = (candidate.file.clone(), candidate.place.display());
        self.not_read.push(NotRead { file, shown, why, is_replaced });
    }

    /// Adds the files of `--rank`. Those that lie under no path belong to the job that was found
    /// first, or to each other.
    fn add_ranks(&mut self, outcome: &mut Outcome) -> Result<()> {
        for (rank, file) in &self.options.ranks {
            let mut found = walk::below(file, Some(*rank), &self.options.kinds)?;
            if let [one] = &found[..]
                && one.direct
                && !one.kind.is_read()
            {
                outcome.errors.push(not_a_trace(one, in_words(one.kind)));
                continue;
            }
            found.retain(|candidate| candidate.kind.is_read());
            if found.is_empty() {
                let error =
                    Error::new("nothing-found", format!("no trace of rank {rank} was found"));
                outcome.errors.push(error.at(file.display().to_string()).hint(KINDS));
            }
            for mut candidate in found {
                candidate.direct = true;
                if candidate.kind.source().joins_others() {
                    self.joining.push(Joining { candidate, top: absolute(file), is_given: true });
                    continue;
                }
                let own = || folders::job_root(&candidate.file);
                let root = self.first.get_or_insert_with(own).clone();
                self.add(candidate, root.clone(), &root);
            }
        }
        Ok(())
    }

    /// Finds the snapshots of memory in the folders beside the jobs, and those given by hand.
    fn find_snapshots(&mut self) -> Result<()> {
        if self.options.only().is_none_or(|wanted| wanted == Source::Memory) {
            for root in self.by_root.values() {
                let first = root.candidates.first().map(|c| c.file.clone());
                let mut folders = folders::folders_beside(&root.path, &first.unwrap_or_default());
                folders.extend(folders::folders_of_only(&root.path));
                for folder in folders {
                    let mut found = walk::below(&folder, None, &self.options.kinds)?;
                    found.retain(|c| c.kind.is_read() && c.kind.source() == Source::Memory);
                    found.retain(|c| self.options.within.holds(&c.file));
                    self.joining.extend(found.into_iter().map(|candidate| Joining {
                        candidate,
                        top: root.path.clone(),
                        is_given: false,
                    }));
                }
            }
        }
        for path in &self.options.memory {
            let found = folders::given(path, &self.options.kinds)?.into_iter();
            self.joining.extend(found.map(|candidate| Joining {
                candidate,
                top: absolute(path),
                is_given: true,
            }));
        }
        Ok(())
    }

    /// Adds the files that join others to the jobs that they belong to. Records of benchmarks come
    /// last: they join what there is of snapshots, too.
    fn place_joining(&mut self) {
        let homes: Vec<PathBuf> = self.by_root.keys().cloned().collect();
        let mut joining = std::mem::take(&mut self.joining);
        joining.sort_by_key(|file| file.candidate.kind.source() == Source::Bench);
        let mut with_snapshots: Option<Vec<PathBuf>> = None;
        for Joining { mut candidate, top, is_given } in joining {
            candidate.rank = self.given_rank(&candidate);
            let home = if candidate.kind.source() == Source::Bench {
                let all = || self.by_root.keys().cloned().collect();
                folders::bench_home(&candidate.absolute, with_snapshots.get_or_insert_with(all))
            } else {
                folders::home(&candidate.absolute, homes.iter(), is_given)
            };
            if self.is_new(&candidate) {
                let top = if home.starts_with(&top) { top } else { home.clone() };
                let entry = self.by_root.entry(home.clone());
                entry.or_insert_with(|| Root::new(home, top)).candidates.push(candidate);
            }
        }
    }

    /// The jobs. Files that are not read are noted with the innermost job whose folder they lie in.
    fn finish(mut self, outcome: &mut Outcome) -> Vec<Root> {
        // Those in whose place others were read are told last.
        self.not_read.sort_by_key(|file| file.is_replaced);
        for NotRead { file, shown, why, is_replaced } in self.not_read {
            let roots = self.by_root.values_mut().filter(|root| file.starts_with(&root.path));
            if let Some(root) = roots.max_by_key(|root| root.path.components().count()) {
                let list = if is_replaced { &mut root.replaced } else { &mut root.others };
                list.push((shown.clone(), why.clone()));
            }
            outcome.set_aside.push((shown, why));
        }
        let within = &self.options.within;
        let finished = |root: Root| Root { within: within.clone(), ..root };
        self.by_root.into_values().map(finished).collect()
    }
}

/// What a file that is not read is.
fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Other(what) => what,
        Kind::Prose => "a text to read",
        _ => "a YAML file",
    }
}

/// What to give in place of what is no trace.
const KINDS: &str = "give a Kineto trace (a JSON object with `traceEvents`), an SQLite export of \
    Nsight Systems, a profile of XLA (.xplane.pb, .trace.json.gz), a torch memory snapshot \
    (.pickle), or a result of an inference benchmark (.json, .jsonl)";

/// The error of a file that the user named, and that is no trace.
pub(crate) fn not_a_trace(candidate: &Candidate, what: &str) -> Error {
    Error::new("not-a-trace", format!("the file is no trace: {what}"))
        .at(candidate.place.display())
        .hint(KINDS)
}
