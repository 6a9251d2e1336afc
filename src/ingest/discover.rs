//! Which files a PATH holds, what each one is by its first bytes, and the folder of its job.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;

use super::bench;
use super::input::{self, Place};
use super::json::{self, Scanner};
use super::memory::begins_timeline;
use super::watch::Watcher;
use crate::error::{Error, Result};

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

/// A file to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it lies.
    pub place: Place,
    /// What it looks like.
    pub kind: Kind,
    /// Whether the user named this very file.
    pub direct: bool,
    /// Rank given by `--rank`.
    pub rank: Option<i64>,
}

/// Every candidate below `path`, in the order of the names.
///
/// # Errors
/// `file-unreadable` when `path` itself cannot be read. A file below it that cannot be opened is a
/// candidate like any other: reading it will fail, and say so. So is a link to nowhere whose name
/// says JSON: the file of a rank may be missing.
pub fn below(path: &Path, rank: Option<i64>) -> Result<Vec<Candidate>> {
    let metadata = std::fs::metadata(path).map_err(|e| {
        Error::new("file-unreadable", format!("cannot open the path: {e}"))
            .at(path.display().to_string())
            .hint("check the spelling; a relative path counts from the current folder")
    })?;
    if !metadata.is_dir() {
        return candidates_of(path, true, rank);
    }
    let folder = |path: &Path, direct| Candidate {
        place: Place::file(path),
        kind: Kind::NsysFolder,
        direct,
        rank,
    };
    if is_nsys_folder(path) {
        return Ok(vec![folder(path, true)]);
    }
    let hidden = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() > 0
            && (name.starts_with('.') || (entry.file_type().is_dir() && name.starts_with("trace=")))
    };
    let mut out = Vec::new();
    let walk = WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter();
    let mut walk = walk.filter_entry(|e| !hidden(e));
    while let Some(entry) = walk.next() {
        match entry {
            Ok(entry) if entry.file_type().is_dir() && is_nsys_folder(entry.path()) => {
                out.push(folder(entry.path(), false));
                walk.skip_current_dir();
            }
            Ok(entry) if entry.file_type().is_file() => {
                out.extend(candidates_of(entry.path(), false, rank)?);
            }
            Ok(_) => {}
            // A link to a folder that it lies in: what is there is walked already.
            Err(e) if e.loop_ancestor().is_some() => {}
            Err(e) if e.path().is_some_and(Path::is_symlink) => {
                let place = Place::file(e.path().unwrap_or(path));
                let name = place.file.file_name().unwrap_or_default().to_string_lossy();
                if !name.starts_with('.') {
                    let kind = match names_json(&name.to_lowercase()) {
                        true => Kind::Json,
                        false => Kind::Other("a link to nowhere"),
                    };
                    out.push(Candidate { place, kind, direct: false, rank });
                }
            }
            Err(e) => {
                return Err(Error::new("file-unreadable", format!("cannot list the folder: {e}"))
                    .at(path.display().to_string()));
            }
        }
    }
    Ok(out)
}

/// Whether a folder is one export of Nsight Systems.
fn is_nsys_folder(path: &Path) -> bool {
    ["META_DATA_EXPORT.parquet", "StringIds.parquet"].iter().all(|f| path.join(f).is_file())
}

fn candidates_of(path: &Path, direct: bool, rank: Option<i64>) -> Result<Vec<Candidate>> {
    let place = Place::file(path);
    let kind = kind_of(&place);
    if kind != Kind::Other("a zip archive") {
        return Ok(vec![Candidate { place, kind, direct, rank }]);
    }
    let archive = std::fs::File::open(path)
        .map_err(zip::result::ZipError::Io)
        .and_then(zip::ZipArchive::new)
        .map_err(|e| {
            Error::new("file-unreadable", format!("cannot read the zip archive: {e}"))
                .at(path.display().to_string())
        })?;
    let mut names: Vec<String> = archive
        .file_names()
        .filter_map(|name| Some(name.ok()?.into_owned()))
        .filter(|name| !name.ends_with('/'))
        .collect();
    names.sort();
    Ok(names
        .into_iter()
        .map(|member| {
            let place = Place { file: path.to_owned(), member: Some(member) };
            let kind = kind_of(&place);
            Candidate { place, kind, direct: false, rank }
        })
        .collect())
}

/// Bytes that say what a file is.
const HEAD_BYTES: usize = 1024;

/// Whether JSON begins as converters of XLA's profiler write it: with the resolution of the clock, or
/// the name of a plane.
fn is_of_xla(head: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(head, word.as_bytes()).is_some();
    has("\"highres-ticks\"") || has("process_name") && (has("\"/host:CPU\"") || has("\"/device:"))
}

/// Whether JSON begins as an execution trace of PyTorch does: with the version of its schema, or with
/// the nodes; and with nothing that a trace of Kineto begins with.
fn is_execution_trace(head: &[u8]) -> bool {
    let start = json::skip_space(head, 0);
    if head.get(start) != Some(&b'{') {
        return false;
    }
    let (mut has_schema, mut has_nodes, mut is_other) = (false, false, false);
    // The head is cut somewhere: what comes before the cut says it.
    let _ = Scanner::default().members(head, start, |scanner, key, value| {
        let rest = &head[value..];
        match &head[key] {
            b"schema" => has_schema = rest.len() > 1 && rest[0] == b'"' && rest[1].is_ascii_digit(),
            b"nodes" => has_nodes = rest.starts_with(b"["),
            b"traceEvents" | b"schemaVersion" | b"deviceProperties" => is_other = true,
            _ => {}
        }
        scanner.skip(head, value)
    });
    (has_schema || has_nodes) && !is_other
}

/// Whether a name in small letters says JSON.
fn names_json(name: &str) -> bool {
    name.ends_with(".json") || name.ends_with(".json.gz")
}

/// Whether a name in small letters says something that is written for people.
fn names_prose(name: &str) -> bool {
    const NAMES: [&str; 7] =
        ["readme", "license", "licence", "notice", "copying", "makefile", "dockerfile"];
    const ENDINGS: [&str; 22] = [
        "md", "markdown", "rst", "txt", "adoc", "html", "htm", "pdf", "png", "jpg", "jpeg", "svg",
        "py", "sh", "toml", "cfg", "ini", "ipynb", "sql", "slurm", "sbatch", "xlsx",
    ];
    NAMES.contains(&name) || name.rsplit_once('.').is_some_and(|(_, end)| ENDINGS.contains(&end))
}

/// Whether a name in small letters says pickle.
fn names_pickle(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.ends_with(".pickle") || name.ends_with(".pkl")
}

/// Whether a name in small letters says a record of a benchmark whose first fields may say nothing.
fn names_bench(name: &str) -> bool {
    name.starts_with("gate_logs_") && name.ends_with(".json") || name.ends_with(".latency.json")
}

/// What the file looks like; a file that cannot be opened counts as JSON when its name does, so
/// that reading it reports why.
fn kind_of(place: &Place) -> Kind {
    let name = place.logical().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        return Kind::Yaml;
    }
    if name.ends_with(".xplane.pb") || name.ends_with(".xplane.pb.gz") {
        return Kind::XPlane;
    }
    if name.ends_with(".nsys-rep") || name.ends_with(".qdrep") {
        return Kind::NsysReport;
    }
    let jsonish = names_json(&name);
    let sqlish = [".sqlite", ".sqlite.gz"].iter().any(|e| name.ends_with(e));
    let mut head = vec![0; HEAD_BYTES];
    let mut have = 0;
    if let Ok(mut opened) = input::open(place, &Watcher::default()) {
        while have < head.len() {
            match opened.reader.read(&mut head[have..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => have += n,
            }
        }
    } else if jsonish {
        return Kind::Json;
    } else if sqlish {
        return Kind::Sqlite;
    }
    let head = &head[..have];
    let text = head.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(head);
    match text.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') if is_execution_trace(text) => Kind::ExecutionTrace,
        Some(b'[') if begins_timeline(text) => Kind::MemoryTimeline,
        Some(b'{') if bench::begins(text) || names_bench(&name) => Kind::BenchRecord,
        Some(b'{' | b'[') if is_of_xla(text) => Kind::XlaJson,
        Some(b'{' | b'[') => Kind::Json,
        _ if head.starts_with(b"SQLite format 3\0") => Kind::Sqlite,
        _ if head.starts_with(bench::MAGIC) => Kind::NvlinkSamples,
        _ if head.starts_with(b"PK\x03\x04") && place.member.is_none() => {
            Kind::Other("a zip archive")
        }
        _ if head.starts_with(b"version https://git-lfs") => {
            Kind::Other("a Git LFS pointer, not the file itself; fetch it with `git lfs pull`")
        }
        // A pickle may begin with any opcode; the reader says what it is.
        Some(first) if names_pickle(&name) && *first != b'<' => Kind::Pickle,
        // An empty or damaged file that calls itself JSON is a broken trace, not another thing.
        None if jsonish => Kind::Json,
        Some(_) if jsonish => Kind::Json,
        None if sqlish => Kind::Sqlite,
        _ if names_prose(&name) => Kind::Prose,
        _ => Kind::Other("no trace that is known by its first bytes"),
    }
}

/// The folder of the job of a file: the deepest one left after stripping the folders that belong
/// to one rank or to a profiler's habits (`rank3`, `torch_profiler`, `profile_trace`,
/// `plugins/profile/<time>`).
pub fn job_root(file: &Path) -> PathBuf {
    let mut root = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut of_xla = false;
    loop {
        let Some(name) = root.file_name().map(|n| n.to_string_lossy().into_owned()) else {
            return root;
        };
        let parent_is = |depth: usize, wanted: &str| {
            root.ancestors().nth(depth).and_then(Path::file_name).is_some_and(|n| n == wanted)
        };
        let levels = if is_rank_folder(&name)
            || of_xla && is_process_folder(&name)
            || matches!(
                name.as_str(),
                "torch_profiler"
                    | "profile_trace"
                    | "profile_traces"
                    | "memory_snapshot"
                    | "memory_snapshots"
            ) {
            1
        } else if parent_is(1, "profile") && parent_is(2, "plugins") {
            of_xla = true;
            3
        } else {
            return root;
        };
        match root.ancestors().nth(levels) {
            Some(parent) if parent != Path::new("") => root = parent.to_owned(),
            _ => return root,
        }
    }
}

/// The folder of the job of a record of a benchmark: without the folders that scripts make for such
/// records alone.
pub fn bench_root(file: &Path) -> PathBuf {
    let mut root = job_root(file);
    while let (Some(name), Some(parent)) = (root.file_name(), root.parent()) {
        let name = name.to_string_lossy();
        let is_own = name == "results_json" || name.contains("gates_logs");
        if !is_own || parent == Path::new("") {
            break;
        }
        root = parent.to_owned();
    }
    root
}

/// The folder of a run in the habit of TensorBoard (`plugins/profile/<run>`), if the file lies in one.
pub fn run_of(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let above = |depth: usize| folder.ancestors().nth(depth).and_then(Path::file_name);
    (above(1)? == "profile" && above(2)? == "plugins")
        .then(|| above(0).map(|run| run.to_string_lossy().into_owned()))?
}

/// The number of the folder of a process that a path of XLA's lies in (`proc1/plugins/profile/<run>/`).
pub fn process_of(path: &str) -> Option<u64> {
    let folders: Vec<&str> = path.split('/').collect();
    let at = folders.windows(2).rposition(|w| w == ["plugins", "profile"])?;
    let folder = folders[..at].last().filter(|name| is_process_folder(name))?;
    folder.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// Whether the name of a file says JSON.
pub fn is_json(path: &str) -> bool {
    names_json(&path.to_lowercase())
}

fn is_rank_folder(name: &str) -> bool {
    is_numbered(name, "rank")
}

/// A folder for each process, as scripts name them that start several of JAX.
fn is_process_folder(name: &str) -> bool {
    ["proc", "process", "host", "worker", "node", "task"].iter().any(|w| is_numbered(name, w))
}

/// Whether a name is a word and a number.
pub fn is_numbered(name: &str, word: &str) -> bool {
    let rest = name.strip_prefix(word).unwrap_or("");
    let digits = rest.strip_prefix(['_', '-']).unwrap_or(rest);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The rank that a path says: the file name first, then the folders of the job.
///
/// Patterns: `rank0 rank_0 rank-0 kineto_trace_0 worker0 TP-0 megatron_kineto_0`, and the words
/// before a number anywhere in a name (`sampled_rank-0`, `profile_trace_rank_0`, `kineto_rank3`).
/// Other digits (pids, times, `step_12`) are no ranks.
pub fn rank_in_name(path: &Path, root: &Path) -> Option<i64> {
    let relative = path.strip_prefix(root).unwrap_or(path);
    relative.components().rev().find_map(|c| match c {
        Component::Normal(name) => rank_in_word(&name.to_string_lossy().to_lowercase()),
        _ => None,
    })
}

/// The rank that the path of an execution trace says: as [`rank_in_name`], and `et_0`, `eg_0` as words
/// (`torch_et_0`, `dlrm_eg_3`). Of other files these words say nothing.
pub fn rank_in_name_of_et(path: &Path, root: &Path) -> Option<i64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    rank_after(&name, &WORDS)
        .or_else(|| rank_after(&name, &["et", "eg"]))
        .or_else(|| rank_in_name(path, root))
}

/// The layer that the name of a log of gates says (`gate_logs_layer_3.json`).
pub fn layer_in_name(path: &Path) -> Option<i64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    rank_after(&name, &["layer"])
}

/// The device that the name of a file of samples says (`nvlink_gpu0.bin`).
pub fn device_in_name(path: &Path) -> Option<i64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    rank_after(&name, &["gpu", "device"])
}

/// Words before a rank.
const WORDS: [&str; 5] = ["rank", "worker", "kineto_trace", "kineto", "tp"];

fn rank_in_word(name: &str) -> Option<i64> {
    rank_after(name, &WORDS)
}

fn rank_after(name: &str, words: &[&str]) -> Option<i64> {
    for word in words {
        let mut from = 0;
        while let Some(at) = name[from..].find(word).map(|i| i + from) {
            from = at + word.len();
            let bounded = at == 0 || !name.as_bytes()[at - 1].is_ascii_alphanumeric();
            let rest = &name[from..];
            let digits = rest.strip_prefix(['_', '-']).unwrap_or(rest);
            let length = digits.bytes().take_while(u8::is_ascii_digit).count();
            let ends = !digits[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
            let joined = match *word {
                // `tp` alone needs its dash: `tp4` in a name is a degree.
                "tp" => rest.starts_with('-'),
                "et" | "eg" => rest.starts_with(['_', '-']),
                _ => true,
            };
            if bounded && joined && ends && (1..=7).contains(&length) {
                return digits[..length].parse().ok();
            }
        }
    }
    None
}

/// Endings that say what a file is, not which.
const ENDINGS: [&str; 15] = [
    ".qdrep",
    ".gz",
    ".json",
    ".trace",
    ".pt",
    ".sqlite",
    ".nsys-rep",
    "_pqtdir",
    ".xplane.pb",
    ".pickle",
    ".pkl",
    ".raw",
    ".zip",
    ".jsonl",
    ".bin",
];

/// The file name without its endings.
pub fn base_name(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    while let Some(shorter) = ENDINGS.iter().find_map(|e| name.strip_suffix(e)) {
        if shorter.is_empty() {
            break;
        }
        name = shorter.to_owned();
    }
    name
}

/// The file name with every number replaced by `#`: files of one job share it.
pub fn stem(path: &Path) -> String {
    let mut out = String::new();
    for c in base_name(path).chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_names() {
        for (name, rank) in [
            ("rank0_trace.json", Some(0)),
            ("rank_12.json.gz", Some(12)),
            ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", Some(34)),
            ("kineto_trace_3.json", Some(3)),
            ("worker7_step_12.1694128201553.pt.trace.json", Some(7)),
            ("worker0.1623143089861.pt.trace.json.gz", Some(0)),
            ("1782799835.6885648-TP-0-DECODE.trace.json.gz", Some(0)),
            ("sampled_rank-1.json.gz", Some(1)),
            ("megatron_kineto_2.json", Some(2)),
            ("profile_trace_rank_5.json", Some(5)),
            ("graph_capture_rank_0.1773709679453551615.pt.trace.json.gz", Some(0)),
            ("dc3b0e7228dd_851.1752215573993169006.pt.trace.json", None),
            ("Falconsai_nsfw_image_detection__1016002.json.gz", None),
            ("llama-tp4.json", None),
            ("frank12.json", None),
            ("trace.json", None),
        ] {
            assert_eq!(rank_in_name(Path::new(name), Path::new("")), rank, "{name}");
        }
        assert_eq!(rank_in_name(Path::new("a/rank3/trace.json"), Path::new("a")), Some(3));
        assert_eq!(rank_in_name(Path::new("rank3/a/trace.json"), Path::new("rank3/a")), None);
    }

    #[test]
    fn ranks_in_names_of_execution_traces() {
        for (name, rank) in [
            ("torch_et_1.json", Some(1)),
            ("pytorch_et_12.json.gz", Some(12)),
            ("dlrm_eg_3.json", Some(3)),
            ("rank3_et_1.json", Some(3)),
            ("et-0.json", Some(0)),
            ("et0.json", None),
            ("budget_3.json", None),
            ("leg_3.json", None),
            ("et_3a.json", None),
            ("resnet_2gpu_et.json.gz", None),
            ("resnet_et__v3.json.gz", None),
            ("1.0.2-chakra.0.0.4.json", None),
        ] {
            let path = Path::new(name);
            assert_eq!(rank_in_name_of_et(path, Path::new("")), rank, "{name}");
        }
        let below = Path::new("a/rank5/et.json");
        assert_eq!(rank_in_name_of_et(below, Path::new("a")), Some(5));
        // Words of execution traces say nothing of other files.
        assert_eq!(rank_in_name(Path::new("torch_et_1.json"), Path::new("")), None);
    }

    #[test]
    fn execution_traces_by_their_first_members() {
        for (head, is) in [
            (r#"{ "schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": [ {"id": 1, "na"#, true),
            (r#"{"pid": 1, "schema":"1.0.1"}"#, true),
            (r#"{"nodes":[{"id":1}"#, true),
            (r#"{"schema":"1.0.1","traceEvents":["#, false),
            (r#"{"schemaVersion": 1, "nodes": [], "traceEvents": []"#, false),
            (r#"{"schemaVersion": 1, "note": "\"schema\": \"1.0\""#, false),
            (r#"{"traceName": "x", "a": {"schema": "1.0", "nodes": []}, "traceEvents": ["#, false),
            (r#"{"schema": {"type": 1}, "rows": []}"#, false),
            (r#"{"schema": "https://json-schema.org"}"#, false),
            (r#"[{"schema": "1.0.1"}]"#, false),
            (r#"{"#, false),
            ("", false),
        ] {
            assert_eq!(is_execution_trace(head.as_bytes()), is, "{head}");
        }
    }

    #[test]
    fn roots_of_jobs() {
        for (file, root) in [
            ("exp/56cu/torch_profiler/rank0/trace.json", "exp/56cu"),
            (
                "out/profile_trace/llama/iteration_10/rank0_trace.json",
                "out/profile_trace/llama/iteration_10",
            ),
            ("w/profile_traces/rank0.json", "w"),
            ("j/plugins/profile/2026_11_21/vm.trace.json.gz", "j"),
            ("j/proc1/plugins/profile/2026_11_21/vm.xplane.pb", "j"),
            ("j/proc1/vm.json", "j/proc1"),
            ("a/b.json", "a"),
            ("rank0/trace.json", "rank0"),
        ] {
            assert_eq!(job_root(Path::new(file)), Path::new(root), "{file}");
        }
    }

    #[test]
    fn roots_of_benchmark_records() {
        for (file, root) in [
            ("run/results_json/qps4.json", "run"),
            ("run/baseline_gates_logs/gates_logs_0/gate_logs_12.json", "run"),
            ("run/bench_results.jsonl", "run"),
            ("results_json/a.json", "results_json"),
        ] {
            assert_eq!(bench_root(Path::new(file)), Path::new(root), "{file}");
        }
    }

    #[test]
    fn prose_is_known_by_its_name() {
        for name in ["readme", "readme.md", "notes.txt", "run.sh", "train.toml"] {
            assert!(names_prose(name), "{name}");
        }
        for name in ["trace.pb", "trace", "a.md.gz", "md", "x.log", "rank0.csv"] {
            assert!(!names_prose(name), "{name}");
        }
    }

    #[test]
    fn folders_of_processes() {
        for (path, process) in [
            ("a/proc1/plugins/profile/2026_11_22_14_36_54/vm.trace.json.gz", Some(1)),
            ("host_12/plugins/profile/t/vm.trace.json", Some(12)),
            ("run7/plugins/profile/t/vm.trace.json", None),
            ("plugins/profile/t/vm.trace.json", None),
            ("proc1/vm.trace.json", None),
        ] {
            assert_eq!(process_of(path), process, "{path}");
        }
    }

    #[test]
    fn devices_and_layers_in_names() {
        for (name, device, layer) in [
            ("nvlink_trace_gpu3.bin", Some(3), None),
            ("gpu-1.bin", Some(1), None),
            ("nvlink_trace.bin", None, None),
            ("gate_logs_layer_7.json", None, Some(7)),
            ("gate_logs_7.json", None, None),
        ] {
            let path = Path::new(name);
            assert_eq!((device_in_name(path), layer_in_name(path)), (device, layer), "{name}");
        }
    }

    #[test]
    fn stems_join_the_files_of_a_job() {
        let a = stem(Path::new(
            "ip-172-31-16-248.compute.internal_21147.1698955063520869240.pt.trace.json",
        ));
        let b = stem(Path::new(
            "ip-172-31-16-248.compute.internal_21148.1698955063516156627.pt.trace.json",
        ));
        assert_eq!(a, b);
        assert_eq!(a, "ip-#-#-#-#.compute.internal_#.#");
        assert_ne!(stem(Path::new("rank5.json.gz")), stem(Path::new("rank5_retry.json.gz")));
    }
}
