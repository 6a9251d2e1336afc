//! A run of events into rows: slices, instants, halves of pairs, arrows, counters, names.

use std::borrow::Cow;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::input::json::{self, Scanner, Stop};
use crate::input::time::{EPOCH_FROM_NS, MAX_NS, micros_to_nanos};
use crate::readers::document::note_mended;
use crate::readers::kineto::classify::{Columns, Taken, Target, is_stream, target};
use crate::readers::kineto::comm_args;
use crate::readers::kineto::event::Event;
use crate::readers::kineto::halves::{HALVES, Half};
use crate::readers::log::{Log, Severity};
use crate::spool::events::{Counter, DeviceEvent, Flow, HostEvent, Metadata};
use crate::spool::launches::{self, NONE, Parts};
use crate::spool::rows::Rows;
use crate::spool::steps::{Candidate, StepPatterns};
use crate::spool::totals::{Totals, widen};
use crate::spool::{self, Batches, COMM_ARGS, COUNTERS, DEVICE, FLOWS, HOST, METADATA};

/// Deepest nesting of an event that is stored as JSON. What is deeper is stored as text, because
/// engines recurse over JSON: `json_structure` of DuckDB refuses more.
const MAX_ARGS_DEPTH: usize = 128;

/// What a run of events became.
pub(super) struct Outcome {
    /// Rows of the tables; their event ids count from the start of the run.
    pub(super) batches: Batches,
    /// Halves of pairs, likewise.
    pub(super) halves: RecordBatch,
    /// Ranges that may be steps.
    pub(super) steps: Vec<Candidate>,
    pub(super) log: Log,
    pub(super) totals: Totals,
    pub(super) launches: Parts,
    /// Elements of the list in the run.
    pub(super) elements: u64,
    /// Bytes of the run that are done with.
    pub(super) consumed: usize,
    /// End of the last complete element, in the run.
    pub(super) last_end: usize,
    pub(super) end: RunEnd,
}

/// Why a run of events ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// The bytes ended: between two elements when all of them are consumed, else inside one.
    More,
    /// The list is closed; the bracket is not consumed.
    Closed,
    /// This byte cannot stand there.
    Invalid(usize),
}

/// Bytes of a short event, by which room for their rows is made.
const EVENT_BYTES: usize = 300;

/// The longest prefix that is UTF-8.
fn utf8_prefix(bytes: &[u8]) -> &str {
    match simdutf8::compat::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default(),
    }
}

/// Reads the elements of a list from `bytes`, which stand at `offset` of the file and start between
/// two elements. `base_ns` is added to relative times; annotations that match `steps` mark steps.
///
/// # Errors
/// `io` when Arrow refuses the rows.
pub(super) fn read(
    bytes: &[u8],
    offset: u64,
    base_ns: i64,
    steps: Option<&StepPatterns>,
) -> Result<Outcome> {
    let mut part = Part::new(base_ns, bytes.len() / EVENT_BYTES, steps);
    let mut scanner = Scanner::default();
    let mut event = Event::default();
    let mut mended = Vec::new();
    let mut text = utf8_prefix(bytes);
    // Where `text` starts in `bytes`.
    let mut text_at = 0;
    let (mut at, mut last_end) = (0, 0);
    let end = loop {
        while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t' | b',')) {
            at += 1;
        }
        match bytes.get(at) {
            None => break RunEnd::More,
            Some(b']') => break RunEnd::Closed,
            Some(_) => {}
        }
        let place = offset + at as u64;
        let strict = if at - text_at < text.len() {
            event.scan(&mut scanner, text, at - text_at)
        } else {
            Err(Stop::Incomplete)
        };
        at = match strict {
            Ok(end) => {
                part.event(&event, place);
                text_at + end
            }
            Err(Stop::Incomplete) if text_at + text.len() == bytes.len() => break RunEnd::More,
            Err(_) => {
                mended.clear();
                match scanner.mend(bytes, at, &mut mended) {
                    Ok((end, what)) => {
                        note_mended(&mut part.log, what, place);
                        // Mended text is UTF-8 and strict.
                        let strict = std::str::from_utf8(&mended).unwrap_or_default();
                        let mut event = Event::default();
                        if event.scan(&mut scanner, strict, 0).is_ok() {
                            part.event(&event, place);
                        }
                        if end > text_at + text.len() {
                            text = utf8_prefix(&bytes[end..]);
                            text_at = end;
                        }
                        end
                    }
                    Err(Stop::Incomplete) => break RunEnd::More,
                    // Cut inside a character: the cut is the fault, not the byte.
                    Err(Stop::Invalid(i)) if json::is_cut_character(&bytes[i..]) => {
                        break RunEnd::More;
                    }
                    Err(Stop::Invalid(i)) => break RunEnd::Invalid(i),
                }
            }
        };
        last_end = at;
    };
    part.outcome(at, last_end, end)
}

/// Takes events and collects their rows.
pub(super) struct Part<'p> {
    pub(super) rows: [Rows; spool::TABLES.len()],
    halves: Rows,
    patterns: Option<&'p StepPatterns>,
    steps: Vec<Candidate>,
    pub(super) log: Log,
    totals: Totals,
    launches: Parts,
    ordinal: u64,
    /// Added to recorded times (0 while the base is unknown).
    base_ns: i64,
    args: String,
}

impl<'p> Part<'p> {
    /// Room for about so many events.
    pub(super) fn new(base_ns: i64, events: usize, patterns: Option<&'p StepPatterns>) -> Self {
        Self {
            rows: spool::rows(events),
            halves: Rows::new(&HALVES, &[]),
            patterns,
            steps: Vec::new(),
            log: Log::default(),
            totals: Totals::default(),
            launches: Parts::default(),
            ordinal: 0,
            base_ns,
            args: String::new(),
        }
    }

    /// The rows in hand.
    pub(super) fn take(&mut self) -> Result<Batches> {
        spool::take(&mut self.rows)
    }

    /// What was collected.
    pub(super) fn outcome(
        mut self,
        consumed: usize,
        last_end: usize,
        end: RunEnd,
    ) -> Result<Outcome> {
        let (batches, halves) = (self.take()?, self.halves.take()?);
        Ok(Outcome {
            batches,
            halves,
            steps: self.steps,
            log: self.log,
            totals: self.totals,
            launches: self.launches,
            elements: self.ordinal,
            consumed,
            last_end,
            end,
        })
    }

    pub(super) fn skip(&mut self, code: &'static str, offset: u64, message: &str) {
        self.totals.skipped += 1;
        self.log.add(Severity::Loss, code, Some(offset), || message.to_owned());
    }

    /// Takes one element of the list.
    fn event(&mut self, e: &Event<'_>, offset: u64) {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        if !e.raw.starts_with('{') {
            self.skip("event-no-object", offset, "an element of the list is no object; left out");
            return;
        }
        let phase = match e.ph.map(str::as_bytes) {
            Some([b'"', phase, b'"']) => *phase,
            _ => {
                self.skip("phase-missing", offset, "an event without a phase (`ph`); left out");
                return;
            }
        };
        self.totals.typed = true;
        match phase {
            b'B' | b'E' => self.half(e, phase == b'B', ordinal, offset),
            b's' | b't' | b'f' => self.flow(e, phase, offset),
            b'M' => self.meta(e, offset),
            b'C' => self.counter(e, offset),
            _ => self.slice(e, phase, ordinal, offset),
        }
    }

    /// The name of an event; None with a finding.
    fn name<'a>(&mut self, e: &Event<'a>, offset: u64) -> Option<Cow<'a, str>> {
        let name = e.name.and_then(json::text);
        if name.is_none() {
            self.skip(
                "name-invalid",
                offset,
                "an event whose name is missing or no text; left out",
            );
        }
        name
    }

    /// The recorded time, with the base where it is known; None with a finding.
    fn time(&mut self, raw: Option<&str>, offset: u64) -> Option<i64> {
        let recorded = raw
            .and_then(|raw| micros_to_nanos(raw.as_bytes()))
            .filter(|ts| (-MAX_NS..MAX_NS).contains(ts));
        let with_base = match recorded {
            Some(ts) if ts < EPOCH_FROM_NS => ts.checked_add(self.base_ns),
            other => other,
        };
        if with_base.is_none() {
            self.skip("ts-missing", offset, "an event without a usable time (`ts`); left out");
        } else if raw.is_some_and(|raw| raw.starts_with('"')) {
            self.log.add(Severity::Info, "number-as-text", Some(offset), || {
                "times stand in quotes; their digits were read".to_owned()
            });
        }
        with_base
    }

    /// A slice or an instant.
    fn slice(&mut self, e: &Event<'_>, phase: u8, ordinal: u64, offset: u64) {
        let Some(ts) = self.time(e.ts, offset) else { return };
        let dur = if phase == b'X' { self.duration(e.dur, ts, offset) } else { None };
        self.row(e, phase, ts, dur, ordinal, offset);
    }

    /// A usable duration; None with a finding otherwise.
    fn duration(&mut self, raw: Option<&str>, ts: i64, offset: u64) -> Option<i64> {
        let dur = raw
            .and_then(|raw| micros_to_nanos(raw.as_bytes()))
            .filter(|d| (0..MAX_NS).contains(d) && ts.checked_add(*d).is_some());
        if dur.is_none() {
            self.log.add(Severity::Loss, "dur-invalid", Some(offset), || {
                "a slice without a usable duration (missing, negative or no number); its duration is NULL"
                    .to_owned()
            });
        }
        dur
    }

    /// Writes the row of a slice or instant.
    pub(super) fn row(
        &mut self,
        e: &Event<'_>,
        phase: u8,
        ts: i64,
        dur: Option<i64>,
        ordinal: u64,
        offset: u64,
    ) {
        let Some(name) = self.name(e, offset) else { return };
        let category = e.cat.and_then(json::text);
        let category_text = category.as_deref().unwrap_or("");
        let target = match phase {
            b'X' | b'B' => target(category_text, &name, &e.arguments),
            // Instants are of no class; the unknown neither.
            _ => Target::Host("other"),
        };
        self.totals.events += 1;
        widen(&mut self.totals.span_ns, ts, ts + dur.unwrap_or(0));
        let event_id = ordinal as i64;
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        let mut taken = self.arguments(e, target, offset, &mut args);
        fields(e, phase, &mut args);
        let [pid, tid] = thread(e, target, &mut taken, &mut args);
        if !args.is_empty() {
            args.push('}');
        }
        let args_text = Some(args.as_str()).filter(|a| !a.is_empty());
        match target {
            Target::Device(class) => {
                let row = DeviceEvent {
                    event_id,
                    class,
                    category: category.as_deref(),
                    name: Some(&name),
                    ts_ns: ts,
                    dur_ns: dur,
                    args: args_text,
                    ..taken.device_event()
                };
                self.device_event(e, &row);
            }
            Target::Host(class) => {
                let row = HostEvent {
                    source: "kineto",
                    event_id,
                    class,
                    category: category.as_deref(),
                    name: Some(&name),
                    ts_ns: Some(ts),
                    dur_ns: dur,
                    pid,
                    tid,
                    device: taken.device,
                    stream: taken.stream,
                    correlation: taken.correlation,
                    external_id: taken.external_id,
                    args: args_text,
                };
                self.host_event(e, &row, &name, ts);
            }
        }
        self.args = args;
        if phase != b'X' && (category_text == "cpu_instant_event" || name == "[memory]") {
            self.memory_counters(e, &name, ts);
        }
    }

    /// The arguments that have a column; the others are written into `args`.
    fn arguments(
        &mut self,
        e: &Event<'_>,
        target: Target,
        offset: u64,
        args: &mut String,
    ) -> Taken {
        let mut taken = Taken::default();
        if e.depth.max(e.other_depth) > MAX_ARGS_DEPTH {
            self.log.add(Severity::Info, "args-too-deep", Some(offset), || {
                format!("events of more than {MAX_ARGS_DEPTH} levels; the deeper part kept as text")
            });
        }
        match e.args {
            Some(raw) if e.depth > MAX_ARGS_DEPTH => member(args, "$text", &as_text(raw)),
            Some(raw) if !raw.starts_with('{') && raw != "null" => member(args, "$args", raw),
            _ => {
                let columns = match target {
                    Target::Device(_) => Columns::Device,
                    Target::Host("device_annotation") => Columns::Annotation,
                    Target::Host(_) => Columns::Host,
                };
                for (key, value) in &e.arguments {
                    if !taken.take(columns, key, value) {
                        member(args, key, value);
                    }
                }
            }
        }
        taken
    }

    /// Writes the row of a device event.
    fn device_event(&mut self, e: &Event<'_>, row: &DeviceEvent<'_>) {
        if row.class == "comm" {
            comm_args::add(&mut self.rows[COMM_ARGS], row.event_id, &e.arguments);
        }
        self.totals.count_device(row.class);
        self.totals.device = self.totals.device.or(row.device);
        if let Some(correlation) = row.correlation {
            self.launches.devices.push([correlation, row.event_id, row.ts_ns]);
        }
        row.push(&mut self.rows[DEVICE]);
    }

    /// Writes the row of a host event, whose name and time these are.
    fn host_event(&mut self, e: &Event<'_>, row: &HostEvent<'_>, name: &str, ts: i64) {
        match row.class {
            "host_op" => self.totals.op_pid = self.totals.op_pid.or(row.pid),
            "host_annotation" | "host_runtime" | "python" => {
                self.totals.host_pid = self.totals.host_pid.or(row.pid);
            }
            _ => {}
        }
        if name == "record_param_comms" {
            comm_args::add(&mut self.rows[COMM_ARGS], row.event_id, &e.arguments);
        }
        self.takes_part(row, name, ts);
        if let ("host_annotation", Some(patterns), Some(dur)) =
            (row.class, self.patterns, row.dur_ns)
            && let Some((pattern, step)) = patterns.find(name)
        {
            self.steps.push([pattern, ts, -(ts + dur), row.event_id, step]);
        }
        row.push(&mut self.rows[HOST]);
    }

    /// Notes what a host event is to the launches.
    fn takes_part(&mut self, row: &HostEvent<'_>, name: &str, ts: i64) {
        if row.class == "host_runtime" {
            if let Some(correlation) = row.correlation {
                let [pid, tid] = [row.pid, row.tid].map(|id| id.unwrap_or(NONE));
                let length = row.dur_ns.unwrap_or(NONE);
                self.launches.calls.push([correlation, length, row.event_id, pid, tid, ts]);
            }
            return;
        }
        let Some(kind) = launches::kind(row.class, name) else { return };
        if let (Some(pid), Some(tid), Some(dur)) = (row.pid, row.tid, row.dur_ns) {
            self.launches.around.push([pid, tid, ts, ts + dur, row.event_id, kind]);
        }
    }

    /// The samples of a `[memory]` instant: signed bytes of this event, and the allocator's totals.
    /// The bytes of `[OutOfMemory]` were asked for and not given: it has totals alone.
    fn memory_counters(&mut self, e: &Event<'_>, event: &str, ts: i64) {
        let find = |key: &str| e.arguments.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        // Device Type 0 is the CPU, whose id is -1 (c10::DeviceType).
        let device = find("Device Id").and_then(json::integer).filter(|d| *d >= 0);
        for (key, name) in [
            ("Bytes", "memory.bytes"),
            ("Total Allocated", "memory.total_allocated"),
            ("Total Reserved", "memory.total_reserved"),
        ] {
            let value = find(key).and_then(|v| v.parse::<f64>().ok());
            let is_given = event != "[OutOfMemory]" || key != "Bytes";
            if value.is_some() && is_given {
                Counter { ts_ns: ts, name, device, value, unit: Some("bytes") }
                    .push(&mut self.rows[COUNTERS]);
            }
        }
    }

    /// A counter event (`C`): one row per numeric argument.
    fn counter(&mut self, e: &Event<'_>, offset: u64) {
        let Some(ts) = self.time(e.ts, offset) else { return };
        let Some(name) = self.name(e, offset) else { return };
        for (key, value) in &e.arguments {
            match value.parse::<f64>() {
                Ok(value) => {
                    let name = format!("{name}.{}", json::unescape(key));
                    let value = Some(value);
                    Counter { ts_ns: ts, name: &name, value, ..Counter::default() }
                        .push(&mut self.rows[COUNTERS]);
                }
                Err(_) => self.log.add(Severity::Loss, "counter-invalid", Some(offset), || {
                    "a counter whose value is no number; left out".to_owned()
                }),
            }
        }
    }

    /// An end of an arrow.
    fn flow(&mut self, e: &Event<'_>, phase: u8, offset: u64) {
        let Some(ts) = self.time(e.ts, offset) else { return };
        let id = e.id.and_then(|raw| {
            json::integer(raw).or_else(|| {
                let text = json::text(raw)?;
                i64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
            })
        });
        if id.is_none() {
            self.skip("flow-id", offset, "an arrow whose id is no integer; left out");
            return;
        }
        let phase = match phase {
            b's' => "s",
            b't' => "t",
            _ => "f",
        };
        Flow {
            kind: e.cat.and_then(json::text).as_deref(),
            flow_id: id,
            phase,
            ts_ns: ts,
            pid: e.pid.and_then(json::integer),
            tid: thread_or_stream(e),
            name: e.name.and_then(json::text).as_deref(),
        }
        .push(&mut self.rows[FLOWS]);
    }

    /// Names and labels of processes and threads (`M`).
    fn meta(&mut self, e: &Event<'_>, offset: u64) {
        let Some(name) = self.name(e, offset) else { return };
        let plain = |raw: Option<&str>| -> String {
            let raw = raw.unwrap_or_default();
            json::text(raw).map_or_else(|| raw.to_owned(), Cow::into_owned)
        };
        let mut key = format!("{name}:{}", plain(e.pid));
        if name.starts_with("thread") {
            key = format!("{key}:{}", plain(e.tid));
        }
        let value = match e.arguments[..] {
            [(_, value)] => plain(Some(value)),
            _ => plain(e.args),
        };
        self.totals.is_xla |= name == "process_name"
            && (value.starts_with("/host:") || value.starts_with("/device:"));
        Metadata { key: &key, value: &value }.push(&mut self.rows[METADATA]);
    }

    /// Half of a pair; joined when the file ends, because files are not sorted by time.
    fn half(&mut self, e: &Event<'_>, begin: bool, ordinal: u64, offset: u64) {
        let Some(ts) = self.time(e.ts, offset) else { return };
        let text = |raw: Option<&str>| {
            let raw = raw.unwrap_or_default();
            json::text(raw).map_or_else(|| raw.to_owned(), Cow::into_owned)
        };
        let (pid, tid) = (text(e.pid), text(e.tid));
        Half {
            pid: &pid,
            tid: &tid,
            ts_ns: ts,
            begins: begin.into(),
            event_id: ordinal as i64,
            offset: i64::try_from(offset).ok(),
            event: e.raw,
        }
        .push(&mut self.halves);
    }
}

/// A value as a text of JSON.
fn as_text(raw: &str) -> String {
    serde_json::json!(raw).to_string()
}

/// Writes a member of an event that has no column into its arguments.
fn field(e: &Event<'_>, key: &str, raw: &str, args: &mut String) {
    match e.other_depth > MAX_ARGS_DEPTH {
        true => member(args, &format!("${key}"), &as_text(raw)),
        false => member(args, &format!("${key}"), raw),
    }
}

/// Writes the members of an event that have no column into its arguments.
fn fields(e: &Event<'_>, phase: u8, args: &mut String) {
    if !matches!(phase, b'X' | b'B' | b'i' | b'I' | b'R') {
        // How an instant was written; the usual letters say nothing.
        member(args, "$ph", e.ph.unwrap_or_default());
    }
    if let Some(id) = e.id {
        field(e, "id", id, args);
    }
    for (key, value) in &e.extra {
        field(e, key, value, args);
    }
}

/// The thread of an event, or the stream (2020 and 2021: "stream 7").
fn thread_or_stream(e: &Event<'_>) -> Option<i64> {
    let of_text = || json::integer(json::text(e.tid?)?.strip_prefix("stream ")?);
    e.tid.and_then(json::integer).or_else(of_text)
}

/// Process and thread of an event; on a device they are device and stream, where no argument says
/// these. What the columns do not say of them is written into the arguments.
fn thread(e: &Event<'_>, target: Target, taken: &mut Taken, args: &mut String) -> [Option<i64>; 2] {
    let [pid, tid] = [e.pid, e.tid].map(|id| id.and_then(json::integer));
    let stream = thread_or_stream(e);
    let on_device = matches!(target, Target::Device(_));
    if on_device || target == Target::Host("device_annotation") {
        taken.device = taken.device.or(pid);
        taken.stream = taken.stream.or(stream).filter(is_stream);
    }
    let (pid_said, tid_said) = if on_device {
        (pid == taken.device && pid.is_some(), stream == taken.stream && stream.is_some())
    } else {
        (pid.is_some(), tid.is_some())
    };
    if let (Some(raw), false) = (e.pid, pid_said) {
        field(e, "pid", raw, args);
    }
    if let (Some(raw), false) = (e.tid, tid_said) {
        field(e, "tid", raw, args);
    }
    [pid, tid]
}

/// Appends `"key":value` to an object that is being written.
fn member(args: &mut String, key: &str, value: &str) {
    args.push(if args.is_empty() { '{' } else { ',' });
    args.push('"');
    args.push_str(key);
    args.push_str("\":");
    args.push_str(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_its_bytes_do_or_cannot_go_on() {
        let event = b"{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1},";
        let end = |rest: &[u8]| {
            let outcome = read(&[event, rest].concat(), 0, 0, None).expect("rows fit");
            (outcome.end, outcome.consumed)
        };
        let at = event.len();
        assert_eq!(end(b""), (RunEnd::More, at));
        assert_eq!(end(b"]"), (RunEnd::Closed, at));
        assert_eq!(end(b"{\"ph\""), (RunEnd::More, at));
        // What is wrong is so near the end, too.
        assert_eq!(end(b"?"), (RunEnd::Invalid(at), at));
        // A character that is cut may go on; a whole one cannot stand there.
        assert_eq!(end(b"\xf0\x9f\x98"), (RunEnd::More, at));
        assert_eq!(end(b"\xf0\x9f\x98\x80"), (RunEnd::Invalid(at), at));
    }
}
