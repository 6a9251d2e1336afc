//! What is the same for every table of a file: names, times and arguments of a row, and the rows
//! made of a range of row numbers, on any thread.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::Result;
use crate::hash::hex;
use crate::input::time::MAX_NS;
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::context::Context;
use crate::readers::nsys::database::int;
use crate::readers::nsys::ids::{MAX_PROCESSES, process_of};
use crate::readers::nsys::layout::To;
use crate::readers::nsys::names::{MAX_NAME_BYTES, Name, RangeName, shortened};
use crate::readers::nsys::nccl;
use crate::readers::nsys::recent::{Recent, mixed};
use crate::readers::nsys::tables::{Kind, Plan};
use crate::readers::share::Communicator;
use crate::spool::args::Args;
use crate::spool::batch;

/// Rows of one key.
#[derive(Default)]
pub struct Bundle {
    pub base: batch::Bundle,
    /// Ranges of NCCL.
    pub ranges: Vec<nccl::Range>,
    /// Kernels that communicate, and what their names say of the call.
    pub kernels: Vec<[i64; 2]>,
    pub communicators: Vec<Communicator>,
}

/// What a range of rows became.
#[derive(Default)]
pub struct Outcome {
    /// In the order in which the keys came first.
    pub bundles: Vec<(To, Bundle)>,
    /// Processes with events.
    pub processes: BTreeSet<i64>,
    /// Rows that were read: event ids count them.
    pub elements: u64,
    /// Rows that were left out.
    pub skipped: u64,
    pub log: Log,
    /// The last row number that was read.
    pub last: Option<i64>,
    /// Row number from which the range is still to be read.
    pub rest: Option<i64>,
}

/// Reads rows of a table.
pub(super) struct Reader<'c> {
    pub(super) context: &'c Context,
    pub(super) plan: &'c Plan,
    pub(super) connection: &'c Connection,
    pub(super) names: Recent<i64, Arc<Name>>,
    /// What messages that are no strings of the file say: with the tail of PyTorch, and without.
    pub(super) ranges: [Recent<String, RangeName>; 2],
    pub(super) args: Args,
    pub(super) last_process: Option<i64>,
    pub(super) out: Outcome,
    /// Bytes of text and blobs in the rows so far.
    pub(super) bytes: usize,
}

impl Reader<'_> {
    /// The integer at a place of the row.
    pub(super) fn at(&self, row: &Row<'_>, place: Option<usize>) -> Option<i64> {
        int(row, place?)
    }

    /// A string of the file.
    pub(super) fn name(&mut self, id: i64) -> Result<Arc<Name>> {
        let hash = mixed(0, id as u64);
        if let Some((known, name)) = self.names.slot(hash)
            && *known == id
        {
            self.bytes += name.text.as_ref().map_or(0, String::len);
            return Ok(name.clone());
        }
        let name = self.context.strings.get(id, &self.context.database, self.connection)?;
        if name.text.is_none() {
            let table = &self.plan.table;
            self.out.log.add(Severity::Loss, "string-dangling", None, || {
                format!("ids of strings that the file does not hold (first in {table}); those names are NULL")
            });
        }
        if name.lossy {
            self.lossy();
        }
        if name.cut {
            self.cut();
        }
        self.bytes += name.text.as_ref().map_or(0, String::len);
        *self.names.slot(hash) = Some((id, name.clone()));
        Ok(name)
    }

    fn cut(&mut self) {
        self.out.log.add(Severity::Loss, "name-cut", None, || {
            format!("names longer than {MAX_NAME_BYTES} bytes; they end there")
        });
    }

    fn lossy(&mut self) {
        self.out.log.add(Severity::Info, "invalid-utf8", None, || {
            "bytes that are no UTF-8; replaced by U+FFFD".to_owned()
        });
    }

    /// The rows of one key.
    pub(super) fn bundle(&mut self, key: To) -> &mut Bundle {
        let bundles = &mut self.out.bundles;
        let at = match bundles.iter().position(|(k, _)| *k == key) {
            Some(at) => at,
            None => {
                bundles.push((key, Bundle::default()));
                bundles.len() - 1
            }
        };
        &mut bundles[at].1
    }

    /// The process of a global id.
    pub(super) fn process(&self, global: Option<i64>) -> i64 {
        process_of(global, self.context.by_process)
    }

    /// Remembers the process of a row.
    pub(super) fn seen(&mut self, process: i64) {
        if self.last_process != Some(process) {
            self.last_process = Some(process);
            if self.out.processes.len() < MAX_PROCESSES {
                self.out.processes.insert(process);
            }
        }
    }

    /// Start on the clock of the rank, and duration; None with a finding when there is no start.
    pub(super) fn time(&mut self, row: &Row<'_>) -> Option<(i64, Option<i64>)> {
        let base = self.context.base_ns;
        let usable = |t: &i64| (-MAX_NS..MAX_NS).contains(t);
        let at = |place| {
            self.at(row, place).filter(usable).and_then(|t| t.checked_add(base)).filter(usable)
        };
        let (start, end) = (at(self.plan.at.start), at(self.plan.at.end));
        let Some(start) = start else {
            let table = &self.plan.table;
            // Exports of 2025 say no time of a recorded CUDA event; its call has one.
            if self.plan.kind == Kind::Sync && self.plan.at.start.is_none() {
                self.out.log.add(Severity::Info, "table-untimed", None, || {
                    format!("rows of a table without times ({table}); left out")
                });
                return None;
            }
            self.out.log.add(Severity::Loss, "ts-missing", None, || {
                format!("events without a usable start (first in {table}); left out")
            });
            return None;
        };
        let dur = end.and_then(|end| end.checked_sub(start)).filter(|d| *d >= 0);
        let ends = |place| !matches!(row.get_ref(place), Ok(ValueRef::Null) | Err(_));
        let lacks = self.plan.kind.is_device() || self.plan.at.end.is_some_and(ends);
        if dur.is_none() && lacks {
            let table = &self.plan.table;
            self.out.log.add(Severity::Loss, "dur-invalid", None, || {
                format!(
                    "events without a usable end, or that end before they start (first in {table}); their duration is NULL"
                )
            });
        }
        Some((start, dur))
    }

    /// Writes the columns without a place of their own into the arguments.
    pub(super) fn rest(&mut self, row: &Row<'_>) {
        for (place, key) in &self.plan.rest {
            match row.get_ref(*place) {
                Ok(ValueRef::Integer(value)) => self.args.int(key, value),
                Ok(ValueRef::Real(value)) => {
                    self.args.key(key);
                    if value.is_finite() {
                        self.args.raw(&format!("{value:?}"));
                    } else {
                        self.args.string(&value.to_string());
                    }
                }
                Ok(ValueRef::Text(bytes)) => {
                    self.bytes += bytes.len();
                    self.args.said(key, &String::from_utf8_lossy(bytes));
                }
                Ok(ValueRef::Blob(bytes)) => {
                    self.bytes += 2 * bytes.len();
                    self.args.said(key, &hex(bytes));
                }
                Ok(ValueRef::Null) | Err(_) => {}
            }
        }
    }

    /// The text of the row itself.
    pub(super) fn own_text<'r>(&mut self, row: &'r Row<'_>) -> Option<Cow<'r, str>> {
        let Ok(ValueRef::Text(bytes)) = row.get_ref(self.plan.at.text?) else { return None };
        let short = shortened(bytes);
        self.bytes += short.len();
        let text = String::from_utf8_lossy(short);
        if matches!(text, Cow::Owned(_)) {
            self.lossy();
        }
        if short.len() < bytes.len() {
            self.cut();
        }
        Some(text)
    }
}
