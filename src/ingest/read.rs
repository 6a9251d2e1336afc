//! The files of a folder into spool files: several at a time, all threads of the pool at work.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::ingest::find::walk::{Candidate, source_of};
use crate::ingest::find::{Root, names};
use crate::ingest::known::Known;
use crate::ingest::options::Options;
use crate::ingest::ranks::facts::Facts;
use crate::ingest::records::{self, ReadFile, Record, Rows};
use crate::input::place;
use crate::pool::Pool;
use crate::readers;
use crate::readers::contract::{Answer, Kind, Reading, Said};
use crate::readers::share::Share;
use crate::schema::source::Source;
use crate::spool::steps::StepPatterns;
use crate::store::manifest::SourceFile;
use crate::store::workspace;

pub(crate) type SetAside = Vec<(Candidate, String)>;
pub(crate) type Failed = Vec<(Candidate, Error)>;
/// What was read of a file elsewhere; None where it is to be read here.
pub(crate) type Elsewhere<'a> = dyn Fn(&Candidate) -> Option<Result<Read>> + Sync + 'a;

/// Files that are read at a time: each holds some tens of megabytes, and further threads help with
/// those that are open.
const OPEN_FILES: usize = 4;

/// Reads every candidate of a folder that is not known, several at a time.
pub(crate) fn read_all(
    root: &Root,
    work: &Path,
    options: &Options,
    known: &Known,
    elsewhere: &Elsewhere<'_>,
) -> Result<(Vec<ReadFile>, SetAside, Failed)> {
    let threads = options.threads();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Read>)>> = Mutex::new(Vec::new());
    let pool = Arc::new(Pool::new(threads));
    let readers = threads.min(OPEN_FILES).min(root.candidates.len());
    let reading = AtomicUsize::new(readers);
    let own_steps = match &options.asked.step_range {
        Some(pattern) => Some(Arc::new(StepPatterns::of_user(pattern)?)),
        None => None,
    };
    let ask =
        Ask { work, options, pool: &pool, root, own_steps, many_ranks: AtomicBool::new(false) };
    let read = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = root.candidates.get(i) else { return };
            let result = match known.of(candidate) {
                Some(files) => Ok(Read::Files(files)),
                None => elsewhere(candidate).unwrap_or_else(|| ask.read(candidate, known.id(i))),
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
            Ok(Read::Files(some)) => files.extend(some),
            Ok(Read::Other(what)) => set_aside.push((candidate, what)),
            // A full disk is not the fault of the file.
            Err(error) if error.is_io() => return Err(error),
            Err(error) => failed.push((candidate, error)),
        }
    }
    Ok((files, set_aside, failed))
}

/// What a file turned out to be.
pub(crate) enum Read {
    /// The shares of a file.
    Files(Vec<ReadFile>),
    /// No trace, but this.
    Other(String),
}

/// What every file of a root is read with.
struct Ask<'a> {
    work: &'a Path,
    options: &'a Options,
    pool: &'a Arc<Pool>,
    root: &'a Root,
    /// What marks steps, where the user says it.
    own_steps: Option<Arc<StepPatterns>>,
    /// Whether a file of many ranks is being read: one at a time, with all threads.
    many_ranks: AtomicBool,
}

impl Ask<'_> {
    fn read(&self, candidate: &Candidate, source_id: i64) -> Result<Read> {
        // What is wrong with this file is no fault of the others.
        let unreadable = |e: Error| Error { code: "file-unreadable", ..e };
        let mut source = source_of(candidate, source_id).map_err(unreadable)?;
        // That of an earlier look is over.
        place::fault_of(&candidate.place.file);
        let answer = self.answer(candidate, &mut source);
        if !matches!(&answer, Err(e) if e.is_io()) {
            // Half of a file may look damaged, or like no trace at all.
            still_same(candidate, &source)?;
        }
        let (shares, sha256) = match answer? {
            Ok(read) => read,
            Err(what) => {
                // The spool of a file that turned out to be none may hold rows.
                let spool = self.spool(source_id, 0);
                std::fs::remove_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
                return Ok(Read::Other(what));
            }
        };
        source.sha256 = sha256;
        let of = shares.len();
        let mut files = Vec::with_capacity(of);
        for (i, share) in shares.into_iter().enumerate() {
            let mut source = source.clone();
            source.events = share.totals.events;
            source.skipped = share.totals.skipped;
            let facts = Facts {
                source: source.source,
                path: candidate.place.display(),
                run: names::run_of(&source.absolute),
                share: i,
                place: share.place,
                shares: of,
                is_rank: share.is_rank,
                device: share.totals.device,
                host: share.row.host.clone(),
                flag_rank: candidate.rank,
                trace_rank: share.trace_rank,
                nccl: share.nccl,
                name_rank: if source.source == Source::Et {
                    names::rank_in_name_of_et(&source.absolute, &self.root.path)
                } else {
                    names::rank_in_name(&source.absolute, &self.root.path)
                },
                world_size: share.row.world_size,
                pid: share.totals.pid(),
                span_ns: share.totals.span_ns,
                device_name: share.row.device_name.clone(),
                stem: names::stem(&candidate.place.logical()),
                sha256: match &candidate.place.member {
                    None => source.sha256.clone(),
                    Some(member) => format!("{}/{member}", source.sha256),
                },
            };
            let record = Record::new(source, facts, share, self.options.asked.clone())?;
            let rows = Rows::Spool(self.spool(source_id, i));
            files.push(ReadFile { record, rows, read_now: true });
        }
        still_same(candidate, &source)?;
        for file in &files {
            if let Rows::Spool(spool) = &file.rows {
                records::write(spool, &[&file.record])?;
            }
        }
        Ok(Read::Files(files))
    }

    /// Where the rows of a share go.
    fn spool(&self, source_id: i64, share: usize) -> std::path::PathBuf {
        self.work.join(workspace::spool_name(source_id, share))
    }

    /// An empty folder for the rows of a share.
    fn fresh(&self, source_id: i64, share: usize) -> Result<std::path::PathBuf> {
        let spool = self.spool(source_id, share);
        // Read before, and not to be used.
        let _ = std::fs::remove_dir_all(&spool);
        std::fs::create_dir_all(&spool).map_err(|e| crate::error::io(&spool, &e))?;
        Ok(spool)
    }

    /// The shares of a file and its SHA-256; or what the file is, when it is no trace. A file of
    /// another kind than its first bytes say is read once more, as what it is.
    fn answer(
        &self,
        candidate: &Candidate,
        source: &mut SourceFile,
    ) -> Result<Result<(Vec<Share>, String), String>> {
        let mut answer = self.read_as(candidate.kind, candidate, source)?;
        if let Answer::Is(kind) = answer {
            let is = kind.source();
            if let Some(wanted) = self.options.only().filter(|wanted| *wanted != is) {
                return Ok(Err(format!("it is of {is}, and --source {wanted} was given")));
            }
            source.source = is;
            answer = self.read_as(kind, candidate, source)?;
        }
        Ok(match answer {
            Answer::Shares { shares, sha256 } => Ok((shares, sha256)),
            Answer::Other(what) => Err(what),
            Answer::Is(_) => {
                Err("JSON with both `traceEvents` and `nodes`: no trace that is known".to_owned())
            }
        })
    }

    fn read_as(&self, kind: Kind, candidate: &Candidate, source: &SourceFile) -> Result<Answer> {
        let path = candidate.place.logical();
        let _turn = kind.is_read_alone().then(|| self.turn());
        readers::read(&Reading {
            place: &candidate.place,
            kind,
            source_id: source.source_id,
            said: Said {
                first_rank: candidate.rank,
                rank: names::rank_in_name(&source.absolute, &self.root.path),
                layer: names::layer_in_name(&path),
                device: names::device_in_name(&path),
                is_named: candidate.direct,
            },
            keep_partial: self.options.asked.keep_partial,
            folder: &|share| self.fresh(source.source_id, share),
            pool: self.pool,
            own_steps: self.own_steps.as_ref(),
            watcher: &self.options.watcher,
        })
    }

    /// Waits until no other file of many ranks is being read; whoever waits helps the one who
    /// reads.
    fn turn(&self) -> Turn<'_> {
        self.pool.wait(|| !self.many_ranks.swap(true, Ordering::AcqRel));
        Turn(self)
    }
}

/// The turn of a file of many ranks, given on when it is dropped.
struct Turn<'a>(&'a Ask<'a>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.many_ranks.store(false, Ordering::Release);
        // Wakes whoever waits.
        self.0.pool.submit(|| ());
    }
}

/// Refuses a file that is not what it was when its reading began, or that did not come whole: no
/// part of it is kept then, because all of it can be had later.
fn still_same(candidate: &Candidate, source: &SourceFile) -> Result<()> {
    if let Some(fault) = place::fault_of(&candidate.place.file) {
        return Err(fault);
    }
    let now = match place::stat(&candidate.place.file) {
        Ok(now) if now == (source.bytes, source.mtime_ns) => return Ok(()),
        Ok((bytes, _)) => format!("{bytes} after"),
        Err(e) => e.message,
    };
    Err(Error::new("file-changed", "the file changed while it was read")
        .at(candidate.place.display())
        .facts(format!("{} bytes before, {now}", source.bytes))
        .hint("ingest again when the profiler has closed it"))
}
