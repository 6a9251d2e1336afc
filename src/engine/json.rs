//! Values of a result as JSON: integers as numbers, STRUCT and MAP as objects, LIST as array.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Number, Value};

/// The value of a cell.
pub fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! number {
        ($ty:ty) => {
            Value::from(array.as_primitive::<$ty>().value(row))
        };
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Decimal128(_, 0) => {
            let text = array.as_primitive::<Decimal128Type>().value(row).to_string();
            // Sums of BIGINT come as HUGEINT: an integer, however long.
            text.parse::<Number>().map_or(Value::String(text), Value::Number)
        }
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            let text = display(array, row);
            text.parse::<Number>().map_or(Value::String(text), Value::Number)
        }
        DataType::Utf8 => Value::String(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Value::String(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Value::String(array.as_string_view().value(row).to_owned()),
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            Value::Object(
                fields
                    .iter()
                    .zip(columns.columns())
                    .map(|(f, c)| (f.name().clone(), value(c, row)))
                    .collect(),
            )
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let mut out = Map::new();
            for i in 0..entries.len() {
                let key = match value(keys, i) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                out.insert(key, value(values, i));
            }
            Value::Object(out)
        }
        DataType::Dictionary(..) => {
            let any = array.as_any_dictionary();
            value(any.values(), any.normalized_keys()[row])
        }
        _ => Value::String(display(array, row)),
    }
}

fn list(elements: &dyn Array) -> Value {
    Value::Array((0..elements.len()).map(|i| value(elements, i)).collect())
}

fn display(array: &dyn Array, row: usize) -> String {
    ArrayFormatter::try_new(array, &FormatOptions::default())
        .map_or_else(|_| String::new(), |f| f.value(row).to_string())
}

/// The rows of a result as objects, in the order of the columns.
pub fn rows(batches: &[RecordBatch]) -> Vec<Map<String, Value>> {
    let mut out = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            out.push(
                schema
                    .fields()
                    .iter()
                    .zip(batch.columns())
                    .map(|(f, c)| (f.name().clone(), value(c, row)))
                    .collect(),
            );
        }
    }
    out
}
