//! The SQL that a file or a locked connection may hold, and the error of a query that DuckDB
//! refuses.

use duckdb::Connection;
use serde_json::Value;

use crate::error::{Error, Result, nearest};
use crate::registry::{Registry, SqlFile};
use crate::schema::TABLES;

/// The syntax tree of `SELECT` statements; `{"error": true, ...}` for anything else.
pub(super) fn syntax_tree(connection: &Connection, sql: &str) -> Result<Value> {
    let text: String =
        connection.query_row("SELECT json_serialize_sql(?)", [sql], |row| row.get(0))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Refuses a text that is not one `SELECT`: what a file of a metric or view may hold.
///
/// # Errors
/// `sql` for any other statement, several, or one that cannot be parsed.
pub(crate) fn one_select(connection: &Connection, sql: &str) -> Result<()> {
    match select_only(connection, sql)? {
        1 => Ok(()),
        n => Err(Error::new("sql", format!("the file holds {n} statements, and should hold one"))),
    }
}

/// The number of statements of a text; refuses any that is no `SELECT`.
pub(super) fn select_only(connection: &Connection, sql: &str) -> Result<usize> {
    let tree = syntax_tree(connection, sql)?;
    if tree.get("error").and_then(Value::as_bool) != Some(true) {
        return Ok(tree.get("statements").and_then(Value::as_array).map_or(0, Vec::len));
    }
    let why = tree.get("error_message").and_then(Value::as_str).unwrap_or_default();
    if !why.contains("Only SELECT") {
        // A slip in a SELECT: the parser's own words.
        return Err(Error::new("sql", why));
    }
    Err(Error::new("sql", "only SELECT runs here")
        .hint("metrics, views and --sandbox change nothing; leave --sandbox away to write"))
}

/// The error of a query that DuckDB refuses. A table that the header does not list is named, with
/// the line that lists it.
pub(super) fn explained(registry: &Registry, file: &SqlFile, error: duckdb::Error) -> Error {
    let error = Error::from(error).at(file.path.clone());
    let Some((_, rest)) = error.message.split_once("Table with name ") else { return error };
    let Some((table, _)) = rest.split_once(" does not exist") else { return error };
    let tables = TABLES.iter().map(|t| t.name);
    let known: Vec<&str> = tables.chain(registry.views().map(|v| v.header.name.as_str())).collect();
    if known.contains(&table) {
        let message = format!("the query reads `{table}`, which its header does not list");
        return Error::new("sql", message).at(file.path.clone()).hint(format!(
            "add `-- @requires {table}`, or `-- @reads {table}` where it may be empty"
        ));
    }
    let message = format!("the query reads `{table}`, and there is no such table or view");
    Error::new("sql", message).at(file.path.clone()).hint(match nearest(table, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ccl-sql list tables` shows them".to_owned(),
    })
}
