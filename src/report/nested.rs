//! Details of a metric that are lists and maps, as tables: by group, dimension, rank and kind. The
//! cells are those of the metric; the end of the name of a key is its unit.

use serde_json::{Map, Value};

use crate::engine::metric::MetricResult;
use crate::registry::SqlFile;
use crate::registry::units::of_name;
use crate::report::sheet::{Sheet, SheetColumn};

/// Most rows of a table; the JSON of the metric has all.
const MOST_ROWS: usize = 2000;

/// The tables of a metric, in the order of its columns.
pub(super) fn tables(file: &SqlFile, result: &MetricResult) -> Vec<Sheet> {
    file.header
        .columns
        .iter()
        .filter_map(|column| {
            let mut sheet =
                table(&column.name, column.unit.as_deref(), result.details.get(&column.name)?)?;
            sheet.name = format!("{}.{}", result.metric, column.name);
            sheet.summary.clone_from(&column.doc);
            if sheet.rows.len() > MOST_ROWS {
                sheet.reason = Some(format!(
                    "the first {MOST_ROWS} of {} rows; `ccl-sql metric {} --format json` has all",
                    sheet.rows.len(),
                    result.metric
                ));
                sheet.rows.truncate(MOST_ROWS);
            }
            Some(sheet)
        })
        .collect()
}

/// A list of structures by their keys, a list of values in one column, a map in two.
fn table(name: &str, unit: Option<&str>, value: &Value) -> Option<Sheet> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let rows = items.iter().map(|item| match item {
                Value::Object(map) => map.clone(),
                other => Map::from_iter([("value".to_owned(), other.clone())]),
            });
            Some(of_rows(rows.collect()))
        }
        Value::Array(items) if !items.is_empty() => Some(Sheet {
            columns: vec![named(name, unit)],
            rows: items.iter().map(|item| vec![item.clone()]).collect(),
            ..Sheet::default()
        }),
        Value::Object(map) if map.values().any(Value::is_object) => {
            let rows = map.iter().map(|(key, value)| {
                let mut row = Map::from_iter([("key".to_owned(), Value::from(key.as_str()))]);
                match value {
                    Value::Object(fields) => row.extend(fields.clone()),
                    other => drop(row.insert("value".to_owned(), other.clone())),
                }
                row
            });
            Some(of_rows(rows.collect()))
        }
        Value::Object(map) if !map.is_empty() => Some(Sheet {
            columns: vec![named("key", None), named("value", unit)],
            rows: map.iter().map(|(k, v)| vec![Value::from(k.as_str()), v.clone()]).collect(),
            ..Sheet::default()
        }),
        _ => None,
    }
}

/// Rows of structures: the columns are their keys, each where it comes first.
fn of_rows(rows: Vec<Map<String, Value>>) -> Sheet {
    let mut keys: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(Map::keys) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    Sheet {
        columns: keys.iter().map(|key| named(key, None)).collect(),
        rows: rows
            .iter()
            .map(|row| keys.iter().map(|k| row.get(*k).cloned().unwrap_or_default()).collect())
            .collect(),
        ..Sheet::default()
    }
}

/// A column with its unit: that of the metric, else what its name ends in.
fn named(name: &str, unit: Option<&str>) -> SheetColumn {
    SheetColumn {
        name: name.to_owned(),
        unit: unit.or_else(|| of_name(name)).map(str::to_owned),
        ..SheetColumn::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Fields = Vec<(String, Option<String>)>;

    fn of(value: Value, unit: Option<&str>) -> Option<(Fields, Value)> {
        let sheet = table("by_x_ms", unit, &value)?;
        let columns = sheet.columns.into_iter().map(|c| (c.name, c.unit)).collect();
        Some((columns, json!(sheet.rows)))
    }

    fn columns(of: &[(&str, Option<&str>)]) -> Fields {
        of.iter().map(|(name, unit)| ((*name).to_owned(), unit.map(str::to_owned))).collect()
    }

    #[test]
    fn structures_are_rows_and_what_one_lacks_is_null() {
        let list = json!([{"rank": 0, "wait_us": 1.5}, {"rank": 1, "bw_gb_per_s": 2, "calls": 3}]);
        let (heads, rows) = of(list, None).expect("a table");
        let want = [
            ("rank", None),
            ("wait_us", Some("us")),
            ("bw_gb_per_s", Some("gb_per_s")),
            ("calls", Some("calls")),
        ];
        assert_eq!(heads, columns(&want));
        assert_eq!(rows, json!([[0, 1.5, null, null], [1, null, 2, 3]]));
    }

    #[test]
    fn a_table_has_an_end_and_says_so() {
        let registry = crate::registry::Registry::load(None).expect("the embedded files are right");
        let file = registry.metric("straggler_lag").expect("a metric");
        let column = &file.header.columns[2].name;
        let mut result = MetricResult {
            metric: "m".to_owned(),
            version: 1,
            trace: "t".to_owned(),
            value: Value::Null,
            unit: None,
            reason: None,
            details: Map::new(),
            params: Map::new(),
            warnings: Vec::new(),
            answer: None,
            sql_sha256: String::new(),
            trace_fingerprint: String::new(),
            batch: None,
        };
        for count in [MOST_ROWS, MOST_ROWS + 1] {
            let list = json!((0..count).collect::<Vec<usize>>());
            result.details = Map::from_iter([(column.clone(), list)]);
            let [sheet] = &tables(file, &result)[..] else { panic!("one table") };
            assert_eq!((&*sheet.name, sheet.rows.len()), (&*format!("m.{column}"), MOST_ROWS));
            let said = "the first 2000 of 2001 rows; `ccl-sql metric m --format json` has all";
            assert_eq!(sheet.reason.as_deref(), (count > MOST_ROWS).then_some(said));
        }
    }

    #[test]
    fn maps_and_lists_of_values_keep_the_unit_of_their_column() {
        let (heads, rows) = of(json!({"dp": 1.0, "tp": 2}), Some("ms")).expect("a table");
        assert_eq!(heads, columns(&[("key", None), ("value", Some("ms"))]));
        assert_eq!(rows, json!([["dp", 1.0], ["tp", 2]]));
        let (heads, rows) = of(json!([4, 5]), Some("ms")).expect("a table");
        assert_eq!(heads, columns(&[("by_x_ms", Some("ms"))]));
        assert_eq!(rows, json!([[4], [5]]));
        let (heads, rows) = of(json!({"0": {"n": 1}, "1": {"n": 2}}), None).expect("a table");
        assert_eq!(heads, columns(&[("key", None), ("n", None)]));
        assert_eq!(rows, json!([["0", 1], ["1", 2]]));
    }

    #[test]
    fn single_values_and_empty_lists_are_no_tables() {
        for value in [json!(1), json!("x"), json!(null), json!([]), json!({})] {
            assert_eq!(of(value.clone(), None), None, "{value}");
        }
    }
}
