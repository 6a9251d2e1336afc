//! Aligned columns: numbers to the right, long cells cut, control characters shown as such. On a
//! terminal a table is made to fit: long texts are cut, and columns that find no place are named.

use arrow::array::RecordBatch;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::engine::json;
use crate::error::Result;
use crate::report::grid::value::{cut, filled, printable, text};

/// Room on the screen; nothing is cut or left out where there is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Columns of the screen.
    pub width: Option<usize>,
    /// Rows that a table shows.
    pub rows: Option<usize>,
}

/// A cell is as wide as the widest of its column, and a name of a trace may be of megabytes: longer
/// ones are cut even where no screen is. The forms for machines hold them whole.
pub const LONGEST_CELL: usize = 400;

/// A text is not cut shorter than this to make room.
const LEAST_TEXT: usize = 16;

/// Spaces between columns.
const GAP: usize = 2;

/// A value as text of at most `max` columns.
pub(crate) fn cell(value: &Value, max: usize) -> String {
    let text: String = text(value).chars().take(max.saturating_mul(4).max(max)).collect();
    cut(&printable(&text), max)
}

/// A table whose cells are texts already.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    /// Headings.
    pub columns: Vec<String>,
    /// Whether a column stands to the right.
    pub numeric: Vec<bool>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Cells {
    fn widths(&self) -> Vec<usize> {
        let cell = |i: usize| self.rows.iter().map(move |r| r[i].width());
        (0..self.columns.len())
            .map(|i| cell(i).chain([self.columns[i].width()]).max().unwrap_or(0))
            .collect()
    }

    /// A header, a rule, the rows; then what was left out.
    pub fn write(&self, indent: usize, layout: Layout) -> String {
        let (widths, shown) = fitted(self.widths(), &self.numeric, (indent, GAP), layout.width);
        let rows = layout.rows.unwrap_or(usize::MAX);
        let mut out = self.line(&self.columns, indent, &widths[..shown]);
        let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        out.push_str(&self.line(&rules, indent, &widths[..shown]));
        for row in self.rows.iter().take(rows) {
            out.push_str(&self.line(row, indent, &widths[..shown]));
        }
        let mut left_out = Vec::new();
        if self.rows.len() > rows {
            left_out.push(format!("{} more rows", self.rows.len() - rows));
        }
        if shown < self.columns.len() {
            left_out.push(format!("more columns: {}", self.columns[shown..].join(", ")));
        }
        if !left_out.is_empty() {
            let text = format!("({})", left_out.join("; "));
            let pad = " ".repeat(indent);
            out.push_str(&filled(&text, &pad, &pad, layout.width.unwrap_or(usize::MAX)));
        }
        out
    }

    fn line(&self, fields: &[String], indent: usize, widths: &[usize]) -> String {
        line(fields, &self.numeric, indent, widths)
    }
}

fn line(fields: &[String], numeric: &[bool], indent: usize, widths: &[usize]) -> String {
    let mut out = " ".repeat(indent);
    for (i, (field, width)) in fields.iter().zip(widths).enumerate() {
        if i > 0 {
            out.push_str(&" ".repeat(GAP));
        }
        let field = cut(field, *width);
        let pad = " ".repeat(width.saturating_sub(field.width()));
        out.extend(if numeric[i] { [pad, field] } else { [field, pad] });
    }
    out.trim_end().to_owned() + "\n"
}

/// The rows of a query as aligned columns, in pieces: cells are made twice, for the widths and for
/// the lines, and never held all at once.
///
/// # Errors
/// Errors of `write`; where it gives false, nothing more is written.
pub fn table_of(
    batches: &[RecordBatch],
    layout: Layout,
    write: &mut dyn FnMut(Vec<u8>) -> Result<bool>,
) -> Result<()> {
    let Some(first) = batches.first() else { return Ok(()) };
    let schema = first.schema();
    let columns: Vec<String> = schema.fields().iter().map(|f| printable(f.name())).collect();
    let mut widths: Vec<usize> = columns.iter().map(|c| c.width()).collect();
    let mut known = vec![false; columns.len()];
    let mut numeric = vec![true; columns.len()];
    for batch in batches {
        for (i, column) in batch.columns().iter().enumerate() {
            for row in 0..batch.num_rows() {
                let value = json::value(column, row);
                widths[i] = widths[i].max(cell(&value, LONGEST_CELL).width());
                if !value.is_null() {
                    known[i] = true;
                    numeric[i] &= value.is_number();
                }
            }
        }
    }
    numeric.iter_mut().zip(known).for_each(|(n, known)| *n &= known);
    let (widths, shown) = fitted(widths, &numeric, (0, GAP), layout.width);
    let widths = &widths[..shown];
    let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let head = line(&columns, &numeric, 0, widths) + &line(&rules, &numeric, 0, widths);
    if !write(head.into_bytes())? {
        return Ok(());
    }
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch.columns()[..shown]
                .iter()
                .map(|column| cell(&json::value(column, row), LONGEST_CELL))
                .collect();
            if !write(line(&cells, &numeric, 0, widths).into_bytes())? {
                return Ok(());
            }
        }
    }
    if shown < columns.len() {
        let note = format!("(more columns: {})", columns[shown..].join(", "));
        let width = layout.width.unwrap_or(usize::MAX);
        write(filled(&note, "", "", width).into_bytes())?;
    }
    Ok(())
}

/// Widths of the columns that fit, and the number of these columns. Texts give way first, then the
/// last columns, and the first column last of all.
///
/// `frame` is the room that a line takes beside its columns, and that between two of them.
pub(crate) fn fitted(
    mut widths: Vec<usize>,
    numeric: &[bool],
    frame: (usize, usize),
    limit: Option<usize>,
) -> (Vec<usize>, usize) {
    let (indent, gap) = frame;
    let mut shown = widths.len();
    let Some(limit) = limit else { return (widths, shown) };
    let total = |widths: &[usize]| {
        indent + widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
    };
    loop {
        let excess = total(&widths[..shown]).saturating_sub(limit);
        if excess == 0 {
            return (widths, shown);
        }
        // The first column says what a row is.
        let widest = (1..shown)
            .filter(|i| !numeric[*i] && widths[*i] > LEAST_TEXT)
            .max_by_key(|i| (widths[*i], *i));
        match widest {
            Some(i) => {
                // Down to the next widest, so that no one text pays for all.
                let next = (1..shown)
                    .filter(|j| *j != i && !numeric[*j])
                    .map(|j| widths[j])
                    .max()
                    .unwrap_or(0)
                    .min(widths[i] - 1);
                widths[i] =
                    (widths[i] - excess.min(widths[i] - LEAST_TEXT)).max(next).max(LEAST_TEXT);
            }
            None if shown > 1 => shown -= 1,
            None => {
                widths[0] = widths[0].min(limit.saturating_sub(indent).max(1));
                return (widths, shown);
            }
        }
    }
}

/// Aligned columns of texts, of which some stand to the right.
pub fn texts(columns: &[(&str, bool)], rows: Vec<Vec<String>>, layout: Layout) -> String {
    let cells = Cells {
        columns: columns.iter().map(|(name, _)| printable(name)).collect(),
        numeric: columns.iter().map(|(_, right)| *right).collect(),
        rows: rows.iter().map(|row| row.iter().map(|c| printable(c)).collect()).collect(),
    };
    cells.write(0, layout)
}

/// A name and what it is, for a list that people read.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The heading that it is listed under; empty for none.
    pub group: String,
    /// The name.
    pub name: String,
    /// A word about it, as its unit.
    pub kind: String,
    /// A sentence about it.
    pub text: String,
}

/// Names in groups, each with its sentence: in lines of a screen, else whole.
pub fn entries(entries: &[Entry], width: Option<usize>) -> String {
    let longest = |of: fn(&Entry) -> &str| entries.iter().map(|e| of(e).width()).max().unwrap_or(0);
    let (names, kinds) = (longest(|e| &e.name), longest(|e| &e.kind));
    let mut out = String::new();
    let mut group = "";
    for entry in entries {
        if entry.group != group {
            if !out.is_empty() {
                out.push('\n');
            }
            group = &entry.group;
            out.push_str(&format!("{}\n", printable(group)));
        }
        let indent = if group.is_empty() { "" } else { "  " };
        let padded = |text: &str, to: usize| {
            let text = printable(text);
            let fill = " ".repeat(to.saturating_sub(text.width()));
            text + &fill
        };
        let mut first = format!("{indent}{}  ", padded(&entry.name, names));
        if kinds > 0 {
            first.push_str(&format!("{}  ", padded(&entry.kind, kinds)));
        }
        // Where names leave little room, the text goes on below them.
        let column = match width {
            Some(width) if first.width() > width / 2 => indent.len() + 4,
            _ => first.width(),
        };
        let further = " ".repeat(column);
        let text = printable(&entry.text);
        out.push_str(&filled(&text, &first, &further, width.unwrap_or(usize::MAX)));
    }
    out
}

fn numeric<'a>(values: impl Iterator<Item = &'a Value>) -> bool {
    let mut known = values.filter(|v| !v.is_null()).peekable();
    known.peek().is_some() && known.all(Value::is_number)
}

/// A header, a rule, the rows; two spaces between columns.
pub(super) fn write(
    columns: &[String],
    rows: &[Vec<Value>],
    max_cell: usize,
    layout: Layout,
) -> String {
    let texts = rows.iter().map(|row| row.iter().map(|v| cell(v, max_cell)).collect());
    let cells = Cells {
        columns: columns.iter().map(|c| printable(c)).collect(),
        numeric: (0..columns.len()).map(|i| numeric(rows.iter().map(|r| &r[i]))).collect(),
        rows: texts.collect(),
    };
    cells.write(0, layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rows: &[[&str; 3]]) -> Cells {
        Cells {
            columns: ["name", "time", "where"].map(str::to_owned).to_vec(),
            numeric: vec![false, true, false],
            rows: rows.iter().map(|r| r.map(str::to_owned).to_vec()).collect(),
        }
    }

    /// What is written of a row of three numbers, where each column takes seven characters; nothing
    /// behind so many pieces is wanted.
    fn written(width: usize, pieces: usize) -> String {
        let column = |name| {
            let values = arrow::array::Int64Array::from(vec![1_000_000]);
            (name, std::sync::Arc::new(values) as arrow::array::ArrayRef)
        };
        let columns = ["first", "second", "third"].map(column);
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let (mut out, mut left) = (String::new(), pieces);
        let mut write = |bytes: Vec<u8>| {
            out.push_str(&String::from_utf8(bytes).expect("it is text"));
            left -= 1;
            Ok(left > 0)
        };
        let layout = Layout { width: Some(width), rows: None };
        table_of(&[batch], layout, &mut write).expect("nothing fails");
        out
    }

    #[test]
    fn columns_that_do_not_fit_are_named_below() {
        assert_eq!(
            written(25, 9),
            "  first   second    third\n-------  -------  -------\n1000000  1000000  1000000\n"
        );
        assert_eq!(
            written(24, 9),
            "  first   second\n-------  -------\n1000000  1000000\n(more columns: third)\n"
        );
        // Whoever reads may have enough of it.
        assert_eq!(written(24, 2), "  first   second\n-------  -------\n1000000  1000000\n");
        assert_eq!(written(24, 1), "  first   second\n-------  -------\n");
    }

    #[test]
    fn an_empty_line_parts_groups() {
        let entry = |group: &str, name: &str| {
            let [group, name, kind, text] = [group, name, "ms", "What it is."].map(str::to_owned);
            Entry { group, name, kind, text }
        };
        let text = entries(&[entry("first", "a"), entry("first", "bc"), entry("next", "d")], None);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "first",
                "  a   ms  What it is.",
                "  bc  ms  What it is.",
                "",
                "next",
                "  d   ms  What it is.",
            ]
        );
    }

    #[test]
    fn a_table_fits_or_says_what_is_left_out() {
        let long = "kernel_".repeat(8);
        let table = cells(&[[&long, "1.5 ms", "rank 3"], ["b", "2 ms", "rank 4"]]);
        let whole = table.write(0, Layout::default());
        assert!(whole.contains(&long), "{whole}");
        for width in [60, 40, 30, 20, 10] {
            let layout = Layout { width: Some(width), rows: Some(1) };
            let text = table.write(2, layout);
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(width < 20 || widest <= Some(width), "{width}: {text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains("1 more rows"), "{text}");
        }
        let narrow = table.write(0, Layout { width: Some(70), rows: None });
        assert!(narrow.contains(&long) && narrow.contains("(more columns: where)"), "{narrow}");
        let narrow = table.write(0, Layout { width: Some(27), rows: None });
        assert!(narrow.contains("(more columns: time, where)"), "{narrow}");
        assert!(narrow.contains('…'), "{narrow}");
    }
}
