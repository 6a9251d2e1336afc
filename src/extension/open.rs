//! `CALL ccl_open('DIR')`: the tables and views of a data directory, as views of the host's
//! database.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use duckdb::Connection;
use serde_json::Value;

use crate::api::rows::batch;
use crate::api::{Column, Type, open};
use crate::engine::{Definition, one_select};
use crate::error::{Error, Result};
use crate::extension::answer::Function;
use crate::extension::call::Call;
use crate::sql_text::{sql_name, sql_string};

/// The beginning of the comment of each view that is made: only these are replaced.
const MARK: &str = "ccl-sql: ";

/// `ccl_open('DIR')`.
pub struct Open;

impl Function for Open {
    const NAME: &'static str = "ccl_open";
    const ARGUMENTS: usize = 1;
    const NAMED: &'static [&'static str] = &["schema", "options"];
    const COLUMNS: &'static [Column] =
        &[("name", Type::Text), ("kind", Type::Text), ("row", Type::Text)];

    fn answer(call: &Call) -> Result<RecordBatch> {
        call.data()?;
        let [folder] = &call.arguments[0][..] else {
            return Err(Error::new("usage", "a data directory is one path"));
        };
        let own = call.options(&[]);
        let options: Vec<&str> = own.iter().map(String::as_str).collect();
        if !std::path::Path::new(folder).is_dir() {
            return Err(Error::new("io", "there is no such directory")
                .at(folder.clone())
                .hint("FROM ccl_ingest('PATH', data := 'DIR') makes one"));
        }
        let definitions = open(folder).definitions(&options)?;
        call.host.with(|connection| {
            let made = in_transaction(connection, || {
                make(connection, &definitions, &call.search_path, call.one("schema"))
            });
            // The next caller has a place of its own.
            connection.execute_batch("RESET search_path")?;
            made
        })?;
        call.host.open(folder, own);
        let row = |d: &Definition| -> Vec<Value> {
            let kind = if d.is_table { "table" } else { "view" };
            vec![d.name.as_str().into(), kind.into(), d.doc.as_str().into()]
        };
        batch(Self::COLUMNS, definitions.iter().map(row).collect())
    }
}

/// All that `what` does, or nothing.
fn in_transaction(connection: &Connection, what: impl FnOnce() -> Result<()>) -> Result<()> {
    connection.execute_batch("BEGIN")?;
    let done = what().and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if done.is_err() {
        // A commit that failed has ended the transaction.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Makes the views in a schema: the one that is named, or the first of the caller's.
fn make(
    connection: &Connection,
    definitions: &[Definition],
    search_path: &str,
    schema: Option<&str>,
) -> Result<()> {
    if !search_path.is_empty() {
        connection.execute_batch(&format!("SET search_path = {}", sql_string(search_path)))?;
    }
    if let Some(schema) = schema {
        let name = sql_name(schema);
        connection.execute_batch(&format!("CREATE SCHEMA IF NOT EXISTS {name}"))?;
        let database: String =
            connection.query_row("SELECT current_database()", [], |row| row.get(0))?;
        let place = format!("{}.{name}", sql_name(&database));
        connection.execute_batch(&format!("SET search_path = {}", sql_string(&place)))?;
    }
    let taken = taken(connection)?;
    if let Some(clash) = definitions.iter().find(|d| taken.contains(&d.name)) {
        let message = format!("the database has a table or view `{}` of its own", clash.name);
        return Err(Error::new("name-clash", message)
            .hint("make the views in a schema: CALL ccl_open('DIR', schema := 'ccl')"));
    }
    for definition in definitions {
        let (name, query) = (sql_name(&definition.name), &definition.query);
        if let Some(file) = &definition.file {
            // A view of a user's folder could hold more than a query.
            one_select(connection, query).map_err(|e| e.at(file.clone()))?;
        }
        let comment = sql_string(&format!("{MARK}{}", definition.doc));
        connection.execute_batch(&format!(
            "CREATE OR REPLACE VIEW {name} AS {query};\nCOMMENT ON VIEW {name} IS {comment};"
        ))?;
    }
    Ok(())
}

/// Names of the schema that are somebody else's.
fn taken(connection: &Connection) -> Result<BTreeSet<String>> {
    let mut statement = connection.prepare(
        "SELECT table_name FROM duckdb_tables() \
         WHERE database_name = current_database() AND schema_name = current_schema() \
         UNION ALL SELECT view_name FROM duckdb_views() \
         WHERE database_name = current_database() AND schema_name = current_schema() \
         AND NOT internal AND NOT starts_with(coalesce(comment, ''), ?)",
    )?;
    let names = statement.query_map([MARK], |row| row.get(0))?;
    Ok(names.collect::<duckdb::Result<_>>()?)
}
