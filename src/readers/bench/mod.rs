//! Reads what benchmarks of inference write: result records of vLLM and SGLang, logs of the gates of a
//! mixture of experts, and samples of NVLink's counters.
//!
//! In: JSON objects one after the other (a file of one, or JSON lines), or samples in binary. Out: one
//! [`Share`] of no rank, because a benchmark is of the whole job. Not here: which trace it is of
//! (`job::bench`).
//!
//! Traps of the formats: Python writes `NaN` and `Infinity`; SGLang writes the state of the server into
//! a record; requests that failed stand in the lists of a record with a time to the first token of 0; the
//! lists of a record are columns, so that a request is spread over the file.

mod fields;
pub(crate) mod kind;
mod record;
pub mod samples;

use std::path::PathBuf;

use crate::error::Result;
use crate::input::place::{self, Place};
use crate::input::progress::Watcher;
use crate::readers::log::Log;
use crate::readers::share::Share;
use crate::spool::totals::Totals;

/// What is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON records.
    Records,
    /// Samples of NVML.
    Samples,
}

/// How a file is to be read.
pub struct Reading<'a> {
    /// Where it lies.
    pub place: &'a Place,
    /// What it is.
    pub form: Form,
    /// Folder for the spool files.
    pub folder: PathBuf,
    /// Number of the source.
    pub source_id: i64,
    /// Rank that the user or the name says.
    pub rank: Option<i64>,
    /// Whether the records before a fault are kept.
    pub keep_partial: bool,
    /// Who is told how far it is.
    pub watcher: &'a Watcher,
}

/// What a file held.
#[derive(Debug)]
pub struct Bench {
    /// Of no rank.
    pub share: Share,
    /// SHA-256 of the file on disk.
    pub sha256: String,
}

/// What a file is that is no record of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Other {
    /// A trace of Kineto whose first fields are those of a record.
    Trace,
    /// Anything else, by description.
    What(String),
}

/// What a reader made of a file.
struct Out {
    totals: Totals,
    log: Log,
    spool: std::collections::BTreeMap<&'static str, PathBuf>,
    bytes: u64,
}

/// Unpacked bytes of the largest file of records that is read: its lists are read where they stand.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// What is said of a larger one.
const TOO_LARGE: [&str; 2] = [
    "the benchmark record is larger than any that is read",
    "write it without the details of each request",
];

/// Reads a file; what it is, when it is no record of a benchmark.
///
/// # Errors
/// `json-invalid`, `trace-truncated`, `gzip-broken`, `value-too-large`, `file-unreadable` for the file;
/// `io` when the spool cannot be written. With `keep_partial`, the first two become findings once a
/// record was read.
pub fn read(reading: &Reading<'_>) -> Result<Result<Bench, Other>> {
    let shown = reading.place.display();
    let mut opened = place::open(reading.place, reading.watcher)?;
    let reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
    let out = match reading.form {
        Form::Records => {
            let bytes = place::whole(reader, MAX_FILE_BYTES, &shown, TOO_LARGE)?;
            record::read(reading, &bytes, &shown)?
        }
        Form::Samples => samples::read(reading, reader, &shown)?,
    };
    let out = match out {
        Ok(out) => out,
        Err(other) => return Ok(Err(other)),
    };
    let share = Share {
        log: out.log,
        totals: out.totals,
        bytes: out.bytes,
        spool: out.spool,
        ..Share::default()
    };
    let sha256 = opened.sha256(&reading.place.file)?;
    Ok(Ok(Bench { share, sha256 }))
}
