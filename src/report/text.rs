//! Reports as plain text and as Markdown.

use unicode_width::UnicodeWidthStr;

use super::document::Document;
use super::section::{Block, Section, sections};
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

fn text_block(out: &mut String, block: &Block) {
    out.push('\n');
    match block {
        Block::Facts(facts) => {
            let names = facts.iter().map(|f| f[0].width()).max().unwrap_or(0);
            let values = facts.iter().map(|f| f[1].width()).max().unwrap_or(0).min(24);
            for [name, value, remark] in facts {
                let line =
                    format!("{}  {}  {remark}", pad(name, names, false), pad(value, values, false));
                out.push_str(&format!("  {}\n", line.trim_end()));
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
    let mut out = String::new();
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        if line.width() + word.width() + 1 > WIDTH && line.trim() != "" {
            out.push_str(line.trim_end());
            out.push('\n');
            line = format!("{indent}  ");
        }
        line.push_str(word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
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

/// Text that Markdown takes as it stands: no markup, no HTML, no end of a cell.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in plain_text(text).chars() {
        match c {
            '\\' | '`' | '*' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // An address would become a link; names of metrics hold underscores between letters.
            ':' => out.push_str("&#58;"),
            c => out.push(c),
        }
    }
    out
}
