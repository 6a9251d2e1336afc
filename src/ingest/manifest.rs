//! `manifest.json`: what a trace directory was made from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Name of the file in a trace directory.
pub const FILE: &str = "manifest.json";

/// One file that was read, or set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Number in the trace.
    pub source_id: i64,
    /// Path as given.
    pub path: String,
    /// Absolute path, by which a later ingest finds it again.
    pub absolute: PathBuf,
    /// Rank; None for a file that was set aside.
    pub rank: Option<i64>,
    /// Rank given by `--rank`.
    #[serde(default)]
    pub rank_flag: Option<i64>,
    /// Size on disk.
    pub bytes: u64,
    /// Modification time, nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// Hash of the bytes on disk; empty for a file that was set aside.
    pub sha256: String,
    /// Events kept.
    pub events: u64,
    /// Events left out.
    pub skipped: u64,
}

/// What a trace directory was made from, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the trace.
    pub trace: String,
    /// Version of the tables.
    pub schema_version: u32,
    /// Version of the program.
    pub ccl_sql: String,
    /// Folder of the job.
    pub root: PathBuf,
    /// Whether the name was given by `--name`.
    pub named: bool,
    /// Whether complete events of a damaged file were kept.
    pub keep_partial: bool,
    /// Files that were read.
    pub sources: Vec<Source>,
    /// Files of the same folder that are no traces of this job.
    pub set_aside: Vec<Source>,
    /// Card that was read: path, size, time.
    pub cards: Vec<Source>,
    /// Rows of each table.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Findings by code.
    pub findings: std::collections::BTreeMap<String, u64>,
    /// Hash over the SQL of the derived tables.
    pub derived_sha256: String,
}

impl Manifest {
    /// Reads the manifest of a trace directory.
    ///
    /// # Errors
    /// `trace-unknown` when there is none or it cannot be understood.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        let damaged = |why: String| {
            Error::new("trace-unknown", format!("the trace directory cannot be used: {why}"))
                .at(path.display().to_string())
                .hint("remove the directory and ingest the trace again")
        };
        let text = std::fs::read_to_string(&path).map_err(|e| damaged(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))
    }

    /// Writes the manifest into a trace directory.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new("io", format!("cannot write the manifest: {e}")))?;
        std::fs::write(&path, text + "\n").map_err(|e| crate::error::io(&path, &e))
    }

    /// One hash that says which bytes the trace was made from.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("schema {}\n", self.schema_version);
        for s in &self.sources {
            text.push_str(&format!("{:?} {}\n", s.rank, s.sha256));
        }
        crate::hash::sha256_text(&text)
    }
}

/// Size and modification time of a file, for the fingerprint that a second ingest compares.
///
/// # Errors
/// `io` when the file cannot be asked.
pub fn stat(path: &Path) -> Result<(u64, i64)> {
    let metadata = std::fs::metadata(path).map_err(|e| crate::error::io(path, &e))?;
    let mtime = metadata
        .modified()
        .ok()
        .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
    Ok((metadata.len(), mtime))
}
