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
    /// `usage` for a URL that may not be given; those of the SQL files of the user.
    pub fn new(global: Global, watcher: Watcher) -> Result<Self> {
        Ok(Self {
            printer: Printer::new(&global),
            store: store_at(&global, &global.data)?,
            registry: Registry::load(global.sql_dir.as_deref())?,
            interrupt: Interrupt::default(),
            watcher,
            own_process: false,
            global,
        })
    }

    /// The data directory at a path or a URL.
    ///
    /// # Errors
    /// `usage` for a URL that may not be given.
    pub fn store_at(&self, data: &Path) -> Result<Store> {
        store_at(&self.global, data)
    }

    /// The folder for what is fetched from object stores.
    ///
    /// # Errors
    /// `usage` where there is none.
    pub fn cache_dir(&self) -> Result<PathBuf> {
        cache(&self.global)
    }

    /// Limits of a connection, as the options say.
    pub fn settings(&self) -> Settings {
        Settings {
            threads: self.global.jobs,
            memory_limit: self.global.memory_limit.clone(),
            timeout: self.global.timeout.map(Duration::from_secs),
            spill_limit: self.global.spill_limit.clone(),
            partials: !self.global.no_cache,
            modest: false,
            strange: false,
            tiny: false,
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
        self.directories_with(traces, true)
    }

    /// The same for a [`Batch`](crate::cli::batch::Batch), which fetches the tables that it reads
    /// of a data directory in a store.
    ///
    /// # Errors
    /// Those of [`Self::directories`].
    pub fn directories_to_ask(&self, traces: &[String]) -> Result<Vec<PathBuf>> {
        self.directories_with(traces, false)
    }

    fn directories_with(&self, traces: &[String], fetched: bool) -> Result<Vec<PathBuf>> {
        let derive = self.derive();
        // Of what is to be derived anew everything is read.
        let is_derived = |name: &String| {
            let manifest = Manifest::parse(&self.store.directory(name));
            manifest.is_ok_and(|manifest| manifest.derived_sha256 == derive.sha256())
        };
        let is_away = self.store.mirror.is_some();
        let is_fetched = |name: &&String| {
            is_away && self.store.directory(name).is_dir() && (fetched || !is_derived(name))
        };
        let known: Vec<String> = traces.iter().filter(is_fetched).cloned().collect();
        self.store.fetch(&known)?;
        // Who asks need not be allowed to write into a store.
        let here = self.store.here();
        for directory in traces.iter().map(|trace| self.store.directory(trace)) {
            // A manifest that cannot be read is an error below.
            if let Ok(manifest) = Manifest::read(&directory) {
                derive.refresh(&here, &directory, manifest)?;
            }
        }
        directories(&self.store, traces)
    }
}

fn store_at(global: &Global, data: &Path) -> Result<Store> {
    // A size that is none is told wherever the data lies.
    let cache_size = cache_size(global)?;
    match is_remote(data) {
        true => Store::at_url(data, &cache(global)?, cache_size),
        false => Ok(Store::new(data)),
    }
}

/// The folder for what is fetched from object stores.
fn cache(global: &Global) -> Result<PathBuf> {
    let of_home = |home: std::ffi::OsString| PathBuf::from(home).join(".cache");
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let system = folder("XDG_CACHE_HOME").map(PathBuf::from).or(folder("HOME").map(of_home));
    let own = system.map(|folder| folder.join("ccl-sql"));
    global.cache_dir.clone().or(own).ok_or_else(|| {
        Error::new("usage", "there is no folder for what is fetched from object stores")
            .hint("name one with --cache-dir DIR")
    })
}

/// Bytes that the folder may hold.
fn cache_size(global: &Global) -> Result<u64> {
    let text = &global.cache_size;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[end..].trim().to_uppercase().as_str() {
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" | "" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => 0,
    };
    let bytes = text[..end].parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    bytes.filter(|_| unit > 0).ok_or_else(|| {
        Error::new("usage", format!("--cache-size {text}: no size"))
            .hint("write a number and MB, GB or TB, as in 20GB")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        let size = |text: &str| {
            let words = ["ccl-sql", "list", "traces", "--cache-size", text];
            cache_size(&Cli::try_parse_from(words).expect("a line").global)
        };
        let known = [("3KB", 3_000), ("20 mb", 20_000_000), ("7", 7_000_000_000)];
        for (text, bytes) in known.into_iter().chain([("2TB", 2_000_000_000_000), ("0GB", 0)]) {
            assert_eq!(size(text).expect(text), bytes);
        }
        for text in ["GB", "3PB", "1.5GB", "99999999999TB", ""] {
            assert_eq!(size(text).expect_err(text).code, "usage");
        }
    }
}
