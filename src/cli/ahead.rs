//! Questions about a small trace, answered on every core before their turn comes.
//!
//! DuckDB plans a query on one thread, and of a small trace planning is nearly all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::cli::progress::Steps;
use crate::engine::diagnose::{Diagnosed, diagnose};
use crate::engine::metric::{MetricResult, Params, run};
use crate::engine::rows::{Rows, rows};
use crate::engine::{Engine, Settings, is_small};
use crate::error::Result;
use crate::pool::lock;
use crate::registry::SqlFile;
use crate::registry::header::Kind;
use crate::report::sheet::MOST_ROWS;
use crate::store::manifest::Manifest;

/// Fewer questions are not worth another connection.
const FEW_QUESTIONS: usize = 8;
/// What several read is made by one thread before: more would gain little beside it.
const MOST_THREADS: usize = 8;

/// The answer of a file.
pub enum Answered {
    /// Of a metric.
    Metric(Box<MetricResult>),
    /// Of a view.
    Rows(Rows),
    /// Of a diagnosis.
    Diagnosed(Diagnosed),
}

impl TryFrom<Answered> for MetricResult {
    type Error = ();

    fn try_from(answered: Answered) -> Result<Self, ()> {
        if let Answered::Metric(result) = answered { Ok(*result) } else { Err(()) }
    }
}

impl TryFrom<Answered> for Rows {
    type Error = ();

    fn try_from(answered: Answered) -> Result<Self, ()> {
        if let Answered::Rows(rows) = answered { Ok(rows) } else { Err(()) }
    }
}

impl TryFrom<Answered> for Diagnosed {
    type Error = ();

    fn try_from(answered: Answered) -> Result<Self, ()> {
        if let Answered::Diagnosed(diagnosed) = answered { Ok(diagnosed) } else { Err(()) }
    }
}

/// The answer of a file about the trace that `engine` shows, which is that of `manifest`.
///
/// # Errors
/// Those of the file.
pub fn answer(
    engine: &Engine<'_>,
    manifest: &Manifest,
    file: &SqlFile,
    params: &Params,
) -> Result<Answered> {
    Ok(match file.header.kind {
        Kind::Metric => Answered::Metric(Box::new(run(engine, manifest, file, params)?)),
        Kind::Diagnosis => Answered::Diagnosed(diagnose(engine, manifest, file, params)?),
        _ => Answered::Rows(rows(engine, file, &[], MOST_ROWS)?),
    })
}

/// How many threads answer so many questions about a trace with so many rows: of large ones one, as
/// DuckDB itself uses every core.
pub fn threads(settings: &Settings, rows: u64, questions: usize) -> usize {
    if !is_small(rows) {
        return 1;
    }
    let threads = match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    threads.min(MOST_THREADS).min(questions / FEW_QUESTIONS + 1)
}

/// The answers of files, by their places, and the time that each took. After a file that fails
/// there are no more: it is asked again in its turn, of another database, and then says why.
///
/// # Errors
/// `sql` when DuckDB gives no further connection.
pub fn answers(
    engine: &Engine<'_>,
    manifest: &Manifest,
    files: &[(usize, &SqlFile)],
    params: &Params,
    (threads, steps): (usize, &Steps),
) -> Result<Vec<(usize, Answered, Duration)>> {
    // What several read is made first, by one.
    if files.iter().any(|(_, file)| engine.prepare(manifest, file).is_err()) {
        return Ok(Vec::new());
    }
    let others: Vec<Engine<'_>> = (1..threads).map(|_| engine.beside()).collect::<Result<_>>()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |engine: &Engine<'_>| {
        while let Some((place, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            steps.next(&manifest.trace, &file.header.name);
            let began = Instant::now();
            let Ok(answered) = answer(engine, manifest, file, params) else { break };
            lock(&done).push((*place, answered, began.elapsed()));
        }
    };
    scope(|scope| {
        for other in others {
            let work = &work;
            scope.spawn(move || work(&other));
        }
        work(engine);
    });
    Ok(done.into_inner().unwrap_or_default())
}
