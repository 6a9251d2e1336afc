//! Walks over the document of a Kineto trace: the header by its members, the list of events by
//! segments that the threads of a pool scan.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::error::Result;
use crate::input::json::{self, Scanner};
use crate::input::window::{End, Piece};
use crate::pool::Pool;
use crate::readers::contract::{Answer, Kind, Reading};
use crate::readers::document::{Document, EVENTS, Failure};
use crate::readers::kineto::gather::{Gather, Kineto};
use crate::readers::kineto::part::{self, Outcome, RunEnd};
use crate::readers::log::Severity;

/// Bytes of a segment: enough to make the handing over cheap, few enough to keep memory small.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// Reads a trace from its bytes; the answer in its place where they are none. The list of events is
/// cut after `segment_bytes`: [`SEGMENT_BYTES`], or less to test the cutting.
///
/// # Errors
/// As `kineto::read`.
pub fn read_bytes(
    reader: Box<dyn Read + Send>,
    reading: &Reading<'_>,
    segment_bytes: usize,
) -> Result<Result<Kineto, Answer>> {
    let folder = (reading.folder)(0)?;
    let steps = reading.own_steps.cloned();
    let mut file = Reader {
        document: Document::new(reader, &EVENTS),
        gather: Gather::new(&folder, reading.source_id, reading.pool.clone(), steps),
        pool: reading.pool,
        segment_bytes,
    };
    let outcome = file.run();
    let Reader { mut document, mut gather, .. } = file;
    match outcome {
        _ if gather.totals.is_xla => return Ok(Err(Answer::Is(Kind::XlaJson))),
        Ok(None) => {}
        Ok(Some(answer)) => return Ok(Err(answer)),
        Err(failure) => {
            let kept = (gather.elements, gather.last_end);
            document.keep(failure, reading, &mut gather.log, kept)?;
        }
    }
    if !gather.totals.typed && gather.elements > 0 {
        let what = "JSON array of records without a phase (`ph`): no Chrome trace";
        return Ok(Err(Answer::other(what)));
    }
    let mut out = gather.finish()?;
    out.bytes = document.window.drain();
    Ok(Ok(out))
}

struct Reader<'a> {
    document: Document,
    gather: Gather,
    pool: &'a Arc<Pool>,
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

/// The last place after the first byte where an element seems to start: an object whose first key
/// is `key`, after a comma after an object. A guess: it may stand inside an element, which shows
/// when the bytes before it are read.
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

impl Reader<'_> {
    /// The whole file; what it is, when it is readable and no trace of Kineto.
    fn run(&mut self) -> Result<Option<Answer>, Failure> {
        let document = &mut self.document;
        match document.first() {
            None if matches!(document.window.end(), Some(End::Regular)) => {
                return document.fault("trace-truncated", "the file is empty", 0);
            }
            None => return document.ended("the first value"),
            Some(b'{') => {
                document.window.consume(1);
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
                self.list()?;
            }
            Some(b'<') => {
                let page = "an HTML or XML page; the download gave a page in place of the file";
                return Ok(Some(Answer::other(page)));
            }
            Some(_) => return Ok(Some(Answer::other("no JSON"))),
        }
        self.document.close(&mut self.gather.log)?;
        Ok(None)
    }

    /// The header and the list of events in it.
    fn object(&mut self) -> Result<Option<Answer>, Failure> {
        let mut has_events = false;
        let mut keys = Vec::new();
        while let Some(key) = self.document.key(&mut self.gather.log)? {
            let is_list = self.document.window.peek() == Some(b'[');
            if key == "traceEvents" && is_list {
                has_events = true;
                self.list()?;
                continue;
            }
            if key == "nodes" && !has_events && is_list {
                return Ok(Some(Answer::Is(Kind::ExecutionTrace)));
            }
            let value = self.document.value("the header", &mut self.gather.log, |raw| {
                serde_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.to_owned()))
            })?;
            if keys.len() < 8 {
                keys.push(key.clone());
            }
            if key == "metadata" && value.get("highres-ticks").is_some() {
                self.gather.totals.is_xla = true;
                return Ok(None);
            }
            self.gather.header(key, value);
        }
        if has_events {
            return Ok(None);
        }
        keys.sort();
        let keys = keys.join(", ");
        Ok(Some(Answer::other(format!("JSON without `traceEvents` (its keys: {keys})"))))
    }

    /// The list of events.
    fn list(&mut self) -> Result<(), Failure> {
        self.document.window.consume(1);
        let mut split = true;
        loop {
            if split {
                split = self.segments()?;
            }
            let offset = self.document.window.offset;
            let outcome = {
                let (base_ns, steps) = (self.gather.base_ns, self.gather.steps.as_deref());
                part::read(self.document.window.bytes(), offset, base_ns, steps)?
            };
            let (end, consumed) = (outcome.end, outcome.consumed);
            self.gather.accept(outcome, offset)?;
            self.document.window.consume(consumed);
            match end {
                RunEnd::Closed => {
                    self.document.window.consume(1);
                    return Ok(());
                }
                RunEnd::Invalid(at) => return self.document.invalid(at - consumed),
                RunEnd::More => {
                    let between = self.document.window.bytes().is_empty();
                    self.document.more(if between { "the list of events" } else { "an event" })?;
                }
            }
        }
    }

    /// Reads the list by segments that the threads of the pool scan, as long as there is more than
    /// one segment to come; what is left in the window goes on where they end. False when a guess
    /// of where an element starts was wrong.
    fn segments(&mut self) -> Result<bool> {
        let first = self.document.window.peek();
        let bytes = self.document.window.bytes();
        let key_at = json::skip_space(bytes, bytes.len().min(1));
        let key = match (first, bytes.get(key_at)) {
            (Some(b'{'), Some(b'"')) => match Scanner::default().skip(bytes, key_at) {
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
                let piece = self.document.window.cut(length);
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
                    self.document.window.recycle(segment.piece);
                }
                continue;
            }
            // The list ends in here, or something is wrong: the rest is read without guessing.
            let mut rest = front.piece.bytes()[consumed..].to_vec();
            for segment in &flying {
                rest.extend_from_slice(segment.piece.bytes());
            }
            self.document.window.put_back(&rest);
            self.pool.wait(|| flying.iter().all(|s| s.outcome().is_some()));
            return Ok(end == RunEnd::Closed);
        }
    }

    /// Length of the next segment, up to where an element seems to start; None near the end of the
    /// source, and where no element starts for long.
    fn next_start(&mut self, key: &[u8]) -> Option<usize> {
        let mut wanted = self.segment_bytes;
        loop {
            while self.document.window.bytes().len() < wanted {
                if !self.document.window.fill() {
                    return None;
                }
            }
            let bytes = self.document.window.bytes();
            match last_start(&bytes[..bytes.len().min(2 * wanted)], key) {
                None if wanted < 4 * self.segment_bytes => wanted *= 2,
                found => return found,
            }
        }
    }
}
