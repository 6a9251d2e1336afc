//! The spool files of one rank in one file: rows as a reader gives them, without the columns that
//! only the whole job knows. Every reader writes its tables through here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use crate::error::Result;
use crate::pool::Pool;
use crate::schema::table;
use crate::spool::events::{HostRangeRow, LaunchRow};
use crate::spool::launches::{Found, HostRange, Launch, Launches, Parts, some};
use crate::spool::parquet::{BATCH_ROWS, Effort, Sink, Stay};
use crate::spool::rows::{Rows, schema_without};
use crate::spool::sort_rows::Sorter;
use crate::spool::splice::{Lacks, Splicer, each_batch};
use crate::spool::steps::{Candidate, StepPatterns, StepRanges};
use crate::spool::tables::{
    Batches, COMM_ARGS, DEVICE, HOST, HOST_RANGES, LAUNCHES, STEP_RANGES, TABLES, rows_of,
};

/// How much a spool keeps in memory before it goes to disk.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Bytes of device events that are sorted in memory.
    pub sort_bytes: usize,
    /// Bytes of each list of integers.
    pub spill_bytes: usize,
    /// Bytes of each file that is being written.
    pub file: Effort,
}

/// The budget of a file that holds one rank.
pub const ONE_RANK: Budget =
    Budget { sort_bytes: 24 << 20, spill_bytes: 8 << 20, file: Effort::Usual };
/// The budget of each rank of a file that may hold many.
pub const MANY_RANKS: Budget =
    Budget { sort_bytes: 2 << 20, spill_bytes: 512 << 10, file: Effort::Small };
/// The budget of each rank of a file that holds more ranks than a machine has devices.
pub const CROWD: Budget =
    Budget { sort_bytes: 1 << 20, spill_bytes: 128 << 10, file: Effort::None };

/// Device events of one class that come in the order of their starts: written as they come, without
/// the way over a sort.
struct Class {
    path: PathBuf,
    sink: Arc<Sink>,
    /// Start of the last one.
    last: i64,
}

/// The spool of one rank in one file.
pub struct Spool {
    /// The files of each table; device events go through `device`.
    sinks: [Arc<Sink>; TABLES.len()],
    effort: Effort,
    device: Sorter,
    /// Device events that came sorted, by class.
    classes: BTreeMap<&'static str, Class>,
    launches: Launches,
    steps: StepRanges,
    folder: PathBuf,
    pool: Arc<Pool>,
    first_event_id: i64,
}

impl Spool {
    /// Writes into `folder`; event ids count from those of the source.
    pub fn new(folder: &Path, source_id: i64, pool: Arc<Pool>, budget: Budget) -> Self {
        let schema = |(name, without): (&str, &[&str])| {
            schema_without(table(name).expect("the table is in the schema"), without)
        };
        let file = |name: &str| folder.join(format!("{name}.parquet"));
        let device = Sorter::new(folder, schema(TABLES[DEVICE]), &["class", "ts_ns", "event_id"]);
        Self {
            sinks: std::array::from_fn(|table| {
                // Host events stay as they are written here.
                let stay = if table == HOST { Stay::Kept } else { Stay::OnTheWay };
                let of = TABLES[table];
                Sink::new(file(of.0), schema(of), budget.file, stay)
            }),
            effort: budget.file,
            device: device.with_run_bytes(budget.sort_bytes),
            classes: BTreeMap::new(),
            launches: Launches::new(folder, budget.spill_bytes),
            steps: StepRanges::new(folder, budget.spill_bytes),
            folder: folder.to_owned(),
            pool,
            first_event_id: source_id << 40,
        }
    }

    /// The id of the event at this place of the file.
    pub fn event_id(&self, place: u64) -> i64 {
        self.first_event_id + place as i64
    }

    /// Takes what may launch, and what may be a step, of a run whose events count from `from`.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn note(&mut self, parts: Parts, steps: &[Candidate], from: u64) -> Result<()> {
        let first = self.event_id(from);
        self.steps.add(steps, first)?;
        self.launches.add(parts, first)
    }

    /// Writes rows whose events count from `from`.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn write(&mut self, batches: Batches, from: u64) -> Result<()> {
        let mut all = batches.into_iter().enumerate();
        all.try_for_each(|(table, batch)| self.write_table(table, batch, from))
    }

    /// Writes rows of one table whose events count from `from`.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn write_table(&mut self, table: usize, batch: RecordBatch, from: u64) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let first = self.event_id(from);
        match table {
            HOST | COMM_ARGS => self.sinks[table].push(&self.pool, renumbered(&batch, first)?),
            DEVICE => self.device.push(renumbered(&batch, first)?)?,
            _ => self.sinks[table].push(&self.pool, batch),
        }
        Ok(())
    }

    /// Writes device events of one class whose events count from `from`. Those that do not follow
    /// the ones before are sorted in when the spool is closed.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn write_class(
        &mut self,
        class: &'static str,
        batch: &RecordBatch,
        from: u64,
    ) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = renumbered(batch, self.event_id(from))?;
        let at = batch.schema().index_of("ts_ns")?;
        let times = batch.column(at).as_primitive::<Int64Type>().values();
        let (folder, schema, effort) = (&self.folder, batch.schema(), self.effort);
        let of = self.classes.entry(class).or_insert_with(|| {
            let path = folder.join(format!("device-{class}.parquet"));
            Class {
                sink: Sink::new(path.clone(), schema, effort, Stay::OnTheWay),
                path,
                last: i64::MIN,
            }
        });
        if effort == Effort::None || times[0] < of.last || !times.is_sorted() {
            return self.device.push(batch);
        }
        of.last = times[times.len() - 1];
        of.sink.push(&self.pool, batch);
        Ok(())
    }

    /// Finds and writes the launches and the ranges of the host. `each` is told of every launch:
    /// the row as integers, `NONE` for NULL. `base_ns` is still to be added to relative times;
    /// `ids` makes process and thread of what the reader tells threads apart by.
    ///
    /// # Errors
    /// `io` when they cannot be written; what `each` returns.
    pub fn link(
        &mut self,
        base_ns: i64,
        ids: fn([i64; 2]) -> [Option<i64>; 2],
        each: impl FnMut(&Launch) -> Result<()>,
    ) -> Result<()> {
        let launches = std::mem::replace(&mut self.launches, Launches::new(&self.folder, 0));
        let to = |table: usize| Target { sink: &self.sinks[table], rows: rows_of(table) };
        let mut linked =
            Linked { pool: &self.pool, launches: to(LAUNCHES), ranges: to(HOST_RANGES), ids, each };
        launches.finish(&self.folder, base_ns, &mut linked)?;
        linked.launches.flush(&self.pool)?;
        linked.ranges.flush(&self.pool)
    }

    /// Writes rows of `comm_args` whose event ids are whole.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn comm_args(&mut self, batch: RecordBatch) -> Result<()> {
        self.sinks[COMM_ARGS].push(&self.pool, batch);
        Ok(())
    }

    /// Finds and writes the steps; what marked them, and how many there are.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn mark_steps(&mut self, patterns: &StepPatterns) -> Result<Option<(String, u64)>> {
        let steps = std::mem::replace(&mut self.steps, StepRanges::new(&self.folder, 0));
        let (sink, pool) = (&self.sinks[STEP_RANGES], &self.pool);
        let mut rows = rows_of(STEP_RANGES);
        let found = steps.finish(patterns, &mut rows, |rows| {
            if rows.len() == BATCH_ROWS {
                sink.push(pool, rows.take()?);
            }
            Ok(())
        })?;
        sink.push(pool, rows.take()?);
        Ok(found)
    }

    /// Closes the files; the path of each table that has rows.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn close(mut self) -> Result<BTreeMap<&'static str, PathBuf>> {
        let mut out = BTreeMap::new();
        if let Some(path) = self.device_events()? {
            out.insert(TABLES[DEVICE].0, path);
        }
        for (i, ((name, _), sink)) in TABLES.iter().zip(&self.sinks).enumerate() {
            if i == DEVICE {
                continue;
            }
            if let Some(path) = sink.finish(&self.pool)? {
                out.insert(*name, path);
            }
        }
        Ok(out)
    }

    /// Joins the device events of all classes, and sorts where they are not sorted.
    fn device_events(&mut self) -> Result<Option<PathBuf>> {
        let (pool, sink) = (&self.pool, &self.sinks[DEVICE]);
        let mut sorted = Vec::new();
        for of in std::mem::take(&mut self.classes).into_values() {
            if of.sink.finish(pool)?.is_some() {
                sorted.push(of.path);
            }
        }
        let empty = Sorter::new(&self.folder, self.device.schema().clone(), &[]);
        let mut device = std::mem::replace(&mut self.device, empty);
        if device.is_empty() {
            // In the order of the classes, each sorted: their row groups are copied.
            let path = self.folder.join("device_events.parquet");
            let mut joined = Splicer::new(path.clone(), device.schema().clone());
            for from in &sorted {
                joined.add(from, Lacks::default())?;
                std::fs::remove_file(from).map_err(|e| crate::error::io(from, &e))?;
            }
            return Ok((joined.finish()? > 0).then_some(path));
        }
        for from in &sorted {
            each_batch(from, |batch| {
                let batch =
                    RecordBatch::try_new(device.schema().clone(), batch.columns().to_vec())?;
                device.push(batch)
            })?;
            std::fs::remove_file(from).map_err(|e| crate::error::io(from, &e))?;
        }
        device.finish(&mut |batch| {
            sink.push(pool, batch);
            Ok(())
        })?;
        sink.finish(pool)
    }
}

/// A table that rows are written to, one by one.
struct Target<'a> {
    sink: &'a Arc<Sink>,
    rows: Rows,
}

impl Target<'_> {
    /// Hands the rows on when they are many.
    fn flush_many(&mut self, pool: &Arc<Pool>) -> Result<()> {
        if self.rows.len() == BATCH_ROWS { self.flush(pool) } else { Ok(()) }
    }

    fn flush(&mut self, pool: &Arc<Pool>) -> Result<()> {
        self.sink.push(pool, self.rows.take()?);
        Ok(())
    }
}

/// Writes what the sweep over the host finds.
struct Linked<'a, F> {
    pool: &'a Arc<Pool>,
    launches: Target<'a>,
    ranges: Target<'a>,
    ids: fn([i64; 2]) -> [Option<i64>; 2],
    each: F,
}

impl<F: FnMut(&Launch) -> Result<()>> Found for Linked<'_, F> {
    fn launch(&mut self, row: Launch) -> Result<()> {
        (self.each)(&row)?;
        let [event, op, call, delay, start, record, annotation, comm_op, pid, tid, range] = row;
        let [pid, tid] = (self.ids)([pid, tid]);
        LaunchRow {
            event_id: event,
            op_event_id: some(op),
            runtime_event_id: some(call),
            launch_delay_ns: some(delay),
            launch_ts_ns: some(start),
            record_event_id: some(record),
            annotation_event_id: some(annotation),
            comm_op_event_id: some(comm_op),
            pid,
            tid,
            range_event_id: some(range),
        }
        .push(&mut self.launches.rows);
        self.launches.flush_many(self.pool)
    }

    fn range(&mut self, row: HostRange) -> Result<()> {
        let [event, is_op, around, pid, tid, start, length] = row;
        let [pid, tid] = (self.ids)([pid, tid]);
        HostRangeRow {
            event_id: event,
            kind: if is_op == 1 { "operator" } else { "annotation" },
            parent_event_id: some(around),
            pid,
            tid,
            ts_ns: start,
            dur_ns: length,
        }
        .push(&mut self.ranges.rows);
        self.ranges.flush_many(self.pool)
    }
}

/// The batch with event ids that count from `first`.
pub fn renumbered(batch: &RecordBatch, first: i64) -> Result<RecordBatch> {
    let at = batch.schema().index_of("event_id")?;
    let ids = batch.column(at).as_primitive::<Int64Type>();
    let ids: ArrayRef = Arc::new(ids.unary::<_, Int64Type>(|id| id + first));
    debug_assert_eq!(ids.null_count(), 0, "every row has an id");
    let mut columns = batch.columns().to_vec();
    columns[at] = ids;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}
