//! `host_times`: how long operators run on the host of each rank, by step, and how much of it no
//! device works beside. Source: metrics 2.A, `cpu_overhead_s`.

use std::collections::BTreeMap;
use std::path::Path;

use duckdb::Connection;

use crate::derive::busy::{SORT_BYTES, int_at, ints, texts};
use crate::error::Result;
use crate::functions::interval::Interval;
use crate::spool::parquet::TableWriter;
use crate::spool::sort_ints::Spill;

/// Time of spans in each step, and in all. Spans that are added to one account may overlap only
/// where they are to be counted twice.
#[derive(Debug, Default)]
struct Account {
    /// Between a bound of steps and the next one.
    between: Vec<i128>,
    all: i128,
}

impl Account {
    /// Adds a span. The work is that of the bounds inside it.
    fn add(&mut self, bounds: &[i64], (start, end): Interval) {
        if start >= end {
            return;
        }
        self.all += i128::from(end) - i128::from(start);
        self.between.resize(bounds.len().saturating_sub(1), 0);
        let mut next = bounds.partition_point(|bound| *bound <= start).max(1);
        let mut at = start.max(bounds.first().copied().unwrap_or(end));
        while at < end && next < bounds.len() {
            let until = end.min(bounds[next]);
            self.between[next - 1] += i128::from(until) - i128::from(at);
            at = until;
            next += 1;
        }
    }

    /// Time before each bound.
    fn before(&self, bounds: usize) -> Vec<i128> {
        let mut sum = 0;
        let mut before = vec![0];
        for between in &self.between {
            sum += between;
            before.push(sum);
        }
        before.resize(bounds.max(1), sum);
        before
    }
}

/// A source and rank with operators.
#[derive(Debug)]
struct RankTimes {
    source: String,
    rank: Option<i64>,
    /// Process and thread of its main thread.
    main: [Option<i64>; 2],
    /// Number, start and end of its steps.
    steps: Vec<(i64, i64, i64)>,
    /// Starts and ends of its steps, ascending.
    bounds: Vec<i64>,
    has_operators: bool,
    operators: Account,
    main_operators: Account,
    /// Where the main thread runs operators or a device is busy.
    either: Account,
    busy: Account,
}

/// Makes `host_times` of a few ranks.
pub(crate) struct HostTimes<'a> {
    work: &'a Path,
    ranks: Vec<RankTimes>,
    /// The rank that was looked for last: rows of a rank mostly follow each other.
    last: usize,
    /// Spans of main threads and of devices: place of the rank, start, end, whether of a device.
    spans: Spill<4>,
}

impl<'a> HostTimes<'a> {
    /// Knows the ranks of `_threads`, and their steps.
    ///
    /// # Errors
    /// `sql`.
    pub(crate) fn new(connection: &Connection, work: &'a Path) -> Result<Self> {
        let mut threads = connection.prepare(
            "SELECT source, rank, pid, tid FROM _threads WHERE is_main ORDER BY source, rank",
        )?;
        let rank = |row: &duckdb::Row<'_>| {
            Ok(RankTimes {
                source: row.get(0)?,
                rank: row.get(1)?,
                main: [row.get(2)?, row.get(3)?],
                steps: Vec::new(),
                bounds: Vec::new(),
                has_operators: false,
                operators: Account::default(),
                main_operators: Account::default(),
                either: Account::default(),
                busy: Account::default(),
            })
        };
        let ranks = threads.query_map([], rank)?.collect::<duckdb::Result<_>>()?;
        let spans = Spill::new(work, "host", SORT_BYTES);
        let mut times = Self { work, ranks, last: 0, spans };
        let mut steps =
            connection.prepare("SELECT source, rank, step, ts_ns, dur_ns FROM steps")?;
        let mut rows = steps.query([])?;
        while let Some(row) = rows.next()? {
            let source: String = row.get(0)?;
            let Some(place) = times.place(&source, row.get(1)?) else { continue };
            let (step, start, length): (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
            let of = &mut times.ranks[place];
            let end = start.saturating_add(length.max(0));
            of.steps.push((step, start, end));
            of.bounds.extend([start, end]);
        }
        for of in &mut times.ranks {
            of.bounds.sort_unstable();
            of.bounds.dedup();
        }
        Ok(times)
    }

    fn place(&mut self, source: &str, rank: Option<i64>) -> Option<usize> {
        let is_it = |of: &RankTimes| of.rank == rank && of.source == source;
        if !self.ranks.get(self.last).is_some_and(is_it) {
            self.last = self.ranks.iter().position(is_it)?;
        }
        Some(self.last)
    }

    fn push(&mut self, place: usize, (start, end): Interval, is_device: bool) -> Result<()> {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        self.spans.push([place, start, end, i64::from(is_device)])
    }

    /// Takes a span in which a device of a rank is busy.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn busy(&mut self, source: &str, rank: Option<i64>, span: Interval) -> Result<()> {
        match self.place(source, rank) {
            Some(place) => self.push(place, span, true),
            None => Ok(()),
        }
    }

    /// Reads the operators, and writes the table.
    ///
    /// # Errors
    /// `sql` or `io`.
    pub(crate) fn finish(
        mut self,
        connection: &Connection,
        writer: &mut TableWriter,
    ) -> Result<()> {
        self.read_operators(connection)?;
        let spans = std::mem::replace(&mut self.spans, Spill::new(self.work, "none", 0));
        // Until when the main thread or a device works, and until when a device does.
        let mut reach = (i64::MIN, i64::MIN);
        let mut current = None;
        for row in spans.sorted()? {
            let [place, start, end, is_device] = row?;
            if current != Some(place) {
                (current, reach) = (Some(place), (i64::MIN, i64::MIN));
            }
            let of = &mut self.ranks[usize::try_from(place).unwrap_or_default()];
            of.either.add(&of.bounds, (start.max(reach.0), end));
            reach.0 = reach.0.max(end);
            if is_device == 1 {
                of.busy.add(&of.bounds, (start.max(reach.1), end));
                reach.1 = reach.1.max(end);
            }
        }
        for of in self.ranks.iter().filter(|of| of.has_operators) {
            of.write(writer)?;
        }
        Ok(())
    }

    /// Operators that no other encloses: of a thread, each lasts longer than all before it.
    fn read_operators(&mut self, connection: &Connection) -> Result<()> {
        let mut threads: Vec<(usize, [Option<i64>; 2])> = Vec::new();
        let mut places = BTreeMap::new();
        let mut sorted = Spill::new(self.work, "operators", SORT_BYTES);
        let mut statement = connection.prepare(
            "SELECT source, rank, pid, tid, ts_ns, ts_ns + dur_ns AS end_ns
             FROM host_ranges
             WHERE kind = 'operator'",
        )?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let source = texts(&batch, "source");
            let [rank, pid, tid] = ["rank", "pid", "tid"].map(|name| ints(&batch, name));
            let (start, end) = (ints(&batch, "ts_ns"), ints(&batch, "end_ns"));
            for row in 0..batch.num_rows() {
                let ids = [int_at(pid, row), int_at(tid, row)];
                let Some(place) = self.place(source.value(row), int_at(rank, row)) else {
                    continue;
                };
                let thread = *places.entry((place, ids)).or_insert_with(|| {
                    threads.push((place, ids));
                    threads.len() - 1
                });
                let thread = i64::try_from(thread).unwrap_or(i64::MAX);
                sorted.push([thread, start.value(row), end.value(row)])?;
            }
        }
        let (mut current, mut reach) = (None, i64::MIN);
        for row in sorted.sorted()? {
            let [thread, start, end] = row?;
            if current != Some(thread) {
                (current, reach) = (Some(thread), i64::MIN);
            }
            let (place, ids) = threads[usize::try_from(thread).unwrap_or_default()];
            let span = (start.max(reach), end);
            reach = reach.max(end);
            let of = &mut self.ranks[place];
            of.has_operators = true;
            of.operators.add(&of.bounds, span);
            if of.main == ids {
                of.main_operators.add(&of.bounds, span);
                self.push(place, span, false)?;
            }
        }
        Ok(())
    }
}

impl RankTimes {
    /// Writes its rows: one for each step, or without steps one for all.
    fn write(&self, writer: &mut TableWriter) -> Result<()> {
        let accounts = [&self.main_operators, &self.either, &self.busy, &self.operators];
        let mut times: BTreeMap<Option<i64>, [i128; 4]> = BTreeMap::new();
        if self.steps.is_empty() {
            times.insert(None, accounts.map(|account| account.all));
        }
        let before = accounts.map(|account| account.before(self.bounds.len()));
        let at = |bound: i64| self.bounds.partition_point(|b| *b < bound);
        for &(step, start, end) in &self.steps {
            let sums = times.entry(Some(step)).or_default();
            for (sum, before) in sums.iter_mut().zip(&before) {
                *sum += before[at(end)] - before[at(start)];
            }
        }
        for (step, [main, either, busy, all]) in times {
            let row = writer.row();
            row.text(Some(&self.source)).int(self.rank).int(step);
            for sum in [main, either - busy, all] {
                row.int(Some(i64::try_from(sum).unwrap_or_default()));
            }
            writer.end_row()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_of_the_steps_that_it_falls_in() {
        let bounds = [0, 10, 20, 30];
        let mut account = Account::default();
        // Before the first step and into it; over three; in none; backwards.
        for span in [(-5, 3), (5, 25), (30, 40), (9, 9), (9, 1)] {
            account.add(&bounds, span);
        }
        assert_eq!(account.before(bounds.len()), [0, 8, 18, 23]);
        assert_eq!(account.all, 38);
        let mut extreme = Account::default();
        extreme.add(&[], (i64::MIN, i64::MAX));
        assert_eq!(extreme.all, i128::from(u64::MAX));
        assert_eq!(extreme.before(0), [0]);
    }
}
