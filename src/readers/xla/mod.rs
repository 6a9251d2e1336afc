//! Reads profiles of XLA: of JAX and PyTorch/XLA, on TPUs, GPUs and CPUs.
//!
//! In: an XPlane file (`*.xplane.pb`), or the Chrome form of it (`*.trace.json`). Out: a `Share`
//! for each device that computes, and one for what is of the host. Not here: which rank each is
//! when the file does not say it (`ingest::ranks::xla`).

mod chrome;
mod event;
mod gather;
mod hlo;
mod ids;
mod layout;
mod meetings;
mod ops;
mod rows;
mod stats;
mod wire;
mod xplane;

use std::path::Path;

use crate::error::Result;
use crate::input::unpacked::Local;
use crate::readers::contract::{Answer, Kind, Reading};

/// What is wrong with a file in protocol buffers as a whole; None where nothing is, or where the
/// file cannot be looked at as it lies (packed, or not to be opened): reading it will tell.
pub fn fault(file: &Path) -> Option<String> {
    let is_packed = file.extension().is_some_and(|e| e == "gz");
    if is_packed { None } else { xplane::fault(file).ok().flatten() }
}

/// Reads a profile of either form.
///
/// # Errors
/// `trace-truncated`, `protobuf-invalid`, `json-invalid`, `gzip-broken`, `value-too-large` for the
/// file; `io` when the spool cannot be written.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let folder = (reading.folder)(0)?;
    if reading.kind == Kind::XlaJson {
        let (shares, sha256) = chrome::read(reading, folder)?;
        return Ok(Answer::Shares { shares, sha256 });
    }
    let copy = folder.join("unpacked.pb");
    let (place, partial) = (reading.place, reading.keep_partial);
    let local = Local::open(place, &copy, |_| None, partial, reading.pool, reading.watcher)?;
    let out = xplane::read(reading, &local.path, local.cut.clone(), folder);
    let sha256 = local.close(reading.pool);
    Ok(match out? {
        Ok(shares) => Answer::Shares { shares, sha256: sha256? },
        Err(what) => Answer::Other(what),
    })
}
