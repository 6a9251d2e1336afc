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
use crate::input::place::{self, OnDisk, Opened};
use crate::input::progress::Watcher;
use crate::input::window::Window;
use crate::readers::contract::{Answer, Kind, Reading};
use crate::readers::log::Severity;
use crate::readers::memory::pickle::{Known, Stop};
use crate::readers::memory::snapshot::{Out, Writing, not_a_snapshot};
use crate::readers::memory::value::Arena;
use crate::readers::share::Share;

/// Unpacked bytes of the largest timeline: some ten million entries.
const MAX_TIMELINE_BYTES: u64 = 1 << 28;

/// Reads a snapshot, or a timeline.
///
/// # Errors
/// `pickle-code`, `pickle-invalid`, `json-invalid`, `trace-truncated`, `gzip-broken`,
/// `value-too-large`, `file-unreadable` for the file; `io` when the spool cannot be written. A
/// pickle that cannot be read and that nothing marks as a snapshot is an error only where the user
/// named it.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let (shown, folder) = (reading.place.display(), (reading.folder)(0)?);
    let (out, bytes, file) = if reading.kind == Kind::MemoryTimeline {
        let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
        let (out, bytes) =
            timeline::read(reader, MAX_TIMELINE_BYTES, &shown, &folder, reading.source_id)?;
        (out, bytes, file)
    } else {
        match snapshot(reading, &folder)? {
            Ok(read) => read,
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
    let share = Share { log, totals, bytes, spool, is_rank: true, ..Share::default() };
    let sha256 = file.sha256(&reading.place.file)?;
    Ok(Answer::Shares { shares: vec![share], sha256 })
}

/// Reads a pickle, its bytes, and the file; what it is, when it is no snapshot.
fn snapshot(reading: &Reading<'_>, folder: &Path) -> Result<Result<(Out, u64, OnDisk), String>> {
    let shown = reading.place.display();
    // Progress counts the second time.
    let known = Known::of(place::open(reading.place, &Watcher::default())?.reader, &shown)?;
    let bytes = known.bytes;
    let mut arena = Arena::default();
    let mut writing = Writing::new(&mut arena, shown.clone(), folder, reading.source_id, bytes);
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let pickle = match pickle::stream(reader, known, arena, Some(&mut writing)) {
        Ok(pickle) => pickle,
        Err(Stop::Error(error)) => return Err(error),
        Err(Stop::Fault(fault)) if reading.said.is_named || is_marked(reading)? => {
            return Err(fault.error(&shown));
        }
        Err(Stop::Fault(fault)) => {
            return Ok(Err(format!(
                "a pickle that is no torch memory snapshot: {} (byte {})",
                fault.message, fault.offset
            )));
        }
    };
    if let Some(what) = not_a_snapshot(&pickle) {
        return Ok(Err(what));
    }
    let end = pickle.end as u64;
    let mut out = writing.run(&pickle)?;
    if end < bytes {
        out.log.add(Severity::Info, "trailing-data", Some(end), || {
            format!("{} bytes after the end of the pickle; not read", bytes - end)
        });
    }
    Ok(Ok((out, bytes, file)))
}

/// Whether what cannot be read calls itself a snapshot.
fn is_marked(reading: &Reading<'_>) -> Result<bool> {
    const WORDS: [&str; 2] = ["segments", "total_size"];
    let mut window = Window::new(place::open(reading.place, &Watcher::default())?.reader);
    let mut has = [false; 2];
    while has != [true; 2] {
        // A word may stand across the end of what is in hand.
        window.consume(window.bytes().len().saturating_sub(WORDS[1].len()));
        if !window.fill() {
            break;
        }
        for (has, word) in has.iter_mut().zip(WORDS) {
            *has |= memchr::memmem::find(window.bytes(), word.as_bytes()).is_some();
        }
    }
    Ok(has == [true; 2])
}
