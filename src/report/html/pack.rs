//! The data of a page, smaller than the document it is of: tables by column, a text that occurs
//! often written once, what repeats as runs, lists of small numbers as texts, and of the details of
//! a metric only what is a single value.
//!
//! A timeline has tens of thousands of spans, each with the name of a kernel: by row they are
//! several megabytes. The script of the page turns the columns into rows again.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Longer texts among the details of a metric are left out.
const MAX_DETAIL: usize = 400;

/// A document with its tables by column.
pub(super) fn packed(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(packed).collect()),
        Value::Object(object) => {
            let rows = object.get("rows").and_then(Value::as_array);
            let columns = object.get("columns").and_then(Value::as_array);
            if let (Some(rows), Some(columns)) = (rows, columns) {
                return sheet(object, rows, columns.len());
            }
            let metric = object.contains_key("metric");
            let field = |(key, value): (&String, &Value)| {
                let value = match value {
                    Value::Object(details) if metric && key == "details" => scalars(details),
                    value => packed(value),
                };
                (key.clone(), value)
            };
            Value::Object(object.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

fn sheet(object: &Map<String, Value>, rows: &[Value], width: usize) -> Value {
    let mut out: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| *key != "rows")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let data = (0..width).map(|i| column(rows.iter().map(|row| &row[i]).collect())).collect();
    out.insert("row_count".to_owned(), rows.len().into());
    out.insert("data".to_owned(), Value::Array(data));
    Value::Object(out)
}

/// The letter that stands for 0 in a list of small numbers; those after it for 1 and so on. None of
/// them is markup, or an escape of JSON.
const FIRST_LETTER: u32 = 0xC0;

/// Cells of a column: as they are, or
/// - texts that occur more than twice on average: the texts, and the places of the cells among them
///   (-1 for null), as runs where that is shorter;
/// - what repeats: its runs, each value with how often it stands;
/// - lists of numbers from 0 to 255: a text for each, of one letter a number.
fn column(cells: Vec<&Value>) -> Value {
    let mut places: HashMap<&str, i64> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut index = Vec::with_capacity(cells.len());
    for cell in &cells {
        match cell {
            Value::Null => index.push(Value::from(-1)),
            Value::String(text) => {
                index.push(Value::from(*places.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() as i64 - 1
                })))
            }
            _ => break,
        }
    }
    if index.len() == cells.len() && texts.len() * 2 < cells.len() && !texts.is_empty() {
        let runs = runs(&index.iter().collect::<Vec<_>>());
        return match runs {
            Some(runs) => json!({"texts": texts, "runs": runs}),
            None => json!({"texts": texts, "index": index}),
        };
    }
    if let Some(lists) = lists(&cells) {
        return json!({"lists": lists});
    }
    match runs(&cells) {
        Some(runs) => json!({"runs": runs}),
        None => cells.into_iter().cloned().collect(),
    }
}

/// Value and number of each run, where there are less than a quarter as many runs as cells.
fn runs(cells: &[&Value]) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    for run in cells.chunk_by(|a, b| a == b) {
        if out.len() * 2 >= cells.len() {
            return None;
        }
        out.extend([run[0].clone(), run.len().into()]);
    }
    (out.len() * 2 < cells.len()).then_some(out)
}

fn lists(cells: &[&Value]) -> Option<Vec<String>> {
    let letter = |value: &Value| {
        let number = u32::try_from(value.as_u64()?).ok().filter(|n| *n < 256)?;
        char::from_u32(FIRST_LETTER + number)
    };
    let list = |cell: &&Value| cell.as_array()?.iter().map(letter).collect::<Option<String>>();
    cells.iter().map(list).collect::<Option<Vec<String>>>().filter(|lists| !lists.is_empty())
}

fn scalars(details: &Map<String, Value>) -> Value {
    let keep = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.len() <= MAX_DETAIL,
        _ => true,
    };
    let kept = details.iter().filter(|(_, value)| keep(value));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_by_column_and_texts_once() {
        let sheet = json!({"name": "s", "columns": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "rows": [["x", 1, null], ["x", 2, null], [null, 0.1, null], ["y", null, null],
                     ["x", 3, null]]});
        assert_eq!(
            packed(&json!({"runs": [{"sheets": [sheet]}]})),
            json!({"runs": [{"sheets": [{"name": "s",
                "columns": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "row_count": 5,
                "data": [{"texts": ["x", "y"], "index": [0, 0, -1, 1, 0]},
                         [1, 2, 0.1, null, 3], {"runs": [null, 5]}]}]}]})
        );
    }

    #[test]
    fn what_repeats_stands_once_and_small_numbers_are_letters() {
        let rows: Vec<Value> =
            (0..20).map(|i| json!([i / 10, if i < 12 { "x" } else { "y" }])).collect();
        let sheet = json!({"columns": [{"name": "a"}, {"name": "b"}], "rows": rows});
        assert_eq!(
            packed(&sheet)["data"],
            json!([{"runs": [0, 10, 1, 10]}, {"texts": ["x", "y"], "runs": [0, 12, 1, 8]}])
        );
        let lists = json!({"columns": [{"name": "a"}], "rows": [[[0, 1, 100]], [[]]]});
        assert_eq!(packed(&lists)["data"], json!([{"lists": ["\u{c0}\u{c1}\u{124}", ""]}]));
        let others = json!({"columns": [{"name": "a"}], "rows": [[[0, 256]], [[-1]]]});
        assert_eq!(packed(&others)["data"], json!([[[0, 256], [-1]]]));
    }

    #[test]
    fn an_empty_table_has_empty_columns() {
        let sheet = json!({"columns": [{"name": "a"}], "rows": [], "reason": "none"});
        assert_eq!(
            packed(&sheet),
            json!({"columns": [{"name": "a"}], "reason": "none", "row_count": 0, "data": [[]]})
        );
    }

    #[test]
    fn of_details_single_values_stay() {
        let metric = json!({"metric": "m", "details": {"p": 1, "by_rank": [1, 2], "t": "x"}});
        assert_eq!(packed(&metric), json!({"metric": "m", "details": {"p": 1, "t": "x"}}));
    }
}
