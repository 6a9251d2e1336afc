//! Cells of Arrow batches, as DuckDB gives them.

use std::borrow::Cow;

use arrow::array::{
    Array, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::engine::json;
use crate::export::timeline::{Arg, Value};

/// A column whose type is looked at once, not for each of its rows.
#[derive(Clone, Copy)]
pub enum Column<'b> {
    /// Whole numbers.
    Ints(&'b Int64Array),
    /// Numbers.
    Reals(&'b Float64Array),
    /// Texts.
    Texts(&'b StringArray),
    /// Yes or no.
    Flags(&'b BooleanArray),
    /// Anything else.
    Other(&'b dyn Array),
}

impl<'b> Column<'b> {
    /// A column of a batch.
    pub fn new(column: &'b dyn Array) -> Self {
        match column.data_type() {
            DataType::Int64 => Self::Ints(column.as_primitive::<Int64Type>()),
            DataType::Float64 => Self::Reals(column.as_primitive::<Float64Type>()),
            DataType::Utf8 => Self::Texts(column.as_string::<i32>()),
            DataType::Boolean => Self::Flags(column.as_boolean()),
            _ => Self::Other(column),
        }
    }

    /// All columns of a batch.
    pub fn all(batch: &'b RecordBatch) -> Vec<Self> {
        batch.columns().iter().map(|column| Self::new(column)).collect()
    }

    /// The column of a name, where the batch has it.
    pub fn named(batch: &'b RecordBatch, name: &str) -> Option<Self> {
        batch.column_by_name(name).map(|column| Self::new(column))
    }

    /// A whole number; None for NULL.
    pub fn int(self, row: usize) -> Option<i64> {
        match self {
            Self::Ints(column) => column.is_valid(row).then(|| column.value(row)),
            _ => None,
        }
    }

    /// A number; None for NULL.
    pub fn real(self, row: usize) -> Option<f64> {
        match self {
            Self::Reals(column) => column.is_valid(row).then(|| column.value(row)),
            _ => None,
        }
    }

    /// A text; None for NULL.
    pub fn text(self, row: usize) -> Option<&'b str> {
        match self {
            Self::Texts(column) => column.is_valid(row).then(|| column.value(row)),
            _ => None,
        }
    }

    /// Whether the cell says yes.
    pub fn flag(self, row: usize) -> bool {
        match self {
            Self::Flags(column) => column.is_valid(row) && column.value(row),
            _ => false,
        }
    }

    /// Adds a cell to arguments: a map by its keys, and nothing for NULL.
    pub fn add(self, args: &mut Vec<Arg<'b>>, name: &'b str, row: usize) {
        let value = match self {
            Self::Ints(_) => self.int(row).map(Value::Int),
            Self::Reals(_) => self.real(row).map(Value::Real),
            Self::Texts(_) => self.text(row).map(|text| Value::Text(text.into())),
            Self::Flags(column) => column.is_valid(row).then(|| Value::Flag(column.value(row))),
            Self::Other(column) if column.is_null(row) => None,
            Self::Other(column) => match json::value(column, row) {
                serde_json::Value::Object(members)
                    if matches!(column.data_type(), DataType::Map(..)) =>
                {
                    let key = |key: &str| Cow::Owned(format!("{name}.{key}"));
                    args.extend(members.iter().map(|(k, of)| (key(k), scalar(of))));
                    None
                }
                serde_json::Value::Null => None,
                other => Some(scalar(&other)),
            },
        };
        args.extend(value.map(|value| (name.into(), value)));
    }
}

/// A value of JSON; what is nested is text.
fn scalar(of: &serde_json::Value) -> Value<'static> {
    match of {
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            // An integer that does not fit would lose digits as a number with a point.
            None if !number.to_string().contains(['.', 'e', 'E']) => {
                Value::Text(number.to_string().into())
            }
            None => match number.as_f64().filter(|number| number.is_finite()) {
                Some(number) => Value::Real(number),
                None => Value::Text(number.to_string().into()),
            },
        },
        serde_json::Value::String(text) => Value::Text(text.clone().into()),
        other => Value::Text(other.to_string().into()),
    }
}
