//! Reports as plain text and as Markdown.

use unicode_width::UnicodeWidthStr;

use super::Grid;
use super::document::Document;
use super::section::{Block, Section, sections};
use super::table::filled;
use super::units::plain_text;

/// Columns at which sentences are broken.
const WIDTH: usize = 100;

/// The report as plain text. Same document, same bytes.
pub fn text(document: &Document) -> String {
    let mut out = String::new();
    let title = format!("Report of {}", plain_text(&document.label));
    out.push_str(&format!("{title}\n{}\n", "=".repeat(title.width())));
    out.push_str(&made_by(document));
    for section in sections(document) {
        out.push_str(&format!("\n\n{}\n{}\n", section.title, "-".repeat(section.title.width())));
        for block in &section.blocks {
            text_block(&mut out, block);
        }
    }
    out
}

/// The report as Markdown (GitHub's, with tables).
pub fn markdown(document: &Document) -> String {
    let mut out = format!("# Report of {}\n\n", escape(&document.label));
    out.push_str(&made_by(document));
    for Section { title, blocks } in sections(document) {
        out.push_str(&format!("\n## {title}\n"));
        for block in &blocks {
            out.push('\n');
            markdown_block(&mut out, block);
        }
    }
    out
}

fn made_by(document: &Document) -> String {
    let fingerprint: String = document.fingerprint.chars().take(16).collect();
    format!("made by ccl-sql {} of the trace {fingerprint}\n", env!("CARGO_PKG_VERSION"))
}

/// A block as plain text, an empty line before it.
pub(super) fn text_block(out: &mut String, block: &Block) {
    out.push('\n');
    match block {
        Block::Facts(facts) => {
            let names = facts.iter().map(|f| f[0].width()).max().unwrap_or(0);
            let values = facts.iter().map(|f| f[1].width()).max().unwrap_or(0).min(24);
            for [name, value, remark] in facts {
                let start =
                    format!("  {}  {}  ", pad(name, names, false), pad(value, values, false));
                out.push_str(&hung(&start, remark));
            }
        }
        Block::Table { caption, headings, numbers, rows } => {
            out.push_str(&wrap(caption, "  "));
            let width = |i: usize| {
                rows.iter().map(|r| r[i].width()).chain([headings[i].width()]).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..headings.len()).map(width).collect();
            let line = |cells: &[String]| {
                let cells: Vec<String> = cells
                    .iter()
                    .zip(&widths)
                    .zip(numbers)
                    .map(|((c, w), n)| pad(c, *w, *n))
                    .collect();
                format!("    {}\n", cells.join("  ").trim_end())
            };
            out.push_str(&line(headings));
            out.push_str(&line(&widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>()));
            rows.iter().for_each(|row| out.push_str(&line(row)));
        }
        Block::Note(note) => out.push_str(&wrap(note, "  ")),
    }
}

/// Fills a cell with spaces to a width on the screen.
fn pad(text: &str, width: usize, right: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(text.width()));
    if right { fill + text } else { format!("{text}{fill}") }
}

/// A sentence in lines of at most [`WIDTH`] columns.
fn wrap(text: &str, indent: &str) -> String {
    filled(text, indent, &format!("{indent}  "), WIDTH)
}

/// A remark beside what it is of: further lines begin where the first one does.
fn hung(start: &str, remark: &str) -> String {
    // Long values leave no room: then it goes on below.
    let column = if start.width() > WIDTH / 2 { 6 } else { start.width() };
    filled(remark, start, &" ".repeat(column), WIDTH)
}

fn markdown_block(out: &mut String, block: &Block) {
    match block {
        Block::Facts(facts) => {
            out.push_str("| | | |\n| --- | ---: | --- |\n");
            for [name, value, remark] in facts {
                out.push_str(&format!(
                    "| {} | {} | {} |\n",
                    escape(name),
                    escape(value),
                    escape(remark)
                ));
            }
        }
        Block::Table { caption, headings, numbers, rows } => {
            out.push_str(&format!("{}\n\n", escape(caption)));
            let line = |cells: &[String]| {
                format!("| {} |\n", cells.iter().map(|c| escape(c)).collect::<Vec<_>>().join(" | "))
            };
            out.push_str(&line(headings));
            let rules: Vec<&str> =
                numbers.iter().map(|n| if *n { "---:" } else { "---" }).collect();
            out.push_str(&format!("| {} |\n", rules.join(" | ")));
            rows.iter().for_each(|row| out.push_str(&line(row)));
        }
        Block::Note(note) => out.push_str(&format!("{}\n", escape(note))),
    }
}

/// A table of Markdown with the values as they are; without its heading where that is written.
pub(super) fn table(grid: &Grid, heading: bool) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = String::new();
    if heading {
        out.push_str(&line(grid.columns.iter().map(|c| escape(c)).collect()));
        out.push_str(&line(grid.columns.iter().map(|_| "---".to_owned()).collect()));
    }
    for row in &grid.rows {
        out.push_str(&line(row.iter().map(|v| escape(&super::table::text(v))).collect()));
    }
    out
}

/// Text that Markdown takes as it stands: no markup, no HTML, no address that would become a link,
/// no end of a cell.
fn escape(text: &str) -> String {
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

    #[test]
    fn remarks_hang_beside_their_values() {
        let words = "word ".repeat(30);
        let lines = hung("  name  1.0 ms  ", words.trim_end());
        assert!(lines.lines().count() == 2 && lines.lines().all(|l| l.width() <= WIDTH), "{lines}");
        assert!(lines.lines().nth(1).is_some_and(|l| l.starts_with(&" ".repeat(16))), "{lines}");
        let long = "x".repeat(300);
        assert_eq!(hung("  name  ", &long), format!("  name  {long}\n"));
        assert_eq!(hung(&format!("  {long}  "), "a b"), format!("  {long}  a\n      b\n"));
    }
}
