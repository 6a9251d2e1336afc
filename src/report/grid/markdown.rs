//! Tables of Markdown (GitHub's), and text that is no markup.

use serde_json::Value;

use crate::registry::units::plain_text;
use crate::report::grid::value::text;

/// A table of Markdown with the values as they are; without its heading where that is written.
pub(super) fn table(columns: &[String], rows: &[Vec<Value>], heading: bool) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = String::new();
    if heading {
        out.push_str(&line(columns.iter().map(|c| escape(c)).collect()));
        out.push_str(&line(columns.iter().map(|_| "---".to_owned()).collect()));
    }
    for row in rows {
        out.push_str(&line(row.iter().map(|v| escape(&text(v))).collect()));
    }
    out
}

/// Text that Markdown takes as it stands: no markup, no HTML, no address that would become a link,
/// no end of a cell.
pub fn escape(text: &str) -> String {
    let text = plain_text(text);
    let mut out = String::new();
    let mut before = ' ';
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let after = rest.clone().next().unwrap_or(' ');
        match c {
            '\\' | '`' | '*' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => out.extend(['\\', c]),
            // Inside of names they stand for themselves.
            '_' if !before.is_alphanumeric() || !after.is_alphanumeric() => out.push_str("\\_"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            ':' if !after.is_whitespace() => out.push_str("&#58;"),
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("&#46;"),
            c => out.push(c),
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_makes_nothing_of_the_text_of_strangers() {
        for (text, want) in [
            ("network_load: of 8 ranks", "network_load: of 8 ranks"),
            ("_a_ __b__ c_", "\\_a\\_ \\_\\_b\\_\\_ c\\_"),
            ("<script>&amp;", "&lt;script&gt;&amp;amp;"),
            ("[x](http://evil) ![y](z)", "\\[x\\](http&#58;//evil) \\!\\[y\\](z)"),
            ("WWW.evil.com a@b.c", "WWW&#46;evil.com a&#64;b.c"),
            ("a|b\n# c\r\n`d`", "a\\|b \\# c  \\`d\\`"),
            ("\u{1b}[31m\u{202e}red", "\\[31mred"),
        ] {
            assert_eq!(escape(text), want, "{text:?}");
        }
    }
}
