//! Finding the extent of JSON values in raw bytes, strictly, and mending values that are not JSON.
//!
//! Traces are scanned, not parsed into trees: an event is a slice of the input, its members are
//! slices of it, and what has no column is copied as it stands. [`Scanner::skip`] accepts strict
//! JSON only (RFC 8259, with paired surrogates), so that whatever is copied is JSON that any engine
//! reads. Profilers do write less than that: raw control characters, `C:\Users` with single
//! backslashes, `NaN`, a comma too many, bytes that are no UTF-8. [`Scanner::mend`] rewrites such a
//! value into strict JSON and says what it changed. Both keep their nesting on the heap.

use std::borrow::Cow;

/// The reason why a value has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The bytes end inside the value.
    Incomplete,
    /// The byte at this index cannot stand there.
    Invalid(usize),
}

/// Changes of [`Scanner::mend`], counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mended {
    /// Control characters inside strings, now `\u00XX`.
    pub control: u32,
    /// Backslashes before a letter that is no escape, and surrogates without their half.
    pub escape: u32,
    /// Commas before a closing bracket.
    pub comma: u32,
    /// Numbers and words that are no JSON (`NaN`, `Infinity`, `01`), now text.
    pub number: u32,
    /// Values with bytes that are no UTF-8, now U+FFFD.
    pub utf8: u32,
}

/// Finds the ends of values; holds the nesting so that it is allocated once.
#[derive(Debug)]
pub struct Scanner {
    nesting: Vec<u8>,
    /// Deepest nesting of the last value.
    pub depth: usize,
    deepest: usize,
}

impl Default for Scanner {
    /// One that follows any nesting.
    fn default() -> Self {
        Self::shallow(usize::MAX)
    }
}

/// A value at the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Length of the value there.
    pub length: usize,
    /// Changes, where the value had to be mended.
    pub mended: Option<Mended>,
}

/// Whether these bytes are the beginning of one character, and its end is missing.
pub fn is_cut_character(bytes: &[u8]) -> bool {
    let cut = |e: std::str::Utf8Error| e.valid_up_to() == 0 && e.error_len().is_none();
    bytes.len() < 4 && std::str::from_utf8(bytes).is_err_and(cut)
}

/// The index of the first byte at or after `at` that is no white space.
pub fn skip_space(b: &[u8], mut at: usize) -> usize {
    while at < b.len() && matches!(b[at], b' ' | b'\n' | b'\r' | b'\t') {
        at += 1;
    }
    at
}

/// A word of eight equal bytes.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The index of the first byte at or after `at` that ends the plain run inside a string: a quote, a
/// backslash or a control character.
fn plain_run(b: &[u8], mut at: usize) -> usize {
    // Eight bytes at a time: a byte of the mask has its high bit set where the byte is below 0x20,
    // or equal to one of the two. A borrow can only set bits above the first true one.
    while let Some(word) = b.get(at..at + 8).and_then(|w| <[u8; 8]>::try_from(w).ok()) {
        let word = u64::from_le_bytes(word);
        let quote = word ^ eight(b'"');
        let slash = word ^ eight(b'\\');
        let found = (word.wrapping_sub(eight(0x20)) & !word)
            | (quote.wrapping_sub(eight(1)) & !quote)
            | (slash.wrapping_sub(eight(1)) & !slash);
        let found = found & eight(0x80);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < b.len() && b[at] >= 0x20 && b[at] != b'"' && b[at] != b'\\' {
        at += 1;
    }
    at
}

fn hex4(b: &[u8], at: usize) -> Result<u32, Stop> {
    let mut value = 0;
    for i in at..at + 4 {
        let digit = match b.get(i) {
            None => return Err(Stop::Incomplete),
            Some(c) => (*c as char).to_digit(16).ok_or(Stop::Invalid(i))?,
        };
        value = value * 16 + digit;
    }
    Ok(value)
}

/// End of the string whose opening quote stands at `at`.
fn skip_string(b: &[u8], at: usize) -> Result<usize, Stop> {
    let mut i = at + 1;
    loop {
        i = plain_run(b, i);
        match b.get(i) {
            None => return Err(Stop::Incomplete),
            Some(b'"') => return Ok(i + 1),
            Some(b'\\') => match b.get(i + 1) {
                None => return Err(Stop::Incomplete),
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => i += 2,
                Some(b'u') => {
                    let unit = hex4(b, i + 2)?;
                    i += 6;
                    if (0xDC00..0xE000).contains(&unit) {
                        return Err(Stop::Invalid(i - 6));
                    }
                    if (0xD800..0xDC00).contains(&unit) {
                        match (b.get(i), b.get(i + 1)) {
                            (Some(b'\\'), Some(b'u')) => {
                                if !(0xDC00..0xE000).contains(&hex4(b, i + 2)?) {
                                    return Err(Stop::Invalid(i));
                                }
                                i += 6;
                            }
                            (Some(b'\\'), None) | (None, _) => return Err(Stop::Incomplete),
                            _ => return Err(Stop::Invalid(i)),
                        }
                    }
                }
                Some(_) => return Err(Stop::Invalid(i + 1)),
            },
            Some(_) => return Err(Stop::Invalid(i)),
        }
    }
}

/// End of the number that starts at `at`. A number that reaches the end of the bytes is
/// incomplete: more digits may follow.
fn skip_number(b: &[u8], at: usize) -> Result<usize, Stop> {
    let digits = |mut i: usize| -> Result<usize, Stop> {
        let from = i;
        while i < b.len() && b[i].is_ascii_digit() {
            i += 1;
        }
        match (i > from, i < b.len()) {
            (true, true) => Ok(i),
            (_, false) => Err(Stop::Incomplete),
            (false, true) => Err(Stop::Invalid(i)),
        }
    };
    let mut i = at + usize::from(b[at] == b'-');
    let first = b.get(i).copied();
    i = digits(i)?;
    if first == Some(b'0') && i > at + 1 + usize::from(b[at] == b'-') {
        return Err(Stop::Invalid(i - 1));
    }
    if b[i] == b'.' {
        i = digits(i + 1)?;
    }
    if matches!(b[i], b'e' | b'E') {
        i += 1;
        if matches!(b.get(i), Some(b'+' | b'-')) {
            i += 1;
        }
        i = digits(i)?;
    }
    Ok(i)
}

fn skip_word(b: &[u8], at: usize, word: &[u8]) -> Result<usize, Stop> {
    for (i, w) in word.iter().enumerate() {
        match b.get(at + i) {
            None => return Err(Stop::Incomplete),
            Some(c) if c != w => return Err(Stop::Invalid(at + i)),
            Some(_) => {}
        }
    }
    Ok(at + word.len())
}

impl Scanner {
    /// One that refuses values nested deeper than this.
    pub fn shallow(deepest: usize) -> Self {
        Self { nesting: Vec::new(), depth: 0, deepest }
    }

    /// Opens a container that stands at `at`.
    fn open(&mut self, container: u8, at: usize) -> Result<(), Stop> {
        if self.nesting.len() == self.deepest {
            return Err(Stop::Invalid(at));
        }
        self.nesting.push(container);
        self.depth = self.depth.max(self.nesting.len());
        Ok(())
    }

    /// End of the strict JSON value that starts at or after `at` (leading space allowed).
    /// UTF-8 is not checked here.
    ///
    /// # Errors
    /// [`Stop::Incomplete`] when the bytes end first, [`Stop::Invalid`] with the index of the first
    /// byte that JSON does not allow.
    pub fn skip(&mut self, b: &[u8], at: usize) -> Result<usize, Stop> {
        let mut i = skip_space(b, at);
        self.depth = 0;
        match b.get(i) {
            // Most values are one of these, and need no nesting.
            Some(b'"') => return skip_string(b, i),
            Some(b'-' | b'0'..=b'9') => return skip_number(b, i),
            _ => self.nesting.clear(),
        }
        loop {
            let Some(&first) = b.get(i) else { return Err(Stop::Incomplete) };
            let mut opened = false;
            i = match first {
                b'"' => skip_string(b, i)?,
                b'{' | b'[' => {
                    self.open(first, i)?;
                    opened = true;
                    i + 1
                }
                b'-' | b'0'..=b'9' => skip_number(b, i)?,
                b't' => skip_word(b, i, b"true")?,
                b'f' => skip_word(b, i, b"false")?,
                b'n' => skip_word(b, i, b"null")?,
                _ => return Err(Stop::Invalid(i)),
            };
            loop {
                let Some(&container) = self.nesting.last() else { return Ok(i) };
                i = skip_space(b, i);
                let Some(&c) = b.get(i) else { return Err(Stop::Incomplete) };
                if c == container + 2 {
                    // '{' + 2 is '}', '[' + 2 is ']'
                    self.nesting.pop();
                    opened = false;
                    i += 1;
                    continue;
                }
                if !opened {
                    if c != b',' {
                        return Err(Stop::Invalid(i));
                    }
                    i = skip_space(b, i + 1);
                }
                if container == b'{' {
                    match b.get(i) {
                        None => return Err(Stop::Incomplete),
                        Some(b'"') => {}
                        Some(_) => return Err(Stop::Invalid(i)),
                    }
                    i = skip_space(b, skip_string(b, i)?);
                    match b.get(i) {
                        None => return Err(Stop::Incomplete),
                        Some(b':') => i = skip_space(b, i + 1),
                        Some(_) => return Err(Stop::Invalid(i)),
                    }
                }
                break;
            }
        }
    }

    /// Like [`Scanner::skip`] for the object at `at`, and hands each of its members to `member`:
    /// where the key stands (without its quotes, with its escapes) and where the value starts.
    /// `member` returns the end of the value, for which it may call back into the scanner.
    ///
    /// # Errors
    /// As [`Scanner::skip`].
    pub fn members(
        &mut self,
        b: &[u8],
        at: usize,
        mut member: impl FnMut(&mut Self, std::ops::Range<usize>, usize) -> Result<usize, Stop>,
    ) -> Result<usize, Stop> {
        let mut i = skip_space(b, at + 1);
        if b.get(i) == Some(&b'}') {
            return Ok(i + 1);
        }
        loop {
            match b.get(i) {
                None => return Err(Stop::Incomplete),
                Some(b'"') => {}
                Some(_) => return Err(Stop::Invalid(i)),
            }
            let end = skip_string(b, i)?;
            let key = i + 1..end - 1;
            i = skip_space(b, end);
            match b.get(i) {
                None => return Err(Stop::Incomplete),
                Some(b':') => i = skip_space(b, i + 1),
                Some(_) => return Err(Stop::Invalid(i)),
            }
            i = skip_space(b, member(self, key, i)?);
            match b.get(i) {
                None => return Err(Stop::Incomplete),
                Some(b',') => i = skip_space(b, i + 1),
                Some(b'}') => return Ok(i + 1),
                Some(_) => return Err(Stop::Invalid(i)),
            }
        }
    }

    /// Finds the value at the front of the bytes as a reader has them, strict or mended into `out`,
    /// which is emptied first.
    ///
    /// # Errors
    /// [`Stop::Incomplete`] when more bytes may help, [`Stop::Invalid`] when none do.
    pub fn find(&mut self, b: &[u8], out: &mut Vec<u8>) -> Result<Found, Stop> {
        match self.skip(b, 0) {
            Ok(length) if std::str::from_utf8(&b[..length]).is_ok() => {
                return Ok(Found { length, mended: None });
            }
            Err(Stop::Incomplete) => return Err(Stop::Incomplete),
            Ok(_) | Err(Stop::Invalid(_)) => out.clear(),
        }
        match self.mend(b, 0, out) {
            Ok((length, mended)) => Ok(Found { length, mended: Some(mended) }),
            // A file cut inside a character: the cut is the fault, not the byte.
            Err(Stop::Invalid(at)) if is_cut_character(&b[at..]) => Err(Stop::Incomplete),
            Err(stop) => Err(stop),
        }
    }

    /// Like [`Scanner::skip`] for a value that is not strict JSON: appends a strict form to `out`.
    ///
    /// # Errors
    /// As [`Scanner::skip`], when the value cannot be understood either way.
    pub fn mend(
        &mut self,
        b: &[u8],
        at: usize,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Mended), Stop> {
        let mut mended = Mended::default();
        let from = out.len();
        self.nesting.clear();
        let mut i = skip_space(b, at);
        loop {
            let Some(&first) = b.get(i) else { return Err(Stop::Incomplete) };
            let mut opened = false;
            match first {
                b'"' => i = mend_string(b, i, out, &mut mended)?,
                b'{' | b'[' => {
                    self.open(first, i)?;
                    out.push(first);
                    opened = true;
                    i += 1;
                }
                _ => i = mend_scalar(b, i, out, &mut mended)?,
            }
            loop {
                let Some(&container) = self.nesting.last() else {
                    if std::str::from_utf8(&out[from..]).is_err() {
                        let text = String::from_utf8_lossy(&out[from..]).into_owned();
                        out.truncate(from);
                        out.extend_from_slice(text.as_bytes());
                        mended.utf8 += 1;
                    }
                    return Ok((i, mended));
                };
                i = skip_space(b, i);
                let Some(&c) = b.get(i) else { return Err(Stop::Incomplete) };
                if c == container + 2 {
                    self.nesting.pop();
                    opened = false;
                    out.push(c);
                    i += 1;
                    continue;
                }
                if !opened {
                    if c != b',' {
                        return Err(Stop::Invalid(i));
                    }
                    i = skip_space(b, i + 1);
                    match b.get(i) {
                        None => return Err(Stop::Incomplete),
                        Some(next) if *next == container + 2 => {
                            mended.comma += 1;
                            continue;
                        }
                        Some(_) => out.push(b','),
                    }
                }
                if container == b'{' {
                    if b.get(i) != Some(&b'"') {
                        return Err(if i < b.len() { Stop::Invalid(i) } else { Stop::Incomplete });
                    }
                    i = skip_space(b, mend_string(b, i, out, &mut mended)?);
                    match b.get(i) {
                        None => return Err(Stop::Incomplete),
                        Some(b':') => i = skip_space(b, i + 1),
                        Some(_) => return Err(Stop::Invalid(i)),
                    }
                    out.push(b':');
                }
                break;
            }
        }
    }
}

fn mend_string(b: &[u8], at: usize, out: &mut Vec<u8>, mended: &mut Mended) -> Result<usize, Stop> {
    out.push(b'"');
    let mut i = at + 1;
    loop {
        let run = i;
        i = plain_run(b, i);
        out.extend_from_slice(&b[run..i]);
        match b.get(i) {
            None => return Err(Stop::Incomplete),
            Some(b'"') => {
                out.push(b'"');
                return Ok(i + 1);
            }
            Some(b'\\') => match b.get(i + 1) {
                None => return Err(Stop::Incomplete),
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                    out.extend_from_slice(&b[i..i + 2]);
                    i += 2;
                }
                Some(b'u') => match hex4(b, i + 2) {
                    Err(Stop::Incomplete) => return Err(Stop::Incomplete),
                    Err(Stop::Invalid(_)) => {
                        out.extend_from_slice(b"\\\\");
                        mended.escape += 1;
                        i += 1;
                    }
                    Ok(unit) => {
                        let next = match &b[i + 6..] {
                            [] | [b'\\'] => Err(Stop::Incomplete),
                            [b'\\', b'u', ..] => hex4(b, i + 8),
                            _ => Err(Stop::Invalid(i + 6)),
                        };
                        let high = (0xD800..0xDC00).contains(&unit);
                        let low = |unit| (0xDC00..0xE000).contains(&unit);
                        match next {
                            _ if !high && !low(unit) => {
                                out.extend_from_slice(&b[i..i + 6]);
                                i += 6;
                            }
                            Err(Stop::Incomplete) if high => return Err(Stop::Incomplete),
                            Ok(next) if high && low(next) => {
                                out.extend_from_slice(&b[i..i + 12]);
                                i += 12;
                            }
                            _ => {
                                out.extend_from_slice(b"\\ufffd");
                                mended.escape += 1;
                                i += 6;
                            }
                        }
                    }
                },
                Some(_) => {
                    out.extend_from_slice(b"\\\\");
                    mended.escape += 1;
                    i += 1;
                }
            },
            Some(&control) => {
                out.extend_from_slice(format!("\\u{control:04x}").as_bytes());
                mended.control += 1;
                i += 1;
            }
        }
    }
}

/// A number or word; what JSON does not know becomes text of the same characters.
fn mend_scalar(b: &[u8], at: usize, out: &mut Vec<u8>, mended: &mut Mended) -> Result<usize, Stop> {
    let mut end = at;
    while end < b.len()
        && (b[end].is_ascii_alphanumeric() || matches!(b[end], b'+' | b'-' | b'.' | b'_'))
    {
        end += 1;
    }
    if end == at {
        return Err(Stop::Invalid(at));
    }
    if end == b.len() {
        return Err(Stop::Incomplete);
    }
    let token = &b[at..end];
    let strict = match token[0] {
        b'-' | b'0'..=b'9' => skip_number(b, at) == Ok(end),
        _ => matches!(token, b"true" | b"false" | b"null"),
    };
    if strict {
        out.extend_from_slice(token);
    } else {
        out.push(b'"');
        out.extend_from_slice(token);
        out.push(b'"');
        mended.number += 1;
    }
    Ok(end)
}

/// The elements of a strict JSON array, in order, as they stand.
pub fn elements(array: &str) -> impl Iterator<Item = &str> {
    places(array.as_bytes()).map(|place| &array[place])
}

/// Like [`elements`], of bytes whose strings may not be UTF-8.
pub fn elements_of(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    places(array).map(|place| &array[place])
}

/// The ranges of the elements of a strict JSON array.
fn places(b: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = element_at(&mut scanner, b, at)?;
        at = place.end;
        Some(place)
    })
}

/// The range of the element of a strict JSON array that follows the one that ends at `at`, or the
/// first where that is 0; None behind the last.
pub fn element(array: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    element_at(&mut Scanner::default(), array, at)
}

fn element_at(scanner: &mut Scanner, b: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let mut at = if at == 0 { skip_space(b, 0) + 1 } else { at };
    while matches!(b.get(at), Some(b' ' | b'\n' | b'\r' | b'\t' | b',')) {
        at += 1;
    }
    let end = scanner.skip(b, at).ok()?;
    Some(at..end)
}

/// The text of a raw string value (with its quotes) of strict JSON; None for any other value.
pub fn text(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes() {
        [b'"', .., b'"'] => Some(unescape(&raw[1..raw.len() - 1])),
        _ => None,
    }
}

/// The text of the inside of a string of strict JSON.
pub fn unescape(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    match serde_json::from_str::<String>(&format!("\"{inner}\"")) {
        Ok(text) => Cow::Owned(text),
        // Only when called on something that skip did not accept.
        Err(_) => Cow::Borrowed(inner),
    }
}

/// An integer written as one, plain or inside quotes; None for fractions, exponents, overflow.
pub fn integer(raw: &str) -> Option<i64> {
    let digits = match raw.as_bytes() {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    };
    let (negative, plain) = match digits {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, digits),
    };
    if plain.is_empty() || plain.len() > 18 || !plain.iter().all(u8::is_ascii_digit) {
        return std::str::from_utf8(digits).ok()?.parse().ok();
    }
    let value = plain.iter().fold(0, |sum, c| sum * 10 + i64::from(c - b'0'));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skip(text: &str) -> Result<usize, Stop> {
        Scanner::default().skip(text.as_bytes(), 0)
    }

    fn mend(text: &[u8]) -> (String, Mended) {
        let mut out = Vec::new();
        let (_, mended) = Scanner::default().mend(text, 0, &mut out).expect("can be mended");
        (String::from_utf8(out).expect("mended text is UTF-8"), mended)
    }

    #[test]
    fn a_character_may_be_cut() {
        for cut in [&b"\xc3"[..], b"\xe2", b"\xe2\x82", b"\xf0\x9f\x9a"] {
            assert!(is_cut_character(cut), "{cut:?}");
        }
        for whole in
            [&b""[..], b"a", b"\x80", b"\xff", b"\xe2a", b"a\xe2", b"\xc3\xa9", b"\xe2\x82\xac"]
        {
            assert!(!is_cut_character(whole), "{whole:?}");
        }
        assert!(!is_cut_character("🚀".as_bytes()));
    }

    #[test]
    fn ends_of_values() {
        assert_eq!(skip(r#" {"a": [1, -2.5e+3, "x\"}"], "b": {}} ,"#), Ok(37));
        assert_eq!(skip("[] "), Ok(2));
        assert_eq!(skip("null,"), Ok(4));
        assert_eq!(skip(r#"{"a": [1, 2"#), Err(Stop::Incomplete));
        assert_eq!(skip("12"), Err(Stop::Incomplete));
        assert_eq!(skip(r#"{"a": 01}"#), Err(Stop::Invalid(7)));
        assert_eq!(skip("[1,]"), Err(Stop::Invalid(3)));
        assert_eq!(skip(r#"["\x"]"#), Err(Stop::Invalid(3)));
        assert_eq!(skip("[\"\u{1}\"]"), Err(Stop::Invalid(2)));
        assert_eq!(skip(r#"["\ud800x"]"#), Err(Stop::Invalid(8)));
        assert_eq!(skip(r#"["\ud83d\ude00"]"#), Ok(16));
        // The first and the last of either half.
        assert_eq!(skip(r#"["\ud800\udc00"]"#), Ok(16));
        assert_eq!(skip(r#"["\udbff\udfff"]"#), Ok(16));
        assert_eq!(skip(r#"["\ud800\udbff"]"#), Err(Stop::Invalid(8)));
        assert_eq!(skip(r#"["\ud800\ue000"]"#), Err(Stop::Invalid(8)));
        assert_eq!(skip(r#"["\udc00"]"#), Err(Stop::Invalid(2)));
        assert_eq!(skip(r#"["\udfff\ud800"]"#), Err(Stop::Invalid(2)));
        assert_eq!(skip(r#"["\ud7ff\ue000"]"#), Ok(16));
        assert_eq!(skip(r#"["\u00fF"]"#), Ok(10));
        assert_eq!(skip(r#"["\u00g0"]"#), Err(Stop::Invalid(6)));
    }

    /// What is cut anywhere may go on: it is never wrong.
    #[test]
    fn a_cut_is_no_fault() {
        let strict = "{\"a\": [\"\\ud83d\\ude00 \\u0041\\n\", -1.5e+3, true], \"b\": {}} ";
        for end in 1..strict.len() - 1 {
            assert_eq!(skip(&strict[..end]), Err(Stop::Incomplete), "{}", &strict[..end]);
        }
        let broken = "{\"p\": \"C:\\Users \\u0041 \\ud83d\\ude00\\n\", \"n\": [NaN, 1,], \"e\": \"\u{e9}\"} ";
        let mut out = Vec::new();
        for end in 1..broken.len() - 1 {
            let found = Scanner::default().find(&broken.as_bytes()[..end], &mut out);
            assert_eq!(found.err(), Some(Stop::Incomplete), "{end}");
        }
        assert_eq!(
            mend(broken.as_bytes()).0,
            "{\"p\":\"C:\\\\Users \\u0041 \\ud83d\\ude00\\n\",\"n\":[\"NaN\",1],\"e\":\"\u{e9}\"}"
        );
    }

    #[test]
    fn what_cannot_be_mended_says_where() {
        for (text, at) in
            [("{\"a\" 1}", 5), ("{\"a\": 1, b: 2}", 9), ("[1 2]", 3), ("{\"a\": 1 2}", 8)]
        {
            let found = Scanner::default().mend(text.as_bytes(), 0, &mut Vec::new());
            assert_eq!(found.err(), Some(Stop::Invalid(at)), "{text}");
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let deep = format!("{}1{} ", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(skip(&deep), Ok(deep.len() - 1));
    }

    #[test]
    fn a_shallow_scanner_refuses_what_nests_deeper() {
        let mut scanner = Scanner::shallow(2);
        assert_eq!(scanner.skip(b"[[1], {}] ", 0), Ok(9));
        assert_eq!(scanner.skip(b"[[[1]]] ", 0), Err(Stop::Invalid(2)));
        assert_eq!(scanner.mend(b"[[[NaN]]] ", 0, &mut Vec::new()), Err(Stop::Invalid(2)));
    }

    #[test]
    fn mends_what_profilers_write() {
        let (text, m) =
            mend(b"{\"a\": \"x\x01\ty\", \"p\": \"C:\\Users\\new\", \"n\": [NaN, -Infinity, 1,],}");
        assert_eq!(text, r#"{"a":"x\u0001\u0009y","p":"C:\\Users\new","n":["NaN","-Infinity",1]}"#);
        assert_eq!((m.control, m.escape, m.comma, m.number, m.utf8), (2, 1, 2, 2, 0));
        let (text, m) = mend(b"[\"\xff\", \"\\ud800 alone\"]");
        assert_eq!((text.as_str(), m.utf8, m.escape), ("[\"\u{fffd}\",\"\\ufffd alone\"]", 1, 1));
        assert_eq!(mend(b"[\"\\ud800\"]").0, r#"["\ufffd"]"#);
    }

    fn members(object: &str) -> Result<Vec<(&str, &str)>, Stop> {
        let mut out = Vec::new();
        let b = object.as_bytes();
        let end = Scanner::default().members(b, 0, |scanner, key, value| {
            let end = scanner.skip(b, value)?;
            out.push((&object[key], &object[value..end]));
            Ok(end)
        })?;
        assert_eq!(end, object.len());
        Ok(out)
    }

    #[test]
    fn members_are_slices() {
        let object = r#"{ "a" : 1 , "b\"c":{"x":[1,"}"]}, "d":"e" }"#;
        let found = members(object).expect("strict JSON");
        assert_eq!(found, [("a", "1"), (r#"b\"c"#, r#"{"x":[1,"}"]}"#), ("d", "\"e\"")]);
        assert_eq!(elements("[1, [2,3] ,\"x,y\"]").count(), 3);
        assert_eq!(elements("[ ]").count(), 0);
    }

    #[test]
    fn integers_are_exact_or_none() {
        for (raw, value) in [
            ("0", Some(0)),
            ("-7", Some(-7)),
            ("\"42\"", Some(42)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1.0", None),
            ("1e3", None),
            ("", None),
            ("-", None),
            ("\"\"", None),
            ("\"12a\"", None),
        ] {
            assert_eq!(integer(raw), value, "{raw}");
        }
    }

    #[test]
    fn plain_runs_end_where_a_loop_says() {
        let bytes: Vec<u8> = (0..=255).collect();
        for filler in [b' ', b'a', 0x7f, 0x80, 0xff, b'!', b'#', b'[', b']'] {
            for stop in &bytes {
                for place in 0..19 {
                    let mut b = vec![filler; 19];
                    b[place] = *stop;
                    let ends = |c: u8| c < 0x20 || c == b'"' || c == b'\\';
                    let slow = b.iter().position(|c| ends(*c)).unwrap_or(b.len());
                    assert_eq!(plain_run(&b, 0), slow, "{b:?}");
                }
            }
        }
    }

    /// Any JSON value as serde_json writes it.
    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            any::<String>().prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|m| { serde_json::Value::Object(m.into_iter().collect()) }),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_json(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("a value can be written") + " ";
            prop_assert_eq!(skip(&text), Ok(text.len() - 1));
            let (mended, m) = mend(text.as_bytes());
            prop_assert_eq!(m, Mended::default());
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&mended).ok(), Some(value.clone()));
            let Some(object) = value.as_object() else { return Ok(()) };
            let mut found = serde_json::Map::new();
            for (key, raw) in members(&text[..text.len() - 1]).expect("strict JSON") {
                let value = serde_json::from_str(raw).expect("a member is JSON");
                found.insert(unescape(key).into_owned(), value);
            }
            prop_assert_eq!(&found, object);
        }

        #[test]
        fn accepts_nothing_that_serde_json_refuses(bytes in prop::collection::vec(prop::sample::select(
            b"{}[]\",:0123456789.eE+-truefalsn\\u dD8cC \x01\xff".to_vec()), 0..24)) {
            let mut padded = bytes.clone();
            padded.push(b' ');
            if let Ok(end) = Scanner::default().skip(&padded, 0) {
                let value = &padded[..end];
                if std::str::from_utf8(value).is_ok() {
                    prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(value).is_ok(),
                        "{:?}", String::from_utf8_lossy(value));
                }
            }
        }

        #[test]
        fn mending_never_panics_and_gives_json(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut out = Vec::new();
            let mut text = b"[\"".to_vec();
            text.extend(bytes);
            text.extend(b"\"]        ");
            if Scanner::default().mend(&text, 0, &mut out).is_ok() {
                let mut strict = out.clone();
                strict.push(b' ');
                prop_assert_eq!(Scanner::default().skip(&strict, 0), Ok(out.len()));
            }
        }
    }
}
