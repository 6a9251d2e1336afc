//! What the first bytes of a file say that it is.

use std::io::Read;

use crate::input::json::{self, Scanner};
use crate::input::place::{self, Place};
use crate::input::window::BYTE_ORDER_MARK;
use crate::readers::bench::{kind, samples};
use crate::readers::contract::Kind;
use crate::readers::memory::timeline::begins as begins_timeline;

/// Bytes that say what a file is.
const HEAD_BYTES: usize = 1024;

/// Whether JSON begins as converters of XLA's profiler write it: with the resolution of the clock,
/// or the name of a plane.
fn is_of_xla(head: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(head, word.as_bytes()).is_some();
    has("\"highres-ticks\"") || has("process_name") && (has("\"/host:CPU\"") || has("\"/device:"))
}

/// Whether JSON begins as an execution trace of PyTorch does: with the version of its schema, or
/// with the nodes; and with nothing that a trace of Kineto begins with.
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
pub(crate) fn names_json(name: &str) -> bool {
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
pub(crate) fn kind_of(place: &Place) -> Kind {
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
    if let Ok(mut reader) = place::peek(place) {
        while have < head.len() {
            match reader.read(&mut head[have..]) {
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
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    match text.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') if is_execution_trace(text) => Kind::ExecutionTrace,
        Some(b'[') if begins_timeline(text) => Kind::MemoryTimeline,
        Some(b'{') if kind::begins(text) || names_bench(&name) => Kind::BenchRecord,
        Some(b'{' | b'[') if is_of_xla(text) => Kind::XlaJson,
        Some(b'{' | b'[') => Kind::Json,
        _ if head.starts_with(b"SQLite format 3\0") => Kind::Sqlite,
        _ if head.starts_with(samples::MAGIC) => Kind::NvlinkSamples,
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn traces_of_xla_by_their_beginning() {
        for (head, is) in [
            (r#"{"metadata":{"highres-ticks":true},"traceEvents":["#, true),
            (r#"{"traceEvents":[{"name":"process_name","args":{"name":"/host:CPU"}}"#, true),
            (r#"{"traceEvents":[{"name":"process_name","args":{"name":"/device:TPU:0"}}"#, true),
            (r#"{"traceEvents":[{"name":"process_name","args":{"name":"python"}}"#, false),
            (r#"{"traceEvents":[{"name":"x","args":{"name":"/device:TPU:0"}}"#, false),
        ] {
            assert_eq!(is_of_xla(head.as_bytes()), is, "{head}");
        }
    }

    #[test]
    fn an_execution_trace_may_be_cut_anywhere() {
        let whole = br#"{"schema":"1.0.1","nodes":["#;
        let is: Vec<usize> =
            (0..=whole.len()).filter(|n| is_execution_trace(&whole[..*n])).collect();
        // From the first digit of the version on.
        assert_eq!(is, (12..=whole.len()).collect::<Vec<_>>());
    }

    #[test]
    fn records_whose_fields_say_nothing_are_known_by_their_names() {
        for (name, is) in [
            ("gate_logs_rank0.json", true),
            ("a.latency.json", true),
            ("gate_logs_rank0.txt", false),
            ("rank0.json", false),
        ] {
            assert_eq!(names_bench(name), is, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_opened_is_what_its_name_says() {
        for (name, is) in [
            ("gone.json", Kind::Json),
            ("gone.json.gz", Kind::Json),
            ("gone.sqlite", Kind::Sqlite),
            ("gone.sqlite.gz", Kind::Sqlite),
            ("gone.txt", Kind::Prose),
            ("gone", Kind::Other("no trace that is known by its first bytes")),
        ] {
            assert_eq!(kind_of(&Place::file(name)), is, "{name}");
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
}
