//! Questions about a small trace, answered on every core before their turn comes.
//!
//! DuckDB plans a query on one thread, and of a small trace planning is nearly all. So several of
//! them are asked together: a question is planned once for all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::cli::progress::Steps;
use crate::engine::diagnose::{Diagnosed, diagnose, diagnose_each};
use crate::engine::metric::{MetricResult, Params, run, run_each};
use crate::engine::rows::{Rows, rows, rows_each};
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

/// The answers of a file about each of the traces that `engine` shows, in the order of `traces`.
fn answer_each(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
    params: &Params,
) -> Result<Vec<Answered>> {
    if let [manifest] = traces {
        return Ok(vec![answer(engine, manifest, file, params)?]);
    }
    Ok(match file.header.kind {
        Kind::Metric => run_each(engine, traces, file, params)?
            .into_iter()
            .map(|result| Answered::Metric(Box::new(result)))
            .collect(),
        Kind::Diagnosis => diagnose_each(engine, traces, file, params)?
            .into_iter()
            .map(Answered::Diagnosed)
            .collect(),
        _ => rows_each(engine, traces, file, MOST_ROWS)?.into_iter().map(Answered::Rows).collect(),
    })
}

/// The answers of files about each trace that `engine` shows, by the places of the files, and the
/// time that each file took. After a file that fails there are no more: it is asked again in its
/// turn, of another database, and then says why.
///
/// # Errors
/// `sql` when DuckDB gives no further connection.
pub fn answers(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    files: &[(usize, &SqlFile)],
    params: &Params,
    (threads, steps): (usize, &Steps),
) -> Result<Vec<(usize, Vec<Answered>, Duration)>> {
    // What several read is made first, by one.
    let all = files.iter().flat_map(|(_, file)| traces.iter().map(move |of| (of, file)));
    if all.into_iter().any(|(of, file)| engine.prepare(of, file).is_err()) {
        return Ok(Vec::new());
    }
    let others: Vec<Engine<'_>> = (1..threads).map(|_| engine.beside()).collect::<Result<_>>()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |engine: &Engine<'_>| {
        while let Some((place, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            traces.iter().for_each(|of| steps.next(&of.trace, &file.header.name));
            let began = Instant::now();
            let Ok(answered) = answer_each(engine, traces, file, params) else { break };
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
