//! Metrics as tables: `FROM mfu`, and with parameters `FROM metric('mfu', peak_tflops := 989)`.
//!
//! DuckDB itself finds out what a statement names: it refuses a table that it does not know, before
//! anything runs. Where that is the name of a metric, the metric is computed as `ccl-sql metric`
//! does, its rows become a temporary table of that name, and the statement is tried again. So a
//! column, a text or a common table expression of that name costs nothing, and whatever takes a
//! table takes a metric: joins, `COPY`, `CREATE TABLE AS`, `DESCRIBE`.
//!
//! `metric` is a macro over `query_table`, whose name for the table holds the arguments as
//! hexadecimal digits of JSON: they pass through DuckDB's error untouched.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use duckdb::Connection;
use serde_json::Value;

use crate::cli::args::ProfileMode;
use crate::cli::context::Context;
use crate::cli::results::{self, computed};
use crate::cli::select;
use crate::cli::split::{code_of, is_word};
use crate::engine::Engine;
use crate::engine::metric::{Params, check_params};
use crate::engine::types::sql_type;
use crate::error::{Error, Result, nearest};
use crate::hash::unhex;
use crate::registry::{Registry, SqlFile};
use crate::sql_text::{sql_name, sql_string};
use crate::store::manifest::identity;

/// The beginning of the name of a table of a metric with arguments.
const CALLED: &str = "@metric_";

/// The database of tables that live as long as their connection.
const TEMPORARY: &str = "temp";

/// The name of the macro.
pub const METRIC: &str = "metric";

/// Its argument for the traces that are wanted; no parameter of a metric has the name.
const TRACE: &str = "trace";

/// What a statement named and DuckDB does not know.
#[derive(Debug, PartialEq, Eq)]
enum Missing<'e> {
    Table(&'e str),
    Function(&'e str),
}

fn missing(error: &Error) -> Option<Missing<'_>> {
    let named = |kind: &str| {
        let (_, rest) = error.message.split_once(kind)?;
        rest.split_once(" does not exist").map(|(name, _)| name)
    };
    named("Table Function with name ")
        .map(Missing::Function)
        .or_else(|| named("Table with name ").map(Missing::Table))
}

/// The metrics that the statements of a connection name.
pub struct MetricTables<'c> {
    context: &'c Context,
    shown: RefCell<Shown>,
}

/// The traces that a connection shows.
#[derive(Default)]
struct Shown {
    traces: Vec<String>,
    directories: Vec<PathBuf>,
    /// Tables that were made of their metrics.
    made: BTreeSet<String>,
    /// Which trace lay in a directory when one was made.
    identities: BTreeMap<PathBuf, Option<(u64, u64)>>,
}

impl<'c> MetricTables<'c> {
    /// Metrics of some traces, which lie in `directories`.
    pub fn new(context: &'c Context, traces: Vec<String>, directories: Vec<PathBuf>) -> Self {
        let shown = Shown { traces, directories, ..Shown::default() };
        Self { context, shown: RefCell::new(shown) }
    }

    /// The traces that are shown.
    pub fn traces(&self) -> Vec<String> {
        self.shown.borrow().traces.clone()
    }

    /// Shows other traces: the tables that were made are forgotten.
    ///
    /// # Errors
    /// `sql` where DuckDB cannot forget one.
    pub fn show(
        &self,
        engine: &Engine<'_>,
        traces: Vec<String>,
        directories: Vec<PathBuf>,
    ) -> Result<()> {
        for table in std::mem::take(&mut self.shown.borrow_mut().made) {
            let table = sql_name(&table);
            engine.connection.execute_batch(&format!("DROP TABLE IF EXISTS temp.main.{table}"))?;
        }
        *self.shown.borrow_mut() = Shown { traces, directories, ..Shown::default() };
        Ok(())
    }

    /// Forgets the tables that were made where another trace has taken the place of one of theirs.
    ///
    /// # Errors
    /// `sql` where DuckDB cannot forget one.
    pub fn renew(&self, engine: &Engine<'_>) -> Result<()> {
        let is_same = |(path, was): (&PathBuf, &Option<(u64, u64)>)| identity(path) == *was;
        if self.shown.borrow().identities.iter().all(is_same) {
            return Ok(());
        }
        let directories = self.shown.borrow().directories.clone();
        let traces = self.traces();
        self.show(engine, traces, directories)
    }

    /// Makes what an error says is missing; false where it is no metric.
    ///
    /// # Errors
    /// `metric-unknown`, `param-invalid`, and those of computing a metric.
    pub fn make(&self, engine: &Engine<'_>, error: &Error) -> Result<bool> {
        let registry = &self.context.registry;
        match missing(error) {
            Some(Missing::Function(METRIC)) => {
                engine.connection.execute_batch(&macro_of(registry))?;
                Ok(true)
            }
            Some(Missing::Function(name)) => match metric_of(registry, name) {
                Some(file) => Err(Error::new("sql", format!("`{name}` is a metric, no function"))
                    .hint(format!("write {METRIC}('{}', ...)", file.header.name))),
                None => Ok(false),
            },
            Some(Missing::Table(name)) => match name.strip_prefix(CALLED) {
                Some(digits) => self.call(engine, name, digits).map(|()| true),
                None => match metric_of(registry, name) {
                    Some(file) => {
                        let directories = self.shown.borrow().directories.clone();
                        self.table(engine, name, file, &Params::new(), &directories)?;
                        Ok(true)
                    }
                    None => Ok(false),
                },
            },
            None => Ok(false),
        }
    }

    /// Makes the metrics that a statement seems to name as tables. For transactions, which end at
    /// the first error: DuckDB cannot be asked by trying.
    ///
    /// # Errors
    /// Those of computing a metric.
    pub fn make_named(&self, engine: &Engine<'_>, sql: &str) -> Result<()> {
        let code = code_of(sql);
        let is_sign = |c: char| !is_word(c) && c != '@';
        let words: Vec<&str> = code.split(is_sign).filter(|w| !w.is_empty()).collect();
        for pair in words.windows(2) {
            let is_before = ["FROM", "JOIN", "DESCRIBE", "SUMMARIZE", "TABLE"]
                .iter()
                .any(|word| pair[0].eq_ignore_ascii_case(word));
            if pair[1].eq_ignore_ascii_case(METRIC) {
                engine.connection.execute_batch(&macro_of(&self.context.registry))?;
            } else if let Some(file) = metric_of(&self.context.registry, pair[1])
                && is_before
                && !is_there(&engine.connection, pair[1])?
            {
                let directories = self.shown.borrow().directories.clone();
                self.table(engine, pair[1], file, &Params::new(), &directories)?;
            }
        }
        Ok(())
    }

    /// The error of what could not be made, as an error has ended the transaction.
    pub fn in_transaction(error: Error) -> Error {
        match missing(&error) {
            Some(Missing::Table(name)) if name.starts_with(CALLED) => {
                let message = format!("{METRIC}(...) is not computed inside of a transaction");
                Error::new("sql", message)
                    .hint("ROLLBACK, run the query once, and BEGIN again: then it is a table")
            }
            _ => error,
        }
    }

    /// Makes the table of `metric(...)`.
    fn call(&self, engine: &Engine<'_>, table: &str, digits: &str) -> Result<()> {
        let arguments: Option<Value> =
            unhex(&digits.to_lowercase()).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(Value::Object(mut arguments)) = arguments else {
            return Err(Error::new("sql", format!("there is no table `{table}`")));
        };
        let Some(name) = arguments.shift_remove("name").and_then(|n| text(&n)) else {
            return Err(Error::new("usage", format!("{METRIC}() needs the name of a metric"))
                .hint(format!("FROM {METRIC}('mfu')")));
        };
        let file = self.context.registry.metric(&name)?;
        let directories = match arguments.shift_remove(TRACE) {
            None | Some(Value::Null) => self.shown.borrow().directories.clone(),
            Some(wanted) => self.chosen(&wanted)?,
        };
        let params: Params =
            arguments.into_iter().filter_map(|(key, v)| Some((key, text(&v)?))).collect();
        check_params(&[file], &params)?;
        self.table(engine, table, file, &params, &directories)
    }

    /// The directories of the traces that a name, a pattern or a list of them means.
    fn chosen(&self, wanted: &Value) -> Result<Vec<PathBuf>> {
        let words: Vec<String> = match wanted {
            Value::Array(items) => items.iter().filter_map(text).collect(),
            other => text(other).into_iter().collect(),
        };
        let traces = select::by_name(self.context, &words)?;
        self.context.directories(&traces)
    }

    /// Computes a metric, and makes the table of its rows.
    fn table(
        &self,
        engine: &Engine<'_>,
        table: &str,
        file: &'c SqlFile,
        params: &Params,
        directories: &[PathBuf],
    ) -> Result<()> {
        // Of the traces that the other tables of the statement are of, whatever lies there now.
        let mut held = Vec::new();
        for directory in directories {
            let identities = &mut self.shown.borrow_mut().identities;
            identities.entry(directory.clone()).or_insert_with(|| engine.identity_of(directory));
            held.push(engine.held(directory));
        }
        let mode = ProfileMode::Auto;
        let results = computed(self.context, vec![file], params, mode, &held, None)?;
        results.say(self.context);
        let (schema, rows) = results::table(self.context, file, results.results.iter())?;
        if let Some(error) = results.errors.into_iter().next() {
            return Err(error);
        }
        fill(&engine.connection, (TEMPORARY, table), &schema, rows)?;
        self.shown.borrow_mut().made.insert(table.to_owned());
        Ok(())
    }

    /// The error of an unknown table, with a metric whose name is near.
    pub fn with_near(&self, error: Error) -> Error {
        let Some(Missing::Table(name)) = missing(&error) else { return error };
        let metrics = self.context.registry.metrics().map(|f| f.header.name.as_str());
        match nearest(&name.to_lowercase(), metrics) {
            Some(near) if error.hint.is_none() => {
                error.hint(format!("there is a metric `{near}`: FROM {near}"))
            }
            _ => error,
        }
    }
}

/// Whether there is a table or view of a name.
fn is_there(connection: &Connection, name: &str) -> Result<bool> {
    let sql = "SELECT count(*) > 0 FROM duckdb_columns() WHERE lower(table_name) = lower(?)";
    Ok(connection.query_row(sql, [name], |row| row.get(0))?)
}

/// The metric of a name, whose case counts as little as that of a table.
pub fn metric_of<'r>(registry: &'r Registry, name: &str) -> Option<&'r SqlFile> {
    let same = |file: &&SqlFile| file.header.name.eq_ignore_ascii_case(name);
    registry.metric(name).ok().or_else(|| registry.metrics().find(same))
}

/// The text of an argument, as a parameter is written on the command line; none for NULL.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Names of the parameters of all metrics, each once.
pub fn parameters(registry: &Registry) -> BTreeSet<&str> {
    registry.metrics().flat_map(|f| f.header.params.iter().map(|p| p.name.as_str())).collect()
}

/// The statement that makes the macro.
fn macro_of(registry: &Registry) -> String {
    let names: Vec<&str> = [TRACE].into_iter().chain(parameters(registry)).collect();
    let optional: Vec<String> = names.iter().map(|n| format!("{} := NULL", sql_name(n))).collect();
    let fields: Vec<String> = ["name"]
        .iter()
        .chain(&names)
        .map(|n| format!("{}: {}", sql_string(n), sql_name(n)))
        .collect();
    format!(
        "CREATE OR REPLACE TEMP MACRO {METRIC}(name, {}) AS TABLE \
         FROM query_table('\"{CALLED}' || hex(to_json({{{}}})::VARCHAR) || '\"')",
        optional.join(", "),
        fields.join(", ")
    )
}

/// Makes a table of a database, with rows of Arrow.
///
/// # Errors
/// `sql`.
pub fn fill(
    connection: &Connection,
    (database, table): (&str, &str),
    schema: &Schema,
    rows: Vec<RecordBatch>,
) -> Result<()> {
    let kind = if database == TEMPORARY { "TEMP TABLE" } else { "TABLE" };
    let place = format!("{}.main.{}", sql_name(database), sql_name(table));
    connection.execute_batch(&format!("CREATE OR REPLACE {kind} {place} ({})", columns(schema)))?;
    let mut appender = connection.appender_to_catalog_and_db(table, database, "main")?;
    for row in rows {
        appender.append_record_batch(row)?;
    }
    Ok(appender.flush()?)
}

/// The columns of a table that rows of Arrow fit into.
fn columns(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let columns = fields.map(|f| format!("{} {}", sql_name(f.name()), sql_type(f.data_type())));
    columns.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_read_out_of_the_error() {
        let of = |message: &str| Error::new("sql", message.to_owned());
        let error = of("Catalog Error: Table with name mfu does not exist!\nDid you mean \"a\"?");
        assert_eq!(missing(&error), Some(Missing::Table("mfu")));
        let error = of("Catalog Error: Table Function with name metric does not exist!");
        assert_eq!(missing(&error), Some(Missing::Function("metric")));
        assert_eq!(missing(&of("Binder Error: no column")), None);
    }

    #[test]
    fn no_metric_has_a_parameter_of_a_name_that_the_macro_has() {
        let registry = Registry::load(None).expect("the embedded files are right");
        assert!(!parameters(&registry).iter().any(|p| ["name", TRACE].contains(p)));
    }

    #[test]
    fn no_metric_has_the_name_of_a_table() {
        let registry = Registry::load(None).expect("the embedded files are right");
        for file in registry.metrics() {
            let name = &file.header.name;
            let is_taken = registry.view(name).is_some() || crate::schema::table(name).is_some();
            assert!(!is_taken, "{name}");
        }
    }
}
