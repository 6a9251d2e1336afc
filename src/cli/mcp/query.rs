//! The tool `sql`: rows of one statement, behind the sandbox, and within limits.

use std::mem::take;

use arrow::datatypes::{DataType, FieldRef};
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::mcp::answer::{Answer, size};
use crate::cli::mcp::calls::Call;
use crate::cli::statement::Session;
use crate::engine::{Engine, json};
use crate::error::{Error, Result};
use crate::registry::units::suffix;

/// Rows that are read where nobody says how many, and the most that may be.
const USUAL_ROWS: usize = 1_000;
const MOST_ROWS: usize = 10_000;

/// Bytes of JSON of all rows of a statement, whatever their pages.
const MOST_BYTES: usize = 4 << 20;

/// Bytes of the rows that DuckDB gives at a time: a value may be as large as the memory.
const MOST_BATCH: usize = 256 << 20;

/// Arguments of `sql`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Sql {
    /// One SELECT in the dialect of DuckDB
    query: String,
    /// Rows that are read at most [default: 1000, most: 10000]
    #[serde(default)]
    rows: Option<usize>,
}

/// What a statement gave.
#[derive(Default)]
struct Rows {
    columns: Vec<Value>,
    rows: Vec<Value>,
    bytes: usize,
    cut: Option<String>,
}

/// The rows of a statement.
pub fn sql(call: &Call<'_>, args: Sql) -> Result<Answer> {
    let most = args.rows.unwrap_or(USUAL_ROWS);
    if most == 0 || most > MOST_ROWS {
        return Err(Error::new("usage", format!("rows is 1 to {MOST_ROWS}"))
            .hint("aggregate in SQL, or go on with LIMIT and OFFSET"));
    }
    let session = Session::of(call.context, call.context.usable()?, true)?;
    let engine = &session.engine;
    let mut out = Rows::default();
    let done = session.with_named(&args.query, || read(engine, &args.query, most, &mut out));
    if let Err(error) = done {
        // What came in time is an answer, and says that it is not all.
        if call.stop.go_on().is_ok() || out.rows.is_empty() {
            return Err(error);
        }
        out.cut = Some(format!(
            "time is over after {} rows; order and limit in SQL, or ask for more seconds",
            out.rows.len()
        ));
    }
    let answer = Answer::list("rows", take(&mut out.rows)).with_each("columns", out.columns);
    Ok(match out.cut {
        Some(cut) => answer.cut(cut),
        None => answer,
    })
}

/// The name of a type in SQL, as `describe` has it; of a nested one that of Arrow.
fn kind(ty: &DataType) -> String {
    let name = match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Boolean => "BOOLEAN",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE",
        // Sums of integers.
        DataType::Decimal128(38, 0) => "HUGEINT",
        DataType::Map(..) => "MAP",
        DataType::Struct(_) => "STRUCT",
        DataType::List(_) => "LIST",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Reads rows until a limit.
fn read(engine: &Engine<'_>, query: &str, most: usize, out: &mut Rows) -> Result<()> {
    *out = Rows::default();
    engine.admit(query)?;
    let mut statement = engine.connection.prepare(query)?;
    let batches = statement.stream_arrow([])?;
    let schema = batches.get_schema();
    let column = |field: &FieldRef| {
        let unit = suffix(field.name());
        let mut column = json!({"name": field.name(), "type": kind(field.data_type())});
        if let Some(unit) = unit.filter(|_| field.data_type().is_numeric()) {
            column["unit"] = unit.into();
        }
        column
    };
    out.columns = schema.fields().iter().map(column).collect();
    for batch in batches {
        let batch = batch?;
        if batch.get_array_memory_size() > MOST_BATCH {
            return Err(Error::new("value-too-large", "the rows hold values that are too large")
                .hint("take a part of them: left(name, 200)"));
        }
        for row in 0..batch.num_rows() {
            if out.rows.len() == most {
                out.cut = Some(format!(
                    "only the first {most} rows were read, and there are more: aggregate in SQL, \
                     or ask for more rows"
                ));
                return Ok(());
            }
            let cells: Value = batch.columns().iter().map(|c| json::value(c, row)).collect();
            out.bytes += size(&cells);
            if out.bytes > MOST_BYTES && !out.rows.is_empty() {
                out.cut = Some(format!(
                    "only the first {} rows were read, which are {} MB: name fewer columns",
                    out.rows.len(),
                    MOST_BYTES >> 20
                ));
                return Ok(());
            }
            out.rows.push(cells);
        }
    }
    Ok(())
}
