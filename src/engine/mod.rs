//! DuckDB over trace directories: tables as views of Parquet files, the views of `sql/views`, the
//! SQL functions, and the lock that metrics run behind.

pub mod interrupt;
pub mod json;
pub mod run;
pub mod sheet;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use duckdb::{Config, Connection};
use serde_json::Value;

use self::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::ingest::manifest::Manifest;
use crate::ingest::scratch::Scratch;
use crate::registry::lint::Probe;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, TABLES, Table};
use crate::sql_text::{sql_name, sql_path, sql_string};

/// A connection whose tables hold some traces.
pub struct Engine<'r> {
    /// The connection.
    pub connection: Connection,
    registry: &'r Registry,
    directories: Vec<PathBuf>,
    shown: RefCell<Vec<Shown>>,
    /// Views whose rows are kept while a trace is shown, once they were asked for.
    kept: BTreeSet<String>,
    made: RefCell<BTreeSet<String>>,
    locked: Cell<bool>,
    /// Where queries put what they cannot hold; declared after the connection, which goes first.
    _scratch: Option<Scratch>,
}

/// What the tables hold.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Directory of a trace.
    pub directory: PathBuf,
    /// Of it, only rows of this profiler.
    pub source: Option<String>,
}

/// A row of `metric_results`: trace, place, metric, version, unit, better direction, value.
pub type ResultRow<'a> =
    (&'a str, i64, &'a str, u32, Option<&'a str>, Option<&'a str>, Option<f64>);

/// Limits of a connection.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Threads; 0 for one per core.
    pub threads: usize,
    /// Memory limit, as DuckDB writes sizes; empty for DuckDB's own default.
    pub memory_limit: String,
    /// The data directory, below which queries put what they cannot hold in memory.
    pub data: PathBuf,
    /// Who may stop the queries.
    pub interrupt: Interrupt,
}

/// Most that the queries of a connection put on disk, as DuckDB writes sizes.
const MOST_SPILLED: &str = "16GB";

impl<'r> Engine<'r> {
    /// Over the trace directories given; tables and views are made when they are asked for.
    ///
    /// # Errors
    /// `sql` when DuckDB does not start, `usage` for an unusable memory limit.
    pub fn open(
        directories: &[PathBuf],
        registry: &'r Registry,
        settings: &Settings,
    ) -> Result<Self> {
        let mut config = Config::default().enable_autoload_extension(false)?;
        if settings.threads > 0 {
            config = config.threads(i64::try_from(settings.threads).unwrap_or(1))?;
        }
        if !settings.memory_limit.is_empty() {
            config = config.max_memory(&settings.memory_limit).map_err(|_| {
                Error::new("usage", format!("{:?} is no size of memory", settings.memory_limit))
                    .hint("write a number and a unit: --memory-limit 1GB")
            })?;
        }
        let connection = Connection::open_in_memory_with_flags(config)?;
        // An ASOF join of what is thought to be few rows becomes a loop over all pairs, and what is
        // thought is often wrong.
        connection.execute_batch(
            "SET enable_progress_bar = false; SET preserve_insertion_order = true; \
             SET asof_loop_join_threshold = 0;",
        )?;
        // DuckDB's own choice is a folder in whatever directory the program runs in.
        let scratch = Scratch::below(&[&settings.data, &std::env::temp_dir()]);
        let spill = scratch.as_ref().map(|s| s.path.to_string_lossy()).unwrap_or_default();
        connection.execute_batch(&format!(
            "SET temp_directory = {}; SET max_temp_directory_size = '{MOST_SPILLED}';",
            sql_string(&spill)
        ))?;
        crate::functions::register(&connection)?;
        settings.interrupt.watch(&connection);
        Ok(Self {
            connection,
            registry,
            directories: directories.to_vec(),
            shown: RefCell::new(
                directories.iter().map(|d| Shown { directory: d.clone(), source: None }).collect(),
            ),
            kept: BTreeSet::new(),
            made: RefCell::new(BTreeSet::new()),
            locked: Cell::new(false),
            _scratch: scratch,
        })
    }

    /// Computes costly views (`@materialize`) once for all of `files` that read them.
    #[must_use]
    pub fn keeping(self, files: &[&SqlFile]) -> Self {
        Self { kept: kept(self.registry, files), ..self }
    }

    /// From now on the tables hold these traces only.
    ///
    /// # Errors
    /// `sql` when DuckDB cannot forget what it showed before.
    pub fn show(&self, traces: Vec<Shown>) -> Result<()> {
        for name in std::mem::take(&mut *self.made.borrow_mut()) {
            let kind = if self.kept.contains(&name) { "TABLE" } else { "VIEW" };
            self.connection.execute_batch(&format!("DROP {kind} IF EXISTS {}", sql_name(&name)))?;
        }
        *self.shown.borrow_mut() = traces;
        Ok(())
    }

    /// Makes every table and view.
    ///
    /// # Errors
    /// `sql` when a view cannot be made.
    pub fn make_all(&self) -> Result<()> {
        for table in TABLES {
            self.make(table.name)?;
        }
        let names: Vec<String> = self.registry.views().map(|v| v.header.name.clone()).collect();
        names.iter().try_for_each(|name| self.make(name))
    }

    /// Makes a table or view, and what it reads, unless it is there.
    ///
    /// # Errors
    /// `sql` when it cannot be made, `sql-file` when there is no such table or view.
    pub fn make(&self, name: &str) -> Result<()> {
        if !self.made.borrow_mut().insert(name.to_owned()) {
            return Ok(());
        }
        if let Some(table) = schema::table(name) {
            return self.make_table(table);
        }
        if name == schema::RESULTS.name {
            return empty_table(&self.connection, &schema::RESULTS);
        }
        let view = self.registry.view(name).ok_or_else(|| {
            Error::new("sql-file", format!("there is no table or view `{name}`"))
                .hint("`ccl-sql list tables` shows them")
        })?;
        for input in view.header.inputs() {
            self.make(input)?;
        }
        // A view of a user's folder could hold more than a query.
        self.admit_file(view, view.query())?;
        let kind = if self.kept.contains(name) { "TABLE" } else { "VIEW" };
        let sql = format!("CREATE OR REPLACE {kind} {} AS {}", sql_name(name), view.query());
        self.connection.execute_batch(&sql).map_err(|e| run::explained(self.registry, view, e))
    }

    fn make_table(&self, table: &Table) -> Result<()> {
        let shown = self.shown.borrow();
        let files: Vec<PathBuf> =
            shown.iter().flat_map(|s| schema::files(&s.directory, table)).collect();
        let mut query = select(table, &files);
        // What a memory snapshot says stands beside what any profiler says.
        if table.columns.iter().any(|c| c.name == "source") && !table.name.starts_with("memory_") {
            // So do the counters that another program sampled beside it.
            let sampled = if table.name == "counters" { " OR source = 'bench'" } else { "" };
            let one = shown.len() == 1;
            let limits: Vec<String> = shown
                .iter()
                .filter_map(|s| {
                    let source = sql_string(s.source.as_ref()?);
                    let trace = sql_string(&trace_of(&s.directory));
                    let other = if one { String::new() } else { format!("trace <> {trace} OR ") };
                    Some(format!("({other}source = {source}{sampled})"))
                })
                .collect();
            if !limits.is_empty() {
                query = format!("SELECT * FROM ({query}) WHERE {}", limits.join(" AND "));
            }
        }
        let sql = format!("CREATE OR REPLACE VIEW {} AS {query}", table.name);
        Ok(self.connection.execute_batch(&sql)?)
    }

    /// Values of metrics for comparisons: trace, place, metric, version, unit, better, value.
    ///
    /// # Errors
    /// `sql`.
    pub fn fill_results(&self, values: &[ResultRow<'_>]) -> Result<()> {
        self.make(schema::RESULTS.name)?;
        let sql = format!("INSERT INTO {} VALUES (?, ?, ?, ?, ?, ?, ?)", schema::RESULTS.name);
        let mut statement = self.connection.prepare(&sql)?;
        for (trace, place, metric, version, unit, better, value) in values {
            statement
                .execute(duckdb::params![trace, place, metric, version, unit, better, value])?;
        }
        Ok(())
    }

    /// Refuses whatever is not `SELECT`, once the connection is locked: the lock keeps strange files
    /// away, but `COPY` could still write over those of the traces.
    ///
    /// # Errors
    /// `sql` for any other statement, or one that cannot be parsed.
    pub fn admit(&self, sql: &str) -> Result<()> {
        if !self.locked.get() {
            return Ok(());
        }
        select_only(&self.connection, sql).map(|_| ())
    }

    /// Refuses a text out of a file that is not one `SELECT`.
    ///
    /// # Errors
    /// `sql` with the path of the file.
    fn admit_file(&self, file: &SqlFile, sql: &str) -> Result<()> {
        // Parsing costs as much as planning; of the program's own files the check is a test.
        if file.embedded {
            return Ok(());
        }
        one_select(&self.connection, sql).map_err(|e| e.at(file.path.clone()))
    }

    /// Forbids files other than those of the traces, settings, and extensions, for good.
    ///
    /// # Errors
    /// `sql` when DuckDB refuses.
    pub fn lock_down(&self) -> Result<()> {
        // A folder is named twice: as it is, for the files, and as a pattern that stands for itself,
        // for the text of `read_parquet`.
        let folders: Vec<String> = self
            .directories
            .iter()
            .flat_map(|d| [sql_string(&d.to_string_lossy()), sql_path(d)])
            .collect();
        self.connection.execute_batch(&format!(
            "SET allowed_directories = [{}]; SET autoinstall_known_extensions = false; \
             SET autoload_known_extensions = false; SET enable_external_access = false; \
             SET lock_configuration = true;",
            folders.join(", ")
        ))?;
        self.locked.set(true);
        Ok(())
    }
}

/// The views marked `@materialize` that at least two of `files`, or of the views that they read, need.
fn kept(registry: &Registry, files: &[&SqlFile]) -> BTreeSet<String> {
    let mut readers: BTreeMap<String, usize> = BTreeMap::new();
    let mut waiting: Vec<&str> = files.iter().flat_map(|f| f.header.inputs()).collect();
    while let Some(name) = waiting.pop() {
        let count = readers.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1
            && let Some(view) = registry.view(name)
        {
            waiting.extend(view.header.inputs());
        }
    }
    readers
        .into_iter()
        .filter(|(name, count)| {
            *count > 1 && registry.view(name).is_some_and(|v| v.header.materialize)
        })
        .map(|(name, _)| name)
        .collect()
}

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
        "SELECT trace, {} FROM read_parquet([{}], hive_partitioning = true, hive_types = {{{types}}})",
        columns.join(", "),
        list.join(", ")
    )
}

/// Empty tables of the schema, as tables: what the lint checks queries against.
///
/// # Errors
/// `sql` when DuckDB does not start.
pub fn empty_tables(connection: &Connection) -> Result<()> {
    for table in TABLES.iter().chain([&schema::RESULTS]) {
        empty_table(connection, table)?;
    }
    Ok(())
}

fn empty_table(connection: &Connection, table: &Table) -> Result<()> {
    let columns: Vec<String> = std::iter::once("trace VARCHAR".to_owned())
        .chain(table.columns.iter().map(|c| format!("{} {}", sql_name(c.name), c.ty.sql())))
        .collect();
    let sql = format!("CREATE TABLE {} ({})", table.name, columns.join(", "));
    Ok(connection.execute_batch(&sql)?)
}

/// The syntax tree of `SELECT` statements; `{"error": true, ...}` for anything else.
fn syntax_tree(connection: &Connection, sql: &str) -> Result<Value> {
    let text: String =
        connection.query_row("SELECT json_serialize_sql(?)", [sql], |row| row.get(0))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Refuses a text that is not one `SELECT`: what a file of a metric or view may hold.
///
/// # Errors
/// `sql` for any other statement, several, or one that cannot be parsed.
pub fn one_select(connection: &Connection, sql: &str) -> Result<()> {
    match select_only(connection, sql)? {
        1 => Ok(()),
        n => Err(Error::new("sql", format!("the file holds {n} statements, and should hold one"))),
    }
}

/// The number of statements of a text; refuses any that is no `SELECT`.
fn select_only(connection: &Connection, sql: &str) -> Result<usize> {
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

/// What the lint needs to know of a query, on empty tables.
///
/// # Errors
/// `sql` when DuckDB itself fails; a query that is wrong is in the probe.
pub fn lint_probe(connection: &Connection, file: &SqlFile) -> Result<Probe> {
    let tree = |sql: &str| syntax_tree(connection, sql);
    let mut probe = Probe { tree: tree(file.query())?, ..Probe::default() };
    let header = &file.header;
    let checks = header.checks.iter().map(|check| &check.left);
    let warns = header.warns.iter().map(|warn| &warn.left);
    for expression in checks.chain(warns).chain(&header.answer) {
        probe.expression_trees.push(tree(&format!("SELECT ({expression})"))?);
    }
    if probe.tree.get("error").and_then(Value::as_bool) == Some(true) {
        return Ok(probe);
    }
    match described(connection, file, &mut probe) {
        Ok(()) => {}
        Err(e) => probe.error = Some(e.message),
    }
    Ok(probe)
}

fn described(connection: &Connection, file: &SqlFile, probe: &mut Probe) -> Result<()> {
    let statement = connection.prepare(file.query())?;
    for i in 1..=statement.parameter_count() {
        probe.params.push(statement.parameter_name(i)?);
    }
    // Parameters take the type of their declaration, so that DESCRIBE can bind.
    let typed = |sql: &str| {
        file.header.params.iter().fold(sql.to_owned(), |sql, param| {
            sql.replace(&format!("${}", param.name), &format!("CAST(NULL AS {})", param.ty))
        })
    };
    let mut describe = connection.prepare(&format!("DESCRIBE {}", typed(file.query())))?;
    let mut rows = describe.query([])?;
    while let Some(row) = rows.next()? {
        probe.columns.push((row.get(0)?, row.get(1)?));
    }
    for check in &file.header.checks {
        connection.prepare(&format!("SELECT {}", check.reason()))?;
    }
    connection.prepare(&typed(&run::with_remarks(file)))?;
    Ok(())
}

/// Directories of traces by name.
///
/// # Errors
/// `trace-unknown` with the nearest name, or for a directory that is damaged or of another version.
pub fn directories(store: &crate::ingest::Store, traces: &[String]) -> Result<Vec<PathBuf>> {
    let known = store.traces();
    traces
        .iter()
        .map(|trace| {
            if known.contains(trace) {
                let directory = store.directory(trace);
                // A table that lost a file would be short of rows, and say nothing.
                Manifest::read(&directory)?.check_version()?;
                return Ok(absolute(&directory));
            }
            let error = Error::new("trace-unknown", format!("there is no trace `{trace}`"))
                .at(store.path.display().to_string());
            let near = crate::error::nearest(trace, known.iter().map(String::as_str));
            Err(match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None if known.is_empty() => error.hint("ingest one first: ccl-sql ingest PATH"),
                None => error.hint("`ccl-sql list traces` shows them all"),
            })
        })
        .collect()
}

/// The name of the trace that lies in a directory, as the path says it (`trace=NAME`).
fn trace_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("trace=").unwrap_or(&name).to_owned()
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
