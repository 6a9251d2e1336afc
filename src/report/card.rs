//! The card of one metric of one trace, for people: the value with its unit and its meaning, then
//! the details by name, nested ones as small tables. Numbers are rounded; the forms for programs
//! are exact.

use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use crate::registry::units::{human, of_name, plain_text};
use crate::report::grid::table::{Cells, Layout};
use crate::report::grid::value::{cut, filled};

/// Columns at which sentences are broken where the screen says nothing.
const WIDTH: usize = 100;

/// Least columns of a screen that a card is made for.
const LEAST_WIDTH: usize = 40;

/// A struct of more fields is one cell, and no columns of its own.
const MOST_FIELDS: usize = 12;

/// The contents of a card.
#[derive(Debug)]
pub struct Card<'a> {
    /// Name of the metric.
    pub metric: &'a str,
    /// Name of the trace.
    pub trace: &'a str,
    /// The value; null with a reason.
    pub value: &'a Value,
    /// Unit of the value.
    pub unit: Option<&'a str>,
    /// The reason why there is no value.
    pub reason: Option<&'a str>,
    /// Words beside the value.
    pub answer: Option<&'a str>,
    /// A sentence about the value.
    pub meaning: &'a str,
    /// Name of the detail that the value is.
    pub value_name: &'a str,
    /// Details by name.
    pub details: &'a Map<String, Value>,
    /// Units of details, by name.
    pub units: &'a [(&'a str, Option<&'a str>)],
    /// Whether numbers stand as they are, without units.
    pub exact: bool,
}

impl Card<'_> {
    /// The card as text.
    pub fn write(&self, layout: Layout) -> String {
        let width = layout.width.unwrap_or(WIDTH).max(LEAST_WIDTH);
        let value = match self.value {
            Value::Null => "no value".to_owned(),
            value => number(value, self.unit, self.exact),
        };
        let mut head = format!("{} of {}: {value}", self.metric, plain_text(self.trace));
        for more in [self.answer, self.reason].into_iter().flatten() {
            head.push_str(&format!("; {}", plain_text(more)));
        }
        let mut out = filled(&head, "", "  ", width);
        out.push_str(&filled(&plain_text(self.meaning), "", "", width));
        let (nested, flat): (Vec<_>, Vec<_>) = self
            .details
            .iter()
            .filter(|(name, _)| *name != self.value_name)
            .partition(|(_, value)| value.is_array() || value.is_object());
        if !flat.is_empty() {
            out.push('\n');
        }
        let names = flat.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in flat {
            let text = format!("{name:names$}  {}", number(value, self.unit_of(name), self.exact));
            out.push_str(&filled(text.trim_end(), "", &" ".repeat(names + 2), width));
        }
        for (name, value) in nested {
            let (unit, exact) = (self.unit_of(name), self.exact);
            out.push_str(&nested_block(name, value, unit, layout, exact));
        }
        out
    }

    fn unit_of(&self, name: &str) -> Option<&str> {
        self.units.iter().find(|(n, _)| *n == name).and_then(|(_, unit)| *unit)
    }
}

/// A list, map or struct under its name.
pub fn nested_block(
    name: &str,
    value: &Value,
    unit: Option<&str>,
    layout: Layout,
    exact: bool,
) -> String {
    let unit = unit.or_else(|| of_name(name));
    let head = format!("\n{name}\n");
    match value {
        Value::Array(items) if items.is_empty() => format!("\n{name}: none\n"),
        Value::Object(fields) if fields.is_empty() => format!("\n{name}: none\n"),
        Value::Array(items) if items.iter().all(Value::is_object) => {
            let rows: Vec<(Option<&str>, &Value)> = items.iter().map(|i| (None, i)).collect();
            head + &records("", &rows, layout, exact)
        }
        Value::Object(fields) if fields.values().all(Value::is_object) => {
            let rows: Vec<(Option<&str>, &Value)> =
                fields.iter().map(|(key, v)| (Some(key.as_str()), v)).collect();
            head + &records(subject(name), &rows, layout, exact)
        }
        Value::Object(fields) => {
            let rows = fields
                .iter()
                .map(|(k, v)| vec![plain_text(k), inline(v, unit.or_else(|| of_name(k)), exact)]);
            let numeric = vec![false, fields.values().any(Value::is_number)];
            head + &pairs(rows.collect(), &numeric, layout)
        }
        Value::Array(items) => {
            let most = layout.rows.unwrap_or(usize::MAX).saturating_mul(4);
            let shown: Vec<String> =
                items.iter().take(most).map(|i| inline(i, cell_unit(unit), exact)).collect();
            let mut text = format!("{name}: {}", shown.join(", "));
            if items.len() > most {
                text.push_str(&format!(" and {} more", items.len() - most));
            }
            let width = layout.width.unwrap_or(WIDTH).max(LEAST_WIDTH);
            format!("\n{}", filled(&text, "", "  ", width))
        }
        other => format!("\n{name}: {}\n", inline(other, unit, exact)),
    }
}

/// The heading for the keys of a map, by the name of the map: `rank` for `per_rank` and `by_rank`.
fn subject(name: &str) -> &str {
    let inner = name.strip_prefix("per_").or_else(|| name.strip_prefix("by_"));
    inner.unwrap_or("name")
}

/// The unit of cells in a column: where its heading says what is counted, numbers stand alone.
pub fn cell_unit(unit: Option<&str>) -> Option<&str> {
    match unit {
        Some("calls" | "tokens") => Some("count"),
        unit => unit,
    }
}

/// Key and value a line, without a heading.
fn pairs(rows: Vec<Vec<String>>, numeric: &[bool], layout: Layout) -> String {
    let most = layout.rows.unwrap_or(usize::MAX);
    let names = rows.iter().take(most).map(|r| r[0].width()).max().unwrap_or(0);
    let values = rows.iter().take(most).map(|r| r[1].width()).max().unwrap_or(0);
    let width = layout.width.unwrap_or(usize::MAX);
    let names = names.min(width.saturating_sub(values.min(width / 2) + 4).max(8));
    let mut out = String::new();
    for row in rows.iter().take(most) {
        let name = cut(&row[0], names);
        let gap = names.saturating_sub(name.width()) + 2;
        let before = if numeric[1] { values.saturating_sub(row[1].width()) } else { 0 };
        let line = format!("  {name}{}{}", " ".repeat(gap + before), row[1]);
        out.push_str(&cut(line.trim_end(), width));
        out.push('\n');
    }
    if rows.len() > most {
        out.push_str(&format!("  ({} more)\n", rows.len() - most));
    }
    out
}

/// A column of a table of objects: its field, and the field inside of that where it is an object.
type Path<'a> = (&'a str, Option<&'a str>);

fn at<'a>(row: &'a Value, (name, inner): Path<'_>) -> Option<&'a Value> {
    let value = row.get(name)?;
    match inner {
        None => Some(value),
        Some(inner) => value.get(inner),
    }
    .filter(|v| !v.is_null())
}

/// The columns of objects: each field that is filled, those of a struct inside one by one, lists
/// last, as they are long.
fn columns<'a>(rows: &[(Option<&str>, &'a Value)]) -> Vec<Path<'a>> {
    let mut paths: Vec<Path<'a>> = Vec::new();
    for (name, value) in rows.iter().filter_map(|(_, row)| row.as_object()).flatten() {
        let inner: Vec<Path<'a>> = match value {
            Value::Null => Vec::new(),
            Value::Object(fields) if fields.len() <= MOST_FIELDS => {
                let known = fields.iter().filter(|(_, v)| !v.is_null());
                known.map(|(field, _)| (name.as_str(), Some(field.as_str()))).collect()
            }
            _ => vec![(name.as_str(), None)],
        };
        for path in inner {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let is_list = |path: &Path<'_>| {
        rows.iter().filter_map(|(_, row)| at(row, *path)).any(|v| v.is_array() || v.is_object())
    };
    let (lists, mut single): (Vec<_>, Vec<_>) = paths.into_iter().partition(is_list);
    single.extend(lists);
    single
}

/// Objects as a table, the keys of a map before them.
fn records(key: &str, rows: &[(Option<&str>, &Value)], layout: Layout, exact: bool) -> String {
    let paths = columns(rows);
    let heading = |(name, inner): Path<'_>| {
        let field = inner.unwrap_or(name);
        // Two fields of one name keep what they are in.
        let alone = paths.iter().filter(|(n, i)| i.unwrap_or(n) == field).count() == 1;
        plain_text(&match inner {
            Some(inner) if !alone => format!("{name}.{inner}"),
            _ => field.to_owned(),
        })
    };
    let mut table = Cells::default();
    if rows.iter().any(|(key, _)| key.is_some()) {
        table.columns.push(key.to_owned());
        table.numeric.push(false);
    }
    for path in &paths {
        let mut values = rows.iter().filter_map(|(_, row)| at(row, *path));
        table.columns.push(heading(*path));
        table.numeric.push(values.all(Value::is_number));
    }
    for (key, row) in rows {
        let mut cells: Vec<String> = key.iter().map(|k| plain_text(k)).collect();
        cells.extend(paths.iter().map(|path| {
            let unit = cell_unit(of_name(path.1.unwrap_or(path.0)));
            at(row, *path).map(|value| inline(value, unit, exact)).unwrap_or_default()
        }));
        table.rows.push(cells);
    }
    table.write(2, layout)
}

/// A value on one line.
fn inline(value: &Value, unit: Option<&str>, exact: bool) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|i| inline(i, unit, exact)).collect();
            items.join(", ")
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(k, v)| {
                    format!("{} {}", plain_text(k), inline(v, unit.or_else(|| of_name(k)), exact))
                })
                .collect();
            fields.join(", ")
        }
        value => number(value, unit, exact),
    }
}

/// A value with its unit; a number as it is where it is wanted exact.
pub fn number(value: &Value, unit: Option<&str>, exact: bool) -> String {
    match value {
        Value::Number(number) if exact => number.to_string(),
        value => human(value, unit),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(details: &Value, layout: Layout) -> String {
        Card {
            metric: "straggler",
            trace: "job\u{1b}[31m",
            value: &json!(26.512_345),
            unit: Some("pct"),
            reason: None,
            answer: Some("rank 4 computes longer"),
            meaning: "How far apart the ranks are.",
            value_name: "imbalance_pct",
            details: details.as_object().expect("an object"),
            units: &[("per_rank", Some("ms")), ("wait_ms", Some("ms"))],
            exact: false,
        }
        .write(layout)
    }

    #[test]
    fn the_first_line_has_the_answer_and_nested_details_are_tables() {
        let details = json!({
            "imbalance_pct": 26.512_345, "wait_ms": 1234.567, "flag": null,
            "per_rank": {"0": 1.5, "10": 200.25},
            "by_rank": [
                {"rank": 4, "wait_ms": 0.0124, "why": "compute"},
                {"rank": 5, "wait_ms": 2, "why": null},
            ],
            "by_dim": {"dp": {"calls": 12345, "fit": {"exposed_ms": 2.5, "flag": null}}},
            "ranks": [1, 2, 3], "empty": [],
        });
        let card = text(&details, Layout::default());
        assert_eq!(
            card,
            "straggler of job[31m: 26.5 %; rank 4 computes longer\n\
             How far apart the ranks are.\n\n\
             wait_ms  1.235 s\n\
             flag     n/a\n\n\
             per_rank\n  0   1.500 ms\n  10  200.3 ms\n\n\
             by_rank\n  rank   wait_ms  why\n  ----  --------  -------\n\
             \x20    4  12.40 us  compute\n     5  2.000 ms\n\n\
             by_dim\n  dim   calls  exposed_ms\n  ---  ------  ----------\n\
             \x20 dp   12,345    2.500 ms\n\n\
             ranks: 1, 2, 3\n\n\
             empty: none\n"
        );
    }

    #[test]
    fn a_card_keeps_to_the_screen() {
        let rows: Vec<Value> = (0..50)
            .map(|i| {
                json!({
                    "rank": i, "name": "n".repeat(90), "a_ms": 1.0, "b_ms": 2.0, "c_ms": 3.0,
                    "list": [1, 2, 3],
                })
            })
            .collect();
        let details =
            json!({"imbalance_pct": 1, "by_rank": rows, "per_rank": {"k".repeat(200): 1.0}});
        for width in [60, 80, 100] {
            let layout = Layout { width: Some(width), rows: Some(20) };
            let card = text(&details, layout);
            let widest = card.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(width), "{width}: {card}");
            assert!(card.contains("30 more rows"), "{card}");
        }
        let whole = text(&details, Layout::default());
        assert!(whole.contains(&"n".repeat(90)) && whole.contains(&"k".repeat(200)), "{whole}");
        assert_eq!(whole.matches("2.000 ms").count(), 50);
    }
    #[test]
    fn long_details_end_with_how_many_more_there_are() {
        let layout = Layout { width: Some(60), rows: Some(5) };
        let block = |value: &Value| nested_block("by_rank", value, None, layout, true);
        let list: Value = (0..23).collect();
        assert!(block(&list).ends_with(" 18, 19 and 3 more\n"), "{}", block(&list));
        let list: Value = (0..20).collect();
        assert!(block(&list).ends_with(" 18, 19\n"), "{}", block(&list));
        let map = |n: usize| -> Value {
            (0..n).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into()
        };
        assert!(block(&map(7)).ends_with("  k4  4\n  (2 more)\n"), "{}", block(&map(7)));
        assert!(block(&map(5)).ends_with("  k4  4\n"), "{}", block(&map(5)));
        // Deeper values are words.
        let deep = json!([[{"calls": 1, "of": [2, 3]}], [4]]);
        assert!(block(&deep).ends_with("by_rank: calls 1, of 2, 3, 4\n"), "{}", block(&deep));
    }
}
