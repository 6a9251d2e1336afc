//! What a file says of its machine, its processes and its own making: clock, devices, environment.
//!
//! Nsight Systems keeps the whole environment and command line of what it ran, tokens included.
//! Only what is on a list goes into the tables.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::Result;
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::database::{Database, int, text};
use crate::readers::nsys::ids::pid_of;
use crate::readers::share::capability;

/// Rows of a table of the target that are read at most.
const MAX_ROWS: usize = 100_000;
/// Diagnostics that are kept, and bytes of each.
const MAX_DIAGNOSTICS: usize = 100;
const MAX_DIAGNOSTIC_BYTES: usize = 500;
/// Bytes of a value of the header or the environment that are kept.
const MAX_VALUE_BYTES: usize = 2000;

/// Variables of the environment that say the rank, the best first.
const RANK_VARIABLES: [&str; 7] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
];
/// Variables that say the number of ranks, in the same order of trust.
const WORLD_VARIABLES: [&str; 6] = [
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
];
/// Further variables that may be kept.
const OTHER_VARIABLES: [&str; 21] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
    "NNODES",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NNODES",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_GPUS_ON_NODE",
    "OMP_NUM_THREADS",
];
/// Beginnings of variables that may be kept: settings of the communication libraries.
const VARIABLE_PREFIXES: [&str; 3] = ["NCCL_", "RCCL_", "TORCH_NCCL_"];
/// Words in the name of a variable that is never kept, whatever it begins with.
const SECRET_WORDS: [&str; 6] = ["TOKEN", "SECRET", "PASSW", "KEY", "AUTH", "CREDENTIAL"];

/// Keys of the header that may be kept: versions and how it was exported, never a path, host or
/// user.
const HEADER_KEYS: [&str; 22] = [
    "EXPORT_PRODUCT_NAME",
    "EXPORT_PRODUCT_VERSION",
    "EXPORT_PRODUCT_DATE",
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_SCHEMA_VERSION_MAJOR",
    "EXPORT_SCHEMA_VERSION_MINOR",
    "EXPORT_SCHEMA_VERSION_MICRO",
    "EXPORT_SCHEMA_VERSION_CKSUM",
    "EXPORT_PLATFORM",
    "EXPORT_ARCH",
    "EXPORT_TIME_UTC",
    "EXPORT_LAZY",
    "EXPORT_CONFIG_TIME_SHIFT",
    "EXPORT_PARAM_LAZY",
    "EXPORT_PARAM_INCLUDE_JSON",
    "EXPORT_PARAM_INCLUDE_BLOBS",
    "EXPORT_PARAM_TIME_NORMALIZE",
    "EXPORT_PARAM_TIME_SHIFT",
    "EXPORT_PARAM_TABLES_TO_EXPORT",
    "EXPORT_PARAM_TIMES_TO_EXPORT",
    "DERIVED_WINDOW_NS",
    "EXPORT_TIME_NORMALIZE",
];
/// Properties of the machine that may be kept.
const SYSTEM_KEYS: [&str; 10] = [
    "CpuCores",
    "CpuArchitecture",
    "CpuDescription",
    "CudaDriverVersion",
    "HardwarePlatform",
    "NvDriverVersion",
    "OsDescription",
    "SoftwarePlatform",
    "SoftwareReleaseVersion",
    "KernelVersion",
];

/// A GPU of the machine.
#[derive(Debug, Clone, Default)]
pub struct Gpu {
    /// The name of the device.
    pub name: Option<String>,
    /// Multiprocessors of the device.
    pub sm_count: Option<i64>,
    /// Memory of the device in bytes.
    pub memory_bytes: Option<i64>,
    /// The compute capability of the device.
    pub compute_capability: Option<String>,
    /// The number of the device for CUDA.
    cuda_device: Option<i64>,
}

/// What a file says beside its events.
#[derive(Debug, Default)]
pub struct Target {
    /// Added to recorded times; None where the file does not say when the capture started.
    pub base_ns: Option<i64>,
    /// Host.
    pub host: Option<String>,
    /// Rank that the environment of the launched process says.
    pub rank: Option<i64>,
    /// Ranks of the job, likewise.
    pub world_size: Option<i64>,
    /// Ranks by process, as MPI says them.
    pub mpi_ranks: BTreeMap<i64, i64>,
    /// Rows of `metadata`.
    pub metadata: Vec<(String, String)>,
    /// Whether whole graphs were traced in place of their kernels.
    pub blobs_left_out: bool,
    gpus: BTreeMap<i64, Gpu>,
    /// GPU of a process and its CUDA device.
    cuda_devices: BTreeMap<(i64, i64), i64>,
    /// Whether the file says the CUDA number of its GPUs.
    has_cuda_numbers: bool,
}

/// A variable of the environment, when its name is on the list and its value looks like one of it.
fn kept(assignment: &str) -> Option<(String, String)> {
    let (name, value) = assignment.split_once('=')?;
    let value = value.strip_prefix('"').unwrap_or(value);
    let value = value.strip_suffix('"').unwrap_or(value);
    let secret = SECRET_WORDS.iter().any(|word| name.to_uppercase().contains(word));
    let listed = RANK_VARIABLES.contains(&name)
        || WORLD_VARIABLES.contains(&name)
        || OTHER_VARIABLES.contains(&name);
    // Numbers, and lists of devices.
    let plain =
        |value: &str| value.bytes().all(|b| b"0123456789abcdefABCDEFGPUMIx,-()/ ".contains(&b));
    let fits = if listed {
        plain(value)
    } else {
        !secret && VARIABLE_PREFIXES.iter().any(|p| name.starts_with(p))
    };
    (fits && value.len() <= 500).then(|| (name.to_owned(), value.to_owned()))
}

/// The beginning of a text.
pub fn short(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl Target {
    /// Reads what a file says beside its events; diagnostics go into `log`.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn read(database: &Database, log: &mut Log) -> Result<Self> {
        let mut out = Self::default();
        out.header(database)?;
        out.clock(database)?;
        let secrets = out.environment(database)?;
        out.gpus(database)?;
        database.each("MPI_RANKS", &["globalTid", "rank"], "", MAX_ROWS, |row| {
            if let (Some(thread), Some(rank)) = (int(row, 0), int(row, 1).filter(|r| *r >= 0)) {
                out.mpi_ranks.insert(thread & !0xFF_FFFF, rank);
            }
            Ok(())
        })?;
        diagnostics(database, &secrets, log)?;
        Ok(out)
    }

    fn header(&mut self, database: &Database) -> Result<()> {
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            database.each(table, &["name", "value"], "", MAX_ROWS, |row| {
                if let (Some(key), Some(value)) = (text(row, 0), text(row, 1))
                    && HEADER_KEYS.contains(&key.as_str())
                {
                    self.metadata.push((key, short(&value, MAX_VALUE_BYTES)));
                }
                Ok(())
            })?;
        }
        self.blobs_left_out = self.value("EXPORT_PARAM_INCLUDE_BLOBS") == Some("false");
        Ok(())
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The Unix time of time 0: the start of the capture, less what the export has added already.
    fn clock(&mut self, database: &Database) -> Result<()> {
        let shift = self.value("EXPORT_CONFIG_TIME_SHIFT").and_then(|s| s.parse::<i64>().ok());
        database.each("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], "", 1, |row| {
            self.base_ns = int(row, 0)
                .filter(|epoch| (0..i64::MAX / 2).contains(epoch))
                .and_then(|epoch| epoch.checked_sub(shift.unwrap_or(0)));
            Ok(())
        })
    }

    /// Variables of the environment that are on the list; returns the values of all others, and the
    /// words of the command line: they may be secrets.
    fn environment(&mut self, database: &Database) -> Result<BTreeSet<String>> {
        let mut secrets = BTreeSet::new();
        let mut hide = |text: &str| {
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            let parts = text.split(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
            let parts = parts.filter(|part| part.bytes().any(|b| b.is_ascii_digit()));
            let words = text.split_whitespace().chain(parts).chain([text, value]);
            let words = words.map(|word| word.trim_matches('"')).filter(|word| word.len() >= 8);
            secrets.extend(words.map(str::to_owned));
        };
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut of_machine = Vec::new();
        let mut of_process = false;
        database.each("META_DATA_CAPTURE", &["name", "value"], "", MAX_ROWS, |row| {
            let (Some(key), Some(value)) = (text(row, 0), text(row, 1)) else { return Ok(()) };
            if key.ends_with("ENVIRONMENT_VARIABLE") {
                of_process = true;
                if let Some((name, value)) = kept(&value) {
                    seen.insert(name, value);
                } else {
                    hide(&value);
                }
            } else if key.contains("ARGUMENT") || key.contains("COMMAND") || key.contains("DIR") {
                hide(&value);
            } else if key.starts_with("CUDA_GRAPH_TRACE_OPTIONS") {
                self.metadata.push((short(&key, 255), short(&value, 255)));
            }
            Ok(())
        })?;
        database.each("TARGET_INFO_SYSTEM_ENV", &["name", "value"], "", MAX_ROWS, |row| {
            let (Some(key), Some(value)) = (text(row, 0), text(row, 1)) else { return Ok(()) };
            match key.as_str() {
                "DeviceEnvironment" => of_machine.push(value),
                "Hostname" if !value.is_empty() => self.host = Some(short(&value, 255)),
                key if SYSTEM_KEYS.contains(&key) => {
                    self.metadata.push((key.to_owned(), short(&value, MAX_VALUE_BYTES)));
                }
                _ => {}
            }
            Ok(())
        })?;
        for whole in of_machine {
            // One text for all variables: a value with a semicolon cannot be told from two, so it
            // is asked only where there is nothing better.
            for assignment in whole.split(';') {
                match kept(assignment).filter(|_| !of_process) {
                    Some((name, value)) => _ = seen.insert(name, value),
                    None => hide(assignment),
                }
            }
        }
        // What is kept is no secret, wherever else it stands.
        secrets.retain(|secret| !seen.values().any(|value| value == secret));
        let number = |names: &[&str]| names.iter().find_map(|n| seen.get(*n)?.parse::<i64>().ok());
        self.rank = number(&RANK_VARIABLES).filter(|r| (0..=10_000_000).contains(r));
        self.world_size = number(&WORLD_VARIABLES).filter(|w| (1..=10_000_000).contains(w));
        self.metadata.extend(seen.into_iter().map(|(name, value)| (format!("env:{name}"), value)));
        Ok(secrets)
    }

    fn gpus(&mut self, database: &Database) -> Result<()> {
        self.has_cuda_numbers = database.has("TARGET_INFO_GPU", "cuDevice");
        let columns =
            ["id", "name", "smCount", "totalMemory", "cuDevice", "computeMajor", "computeMinor"];
        database.each("TARGET_INFO_GPU", &columns, "", 4096, |row| {
            let Some(id) = int(row, 0) else { return Ok(()) };
            let positive = |at| int(row, at).filter(|n| *n > 0);
            let gpu = Gpu {
                name: text(row, 1).filter(|n| !n.is_empty()),
                sm_count: positive(2),
                memory_bytes: positive(3),
                cuda_device: int(row, 4),
                compute_capability: capability(int(row, 5), int(row, 6)),
            };
            self.gpus.insert(id, gpu);
            Ok(())
        })?;
        let columns = ["gpuId", "cudaId", "pid", "numMultiprocessors"];
        database.each("TARGET_INFO_CUDA_DEVICE", &columns, "", MAX_ROWS, |row| {
            if let (Some(gpu), Some(cuda), Some(pid)) = (int(row, 0), int(row, 1), int(row, 2)) {
                self.cuda_devices.insert((pid, cuda), gpu);
                if let (Some(known), Some(count)) = (self.gpus.get_mut(&gpu), int(row, 3)) {
                    known.sm_count = known.sm_count.or(Some(count));
                }
            }
            Ok(())
        })
    }

    /// Number of the GPU that is this CUDA device of a process.
    pub fn gpu_id(&self, process: i64, device: i64) -> Option<i64> {
        let pid = pid_of(process)?;
        let by_number =
            || self.gpus.iter().find(|(_, g)| g.cuda_device == Some(device)).map(|g| *g.0);
        let same = || (!self.has_cuda_numbers && self.gpus.contains_key(&device)).then_some(device);
        self.cuda_devices.get(&(pid, device)).copied().or_else(by_number).or_else(same)
    }

    /// The GPU that is this CUDA device of a process.
    pub fn gpu(&self, process: i64, device: i64) -> Option<&Gpu> {
        self.gpus.get(&self.gpu_id(process, device)?)
    }
}

/// What the profiler says of the capture. The words of its text that may be secrets are left out.
fn diagnostics(database: &Database, secrets: &BTreeSet<String>, log: &mut Log) -> Result<()> {
    // The longest word first: one may be the beginning of another. Without it nothing is said.
    let hidden = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(secrets);
    let Ok(hidden) = hidden else { return Ok(()) };
    let mut kept: BTreeMap<(Severity, String), u64> = BTreeMap::new();
    let mut more = 0;
    database.each("DIAGNOSTIC_EVENT", &["severity", "text"], "", MAX_ROWS, |row| {
        let mut said = text(row, 1).unwrap_or_default();
        // 1 info, 2 warning, 3 error. Most warnings are of kinds of events that were not asked for.
        let lost = ["lost", "dropped", "discarded", "incomplete"];
        let severity = match int(row, 0) {
            Some(3) => Severity::Loss,
            Some(2) if lost.iter().any(|word| said.to_lowercase().contains(word)) => Severity::Loss,
            _ => Severity::Info,
        };
        if !secrets.is_empty() {
            said = hidden.replace_all(&said, &vec!["***"; secrets.len()]);
        }
        let said = short(said.trim(), MAX_DIAGNOSTIC_BYTES);
        let known = kept.contains_key(&(severity, said.clone()));
        if known || kept.len() < MAX_DIAGNOSTICS {
            *kept.entry((severity, said)).or_default() += 1;
        } else {
            more += 1;
        }
        Ok(())
    })?;
    for ((severity, said), count) in kept {
        log.say(severity, "nsys-diagnostic", count, said);
    }
    if more > 0 {
        log.say(Severity::Info, "nsys-diagnostic", more, "further diagnostics".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_with_fitting_values_are_kept() {
        for text in [
            "RANK=3",
            "NCCL_DEBUG=INFO",
            "RCCL_MSCCL_ENABLE=0",
            "CUDA_VISIBLE_DEVICES=\"0,1\"",
            "CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
            "SLURM_NTASKS_PER_NODE=4(x2)",
        ] {
            assert!(kept(text).is_some(), "{text}");
        }
        for text in [
            "HF_TOKEN=1",
            "NCCL_AUTH_TOKEN=1",
            "PATH=/bin",
            "SLURM_JWT=x",
            "=1",
            "RANK",
            "RANK=0;hf_x",
        ] {
            assert!(kept(text).is_none(), "{text}");
        }
        let long = |bytes: usize| kept(&format!("NCCL_TOPO={}", "a".repeat(bytes)));
        assert_eq!((long(500).is_some(), long(501).is_some()), (true, false));
    }
}
