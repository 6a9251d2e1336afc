//! Ingest: files below a PATH into trace directories of Parquet tables.
//!
//! Five steps, a job at a time:
//! 1. which files there are, and of which job each is ([`find`], [`kept`]);
//! 2. what an earlier ingest has read of them ([`known`]);
//! 3. the others, read in parallel into spool files ([`read`]);
//! 4. which files are one trace, and which rank each of them is ([`ranks`]);
//! 5. each trace: its tables, its derived tables, its manifest, and its place under its name
//!    ([`make`]).

pub(crate) mod assemble;
pub(crate) mod card;
pub(crate) mod find;
pub(crate) mod job_files;
pub(crate) mod kept;
pub(crate) mod known;
pub(crate) mod make;
pub mod options;
pub mod plan;
pub(crate) mod ranks;
pub(crate) mod read;
pub(crate) mod records;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::derive::Derive;
use crate::error::{Error, Result};
use crate::ingest::card::Given;
use crate::ingest::card::beside::find_card;
use crate::ingest::job_files::JobFiles;
use crate::ingest::kept::{All, Job, jobs};
use crate::ingest::known::{Earlier, Known};
use crate::ingest::make::{Alone, Hands, Maker, Names};
use crate::ingest::options::{Options, Outcome};
use crate::readers::log::Log;
use crate::remote;
use crate::store::Store;
use crate::store::names::valid_name;
use crate::store::scratch;

/// Ingests every trace below the paths.
///
/// # Errors
/// Only what concerns the whole call (`usage`, `nothing-found`, a path that cannot be read); what
/// concerns one file or folder is in [`Outcome::errors`].
pub fn ingest(
    paths: &[PathBuf],
    store: &Store,
    options: &Options,
    derive: &Derive<'_>,
) -> Result<Outcome> {
    if let Some(name) = &options.name {
        valid_name(name)?;
    }
    allow_files();
    let (paths, options) = &given(paths, options)?;
    let mut outcome = Outcome::default();
    let given = match Given::read(options.card.as_deref(), options.config.as_deref()) {
        Ok(given) => given,
        Err(errors) => return Ok(Outcome { errors, ..outcome }),
    };
    let store = &Store { durable: store.durable && !options.no_sync, ..store.clone() };
    store.recover();
    scratch::sweep(&store.path);
    let found = All::of(store);
    let jobs = jobs(paths, options, &given, &found, &mut outcome)?;
    ingest_jobs(&jobs, &found, store, derive, &Alone, &mut outcome);
    if outcome.traces.is_empty() && outcome.errors.is_empty() {
        return Err(nothing_found(paths, &outcome));
    }
    Ok(outcome)
}

/// Paths and options as they are used. What stores were asked before is asked anew.
fn given(paths: &[PathBuf], options: &Options) -> Result<(Vec<PathBuf>, Options)> {
    remote::forget();
    let paths: Result<Vec<PathBuf>> = paths.iter().map(|path| remote::checked(path)).collect();
    Ok((paths?, options.clone().checked()?))
}

/// Ingests the traces of jobs, one job after the other.
pub(crate) fn ingest_jobs(
    jobs: &[Job],
    found: &All,
    store: &Store,
    derive: &Derive<'_>,
    hands: &dyn Hands,
    outcome: &mut Outcome,
) {
    let mut names = Names::new(jobs, found);
    for (number, job) in jobs.iter().enumerate() {
        let outcome_of = ingest_job((number, job), &mut names, store, derive, hands, outcome);
        outcome.errors.extend(outcome_of.err());
        job.options.watcher.tell(|w| w.end());
        if job.options.watcher.go_on().is_err() {
            break;
        }
    }
}

/// Ingests the traces of one job.
fn ingest_job(
    (number, job): (usize, &Job),
    names: &mut Names,
    store: &Store,
    derive: &Derive<'_>,
    hands: &dyn Hands,
    outcome: &mut Outcome,
) -> Result<()> {
    let started = Instant::now();
    let mut log = Log::default();
    let card = find_card(&job.root, &job.given, &mut log);

    let mut earlier = Earlier::find(job, card.as_ref());
    let is_of_job = |folder: &Path| {
        records::read(folder).iter().any(|record| job.root.has(&record.source.absolute))
    };
    if earlier.unchanged {
        if hands.publishes() {
            store.tidy(is_of_job);
            outcome.traces.extend(earlier.refresh(&job.root, store, derive)?);
        }
        return Ok(());
    }
    store.fetch(&earlier.names())?;
    let mut work = store.workspace()?;
    if hands.is_planned() {
        work.leftovers.clear();
    }
    earlier.hold(&work);
    let mut known = Known::find(job, &earlier, &work)?;
    work.settle(is_of_job);

    let shown = names.of_path(&job.root.path).swap_remove(0);
    job.options.watcher.tell(|w| w.start(&shown, known.bytes_to_read(&job.root)));
    let mut files = JobFiles::read(job, &work.path, &mut known, &|file| hands.read(file))?;
    // A damaged file is read again when it is whole; the others need not be.
    work.keep = files.some_failed();
    job.options.watcher.go_on()?;
    files.report(job, &mut log, outcome);
    let traces = files.take_traces(job)?;

    let maker = Maker {
        job,
        card: card.as_ref(),
        log: &log,
        work: &work.path,
        earlier: &earlier,
        store,
        derive,
        hands,
        number,
        read_seconds: hands.seconds_before() + started.elapsed().as_secs_f64(),
    };
    maker.make_all(&traces, &mut files, names, outcome);
    Ok(())
}

/// The error of a call that has neither a trace nor a fault.
pub(crate) fn nothing_found(paths: &[PathBuf], outcome: &Outcome) -> Error {
    let shown: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
    let error = Error::new("nothing-found", "no trace was found").at(shown.join(", ")).hint(
        "give a folder with traces of Kineto (.json, .json.gz), Nsight Systems (.sqlite, .nsys-rep) \
         or XLA (.xplane.pb, .trace.json.gz), with torch memory snapshots (.pickle), or with \
         results of inference benchmarks (.json, .jsonl), or one such file",
    );
    match outcome.set_aside.first() {
        Some((file, why)) => {
            error.facts(format!("set aside: {} ({file}: {why})", outcome.set_aside.len()))
        }
        None => error,
    }
}

/// Allows as many open files as the system lets a process have: a file of many ranks writes several
/// for each.
pub(crate) fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    if now.current < now.maximum || (now.current.is_some() && now.maximum.is_none()) {
        // Where it is refused, the limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}
