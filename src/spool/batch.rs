//! Rows that a thread makes of a part of a file, until they are written in the order of the file.

use crate::spool::launches::Parts;
use crate::spool::rows::Rows;
use crate::spool::steps::Candidate;
use crate::spool::tables::{DEVICE, rows_of};
use crate::spool::totals::{Totals, widen};

/// Rows of one share.
#[derive(Default)]
pub struct Bundle {
    /// Rows by table; most bundles have rows of one.
    pub rows: Vec<(usize, Rows)>,
    /// Device events, by class: those of a class come in the order of their starts.
    pub device: Vec<(&'static str, Rows)>,
    pub totals: Totals,
    pub launches: Parts,
    pub steps: Vec<Candidate>,
}

impl Bundle {
    /// Rows of a table.
    pub fn table(&mut self, table: usize) -> &mut Rows {
        let at = match self.rows.iter().position(|(t, _)| *t == table) {
            Some(at) => at,
            None => {
                self.rows.push((table, rows_of(table)));
                self.rows.len() - 1
            }
        };
        &mut self.rows[at].1
    }

    /// Rows of device events of a class.
    pub fn class(&mut self, class: &'static str) -> &mut Rows {
        let at = match self.device.iter().position(|(c, _)| *c == class) {
            Some(at) => at,
            None => {
                self.device.push((class, rows_of(DEVICE)));
                self.device.len() - 1
            }
        };
        &mut self.device[at].1
    }

    /// Counts an event, of the device where it has a class, and widens the span.
    pub fn count(&mut self, ts_ns: i64, dur_ns: Option<i64>, class: Option<&str>) {
        self.totals.events += 1;
        widen(&mut self.totals.span_ns, ts_ns, ts_ns.saturating_add(dur_ns.unwrap_or(0)));
        if let Some(class) = class {
            self.totals.count_device(class);
        }
    }
}
