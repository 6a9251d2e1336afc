//! One column a line, for rows too wide for a table; control characters shown as such.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::report::grid::value::{printable, text};

/// `column = value` lines, names to the right, an empty line between rows.
pub(super) fn write(columns: &[String], rows: &[Vec<Value>]) -> String {
    let names: Vec<String> = columns.iter().map(|c| printable(c)).collect();
    let width = names.iter().map(|n| n.width()).max().unwrap_or(0);
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        for (name, value) in names.iter().zip(row) {
            out.push_str(&" ".repeat(width - name.width()));
            out.push_str(&format!("{name} = {}\n", printable(&text(value))));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned_and_control_characters_are_shown() {
        let rows = vec![
            vec!["a\u{1b}[31m\nb\u{9b}".into(), 1.into()],
            vec![Value::Null, serde_json::json!({"k": "\u{7f}"})],
        ];
        let columns = ["name", "n"].map(str::to_owned);
        assert_eq!(
            write(&columns, &rows),
            "name = a\\u{1b}[31m\\nb\\u{9b}\n   n = 1\n\nname = NULL\n   n = {\"k\":\"\\u{7f}\"}\n"
        );
    }
}
