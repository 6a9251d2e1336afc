//! What is asked of a reader, and what it answers.
//!
//! In: a [`Reading`], which says where the file lies, what it is, and what flags and path say of
//! it. Out: an [`Answer`]. A reader reads no paths and no flags itself.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::input::place::Place;
use crate::input::progress::Watcher;
use crate::pool::Pool;
use crate::readers::share::Share;
use crate::schema::source::Source;
use crate::spool::steps::StepPatterns;

/// A file that is to be read, and how.
pub struct Reading<'a> {
    /// Place of the file.
    pub place: &'a Place,
    /// Kind of the file.
    pub kind: Kind,
    /// Number of the source, for the ids of rows.
    pub source_id: i64,
    /// Words of the user and of the path about the file.
    pub said: Said,
    /// Whether what can be read of a damaged file is kept.
    pub keep_partial: bool,
    /// Makes an empty folder for the rows of a share, by its number.
    pub folder: &'a dyn Fn(usize) -> Result<PathBuf>,
    /// Threads that share the work.
    pub pool: &'a Arc<Pool>,
    /// Ranges that are steps, where the user names them.
    pub own_steps: Option<&'a Arc<StepPatterns>>,
    /// The watcher that is told of progress.
    pub watcher: &'a Watcher,
}

impl Reading<'_> {
    /// Ranges that are steps: those that the user names, or else those that are known.
    pub fn steps(&self) -> Arc<StepPatterns> {
        self.own_steps.cloned().unwrap_or_else(StepPatterns::known)
    }
}

/// The words of flags and of the path about a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// Rank of a flag: that of the first rank in the file.
    pub first_rank: Option<i64>,
    /// Rank of the path.
    pub rank: Option<i64>,
    /// Layer of the path.
    pub layer: Option<i64>,
    /// Device of the path.
    pub device: Option<i64>,
    /// Whether the user named this very file, not a folder of it.
    pub is_named: bool,
}

/// The answer of a reader.
#[derive(Debug)]
pub enum Answer {
    /// The file was read.
    Shares {
        /// The ranks of the file, and what is of none of them.
        shares: Vec<Share>,
        /// SHA-256 of the file on disk.
        sha256: String,
    },
    /// The file is of this kind, which its first bytes do not say.
    Is(Kind),
    /// The file is no trace, but this.
    Other(String),
}

impl Answer {
    /// The answer for a file that is no trace, but this.
    pub fn other(what: impl Into<String>) -> Self {
        Self::Other(what.into())
    }
}

/// The kind of a file, by its first bytes.
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
    /// A file that people write beside traces: a text about them, a script, a picture.
    Prose,
    /// Anything else, by description.
    Other(&'static str),
}

impl Kind {
    /// The profiler whose reader takes it.
    pub fn source(self) -> Source {
        match self {
            Self::Sqlite | Self::NsysReport | Self::NsysFolder => Source::Nsys,
            Self::XPlane | Self::XlaJson => Source::Xla,
            Self::ExecutionTrace => Source::Et,
            Self::Pickle | Self::MemoryTimeline => Source::Memory,
            Self::BenchRecord | Self::NvlinkSamples => Source::Bench,
            _ => Source::Kineto,
        }
    }

    /// The kinds that there is a reader for.
    const READ: [Self; 11] = [
        Self::Json,
        Self::XlaJson,
        Self::ExecutionTrace,
        Self::XPlane,
        Self::Sqlite,
        Self::NsysReport,
        Self::NsysFolder,
        Self::Pickle,
        Self::MemoryTimeline,
        Self::BenchRecord,
        Self::NvlinkSamples,
    ];

    /// A kind that is read, by the name that it is printed as.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::READ.into_iter().find(|kind| format!("{kind:?}") == word)
    }

    /// Whether there is a reader for it.
    pub fn is_read(self) -> bool {
        Self::READ.contains(&self)
    }

    /// Whether a file is read alone, with all threads: it holds many ranks, or is read as a whole.
    pub fn is_read_alone(self) -> bool {
        !matches!(self, Self::Json | Self::ExecutionTrace)
    }
}
