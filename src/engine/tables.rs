//! Tables of the schema: as a query over Parquet files, and empty ones, which the lint asks.

use std::path::PathBuf;

use duckdb::Connection;

use crate::error::Result;
use crate::schema::{RESULTS, TABLES, Table};
use crate::sql_text::{sql_name, sql_path};

/// A `SELECT` that gives a table its columns from files; without files, no rows of the right types.
pub fn select(table: &Table, files: &[PathBuf]) -> String {
    let columns: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
    if files.is_empty() {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|c| format!("NULL::{} AS {}", c.ty.sql(), sql_name(c.name)))
            .collect();
        return format!("SELECT NULL::VARCHAR AS trace, {} WHERE false", columns.join(", "));
    }
    let list: Vec<String> = files.iter().map(|f| sql_path(f)).collect();
    let columns: Vec<String> = columns.iter().map(|c| sql_name(c)).collect();
    let types = if table.by_rank { "'trace': VARCHAR, 'rank': BIGINT" } else { "'trace': VARCHAR" };
    format!(
        "SELECT trace, {} FROM read_parquet([{}], hive_partitioning = true, \
         hive_types = {{{types}}})",
        columns.join(", "),
        list.join(", ")
    )
}

/// Empty tables of the schema, as tables: what the lint checks queries against.
///
/// # Errors
/// `sql` when DuckDB does not start.
pub fn empty_tables(connection: &Connection) -> Result<()> {
    for table in TABLES.iter().chain([&RESULTS]) {
        empty_table(connection, table)?;
    }
    Ok(())
}

/// One empty table, as a table.
pub(super) fn empty_table(connection: &Connection, table: &Table) -> Result<()> {
    let columns: Vec<String> = std::iter::once("trace VARCHAR".to_owned())
        .chain(table.columns.iter().map(|c| format!("{} {}", sql_name(c.name), c.ty.sql())))
        .collect();
    let sql = format!("CREATE TABLE {} ({})", table.name, columns.join(", "));
    Ok(connection.execute_batch(&sql)?)
}
