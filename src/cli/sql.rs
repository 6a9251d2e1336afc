//! `sql`: ad-hoc statements on the tables.

use std::io::Read;

use arrow::array::RecordBatch;

use crate::cli::args::SqlArgs;
use crate::cli::context::Context;
use crate::cli::output::table_form_or;
use crate::cli::split::{Splitter, Task};
use crate::cli::statement::{asks, open_bare, plan, with_named};
use crate::cli::timeline;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::export::Form;
use crate::export::slices::Query;
use crate::report::grid::stream::Stream;
use crate::report::grid::table::table_of;
use crate::report::{Format, Grid};

/// Rows of a table that a terminal shows.
const TERMINAL_ROWS: usize = 1000;

/// Bytes that wait before they are written.
const PIECE: usize = 1 << 16;

/// Runs the command.
pub fn run(context: &Context, args: &SqlArgs) -> Result<()> {
    let format = table_form_or(context, "sql", &[Format::Perfetto, Format::Chrome])?;
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
        (None, None) => String::new(),
    };
    let statements = statements(&text)?;
    let several = statements.iter().filter(|sql| asks(sql)).count() > 1;
    if several && matches!(format, Format::Parquet | Format::Perfetto | Format::Chrome) {
        let what = if format == Format::Parquet { "a Parquet file" } else { "a timeline" };
        let message = format!("{what} holds one table, and several are asked for");
        return Err(
            Error::new("usage", message).hint("write each statement into a file of its own")
        );
    }
    let engine = open_bare(context, args.sandbox)?;
    if let Some(form) = timeline::form(format) {
        return slices(context, &engine, form, &statements);
    }
    let mut sink = Sink { context, format, several, results: 0, waiting: Vec::new(), open: true };
    for (i, sql) in statements.iter().enumerate() {
        let done = with_named(&engine, sql, || sink.statement(&engine, sql));
        if let Err(error) = done {
            // The results before the fault were asked for too.
            sink.end()?;
            return Err(match statements.len() {
                1 => error,
                n => error.at(format!("statement {} of {n}", i + 1)),
            });
        }
    }
    sink.end()
}

/// Writes the rows of the last of some statements as a timeline.
fn slices(context: &Context, engine: &Engine<'_>, form: Form, statements: &[String]) -> Result<()> {
    let (last, before) = statements.split_last().expect("there is a statement");
    for sql in before {
        engine.admit(sql)?;
        with_named(engine, sql, || Ok(engine.connection.execute_batch(sql)?))?;
    }
    engine.admit(last)?;
    let query = with_named(engine, last, || Query::run(engine, last))?;
    timeline::write(context, form, query.epoch_ns(), |sink| query.write(engine, sink))
        .map(|counts| timeline::note(context, &counts))
}

/// The statements of a text, without their semicolons.
fn statements(text: &str) -> Result<Vec<String>> {
    let mut splitter = Splitter::default();
    let mut items = splitter.feed(text);
    items.extend(splitter.finish());
    let statements: Vec<String> = items
        .into_iter()
        .map(|item| match item.task {
            Task::Statement(sql) => Ok(sql),
            Task::Command(line) => Err(Error::new("usage", format!("`{line}` is no SQL"))
                .hint("dot commands are those of `ccl-sql shell`")),
        })
        .collect::<Result<_>>()?;
    if statements.is_empty() {
        return Err(Error::new("usage", "there is no statement")
            .hint("ccl-sql sql \"SELECT ...\", or - to read standard input"));
    }
    Ok(statements)
}

/// The place of the results, one after the other.
struct Sink<'c> {
    context: &'c Context,
    format: Format,
    /// Whether more than one statement asks for rows.
    several: bool,
    results: usize,
    waiting: Vec<u8>,
    /// Whether anybody reads the results.
    open: bool,
}

impl Sink<'_> {
    /// Runs a statement and writes its rows.
    fn statement(&mut self, engine: &Engine<'_>, sql: &str) -> Result<()> {
        engine.admit(sql)?;
        let mut statement = engine.connection.prepare(sql)?;
        let mut batches = statement.stream_arrow([])?;
        let schema = batches.get_schema();
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        // The rows that DuckDB gives for a statement without a result are none of the user's data.
        if !asks(sql) && matches!(names[..], ["Count" | "Success"]) {
            for batch in batches {
                let grid = Grid::of_batches(vec![batch?]);
                if let (["Count"], [row]) = (&names[..], &grid.rows[..]) {
                    self.context.printer.note(&format!("rows: {}", row[0]));
                }
            }
            return Ok(());
        }
        self.begin();
        let empty = RecordBatch::new_empty(schema.clone());
        match self.format {
            Format::Table if names == ["explain_key", "explain_value"] => {
                let all = batches.collect::<Result<Vec<_>, _>>()?;
                self.waiting.extend(plan(&Grid::of_batches(all)).into_bytes());
            }
            Format::Table => {
                let limit = self.context.printer.width().map_or(usize::MAX, |_| TERMINAL_ROWS);
                let (kept, more) = first(&mut batches, limit)?;
                let kept = if kept.is_empty() { vec![empty] } else { kept };
                let layout = self.context.printer.layout();
                table_of(&kept, layout, &mut |piece| self.write(&piece))?;
                if more {
                    let note = format!("(the first {limit} rows; -o FILE.csv writes all)\n");
                    self.write(note.as_bytes())?;
                }
            }
            Format::Parquet => {
                let all = batches.collect::<Result<Vec<_>, _>>()?;
                let batches = if all.is_empty() { vec![empty] } else { all };
                let grid = Grid { batches, ..Grid::default() };
                self.waiting.extend(grid.bytes(Format::Parquet, usize::MAX)?);
            }
            format => {
                let mut stream = Stream::new(format);
                let head = stream.rows(&Grid::of_batches(vec![empty]))?;
                self.write(&head)?;
                for batch in batches {
                    let piece = stream.rows(&Grid::of_batches(vec![batch?]))?;
                    if !self.write(&piece)? {
                        return Ok(());
                    }
                }
                self.write(&stream.end())?;
            }
        }
        Ok(())
    }

    /// Writes the separator between a result and the one before.
    fn begin(&mut self) {
        match (self.format, self.results) {
            (Format::Json, 0) if self.several => self.waiting.extend(b"[\n"),
            (Format::Json, _) if self.several => self.waiting.extend(b",\n"),
            (Format::Table | Format::Csv | Format::Markdown, 1..) => self.waiting.push(b'\n'),
            _ => {}
        }
        self.results += 1;
    }

    /// Bytes on their way; false when nobody reads them. A file appears whole, at the end.
    fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        if self.open {
            self.waiting.extend(bytes);
            if self.waiting.len() > PIECE && !self.context.printer.writes_file() {
                self.open = self.context.printer.stdout(&std::mem::take(&mut self.waiting))?;
            }
        }
        Ok(self.open)
    }

    /// Writes the end of the output.
    fn end(&mut self) -> Result<()> {
        if self.several && self.format == Format::Json && self.results > 0 {
            self.write(b"]\n")?;
        }
        if self.results == 0 || !self.open {
            return Ok(());
        }
        self.context.printer.result(&std::mem::take(&mut self.waiting))
    }
}

/// The first rows of a result, and whether there are more.
fn first(
    batches: &mut dyn Iterator<Item = duckdb::Result<RecordBatch>>,
    limit: usize,
) -> Result<(Vec<RecordBatch>, bool)> {
    let mut out = Vec::new();
    let mut left = limit;
    for batch in batches {
        let batch = batch?;
        if batch.num_rows() > left {
            out.push(batch.slice(0, left));
            return Ok((out, true));
        }
        left -= batch.num_rows();
        out.push(batch);
    }
    Ok((out, false))
}
