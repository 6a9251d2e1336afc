//! The files of a folder into spool files: several at a time, all threads of the pool at work.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::assemble::{ReadFile, Rows};
use super::discover::{self, Candidate};
use super::job::Facts;
use super::kineto::{self, Content};
use super::log::Severity;
use super::manifest::{self, Source};
use super::pool::Pool;
use super::record::{self, Header, Record};
use super::reuse::Known;
use super::roots::Root;
use super::{Options, input, source_of, store};
use crate::error::{Error, Result};

pub(super) type SetAside = Vec<(Candidate, String)>;
pub(super) type Failed = Vec<(Candidate, Error)>;

/// Files that are read at a time: each holds some tens of megabytes, and further threads help with
/// those that are open.
const OPEN_FILES: usize = 4;

/// Reads every candidate of a folder that is not known, several at a time.
pub(super) fn read_all(
    root: &Root,
    work: &Path,
    options: &Options,
    known: &Known,
) -> Result<(Vec<ReadFile>, SetAside, Failed)> {
    let threads = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Read>)>> = Mutex::new(Vec::new());
    let pool = Arc::new(Pool::new(threads));
    let readers = threads.min(OPEN_FILES).min(root.candidates.len());
    let reading = AtomicUsize::new(readers);
    let read = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = root.candidates.get(i) else { return };
            let result = match known.of(candidate) {
                Some(file) => Ok(Read::File(Box::new(file))),
                None => read_one(candidate, root, known.id(i), work, options, &pool),
            };
            results.lock().expect("no reader panics while it holds the list").push((i, result));
        }
    };
    std::thread::scope(|scope| {
        for n in 0..threads {
            let (read, reading, pool) = (&read, &reading, &pool);
            scope.spawn(move || {
                if n < readers {
                    read();
                    if reading.fetch_sub(1, Ordering::AcqRel) == 1 {
                        pool.close();
                    }
                }
                pool.help();
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
    pool: &Arc<Pool>,
) -> Result<Read> {
    let spool = work.join(store::spool_name(source_id));
    // Read before, and not to be used.
    let _ = std::fs::remove_dir_all(&spool);
    std::fs::create_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
    // What is wrong with this file is no fault of the others.
    let unreadable = |e: Error| Error { code: "file-unreadable", ..e };
    let mut source = source_of(candidate, source_id).map_err(unreadable)?;
    let mut opened = input::open(&candidate.place, &options.watcher)?;
    let reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
    let reading = kineto::Reading {
        spool: &spool,
        source_id,
        keep_partial: options.keep_partial,
        pool,
        segment_bytes: kineto::SEGMENT_BYTES,
    };
    let content = kineto::read(&candidate.place, reader, &reading);
    if !matches!(&content, Err(e) if e.code == "io") {
        // Half of a file may look damaged, or like no trace at all.
        still_same(candidate, &source)?;
    }
    let mut kineto = match content? {
        Content::Trace(kineto) => *kineto,
        Content::Other(_, what) => {
            // The spool of a file that turned out to be none may hold rows.
            std::fs::remove_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
            return Ok(Read::Other(what));
        }
    };
    source.sha256 = opened.sha256(&candidate.place.file)?;
    source.events = kineto.totals.events;
    source.skipped = kineto.totals.skipped;
    let header = Header(&kineto.header);
    let facts = Facts {
        path: candidate.place.display(),
        flag_rank: candidate.rank,
        trace_rank: header.rank(),
        name_rank: discover::rank_in_name(&source.absolute, &root.path),
        world_size: header.world_size(),
        pid: kineto.totals.pid(),
        span_ns: kineto.totals.span_ns,
        device_name: header.device_name(kineto.totals.device),
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
    still_same(candidate, &source)?;
    let record = Record::new(source, facts, kineto, options.keep_partial);
    record::write(&spool, &[&record])?;
    Ok(Read::File(Box::new(ReadFile { record, rows: Rows::Spool(spool), read_now: true })))
}

/// Refuses a file that is not what it was when its reading began.
fn still_same(candidate: &Candidate, source: &Source) -> Result<()> {
    let now = match manifest::stat(&candidate.place.file) {
        Ok(now) if now == (source.bytes, source.mtime_ns) => return Ok(()),
        Ok((bytes, _)) => format!("{bytes} after"),
        Err(e) => e.message,
    };
    Err(Error::new("file-changed", "the file changed while it was read")
        .at(candidate.place.display())
        .facts(format!("{} bytes before, {now}", source.bytes))
        .hint("ingest again when the profiler has closed it"))
}
