//! Answers as Arrow: named columns of fixed types.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema};
use serde_json::Value;

use crate::error::Result;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A text; JSON is text too.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Real,
    /// Yes or no.
    Flag,
    /// A list of texts.
    Texts,
    /// Bytes: of a file that a command wrote.
    Bytes,
}

impl Type {
    /// The type in Arrow.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Integer => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::Flag => DataType::Boolean,
            Self::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            Self::Bytes => DataType::Binary,
        }
    }
}

/// A column of an answer: its name and type.
pub type Column = (&'static str, Type);

/// Columns of an ingest.
pub const INGEST: &[Column] = &[
    ("trace", Type::Text),
    ("source", Type::Text),
    ("ranks", Type::Integer),
    ("ranks_read", Type::Integer),
    ("events", Type::Integer),
    ("bytes", Type::Integer),
    ("seconds", Type::Real),
    ("unchanged", Type::Flag),
    ("findings", Type::Text),
    ("error", Type::Text),
];

/// Columns of a diagnosis.
pub const FINDING: &[Column] = &[
    ("trace", Type::Text),
    ("diagnosis", Type::Text),
    ("version", Type::Integer),
    ("finding", Type::Text),
    ("where", Type::Text),
    ("time_per_step_ms", Type::Real),
    ("gain_ms", Type::Real),
    ("gain_pct", Type::Real),
    ("confidence", Type::Text),
    ("limits", Type::Texts),
    ("advice", Type::Text),
    ("evidence", Type::Text),
    ("shown", Type::Text),
];

/// Columns of the list of traces.
pub const TRACES: &[Column] = &[
    ("trace", Type::Text),
    ("source", Type::Text),
    ("ranks", Type::Integer),
    ("events", Type::Integer),
    ("findings", Type::Integer),
    ("path", Type::Text),
];

/// Columns of the list of metrics.
pub const METRICS: &[Column] = &[
    ("metric", Type::Text),
    ("area", Type::Text),
    ("unit", Type::Text),
    ("better", Type::Text),
    ("sources", Type::Text),
    ("nvtx", Type::Text),
    ("version", Type::Integer),
    ("summary", Type::Text),
    ("params", Type::Text),
];

/// Columns of results of metrics.
pub const METRIC: &[Column] = &[
    ("trace", Type::Text),
    ("metric", Type::Text),
    ("version", Type::Integer),
    ("value", Type::Real),
    ("text", Type::Text),
    ("unit", Type::Text),
    ("reason", Type::Text),
    ("answer", Type::Text),
    ("warnings", Type::Texts),
    ("details", Type::Text),
    ("params", Type::Text),
    ("sql_sha256", Type::Text),
    ("fingerprint", Type::Text),
];

/// The schema of columns, all of which may be NULL.
pub fn schema(columns: &[Column]) -> Schema {
    let field = |(name, ty): &Column| Field::new(*name, ty.arrow(), true);
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

/// Rows of JSON values as Arrow. A value of another type than that of its column is NULL; another
/// value in a column of texts is its JSON.
///
/// # Errors
/// `io` when the rows are no table.
pub fn batch(columns: &[Column], rows: Vec<Vec<Value>>) -> Result<RecordBatch> {
    let array = |(i, (_, ty)): (usize, &Column)| -> ArrayRef {
        let cells = rows.iter().map(|row| &row[i]);
        match ty {
            Type::Integer => Arc::new(cells.map(Value::as_i64).collect::<Int64Array>()),
            Type::Real => Arc::new(cells.map(Value::as_f64).collect::<Float64Array>()),
            Type::Flag => Arc::new(cells.map(Value::as_bool).collect::<BooleanArray>()),
            Type::Text => Arc::new(cells.map(text).collect::<StringArray>()),
            // No JSON value is one.
            Type::Bytes => new_null_array(&DataType::Binary, rows.len()),
            Type::Texts => {
                let mut out = ListBuilder::new(StringBuilder::new());
                for cell in cells {
                    let list = cell.as_array();
                    list.into_iter().flatten().for_each(|v| out.values().append_option(text(v)));
                    out.append(list.is_some());
                }
                Arc::new(out.finish())
            }
        }
    };
    let arrays = columns.iter().enumerate().map(array).collect();
    Ok(RecordBatch::try_new(Arc::new(schema(columns)), arrays)?)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
