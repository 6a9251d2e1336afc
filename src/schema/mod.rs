//! The tables: names, columns, types and what each column means.
//!
//! This is the one place that lists them. The Parquet writers, the empty views for a trace that
//! lacks a table, `ccl-sql list tables`, the completion of the shell, the lint on empty tables and
//! `docs/event_tables.md` all come from here. What a source lacks is NULL, never 0, -1 or "".

pub mod source;
pub(crate) mod table;
mod tables;
pub mod units;

use crate::schema::table::columns;
pub use crate::schema::table::{Column, Made, Table, Type, files};
pub use crate::schema::tables::TABLES;

/// Raised when a table or column changes its meaning; ingested traces with another number are
/// ingested again.
///
/// 3: sources beside Kineto: `step_ranges`, `source` in `busy_intervals` and `collective_calls`,
/// bytes in `comm_args`, class `graph`.
///
/// 6: records of benchmarks: `benchmarks`, `requests`, `expert_loads`.
pub const SCHEMA_VERSION: u32 = 7;

/// What comparisons read besides the tables of the traces: values of metrics, computed before. It
/// is filled for one run of the program and lies in no trace.
pub static RESULTS: Table = Table {
    name: "metric_results",
    doc: "A metric of a trace that is compared.",
    made: Made::Derived,
    columns: columns! {
        place   INT    "Place in the list of metrics.",
        metric  TEXT   "Metric.",
        version INT    "Its version.",
        unit    TEXT   "Unit of the value.",
        better  TEXT   "Better direction: higher, lower or NULL.",
        value   DOUBLE "Value; NULL where there is none.",
    },
    by_rank: false,
};

/// The table of this name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|t| t.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_snake_case() {
        for (i, t) in TABLES.iter().enumerate() {
            assert!(TABLES[..i].iter().all(|o| o.name != t.name), "{} twice", t.name);
            for (k, c) in t.columns.iter().enumerate() {
                assert!(t.columns[..k].iter().all(|o| o.name != c.name), "{}.{}", t.name, c.name);
                assert!(!c.doc.is_empty() && !c.doc.ends_with(' '));
            }
        }
    }
}
