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
mod events;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::events::Events;
use super::input::{End, MAX_VALUE_BYTES, Place, Window};
use super::json::{self, Mended, Scanner, Stop};
use super::log::{Log, Severity};
use crate::error::{Error, Result};

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
