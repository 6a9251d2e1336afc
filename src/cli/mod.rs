//! The commands: one file each.

pub mod args;
mod batch;
mod board;
mod check;
mod compare;
mod ingest;
mod list;
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

use clap::{CommandFactory, Parser};

use self::args::{Cli, Command, Global};
use self::printer::Printer;
use crate::engine::Settings;
use crate::engine::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::ingest::Store;
use crate::ingest::manifest::Manifest;
use crate::registry::Registry;

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
                self.store.refresh(&directory, manifest, &derive)?;
            }
        }
        crate::engine::directories(&self.store, traces)
    }
}

/// Runs the program: 0 done, 1 input unusable or nothing to answer with, 2 wrong command line.
pub fn main() -> ExitCode {
    let (args, hint) = old::rewritten(std::env::args_os());
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            // A closed pipe on help or usage is nobody's fault.
            let _ = e.print();
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

fn run(cli: Cli, printer: &Printer) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    match &cli.command {
        Command::Completions(args) => {
            let mut out = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "ccl-sql", &mut out);
            return printer.result(&out).map_err(one);
        }
        Command::Man => {
            let mut out = Vec::new();
            return clap_mangen::Man::new(Cli::command())
                .render(&mut out)
                .map_err(|e| Error::new("io", e.to_string()))
                .and_then(|()| printer.result(&out))
                .map_err(one);
        }
        _ => {}
    }
    let registry = Registry::load(cli.global.sql_dir.as_deref()).map_err(one)?;
    let store = Store::new(&cli.global.data);
    let interrupt = Interrupt::default();
    let context =
        Context { global: cli.global, printer: printer.clone(), store, registry, interrupt };
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
        Command::Completions(_) | Command::Man => unreachable!("handled above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_an_example() {
        for sub in Cli::command().get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let first = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.starts_with("Example: ccl-sql") || sub.get_name() == "man",
                "{}",
                sub.get_name()
            );
            assert!(first.len() <= 80, "{first}");
        }
    }
}
