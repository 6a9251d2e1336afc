//! Records of benchmarks from the command line: that they change nothing that is said of the trace
//! beside them, what is read again, and what is refused.

use crate::support::Place;
use crate::support::runs::two_ranks;

const RECORD: &str = r#"{"duration": 2.0, "completed": 2, "total_output_tokens": 6, "output_throughput": 3.0,
    "request_throughput": 1.0, "mean_ttft_ms": 45.0, "generated_texts": ["a secret", "b"],
    "output_lens": [3, 3], "ttfts": [0.04, 0.05], "itls": [[0.02, 0.02], [0.025, 0.025]]}"#;

/// Metrics that count ranks.
const COUNTING: [&str; 5] =
    ["coll_call_num", "total_compute_time_s", "wall_time_s", "iter_time", "straggler_lag"];

#[test]
fn a_record_beside_a_trace_changes_no_other_answer() {
    let place = Place::new();
    two_ranks(&place);
    place.run(&["ingest", "job"]).done();
    let before = place.answers(&COUNTING);
    assert!(before[0].starts_with("0 trace,total_calls"), "{}", before[0]);
    assert_eq!(place.run(&["metric", "ttft"]).errors(), ["metric-not-applicable"]);
    place.write("job/results_json/a.json", RECORD);
    let run = place.run(&["ingest", "job"]);
    assert!(run.stderr.contains("job: bench+kineto, 2 ranks"), "{}", run.stderr);
    assert_eq!(place.answers(&COUNTING), before);
    let ttft = place.run(&["metric", "ttft", "--format", "value"]);
    assert_eq!(ttft.stdout.trim(), "0.045", "{}", ttft.stderr);
    // A mode names a profiler, and a benchmark is none.
    let torch = place.run(&["metric", "ttft", "--profile-mode", "torch", "--format", "value"]);
    assert_eq!(torch.stdout, ttft.stdout, "{}", torch.stderr);
    let again = place.run(&["ingest", "job"]);
    assert!(again.stderr.contains("unchanged, 2 ranks"), "{}", again.stderr);
}

#[test]
fn a_record_that_changes_is_read_again_and_no_rank_is() {
    let place = Place::new();
    two_ranks(&place);
    place.write("job/a.json", RECORD);
    place.run(&["ingest", "job"]).done();
    let before = place.answers(&COUNTING);
    place.write("job/a.json", RECORD.replace("0.05", "0.06"));
    let run = place.run(&["ingest", "job"]);
    assert!(run.stderr.contains("2 ranks (0 read)"), "{}", run.stderr);
    let ttft = place.run(&["metric", "ttft", "--format", "value"]);
    assert_eq!(ttft.stdout.trim(), "0.05", "{}", ttft.stderr);
    assert_eq!(place.answers(&COUNTING), before);
    // A rank that changes leaves the record as it is.
    let rank = std::fs::read_to_string(place.input().join("job/rank1.json")).expect("it is there");
    place.write("job/rank1.json", rank.replace("gemm", "conv"));
    let run = place.run(&["ingest", "job"]);
    assert!(run.stderr.contains("2 ranks (1 read)"), "{}", run.stderr);
    assert_eq!(place.query("SELECT count(*) FROM requests").rows[0][0].as_deref(), Some("2"));
    assert_eq!(place.answers(&COUNTING), before);
    std::fs::remove_file(place.input().join("job/a.json")).expect("it is there");
    place.run(&["ingest", "job"]).done();
    assert_eq!(place.query("SELECT count(*) FROM requests").rows[0][0].as_deref(), Some("0"));
}

#[test]
fn a_record_by_itself_is_a_trace_of_no_rank() {
    let place = Place::new();
    place.write("run/bench_results.jsonl", format!("{}\n", RECORD.replace('\n', " ").repeat(2)));
    let run = place.run(&["ingest", "run"]);
    assert!(run.stderr.contains("run: bench, 0 ranks, 6 events"), "{}", run.stderr);
    let list = place.run(&["list", "traces", "--format", "csv"]).done();
    assert!(list.contains("\nrun,bench,0,6,0,"), "{list}");
    let traces = place.run(&["sql", "SELECT * FROM traces", "--format", "csv"]).done();
    assert!(traces.contains("\nrun,bench,0,,,6,"), "{traces}");
    let answer = place.run(&["metric", "coll_call_num"]);
    assert_eq!(answer.errors(), ["metric-not-applicable"], "{}", answer.stderr);
    let all = place.run(&["metric", "--all", "--format", "json"]).done();
    assert!(all.contains("\"output_tokens_per_s\""), "{all}");
    let again = place.run(&["ingest", "run"]);
    assert!(again.stderr.contains("unchanged, 0 ranks"), "{}", again.stderr);
}

#[test]
fn texts_of_users_are_counted_and_not_kept() {
    let place = Place::new();
    place.write("a.json", RECORD);
    place.run(&["ingest", "a.json"]).done();
    let counted = place.query("SELECT texts_left_out FROM benchmarks").rows;
    assert_eq!(counted[0][0].as_deref(), Some("2"));
    let all = place.query("SELECT to_json(b)::VARCHAR FROM benchmarks AS b").rows;
    assert!(!all[0][0].as_deref().unwrap_or_default().contains("secret"), "{all:?}");
}

#[test]
fn every_cut_of_a_record_is_an_error() {
    for cut in (1..RECORD.len()).step_by(13) {
        let place = Place::new();
        place.write("a.json", &RECORD[..cut]);
        let run = place.run(&["ingest", "a.json"]);
        assert_eq!(run.errors(), ["trace-truncated"], "{cut}: {}", run.stderr);
    }
}

#[test]
fn a_damaged_record_stops_no_trace_and_a_damaged_trace_leaves_none_of_the_record() {
    let place = Place::new();
    two_ranks(&place);
    place.write("job/a.json", &RECORD[..RECORD.len() - 9]);
    let run = place.run(&["ingest", "job"]);
    assert_eq!(run.errors(), ["trace-truncated"], "{}", run.stderr);
    assert!(run.stderr.contains("job: kineto, 2 ranks"), "{}", run.stderr);
    place.write("b/rank0.json", r#"{"traceEvents":[{"ph":"X","#).write("b/a.json", RECORD);
    let run = place.run(&["ingest", "b"]);
    assert_eq!(run.errors(), ["trace-truncated"], "{}", run.stderr);
    assert!(!run.stderr.contains("b: "), "{}", run.stderr);
}

#[test]
fn two_traces_in_a_folder_leave_a_record_of_neither_out() {
    let place = Place::new();
    let trace = r#"{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0}}]}"#;
    place.write("m/bert.json", trace).write("m/gpt.json", trace.replace("\"k\"", "\"j\""));
    place.write("m/results_json/a.json", RECORD);
    let run = place.run(&["ingest", "m"]);
    assert!(run.stderr.contains("warning[bench-apart]"), "{}", run.stderr);
    let again = place.run(&["ingest", "m"]);
    assert!(again.stderr.contains("unchanged"), "{}", again.stderr);
}

#[test]
fn samples_are_read_to_the_last() {
    // More than are read at a time, and a moment more.
    let moments = 4097;
    let samples: Vec<String> = (0..moments)
        .map(|n| format!("[{}, 138, 0, {}]", 1_700_000_000_000_000_i64 + 10 * n, 3 * n))
        .collect();
    let place = Place::new();
    two_ranks(&place);
    let text = format!("{{\"samples\": [{}]}}", samples.join(","));
    place.file("job/nvlink_gpu0.bin.json", text.as_bytes());
    place.run(&["ingest", "job"]).done();
    let query = "SELECT count(*) AS n, max(value) AS last FROM counters WHERE unit = 'KiB'";
    let said = place.run(&["sql", query, "--format", "csv"]).done();
    assert_eq!(said, format!("n,last\n{moments},{}.0\n", 3 * (moments - 1)));
}
