//! The SQL functions in Rust: `interval_*` on `LIST(STRUCT(start_ns BIGINT, end_ns BIGINT))`,
//! `fold_stacks` on `LIST(STRUCT(name, start_ns, end_ns, calls, device_ns))` of BIGINT, and
//! `hockney_*` on `LIST(STRUCT(bytes DOUBLE, seconds DOUBLE))`, before which `hockney_fit_rings`
//! has `group_size BIGINT`; lists of other numbers are cast.
//!
//! NULL in, NULL out. Intervals are half-open; an empty list has length 0; an element that is NULL,
//! or whose start or end is NULL, holds no instant. A sample that is NULL, or whose size or time is
//! NULL, does not count; an empty list has no fit, and a flag that says so. A sample without
//! `group_size` is of no ring.

pub mod hockney;
pub mod interval;
pub mod stacks;

use std::error::Error as StdError;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Fields, Float64Type, Int64Type};
use arrow::error::ArrowError;
use duckdb::Connection;
use duckdb::vscalar::{ArrowFunctionSignature, VArrowScalar};

use self::hockney::{Fit, Sample};
use self::interval::Interval;
use self::stacks::{Frame, Node};

/// Name, arguments and meaning of each function, for `list functions`, `show` and completion.
pub const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("interval_union_ns", "(l) -> BIGINT", "length of the union of the intervals"),
    ("interval_union", "(l) -> LIST", "the union: sorted, disjoint intervals"),
    ("interval_overlap_ns", "(a, b) -> BIGINT", "length of what lies in both unions"),
    ("interval_intersect", "(a, b) -> LIST", "what lies in both unions"),
    ("interval_subtract_ns", "(a, b) -> BIGINT", "length of what lies in a and not in b"),
    ("interval_subtract", "(a, b) -> LIST", "what lies in a and not in b"),
    (
        "hockney_fit",
        "(l) -> STRUCT",
        "alpha and beta of seconds = alpha + beta x bytes, by least squares over the medians of the sizes",
    ),
    (
        "hockney_fit_ring",
        "(l, n) -> STRUCT",
        "the same for one step of a ring all-reduce over n ranks; n_half_bytes is of the whole message",
    ),
    (
        "hockney_fit_rings",
        "(l) -> LIST",
        "hockney_fit_ring of each group_size of l, by ascending group_size",
    ),
    (
        "fold_stacks",
        "(l) -> LIST",
        "the distinct call stacks of the frames of a thread: a node for each, a parent before its children",
    ),
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
    connection.register_scalar_function::<HockneyFit>("hockney_fit")?;
    connection.register_scalar_function::<HockneyFitRing>("hockney_fit_ring")?;
    connection.register_scalar_function::<HockneyFitRings>("hockney_fit_rings")?;
    connection.register_scalar_function::<FoldStacks>("fold_stacks")?;
    Ok(())
}

type Outcome = Result<Arc<dyn Array>, Box<dyn StdError>>;

fn fields(of: &[(&str, DataType)]) -> Fields {
    of.iter().map(|(name, ty)| Field::new(*name, ty.clone(), true)).collect()
}

fn list_of(fields: Fields) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(fields), true)))
}

fn interval_fields() -> Fields {
    fields(&[("start_ns", DataType::Int64), ("end_ns", DataType::Int64)])
}

fn list_type() -> DataType {
    list_of(interval_fields())
}

/// The pairs of numbers in the list of row `row`, without what is NULL; None where the list is.
fn row_pairs<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    row: usize,
) -> Option<Vec<(T::Native, T::Native)>> {
    let list: &ListArray = column.as_list();
    if list.is_null(row) {
        return None;
    }
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let elements = list.values().as_struct();
    let first = elements.column(0).as_primitive::<T>();
    let second = elements.column(1).as_primitive::<T>();
    let valid = |i: &usize| elements.is_valid(*i) && first.is_valid(*i) && second.is_valid(*i);
    Some((from..to).filter(valid).map(|i| (first.value(i), second.value(i))).collect())
}

/// The union of row `row`, or None where the list is NULL.
fn row_union(column: &ArrayRef, row: usize) -> Option<Vec<Interval>> {
    row_pairs::<Int64Type>(column, row).map(|mut intervals| interval::union(&mut intervals))
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
    list_array(values, sizes, valid)
}

/// Lists of so many of the values each; NULL where one is not valid.
fn list_array(values: StructArray, sizes: Vec<usize>, valid: Vec<bool>) -> Outcome {
    Ok(Arc::new(ListArray::try_new(
        Arc::new(Field::new_list_field(values.data_type().clone(), true)),
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

fn samples_type() -> DataType {
    list_of(fields(&[("bytes", DataType::Float64), ("seconds", DataType::Float64)]))
}

fn fit_fields() -> Fields {
    fields(&[
        ("alpha_s", DataType::Float64),
        ("beta_s_per_byte", DataType::Float64),
        ("bandwidth_bytes_per_s", DataType::Float64),
        ("n_half_bytes", DataType::Float64),
        ("r2", DataType::Float64),
        ("theil_sen_beta_s_per_byte", DataType::Float64),
        ("samples", DataType::Int64),
        ("sizes", DataType::Int64),
        ("flag", DataType::Utf8),
    ])
}

/// The samples of row `row`, or None where the list is NULL.
fn row_samples(input: &RecordBatch, row: usize) -> Option<Vec<Sample>> {
    row_pairs::<Float64Type>(input.column(0), row)
}

/// The fits as structs in the order of [`fit_fields`]. The parts of a NULL are NULL too: DuckDB
/// looks at them without asking for the whole.
fn structs(rows: &[Option<Fit>]) -> Result<StructArray, ArrowError> {
    let double = |of: fn(&Fit) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|r| r.as_ref().and_then(of)).collect::<Float64Array>())
    };
    let count = |of: fn(&Fit) -> usize| -> ArrayRef {
        let int = |r: &Option<Fit>| r.as_ref().and_then(|fit| i64::try_from(of(fit)).ok());
        Arc::new(rows.iter().map(int).collect::<Int64Array>())
    };
    let flags: StringArray =
        rows.iter().map(|r| r.as_ref().and_then(|fit| fit.flag.as_deref())).collect();
    let columns = vec![
        double(|fit| fit.alpha_s),
        double(|fit| fit.beta_s_per_byte),
        double(|fit| fit.bandwidth_bytes_per_s),
        double(|fit| fit.n_half_bytes),
        double(|fit| fit.r2),
        double(|fit| fit.theil_sen_beta_s_per_byte),
        count(|fit| fit.samples),
        count(|fit| fit.sizes),
        Arc::new(flags),
    ];
    let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    StructArray::try_new(fit_fields(), columns, Some(valid))
}

struct HockneyFit;

impl VArrowScalar for HockneyFit {
    type State = ();
    fn invoke(_: &(), input: RecordBatch) -> Outcome {
        let fit = |row| row_samples(&input, row).map(|samples| hockney::fit(&samples));
        Ok(Arc::new(structs(&(0..input.num_rows()).map(fit).collect::<Vec<_>>())?))
    }
    fn signatures() -> Vec<ArrowFunctionSignature> {
        vec![ArrowFunctionSignature::exact(vec![samples_type()], DataType::Struct(fit_fields()))]
    }
}

struct HockneyFitRing;

impl VArrowScalar for HockneyFitRing {
    type State = ();
    fn invoke(_: &(), input: RecordBatch) -> Outcome {
        let ranks = input.column(1).as_primitive::<Int64Type>();
        let fit = |row| {
            let samples = row_samples(&input, row)?;
            ranks.is_valid(row).then(|| hockney::fit_ring(&samples, ranks.value(row)))
        };
        Ok(Arc::new(structs(&(0..input.num_rows()).map(fit).collect::<Vec<_>>())?))
    }
    fn signatures() -> Vec<ArrowFunctionSignature> {
        let arguments = vec![samples_type(), DataType::Int64];
        vec![ArrowFunctionSignature::exact(arguments, DataType::Struct(fit_fields()))]
    }
}

fn ring_fields() -> Fields {
    fields(&[("group_size", DataType::Int64), ("fit", DataType::Struct(fit_fields()))])
}

/// The samples of row `row` with the size of their ring, or None where the list is NULL.
fn row_rings(input: &RecordBatch, row: usize) -> Option<Vec<(i64, Sample)>> {
    let list: &ListArray = input.column(0).as_list();
    if list.is_null(row) {
        return None;
    }
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let elements = list.values().as_struct();
    let ranks = elements.column(0).as_primitive::<Int64Type>();
    let number = |column: usize, i: usize| {
        let numbers = elements.column(column).as_primitive::<Float64Type>();
        // What is no number does not count, and its ring is one nevertheless.
        if numbers.is_valid(i) { numbers.value(i) } else { f64::NAN }
    };
    let valid = |i: &usize| elements.is_valid(*i) && ranks.is_valid(*i);
    let ring = |i| (ranks.value(i), (number(1, i), number(2, i)));
    Some((from..to).filter(valid).map(ring).collect())
}

struct HockneyFitRings;

impl VArrowScalar for HockneyFitRings {
    type State = ();
    fn invoke(_: &(), input: RecordBatch) -> Outcome {
        let (mut sizes, mut fits, mut counts, mut valid) = (vec![], vec![], vec![], vec![]);
        for row in 0..input.num_rows() {
            let rings = row_rings(&input, row).map(|samples| hockney::fit_rings(&samples));
            valid.push(rings.is_some());
            let rings = rings.unwrap_or_default();
            counts.push(rings.len());
            for (size, fit) in rings {
                sizes.push(size);
                fits.push(Some(fit));
            }
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(sizes)), Arc::new(structs(&fits)?)];
        let values = StructArray::try_new(ring_fields(), columns, None)?;
        list_array(values, counts, valid)
    }
    fn signatures() -> Vec<ArrowFunctionSignature> {
        let samples = fields(&[
            ("group_size", DataType::Int64),
            ("bytes", DataType::Float64),
            ("seconds", DataType::Float64),
        ]);
        vec![ArrowFunctionSignature::exact(vec![list_of(samples)], list_of(ring_fields()))]
    }
}

fn bigints(names: &[&str]) -> Fields {
    names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect()
}

fn node_fields() -> Fields {
    bigints(&[
        "node",
        "parent",
        "name",
        "depth",
        "calls",
        "total_ns",
        "self_ns",
        "device_ns",
        "device_total_ns",
    ])
}

/// The frames of row `row`, without those that lack a time or a name; None where the list is NULL.
fn row_frames(input: &RecordBatch, row: usize) -> Option<Vec<Frame>> {
    let list: &ListArray = input.column(0).as_list();
    if list.is_null(row) {
        return None;
    }
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let elements = list.values().as_struct();
    let columns: [&Int64Array; 5] =
        std::array::from_fn(|i| elements.column(i).as_primitive::<Int64Type>());
    let valid =
        |i: &usize| elements.is_valid(*i) && columns[..3].iter().all(|column| column.is_valid(*i));
    let or_none = |column: usize, i: usize| {
        if columns[column].is_valid(i) { columns[column].value(i) } else { 0 }
    };
    let frame = |i| Frame {
        name: columns[0].value(i),
        start_ns: columns[1].value(i),
        end_ns: columns[2].value(i),
        calls: or_none(3, i),
        device_ns: or_none(4, i),
    };
    Some((from..to).filter(valid).map(frame).collect())
}

struct FoldStacks;

impl VArrowScalar for FoldStacks {
    type State = ();
    fn invoke(_: &(), input: RecordBatch) -> Outcome {
        let (mut nodes, mut counts, mut valid) = (vec![], vec![], vec![]);
        for row in 0..input.num_rows() {
            let folded = row_frames(&input, row).map(|mut frames| stacks::fold(&mut frames));
            valid.push(folded.is_some());
            let folded = folded.unwrap_or_default();
            counts.push(folded.len());
            nodes.extend(folded.into_iter().enumerate());
        }
        let int = |of: fn(&(usize, Node)) -> Option<i64>| -> ArrayRef {
            Arc::new(nodes.iter().map(of).collect::<Int64Array>())
        };
        let place = |place: usize| i64::try_from(place).ok();
        let columns = vec![
            Arc::new(nodes.iter().map(|(at, _)| place(*at)).collect::<Int64Array>()) as ArrayRef,
            Arc::new(nodes.iter().map(|(_, n)| n.parent.and_then(place)).collect::<Int64Array>()),
            int(|(_, n)| Some(n.name)),
            Arc::new(nodes.iter().map(|(_, n)| place(n.depth)).collect::<Int64Array>()),
            int(|(_, n)| Some(n.calls)),
            int(|(_, n)| Some(n.total_ns)),
            int(|(_, n)| Some(n.self_ns)),
            int(|(_, n)| Some(n.device_ns)),
            int(|(_, n)| Some(n.device_total_ns)),
        ];
        let values = StructArray::try_new(node_fields(), columns, None)?;
        list_array(values, counts, valid)
    }
    fn signatures() -> Vec<ArrowFunctionSignature> {
        let frames = bigints(&["name", "start_ns", "end_ns", "calls", "device_ns"]);
        vec![ArrowFunctionSignature::exact(vec![list_of(frames)], list_of(node_fields()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVALS: &str = "STRUCT(start_ns BIGINT, end_ns BIGINT)[]";

    /// The texts of an expression over rows of arguments, each with its type.
    fn said(expression: &str, arguments: &[(&str, &str)], rows: &[&str]) -> Vec<String> {
        let connection = Connection::open_in_memory().expect("a database");
        register(&connection).expect("nothing has these names");
        let names: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        let of_type = |(name, ty): &(&str, &str)| format!("CAST({name} AS {ty}) AS {name}");
        let typed: Vec<String> = arguments.iter().map(of_type).collect();
        let numbered = |(n, row): (usize, &&str)| format!("({n}, {row})");
        let rows: Vec<String> = rows.iter().enumerate().map(numbered).collect();
        let query = format!(
            "SELECT coalesce(CAST({expression} AS VARCHAR), 'NULL') FROM (SELECT n, {} FROM \
             (VALUES {}) AS given(n, {})) ORDER BY n",
            typed.join(", "),
            rows.join(", "),
            names.join(", ")
        );
        let mut statement = connection.prepare(&query).expect("a query");
        let found = statement.query_map([], |row| row.get(0)).expect("it runs");
        found.map(|row| row.expect("a text")).collect()
    }

    #[test]
    fn intervals_of_each_row() {
        let rows = ["[(0, 10), (5, 20), NULL, (50, NULL), (NULL, 60)]", "NULL", "[]", "[(1, 3)]"];
        let of = |function: &str| said(&format!("{function}(l)"), &[("l", INTERVALS)], &rows);
        let (first, last) = ("[{'start_ns': 0, 'end_ns': 20}]", "[{'start_ns': 1, 'end_ns': 3}]");
        assert_eq!(of("interval_union"), [first, "NULL", "[]", last]);
        assert_eq!(of("interval_union_ns"), ["20", "NULL", "0", "2"]);
        let rows = ["[(0, 10)], [(4, 20)]", "NULL, [(4, 20)]", "[(0, 10)], NULL", "[(1, 3)], []"];
        let arguments = [("a", INTERVALS), ("b", INTERVALS)];
        let of = |function: &str| said(&format!("{function}(a, b)"), &arguments, &rows);
        let both = "[{'start_ns': 4, 'end_ns': 10}]";
        assert_eq!(of("interval_intersect"), [both, "NULL", "NULL", "[]"]);
        assert_eq!(of("interval_overlap_ns"), ["6", "NULL", "NULL", "0"]);
        let rest = "[{'start_ns': 0, 'end_ns': 4}]";
        assert_eq!(of("interval_subtract"), [rest, "NULL", "NULL", last]);
        assert_eq!(of("interval_subtract_ns"), ["4", "NULL", "NULL", "2"]);
    }

    #[test]
    fn fits_of_each_row() {
        // 4 s for a byte and 8 s for three: alpha 2, beta 2. As a ring of 2: 2 s for half a byte,
        // 4 s for one and a half.
        let rows =
            ["[(1, 4), (3, 8)], 2", "NULL, 2", "[(1, 4), (3, 8)], NULL", "[NULL, (NULL, 1)], 2"];
        let arguments = [("l", "STRUCT(bytes DOUBLE, seconds DOUBLE)[]"), ("ranks", "BIGINT")];
        let of = |fit: &str| {
            let names = fit_fields();
            let parts: Vec<String> = names.iter().map(|f| format!("{fit}.{}", f.name())).collect();
            said(&format!("concat_ws(' ', {})", parts.join(", ")), &arguments, &rows)
        };
        let line = "2.0 2.0 0.5 1.0 1.0 2.0 2 2 few_calls, two_sizes";
        assert_eq!(of("hockney_fit(l)"), [line, "", line, "0 0 no_samples"]);
        let ring = "1.0 2.0 0.5 1.0 1.0 2.0 2 2 few_calls, two_sizes";
        assert_eq!(of("hockney_fit_ring(l, ranks)"), [ring, "", "", "0 0 no_samples"]);
        let found = said("hockney_fit_ring(l, ranks) IS NULL", &arguments, &rows);
        assert_eq!(found, ["false", "true", "true", "false"]);
    }

    #[test]
    fn fits_of_the_rings_of_each_row() {
        // Of 4 ranks: 6 steps, each of a quarter.
        let rows = [
            "[(4, 8, 12), (4, 16, 18), NULL, (2, NULL, 1), (NULL, 1, 1)]",
            "NULL",
            "[]",
            "[(1, 1, 1)]",
        ];
        let arguments = [("l", "STRUCT(group_size BIGINT, bytes DOUBLE, seconds DOUBLE)[]")];
        let of = |part: &str| {
            let each = format!("list_transform(hockney_fit_rings(l), lambda ring: ring.{part})");
            said(&each, &arguments, &rows)
        };
        assert_eq!(of("group_size"), ["[2, 4]", "NULL", "[]", "[1]"]);
        assert_eq!(of("fit.alpha_s"), ["[NULL, 1.0]", "NULL", "[]", "[NULL]"]);
        assert_eq!(of("fit.beta_s_per_byte"), ["[NULL, 0.5]", "NULL", "[]", "[NULL]"]);
        assert_eq!(of("fit.samples"), ["[0, 2]", "NULL", "[]", "[1]"]);
        let first = "[no_samples, 'few_calls, two_sizes']";
        assert_eq!(of("fit.flag"), [first, "NULL", "[]", "[group_too_small]"]);
    }

    #[test]
    fn stacks_of_each_row() {
        let rows = [
            "[(1, 0, 10, 2, 5), NULL, (NULL, 0, 5, 1, 7), (8, NULL, 5, 1, 7), (8, 0, NULL, 1, 7), \
             (3, 2, 6, NULL, NULL)]",
            "NULL",
            "[]",
            "[(7, 1, 3, 1, 4)]",
        ];
        let frame = "STRUCT(name BIGINT, start_ns BIGINT, end_ns BIGINT, calls BIGINT, \
            device_ns BIGINT)[]";
        let names = node_fields();
        let parts: Vec<String> = names.iter().map(|f| format!("node.{}", f.name())).collect();
        let stack = format!("list_transform(fold_stacks(l), lambda node: [{}])", parts.join(", "));
        let folded = "[[0, NULL, 1, 1, 2, 10, 6, 5, 5], [1, 0, 3, 2, 0, 4, 4, 0, 0]]";
        let last = "[[0, NULL, 7, 1, 1, 2, 2, 4, 4]]";
        assert_eq!(said(&stack, &[("l", frame)], &rows), [folded, "NULL", "[]", last]);
    }
}
