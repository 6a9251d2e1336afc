//! Cells of Arrow batches, as DuckDB gives them.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::engine::json;
use crate::export::timeline::{Arg, Value};

/// A whole number; None for NULL.
pub fn int(column: &dyn Array, row: usize) -> Option<i64> {
    let column = column.as_primitive_opt::<Int64Type>()?;
    column.is_valid(row).then(|| column.value(row))
}

/// A text; None for NULL.
pub fn text(column: &dyn Array, row: usize) -> Option<&str> {
    match column.data_type() {
        _ if column.is_null(row) => None,
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        _ => None,
    }
}

/// The numbers of a list; none for NULL.
pub fn ints(column: &dyn Array, row: usize) -> Vec<u64> {
    let Some(lists) = column.as_list_opt::<i32>().filter(|lists| lists.is_valid(row)) else {
        return Vec::new();
    };
    let list = lists.value(row);
    (0..list.len()).filter_map(|i| int(&*list, i)).map(i64::cast_unsigned).collect()
}

/// Adds a cell to arguments: a map by its keys, and nothing for NULL.
pub fn add<'a>(args: &mut Vec<Arg<'a>>, name: &'a str, column: &'a dyn Array, row: usize) {
    if column.is_null(row) {
        return;
    }
    let value = match column.data_type() {
        DataType::Int64 => Value::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Value::Real(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::Flag(column.as_boolean().value(row)),
        _ => match text(column, row) {
            Some(text) => Value::Text(text.into()),
            None => match json::value(column, row) {
                serde_json::Value::Object(members)
                    if matches!(column.data_type(), DataType::Map(..)) =>
                {
                    args.extend(members.iter().map(|(key, of)| {
                        (Cow::Owned(format!("{name}.{key}")), scalar(of))
                    }));
                    return;
                }
                other => scalar(&other),
            },
        },
    };
    args.push((name.into(), value));
}

/// A value of JSON; what is nested is text.
fn scalar(of: &serde_json::Value) -> Value<'static> {
    match of {
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) if number.is_finite() => Value::Real(number),
            _ => Value::Text(number.to_string().into()),
        },
        serde_json::Value::String(text) => Value::Text(text.clone().into()),
        other => Value::Text(other.to_string().into()),
    }
}

/// A column by its name, where the batch has it.
pub fn column<'b>(batch: &'b RecordBatch, name: &str) -> Option<&'b dyn Array> {
    batch.column_by_name(name).map(|column| &**column)
}
