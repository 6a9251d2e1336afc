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

mod classify;
pub mod comm_args;
mod event;
mod gather;
mod halves;
pub mod header;
mod pairs;
mod part;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::input::json::{self, Found, Scanner, Stop};
use crate::input::place::Place;
use crate::input::window::{End, MAX_VALUE_BYTES, Piece, Window};
use crate::pool::Pool;
use crate::readers::document::note_mended;
use crate::readers::kineto::gather::Gather;
use crate::readers::kineto::part::{Outcome, RunEnd};
use crate::readers::log::{Log, Severity};
use crate::spool::steps::StepPatterns;
use crate::spool::totals::Totals;

/// What one file held.
#[derive(Debug, Default)]
pub struct Kineto {
    /// Header members, in order; text values without quotes.
    pub header: Vec<(String, Value)>,
    /// Findings.
    pub log: Log,
    /// Counts and spans, the base included.
    pub totals: Totals,
    /// What must still be added to `ts_ns` below [`EPOCH_FROM_NS`] in the spool files.
    pub pending_base_ns: i64,
    /// `baseTimeNanoseconds`.
    pub base_ns: Option<i64>,
    /// Uncompressed bytes of the file, those after the trace or after a fault among them.
    pub bytes: u64,
    /// Spool file of each table that has rows.
    pub spool: BTreeMap<&'static str, PathBuf>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Content {
    /// A trace.
    Trace(Box<Kineto>),
    /// A trace of XLA in the same form.
    Xla,
    /// An execution trace: it has `nodes`.
    ExecutionTrace,
    /// Readable, and no trace: what it is.
    Other(String),
}

/// How a file is to be read.
pub struct Reading<'a> {
    /// Folder for the spool files.
    pub spool: &'a Path,
    /// Number of the source, for the ids of events.
    pub source_id: i64,
    /// Whether complete events of a damaged file are kept.
    pub keep_partial: bool,
    /// Threads that share the work.
    pub pool: &'a Arc<Pool>,
    /// Bytes after which the list of events is cut: [`SEGMENT_BYTES`], or less to test the cutting.
    pub segment_bytes: usize,
    /// What marks steps beside Kineto's own marker.
    pub steps: Option<Arc<StepPatterns>>,
}

/// Bytes of a segment: enough to make the handing over cheap, few enough to keep memory small.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// Reads the file at `place` from `reader` into spool files.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid`, `value-too-large` with the offset in the
/// uncompressed file; `io` when the spool cannot be written. With `keep_partial`, the first three
/// become findings once a complete event was read.
pub fn read(
    place: &Place,
    reader: Box<dyn std::io::Read + Send>,
    reading: &Reading<'_>,
) -> Result<Content> {
    let mut file = Reader {
        window: Window::new(reader),
        scanner: Scanner::default(),
        mended: Vec::new(),
        gather: Gather::new(
            reading.spool,
            reading.source_id,
            reading.pool.clone(),
            reading.steps.clone(),
        ),
        pool: reading.pool.clone(),
        segment_bytes: reading.segment_bytes,
    };
    let outcome = file.run();
    let mut gather = file.gather;
    match outcome {
        _ if gather.totals.is_xla => return Ok(Content::Xla),
        Ok(None) => {}
        Ok(Some(other)) => return Ok(other),
        Err(error) => {
            let error = error.at_event(place, gather.elements);
            // Nothing is kept of a file without one complete event, or with a monster in it.
            let keepable = gather.elements > 0
                && matches!(error.code, "trace-truncated" | "gzip-broken" | "json-invalid");
            if !(keepable && reading.keep_partial) {
                return Err(if keepable {
                    error.hint(
                        "export the trace again, or keep the complete events with --keep-partial",
                    )
                } else if error.code == "file-unreadable" {
                    error.hint("check the disk that the file lies on")
                } else {
                    error.hint("export the trace again")
                });
            }
            let lost = file.window.drain() - gather.last_end;
            let message = format!(
                "{}; kept {} complete events, lost the {lost} bytes after byte {}",
                error.message, gather.elements, gather.last_end
            );
            gather.log.add(Severity::Error, error.code, Some(gather.last_end), || message);
        }
    }
    if !gather.totals.typed && gather.elements > 0 {
        return Ok(Content::Other(
            "JSON array of records without a phase (`ph`): no Chrome trace".to_owned(),
        ));
    }
    let mut out = gather.finish()?;
    out.bytes = file.window.drain();
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
    gather: Gather,
    pool: Arc<Pool>,
    segment_bytes: usize,
}

/// A piece of the list of events, scanned by whoever has time.
struct Segment {
    piece: Piece,
    outcome: Mutex<Option<Result<Outcome>>>,
}

impl Segment {
    fn outcome(&self) -> std::sync::MutexGuard<'_, Option<Result<Outcome>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last place after the first byte where an element seems to start: an object whose first key is
/// `key`, after a comma after an object. A guess: it may stand inside an element, which shows when
/// the bytes before it are read.
fn last_start(bytes: &[u8], key: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'{', bytes).find(|at| {
        let opens = bytes[json::skip_space(bytes, at + 1)..].starts_with(key);
        let before = |bytes: &[u8], byte| match bytes.trim_ascii_end() {
            [rest @ .., last] if *last == byte => Some(rest.len()),
            _ => None,
        };
        *at > 0
            && opens
            && before(&bytes[..*at], b',').and_then(|comma| before(&bytes[..comma], b'}')).is_some()
    })
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
            Some(End::Unreadable(why)) => {
                self.fault("file-unreadable", format!("the file cannot be read on: {why}"), at)
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
            match self.scanner.find(bytes, &mut self.mended) {
                Ok(found) => return Ok(found),
                Err(Stop::Incomplete) => {}
                Err(Stop::Invalid(at)) => {
                    return self.fault(
                        "json-invalid",
                        format!("byte {:?} cannot stand there in JSON", bytes[at] as char),
                        at,
                    );
                }
            }
            self.small_enough()?;
            if !self.window.fill() {
                return self.ended(inside);
            }
        }
    }

    /// The whole file; what it is, when it is readable and no Chrome trace.
    fn run(&mut self) -> Result<Option<Content>, Failure> {
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
                self.gather.log.add(Severity::Info, "top-level-array", Some(0), || {
                    "the file is a bare array of events: no header, so no rank, no device, and no \
                     base of the clock"
                        .to_owned()
                });
                self.array()?;
            }
            Some(_) => return Ok(Some(Content::Other(describe(self.window.bytes())))),
        }
        if self.window.peek().is_some() {
            let offset = self.window.offset;
            self.gather.log.add(Severity::Loss, "trailing-data", Some(offset), || {
                "there are bytes after the end of the trace; they were left out".to_owned()
            });
        }
        match self.window.end() {
            Some(End::Broken(_) | End::Truncated | End::Unreadable(_)) => {
                self.ended("the end of the compressed file")
            }
            _ => Ok(None),
        }
    }

    fn object(&mut self) -> Result<Option<Content>, Failure> {
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
                        let raw = std::str::from_utf8(raw).unwrap_or_default();
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
                        return Ok(Some(Content::ExecutionTrace));
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
                        self.gather.totals.is_xla = true;
                        return Ok(None);
                    }
                    self.gather.header(key, value);
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
        let keys = keys.join(", ");
        Ok(Some(Content::Other(format!("JSON without `traceEvents` (its keys: {keys})"))))
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
            note_mended(&mut self.gather.log, mended, offset);
        }
    }

    fn array(&mut self) -> Result<(), Failure> {
        self.window.consume(1);
        let mut split = true;
        loop {
            if split {
                split = self.segments()?;
            }
            let offset = self.window.offset;
            let outcome = {
                let (base_ns, steps) = (self.gather.base_ns, self.gather.steps.as_deref());
                part::read(self.window.bytes(), offset, base_ns, steps)?
            };
            let (end, consumed) = (outcome.end, outcome.consumed);
            self.gather.accept(outcome, offset)?;
            self.window.consume(consumed);
            match end {
                RunEnd::Closed => {
                    self.window.consume(1);
                    return Ok(());
                }
                RunEnd::Invalid(at) => {
                    let byte = self.window.bytes()[at - consumed] as char;
                    return self.fault(
                        "json-invalid",
                        format!("byte {byte:?} cannot stand there in JSON"),
                        at - consumed,
                    );
                }
                RunEnd::More => {
                    self.small_enough()?;
                    if !self.window.fill() {
                        let between = self.window.bytes().is_empty();
                        return self.ended(if between { "the list of events" } else { "an event" });
                    }
                }
            }
        }
    }

    /// Reads the list by segments that the threads of the pool scan, as long as there is more than
    /// one segment to come; what is left in the window goes on where they end. False when a guess of
    /// where an element starts was wrong.
    fn segments(&mut self) -> Result<bool, Failure> {
        let first = self.window.peek();
        let bytes = self.window.bytes();
        let key_at = json::skip_space(bytes, bytes.len().min(1));
        let key = match (first, bytes.get(key_at)) {
            (Some(b'{'), Some(b'"')) => match self.scanner.skip(bytes, key_at) {
                Ok(end) => bytes[key_at..end].to_vec(),
                Err(_) => return Ok(true),
            },
            _ => return Ok(true),
        };
        let mut flying: VecDeque<Arc<Segment>> = VecDeque::new();
        loop {
            while flying.len() < self.pool.threads() + 1
                && let Some(length) = self.next_start(&key)
            {
                let piece = self.window.cut(length);
                let segment = Arc::new(Segment { piece, outcome: Mutex::new(None) });
                let (task, base_ns) = (segment.clone(), self.gather.base_ns);
                let steps = self.gather.steps.clone();
                self.pool.submit(move || {
                    let piece = &task.piece;
                    *task.outcome() =
                        Some(part::read(piece.bytes(), piece.offset, base_ns, steps.as_deref()));
                });
                flying.push_back(segment);
            }
            let Some(front) = flying.pop_front() else { return Ok(true) };
            self.pool.wait(|| front.outcome().is_some());
            let outcome = front.outcome().take().expect("it was waited for")?;
            let (end, consumed) = (outcome.end, outcome.consumed);
            self.gather.accept(outcome, front.piece.offset)?;
            if end == RunEnd::More && consumed == front.piece.bytes().len() {
                if let Some(segment) = Arc::into_inner(front) {
                    self.window.recycle(segment.piece);
                }
                continue;
            }
            // The list ends in here, or something is wrong: the rest is read without guessing.
            let mut rest = front.piece.bytes()[consumed..].to_vec();
            for segment in &flying {
                rest.extend_from_slice(segment.piece.bytes());
            }
            self.window.put_back(&rest);
            self.pool.wait(|| flying.iter().all(|s| s.outcome().is_some()));
            return Ok(end == RunEnd::Closed);
        }
    }

    /// Length of the next segment, up to where an element seems to start; None near the end of the
    /// source, and where no element starts for long.
    fn next_start(&mut self, key: &[u8]) -> Option<usize> {
        let mut wanted = self.segment_bytes;
        loop {
            while self.window.bytes().len() < wanted {
                if !self.window.fill() {
                    return None;
                }
            }
            let bytes = self.window.bytes();
            match last_start(&bytes[..bytes.len().min(2 * wanted)], key) {
                None if wanted < 4 * self.segment_bytes => wanted *= 2,
                found => return found,
            }
        }
    }

    /// Refuses a value that has filled the window.
    fn small_enough(&self) -> Result<(), Failure> {
        if self.window.bytes().len() <= MAX_VALUE_BYTES {
            return Ok(());
        }
        self.fault(
            "value-too-large",
            format!("one value is larger than {} MiB", MAX_VALUE_BYTES >> 20),
            0,
        )
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
