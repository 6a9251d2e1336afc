//! Values of a file of JSON, one after the other: none is held that is long.
//!
//! In: the bytes of a file. Out: the value at the front, where it is short. A long list waits in a
//! file of its own, all else that is long is passed over.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io};
use crate::input::json::{self, Mended, Scanner, Stop};
use crate::input::place::CHUNK;
use crate::input::window::{End, Window};
use crate::readers::bench::kind::DEEPEST;
use crate::readers::document::{Failure, Fault, note_mended};
use crate::readers::log::Log;

/// Unpacked bytes of the largest file of records that is read.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Bytes of what is passed over as a whole; what is longer is taken apart.
const PASSED_BYTES: usize = 64 << 10;
/// Bytes of a name of a field.
const MAX_NAME_BYTES: usize = 64 << 10;

/// Values of JSON, one after the other.
pub(super) struct Stream {
    window: Window,
    scanner: Scanner,
    /// The strict form of the value in hand, where it is not strict.
    mended: Vec<u8>,
    /// Lists that were put aside.
    lists: usize,
}

/// A value at the front of the window: its length, and whether it was mended.
#[derive(Clone, Copy)]
pub(super) struct Front {
    pub(super) length: usize,
    is_mended: bool,
}

impl Stream {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        let scanner = Scanner::shallow(DEEPEST);
        Self { window: Window::new(reader), scanner, mended: Vec::new(), lists: 0 }
    }

    /// The byte of the file that is next.
    pub(super) fn offset(&self) -> u64 {
        self.window.offset
    }

    /// Goes on behind so many bytes that are in hand.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.window.consume(bytes);
    }

    /// Reads to the end of the file, keeping nothing.
    pub(super) fn drain(&mut self) {
        self.window.drain();
    }

    fn fault<T>(&self, code: &'static str, message: impl Into<String>, at: usize) -> Outcome<T> {
        let offset = self.window.offset + at as u64;
        Err(Failure::Fault(Fault { code, message: message.into(), offset }))
    }

    pub(super) fn invalid<T>(&self, at: usize) -> Outcome<T> {
        let message =
            format!("no JSON, or nested deeper than {DEEPEST} levels, inside a benchmark record");
        self.fault("json-invalid", message, at)
    }

    fn too_large<T>(&self, most: usize) -> Outcome<T> {
        let message = format!("one value of a benchmark record has more than {most} bytes");
        self.fault("value-too-large", message, 0)
    }

    /// The fault of a file that ends here.
    fn ended<T>(&self, inside: &str) -> Outcome<T> {
        let (code, message) = match self.window.end() {
            Some(End::Broken(why)) => ("gzip-broken", format!("the file cannot be read on: {why}")),
            Some(End::Unreadable(why)) => {
                ("file-unreadable", format!("the file cannot be read on: {why}"))
            }
            Some(End::Truncated) => {
                ("trace-truncated", format!("the compressed file ends early, {inside}"))
            }
            _ => ("trace-truncated", format!("the file ends {inside}")),
        };
        self.fault(code, message, self.window.bytes().len())
    }

    /// Reads on; false at the end of the file.
    fn fill(&mut self) -> Outcome<bool> {
        let more = self.window.fill();
        if self.window.offset + self.window.bytes().len() as u64 > MAX_FILE_BYTES {
            let message = format!(
                "the benchmark record is larger than any that is read (at most {MAX_FILE_BYTES} bytes)"
            );
            return self.fault("value-too-large", message, 0);
        }
        Ok(more)
    }

    /// Reads on inside a value that may have `most` bytes: twice of what is in hand, so that a
    /// value is looked at few times.
    fn more(&mut self, most: usize) -> Outcome<()> {
        let have = self.window.bytes().len();
        let want = (2 * have).min(most + CHUNK);
        while self.fill()? {
            if self.window.bytes().len() >= want {
                return Ok(());
            }
        }
        match self.window.bytes().len() > have {
            true => Ok(()),
            false => self.ended("inside a record"),
        }
    }

    /// The next byte that is no white space; None at the end of the file.
    fn peek(&mut self) -> Outcome<Option<u8>> {
        loop {
            let skipped = json::skip_space(self.window.bytes(), 0);
            self.window.consume(skipped);
            if let Some(byte) = self.window.bytes().first() {
                return Ok(Some(*byte));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The same inside a record.
    pub(super) fn next(&mut self) -> Outcome<u8> {
        match self.peek()? {
            Some(byte) => Ok(byte),
            None => self.ended("inside a record"),
        }
    }

    /// The value at the front, as far as it has at most `most` bytes; None for a longer one.
    pub(super) fn find(&mut self, most: usize, log: &mut Log) -> Outcome<Option<Front>> {
        loop {
            let bytes = self.window.bytes();
            let mut notes = None;
            let end = match self.scanner.skip(bytes, 0) {
                Err(Stop::Invalid(_)) => {
                    self.mended.clear();
                    self.scanner.mend(bytes, 0, &mut self.mended).map(|(end, mended)| {
                        notes = Some(mended);
                        end
                    })
                }
                found => found,
            };
            let have = bytes.len();
            match end {
                Ok(length) if length > most => return Ok(None),
                Ok(length) => {
                    if let Some(mended) = notes {
                        note_mended(log, mended, self.window.offset);
                    }
                    return Ok(Some(Front { length, is_mended: notes.is_some() }));
                }
                Err(Stop::Incomplete) if have > most => return Ok(None),
                Err(Stop::Incomplete) => self.more(most)?,
                Err(Stop::Invalid(at)) => return self.invalid(at),
            }
        }
    }

    /// The strict form of a value at the front.
    pub(super) fn strict(&self, front: Front) -> &[u8] {
        match front.is_mended {
            true => &self.mended,
            false => &self.window.bytes()[..front.length],
        }
    }

    /// The byte at which the next object begins; None at the end of the file.
    ///
    /// # Errors
    /// A fault where something else stands, or the file cannot be read on.
    pub(super) fn begins(&mut self, is_first: bool) -> Outcome<Option<u64>> {
        if is_first {
            self.window.skip_mark();
        }
        match (self.peek()?, self.window.end()) {
            (Some(b'{'), _) => Ok(Some(self.window.offset)),
            (Some(_), _) => self.fault("json-invalid", "no JSON object where a record begins", 0),
            (None, Some(End::Regular)) => Ok(None),
            _ => self.ended("behind a record"),
        }
    }

    /// The name of a field; None for one that is too long.
    pub(super) fn name(&mut self) -> Outcome<Option<String>> {
        loop {
            let bytes = self.window.bytes();
            if bytes.first().is_some_and(|first| *first != b'"') {
                return self.invalid(0);
            }
            match self.scanner.skip(bytes, 0) {
                Ok(end) if end <= MAX_NAME_BYTES => {
                    let name = String::from_utf8_lossy(&bytes[1..end - 1]);
                    let name = json::unescape(&name).into_owned();
                    self.window.consume(end);
                    return Ok(Some(name));
                }
                Err(Stop::Incomplete) if bytes.len() <= MAX_NAME_BYTES => {
                    self.more(MAX_NAME_BYTES)?;
                }
                Ok(_) | Err(Stop::Incomplete) => {
                    self.pass_string()?;
                    return Ok(None);
                }
                Err(Stop::Invalid(at)) => return self.invalid(at),
            }
        }
    }

    /// Whether there is another element of the list in hand; its end is consumed.
    fn has_element(&mut self, is_first: bool, log: &mut Log) -> Outcome<bool> {
        let mut byte = self.next()?;
        if byte != b']' && !is_first {
            if byte != b',' {
                return self.invalid(0);
            }
            self.window.consume(1);
            byte = self.next()?;
            if byte == b']' {
                note_mended(log, Mended { comma: 1, ..Mended::default() }, self.window.offset);
            }
        }
        if byte == b']' {
            self.window.consume(1);
        }
        Ok(byte != b']')
    }

    /// Puts the list that begins here, whose elements have at most `most` bytes, into a file.
    pub(super) fn aside(&mut self, most: usize, folder: &Path, log: &mut Log) -> Outcome<Aside> {
        let path = folder.join(format!("list-{}", self.lists));
        self.lists += 1;
        let failed = |e: std::io::Error| Failure::Error(io(&path, &e));
        let file = File::create(&path).map_err(failed)?;
        let mut out = BufWriter::with_capacity(256 << 10, file);
        self.window.consume(1);
        let mut separator = b"[";
        while self.has_element(separator == b"[", log)? {
            let Some(front) = self.find(most, log)? else { return self.too_large(most) };
            let written = out.write_all(separator).and_then(|()| out.write_all(self.strict(front)));
            written.map_err(failed)?;
            self.window.consume(front.length);
            separator = b",";
        }
        let end: &[u8] = if separator == b"[" { b"[]" } else { b"]" };
        out.write_all(end).and_then(|()| out.flush()).map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        Ok(Aside { stream: Self::new(Box::new(file)), path, most, given: None, is_over: false })
    }

    /// Passes over the value that begins here; how many elements it has, where it is a list.
    pub(super) fn pass(&mut self, depth: usize, log: &mut Log) -> Outcome<i64> {
        if let Some(front) = self.find(PASSED_BYTES, log)? {
            let value = self.strict(front);
            let is_list = value.first() == Some(&b'[');
            let count = if is_list { json::elements_of(value).count() as i64 } else { 0 };
            self.window.consume(front.length);
            return Ok(count);
        }
        if depth == DEEPEST {
            return self.invalid(0);
        }
        match self.next()? {
            b'"' => self.pass_string().map(|()| 0),
            b'[' => {
                self.window.consume(1);
                let mut count = 0;
                while self.has_element(count == 0, log)? {
                    self.pass(depth + 1, log)?;
                    count += 1;
                }
                Ok(count)
            }
            b'{' => {
                self.window.consume(1);
                let mut more = self.next()? != b'}';
                while more {
                    if self.next()? != b'"' {
                        return self.invalid(0);
                    }
                    self.pass(depth + 1, log)?;
                    if self.next()? != b':' {
                        return self.invalid(0);
                    }
                    self.window.consume(1);
                    self.next()?;
                    self.pass(depth + 1, log)?;
                    more = match self.next()? {
                        b',' => true,
                        b'}' => false,
                        _ => return self.invalid(0),
                    };
                    if more {
                        self.window.consume(1);
                    }
                }
                self.window.consume(1);
                Ok(0)
            }
            _ => self.too_large(PASSED_BYTES),
        }
    }

    /// Passes over a long string: what stands in it is not looked at.
    fn pass_string(&mut self) -> Outcome<()> {
        self.window.consume(1);
        loop {
            let bytes = self.window.bytes();
            let (passed, found) = match memchr::memchr2(b'"', b'\\', bytes) {
                None => (bytes.len(), None),
                Some(at) if bytes[at] == b'"' => (at + 1, Some(true)),
                Some(at) if at + 1 < bytes.len() => (at + 2, Some(false)),
                Some(at) => (at, None),
            };
            self.window.consume(passed);
            match found {
                Some(true) => return Ok(()),
                Some(false) => {}
                None if self.fill()? => {}
                None => return self.ended("inside a record"),
            }
        }
    }
}

pub(super) type Outcome<T> = std::result::Result<T, Failure>;

/// A list that lies in a file of its own, which goes with it.
pub(super) struct Aside {
    stream: Stream,
    path: PathBuf,
    most: usize,
    /// Bytes at the front that were handed out; None before the first.
    given: Option<usize>,
    is_over: bool,
}

impl Aside {
    /// The next element, as it stands.
    ///
    /// # Errors
    /// `io` when the file cannot be read again.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        match self.find() {
            Ok(Some(front)) => Ok(Some(self.stream.strict(front))),
            Ok(None) => Ok(None),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Fault(fault)) => {
                Err(Error::new("io", fault.message).at(self.path.display().to_string()))
            }
        }
    }

    fn find(&mut self) -> Outcome<Option<Front>> {
        if self.is_over {
            return Ok(None);
        }
        if self.given.is_none() {
            self.stream.next()?;
        }
        // What was written is strict: nothing is to be said of it again.
        let mut log = Log::default();
        let is_first = self.given.is_none();
        // The bracket before the first.
        self.stream.window.consume(self.given.unwrap_or(1));
        let front = match self.stream.has_element(is_first, &mut log)? {
            true => self.stream.find(self.most, &mut log)?,
            false => None,
        };
        self.given = Some(front.map_or(0, |front| front.length));
        self.is_over = front.is_none();
        Ok(front)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // The folder goes with the ingest: what cannot be removed now goes then.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::window::tests::torn;

    #[test]
    fn the_longest_name_of_a_field() {
        let name = |bytes: usize| {
            // With its quotes it has so many bytes.
            let text = format!("\"{}\": 1", "n".repeat(bytes - 2));
            let mut stream = Stream::new(Box::new(std::io::Cursor::new(text.into_bytes())));
            assert!(stream.fill().is_ok_and(|more| more));
            let name = stream.name().ok().expect("it is a name");
            (name.map(|name| name.len()), stream.offset())
        };
        let most = MAX_NAME_BYTES;
        assert_eq!(name(most), (Some(most - 2), most as u64));
        assert_eq!(name(most + 1), (None, most as u64 + 1));
    }

    #[test]
    fn a_disk_that_fails_is_no_damage() {
        let mut stream = Stream::new(torn(b" {\"a\": 1"));
        assert!(stream.next().is_ok_and(|byte| byte == b'{'));
        let Err(Failure::Fault(fault)) = stream.pass(0, &mut Log::default()) else {
            panic!("it cannot be read on");
        };
        assert_eq!((fault.code, fault.offset), ("file-unreadable", 8));
    }

    #[test]
    fn what_is_passed_over_has_a_depth() {
        let pad = "x".repeat(PASSED_BYTES / 2);
        // Each level is too long to be in hand at once, and each text in it is not.
        let passes = |levels: usize, open: &str, close: &str| {
            let text =
                format!("{}1{}", open.replace("PAD", &pad).repeat(levels), close.repeat(levels));
            let mut stream = Stream::new(Box::new(std::io::Cursor::new(text.into_bytes())));
            stream.next().is_ok() && stream.pass(0, &mut Log::default()).is_ok()
        };
        for (open, close) in
            [("[\"PAD\",\"PAD\",", "]"), ("{\"a\":\"PAD\",\"b\":\"PAD\",\"c\":", "}")]
        {
            assert!(passes(DEEPEST, open, close), "{open}");
            assert!(!passes(DEEPEST + 1, open, close), "{open}");
        }
    }
}
