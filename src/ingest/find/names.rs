//! What the path of a file says: its rank, run, process, layer, device, and the job that it is of.

use std::path::{Component, Path};

use crate::readers::sniff::names_json;

/// The folder of a run in the habit of TensorBoard (`plugins/profile/<run>`), if the file lies in
/// one.
pub fn run_of(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let above = |depth: usize| folder.ancestors().nth(depth).and_then(Path::file_name);
    (above(1)? == "profile" && above(2)? == "plugins")
        .then(|| above(0).map(|run| run.to_string_lossy().into_owned()))?
}

/// The number of the folder of a process that a path of XLA's lies in
/// (`proc1/plugins/profile/<run>/`).
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

/// The rank that the path of an execution trace says: as [`rank_in_name`], and `et_0`, `eg_0` as
/// words (`torch_et_0`, `dlrm_eg_3`). Of other files these words say nothing.
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
pub(crate) const ENDINGS: [&str; 15] = [
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

pub(crate) fn is_rank_folder(name: &str) -> bool {
    is_numbered(name, "rank")
}

/// A folder for each process, as scripts name them that start several of JAX.
pub(crate) fn is_process_folder(name: &str) -> bool {
    ["proc", "process", "host", "worker", "node", "task"].iter().any(|w| is_numbered(name, w))
}

/// Whether a name is a word and a number.
pub(crate) fn is_numbered(name: &str, word: &str) -> bool {
    let rest = name.strip_prefix(word).unwrap_or("");
    let digits = rest.strip_prefix(['_', '-']).unwrap_or(rest);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Digits of a path as numbers: `node2` comes before `node10`.
pub(crate) fn natural(path: &str) -> Vec<(String, u64)> {
    let mut out = vec![(String::new(), 0_u64)];
    let mut in_digits = false;
    for c in path.chars() {
        if in_digits && !c.is_ascii_digit() {
            out.push((String::new(), 0));
        }
        in_digits = c.is_ascii_digit();
        let Some((text, number)) = out.last_mut() else { continue };
        match c.to_digit(10) {
            Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
            None => text.push(c),
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
