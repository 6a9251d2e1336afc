//! Tables for reports and comparisons: the rows of a view, or of a comparison with its parameters.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use duckdb::ToSql;
use duckdb::types::Value as SqlValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::each::places_of_each;
use crate::engine::lacking::{needs, why_null, without, without_rows};
use crate::engine::{Engine, json};
use crate::error::Result;
use crate::registry::SqlFile;
use crate::sql_text::sql_name;
use crate::store::manifest::Manifest;

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
    let fail = |e: duckdb::Error| engine.explained(file, e);
    let mut statement = engine.connection.prepare(&query(engine, file)?).map_err(fail)?;
    let named: Vec<(&str, &dyn ToSql)> =
        params.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect();
    let mut rows = Vec::new();
    for batch in statement.query_arrow(&named[..]).map_err(fail)? {
        let left = (limit + 1).saturating_sub(rows.len());
        rows.extend(cells(&batch, file, 0..batch.num_rows().min(left)));
        if rows.len() > limit {
            break;
        }
    }
    let reason = match rows.is_empty() {
        true => Some(why_empty(engine, file, |tables| without_rows(&engine.connection, tables))?),
        false => None,
    };
    Ok(Rows { rows, reason })
}

/// The rows of a view of several traces, each of one source, which `engine` shows: those of each,
/// in the order of `traces`, and of each at most one more than `limit`.
///
/// # Errors
/// `sql` with the path of the file.
pub fn rows_each(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
    limit: usize,
) -> Result<Vec<Rows>> {
    let fail = |e: duckdb::Error| engine.explained(file, e);
    let mut statement = engine.connection.prepare(&query(engine, file)?).map_err(fail)?;
    let mut out = vec![Rows::default(); traces.len()];
    for batch in statement.query_arrow([]).map_err(fail)? {
        for (all, own) in out.iter_mut().zip(places_of_each(&batch, traces)) {
            let left = (limit + 1).saturating_sub(all.rows.len());
            all.rows.extend(cells(&batch, file, own.into_iter().take(left)));
        }
    }
    for (all, of) in out.iter_mut().zip(traces) {
        if all.rows.is_empty() {
            all.reason = Some(why_empty(engine, file, |tables| Ok(without(of, tables)))?);
        }
    }
    Ok(out)
}

/// Makes what gives the rows of a view or a comparison, and the query for them.
fn query(engine: &Engine<'_>, file: &SqlFile) -> Result<String> {
    let name = &file.header.name;
    if engine.registry.view(name).is_some() && engine.is_kept(name) {
        engine.make(name)?;
        return Ok(format!("FROM {}", sql_name(name)));
    }
    engine.make_inputs(file)?;
    engine.admit_file(file, file.query())?;
    Ok(file.query().to_owned())
}

/// Cells of the columns that the header names, of some rows.
fn cells(
    batch: &RecordBatch,
    file: &SqlFile,
    rows: impl Iterator<Item = usize>,
) -> Vec<Vec<Value>> {
    let columns: Vec<_> =
        file.header.columns.iter().map(|column| batch.column_by_name(&column.name)).collect();
    rows.map(|row| columns.iter().map(|c| c.map_or(Value::Null, |c| json::value(c, row))).collect())
        .collect()
}

/// The reason why a view is empty: the empty tables that it, or a public view below it, cannot do
/// without, as `is_without` finds them; else that of its header. Helpers require tables that may be
/// empty.
fn why_empty<'f>(
    engine: &'f Engine<'_>,
    file: &'f SqlFile,
    is_without: impl Fn(BTreeSet<&'f str>) -> Result<Vec<&'f str>>,
) -> Result<String> {
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
    let lacking = is_without(tables)?;
    if !lacking.is_empty() {
        return Ok(needs(&lacking));
    }
    Ok(why_null(&file.header, "there are no rows"))
}
