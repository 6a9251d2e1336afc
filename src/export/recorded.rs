//! What the profiler recorded: events of threads and streams, and samples of counters, rank by rank
//! in the order of time. Rows stream from DuckDB, which sorts within its limit of memory.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow::array::RecordBatch;

use crate::engine::Engine;
use crate::error::Result;
use crate::export::cells::{add, int, ints, text};
use crate::export::scope::{Rank, Scope, rows, within};
use crate::export::select::{Selection, Side};
use crate::export::stage::{Handle, Stage};
use crate::export::timeline::{Arg, COLLECTIVE, Event, Kind, Value};
use crate::input::json::{self, Scanner};

/// The arrows between the events of one call: from the last rank that entered it to each other one
/// that was still in it then.
const ARROWS: &str = "\"@arrows\"";

/// Columns of every event, before its arguments.
const EVENT: &str = "r.event_id, r.ts_ns, r.dur_ns, r.name, r.category, r.args, a.leaving, \
                     b.event_id AS meets, b.met_ns";

/// Arguments of an event of communication.
const CALL: &str = "c.collective, c.message_bytes, c.group_size, c.dtype, c.pg_id, \
                    c.collective_id, c.seq, c.wait_ns, c.transfer_ns, c.last_rank, \
                    c.bus_bw_gb_per_s";

/// Orders of tracks within a process; those of the program's own come first.
const FIRST_DEVICE: i64 = 1_000;
const FIRST_THREAD: i64 = 100_000;
const FIRST_COUNTER: i64 = 200_000;

/// Makes the arrows of the calls. Both ends are of ranks, and in the time, that are asked for.
///
/// # Errors
/// `sql`.
pub fn make_arrows(engine: &Engine<'_>, selection: &Selection, align: bool) -> Result<()> {
    for name in ["_waits", "collectives", "collective_calls", "launches"] {
        engine.make(name)?;
    }
    let long = long(selection);
    engine.connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE {ARROWS} AS
         WITH shares AS (
             SELECT r.source, r.collective_id, r.event_id, r.start_ns, r.dur_ns, r.is_last
             FROM _waits AS r {} {long} AND r.aligned = {align})
         SELECT l.event_id AS last_event_id, s.event_id, l.start_ns AS met_ns
         FROM shares AS s
         INNER JOIN shares AS l
             ON l.source = s.source AND l.collective_id = s.collective_id AND l.is_last
         WHERE NOT s.is_last AND s.start_ns + s.dur_ns > l.start_ns",
        within("ts_ns", Some("dur_ns"), None)
    ))?;
    Ok(())
}

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
    engine.connection.execute_batch(
        "CREATE TEMP TABLE \"@waits\" AS FROM _waits; \
         CREATE OR REPLACE VIEW _waits AS FROM \"@waits\"",
    )?;
    for table in BY_RANK {
        engine.make(table)?;
        engine.connection.execute_batch(&format!(
            "ALTER VIEW {table} RENAME TO \"@{table}\"; \
             CREATE VIEW {table} AS FROM \"@{table}\" \
                 WHERE rank IS NOT DISTINCT FROM CAST(getvariable('{SHOWN}') AS BIGINT)"
        ))?;
    }
    Ok(())
}

/// Shows a rank in the tables that are [`split`].
///
/// # Errors
/// `sql`.
pub fn show(engine: &Engine<'_>, rank: Option<i64>) -> Result<()> {
    let rank = rank.map_or("NULL".to_owned(), |rank| rank.to_string());
    Ok(engine.connection.execute_batch(&format!("SET VARIABLE {SHOWN} = {rank}::BIGINT"))?)
}

/// The condition of slices that are long enough.
pub fn long(selection: &Selection) -> String {
    selection.min_dur_ns.map_or(String::new(), |min| format!("AND r.dur_ns >= {min}"))
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

    /// `rank = 3`, for tables without the time of a row.
    fn of_rank(&self) -> String {
        self.rank.rank.map_or("rank IS NULL".to_owned(), |rank| format!("rank = {rank}"))
    }

    fn within(&self) -> String {
        within("ts_ns", Some("dur_ns"), Some(self.rank.rank))
    }

    /// Tables beside the events: arrows, and what is known of calls.
    fn joins(&self) -> String {
        let rank = self.of_rank();
        format!(
            "LEFT JOIN (SELECT last_event_id, list(event_id ORDER BY event_id) AS leaving \
                        FROM {ARROWS} GROUP BY last_event_id) AS a ON a.last_event_id = r.event_id \
             LEFT JOIN {ARROWS} AS b ON b.event_id = r.event_id \
             LEFT JOIN (SELECT s.event_id, s.collective, s.message_bytes, s.group_size, s.dtype, \
                               s.pg_id, s.collective_id, s.seq, w.wait_ns, m.transfer_ns, \
                               w.last_rank, m.bus_bw_gb_per_s \
                        FROM (FROM collectives WHERE {rank}) AS s \
                        LEFT JOIN (SELECT event_id, wait_ns, last_rank FROM _waits \
                                   WHERE {rank} AND aligned = {}) AS w ON w.event_id = s.event_id \
                        LEFT JOIN collective_calls AS m \
                            ON m.source = s.source AND m.collective_id = s.collective_id) AS c \
                 ON c.event_id = r.event_id",
            self.scope.align
        )
    }

    /// Events of devices, on the track of their stream.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn device(&self, stage: &mut Stage<'_>) -> Result<()> {
        self.engine.make("device_events")?;
        // Lines of XLA overlap, and are no streams of one another.
        let line = "CASE WHEN r.source = 'xla' THEN r.category END";
        let (within, long, joins) = (self.within(), long(self.selection), self.joins());
        let sql = format!(
            "SELECT {EVENT}, l.event_id AS launch, r.device, r.stream, {line} AS line, r.class, \
                    r.correlation, r.external_id, r.bytes, r.flops, r.bytes_accessed, \
                    r.hlo_category, r.hlo_module, r.hlo_op, \
                    concat_ws(',', r.grid_x, r.grid_y, r.grid_z) AS grid, \
                    concat_ws(',', r.block_x, r.block_y, r.block_z) AS block, \
                    r.registers, r.shared_memory, r.blocks_per_sm, r.warps_per_sm, \
                    r.occupancy_pct, {CALL} \
             FROM device_events AS r \
             LEFT JOIN (SELECT event_id FROM launches \
                        WHERE {} AND runtime_event_id IS NOT NULL) AS l \
                 ON l.event_id = r.event_id {joins} {within} {long} \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id",
            self.launches(Side::Device)
        );
        let tracks = self.streams(stage, "device_events", line)?;
        self.events(stage, &sql, &tracks)
    }

    /// What the profiler annotated on devices, on tracks beside those of the streams.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn annotations(&self, stage: &mut Stage<'_>) -> Result<()> {
        self.engine.make("host_events")?;
        let (within, long, joins) = (self.within(), long(self.selection), self.joins());
        let sql = format!(
            "SELECT {EVENT}, NULL AS launch, r.device, r.stream, 'annotations' AS line, r.class, \
                    r.correlation, r.external_id, {CALL} \
             FROM host_events AS r {joins} {within} {long} AND r.class = 'device_annotation' \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id"
        );
        let tracks = self.streams(stage, "host_events", "'annotations'")?;
        self.events(stage, &sql, &tracks)
    }

    /// Events of threads.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn host(&self, stage: &mut Stage<'_>) -> Result<()> {
        self.engine.make("host_events")?;
        let (within, long, joins) = (self.within(), long(self.selection), self.joins());
        let sql = format!(
            "SELECT {EVENT}, l.launched, r.pid, r.tid, NULL AS line, r.class, r.correlation, \
                    r.external_id, {CALL} \
             FROM host_events AS r \
             LEFT JOIN (SELECT runtime_event_id, list(event_id ORDER BY event_id) AS launched \
                        FROM launches WHERE {} AND runtime_event_id IS NOT NULL \
                        GROUP BY runtime_event_id) AS l \
                 ON l.runtime_event_id = r.event_id \
             {joins} {within} {long} AND r.class <> 'device_annotation' \
             ORDER BY r.ts_ns, r.dur_ns DESC NULLS LAST, r.event_id",
            self.launches(Side::Host)
        );
        let tracks = self.threads(stage)?;
        self.events(stage, &sql, &tracks)
    }

    /// The launches whose arrows are drawn: those with both ends, of this rank as `side` has it.
    fn launches(&self, side: Side) -> String {
        match (self.selection.only, self.rank.rank) {
            (Some(_), _) => "FALSE".to_owned(),
            // What is of no rank on the host may launch on the devices of all.
            (None, None) if side == Side::Host => "TRUE".to_owned(),
            (None, _) => self.of_rank(),
        }
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
            within("ts_ns", None, Some(self.rank.rank))
        );
        let mut tracks: HashMap<(String, Option<i64>), Handle> = HashMap::new();
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let at = |i: usize| batch.column(i);
                let name = text(at(1), row).unwrap_or("counter");
                let key = (name.to_owned(), int(at(2), row));
                let handle = match tracks.get(&key) {
                    Some(handle) => *handle,
                    None => {
                        let shown = match key.1 {
                            Some(device) => format!("{name} · device {device}"),
                            None => name.to_owned(),
                        };
                        let kind = Kind::Counter(text(at(3), row).map(str::to_owned));
                        let order = FIRST_COUNTER + tracks.len() as i64;
                        let handle = stage.track(Some(self.process), kind, shown, order, None)?;
                        tracks.insert(key, handle);
                        handle
                    }
                };
                let values = at(4).as_any().downcast_ref::<arrow::array::Float64Array>();
                if let (Some(ts), Some(values)) = (int(at(0), row), values) {
                    stage.sample(handle, self.time(ts), values.value(row))?;
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
            self.within(),
            long(self.selection)
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
            self.within(),
            long(self.selection)
        );
        let keys: Vec<(Option<i64>, Option<i64>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let names: HashMap<String, String> = rows(
            self.engine,
            &format!(
                "SELECT key, value FROM metadata WHERE {} AND starts_with(key, 'thread_name:')",
                self.of_rank()
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
    fn events(&self, stage: &mut Stage<'_>, sql: &str, tracks: &Tracks) -> Result<()> {
        let mut statement = self.engine.connection.prepare(sql)?;
        let mut scanner = Scanner::default();
        let mut last: Option<(Key, Handle)> = None;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let columns = Columns::new(&batch);
            let [first, second, line] = KEY.map(|i| &**batch.column(i));
            for row in 0..batch.num_rows() {
                let key = (int(first, row), int(second, row), text(line, row));
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
                self.event(stage, handle, &columns, row, &columns.args(row, &mut scanner))?;
            }
        }
        stage.rewind()
    }

    fn event(
        &self,
        stage: &mut Stage<'_>,
        handle: Handle,
        columns: &Columns<'_>,
        row: usize,
        args: &[Arg<'_>],
    ) -> Result<()> {
        let at = |i: usize| &**columns.batch.column(i);
        let mut leaving: Vec<u64> = ints(at(6), row).iter().map(|id| id | COLLECTIVE).collect();
        leaving.extend(ints(at(9), row));
        let meeting = int(at(7), row).zip(int(at(8), row));
        stage.event(
            handle,
            &Event {
                ts: self.time(int(at(1), row).unwrap_or_default()),
                dur: int(at(2), row).map(|dur| u64::try_from(dur).unwrap_or(0)),
                name: text(at(3), row).unwrap_or_default(),
                category: text(at(4), row),
                args,
                leaving: &leaving,
                entering: int(at(9), row).map(i64::cast_unsigned),
                meeting: meeting
                    .map(|(id, met)| (id.cast_unsigned() | COLLECTIVE, self.scope.time(met))),
            },
        )
    }
}

/// Device, stream and line; or process and thread.
type Key = (Option<i64>, Option<i64>, Option<String>);

/// Tracks by what says them.
type Tracks = HashMap<Key, Handle>;

/// A batch of events.
struct Columns<'b> {
    batch: &'b RecordBatch,
    /// Arguments with a column of their own.
    others: Vec<(usize, &'b str)>,
}

/// The columns of a [`Key`], behind those of [`EVENT`] and the launch.
const KEY: [usize; 3] = [10, 11, 12];
/// The columns before the arguments.
const OWN_COLUMNS: usize = 13;

impl<'b> Columns<'b> {
    fn new(batch: &'b RecordBatch) -> Self {
        let others = batch
            .schema_ref()
            .fields()
            .iter()
            .enumerate()
            .skip(OWN_COLUMNS)
            .map(|(i, field)| (i, field.name().as_str()))
            .collect();
        Self { batch, others }
    }

    fn args(&self, row: usize, scanner: &mut Scanner) -> Vec<Arg<'b>> {
        let mut out = Vec::with_capacity(24);
        add(&mut out, "event_id", self.batch.column(0), row);
        for (i, name) in &self.others {
            let column = &**self.batch.column(*i);
            // What has no grid has an empty one.
            if !matches!(text(column, row), Some("")) {
                add(&mut out, name, column, row);
            }
        }
        if let Some(raw) = text(self.batch.column(5), row) {
            members(raw, scanner, &mut out);
        }
        out
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
