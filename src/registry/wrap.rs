//! Headers wrapped at 100 columns: a long tag goes on in the lines below it.
//!
//! The header says the same before and after. A tag whose lines all fit stays as it is, so that
//! wrapping twice is wrapping once.

use crate::registry::header::{Tag, tags};

/// The last column of a line of a header.
pub const COLUMNS: usize = 100;

/// Where the text of a tag goes on: below that of most tags.
const MARGIN: &str = "--           ";

/// Tags whose message stands on a line of its own, apart from the expression.
const EXPRESSIONS: [&str; 3] = ["check", "reason", "warn"];

/// A file with its header wrapped; a header that cannot be read stays as it is.
pub fn wrapped(text: &str) -> String {
    let Ok(tags) = tags(text) else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n');
    for tag in &tags {
        let own: Vec<&str> = lines.by_ref().take(tag.lines).collect();
        if own.iter().all(|line| width(line.trim_end()) <= COLUMNS) {
            out.extend(own);
        } else {
            fill(&mut out, tag);
        }
    }
    out.extend(lines);
    out
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Writes a tag, as many words a line as there is room for.
fn fill(out: &mut String, tag: &Tag<'_>) {
    let mut line = format!("-- @{:<8} ", tag.name);
    let mut empty = true;
    let message = tag.text.rfind(" | ").filter(|_| EXPRESSIONS.contains(&tag.name));
    for (at, word) in words(&tag.text) {
        let full = width(&line) + 1 + width(word) > COLUMNS;
        if !empty && (full || message.is_some_and(|bar| at == bar + 1)) {
            out.push_str(&line);
            out.push('\n');
            MARGIN.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(&line);
    out.push('\n');
}

/// What stands between single blanks, and where. Several blanks in a row are part of a text in SQL:
/// no line may end there, as the next is joined to it by one.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let single = |i: usize| bytes[i] == b' ' && bytes[i - 1] != b' ' && bytes[i + 1] != b' ';
    let ends = (1..text.len().saturating_sub(1)).filter(move |i| single(*i)).chain([text.len()]);
    let mut start = 0;
    ends.map(move |end| {
        let word = (start, &text[start..end]);
        start = end + 1;
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::registry::header::parse;

    #[test]
    fn a_wrapped_header_says_the_same() {
        for file in Registry::load(None).expect("the embedded files are right").files() {
            // All on one line each, and wrapped anew.
            let tags = tags(&file.text).expect("the header is right");
            let header: String =
                tags.iter().map(|tag| format!("-- @{} {}\n", tag.name, tag.text)).collect();
            let long = header + file.query() + "\n";
            for text in [&file.text, &long] {
                let wrapped = wrapped(text);
                let parsed = parse(&file.path, &wrapped).expect("a header still");
                assert_eq!(parsed, file.header, "{}", file.path);
                assert_eq!(super::wrapped(&wrapped), wrapped, "{}", file.path);
            }
        }
    }

    #[test]
    fn lines_end_at_column_100_and_never_within_several_blanks() {
        let text = format!(
            "-- @view v\n-- @check instr(x, '{}  b') > 0 | {}\n-- @summary S.\nSELECT 1\n",
            "a".repeat(60),
            "word ".repeat(30).trim_end()
        );
        let wrapped = wrapped(&text);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines[0], "-- @view v", "a line that fits stays");
        assert_eq!(lines[1], format!("-- @check    instr(x, '{}  b') > 0", "a".repeat(60)));
        assert!(lines[2].starts_with("--           | word word"), "{}", lines[2]);
        assert_eq!(width(lines[2]), 99);
        assert_eq!(parse("v.sql", &wrapped).expect("right"), parse("v.sql", &text).expect("right"));
    }

    #[test]
    fn a_line_has_100_columns_and_no_more() {
        // The margin has 13 columns, words and the blanks between them 87.
        let text = |last: &str| {
            format!("-- @view     v\n-- @summary  {} {last}\nSELECT 1\n", "a".repeat(80))
        };
        assert_eq!(wrapped(&text("bbbbbb")), text("bbbbbb"));
        assert_eq!(wrapped(&text("bbbbbbb")).lines().nth(2), Some("--           bbbbbbb"));
        // What has to go on below fills the line above too.
        let long = wrapped(&text("bbbbbb cccccc"));
        let lines: Vec<&str> = long.lines().collect();
        assert_eq!((width(lines[1]), lines[2]), (100, "--           cccccc"));
        // A line that fits keeps its blanks.
        let own = format!("-- @view v\n-- @summary {}\nSELECT 1\n", "a".repeat(88));
        assert_eq!(wrapped(&own), own);
    }

    #[test]
    fn lines_end_at_single_blanks() {
        let text = |summary: &str| format!("-- @view     v\n-- @summary  {summary}\nSELECT 1\n");
        let long = "b".repeat(90);
        let second = |summary: &str| {
            let wrapped = wrapped(&text(summary));
            wrapped.lines().nth(2).unwrap_or_default().trim_start_matches(['-', ' ']).to_owned()
        };
        assert_eq!(second(&format!("a {long}")), long);
        assert_eq!(second(&format!("{long} a")), "a");
        let apart = text(&format!("{long}  {long}"));
        assert_eq!(wrapped(&apart), apart);
    }

    #[test]
    fn what_cannot_be_broken_stays_long() {
        let text = format!("-- @view     v\n-- @summary  {}\nSELECT 1\n", "x".repeat(200));
        assert_eq!(wrapped(&text), text);
    }
}
