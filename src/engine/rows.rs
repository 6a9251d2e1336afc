//! Tables for reports and comparisons: the rows of a view, or of a comparison with its parameters.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use duckdb::ToSql;
use duckdb::types::Value as SqlValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::lacking::{needs, why_null, without_rows};
use crate::engine::{Engine, json};
use crate::error::Result;
use crate::registry::SqlFile;
use crate::sql_text::sql_name;

/// Rows in the order of the header's columns; a row of a view that no trace has is not among them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rows {
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// The reason why there are none.
    pub reason: Option<String>,
}

/// The rows of a view of the traces shown, or of a comparison, with every parameter that its
/// header names. `limit` is the most rows that are wanted: one more says that there are more.
///
/// # Errors
/// `sql` with the path of the file.
pub fn rows(
    engine: &Engine<'_>,
    file: &SqlFile,
    params: &[(&str, SqlValue)],
    limit: usize,
) -> Result<Rows> {
    let header = &file.header;
    let fail = |e: duckdb::Error| engine.explained(file, e);
    let name = &file.header.name;
    let is_kept = engine.registry.view(name).is_some() && engine.is_kept(name);
    let sql = if is_kept {
        engine.make(name)?;
        format!("FROM {}", sql_name(name))
    } else {
        engine.make_inputs(file)?;
        engine.admit_file(file, file.query())?;
        file.query().to_owned()
    };
    let mut statement = engine.connection.prepare(&sql).map_err(fail)?;
    let named: Vec<(&str, &dyn ToSql)> =
        params.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect();
    let mut rows = Vec::new();
    for batch in statement.query_arrow(&named[..]).map_err(fail)? {
        let left = (limit + 1).saturating_sub(rows.len());
        rows.extend(cells(&batch, header.columns.iter().map(|c| c.name.as_str()), left));
        if rows.len() > limit {
            break;
        }
    }
    let reason = if rows.is_empty() { Some(why_empty(engine, file)?) } else { None };
    Ok(Rows { rows, reason })
}

/// Cells of the columns named, of the first rows.
fn cells<'a>(
    batch: &RecordBatch,
    columns: impl Iterator<Item = &'a str>,
    rows: usize,
) -> Vec<Vec<Value>> {
    let columns: Vec<_> = columns.map(|name| batch.column_by_name(name)).collect();
    (0..batch.num_rows().min(rows))
        .map(|row| columns.iter().map(|c| c.map_or(Value::Null, |c| json::value(c, row))).collect())
        .collect()
}

/// The reason why a view is empty: the empty tables that it, or a public view below it, cannot do
/// without; else the reason of its header. Helpers require tables that may be empty.
fn why_empty(engine: &Engine<'_>, file: &SqlFile) -> Result<String> {
    let mut tables = BTreeSet::new();
    let mut waiting: Vec<&str> = file.header.requires.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name) || name.starts_with('_') {
            continue;
        }
        if let Some(view) = engine.registry.view(name) {
            waiting.extend(view.header.requires.iter().map(String::as_str));
        } else {
            tables.insert(name);
        }
    }
    let lacking = without_rows(&engine.connection, tables)?;
    if !lacking.is_empty() {
        return Ok(needs(&lacking));
    }
    Ok(why_null(&file.header, "there are no rows"))
}
