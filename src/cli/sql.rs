//! `sql`: ad-hoc statements on the tables.

use std::io::{IsTerminal, Read};

use arrow::array::RecordBatch;

use crate::cli::args::SqlArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::table_form_or;
use crate::cli::progress;
use crate::cli::shape::unknown;
use crate::cli::split::{Splitter, Task};
use crate::cli::statement::{Session, asks, plan};
use crate::cli::timeline;
use crate::engine::Engine;
use crate::engine::types::short_type;
use crate::error::{Error, Result};
use crate::export::Form;
use crate::export::slices::Query;
use crate::report::grid::stream::Stream;
use crate::report::grid::table::table_of;
use crate::report::people::People;
use crate::report::{Format, Grid};

/// Rows of a table that a terminal shows.
const TERMINAL_ROWS: usize = 1000;

/// Bytes that wait before they are written.
const PIECE: usize = 1 << 16;

/// Runs the command.
pub fn run(context: &Context, args: &SqlArgs) -> Result<(), Errors> {
    let format = table_form_or(context, "sql", &[Format::Perfetto, Format::Chrome])?;
    if context.global.brief {
        return Err(Error::new("usage", "rows of SQL have no brief form")
            .hint("name the columns in the statement, or with --select")
            .into());
    }
    let text = match (&args.file, args.sql.as_deref()) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|e| crate::error::io(path, &e))?,
        (None, Some("-")) => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|e| Error::new("io", format!("cannot read standard input: {e}")))?;
            text
        }
        (None, sql) => sql.unwrap_or_default().to_owned(),
    };
    let statements = statements(&text)?;
    let several = statements.iter().filter(|sql| asks(sql)).count() > 1;
    if several && matches!(format, Format::Parquet | Format::Perfetto | Format::Chrome) {
        let what = if format == Format::Parquet { "a Parquet file" } else { "a timeline" };
        let message = format!("{what} holds one table, and several are asked for");
        return Err(Error::new("usage", message)
            .hint("write each statement into a file of its own")
            .into());
    }
    let session = Session::open(context, &args.trace, args.sandbox)?;
    if let Some(form) = timeline::form(format) {
        return Ok(slices(context, &session, form, &statements)?);
    }
    let mut sink = Sink {
        context,
        format,
        several,
        exact: args.exact,
        results: 0,
        waiting: Vec::new(),
        open: true,
    };
    for (i, sql) in statements.iter().enumerate() {
        let done = session.with_named(sql, || sink.statement(&session.engine, sql));
        if let Err(error) = done {
            // The results before the fault were asked for too.
            sink.end()?;
            return Err(match statements.len() {
                1 => error,
                n => error.at(format!("statement {} of {n}", i + 1)),
            }
            .into());
        }
    }
    Ok(sink.end()?)
}

/// Writes the rows of the last of some statements as a timeline.
fn slices(
    context: &Context,
    session: &Session<'_>,
    form: Form,
    statements: &[String],
) -> Result<()> {
    let engine = &session.engine;
    let (last, before) = statements.split_last().expect("there is a statement");
    for sql in before {
        engine.admit(sql)?;
        session.with_named(sql, || Ok(engine.connection.execute_batch(sql)?))?;
    }
    engine.admit(last)?;
    let query = session.with_named(last, || Query::run(engine, last))?;
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
    /// Whether numbers stand as they are on a terminal too.
    exact: bool,
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
        // Rows that run over the screen are progress enough.
        let is_shown = self.format == Format::Table || !std::io::stdout().is_terminal();
        let quiet = self.context.global.quiet || !is_shown;
        let progress = progress::query(engine.connection.progress_handle(), quiet);
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
            Format::Table if self.context.printer.width().is_some() => {
                let (kept, more) = first(&mut batches, TERMINAL_ROWS)?;
                let fields = schema.fields();
                let grid = Grid::of_batches(if kept.is_empty() { vec![empty] } else { kept });
                let people = People {
                    total: (!more).then_some(grid.rows.len()),
                    columns: grid.columns,
                    types: fields.iter().map(|f| short_type(f.data_type())).collect(),
                    head: grid.rows,
                    tail: Vec::new(),
                    exact: self.exact,
                };
                let mut text = people.write(self.context.printer.width());
                if more {
                    text.push_str("-o FILE.csv writes all\n");
                }
                drop(progress);
                self.write(text.as_bytes())?;
            }
            Format::Table => {
                let all = batches.collect::<Result<Vec<_>, _>>()?;
                let all = if all.is_empty() { vec![empty] } else { all };
                let layout = self.context.printer.layout();
                table_of(&all, layout, &mut |piece| self.write(&piece))?;
            }
            Format::Parquet => {
                let all = batches.collect::<Result<Vec<_>, _>>()?;
                let batches = if all.is_empty() { vec![empty] } else { all };
                let grid = Grid { batches, ..Grid::default() };
                self.waiting.extend(grid.bytes(Format::Parquet, usize::MAX)?);
            }
            format => {
                let columns = self.columns(&names)?;
                let mut left = self.context.global.limit.unwrap_or(usize::MAX);
                let mut stream = Stream::new(format);
                let head = stream.rows(&Grid::of_batches(vec![empty.project(&columns)?]))?;
                self.write(&head)?;
                for batch in batches {
                    let batch = batch?.project(&columns)?;
                    let more = batch.num_rows() > left;
                    let batch = if more { batch.slice(0, left) } else { batch };
                    left -= batch.num_rows();
                    let piece = stream.rows(&Grid::of_batches(vec![batch]))?;
                    if !self.write(&piece)? {
                        return Ok(());
                    }
                    if more {
                        let limit = self.context.global.limit.unwrap_or_default();
                        self.context.printer.note(&format!("note: the first {limit} rows"));
                        break;
                    }
                }
                self.write(&stream.end())?;
            }
        }
        Ok(())
    }

    /// Places of the columns that are wanted.
    fn columns(&self, names: &[&str]) -> Result<Vec<usize>> {
        let select = &self.context.global.select;
        if select.is_empty() {
            return Ok((0..names.len()).collect());
        }
        let known = || names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let place = |wanted: &String| {
            let place = names.iter().position(|name| *name == wanted.trim());
            place.ok_or_else(|| unknown(wanted.trim(), &known()))
        };
        select.iter().map(place).collect()
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
