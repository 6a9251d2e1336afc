//! Ingest: files below a PATH into trace directories of Parquet tables.
//!
//! A folder at a time: every file is read once, in parallel, into spool files; then the files are
//! split into traces (`job`), each is assembled (`assemble`), its derived tables are made (by the
//! caller's hook, see [`Finish`]), and the directory appears under its name in one step.

mod args;
pub mod assemble;
pub mod bench;
mod bundle;
pub mod card;
pub mod comm_args;
mod config;
pub mod discover;
pub mod et;
pub mod input;
pub mod job;
pub mod json;
pub mod kept;
pub mod kineto;
pub mod launches;
mod local;
pub mod log;
pub mod manifest;
pub mod memory;
mod names;
pub mod nsys;
mod parquet;
pub use self::parquet::TableWriter;
pub mod pool;
mod read;
pub mod record;
mod reuse;
mod roots;
pub mod rows;
pub mod scratch;
mod snapshots;
mod sort;
mod spill;
mod splice;
pub mod spool;
pub mod steps;
mod store;
mod sync;
pub mod time;
pub mod totals;
pub mod watch;
pub mod xla;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::assemble::{ReadFile, Rows};
use self::card::{Card, Given};
use self::discover::{Candidate, Kind};
use self::input::Place;
use self::job::{Facts, Left, Member};
use self::kept::{Job, jobs};
use self::log::{Log, Severity};
use self::manifest::{Manifest, Source, Stored};
use self::read::read_all;
use self::record::Asked;
use self::reuse::{Earlier, Known};
pub use self::roots::absolute;
use self::roots::{Labels, file_label, find_card, not_a_trace, root_is_one_file, run_label};
use self::store::Wish;
pub use self::store::{Found, Store, count_rows, valid_name};
use self::watch::Watcher;
use crate::error::{Error, Result};
use crate::schema::SCHEMA_VERSION;

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Name of the trace (`--name`).
    pub name: Option<String>,
    /// Only this source, or `auto` for all; None where nobody says it.
    pub source: Option<String>,
    /// Ranks given by hand.
    pub ranks: Vec<(i64, PathBuf)>,
    /// Snapshots of memory given by hand: files, or folders with them.
    pub memory: Vec<PathBuf>,
    /// Card given by hand.
    pub card: Option<PathBuf>,
    /// Configuration of TorchTitan, for what the card does not say.
    pub config: Option<PathBuf>,
    /// Files read at a time; 0 for one per core.
    pub jobs: usize,
    /// Ingest again what is unchanged.
    pub force: bool,
    /// Do not wait until the tables are on the disk.
    pub no_sync: bool,
    /// What changes the rows of a file.
    pub asked: Asked,
    /// Who is told how far it is.
    pub watcher: Watcher,
}

impl Options {
    /// The only source that is read; None for all.
    pub fn only(&self) -> Option<&str> {
        self.source.as_deref().filter(|source| *source != "auto")
    }
}

/// One trace after an ingest.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its name.
    pub trace: String,
    /// Where it came from.
    pub origin: PathBuf,
    /// Profilers that its files are of.
    pub sources: Vec<String>,
    /// Its ranks.
    pub ranks: usize,
    /// Ranks that were read; the others are as they were, or had been read by an ingest that was
    /// interrupted.
    pub ranks_read: usize,
    /// Its events.
    pub events: u64,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Seconds, reading included.
    pub seconds: f64,
    /// Findings, with the file of each.
    pub findings: Vec<(String, log::Finding)>,
    /// Whether it was there already, from the same bytes.
    pub unchanged: bool,
}

/// Everything that an ingest did: traces made, and what failed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Traces, in the order of their folders.
    pub traces: Vec<Summary>,
    /// Faults; what they name was not ingested, and what was there before stays.
    pub errors: Vec<Error>,
    /// Files in folders that are no traces, with the reason.
    pub set_aside: Vec<(String, String)>,
    /// What a user should know of names, and of what was said of a trace before.
    pub notes: Vec<String>,
}

/// The names of a call.
struct Names {
    labels: Labels,
    /// Names that traces had before.
    aliases: BTreeSet<String>,
    /// Names that this call gave.
    given: BTreeSet<String>,
}

/// A trace directory whose derived tables are to be made.
#[derive(Debug, Clone, Copy)]
pub struct ToDerive<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// A folder for files on the way.
    pub work: &'a Path,
    /// The directory of the same ranks whose derived tables were made by the same SQL, and the
    /// ranks that are not as they were there.
    pub earlier: Option<(&'a Path, &'a BTreeSet<i64>)>,
}

/// Makes the derived tables of a directory, and says under which hash. Passed in by the caller,
/// because the SQL of derived tables lies in a layer above.
pub trait Finish: Sync {
    /// Makes the derived tables.
    ///
    /// # Errors
    /// `sql` or `io`.
    fn derive(&self, what: &ToDerive<'_>) -> Result<()>;
    /// Hash over everything that the derived tables depend on, besides the data.
    fn sha256(&self) -> String;
}

/// Ingests every trace below the paths.
///
/// # Errors
/// Only what concerns the whole call (`usage`, `nothing-found`, a path that cannot be read); what
/// concerns one file or folder is in [`Outcome::errors`].
pub fn ingest(
    paths: &[PathBuf],
    store: &Store,
    options: &Options,
    finish: &dyn Finish,
) -> Result<Outcome> {
    if let Some(name) = &options.name {
        valid_name(name)?;
    }
    allow_files();
    let mut outcome = Outcome::default();
    let given = match Given::read(options.card.as_deref(), options.config.as_deref()) {
        Ok(given) => given,
        Err(errors) => return Ok(Outcome { errors, ..outcome }),
    };
    let store = &Store { durable: store.durable && !options.no_sync, ..store.clone() };
    let found = store.found();
    let jobs = jobs(paths, options, &given, &found, &mut outcome)?;
    let mut names = Names {
        labels: Labels::of(jobs.iter().map(|job| &job.root)),
        aliases: found.into_iter().flat_map(|found| found.manifest.aliases).collect(),
        given: BTreeSet::new(),
    };
    for job in &jobs {
        if let Err(error) = ingest_job(job, &mut names, store, finish, &mut outcome) {
            outcome.errors.push(error);
        }
        options.watcher.tell(|w| w.end());
    }
    if outcome.traces.is_empty() && outcome.errors.is_empty() {
        let shown: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let mut error = Error::new("nothing-found", "no trace was found")
            .at(shown.join(", "))
            .hint(
                "give a folder with traces of Kineto (.json, .json.gz), Nsight Systems (.sqlite, .nsys-rep) or XLA (.xplane.pb, .trace.json.gz), with torch memory snapshots (.pickle), or with results of inference benchmarks (.json, .jsonl), or one such file",
            );
        if let Some((file, why)) = outcome.set_aside.first() {
            error = error.facts(format!("set aside: {} ({file}: {why})", outcome.set_aside.len()));
        }
        return Err(error);
    }
    Ok(outcome)
}

/// Allows as many open files as the system lets a process have: a file of many ranks writes several for
/// each.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    if now.current < now.maximum || (now.current.is_some() && now.maximum.is_none()) {
        // Where it is refused, the limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}

fn ingest_job(
    job: &Job,
    names: &mut Names,
    store: &Store,
    finish: &dyn Finish,
    outcome: &mut Outcome,
) -> Result<()> {
    let started = Instant::now();
    let (root, options) = (&job.root, &job.options);
    let mut log = Log::default();
    let card = find_card(root, &job.given, &mut log);
    let ours: BTreeSet<PathBuf> = root.candidates.iter().map(place_of).collect();
    let mut earlier = match options.force {
        true => Earlier::default(),
        false => Earlier::find(job, card.as_ref()),
    };
    if earlier.unchanged {
        store.tidy(&ours);
        outcome.traces.extend(earlier.refresh(root, store, finish)?);
        return Ok(());
    }
    let mut work = store.workspace()?;
    earlier.hold(&work);
    let mut known = match options.force {
        true => Known::default(),
        false => Known::find(root, &earlier, &work, options)?,
    };
    work.settle(&ours);
    let to_read = root.candidates.iter().filter(|c| !known.has(c));
    let bytes = to_read.filter_map(|c| manifest::stat(&c.place.file).ok()).map(|(bytes, _)| bytes);
    let (shown, bytes) = (names.labels.names(&root.path).swap_remove(0), bytes.sum());
    options.watcher.tell(|w| w.start(&shown, bytes));
    let (mut files, facts, mut set_aside, failed, traces, errors, left) = loop {
        let (files, set_aside, failed) = read_all(root, &work.path, options, &known)?;
        let facts: Vec<Facts> = files.iter().map(|f| f.record.facts.clone()).collect();
        let (traces, errors, left) = job::split(&facts);
        // Rows that an earlier ingest placed say its rank: under another one they are read again.
        // So they are where the rank has got a second file, because both are sorted together.
        let moved = |trace: &[Member], m: &Member| {
            let record = &files[m.file].record;
            let shared = trace.iter().filter(|other| other.rank == m.rank).count() > 1;
            let stays = record.source.rank == m.rank && !shared;
            (matches!(files[m.file].rows, Rows::Trace(_)) && !stays)
                .then(|| record.source.absolute.clone())
        };
        let moved: Vec<PathBuf> =
            traces.iter().flat_map(|t| t.iter().filter_map(|m| moved(t, m))).collect();
        if moved.is_empty() {
            break (files, facts, set_aside, failed, traces, errors, left);
        }
        known.add(&files);
        known.forget(&moved);
    };
    for (file, what) in &root.others {
        log.add(Severity::Info, "set-aside", None, || format!("{file}: {what}; set aside"));
    }
    for (file, why) in &root.replaced {
        log.add(Severity::Loss, "file-replaced", None, || format!("{file}: {why}"));
    }
    for (candidate, what) in &set_aside {
        let text = candidate.place.display();
        if candidate.direct {
            outcome.errors.push(not_a_trace(candidate, what));
        } else {
            log.add(Severity::Info, "set-aside", None, || format!("{text}: {what}; set aside"));
            outcome.set_aside.push((text, what.clone()));
        }
    }
    for file in job::left_over(&facts, &traces) {
        let (path, why) =
            (&facts[file].path, "an execution trace of no rank that was recorded here");
        log.add(Severity::Info, "et-apart", None, || {
            format!("{path}: {why}: neither its process nor its name says one; set aside")
        });
        outcome.set_aside.push((path.clone(), why.to_owned()));
        let own = root.candidates.iter().find(|c| c.place.display() == *path);
        set_aside.extend(own.map(|c| (c.clone(), why.to_owned())));
    }
    outcome.errors.extend(errors);
    for Left { file, code, why } in left {
        log.add(Severity::Loss, code, None, || why.clone());
        let source = &files[file].record.source;
        let candidate = root.candidates.iter().find(|c| place_of(c) == source.absolute);
        set_aside.extend(candidate.map(|c| (c.clone(), why.clone())));
        outcome.set_aside.push((source.path.clone(), why));
    }
    // A damaged file stops the job that it belongs to, and only that.
    let failed_stems: BTreeSet<String> =
        failed.iter().map(|(c, _)| discover::stem(&c.place.logical())).collect();
    let only_tells =
        |m: &Member, files: &[ReadFile]| tells_more(&files[m.file].record.source.source);
    let trace_failed = failed.iter().any(|(c, _)| !tells_more(c.kind.source()));
    let damaged = |members: &[Member], files: &[ReadFile]| {
        // What only tells more of a rank stands in for no trace that cannot be read, and stops none
        // when it cannot be read itself.
        let alone = members.iter().all(|m| only_tells(m, files));
        if alone && trace_failed {
            return true;
        }
        let own = || members.iter().filter(|m| alone || !only_tells(m, files));
        // One file that is left of a job of several ranks says so itself.
        let facts = |m: &Member| &files[m.file].record.facts;
        let of_several = |m: &Member| facts(m).world_size.is_some_and(|world| world > 1);
        (own().count() > 1 || own().any(of_several))
            && own().any(|m| failed_stems.contains(&facts(m).stem))
    };
    // A damaged file is read again when it is whole; the others need not be.
    work.keep = !failed.is_empty();
    outcome.errors.extend(failed.into_iter().map(|(_, error)| error));
    if traces.len() > 1 && options.name.is_some() {
        return Err(Error::new(
            "usage",
            format!("--name names one trace, and here are {}", traces.len()),
        )
        .at(root.path.display().to_string())
        .hint("ingest them one by one, or leave --name away"));
    }
    let read_seconds = started.elapsed().as_secs_f64();
    let mut taken = BTreeSet::new();
    let all_bytes = files.iter().map(|f| f.record.bytes).sum::<u64>().max(1);
    for (index, members) in traces.iter().enumerate() {
        if damaged(members, &files) {
            continue;
        }
        let started = Instant::now();
        let of_files: BTreeSet<i64> =
            members.iter().map(|m| files[m.file].record.source.source_id).collect();
        let whole = traces.len() == 1 && !(of_files.len() == 1 && root_is_one_file(root));
        let label = match whole {
            true => root.path.clone(),
            false => {
                let first = &files[members[0].file].record.source.absolute;
                let run = run_label(&root.path, first).filter(|_| of_files.len() > 1);
                run.unwrap_or_else(|| file_label(&root.path, first))
            }
        };
        let before = match &job.before[..] {
            // One is the other, also where it was named after its file and the folder is given now.
            [one] if traces.len() == 1 => Some(one),
            _ => before_of(job, &label, members, &files, &taken),
        };
        if let Some(before) = before {
            taken.insert(before.manifest.trace.clone());
        }
        let made = assemble_trace(AssembleTrace {
            index,
            label: &label,
            job,
            before,
            names: &mut *names,
            files: &mut files,
            members,
            set_aside: &set_aside,
            card: card.as_ref(),
            log: &log,
            work: &work.path,
            earlier: &earlier,
            store,
            finish,
            outcome: &mut *outcome,
        });
        match made {
            Ok(mut summary) => {
                let bytes: u64 = members.iter().map(|m| files[m.file].record.bytes).sum();
                let share = bytes as f64 / all_bytes as f64;
                summary.seconds = read_seconds * share + started.elapsed().as_secs_f64();
                outcome.traces.push(summary);
                for m in members {
                    if let Rows::Spool(spool) = &files[m.file].rows {
                        // Its rows are in the trace now; the workspace is removed anyway.
                        let _ = std::fs::remove_dir_all(spool);
                    }
                }
            }
            Err(error) => outcome.errors.push(error),
        }
    }
    Ok(())
}

/// Whether files of a source only tell more of ranks that a profiler recorded.
fn tells_more(source: &str) -> bool {
    matches!(source, "et" | "memory" | "bench")
}

/// The path by which a candidate is found again.
fn place_of(candidate: &Candidate) -> PathBuf {
    let file = absolute(&candidate.place.file);
    Place { file, ..candidate.place.clone() }.logical()
}

fn source_of(candidate: &Candidate, source_id: i64) -> Result<Source> {
    let (bytes, mtime_ns) = manifest::stat(&candidate.place.file)?;
    Ok(Source {
        source_id,
        source: candidate.kind.source().to_owned(),
        path: candidate.place.display(),
        absolute: place_of(candidate),
        rank: None,
        rank_flag: candidate.rank,
        bytes,
        mtime_ns,
        sha256: String::new(),
        events: 0,
        skipped: 0,
    })
}

/// The files that a card was read from.
fn card_sources(card: &Card) -> Vec<Source> {
    let mut paths = vec![&card.path];
    paths.extend(card.config.iter().map(|(path, _)| path).filter(|path| **path != card.path));
    paths
        .into_iter()
        .filter_map(|path| {
            let place = Place::file(path);
            source_of(&Candidate { place, kind: Kind::Yaml, direct: false, rank: None }, 0).ok()
        })
        .collect()
}

/// The trace that one was before, by the path of its name; of several the one with most of its files.
fn before_of<'j>(
    job: &'j Job,
    label: &Path,
    members: &[Member],
    files: &[ReadFile],
    taken: &BTreeSet<String>,
) -> Option<&'j kept::Before> {
    let paths: BTreeSet<&Path> =
        members.iter().map(|m| &*files[m.file].record.source.absolute).collect();
    let shared = |manifest: &Manifest| {
        manifest.sources.iter().filter(|s| paths.contains(&*s.absolute)).count()
    };
    let same = job
        .before
        .iter()
        .filter(|b| b.manifest.is_labelled(label) && !taken.contains(&b.manifest.trace));
    same.max_by_key(|b| (shared(&b.manifest), std::cmp::Reverse(&b.manifest.trace)))
}

struct AssembleTrace<'a> {
    /// Its place among the traces of the job.
    index: usize,
    label: &'a Path,
    job: &'a Job,
    before: Option<&'a kept::Before>,
    names: &'a mut Names,
    files: &'a mut Vec<ReadFile>,
    members: &'a [Member],
    set_aside: &'a [(Candidate, String)],
    card: Option<&'a Card>,
    log: &'a Log,
    work: &'a Path,
    earlier: &'a Earlier,
    store: &'a Store,
    finish: &'a dyn Finish,
    outcome: &'a mut Outcome,
}

impl AssembleTrace<'_> {
    /// The name of the trace, in the turn of this process: that which it has, else what its path or the
    /// user says.
    fn name(&mut self, log: &mut Log) -> Result<String> {
        if let Some(before) = self.before {
            return Ok(self.store.current(&before.manifest.trace, &before.manifest.root));
        }
        let wanted = &self.job.options.name;
        let names = match wanted {
            Some(name) => vec![name.clone()],
            None => self.names.labels.names(self.label),
        };
        let claimed = self.store.claim(&Wish {
            names: &names,
            is_named: wanted.is_some(),
            root: &self.job.root.path,
            label: self.label,
            given: &self.names.given,
            aliases: &self.names.aliases,
        })?;
        if let Some(text) = claimed.finding {
            log.add(Severity::Info, "name-taken", None, || text.clone());
            if let Some((from, to)) = claimed.renamed {
                for trace in self.outcome.traces.iter_mut().filter(|t| t.trace == from) {
                    trace.trace.clone_from(&to);
                }
                match self.names.given.remove(&from) {
                    true => _ = self.names.given.insert(to),
                    false => _ = self.names.aliases.insert(from),
                }
            }
        }
        Ok(claimed.name)
    }
}

/// The ranks of a trace: those of execution traces only where there is nothing else that has ranks.
fn recorded(a: &AssembleTrace<'_>) -> BTreeSet<Option<i64>> {
    let is_et = |m: &Member| job::is_execution_trace(&a.files[m.file].record.facts);
    let sources = a.members.iter().map(|m| &*a.files[m.file].record.source.source);
    let beside = manifest::beside(sources);
    a.members.iter().filter(|m| !(beside && is_et(m))).map(|m| m.rank).collect()
}

/// What is odd about execution traces beside the traces of the ranks.
fn beside_findings(a: &AssembleTrace<'_>, log: &mut Log) {
    let recorded = recorded(a);
    let facts = |m: &Member| &a.files[m.file].record.facts;
    for m in a.members.iter().filter(|m| job::is_execution_trace(facts(m))) {
        if !recorded.contains(&m.rank) {
            log.add(Severity::Info, "et-rank-missing", None, || {
                "execution traces of ranks without a trace; their nodes are kept, and linked to nothing".to_owned()
            });
        }
        let same = a.members.iter().filter(|o| o.rank == m.rank && o.file != m.file);
        let mut pids = same.filter(|o| !job::is_execution_trace(facts(o))).map(|o| facts(o).pid);
        let own = facts(m).pid;
        if m.rank_source == "pid" && facts(m).name_rank.is_some_and(|r| Some(r) != m.rank) {
            log.add(Severity::Info, "et-rank-by-pid", None, || {
                "execution traces whose name says another rank than their process; they count for the rank of the process".to_owned()
            });
        } else if m.rank_source != "pid" && own.is_some() && pids.any(|p| p.is_some() && p != own) {
            log.add(Severity::Info, "et-other-process", None, || {
                "execution traces of another process than the trace of their rank: another run, so their nodes are linked to nothing".to_owned()
            });
        }
    }
}

fn assemble_trace(mut a: AssembleTrace<'_>) -> Result<Summary> {
    let mut log = a.log.clone();
    for m in a.members {
        let record = &mut a.files[m.file].record;
        record.source.rank = m.rank;
        if m.rank_source == "order" {
            log.add(Severity::Info, "rank-assumed", None, || {
                match &*record.source.source {
                    "nsys" => "neither the trace nor its name says a rank; ranks were given in the order of nodes and devices",
                    "xla" => "the profile does not say which device of the job each of its devices is; ranks are the numbers of the devices, host by host (--rank N=FILE says that of the first)",
                    "memory" => "the name of the memory snapshot says no rank; it counts as that of the only rank beside it, or as rank 0",
                    _ => "neither the trace nor its name says a rank; ranks were given in the order of the pids",
                }
                .to_owned()
            });
        }
        if &*record.source.source != "kineto"
            && m.rank_source == "order"
            && record.facts.name_rank.is_some()
        {
            log.add(Severity::Info, "rank-name-ignored", None, || {
                "files whose name says a rank and that hold several processes or devices that compute; the name was not used".to_owned()
            });
        }
        if &*record.source.source == "kineto"
            && record.facts.trace_rank.is_some()
            && m.rank_source == "name"
        {
            log.add(Severity::Info, "rank-by-name", None, || {
                "files of equal bytes under different rank names; each counts as the rank of its name".to_owned()
            });
        }
    }
    beside_findings(&a, &mut log);
    let ranks: BTreeSet<Option<i64>> = a.members.iter().map(|m| m.rank).collect();
    note_snapshots(a.files, a.members, &mut log);
    let before = a.earlier.of_ranks(a.files, a.members, &ranks);
    a.job.options.watcher.tell(|w| w.phase("joining ranks"));
    let directory = a.work.join(format!("made-{}", a.index)).join("trace=made");
    std::fs::create_dir_all(&directory).map_err(|e| crate::error::io(&directory, &e))?;
    assemble::write(&directory, a.work, a.files, a.members, before.is_some(), a.card, &log)?;
    let changed: BTreeSet<i64> = a
        .members
        .iter()
        .filter(|m| matches!(a.files[m.file].rows, Rows::Spool(_)))
        .filter_map(|m| m.rank)
        .collect();
    let derived_sha256 = a.finish.sha256();
    let earlier = before
        .filter(|held| held.manifest.derived_sha256 == derived_sha256)
        .map(|held| (held.directory.as_path(), &changed));
    a.job.options.watcher.tell(|w| w.phase("matching calls"));
    a.finish.derive(&ToDerive { directory: &directory, work: a.work, earlier })?;
    let name = publish(&mut a, &directory, &mut log)?;
    let mut findings = Vec::new();
    for m in a.members {
        let record = &a.files[m.file].record;
        findings
            .extend(record.log.findings.iter().map(|f| (record.source.path.clone(), f.clone())));
    }
    findings.extend(log.findings.iter().map(|f| (String::new(), f.clone())));
    let sources = || a.members.iter().map(|m| &a.files[m.file].record.source);
    let kinds: BTreeSet<String> = sources().map(|s| s.source.clone()).collect();
    let events = sources().map(|s| s.events).sum();
    let recorded = recorded(&a);
    let read = |m: &&Member| a.files[m.file].read_now;
    let ranks_read: BTreeSet<i64> = a.members.iter().filter(read).filter_map(|m| m.rank).collect();
    Ok(Summary {
        trace: name,
        origin: a.label.to_owned(),
        sources: kinds.into_iter().collect(),
        ranks: recorded.iter().flatten().count(),
        ranks_read: ranks_read.iter().filter(|rank| recorded.contains(&Some(**rank))).count(),
        events,
        bytes: a.members.iter().filter(read).map(|m| a.files[m.file].record.bytes).sum(),
        seconds: 0.0,
        findings,
        unchanged: false,
    })
}

/// Puts a directory that is complete but for its manifest in its place; the name that it got.
fn publish(a: &mut AssembleTrace<'_>, directory: &Path, log: &mut Log) -> Result<String> {
    // Before the turn: other ingests need not wait for the disk.
    a.store.settle(directory)?;
    let turn = a.store.turn();
    let said = log.findings.len();
    let name = a.name(log)?;
    if let Some(why) = damage(a, &name) {
        log.add(Severity::Info, "trace-damaged", None, || {
            format!("the trace directory was damaged ({why}), and was made again")
        });
    }
    if log.findings.len() > said {
        assemble::findings(directory, a.files, a.members, log)?;
    }
    let mut findings = BTreeMap::new();
    let of_files = a.members.iter().flat_map(|m| &a.files[m.file].record.log.findings);
    for f in of_files.chain(&log.findings) {
        *findings.entry(f.code.clone().into_owned()).or_insert(0) += f.count;
    }
    let was = a.before.map(|before| &before.manifest);
    let wanted = &a.job.options.name;
    let other = wanted.as_ref().filter(|wanted| **wanted != name);
    Manifest {
        trace: name.clone(),
        schema_version: SCHEMA_VERSION,
        ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
        root: a.job.root.path.clone(),
        named: wanted.is_some() || was.is_some_and(|was| was.named),
        wanted: other.cloned().or_else(|| was.and_then(|was| was.wanted.clone())),
        aliases: was.map(|was| was.aliases.clone()).unwrap_or_default(),
        label: Some(Stored(a.label.to_owned())),
        asked: a.job.options.asked.clone(),
        kept: Some(a.job.kept.clone()),
        sources: a.members.iter().map(|m| a.files[m.file].record.source.clone()).collect(),
        set_aside: a.set_aside.iter().filter_map(|(c, _)| source_of(c, -1).ok()).collect(),
        cards: a.card.map(card_sources).unwrap_or_default(),
        rows: count_rows(directory)?,
        findings,
        derived_sha256: a.finish.sha256(),
        files: BTreeMap::new(),
    }
    .write(directory)?;
    a.store.publish(directory, &name)?;
    drop(turn);
    a.names.given.insert(name.clone());
    Ok(name)
}

/// What was wrong with the directory that a trace takes the place of.
fn damage(a: &AssembleTrace<'_>, name: &str) -> Option<String> {
    let directory = a.store.directory(name);
    if let Some(before) = a.before {
        return before.damage.clone();
    }
    let says = |e: Error| e.message;
    directory.exists().then(|| Manifest::read(&directory).err().map(says)).flatten()
}

/// Says where only some ranks have a snapshot of memory, and where one has several.
fn note_snapshots(files: &[ReadFile], members: &[Member], log: &mut Log) {
    let is_memory = |m: &&Member| files[m.file].record.source.source == "memory";
    let snapshots: Vec<&Member> = members.iter().filter(is_memory).collect();
    let of: BTreeSet<i64> = snapshots.iter().filter_map(|m| m.rank).collect();
    let all: BTreeSet<i64> = members.iter().filter_map(|m| m.rank).collect();
    if !of.is_empty() && of.len() < all.len() {
        log.add(Severity::Info, "memory-ranks-missing", None, || {
            format!("memory snapshots of {} of {} ranks", of.len(), all.len())
        });
    }
    if of.len() < snapshots.len() {
        log.add(Severity::Info, "memory-several", None, || {
            "ranks with several memory snapshots; each is played back by itself".to_owned()
        });
    }
}
