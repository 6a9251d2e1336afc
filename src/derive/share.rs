//! What the connections that derive may take: threads and memory, and how many parts are made
//! side by side.

use std::num::NonZero;
use std::path::Path;

use duckdb::Connection;

use crate::engine::{Settings, connect};
use crate::error::Result;
use crate::sql_text::sql_string;

/// Megabytes of all that sorts and joins, unless the user says otherwise, or there are many cores.
const MEMORY_MB: usize = 144;
/// Megabytes that a part has at least where parts are made side by side.
const PART_MB: usize = 100;

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
}

impl Limits<'_> {
    /// A DuckDB connection for sorting and joining: bounded memory, spilling into the workspace.
    pub(super) fn connection(&self, share: Share, work: &Path) -> Result<Connection> {
        let memory_limit = match (share.memory_mb, self.memory_limit) {
            (Some(megabytes), _) => format!("{megabytes}MB"),
            (None, "") => format!("{}MB", self.default_mb()),
            (None, given) => given.to_owned(),
        };
        let settings = Settings { threads: share.threads, memory_limit, ..Settings::default() };
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
            threads => threads.saturating_mul(PART_MB),
        }
    }

    /// How many parts are made side by side, and what each may take. Two parts on a thread each
    /// take a third less work than one on two threads and then the other.
    pub(super) fn shares(&self, connection: &Connection, parts: usize) -> Result<(usize, Share)> {
        let threads = self.all_threads();
        let memory_mb = memory_mb(connection)?;
        let side_by_side = parts.min(threads).min(memory_mb / PART_MB).max(1);
        let share = Share {
            threads: threads / side_by_side,
            memory_mb: (side_by_side > 1).then_some(memory_mb / side_by_side),
        };
        Ok((side_by_side, share))
    }
}

/// Megabytes that a connection may take.
pub(super) fn memory_mb(connection: &Connection) -> Result<usize> {
    let limit: String =
        connection.query_row("SELECT current_setting('memory_limit')", [], |row| row.get(0))?;
    Ok(megabytes(&limit).unwrap_or(MEMORY_MB))
}

/// Megabytes of a size as DuckDB writes it, whatever was given: `152.5 MiB`.
fn megabytes(size: &str) -> Option<usize> {
    let (number, unit) = size.split_once(' ')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let tenths =
        whole.parse::<usize>().ok()?.checked_mul(10)? + fraction.get(..1)?.parse::<usize>().ok()?;
    // In tenths of so many bytes.
    let bytes: usize = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    // Rounded: 160 MB are 152.5 MiB.
    Some(tenths.checked_mul(bytes)?.checked_add(5_000_000)? / 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::megabytes;

    #[test]
    fn sizes_are_read_as_duckdb_writes_them() {
        let sizes = ["152.5 MiB", "1.0 GiB", "18.8 GiB", "512 bytes", "many MiB"];
        assert_eq!(sizes.map(megabytes), [Some(160), Some(1074), Some(20186), None, None]);
    }
}
