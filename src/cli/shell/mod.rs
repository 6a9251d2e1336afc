//! `shell`: statements and dot commands, typed or piped in.
//!
//! Lines that are typed on a terminal are edited, kept in a history, coloured and completed. The
//! editing happens on the terminal itself, so that stdout stays for results. Ctrl-C stops a query.
//! Input that is piped in is read to its end without prompts. Either way an error is printed and
//! the shell goes on.

mod commands;
mod complete;
mod edit;
mod highlight;
mod output;
mod plot;

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use self::commands::{Command, Mode};
use self::output::{Kept, Look, Once, Output, Sink, open_output};
use crate::cli::args::{Format, MetricArgs, ProfileMode, ReadingArgs, ShellArgs};
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::metric_text::people;
use crate::cli::results::compute;
use crate::cli::split::{Item, Splitter, Task};
use crate::cli::statement::{Session, asks, plan};
use crate::cli::terminal::{columns, lines};
use crate::cli::{list, progress, select};
use crate::engine::interrupt;
use crate::error::{Error, Result, io};
use crate::report::grid::table::Layout;
use crate::report::{Grid, pretty};
use crate::sql_text::sql_name;

/// Rows of a table that are shown.
const MAX_ROWS: usize = 1000;

/// Files that read each other, one in the other.
const DEEPEST: usize = 16;

/// Rows of a nested table of a card.
const CARD_ROWS: usize = 20;

/// Runs the command.
///
/// # Errors
/// An empty list when the input was no terminal and something in it failed, which is printed
/// already. `usage` for the format Parquet, `output-exists`, and what opening the tables gives.
pub fn run(context: &Context, args: &ShellArgs) -> Result<(), Errors> {
    let global = &context.global;
    let mode = match global.format {
        None | Some(Format::Table) => Mode::Table,
        Some(Format::Json) => Mode::Json,
        Some(Format::Csv) => Mode::Csv,
        Some(Format::Md) => Mode::Markdown,
        Some(Format::Value) => Mode::Value,
        Some(Format::Parquet) => {
            return Err(Error::new("usage", "the shell does not print Parquet")
                .hint("write it in the shell: COPY (SELECT ...) TO 'FILE.parquet';")
                .into());
        }
        Some(_) => {
            return Err(Error::new("usage", "the shell prints tables only")
                .hint("--format table, json, csv, md or value")
                .into());
        }
    };
    let output = match global.output.as_deref().filter(|p| p.as_os_str() != "-") {
        Some(path) => open_output(path, global.force, "add --force")?,
        None => Output::Stdout,
    };
    let session = Session::open(context, &args.trace, args.sandbox)?;
    let interactive = std::io::stdin().is_terminal();
    let look = Look { mode, exact: args.exact, rows: MAX_ROWS, width: None, pager: true };
    let (once, sandbox) = (None, args.sandbox);
    let mut shell = Shell {
        context,
        chosen: (!args.trace.is_empty()).then(|| session.metrics.traces()),
        session,
        sink: Sink { context, output, once, look, sandbox, interactive, closed: false },
        timer: false,
        bail: false,
        colour: None,
        last: None,
        depth: 0,
        failed: false,
        done: false,
    };
    if interactive {
        return Ok(shell.edit()?);
    }
    shell.read()?;
    if shell.failed { Err(Errors::default()) } else { Ok(()) }
}

/// The state of a shell.
struct Shell<'c> {
    context: &'c Context,
    session: Session<'c>,
    /// The traces that were chosen; None for all.
    chosen: Option<Vec<String>>,
    sink: Sink<'c>,
    timer: bool,
    /// Whether the first error ends what is no terminal.
    bail: bool,
    /// Whether what is typed has colours, where the user said so.
    colour: Option<bool>,
    /// The last query, for `.plot`.
    last: Option<String>,
    /// Files that are being read.
    depth: usize,
    failed: bool,
    /// Whether the shell ends.
    done: bool,
}

impl Shell<'_> {
    /// Whether the shell ends: after `.quit`, or where nobody reads the results.
    fn done(&self) -> bool {
        self.done || self.sink.closed || self.failed && self.bail && !self.sink.interactive
    }

    /// Reads standard input to its end.
    fn read(&mut self) -> Result<()> {
        let mut input = std::io::stdin().lock();
        let mut splitter = Splitter::default();
        let mut line = Vec::new();
        while !self.done() {
            line.clear();
            let bytes = input
                .read_until(b'\n', &mut line)
                .map_err(|e| Error::new("io", format!("cannot read standard input: {e}")))?;
            if bytes == 0 {
                splitter.finish().into_iter().for_each(|item| self.item(&item, None));
                break;
            }
            let text = str::from_utf8(&line)
                .map_err(|_| Error::new("io", "standard input is no UTF-8 text"))?;
            for item in splitter.feed(text.strip_suffix('\n').unwrap_or(text)) {
                if !self.done() {
                    self.item(&item, None);
                }
            }
        }
        Ok(())
    }

    /// Runs the statements and commands of a file (`.read`).
    fn read_file(&mut self, path: &Path) -> Result<()> {
        if self.depth >= DEEPEST {
            return Err(Error::new("usage", "files read each other without an end")
                .at(path.display().to_string()));
        }
        let text = std::fs::read_to_string(path).map_err(|e| io(path, &e))?;
        let mut splitter = Splitter::default();
        let mut items = splitter.feed(&text);
        items.extend(splitter.finish());
        self.depth += 1;
        for item in &items {
            self.item(item, Some(path));
            if self.done() || self.context.interrupt.asked() {
                break;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Runs a statement or a command, and prints what goes wrong.
    fn item(&mut self, item: &Item, file: Option<&Path>) {
        let start = Instant::now();
        let reads = matches!(&item.task, Task::Command(line) if line.starts_with(".read"));
        let interrupt = self.context.interrupt.clone();
        // What a file holds begins and ends by itself.
        let running = (!reads).then(|| interrupt.begin());
        let outcome = match &item.task {
            Task::Statement(sql) => self.statement(sql).map_err(Errors::from),
            Task::Command(line) => self.command(line),
        };
        drop(running);
        for error in outcome.err().into_iter().flat_map(|errors| errors.0) {
            self.failed = true;
            let is_stopped = self.context.interrupt.asked() && error.code == "sql";
            let mut error = if is_stopped { interrupt::error() } else { error };
            match file {
                Some(path) => error = error.at(format!("{}, line {}", path.display(), item.line)),
                None if !self.sink.interactive => {
                    error = error.at(format!("standard input, line {}", item.line));
                }
                None => {}
            }
            self.context.printer.error(&error);
        }
        let timed = match &item.task {
            Task::Statement(_) => true,
            Task::Command(line) => [".run", ".metric "].iter().any(|c| line.starts_with(c)),
        };
        if self.timer && timed {
            let seconds = start.elapsed().as_secs_f64();
            self.context.printer.note(&format!("time: {seconds:.3} s"));
        }
    }

    /// The rows of a statement, of which so many are kept.
    fn fetch(&self, sql: &str, most: usize) -> Result<Kept> {
        let engine = &self.session.engine;
        self.session.with_named(sql, || {
            engine.admit(sql)?;
            let mut statement = engine.connection.prepare(sql)?;
            let quiet = self.context.global.quiet;
            let _progress = progress::query(engine.connection.progress_handle(), quiet);
            let stream = statement.stream_arrow([])?;
            let mut kept = Kept::new(stream.get_schema(), most);
            for batch in stream {
                kept.add(&batch?);
                if self.context.interrupt.asked() {
                    return Err(interrupt::error());
                }
            }
            Ok(kept)
        })
    }

    /// Runs a statement and prints its rows.
    fn statement(&mut self, sql: &str) -> Result<()> {
        let kept = self.fetch(sql, self.sink.most())?;
        let asks = asks(sql);
        if asks {
            self.last = Some(sql.to_owned());
        }
        let grid = kept.grid();
        // The rows that DuckDB gives for a statement without a result are none of the user's data.
        match (&grid.columns[..], &grid.rows[..]) {
            ([name], []) if !asks && (name == "Count" || name == "Success") => return Ok(()),
            ([name], [row]) if !asks && name == "Count" => {
                self.context.printer.note(&format!("rows: {}", row[0]));
                return Ok(());
            }
            _ => {}
        }
        let is_plan = grid.columns == ["explain_key", "explain_value"];
        if is_plan && matches!(self.sink.mode(), Mode::Table | Mode::Box) {
            return self.sink.write(plan(&grid).as_bytes());
        }
        self.sink.rows(&kept)
    }

    /// Runs a dot command.
    fn command(&mut self, line: &str) -> Result<(), Errors> {
        let context = self.context;
        match commands::parse(line)? {
            Command::Tables(pattern) => {
                let tables = commands::tables(context, &self.session.engine, pattern.as_deref())?;
                self.sink.grid(&tables)?;
            }
            Command::Schema(name) => {
                let engine = &self.session.engine;
                match name.as_deref() {
                    None => self.session.make_all()?,
                    Some(name) if commands::is_known(context, name) => engine.make(name)?,
                    Some(_) => {}
                }
                self.sink.grid(&commands::columns(context, engine, name.as_deref())?)?;
            }
            Command::Metrics(pattern) => {
                self.sink.grid(&commands::metrics(context, pattern.as_deref())?)?;
            }
            Command::Traces => {
                let shown = self.session.metrics.traces();
                self.sink.grid(&commands::traces(context, &shown))?;
            }
            Command::Use(words) => self.choose(&words)?,
            Command::Run { name, params, trace } => self.metric(name, params, trace)?,
            Command::Plot(names) => self.plot(names)?,
            Command::Read(_) if self.sink.sandbox => return Err(forbidden(".read", "reads").into()),
            Command::Read(path) => self.read_file(&path)?,
            Command::Show(name) => {
                let text = match list::definition(context, &name) {
                    Ok(text) => text,
                    Err(error) => match commands::own_definition(&self.session.engine, &name) {
                        Ok(Some(sql)) => sql + "\n",
                        _ => return Err(error.into()),
                    },
                };
                self.sink.write(text.as_bytes())?;
            }
            Command::Output { file: Some(_), .. } if self.sink.sandbox => {
                return Err(forbidden(".output", "writes").into());
            }
            Command::Once { .. } if self.sink.sandbox => {
                return Err(forbidden(".once", "writes").into());
            }
            Command::Once { file, force } => self.sink.once = Some(Once { path: file, force }),
            Command::Output { file: None, .. } => self.sink.output = Output::Stdout,
            Command::Output { file: Some(path), force } => {
                let consent = format!("say `.output --force {}`", path.display());
                self.sink.output = open_output(&path, force, &consent)?;
            }
            Command::Help(word) => {
                self.sink.write(commands::help(word.as_deref())?.as_bytes())?;
            }
            Command::Print(text) => self.sink.write(format!("{text}\n").as_bytes())?,
            Command::Quit => self.done = true,
            setting => self.set(setting),
        }
        Ok(())
    }

    /// Changes a setting, or says what it is.
    fn set(&mut self, setting: Command) {
        let on = |on: bool| if on { "on" } else { "off" };
        let look = &mut self.sink.look;
        let said = match setting {
            Command::Mode(Some(mode)) => return look.mode = mode,
            Command::MaxRows(Some(rows)) => return look.rows = rows,
            Command::MaxWidth(Some(width)) => return look.width = (width > 0).then_some(width),
            Command::Bail(Some(on)) => return self.bail = on,
            Command::Timer(Some(on)) => return self.timer = on,
            Command::Exact(Some(on)) => return look.exact = on,
            Command::Pager(Some(on)) => return look.pager = on,
            Command::Highlight(Some(on)) => return self.colour = Some(on),
            Command::Mode(None) => format!("the mode is {}", look.mode.name()),
            Command::MaxRows(None) => format!("a table shows {} rows", look.rows),
            Command::MaxWidth(None) => match look.width {
                Some(width) => format!("a table is {width} columns wide"),
                None => "a table is as wide as the terminal".to_owned(),
            },
            Command::Bail(None) => format!("to end at an error is {}", on(self.bail)),
            Command::Timer(None) => format!("the timer is {}", on(self.timer)),
            Command::Exact(None) => format!("exact numbers are {}", on(look.exact)),
            Command::Pager(None) => format!("the pager is {}", on(look.pager)),
            Command::Highlight(None) => {
                let is_on = self.colour.unwrap_or(self.context.printer.colours());
                format!("colours are {}", on(is_on))
            }
            other => unreachable!("{other:?} is no setting"),
        };
        self.context.printer.note(&said);
    }

    /// Shows some traces only, or all again (`.use`).
    fn choose(&mut self, words: &[String]) -> Result<(), Errors> {
        let traces = match words {
            [] => self.context.usable()?,
            // A path is ingested first, and that reads files.
            words if self.sink.sandbox => select::by_name(self.context, words)?,
            words => select::traces(self.context, words, &ReadingArgs::default())?,
        };
        self.session.show(&traces)?;
        self.chosen = (!words.is_empty()).then_some(traces);
        if let Some(traces) = &self.chosen {
            self.context.printer.note(&format!("traces: {}", traces.join(", ")));
        }
        Ok(())
    }

    /// Draws two columns of the last query (`.plot`).
    fn plot(&mut self, names: Option<(String, String)>) -> Result<()> {
        let Some(sql) = self.last.clone() else {
            return Err(Error::new("usage", "there is no query yet whose columns could be drawn")
                .hint("SELECT ...; and then .plot X Y"));
        };
        let chosen = names
            .as_ref()
            .map_or("*".to_owned(), |(x, y)| format!("{} AS x, {} AS y", sql_name(x), sql_name(y)));
        let sql = format!("SELECT {chosen} FROM ({sql}) LIMIT {}", plot::MOST_POINTS);
        let grid = self.fetch(&sql, plot::MOST_POINTS)?.grid();
        let (x, y) = match &names {
            Some(_) => (0, 1),
            None => drawable(&grid)?,
        };
        let rows: Vec<(Value, Value)> =
            grid.rows.iter().map(|row| (row[x].clone(), row[y].clone())).collect();
        let width = self.sink.width().unwrap_or(100);
        let height = match columns(std::io::stdout()) {
            Some(_) => lines(std::io::stdout()).unwrap_or(24).saturating_sub(6).clamp(6, 30),
            None => 20,
        };
        let names = match &names {
            Some((x, y)) => (x.as_str(), y.as_str()),
            None => (grid.columns[x].as_str(), grid.columns[y].as_str()),
        };
        let text = plot::plot(names, &rows, (width, height))?;
        self.sink.write(text.as_bytes())
    }

    /// A metric of the traces shown, as the command `metric` has it.
    fn metric(
        &mut self,
        name: String,
        param: Vec<(String, String)>,
        trace: Vec<String>,
    ) -> Result<(), Errors> {
        let trace = match trace.is_empty() {
            true => self.chosen.clone().unwrap_or_default(),
            false if self.sink.sandbox => select::by_name(self.context, &trace)?,
            false => trace,
        };
        let args = MetricArgs {
            engine: None,
            names: vec![name],
            all: false,
            label: false,
            exact: self.sink.look.exact,
            trace,
            param,
            n_chips: None,
            model_params: None,
            profile_mode: ProfileMode::Auto,
            reading: ReadingArgs::default(),
        };
        let results = compute(self.context, &args)?;
        let mode = self.sink.mode();
        if mode == Mode::Json {
            self.sink.write(&pretty(&results.json()))?;
        } else if results.answered() {
            let width = self.sink.width();
            match mode {
                Mode::Table | Mode::Box if width.is_some() => {
                    let layout = Layout { width, rows: Some(CARD_ROWS) };
                    self.sink.write(people(&results, layout, args.exact).as_bytes())?;
                }
                _ => self.sink.grid(&results.grid()?)?,
            }
        }
        Errors(results.errors).result()
    }
}

/// The error of a command that a sandbox has none of.
fn forbidden(command: &str, does: &str) -> Error {
    Error::new("usage", format!("`{command}` {does} a file, which --sandbox forbids"))
}

/// The columns of a plot that names none: the first, and the first number behind it.
fn drawable(grid: &Grid) -> Result<(usize, usize)> {
    let is_number = |i: &usize| grid.rows.iter().any(|row| row[*i].is_number());
    let y = (1..grid.columns.len()).find(is_number);
    y.map(|y| (0, y)).ok_or_else(|| {
        Error::new("usage", "the last query has no two columns that could be drawn")
            .hint("a plot is of a column and a number behind it: .plot X Y")
    })
}
