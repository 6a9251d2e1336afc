//! The fields of a record of a benchmark, and what their values are.
//!
//! In: the values that `stream` found. Out: what is held of them by name, and numbers, times and
//! texts out of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Result;
use crate::input::json::{self, Scanner};
use crate::input::time::seconds_to_nanos;
use crate::readers::bench::kind::{DEEPEST, LOADS};
use crate::readers::bench::stream::Aside;
use crate::readers::log::{Log, Severity};

/// Bytes of a field without a column that is kept, and of all of them.
const MAX_FIELD_BYTES: usize = 64 << 10;
const MAX_ARGS_BYTES: usize = 1 << 20;

/// Bytes of a value that is held for what is in it, or of the elements of a short list.
const MAX_WHOLE_BYTES: usize = 1 << 20;
/// Bytes of what one request, or one step of a log of gates, says in a list.
const MAX_ITEM_BYTES: usize = 32 << 20;
/// Bytes of all fields that have no bound of their own.
const MAX_FIELDS_BYTES: usize = 16 << 20;
/// Most fields of an object that are looked at.
const MAX_FIELDS: usize = 4096;

/// Lists that hold something for each request, or each step.
const LISTS: [&str; 7] =
    ["input_lens", "output_lens", "ttfts", "latencies", "start_times", "errors", "num_tokens"];
/// The same, with lists in them.
const LISTS_OF_LISTS: [&str; 2] = ["itls", LOADS];
/// Texts of users and of models: counted only.
pub(super) const TEXTS: [&str; 8] = [
    "generated_texts",
    "generated_text",
    "prompts",
    "prompt",
    "responses",
    "outputs",
    "texts",
    "messages",
];

/// How much of a field is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// A value that is kept as it stands.
    Field,
    /// The state of a server.
    Server,
    /// A list.
    List,
    /// A list of lists.
    ListOfLists,
    /// How many there are.
    Number,
}

impl Held {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "server_info" => Self::Server,
            _ if LISTS.contains(&name) => Self::List,
            _ if LISTS_OF_LISTS.contains(&name) => Self::ListOfLists,
            _ if TEXTS.contains(&name) => Self::Number,
            _ => Self::Field,
        }
    }

    /// Bytes up to which the value is held in memory.
    pub(super) fn whole_bytes(self) -> usize {
        match self {
            Self::Field => MAX_FIELD_BYTES,
            _ => MAX_WHOLE_BYTES,
        }
    }

    /// Bytes of an element of a longer list; 0 where a longer one is passed over.
    pub(super) fn item_bytes(self) -> usize {
        match self {
            Self::List => MAX_WHOLE_BYTES,
            Self::ListOfLists => MAX_ITEM_BYTES,
            _ => 0,
        }
    }
}

/// The value of a field, as strict JSON.
pub(super) enum Value {
    /// The value.
    Raw(Vec<u8>),
    /// A long list.
    Aside(Box<Aside>),
    /// Texts of which only the number is kept.
    Texts(i64),
    /// Something that is too long to be held.
    Long,
}

/// A list of a record, of which one element after the other is looked at.
pub(super) enum List {
    Raw { raw: Vec<u8>, at: usize },
    Aside(Box<Aside>),
}

impl List {
    /// The next element, as it stands.
    ///
    /// # Errors
    /// `io` when a list that was put aside cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Self::Aside(list) => list.next(),
            Self::Raw { raw, at } => {
                let place = json::element(raw, *at);
                Ok(place.map(|place| {
                    *at = place.end;
                    &raw[place]
                }))
            }
        }
    }
}

/// The fields of an object.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) of: BTreeMap<String, Value>,
    /// Bytes of those without a bound of their own.
    bytes: usize,
    /// Fields that are too large or too many.
    pub(super) lost: u64,
}

impl Fields {
    pub(super) fn has(&self, name: &str) -> bool {
        self.of.contains_key(name)
    }

    /// Whether a field of this name is looked at.
    pub(super) fn has_room(&self, name: &str) -> bool {
        self.of.len() < MAX_FIELDS || self.has(name)
    }

    /// Whether so many bytes more are held.
    pub(super) fn holds(&mut self, held: Held, bytes: usize) -> bool {
        if held == Held::Field {
            self.bytes += bytes;
        }
        self.bytes <= MAX_FIELDS_BYTES || held != Held::Field
    }

    /// Counts what is lost so far.
    pub(super) fn note_lost(&mut self, log: &mut Log, offset: u64) {
        let lost = std::mem::take(&mut self.lost);
        log.add_many(Severity::Loss, "bench-field", lost, Some(offset), || FIELD.to_owned());
    }

    /// The value of a field, where it is held.
    pub(super) fn raw(&self, name: &str) -> Option<&[u8]> {
        match self.of.get(name)? {
            Value::Raw(raw) => Some(raw),
            _ => None,
        }
    }

    /// The value of the first name that there is, taken out.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Vec<u8>> {
        let name = names.iter().find(|name| self.has(name))?;
        match self.of.remove(*name)? {
            Value::Raw(raw) => Some(raw).filter(|raw| raw != b"null"),
            _ => {
                self.lost += 1;
                None
            }
        }
    }

    /// The list of this name, taken out; what is no list stays.
    pub(super) fn list(&mut self, name: &str) -> Option<List> {
        match self.of.get(name)? {
            Value::Raw(raw) if raw.first() == Some(&b'[') => {}
            Value::Aside(_) => {}
            _ => return None,
        }
        match self.of.remove(name)? {
            Value::Raw(raw) => Some(List::Raw { raw, at: 0 }),
            Value::Aside(list) => Some(List::Aside(list)),
            _ => None,
        }
    }
}

const FIELD: &str = "fields of benchmark records that are too large or too many; left out";

/// Counts values that are no usable numbers.
pub(super) fn odd(log: &mut Log, offset: u64) {
    log.add(Severity::Loss, "bench-number", Some(offset), || {
        "values of benchmark records that are no usable numbers (text, negative, beyond 64 bits); NULL"
            .to_owned()
    });
}

/// A count: an integer from 0 on, perhaps written as a fraction of 0.
pub(super) fn count(raw: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(raw).ok()?;
    let text = text.strip_suffix(".0").unwrap_or(text);
    if text.starts_with('"') {
        return None;
    }
    json::integer(text).filter(|n| *n >= 0)
}

/// A time from 0 on.
pub(super) fn time(raw: &[u8]) -> Option<i64> {
    seconds_to_nanos(raw).filter(|ns| *ns >= 0)
}

/// A finite number from 0 on.
pub(super) fn number(raw: &[u8]) -> Option<f64> {
    if !matches!(raw.first(), Some(b'0'..=b'9' | b'-')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// Text as it is meant, all else as it stands.
pub(super) fn text(raw: &[u8]) -> String {
    let raw = String::from_utf8_lossy(raw);
    json::text(&raw).map_or_else(|| raw.to_string(), Cow::into_owned)
}

/// At most so many bytes of a text, cut between characters.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The value of a `null` is missing, that of an unusable token too, which is counted.
pub(super) struct Reader<'l> {
    pub(super) log: &'l mut Log,
    pub(super) offset: u64,
}

impl Reader<'_> {
    pub(super) fn value<T>(
        &mut self,
        raw: Option<&[u8]>,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let raw = raw.filter(|raw| *raw != b"null")?;
        let value = parse(raw);
        if value.is_none() {
            odd(self.log, self.offset);
        }
        value
    }
}

/// The model that the state of a server names.
pub(super) fn model_of_server(raw: &[u8]) -> Option<String> {
    if raw.first() != Some(&b'{') || raw.len() > MAX_ARGS_BYTES {
        return None;
    }
    let mut found: Option<Range<usize>> = None;
    Scanner::shallow(DEEPEST)
        .members(raw, 0, |scanner, key, value| {
            let end = scanner.skip(raw, value)?;
            if &raw[key] == b"model_path" && raw[value] == b'"' {
                found = Some(value..end);
            }
            Ok(end)
        })
        .ok()?;
    found.map(|place| text(&raw[place]))
}

/// The fields without a column as JSON.
pub(super) fn args(fields: Fields, log: &mut Log, offset: u64) -> Option<String> {
    let mut out = String::new();
    let mut lost = fields.lost;
    for (key, value) in fields.of {
        let Value::Raw(raw) = value else {
            lost += 1;
            continue;
        };
        if raw.len() > MAX_FIELD_BYTES || out.len() + raw.len() > MAX_ARGS_BYTES {
            lost += 1;
            continue;
        }
        out.push_str(if out.is_empty() { "{" } else { "," });
        out.push_str(&serde_json::Value::from(key).to_string());
        out.push(':');
        out.push_str(&String::from_utf8_lossy(&raw));
    }
    log.add_many(Severity::Loss, "bench-field", lost, Some(offset), || FIELD.to_owned());
    if out.is_empty() {
        return None;
    }
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_integers_from_0_on() {
        for (raw, value) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("0", Some(0)),
            ("7.5", None),
            ("-1", None),
            ("\"7\"", None),
            ("1e400", None),
            ("9223372036854775808", None),
            ("[7]", None),
        ] {
            assert_eq!(count(raw.as_bytes()), value, "{raw}");
        }
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        for (raw, value) in [
            ("1.5", Some(1.5)),
            ("1e400", None),
            ("-0.5", None),
            ("\"NaN\"", None),
            ("true", None),
            ("{}", None),
        ] {
            assert_eq!(number(raw.as_bytes()), value, "{raw}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
    }

    #[test]
    fn the_most_bytes_of_fields_that_are_kept() {
        let kept = |lengths: &[usize]| {
            let mut fields = Fields::default();
            for (n, length) in lengths.iter().enumerate() {
                let text = format!("\"{}\"", "x".repeat(length - 2));
                fields.of.insert(format!("{n:03}"), Value::Raw(text.into_bytes()));
            }
            let mut log = Log::default();
            let args = args(fields, &mut log, 0).unwrap_or_default();
            args.matches(':').count()
        };
        assert_eq!(kept(&[MAX_FIELD_BYTES]), 1);
        assert_eq!(kept(&[MAX_FIELD_BYTES + 1]), 0);
        // Each takes six bytes for its name, and one before it.
        let name = "{\"000\":".len();
        let full = MAX_ARGS_BYTES / MAX_FIELD_BYTES - 1;
        let mut lengths = vec![MAX_FIELD_BYTES; full];
        lengths.push(MAX_ARGS_BYTES - full * (MAX_FIELD_BYTES + name));
        assert_eq!(*lengths.last().expect("it is there"), MAX_FIELD_BYTES - full * name);
        assert_eq!(kept(&lengths), full + 1);
        *lengths.last_mut().expect("it is there") += 1;
        assert_eq!(kept(&lengths), full);
    }

    #[test]
    fn the_most_fields_and_bytes_that_are_held() {
        let mut fields = Fields::default();
        for n in 0..MAX_FIELDS {
            assert!(fields.has_room("x"), "{n}");
            fields.of.insert(n.to_string(), Value::Long);
        }
        assert_eq!([fields.has_room("x"), fields.has_room("0")], [false, true]);
        assert!(fields.holds(Held::List, usize::MAX));
        assert!(fields.holds(Held::Field, MAX_FIELDS_BYTES));
        assert_eq!([fields.holds(Held::Field, 1), fields.holds(Held::List, 1)], [false, true]);
    }

    #[test]
    fn the_state_of_a_server_names_its_model() {
        let of = |length: usize| {
            let start = r#"{"a": {"model_path": "no"}, "model_path": "m", "x": ""#;
            let filler = "x".repeat(length - start.len() - 2);
            model_of_server(format!("{start}{filler}\"}}").as_bytes())
        };
        assert_eq!(of(MAX_ARGS_BYTES).as_deref(), Some("m"));
        assert_eq!(of(MAX_ARGS_BYTES + 1), None);
        assert_eq!(model_of_server(br#"["model_path"]"#), None);
        assert_eq!(model_of_server(br#"{"model_path": 7}"#), None);
    }
}
