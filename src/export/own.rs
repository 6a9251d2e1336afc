//! The program's own tracks: the critical path, and of each rank its steps, its phases, the account
//! of the steps, and what its devices do or wait for. They are the rows of views and of a metric;
//! only what a step's parts sum to is added up here.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value as Json;

use crate::engine::Engine;
use crate::engine::metric::{self, Params};
use crate::error::Result;
use crate::export::cells::Column;
use crate::export::scope::{Scope, TABLE, rows, within};
use crate::export::select::{Selection, Side};
use crate::export::slices::Slices;
use crate::export::stage::{Handle, Stage};
use crate::export::timeline::{Arg, Event, Kind, Value};
use crate::registry::SqlFile;
use crate::store::manifest::Manifest;

/// Most steps whose critical paths are looked for.
const MOST_PATHS: usize = 10;

/// The views that these tracks are made of.
pub const VIEWS: [&str; 2] = ["_account_spans", "_account_windows"];

/// Processes of ranks.
pub type Processes = HashMap<Option<i64>, u64>;

/// Places of tracks within a process.
const STEPS: i64 = 0;
const PHASES: i64 = 1;
const ACCOUNT: i64 = 10;
const BUSY: i64 = 11;
const IDLE: i64 = 12;

/// The critical paths of a trace, or the reason why there is none.
#[derive(Debug, Default)]
pub struct Paths {
    /// The details of the metric, for each step.
    steps: Vec<serde_json::Map<String, Json>>,
    /// The reason why there is none.
    pub reason: Option<String>,
}

impl Paths {
    /// The critical paths of the steps asked for, else of the one that the metric looks at.
    ///
    /// # Errors
    /// `sql`.
    pub fn new(
        engine: &Engine<'_>,
        manifest: &Manifest,
        file: &SqlFile,
        selection: &Selection,
        align: bool,
    ) -> Result<Self> {
        let mut out = Self::default();
        for step in steps(engine, selection)? {
            let mut params = Params::new();
            params.insert("align".to_owned(), align.to_string());
            if let Some(step) = step {
                params.insert("step".to_owned(), step.to_string());
            }
            let result = metric::run(engine, manifest, file, &params)?;
            match result.reason {
                Some(reason) => drop(out.reason.get_or_insert(reason)),
                None => out.steps.push(result.details),
            }
        }
        if !out.steps.is_empty() {
            out.reason = None;
        }
        Ok(out)
    }

    /// Writes them on a track of the whole job.
    ///
    /// # Errors
    /// `io`.
    pub fn write(&self, stage: &mut Stage<'_>, scope: &Scope) -> Result<()> {
        if self.steps.is_empty() {
            return Ok(());
        }
        let handle = stage.track(None, Kind::Slices, "critical path".to_owned(), 0, None)?;
        for details in &self.steps {
            let end_rank = details.get("end_rank").and_then(Json::as_i64).unwrap_or_default();
            // All its times are by the clock of the rank on which it ends.
            let shift = scope.shift_ns(end_rank);
            let step = details.get("step").and_then(Json::as_i64);
            let segments = details.get("segments").and_then(Json::as_array);
            for segment in segments.into_iter().flatten() {
                self::segment(stage, handle, segment, step, |ns| {
                    scope.time(ns.saturating_sub(shift))
                })?;
            }
            stage.rewind()?;
        }
        Ok(())
    }
}

/// The steps whose paths are asked for; None for the one that the metric chooses.
fn steps(engine: &Engine<'_>, selection: &Selection) -> Result<Vec<Option<i64>>> {
    let Some(steps) = &selection.steps else { return Ok(vec![None]) };
    engine.make("steps")?;
    let sql = format!(
        "SELECT DISTINCT step FROM steps WHERE step BETWEEN {} AND {} ORDER BY step \
         LIMIT {MOST_PATHS}",
        steps.start(),
        steps.end()
    );
    rows(engine, &sql, |row| row.get(0))
}

fn segment(
    stage: &mut Stage<'_>,
    handle: Handle,
    segment: &Json,
    step: Option<i64>,
    time: impl Fn(i64) -> u64,
) -> Result<()> {
    let number = |key: &str| segment.get(key).and_then(Json::as_i64);
    let text = |key: &str| segment.get(key).and_then(Json::as_str);
    let kind = text("kind").unwrap_or_default();
    let mut args: Vec<Arg<'_>> = vec![("kind".into(), Value::Text(kind.into()))];
    for key in ["rank", "device", "lane", "event_id"] {
        args.extend(number(key).map(|n| (key.into(), Value::Int(n))));
    }
    args.extend(step.map(|step| ("step".into(), Value::Int(step))));
    let event = Event {
        ts: time(number("start_ns").unwrap_or_default()),
        dur: number("dur_ns").and_then(|dur| u64::try_from(dur).ok()),
        name: text("name").unwrap_or(kind),
        args: &args,
        ..Event::default()
    };
    stage.event(handle, &event)
}

/// Writes what ranks did, and why.
pub struct Own<'a, 'e> {
    /// The connection.
    pub engine: &'a Engine<'e>,
    /// The clocks.
    pub scope: &'a Scope,
    /// What is asked for.
    pub selection: &'a Selection,
    /// The processes.
    pub processes: &'a Processes,
}

impl Own<'_, '_> {
    /// Steps and phases of all ranks.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn steps(&self, stage: &mut Stage<'_>) -> Result<()> {
        let step = "'steps' AS track, 'step ' || r.step AS name, r.step, r.marker FROM steps";
        self.rows(stage, STEPS, step)?;
        self.rows(stage, PHASES, "'phases' AS track, r.phase AS name, r.step FROM phases")
    }

    /// Writes the rows of a table, each on the track of its rank.
    fn rows(&self, stage: &mut Stage<'_>, order: i64, query: &str) -> Result<()> {
        let sql = format!(
            "SELECT r.rank, r.ts_ns - o.shift_ns AS ts_ns, r.dur_ns, {query} AS r {} \
             ORDER BY r.rank NULLS LAST, ts_ns, r.dur_ns DESC NULLS LAST, name",
            within()
        );
        let mut slices = Slices::new(|stage: &mut Stage<'_>, rank: Option<i64>, name: &str| {
            // The times of a rank begin anew.
            stage.rewind()?;
            let process = self.processes.get(&rank).copied();
            stage.track(process, Kind::Slices, name.to_owned(), order, None)
        });
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            slices.write(stage, &batch?, |ns| self.scope.time(ns))?;
        }
        stage.rewind()
    }

    /// What devices do at each moment, of one rank or of all, and the account of their steps.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn account(&self, stage: &mut Stage<'_>, rank: Option<Option<i64>>) -> Result<()> {
        // What is of no rank has no steps.
        if rank == Some(None) || !self.selection.has(Side::Device) {
            return Ok(());
        }
        for view in VIEWS {
            self.engine.make(view)?;
        }
        let mut accounts = self.windows(rank)?;
        let of = match rank.flatten() {
            Some(rank) => format!("rank = {rank}"),
            None => format!("rank IN (SELECT rank FROM {TABLE})"),
        };
        let sql = format!(
            "SELECT rank, device, is_idle, part, start_ns, end_ns FROM _account_spans WHERE {of} \
             ORDER BY rank, device, start_ns, end_ns"
        );
        let mut statement = self.engine.connection.prepare(&sql)?;
        let mut at: Option<Device<'_>> = None;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let columns = Column::all(&batch);
            let [of, number, is_idle, part, start, end] = &columns[..] else { continue };
            for row in 0..batch.num_rows() {
                let key = (of.int(row), number.int(row));
                if at.as_ref().is_none_or(|device| device.key != key) {
                    if let Some(done) = at.take() {
                        done.finish(stage)?;
                    }
                    let windows = accounts.remove(&key.0).unwrap_or_default();
                    // Every device of a rank has all its steps.
                    accounts.insert(key.0, windows.clone());
                    at = Some(Device::new(self, key, windows));
                }
                if let (Some(device), Some(start), Some(end), Some(part)) =
                    (&mut at, start.int(row), end.int(row), part.text(row))
                {
                    device.span(stage, is_idle.flag(row), part, (start, end))?;
                }
            }
        }
        match at {
            Some(device) => device.finish(stage),
            None => Ok(()),
        }
    }

    /// The steps of ranks, as they are accounted for.
    fn windows(&self, rank: Option<Option<i64>>) -> Result<HashMap<Option<i64>, Vec<Window>>> {
        let of = rank.flatten().map_or(String::new(), |rank| format!("WHERE rank = {rank}"));
        let sql = format!(
            "SELECT rank, step, start_ns, end_ns FROM _account_windows {of} ORDER BY rank, place"
        );
        let all: Vec<(Option<i64>, Window)> = rows(self.engine, &sql, |row| {
            let (step, span) = (row.get(1)?, (row.get(2)?, row.get(3)?));
            Ok((row.get(0)?, Window { step, span, parts: BTreeMap::new() }))
        })?;
        let mut out: HashMap<Option<i64>, Vec<Window>> = HashMap::new();
        for (rank, window) in all {
            out.entry(rank).or_default().push(window);
        }
        Ok(out)
    }
}

/// A step, and the time of its parts so far.
#[derive(Debug, Clone)]
struct Window {
    step: Option<i64>,
    span: (i64, i64),
    parts: BTreeMap<String, i64>,
}

/// A device whose spans come in the order of time.
struct Device<'a> {
    own: &'a Own<'a, 'a>,
    key: (Option<i64>, Option<i64>),
    windows: Vec<Window>,
    /// The first window that does not end before the spans that come.
    next: usize,
    busy: Option<Handle>,
    idle: Option<Handle>,
}

impl<'a> Device<'a> {
    fn new(own: &'a Own<'_, '_>, key: (Option<i64>, Option<i64>), windows: Vec<Window>) -> Self {
        Self { own, key, windows, next: 0, busy: None, idle: None }
    }

    fn track(&self, stage: &mut Stage<'_>, name: &str, order: i64) -> Result<Handle> {
        let (rank, device) = self.key;
        let place = order + 10 * device.unwrap_or(0).clamp(0, 50);
        let name = device.map_or(name.to_owned(), |device| format!("{name} · device {device}"));
        let process = self.own.processes.get(&rank).copied();
        stage.track(process, Kind::Slices, name, place, None)
    }

    /// Whether a span lies in the time that is asked for, and where on the timeline.
    fn shown(&self, (start, end): (i64, i64)) -> Option<(u64, u64)> {
        let rank = self.own.scope.ranks.iter().find(|rank| rank.rank == self.key.0)?;
        let (first, last) = rank.window;
        let is_within = start < last && end > first;
        let ts = self.own.scope.time(start.saturating_sub(rank.shift_ns));
        is_within.then(|| (ts, u64::try_from(end.saturating_sub(start)).unwrap_or(0)))
    }

    /// Adds a span to the steps that it lies in, and writes it.
    fn span(
        &mut self,
        stage: &mut Stage<'_>,
        is_idle: bool,
        part: &str,
        span: (i64, i64),
    ) -> Result<()> {
        while self.windows.get(self.next).is_some_and(|window| window.span.1 <= span.0) {
            self.next += 1;
        }
        for window in self.windows[self.next..].iter_mut().take_while(|w| w.span.0 < span.1) {
            let inside = window.span.1.min(span.1) - window.span.0.max(span.0);
            match window.parts.get_mut(part) {
                Some(time) => *time += inside,
                None => drop(window.parts.insert(part.to_owned(), inside)),
            }
        }
        let is_long = self.own.selection.min_dur_ns.is_none_or(|min| span.1 - span.0 >= min);
        let Some((ts, dur)) = self.shown(span).filter(|_| is_long) else { return Ok(()) };
        let handle = match (is_idle, self.busy, self.idle) {
            (false, Some(handle), _) | (true, _, Some(handle)) => handle,
            (false, None, _) => *self.busy.insert(self.track(stage, "busy", BUSY)?),
            (true, _, None) => *self.idle.insert(self.track(stage, "idle", IDLE)?),
        };
        stage.event(handle, &Event { ts, dur: Some(dur), name: part, ..Event::default() })
    }

    /// Writes the account of the steps. What is left of a step is other.
    fn finish(self, stage: &mut Stage<'_>) -> Result<()> {
        stage.rewind()?;
        let mut handle = None;
        for window in &self.windows {
            let Some((ts, dur)) = self.shown(window.span) else { continue };
            let handle = match handle {
                Some(handle) => handle,
                None => *handle.insert(self.track(stage, "account", ACCOUNT)?),
            };
            let known: i64 =
                window.parts.iter().filter(|(part, _)| *part != "other").map(|(_, ns)| ns).sum();
            let other = window.span.1 - window.span.0 - known;
            let parts = window.parts.iter().filter(|(part, _)| *part != "other");
            let mut args: Vec<Arg<'_>> =
                parts.map(|(part, ns)| (format!("{part}_ns").into(), Value::Int(*ns))).collect();
            if other > 0 {
                args.push(("other_ns".into(), Value::Int(other)));
            }
            args.extend(window.step.map(|step| ("step".into(), Value::Int(step))));
            let name = window.step.map_or("all".to_owned(), |step| format!("step {step}"));
            let event = Event { ts, dur: Some(dur), name: &name, args: &args, ..Event::default() };
            stage.event(handle, &event)?;
        }
        stage.rewind()
    }
}
