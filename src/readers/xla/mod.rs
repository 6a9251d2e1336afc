//! Reads profiles of XLA: of JAX and PyTorch/XLA, on TPUs, GPUs and CPUs.
//!
//! In: an XPlane file (`*.xplane.pb`), or the Chrome form of it (`*.trace.json`). Out: a [`Share`] for
//! each device that computes, and one for what is of the host. Not here: which rank each is when the
//! file does not say it (`job::hosts`).

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

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::place::Place;
use crate::input::progress::Watcher;
use crate::input::unpacked::Local;
use crate::pool::Pool;
use crate::readers::share::Share;
use crate::spool::steps::StepPatterns;

/// What is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Protocol buffers.
    XPlane,
    /// JSON.
    Chrome,
}

/// How a file is to be read.
pub struct Reading<'a> {
    /// Where it lies.
    pub place: &'a Place,
    /// What it is.
    pub form: Form,
    /// Makes the folder for the spool files of a share.
    pub folder: &'a dyn Fn(usize) -> Result<PathBuf>,
    /// Number of the source, for the ids of events.
    pub source_id: i64,
    /// Rank of its first device, given by hand.
    pub first_rank: Option<i64>,
    /// Rank that the path says: of a file with one device.
    pub name_rank: Option<i64>,
    /// Whether what can be read of a damaged file is kept.
    pub keep_partial: bool,
    /// Threads that share the work.
    pub pool: &'a Arc<Pool>,
    /// What marks steps.
    pub steps: &'a Arc<StepPatterns>,
    /// Who is told how far it is.
    pub watcher: &'a Watcher,
}

/// What a file held.
#[derive(Debug)]
pub struct Xla {
    /// The ranks, and what is of none.
    pub shares: Vec<Share>,
    /// SHA-256 of the file on disk.
    pub sha256: String,
}

/// Devices of a file, each of which has tables of its own: hosts have 16, and tests on CPUs some hundreds.
const MAX_DEVICES: usize = 512;

fn not_too_many(devices: usize) -> Result<()> {
    if devices <= MAX_DEVICES {
        return Ok(());
    }
    Err(Error::new("value-too-large", format!("the file holds {devices} devices that compute"))
        .facts(format!("at most {MAX_DEVICES} are read"))
        .hint("profile fewer devices of the process"))
}

/// What is wrong with a file in protocol buffers as a whole; None where nothing is, or it cannot be looked
/// at as it lies (packed, or not to be opened): reading it will tell.
pub fn fault(file: &Path) -> Option<String> {
    let is_packed = file.extension().is_some_and(|e| e == "gz");
    if is_packed { None } else { xplane::fault(file).ok().flatten() }
}

/// Reads a file; what it is, when it is no profile.
///
/// # Errors
/// `trace-truncated`, `protobuf-invalid`, `json-invalid`, `gzip-broken`, `value-too-large` for the file; `io` when the spool
/// cannot be written.
pub fn read(reading: &Reading<'_>) -> Result<Result<Xla, String>> {
    let folder = (reading.folder)(0)?;
    if reading.form == Form::Chrome {
        let (shares, sha256) = chrome::read(reading, folder)?;
        return Ok(Ok(Xla { shares, sha256 }));
    }
    let copy = folder.join("unpacked.pb");
    let (place, partial) = (reading.place, reading.keep_partial);
    let local = Local::open(place, &copy, |_| None, partial, reading.pool, reading.watcher)?;
    let out = xplane::read(reading, &local.path, local.cut.clone(), folder);
    let sha256 = local.close(reading.pool);
    Ok(match out? {
        Ok(shares) => Ok(Xla { shares, sha256: sha256? }),
        Err(what) => Err(what),
    })
}
