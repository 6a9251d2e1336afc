//! What the profiler recorded: events of threads and streams, and samples of counters, rank by rank
//! in the order of time. Rows stream from DuckDB, which sorts within its limit of memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::engine::Engine;
use crate::error::Result;
use crate::export::beside::Beside;
use crate::export::cells::Column;
use crate::export::scope::{Rank, Scope, rows};
use crate::export::select::Selection;
use crate::export::stage::{Handle, Stage};
use crate::export::timeline::{Arg, Event, Kind, Value};
use crate::input::json::{self, Scanner};

/// Columns of every event, before its arguments.
const EVENT: &str = "r.event_id, r.ts_ns, r.dur_ns, r.name, r.category, r.args";

/// Orders of tracks within a process; those of the program's own come first.
const FIRST_DEVICE: i64 = 1_000;
const FIRST_THREAD: i64 = 100_000;
const FIRST_COUNTER: i64 = 200_000;

/// Tables with a row for each event of a rank, or about as many.
const BY_RANK: [&str; 6] =
    ["device_events", "host_events", "launches", "host_ranges", "busy_intervals", "phases"];
/// The rank whose rows tables show.
const SHOWN: &str = "timeline_rank";

/// Makes tables show one rank at a time, so that what is computed of one is held of one alone. What
/// compares ranks is computed before, and stays.
///
/// # Errors
/// `sql`.
pub fn split(engine: &Engine<'_>) -> Result<()> {
    engine.connection.execute_batch("CREATE OR REPLACE VIEW _waits AS FROM \"@waits\"")?;
    for table in BY_RANK {
        engine.make(table)?;
        engine.connection.execute_batch(&format!(
            "ALTER VIEW {table} RENAME TO \"@{table}\"; \
             CREATE VIEW {table} AS FROM \"@{table}\" \
                 WHERE getvariable('{SHOWN}') IS NULL OR rank = CAST(getvariable('{SHOWN}') AS BIGINT)"
        ))?;
    }
    Ok(())
}

/// Shows a rank in the tables that are [`split`]; all of them for what is of none.
///
/// # Errors
/// `sql`.
pub fn show(engine: &Engine<'_>, rank: Option<i64>) -> Result<()> {
    let rank = rank.map_or("NULL".to_owned(), |rank| rank.to_string());
    Ok(engine.connection.execute_batch(&format!("SET VARIABLE {SHOWN} = {rank}::BIGINT"))?)
}

/// A rank that is being written.
pub struct Recorded<'a, 'e> {
    /// The connection.
    pub engine: &'a Engine<'e>,
    /// The clocks.
    pub scope: &'a Scope,
    /// What is asked for.
    pub selection: &'a Selection,
    /// The rank.
    pub rank: &'a Rank,
    /// The track of its process.
    pub process: u64,
}

impl Recorded<'_, '_> {
    /// The time of the timeline of one on the rank's clock.
    fn time(&self, ns: i64) -> u64 {
        self.scope.time(ns.saturating_sub(self.rank.shift_ns))
    }

    /// Events of devices, on the track of their stream.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn device(&self, stage: &mut Stage<'_>, beside: &Beside) -> Result<()> {
        self.engine.make("device_events")?;
        // Lines of XLA overlap, and are no streams of one another.
        let line = "CASE WHEN r.source = 'xla' THEN r.category END";
        let (within, long) = (self.rank.within(Some("dur_ns")), self.selection.long());
        let sql = format!(
            "SELECT {EVENT}, r.device, r.stream, {line} AS line, r.class, \
                    r.correlation, r.external_id, r.bytes, r.flops, r.bytes_accessed, \
                    r.hlo_category, r.hlo_module, r.hlo_op, \
                    concat_ws(',', r.grid_x, r.grid_y, r.grid_z) AS grid, \
                    concat_ws(',', r.block_x, r.block_y, r.block_z) AS block, \
                    r.registers, r.shared_memory, r.blocks_per_sm, r.warps_per_sm, \
                    r.occupancy_pct \
             FROM device_events AS r {within} {long} \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id"
        );
        let tracks = self.streams(stage, "device_events", line)?;
        self.events(stage, &sql, &tracks, beside)
    }

    /// What the profiler annotated on devices, on tracks beside those of the streams.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn annotations(&self, stage: &mut Stage<'_>, beside: &Beside) -> Result<()> {
        self.engine.make("host_events")?;
        let (within, long) = (self.rank.within(Some("dur_ns")), self.selection.long());
        let sql = format!(
            "SELECT {EVENT}, r.device, r.stream, 'annotations' AS line, r.class, r.correlation, \
                    r.external_id \
             FROM host_events AS r {within} {long} AND r.class = 'device_annotation' \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id"
        );
        let tracks = self.streams(stage, "host_events", "'annotations'")?;
        self.events(stage, &sql, &tracks, beside)
    }

    /// Events of threads.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn host(&self, stage: &mut Stage<'_>, beside: &Beside) -> Result<()> {
        self.engine.make("host_events")?;
        let (within, long) = (self.rank.within(Some("dur_ns")), self.selection.long());
        let sql = format!(
            "SELECT {EVENT}, r.pid, r.tid, NULL::VARCHAR AS line, r.class, r.correlation, \
                    r.external_id \
             FROM host_events AS r {within} {long} AND r.class <> 'device_annotation' \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id"
        );
        let tracks = self.threads(stage)?;
        self.events(stage, &sql, &tracks, beside)
    }

    /// What stands beside the events of the rank.
    ///
    /// # Errors
    /// `sql`.
    pub fn beside(&self) -> Result<Beside> {
        let of = self.rank.condition();
        let launches = match (self.selection.only, self.rank.rank) {
            // The other end would be missing.
            (Some(_), _) => None,
            // What is of no rank on the host may launch on the devices of all.
            (None, None) => Some("TRUE"),
            (None, Some(_)) => Some(of.as_str()),
        };
        Beside::new(self.engine, &of, launches, self.scope.align)
    }

    /// Samples of counters.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn counters(&self, stage: &mut Stage<'_>) -> Result<()> {
        self.engine.make("counters")?;
        let sql = format!(
            "SELECT r.ts_ns, r.name, r.device, r.unit, r.value FROM counters AS r {} \
             AND r.value IS NOT NULL ORDER BY r.name, r.device, r.ts_ns",
            self.rank.within(None)
        );
        let mut tracks: HashMap<(String, Option<i64>), Handle> = HashMap::new();
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let columns = Column::all(&batch);
            let [ts, name, device, unit, value] = &columns[..] else { continue };
            for row in 0..batch.num_rows() {
                let key = (name.text(row).unwrap_or("counter").to_owned(), device.int(row));
                let handle = match tracks.get(&key) {
                    Some(handle) => *handle,
                    None => {
                        let shown = match &key {
                            (name, Some(device)) => format!("{name} · device {device}"),
                            (name, None) => name.clone(),
                        };
                        let kind = Kind::Counter(unit.text(row).map(str::to_owned));
                        let order = FIRST_COUNTER + tracks.len() as i64;
                        let handle = stage.track(Some(self.process), kind, shown, order, None)?;
                        tracks.insert(key, handle);
                        handle
                    }
                };
                if let (Some(ts), Some(value)) = (ts.int(row), value.real(row)) {
                    stage.sample(handle, self.time(ts), value)?;
                }
            }
        }
        Ok(())
    }

    /// The tracks of streams, and of lines within them, in their order.
    fn streams(&self, stage: &mut Stage<'_>, table: &str, line: &str) -> Result<Tracks> {
        let annotations = table == "host_events";
        let class = if annotations { "AND r.class = 'device_annotation'" } else { "" };
        let sql = format!(
            "SELECT DISTINCT r.device, r.stream, {line} AS line FROM {table} AS r {} {} {class} \
             ORDER BY ALL NULLS LAST",
            self.rank.within(Some("dur_ns")),
            self.selection.long()
        );
        let keys: Vec<(Option<i64>, Option<i64>, Option<String>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut out = HashMap::new();
        for (place, key) in keys.into_iter().enumerate() {
            let (device, stream, line) = &key;
            let mut name = device.map_or("device".to_owned(), |device| format!("device {device}"));
            if let Some(stream) = stream {
                name.push_str(&format!(" · stream {stream}"));
            }
            if let Some(line) = line {
                name.push_str(&format!(" · {line}"));
            }
            // Annotations stand above the streams that they are of.
            let order = FIRST_DEVICE + place as i64 + if annotations { 0 } else { 10_000 };
            let handle = stage.track(Some(self.process), Kind::Slices, name, order, None)?;
            out.insert(key, handle);
        }
        Ok(out)
    }

    /// The tracks of threads, in their order, with the names that the trace gives them.
    fn threads(&self, stage: &mut Stage<'_>) -> Result<Tracks> {
        self.engine.make("metadata")?;
        let sql = format!(
            "SELECT DISTINCT r.pid, r.tid FROM host_events AS r {} {} \
             AND r.class <> 'device_annotation' ORDER BY ALL NULLS LAST",
            self.rank.within(Some("dur_ns")),
            self.selection.long()
        );
        let keys: Vec<(Option<i64>, Option<i64>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let names: HashMap<String, String> = rows(
            self.engine,
            &format!(
                "SELECT key, value FROM metadata WHERE {} AND starts_with(key, 'thread_name:')",
                self.rank.condition()
            ),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .into_iter()
        .collect();
        let first = keys.first().and_then(|(pid, _)| *pid);
        let several = keys.iter().any(|(pid, _)| *pid != first);
        let mut out = HashMap::new();
        for (place, (pid, tid)) in keys.into_iter().enumerate() {
            let number = tid.map_or("no thread".to_owned(), |tid| format!("thread {tid}"));
            let said = pid.zip(tid).and_then(|(p, t)| names.get(&format!("thread_name:{p}:{t}")));
            let mut name = match said {
                Some(said) if said.starts_with(&number) => said.clone(),
                Some(said) => format!("{number} · {said}"),
                None => number,
            };
            if let (true, Some(pid)) = (several, pid) {
                name.push_str(&format!(" · process {pid}"));
            }
            let order = FIRST_THREAD + place as i64;
            let handle = stage.track(Some(self.process), Kind::Thread, name, order, tid)?;
            out.insert((pid, tid, None), handle);
        }
        Ok(out)
    }

    /// Writes the rows of a query, each on its track.
    fn events(
        &self,
        stage: &mut Stage<'_>,
        sql: &str,
        tracks: &Tracks,
        beside: &Beside,
    ) -> Result<()> {
        let mut statement = self.engine.connection.prepare(sql)?;
        let mut scanner = Scanner::default();
        let mut leaving = Vec::new();
        let mut last: Option<(Key, Handle)> = None;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let columns = Column::all(&batch);
            let [event_id, ts, dur, name, category, args, first, second, line, rest @ ..] =
                &columns[..]
            else {
                continue;
            };
            let names = batch.schema_ref().fields()[columns.len() - rest.len()..].iter();
            let others: Vec<(&str, Column<'_>)> =
                names.map(|field| field.name().as_str()).zip(rest.iter().copied()).collect();
            let mut arguments = Vec::with_capacity(32);
            for row in 0..batch.num_rows() {
                let key = (first.int(row), second.int(row), line.text(row));
                let same = |(of, _): &&(Key, Handle)| (of.0, of.1, of.2.as_deref()) == key;
                let handle = match last.as_ref().filter(same) {
                    Some((_, handle)) => *handle,
                    None => {
                        let key = (key.0, key.1, key.2.map(str::to_owned));
                        // Rows and tracks are of one trace, which does not change meanwhile.
                        let Some(handle) = tracks.get(&key).copied() else { continue };
                        last = Some((key, handle));
                        handle
                    }
                };
                let id = event_id.int(row).unwrap_or_default();
                arguments.clear();
                event_id.add(&mut arguments, "event_id", row);
                for (name, column) in &others {
                    // What has no grid has an empty one.
                    if column.text(row) != Some("") {
                        column.add(&mut arguments, name, row);
                    }
                }
                let own = arguments.len();
                beside.add(id, &mut arguments);
                let of_call = own..arguments.len();
                if let Some(raw) = args.text(row) {
                    members(raw, &mut scanner, &mut arguments);
                }
                said_once(&mut arguments, of_call);
                beside.leaving(id, &mut leaving);
                let met = |(arrow, met)| (arrow, self.scope.time(met));
                let event = Event {
                    ts: self.time(ts.int(row).unwrap_or_default()),
                    dur: dur.int(row).map(|dur| u64::try_from(dur).unwrap_or(0)),
                    name: name.text(row).unwrap_or_default(),
                    category: category.text(row),
                    args: &arguments,
                    leaving: &leaving,
                    entering: beside.entering(id),
                    meeting: beside.meeting(id).map(met),
                };
                stage.event(handle, &event)?;
            }
        }
        stage.rewind()
    }
}

/// Device, stream and line; or process and thread.
type Key = (Option<i64>, Option<i64>, Option<String>);

/// Tracks by what says them.
type Tracks = HashMap<Key, Handle>;

/// Takes out what is known of the call of an event where the event says it itself, by that name.
fn said_once(arguments: &mut Vec<Arg<'_>>, of_call: Range<usize>) {
    let mut end = of_call.end;
    for at in of_call.rev() {
        if arguments[end..].iter().any(|(name, _)| *name == arguments[at].0) {
            arguments.remove(at);
            end -= 1;
        }
    }
}

/// Adds the members of an object of JSON.
fn members<'a>(raw: &'a str, scanner: &mut Scanner, out: &mut Vec<Arg<'a>>) {
    let b = raw.as_bytes();
    if b.first() != Some(&b'{') {
        return;
    }
    // The table holds what an ingest found to be JSON.
    let _ = scanner.members(b, 0, |scanner, key, from| {
        let end = scanner.skip(b, from)?;
        out.push((json::unescape(&raw[key]), value(&raw[from..end])));
        Ok(end)
    });
}

/// A value of JSON; what is nested, or no number that fits, stays as it is.
fn value(raw: &str) -> Value<'_> {
    match raw.as_bytes() {
        [b'"', ..] => Value::Text(json::text(raw).unwrap_or(Cow::Borrowed(raw))),
        b"true" => Value::Flag(true),
        b"false" => Value::Flag(false),
        [b'-' | b'0'..=b'9', ..] => match json::integer(raw) {
            Some(number) => Value::Int(number),
            // An integer that does not fit would lose digits as a number with a point.
            None if !raw.contains(['.', 'e', 'E']) => Value::Json(raw),
            None => match raw.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Real(number),
                _ => Value::Json(raw),
            },
        },
        _ => Value::Json(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_types() {
        let raw = r#"{"a":1,"b":1.5,"c":"x\"y","d":[1,2],"e":true,"f":null,"g":12345678901234567890,"h":1e999}"#;
        let mut out = Vec::new();
        members(raw, &mut Scanner::default(), &mut out);
        let values: Vec<Value<'_>> = out.into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            values,
            [
                Value::Int(1),
                Value::Real(1.5),
                Value::Text("x\"y".into()),
                Value::Json("[1,2]"),
                Value::Flag(true),
                Value::Json("null"),
                Value::Json("12345678901234567890"),
                Value::Json("1e999"),
            ]
        );
    }
}
