//! A file of Kineto for each rank: what was recorded and nothing else, for the programs that read
//! such files. Of a trace that Kineto recorded they are its own files again, as far as the tables
//! hold them: an ingest of them makes the same event tables.

use std::io::Write;

use arrow::array::RecordBatch;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::export::cells::Column;
use crate::export::chrome::{micros, real, string};
use crate::export::scope::{Rank, Scope, rows};
use crate::export::select::{Selection, Side};
use crate::input::json::Scanner;
use crate::input::time::EPOCH_FROM_NS;

/// Bytes that are collected before they are written.
const PIECE: usize = 1 << 18;

/// Header keys that this form writes itself.
const OWN_KEYS: [&str; 2] = ["traceEvents", "baseTimeNanoseconds"];

/// Names of metadata of processes and threads, which are events.
const ABOUT: [&str; 5] =
    ["process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"];

/// Counters that are arguments of other events.
const OF_EVENTS: [&str; 3] = ["memory.bytes", "memory.total_allocated", "memory.total_reserved"];

/// Columns of device events whose arguments have other names.
const DEVICE_ARGS: [(&str, &str); 10] = [
    ("device", "device"),
    ("stream", "stream"),
    ("context", "context"),
    ("correlation", "correlation"),
    ("external_id", "External id"),
    ("bytes", "bytes"),
    ("registers", "registers per thread"),
    ("shared_memory", "shared memory"),
    ("flops", "flops"),
    ("bytes_accessed", "bytes accessed"),
];
const DEVICE_REALS: [(&str, &str); 3] = [
    ("blocks_per_sm", "blocks per SM"),
    ("warps_per_sm", "warps per SM"),
    ("occupancy_pct", "est. achieved occupancy %"),
];
const HOST_ARGS: [(&str, &str); 4] = [
    ("device", "device"),
    ("stream", "stream"),
    ("correlation", "correlation"),
    ("external_id", "External id"),
];

/// The category that Kineto has for a class, for events of other profilers.
fn category(class: &str) -> &str {
    match class {
        "compute" | "comm" | "graph" => "kernel",
        "copy" => "gpu_memcpy",
        "set" => "gpu_memset",
        "host_op" => "cpu_op",
        "host_annotation" => "user_annotation",
        "host_runtime" => "cuda_runtime",
        "device_annotation" => "gpu_user_annotation",
        "python" => "python_function",
        other => other,
    }
}

/// Whether a value of the header is a number: as one is printed, since a text of digits is often
/// an id, which would lose its zeros.
fn is_number(value: &str) -> bool {
    value.parse::<i64>().is_ok_and(|n| n.to_string() == value)
        || value.parse::<f64>().is_ok_and(|n| n.is_finite() && format!("{n:?}") == value)
}

/// The file of a rank.
pub struct File<'a, 'e> {
    engine: &'a Engine<'e>,
    scope: &'a Scope,
    selection: &'a Selection,
    rank: &'a Rank,
    to: &'a mut dyn Write,
    out: Vec<u8>,
    /// What times are written without.
    base_ns: i64,
    scanner: Scanner,
    /// Events that were written.
    pub events: u64,
}

impl<'a, 'e> File<'a, 'e> {
    /// A file of a rank.
    pub fn new(
        engine: &'a Engine<'e>,
        scope: &'a Scope,
        selection: &'a Selection,
        rank: &'a Rank,
        to: &'a mut dyn Write,
    ) -> Self {
        let (out, scanner) = (Vec::new(), Scanner::default());
        Self { engine, scope, selection, rank, to, out, base_ns: 0, scanner, events: 0 }
    }

    /// Writes it.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn write(&mut self) -> Result<()> {
        for name in ["metadata", "ranks", "device_events", "host_events", "flows", "counters"] {
            self.engine.make(name)?;
        }
        self.header()?;
        self.out.extend_from_slice(b"\"traceEvents\":[");
        self.metadata()?;
        let within = self.rank.within(Some("dur_ns"));
        let long = self.selection.long();
        let order = "ORDER BY r.event_id";
        if self.selection.has(Side::Host) {
            let sql = format!(
                "SELECT r.* EXCLUDE (trace) FROM host_events AS r {within} {long} \
                 AND r.class <> 'device_annotation' {order}"
            );
            self.rows(&sql, &HOST_ARGS, &[])?;
        }
        if self.selection.has(Side::Device) {
            let sql = format!(
                "SELECT r.* EXCLUDE (trace) FROM host_events AS r {within} {long} \
                 AND r.class = 'device_annotation' {order}"
            );
            self.rows(&sql, &HOST_ARGS, &[])?;
            let sql = format!(
                "SELECT r.* EXCLUDE (trace) FROM device_events AS r {within} {long} {order}"
            );
            self.rows(&sql, &DEVICE_ARGS, &DEVICE_REALS)?;
        }
        self.flows()?;
        self.counters()?;
        self.out.extend_from_slice(b"\n]}\n");
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.to.write_all(&self.out);
        self.out.clear();
        written.map_err(|e| Error::new("io", format!("cannot write the timeline: {e}")))
    }

    /// The header, as recorded; of other profilers what readers of Kineto look for.
    fn header(&mut self) -> Result<()> {
        let about: Vec<String> = ABOUT.iter().map(|name| format!("key LIKE '{name}:%'")).collect();
        let sql = format!(
            "SELECT key, value FROM metadata WHERE {} AND NOT ({}) AND EXISTS ( \
                 SELECT 1 FROM ranks WHERE {} AND source = 'kineto')",
            self.rank.condition(),
            about.join(" OR "),
            self.rank.condition()
        );
        let header: Vec<(String, Option<String>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let said = header.iter().find(|(key, _)| key == "baseTimeNanoseconds");
        let said = said.and_then(|(_, value)| value.as_ref()?.parse().ok());
        let own = Some(self.scope.base_ns).filter(|base| *base >= EPOCH_FROM_NS);
        self.base_ns = said.or(own.filter(|_| header.is_empty())).unwrap_or(0);
        self.out.push(b'{');
        for (key, value) in header.iter().filter(|(key, _)| !OWN_KEYS.contains(&&**key)) {
            string(&mut self.out, key);
            self.out.push(b':');
            let value = value.as_deref().unwrap_or("null");
            // A number that reaches the end of the bytes has none for the scanner.
            let is_json =
                is_number(value) || self.scanner.skip(value.as_bytes(), 0) == Ok(value.len());
            // A text that reads as JSON is stored as that again.
            if is_json && !value.starts_with('"') {
                self.out.extend_from_slice(value.as_bytes());
            } else {
                string(&mut self.out, value);
            }
            self.out.extend_from_slice(b",\n");
        }
        if header.is_empty() {
            self.made_header()?;
        }
        if self.base_ns != 0 {
            let _ = writeln!(self.out, "\"baseTimeNanoseconds\":{},", self.base_ns);
        }
        Ok(())
    }

    /// The header of a trace that Kineto did not record.
    fn made_header(&mut self) -> Result<()> {
        self.out.extend_from_slice(b"\"schemaVersion\":1,\n");
        let Some(rank) = self.rank.rank else { return Ok(()) };
        let sql = format!(
            "SELECT max(world_size), min(device_name) FROM ranks WHERE {}",
            self.rank.condition()
        );
        let known: Vec<(Option<i64>, Option<String>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (world_size, device) = known.into_iter().next().unwrap_or_default();
        let _ = write!(self.out, "\"distributedInfo\":{{\"rank\":{rank}");
        if let Some(world_size) = world_size {
            let _ = write!(self.out, ",\"world_size\":{world_size}");
        }
        self.out.extend_from_slice(b"},\n");
        if let Some(device) = device {
            self.out.extend_from_slice(b"\"deviceProperties\":[{\"id\":0,\"name\":");
            string(&mut self.out, &device);
            self.out.extend_from_slice(b"}],\n");
        }
        Ok(())
    }

    /// Begins an event.
    fn open(&mut self, phase: &str) {
        if self.events > 0 {
            self.out.push(b',');
        }
        self.events += 1;
        let _ = write!(self.out, "\n{{\"ph\":{phase}");
    }

    fn close(&mut self) -> Result<()> {
        self.out.push(b'}');
        if self.out.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn member(&mut self, key: &str, raw: &str) {
        let _ = write!(self.out, ",\"{key}\":{raw}");
    }

    fn text(&mut self, key: &str, text: &str) {
        let _ = write!(self.out, ",\"{key}\":");
        string(&mut self.out, text);
    }

    fn time(&mut self, ts_ns: i64) {
        self.out.extend_from_slice(b",\"ts\":");
        let own = ts_ns.saturating_sub(self.rank.shift_ns);
        // What is no time of day is before the base already.
        let base = if own < EPOCH_FROM_NS { 0 } else { self.base_ns };
        micros(&mut self.out, own.saturating_sub(base));
    }

    /// Names of processes and threads.
    fn metadata(&mut self) -> Result<()> {
        let about: Vec<String> = ABOUT.iter().map(|name| format!("key LIKE '{name}:%'")).collect();
        let sql = format!(
            "SELECT key, value FROM metadata WHERE {} AND ({})",
            self.rank.condition(),
            about.join(" OR ")
        );
        let all: Vec<(String, Option<String>)> =
            rows(self.engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (key, value) in all {
            let mut parts = key.splitn(2, ':');
            let name = parts.next().unwrap_or_default();
            let ids = parts.next().unwrap_or_default();
            let (pid, tid) = match name.starts_with("thread") {
                true => ids.rsplit_once(':').unwrap_or((ids, "")),
                false => (ids, ""),
            };
            self.open("\"M\"");
            self.text("name", name);
            for (key, id) in [("pid", pid), ("tid", tid)] {
                match id.parse::<i64>() {
                    Ok(id) => self.member(key, &id.to_string()),
                    Err(_) if id.is_empty() => {}
                    Err(_) => self.text(key, id),
                }
            }
            let of = name.split_once('_').map_or(name, |(_, of)| of);
            let value = value.unwrap_or_default();
            let _ = write!(self.out, ",\"args\":{{\"{of}\":");
            match value.parse::<i64>() {
                Ok(number) if of == "sort_index" => {
                    let _ = write!(self.out, "{number}");
                }
                _ => string(&mut self.out, &value),
            }
            self.out.push(b'}');
            self.close()?;
        }
        Ok(())
    }

    /// Events, of which some columns are arguments.
    fn rows(&mut self, sql: &str, ints: &[(&str, &str)], reals: &[(&str, &str)]) -> Result<()> {
        let mut statement = self.engine.connection.prepare(sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                self.row(&batch, row, ints, reals)?;
            }
        }
        Ok(())
    }

    fn row(
        &mut self,
        batch: &RecordBatch,
        row: usize,
        ints: &[(&str, &str)],
        reals: &[(&str, &str)],
    ) -> Result<()> {
        let at = |name: &str| Column::named(batch, name);
        let number = |name: &str| at(name)?.int(row);
        let word = |name: &str| at(name)?.text(row);
        let is_kineto = word("source") == Some("kineto");
        let raw = word("args").unwrap_or_default();
        // Members of the event itself, and its arguments.
        let (fields, args) = parted(raw, &mut self.scanner, is_kineto);
        let field = |key: &str| fields.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        let class = word("class").unwrap_or_default();
        let dur = number("dur_ns");
        let phase = match dur {
            None if class == "other" => "\"i\"",
            _ => "\"X\"",
        };
        self.open(field("$ph").unwrap_or(phase));
        match (is_kineto, word("category")) {
            (true, Some(category)) => self.text("cat", category),
            (true, None) => {}
            (false, _) => self.text("cat", category(class)),
        }
        self.text("name", word("name").unwrap_or_default());
        let is_device = !reals.is_empty();
        let own = if is_device { ["device", "stream"] } else { ["pid", "tid"] };
        for (key, column) in ["pid", "tid"].into_iter().zip(own) {
            match (field(&format!("${key}")), number(column)) {
                (Some(raw), _) => self.member(key, raw),
                (None, Some(id)) => self.member(key, &id.to_string()),
                (None, None) => {}
            }
        }
        self.time(number("ts_ns").unwrap_or_default());
        if let Some(dur) = dur {
            self.out.extend_from_slice(b",\"dur\":");
            micros(&mut self.out, dur);
        } else if phase == "\"i\"" && field("$s").is_none() {
            self.out.extend_from_slice(b",\"s\":\"t\"");
        }
        for (key, value) in &fields {
            if !matches!(*key, "$ph" | "$pid" | "$tid" | "$args" | "$text") {
                self.member(&key[1..], value);
            }
        }
        if let Some(whole) = field("$args") {
            self.member("args", whole);
        } else if let Some(whole) = field("$text").and_then(crate::input::json::text) {
            self.member("args", &whole);
        } else {
            let has = |key: &str| args.iter().any(|(k, _)| *k == key);
            self.out.extend_from_slice(b",\"args\":{");
            let begun = self.out.len();
            for (column, key) in ints.iter().filter(|(_, key)| !has(key)) {
                if let Some(value) = number(column) {
                    self.argument(begun, key, &value.to_string());
                }
            }
            for (column, key) in reals {
                if let Some(value) = at(column).and_then(|column| column.real(row)) {
                    let mut raw = Vec::new();
                    real(&mut raw, value);
                    self.argument(begun, key, &String::from_utf8_lossy(&raw));
                }
            }
            for of in ["grid", "block"].into_iter().filter(|_| is_device) {
                let axes = ["x", "y", "z"].map(|axis| number(&format!("{of}_{axis}")));
                if let [Some(x), Some(y), Some(z)] = axes {
                    self.argument(begun, of, &format!("[{x},{y},{z}]"));
                }
            }
            for (key, value) in &args {
                self.argument(begun, key, value);
            }
            self.out.push(b'}');
        }
        self.close()
    }

    /// An argument, whose key has its escapes already.
    fn argument(&mut self, begun: usize, key: &str, raw: &str) {
        if self.out.len() > begun {
            self.out.push(b',');
        }
        let _ = write!(self.out, "\"{key}\":{raw}");
    }

    /// Arrows, as recorded.
    fn flows(&mut self) -> Result<()> {
        if self.selection.only.is_some() || self.selection.min_dur_ns.is_some() {
            // Their ends may be gone.
            return Ok(());
        }
        let sql = format!(
            "SELECT r.kind, r.flow_id, r.phase, r.ts_ns, r.pid, r.tid, r.name FROM flows AS r {}",
            self.rank.within(None)
        );
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let at = |i: usize| Column::new(&**batch.column(i));
                let phase = at(2).text(row).unwrap_or("s");
                self.open(&format!("\"{phase}\""));
                self.member("id", &at(1).int(row).unwrap_or_default().to_string());
                for (key, i) in [("pid", 4), ("tid", 5)] {
                    if let Some(id) = at(i).int(row) {
                        self.member(key, &id.to_string());
                    }
                }
                for (key, i) in [("cat", 0), ("name", 6)] {
                    if let Some(word) = at(i).text(row) {
                        self.text(key, word);
                    }
                }
                self.time(at(3).int(row).unwrap_or_default());
                if phase == "f" {
                    self.member("bp", "\"e\"");
                }
                self.close()?;
            }
        }
        Ok(())
    }

    /// Samples of counters, but those that are arguments of events.
    fn counters(&mut self) -> Result<()> {
        let sql = format!(
            "SELECT r.ts_ns, r.name, r.value FROM counters AS r {} AND isfinite(r.value) \
             AND NOT (r.source = 'kineto' AND r.name IN ('{}'))",
            self.rank.within(None),
            OF_EVENTS.join("', '")
        );
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let at = |i: usize| Column::new(&**batch.column(i));
                let full = at(1).text(row).unwrap_or_default();
                let (name, key) = full.split_once('.').unwrap_or((full, "value"));
                self.open("\"C\"");
                self.text("name", name);
                self.member("pid", "0");
                self.time(at(0).int(row).unwrap_or_default());
                self.out.extend_from_slice(b",\"args\":{");
                string(&mut self.out, key);
                self.out.push(b':');
                real(&mut self.out, at(2).real(row).unwrap_or_default());
                self.out.push(b'}');
                self.close()?;
            }
        }
        Ok(())
    }
}

/// Members of an object of JSON, as they stand.
type Members<'a> = Vec<(&'a str, &'a str)>;

/// The members of recorded arguments that are fields of the event itself, and the others. Only
/// those of Kineto mean that by a leading `$`.
fn parted<'a>(raw: &'a str, scanner: &mut Scanner, is_kineto: bool) -> (Members<'a>, Members<'a>) {
    let (mut fields, mut args) = (Vec::new(), Vec::new());
    if raw.starts_with('{') {
        // The table holds what an ingest found to be JSON.
        let _ = scanner.members(raw.as_bytes(), 0, |scanner, key, from| {
            let end = scanner.skip(raw.as_bytes(), from)?;
            let member = (&raw[key], &raw[from..end]);
            match is_kineto && member.0.starts_with('$') {
                true => fields.push(member),
                false => args.push(member),
            }
            Ok(end)
        });
    }
    (fields, args)
}
