//! A connection to DuckDB: its limits, and the SQL functions.

use std::path::PathBuf;
use std::time::Duration;

use duckdb::{Config, Connection};

use crate::engine::interrupt::Interrupt;
use crate::engine::limits;
use crate::error::{Error, Result};

/// Traces with fewer rows in all their tables are small.
pub const FEW_ROWS: u64 = 300_000;
/// Of traces with fewer rows it costs less to read a table whole once than to open its files for
/// each query.
pub const TINY_ROWS: u64 = 30_000;

/// Whether a trace with so many rows is small: one thread has less to do alone with a query than
/// with others that it must meet, and to plan a query costs more than to run it.
pub fn is_small(rows: u64) -> bool {
    rows < FEW_ROWS
}

/// Limits of a connection.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Threads; 0 for one per core.
    pub threads: usize,
    /// Memory limit, as DuckDB writes sizes; empty for DuckDB's own default.
    pub memory_limit: String,
    /// Longest that a statement may take; None or 0 for no limit.
    pub timeout: Option<Duration>,
    /// Most that queries put on disk, as DuckDB writes sizes; empty for the default.
    pub spill_limit: String,
    /// The data directory, below which queries put what they cannot hold in memory.
    pub data: PathBuf,
    /// Whether the rows of views in parts are kept beside their traces.
    pub partials: bool,
    /// Whether statements of a stranger are among those that run.
    pub strange: bool,
    /// Whether the process is the program's own, and may get limits.
    pub own_process: bool,
    /// The means to stop the queries.
    pub interrupt: Interrupt,
}

impl Settings {
    /// The limits for traces with so many rows: of few, one thread has less to do alone than with
    /// others that it must meet. A number that the user gave stays.
    #[must_use]
    pub fn for_rows(self, rows: u64) -> Self {
        let threads = if self.threads == 0 && is_small(rows) { 1 } else { self.threads };
        Self { threads, ..self }
    }
}

/// A connection in memory with the SQL functions. It loads no extension by itself. The caller names
/// the folder for what it cannot hold in memory (`SET temp_directory`).
///
/// # Errors
/// `sql` when DuckDB does not start, `usage` for an unusable memory limit.
pub fn connect(settings: &Settings) -> Result<Connection> {
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
    connection.execute_batch("SET enable_progress_bar = false")?;
    if let Some(timeout) = settings.timeout {
        let millis = timeout.as_millis().max(1);
        connection.execute_batch(&format!("SET max_execution_time = {millis}"))?;
    }
    limits::bound(&connection, settings)?;
    crate::functions::register(&connection)?;
    Ok(connection)
}
