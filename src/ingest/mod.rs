//! Ingest: files below a PATH into trace directories of Parquet tables.
//!
//! A folder at a time: every file is read once, in parallel, into spool files; then the files are
//! split into traces (`job`), each is assembled (`assemble`), its derived tables are made (by the
//! caller's hook, see [`Finish`]), and the directory appears under its name in one step.

pub mod assemble;
pub mod card;
pub mod discover;
pub mod input;
pub mod job;
pub mod json;
pub mod kineto;
pub mod log;
pub mod manifest;
mod parquet;
pub use self::parquet::TableWriter;
mod roots;
mod store;
pub mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use duckdb::Connection;

use self::assemble::{Header, ReadFile};
use self::card::Card;
use self::discover::{Candidate, Kind};
use self::input::Place;
use self::job::{Facts, Member};
use self::kineto::Content;
use self::log::{Log, Severity};
use self::manifest::{Manifest, Source};
use self::roots::{
    Root, absolute, file_label, find_card, labels, not_a_trace, root_is_one_file, roots, short_name,
};
pub use self::store::{Store, count_rows, valid_name};
use crate::error::{Error, Result};
use crate::schema::SCHEMA_VERSION;

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Name of the trace (`--name`).
    pub name: Option<String>,
    /// Only this source; None for all.
    pub source: Option<String>,
    /// Ranks given by hand.
    pub ranks: Vec<(i64, PathBuf)>,
    /// Card given by hand.
    pub card: Option<PathBuf>,
    /// Files read at a time; 0 for one per core.
    pub jobs: usize,
    /// Memory for sorting and joining, as DuckDB writes sizes.
    pub memory_limit: String,
    /// Ingest again what is unchanged.
    pub force: bool,
    /// Keep the complete events of a damaged file.
    pub keep_partial: bool,
}

/// One trace after an ingest.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its name.
    pub trace: String,
    /// Where it came from.
    pub origin: PathBuf,
    /// Its ranks.
    pub ranks: usize,
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
}

/// Makes the derived tables of a directory, and says under which hash. Passed in by the caller,
/// because the SQL of derived tables lies in a layer above.
pub trait Finish: Sync {
    /// Makes the derived tables in `directory`, with a connection that is set up for the purpose.
    ///
    /// # Errors
    /// `sql` or `io`.
    fn derive(&self, directory: &Path, connection: &Connection) -> Result<()>;
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
    if let Some(source @ ("nsys" | "xla" | "memory")) = options.source.as_deref() {
        return Err(Error::new(
            "source-unsupported",
            format!("this version does not read {source} yet"),
        )
        .hint("Kineto traces are read; leave --source away to see what a folder holds"));
    }
    if let Some(name) = &options.name {
        valid_name(name)?;
    }
    let mut outcome = Outcome::default();
    let roots = roots(paths, options, &mut outcome)?;
    let labels = labels(&roots);
    for root in &roots {
        if let Err(error) = ingest_root(root, &labels, store, options, finish, &mut outcome) {
            outcome.errors.push(error);
        }
    }
    if outcome.traces.is_empty() && outcome.errors.is_empty() {
        let shown: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let mut error = Error::new("nothing-found", "no trace was found")
            .at(shown.join(", "))
            .hint("give a folder with Kineto traces (.json or .json.gz), or one such file");
        if let Some((file, why)) = outcome.set_aside.first() {
            error = error.facts(format!("set aside: {} ({file}: {why})", outcome.set_aside.len()));
        }
        return Err(error);
    }
    Ok(outcome)
}

fn ingest_root(
    root: &Root,
    labels: &[PathBuf],
    store: &Store,
    options: &Options,
    finish: &dyn Finish,
    outcome: &mut Outcome,
) -> Result<()> {
    let started = Instant::now();
    let mut log = Log::default();
    let card = find_card(root, options, &mut log);
    if !options.force
        && let Some(found) = unchanged(root, card.as_ref(), store, options, finish)?
    {
        outcome.traces.extend(found);
        return Ok(());
    }
    let work = store.workspace()?;
    let (files, set_aside, failed) = read_all(root, &work.path, options)?;
    for (file, what) in &root.others {
        log.add(Severity::Info, "set-aside", None, || format!("{file}: {what}; set aside"));
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
    let facts: Vec<Facts> = files.iter().map(|f| f.facts.clone()).collect();
    let (traces, errors) = job::split(&facts);
    outcome.errors.extend(errors);
    // A damaged file stops the job that it belongs to, and only that.
    let failed_stems: BTreeSet<String> =
        failed.iter().map(|(c, _)| discover::stem(&c.place.logical())).collect();
    let damaged = |members: &[Member]| {
        // One file that is left of a job of several ranks says so itself.
        let of_several = |m: &Member| facts[m.file].world_size.is_some_and(|world| world > 1);
        (members.len() > 1 || members.iter().any(of_several))
            && members.iter().any(|m| failed_stems.contains(&facts[m.file].stem))
    };
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
    let mut files = files;
    for members in &traces {
        if damaged(members) {
            continue;
        }
        let started = Instant::now();
        let whole = traces.len() == 1 && !(members.len() == 1 && root_is_one_file(root));
        let label = match whole {
            true => root.path.clone(),
            false => file_label(&root.path, &files[members[0].file].source.absolute),
        };
        let name = match &options.name {
            Some(name) => name.clone(),
            None => short_name(&label, labels),
        };
        let made = assemble_trace(AssembleTrace {
            name,
            origin: &label,
            root,
            files: &mut files,
            members,
            set_aside: &set_aside,
            card: card.as_ref(),
            log: &log,
            work: &work.path,
            store,
            options,
            finish,
        });
        match made {
            Ok(mut summary) => {
                let share = members.iter().map(|m| files[m.file].kineto.bytes).sum::<u64>() as f64
                    / files.iter().map(|f| f.kineto.bytes).sum::<u64>().max(1) as f64;
                summary.seconds = read_seconds * share + started.elapsed().as_secs_f64();
                outcome.traces.push(summary);
            }
            Err(error) => outcome.errors.push(error),
        }
    }
    Ok(())
}

fn source_of(candidate: &Candidate, source_id: i64) -> Result<Source> {
    let (bytes, mtime_ns) = manifest::stat(&candidate.place.file)?;
    let absolute = Place { file: absolute(&candidate.place.file), ..candidate.place.clone() };
    Ok(Source {
        source_id,
        path: candidate.place.display(),
        absolute: absolute.logical(),
        rank: None,
        rank_flag: candidate.rank,
        bytes,
        mtime_ns,
        sha256: String::new(),
        events: 0,
        skipped: 0,
    })
}

fn card_source(card: &Card) -> Option<Source> {
    let candidate =
        Candidate { place: Place::file(&card.path), kind: Kind::Yaml, direct: false, rank: None };
    source_of(&candidate, 0).ok()
}

/// The traces that were made from these very files, when nothing changed since.
fn unchanged(
    root: &Root,
    card: Option<&Card>,
    store: &Store,
    options: &Options,
    finish: &dyn Finish,
) -> Result<Option<Vec<Summary>>> {
    let mut now = BTreeMap::new();
    for (i, candidate) in root.candidates.iter().enumerate() {
        let Ok(source) = source_of(candidate, i as i64) else { return Ok(None) };
        now.insert(source.absolute.clone(), (source, candidate));
    }
    let cards: Vec<_> =
        card.and_then(card_source).into_iter().map(|c| (c.absolute, c.bytes, c.mtime_ns)).collect();
    let mut covered = BTreeSet::new();
    let mut found = Vec::new();
    for (directory, manifest) in store.manifests() {
        let ours = manifest.root == root.path
            && manifest.sources.iter().all(|s| now.contains_key(&s.absolute))
            && match &options.name {
                Some(name) => manifest.trace == *name,
                None => !manifest.named,
            };
        if !ours {
            continue;
        }
        let then: Vec<_> =
            manifest.cards.iter().map(|c| (c.absolute.clone(), c.bytes, c.mtime_ns)).collect();
        if manifest.schema_version != SCHEMA_VERSION
            || manifest.keep_partial != options.keep_partial
            || then != cards
        {
            return Ok(None);
        }
        for source in manifest.sources.iter().chain(&manifest.set_aside) {
            let Some((current, candidate)) = now.get(&source.absolute) else { continue };
            let same = current.bytes == source.bytes
                && current.rank_flag == source.rank_flag
                && (current.mtime_ns == source.mtime_ns
                    || !source.sha256.is_empty()
                        && input::sha256(&candidate.place.file).is_ok_and(|h| h == source.sha256));
            if !same {
                return Ok(None);
            }
            covered.insert(source.absolute.clone());
        }
        found.push((directory, manifest));
    }
    if found.is_empty() || covered.len() != now.len() {
        return Ok(None);
    }
    let mut out = Vec::new();
    for (directory, manifest) in found {
        let manifest = store.refresh(&directory, manifest, finish)?;
        out.push(Summary {
            trace: manifest.trace,
            origin: root.path.clone(),
            ranks: manifest.sources.iter().filter_map(|s| s.rank).collect::<BTreeSet<_>>().len(),
            events: manifest.sources.iter().map(|s| s.events).sum(),
            bytes: 0,
            seconds: 0.0,
            findings: Vec::new(),
            unchanged: true,
        });
    }
    Ok(Some(out))
}

type SetAside = Vec<(Candidate, String)>;
type Failed = Vec<(Candidate, Error)>;

/// Reads every candidate of a folder, several at a time.
fn read_all(
    root: &Root,
    work: &Path,
    options: &Options,
) -> Result<(Vec<ReadFile>, SetAside, Failed)> {
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Read>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(root.candidates.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(candidate) = root.candidates.get(i) else { return };
                    let result = read_one(candidate, root, i as i64, work, options);
                    results
                        .lock()
                        .expect("no reader panics while it holds the list")
                        .push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no reader panics while it holds the list");
    results.sort_by_key(|(i, _)| *i);
    let (mut files, mut set_aside, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (i, result) in results {
        let candidate = root.candidates[i].clone();
        match result {
            Ok(Read::File(file)) => files.push(*file),
            Ok(Read::Other(what)) => set_aside.push((candidate, what)),
            // A full disk is not the fault of the file.
            Err(error) if error.code == "io" => return Err(error),
            Err(error) => failed.push((candidate, error)),
        }
    }
    Ok((files, set_aside, failed))
}

enum Read {
    File(Box<ReadFile>),
    Other(String),
}

fn read_one(
    candidate: &Candidate,
    root: &Root,
    source_id: i64,
    work: &Path,
    options: &Options,
) -> Result<Read> {
    let spool = work.join(format!("spool-{source_id}"));
    std::fs::create_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
    let mut source = source_of(candidate, source_id)?;
    let mut opened = input::open(&candidate.place)?;
    let reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
    let content = kineto::read(&candidate.place, reader, &spool, source_id, options.keep_partial)?;
    let mut kineto = match content {
        Content::Trace(kineto) => *kineto,
        Content::Other(_, what) => {
            // The spool of a file that turned out to be none may hold rows.
            std::fs::remove_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
            return Ok(Read::Other(what));
        }
    };
    source.sha256 = opened.sha256(&candidate.place.file)?;
    source.events = kineto.events;
    source.skipped = kineto.skipped;
    let header = Header(&kineto.header);
    let facts = Facts {
        path: candidate.place.display(),
        flag_rank: candidate.rank,
        trace_rank: header.rank(),
        name_rank: discover::rank_in_name(&source.absolute, &root.path),
        world_size: header.world_size(),
        pid: kineto.pid,
        span_ns: kineto.span_ns,
        device_name: header.device_name(kineto.device),
        stem: discover::stem(&candidate.place.logical()),
        sha256: match &candidate.place.member {
            None => source.sha256.clone(),
            Some(member) => format!("{}/{member}", source.sha256),
        },
    };
    if header.is_odd() {
        kineto.log.add(Severity::Loss, "distributed-info", None, || {
            "distributedInfo states a rank or world size that is no usable number; left out"
                .to_owned()
        });
    }
    Ok(Read::File(Box::new(ReadFile { facts, source, kineto })))
}

struct AssembleTrace<'a> {
    name: String,
    origin: &'a Path,
    root: &'a Root,
    files: &'a mut Vec<ReadFile>,
    members: &'a [Member],
    set_aside: &'a [(Candidate, String)],
    card: Option<&'a Card>,
    log: &'a Log,
    work: &'a Path,
    store: &'a Store,
    options: &'a Options,
    finish: &'a dyn Finish,
}

fn assemble_trace(a: AssembleTrace<'_>) -> Result<Summary> {
    let paths: Vec<PathBuf> =
        a.members.iter().map(|m| a.files[m.file].source.absolute.clone()).collect();
    a.store.claim(&a.name, &a.root.path, &paths)?;
    let mut log = a.log.clone();
    for m in a.members {
        a.files[m.file].source.rank = Some(m.rank);
        if m.rank_source == "order" {
            log.add(Severity::Info, "rank-assumed", None, || {
                "neither the trace nor its name says a rank; ranks were given in the order of the pids".to_owned()
            });
        }
        if a.files[m.file].facts.trace_rank.is_some() && m.rank_source == "name" {
            log.add(Severity::Info, "rank-by-name", None, || {
                "files of equal bytes under different rank names; each counts as the rank of its name".to_owned()
            });
        }
    }
    let directory = a.work.join(format!("trace={}", a.name));
    std::fs::create_dir_all(&directory).map_err(|e| crate::error::io(&directory, &e))?;
    let connection = store::work_connection(a.work, a.options)?;
    assemble::write(&directory, &connection, a.files, a.members, a.card, &log)?;
    a.finish.derive(&directory, &connection)?;
    let mut findings = Vec::new();
    for m in a.members {
        let file = &a.files[m.file];
        findings
            .extend(file.kineto.log.findings.iter().map(|f| (file.source.path.clone(), f.clone())));
    }
    findings.extend(log.findings.iter().map(|f| (String::new(), f.clone())));
    let mut counts = BTreeMap::new();
    for (_, f) in &findings {
        *counts.entry(f.code.to_owned()).or_insert(0) += f.count;
    }
    let sources: Vec<Source> = a.members.iter().map(|m| a.files[m.file].source.clone()).collect();
    let events = sources.iter().map(|s| s.events).sum();
    Manifest {
        trace: a.name.clone(),
        schema_version: SCHEMA_VERSION,
        ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
        root: a.root.path.clone(),
        named: a.options.name.is_some(),
        keep_partial: a.options.keep_partial,
        sources,
        set_aside: a.set_aside.iter().filter_map(|(c, _)| source_of(c, -1).ok()).collect(),
        cards: a.card.and_then(card_source).into_iter().collect(),
        rows: store::count_rows(&directory, &connection)?,
        findings: counts,
        derived_sha256: a.finish.sha256(),
    }
    .write(&directory)?;
    drop(connection);
    a.store.publish(&directory, &a.name)?;
    Ok(Summary {
        trace: a.name,
        origin: a.origin.to_owned(),
        ranks: a.members.iter().map(|m| m.rank).collect::<BTreeSet<_>>().len(),
        events,
        bytes: a.members.iter().map(|m| a.files[m.file].kineto.bytes).sum(),
        seconds: 0.0,
        findings,
        unchanged: false,
    })
}
