//! Sorting the rows of one file in bounded memory: sorted runs on disk, then one merge.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{self, AtomicUsize};

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;

use crate::error::{Result, io};

/// Bytes of rows that are sorted in memory, unless the caller says otherwise.
const RUN_BYTES: usize = 24 << 20;
/// Rows of a sorted batch.
const BATCH_ROWS: usize = 8192;
/// Rows of a batch of a run on disk: each run of a merge holds one in memory.
const RUN_BATCH_ROWS: usize = 1024;
/// Runs that are merged at a time.
const MERGE_RUNS: usize = 64;

/// Collects batches of one schema and gives their rows back sorted.
pub struct Sorter {
    folder: PathBuf,
    number: usize,
    schema: SchemaRef,
    keys: Vec<usize>,
    batches: Vec<RecordBatch>,
    bytes: usize,
    run_bytes: usize,
    runs: Vec<PathBuf>,
    made: usize,
}

/// Numbers the sorters, so that several may share a folder.
static SORTERS: AtomicUsize = AtomicUsize::new(0);

/// Takes sorted batches.
pub type Take<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<()>;

impl Sorter {
    /// For batches of this schema, sorted by the columns `keys`; runs go into `folder`.
    ///
    /// # Panics
    /// When the schema lacks a key.
    pub fn new(folder: &Path, schema: SchemaRef, keys: &[&str]) -> Self {
        let number = SORTERS.fetch_add(1, atomic::Ordering::Relaxed);
        let keys =
            keys.iter().map(|key| schema.index_of(key).expect("the schema has the keys")).collect();
        Self {
            folder: folder.to_owned(),
            number,
            schema,
            keys,
            batches: Vec::new(),
            bytes: 0,
            run_bytes: RUN_BYTES,
            runs: Vec::new(),
            made: 0,
        }
    }

    /// With so many bytes of rows in memory.
    #[must_use]
    pub fn with_run_bytes(self, run_bytes: usize) -> Self {
        Self { run_bytes, ..self }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether it holds no rows.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.runs.is_empty()
    }

    /// Takes rows.
    ///
    /// # Errors
    /// `io` when a run cannot be written.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        if self.bytes < self.run_bytes {
            return Ok(());
        }
        let (path, mut writer) = self.run()?;
        self.in_memory(RUN_BATCH_ROWS, &mut |batch| Ok(writer.write(&batch)?))?;
        writer.finish()?;
        self.runs.push(path);
        Ok(())
    }

    /// Gives every row to `take`, sorted.
    ///
    /// # Errors
    /// `io` when a run cannot be read back; what `take` returns.
    pub fn finish(mut self, take: Take<'_>) -> Result<()> {
        if self.runs.is_empty() {
            return self.in_memory(BATCH_ROWS, take);
        }
        if !self.batches.is_empty() {
            let (path, mut writer) = self.run()?;
            self.in_memory(RUN_BATCH_ROWS, &mut |batch| Ok(writer.write(&batch)?))?;
            writer.finish()?;
            self.runs.push(path);
        }
        while self.runs.len() > MERGE_RUNS {
            let some: Vec<PathBuf> = self.runs.drain(..MERGE_RUNS).collect();
            let (path, mut writer) = self.run()?;
            self.merge(&some, RUN_BATCH_ROWS, &mut |batch| Ok(writer.write(&batch)?))?;
            writer.finish()?;
            self.runs.push(path);
        }
        let all = std::mem::take(&mut self.runs);
        self.merge(&all, BATCH_ROWS, take)
    }

    fn run(&mut self) -> Result<(PathBuf, StreamWriter<BufWriter<File>>)> {
        let path = self.folder.join(format!("run-{}-{}.arrow", self.number, self.made));
        self.made += 1;
        let file = File::create(&path).map_err(|e| io(&path, &e))?;
        let writer = StreamWriter::try_new_buffered(file, &self.schema)?;
        Ok((path, writer))
    }

    fn converter(&self) -> Result<RowConverter> {
        let fields = self
            .keys
            .iter()
            .map(|key| SortField::new(self.schema.field(*key).data_type().clone()))
            .collect();
        Ok(RowConverter::new(fields)?)
    }

    fn key_rows(&self, converter: &RowConverter, batch: &RecordBatch) -> Result<Rows> {
        let columns: Vec<_> = self.keys.iter().map(|key| batch.column(*key).clone()).collect();
        Ok(converter.convert_columns(&columns)?)
    }

    /// Sorts what is in memory.
    fn in_memory(&mut self, batch_rows: usize, take: Take<'_>) -> Result<()> {
        let batches = std::mem::take(&mut self.batches);
        self.bytes = 0;
        let converter = self.converter()?;
        let mut keys = Vec::with_capacity(batches.len());
        for batch in &batches {
            keys.push(self.key_rows(&converter, batch)?);
        }
        let mut order: Vec<(usize, usize)> = batches
            .iter()
            .enumerate()
            .flat_map(|(b, batch)| (0..batch.num_rows()).map(move |row| (b, row)))
            .collect();
        order.sort_unstable_by(|a, b| keys[a.0].row(a.1).cmp(&keys[b.0].row(b.1)));
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        for some in order.chunks(batch_rows) {
            take(interleave_record_batch(&batches, some)?)?;
        }
        Ok(())
    }

    /// Merges sorted runs and removes them.
    fn merge(&self, runs: &[PathBuf], batch_rows: usize, take: Take<'_>) -> Result<()> {
        let converter = self.converter()?;
        let mut heads = Vec::with_capacity(runs.len());
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (i, path) in runs.iter().enumerate() {
            let file = File::open(path).map_err(|e| io(path, &e))?;
            let mut reader = StreamReader::try_new(BufReader::new(file), None)?;
            // A run has rows, so it has a first batch.
            let Some(batch) = reader.next().transpose()? else { continue };
            let keys = self.key_rows(&converter, &batch)?;
            heap.push(Next { key: keys.row(0).data().to_vec(), head: heads.len() });
            heads.push(Head { reader, batch, keys, at: 0 });
            debug_assert_eq!(heads.len(), i + 1);
        }
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(batch_rows);
        let give = |heads: &[Head], order: &mut Vec<(usize, usize)>, take: Take<'_>| {
            let batches: Vec<&RecordBatch> = heads.iter().map(|h| &h.batch).collect();
            let batch = interleave_record_batch(&batches, order)?;
            order.clear();
            take(batch)
        };
        while let Some(next) = heap.pop() {
            let head = &mut heads[next.head];
            order.push((next.head, head.at));
            head.at += 1;
            if head.at == head.batch.num_rows() {
                // The rows in `order` point into this batch: they go out before it does.
                give(&heads, &mut order, take)?;
                let head = &mut heads[next.head];
                match head.reader.next().transpose()? {
                    None => continue,
                    Some(batch) => {
                        head.keys = self.key_rows(&converter, &batch)?;
                        head.batch = batch;
                        head.at = 0;
                    }
                }
            } else if order.len() == batch_rows {
                give(&heads, &mut order, take)?;
            }
            let head = &heads[next.head];
            heap.push(Next { key: head.keys.row(head.at).data().to_vec(), head: next.head });
        }
        if !order.is_empty() {
            give(&heads, &mut order, take)?;
        }
        for path in runs {
            std::fs::remove_file(path).map_err(|e| io(path, &e))?;
        }
        Ok(())
    }
}

/// A run that is being merged.
struct Head {
    reader: StreamReader<BufReader<File>>,
    batch: RecordBatch,
    keys: Rows,
    at: usize,
}

/// The next row of a run; the heap gives the smallest first.
#[derive(PartialEq, Eq)]
struct Next {
    key: Vec<u8>,
    head: usize,
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.key, other.head).cmp(&(&self.key, self.head))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    /// Rows of scattered keys, some NULL, each with its number.
    fn batch(from: i64, rows: i64) -> RecordBatch {
        let column = |of: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
            Arc::new((from..from + rows).map(of).collect::<Int64Array>())
        };
        let key = column(&|i| (i % 13 > 0).then_some(i * 7919 % 1009));
        let columns = [("number", column(&Some), true), ("key", key, true)];
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }

    /// Keys and numbers as they come back, and the rows of each batch.
    fn sorted(batches: &[RecordBatch], run_bytes: usize) -> (Vec<(Option<i64>, i64)>, Vec<usize>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sorter = Sorter::new(folder.path(), batch(0, 0).schema(), &["key", "number"]);
        let mut sorter = sorter.with_run_bytes(run_bytes);
        assert!(sorter.is_empty());
        for batch in batches {
            sorter.push(batch.clone()).expect("the folder can be written");
            assert!(!sorter.is_empty());
        }
        let (mut out, mut sizes) = (Vec::new(), Vec::new());
        let mut take = |batch: RecordBatch| {
            let of = |at: usize| batch.column(at).as_primitive::<Int64Type>();
            let key = |row: usize| of(1).is_valid(row).then(|| of(1).value(row));
            out.extend((0..batch.num_rows()).map(|row| (key(row), of(0).value(row))));
            sizes.push(batch.num_rows());
            Ok(())
        };
        sorter.finish(&mut take).expect("the runs can be read");
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
        (out, sizes)
    }

    #[test]
    fn runs_on_disk_change_nothing() {
        // More runs than are merged at a time; two of them of several batches.
        let mut batches = vec![batch(0, 2500), batch(2500, 2 * RUN_BATCH_ROWS as i64)];
        let mut from = 2500 + 2 * RUN_BATCH_ROWS as i64;
        for rows in (0..2 * MERGE_RUNS as i64 + 5).map(|i| 50 + i) {
            batches.push(batch(from, rows));
            from += rows;
        }
        let key = |i: i64| (i % 13 > 0).then_some(i * 7919 % 1009);
        let mut expected: Vec<(Option<i64>, i64)> = (0..from).map(|i| (key(i), i)).collect();
        expected.sort_unstable();
        for run_bytes in [1, 10_000, usize::MAX] {
            let (found, sizes) = sorted(&batches, run_bytes);
            assert!(found == expected, "{run_bytes} bytes in memory");
            assert!(sizes.iter().all(|rows| (1..=BATCH_ROWS).contains(rows)), "{sizes:?}");
        }
        let (_, sizes) = sorted(&batches, usize::MAX);
        assert_eq!(sizes[0], BATCH_ROWS);
        assert_eq!(sorted(&[], 1).0, []);
    }
}
