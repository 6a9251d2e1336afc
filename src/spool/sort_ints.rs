//! Sorting records of a few integers in bounded memory: runs on disk past a size, one merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};

/// Runs that are merged at a time.
const MERGE_RUNS: usize = 64;

/// Bytes that are written or read at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// A sorted file of records.
struct Run<const N: usize> {
    path: PathBuf,
    /// The last record, after which more may be appended.
    last: [i64; N],
}

/// Collects records of `N` integers and gives them back in ascending order.
///
/// Records that come nearly sorted, as the events of a file mostly do, make few runs: what follows
/// the end of a run is appended to it.
pub struct Spill<const N: usize> {
    folder: PathBuf,
    name: &'static str,
    rows: Vec<[i64; N]>,
    /// Records that are kept in memory.
    capacity: usize,
    runs: Vec<Run<N>>,
    made: usize,
}

impl<const N: usize> Spill<N> {
    /// Records past so many bytes go into files of `folder` under `name`.
    pub fn new(folder: &Path, name: &'static str, bytes: usize) -> Self {
        let capacity = (bytes / (8 * N)).max(1);
        let folder = folder.to_owned();
        Self { folder, name, rows: Vec::new(), capacity, runs: Vec::new(), made: 0 }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// `io` when a run cannot be written.
    pub fn push(&mut self, row: [i64; N]) -> Result<()> {
        if self.rows.len() == self.capacity {
            self.rows.sort_unstable();
            let mut rows = std::mem::take(&mut self.rows);
            self.append(&rows)?;
            rows.clear();
            self.rows = rows;
        }
        self.rows.push(row);
        Ok(())
    }

    /// Writes sorted records, each at the end of the run that it follows most closely: events of
    /// several threads, or of several tables, each sorted, make a run each.
    fn append(&mut self, rows: &[[i64; N]]) -> Result<()> {
        let mut from = 0;
        while let Some(first) = rows.get(from) {
            let follows = self.runs.iter().enumerate().filter(|(_, run)| run.last <= *first);
            let at = follows.max_by_key(|(_, run)| run.last).map(|(at, _)| at);
            // From there on, others are followed more closely.
            let next = self.runs.iter().map(|run| run.last).filter(|last| last > first).min();
            let length = match next {
                Some(next) => rows[from..].partition_point(|row| *row < next),
                None => rows.len() - from,
            };
            let some = &rows[from..from + length];
            self.write(at, some.iter().copied().map(Ok))?;
            from += length;
        }
        Ok(())
    }

    /// Writes sorted records at the end of a run, or as a new one.
    fn write(
        &mut self,
        at: Option<usize>,
        rows: impl Iterator<Item = Result<[i64; N]>>,
    ) -> Result<()> {
        let at = match at {
            Some(at) => at,
            None => {
                let path = self.folder.join(format!("{}-{}.run", self.name, self.made));
                self.made += 1;
                self.runs.push(Run { path, last: [i64::MIN; N] });
                self.runs.len() - 1
            }
        };
        let run = &mut self.runs[at];
        // Opened each time: a file with many ranks has more lists than a process may have files.
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(&run.path)
            .map_err(|e| io(&run.path, &e))?;
        let mut block = Vec::with_capacity(BLOCK_BYTES + 8 * N);
        let mut write = |block: &mut Vec<u8>| {
            let written = file.write_all(block).map_err(|e| io(&run.path, &e));
            block.clear();
            written
        };
        for row in rows {
            let row = row?;
            run.last = row;
            for value in row {
                block.extend_from_slice(&value.to_le_bytes());
            }
            if block.len() >= BLOCK_BYTES {
                write(&mut block)?;
            }
        }
        write(&mut block)
    }

    /// The records in ascending order.
    ///
    /// # Errors
    /// `io` when a run cannot be written or read; then the iterator ends with it.
    pub fn sorted(mut self) -> Result<Sorted<N>> {
        self.rows.sort_unstable();
        while self.runs.len() > MERGE_RUNS {
            let some: Vec<PathBuf> = self.runs.drain(..MERGE_RUNS).map(|run| run.path).collect();
            let merged = Sorted::new(Vec::new(), some)?;
            self.write(None, merged)?;
        }
        let runs = self.runs.drain(..).map(|run| run.path).collect();
        Sorted::new(std::mem::take(&mut self.rows), runs)
    }
}

/// A run that is read back, a block at a time.
struct Reading {
    path: PathBuf,
    file: File,
    block: Vec<u8>,
    at: usize,
}

impl Reading {
    /// The next record; None at the end.
    fn next<const N: usize>(&mut self) -> Result<Option<[i64; N]>> {
        let bytes = 8 * N;
        if self.block.len() - self.at < bytes {
            self.block.drain(..self.at);
            self.at = 0;
            let have = self.block.len();
            let room = u64::try_from(BLOCK_BYTES).unwrap_or(u64::MAX);
            std::io::Read::by_ref(&mut self.file)
                .take(room)
                .read_to_end(&mut self.block)
                .map_err(|e| io(&self.path, &e))?;
            if self.block.len() == have {
                return Ok(None);
            }
            if self.block.len() < bytes {
                return self.next();
            }
        }
        let mut row = [0; N];
        for (value, bytes) in row.iter_mut().zip(self.block[self.at..].chunks_exact(8)) {
            *value = i64::from_le_bytes(bytes.try_into().expect("a chunk has 8 bytes"));
        }
        self.at += bytes;
        Ok(Some(row))
    }
}

/// Records in ascending order.
pub struct Sorted<const N: usize> {
    rows: std::vec::IntoIter<[i64; N]>,
    runs: Vec<Reading>,
    /// The next record of each source; sources count the runs, then the rows in memory.
    next: BinaryHeap<Reverse<([i64; N], usize)>>,
}

impl<const N: usize> Sorted<N> {
    fn new(rows: Vec<[i64; N]>, runs: Vec<PathBuf>) -> Result<Self> {
        let mut out = Self { rows: rows.into_iter(), runs: Vec::new(), next: BinaryHeap::new() };
        if runs.is_empty() {
            return Ok(out);
        }
        for path in runs {
            let file = File::open(&path).map_err(|e| io(&path, &e))?;
            out.runs.push(Reading { path, file, block: Vec::new(), at: 0 });
        }
        for source in 0..=out.runs.len() {
            let row = next_of(&mut out.runs, &mut out.rows, source)?;
            out.next.extend(row.map(|row| Reverse((row, source))));
        }
        Ok(out)
    }
}

/// The next record of a source.
fn next_of<const N: usize>(
    runs: &mut [Reading],
    rows: &mut std::vec::IntoIter<[i64; N]>,
    source: usize,
) -> Result<Option<[i64; N]>> {
    match runs.get_mut(source) {
        Some(run) => run.next(),
        None => Ok(rows.next()),
    }
}

impl<const N: usize> Iterator for Sorted<N> {
    type Item = Result<[i64; N]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.runs.is_empty() {
            return self.rows.next().map(Ok);
        }
        // The next record of the same source takes the place: while it is still the least, which it
        // mostly is, nothing moves.
        let mut top = self.next.peek_mut()?;
        let Reverse((row, source)) = *top;
        match next_of(&mut self.runs, &mut self.rows, source) {
            Ok(Some(next)) => *top = Reverse((next, source)),
            Ok(None) => _ = PeekMut::pop(top),
            Err(e) => {
                PeekMut::pop(top);
                return Some(Err(e));
            }
        }
        Some(Ok(row))
    }
}

impl<const N: usize> Drop for Sorted<N> {
    fn drop(&mut self) {
        for run in &self.runs {
            // What stays goes with the workspace.
            let _ = std::fs::remove_file(&run.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_on_disk_change_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A plain generator of scattered numbers.
        let numbers: Vec<[i64; 2]> =
            (0..10_000_i64).map(|i| [i * 7919 % 1009 - 500, i * 31 % 17]).collect();
        let mut expected = numbers.clone();
        expected.sort_unstable();
        for capacity in [10, 100, 3333, 100_000] {
            let mut spill = Spill { capacity, ..Spill::new(folder.path(), "test", 0) };
            for row in &numbers {
                spill.push(*row).expect("the folder can be written");
            }
            let sorted: Vec<_> = spill
                .sorted()
                .expect("the runs can be read")
                .map(|row| row.expect("the runs can be read"))
                .collect();
            assert!(sorted == expected, "{capacity} in memory");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn records_that_come_sorted_make_one_run_and_few_threads_few() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut spill = Spill { capacity: 10, ..Spill::new(folder.path(), "test", 0) };
        for i in 0..1000 {
            spill.push([i, -i]).expect("the folder can be written");
        }
        assert_eq!(spill.runs.len(), 1);
        assert_eq!(spill.sorted().expect("it can be read").count(), 1000);
        // Three tables, each sorted, that come in turn.
        let mut spill = Spill { capacity: 30, ..Spill::new(folder.path(), "test", 0) };
        for i in 0..1000 {
            for table in [1, 0, 2] {
                spill.push([table * 10_000 + i, 7]).expect("the folder can be written");
            }
        }
        assert!(spill.runs.len() <= 4, "{} runs", spill.runs.len());
        let rows: Result<Vec<[i64; 2]>> = spill.sorted().expect("it can be read").collect();
        let rows = rows.expect("it can be read");
        assert!(rows.len() == 3000 && rows.is_sorted());
    }
}
