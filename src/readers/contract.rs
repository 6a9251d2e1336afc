//! What is asked of a reader, and what it answers.

/// What the first bytes of a file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Starts like JSON: read as Kineto, which may still find that it is none.
    Json,
    /// JSON whose first lines are those of XLA's profiler.
    XlaJson,
    /// JSON whose first members are those of an execution trace of PyTorch.
    ExecutionTrace,
    /// A profile of XLA in protocol buffers, by its name.
    XPlane,
    /// An SQLite database: perhaps an export of Nsight Systems.
    Sqlite,
    /// A report of Nsight Systems, which `nsys` alone can read.
    NsysReport,
    /// A folder with a Parquet file for each table, as `nsys export --type parquetdir` writes it.
    NsysFolder,
    /// A YAML file: perhaps a workload card.
    Yaml,
    /// A pickle by its name: perhaps a snapshot of PyTorch's memory.
    Pickle,
    /// A raw timeline of PyTorch's memory.
    MemoryTimeline,
    /// A record of a benchmark of inference, or a log of the gates of a mixture of experts.
    BenchRecord,
    /// Samples of the counters of NVLink.
    NvlinkSamples,
    /// What people write beside traces: a text about them, a script, a picture.
    Prose,
    /// Anything else, by description.
    Other(&'static str),
}

impl Kind {
    /// The profiler whose reader takes it.
    pub fn source(self) -> &'static str {
        match self {
            Self::Sqlite | Self::NsysReport | Self::NsysFolder => "nsys",
            Self::XPlane | Self::XlaJson => "xla",
            Self::ExecutionTrace => "et",
            Self::Pickle | Self::MemoryTimeline => "memory",
            Self::BenchRecord | Self::NvlinkSamples => "bench",
            _ => "kineto",
        }
    }

    /// Whether there is a reader for it.
    pub fn is_read(self) -> bool {
        !matches!(self, Self::Yaml | Self::Prose | Self::Other(_))
    }
}
