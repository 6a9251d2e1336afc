//! What the connections that derive may take: threads and memory, and how many parts are made
//! side by side.

use std::num::NonZero;
use std::path::Path;

use duckdb::Connection;

use crate::engine::limits::memory_mb;
use crate::engine::{Settings, connect};
use crate::error::Result;
use crate::sql_text::sql_string;

/// Megabytes of all that sorts and joins, unless the user says otherwise, or there are many cores.
const MEMORY_MB: usize = 160;
/// Megabytes of each thread where there are more than two.
const THREAD_MB: usize = 100;
/// Megabytes that a part has at least where parts are made side by side.
const PART_MB: usize = 60;

/// Files that are open for other things than the tables of parts.
const OTHER_FILES: u64 = 64;
/// Files of a rank that are open together, about: a query reads some tables several times.
const FILES_OF_A_RANK: u64 = 2;

/// Ranks whose files the process may have open.
pub(super) fn ranks_open() -> usize {
    use rustix::process::{Resource, getrlimit};
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(most.saturating_sub(OTHER_FILES) / FILES_OF_A_RANK).unwrap_or(usize::MAX)
}

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Threads; 0 for one per core.
    pub(super) threads: usize,
    /// Memory; None for all that there is.
    pub(super) memory_mb: Option<usize>,
}

/// What all connections together may take, as the user says it.
pub(super) struct Limits<'a> {
    /// Memory as DuckDB writes sizes; empty for the default.
    pub(super) memory_limit: &'a str,
    /// Threads; 0 for one per core.
    pub(super) threads: usize,
    /// Whether all tables are tiny, so that a query is planned longer than it runs.
    pub(super) is_tiny: bool,
}

impl Limits<'_> {
    /// A DuckDB connection for sorting and joining: bounded memory, spilling into the workspace.
    pub(super) fn connection(&self, share: Share, work: &Path) -> Result<Connection> {
        let memory_limit = match (share.memory_mb, self.memory_limit) {
            (Some(megabytes), _) => format!("{megabytes}MB"),
            (None, "") => format!("{}MB", self.default_mb()),
            (None, given) => given.to_owned(),
        };
        let settings = Settings {
            threads: share.threads,
            memory_limit,
            tiny: self.is_tiny,
            ..Settings::default()
        };
        let connection = connect(&settings)?;
        let spill = sql_string(&work.join("spill").to_string_lossy());
        connection.execute_batch(&format!("SET temp_directory = {spill}"))?;
        Ok(connection)
    }

    /// The share of what is made with nothing beside it.
    pub(super) fn alone(&self) -> Share {
        Share { threads: self.threads, memory_mb: None }
    }

    /// Threads, as many as cores unless the user says otherwise.
    fn all_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        }
    }

    /// Megabytes where the user gives none: who has more than two cores has more memory.
    fn default_mb(&self) -> usize {
        match self.all_threads() {
            0..=2 => MEMORY_MB,
            threads => threads.saturating_mul(THREAD_MB),
        }
    }

    /// How many parts are made side by side, and what each may take. Two parts on a thread each
    /// take a third less work than one on two threads and then the other.
    pub(super) fn shares(
        &self,
        connection: &Connection,
        parts: usize,
        most_ranks: usize,
    ) -> Result<(usize, Share)> {
        let threads = self.all_threads();
        let memory_mb = memory_mb(connection)?.unwrap_or(MEMORY_MB);
        let by_files = ranks_open() / most_ranks.max(1);
        let side_by_side = parts.min(threads).min(memory_mb / PART_MB).min(by_files).max(1);
        let share = Share {
            threads: threads / side_by_side,
            memory_mb: (side_by_side > 1).then_some(memory_mb / side_by_side),
        };
        Ok((side_by_side, share))
    }
}
