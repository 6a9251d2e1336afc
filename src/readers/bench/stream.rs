//! Records of a file of JSON, piece by piece: none is held as a whole.
//!
//! In: the bytes of a file. Out: the fields of one object after the other. Lists that hold
//! something for each request lie side by side in a record, so that its first request is whole
//! only when the last list begins: long ones wait in files without a name. Of texts the number is
//! kept; what is long and has no column is passed over.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io};
use crate::input::json::{self, Mended, Scanner, Stop};
use crate::input::place::CHUNK;
use crate::input::window::{End, Window};
use crate::readers::bench::fields::{DEEPEST, Fields, Held, Value};
use crate::readers::bench::kind::OF_TRACES;
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
struct Front {
    length: usize,
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

    /// Reads to the end of the file, keeping nothing.
    pub(super) fn drain(&mut self) {
        self.window.drain();
    }

    fn fault<T>(&self, code: &'static str, message: impl Into<String>, at: usize) -> Outcome<T> {
        let offset = self.window.offset + at as u64;
        Err(Failure::Fault(Fault { code, message: message.into(), offset }))
    }

    fn invalid<T>(&self, at: usize) -> Outcome<T> {
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
    fn next(&mut self) -> Outcome<u8> {
        match self.peek()? {
            Some(byte) => Ok(byte),
            None => self.ended("inside a record"),
        }
    }

    /// The value at the front, as far as it has at most `most` bytes; None for a longer one.
    fn find(&mut self, most: usize, log: &mut Log) -> Outcome<Option<Front>> {
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
    fn strict(&self, front: Front) -> &[u8] {
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
            // A member of gzip may give the first bytes one by one.
            while self.window.bytes().len() < 3 && self.fill()? {}
            if self.window.bytes().starts_with(&[0xEF, 0xBB, 0xBF]) {
                self.window.consume(3);
            }
        }
        match (self.peek()?, self.window.end()) {
            (Some(b'{'), _) => Ok(Some(self.window.offset)),
            (Some(_), _) => self.fault("json-invalid", "no JSON object where a record begins", 0),
            (None, Some(End::Regular)) if !is_first => Ok(None),
            _ if is_first => self.ended("before the first record"),
            _ => self.ended("behind a record"),
        }
    }

    /// The fields of the object that begins here; None for a trace, where `is_first`. Long lists
    /// wait in `folder`.
    ///
    /// # Errors
    /// A fault of the file; `io`.
    pub(super) fn object(
        &mut self,
        is_first: bool,
        folder: &Path,
        log: &mut Log,
    ) -> Outcome<Option<Fields>> {
        let offset = self.window.offset;
        let mut fields = Fields::default();
        self.window.consume(1);
        let mut more = self.next()? != b'}';
        while more {
            let name = self.name()?;
            if self.next()? != b':' {
                return self.invalid(0);
            }
            self.window.consume(1);
            let first = self.next()?;
            match name {
                Some(name) if is_first && name == OF_TRACES[0] => return Ok(None),
                Some(name) if fields.has_room(&name) => {
                    let value = self.field(&name, first, &mut fields, folder, log)?;
                    fields.of.insert(name, value);
                }
                _ => {
                    self.pass(0, log)?;
                    fields.lost += 1;
                }
            }
            more = match self.next()? {
                b',' => true,
                b'}' => false,
                _ => return self.invalid(0),
            };
            if more {
                self.window.consume(1);
                self.next()?;
            }
        }
        self.window.consume(1);
        fields.note_lost(log, offset);
        Ok(Some(fields))
    }

    /// The name of a field; None for one that is too long.
    fn name(&mut self) -> Outcome<Option<String>> {
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

    /// What is kept of the value of a field, which begins here.
    fn field(
        &mut self,
        name: &str,
        first: u8,
        fields: &mut Fields,
        folder: &Path,
        log: &mut Log,
    ) -> Outcome<Value> {
        let held = Held::of(name);
        if held == Held::Number {
            let texts = self.pass(0, log)?;
            return Ok(Value::Texts(if first == b'[' { texts } else { 1 }));
        }
        match self.find(held.whole_bytes(), log)? {
            Some(front) => {
                let is_held = fields.holds(held, name.len() + front.length);
                let value = is_held.then(|| Value::Raw(self.strict(front).to_vec()));
                self.window.consume(front.length);
                Ok(value.unwrap_or(Value::Long))
            }
            None if first == b'[' && held.item_bytes() > 0 => {
                self.aside(held.item_bytes(), folder, log).map(|list| Value::Aside(Box::new(list)))
            }
            _ => {
                self.pass(0, log)?;
                Ok(Value::Long)
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
    fn aside(&mut self, most: usize, folder: &Path, log: &mut Log) -> Outcome<Aside> {
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
    fn pass(&mut self, depth: usize, log: &mut Log) -> Outcome<i64> {
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

type Outcome<T> = std::result::Result<T, Failure>;

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
    use std::io::Cursor;

    use super::*;
    use crate::readers::bench::fields::List;

    /// The fields of a record, its findings, and the folder of its lists.
    fn fields(text: String) -> (std::result::Result<Fields, &'static str>, Log, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut stream, mut log) = (Stream::new(Box::new(Cursor::new(text))), Log::default());
        let read = stream.begins(true).and_then(|_| stream.object(true, folder.path(), &mut log));
        let read = match read {
            Ok(fields) => fields.ok_or("a trace"),
            Err(Failure::Fault(fault)) => Err(fault.code),
            Err(Failure::Error(error)) => Err(error.code),
        };
        (read, log, folder)
    }

    fn all(mut list: List) -> Vec<String> {
        let mut out = Vec::new();
        while let Some(raw) = list.next().expect("it can be read") {
            out.push(String::from_utf8_lossy(raw).into_owned());
        }
        assert!(list.next().expect("it can be read").is_none());
        out
    }

    #[test]
    fn long_lists_say_what_short_ones_say() {
        let files = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
        for count in [0, 1, 3, 400_000] {
            let items: Vec<String> = (0..count).map(|i| format!("0.0{i}")).collect();
            let (read, log, folder) =
                fields(format!("{{\"ttfts\": [ {} ] , \"completed\":7}}", items.join(" ,\n")));
            let mut read = read.expect("a record");
            let list = read.list("ttfts").expect("a list");
            assert_eq!(files(folder.path()), usize::from(count > 3));
            assert!(all(list) == items, "{count}");
            assert_eq!(files(folder.path()), 0, "the file goes with the list");
            assert_eq!(read.raw("completed"), Some(&b"7"[..]));
            assert!(log.findings.is_empty());
        }
    }

    #[test]
    fn what_is_no_json_is_mended_in_long_lists_too() {
        let mut items = vec!["0.5".to_owned(); 400_000];
        items[399_999] = "NaN".to_owned();
        let (read, log, _folder) = fields(format!("{{\"ttfts\": [{},]}}", items.join(",")));
        let list = all(read.expect("a record").list("ttfts").expect("a list"));
        assert_eq!((list.len(), list[399_999].as_str()), (400_000, "\"NaN\""));
        let codes: Vec<(&str, u64)> = log.findings.iter().map(|f| (&*f.code, f.count)).collect();
        assert_eq!(codes, [("not-a-number", 1), ("trailing-comma", 1)]);
    }

    #[test]
    fn long_values_without_a_column_are_passed_over() {
        let long = "a\\\"]}".repeat(400_000);
        let nested = format!("{{\"k\": [[\"{long}\", 1], {{}}], \"l\": \"{long}\"}}");
        let texts = format!("[\"{long}\", \"b\", \"{long}\"]");
        let (read, log, _folder) = fields(format!(
            "{{\"x\": {nested}, \"{long}\": 1, \"texts\": {texts}, \"prompt\": \"{long}\", \"y\": 2}}"
        ));
        let read = read.expect("a record");
        assert!(matches!(read.of["x"], Value::Long));
        assert!(matches!(read.of["texts"], Value::Texts(3)));
        assert!(matches!(read.of["prompt"], Value::Texts(1)));
        assert_eq!((read.raw("y"), read.of.len()), (Some(&b"2"[..]), 4));
        assert_eq!((&*log.findings[0].code, log.findings[0].count), ("bench-field", 1));
    }

    #[test]
    fn what_ends_early_or_holds_too_much_is_refused() {
        let ones = "1,".repeat(600_000);
        for (text, code) in [
            (format!("{{\"ttfts\": [{ones}"), "trace-truncated"),
            (format!("{{\"x\": [{ones}"), "trace-truncated"),
            (format!("{{\"texts\": [\"{ones}"), "trace-truncated"),
            (format!("{{\"ttfts\": [{ones}1 1]}}"), "json-invalid"),
            (format!("{{\"ttfts\": [{ones}1}}"), "json-invalid"),
            (format!("{{\"ttfts\": [[{ones}1]]}}"), "value-too-large"),
            (format!("{{\"x\": {}}}", "1".repeat(100_000)), "value-too-large"),
            (format!("{{\"x\": {}1{}}}", "[".repeat(65), "]".repeat(65)), "json-invalid"),
            ("{\"x\": 1,}".to_owned(), "json-invalid"),
            ("{\"traceEvents\": [".to_owned(), "a trace"),
        ] {
            assert_eq!(fields(text.clone()).0.err(), Some(code), "{:.40}", text);
        }
    }
}
