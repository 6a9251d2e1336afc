//! What is known of a file before it has a rank, and the rank that it gets.

use crate::readers::share::Communicator;
use crate::schema::source::Source;

/// The facts of a file, or of the share of a rank in it, that say its trace and rank.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// Profiler that wrote it.
    pub source: Source,
    /// Path as shown.
    pub path: String,
    /// The run that its folders name (`plugins/profile/<run>`).
    #[serde(default)]
    pub run: Option<String>,
    /// Which share of the file it is.
    pub share: usize,
    /// Place of the share among the ranks of the file, by device.
    pub place: usize,
    /// Shares of the file.
    pub shares: usize,
    /// Whether it is a rank.
    pub is_rank: bool,
    /// Device of the rank.
    pub device: Option<i64>,
    /// Host.
    pub host: Option<String>,
    /// Rank given by hand.
    pub flag_rank: Option<i64>,
    /// Rank that the trace states.
    pub trace_rank: Option<i64>,
    /// Rank that the path states.
    pub name_rank: Option<i64>,
    /// World size that the trace states.
    pub world_size: Option<i64>,
    /// Process.
    pub pid: Option<i64>,
    /// First start and last end.
    pub span_ns: Option<(i64, i64)>,
    /// The communicator of NCCL that may be that of the whole job.
    #[serde(default)]
    pub nccl: Option<Communicator>,
    /// Name of the device.
    pub device_name: Option<String>,
    /// File name without numbers.
    pub stem: String,
    /// Hash of the file.
    pub sha256: String,
}

/// A file's place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Index into the facts.
    pub file: usize,
    /// Rank; None for what is of no rank.
    pub rank: Option<i64>,
    /// Source of the rank: `flag`, `trace`, `name` or `order`; of an execution trace also `pid`.
    pub rank_source: &'static str,
    /// Ranks of the job.
    pub world_size: Option<i64>,
}

/// A file that belongs to no trace, and why: no fault, but worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Index into the facts.
    pub file: usize,
    /// The finding.
    pub code: &'static str,
    /// The sentence that is said of it and of others like it.
    pub why: String,
}
