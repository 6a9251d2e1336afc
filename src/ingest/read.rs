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
use crate::readers::contract::Kind;
use crate::readers::kineto::header::Header;
use crate::readers::log::Severity;
use crate::readers::share::Share;
use crate::readers::{bench, et, kineto, memory, nsys, xla};
use crate::spool::steps::StepPatterns;
use crate::store::manifest::Source;
use crate::store::workspace;

pub(crate) type SetAside = Vec<(Candidate, String)>;
pub(crate) type Failed = Vec<(Candidate, Error)>;

/// Files that are read at a time: each holds some tens of megabytes, and further threads help with
/// those that are open.
const OPEN_FILES: usize = 4;

/// Reads every candidate of a folder that is not known, several at a time.
pub(crate) fn read_all(
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
    let own_steps = match &options.asked.step_range {
        Some(pattern) => Some(Arc::new(StepPatterns::of_user(pattern)?)),
        None => None,
    };
    let known_steps = own_steps.clone().unwrap_or_else(|| Arc::new(StepPatterns::known()));
    let ask = Ask {
        work,
        options,
        pool: &pool,
        root,
        own_steps,
        known_steps,
        many_ranks: AtomicBool::new(false),
    };
    let read = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = root.candidates.get(i) else { return };
            let result = match known.of(candidate) {
                Some(files) => Ok(Read::Files(files)),
                None => ask.read(candidate, known.id(i)),
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
            Err(error) if error.code == "io" => return Err(error),
            Err(error) => failed.push((candidate, error)),
        }
    }
    Ok((files, set_aside, failed))
}

enum Read {
    /// The shares of a file.
    Files(Vec<ReadFile>),
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
    /// What marks steps in ranges that no profiler has a marker for.
    known_steps: Arc<StepPatterns>,
    /// Whether a file of many ranks is being read: one at a time, with all threads.
    many_ranks: AtomicBool,
}

/// What a reader made of a file.
struct Content {
    shares: Vec<Share>,
    /// SHA-256 of the file on disk.
    sha256: String,
}

/// What a reader says of a file.
enum Answer {
    Content(Content),
    /// It is of XLA.
    Xla,
    /// It is of this kind, which its first bytes do not say.
    Is(Kind),
    /// It is no trace, but this.
    Other(String),
}

impl Ask<'_> {
    fn read(&self, candidate: &Candidate, source_id: i64) -> Result<Read> {
        // What is wrong with this file is no fault of the others.
        let unreadable = |e: Error| Error { code: "file-unreadable", ..e };
        let mut source = source_of(candidate, source_id).map_err(unreadable)?;
        let mut content = match candidate.kind {
            Kind::Sqlite | Kind::NsysReport | Kind::NsysFolder => self.nsys(candidate, &source),
            Kind::XPlane => self.xla(candidate, &source, xla::Form::XPlane),
            Kind::XlaJson => self.xla(candidate, &source, xla::Form::Chrome),
            Kind::ExecutionTrace => self.execution_trace(candidate, &source),
            Kind::Pickle => self.memory(candidate, &source, memory::Form::Pickle),
            Kind::MemoryTimeline => self.memory(candidate, &source, memory::Form::Timeline),
            Kind::BenchRecord => self.bench(candidate, &source, bench::Form::Records),
            Kind::NvlinkSamples => self.bench(candidate, &source, bench::Form::Samples),
            _ => self.kineto(candidate, &source),
        };
        if matches!(&content, Ok(Answer::Xla)) {
            // Its first lines do not say it.
            source.source = Kind::XlaJson.source().to_owned();
            content = match &self.options.source {
                Some(wanted) if *wanted != source.source => {
                    Ok(Answer::Other("it is of xla, and --source kineto was given".to_owned()))
                }
                _ => self.xla(candidate, &source, xla::Form::Chrome),
            };
        }
        if let Ok(Answer::Is(kind)) = content {
            content = self.as_other(candidate, &mut source, kind);
        }
        if !matches!(&content, Err(e) if e.code == "io") {
            // Half of a file may look damaged, or like no trace at all.
            still_same(candidate, &source)?;
        }
        let Content { shares, sha256 } = match content? {
            Answer::Content(content) => content,
            Answer::Xla => unreachable!("the reader of XLA does not say so"),
            Answer::Is(_) => unreachable!("it was read as what it is"),
            Answer::Other(what) => {
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
                source: source.source.clone(),
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
                name_rank: match source.source == Kind::ExecutionTrace.source() {
                    true => names::rank_in_name_of_et(&source.absolute, &self.root.path),
                    false => names::rank_in_name(&source.absolute, &self.root.path),
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
            let record = Record::new(source, facts, share, self.options.asked.clone());
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

    /// A Chrome trace of Kineto.
    fn kineto(&self, candidate: &Candidate, source: &Source) -> Result<Answer> {
        let spool = self.fresh(source.source_id, 0)?;
        let mut opened = place::open(&candidate.place, &self.options.watcher)?;
        let reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
        let reading = kineto::Reading {
            spool: &spool,
            source_id: source.source_id,
            keep_partial: self.options.asked.keep_partial,
            pool: self.pool,
            segment_bytes: kineto::SEGMENT_BYTES,
            steps: self.own_steps.clone(),
        };
        let mut kineto = match kineto::read(&candidate.place, reader, &reading)? {
            kineto::Content::Trace(kineto) => *kineto,
            kineto::Content::Xla => return Ok(Answer::Xla),
            kineto::Content::ExecutionTrace => return Ok(Answer::Is(Kind::ExecutionTrace)),
            kineto::Content::Other(what) => return Ok(Answer::Other(what)),
        };
        let header = Header(&kineto.header);
        if header.is_odd() {
            kineto.log.add(Severity::Loss, "distributed-info", None, || {
                "distributedInfo states a rank or world size that is no usable number; left out"
                    .to_owned()
            });
        }
        let share = Share {
            row: header.row(kineto.totals.device, kineto.base_ns),
            trace_rank: header.rank(),
            nccl: None,
            is_rank: true,
            place: 0,
            log: kineto.log,
            totals: kineto.totals,
            pending_base_ns: kineto.pending_base_ns,
            bytes: kineto.bytes,
            spool: kineto.spool,
        };
        let sha256 = opened.sha256(&candidate.place.file)?;
        Ok(Answer::Content(Content { shares: vec![share], sha256 }))
    }

    /// A file of another kind than its first bytes say.
    fn as_other(&self, candidate: &Candidate, source: &mut Source, kind: Kind) -> Result<Answer> {
        if let Some(wanted) = &self.options.source
            && wanted != kind.source()
        {
            let (is, wanted) = (kind.source(), wanted);
            return Ok(Answer::Other(format!("it is of {is}, and --source {wanted} was given")));
        }
        kind.source().clone_into(&mut source.source);
        let answer = match kind {
            Kind::ExecutionTrace => self.execution_trace(candidate, source),
            _ => self.kineto(candidate, source),
        }?;
        Ok(match answer {
            Answer::Is(_) | Answer::Xla => Answer::Other(
                "JSON with both `traceEvents` and `nodes`: no trace that is known".to_owned(),
            ),
            answer => answer,
        })
    }

    /// An execution trace of PyTorch.
    fn execution_trace(&self, candidate: &Candidate, source: &Source) -> Result<Answer> {
        let spool = self.fresh(source.source_id, 0)?;
        let mut opened = place::open(&candidate.place, &self.options.watcher)?;
        let reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
        let reading = et::Reading {
            place: &candidate.place,
            spool: &spool,
            source_id: source.source_id,
            keep_partial: self.options.asked.keep_partial,
            pool: self.pool,
        };
        let share = match et::read(&reading, reader)? {
            et::Content::Trace(share) => *share,
            et::Content::Kineto => return Ok(Answer::Is(Kind::Json)),
            et::Content::Other(what) => return Ok(Answer::Other(what)),
        };
        let sha256 = opened.sha256(&candidate.place.file)?;
        Ok(Answer::Content(Content { shares: vec![share], sha256 }))
    }

    /// An export of Nsight Systems.
    fn nsys(&self, candidate: &Candidate, source: &Source) -> Result<Answer> {
        let reading = nsys::Reading {
            place: &candidate.place,
            form: match candidate.kind {
                Kind::NsysReport => nsys::Form::Report,
                Kind::NsysFolder => nsys::Form::Folder,
                _ => nsys::Form::Database,
            },
            folder: &|share| self.fresh(source.source_id, share),
            source_id: source.source_id,
            keep_partial: self.options.asked.keep_partial,
            pool: self.pool,
            steps: &self.known_steps,
            watcher: &self.options.watcher,
        };
        let turn = self.turn();
        let outcome = nsys::read(&reading);
        drop(turn);
        Ok(match outcome? {
            Ok(file) => Answer::Content(Content { shares: file.shares, sha256: file.sha256 }),
            Err(what) => Answer::Other(what),
        })
    }

    /// A profile of XLA.
    fn xla(&self, candidate: &Candidate, source: &Source, form: xla::Form) -> Result<Answer> {
        let reading = xla::Reading {
            place: &candidate.place,
            form,
            folder: &|share| self.fresh(source.source_id, share),
            source_id: source.source_id,
            first_rank: candidate.rank,
            name_rank: names::rank_in_name(&source.absolute, &self.root.path),
            keep_partial: self.options.asked.keep_partial,
            pool: self.pool,
            steps: &self.known_steps,
            watcher: &self.options.watcher,
        };
        let turn = self.turn();
        let outcome = xla::read(&reading);
        drop(turn);
        Ok(match outcome? {
            Ok(file) => Answer::Content(Content { shares: file.shares, sha256: file.sha256 }),
            Err(what) => Answer::Other(what),
        })
    }

    /// A snapshot of memory, or a timeline of it.
    fn memory(&self, candidate: &Candidate, source: &Source, form: memory::Form) -> Result<Answer> {
        let reading = memory::Reading {
            place: &candidate.place,
            form,
            folder: self.fresh(source.source_id, 0)?,
            source_id: source.source_id,
            direct: candidate.direct,
            watcher: &self.options.watcher,
        };
        // It is read as a whole: one at a time.
        let turn = self.turn();
        let outcome = memory::read(&reading);
        drop(turn);
        Ok(match outcome? {
            Ok(file) => Answer::Content(Content { shares: vec![file.share], sha256: file.sha256 }),
            Err(what) => Answer::Other(what),
        })
    }

    /// Records of a benchmark, or samples.
    fn bench(&self, candidate: &Candidate, source: &Source, form: bench::Form) -> Result<Answer> {
        let name_rank = || names::rank_in_name(&source.absolute, &self.root.path);
        let reading = bench::Reading {
            place: &candidate.place,
            form,
            folder: self.fresh(source.source_id, 0)?,
            source_id: source.source_id,
            rank: candidate.rank.or_else(name_rank),
            keep_partial: self.options.asked.keep_partial,
            watcher: &self.options.watcher,
        };
        // Records are read as a whole: one at a time.
        let turn = self.turn();
        let outcome = bench::read(&reading);
        drop(turn);
        Ok(match outcome? {
            Ok(file) => Answer::Content(Content { shares: vec![file.share], sha256: file.sha256 }),
            Err(bench::Other::Trace) => Answer::Is(Kind::Json),
            Err(bench::Other::What(what)) => Answer::Other(what),
        })
    }

    /// Waits until no other file of many ranks is being read; whoever waits helps the one who reads.
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

/// Refuses a file that is not what it was when its reading began.
fn still_same(candidate: &Candidate, source: &Source) -> Result<()> {
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
