//! A run of events into rows: slices, instants, halves of pairs, arrows, counters, names.

use std::borrow::Cow;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::input::json::{self, Scanner, Stop};
use crate::input::time::{EPOCH_FROM_NS, MAX_NS, micros_to_nanos};
use crate::readers::document::note_mended;
use crate::readers::kineto::classify::{
    Columns, STREAM, Target, take_double, take_int, take_triple, target,
};
use crate::readers::kineto::comm_args;
use crate::readers::kineto::event::Event;
use crate::readers::log::{Log, Severity};
use crate::schema::{Column, Made, Table, Type};
use crate::spool::launches::{self, NONE, Parts};
use crate::spool::rows::Rows;
use crate::spool::steps::{Candidate, StepPatterns};
use crate::spool::totals::{Totals, widen};
use crate::spool::{self, Batches, COMM_ARGS, COUNTERS, DEVICE, FLOWS, HOST, METADATA};

/// Halves of `B`/`E` pairs, until the file ends.
pub(super) static HALVES: Table = Table {
    name: "halves",
    doc: "half of a pair",
    made: Made::Ingest,
    by_rank: false,
    columns: &[
        half("pid", Type::Text, "Process as recorded."),
        half("tid", Type::Text, "Thread as recorded."),
        half("ts_ns", Type::Int, "Time."),
        half("begins", Type::Int, "1 for a begin; at one time, ends come first."),
        half("event_id", Type::Int, "Place in the file."),
        half("offset", Type::Int, "Byte of the file."),
        half("event", Type::Text, "The event as recorded."),
    ],
};

const fn half(name: &'static str, ty: Type, doc: &'static str) -> Column {
    Column { name, ty, doc }
}

/// Deepest nesting of arguments that is stored as JSON; deeper ones are stored as text, because
/// engines recurse over JSON.
const MAX_ARGS_DEPTH: usize = 200;

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
        let strict = match at - text_at < text.len() {
            true => event.scan(&mut scanner, text, at - text_at),
            false => Err(Stop::Incomplete),
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
                    Err(Stop::Invalid(i)) if bytes[i] >= 0x80 && i + 4 > bytes.len() => {
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
        let end = ts + dur.unwrap_or(0);
        widen(&mut self.totals.span_ns, ts, end);
        let event_id = Some(ordinal as i64);
        let mut ints = [None; 8];
        let mut doubles = [None; 3];
        let mut grid = [None; 6];
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        match e.args {
            Some(raw) if e.depth > MAX_ARGS_DEPTH => {
                self.log.add(Severity::Info, "args-too-deep", Some(offset), || {
                    format!(
                        "arguments nested deeper than {MAX_ARGS_DEPTH}; kept as text under `$text`"
                    )
                });
                member(&mut args, "$text", &serde_json::json!(raw).to_string());
            }
            Some(raw) if !raw.starts_with('{') && raw != "null" => {
                member(&mut args, "$args", raw);
            }
            _ => {
                let columns = match target {
                    Target::Device(_) => Columns::Device,
                    Target::Host("device_annotation") => Columns::Annotation,
                    Target::Host(_) => Columns::Host,
                };
                for (key, value) in &e.arguments {
                    let taken = take_int(columns, key, value, &mut ints)
                        || columns == Columns::Device
                            && (take_double(key, value, &mut doubles)
                                || (*key == "grid" && take_triple(value, &mut grid[..3]))
                                || (*key == "block" && take_triple(value, &mut grid[3..])));
                    if !taken {
                        member(&mut args, key, value);
                    }
                }
            }
        }
        if !matches!(phase, b'X' | b'B' | b'i' | b'I' | b'R') {
            // How an instant was written; the usual letters say nothing.
            member(&mut args, "$ph", e.ph.unwrap_or_default());
        }
        if let Some(id) = e.id {
            member(&mut args, "$id", id);
        }
        for (key, value) in &e.extra {
            member(&mut args, &format!("${key}"), value);
        }
        let pid = e.pid.and_then(json::integer);
        let tid = e.tid.and_then(json::integer);
        let stream_of_tid = tid.or_else(|| {
            // 2020 and 2021: "stream 7".
            json::integer(json::text(e.tid?)?.strip_prefix("stream ")?)
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
            member(&mut args, "$pid", raw);
        }
        if let (Some(raw), false) = (e.tid, tid_said) {
            member(&mut args, "$tid", raw);
        }
        if !args.is_empty() {
            args.push('}');
        }
        let args_text = Some(args.as_str()).filter(|a| !a.is_empty());
        match target {
            Target::Device(class) => {
                if class == "comm" {
                    comm_args::add(&mut self.rows[COMM_ARGS], event_id, &e.arguments);
                }
                self.totals.device_events += 1;
                self.totals.device = self.totals.device.or(ints[0]);
                widen(&mut self.totals.device_span_ns, ts, end);
                if let Some(correlation) = ints[3] {
                    self.launches.devices.push([correlation, ordinal as i64, ts]);
                }
                let w = &mut self.rows[DEVICE];
                w.int(event_id).text(Some(class)).text(category.as_deref()).text(Some(&name));
                w.int(Some(ts)).int(dur).nulls(2);
                ints[..6].iter().for_each(|value| _ = w.int(*value));
                w.nulls(5);
                grid.iter().for_each(|value| _ = w.int(*value));
                w.int(ints[6]).int(ints[7]);
                doubles.iter().for_each(|value| _ = w.double(*value));
                w.text(args_text).end_row();
            }
            Target::Host(class) => {
                match class {
                    "host_op" => self.totals.op_pid = self.totals.op_pid.or(pid),
                    "host_annotation" | "host_runtime" | "python" => {
                        self.totals.host_pid = self.totals.host_pid.or(pid);
                    }
                    _ => {}
                }
                if name == "record_param_comms" {
                    comm_args::add(&mut self.rows[COMM_ARGS], event_id, &e.arguments);
                }
                self.takes_part(class, &name, ints[3], [pid, tid], ts, dur, ordinal as i64);
                if let ("host_annotation", Some(patterns), Some(_)) = (class, self.patterns, dur)
                    && let Some((pattern, step)) = patterns.find(&name)
                {
                    self.steps.push([pattern, ts, -end, ordinal as i64, step]);
                }
                let w = &mut self.rows[HOST];
                w.text(Some("kineto")).int(event_id).text(Some(class));
                w.text(category.as_deref()).text(Some(&name)).int(Some(ts)).int(dur);
                w.int(pid).int(tid).int(ints[0]).int(ints[1]).int(ints[3]).int(ints[4]);
                w.text(args_text).end_row();
            }
        }
        self.args = args;
        if phase != b'X' && (category_text == "cpu_instant_event" || name == "[memory]") {
            self.memory_counters(e, ts);
        }
    }

    /// Notes what a host event is to the launches.
    #[expect(clippy::too_many_arguments, reason = "columns of one row, from one call site")]
    fn takes_part(
        &mut self,
        class: &str,
        name: &str,
        correlation: Option<i64>,
        thread: [Option<i64>; 2],
        ts: i64,
        dur: Option<i64>,
        event: i64,
    ) {
        if class == "host_runtime" {
            if let Some(correlation) = correlation {
                let [pid, tid] = thread.map(|id| id.unwrap_or(NONE));
                let length = dur.unwrap_or(NONE);
                self.launches.calls.push([correlation, length, event, pid, tid, ts]);
            }
            return;
        }
        let Some(kind) = launches::kind(class, name) else { return };
        if let ([Some(pid), Some(tid)], Some(dur)) = (thread, dur) {
            self.launches.around.push([pid, tid, ts, ts + dur, event, kind]);
        }
    }

    /// The samples of a `[memory]` instant: signed bytes of this event, and the allocator's totals.
    fn memory_counters(&mut self, e: &Event<'_>, ts: i64) {
        let find = |key: &str| e.arguments.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        // Device Type 0 is the CPU, whose id is -1 (c10::DeviceType).
        let device = find("Device Id").and_then(json::integer).filter(|d| *d >= 0);
        for (key, name) in [
            ("Bytes", "memory.bytes"),
            ("Total Allocated", "memory.total_allocated"),
            ("Total Reserved", "memory.total_reserved"),
        ] {
            let value = find(key).and_then(|v| v.parse::<f64>().ok());
            if value.is_some() {
                let w = &mut self.rows[COUNTERS];
                w.int(Some(ts)).text(Some(name)).int(device).double(value).text(Some("bytes"));
                w.end_row();
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
                    let w = &mut self.rows[COUNTERS];
                    w.int(Some(ts)).text(Some(&name)).nulls(1).double(Some(value)).nulls(1);
                    w.end_row();
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
        let tid = e
            .tid
            .and_then(json::integer)
            .or_else(|| json::integer(json::text(e.tid?)?.strip_prefix("stream ")?));
        let phase = match phase {
            b's' => "s",
            b't' => "t",
            _ => "f",
        };
        let w = &mut self.rows[FLOWS];
        w.text(e.cat.and_then(json::text).as_deref()).int(id).text(Some(phase)).int(Some(ts));
        w.int(e.pid.and_then(json::integer)).int(tid);
        w.text(e.name.and_then(json::text).as_deref()).end_row();
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
        let w = &mut self.rows[METADATA];
        w.text(Some(&key)).text(Some(&value)).end_row();
    }

    /// Half of a pair; joined when the file ends, because files are not sorted by time.
    fn half(&mut self, e: &Event<'_>, begin: bool, ordinal: u64, offset: u64) {
        let Some(ts) = self.time(e.ts, offset) else { return };
        let text = |raw: Option<&str>| {
            let raw = raw.unwrap_or_default();
            json::text(raw).map_or_else(|| raw.to_owned(), Cow::into_owned)
        };
        let (pid, tid) = (text(e.pid), text(e.tid));
        let w = &mut self.halves;
        w.text(Some(&pid)).text(Some(&tid)).int(Some(ts)).int(Some(begin.into()));
        w.int(Some(ordinal as i64)).int(i64::try_from(offset).ok()).text(Some(e.raw));
        w.end_row();
    }
}

/// Appends `"key":value` to an object that is being written.
fn member(args: &mut String, key: &str, value: &str) {
    args.push(if args.is_empty() { '{' } else { ',' });
    args.push('"');
    args.push_str(key);
    args.push_str("\":");
    args.push_str(value);
}
