//! The ranks of a trace in parts: each is looked at by itself, so that memory does not grow with
//! them.

use std::collections::BTreeSet;
use std::path::Path;

use duckdb::{Connection, Row};
use serde::{Deserialize, Serialize};

use crate::derive::files::take_over;
use crate::derive::share::ranks_open;
use crate::derive::stages::{COUNTED, Stage};
use crate::derive::visible::show;
use crate::engine::TINY_ROWS;
use crate::error::Result;
use crate::store::files::count_rows;

/// Ranks whose events are looked at together, at most: each has a file of its own, and planning
/// costs as much for one as for all.
const RANKS_AT_A_TIME: usize = 128;
/// Communication events that are looked at together, unless one rank alone has more.
const CALLS_AT_A_TIME: u64 = 50_000;
/// Device events and ranges of the host that are looked at together, likewise.
const ROWS_AT_A_TIME: u64 = 800_000;

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

/// What says which ranks of a trace are looked at together.
#[derive(Debug)]
pub struct Counts {
    /// Its ranks, in their order.
    pub ranks: Vec<RankCount>,
    /// All events, and ranges of the hosts.
    pub rows: u64,
}

/// How much there is to look at of a rank.
#[derive(Debug)]
pub struct RankCount {
    /// The rank.
    pub rank: i64,
    /// Events of communication on its devices.
    pub calls: u64,
    /// Events of its devices, and ranges of its host.
    pub rows: u64,
}

/// Ranks that are looked at together, and the name of their files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub(super) ranks: Vec<i64>,
    pub(super) name: String,
    pub(super) rows: u64,
    /// Whether the trace has few rows.
    pub(super) is_tiny: bool,
    /// Whether the first stage was taken over from an earlier ingest.
    pub(super) is_made: bool,
}

impl Part {
    /// Device events and ranges of the host of its ranks.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether its first stage is to be made.
    pub fn is_open(&self) -> bool {
        !self.is_made
    }

    /// The name of its file of each table.
    pub fn file(&self) -> String {
        format!("{}.parquet", self.name)
    }

    /// Whether it is the same part.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Whether some of its ranks may be among those from one to another.
    pub fn overlaps(&self, (first, last): (i64, i64)) -> bool {
        match self.ranks[..] {
            [from, .., to] | [from @ to] => from <= last && first <= to,
            [] => false,
        }
    }
}

impl Counts {
    /// Those of a trace directory.
    pub(super) fn of(directory: &Path, connection: &Connection) -> Result<Self> {
        show(directory, connection, &BTreeSet::from(COUNTED), None)?;
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
        let count = |row: &Row<'_>| {
            Ok(RankCount { rank: row.get(0)?, calls: row.get(1)?, rows: row.get(2)? })
        };
        let ranks = statement.query_map([], count)?.collect::<duckdb::Result<_>>()?;
        let counted = ["host_events", "device_events", "host_ranges"];
        let rows = count_rows(directory)?;
        Ok(Self { ranks, rows: counted.iter().filter_map(|name| rows.get(*name)).sum() })
    }

    /// Whether the trace has few rows.
    pub(super) fn is_tiny(&self) -> bool {
        self.rows < TINY_ROWS
    }
}

/// The parts of a trace; those of which nothing has changed are taken over.
pub(super) fn list(
    first: &Stage<'_>,
    what: &ToDerive<'_>,
    counts: &Counts,
) -> Result<Option<Vec<Part>>> {
    // What is per rank is made for a few ranks at a time, so that memory does not grow with them,
    // and not at all where none of the few has changed.
    let names: Vec<&str> = first
        .files
        .iter()
        .map(|f| &*f.header.name)
        .chain(["busy_intervals", "host_times"])
        .collect();
    let parts = together(&counts.ranks, RANKS_AT_A_TIME.min(ranks_open()).max(1));
    if parts.is_empty() {
        return Ok(None);
    }
    let part = |(ranks, rows): (Vec<i64>, u64)| {
        let name = format!("part-{}-{}", ranks[0], ranks[ranks.len() - 1]);
        let mut is_made = false;
        if let Some((earlier, changed)) = what.earlier
            && ranks.iter().all(|r| !changed.contains(r))
            && has_part(earlier, first, &name)
        {
            take_over(earlier, what.directory, &names, &name)?;
            is_made = true;
        }
        Ok(Part { ranks, name, rows, is_tiny: counts.is_tiny(), is_made })
    };
    parts.into_iter().map(part).collect::<Result<_>>().map(Some)
}

/// Whether a trace directory has this part of what the first stage makes. Steps on the way that
/// other stages read say so: they have a file even without rows.
fn has_part(directory: &Path, first: &Stage<'_>, part: &str) -> bool {
    let mut steps = first.passed.iter().peekable();
    steps.peek().is_some()
        && steps.all(|name| directory.join(name).join(format!("{part}.parquet")).exists())
}

/// Ranks in parts that are looked at together, with their rows.
fn together(ranks: &[RankCount], most: usize) -> Vec<(Vec<i64>, u64)> {
    let mut parts: Vec<(Vec<i64>, u64)> = Vec::new();
    let mut calls = 0;
    for of in ranks {
        match parts.last_mut() {
            Some((part, rows))
                if part.len() < most
                    && calls + of.calls <= CALLS_AT_A_TIME
                    && *rows + of.rows <= ROWS_AT_A_TIME =>
            {
                calls += of.calls;
                *rows += of.rows;
                part.push(of.rank);
            }
            _ => {
                calls = of.calls;
                parts.push((vec![of.rank], of.rows));
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ranks: &[(u64, u64)], most: usize) -> Vec<(Vec<i64>, u64)> {
        let ranks: Vec<RankCount> = (0..)
            .zip(ranks)
            .map(|(rank, &(calls, rows))| RankCount { rank, calls, rows })
            .collect();
        together(&ranks, most)
    }

    /// Each part is as many ranks as fit: by their number, their calls, and their rows.
    #[test]
    fn ranks_are_looked_at_together_while_they_are_small() {
        let whole = |ranks: &[i64], rows| (ranks.to_vec(), rows);
        assert_eq!(
            parts(&[(1, 10); 5], 2),
            [whole(&[0, 1], 20), whole(&[2, 3], 20), whole(&[4], 10)]
        );
        let third = CALLS_AT_A_TIME / 3;
        assert_eq!(parts(&[(third, 1); 4], 9), [whole(&[0, 1, 2], 3), whole(&[3], 1)]);
        let rows = ROWS_AT_A_TIME / 2;
        assert_eq!(
            parts(&[(1, rows), (1, rows), (1, 1), (1, rows)], 9),
            [whole(&[0, 1], 2 * rows), whole(&[2, 3], rows + 1)]
        );
        // One that is too large is a part of its own.
        assert_eq!(
            parts(&[(1, 1), (CALLS_AT_A_TIME + 1, 2 * rows + 1), (1, 1)], 9),
            [whole(&[0], 1), whole(&[1], 2 * rows + 1), whole(&[2], 1)]
        );
        assert_eq!(parts(&[], 9), []);
    }
}
