//! Reads a trace, computes a metric, and asks the tables: answers are Arrow record batches.
//!
//! Run it with `cargo run --release --example quickstart -- TRACE`, where TRACE is a folder, as
//! `trace_collection/llama-tiny-fsdp2-tp2-4`.

#![allow(clippy::print_stdout, reason = "an example prints its answers")]

use std::error::Error;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a folder with a trace")?;
    let folder = std::env::temp_dir().join(format!("quickstart-{}", std::process::id()));
    let answers = answers(&folder, &path);
    std::fs::remove_dir_all(&folder).ok();
    let (results, batches) = answers?;

    // A row per trace and metric; a value that is NULL has a reason.
    for row in 0..results.num_rows() {
        let text = |column: &str| {
            let column = results.column_by_name(column).expect("it has the column");
            column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
        };
        let values = results.column_by_name("value").expect("it has a value");
        let value = values.as_primitive::<Float64Type>().value(row);
        let unit = text("unit").unwrap_or_default();
        match text("reason") {
            Some(reason) => println!("{}: {reason}", text("metric").unwrap_or_default()),
            None => println!("{}: {value} {unit}", text("metric").unwrap_or_default()),
        }
    }
    for batch in &batches {
        let kinds = batch.column(0).as_string::<i32>();
        let calls = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            println!("{}: {} calls", kinds.value(row), calls.value(row));
        }
    }
    Ok(())
}

/// Values of two metrics, and the calls of each collective.
fn answers(
    folder: &std::path::Path,
    path: &std::ffi::OsStr,
) -> ccl_sql::Result<(RecordBatch, Vec<RecordBatch>)> {
    let data = ccl_sql::open(folder);
    data.ingest(&[path], &[])?;
    let results = data.metric(&["coll_call_num", "avg_step_time"], &[])?;
    let batches = data.sql(
        "SELECT collective, count(*) AS calls FROM collective_calls \
         GROUP BY collective ORDER BY collective",
    )?;
    Ok((results, batches))
}
