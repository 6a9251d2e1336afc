//! `sql`: ad-hoc statements on the tables.

use std::io::Read;

use arrow::array::RecordBatch;

use super::Context;
use super::args::SqlArgs;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::report::Grid;

/// Runs the command.
pub fn run(context: &Context, args: &SqlArgs) -> Result<()> {
    let text = match (&args.sql, &args.file) {
        (_, Some(path)) => std::fs::read_to_string(path).map_err(|e| crate::error::io(path, &e))?,
        (Some(sql), None) if sql == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|e| Error::new("io", format!("cannot read standard input: {e}")))?;
            text
        }
        (Some(sql), None) => sql.clone(),
        (None, None) => return Err(Error::new("usage", "there is no statement")),
    };
    let engine = open(context, args.sandbox)?;
    context.printer.grid(&query(&engine, &text)?)
}

/// A connection on all traces, with every table and view.
pub fn open(context: &Context, sandbox: bool) -> Result<Engine<'_>> {
    let directories = context.directories(&context.store.traces())?;
    let engine = Engine::open(&directories, &context.registry, &context.settings())?;
    if sandbox {
        engine.lock_down()?;
    }
    engine.make_all()?;
    Ok(engine)
}

/// Runs the statements of a text; the result is that of the last one.
pub fn query(engine: &Engine<'_>, text: &str) -> Result<Grid> {
    engine.admit(text)?;
    let mut statement = engine.connection.prepare(text)?;
    let arrow = statement.query_arrow([])?;
    let schema = arrow.get_schema();
    let mut batches: Vec<RecordBatch> = arrow.collect();
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(Grid::of_batches(batches))
}
