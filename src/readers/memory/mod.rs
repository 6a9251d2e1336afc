//! Reads snapshots of PyTorch's memory: pickles of `torch.cuda.memory`, and the raw timelines of
//! its profiler.
//!
//! In: a pickle (protocol 2 to 5; nothing of it is ever run, see [`pickle`]), or a JSON list. Out:
//! one [`Share`], because a snapshot is of one process. Not here: which rank it is
//! (`ingest::ranks::memory`).
//!
//! Traps of the format: sizes in events are the requested ones, sizes of blocks are rounded up; the
//! list of events is a ring, so that blocks may be freed whose allocation is no longer in it; NCCL
//! and whatever else does not go through PyTorch's allocator is not in it at all.

pub mod pickle;
mod snapshot;
mod stacks;
pub(crate) mod timeline;
pub mod value;

use std::path::Path;

use crate::error::Result;
use crate::input::place::{self, Opened};
use crate::readers::contract::{Answer, Kind, Reading};
use crate::readers::log::Severity;
use crate::readers::memory::snapshot::{Out, Writing, not_a_snapshot};
use crate::readers::share::Share;

/// Unpacked bytes of the largest file that is read. A snapshot of a million events has some 200 MB.
pub const MAX_FILE_BYTES: u64 = 1 << 30;
/// The same of a timeline, which takes four times its size in memory: some ten million entries.
const MAX_TIMELINE_BYTES: u64 = 1 << 28;

/// The message for a larger file.
const TOO_LARGE: [&str; 2] = [
    "the snapshot is larger than any that is read",
    "record fewer events: torch.cuda.memory._record_memory_history(max_entries=100000)",
];

/// Reads a snapshot, or a timeline.
///
/// # Errors
/// `pickle-code`, `pickle-invalid`, `json-invalid`, `trace-truncated`, `gzip-broken`,
/// `value-too-large`, `file-unreadable` for the file; `io` when the spool cannot be written. A
/// pickle that cannot be read and that nothing marks as a snapshot is an error only where the user
/// named it.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let (shown, folder) = (reading.place.display(), (reading.folder)(0)?);
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let is_timeline = reading.kind == Kind::MemoryTimeline;
    let most = if is_timeline { MAX_TIMELINE_BYTES } else { MAX_FILE_BYTES };
    let bytes = place::whole(reader, most, &shown, TOO_LARGE)?;
    let out = if is_timeline {
        timeline::read(&bytes, &shown, &folder, reading.source_id)?
    } else {
        match snapshot(reading, &bytes, &folder)? {
            Ok(out) => out,
            Err(what) => return Ok(Answer::Other(what)),
        }
    };
    let Out { totals, mut log, spool } = out;
    if totals.events == 0 {
        log.add(Severity::Info, "memory-no-events", None, || {
            "the snapshot holds no events of the allocator: what it says is of one moment, and no peak is known"
                .to_owned()
        });
    }
    let bytes = bytes.len() as u64;
    let share = Share { log, totals, bytes, spool, is_rank: true, ..Share::default() };
    let sha256 = file.sha256(&reading.place.file)?;
    Ok(Answer::Shares { shares: vec![share], sha256 })
}

/// Reads a pickle; what it is, when it is no snapshot.
fn snapshot(reading: &Reading<'_>, bytes: &[u8], folder: &Path) -> Result<Result<Out, String>> {
    let shown = reading.place.display();
    let pickle = match pickle::read(bytes) {
        Ok(pickle) => pickle,
        Err(fault) if reading.said.is_named || is_marked(bytes) => return Err(fault.error(&shown)),
        Err(fault) => {
            return Ok(Err(format!(
                "a pickle that is no torch memory snapshot: {} (byte {})",
                fault.message, fault.offset
            )));
        }
    };
    if let Some(what) = not_a_snapshot(&pickle) {
        return Ok(Err(what));
    }
    let (root, end) = (pickle.root, pickle.end);
    let writing = Writing::new(&pickle, shown, folder, reading.source_id, bytes.len());
    let mut out = writing.run(root)?;
    if end < bytes.len() {
        out.log.add(Severity::Info, "trailing-data", Some(end as u64), || {
            format!("{} bytes after the end of the pickle; not read", bytes.len() - end)
        });
    }
    Ok(Ok(out))
}

/// Whether what cannot be read calls itself a snapshot.
fn is_marked(bytes: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    has("segments") && has("total_size")
}
