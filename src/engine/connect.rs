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

/// Passes of the optimizer that cost more than they save where tables have few rows. What is left
/// says which rows are joined, in which order, and what is not computed at all.
const COSTLY_PASSES: &str = "aggregate_function_rewriter,aggregate_reuse,column_lifetime,\
    common_aggregate,common_subexpressions,common_subplan,compressed_materialization,\
    cte_filter_pusher,distinct_aggregate_rewrite,duplicate_groups,empty_result_pullup,\
    expression_rewriter,extension,grouping_sets,join_elimination,join_filter_pushdown,\
    late_materialization,limit_pushdown,materialized_cte,outer_join_simplification,\
    partial_aggregate_pushdown,partitioned_execution,projection_placement,projection_pullup,\
    redundant_order_keys,regex_range,remote_pushdown,reorder_filter,row_group_pruner,\
    sampling_pushdown,scalar_fn_pushdown,statistics_propagation,top_n,top_n_window_elimination,\
    type_pushdown,window_rewriter,window_self_join";

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
    /// Whether all tables are tiny, so that a query is planned longer than it runs.
    pub tiny: bool,
    /// The data directory, below which queries put what they cannot hold in memory.
    pub data: PathBuf,
    /// Whether the rows of views in parts are kept beside their traces.
    pub partials: bool,
    /// Whether queries get little memory where nobody says how much. They put the rest on the disk;
    /// who needs it in memory is to be asked again without.
    pub modest: bool,
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
        Self { threads, tiny: rows < TINY_ROWS, ..self }
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
    if settings.tiny {
        // Another DuckDB may have other passes: then it plans as it does for large ones.
        let _ = connection.execute_batch(&format!("SET disabled_optimizers = '{COSTLY_PASSES}'"));
    }
    if let Some(timeout) = settings.timeout {
        let millis = timeout.as_millis().max(1);
        connection.execute_batch(&format!("SET max_execution_time = {millis}"))?;
    }
    limits::bound(&connection, settings)?;
    crate::functions::register(&connection)?;
    Ok(connection)
}
