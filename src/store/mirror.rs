//! The object store that a data directory lies in.

use std::path::PathBuf;

use crate::store::manifest;

/// A data directory in an object store.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Its URL.
    pub(super) url: PathBuf,
    /// Bytes that the folder of this machine may hold.
    pub(super) most: u64,
}

impl Mirror {
    /// The place of the manifest of a trace.
    pub(super) fn manifest(&self, trace: &str) -> PathBuf {
        self.folder(trace).join(manifest::FILE)
    }

    /// The place of a trace.
    pub(super) fn folder(&self, trace: &str) -> PathBuf {
        self.url.join(format!("trace={trace}"))
    }
}
