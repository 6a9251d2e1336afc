//! The ranks of a timeline, their clocks, and the time of each that is asked for.

use duckdb::Connection;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::export::select::Selection;
use crate::input::time::EPOCH_FROM_NS;

/// The table that every query is joined with: a row for each rank.
pub const TABLE: &str = "\"@timeline\"";

/// A rank, and the part of its time that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Global rank; None for what is of none.
    pub rank: Option<i64>,
    /// What is taken from its times.
    pub shift_ns: i64,
    /// The first and last time that are written, on its own clock.
    pub window: (i64, i64),
}

/// The ranks that are written, and the base of all times.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Ranks, in their order.
    pub ranks: Vec<Rank>,
    /// The first event of the trace, of all its ranks.
    pub base_ns: i64,
    /// Whether the offsets of the clocks are taken away.
    pub align: bool,
    /// What is taken from the times of each rank, of all ranks of the trace.
    shifts: Vec<(i64, i64)>,
}

/// A number in the form of SQL.
fn sql_number(number: Option<i64>) -> String {
    number.map_or("NULL".to_owned(), |n| n.to_string())
}

impl Scope {
    /// The scope of a selection on the trace that `engine` shows; with `align` the offsets of the
    /// clocks are taken away.
    ///
    /// # Errors
    /// `sql`; `nothing-found` where the trace has no events, or none that are asked for.
    pub fn new(engine: &Engine<'_>, selection: &Selection, align: bool) -> Result<Self> {
        let firsts = firsts(engine)?;
        let shifts = shifts(engine, align)?;
        let shift_of = |rank: Option<i64>| rank.map_or(0, |rank| shift_of(&shifts, rank));
        let aligned = firsts.iter().map(|(rank, first)| first.saturating_sub(shift_of(*rank)));
        let base_ns = aligned.min().ok_or_else(|| {
            Error::new("nothing-found", "the trace has no events that a timeline could show")
        })?;
        let steps = selection.steps.as_ref().map(|_| windows(engine, selection)).transpose()?;
        let mut ranks = Vec::new();
        for (rank, _) in firsts.iter().filter(|(rank, _)| selection.has_rank(*rank)) {
            let shift_ns = shift_of(*rank);
            let local = |ns: i64| ns.saturating_add(base_ns).saturating_add(shift_ns);
            let mut window = (
                selection.from_ns.map_or(i64::MIN, local),
                selection.to_ns.map_or(i64::MAX, local),
            );
            if let Some(steps) = &steps {
                let own = steps.iter().find(|(of, _, _)| of == rank);
                let Some((_, first, last)) = own else { continue };
                window = (window.0.max(*first), window.1.min(*last));
            }
            ranks.push(Rank { rank: *rank, shift_ns, window });
        }
        if ranks.is_empty() {
            let error =
                Error::new("nothing-found", "no rank of the trace is among those asked for");
            return Err(match &selection.steps {
                Some(_) => error.hint("`ccl-sql sql \"FROM steps\"` shows the steps of each rank"),
                None => error.hint("`ccl-sql sql \"FROM ranks\"` shows the ranks"),
            });
        }
        let out = Self { ranks, base_ns, align, shifts };
        out.fill(&engine.connection)?;
        Ok(out)
    }

    /// Makes the table that queries are joined with.
    fn fill(&self, connection: &Connection) -> Result<()> {
        let rows: Vec<String> = self
            .ranks
            .iter()
            .map(|r| {
                let (first, last) = r.window;
                format!("({}, {}, {first}, {last})", sql_number(r.rank), r.shift_ns)
            })
            .collect();
        Ok(connection.execute_batch(&format!(
            "CREATE OR REPLACE TEMP TABLE {TABLE} \
                 (rank BIGINT, shift_ns BIGINT, first_ns BIGINT, last_ns BIGINT); \
             INSERT INTO {TABLE} VALUES {}",
            rows.join(", ")
        ))?)
    }

    /// Nanoseconds since 1970 at the base, where the trace has the time of day.
    pub fn epoch_ns(&self) -> Option<u64> {
        u64::try_from(self.base_ns).ok().filter(|_| self.base_ns >= EPOCH_FROM_NS)
    }

    /// What is taken from the times of a rank.
    pub fn shift_ns(&self, rank: i64) -> i64 {
        shift_of(&self.shifts, rank)
    }

    /// A time of the timeline, of one on the clocks as they are compared.
    pub fn time(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_sub(self.base_ns)).unwrap_or(0)
    }
}

fn shift_of(shifts: &[(i64, i64)], rank: i64) -> i64 {
    // In the order of ranks.
    shifts.binary_search_by_key(&rank, |(of, _)| *of).map_or(0, |at| shifts[at].1)
}

/// The clause that joins rows `r` with their ranks, and keeps those that lie in the time asked for.
pub fn within() -> String {
    format!(
        "INNER JOIN {TABLE} AS o ON r.rank IS NOT DISTINCT FROM o.rank \
         WHERE r.ts_ns < o.last_ns \
             AND (r.ts_ns >= o.first_ns OR r.ts_ns + coalesce(r.dur_ns, 0) > o.first_ns)"
    )
}

impl Rank {
    /// `rank = 3`.
    pub fn condition(&self) -> String {
        self.rank.map_or("rank IS NULL".to_owned(), |rank| format!("rank = {rank}"))
    }

    /// The clause that keeps the rows `r` of this rank that lie in the time asked for. It is no
    /// join: DuckDB hashes the rows then, which all have one key. Samples have no `dur`.
    pub fn within(&self, dur: Option<&str>) -> String {
        let (first, last) = self.window;
        let mut out = format!("WHERE r.{}", self.condition());
        if last < i64::MAX {
            out.push_str(&format!(" AND r.ts_ns < {last}"));
        }
        if first > i64::MIN {
            let lasts = dur.map_or(String::new(), |dur| {
                format!(" OR r.ts_ns + coalesce(r.{dur}, 0) > {first}")
            });
            out.push_str(&format!(" AND (r.ts_ns >= {first}{lasts})"));
        }
        out
    }
}

/// The first event of each rank.
fn firsts(engine: &Engine<'_>) -> Result<Vec<(Option<i64>, i64)>> {
    for table in ["device_events", "host_events", "counters"] {
        engine.make(table)?;
    }
    rows(
        engine,
        "SELECT rank, min(ts_ns) FROM (
             SELECT rank, ts_ns FROM device_events UNION ALL
             SELECT rank, ts_ns FROM host_events UNION ALL
             SELECT rank, ts_ns FROM counters)
         WHERE ts_ns IS NOT NULL GROUP BY rank ORDER BY rank NULLS LAST",
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// What is taken from the times of each rank.
fn shifts(engine: &Engine<'_>, align: bool) -> Result<Vec<(i64, i64)>> {
    engine.make("_clock_shifts")?;
    let sql = format!(
        "SELECT rank, shift_ns FROM _clock_shifts \
         WHERE aligned = {align} AND rank IS NOT NULL ORDER BY rank"
    );
    rows(engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The time of the steps of each rank: from the start of the first to the start of what follows the
/// last, or the end of that.
fn windows(engine: &Engine<'_>, selection: &Selection) -> Result<Vec<(Option<i64>, i64, i64)>> {
    engine.make("steps")?;
    let Some(steps) = &selection.steps else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT rank, min(ts_ns), max(coalesce(next_ns, ts_ns + dur_ns)) FROM (
             SELECT *, lead(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns, step) AS next_ns FROM steps)
         WHERE step BETWEEN {} AND {} GROUP BY rank",
        steps.start(),
        steps.end()
    );
    rows(engine, &sql, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// The rows of a query.
///
/// # Errors
/// `sql`.
pub fn rows<T>(
    engine: &Engine<'_>,
    sql: &str,
    row: impl FnMut(&duckdb::Row<'_>) -> duckdb::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = engine.connection.prepare(sql)?;
    Ok(statement.query_map([], row)?.collect::<duckdb::Result<_>>()?)
}
