//! The rows of a query as people read them on a screen: a box with the types of the columns, units
//! scaled, nested values as words, and what was left out.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::registry::units::{human, of_name, plain_text};
use crate::report::card::{cell_unit, nested_block, number};
use crate::report::grid::table::{LONGEST_CELL, Layout, cell, fitted};
use crate::report::grid::value::{cut, filled, printable};

/// Nested values of so many rows at most are shown below the box, where a cell is too short.
const ROWS_WITH_BLOCKS: usize = 3;

/// Columns of a nested value in a cell, where it may stand below the box.
const SHORT_NESTED: usize = 36;

/// Columns that a type takes where nothing else needs them.
const LONGEST_TYPE: usize = 13;

/// Rows of a nested table below the box.
const BLOCK_ROWS: usize = 20;

/// Functions whose result has the unit of their argument, as DuckDB names such a column.
const SAME_UNIT: &[&str] =
    &["any_value", "avg", "first", "last", "max", "mean", "median", "min", "mode", "stddev", "sum"];

/// The rows of a query, or some of them.
#[derive(Debug, Clone, Default)]
pub struct People {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Their types; none where they say nothing.
    pub types: Vec<String>,
    /// The first rows.
    pub head: Vec<Vec<Value>>,
    /// The last rows, where some between were left out.
    pub tail: Vec<Vec<Value>>,
    /// The number of all rows; None where they were not all read.
    pub total: Option<usize>,
    /// Whether numbers stand as they are.
    pub exact: bool,
}

/// The unit of a column of a query, by its name.
fn unit(name: &str) -> Option<&'static str> {
    let inner = name.strip_suffix(')').and_then(|n| n.split_once('('));
    let name = match inner {
        Some((function, inner)) if SAME_UNIT.contains(&function) => inner.trim_matches('"'),
        Some(_) => return None,
        None => name,
    };
    // A column that is called `s` is a name as short as any.
    cell_unit(of_name(name).filter(|unit| *unit != "s" || name != "s"))
}

/// A nested value in words: items with commas, fields as `name: value`.
fn words(value: &Value, unit: Option<&str>, exact: bool) -> String {
    let inner = |value: &Value, unit: Option<&str>| match value {
        Value::Array(_) => format!("[{}]", words(value, unit, exact)),
        Value::Object(_) => format!("{{{}}}", words(value, unit, exact)),
        value => words(value, unit, exact),
    };
    // More has no room in any cell.
    const MOST: usize = 64;
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().take(MOST).map(|item| inner(item, unit)).collect(),
        Value::Object(fields) => fields
            .iter()
            .take(MOST)
            .map(|(k, v)| {
                format!("{}: {}", plain_text(k), inner(v, cell_unit(of_name(k)).or(unit)))
            })
            .collect(),
        Value::Null => return "NULL".to_owned(),
        value => return number(value, unit, exact),
    };
    parts.join(", ")
}

/// A value in a cell.
fn shown(value: &Value, unit: Option<&str>, exact: bool) -> String {
    match value {
        Value::Null | Value::String(_) | Value::Bool(_) => cell(value, LONGEST_CELL),
        Value::Number(_) => number(value, unit, exact),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        nested => cut(&words(nested, unit, exact), LONGEST_CELL),
    }
}

/// A number with its noun.
fn count(number: usize, noun: &str) -> String {
    let number = human(&Value::from(number), Some("count"));
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The words of a cell whose value stands below the box.
fn below(value: &Value) -> String {
    let count = match value {
        Value::Array(items) if items.iter().all(Value::is_object) => count(items.len(), "row"),
        Value::Array(items) => count(items.len(), "value"),
        Value::Object(fields) => count(fields.len(), "field"),
        _ => String::new(),
    };
    format!("{count}, below")
}

impl People {
    /// The box, nested values that had no room in it, and what was left out.
    pub fn write(&self, width: Option<usize>) -> String {
        let units: Vec<Option<&str>> = self.columns.iter().map(|name| unit(name)).collect();
        let few = self.head.len() <= ROWS_WITH_BLOCKS && self.tail.is_empty();
        let mut blocks = String::new();
        let mut cells = |row: &[Value]| -> Vec<String> {
            let cells = row.iter().zip(&units).enumerate().map(|(i, (value, unit))| {
                let text = shown(value, *unit, self.exact);
                if !few || text.width() <= SHORT_NESTED || !(value.is_array() || value.is_object())
                {
                    return text;
                }
                let title = match row.first().and_then(Value::as_str) {
                    Some(first) if i > 0 && self.head.len() > 1 => {
                        format!("{} of {}", printable(&self.columns[i]), printable(first))
                    }
                    _ => printable(&self.columns[i]),
                };
                let layout = Layout { width, rows: Some(BLOCK_ROWS) };
                blocks.push_str(&nested_block(&title, value, *unit, layout, self.exact));
                below(value)
            });
            cells.collect()
        };
        let head: Vec<Vec<String>> = self.head.iter().map(|row| cells(row)).collect();
        let tail: Vec<Vec<String>> = self.tail.iter().map(|row| cells(row)).collect();
        let (mut out, left_out) = self.framed(&head, &tail, width);
        let width = width.unwrap_or(usize::MAX);
        out.push_str(&filled(&self.footer(), "", "", width));
        if !left_out.is_empty() {
            out.push_str(&filled(
                &format!("more columns: {}", left_out.join(", ")),
                "",
                "  ",
                width,
            ));
        }
        out + &blocks
    }

    /// The number of rows and columns, and of those shown.
    fn footer(&self) -> String {
        let shown = self.head.len() + self.tail.len();
        let columns = count(self.columns.len(), "column");
        match self.total {
            Some(total) if total > shown => {
                format!("{} ({shown} shown), {columns}", count(total, "row"))
            }
            Some(total) => format!("{}, {columns}", count(total, "row")),
            None => format!("the first {}, {columns}", count(shown, "row")),
        }
    }

    /// The box, and names of the columns that have no room in it.
    fn framed(
        &self,
        head: &[Vec<String>],
        tail: &[Vec<String>],
        width: Option<usize>,
    ) -> (String, Vec<String>) {
        let names: Vec<String> = self.columns.iter().map(|name| printable(name)).collect();
        let numeric: Vec<bool> = (0..names.len())
            .map(|i| {
                let mut known =
                    self.head.iter().chain(&self.tail).map(|r| &r[i]).filter(|v| !v.is_null());
                known.clone().next().is_some() && known.all(Value::is_number)
            })
            .collect();
        let widest = |i: usize| {
            let cells = head.iter().chain(tail).map(|row| row[i].width());
            let ty = self.types.get(i).map_or(0, |ty| ty.width().min(LONGEST_TYPE));
            cells.chain([names[i].width(), ty]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..names.len()).map(widest).collect();
        // Between columns a bar with a space on each side; before and behind all a bar and a space.
        let (mut widths, shown) = fitted(widths, &numeric, (4, 3), width);
        widths.truncate(shown);
        let mut out = rule(&widths, ["┌", "┬", "┐"]);
        out.push_str(&line(&names, &numeric, &widths));
        if !self.types.is_empty() {
            out.push_str(&line(&self.types, &numeric, &widths));
        }
        if !head.is_empty() {
            out.push_str(&rule(&widths, ["├", "┼", "┤"]));
        }
        for row in head {
            out.push_str(&line(row, &numeric, &widths));
        }
        if !tail.is_empty() {
            out.push_str(&line(&vec!["·".to_owned(); names.len()], &numeric, &widths));
        }
        for row in tail {
            out.push_str(&line(row, &numeric, &widths));
        }
        out.push_str(&rule(&widths, ["└", "┴", "┘"]));
        (out, names[shown..].to_vec())
    }
}

fn rule(widths: &[usize], [left, between, right]: [&str; 3]) -> String {
    let lines: Vec<String> = widths.iter().map(|w| "─".repeat(w + 2)).collect();
    format!("{left}{}{right}\n", lines.join(between))
}

fn line(fields: &[String], numeric: &[bool], widths: &[usize]) -> String {
    let mut out = String::from("│");
    for (i, (field, width)) in fields.iter().zip(widths).enumerate() {
        let field = cut(field, *width);
        let pad = " ".repeat(width.saturating_sub(field.width()));
        let [first, second] = if numeric[i] { [pad, field] } else { [field, pad] };
        out.push_str(&format!(" {first}{second} │"));
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn people(columns: &[&str], rows: Vec<Vec<Value>>) -> People {
        People {
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            total: Some(rows.len()),
            head: rows,
            ..People::default()
        }
    }

    #[test]
    fn numbers_carry_the_units_of_their_columns() {
        let rows = vec![vec![json!("a"), json!(1_234_567), json!(0.123_456_7), json!(7)]];
        let table = people(&["name", "sum(dur_ns)", "x", "rank"], rows);
        let text = table.write(None);
        assert!(text.contains("│ a    │    1.235 ms │ 0.1235 │    7 │"), "{text}");
        assert!(text.ends_with("1 row, 4 columns\n"), "{text}");
        let exact = People { exact: true, ..table }.write(None);
        assert!(exact.contains("1234567 │ 0.1234567 │"), "{exact}");
    }

    #[test]
    fn nested_values_are_words_or_stand_below() {
        let calls = json!([{"kind": "all_reduce", "calls": 3}, {"kind": "broadcast", "calls": 12}]);
        let text = people(
            &["trace", "short", "by_kind"],
            vec![vec![json!("t"), json!({"a": 1, "wait_ms": 0.5}), calls.clone()]],
        )
        .write(Some(80));
        assert!(text.contains("a: 1, wait_ms: 500.0 us"), "{text}");
        assert!(text.contains("2 rows, below") && text.contains("\nby_kind\n"), "{text}");
        assert!(text.contains("  all_reduce      3\n"), "{text}");
        let many = people(&["trace", "by_kind"], vec![vec![json!("t"), calls]; 4]).write(None);
        assert!(many.contains("{kind: all_reduce, calls: 3}, {kind"), "{many}");
    }

    #[test]
    fn what_has_no_room_is_said_and_nothing_steers_the_screen() {
        let rows = vec![vec![json!("x\u{1b}[31m\u{202e}\n".repeat(50)), json!(1), json!(2)]];
        let mut table = people(&["hostile\u{9b}", "a_rather_long_name", "another_long_name"], rows);
        table.tail = table.head.clone();
        table.total = Some(1_000_000);
        let text = table.write(Some(40));
        assert!(text.lines().all(|l| l.width() <= 40), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
        assert!(text.contains("1,000,000 rows (2 shown)"), "{text}");
        assert!(text.contains("more columns: a_rather_long_name,\n  another_long_name"), "{text}");
    }
    #[test]
    fn values_inside_of_values_stand_in_brackets() {
        let value = json!([1, [2, 3], null, {"wait_ms": [4.5], "a": {}}]);
        assert_eq!(words(&value, None, true), "1, [2, 3], NULL, {wait_ms: [4.5], a: {}}");
        let many: Value = (0..100).collect();
        assert_eq!(words(&many, None, true).split(", ").count(), 64);
        let cells = [json!([1, 2]), json!([{"a": 1}]), json!({"a": 1}), json!({"a": 1, "b": 2})];
        let said = cells.map(|cell| below(&cell));
        assert_eq!(said, ["2 values, below", "1 row, below", "1 field, below", "2 fields, below"]);
        let units = ["wall_s", "s", "sum(wall_s)", "count(wall_s)"].map(unit);
        assert_eq!(units, [Some("s"), None, Some("s"), None]);
    }
}
