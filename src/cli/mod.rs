//! The program: its command line, and a file for each command.
//!
//! Commands do not know each other. The files that several of them share lie below them: `select`
//! (the traces that are meant), `answers` and `results` (metrics over traces), `output` (the place
//! and form of a result), and below these `context`, `printer`, `args`.

mod across;
mod ahead;
mod answers;
pub mod args;
mod baseline;
mod batch;
mod board;
mod candidates;
mod check;
mod compare;
mod completions;
pub(crate) mod context;
mod database;
pub(crate) mod diagnose;
mod engine;
pub(crate) mod errors;
mod export;
mod history;
mod ingest;
mod limits;
pub(crate) mod list;
mod man;
mod mcp;
mod metric;
pub(crate) mod metric_tables;
mod metric_text;
mod old;
mod output;
mod plan;
mod printer;
pub(crate) mod progress;
pub(crate) mod reading;
mod remove;
mod rename;
mod report;
pub(crate) mod results;
mod schema;
mod select;
mod series;
mod shape;
mod shell;
mod split;
mod spread;
mod sql;
pub(crate) mod statement;
mod terminal;
mod timeline;
mod trace;
mod vacuum;
mod verify;
mod version;
mod which;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

pub use self::args::command;
use self::args::{Cli, Command, Global};
use self::context::Context;
use self::errors::Errors;
use self::printer::Printer;
use crate::error::{Error, Result};

/// Runs the program: 0 done, 1 input unusable or nothing to answer with, 2 wrong command line.
pub fn main() -> ExitCode {
    ExitCode::from(program(std::env::args_os().collect()))
}

/// Runs the program on a command line, the first word of which is its name; the exit code.
///
/// It listens to signals, so that it is called once in a process.
pub fn program(words: Vec<OsString>) -> u8 {
    match completions::answer(&words) {
        Ok(true) => return 0,
        Ok(false) => {}
        // Whoever presses Tab wants no message.
        Err(_) => return 1,
    }
    let as_json = wants_json(&words);
    let (args, hint) = old::rewritten(words.into_iter());
    let cli = match parsed(args) {
        Ok(cli) => cli,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            if code != 0 && as_json {
                printer::fault(&wrong_line(&e));
            } else if let Some(text) = version::answer(&e) {
                // As with help, a closed pipe is nobody's fault.
                let _ = printer::stdout(text.as_bytes());
            } else {
                // A closed pipe on help or usage is nobody's fault.
                let _ = e.print();
            }
            return code;
        }
    };
    let printer = Printer::new(&cli.global);
    if let Some(hint) = hint {
        printer.note(&hint);
    }
    if !matches!(cli.command, Command::Shell(_)) {
        let printer = printer.clone();
        progress::listen(move |reading| {
            if reading {
                printer.note(
                    "interrupted: files that were read whole are kept for a day, and the same \
                     command goes on with them",
                );
            }
        });
    }
    let watcher = progress::watcher(cli.global.quiet);
    let is_task = matches!(cli.command, Command::Task(_));
    let outcome = Context::new(cli.global, watcher).map_err(Errors::from).and_then(|context| {
        prepare(&context, &cli.command)?;
        run(&Context { own_process: true, ..context }, &cli.command)
    });
    match outcome {
        Ok(()) => 0,
        Err(Errors(errors)) => {
            errors.iter().for_each(|error| printer.error(error));
            match errors.iter().any(|e| e.code == "usage") {
                true => 2,
                false if is_task => plan::exit_code(&errors),
                false => 1,
            }
        }
    }
}

/// The command line that words are, the first of which is the program.
fn parsed(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    command()
        .try_get_matches_from(words)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
}

/// The command line that words are, where a program wrote them: it wants no help, and no messages.
///
/// # Errors
/// `usage`.
pub(crate) fn line_of(words: Vec<OsString>) -> Result<Cli> {
    let cli = parsed(words).map_err(|e| wrong_line(&e))?;
    Ok(Cli { global: Global { quiet: true, ..cli.global }, ..cli })
}

/// Whether errors are wanted as JSON, of a command line that could not be read.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().any(|w| w == "--errors=json")
        || words.windows(2).any(|pair| pair[0] == "--errors" && pair[1] == "json")
}

/// The error of a command line that could not be read.
fn wrong_line(error: &clap::Error) -> Error {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let mut hint = None;
    for line in lines {
        if let Some(tip) = line.strip_prefix("tip: ") {
            hint.get_or_insert(tip.to_owned());
        } else if line.starts_with("Usage:") {
            hint.get_or_insert(line.to_owned());
            break;
        } else {
            message.push_str(&format!(" {line}"));
        }
    }
    let out = Error::new("usage", message);
    match hint {
        Some(hint) => out.hint(hint),
        None => out,
    }
}

/// Takes over what a data directory in an object store has, for a command that asks for it.
///
/// # Errors
/// `usage` for a command that works on a disk alone; those of the store.
pub(crate) fn prepare(context: &Context, command: &Command) -> Result<()> {
    match command {
        Command::Schema(_)
        | Command::Check(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Task(_) => Ok(()),
        _ => context.store.sync(),
    }
}

/// Runs the command of a command line.
pub(crate) fn run(context: &Context, command: &Command) -> Result<(), Errors> {
    match command {
        Command::Ingest(args) => ingest::run(context, args)?,
        Command::Plan(args) => plan::plan(context, args)?,
        Command::Task(args) => plan::task(context, args)?,
        Command::Answer(args) => spread::answer(context, args)?,
        Command::Metric(args) => metric::run(context, args)?,
        Command::Report(args) => report::run(context, args)?,
        Command::Compare(args) => match &args.baseline {
            Some(series) => baseline::run(context, args, series)?,
            None => compare::run(context, args)?,
        },
        Command::Diagnose(args) => diagnose::run(context, args)?,
        Command::History(args) => history::run(context, args)?,
        Command::Board(args) => board::run(context, args)?,
        Command::List(args) => list::list(context, args)?,
        Command::Show(args) => list::show(context, args)?,
        Command::Rename(args) => rename::run(context, args)?,
        Command::Remove(args) => remove::run(context, args)?,
        Command::Vacuum(args) => vacuum::run(context, args)?,
        Command::Export(args) if args.duckdb.is_some() => database::run(context, args)?,
        Command::Export(args) => export::run(context, args)?,
        Command::Shell(args) => shell::run(context, args)?,
        Command::Sql(args) => sql::run(context, args)?,
        Command::Verify(args) => verify::run(context, args)?,
        Command::Schema(args) => schema::run(context, args)?,
        Command::Mcp(args) => mcp::run(context, args)?,
        Command::Check(args) => check::run(context, args)?,
        Command::Completions(args) => context.printer.result(&completions::script(args)?)?,
        Command::Man(args) => man::run(context, args)?,
    }
    Ok(())
}
