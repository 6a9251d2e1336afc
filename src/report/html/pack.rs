//! The data of a page, smaller than the document it is of: tables by column, a text that occurs
//! often written once, and of the details of a metric only what is a single value.
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

/// Cells of a column: as they are, or (texts that occur more than twice on average) as a list of
/// the texts and the places of the cells in it, -1 for null.
fn column(cells: Vec<&Value>) -> Value {
    let mut places: HashMap<&str, i64> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut index = Vec::with_capacity(cells.len());
    for cell in &cells {
        match cell {
            Value::Null => index.push(-1),
            Value::String(text) => index.push(*places.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() as i64 - 1
            })),
            _ => return cells.into_iter().cloned().collect(),
        }
    }
    if texts.len() * 2 < cells.len() && !texts.is_empty() {
        return json!({"texts": texts, "index": index});
    }
    cells.into_iter().cloned().collect()
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
                         [1, 2, 0.1, null, 3], [null, null, null, null, null]]}]}]})
        );
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
