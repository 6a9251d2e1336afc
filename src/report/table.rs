//! Aligned columns: numbers to the right, long cells cut, control characters shown as such.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Grid;

/// A value as text, before anything is cut or escaped.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Names come from traces of strangers: no escape sequence reaches the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn cell(value: &Value, max: usize) -> String {
    let text: String = text(value).chars().take(max.saturating_mul(4).max(max)).collect();
    let text = printable(&text);
    if text.width() <= max {
        return text;
    }
    let mut out = String::new();
    let mut width = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if width + w >= max {
            break;
        }
        width += w;
        out.push(c);
    }
    out.push('…');
    out
}

/// A header, a rule, the rows; two spaces between columns.
pub fn write(grid: &Grid, max_cell: usize) -> String {
    let cells: Vec<Vec<String>> =
        grid.rows.iter().map(|row| row.iter().map(|v| cell(v, max_cell)).collect()).collect();
    let numeric: Vec<bool> = (0..grid.columns.len())
        .map(|i| {
            let known: Vec<&Value> =
                grid.rows.iter().map(|r| &r[i]).filter(|v| !v.is_null()).collect();
            !known.is_empty() && known.iter().all(|v| v.is_number())
        })
        .collect();
    let widths: Vec<usize> = grid
        .columns
        .iter()
        .enumerate()
        .map(|(i, name)| {
            cells.iter().map(|r| r[i].width()).chain([name.width()]).max().unwrap_or(0)
        })
        .collect();
    let line = |fields: &[String]| {
        let mut out = String::new();
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                out.push_str("  ");
            }
            let pad = " ".repeat(widths[i] - field.width());
            if numeric[i] {
                out.push_str(&pad);
                out.push_str(field);
            } else {
                out.push_str(field);
                out.push_str(&pad);
            }
        }
        out.trim_end().to_owned() + "\n"
    };
    let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let mut out = line(&grid.columns) + &line(&rule);
    for row in &cells {
        out.push_str(&line(row));
    }
    out
}
