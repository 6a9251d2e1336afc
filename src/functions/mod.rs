//! The SQL functions in Rust: `interval_*` on `LIST(STRUCT(start_ns BIGINT, end_ns BIGINT))`.
//!
//! Half-open intervals; NULL in, NULL out; an empty list has length 0. An element that is NULL, or
//! whose start or end is NULL, holds no instant.

pub mod interval;

use std::error::Error as StdError;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use duckdb::Connection;
use duckdb::vscalar::{ArrowFunctionSignature, VArrowScalar};

use self::interval::Interval;

/// Name, arguments and meaning of each function, for `list functions`, `show` and completion.
pub const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("interval_union_ns", "(l) -> BIGINT", "length of the union of the intervals"),
    ("interval_union", "(l) -> LIST", "the union: sorted, disjoint intervals"),
    ("interval_overlap_ns", "(a, b) -> BIGINT", "length of what lies in both unions"),
    ("interval_intersect", "(a, b) -> LIST", "what lies in both unions"),
    ("interval_subtract_ns", "(a, b) -> BIGINT", "length of what lies in a and not in b"),
    ("interval_subtract", "(a, b) -> LIST", "what lies in a and not in b"),
];

/// Registers every function of [`FUNCTIONS`] with a connection.
///
/// # Errors
/// `sql` when DuckDB refuses a registration.
pub fn register(connection: &Connection) -> crate::error::Result<()> {
    connection.register_scalar_function::<UnionNs>("interval_union_ns")?;
    connection.register_scalar_function::<Union>("interval_union")?;
    connection.register_scalar_function::<OverlapNs>("interval_overlap_ns")?;
    connection.register_scalar_function::<Intersect>("interval_intersect")?;
    connection.register_scalar_function::<SubtractNs>("interval_subtract_ns")?;
    connection.register_scalar_function::<Subtract>("interval_subtract")?;
    Ok(())
}

type Outcome = Result<Arc<dyn Array>, Box<dyn StdError>>;

fn interval_fields() -> Fields {
    Fields::from(vec![
        Field::new("start_ns", DataType::Int64, true),
        Field::new("end_ns", DataType::Int64, true),
    ])
}

fn list_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(interval_fields()), true)))
}

/// The union of row `row`, or None where the list is NULL.
fn row_union(column: &ArrayRef, row: usize) -> Option<Vec<Interval>> {
    let list: &ListArray = column.as_list();
    if list.is_null(row) {
        return None;
    }
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let elements = list.values().as_struct();
    let starts = elements.column(0).as_primitive::<Int64Type>();
    let ends = elements.column(1).as_primitive::<Int64Type>();
    let mut intervals: Vec<Interval> = (from..to)
        .filter(|&i| elements.is_valid(i) && starts.is_valid(i) && ends.is_valid(i))
        .map(|i| (starts.value(i), ends.value(i)))
        .collect();
    Some(interval::union(&mut intervals))
}

fn lengths(rows: impl Iterator<Item = Option<Vec<Interval>>>) -> Outcome {
    Ok(Arc::new(rows.map(|r| r.map(|l| interval::length(&l))).collect::<Int64Array>()))
}

fn lists(rows: impl Iterator<Item = Option<Vec<Interval>>>) -> Outcome {
    let (mut starts, mut ends, mut valid, mut sizes) = (vec![], vec![], vec![], vec![]);
    for row in rows {
        valid.push(row.is_some());
        let row = row.unwrap_or_default();
        sizes.push(row.len());
        for (start, end) in row {
            starts.push(start);
            ends.push(end);
        }
    }
    let values = StructArray::new(
        interval_fields(),
        vec![Arc::new(Int64Array::from(starts)), Arc::new(Int64Array::from(ends))],
        None,
    );
    let DataType::List(field) = list_type() else { unreachable!("list_type is a list") };
    Ok(Arc::new(ListArray::try_new(
        field,
        OffsetBuffer::from_lengths(sizes),
        Arc::new(values),
        Some(NullBuffer::from(valid)),
    )?))
}

/// Unions of one list column, row by row.
fn one(input: &RecordBatch) -> impl Iterator<Item = Option<Vec<Interval>>> + '_ {
    (0..input.num_rows()).map(|row| row_union(input.column(0), row))
}

/// `operation` on the unions of two list columns, row by row.
fn two(
    input: &RecordBatch,
    operation: fn(&[Interval], &[Interval]) -> Vec<Interval>,
) -> impl Iterator<Item = Option<Vec<Interval>>> + '_ {
    (0..input.num_rows()).map(move |row| {
        let a = row_union(input.column(0), row)?;
        let b = row_union(input.column(1), row)?;
        Some(operation(&a, &b))
    })
}

macro_rules! interval_function {
    ($name:ident, $arguments:expr, $result:expr, $body:expr) => {
        struct $name;
        impl VArrowScalar for $name {
            type State = ();
            fn invoke(_: &(), input: RecordBatch) -> Outcome {
                let body: fn(&RecordBatch) -> Outcome = $body;
                body(&input)
            }
            fn signatures() -> Vec<ArrowFunctionSignature> {
                vec![ArrowFunctionSignature::exact(vec![list_type(); $arguments], $result)]
            }
        }
    };
}

interval_function!(UnionNs, 1, DataType::Int64, |input| lengths(one(input)));
interval_function!(Union, 1, list_type(), |input| lists(one(input)));
interval_function!(OverlapNs, 2, DataType::Int64, |input| lengths(two(input, interval::intersect)));
interval_function!(Intersect, 2, list_type(), |input| lists(two(input, interval::intersect)));
interval_function!(SubtractNs, 2, DataType::Int64, |input| lengths(two(input, interval::subtract)));
interval_function!(Subtract, 2, list_type(), |input| lists(two(input, interval::subtract)));
