//! What queries of strangers may take: those of a user's folder of SQL, of a sandbox and of agents.

use std::time::Duration;

use duckdb::Connection;

use crate::engine::Settings;
use crate::error::Result;
use crate::registry::Registry;

/// Longest that a statement may take where files of a user's folder are among those that run.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Memory for sorting and joining where nobody says how much, in MB.
const MEMORY_MB: usize = 4000;
/// The same of questions whose queries put the rest on the disk, at least, and of each thread.
const MODEST_MB: usize = 2000;
const MODEST_THREAD_MB: usize = 500;
/// What the process takes beside it at most, in MB: values of functions, results, threads.
const BESIDE_MB: usize = 2000;

impl Settings {
    /// The limits for files of a registry: those of a user's folder are a stranger's. A time of 0
    /// is no limit.
    #[must_use]
    pub fn for_files(self, registry: &Registry) -> Self {
        let of_user = registry.files().any(|file| file.of_user);
        let timeout = self.timeout.or(of_user.then_some(TIMEOUT)).filter(|time| !time.is_zero());
        Self { timeout, strange: self.strange || of_user, ..self }
    }
}

/// Bounds what statements of a stranger, and those of modest questions, may take of the memory.
/// DuckDB does not count the values that a function makes: those of a stranger end at a limit of
/// the process, where that is the program's own.
///
/// # Errors
/// `sql` when DuckDB does not say what it may take.
pub fn bound(connection: &Connection, settings: &Settings) -> Result<()> {
    let by_default = |most: usize| -> Result<usize> {
        let own = memory_mb(connection)?.unwrap_or(most);
        if !settings.memory_limit.is_empty() || own <= most {
            return Ok(own);
        }
        connection.execute_batch(&format!("SET memory_limit = '{most}MB'"))?;
        Ok(most)
    };
    if settings.modest && !settings.strange {
        let setting = "SELECT current_setting('threads')";
        let threads: usize = connection.query_row(setting, [], |row| row.get(0))?;
        by_default(threads.saturating_mul(MODEST_THREAD_MB).max(MODEST_MB))?;
    }
    if !settings.strange {
        return Ok(());
    }
    let most = by_default(MEMORY_MB)?;
    if settings.own_process {
        bound_process(most.saturating_add(most / 8).saturating_add(BESIDE_MB));
    }
    Ok(())
}

/// Lowers what the process may take, for good.
#[cfg(target_os = "linux")]
fn bound_process(megabytes: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let most = u64::try_from(megabytes).unwrap_or(u64::MAX).saturating_mul(1_000_000);
    let mut limit = getrlimit(Resource::Data);
    if limit.current.is_none_or(|now| most < now) {
        limit.current = Some(limit.maximum.map_or(most, |hard| hard.min(most)));
        // Without it DuckDB's own limit holds still.
        let _ = setrlimit(Resource::Data, limit);
    }
}

/// Other systems have no such limit.
#[cfg(not(target_os = "linux"))]
fn bound_process(_: usize) {}

/// Megabytes that a connection may take.
///
/// # Errors
/// `sql`.
pub fn memory_mb(connection: &Connection) -> Result<Option<usize>> {
    let limit: String =
        connection.query_row("SELECT current_setting('memory_limit')", [], |row| row.get(0))?;
    Ok(megabytes(&limit))
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
        // 1.2 TiB are 1,319,413.95 MB, 976.5 KiB are 0.99994, and 488.2 KiB are 0.4999.
        let sizes = ["1.2 TiB", "976.5 KiB", "488.2 KiB", "3 MiB", "3.x MiB", "3"];
        let expected = [Some(1_319_414), Some(1), Some(0), Some(3), None, None];
        assert_eq!(sizes.map(megabytes), expected);
    }
}
