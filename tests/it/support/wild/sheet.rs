//! Rows that need not have the same columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::support::Csv;

/// A table that grows.
#[derive(Default)]
pub struct Sheet {
    rows: Vec<BTreeMap<String, String>>,
}

impl Sheet {
    /// Adds a row.
    pub fn add(&mut self, cells: &[(&str, &dyn Display)]) {
        self.rows.push(BTreeMap::new());
        cells.iter().for_each(|(column, value)| self.set(column, value));
    }

    /// Writes a field of the last row.
    pub fn set(&mut self, column: &str, value: &dyn Display) {
        let row = self.rows.last_mut().expect("a row was added");
        row.insert(column.to_owned(), value.to_string());
    }

    /// Makes a field of the last row NULL.
    pub fn lose(&mut self, column: &str) {
        self.rows.last_mut().expect("a row was added").remove(column);
    }

    /// All columns that a row has, and all rows.
    pub fn into_csv(self) -> Csv {
        let columns: BTreeSet<String> =
            self.rows.iter().flat_map(BTreeMap::keys).cloned().collect();
        let cells = |row: &BTreeMap<String, String>| {
            columns.iter().map(|column| row.get(column).cloned()).collect()
        };
        let rows = self.rows.iter().map(cells).collect();
        Csv { columns: columns.into_iter().collect(), rows }
    }
}
