//! What the runs of one file's events become together: spool files and totals.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use serde_json::Value;

use super::super::json;
use super::super::launches::Launches;
use super::super::log::{Log, Severity};
use super::super::parquet::{BATCH_ROWS, Sink};
use super::super::pool::Pool;
use super::super::rows::{Rows, schema_without};
use super::super::sort::Sorter;
use super::part::{
    COMM_ARGS, DEVICE, HALVES, HOST, LAUNCHES, METADATA, Outcome, Part, RunEnd, TABLES, table_of,
};
use super::{Kineto, Totals, pairs, shifted};
use crate::error::Result;

/// Collects what the runs of a file hold, in the order of the file.
pub(super) struct Gather {
    pub(super) header: Vec<(String, Value)>,
    pub(super) log: Log,
    pub(super) totals: Totals,
    /// Elements of the list so far.
    pub(super) elements: u64,
    /// Offset after the last complete element.
    pub(super) last_end: u64,
    /// Added to recorded times as rows are made (0 while the base is unknown).
    pub(super) base_ns: i64,
    known_base_ns: Option<i64>,
    pending_base_ns: i64,
    first_event_id: i64,
    halves: Sorter,
    /// One for each table; device events go through `device`.
    sinks: [Arc<Sink>; 8],
    device: Sorter,
    launches: Launches,
    folder: PathBuf,
    pool: Arc<Pool>,
}

impl Gather {
    pub(super) fn new(spool: &Path, source_id: i64, pool: Arc<Pool>) -> Self {
        let file = |name: &str| -> PathBuf { spool.join(format!("{name}.parquet")) };
        let schema = |(name, without): (&str, &[&str])| schema_without(table_of(name), without);
        Self {
            header: Vec::new(),
            log: Log::default(),
            totals: Totals::default(),
            elements: 0,
            last_end: 0,
            base_ns: 0,
            known_base_ns: None,
            pending_base_ns: 0,
            first_event_id: source_id << 40,
            halves: Sorter::new(
                spool,
                schema(TABLES[HALVES]),
                &["pid", "tid", "ts_ns", "begins", "event_id"],
            ),
            sinks: TABLES.map(|t| Sink::new(file(t.0), schema(t))),
            device: Sorter::new(spool, schema(TABLES[DEVICE]), &["class", "ts_ns", "event_id"]),
            launches: Launches::new(spool),
            folder: spool.to_owned(),
            pool,
        }
    }

    /// A member of the header.
    pub(super) fn header(&mut self, key: String, value: Value) {
        if key == "baseTimeNanoseconds" {
            let base = match &value {
                Value::Number(n) => json::integer(&n.to_string()),
                Value::String(s) => json::integer(s),
                _ => None,
            };
            match base {
                Some(base) if (0..i64::MAX / 4).contains(&base) => {
                    self.known_base_ns = Some(base);
                    if self.elements == 0 {
                        self.base_ns = base;
                    } else {
                        self.pending_base_ns = base;
                    }
                }
                _ => self.log.add(Severity::Loss, "base-invalid", None, || {
                    format!(
                        "baseTimeNanoseconds is no usable integer: {value}; times stay as recorded"
                    )
                }),
            }
        }
        self.header.push((key, value));
    }

    /// Takes the rows of the next run, which stood at `offset`.
    pub(super) fn accept(&mut self, run: Outcome, offset: u64) -> Result<()> {
        self.log.append(run.log);
        self.totals.add(run.totals);
        let before = self.elements;
        if run.elements > 0 {
            self.last_end = offset + run.last_end as u64;
        }
        self.elements += run.elements;
        self.launches.add(run.launches, self.first_event_id + before as i64)?;
        self.write(run.batches, before)
    }

    /// Writes rows whose event ids count from element `from`.
    fn write(&mut self, batches: [RecordBatch; 8], from: u64) -> Result<()> {
        let first = self.first_event_id + from as i64;
        for (i, batch) in batches.into_iter().enumerate() {
            if batch.num_rows() == 0 {
                continue;
            }
            match i {
                HOST | COMM_ARGS => self.sinks[i].push(&self.pool, renumbered(&batch, first)?),
                DEVICE => self.device.push(renumbered(&batch, first)?)?,
                HALVES => self.halves.push(renumbered(&batch, first)?)?,
                _ => self.sinks[i].push(&self.pool, batch),
            }
        }
        Ok(())
    }

    /// Closes the spool files.
    pub(super) fn finish(mut self) -> Result<Kineto> {
        let mut part = Part::new(self.base_ns, 0);
        let schema = self.halves.schema().clone();
        let halves = std::mem::replace(&mut self.halves, Sorter::new(&self.folder, schema, &[]));
        let (mut join, first) = (pairs::Join::default(), self.first_event_id);
        halves.finish(&mut |batch| {
            join.add(&batch, first, &mut part);
            self.write(part.take()?, 0)
        })?;
        join.finish(&mut part);
        for (key, value) in &self.header {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let row = &mut part.rows[METADATA];
            row.text(Some(key)).text(Some(&text)).end_row();
        }
        let last = part.outcome(0, 0, RunEnd::More)?;
        self.log.append(last.log);
        self.totals.add(last.totals);
        self.launches.add(last.launches, self.first_event_id)?;
        self.write(last.batches, 0)?;
        let base = self.pending_base_ns;
        for span in [&mut self.totals.span_ns, &mut self.totals.device_span_ns] {
            *span = span.map(|(from, to)| (shifted(from, base), shifted(to, base)));
        }
        if self.totals.events == 0 {
            self.log.add(Severity::Info, "no-events", None, || {
                "the trace has no events: only its header was read".to_owned()
            });
        }
        let (pool, sink) = (&self.pool, &self.sinks[DEVICE]);
        self.device.finish(&mut |batch| {
            sink.push(pool, batch);
            Ok(())
        })?;
        let (name, without) = TABLES[LAUNCHES];
        let mut rows = Rows::new(table_of(name), without);
        let sink = &self.sinks[LAUNCHES];
        self.launches.finish(&self.folder, self.pending_base_ns, &mut rows, |rows| {
            if rows.len() == BATCH_ROWS {
                sink.push(pool, rows.take()?);
            }
            Ok(())
        })?;
        sink.push(pool, rows.take()?);
        let mut out = Kineto {
            header: self.header,
            log: self.log,
            totals: self.totals,
            pending_base_ns: self.pending_base_ns,
            base_ns: self.known_base_ns,
            ..Kineto::default()
        };
        for ((name, _), sink) in TABLES.iter().zip(&self.sinks) {
            if let Some(path) = sink.finish(&self.pool)? {
                out.spool.insert(name, path);
            }
        }
        Ok(out)
    }
}

/// The batch with event ids that count from `first`.
fn renumbered(batch: &RecordBatch, first: i64) -> Result<RecordBatch> {
    let at = batch.schema().index_of("event_id")?;
    let ids = batch.column(at).as_primitive::<Int64Type>();
    let ids: ArrayRef = Arc::new(ids.unary::<_, Int64Type>(|id| id + first));
    debug_assert_eq!(ids.null_count(), 0, "every row has an id");
    let mut columns = batch.columns().to_vec();
    columns[at] = ids;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}
