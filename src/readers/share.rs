//! What a reader made of one rank of a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::readers::log::Log;
use crate::spool::totals::Totals;

/// The row of `ranks` that a file makes, without the rank.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RankRow {
    /// Host.
    pub host: Option<String>,
    /// Name of the device.
    pub device_name: Option<String>,
    /// Number of multiprocessors of the device.
    pub sm_count: Option<i64>,
    /// Memory of the device.
    pub memory_bytes: Option<i64>,
    /// Compute capability of the device.
    #[serde(default)]
    pub compute_capability: Option<String>,
    /// World size that the file states.
    pub world_size: Option<i64>,
    /// Communication backend.
    pub backend: Option<String>,
    /// Version of NCCL or RCCL.
    pub nccl_version: Option<String>,
    /// Base of the clock.
    pub base_ns: Option<i64>,
}

/// A compute capability as CUDA and ROCm spell it.
pub fn capability(major: Option<i64>, minor: Option<i64>) -> Option<String> {
    let plausible = |n: &i64| (0..1000).contains(n);
    let (major, minor) = (major.filter(plausible)?, minor.filter(plausible)?);
    (major > 0).then(|| format!("{major}.{minor}"))
}

/// The rows that a reader made of one rank in one file (a file may hold several), or of what is of
/// no rank.
#[derive(Debug, Default)]
pub struct Share {
    /// The row of the table `ranks`.
    pub row: RankRow,
    /// Findings; those of the file as a whole are with its first share.
    pub log: Log,
    /// Counts and spans, the base included.
    pub totals: Totals,
    /// Nanoseconds that must still be added to relative `ts_ns` in the spool files.
    pub pending_base_ns: i64,
    /// Uncompressed bytes of the file; of its first share only.
    pub bytes: u64,
    /// Spool file of each table that has rows.
    pub spool: BTreeMap<&'static str, PathBuf>,
    /// Rank that the trace states.
    pub trace_rank: Option<i64>,
    /// The communicator of NCCL that may be that of the whole job.
    pub nccl: Option<Communicator>,
    /// Whether it is a rank.
    pub is_rank: bool,
    /// Place of the rank among those of the file, by device.
    pub place: usize,
}

/// A communicator that a process made: NCCL's init says its ranks and the own one among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Communicator {
    /// The same number on all its ranks; old versions do not say it.
    pub id: Option<i64>,
    /// Number of its ranks.
    pub ranks: i64,
    /// The rank of this process in it.
    pub rank: i64,
    /// Device of this process.
    pub device: Option<i64>,
}
