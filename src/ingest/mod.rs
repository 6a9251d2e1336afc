//! Ingest: files below a PATH into trace directories of Parquet tables.
//!
//! A folder at a time: every file is read once, in parallel, into spool files; then the files are
//! split into traces (`job`), each is assembled (`assemble`), its derived tables are made (by the
//! caller's hook, see [`Finish`]), and the directory appears under its name in one step.

pub mod assemble;
pub mod card;
pub(crate) mod find;
pub mod kept;
pub(crate) mod known;
pub mod make;
pub mod options;
pub mod ranks;
pub(crate) mod read;
pub mod records;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::derive::Derive;
use crate::error::{Error, Result};
use crate::ingest::card::Given;
use crate::ingest::card::beside::find_card;
use crate::ingest::find::labels::{Labels, file_label, root_is_one_file, run_label};
use crate::ingest::find::walk::place_of;
use crate::ingest::find::{names, not_a_trace};
use crate::ingest::kept::{All, Job, jobs};
use crate::ingest::known::{Earlier, Known};
use crate::ingest::make::{AssembleTrace, Names, assemble_trace, before_of};
use crate::ingest::options::{Options, Outcome};
use crate::ingest::ranks::et;
use crate::ingest::ranks::facts::{Facts, Left, Member};
use crate::ingest::read::read_all;
use crate::ingest::records::{ReadFile, Rows};
use crate::input::place;
use crate::readers::log::{Log, Severity};
use crate::store::Store;
use crate::store::names::valid_name;

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
    let mut outcome = Outcome::default();
    let given = match Given::read(options.card.as_deref(), options.config.as_deref()) {
        Ok(given) => given,
        Err(errors) => return Ok(Outcome { errors, ..outcome }),
    };
    let store = &Store { durable: store.durable && !options.no_sync, ..store.clone() };
    let found = All::of(store);
    let jobs = jobs(paths, options, &given, &found, &mut outcome)?;
    let mut names = Names {
        labels: Labels::of(jobs.iter().map(|job| &job.root)),
        aliases: found.traces.into_iter().flat_map(|found| found.manifest.aliases).collect(),
        given: BTreeSet::new(),
    };
    for job in &jobs {
        if let Err(error) = ingest_job(job, &mut names, store, derive, &mut outcome) {
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
    derive: &Derive<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    let started = Instant::now();
    let (root, options) = (&job.root, &job.options);
    let mut log = Log::default();
    let card = find_card(root, &job.given, &mut log);
    let ours: BTreeSet<PathBuf> = root.candidates.iter().map(place_of).collect();
    let is_of_job = |folder: &Path| {
        records::read(folder).iter().any(|record| ours.contains(&record.source.absolute))
    };
    let mut earlier = match options.force {
        true => Earlier::default(),
        false => Earlier::find(job, card.as_ref()),
    };
    if earlier.unchanged {
        store.tidy(is_of_job);
        outcome.traces.extend(earlier.refresh(root, store, derive)?);
        return Ok(());
    }
    let mut work = store.workspace()?;
    earlier.hold(&work);
    let mut known = match options.force {
        true => Known::default(),
        false => Known::find(root, &earlier, &work, options)?,
    };
    work.settle(is_of_job);
    let to_read = root.candidates.iter().filter(|c| !known.has(c));
    let bytes = to_read.filter_map(|c| place::stat(&c.place.file).ok()).map(|(bytes, _)| bytes);
    let (shown, bytes) = (names.labels.names(&root.path).swap_remove(0), bytes.sum());
    options.watcher.tell(|w| w.start(&shown, bytes));
    let (mut files, facts, mut set_aside, failed, traces, errors, left) = loop {
        let (files, set_aside, failed) = read_all(root, &work.path, options, &known)?;
        let facts: Vec<Facts> = files.iter().map(|f| f.record.facts.clone()).collect();
        let (traces, errors, left) = ranks::split(&facts);
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
    for file in et::left_over(&facts, &traces) {
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
        failed.iter().map(|(c, _)| names::stem(&c.place.logical())).collect();
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
            derive,
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
