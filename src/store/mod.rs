//! The data directory: trace directories that appear whole, in one step.
//!
//! Work happens in `.tmp-<n>/` beside the traces, under a file lock that its process holds; what a
//! killed process left is removed by the next one that gets the lock. A finished directory is
//! synced to the disk, and then takes its place by an atomic exchange, which is synced too: what
//! was said to be there is there after a loss of power.

pub mod aside;
pub mod cache;
pub mod files;
pub mod held;
pub mod manifest;
mod mirror;
pub(crate) mod names;
pub(crate) mod objects;
pub mod publish;
pub mod scratch;
pub mod shared;
pub(crate) mod sync;
pub mod workspace;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::store::manifest::Manifest;
pub use crate::store::mirror::Mirror;

/// A data directory.
#[derive(Debug, Clone)]
pub struct Store {
    /// Path of the directory.
    pub path: PathBuf,
    /// Whether what is put in its place must survive a loss of power.
    pub durable: bool,
    /// The object store that the data directory lies in, where it does.
    pub mirror: Option<Mirror>,
}

/// A trace directory with a manifest that can be read.
#[derive(Debug, Clone)]
pub struct Found {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Manifest of the trace.
    pub manifest: Manifest,
    /// The file that it lacks of those that the manifest names.
    pub damage: Option<String>,
}

impl Store {
    /// The data directory at `path`; it need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durable: true, mirror: None }
    }

    /// The directory of a trace.
    pub fn directory(&self, trace: &str) -> PathBuf {
        self.path.join(format!("trace={trace}"))
    }

    /// Names of the traces, sorted.
    pub fn traces(&self) -> Vec<String> {
        let mut out: Vec<String> = std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let trace = name.strip_prefix("trace=")?.to_owned();
                entry.path().join(manifest::FILE).is_file().then_some(trace)
            })
            .collect();
        out.sort();
        out
    }

    /// All trace directories whose manifests can be read, sorted by name.
    pub fn found(&self) -> Vec<Found> {
        let of = |trace: String| {
            let directory = self.directory(&trace);
            let manifest = Manifest::parse(&directory).ok()?;
            let damage = manifest.damage(&directory);
            Some(Found { directory, manifest, damage })
        };
        self.traces().into_iter().filter_map(of).collect()
    }

    /// Directories and manifests of all traces; damaged ones are left out.
    pub fn manifests(&self) -> Vec<(PathBuf, Manifest)> {
        let whole = self.found().into_iter().filter(|found| found.damage.is_none());
        whole.map(|found| (found.directory, found.manifest)).collect()
    }

    /// The turn to put directories in their places, held until it is dropped: one process at a time
    /// looks at what is there and puts its own there. None where there are no locks.
    pub fn turn(&self) -> Option<File> {
        let directory = File::open(&self.path).ok()?;
        directory.lock().ok()?;
        Some(directory)
    }
}

/// The resolved path of a folder; as it is where it cannot be resolved.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
