//! Where rows come from: the profilers and tools whose files are read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A profiler or tool, by the word that stands in the tables, in `manifest.json` and in options.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Benchmarks of inference, logs of expert loads, samples of NVLink.
    Bench,
    /// Execution traces of PyTorch.
    Et,
    /// Kineto, the profiler of PyTorch.
    #[default]
    Kineto,
    /// Snapshots of PyTorch's memory.
    Memory,
    /// NVIDIA Nsight Systems.
    Nsys,
    /// The profiler of XLA.
    Xla,
}

impl Source {
    /// Every source, in the order of the words.
    pub const ALL: [Self; 6] =
        [Self::Bench, Self::Et, Self::Kineto, Self::Memory, Self::Nsys, Self::Xla];

    /// The word of the source.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Et => "et",
            Self::Kineto => "kineto",
            Self::Memory => "memory",
            Self::Nsys => "nsys",
            Self::Xla => "xla",
        }
    }

    /// The source of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.word() == word)
    }

    /// Whether the source records the work of devices, or what an execution trace says of it.
    pub const fn is_profiler(self) -> bool {
        !self.joins_others()
    }

    /// Whether a file belongs to the job beside it, whatever folder it lies in itself.
    pub const fn joins_others(self) -> bool {
        matches!(self, Self::Memory | Self::Bench)
    }

    /// Whether files only tell more of ranks that a profiler recorded.
    pub const fn tells_more(self) -> bool {
        matches!(self, Self::Et | Self::Memory | Self::Bench)
    }
}

/// The words of sources with a text between them.
pub fn joined(sources: &[Source], between: &str) -> String {
    sources.iter().map(|source| source.word()).collect::<Vec<_>>().join(between)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_and_read() {
        for source in Source::ALL {
            let json = serde_json::to_string(&source).expect("a word is JSON");
            assert_eq!(json, format!("\"{source}\""));
            assert_eq!(serde_json::from_str::<Source>(&json).expect("a word"), source);
            assert_eq!(Source::of_word(source.word()), Some(source));
        }
        assert!(Source::ALL.is_sorted_by_key(|source| source.word()) && Source::ALL.is_sorted());
    }
}
