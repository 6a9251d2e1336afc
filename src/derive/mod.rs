//! Derived tables of a trace: made once, at the end of an ingest, and again when their SQL changes.
//!
//! Two steps are not SQL, because a sweep says them in one pass and bounded memory: which operator
//! encloses a launch (`launches`), and the merged busy spans (`busy_intervals`). The rest are the
//! files under `sql/derived/`, in the order of what they read; names with a leading underscore
//! are steps on the way and are not kept.

pub mod busy;
pub mod files;
mod refresh;

use std::collections::BTreeSet;
use std::path::Path;

use duckdb::Connection;

use crate::derive::busy::busy_intervals;
use crate::derive::files::{
    WHOLE, copy, empty_columns, files_of, keep, kept_columns, part_file, take_over,
};
use crate::engine::{Settings, connect, select};
use crate::error::{Result, io};
use crate::registry::header::Header;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, Made, TABLES};
use crate::spool::parquet::TableWriter;
use crate::sql_text::{sql_name, sql_path, sql_string};
use crate::store::files::rank_folder;

/// Ranks whose events are looked at together, at most.
const RANKS_AT_A_TIME: usize = 16;
/// Communication events that are looked at together, unless one rank alone has more.
const CALLS_AT_A_TIME: i64 = 50_000;

/// Raised when one of the two steps in Rust changes its meaning.
const SWEEP_VERSION: u32 = 3;

/// A trace directory whose derived tables are to be made.
#[derive(Debug, Clone, Copy)]
pub struct ToDerive<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// A folder for files on the way.
    pub work: &'a Path,
    /// The directory of the same ranks whose derived tables were made by the same SQL, and the
    /// ranks that are not as they were there.
    pub earlier: Option<(&'a Path, &'a BTreeSet<i64>)>,
}

/// Makes the derived tables by the SQL of a registry.
pub struct Derive<'r> {
    /// Registry of the SQL files.
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
        let given = &self.memory_limit;
        let memory_limit = if given.is_empty() { format!("{MEMORY_MB}MB") } else { given.clone() };
        let settings = Settings { threads: self.threads, memory_limit, ..Settings::default() };
        let connection = connect(&settings)?;
        let spill = sql_string(&work.join("spill").to_string_lossy());
        connection.execute_batch(&format!("SET temp_directory = {spill}"))?;
        Ok(connection)
    }

    /// Runs a statement that makes a table. Some joins do not spill all that they hold, and each
    /// thread holds its own: where the memory is too little it is run again on one thread, and
    /// then, unless the user gave a limit, with twice and four times the memory. A job that is read
    /// late is better than one that is not read.
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

/// Whether a trace directory has this part of the derived tables. Steps on the way that are kept
/// say so: they have a file even without rows.
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

impl Derive<'_> {
    /// Hash over everything that the derived tables depend on, besides the data.
    pub fn sha256(&self) -> String {
        crate::hash::sha256_text(&format!("{SWEEP_VERSION} {}", self.registry.derived_sha256()))
    }

    /// Makes the derived tables.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn derive(&self, what: &ToDerive<'_>) -> Result<()> {
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
