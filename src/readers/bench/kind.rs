//! Which JSON is a record of a benchmark of inference, or a log of gates: told by its fields.
//!
//! Fields, from the sources of the tools: see `record`.

use crate::input::json::{self, Scanner, Stop};

/// Deepest nesting of a record: the state of a server has some ten levels.
pub(super) const DEEPEST: usize = 64;

/// What only SGLang writes.
const OF_SGLANG: [&str; 6] = [
    "total_output_tokens_retokenized",
    "mean_e2e_latency_ms",
    "median_e2e_latency_ms",
    "input_throughput",
    "sharegpt_output_len",
    "server_info",
];
/// What marks a result of a benchmark of serving; two of them do.
const OF_SERVING: [&str; 24] = [
    "duration",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "mean_itl_ms",
    "mean_e2el_ms",
    "mean_e2e_latency_ms",
    "ttfts",
    "itls",
    "input_lens",
    "output_lens",
    "request_rate",
    "num_prompts",
    "max_concurrency",
    "tokenizer_id",
    "random_range_ratio",
    "sharegpt_output_len",
];
/// Fields that no other kind of JSON begins with, of which one is enough with another of its list.
const OF_LATENCY: [&str; 4] = ["avg_latency", "std_latency", "latencies", "percentiles"];
const OF_THROUGHPUT: [&str; 4] =
    ["elapsed_time", "requests_per_second", "tokens_per_second", "total_num_tokens"];
/// The field of a log of gates.
pub(super) const LOADS: &str = "expert_loads";
/// Fields of a trace: such a file is none of ours.
pub(super) const OF_TRACES: [&str; 4] =
    ["traceEvents", "schemaVersion", "deviceProperties", "nodes"];

/// What kind of record an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Serving(&'static str),
    Latency,
    Throughput,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Serving(word) => word,
            Self::Latency => "vllm_latency",
            Self::Throughput => "vllm_throughput",
        }
    }
}

/// The kind of an object by its fields.
pub(super) fn kind_of(has: impl Fn(&str) -> bool) -> Option<Kind> {
    let count = |names: &[&str]| names.iter().filter(|name| has(name)).count();
    if count(&OF_TRACES) > 0 {
        None
    } else if has("avg_latency") && count(&OF_LATENCY) > 1 {
        Some(Kind::Latency)
    } else if has("elapsed_time") && count(&OF_THROUGHPUT) > 1 {
        Some(Kind::Throughput)
    } else if count(&OF_SERVING) > 1 {
        Some(Kind::Serving(match count(&OF_SGLANG) {
            0 => "vllm_serve",
            _ => "sglang_serve",
        }))
    } else {
        None
    }
}

/// Whether JSON begins as a record of a benchmark does, or a log of gates.
pub fn begins(head: &[u8]) -> bool {
    let start = json::skip_space(head, 0);
    if head.get(start) != Some(&b'{') {
        return false;
    }
    let mut keys: Vec<&[u8]> = Vec::new();
    // The head is cut somewhere: what comes before the cut says it.
    let _ = Scanner::shallow(DEEPEST).members(head, start, |scanner, key, value| {
        keys.push(&head[key]);
        match scanner.skip(head, value) {
            Err(Stop::Invalid(_)) => Ok(scanner.mend(head, value, &mut Vec::new())?.0),
            found => found,
        }
    });
    let has = |name: &str| keys.contains(&name.as_bytes());
    kind_of(has).is_some() || has(LOADS) && !OF_TRACES.iter().any(|name| has(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_two_of_the_fields_of_its_kind() {
        let of = |fields: &[&str]| kind_of(|name| fields.contains(&name)).is_some();
        for kind in [&OF_LATENCY[..], &OF_THROUGHPUT, &OF_SERVING] {
            assert!(of(&kind[..2]), "{kind:?}");
            assert!(!of(&kind[..1]), "{kind:?}");
            assert!(!of(&[kind[0], kind[1], OF_TRACES[0]]), "{kind:?}");
        }
        // Two of these kinds want the first of their fields.
        assert!(!of(&OF_LATENCY[1..]) && !of(&OF_THROUGHPUT[1..]));
    }

    #[test]
    fn records_are_known_by_their_first_fields() {
        for (head, is) in [
            (
                r#"{"date": "20260318-154232", "endpoint_type": "vllm", "model_id": "m", "tokenizer_id": "m", "num_prompts": 10, "req"#,
                true,
            ),
            (
                r#"{"tag": null, "backend": "sglang", "dataset_name": "random", "request_rate": Infinity, "max_concurrency": null, "sha"#,
                true,
            ),
            (r#"{"duration": 1.5, "completed": 4, "ttfts": [0.1, 0.2"#, true),
            ("{\n    \"avg_latency\": 1.5,\n    \"latencies\": [\n        1.5", true),
            (r#"{"elapsed_time": 3.0, "num_requests": 5, "total_num_tokens": 50, "requests"#, true),
            (r#"{"num_tokens": [3], "expert_loads": [[1, 2"#, true),
            (r#"{"duration": 1.5, "status": "ok"}"#, false),
            (r#"{"avg_latency": 1.5}"#, false),
            (r#"{"schemaVersion": 1, "duration": 1, "completed": 2, "traceEvents": []}"#, false),
            (r#"{"expert_loads": [], "traceEvents": ["#, false),
            (r#"[{"duration": 1, "completed": 2}]"#, false),
            ("{", false),
            ("", false),
        ] {
            assert_eq!(begins(head.as_bytes()), is, "{head}");
        }
    }
}
