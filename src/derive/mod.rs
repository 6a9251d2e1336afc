//! Derived tables of a trace: made once, at the end of an ingest, and again when their SQL changes.
//!
//! Two steps are not SQL, because a sweep says them in one pass and bounded memory: which operator
//! encloses a launch (`launches`), and the merged busy spans (`busy_intervals`). The rest are the
//! files under `sql/derived/`, in the order of what they read; names with a leading underscore
//! are steps on the way and are not kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use duckdb::{Config, Connection};

use crate::engine::select;
use crate::error::{Error, Result, io};
use crate::functions::interval::Merger;
use crate::ingest::assemble::rank_folder;
use crate::ingest::{Finish, TableWriter, ToDerive};
use crate::registry::header::Header;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, Made, TABLES};
use crate::sql_text::{sql_name, sql_path, sql_string};

/// Ranks whose events are looked at together, at most.
const RANKS_AT_A_TIME: usize = 16;
/// Communication events that are looked at together, unless one rank alone has more.
const CALLS_AT_A_TIME: i64 = 50_000;

/// Raised when one of the two steps in Rust changes its meaning.
const SWEEP_VERSION: u32 = 3;

/// How derived tables are written.
const COPY_OPTIONS: &str =
    "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2";

/// Makes the derived tables by the SQL of a registry.
pub struct Derive<'r> {
    /// Where the SQL comes from.
    pub registry: &'r Registry,
    /// Memory for sorting and joining, as DuckDB writes sizes; empty for the default.
    pub memory_limit: String,
    /// Threads; 0 for one per core.
    pub threads: usize,
}

/// Megabytes of the work connection unless the user says otherwise.
const MEMORY_MB: usize = 160;

impl Derive<'_> {
    /// A DuckDB connection for sorting and joining: bounded memory, spilling into the workspace.
    fn connection(&self, work: &Path) -> Result<Connection> {
        let limit = match &*self.memory_limit {
            "" => &format!("{MEMORY_MB}MB"),
            given => given,
        };
        let mut config = Config::default()
            .max_memory(limit)
            .map_err(|_| {
                Error::new("usage", format!("{limit:?} is no size of memory"))
                    .hint("write a number and a unit: --memory-limit 1GB")
            })?
            .enable_autoload_extension(false)?;
        if self.threads > 0 {
            config = config.threads(i64::try_from(self.threads).unwrap_or(1))?;
        }
        let connection = Connection::open_in_memory_with_flags(config)?;
        connection.execute_batch(&format!(
            "SET temp_directory = {}; SET enable_progress_bar = false;",
            sql_string(&work.join("spill").to_string_lossy())
        ))?;
        crate::functions::register(&connection)?;
        Ok(connection)
    }

    /// Runs a statement that makes a table. Some joins do not spill all that they hold, and each
    /// thread holds its own: where the memory is too little it is run again on one thread, and then,
    /// unless the user gave a limit, with twice and four times the memory. A job that is read late
    /// is better than one that is not read.
    fn execute(&self, connection: &Connection, sql: &str) -> Result<()> {
        let mut settings = vec!["SET threads = 1".to_owned()];
        if self.memory_limit.is_empty() {
            settings.extend([2, 4].map(|n| format!("SET memory_limit = '{}MB'", n * MEMORY_MB)));
        }
        let mut again = settings.iter();
        loop {
            match connection.execute_batch(sql) {
                Err(e) if e.to_string().contains("Out of Memory") => match again.next() {
                    Some(setting) => connection.execute_batch(setting)?,
                    None => return Err(e.into()),
                },
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Makes the table of a file: empty where it lacks what it must have.
    fn make(&self, connection: &Connection, file: &SqlFile) -> Result<()> {
        let query = match empty_columns(&file.header) {
            // Planning a query costs more than it does on nothing.
            Some(columns) if !applies(connection, &file.header)? => {
                format!("SELECT {columns} WHERE false")
            }
            _ => file.query().to_owned(),
        };
        let name = sql_name(&file.header.name);
        self.execute(connection, &format!("CREATE OR REPLACE TABLE {name} AS {query}"))
            .map_err(|e| e.at(file.path.clone()))
    }

    /// Makes what each of `ranks` says by itself: one file of each table under `part`.
    fn part(
        &self,
        what: &ToDerive<'_>,
        connection: &Connection,
        by_rank: &[&SqlFile],
        over_ranks: &BTreeSet<&str>,
        ranks: &[i64],
        part: &str,
    ) -> Result<()> {
        show(what.directory, connection, &read_by(by_rank), Some(ranks))?;
        for file in by_rank {
            self.make(connection, file)?;
            let query = kept_columns(&file.header.name);
            let target = || part_file(what.directory, &file.header.name, part);
            match schema::table(&file.header.name) {
                Some(_) => keep(connection, &query, target)?,
                // Written without rows too: then it says the types.
                None if over_ranks.contains(&*file.header.name) => {
                    copy(connection, &query, &target()?)?;
                }
                None => {}
            }
        }
        let path = part_file(what.directory, "busy_intervals", part)?;
        let table = schema::table("busy_intervals").expect("busy_intervals is in the schema");
        let mut busy = TableWriter::new(table, &[], path);
        busy_intervals(connection, ranks, &mut busy)?;
        busy.finish()?;
        // The next part has its own.
        for file in by_rank {
            connection.execute_batch(&format!("DROP TABLE {}", sql_name(&file.header.name)))?;
        }
        Ok(())
    }
}

/// Name of the one file of a table that is made over all ranks.
const WHOLE: &str = "part-0000";

/// The ranks of a trace, in parts that are looked at together.
fn parts(connection: &Connection) -> Result<Vec<Vec<i64>>> {
    let mut statement = connection.prepare(
        "SELECT r.rank, count(d.rank)
         FROM (SELECT DISTINCT rank FROM ranks) AS r
         LEFT JOIN (SELECT rank FROM device_events WHERE class = 'comm') AS d ON d.rank = r.rank
         GROUP BY r.rank ORDER BY r.rank",
    )?;
    let mut parts: Vec<Vec<i64>> = Vec::new();
    let mut calls = 0;
    for row in statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))? {
        let (rank, more) = row?;
        match parts.last_mut() {
            Some(part) if part.len() < RANKS_AT_A_TIME && calls + more <= CALLS_AT_A_TIME => {
                calls += more;
                part.push(rank);
            }
            _ => {
                calls = more;
                parts.push(vec![rank]);
            }
        }
    }
    Ok(parts)
}

/// Whether a trace directory has this part of the derived tables. Steps on the way that are kept say
/// so: they have a file even without rows.
fn has_part(
    directory: &Path,
    by_rank: &[&SqlFile],
    over_ranks: &BTreeSet<&str>,
    part: &str,
) -> bool {
    let kept = |f: &&&SqlFile| {
        schema::table(&f.header.name).is_none() && over_ranks.contains(&*f.header.name)
    };
    let mut steps = by_rank.iter().filter(kept).peekable();
    steps.peek().is_some()
        && steps.all(|f| directory.join(&f.header.name).join(format!("{part}.parquet")).exists())
}

/// Names of the tables that are made for some ranks at a time.
fn tables_by_rank<'a>(by_rank: &[&'a SqlFile]) -> Vec<&'a str> {
    let of_sql = by_rank.iter().map(|f| f.header.name.as_str());
    of_sql.chain(["busy_intervals"]).collect()
}

impl Finish for Derive<'_> {
    fn sha256(&self) -> String {
        crate::hash::sha256_text(&format!("{SWEEP_VERSION} {}", self.registry.derived_sha256()))
    }

    fn derive(&self, what: &ToDerive<'_>) -> Result<()> {
        let connection = self.connection(what.work)?;
        let derived = self.registry.derived();
        let (by_rank, over_ranks): (Vec<&SqlFile>, Vec<&SqlFile>) =
            derived.into_iter().partition(|f| f.header.by_rank);
        let of_parts = BTreeSet::from(["ranks", "device_events"]);
        show(what.directory, &connection, &of_parts, None)?;
        for data in self.registry.derived_data() {
            connection.execute_batch(&format!(
                "CREATE VIEW {} AS {}",
                sql_name(&data.header.name),
                data.query()
            ))?;
        }
        // What is per rank is made for a few ranks at a time, so that memory does not grow with
        // them, and not at all where none of the few has changed.
        let names = tables_by_rank(&by_rank);
        let of_over_ranks = read_by(&over_ranks);
        let parts = parts(&connection)?;
        if parts.is_empty() {
            // A benchmark by itself has no ranks, and nothing that follows from them.
            return Ok(());
        }
        for ranks in parts {
            let part = format!("part-{}-{}", ranks[0], ranks[ranks.len() - 1]);
            match what.earlier {
                Some((earlier, changed))
                    if ranks.iter().all(|r| !changed.contains(r))
                        && has_part(earlier, &by_rank, &of_over_ranks, &part) =>
                {
                    take_over(earlier, what.directory, &names, &part)?;
                }
                _ => self.part(what, &connection, &by_rank, &of_over_ranks, &ranks, &part)?,
            }
        }
        show(what.directory, &connection, &of_over_ranks, None)?;
        for file in by_rank.iter().filter(|f| of_over_ranks.contains(&*f.header.name)) {
            let name = &file.header.name;
            let files = files_of(what.directory, name);
            let query = match schema::table(name) {
                Some(table) => select(table, &files),
                None => {
                    let list: Vec<String> = files.iter().map(|f| sql_path(f)).collect();
                    let list = list.join(", ");
                    format!("SELECT * FROM read_parquet([{list}], hive_partitioning = false)")
                }
            };
            self.execute(
                &connection,
                &format!("CREATE OR REPLACE TABLE {} AS {query}", sql_name(name)),
            )?;
        }
        for file in &over_ranks {
            self.make(&connection, file)?;
            if schema::table(&file.header.name).is_some() {
                keep(&connection, &kept_columns(&file.header.name), || {
                    part_file(what.directory, &file.header.name, WHOLE)
                })?;
            }
        }
        let findings = what.directory.join("ingest_log/derived.parquet");
        if findings.exists() {
            // Removed and not written over: it may be shared with the directory still in place.
            std::fs::remove_file(&findings).map_err(|e| io(&findings, &e))?;
        }
        keep(&connection, "SELECT * FROM _findings", || {
            part_file(what.directory, "ingest_log", WHOLE).map(|_| findings.clone())
        })?;
        // Folders of tables without rows.
        for table in TABLES {
            let folder = what.directory.join(table.name);
            if folder.is_dir() && schema::files(what.directory, table).is_empty() {
                std::fs::remove_dir_all(&folder).map_err(|e| io(&folder, &e))?;
            }
        }
        Ok(())
    }
}

/// The columns of a derived table or step without values; None where nothing says their types.
fn empty_columns(header: &Header) -> Option<String> {
    let columns: Vec<(&str, &str)> = match schema::table(&header.name) {
        Some(table) => table.columns.iter().map(|c| (c.name, c.ty.sql())).collect(),
        None => header.columns.iter().map(|c| (&*c.name, &*c.ty)).collect(),
    };
    let column = |(name, ty): &(&str, &str)| format!("CAST(NULL AS {ty}) AS {}", sql_name(name));
    (!columns.is_empty()).then(|| columns.iter().map(column).collect::<Vec<_>>().join(", "))
}

/// Whether every table that a file requires has rows, and its checks hold.
fn applies(connection: &Connection, header: &Header) -> Result<bool> {
    let has_rows =
        header.requires.iter().map(|n| format!("EXISTS (SELECT 1 FROM {})", sql_name(n)));
    let checks = header.checks.iter().map(|check| format!("({}) IS NULL", check.reason()));
    for condition in has_rows.chain(checks) {
        let sql = format!("SELECT coalesce({condition}, false)");
        if !connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `SELECT` of a derived table: the columns of the schema, in its order and types; all of a step.
fn kept_columns(name: &str) -> String {
    let columns = match schema::table(name) {
        None => "*".to_owned(),
        Some(table) => {
            let cast = |c: &schema::Column| {
                format!("CAST({0} AS {1}) AS {0}", sql_name(c.name), c.ty.sql())
            };
            table.columns.iter().map(cast).collect::<Vec<_>>().join(", ")
        }
    };
    format!("SELECT {columns} FROM {}", sql_name(name))
}

/// The files of a table or step in a trace directory.
fn files_of(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(directory.join(name))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "parquet"))
        .collect();
    out.sort();
    out
}

/// The files of one part, as an earlier ingest made them.
fn take_over(earlier: &Path, directory: &Path, names: &[&str], part: &str) -> Result<()> {
    for name in names {
        let target = part_file(directory, name, part)?;
        let from = earlier.join(name).join(target.file_name().unwrap_or_default());
        if from.exists() {
            crate::ingest::assemble::link(&from, &target)?;
        }
    }
    Ok(())
}

/// The tables and steps that these files read, and those that the steps in Rust do.
fn read_by<'a>(files: &[&'a SqlFile]) -> BTreeSet<&'a str> {
    let named = files.iter().flat_map(|f| f.header.inputs());
    named.chain(["ranks", "device_events"]).collect()
}

/// Makes ingested tables visible, those of these names: of all ranks, or of some.
fn show(
    directory: &Path,
    connection: &Connection,
    names: &BTreeSet<&str>,
    ranks: Option<&[i64]>,
) -> Result<()> {
    let wanted = |t: &&schema::Table| t.made == Made::Ingest && names.contains(t.name);
    for table in TABLES.iter().filter(wanted) {
        let mut only = String::new();
        let files = match ranks {
            // What is of no rank may be of any of them.
            Some(ranks) if table.by_rank => ranks
                .iter()
                .map(|rank| Some(*rank))
                .chain([None])
                .flat_map(|rank| {
                    files_of(directory, &format!("{}/{}", table.name, rank_folder(rank)))
                })
                .collect(),
            Some(ranks) if table.columns.iter().any(|c| c.name == "rank") => {
                let list: Vec<String> = ranks.iter().map(i64::to_string).collect();
                only = format!(" WHERE rank IN ({}) OR rank IS NULL", list.join(", "));
                schema::files(directory, table)
            }
            _ => schema::files(directory, table),
        };
        connection.execute_batch(&format!(
            "CREATE OR REPLACE VIEW {} AS {}{only}",
            table.name,
            match only.is_empty() {
                true => select(table, &files),
                false => format!("SELECT * FROM ({})", select(table, &files)),
            }
        ))?;
    }
    Ok(())
}

fn part_file(directory: &Path, name: &str, part: &str) -> Result<PathBuf> {
    let folder = directory.join(name);
    std::fs::create_dir_all(&folder).map_err(|e| io(&folder, &e))?;
    Ok(folder.join(format!("{part}.parquet")))
}

/// Writes the rows of a query to a file.
fn copy(connection: &Connection, query: &str, target: &Path) -> Result<()> {
    let target = sql_string(&target.to_string_lossy());
    Ok(connection.execute_batch(&format!("COPY ({query}) TO {target} ({COPY_OPTIONS})"))?)
}

/// Writes the rows of a query to a file, unless there are none.
fn keep(
    connection: &Connection,
    query: &str,
    file: impl FnOnce() -> Result<PathBuf>,
) -> Result<()> {
    let some: bool =
        connection.query_row(&format!("SELECT EXISTS ({query})"), [], |row| row.get(0))?;
    if some { copy(connection, query, &file()?) } else { Ok(()) }
}

/// An integer column of a batch by name.
fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::Int64Array {
    batch.column_by_name(name).expect("the query names the column").as_primitive::<Int64Type>()
}

/// `busy_intervals`: per rank, device and class the union of the spans of its events; where picoseconds are
/// known, each bound is rounded down by itself, so that their loss does not add up. On a rank
/// without any device, the spans of the communication on the host (gloo).
fn busy_intervals(connection: &Connection, ranks: &[i64], writer: &mut TableWriter) -> Result<()> {
    let list: Vec<String> = ranks.iter().map(i64::to_string).collect();
    let mut statement = connection.prepare(&format!(
        "SELECT source, rank, device, class, ts_ns,
                ts_ns + dur_ns + coalesce(ts_ps + dur_ps, 0) // 1000 AS end_ns
         FROM device_events
         WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL
         UNION ALL
         SELECT source, rank, NULL, 'comm', ts_ns, ts_ns + dur_ns
         FROM _collective_events
         WHERE device IS NULL AND rank IN ({})
         ORDER BY source, rank, device, class, ts_ns",
        list.join(", ")
    ))?;
    type Key = (String, Option<i64>, Option<i64>, String);
    let mut key: Option<Key> = None;
    let mut merger = Merger::default();
    let mut row_of = |key: &Option<Key>, merged: Option<(i64, i64)>| -> Result<()> {
        if let (Some((source, rank, device, class)), Some((start, end))) = (key, merged) {
            let row = writer.row();
            row.text(Some(source))
                .int(*rank)
                .int(*device)
                .text(Some(class))
                .int(Some(start))
                .int(Some(end));
            writer.end_row()?;
        }
        Ok(())
    };
    for batch in statement.stream_arrow([])? {
        let batch = batch?;
        let (rank, device) = (ints(&batch, "rank"), ints(&batch, "device"));
        let (start, end) = (ints(&batch, "ts_ns"), ints(&batch, "end_ns"));
        let text =
            |name| batch.column_by_name(name).expect("the query names it").as_string::<i32>();
        let (source, class) = (text("source"), text("class"));
        for row in 0..batch.num_rows() {
            let of = |c: &arrow::array::Int64Array| c.is_valid(row).then(|| c.value(row));
            let same = key.as_ref().is_some_and(|(s, r, d, c)| {
                s == source.value(row)
                    && *r == of(rank)
                    && *d == of(device)
                    && c == class.value(row)
            });
            if !same {
                row_of(&key, merger.finish())?;
                let source = source.value(row).to_owned();
                key = Some((source, of(rank), of(device), class.value(row).to_owned()));
            }
            let merged = merger.push((start.value(row), end.value(row)));
            row_of(&key, merged)?;
        }
    }
    row_of(&key, merger.finish())
}
