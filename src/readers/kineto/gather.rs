//! What the runs of one file's events become together: spool files and totals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::error::Result;
use crate::input::json;
use crate::input::time::shifted;
use crate::pool::Pool;
use crate::readers::kineto::halves::HALVES;
use crate::readers::kineto::pairs;
use crate::readers::kineto::part::{Outcome, Part, RunEnd};
use crate::readers::log::{Log, Severity};
use crate::spool::events::Metadata;
use crate::spool::launches::own_ids;
use crate::spool::rows::Rows;
use crate::spool::sort_rows::Sorter;
use crate::spool::steps::StepPatterns;
use crate::spool::totals::Totals;
use crate::spool::{METADATA, ONE_RANK, Spool, renumbered};

/// The content of one file.
#[derive(Debug, Default)]
pub struct Kineto {
    /// Header members, in order; text values without quotes.
    pub header: Vec<(String, Value)>,
    /// Findings.
    pub log: Log,
    /// Counts and spans, the base included.
    pub totals: Totals,
    /// Nanoseconds that must still be added to `ts_ns` below `EPOCH_FROM_NS` in the spool files.
    pub pending_base_ns: i64,
    /// `baseTimeNanoseconds`.
    pub base_ns: Option<i64>,
    /// Uncompressed bytes of the file, those after the trace or after a fault among them.
    pub bytes: u64,
    /// Spool file of each table that has rows.
    pub spool: BTreeMap<&'static str, PathBuf>,
}

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
    /// Ranges that mark steps beside Kineto's own marker.
    pub(super) steps: Option<Arc<StepPatterns>>,
    known_base_ns: Option<i64>,
    pending_base_ns: i64,
    halves: Sorter,
    spool: Spool,
    folder: PathBuf,
}

fn halves(folder: &Path) -> Sorter {
    let keys = ["pid", "tid", "ts_ns", "begins", "event_id"];
    Sorter::new(folder, Rows::new(&HALVES, &[]).schema().clone(), &keys)
}

impl Gather {
    pub(super) fn new(
        folder: &Path,
        source_id: i64,
        pool: Arc<Pool>,
        steps: Option<Arc<StepPatterns>>,
    ) -> Self {
        Self {
            header: Vec::new(),
            log: Log::default(),
            totals: Totals::default(),
            elements: 0,
            last_end: 0,
            base_ns: 0,
            steps,
            known_base_ns: None,
            pending_base_ns: 0,
            halves: halves(folder),
            spool: Spool::new(folder, source_id, pool, ONE_RANK),
            folder: folder.to_owned(),
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
        self.spool.note(run.launches, &run.steps, before)?;
        if run.halves.num_rows() > 0 {
            self.halves.push(renumbered(&run.halves, self.spool.event_id(before))?)?;
        }
        self.spool.write(run.batches, before)
    }

    /// Closes the spool files.
    pub(super) fn finish(mut self) -> Result<Kineto> {
        let steps = self.steps.clone();
        let mut part = Part::new(self.base_ns, 0, steps.as_deref());
        let halves = std::mem::replace(&mut self.halves, halves(&self.folder));
        let (mut join, first) = (pairs::Join::default(), self.spool.event_id(0));
        halves.finish(&mut |batch| {
            join.add(&batch, first, &mut part);
            self.spool.write(part.take()?, 0)
        })?;
        join.finish(&mut part);
        for (key, value) in &self.header {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Metadata { key, value: &text }.push(&mut part.rows[METADATA]);
        }
        let last = part.outcome(0, 0, RunEnd::More)?;
        self.log.append(last.log);
        self.totals.add(last.totals);
        self.spool.note(last.launches, &last.steps, 0)?;
        self.spool.write(last.batches, 0)?;
        let base = self.pending_base_ns;
        let span = self.totals.span_ns;
        self.totals.span_ns = span.map(|(from, to)| (shifted(from, base), shifted(to, base)));
        if self.totals.events == 0 {
            self.log.add(Severity::Info, "no-events", None, || {
                "the trace has no events: only its header was read".to_owned()
            });
        }
        self.spool.link(base, own_ids, |_| Ok(()))?;
        if let Some(steps) = &self.steps {
            self.spool.mark_steps(steps)?;
        }
        Ok(Kineto {
            header: self.header,
            log: self.log,
            totals: self.totals,
            pending_base_ns: base,
            base_ns: self.known_base_ns,
            bytes: 0,
            spool: self.spool.close()?,
        })
    }
}
