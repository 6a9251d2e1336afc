//! The context that every command runs in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::args::Global;
use crate::cli::printer::Printer;
use crate::derive::Derive;
use crate::engine::interrupt::Interrupt;
use crate::engine::{Settings, directories};
use crate::error::{Error, Result};
use crate::input::place::is_remote;
use crate::input::progress::Watcher;
use crate::registry::Registry;
use crate::store::Store;
use crate::store::cache::Cache;
use crate::store::manifest::{self, Manifest};

/// The options, the printer and the data directory that all commands share.
pub struct Context {
    /// Options of every command.
    pub global: Global,
    /// The writer of results and messages.
    pub printer: Printer,
    /// The data directory.
    pub store: Store,
    /// The SQL files, those of the user among them.
    pub registry: Registry,
    /// The means to stop queries.
    pub interrupt: Interrupt,
    /// The watcher of ingests.
    pub watcher: Watcher,
    /// Whether the process is the program's own.
    pub own_process: bool,
}

impl Context {
    /// The context of a command line, whose ingests `watcher` is told of.
    ///
    /// # Errors
    /// `usage` for a data directory in an object store; those of the SQL files of the user.
    pub fn new(global: Global, watcher: Watcher) -> Result<Self> {
        if is_remote(&global.data) {
            return Err(Error::new("usage", "the data directory is a folder of this machine")
                .facts("traces are read from object stores, and their tables written to a disk")
                .hint("give a folder with --data DIR"));
        }
        Ok(Self {
            printer: Printer::new(&global),
            store: Store::new(&global.data),
            registry: Registry::load(global.sql_dir.as_deref())?,
            interrupt: Interrupt::default(),
            watcher,
            own_process: false,
            global,
        })
    }

    /// Limits of a connection, as the options say.
    pub fn settings(&self) -> Settings {
        Settings {
            threads: self.global.jobs,
            memory_limit: self.global.memory_limit.clone(),
            timeout: self.global.timeout.map(Duration::from_secs),
            spill_limit: self.global.spill_limit.clone(),
            strange: false,
            own_process: self.own_process,
            data: self.store.path.clone(),
            interrupt: self.interrupt.clone(),
        }
    }

    /// The answers that are kept of a trace.
    pub fn cache(&self, directory: &Path) -> Cache {
        // What is held of a trace has its name, and its answers lie beside the trace itself.
        let place = manifest::name_of(directory).map(|name| self.store.directory(&name));
        match manifest::stamp(directory).filter(|_| !self.global.no_cache) {
            Some(stamp) => Cache::open(place.as_deref().unwrap_or(directory), &stamp),
            None => Cache::default(),
        }
    }

    /// The maker of derived tables, as this version and the options say.
    pub fn derive(&self) -> Derive<'_> {
        Derive {
            registry: &self.registry,
            memory_limit: self.global.memory_limit.clone(),
            threads: self.global.jobs,
        }
    }

    /// The traces that can be asked: whole, and with tables of this version. The others are said,
    /// with what to do about each.
    ///
    /// # Errors
    /// Why the first cannot be asked, where none can.
    pub fn usable(&self) -> Result<Vec<String>> {
        let (mut out, mut faults) = (Vec::new(), Vec::new());
        for name in self.store.traces() {
            let manifest = Manifest::read(&self.store.directory(&name));
            match manifest.and_then(|manifest| manifest.check_version()) {
                Ok(()) => out.push(name),
                Err(fault) => faults.push(fault),
            }
        }
        if out.is_empty() && !faults.is_empty() {
            return Err(faults.remove(0));
        }
        for fault in faults {
            self.printer.note(&fault.render("warning"));
        }
        Ok(out)
    }

    /// Directories of the traces to query, with derived tables as this version makes them.
    ///
    /// # Errors
    /// `trace-unknown`, and those of making derived tables.
    pub fn directories(&self, traces: &[String]) -> Result<Vec<PathBuf>> {
        let derive = self.derive();
        for directory in traces.iter().map(|trace| self.store.directory(trace)) {
            // A manifest that cannot be read is an error below.
            if let Ok(manifest) = Manifest::read(&directory) {
                derive.refresh(&self.store, &directory, manifest)?;
            }
        }
        directories(&self.store, traces)
    }
}
