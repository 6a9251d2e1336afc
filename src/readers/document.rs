//! A document of JSON, piece by piece: what stands at the front of a window over the file.
//!
//! In: the bytes of a file. Out: keys and values, mended where they are no strict JSON, and faults
//! that say where they are. Whoever reads a list of elements counts them; what is kept of a damaged
//! file depends on that count.

use std::io::Read;

use crate::error::{Error, Result};
use crate::input::json::{self, Found, Mended, Scanner, Stop};
use crate::input::window::{End, MAX_VALUE_BYTES, Window};
use crate::readers::contract::Reading;
use crate::readers::log::{Log, Severity};

/// What messages about a damaged document call its elements, and advise.
pub(crate) struct Words {
    /// One element of the list.
    pub(crate) element: &'static str,
    /// What helps against damage.
    pub(crate) again: &'static str,
    /// What helps where complete elements can be kept.
    pub(crate) keep: &'static str,
    /// What is said of a key without a colon; without it, the byte is named that stands there.
    pub(crate) no_colon: Option<&'static str>,
}

/// Words for traces of events.
pub(crate) const EVENTS: Words = Words {
    element: "event",
    again: "export the trace again",
    keep: "export the trace again, or keep the complete events with --keep-partial",
    no_colon: Some("a colon is missing"),
};

/// A fault of a document.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Byte of the uncompressed file.
    pub(crate) offset: u64,
}

impl Fault {
    /// Whether elements before the fault can be kept.
    pub(crate) fn is_partial(&self) -> bool {
        matches!(self.code, "trace-truncated" | "gzip-broken" | "json-invalid")
    }

    /// The error of a file; `complete` elements stand before the fault, where its place says so.
    pub(crate) fn error(self, shown: &str, words: &Words, complete: Option<u64>) -> Error {
        let hint = match self.code {
            _ if complete.is_some_and(|count| count > 0) && self.is_partial() => words.keep,
            "file-unreadable" => "check the disk that the file lies on",
            _ => words.again,
        };
        let mut at = format!("{shown}, byte {}", self.offset);
        if let Some(count) = complete {
            let element = words.element;
            at.push_str(&format!(
                ", {element} {} ({count} complete {element}s before it)",
                count + 1
            ));
        }
        Error::new(self.code, self.message).at(at).hint(hint)
    }
}

/// Why a document is not read on: a fault of its own, or an error of whoever takes its elements.
pub(crate) enum Failure {
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A document that is being read.
pub(crate) struct Document {
    pub(crate) window: Window,
    scanner: Scanner,
    /// Strict form of the current value, when the file's own is not strict.
    mended: Vec<u8>,
    words: &'static Words,
}

impl Document {
    pub(crate) fn new(reader: Box<dyn Read + Send>, words: &'static Words) -> Self {
        let (scanner, mended) = (Scanner::default(), Vec::new());
        Self { window: Window::new(reader), scanner, mended, words }
    }

    /// A fault at a byte of the window.
    pub(crate) fn fault<T>(
        &self,
        code: &'static str,
        message: impl Into<String>,
        at: usize,
    ) -> Result<T, Failure> {
        let offset = self.window.offset + at as u64;
        Err(Failure::Fault(Fault { code, message: message.into(), offset }))
    }

    /// The fault of a byte that must not stand there.
    pub(crate) fn invalid<T>(&self, at: usize) -> Result<T, Failure> {
        let byte = self.window.bytes().get(at).copied().unwrap_or_default() as char;
        self.fault("json-invalid", format!("byte {byte:?} cannot stand there in JSON"), at)
    }

    /// The fault of a file that ends where it must not.
    pub(crate) fn ended<T>(&self, inside: &str) -> Result<T, Failure> {
        let (code, message) = match self.window.end() {
            Some(End::Broken(why)) => ("gzip-broken", format!("the file cannot be read on: {why}")),
            Some(End::Unreadable(why)) => {
                ("file-unreadable", format!("the file cannot be read on: {why}"))
            }
            Some(End::Truncated) => {
                ("trace-truncated", format!("the compressed file ends early, inside {inside}"))
            }
            _ => ("trace-truncated", format!("the trace ends inside {inside}")),
        };
        self.fault(code, message, self.window.bytes().len())
    }

    /// Reads on inside a value; refuses one that has filled the window.
    pub(crate) fn more(&mut self, inside: &str) -> Result<(), Failure> {
        if self.window.bytes().len() > MAX_VALUE_BYTES {
            let message = format!("one value is larger than {} MiB", MAX_VALUE_BYTES >> 20);
            return self.fault("value-too-large", message, 0);
        }
        if self.window.fill() { Ok(()) } else { self.ended(inside) }
    }

    /// The first byte of the document, which is not consumed; None in an empty file.
    pub(crate) fn first(&mut self) -> Option<u8> {
        self.window.skip_mark();
        self.window.peek()
    }

    /// Reads the bytes behind the document.
    pub(crate) fn close(&mut self, log: &mut Log) -> Result<(), Failure> {
        if self.window.peek().is_some() {
            log.add(Severity::Loss, "trailing-data", Some(self.window.offset), || {
                "there are bytes after the end of the trace; they were left out".to_owned()
            });
        }
        match self.window.end() {
            Some(End::Broken(_) | End::Truncated | End::Unreadable(_)) => {
                self.ended("the end of the compressed file")
            }
            _ => Ok(()),
        }
    }

    /// The next key of the object in hand, its colon consumed; None behind the last one.
    pub(crate) fn key(&mut self, log: &mut Log) -> Result<Option<String>, Failure> {
        loop {
            match self.window.peek() {
                Some(b'}') => {
                    self.window.consume(1);
                    return Ok(None);
                }
                Some(b',') => self.window.consume(1),
                Some(b'"') => break,
                Some(_) => return self.invalid(0),
                None => return self.ended("the header"),
            }
        }
        let key = self.value("a key of the header", log, |raw| {
            json::text(raw).map(|text| text.into_owned()).unwrap_or_default()
        })?;
        match (self.window.peek(), self.words.no_colon) {
            (Some(b':'), _) => self.window.consume(1),
            (Some(_), Some(message)) => return self.fault("json-invalid", message, 0),
            (Some(_), None) => return self.invalid(0),
            (None, _) => return self.ended("the header"),
        }
        Ok(Some(key))
    }

    /// What `body` makes of the strict form of the value in hand, which is consumed.
    pub(crate) fn value<T>(
        &mut self,
        inside: &str,
        log: &mut Log,
        body: impl FnOnce(&str) -> T,
    ) -> Result<T, Failure> {
        let found = self.find(inside)?;
        let raw = match found.mended {
            Some(_) => self.mended.as_slice(),
            None => {
                let bytes = &self.window.bytes()[..found.length];
                &bytes[json::skip_space(bytes, 0)..]
            }
        };
        let out = body(&String::from_utf8_lossy(raw));
        if let Some(mended) = found.mended {
            note_mended(log, mended, self.window.offset);
        }
        self.window.consume(found.length);
        Ok(out)
    }

    /// Finds the value at the front of the window, reading on as needed.
    fn find(&mut self, inside: &str) -> Result<Found, Failure> {
        loop {
            match self.scanner.find(self.window.bytes(), &mut self.mended) {
                Ok(found) => return Ok(found),
                Err(Stop::Incomplete) => self.more(inside)?,
                Err(Stop::Invalid(at)) => return self.invalid(at),
            }
        }
    }

    /// What is kept where the reading failed after `count` complete elements, of which the last one
    /// ended at `last_end`: an error where nothing is.
    pub(crate) fn keep(
        &mut self,
        failure: Failure,
        reading: &Reading<'_>,
        log: &mut Log,
        (count, last_end): (u64, u64),
    ) -> Result<()> {
        let fault = match failure {
            Failure::Fault(fault) => fault,
            Failure::Error(error) => return Err(error),
        };
        // Nothing is kept of a file without one complete element, or with a monster in it.
        if !(reading.keep_partial && count > 0 && fault.is_partial()) {
            return Err(fault.error(
                &reading.place.display(),
                self.words,
                (count > 0).then_some(count),
            ));
        }
        let (element, lost) = (self.words.element, self.window.drain() - last_end);
        log.add(Severity::Error, fault.code, Some(last_end), || {
            format!(
                "{}; kept {count} complete {element}s, lost the {lost} bytes after byte {last_end}",
                fault.message
            )
        });
        Ok(())
    }
}

/// Says what was mended in the value at `offset`.
pub(crate) fn note_mended(log: &mut Log, m: Mended, offset: u64) {
    let mut add = |code, count: u32, message: &str| {
        log.add_many(Severity::Info, code, u64::from(count), Some(offset), || message.to_owned());
    };
    add("control-character", m.control, "raw control characters inside strings; read as they are");
    add("bad-escape", m.escape, "backslashes that start no JSON escape; kept as backslashes");
    add("trailing-comma", m.comma, "commas before a closing bracket; left out");
    add("not-a-number", m.number, "words such as NaN that are no JSON; kept as text");
    add("invalid-utf8", m.utf8, "bytes that are no UTF-8; replaced by U+FFFD");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::window::tests::torn;

    #[test]
    fn a_disk_that_fails_inside_a_value_is_no_damage() {
        let mut document = Document::new(torn(b" {\"a\": 1, "), &EVENTS);
        assert_eq!(document.first(), Some(b'{'));
        let Err(Failure::Fault(fault)) = document.value("it", &mut Log::default(), str::len) else {
            panic!("it cannot be read on");
        };
        assert!(!fault.is_partial());
        let error = fault.error("x.json", &EVENTS, Some(2)).render("error");
        for said in ["file-unreadable", "x.json, byte 10, event 3 (2 complete", "check the disk"] {
            assert!(error.contains(said), "{error}");
        }
    }
}
