//! The commands: one file each.

pub mod args;
mod batch;
mod board;
mod check;
mod compare;
mod completions;
mod ingest;
mod list;
mod man;
mod metric;
mod old;
mod output;
mod printer;
mod progress;
mod report;
mod select;
mod shell;
mod sql;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use self::args::{Cli, Command, Global};
use self::printer::Printer;
use crate::engine::Settings;
use crate::engine::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::store::Store;
use crate::store::manifest::Manifest;

/// What the commands share.
struct Context {
    global: Global,
    printer: Printer,
    store: Store,
    registry: Registry,
    interrupt: Interrupt,
}

impl Context {
    fn settings(&self) -> Settings {
        Settings {
            threads: self.global.jobs,
            memory_limit: self.global.memory_limit.clone(),
            data: self.store.path.clone(),
            interrupt: self.interrupt.clone(),
        }
    }

    /// Makes derived tables as this version and the user's options say.
    fn derive(&self) -> crate::derive::Derive<'_> {
        crate::derive::Derive {
            registry: &self.registry,
            memory_limit: self.global.memory_limit.clone(),
            threads: self.global.jobs,
        }
    }

    /// The traces to query, with derived tables as this version makes them.
    fn directories(&self, traces: &[String]) -> Result<Vec<std::path::PathBuf>> {
        let derive = self.derive();
        for directory in traces.iter().map(|trace| self.store.directory(trace)) {
            // What is wrong with one is said below.
            if let Ok(manifest) = Manifest::read(&directory) {
                derive.refresh(&self.store, &directory, manifest)?;
            }
        }
        crate::engine::directories(&self.store, traces)
    }
}

/// The command line. The short help of a command is of that command: the options that all have are
/// folded into a line there.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let global: Vec<String> = command
        .get_arguments()
        .filter(|a| a.is_global_set() && !a.is_hide_set())
        .filter_map(|a| a.get_long().map(|long| format!("--{long}")))
        .collect();
    let fold = format!("Options of every command (--help explains them): {}", global.join(" "));
    let names: Vec<String> = command.get_subcommands().map(|s| s.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            let example = sub.get_after_help().cloned().unwrap_or_default();
            let long = example.clone();
            sub.mut_args(|arg| match arg.is_global_set() {
                true => arg.hide_short_help(true),
                false => arg,
            })
            .after_help(format!("{fold}\n\n{example}"))
            .after_long_help(long)
        });
    }
    command
}

/// Runs the program: 0 done, 1 input unusable or nothing to answer with, 2 wrong command line.
pub fn main() -> ExitCode {
    match completions::answer() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        // Whoever presses Tab wants no message.
        Err(_) => return ExitCode::FAILURE,
    }
    let (args, hint) = old::rewritten(std::env::args_os());
    let parsed = command()
        .try_get_matches_from(args)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            if code != 0 && wants_json() {
                printer::fault(&wrong_line(&e));
            } else {
                // A closed pipe on help or usage is nobody's fault.
                let _ = e.print();
            }
            return ExitCode::from(code);
        }
    };
    let printer = Printer::new(&cli.global);
    if let Some(hint) = hint {
        printer.note(&hint);
    }
    match run(cli, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            for error in &errors {
                printer.error(error);
            }
            ExitCode::from(if errors.iter().any(|e| e.code == "usage") { 2 } else { 1 })
        }
    }
}

/// Whether errors are wanted as JSON, of a command line that could not be read.
fn wants_json() -> bool {
    let words: Vec<String> = std::env::args().collect();
    words.iter().any(|w| w == "--errors=json")
        || words.windows(2).any(|pair| pair[0] == "--errors" && pair[1] == "json")
}

/// What is wrong with the command line.
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

fn run(cli: Cli, printer: &Printer) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    let registry = Registry::load(cli.global.sql_dir.as_deref()).map_err(one)?;
    let store = Store::new(&cli.global.data);
    let interrupt = Interrupt::default();
    let context =
        Context { global: cli.global, printer: printer.clone(), store, registry, interrupt };
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
    match &cli.command {
        Command::Ingest(args) => ingest::run(&context, args),
        Command::Metric(args) => metric::run(&context, args),
        Command::Report(args) => report::run(&context, args),
        Command::Compare(args) => compare::run(&context, args),
        Command::Board(args) => board::run(&context, args),
        Command::List(args) => list::list(&context, args).map_err(one),
        Command::Show(args) => list::show(&context, args).map_err(one),
        Command::Rename(args) => trace::rename(&context, args).map_err(one),
        Command::Remove(args) => trace::remove(&context, args),
        Command::Shell(args) => shell::run(&context, args),
        Command::Sql(args) => sql::run(&context, args).map_err(one),
        Command::Check(args) => check::run(&context, args),
        Command::Completions(args) => {
            completions::script(args).and_then(|out| context.printer.result(&out)).map_err(one)
        }
        Command::Man(args) => man::run(&context, args).map_err(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        command().debug_assert();
    }

    #[test]
    fn the_short_help_of_a_command_is_of_that_command() {
        for sub in command().get_subcommands_mut().filter(|s| s.get_name() != "help") {
            let (short, long) = (sub.render_help().to_string(), sub.render_long_help().to_string());
            assert!(!short.contains("--memory-limit <SIZE>"), "{short}");
            assert!(short.contains("--memory-limit"), "{short}");
            assert!(long.contains("--memory-limit <SIZE>"), "{long}");
        }
    }

    #[test]
    fn every_subcommand_has_an_example() {
        for sub in Cli::command().get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let first = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Example: ccl-sql"), "{}", sub.get_name());
            assert!(first.len() <= 80, "{first}");
        }
    }
}
