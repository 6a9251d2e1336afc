//! Sorting records of a few integers in bounded memory: runs on disk past a size, one merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};

/// Runs that are merged at a time.
const MERGE_RUNS: usize = 64;

/// Collects records of `N` integers and gives them back in ascending order.
pub struct Spill<const N: usize> {
    folder: PathBuf,
    name: &'static str,
    rows: Vec<[i64; N]>,
    /// Records that are kept in memory.
    capacity: usize,
    runs: Vec<PathBuf>,
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
            let rows = std::mem::take(&mut self.rows);
            self.run(rows.iter().copied().map(Ok))?;
            self.rows = rows;
            self.rows.clear();
        }
        self.rows.push(row);
        Ok(())
    }

    fn run(&mut self, rows: impl Iterator<Item = Result<[i64; N]>>) -> Result<()> {
        let path = self.folder.join(format!("{}-{}.run", self.name, self.made));
        self.made += 1;
        let mut file = BufWriter::new(File::create(&path).map_err(|e| io(&path, &e))?);
        for row in rows {
            for value in row? {
                file.write_all(&value.to_le_bytes()).map_err(|e| io(&path, &e))?;
            }
        }
        file.flush().map_err(|e| io(&path, &e))?;
        self.runs.push(path);
        Ok(())
    }

    /// The records in ascending order.
    ///
    /// # Errors
    /// `io` when a run cannot be written or read; then the iterator ends with it.
    pub fn sorted(mut self) -> Result<Sorted<N>> {
        self.rows.sort_unstable();
        while self.runs.len() > MERGE_RUNS {
            let some: Vec<PathBuf> = self.runs.drain(..MERGE_RUNS).collect();
            let merged = Sorted::new(Vec::new(), some)?;
            self.run(merged)?;
        }
        Sorted::new(std::mem::take(&mut self.rows), std::mem::take(&mut self.runs))
    }
}

/// Records in ascending order.
pub struct Sorted<const N: usize> {
    rows: std::vec::IntoIter<[i64; N]>,
    runs: Vec<(PathBuf, BufReader<File>)>,
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
            out.runs.push((path, BufReader::new(file)));
        }
        for source in 0..=out.runs.len() {
            out.refill(source)?;
        }
        Ok(out)
    }

    fn refill(&mut self, source: usize) -> Result<()> {
        let row = match self.runs.get_mut(source) {
            None => self.rows.next(),
            Some((path, file)) => {
                let mut row = [0; N];
                let mut bytes = [0; 8];
                let mut whole = true;
                for value in &mut row {
                    match file.read_exact(&mut bytes) {
                        Ok(()) => *value = i64::from_le_bytes(bytes),
                        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                            whole = false;
                            break;
                        }
                        Err(e) => return Err(io(path, &e)),
                    }
                }
                whole.then_some(row)
            }
        };
        if let Some(row) = row {
            self.next.push(Reverse((row, source)));
        }
        Ok(())
    }
}

impl<const N: usize> Iterator for Sorted<N> {
    type Item = Result<[i64; N]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.runs.is_empty() {
            return self.rows.next().map(Ok);
        }
        let Reverse((row, source)) = self.next.pop()?;
        Some(self.refill(source).map(|()| row))
    }
}

impl<const N: usize> Drop for Sorted<N> {
    fn drop(&mut self) {
        for (path, _) in &self.runs {
            // What stays goes with the workspace.
            let _ = std::fs::remove_file(path);
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
}
