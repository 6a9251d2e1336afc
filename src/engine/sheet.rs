//! Tables for reports and comparisons: the rows of a view, or of a comparison with its parameters.

use arrow::array::RecordBatch;
use duckdb::ToSql;
use duckdb::types::Value as SqlValue;
use serde_json::Value;

use super::{Engine, json};
use crate::error::{Error, Result};
use crate::registry::SqlFile;

/// Rows in the order of the header's columns; a row of a view that no trace has is not among them.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// Why there are none.
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
    for input in header.inputs() {
        engine.make(input)?;
    }
    let fail = |e: duckdb::Error| Error::from(e).at(file.path.clone());
    engine.admit_file(file, file.query())?;
    let mut statement = engine.connection.prepare(file.query()).map_err(fail)?;
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
    let said = || header.nulls.first().cloned().unwrap_or_else(|| "there are no rows".to_owned());
    let reason = rows.is_empty().then(said);
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
