//! DuckDB over trace directories: tables as views of Parquet files, the views of `sql/views`, the
//! SQL functions, and the lock that metrics run behind.

mod admit;
mod arrow_text;
mod connect;
pub mod diagnose;
mod each;
pub mod interrupt;
pub mod json;
pub mod kept;
pub mod key;
mod lacking;
pub mod limits;
pub mod metric;
mod partials;
mod parts;
mod probe;
mod remarks;
pub mod rows;
mod tables;
pub mod types;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duckdb::Connection;

pub(crate) use self::admit::one_select;
use self::admit::{explained, select_only};
use self::connect::FEW_ROWS;
pub use self::connect::{Settings, TINY_ROWS, connect, is_small};
use self::interrupt::Interrupt;
use self::lacking::without_files;
pub use self::partials::Share;
use self::partials::folder as partials_of;
pub use self::parts::Tables;
use self::parts::{EVENTS_AT_A_TIME, Partial};
pub use self::probe::lint_probe;
use self::tables::empty_table;
pub use self::tables::{Definition, definitions, empty_tables, select};
use crate::error::{Error, Result};
use crate::registry::header::Kind;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, TABLES, Table};
use crate::sql_text::{sql_name, sql_path, sql_string, words};
use crate::store::held::hold;
use crate::store::manifest::{Away, Manifest, PARTIAL, identity, stamp};
use crate::store::scratch::Scratch;

/// A connection whose tables hold some traces.
pub struct Engine<'r> {
    /// The connection.
    pub connection: Connection,
    registry: &'r Registry,
    directories: Vec<PathBuf>,
    shown: RefCell<Vec<Selection>>,
    /// Tables and views that several of the files asked for read.
    shared: BTreeSet<String>,
    /// Views that are computed for some ranks at a time, where the trace is large.
    partial: Partial,
    /// The data directory beside whose traces the rows of these are kept.
    partials: Option<PathBuf>,
    /// Rows from which on a trace is large, and device events of a part.
    large_from: u64,
    events_at_a_time: i64,
    made: RefCell<BTreeSet<String>>,
    /// Views that are there, of other traces: what they read is to be made before they are read.
    left: RefCell<BTreeSet<String>>,
    locked: Cell<bool>,
    interrupt: Interrupt,
    /// Longest that a statement may take.
    timeout: Option<Duration>,
    /// The ranks of which some tables have rows, where those of others are in an object store.
    own: Option<Own>,
    /// The traces whose tables were made, as they were then: where, and of which identity.
    held: RefCell<BTreeMap<PathBuf, Held>>,
    /// The folder for rows that queries cannot hold in memory, and for the traces that are held;
    /// declared after the connection, which is dropped first.
    scratch: Option<Arc<Scratch>>,
}

/// A trace as it was when its tables were made.
#[derive(Debug, Clone)]
struct Held {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// The stamp of its manifest, where it was asked for.
    stamp: Option<String>,
    /// Its files that are in an object store alone.
    away: Vec<Away>,
}

/// A share of the ranks of a trace, of which some tables have the files here.
#[derive(Debug, Clone)]
pub struct Own {
    /// The share.
    pub share: Share,
    /// Its least and its greatest rank.
    pub ranks: (i64, i64),
    /// The tables that lack files of other ranks.
    pub tables: BTreeSet<String>,
}

impl Own {
    /// Whether some ranks, from the first to the last, are of the share.
    fn has(&self, (first, last): (i64, i64)) -> bool {
        self.ranks.0 <= first && last <= self.ranks.1
    }

    /// Whether a file of a table is of no use for the share.
    fn spares(&self, table: &str, file: &Away) -> bool {
        self.tables.contains(table) && !file.overlaps(self.ranks)
    }
}

/// A trace whose rows the tables hold.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Directory of the trace.
    pub directory: PathBuf,
    /// The one profiler whose rows are wanted; None for all rows of the trace.
    pub source: Option<String>,
    /// Rows of all its tables.
    pub rows: u64,
}

/// A row of `metric_results`: trace, place, metric, version, unit, better direction, value.
pub type ResultRow<'a> =
    (&'a str, i64, &'a str, u32, Option<&'a str>, Option<&'a str>, Option<f64>);

/// The folder for the traces that are held, in that of the connection.
const HELD: &str = "held";

/// The number of rows of a trace that was not asked for it.
const UNKNOWN: u64 = u64::MAX;

/// Most bytes that the queries of a connection put on disk, as DuckDB writes sizes.
const MOST_SPILLED: &str = "16GB";

impl<'r> Engine<'r> {
    /// An engine over the trace directories given; tables and views are made when they are asked
    /// for.
    ///
    /// # Errors
    /// `sql` when DuckDB does not start, `usage` for an unusable memory limit.
    pub fn open(
        directories: &[PathBuf],
        registry: &'r Registry,
        settings: &Settings,
    ) -> Result<Self> {
        let settings = settings.clone().for_files(registry);
        let connection = connect(&settings)?;
        // DuckDB makes an ASOF join of few rows a loop over all pairs, and its guess of their
        // number is often wrong.
        connection.execute_batch(
            "SET preserve_insertion_order = true; SET asof_loop_join_threshold = 0;",
        )?;
        // DuckDB's own choice is a folder in whatever directory the program runs in.
        let scratch = Scratch::below(&[&settings.data, &std::env::temp_dir()]).map(Arc::new);
        let spill = scratch.as_ref().map(|s| s.path.to_string_lossy()).unwrap_or_default();
        connection.execute_batch(&format!("SET temp_directory = {}", sql_string(&spill)))?;
        let most = match &*settings.spill_limit {
            "" => MOST_SPILLED,
            given => given,
        };
        let limit = format!("SET max_temp_directory_size = {}", sql_string(most));
        connection.execute_batch(&limit).map_err(|_| {
            Error::new("usage", format!("{most:?} is no size of a disk"))
                .hint("write a number and a unit: --spill-limit 4GB")
        })?;
        settings.interrupt.watch(&connection);
        Ok(Self {
            connection,
            registry,
            directories: directories.to_vec(),
            shown: RefCell::new(
                directories
                    .iter()
                    .map(|d| Selection { directory: d.clone(), source: None, rows: UNKNOWN })
                    .collect(),
            ),
            shared: BTreeSet::new(),
            partial: Partial::default(),
            partials: settings.partials.then(|| settings.data.clone()),
            large_from: FEW_ROWS,
            events_at_a_time: EVENTS_AT_A_TIME,
            made: RefCell::default(),
            left: RefCell::default(),
            locked: Cell::new(false),
            interrupt: settings.interrupt.clone(),
            timeout: settings.timeout,
            own: None,
            held: RefCell::default(),
            scratch,
        })
    }

    /// Another connection to the same database, for another thread: it shows what this one shows,
    /// and has what this one made.
    ///
    /// # Errors
    /// `sql` when DuckDB gives none.
    pub fn beside(&self) -> Result<Self> {
        let connection = self.connection.try_clone()?;
        self.interrupt.watch(&connection);
        Ok(Self {
            connection,
            registry: self.registry,
            directories: self.directories.clone(),
            shown: self.shown.clone(),
            shared: self.shared.clone(),
            partial: self.partial.clone(),
            partials: self.partials.clone(),
            large_from: self.large_from,
            events_at_a_time: self.events_at_a_time,
            made: self.made.clone(),
            left: self.left.clone(),
            locked: self.locked.clone(),
            interrupt: self.interrupt.clone(),
            timeout: self.timeout,
            own: self.own.clone(),
            held: self.held.clone(),
            scratch: self.scratch.clone(),
        })
    }

    /// Computes views once for all of `files` that read them: costly ones (`@materialize`), and of
    /// small traces every one, as it costs more to plan a query over views than to run it. Of tiny
    /// traces the tables themselves are read once.
    #[must_use]
    pub fn keeping(self, files: &[&SqlFile]) -> Self {
        let (shared, partial) = (shared(self.registry, files), Partial::of(self.registry, files));
        Self { shared, partial, ..self }
    }

    /// With the rows of a share of the ranks alone, of some tables: nothing is computed of others.
    #[must_use]
    pub fn of_share(self, own: Option<Own>) -> Self {
        Self { own, ..self }
    }

    /// How often all parts of a large trace are gone through for `files`, each time for what reads
    /// what the time before said of all ranks.
    pub fn levels(registry: &Registry, files: &[&SqlFile]) -> usize {
        Partial::of(registry, files).depth()
    }

    /// The views that are computed in parts for `files`, where a trace is large.
    pub fn in_parts_for<'s>(registry: &'s Registry, files: &[&SqlFile]) -> BTreeSet<&'s str> {
        let partial = Partial::of(registry, files);
        let views = registry.views().map(|view| view.header.name.as_str());
        views.filter(|view| partial.level(view).is_some()).collect()
    }

    /// Looks at traces with so many rows in parts with so many device events, or one rank.
    #[must_use]
    pub fn in_parts(self, large_from: u64, events_at_a_time: i64) -> Self {
        Self { large_from, events_at_a_time, ..self }
    }

    /// Rows of all traces shown.
    fn rows(&self) -> u64 {
        self.shown.borrow().iter().fold(0, |sum: u64, s| sum.saturating_add(s.rows))
    }

    /// Whether a view is a table because one trace alone is shown, and is looked at in parts.
    fn is_in_parts(&self, name: &str) -> bool {
        let is_large = (self.large_from..UNKNOWN).contains(&self.rows());
        is_large && self.partial.has(name) && self.shown.borrow().len() == 1
    }

    /// Whether a table or view lies in memory while these traces are shown.
    pub(in crate::engine) fn is_kept(&self, name: &str) -> bool {
        if self.is_in_parts(name) {
            return true;
        }
        if !self.shared.contains(name) {
            return false;
        }
        let rows = self.rows();
        match self.registry.view(name) {
            Some(view) => is_small(rows) || view.header.materialize || view.header.is_data(),
            None => is_small(rows) && self.shown.borrow().iter().all(|s| s.rows < TINY_ROWS),
        }
    }

    /// How a table or view is made, and forgotten.
    fn kind(&self, name: &str) -> &'static str {
        if self.is_kept(name) { "TABLE" } else { "VIEW" }
    }

    /// The folder that a trace is read from: as it was when it was asked for first, whatever takes
    /// its place meanwhile. Where the file system has no links, the trace itself.
    pub fn held(&self, directory: &Path) -> PathBuf {
        if let Some(held) = self.held.borrow().get(directory) {
            return held.path.clone();
        }
        let now = identity(directory);
        // What is fetched meanwhile counts as away: the next one who asks has it.
        let is_partial = directory.join(PARTIAL).exists();
        let parent = self.scratch.as_ref().map(|scratch| scratch.path.join(HELD));
        let held = parent.and_then(|parent| hold(directory, &parent));
        let (path, identity) =
            held.map_or_else(|| (directory.to_owned(), now), |(path, of)| (path, Some(of)));
        let manifest = is_partial.then(|| Manifest::parse(&path).ok()).flatten();
        let away = manifest.map(|manifest| manifest.away(&path)).unwrap_or_default();
        let held = Held { path: path.clone(), identity, stamp: None, away };
        self.held.borrow_mut().insert(directory.to_owned(), held);
        path
    }

    /// The identity of the trace that is read from a directory.
    pub fn identity_of(&self, directory: &Path) -> Option<(u64, u64)> {
        self.held(directory);
        self.held.borrow().get(directory).and_then(|held| held.identity)
    }

    /// The stamp of the trace that is read from a directory.
    fn stamp_of(&self, directory: &Path) -> Option<String> {
        let path = self.held(directory);
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(directory)?;
        if held.stamp.is_none() {
            held.stamp = stamp(&path);
        }
        held.stamp.clone()
    }

    /// Forgets the tables where another trace took the place of one that is held.
    ///
    /// # Errors
    /// `sql` when DuckDB cannot forget what it showed before.
    pub fn renew(&self) -> Result<()> {
        let is_same = |(path, held): (&PathBuf, &Held)| identity(path) == held.identity;
        if self.held.borrow().iter().all(is_same) {
            return Ok(());
        }
        let shown = self.shown.borrow().clone();
        self.show(shown)?;
        for (_, held) in std::mem::take(&mut *self.held.borrow_mut()) {
            if let Some(place) = held.path.parent().filter(|p| p.parent().is_some_and(is_ours)) {
                let _ = std::fs::remove_dir_all(place);
            }
        }
        Ok(())
    }

    /// Makes the tables hold these traces only. Views say the same of any trace, and stay; so do
    /// rows that are kept as SQL.
    ///
    /// # Errors
    /// `sql` when DuckDB cannot forget what it showed before.
    pub fn show(&self, traces: Vec<Selection>) -> Result<()> {
        let made = self.made.take();
        for name in made {
            let kind = self.kind(&name);
            let view = self.registry.view(&name);
            if view.is_some_and(|view| view.header.is_data()) {
                self.made.borrow_mut().insert(name);
            } else if kind == "VIEW" && view.is_some() {
                self.left.borrow_mut().insert(name);
            } else {
                self.drop(kind, &name)?;
            }
        }
        *self.shown.borrow_mut() = traces;
        Ok(())
    }

    /// Drops the view of another trace, in whose place a table comes.
    fn forget(&self, name: &str) -> Result<()> {
        if self.left.borrow_mut().remove(name) { self.drop("VIEW", name) } else { Ok(()) }
    }

    fn drop(&self, kind: &str, name: &str) -> Result<()> {
        let sql = format!("DROP {kind} IF EXISTS {}", sql_name(name));
        Ok(self.connection.execute_batch(&sql)?)
    }

    /// Makes again what was made, for other traces, or where a transaction took it back.
    ///
    /// # Errors
    /// `sql` when a view cannot be made.
    pub fn make_again(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        self.made.borrow_mut().clear();
        let left = self.left.borrow().clone();
        left.iter().try_for_each(|name| self.forget(name))?;
        names.into_iter().try_for_each(|name| self.make(&name))
    }

    /// Names of the tables and views that were made.
    pub fn made(&self) -> BTreeSet<String> {
        self.made.borrow().clone()
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

    /// Makes the tables and views that a statement names; every one, where it asks what there is.
    ///
    /// # Errors
    /// `sql` when a view cannot be made.
    pub fn make_named(&self, sql: &str) -> Result<()> {
        let words = words(sql);
        let asks_all = |word: &String| {
            ["show", "pragma", "describe", "summarize", "information_schema"].contains(&&**word)
                || ["duckdb_", "pg_", "sqlite_", "query"].iter().any(|w| word.starts_with(w))
        };
        if words.iter().any(asks_all) {
            return self.make_all();
        }
        let tables = TABLES.iter().map(|table| table.name);
        let views = self.registry.views().map(|view| view.header.name.as_str());
        let named: Vec<&str> =
            tables.chain(views).filter(|n| words.contains(&n.to_ascii_lowercase())).collect();
        named.into_iter().try_for_each(|name| self.make(name))
    }

    /// Makes a table or view, and what it reads, unless it is there.
    ///
    /// # Errors
    /// `sql` when it cannot be made, `sql-file` when there is no such table or view.
    pub fn make(&self, name: &str) -> Result<()> {
        if self.made.borrow().contains(name) {
            return Ok(());
        }
        if let Some(level) = self.partial.level(name).filter(|_| self.is_in_parts(name)) {
            return self.make_in_parts(level);
        }
        self.made.borrow_mut().insert(name.to_owned());
        let outcome = self.make_one(name);
        if outcome.is_err() {
            self.made.borrow_mut().remove(name);
        }
        outcome
    }

    fn make_one(&self, name: &str) -> Result<()> {
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
        self.make_inputs(view)?;
        let kind = self.kind(name);
        if kind == "VIEW" && self.left.borrow_mut().remove(name) {
            return Ok(());
        }
        self.forget(name)?;
        // A view of a user's folder could hold more than a query.
        self.admit_file(view, view.query())?;
        let sql = format!("CREATE OR REPLACE {kind} {} AS {}", sql_name(name), view.query());
        self.connection.execute_batch(&sql).map_err(|e| self.explained(view, e))
    }

    /// Makes the tables and views that a file reads.
    ///
    /// # Errors
    /// As [`Engine::make`].
    pub fn make_inputs(&self, file: &SqlFile) -> Result<()> {
        file.header.inputs().try_for_each(|input| self.make(input))
    }

    /// Makes what will be read when a file is asked: a view itself, and the tables and views of any
    /// other, where the trace shown has those that it cannot do without.
    ///
    /// # Errors
    /// As [`Engine::make`].
    pub fn prepare(&self, manifest: &Manifest, file: &SqlFile) -> Result<()> {
        match file.header.kind {
            Kind::View => self.make(&file.header.name),
            _ if without_files(manifest, file).is_empty() => self.make_inputs(file),
            _ => Ok(()),
        }
    }

    /// Makes a table of the schema, of the files of the traces shown.
    fn make_table(&self, table: &Table) -> Result<()> {
        let shown = self.shown.borrow();
        let files: Vec<PathBuf> =
            shown.iter().flat_map(|s| schema::files(&self.held(&s.directory), table)).collect();
        for s in shown.iter() {
            let (all, own) = (self.held.borrow(), self.own.as_ref());
            let mut away = all.get(&s.directory).into_iter().flat_map(|held| &held.away);
            let is_needed = |file: &&Away| own.is_none_or(|own| !own.spares(table.name, file));
            if away.any(|file| file.table() == table.name && is_needed(&file)) {
                return Err(table_away(table.name));
            }
        }
        let mut query = select(table, &files);
        // Rows of memory snapshots stand beside those of any profiler.
        if table.columns.iter().any(|c| c.name == "source") && !table.name.starts_with("memory_") {
            // So do counters that another program sampled beside the profiler.
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
        let sql = format!("CREATE OR REPLACE {} {} AS {query}", self.kind(table.name), table.name);
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

    /// Refuses statements other than `SELECT`, once the connection is locked: the lock keeps
    /// strange files away, but `COPY` could still write over those of the traces.
    ///
    /// # Errors
    /// `sql` for any other statement, or one that cannot be parsed.
    pub fn admit(&self, sql: &str) -> Result<()> {
        if !self.locked.get() {
            return Ok(());
        }
        select_only(&self.connection, sql).map(|_| ())
    }

    /// An error of a statement, with the limit where it took too long.
    pub fn with_limit(&self, error: Error) -> Error {
        match self.timeout {
            Some(limit) if error.code == "limit" && error.facts.is_none() => {
                error.facts(format!("limit: {} s", limit.as_secs_f64()))
            }
            _ => error,
        }
    }

    /// The error of a file's query that DuckDB refuses.
    fn explained(&self, file: &SqlFile, error: duckdb::Error) -> Error {
        self.with_limit(explained(self.registry, file, error))
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
        // A folder is named twice: as it is, for the files; and as a pattern that stands for
        // itself, for the text of `read_parquet`.
        let held = self.scratch.as_ref().map(|scratch| scratch.path.join(HELD));
        let kept = self.partials.as_deref().into_iter();
        let kept = kept.flat_map(|data| self.directories.iter().map(|d| partials_of(data, d)));
        let kept: Vec<PathBuf> = kept.collect();
        let folders: Vec<String> = self
            .directories
            .iter()
            .chain(&held)
            .chain(&kept)
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

/// The fault of a question that needs a table whose files are in an object store alone.
fn table_away(what: &str) -> Error {
    Error::new("table-away", format!("files of {what} are in the object store, and not here"))
        .hint("try again")
}

/// The tables and views that at least two files need: two of `files`, or of the views that these
/// read. A view among `files` needs itself, and is asked for besides. Rows that are kept as SQL are
/// planned, value by value, in each plan that they stand in: of those one reader is enough.
fn shared(registry: &Registry, files: &[&SqlFile]) -> BTreeSet<String> {
    let mut readers: BTreeMap<String, usize> = BTreeMap::new();
    let asked = files.iter().map(|f| f.header.name.as_str()).filter(|n| registry.view(n).is_some());
    let mut waiting: Vec<&str> = files.iter().flat_map(|f| f.header.inputs()).collect();
    for name in asked {
        waiting.extend([name, name]);
    }
    while let Some(name) = waiting.pop() {
        let count = readers.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1
            && let Some(view) = registry.view(name)
        {
            waiting.extend(view.header.inputs());
        }
    }
    let is_data = |name: &str| registry.view(name).is_some_and(|view| view.header.is_data());
    let needed = readers.into_iter().filter(|(name, count)| *count > 1 || is_data(name));
    needed.map(|(name, _)| name).collect()
}

/// Directories of traces by name.
///
/// # Errors
/// `trace-unknown` for a directory that is missing, damaged, or of another version.
pub fn directories(store: &crate::store::Store, traces: &[String]) -> Result<Vec<PathBuf>> {
    let whole = |trace: &String| {
        let directory = store.directory(trace);
        // A table that lost a file would be short of rows, and say nothing.
        Manifest::read(&directory)?.check_version()?;
        Ok(absolute(&directory))
    };
    traces.iter().map(whole).collect()
}

/// Whether it is the folder of traces that are held, and no data directory.
fn is_ours(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == HELD)
}

/// The name of the trace that lies in a directory, as the path says it (`trace=NAME`).
fn trace_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("trace=").unwrap_or(&name).to_owned()
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
