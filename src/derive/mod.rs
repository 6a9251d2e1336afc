//! Derived tables of a trace: made once, at the end of an ingest, and again when their SQL changes.
//!
//! Three steps are not SQL, because a sweep says them in one pass and bounded memory: which
//! operator encloses a launch (`launches`), the merged busy spans (`busy_intervals`), and what
//! operators take on the host (`host_times`). The rest are the files under `sql/derived/`, in
//! stages (`stages`): by turns for a few ranks at a time and for all, each behind what it reads.
//! Names with a leading underscore are steps on the way and are no tables of a trace.

pub mod busy;
pub mod files;
mod host;
mod parts;
mod refresh;
mod share;
mod stages;
mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use duckdb::Connection;

use crate::derive::busy::busy_intervals;
use crate::derive::files::{
    RankFiles, WHOLE, copy, empty_columns, has_rows, kept_columns, part_file,
};
use crate::derive::host::HostTimes;
use crate::derive::parts::list;
pub use crate::derive::parts::{Counts, Part, RankCount, ToDerive};
use crate::derive::share::{Limits, Share};
use crate::derive::stages::{FINDINGS, Stage, stages};
use crate::derive::visible::{show, show_derived};
use crate::engine::limits::memory_mb;
use crate::error::{Error, Result, io};
use crate::pool::lock;
use crate::registry::header::Header;
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, TABLES};
use crate::spool::parquet::TableWriter;
use crate::sql_text::sql_name;

/// Raised when one of the steps in Rust changes its meaning.
const SWEEP_VERSION: u32 = 4;

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
    between: Between,
}

/// How a stage gets what others made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// From files: of a part, or of all.
    Files,
    /// All is in one database: a tiny trace of one part.
    Tables,
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
            // A view would be planned, value by value, in each query that reads it.
            connection.execute_batch(&format!(
                "CREATE TABLE {} AS {}",
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
    fn make(&self, filled: &mut Filled<'_>, beside: Beside, file: &SqlFile) -> Result<()> {
        let connection = filled.connection;
        let query = match empty_columns(&file.header) {
            // Planning a query costs more than it does on nothing.
            Some(columns) if !filled.applies(&file.header)? => {
                filled.known.insert(file.header.name.clone(), false);
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
        stage: &Stage<'_>,
        (parts, between): (&[&Part], Between),
    ) -> Result<()> {
        let files = &RankFiles::of(what.directory, &stage.reads)?;
        let alone = |parts: &[&Part]| -> Result<()> {
            let (beside, work) = (Beside::Nothing, what.work);
            let place = Place { connection, beside, work, files, between };
            parts.iter().try_for_each(|part| self.part(what, &place, stage, part))
        };
        let most_ranks = parts.iter().map(|part| part.ranks.len()).max().unwrap_or(1);
        let (side_by_side, share) = limits.shares(connection, parts.len(), most_ranks)?;
        if side_by_side == 1 {
            return alone(parts);
        }
        let (next, aside) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let (beside, between) = (Beside::Others, Between::Files);
        let work = |place: usize| -> Result<()> {
            let work = what.work.join(format!("part-{place}"));
            std::fs::create_dir_all(&work).map_err(|e| io(&work, &e))?;
            let mut connection = self.connection(limits, share, &work)?;
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let place = Place { connection: &connection, beside, work: &work, files, between };
                match self.part(what, &place, stage, part) {
                    Err(e) if e.code == "limit" => {
                        lock(&aside).push(*part);
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

    /// Makes what a stage says of the ranks of a part: one file of each table.
    fn part(
        &self,
        what: &ToDerive<'_>,
        place: &Place<'_>,
        stage: &Stage<'_>,
        part: &Part,
    ) -> Result<()> {
        let Part { ranks, name: part, .. } = part;
        let Place { connection, beside, work, files, between } = *place;
        show(what.directory, connection, &stage.reads, Some((ranks, files)))?;
        if between == Between::Files {
            let of = Some((&ranks[..], &**part));
            show_derived(self.registry, what.directory, connection, stage, of)?;
        }
        self.make_all(what.into, (connection, between), beside, stage, part)?;
        if stage.is_first {
            sweeps(what, connection, work, ranks, part)?;
        }
        // The next part has its own.
        if between == Between::Files { drop_all(connection, stage) } else { Ok(()) }
    }

    /// Makes the tables of a stage, and writes those that are kept or read by another stage.
    fn make_all(
        &self,
        into: &Path,
        (connection, between): (&Connection, Between),
        beside: Beside,
        stage: &Stage<'_>,
        part: &str,
    ) -> Result<()> {
        let mut filled = Filled { connection, known: BTreeMap::new() };
        for (place, file) in stage.files.iter().enumerate() {
            let name = &*file.header.name;
            self.make(&mut filled, beside, file)?;
            let target = || part_file(into, name, part);
            match schema::table(name) {
                Some(_) if filled.has(name)? => {
                    copy(connection, &kept_columns(name), &target()?)?;
                }
                Some(_) => {}
                // Written without rows too: then it says the types.
                None if stage.passed.contains(name)
                    // The first stage is kept for the next ingest.
                    && (between == Between::Files || stage.is_first) =>
                {
                    copy(connection, &kept_columns(name), &target()?)?;
                }
                None => {}
            }
            // What others need lies in files; here it would take memory until the part is made.
            if between == Between::Files {
                drop_tables(connection, stage.spent(place))?;
            }
        }
        Ok(())
    }
}

/// Merged busy spans, and what operators take on the host, of the ranks of a part.
fn sweeps(
    what: &ToDerive<'_>,
    connection: &Connection,
    work: &Path,
    ranks: &[i64],
    part: &str,
) -> Result<()> {
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
    times.finish().map(drop)
}

/// Removes what is left of a stage from a database.
fn drop_all(connection: &Connection, stage: &Stage<'_>) -> Result<()> {
    drop_tables(connection, stage.files.iter().map(|file| &*file.header.name))
}

fn drop_tables<'n>(
    connection: &Connection,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<()> {
    for name in names {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", sql_name(name)))?;
    }
    Ok(())
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
    pub fn derive(&self, what: &ToDerive<'_>, counts: &Counts) -> Result<()> {
        let is_tiny = counts.is_tiny();
        let limits = self.limits(is_tiny);
        let stages = stages(self.registry);
        let Some(parts) = list(&stages[0], what, counts)? else { return Ok(()) };
        let connection = self.connection(&limits, limits.alone(), what.work)?;
        let is_one = matches!(&parts[..], [part] if part.is_open());
        let between = if is_tiny && is_one { Between::Tables } else { Between::Files };
        for stage in &stages {
            if stage.by_rank {
                let to_make = parts.iter().filter(|part| !stage.is_first || part.is_open());
                let to_make: Vec<&Part> = to_make.collect();
                self.make_parts(what, &limits, &connection, stage, (&to_make, between))?;
            } else {
                self.over_ranks((&connection, between), what, stage)?;
            }
        }
        finish(&connection, what, &stages)
    }

    /// How many stages there are: those with an even number are made for some ranks at a time, the
    /// others for all.
    pub fn stage_count(&self) -> usize {
        stages(self.registry).len()
    }

    /// The names of what a stage reads: folders of a trace directory.
    pub fn reads(&self, stage: usize) -> BTreeSet<String> {
        stages(self.registry)[stage].reads.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The parts of a trace. The first stage of some may be there: it was taken over. None for a
    /// trace without ranks, which has no derived tables: a benchmark by itself.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn parts(&self, what: &ToDerive<'_>, counts: &Counts) -> Result<Option<Vec<Part>>> {
        list(&stages(self.registry)[0], what, counts)
    }

    /// What there is to look at in a directory.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn counts(&self, what: &ToDerive<'_>) -> Result<Counts> {
        Counts::of(what.directory, &self.alone(what, true)?)
    }

    /// Makes the tables of one part in a stage.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn make_part(&self, what: &ToDerive<'_>, stage: usize, part: &Part) -> Result<()> {
        let stage = &stages(self.registry)[stage];
        let connection = self.alone(what, part.is_tiny)?;
        let files = &RankFiles::of(what.directory, &stage.reads)?;
        let (beside, work, between) = (Beside::Nothing, what.work, Between::Files);
        let place = Place { connection: &connection, beside, work, files, between };
        self.part(what, &place, stage, part)
    }

    /// Makes the tables of a stage over all ranks, of a trace with this part among others. The last
    /// one finishes the trace.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub fn make_over_ranks(&self, what: &ToDerive<'_>, stage: usize, part: &Part) -> Result<()> {
        let stages = stages(self.registry);
        let connection = self.alone(what, part.is_tiny)?;
        self.over_ranks((&connection, Between::Files), what, &stages[stage])?;
        if stage + 1 == stages.len() { finish(&connection, what, &stages) } else { Ok(()) }
    }

    fn over_ranks(
        &self,
        (connection, between): (&Connection, Between),
        what: &ToDerive<'_>,
        stage: &Stage<'_>,
    ) -> Result<()> {
        show(what.directory, connection, &stage.reads, None)?;
        if between == Between::Files {
            show_derived(self.registry, what.directory, connection, stage, None)?;
        }
        self.make_all(what.into, (connection, between), Beside::Nothing, stage, WHOLE)?;
        // The findings are read at the end.
        let is_last = stage.files.iter().any(|file| file.header.name == FINDINGS);
        if between == Between::Tables || is_last { Ok(()) } else { drop_all(connection, stage) }
    }
}

/// Writes the findings, and removes what no later ingest needs.
fn finish(connection: &Connection, what: &ToDerive<'_>, stages: &[Stage<'_>]) -> Result<()> {
    let findings = what.directory.join("ingest_log/derived.parquet");
    if findings.exists() {
        // Removed and not written over: it may be shared with the directory still in place.
        std::fs::remove_file(&findings).map_err(|e| io(&findings, &e))?;
    }
    let query = format!("SELECT * FROM {FINDINGS}");
    if has_rows(connection, &query)? {
        part_file(what.directory, "ingest_log", WHOLE)?;
        copy(connection, &query, &findings)?;
    }
    let passed = stages.iter().skip(1).flat_map(|stage| &stage.passed);
    let without_rows =
        TABLES.iter().filter(|table| schema::files(what.directory, table).is_empty());
    for name in passed.copied().chain(without_rows.map(|table| table.name)) {
        let folder = what.directory.join(name);
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder).map_err(|e| io(&folder, &e))?;
        }
    }
    Ok(())
}

/// Which of the tables that are read and made beside each other have rows: each is asked once.
struct Filled<'c> {
    connection: &'c Connection,
    known: BTreeMap<String, bool>,
}

impl Filled<'_> {
    /// Whether a table has rows.
    fn has(&mut self, name: &str) -> Result<bool> {
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        let has = has_rows(self.connection, &format!("SELECT 1 FROM {}", sql_name(name)))?;
        self.known.insert(name.to_owned(), has);
        Ok(has)
    }

    /// Whether every table that a file requires has rows, and its checks hold.
    fn applies(&mut self, header: &Header) -> Result<bool> {
        for name in &header.requires {
            if !self.has(name)? {
                return Ok(false);
            }
        }
        for check in &header.checks {
            let sql = format!("SELECT coalesce(({}) IS NULL, false)", check.reason());
            if !self.connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some 64 MB that DuckDB cannot spill, in 20 MB.
    fn made(beside: Beside, memory_limit: &str) -> (Result<()>, Vec<String>) {
        let registry = Registry::default();
        let derive =
            Derive { registry: &registry, memory_limit: memory_limit.to_owned(), threads: 2 };
        let connection = Connection::open_in_memory().expect("DuckDB starts");
        connection
            .execute_batch("SET memory_limit = '20MB'; SET threads = 2;")
            .expect("these are settings");
        let sql = "CREATE OR REPLACE TABLE made AS SELECT list(range) AS all FROM range(8000000)";
        let outcome = derive.execute(&connection, beside, sql);
        let set = ["threads", "memory_limit"].map(|name| {
            let sql = format!("SELECT CAST(current_setting('{name}') AS VARCHAR)");
            connection.query_row(&sql, [], |row| row.get(0)).expect("it is a setting")
        });
        (outcome, set.to_vec())
    }

    #[test]
    fn a_table_that_needs_more_memory_gets_it_when_it_is_alone() {
        let (outcome, set) = made(Beside::Nothing, "");
        outcome.expect("with more memory it can be made");
        // 320 MB.
        assert_eq!(set, ["1", "305.1 MiB"]);

        // Whoever gave a limit means it: only fewer threads are tried.
        let (outcome, set) = made(Beside::Nothing, "20MB");
        assert_eq!(outcome.expect_err("it is too little").code, "limit");
        assert_eq!(set[0], "1");

        // Beside others nothing is tried: it waits until it is alone.
        let (outcome, set) = made(Beside::Others, "");
        assert_eq!(outcome.expect_err("it is too little").code, "limit");
        assert_eq!(set[0], "2");
    }
}
