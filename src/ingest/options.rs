//! What a user asks of an ingest, and what it answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::input::progress::Watcher;
use crate::readers::contract::Kind;
use crate::readers::log;
use crate::remote::checked;
use crate::schema::source::Source;
use crate::store::manifest::{Asked, Manifest, path_text};

/// The options of an ingest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Options {
    /// Name of the trace (`--name`).
    pub name: Option<String>,
    /// Only this source, or `auto` for all; None where nobody says it.
    pub source: Option<String>,
    /// Ranks given by hand.
    pub ranks: Vec<(i64, PathBuf)>,
    /// Snapshots of memory given by hand: files, or folders with them.
    pub memory: Vec<PathBuf>,
    /// Card given by hand.
    pub card: Option<PathBuf>,
    /// Configuration of TorchTitan, for what the card does not say.
    pub config: Option<PathBuf>,
    /// Files read at a time; 0 for one per core.
    pub jobs: usize,
    /// Ingest again what is unchanged.
    pub force: bool,
    /// Do not wait until the tables are on the disk.
    pub no_sync: bool,
    /// Options that change the rows of a file.
    pub asked: Asked,
    /// The folders that may be read.
    #[serde(skip)]
    pub within: Within,
    /// What objects were when they were read.
    #[serde(skip)]
    pub kinds: Kinds,
    /// The watcher that is told of progress.
    #[serde(skip)]
    pub watcher: Watcher,
}

/// Kinds of objects that are known from an earlier ingest.
#[derive(Debug, Clone, Default)]
pub struct Kinds(Arc<BTreeMap<PathBuf, (u64, i64, Kind)>>);

impl Kinds {
    /// Of the files that manifests name.
    pub fn known<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Self {
        // Another version may see something else in the same bytes.
        let ours = manifests.filter(|manifest| manifest.ccl_sql == env!("CARGO_PKG_VERSION"));
        let files = ours.flat_map(|manifest| manifest.sources.iter().chain(&manifest.set_aside));
        let known = files.filter_map(|file| {
            let kind = Kind::of_word(file.kind.as_deref()?)?;
            Some((file.absolute.clone(), (file.bytes, file.mtime_ns, kind)))
        });
        Self(Arc::new(known.collect()))
    }

    /// The kind of an object of this size and version.
    pub fn of(&self, path: &Path, now: (u64, i64)) -> Option<Kind> {
        let (bytes, version, kind) = self.0.get(path)?;
        (now == (*bytes, *version)).then_some(*kind)
    }
}

/// The folders that an ingest may read, wherever links lead; all, where none is named.
#[derive(Debug, Clone, Default)]
pub struct Within(Vec<PathBuf>);

impl Within {
    /// Below these folders, links resolved.
    pub fn folders(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Whether a file or folder may be read. What does not exist may not: nobody knows where it
    /// would be.
    pub fn holds(&self, path: &Path) -> bool {
        let lies_within = |path: &Path| {
            let real = path.canonicalize();
            real.is_ok_and(|real| self.0.iter().any(|folder| real.starts_with(folder)))
        };
        self.0.is_empty() || lies_within(path)
    }

    /// Whether a folder may be read with all that lies right in it.
    pub fn holds_entries(&self, folder: &Path) -> bool {
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        self.0.is_empty() || entries.all(|entry| self.holds(&entry.path()))
    }
}

impl Options {
    /// Threads that may work on files.
    pub(crate) fn threads(&self) -> usize {
        match self.jobs {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }

    /// The same with paths as they are used.
    ///
    /// # Errors
    /// `usage` for a URL that may not be given.
    pub(crate) fn checked(mut self) -> Result<Self> {
        let ranks = self.ranks.iter_mut().map(|(_, path)| path);
        let files = self.card.iter_mut().chain(&mut self.config);
        for path in ranks.chain(&mut self.memory).chain(files) {
            *path = checked(path)?;
        }
        Ok(self)
    }

    /// The only source that is read; None for all.
    pub fn only(&self) -> Option<Source> {
        self.source.as_deref().and_then(Source::of_word)
    }
}

/// One trace after an ingest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the trace.
    pub trace: String,
    /// The path that its name comes from.
    #[serde(with = "path_text")]
    pub origin: PathBuf,
    /// Profilers that its files are of.
    pub sources: Vec<Source>,
    /// Number of ranks.
    pub ranks: usize,
    /// Ranks that were read; the others are as they were, or had been read by an ingest that was
    /// interrupted.
    pub ranks_read: usize,
    /// Number of events.
    pub events: u64,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Seconds, reading included.
    pub seconds: f64,
    /// Findings, with the file of each.
    pub findings: Vec<(String, log::Finding)>,
    /// Whether it was there already, from the same bytes.
    pub unchanged: bool,
}

/// Everything that an ingest did: traces made, and what failed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Traces, in the order of their folders.
    pub traces: Vec<Summary>,
    /// Faults; what they name was not ingested, and what was there before stays.
    pub errors: Vec<Error>,
    /// Files in folders that are no traces, with the reason.
    pub set_aside: Vec<(String, String)>,
    /// Notes for the user on names, and on options of an earlier ingest.
    pub notes: Vec<String>,
}
