//! The fields of a record of a benchmark, and what their values are.
//!
//! In: one JSON object. Out: slices of it by name, and numbers, times and texts out of them.
//! Nothing is built from an object but its slices: lists are read side by side where they stand.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::input::json::{self, Mended, Scanner, Stop};
use crate::input::time::seconds_to_nanos;
use crate::readers::document::note_mended;
use crate::readers::log::{Log, Severity};

/// Deepest nesting of a record: the state of a server has some ten levels.
pub(super) const DEEPEST: usize = 64;
/// Bytes of a field without a column that is kept, and of all of them.
const MAX_FIELD_BYTES: usize = 64 << 10;
const MAX_ARGS_BYTES: usize = 1 << 20;

/// The fields of an object: slices of it, or mended copies of what is no JSON.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub(super) of: BTreeMap<String, Cow<'b, [u8]>>,
}

/// What a list that is not there holds.
pub(super) const EMPTY: &[u8] = b"[]";
/// Most fields of an object that are looked at.
const MAX_FIELDS: usize = 4096;

impl<'b> Fields<'b> {
    /// The fields of the object at the front of `b`; its end, and what was mended.
    pub(super) fn of(b: &'b [u8], log: &mut Log, offset: u64) -> Result<(Self, usize), Stop> {
        let mut fields = Self::default();
        let mut lost = 0;
        let mut scanner = Scanner::shallow(DEEPEST);
        let end = scanner.members(b, 0, |scanner, key, value| {
            let (end, raw) = match scanner.skip(b, value) {
                Ok(end) => (end, Cow::Borrowed(&b[value..end])),
                Err(Stop::Incomplete) => return Err(Stop::Incomplete),
                Err(Stop::Invalid(_)) => {
                    let mut out = Vec::new();
                    let (end, mended): (usize, Mended) = scanner.mend(b, value, &mut out)?;
                    note_mended(log, mended, offset + value as u64);
                    (end, Cow::Owned(out))
                }
            };
            let key = json::unescape(&String::from_utf8_lossy(&b[key])).into_owned();
            if fields.of.len() < MAX_FIELDS || fields.of.contains_key(&key) {
                fields.of.insert(key, raw);
            } else {
                lost += 1;
            }
            Ok(end)
        })?;
        log.add_many(Severity::Loss, "bench-field", lost, Some(offset), || FIELD.to_owned());
        Ok((fields, end))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.of.contains_key(name)
    }

    /// The value of the first name that there is, taken out.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Cow<'b, [u8]>> {
        let name = names.iter().find(|name| self.has(name))?;
        self.of.remove(*name).filter(|raw| **raw != *b"null")
    }

    /// The list of this name, taken out; what is no list stays.
    pub(super) fn list(&mut self, name: &str) -> Option<Cow<'b, [u8]>> {
        match self.of.get(name)?.first() {
            Some(b'[') => self.of.remove(name),
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
pub(super) fn args(fields: Fields<'_>, log: &mut Log, offset: u64) -> Option<String> {
    let mut out = String::new();
    let mut lost = 0;
    for (key, raw) in fields.of {
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
}
