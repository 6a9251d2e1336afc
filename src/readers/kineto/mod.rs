//! Reads one Kineto (Chrome trace) JSON file: header into values, events into spooled Parquet.
//!
//! In: the bytes of one file. Out: a [`Kineto`] with the header, the findings, and spool files for
//! `device_events`, `host_events`, `flows`, `counters` and `metadata`, without the columns that are
//! known only when the whole job is (`rank`). Not here: what is one job (`ingest::find`), the final
//! files (`ingest::assemble`).
//!
//! Traps of the format (section numbers of the format notes): the header stands before or after
//! the events, `baseTimeNanoseconds` too (1, 2), so times may have to be shifted when the file
//! ends; the same key means other things in other categories (9), so arguments become columns by
//! class; slices are not sorted by time (2); pids and tids are numbers or text (8).

mod classify;
pub mod comm_args;
mod event;
mod gather;
mod halves;
mod header;
mod pairs;
mod part;
mod trace;

use crate::error::Result;
use crate::input::place::{self, Opened};
use crate::readers::contract::{Answer, Reading};
pub use crate::readers::kineto::gather::Kineto;
use crate::readers::kineto::header::Header;
pub use crate::readers::kineto::trace::{SEGMENT_BYTES, read_bytes};
use crate::readers::log::Severity;
use crate::readers::share::Share;

/// Reads a file into spool files.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid`, `value-too-large` with the offset in the
/// uncompressed file; `io` when the spool cannot be written. With `keep_partial`, the first three
/// become findings once a complete event was read.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let mut kineto = match read_bytes(reader, reading, SEGMENT_BYTES)? {
        Ok(kineto) => kineto,
        Err(answer) => return Ok(answer),
    };
    let header = Header(&kineto.header);
    if header.is_odd() {
        kineto.log.add(Severity::Loss, "distributed-info", None, || {
            "distributedInfo states a rank or world size that is no usable number; left out"
                .to_owned()
        });
    }
    let share = Share {
        row: header.row(kineto.totals.device, kineto.base_ns),
        trace_rank: header.rank(),
        is_rank: true,
        log: kineto.log,
        totals: kineto.totals,
        pending_base_ns: kineto.pending_base_ns,
        bytes: kineto.bytes,
        spool: kineto.spool,
        ..Share::default()
    };
    let sha256 = file.sha256(&reading.place.file)?;
    Ok(Answer::Shares { shares: vec![share], sha256 })
}
