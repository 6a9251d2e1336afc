//! `shell`: statements and dot commands, typed or piped in.
//!
//! Lines that are typed on a terminal are edited, kept in a history, and completed. The editing
//! happens on the terminal itself, so that stdout stays for results. Ctrl-C stops a query. Input
//! that is piped in is read to its end without prompts. Either way an error is printed and the
//! shell goes on.
//!
//! A result file (`.output`) grows by every result, so unlike other files it does not appear whole.

mod commands;
mod complete;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::RecordBatch;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Behavior, CompletionType, Config, Editor};

use self::commands::{Command, Mode};
use self::complete::{Assistant, Names};
use crate::cli::args::{Format, MetricArgs, ProfileMode, ReadingArgs, ShellArgs, What};
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::list;
use crate::cli::results::compute;
use crate::cli::split::{Item, Splitter, Task};
use crate::cli::statement::{asks, begins_with, open, plan};
use crate::cli::terminal::printable;
use crate::engine::{Engine, interrupt};
use crate::error::{Error, Result, io};
use crate::report::{Format as Form, Grid, pretty};

/// Rows of a table that are shown.
const MAX_ROWS: usize = 1000;

/// Longest cell of a table, in columns of the terminal; other forms never cut.
const MAX_CELL: usize = 72;

/// Lines that the history keeps.
const MAX_HISTORY: usize = 2000;

const PROMPT: &str = "ccl-sql> ";
const CONTINUATION: &str = "    ...> ";

/// Statements that change what Tab offers begin with one of these.
const CHANGES_NAMES: &[&str] =
    &["CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "USE", "IMPORT", "ROLLBACK", "COMMIT"];

/// The place of results.
enum Output {
    Stdout,
    File { file: File, path: PathBuf },
}

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
        Some(Format::Value) => Mode::Value,
        Some(Format::Parquet) => {
            return Err(Error::new("usage", "the shell does not print Parquet")
                .hint("write it in the shell: COPY (SELECT ...) TO 'FILE.parquet';")
                .into());
        }
        Some(_) => {
            return Err(Error::new("usage", "the shell prints tables only")
                .hint("--format table, json, csv or value")
                .into());
        }
    };
    let output = match global.output.as_deref().filter(|p| p.as_os_str() != "-") {
        Some(path) => open_output(path, global.force, "add --force")?,
        None => Output::Stdout,
    };
    let mut shell = Shell {
        context,
        engine: open(context, args.sandbox)?,
        mode,
        output,
        timer: false,
        sandbox: args.sandbox,
        interactive: std::io::stdin().is_terminal(),
        failed: false,
        done: false,
    };
    if shell.interactive {
        return Ok(shell.edit()?);
    }
    shell.read()?;
    if shell.failed { Err(Errors::default()) } else { Ok(()) }
}

/// A file for results.
fn open_output(path: &Path, force: bool, consent: &str) -> Result<Output> {
    let mut options = OpenOptions::new();
    if force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    match options.open(path) {
        Ok(file) => Ok(Output::File { file, path: path.to_owned() }),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Err(Error::new("output-exists", "the output file is there already")
                .at(path.display().to_string())
                .hint(format!("{consent} to write over it")))
        }
        Err(e) => Err(io(path, &e)),
    }
}

/// The state of a shell.
struct Shell<'c> {
    context: &'c Context,
    engine: Engine<'c>,
    mode: Mode,
    output: Output,
    timer: bool,
    sandbox: bool,
    interactive: bool,
    failed: bool,
    /// Whether the shell ends: after `.quit`, or where nobody reads the results.
    done: bool,
}

impl Shell<'_> {
    /// Reads standard input to its end.
    fn read(&mut self) -> Result<()> {
        let mut input = std::io::stdin().lock();
        let mut splitter = Splitter::default();
        let mut line = Vec::new();
        while !self.done {
            line.clear();
            let bytes = input
                .read_until(b'\n', &mut line)
                .map_err(|e| Error::new("io", format!("cannot read standard input: {e}")))?;
            if bytes == 0 {
                splitter.finish().into_iter().for_each(|item| self.item(&item));
                break;
            }
            let text = str::from_utf8(&line)
                .map_err(|_| Error::new("io", "standard input is no UTF-8 text"))?;
            for item in splitter.feed(text.strip_suffix('\n').unwrap_or(text)) {
                if !self.done {
                    self.item(&item);
                }
            }
        }
        Ok(())
    }

    /// Reads what is typed.
    fn edit(&mut self) -> Result<()> {
        let fault = |e: ReadlineError| Error::new("io", format!("cannot use the terminal: {e}"));
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .max_history_size(MAX_HISTORY)
            .map_err(fault)?
            .build();
        let mut editor: Editor<Assistant, DefaultHistory> =
            Editor::with_config(config).map_err(fault)?;
        let mut names = Names::new(&self.context.registry);
        names.add_functions(&self.engine);
        editor.set_helper(Some(Assistant::new(names, !self.sandbox)));
        let history = history_file();
        if let Some(path) = &history {
            // There is none yet the first time; one that cannot be read is as good as none.
            let _ = editor.load_history(path);
        }
        self.listen()?;
        if self.context.store.traces().is_empty() {
            self.context.printer.note("there are no traces yet: ccl-sql ingest PATH");
        }
        let mut splitter = Splitter::default();
        let mut typed: Vec<String> = Vec::new();
        while !self.done {
            if let Some(assistant) = editor.helper_mut() {
                assistant.input = splitter.clone();
            }
            let prompt = if splitter.is_idle() { PROMPT } else { CONTINUATION };
            let line = match editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {
                    splitter.clear();
                    typed.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(e) => return Err(fault(e)),
            };
            let items = splitter.feed(&line);
            typed.push(line);
            if splitter.is_idle() {
                let entry = std::mem::take(&mut typed).join("\n");
                if !entry.trim().is_empty() {
                    let kept = editor.add_history_entry(entry.trim_end());
                    if let (Ok(true), Some(path)) = (kept, &history) {
                        // Losing a line of the history is no reason to stop.
                        let _ = editor.append_history(path);
                    }
                }
            }
            for item in &items {
                self.item(item);
                if self.done || self.context.interrupt.asked() {
                    break;
                }
            }
            let changed = |item: &Item| match &item.task {
                Task::Statement(sql) => begins_with(sql, CHANGES_NAMES),
                Task::Command(_) => false,
            };
            if items.iter().any(changed)
                && let Some(assistant) = editor.helper_mut()
            {
                assistant.names.refresh(&self.engine);
            }
        }
        Ok(())
    }

    /// Ctrl-C stops a query from now on, and not the shell. At the prompt it comes as a key.
    fn listen(&self) -> Result<()> {
        let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT])
            .map_err(|e| Error::new("io", format!("cannot listen for Ctrl-C: {e}")))?;
        let interrupt = self.context.interrupt.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                interrupt.ask();
            }
        });
        Ok(())
    }

    /// Runs a statement or a command, and prints what goes wrong.
    fn item(&mut self, item: &Item) {
        let start = Instant::now();
        let running = self.context.interrupt.begin();
        let outcome = match &item.task {
            Task::Statement(sql) => self.statement(sql).map_err(Errors::from),
            Task::Command(line) => self.command(line),
        };
        drop(running);
        for error in outcome.err().into_iter().flat_map(|errors| errors.0) {
            self.failed = true;
            let is_stopped = self.context.interrupt.asked() && error.code == "sql";
            let mut error = if is_stopped { interrupt::error() } else { error };
            if !self.interactive {
                error = error.at(format!("standard input, line {}", item.line));
            }
            self.context.printer.error(&error);
        }
        let timed = match &item.task {
            Task::Statement(_) => true,
            Task::Command(line) => line.starts_with(".run"),
        };
        if self.timer && timed {
            let seconds = start.elapsed().as_secs_f64();
            self.context.printer.note(&format!("time: {seconds:.3} s"));
        }
    }

    /// Runs a statement and prints its rows.
    fn statement(&mut self, sql: &str) -> Result<()> {
        self.engine.admit(sql)?;
        let mut statement = self.engine.connection.prepare(sql)?;
        let stream = statement.stream_arrow([])?;
        let schema = stream.get_schema();
        let most = if self.mode == Mode::Table { MAX_ROWS } else { usize::MAX };
        let (mut rows, mut kept) = (0, 0);
        let mut batches = Vec::new();
        for batch in stream {
            let batch = batch?;
            rows += batch.num_rows();
            let wanted = batch.num_rows().min(most - kept);
            if wanted > 0 {
                kept += wanted;
                batches.push(batch.slice(0, wanted));
            }
            if self.context.interrupt.asked() {
                return Err(interrupt::error());
            }
        }
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        let grid = Grid::of_batches(batches);
        let asks = asks(sql);
        // The rows that DuckDB gives for a statement without a result are none of the user's data.
        match (&grid.columns[..], &grid.rows[..]) {
            ([name], []) if !asks && (name == "Count" || name == "Success") => return Ok(()),
            ([name], [row]) if !asks && name == "Count" => {
                self.context.printer.note(&format!("rows: {}", row[0]));
                return Ok(());
            }
            _ => {}
        }
        if self.mode == Mode::Table && grid.columns == ["explain_key", "explain_value"] {
            return self.write(plan(&grid).as_bytes());
        }
        self.grid(&grid, rows)
    }

    /// A whole grid in the form that is set.
    fn rows(&mut self, grid: &Grid) -> Result<()> {
        self.grid(grid, grid.rows.len())
    }

    /// A grid, which may be the first rows of more, in the form that is set.
    fn grid(&mut self, grid: &Grid, rows: usize) -> Result<()> {
        let mut bytes = match self.mode {
            Mode::Table => grid.bytes(Form::Table, MAX_CELL)?,
            Mode::Json => grid.bytes(Form::Json, MAX_CELL)?,
            Mode::Csv => grid.bytes(Form::Csv, MAX_CELL)?,
            Mode::Value => grid.bytes(Form::Value, MAX_CELL)?,
            Mode::Line => grid.lines(),
        };
        if grid.rows.len() < rows {
            // Part of the table: whoever reads it must not take it for the whole.
            let shown = grid.rows.len();
            bytes.extend(format!("({shown} of {rows} rows; other modes show all)\n").into_bytes());
        }
        self.write(&bytes)
    }

    /// Bytes to where results go, in pieces, so that Ctrl-C ends a long one.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let (file, path) = match &mut self.output {
            Output::File { file, path } => (file, path),
            Output::Stdout => {
                // Values come from traces of strangers, and CSV and `value` leave them as they are.
                let text = std::io::stdout()
                    .is_terminal()
                    .then(|| printable(&String::from_utf8_lossy(bytes)));
                for piece in text.as_ref().map_or(bytes, String::as_bytes).chunks(1 << 16) {
                    if self.context.interrupt.asked() {
                        return Err(interrupt::error());
                    }
                    if !self.context.printer.stdout(piece)? {
                        self.done = true;
                        break;
                    }
                }
                return Ok(());
            }
        };
        file.write_all(bytes).map_err(|e| io(path, &e))
    }

    /// Runs a dot command.
    fn command(&mut self, line: &str) -> Result<(), Errors> {
        let context = self.context;
        match commands::parse(line)? {
            Command::Tables(pattern) => {
                self.rows(&commands::tables(context, &self.engine, pattern.as_deref())?)?;
            }
            Command::Schema(name) => {
                self.rows(&commands::columns(context, &self.engine, name.as_deref())?)?;
            }
            Command::Metrics => self.rows(&list::grid(context, What::Metrics))?,
            Command::Run { name, params } => self.metric(name, params)?,
            Command::Show(name) => {
                let text = match list::definition(context, &name) {
                    Ok(text) => text,
                    Err(error) => match commands::own_definition(&self.engine, &name) {
                        Ok(Some(sql)) => sql + "\n",
                        _ => return Err(error.into()),
                    },
                };
                self.write(text.as_bytes())?;
            }
            Command::Mode(Some(mode)) => self.mode = mode,
            Command::Mode(None) => {
                context.printer.note(&format!("the mode is {}", self.mode.name()));
            }
            Command::Output { file: None, .. } => self.output = Output::Stdout,
            Command::Output { .. } if self.sandbox => {
                let message = "`.output` writes a file, which --sandbox forbids";
                return Err(Error::new("usage", message).into());
            }
            Command::Output { file: Some(path), force } => {
                let consent = format!("say `.output --force {}`", path.display());
                self.output = open_output(&path, force, &consent)?;
            }
            Command::Timer(Some(on)) => self.timer = on,
            Command::Timer(None) => {
                let state = if self.timer { "on" } else { "off" };
                context.printer.note(&format!("the timer is {state}"));
            }
            Command::Help => _ = context.printer.stdout(commands::help().as_bytes())?,
            Command::Quit => self.done = true,
        }
        Ok(())
    }

    /// A metric of all traces, as the command `metric` has it.
    fn metric(&mut self, name: String, param: Vec<(String, String)>) -> Result<(), Errors> {
        let args = MetricArgs {
            engine: None,
            names: vec![name],
            all: false,
            label: false,
            trace: Vec::new(),
            param,
            n_chips: None,
            model_params: None,
            profile_mode: ProfileMode::Auto,
            reading: ReadingArgs::default(),
        };
        let results = compute(self.context, &args)?;
        if self.mode == Mode::Json {
            self.write(&pretty(&results.json()))?;
        } else if results.answered() {
            self.rows(&results.grid()?)?;
        }
        Errors(results.errors).result()
    }
}

/// `ccl-sql/history` in the state folder of XDG, which is made; None where that cannot be.
fn history_file() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let folder = state?.join("ccl-sql");
    // The mode is that of the XDG base directory specification.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join("history"))
}
