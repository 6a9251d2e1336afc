//! What an ingest remembers of a file that it has read: enough to build the trace again without
//! reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ingest::ranks::facts::Facts;
use crate::readers::log::Log;
use crate::readers::share::{RankRow, Share};
use crate::spool::parquet::count_rows;
use crate::spool::totals::Totals;
use crate::store::manifest::{Asked, SourceFile};
use crate::store::workspace::RECORDS;

/// The place of the rows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// In this folder, as the reader wrote them.
    Spool(PathBuf),
    /// In this trace directory, as an earlier ingest placed them.
    Trace(PathBuf),
}

/// One file that was read, now or before.
#[derive(Debug, Clone)]
pub struct ReadFile {
    /// The record of the file.
    pub record: Record,
    /// The place of its rows.
    pub rows: Rows,
    /// Whether it was read now, and not by an ingest before.
    pub read_now: bool,
}

/// Key in [`Record::tables`] of the file of many ranks that holds the rows of a table; set for
/// every rank, whether it has rows or not.
pub fn placed(name: &str) -> String {
    format!("{name}/part")
}

/// Raised when a reader makes other rows of the same bytes: what it made before is then not used.
pub(crate) const READER_VERSION: u32 = 9;

/// One file that was read, or the share of one rank in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    reader_version: u32,
    /// Options that change the rows.
    pub asked: Asked,
    /// Entry of the file in the manifest (the rank is filled when the job is known).
    pub source: SourceFile,
    /// Facts that say its trace and rank.
    pub facts: Facts,
    /// Counts and spans.
    pub totals: Totals,
    /// Findings.
    pub log: Log,
    /// The row of the table `ranks`.
    pub row: RankRow,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Nanoseconds that must still be added to relative times in the files below.
    pub pending_base_ns: i64,
    /// File of each table that has rows: its name in the folder of the record; for a table whose
    /// files hold many ranks, in a trace directory, its name in the folder of the table.
    pub tables: BTreeMap<String, String>,
    /// Ranges of the host.
    pub host_ranges: u64,
}

impl Record {
    /// The record of a share that was read just now.
    ///
    /// # Errors
    /// `io` when its ranges cannot be counted.
    pub fn new(source: SourceFile, facts: Facts, share: Share, asked: Asked) -> Result<Self> {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into();
        let host_ranges = share.spool.get("host_ranges").map(|path| count_rows(path));
        Ok(Self {
            host_ranges: host_ranges.transpose()?.unwrap_or(0),
            reader_version: READER_VERSION,
            asked,
            source,
            facts,
            totals: share.totals,
            log: share.log,
            row: share.row,
            bytes: share.bytes,
            pending_base_ns: share.pending_base_ns,
            tables: share.spool.iter().map(|(t, path)| ((*t).to_owned(), name(path))).collect(),
        })
    }

    /// Its events, and ranges of the host.
    pub fn rows(&self) -> u64 {
        self.totals.events + self.host_ranges
    }

    /// Whether it says what a reader of today would say of the same bytes.
    pub fn is_current(&self, asked: &Asked) -> bool {
        self.reader_version == READER_VERSION && self.asked == *asked
    }
}

/// Writes records, in one step.
///
/// # Errors
/// `io` when they cannot be written.
pub fn write(folder: &Path, records: &[&Record]) -> Result<()> {
    let text = serde_json::to_vec(records)
        .map_err(|e| Error::new("io", format!("cannot write the records: {e}")))?;
    let (aside, path) = (folder.join(".records"), folder.join(RECORDS));
    std::fs::write(&aside, text).map_err(|e| crate::error::io(&aside, &e))?;
    std::fs::rename(&aside, &path).map_err(|e| crate::error::io(&path, &e))
}

/// The records in a folder; none where they are missing or cannot be understood.
pub fn read(folder: &Path) -> Vec<Record> {
    let text = std::fs::read(folder.join(RECORDS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
