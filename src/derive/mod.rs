//! Derived tables of a trace: made once, at the end of an ingest, and again when their SQL changes.
//!
//! Three steps are not SQL, because a sweep says them in one pass and bounded memory: which
//! operator encloses a launch (`launches`), the merged busy spans (`busy_intervals`), and what
//! operators take on the host (`host_times`). The rest are the files under `sql/derived/`, in the
//! order of what they read; names with a leading underscore are steps on the way and are not kept.

pub mod busy;
pub mod files;
mod host;
mod refresh;
mod share;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use duckdb::Connection;
use serde::{Deserialize, Serialize};

use crate::derive::busy::busy_intervals;
use crate::derive::files::{
    RankFiles, WHOLE, copy, empty_columns, files_of, keep, kept_columns, part_file, take_over,
};
use crate::derive::host::HostTimes;
use crate::derive::share::{Limits, Share, ranks_open};
use crate::engine::limits::memory_mb;
use crate::engine::{TINY_ROWS, select};
use crate::error::{Error, Result, io};
use crate::pool::lock;
use crate::registry::header::Header;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, Made, TABLES};
use crate::spool::parquet::TableWriter;
use crate::sql_text::{sql_name, sql_path};
use crate::store::files::{has_fewer_rows, rank_folder};

/// Ranks whose events are looked at together, at most: each has a file of its own, and planning
/// costs as much for one as for all.
const RANKS_AT_A_TIME: usize = 128;
/// Communication events that are looked at together, unless one rank alone has more.
const CALLS_AT_A_TIME: i64 = 50_000;
/// Device events and ranges of the host that are looked at together, likewise.
const ROWS_AT_A_TIME: i64 = 800_000;

/// The tables whose rows say which ranks are looked at together.
const COUNTED: [&str; 3] = ["ranks", "device_events", "host_ranges"];

/// Raised when one of the steps in Rust changes its meaning.
const SWEEP_VERSION: u32 = 4;

/// A trace directory whose derived tables are to be made.
#[derive(Debug, Clone, Copy)]
pub struct ToDerive<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The directory that files of parts are written to; mostly the same.
    pub into: &'a Path,
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

/// Megabytes at least where the memory was too little, and twice that where it is so again.
const AGAIN_MB: usize = 320;

/// Ranks that are looked at together, and the name of their files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    ranks: Vec<i64>,
    name: String,
    rows: i64,
    /// Whether the trace has few rows.
    is_tiny: bool,
}

impl Part {
    /// Device events and ranges of the host of its ranks.
    pub fn rows(&self) -> u64 {
        self.rows.unsigned_abs()
    }

    /// Whether some of its ranks may be among those from one to another.
    pub fn overlaps(&self, (first, last): (i64, i64)) -> bool {
        match self.ranks[..] {
            [from, .., to] | [from @ to] => from <= last && first <= to,
            [] => false,
        }
    }
}

/// What runs while a table is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Nothing else: the table may take all of the memory, and more.
    Nothing,
    /// Parts on databases of their own.
    Others,
}

/// Where a part is made.
struct Place<'a> {
    connection: &'a Connection,
    beside: Beside,
    /// A folder for files on the way.
    work: &'a Path,
    files: &'a RankFiles,
}

impl Derive<'_> {
    /// What all that is made of a trace may take.
    fn limits(&self, is_tiny: bool) -> Limits<'_> {
        let threads = if self.threads == 0 && is_tiny { 1 } else { self.threads };
        Limits { memory_limit: &self.memory_limit, threads, is_tiny }
    }

    /// A connection for sorting and joining, which knows the data that derived files read.
    fn connection(&self, limits: &Limits<'_>, share: Share, work: &Path) -> Result<Connection> {
        let connection = limits.connection(share, work)?;
        for data in self.registry.derived_data() {
            connection.execute_batch(&format!(
                "CREATE VIEW {} AS {}",
                sql_name(&data.header.name),
                data.query()
            ))?;
        }
        Ok(connection)
    }

    /// A connection with nothing beside it.
    fn alone(&self, what: &ToDerive<'_>, is_tiny: bool) -> Result<Connection> {
        let limits = self.limits(is_tiny);
        self.connection(&limits, limits.alone(), what.work)
    }

    /// Runs a statement that makes a table. Some joins do not spill all that they hold, and each
    /// thread holds its own: where the memory is too little it is run again on one thread, and
    /// then, unless the user gave a limit, with twice and four times the memory. A job that is read
    /// late is better than one that is not read.
    ///
    /// What is made beside others waits until it is alone.
    fn execute(&self, connection: &Connection, beside: Beside, sql: &str) -> Result<()> {
        let times = match beside {
            Beside::Others => 0,
            Beside::Nothing if self.memory_limit.is_empty() => 3,
            Beside::Nothing => 1,
        };
        for time in 0..times {
            match connection.execute_batch(sql).map_err(Error::from) {
                Err(e) if e.code == "limit" => {}
                outcome => return outcome,
            }
            connection.execute_batch(&match time {
                0 => "SET threads = 1".to_owned(),
                _ => {
                    let twice = memory_mb(connection)?.unwrap_or(0).saturating_mul(2);
                    format!("SET memory_limit = '{}MB'", twice.max(AGAIN_MB * time))
                }
            })?;
        }
        Ok(connection.execute_batch(sql)?)
    }

    /// Makes the table of a file: empty where it lacks what it must have.
    fn make(&self, connection: &Connection, beside: Beside, file: &SqlFile) -> Result<()> {
        let query = match empty_columns(&file.header) {
            // Planning a query costs more than it does on nothing.
            Some(columns) if !applies(connection, &file.header)? => {
                format!("SELECT {columns} WHERE false")
            }
            _ => file.query().to_owned(),
        };
        let name = sql_name(&file.header.name);
        self.execute(connection, beside, &format!("CREATE OR REPLACE TABLE {name} AS {query}"))
            .map_err(|e| e.at(file.path.clone()))
    }

    /// Makes parts, some side by side. A part for which its share of the memory is too little is
    /// made afterwards, alone and with all of it.
    fn make_parts(
        &self,
        what: &ToDerive<'_>,
        limits: &Limits<'_>,
        connection: &Connection,
        parts: &[Part],
    ) -> Result<()> {
        let (by_rank, over_ranks) = self.files();
        let by_rank = &by_rank;
        let over_ranks = &read_by(&over_ranks);
        let files = &RankFiles::of(what.directory, &read_by(by_rank))?;
        let alone = |parts: &[&Part]| -> Result<()> {
            let place = Place { connection, beside: Beside::Nothing, work: what.work, files };
            parts.iter().try_for_each(|part| self.part(what, &place, by_rank, over_ranks, part))
        };
        let most_ranks = parts.iter().map(|part| part.ranks.len()).max().unwrap_or(1);
        let (side_by_side, share) = limits.shares(connection, parts.len(), most_ranks)?;
        if side_by_side == 1 {
            return alone(&parts.iter().collect::<Vec<_>>());
        }
        let (next, aside) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let beside = Beside::Others;
        let work = |place: usize| -> Result<()> {
            let work = what.work.join(format!("part-{place}"));
            std::fs::create_dir_all(&work).map_err(|e| io(&work, &e))?;
            let mut connection = self.connection(limits, share, &work)?;
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let place = Place { connection: &connection, beside, work: &work, files };
                match self.part(what, &place, by_rank, over_ranks, part) {
                    Err(e) if e.code == "limit" => {
                        lock(&aside).push(part);
                        connection = self.connection(limits, share, &work)?;
                    }
                    Err(e) => {
                        // The others make no more.
                        next.store(parts.len(), Ordering::Relaxed);
                        return Err(e);
                    }
                    Ok(()) => {}
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..side_by_side).map(|place| scope.spawn(move || work(place))).collect();
            let first = work(0);
            let ended = others.into_iter().map(|other| match other.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.fold(first, Result::and)
        })?;
        let aside = std::mem::take(&mut *lock(&aside));
        alone(&aside)
    }

    /// Makes what each of the ranks of a part says by itself: one file of each table.
    fn part(
        &self,
        what: &ToDerive<'_>,
        place: &Place<'_>,
        by_rank: &[&SqlFile],
        over_ranks: &BTreeSet<&str>,
        part: &Part,
    ) -> Result<()> {
        let Part { ranks, name: part, .. } = part;
        let Place { connection, beside, work, files } = *place;
        show(what.directory, connection, &read_by(by_rank), Some((ranks, files)))?;
        for file in by_rank {
            self.make(connection, beside, file)?;
            let query = kept_columns(&file.header.name);
            let target = || part_file(what.into, &file.header.name, part);
            match schema::table(&file.header.name) {
                Some(_) => keep(connection, &query, target)?,
                // Written without rows too: then it says the types.
                None if over_ranks.contains(&*file.header.name) => {
                    copy(connection, &query, &target()?)?;
                }
                None => {}
            }
        }
        let writer = |name| -> Result<TableWriter> {
            let table = schema::table(name).expect("the table is in the schema");
            Ok(TableWriter::new(table, &[], part_file(what.into, name, part)?))
        };
        let mut host = HostTimes::new(connection, work)?;
        let mut busy = writer("busy_intervals")?;
        busy_intervals(connection, ranks, work, &mut busy, |source, rank, span| {
            host.busy(source, rank, span)
        })?;
        busy.finish()?;
        let mut times = writer("host_times")?;
        host.finish(connection, &mut times)?;
        times.finish()?;
        // The next part has its own.
        for file in by_rank {
            connection.execute_batch(&format!("DROP TABLE {}", sql_name(&file.header.name)))?;
        }
        Ok(())
    }
}

/// The ranks of a trace, in parts that are looked at together, with their rows.
fn ranks_together(connection: &Connection, most: usize) -> Result<Vec<(Vec<i64>, i64)>> {
    let mut statement = connection.prepare(
        "SELECT r.rank, coalesce(d.calls, 0), coalesce(d.events, 0) + coalesce(h.ranges, 0)
         FROM (SELECT DISTINCT rank FROM ranks) AS r
         LEFT JOIN (
             SELECT rank, count(*) FILTER (WHERE class = 'comm') AS calls, count(*) AS events
             FROM device_events
             GROUP BY rank
         ) AS d ON d.rank = r.rank
         LEFT JOIN (SELECT rank, count(*) AS ranges FROM host_ranges GROUP BY rank) AS h
             ON h.rank = r.rank
         ORDER BY r.rank",
    )?;
    let mut parts: Vec<(Vec<i64>, i64)> = Vec::new();
    let mut calls = 0;
    let mut ranks = statement.query([])?;
    while let Some(row) = ranks.next()? {
        let (rank, of_calls, of_rows): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        match parts.last_mut() {
            Some((part, rows))
                if part.len() < most
                    && calls + of_calls <= CALLS_AT_A_TIME
                    && *rows + of_rows <= ROWS_AT_A_TIME =>
            {
                calls += of_calls;
                *rows += of_rows;
                part.push(rank);
            }
            _ => {
                calls = of_calls;
                parts.push((vec![rank], of_rows));
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
    of_sql.chain(["busy_intervals", "host_times"]).collect()
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
        self.all(what)
    }

    fn all(&self, what: &ToDerive<'_>) -> Result<()> {
        let is_tiny = has_fewer_rows(what.directory, TINY_ROWS)?;
        let limits = self.limits(is_tiny);
        let connection = self.connection(&limits, limits.alone(), what.work)?;
        let Some(to_make) = self.list(&connection, what, is_tiny)? else { return Ok(()) };
        self.make_parts(what, &limits, &connection, &to_make)?;
        self.make_across(&connection, what)
    }

    /// The files that look at one rank at a time, and those that look at all.
    fn files(&self) -> (Vec<&SqlFile>, Vec<&SqlFile>) {
        self.registry.derived().into_iter().partition(|f| f.header.by_rank)
    }

    /// The parts of a trace that are to be made; the others are taken over. None for a trace
    /// without ranks, which has no derived tables: a benchmark by itself.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn parts(&self, what: &ToDerive<'_>) -> Result<Option<Vec<Part>>> {
        let is_tiny = has_fewer_rows(what.directory, TINY_ROWS)?;
        self.list(&self.alone(what, is_tiny)?, what, is_tiny)
    }

    fn list(
        &self,
        connection: &Connection,
        what: &ToDerive<'_>,
        is_tiny: bool,
    ) -> Result<Option<Vec<Part>>> {
        let (by_rank, over_ranks) = self.files();
        show(what.directory, connection, &BTreeSet::from(COUNTED), None)?;
        // What is per rank is made for a few ranks at a time, so that memory does not grow with
        // them, and not at all where none of the few has changed.
        let names = tables_by_rank(&by_rank);
        let of_over_ranks = read_by(&over_ranks);
        let most = RANKS_AT_A_TIME.min(ranks_open()).max(1);
        let parts = ranks_together(connection, most)?;
        if parts.is_empty() {
            return Ok(None);
        }
        let mut to_make = Vec::new();
        for (ranks, rows) in parts {
            let name = format!("part-{}-{}", ranks[0], ranks[ranks.len() - 1]);
            match what.earlier {
                Some((earlier, changed))
                    if ranks.iter().all(|r| !changed.contains(r))
                        && has_part(earlier, &by_rank, &of_over_ranks, &name) =>
                {
                    take_over(earlier, what.directory, &names, &name)?;
                }
                _ => to_make.push(Part { ranks, name, rows, is_tiny }),
            }
        }
        Ok(Some(to_make))
    }

    /// Makes the tables of one part.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn make_part(&self, what: &ToDerive<'_>, part: &Part) -> Result<()> {
        let (by_rank, over_ranks) = self.files();
        let connection = self.alone(what, part.is_tiny)?;
        let files = &RankFiles::of(what.directory, &read_by(&by_rank))?;
        let (beside, work) = (Beside::Nothing, what.work);
        let place = Place { connection: &connection, beside, work, files };
        self.part(what, &place, &by_rank, &read_by(&over_ranks), part)
    }

    /// Makes the tables that look at all ranks, of those of the parts.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn across(&self, what: &ToDerive<'_>) -> Result<()> {
        let connection = self.alone(what, has_fewer_rows(what.directory, TINY_ROWS)?)?;
        self.make_across(&connection, what)
    }

    fn make_across(&self, connection: &Connection, what: &ToDerive<'_>) -> Result<()> {
        let (by_rank, over_ranks) = self.files();
        let of_over_ranks = read_by(&over_ranks);
        show(what.directory, connection, &of_over_ranks, None)?;
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
                connection,
                Beside::Nothing,
                &format!("CREATE OR REPLACE TABLE {} AS {query}", sql_name(name)),
            )?;
        }
        for file in &over_ranks {
            self.make(connection, Beside::Nothing, file)?;
            if schema::table(&file.header.name).is_some() {
                keep(connection, &kept_columns(&file.header.name), || {
                    part_file(what.directory, &file.header.name, WHOLE)
                })?;
            }
        }
        let findings = what.directory.join("ingest_log/derived.parquet");
        if findings.exists() {
            // Removed and not written over: it may be shared with the directory still in place.
            std::fs::remove_file(&findings).map_err(|e| io(&findings, &e))?;
        }
        keep(connection, "SELECT * FROM _findings", || {
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
    named.chain(COUNTED).collect()
}

/// Makes ingested tables visible, those of these names: of all ranks, or of some that follow each
/// other.
fn show(
    directory: &Path,
    connection: &Connection,
    names: &BTreeSet<&str>,
    of: Option<(&[i64], &RankFiles)>,
) -> Result<()> {
    let wanted = |t: &&schema::Table| t.made == Made::Ingest && names.contains(t.name);
    for table in TABLES.iter().filter(wanted) {
        let mut only = String::new();
        let files = match of {
            // What is of no rank may be of any of them.
            Some((ranks, _)) if table.by_rank => ranks
                .iter()
                .map(|rank| Some(*rank))
                .chain([None])
                .flat_map(|rank| {
                    files_of(directory, &format!("{}/{}", table.name, rank_folder(rank)))
                })
                .collect(),
            // They follow each other: a list of many is compared one by one.
            Some(([first, .., last] | [first @ last], files)) => {
                match files.with(table.name, *first, *last) {
                    Some(files) => {
                        only = format!(" WHERE rank BETWEEN {first} AND {last} OR rank IS NULL");
                        files
                    }
                    None => schema::files(directory, table),
                }
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
