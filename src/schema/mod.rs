//! The tables: names, columns, types and what each column means.
//!
//! This is the one place that lists them. The Parquet writers, the empty views for a trace that
//! lacks a table, `ccl-sql list tables`, the completion of the shell, the lint on empty tables and
//! `docs/event_tables.md` all come from here. What a source lacks is NULL, never 0, -1 or "".

mod tables;
pub mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

pub use tables::TABLES;

/// Raised when a table or column changes its meaning; ingested traces with another number are
/// ingested again.
///
/// 3: sources beside Kineto: `step_ranges`, `source` in `busy_intervals` and `collective_calls`, bytes
/// in `comm_args`, class `graph`.
///
/// 6: records of benchmarks: `benchmarks`, `requests`, `expert_loads`.
pub const SCHEMA_VERSION: u32 = 7;

/// Column types, each with its Arrow and its SQL form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Text.
    Text,
    /// 64-bit signed integer.
    Int,
    /// Double precision.
    Double,
    /// List of 64-bit signed integers.
    IntList,
}

impl Type {
    /// The name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Int => "BIGINT",
            Self::Double => "DOUBLE",
            Self::IntList => "BIGINT[]",
        }
    }

    /// The Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Int => DataType::Int64,
            Self::Double => DataType::Float64,
            Self::IntList => DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))),
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name; a unit is its last part (`_ns`, `_bytes`).
    pub name: &'static str,
    /// Type.
    pub ty: Type,
    /// One sentence.
    pub doc: &'static str,
}

/// Who makes the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// A reader, while it reads a file.
    Ingest,
    /// A file of `sql/derived`, or the interval union, at the end of an ingest.
    Derived,
}

/// One table of a trace directory.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the view and of the folder.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// Who makes it.
    pub made: Made,
    /// Columns in order, without `trace`, which every table has in front (from the folder name).
    pub columns: &'static [Column],
    /// Whether the files lie under `rank=<r>/`, and the column `rank` comes from there.
    pub by_rank: bool,
}

impl Table {
    /// The Arrow schema of the Parquet files: without the columns that the path holds.
    pub fn arrow(&self) -> SchemaRef {
        Arc::new(Schema::new(
            self.columns
                .iter()
                .filter(|c| !(self.by_rank && c.name == "rank"))
                .map(|c| Field::new(c.name, c.ty.arrow(), true))
                .collect::<Vec<_>>(),
        ))
    }
}

/// What comparisons read besides the tables of the traces: values of metrics, computed before. It is
/// filled for one run of the program and lies in no trace.
pub static RESULTS: Table = Table {
    name: "metric_results",
    doc: "A metric of a trace that is compared.",
    made: Made::Derived,
    columns: &[
        Column { name: "place", ty: Type::Int, doc: "Place in the list of metrics." },
        Column { name: "metric", ty: Type::Text, doc: "Metric." },
        Column { name: "version", ty: Type::Int, doc: "Its version." },
        Column { name: "unit", ty: Type::Text, doc: "Unit of the value." },
        Column { name: "better", ty: Type::Text, doc: "Better direction: higher, lower or NULL." },
        Column { name: "value", ty: Type::Double, doc: "Value; NULL where there is none." },
    ],
    by_rank: false,
};

/// The Parquet files of a table in a trace directory, sorted.
pub fn files(directory: &Path, table: &Table) -> Vec<PathBuf> {
    fn below(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, out);
            } else if path.extension().is_some_and(|e| e == "parquet") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    below(&directory.join(table.name), &mut out);
    out.sort();
    out
}

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
