//! Reads one Kineto (Chrome trace) JSON file: header into values, events into spooled Parquet.
//!
//! In: the bytes of one file. Out: a [`Kineto`] with the header, the findings, and spool files for
//! `device_events`, `host_events`, `flows`, `counters` and `metadata`, without the columns that are
//! known only when the whole job is (`rank`). Not here: what is one job (`discover`), the final
//! files (`assemble`).
//!
//! Traps of the format (section numbers of the format notes): the header stands before or after
//! the events, `baseTimeNanoseconds` too (1, 2), so times may have to be shifted when the file
//! ends; the same key means other things in other categories (9), so arguments become columns by
//! class; slices are not sorted by time (2); pids and tids are numbers or text (8).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::input::{End, MAX_VALUE_BYTES, Place, Window};
use super::json::{self, Members, Mended, Scanner, Stop};
use super::log::{Log, Severity};
use super::parquet::TableWriter;
use super::time::micros_to_nanos;
use crate::error::{Error, Result};
use crate::schema::table;

/// Recorded times from here on (in ns) are epoch times already: no base is added to them.
/// 10^15 microseconds is 2001; a base plus anything smaller stays far below.
pub const EPOCH_FROM_NS: i64 = 1_000_000_000_000_000_000;

/// What one file held.
#[derive(Debug, Default)]
pub struct Kineto {
    /// Header members, in order; text values without quotes.
    pub header: Vec<(String, Value)>,
    /// Findings.
    pub log: Log,
    /// Events kept: slices (pairs joined) and instants.
    pub events: u64,
    /// Events left out, each with a finding.
    pub skipped: u64,
    /// Device events among them.
    pub device_events: u64,
    /// What must still be added to `ts_ns` below [`EPOCH_FROM_NS`] in the spool files.
    pub pending_base_ns: i64,
    /// `baseTimeNanoseconds`.
    pub base_ns: Option<i64>,
    /// First start and last end over all events, base included.
    pub span_ns: Option<(i64, i64)>,
    /// First start and last end over device events, base included.
    pub device_span_ns: Option<(i64, i64)>,
    /// Process of the operators (the first that is seen), else of anything on the host.
    pub pid: Option<i64>,
    /// Device of the first device event.
    pub device: Option<i64>,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Spool file of each table that has rows.
    pub spool: BTreeMap<&'static str, PathBuf>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Content {
    /// A trace.
    Trace(Box<Kineto>),
    /// Readable, and no Kineto trace: what it is.
    Other(&'static str, String),
}

/// Reads the file at `place` from `reader` into spool files under `spool`.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid`, `value-too-large` with the offset in the
/// uncompressed file; `io` when the spool cannot be written. With `keep_partial`, the first three
/// become findings once a complete event was read.
pub fn read(
    place: &Place,
    reader: Box<dyn std::io::Read + Send>,
    spool: &Path,
    source_id: i64,
    keep_partial: bool,
) -> Result<Content> {
    let mut file = Reader {
        window: Window::new(reader),
        scanner: Scanner::default(),
        mended: Vec::new(),
        events: Events::new(spool, source_id),
    };
    let outcome = file.run();
    let bytes = file.window.offset + file.window.bytes().len() as u64;
    let mut events = file.events;
    match outcome {
        Ok(None) => {}
        Ok(Some(other)) => return Ok(Content::Other("not-a-trace", other)),
        Err(error) => {
            let error = error.at_event(place, events.ordinal);
            // Nothing is kept of a file without one complete event, or with a monster in it.
            let keepable = events.ordinal > 0
                && matches!(error.code, "trace-truncated" | "gzip-broken" | "json-invalid");
            if !(keepable && keep_partial) {
                return Err(if keepable {
                    error.hint(
                        "export the trace again, or keep the complete events with --keep-partial",
                    )
                } else {
                    error.hint("export the trace again")
                });
            }
            let lost = bytes - events.last_end;
            let message = format!(
                "{}; kept {} complete events, lost the {lost} bytes after byte {}",
                error.message, events.ordinal, events.last_end
            );
            events.out.log.add(Severity::Error, error.code, Some(events.last_end), || message);
        }
    }
    if let Some(what) = events.not_kineto.take() {
        return Ok(Content::Other("source-unsupported", what));
    }
    if !events.typed && events.ordinal > 0 {
        return Ok(Content::Other(
            "not-a-trace",
            "JSON array of records without a phase (`ph`): no Chrome trace".to_owned(),
        ));
    }
    let mut out = events.finish()?;
    out.bytes = bytes;
    Ok(Content::Trace(Box::new(out)))
}

/// An error before its place is known.
struct Fault {
    code: &'static str,
    message: String,
    offset: u64,
}

impl Fault {
    fn at_event(self, place: &Place, ordinal: u64) -> Error {
        let mut at = format!("{}, byte {}", place.display(), self.offset);
        if ordinal > 0 {
            at.push_str(&format!(", event {} ({ordinal} complete events before it)", ordinal + 1));
        }
        Error::new(self.code, self.message).at(at)
    }
}

enum Failure {
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    fn at_event(self, place: &Place, ordinal: u64) -> Error {
        match self {
            Self::Fault(fault) => fault.at_event(place, ordinal),
            Self::Error(error) => error,
        }
    }
}

struct Reader {
    window: Window,
    scanner: Scanner,
    /// Strict form of the current value, when the file's own is not strict.
    mended: Vec<u8>,
    events: Events,
}

/// The value at the front of the window: its length there, and whether `Reader::mended` holds its
/// strict form.
struct Found {
    length: usize,
    mended: Option<Mended>,
}

impl Reader {
    fn fault<T>(
        &self,
        code: &'static str,
        message: impl Into<String>,
        at: usize,
    ) -> Result<T, Failure> {
        let offset = self.window.offset + at as u64;
        Err(Failure::Fault(Fault { code, message: message.into(), offset }))
    }

    /// The file ends where it must not.
    fn ended<T>(&self, inside: &str) -> Result<T, Failure> {
        let at = self.window.bytes().len();
        match self.window.end() {
            Some(End::Broken(why)) => {
                self.fault("gzip-broken", format!("the file cannot be read on: {why}"), at)
            }
            Some(End::Truncated) => self.fault(
                "trace-truncated",
                format!("the compressed file ends early, inside {inside}"),
                at,
            ),
            _ => self.fault("trace-truncated", format!("the trace ends inside {inside}"), at),
        }
    }

    /// Finds the value at the front of the window, reading on as needed.
    fn value(&mut self, inside: &str) -> Result<Found, Failure> {
        loop {
            let bytes = self.window.bytes();
            match self.scanner.skip(bytes, 0) {
                Ok(length) if std::str::from_utf8(&bytes[..length]).is_ok() => {
                    return Ok(Found { length, mended: None });
                }
                Err(Stop::Incomplete) => {}
                Ok(_) | Err(Stop::Invalid(_)) => {
                    self.mended.clear();
                    match self.scanner.mend(bytes, 0, &mut self.mended) {
                        Ok((length, mended)) => {
                            return Ok(Found { length, mended: Some(mended) });
                        }
                        Err(Stop::Incomplete) => {}
                        // A file cut inside a character: the cut is the fault, not the byte.
                        Err(Stop::Invalid(at)) if bytes[at] >= 0x80 && at + 4 > bytes.len() => {}
                        Err(Stop::Invalid(at)) => {
                            return self.fault(
                                "json-invalid",
                                format!("byte {:?} cannot stand there in JSON", bytes[at] as char),
                                at,
                            );
                        }
                    }
                }
            }
            if bytes.len() > MAX_VALUE_BYTES {
                return self.fault(
                    "value-too-large",
                    format!("one value is larger than {} MiB", MAX_VALUE_BYTES >> 20),
                    0,
                );
            }
            if !self.window.fill() {
                // A bare number or word may end with the file.
                if matches!(self.window.end(), Some(End::Regular))
                    && !matches!(self.window.bytes().first(), None | Some(b'{' | b'[' | b'"'))
                {
                    let length = self.window.bytes().len();
                    return Ok(Found { length, mended: None });
                }
                return self.ended(inside);
            }
        }
    }

    /// The whole file; `Some(what)` when it is readable and no Chrome trace.
    fn run(&mut self) -> Result<Option<String>, Failure> {
        // A pipe or a gzip member may give the first bytes one by one.
        while self.window.bytes().len() < HEAD_BYTES && self.window.fill() {}
        if self.window.bytes().starts_with(&[0xEF, 0xBB, 0xBF]) {
            self.window.consume(3);
        }
        match self.window.peek() {
            None if matches!(self.window.end(), Some(End::Regular)) => {
                return self.fault("trace-truncated", "the file is empty", 0);
            }
            None => return self.ended("the first value"),
            Some(b'{') => {
                self.window.consume(1);
                if let Some(other) = self.object()? {
                    return Ok(Some(other));
                }
            }
            Some(b'[') => {
                self.events.log().add(Severity::Info, "top-level-array", Some(0), || {
                    "the file is a bare array of events: no header, so no rank, no device, and no \
                     base of the clock"
                        .to_owned()
                });
                self.array()?;
            }
            Some(_) => return Ok(Some(describe(self.window.bytes()))),
        }
        if self.window.peek().is_some() {
            let offset = self.window.offset;
            self.events.log().add(Severity::Loss, "trailing-data", Some(offset), || {
                "there are bytes after the end of the trace; they were left out".to_owned()
            });
        }
        match self.window.end() {
            Some(End::Broken(_) | End::Truncated) => self.ended("the end of the compressed file"),
            _ => Ok(None),
        }
    }

    fn object(&mut self) -> Result<Option<String>, Failure> {
        let mut has_events = false;
        let mut keys = Vec::new();
        loop {
            match self.window.peek() {
                Some(b'}') => {
                    self.window.consume(1);
                    break;
                }
                Some(b',') => self.window.consume(1),
                Some(b'"') => {
                    let offset = self.window.offset;
                    let found = self.value("a key of the header")?;
                    let key = self.take(&found, |raw| {
                        json::text(raw).map(std::borrow::Cow::into_owned).unwrap_or_default()
                    });
                    self.note(&found, offset);
                    if self.window.peek() != Some(b':') {
                        return match self.window.peek() {
                            None => self.ended("the header"),
                            Some(_) => self.fault("json-invalid", "a colon is missing", 0),
                        };
                    }
                    self.window.consume(1);
                    let first = self.window.peek();
                    if key == "traceEvents" && first == Some(b'[') {
                        has_events = true;
                        self.array()?;
                        continue;
                    }
                    if key == "nodes" && !has_events && first == Some(b'[') {
                        return Ok(Some("an execution trace (top-level `nodes`)".to_owned()));
                    }
                    let offset = self.window.offset;
                    let found = self.value("the header")?;
                    let value = self.take(&found, |raw| {
                        serde_json::from_slice(raw).unwrap_or_else(|_| {
                            Value::String(String::from_utf8_lossy(raw).into_owned())
                        })
                    });
                    self.note(&found, offset);
                    if keys.len() < 8 {
                        keys.push(key.clone());
                    }
                    if key == "metadata" && value.get("highres-ticks").is_some() {
                        return Ok(Some("an XLA trace (`highres-ticks`)".to_owned()));
                    }
                    self.events.header(key, value);
                }
                Some(other) => {
                    return self.fault(
                        "json-invalid",
                        format!("byte {:?} cannot stand there in JSON", other as char),
                        0,
                    );
                }
                None => return self.ended("the header"),
            }
        }
        if has_events {
            return Ok(None);
        }
        keys.sort();
        Ok(Some(format!("JSON without `traceEvents` (its keys: {})", keys.join(", "))))
    }

    /// Runs `body` on the strict form of a found value and consumes it.
    fn take<T>(&mut self, found: &Found, body: impl FnOnce(&[u8]) -> T) -> T {
        let out = match found.mended {
            Some(_) => body(&self.mended),
            None => {
                let bytes = &self.window.bytes()[..found.length];
                body(&bytes[json::skip_space(bytes, 0)..])
            }
        };
        self.window.consume(found.length);
        out
    }

    fn note(&mut self, found: &Found, offset: u64) {
        if let Some(mended) = found.mended {
            self.events.note_mended(mended, offset);
        }
    }

    fn array(&mut self) -> Result<(), Failure> {
        self.window.consume(1);
        loop {
            match self.window.peek() {
                Some(b']') => {
                    self.window.consume(1);
                    return Ok(());
                }
                Some(b',') => self.window.consume(1),
                Some(_) => {
                    let offset = self.window.offset;
                    let found = self.value("an event")?;
                    self.note(&found, offset);
                    let raw = match found.mended {
                        Some(_) => &self.mended[..],
                        None => &self.window.bytes()[..found.length],
                    };
                    self.events.event(raw, offset, self.scanner.depth)?;
                    self.window.consume(found.length);
                    self.events.last_end = self.window.offset;
                }
                None => return self.ended("the list of events"),
            }
        }
    }
}

/// Bytes that tell what a file is.
const HEAD_BYTES: usize = 200;

/// What a file that does not start like JSON is.
fn describe(bytes: &[u8]) -> String {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_lowercase();
    if head.starts_with("version https://git-lfs") {
        "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`".to_owned()
    } else if head.starts_with('<') {
        "an HTML or XML page; the download gave a page in place of the file".to_owned()
    } else {
        "no JSON".to_owned()
    }
}

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

/// Where a slice or instant goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Device(&'static str),
    Host(&'static str),
}

/// Deepest nesting of arguments that is stored as JSON; deeper ones are stored as text, because
/// engines recurse over JSON.
const MAX_ARGS_DEPTH: usize = 200;

/// Kernels of communication, by name (the part of the rule that needs no arguments).
///
/// Sources: NCCL and RCCL kernel names; vLLM `cross_device_reduce`, TensorRT-LLM and FlashInfer
/// `allreduce_fusion`, PyTorch symmetric memory `one_shot_all_reduce` and kin, MSCCL++, DeepEP,
/// pplx-kernels `dispatchKernel` and `combineKernel`.
pub fn is_comm_kernel(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.starts_with("nccl")
        || lower.starts_with("rccl")
        || [
            "nccldevkernel",
            "ncclkernel",
            "rcclgenerickernel",
            "cross_device_reduce",
            "allreduce_fusion",
            "one_shot_all_reduce",
            "two_shot_all_reduce",
            "multimem_all_reduce",
            "mscclpp",
            "deep_ep::",
            "pplx::",
        ]
        .iter()
        .any(|part| lower.contains(part))
}

/// Class of a category; `Operator` is split by name in [`Events::target`].
fn target(category: &str, name: &str, args: Option<&[u8]>) -> Target {
    match category {
        "kernel" | "Kernel" => {
            let named =
                || args.is_some_and(|a| Members::new(a).any(|(k, _)| k == b"Collective name"));
            if name.contains("__amd_rocclr_fillBuffer") {
                Target::Device("set")
            } else if name.contains("__amd_rocclr_copyBuffer") {
                Target::Device("copy")
            } else if is_comm_kernel(name) || named() {
                Target::Device("comm")
            } else {
                Target::Device("compute")
            }
        }
        "gpu_memcpy" | "Memcpy" => Target::Device("copy"),
        "gpu_memset" | "Memset" => Target::Device("set"),
        "mtia_ccp_events" => Target::Device(match name {
            "dma_request" => "copy",
            "pe_exe" => "compute",
            _ => "other",
        }),
        "gpu_user_annotation" | "cuda_sync" => Target::Host("device_annotation"),
        "cuda_runtime"
        | "cuda_driver"
        | "mtia_runtime"
        | "xpu_runtime"
        | "xpu_driver"
        | "privateuse1_runtime"
        | "privateuse1_driver"
        | "Runtime" => Target::Host("host_runtime"),
        "cpu_op" => Target::Host("host_op"),
        "Operator" => {
            let marker = name.starts_with("ProfilerStep#")
                || name.starts_with("Optimizer.")
                || name.starts_with("enumerate(DataLoader)");
            Target::Host(if marker { "host_annotation" } else { "host_op" })
        }
        "user_annotation" => Target::Host("host_annotation"),
        "python_function" => Target::Host("python"),
        _ => Target::Host("other"),
    }
}

/// Place of the stream among the integers.
const STREAM: usize = 1;

/// Arguments of a device event that have a column of integers.
const DEVICE_INTS: [(&[u8], usize); 9] = [
    (b"device", 0),
    (b"stream", STREAM),
    (b"context", 2),
    (b"correlation", 3),
    (b"External id", 4),
    (b"external id", 4),
    (b"bytes", 5),
    (b"registers per thread", 6),
    (b"shared memory", 7),
];
/// Arguments of a device event that have a column of doubles.
const DEVICE_DOUBLES: [(&[u8], usize); 3] =
    [(b"blocks per SM", 0), (b"warps per SM", 1), (b"est. achieved occupancy %", 2)];
/// Arguments of a host event that have a column; device and stream only of device annotations.
const HOST_INTS: [(&[u8], usize); 5] = [
    (b"correlation", 3),
    (b"External id", 4),
    (b"external id", 4),
    (b"device", 0),
    (b"stream", STREAM),
];

/// Takes the events of a file and writes their rows.
struct Events {
    out: Kineto,
    first_event_id: i64,
    ordinal: u64,
    /// Whether any event had a phase: an array of other records is no trace.
    typed: bool,
    /// Set when a process name says that another profiler wrote the file.
    not_kineto: Option<String>,
    /// Added to recorded times as rows are written (0 while the base is unknown).
    base_ns: i64,
    /// Offset after the last complete event.
    last_end: u64,
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
    fn new(spool: &Path, source_id: i64) -> Self {
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

    fn log(&mut self) -> &mut Log {
        &mut self.out.log
    }

    fn header(&mut self, key: String, value: Value) {
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

    fn note_mended(&mut self, m: Mended, offset: u64) {
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
    fn event(&mut self, raw: &[u8], offset: u64, depth: usize) -> Result<()> {
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

    fn finish(mut self) -> Result<Kineto> {
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

/// Moves an integer argument into its column; false when it has none, or is no plain integer, or
/// the column is taken (a key that comes twice).
fn take_int(
    columns: &[(&[u8], usize)],
    key: &[u8],
    value: &[u8],
    ints: &mut [Option<i64>; 8],
) -> bool {
    let Some((_, column)) = columns.iter().find(|(k, _)| *k == key) else { return false };
    if value[0] == b'"' || ints[*column].is_some() {
        return false;
    }
    // 4294967295 and -1 say "no stream": NULL in the column, and as recorded in the arguments.
    ints[*column] =
        json::integer(value).filter(|v| *column != STREAM || (0..i64::from(u32::MAX)).contains(v));
    ints[*column].is_some()
}

fn take_double(key: &[u8], value: &[u8], doubles: &mut [Option<f64>; 3]) -> bool {
    let Some((_, column)) = DEVICE_DOUBLES.iter().find(|(k, _)| *k == key) else { return false };
    let number = std::str::from_utf8(value).ok().and_then(|v| v.parse::<f64>().ok());
    match number.filter(|n| n.is_finite() && doubles[*column].is_none()) {
        Some(number) => {
            doubles[*column] = Some(number);
            true
        }
        None => false,
    }
}

fn take_triple(value: &[u8], out: &mut [Option<i64>]) -> bool {
    if value[0] != b'[' || out[0].is_some() {
        return false;
    }
    let numbers: Vec<Option<i64>> = json::elements(value).map(json::integer).collect();
    match numbers[..] {
        [Some(x), Some(y), Some(z)] => {
            out.copy_from_slice(&[Some(x), Some(y), Some(z)]);
            true
        }
        _ => false,
    }
}
