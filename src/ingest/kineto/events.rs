//! Events of one file into rows: slices, instants, pairs, arrows, counters, names.

use std::path::Path;

use serde_json::Value;

use super::super::json::{self, Members, Mended};
use super::super::log::{Log, Severity};
use super::super::parquet::TableWriter;
use super::super::time::micros_to_nanos;
use super::classify::{
    DEVICE_INTS, HOST_INTS, STREAM, Target, take_double, take_int, take_triple, target,
};
use super::{EPOCH_FROM_NS, Kineto};
use crate::error::Result;
use crate::schema::table;

/// The members of one event, raw.
#[derive(Default)]
struct Raw<'a> {
    ph: Option<&'a [u8]>,
    cat: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    pid: Option<&'a [u8]>,
    tid: Option<&'a [u8]>,
    ts: Option<&'a [u8]>,
    dur: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    args: Option<&'a [u8]>,
    /// Members that no table has a column for.
    extra: Vec<(&'a [u8], &'a [u8])>,
}

/// Half of a `B`/`E` pair, until the file ends.
struct Half {
    pid: String,
    tid: String,
    ts: i64,
    begin: bool,
    ordinal: u64,
    offset: u64,
    raw: Vec<u8>,
}

/// Deepest nesting of arguments that is stored as JSON; deeper ones are stored as text, because
/// engines recurse over JSON.
const MAX_ARGS_DEPTH: usize = 200;

/// Takes the events of a file and writes their rows.
pub(super) struct Events {
    pub(super) out: Kineto,
    first_event_id: i64,
    pub(super) ordinal: u64,
    /// Whether any event had a phase: an array of other records is no trace.
    pub(super) typed: bool,
    /// Set when a process name says that another profiler wrote the file.
    pub(super) not_kineto: Option<String>,
    /// Added to recorded times as rows are written (0 while the base is unknown).
    base_ns: i64,
    /// Offset after the last complete event.
    pub(super) last_end: u64,
    host: TableWriter,
    device: TableWriter,
    flows: TableWriter,
    counters: TableWriter,
    metadata: TableWriter,
    halves: Vec<Half>,
    host_pid: Option<i64>,
    args: Vec<u8>,
}

impl Events {
    pub(super) fn new(spool: &Path, source_id: i64) -> Self {
        let writer = |name: &'static str, without: &[&str]| {
            let table = table(name).expect("the table is in the schema");
            TableWriter::new(table, without, spool.join(format!("{name}.parquet")))
        };
        Self {
            out: Kineto::default(),
            first_event_id: source_id << 40,
            ordinal: 0,
            typed: false,
            not_kineto: None,
            base_ns: 0,
            last_end: 0,
            host: writer("host_events", &["rank"]),
            device: writer("device_events", &["source", "rank"]),
            flows: writer("flows", &["rank"]),
            counters: writer("counters", &["source", "rank"]),
            metadata: writer("metadata", &["rank"]),
            halves: Vec::new(),
            host_pid: None,
            args: Vec::new(),
        }
    }

    pub(super) fn log(&mut self) -> &mut Log {
        &mut self.out.log
    }

    pub(super) fn header(&mut self, key: String, value: Value) {
        if key == "baseTimeNanoseconds" {
            let base = match &value {
                Value::Number(n) => json::integer(n.to_string().as_bytes()),
                Value::String(s) => json::integer(s.as_bytes()),
                _ => None,
            };
            match base {
                Some(base) if (0..i64::MAX / 4).contains(&base) => {
                    self.out.base_ns = Some(base);
                    if self.ordinal == 0 {
                        self.base_ns = base;
                    } else {
                        self.out.pending_base_ns = base;
                    }
                }
                _ => self.out.log.add(Severity::Loss, "base-invalid", None, || {
                    format!(
                        "baseTimeNanoseconds is no usable integer: {value}; times stay as recorded"
                    )
                }),
            }
        }
        self.out.header.push((key, value));
    }

    pub(super) fn note_mended(&mut self, m: Mended, offset: u64) {
        let log = &mut self.out.log;
        let mut add = |code, count: u32, message: &str| {
            log.add_many(Severity::Info, code, u64::from(count), Some(offset), || {
                message.to_owned()
            });
        };
        add(
            "control-character",
            m.control,
            "raw control characters inside strings; read as they are",
        );
        add("bad-escape", m.escape, "backslashes that start no JSON escape; kept as backslashes");
        add("trailing-comma", m.comma, "commas before a closing bracket; left out");
        add("not-a-number", m.number, "words such as NaN that are no JSON; kept as text");
        add("invalid-utf8", m.utf8, "bytes that are no UTF-8; replaced by U+FFFD");
    }

    fn skip(&mut self, code: &'static str, offset: u64, message: &str) {
        self.out.skipped += 1;
        self.out.log.add(Severity::Loss, code, Some(offset), || message.to_owned());
    }

    /// Takes one element of the list of events, strict JSON.
    pub(super) fn event(&mut self, raw: &[u8], offset: u64, depth: usize) -> Result<()> {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        if raw[json::skip_space(raw, 0)] != b'{' {
            self.skip("event-no-object", offset, "an element of the list is no object; left out");
            return Ok(());
        }
        let mut e = Raw::default();
        for (key, value) in Members::new(raw) {
            match key {
                b"ph" => e.ph = Some(value),
                b"cat" => e.cat = Some(value),
                b"name" => e.name = Some(value),
                b"pid" => e.pid = Some(value),
                b"tid" => e.tid = Some(value),
                b"ts" => e.ts = Some(value),
                b"dur" => e.dur = Some(value),
                b"id" => e.id = Some(value),
                b"args" => e.args = Some(value),
                _ => e.extra.push((key, value)),
            }
        }
        let phase = match e.ph {
            Some([b'"', phase, b'"']) => *phase,
            _ => {
                self.skip("phase-missing", offset, "an event without a phase (`ph`); left out");
                return Ok(());
            }
        };
        self.typed = true;
        match phase {
            b'X' | b'i' | b'I' | b'R' => self.slice(&e, phase, ordinal, offset, depth),
            b'B' | b'E' => self.half(&e, phase == b'B', raw, ordinal, offset),
            b's' | b't' | b'f' => self.flow(&e, phase, offset),
            b'M' => self.meta(&e, offset),
            b'C' => self.counter(&e, offset),
            _ => self.slice(&e, phase, ordinal, offset, depth),
        }
    }

    /// The recorded time, with the base where it is known; None with a finding.
    fn time(&mut self, raw: Option<&[u8]>, offset: u64) -> Option<i64> {
        let recorded = raw.and_then(micros_to_nanos);
        let with_base = match recorded {
            Some(ts) if ts < EPOCH_FROM_NS => ts.checked_add(self.base_ns),
            other => other,
        };
        if with_base.is_none() {
            self.skip("ts-missing", offset, "an event without a usable time (`ts`); left out");
        } else if matches!(raw, Some([b'"', ..])) {
            self.out.log.add(Severity::Info, "number-as-text", Some(offset), || {
                "times stand in quotes; their digits were read".to_owned()
            });
        }
        with_base
    }

    /// A slice or an instant.
    fn slice(
        &mut self,
        e: &Raw<'_>,
        phase: u8,
        ordinal: u64,
        offset: u64,
        depth: usize,
    ) -> Result<()> {
        let Some(ts) = self.time(e.ts, offset) else { return Ok(()) };
        let dur = if phase == b'X' { self.duration(e.dur, ts, offset) } else { None };
        self.row(e, phase, ts, dur, ordinal, offset, depth)
    }

    /// A usable duration; None with a finding otherwise.
    fn duration(&mut self, raw: Option<&[u8]>, ts: i64, offset: u64) -> Option<i64> {
        let dur = raw.and_then(micros_to_nanos).filter(|d| *d >= 0 && ts.checked_add(*d).is_some());
        if dur.is_none() {
            self.out.log.add(Severity::Loss, "dur-invalid", Some(offset), || {
                "a slice without a usable duration (missing, negative or no number); its duration is NULL"
                    .to_owned()
            });
        }
        dur
    }

    /// Writes the row of a slice or instant.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site per phase; a struct would repeat Raw"
    )]
    fn row(
        &mut self,
        e: &Raw<'_>,
        phase: u8,
        ts: i64,
        dur: Option<i64>,
        ordinal: u64,
        offset: u64,
        depth: usize,
    ) -> Result<()> {
        let Some(name) = e.name.and_then(json::text) else {
            self.skip(
                "name-invalid",
                offset,
                "an event whose name is missing or no text; left out",
            );
            return Ok(());
        };
        let category = e.cat.and_then(json::text);
        let category_text = category.as_deref().unwrap_or("");
        let target = match phase {
            b'X' | b'B' => target(category_text, &name, e.args),
            // Instants are of no class; the unknown neither.
            _ => Target::Host("other"),
        };
        self.out.events += 1;
        let end = ts + dur.unwrap_or(0);
        widen(&mut self.out.span_ns, ts, end);
        let event_id = self.first_event_id + ordinal as i64;
        let mut ints = [None; 8];
        let mut doubles = [None; 3];
        let mut grid = [None; 6];
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        if depth > MAX_ARGS_DEPTH && e.args.is_some() {
            self.out.log.add(Severity::Info, "args-too-deep", Some(offset), || {
                format!("arguments nested deeper than {MAX_ARGS_DEPTH}; kept as text under `$text`")
            });
            let text = String::from_utf8_lossy(e.args.unwrap_or_default());
            member(&mut args, b"$text", serde_json::json!(text).to_string().as_bytes());
        } else if let Some(raw) = e.args {
            if raw[0] != b'{' {
                if raw != b"null" {
                    member(&mut args, b"$args", raw);
                }
            } else {
                let on_device = matches!(target, Target::Device(_));
                let annotation = target == Target::Host("device_annotation");
                for (key, value) in Members::new(raw) {
                    let taken = if on_device {
                        take_int(&DEVICE_INTS, key, value, &mut ints)
                            || take_double(key, value, &mut doubles)
                            || (key == b"grid" && take_triple(value, &mut grid[..3]))
                            || (key == b"block" && take_triple(value, &mut grid[3..]))
                    } else {
                        let named = if annotation { &HOST_INTS[..] } else { &HOST_INTS[..3] };
                        take_int(named, key, value, &mut ints)
                    };
                    if !taken {
                        member(&mut args, key, value);
                    }
                }
            }
        }
        if !matches!(phase, b'X' | b'B') {
            // How an instant was written; X is the rule and says nothing.
            if !matches!(phase, b'i' | b'I' | b'R') {
                member(&mut args, b"$ph", &[b'"', phase, b'"']);
            }
        }
        if let Some(id) = e.id {
            member(&mut args, b"$id", id);
        }
        for (key, value) in &e.extra {
            let key = [b"$", *key].concat();
            member(&mut args, &key, value);
        }
        let pid = e.pid.and_then(json::integer);
        let tid = e.tid.and_then(json::integer);
        let stream_of_tid = tid.or_else(|| {
            // 2020 and 2021: "stream 7".
            json::integer(json::text(e.tid?)?.strip_prefix("stream ")?.as_bytes())
        });
        let on_device = matches!(target, Target::Device(_));
        if on_device || target == Target::Host("device_annotation") {
            ints[0] = ints[0].or(pid);
            ints[STREAM] =
                ints[STREAM].or(stream_of_tid).filter(|s| (0..i64::from(u32::MAX)).contains(s));
        }
        // What the columns do not say of pid and tid stays with the arguments.
        let pid_said = if on_device { pid == ints[0] && pid.is_some() } else { pid.is_some() };
        let tid_said = if on_device { stream_of_tid == ints[1] } else { tid.is_some() };
        if let (Some(raw), false) = (e.pid, pid_said) {
            member(&mut args, b"$pid", raw);
        }
        if let (Some(raw), false) = (e.tid, tid_said) {
            member(&mut args, b"$tid", raw);
        }
        if !args.is_empty() {
            args.push(b'}');
        }
        let args_text = std::str::from_utf8(&args).ok().filter(|a| !a.is_empty());
        match target {
            Target::Device(class) => {
                self.out.device_events += 1;
                self.out.device = self.out.device.or(ints[0]);
                widen(&mut self.out.device_span_ns, ts, end);
                let w = &mut self.device;
                w.int(Some(event_id)).text(Some(class)).text(category.as_deref()).text(Some(&name));
                w.int(Some(ts)).int(dur).int(None).int(None);
                w.int(ints[0]).int(ints[1]).int(ints[2]).int(ints[3]).int(ints[4]).int(ints[5]);
                w.int(None).int(None).text(None).text(None).text(None);
                for value in grid {
                    w.int(value);
                }
                w.int(ints[6])
                    .int(ints[7])
                    .double(doubles[0])
                    .double(doubles[1])
                    .double(doubles[2]);
                w.text(args_text).end_row()?;
            }
            Target::Host(class) => {
                match class {
                    "host_op" => self.out.pid = self.out.pid.or(pid),
                    "host_annotation" | "host_runtime" | "python" => {
                        self.host_pid = self.host_pid.or(pid);
                    }
                    _ => {}
                }
                let w = &mut self.host;
                w.text(Some("kineto")).int(Some(event_id)).text(Some(class));
                w.text(category.as_deref()).text(Some(&name)).int(Some(ts)).int(dur);
                w.int(pid).int(tid).int(ints[0]).int(ints[1]).int(ints[3]).int(ints[4]);
                w.text(args_text).end_row()?;
            }
        }
        self.args = args;
        if phase != b'X' && (category_text == "cpu_instant_event" || name == "[memory]") {
            self.memory_counters(e, ts)?;
        }
        Ok(())
    }

    /// The samples of a `[memory]` instant: signed bytes of this event, and the allocator's totals.
    fn memory_counters(&mut self, e: &Raw<'_>, ts: i64) -> Result<()> {
        let Some(args) = e.args else { return Ok(()) };
        let find = |key: &[u8]| Members::new(args).find(|(k, _)| *k == key).map(|(_, v)| v);
        // Device Type 0 is the CPU, whose id is -1 (c10::DeviceType).
        let device = find(b"Device Id").and_then(json::integer).filter(|d| *d >= 0);
        for (key, name) in [
            (&b"Bytes"[..], "memory.bytes"),
            (b"Total Allocated", "memory.total_allocated"),
            (b"Total Reserved", "memory.total_reserved"),
        ] {
            let value = find(key).and_then(|v| std::str::from_utf8(v).ok()?.parse::<f64>().ok());
            if value.is_some() {
                let w = &mut self.counters;
                w.int(Some(ts)).text(Some(name)).int(device).double(value).text(Some("bytes"));
                w.end_row()?;
            }
        }
        Ok(())
    }

    /// A counter event (`C`): one row per numeric argument.
    fn counter(&mut self, e: &Raw<'_>, offset: u64) -> Result<()> {
        let Some(ts) = self.time(e.ts, offset) else { return Ok(()) };
        let Some(name) = e.name.and_then(json::text) else {
            self.skip(
                "name-invalid",
                offset,
                "an event whose name is missing or no text; left out",
            );
            return Ok(());
        };
        for (key, value) in Members::new(e.args.unwrap_or_default()) {
            match std::str::from_utf8(value).ok().and_then(|v| v.parse::<f64>().ok()) {
                Some(value) => {
                    let name = format!("{name}.{}", json::unescape(key));
                    let w = &mut self.counters;
                    w.int(Some(ts)).text(Some(&name)).int(None).double(Some(value)).text(None);
                    w.end_row()?;
                }
                None => self.out.log.add(Severity::Loss, "counter-invalid", Some(offset), || {
                    "a counter whose value is no number; left out".to_owned()
                }),
            }
        }
        Ok(())
    }

    /// An end of an arrow.
    fn flow(&mut self, e: &Raw<'_>, phase: u8, offset: u64) -> Result<()> {
        let Some(ts) = self.time(e.ts, offset) else { return Ok(()) };
        let id = e.id.and_then(|raw| {
            json::integer(raw).or_else(|| {
                let text = json::text(raw)?;
                i64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
            })
        });
        if id.is_none() {
            self.skip("flow-id", offset, "an arrow whose id is no integer; left out");
            return Ok(());
        }
        let tid = e
            .tid
            .and_then(json::integer)
            .or_else(|| json::integer(json::text(e.tid?)?.strip_prefix("stream ")?.as_bytes()));
        let w = &mut self.flows;
        w.text(e.cat.and_then(json::text).as_deref()).int(id);
        w.text(std::str::from_utf8(&[phase]).ok()).int(Some(ts));
        w.int(e.pid.and_then(json::integer)).int(tid);
        w.text(e.name.and_then(json::text).as_deref()).end_row()
    }

    /// Names and labels of processes and threads (`M`).
    fn meta(&mut self, e: &Raw<'_>, offset: u64) -> Result<()> {
        let Some(name) = e.name.and_then(json::text) else {
            self.skip(
                "name-invalid",
                offset,
                "an event whose name is missing or no text; left out",
            );
            return Ok(());
        };
        let plain = |raw: Option<&[u8]>| -> String {
            let raw = raw.unwrap_or_default();
            json::text(raw).unwrap_or_else(|| String::from_utf8_lossy(raw)).into_owned()
        };
        let mut key = format!("{name}:{}", plain(e.pid));
        if name.starts_with("thread") {
            key = format!("{key}:{}", plain(e.tid));
        }
        let members: Vec<_> = Members::new(e.args.unwrap_or_default()).collect();
        let value = match members[..] {
            [(_, value)] => plain(Some(value)),
            _ => plain(e.args),
        };
        if name == "process_name" && (value.starts_with("/host:") || value.starts_with("/device:"))
        {
            self.not_kineto.get_or_insert_with(|| format!("an XLA trace (process `{value}`)"));
        }
        self.metadata.text(Some(&key)).text(Some(&value)).end_row()
    }

    /// Half of a pair; joined when the file ends, because files are not sorted by time.
    fn half(
        &mut self,
        e: &Raw<'_>,
        begin: bool,
        raw: &[u8],
        ordinal: u64,
        offset: u64,
    ) -> Result<()> {
        let Some(ts) = self.time(e.ts, offset) else { return Ok(()) };
        let text = |raw: Option<&[u8]>| {
            let raw = raw.unwrap_or_default();
            json::text(raw).unwrap_or_else(|| String::from_utf8_lossy(raw)).into_owned()
        };
        self.halves.push(Half {
            pid: text(e.pid),
            tid: text(e.tid),
            ts,
            begin,
            ordinal,
            offset,
            raw: raw.to_vec(),
        });
        Ok(())
    }

    /// Joins `B` and `E` per process and thread by nesting. An `E` closes the innermost open `B` of
    /// its name (of any name when it has none); what stays open is a finding and keeps no duration.
    fn join_halves(&mut self) -> Result<()> {
        let mut halves = std::mem::take(&mut self.halves);
        // At one time, ends come before begins; among equals, the order of the file.
        halves.sort_by(|a, b| {
            (&a.pid, &a.tid, a.ts, a.begin, a.ordinal)
                .cmp(&(&b.pid, &b.tid, b.ts, b.begin, b.ordinal))
        });
        let name_of =
            |raw: &[u8]| Members::new(raw).find(|(k, _)| *k == b"name").map(|(_, v)| v.to_vec());
        let mut open: Vec<&Half> = Vec::new();
        let mut rows: Vec<(&Half, Option<i64>)> = Vec::new();
        let mut strays: Vec<u64> = Vec::new();
        for (i, half) in halves.iter().enumerate() {
            if i > 0 && (&halves[i - 1].pid, &halves[i - 1].tid) != (&half.pid, &half.tid) {
                rows.extend(open.drain(..).map(|h| (h, None)));
            }
            if half.begin {
                open.push(half);
                continue;
            }
            let name = name_of(&half.raw);
            let found = open.iter().rposition(|h| name.is_none() || name_of(&h.raw) == name);
            match found {
                Some(at) => {
                    let begin = open.remove(at);
                    rows.push((begin, half.ts.checked_sub(begin.ts)));
                }
                None => strays.push(half.offset),
            }
        }
        rows.extend(open.drain(..).map(|h| (h, None)));
        rows.sort_by_key(|(h, _)| h.ordinal);
        for offset in strays {
            self.skip("end-without-begin", offset, "an end (`E`) without its begin; left out");
        }
        for (half, dur) in rows {
            if dur.is_none() {
                self.out.log.add(Severity::Loss, "begin-without-end", Some(half.offset), || {
                    "a begin (`B`) without its end; its duration is NULL".to_owned()
                });
            }
            let mut e = Raw::default();
            for (key, value) in Members::new(&half.raw) {
                match key {
                    b"cat" => e.cat = Some(value),
                    b"name" => e.name = Some(value),
                    b"pid" => e.pid = Some(value),
                    b"tid" => e.tid = Some(value),
                    b"args" => e.args = Some(value),
                    b"ph" | b"ts" => {}
                    _ => e.extra.push((key, value)),
                }
            }
            self.row(&e, b'B', half.ts, dur, half.ordinal, half.offset, 0)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Kineto> {
        self.join_halves()?;
        self.out.pid = self.out.pid.or(self.host_pid);
        for (key, value) in &self.out.header {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.metadata.text(Some(key)).text(Some(&text)).end_row()?;
        }
        let base = self.out.pending_base_ns;
        for span in [&mut self.out.span_ns, &mut self.out.device_span_ns] {
            *span = span.map(|(from, to)| {
                let add = if from < EPOCH_FROM_NS { base } else { 0 };
                (from.saturating_add(add), to.saturating_add(add))
            });
        }
        if self.out.events == 0 {
            self.out.log.add(Severity::Info, "no-events", None, || {
                "the trace has no events: only its header was read".to_owned()
            });
        }
        for (name, writer) in [
            ("host_events", self.host),
            ("device_events", self.device),
            ("flows", self.flows),
            ("counters", self.counters),
            ("metadata", self.metadata),
        ] {
            if let Some(path) = writer.finish()? {
                self.out.spool.insert(name, path);
            }
        }
        Ok(self.out)
    }
}

fn widen(span: &mut Option<(i64, i64)>, from: i64, to: i64) {
    *span = Some(match *span {
        None => (from, to),
        Some((a, b)) => (a.min(from), b.max(to)),
    });
}

/// Appends `"key":value` to an object that is being written.
fn member(args: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    args.push(if args.is_empty() { b'{' } else { b',' });
    args.push(b'"');
    args.extend_from_slice(key);
    args.extend_from_slice(b"\":");
    args.extend_from_slice(value);
}
