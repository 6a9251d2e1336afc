//! `export --duckdb`: a database file with the tables of traces, and their views and metrics as
//! tables. What they mean stands in their comments, so that the file explains itself.

use std::path::{Path, PathBuf};

use duckdb::Connection;
use serde_json::Value;

use crate::cli::answers::selection;
use crate::cli::args::ExportArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::metric_tables::fill;
use crate::cli::results::{computed, table};
use crate::cli::select::{fits, traces};
use crate::engine::Engine;
use crate::engine::metric::{MetricResult, Params, check_params};
use crate::error::{Error, Result, io};
use crate::registry::SqlFile;
use crate::registry::units::human;
use crate::report::staged::{Staged, vacant};
use crate::schema::{SCHEMA_VERSION, TABLES};
use crate::sql_text::{sql_name, sql_string};
use crate::store::manifest::Manifest;

/// The name of the file's database while it is written.
const OUT: &str = "@out";

/// The table that says what the file was made of.
const ABOUT: &str = "ccl_sql";

/// The oldest DuckDB that reads the file.
const STORAGE: &str = "v1.2.0";

/// Rows of the tables of traces from which on a file has blocks of DuckDB's own size.
const MANY_ROWS: u64 = 5_000_000;

/// Runs the command.
///
/// # Errors
/// `output-exists`, `trace-unknown`, `metric-unknown`, `param-invalid`, `nothing-found`, `sql`,
/// `io`; metrics that failed are left out, and their errors come behind.
pub fn run(context: &Context, args: &ExportArgs) -> Result<(), Errors> {
    let path = args.duckdb.as_deref().unwrap_or(Path::new(""));
    if context.global.output.is_some() {
        return Err(Error::new("usage", "--duckdb names the file already")
            .hint("leave -o away")
            .into());
    }
    vacant(path, context.global.force)?;
    let traces = traces(context, &args.report.wanted(), &args.report.reading)?;
    let wanted = |name: &str| {
        args.table.is_empty()
            || args.table.iter().any(|pattern| fits(pattern.as_bytes(), name.as_bytes()))
    };
    let metrics: Vec<&SqlFile> =
        context.registry.metrics().filter(|f| wanted(&f.header.name)).collect();
    let params: Params = args.report.param.iter().cloned().collect();
    check_params(&metrics, &params)?;
    let tables = tables(context, &wanted);
    if tables.is_empty() && metrics.is_empty() {
        return Err(Error::new("nothing-found", "there is no such table, view or metric")
            .at(args.table.join(", "))
            .hint("`ccl-sql list tables` and `ccl-sql list metrics` show them")
            .into());
    }
    let mut staged = Staged::new(context.global.force);
    let temporary = staged.name(path)?;
    let _wal = WriteAhead(temporary.with_extension("tmp.wal"));
    let directories = context.directories(&traces)?;
    let (mode, cluster) = (args.report.profile_mode, args.report.engine.as_ref());
    let selections = directories
        .iter()
        .map(|directory| Ok(selection(directory, &Manifest::read(directory)?, mode)))
        .collect::<Result<Vec<_>>>()?;
    let views: Vec<&SqlFile> =
        tables.iter().filter_map(|d| context.registry.view(&d.name)).collect();
    let engine = Engine::open(&directories, &context.registry, &context.settings())?;
    let engine = engine.keeping(&views);
    let rows = selections.iter().map(|s| s.rows).sum();
    engine.show(selections)?;
    let results = computed(context, metrics.clone(), &params, mode, &directories, cluster)?;
    attach(&engine.connection, &temporary, rows)?;
    write(context, &engine, &tables, &metrics, &results.results)?;
    std::fs::File::open(&temporary).and_then(|f| f.sync_all()).map_err(|e| io(path, &e))?;
    staged.commit()?;
    let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
    let size = human(&Value::from(bytes), Some("bytes"));
    context.printer.note(&format!(
        "wrote {}: {} tables and views, {} metrics, {size}",
        path.display(),
        tables.len(),
        metrics.len()
    ));
    Errors(results.errors).result()
}

/// Opens the file that is written. Each of its tables takes a block at least, so that those of few
/// rows want small ones.
fn attach(connection: &Connection, temporary: &Path, rows: u64) -> Result<()> {
    let block = if rows < MANY_ROWS { ", BLOCK_SIZE 16384" } else { "" };
    Ok(connection.execute_batch(&format!(
        "ATTACH {} AS {} (STORAGE_VERSION '{STORAGE}'{block})",
        sql_string(&temporary.to_string_lossy()),
        sql_name(OUT)
    ))?)
}

/// Writes the tables and views, and the results of the metrics.
fn write(
    context: &Context,
    engine: &Engine<'_>,
    tables: &[Described],
    metrics: &[&SqlFile],
    results: &[MetricResult],
) -> Result<()> {
    let connection = &engine.connection;
    for described in tables {
        engine.make(&described.name)?;
        let (place, name) = (place(&described.name), sql_name(&described.name));
        connection.execute_batch(&format!("CREATE TABLE {place} AS FROM {name}"))?;
        described.comment(connection)?;
    }
    for file in metrics {
        let own = results.iter().filter(|r| r.metric == file.header.name);
        let (schema, rows) = table(context, file, own)?;
        fill(connection, (OUT, &file.header.name), &schema, rows)?;
        described(file).comment(connection)?;
    }
    about(connection, metrics)?;
    Ok(connection.execute_batch(&format!("DETACH {}", sql_name(OUT)))?)
}

/// A table of the file, with what it means.
struct Described {
    name: String,
    doc: String,
    /// Names of columns, and what they mean.
    columns: Vec<(String, String)>,
}

impl Described {
    /// Writes what it means.
    fn comment(&self, connection: &Connection) -> Result<()> {
        let place = place(&self.name);
        let mut sql = format!("BEGIN; COMMENT ON TABLE {place} IS {};", sql_string(&self.doc));
        for (column, doc) in &self.columns {
            let column = sql_name(column);
            sql.push_str(&format!("COMMENT ON COLUMN {place}.{column} IS {};", sql_string(doc)));
        }
        Ok(connection.execute_batch(&(sql + "COMMIT;"))?)
    }
}

fn place(table: &str) -> String {
    format!("{}.main.{}", sql_name(OUT), sql_name(table))
}

/// The tables and public views that are wanted.
fn tables(context: &Context, wanted: &dyn Fn(&str) -> bool) -> Vec<Described> {
    let tables = TABLES.iter().map(|t| Described {
        name: t.name.to_owned(),
        doc: t.doc.to_owned(),
        columns: t.columns.iter().map(|c| (c.name.to_owned(), c.doc.to_owned())).collect(),
    });
    let views = context.registry.views().map(described);
    let public = |d: &Described| !d.name.starts_with('_') && wanted(&d.name);
    tables.chain(views).filter(public).collect()
}

/// What a file of SQL says of its rows.
fn described(file: &SqlFile) -> Described {
    let header = &file.header;
    let column = |c: &crate::registry::header::Column| {
        let unit = c.unit.as_ref().map(|u| format!(" [{u}]")).unwrap_or_default();
        (c.name.clone(), format!("{}{unit}", c.doc))
    };
    Described {
        name: header.name.clone(),
        doc: header.summary.clone(),
        columns: header.columns.iter().map(column).collect(),
    }
}

/// Writes what made the file: the program, its schema, and the version and hash of each metric.
fn about(connection: &Connection, metrics: &[&SqlFile]) -> Result<()> {
    let place = place(ABOUT);
    connection.execute_batch(&format!(
        "CREATE TABLE {place} (kind VARCHAR, name VARCHAR, version VARCHAR, unit VARCHAR, \
         better VARCHAR, value_column VARCHAR, sql_sha256 VARCHAR);\
         COMMENT ON TABLE {place} IS 'What made this file: the program, and each metric.';"
    ))?;
    let mut insert = connection.prepare(&format!("INSERT INTO {place} VALUES (?,?,?,?,?,?,?)"))?;
    let none = None::<String>;
    let program = env!("CARGO_PKG_VERSION");
    insert.execute(duckdb::params!["program", "ccl-sql", program, none, none, none, none])?;
    let schema = SCHEMA_VERSION.to_string();
    insert.execute(duckdb::params!["schema", "tables", schema, none, none, none, none])?;
    for file in metrics {
        let header = &file.header;
        let better = header.value_column().and_then(|c| c.better.clone());
        insert.execute(duckdb::params![
            "metric",
            header.name,
            header.version.to_string(),
            header.unit(),
            better,
            header.value,
            file.sha256()
        ])?;
    }
    Ok(())
}

/// The log that DuckDB keeps beside a file that it writes; it is gone after a success.
struct WriteAhead(PathBuf);

impl Drop for WriteAhead {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
