//! What an ingest remembers of a file that it has read: enough to build the trace again without
//! reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job::{Communicator, Facts};
use super::log::Log;
use super::manifest::Source;
use super::totals::Totals;
use crate::error::{Error, Result};

/// Name of the file in a trace directory, and in the folder of a file that was read.
pub const FILE: &str = "records.json";

/// Raised when a reader makes other rows of the same bytes: what it made before is then not used.
const READER_VERSION: u32 = 5;

/// The row of `ranks` that a file makes, without the rank.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RankRow {
    /// Host.
    pub host: Option<String>,
    /// Name of the device.
    pub device_name: Option<String>,
    /// Its multiprocessors.
    pub sm_count: Option<i64>,
    /// Its memory.
    pub memory_bytes: Option<i64>,
    /// Its compute capability.
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

/// What the user asked for that changes the rows of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Whether complete events of a damaged file were kept.
    pub keep_partial: bool,
    /// Names of the ranges that mark steps (`--step-range`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_range: Option<String>,
}

/// What a reader made of one rank in one file (a file may hold several), or of what is of no rank.
#[derive(Debug, Default)]
pub struct Share {
    /// What `ranks` says of it.
    pub row: RankRow,
    /// Findings; those of the file as a whole are with its first share.
    pub log: Log,
    /// Counts and spans, the base included.
    pub totals: Totals,
    /// What must still be added to relative `ts_ns` in the spool files.
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
    /// Its place among the ranks of the file, by device.
    pub place: usize,
}

/// One file that was read, or the share of one rank in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    reader_version: u32,
    /// What the user asked for.
    pub asked: Asked,
    /// Its entry in the manifest (the rank is filled when the job is known).
    pub source: Source,
    /// What the split knew of it.
    pub facts: Facts,
    /// Counts and spans.
    pub totals: Totals,
    /// Findings.
    pub log: Log,
    /// What `ranks` says of it.
    pub row: RankRow,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// What must still be added to relative times in the files below.
    pub pending_base_ns: i64,
    /// File of each table that has rows: its name in the folder of the record; for a table whose
    /// files hold many ranks, in a trace directory, its name in the folder of the table.
    pub tables: BTreeMap<String, String>,
}

impl Record {
    /// Of what was read just now.
    pub fn new(source: Source, facts: Facts, share: Share, asked: Asked) -> Self {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into();
        Self {
            reader_version: READER_VERSION,
            asked,
            source,
            facts,
            totals: share.totals,
            log: share.log,
            row: share.row,
            bytes: share.bytes,
            pending_base_ns: share.pending_base_ns,
            tables: share.spool.iter().map(|(t, path)| ((*t).to_owned(), name(path))).collect(),
        }
    }

    /// Whether it says what a reader of today would say of the same bytes.
    pub fn is_current(&self, asked: &Asked) -> bool {
        self.reader_version == READER_VERSION && self.asked == *asked
    }
}

/// Writes records, in one step.
///
/// # Errors
/// `io` when they cannot be written.
pub fn write(folder: &Path, records: &[&Record]) -> Result<()> {
    let text = serde_json::to_vec(records)
        .map_err(|e| Error::new("io", format!("cannot write the records: {e}")))?;
    let (aside, path) = (folder.join(".records"), folder.join(FILE));
    std::fs::write(&aside, text).map_err(|e| crate::error::io(&aside, &e))?;
    std::fs::rename(&aside, &path).map_err(|e| crate::error::io(&path, &e))
}

/// The records in a folder; none where they are missing or cannot be understood.
pub fn read(folder: &Path) -> Vec<Record> {
    let text = std::fs::read(folder.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Members of the header that `ranks` and the split use.
pub struct Header<'a>(pub &'a [(String, Value)]);

impl Header<'_> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn distributed(&self, key: &str) -> Option<&Value> {
        self.get("distributedInfo")?.get(key)
    }

    /// `distributedInfo.rank`, when it is an integer from 0 on.
    pub fn rank(&self) -> Option<i64> {
        self.distributed("rank")?.as_i64().filter(|r| (0..=10_000_000).contains(r))
    }

    /// `distributedInfo.world_size`, when it is an integer from 1 on.
    pub fn world_size(&self) -> Option<i64> {
        self.distributed("world_size")?.as_i64().filter(|w| (1..=10_000_000).contains(w))
    }

    /// Whether `distributedInfo` states a rank or world size that cannot be one.
    pub fn is_odd(&self) -> bool {
        let odd = |key, ok: bool| self.distributed(key).is_some_and(|v| !v.is_null()) && !ok;
        odd("rank", self.rank().is_some()) || odd("world_size", self.world_size().is_some())
    }

    fn text(&self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::String(s) if !s.is_empty() => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        }
    }

    /// The entry of `deviceProperties` for a device: by id, else the only one (containers renumber
    /// devices, and the list then holds id 0 alone).
    pub fn device(&self, id: Option<i64>) -> Option<&Value> {
        let list = self.get("deviceProperties")?.as_array()?;
        list.iter()
            .find(|d| id.is_some() && d.get("id").and_then(Value::as_i64) == id)
            .or(if list.len() == 1 { list.first() } else { None })
    }

    /// The name of a device; NULL where the trace leaves it empty.
    pub fn device_name(&self, id: Option<i64>) -> Option<String> {
        self.text(self.device(id)?.get("name"))
    }

    /// What `ranks` says of the rank whose device this is.
    pub fn row(&self, device: Option<i64>, base_ns: Option<i64>) -> RankRow {
        let number =
            |key: &str| self.device(device).and_then(|d| d.get(key)).and_then(Value::as_i64);
        RankRow {
            host: self.host(),
            device_name: self.device_name(device),
            sm_count: number("numSms"),
            memory_bytes: number("totalGlobalMem"),
            compute_capability: capability(number("computeMajor"), number("computeMinor")),
            world_size: self.world_size(),
            backend: self.text(self.distributed("backend")),
            nccl_version: self.text(self.distributed("nccl_version")),
            base_ns,
        }
    }

    /// The host: `host_name` or `hostname`.
    pub fn host(&self) -> Option<String> {
        self.text(self.get("host_name").or(self.get("hostname")))
    }
}
