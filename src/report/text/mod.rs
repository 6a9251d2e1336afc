//! Reports as plain text and as Markdown.

pub mod baseline;
mod block;
pub mod changes;
mod diagnosis;
pub mod history;
mod section;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use self::block::{Block, Section};
use self::section::sections;
use crate::error::Result;
use crate::registry::units::plain_text;
use crate::report::Grid;
use crate::report::diagnosis::Diagnosis;
use crate::report::document::Document;
use crate::report::grid::format::Format;
use crate::report::grid::markdown::escape;
use crate::report::grid::value::{cut, filled};
use crate::report::sheet::Sheet;

/// Columns at which sentences are broken.
const WIDTH: usize = 100;

/// Sheets of the same columns as CSV, the label of each before its rows, below `heading`.
///
/// # Errors
/// `io`.
fn labelled_csv(heading: &str, sheets: &[(&str, &Sheet)]) -> Result<Vec<u8>> {
    let names = sheets.first().into_iter().flat_map(|(_, sheet)| &sheet.columns);
    let columns: Vec<&str> = [heading].into_iter().chain(names.map(|c| c.name.as_str())).collect();
    let rows = sheets.iter().flat_map(|(label, sheet)| {
        sheet.rows.iter().map(|row| [&[Value::from(*label)], &row[..]].concat())
    });
    Grid::of_rows(&columns, rows.collect()).bytes(Format::Csv, 0)
}

/// The report as plain text. Same document, same bytes.
pub fn text(document: &Document) -> String {
    let mut out = String::new();
    let title = format!("Report of {}", plain_text(&document.label));
    out.push_str(&format!("{title}\n{}\n", "=".repeat(title.width())));
    out.push_str(&made_by(document));
    for section in sections(document) {
        out.push_str(&format!("\n\n{}\n{}\n", section.title, "-".repeat(section.title.width())));
        for block in &section.blocks {
            block_within(&mut out, block, WIDTH);
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

/// What is wrong with a trace, as plain text; with the bounds of `--what-if`, where they are
/// wanted.
pub fn diagnosis(trace: &str, of: &Diagnosis, what_if: bool) -> String {
    let title = plain_text(trace);
    let mut out = format!("\n\n{title}\n{}\n", "=".repeat(title.width()));
    for (i, section) in diagnosis_sections(of, what_if).into_iter().enumerate() {
        if i > 0 {
            let rule = "-".repeat(section.title.width());
            out.push_str(&format!("\n\n{}\n{rule}\n", section.title));
        }
        section.blocks.iter().for_each(|block| block_within(&mut out, block, WIDTH));
    }
    out
}

/// The same as Markdown.
pub fn diagnosis_md(trace: &str, of: &Diagnosis, what_if: bool) -> String {
    let mut out = format!("\n\n# {}\n", escape(trace));
    for (i, Section { title, blocks }) in diagnosis_sections(of, what_if).into_iter().enumerate() {
        if i > 0 {
            out.push_str(&format!("\n## {title}\n"));
        }
        for block in &blocks {
            out.push('\n');
            markdown_block(&mut out, block);
        }
    }
    out
}

/// The sections of a diagnosis.
fn diagnosis_sections(of: &Diagnosis, what_if: bool) -> Vec<Section> {
    let mut out = vec![diagnosis::section(of)];
    if what_if {
        out.push(diagnosis::what_if(of));
    }
    out
}

/// The line that says what made the report.
fn made_by(document: &Document) -> String {
    let fingerprint: String = document.fingerprint.chars().take(16).collect();
    format!("made by ccl-sql {} of the trace {fingerprint}\n", env!("CARGO_PKG_VERSION"))
}

/// A block as plain text, an empty line before it; its tables are as wide as they are.
pub(super) fn text_block(out: &mut String, block: &Block) {
    block_within(out, block, usize::MAX);
}

/// A block as plain text; tables are cut and broken where they are wider than `width`.
fn block_within(out: &mut String, block: &Block, width: usize) {
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
            let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
            for part in parts(headings, numbers, &rows, width) {
                table_part(out, headings, numbers, &rows, &part);
            }
        }
        Block::Note(note) => out.push_str(&wrap(note, "  ")),
    }
}

/// Texts wider than this are cut where a table is wider than the page.
const NARROW: usize = 28;

/// Columns of a table with the width of each, in parts that fit the page: the further ones begin
/// with the first column too, and with the names beside it.
fn parts(
    headings: &[String],
    numbers: &[bool],
    rows: &[&[String]],
    most: usize,
) -> Vec<Vec<(usize, usize)>> {
    let cells = |i: usize| rows.iter().map(move |row| row[i].width());
    let mut widths: Vec<usize> = (0..headings.len())
        .map(|i| cells(i).chain([headings[i].width()]).max().unwrap_or(0))
        .collect();
    let total = |widths: &[usize]| 4 + widths.iter().map(|w| w + 2).sum::<usize>();
    if total(&widths) > most {
        for (width, _) in widths.iter_mut().zip(numbers).filter(|(_, number)| !**number) {
            *width = (*width).min(NARROW);
        }
    }
    let names = 1 + numbers.iter().skip(1).take_while(|number| !**number).count();
    let repeated: Vec<(usize, usize)> = widths.iter().copied().enumerate().take(names).collect();
    let mut out: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
    let mut used = 4;
    for (i, width) in widths.iter().copied().enumerate() {
        if used + width > most && i > names {
            used = 4 + repeated.iter().map(|(_, width)| width + 2).sum::<usize>();
            out.push(repeated.clone());
        }
        out.last_mut().expect("a part was begun").push((i, width));
        used += width + 2;
    }
    out
}

/// Writes some columns of a table.
fn table_part(
    out: &mut String,
    headings: &[String],
    numbers: &[bool],
    rows: &[&[String]],
    part: &[(usize, usize)],
) {
    let mut line = |cells: &[String]| {
        let cells: Vec<String> =
            part.iter().map(|(i, w)| pad(&cut(&cells[*i], *w), *w, numbers[*i])).collect();
        out.push_str(&format!("    {}\n", cells.join("  ").trim_end()));
    };
    line(headings);
    let mut rules = vec![String::new(); headings.len()];
    part.iter().for_each(|(i, width)| rules[*i] = "-".repeat(*width));
    line(&rules);
    rows.iter().for_each(|row| line(row));
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

/// A remark beside its value: further lines begin where the first one does.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_tables_are_cut_and_broken() {
        let text = |t: &str| t.to_owned();
        let block = |headings: Vec<String>, numbers: Vec<bool>, rows| {
            let mut out = String::new();
            let caption = text("t");
            block_within(&mut out, &Block::Table { caption, headings, numbers, rows }, WIDTH);
            out
        };
        let heads: Vec<String> = (0..12).map(|i| format!("heading {i:02}")).collect();
        let row: Vec<String> = (0..12).map(|i| format!("{i}")).collect();
        let out = block(heads, vec![true; 12], vec![row]);
        assert!(out.lines().all(|l| l.width() <= WIDTH), "{out}");
        let first: Vec<&str> = out.lines().filter(|l| l.contains("heading 00")).collect();
        assert_eq!(first.len(), 2, "each part begins with the first column\n{out}");
        assert_eq!(out.matches("heading 07").count(), 1, "{out}");
        let long = block(
            vec![text("a"), text("b")],
            vec![false; 2],
            vec![vec!["x".repeat(200), text("y")]],
        );
        assert!(long.lines().all(|l| l.width() <= WIDTH) && long.contains("x…  y"), "{long}");
    }

    #[test]
    fn blocks_of_markdown_keep_numbers_to_the_right() {
        let text = |t: &str| t.to_owned();
        let written = |block| {
            let mut out = String::new();
            markdown_block(&mut out, &block);
            out
        };
        let table = Block::Table {
            caption: text("Calls"),
            headings: vec![text("name"), text("calls")],
            numbers: vec![false, true],
            rows: vec![vec![text("a"), text("1")], vec![text("b"), text("2")]],
        };
        let expected = "Calls\n\n| name | calls |\n| --- | ---: |\n| a | 1 |\n| b | 2 |\n";
        assert_eq!(written(table), expected);
        let facts = Block::Facts(vec![[text("time"), text("3 s"), text("of all")]]);
        let expected = "| | | |\n| --- | ---: | --- |\n| time | 3 s | of all |\n";
        assert_eq!(written(facts), expected);
        assert_eq!(written(Block::Note(text("No steps."))), "No steps.\n");
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
