//! Records of a file of JSON, piece by piece: none is held as a whole.
//!
//! In: the values of a file. Out: the fields of one object after the other. Lists that hold
//! something for each request lie side by side in a record, so that its first request is whole
//! only when the last list begins: long ones wait in files. Of texts the number is kept.

use std::path::Path;

use crate::readers::bench::fields::{Fields, Held, Value};
use crate::readers::bench::kind::OF_TRACES;
use crate::readers::bench::stream::{Outcome, Stream};
use crate::readers::log::Log;

impl Stream {
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
        let offset = self.offset();
        let mut fields = Fields::default();
        self.consume(1);
        let mut more = self.next()? != b'}';
        while more {
            let name = self.name()?;
            if self.next()? != b':' {
                return self.invalid(0);
            }
            self.consume(1);
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
                self.consume(1);
                self.next()?;
            }
        }
        self.consume(1);
        fields.note_lost(log, offset);
        Ok(Some(fields))
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
                self.consume(front.length);
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
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::readers::bench::fields::List;
    use crate::readers::document::Failure;

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
