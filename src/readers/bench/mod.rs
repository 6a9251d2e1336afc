//! Reads what benchmarks of inference write: result records of vLLM and SGLang, logs of the gates
//! of a mixture of experts, and samples of NVLink's counters.
//!
//! In: JSON objects one after the other (a file of one, or JSON lines), or samples in binary. Out:
//! one `Share` of no rank, because a benchmark is of the whole job. Not here: which trace it is of
//! (`ingest::ranks::bench`).
//!
//! Traps of the formats: Python writes `NaN` and `Infinity`; SGLang writes the state of the server
//! into a record; requests that failed stand in the lists of a record with a time to the first
//! token of 0; the lists of a record are columns, so that a request is spread over the file.

mod fields;
pub(crate) mod kind;
mod object;
mod record;
pub mod samples;
mod stream;

use crate::error::Result;
use crate::input::place::{self, Opened};
use crate::readers::contract::{Answer, Kind, Reading};

/// Reads records, or samples.
///
/// # Errors
/// `json-invalid`, `trace-truncated`, `gzip-broken`, `value-too-large`, `file-unreadable` for the
/// file; `io` when the spool cannot be written. With `keep_partial`, the first three become
/// findings once a record was read.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let folder = (reading.folder)(0)?;
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let share = if reading.kind == Kind::NvlinkSamples {
        samples::read(reading, reader, &folder)?
    } else {
        record::read(reading, reader, &folder)?
    };
    let share = match share {
        Ok(share) => share,
        Err(answer) => return Ok(answer),
    };
    let sha256 = file.sha256(&reading.place.file)?;
    Ok(Answer::Shares { shares: vec![share], sha256 })
}
