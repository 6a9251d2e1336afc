//! What a table is: its columns with their types, and who makes its rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

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

/// The maker of the rows of a table.
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
    /// Meaning of a row.
    pub doc: &'static str,
    /// Maker of the rows.
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

/// A list of columns: of each its name, its type and what it says; or a [`Column`] that is shared.
macro_rules! columns {
    ($($column:ident $($ty:ident $doc:literal)?),* $(,)?) => {
        &[$($crate::schema::table::column!($column $($ty $doc)?)),*]
    };
}
pub(crate) use columns;

/// One column of [`columns`].
macro_rules! column {
    ($shared:ident) => { $shared };
    ($name:ident TEXT $doc:literal) => { $crate::schema::table::column!($name = Text $doc) };
    ($name:ident INT $doc:literal) => { $crate::schema::table::column!($name = Int $doc) };
    ($name:ident DOUBLE $doc:literal) => { $crate::schema::table::column!($name = Double $doc) };
    ($name:ident INTS $doc:literal) => { $crate::schema::table::column!($name = IntList $doc) };
    ($name:ident = $ty:ident $doc:literal) => {
        $crate::schema::table::Column {
            name: stringify!($name),
            ty: $crate::schema::table::Type::$ty,
            doc: $doc,
        }
    };
}
pub(crate) use column;
