//! Names of tabs, tables and headings, and texts of cells, as Excel allows them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::registry::units;
use crate::report::grid::value::printable;

/// Characters of a cell. Excel counts UTF-16 units, here as in tabs and headings.
pub(super) const CELL: usize = 32_767;

const TAB: usize = 31;
const HEADING: usize = 255;

/// Names given out so far; Excel does not tell upper case from lower case.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A tab: 31 characters, none of `[]:*?/\`, no apostrophe at an end, not Excel's own `History`.
    pub(super) fn tab(&mut self, name: &str) -> String {
        let clean: String = units::plain_text(name)
            .chars()
            .map(|c| if "[]:*?/\\".contains(c) { '_' } else { c })
            .collect();
        let clean = clean.trim_matches(['\'', ' ']);
        let clean = match clean {
            "" => "page",
            name if name.eq_ignore_ascii_case("history") => "history_",
            name => name,
        };
        self.free(clean, TAB, '\'')
    }

    /// The table of a tab: letters, digits and `_`, in no way like a cell (`A1`, `R1C1`).
    pub(super) fn table(&mut self, tab: &str) -> String {
        let clean: String =
            tab.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.free(&format!("table_{clean}"), HEADING, '\'')
    }

    /// A heading: one line, 255 characters, another one for each column.
    pub(super) fn heading(&mut self, name: &str) -> String {
        let clean = without_escapes(&line(name));
        self.free(if clean.is_empty() { "column" } else { &clean }, HEADING, '\0')
    }

    /// `name` within `limit`, with a number behind it where it is taken; does not end in `end`.
    fn free(&mut self, name: &str, limit: usize, end: char) -> String {
        let (short, _) = cut(name, limit);
        let mut out = short.trim_end_matches(end).to_owned();
        let mut i = 2;
        while !self.taken.insert(out.to_lowercase()) {
            let suffix = format!("_{i}");
            let (short, _) = cut(name, limit - suffix.len());
            out = format!("{short}{suffix}");
            i += 1;
        }
        out
    }
}

/// Text as a line: no control characters.
pub(super) fn line(text: &str) -> String {
    units::plain_text(text)
}

/// Text of a trace as a cell: control characters are shown as such.
pub(super) fn cell(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(printable(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Text within a number of UTF-16 units, and whether it is cut; `…` stands for what is missing.
pub(super) fn cut(text: &str, limit: usize) -> (Cow<'_, str>, bool) {
    // No character has more units than bytes.
    if text.len() <= limit || text.encode_utf16().count() <= limit {
        return (Cow::Borrowed(text), false);
    }
    let mut out = String::new();
    let mut units = 1;
    for c in text.chars() {
        units += c.len_utf16();
        if units > limit {
            break;
        }
        out.push(c);
    }
    out.push('…');
    (Cow::Owned(out), true)
}

/// Excel reads `_x0041_` in a heading as `A`; in the cell above the column the same text is
/// escaped, so the two would differ and the file count as damaged.
fn without_escapes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("_x") {
        let bytes = rest.as_bytes();
        let escape = bytes.get(at + 2..at + 6).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit))
            && bytes.get(at + 6) == Some(&b'_');
        out.push_str(&rest[..at]);
        out.push_str(if escape { "_X" } else { "_x" });
        rest = &rest[at + 2..];
    }
    out + rest
}
