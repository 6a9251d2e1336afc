//! Memory snapshots from the command line: what is refused, what is read again, and that a snapshot
//! beside a trace changes nothing that is said of the trace.

use crate::support::Place;
use crate::support::pickles::encode;
use crate::support::runs::two_ranks;

/// A snapshot of one event.
const SNAPSHOT: &str = r#"{"segments": [{"device": 0, "address": 0, "total_size": 2097152, "allocated_size": 512,
    "active_size": 512, "requested_size": 500, "blocks": [
    {"address": 0, "size": 512, "requested_size": 500, "state": "active_allocated"},
    {"address": 512, "size": 2096640, "requested_size": 0, "state": "inactive"}]}],
    "device_traces": [[{"action": "alloc", "addr": 0, "size": 500, "time_us": 1776479641085368}]]}"#;

#[test]
fn code_in_a_pickle_is_refused_and_never_run() {
    let place = Place::new();
    let witness = place.input().join("run");
    // What pickle.load would run: os.system("touch run").
    let code = format!("cposix\nsystem\n(S'touch {}'\ntR.", witness.display());
    place.write("model.pickle", code.as_bytes());
    let run = place.run(&["ingest", "model.pickle"]);
    assert_eq!((run.code, run.errors()), (1, vec!["pickle-code"]), "{}", run.stderr);
    assert!(run.stderr.contains("GLOBAL") && run.stderr.contains("byte 0"), "{}", run.stderr);
    assert!(!witness.exists());
}

#[test]
fn every_cut_of_a_snapshot_is_an_error_or_set_aside() {
    let whole = encode(SNAPSHOT);
    for cut in (1..whole.len()).step_by(37) {
        let place = Place::new();
        place.write("a.pickle", &whole[..cut]);
        let run = place.run(&["ingest", "a.pickle"]);
        assert_eq!(run.errors(), ["trace-truncated"], "{cut}: {}", run.stderr);
    }
}

/// Metrics that count ranks.
const COUNTING: [&str; 5] =
    ["coll_call_num", "total_compute_time_s", "wall_time_s", "iter_time", "communication_fraction"];

#[test]
fn a_snapshot_beside_a_trace_changes_no_other_answer() {
    let place = Place::new();
    two_ranks(&place);
    place.run(&["ingest", "job"]).done();
    let before = place.answers(&COUNTING);
    assert!(before[0].starts_with("0 trace,total_calls"), "{}", before[0]);
    let memory = place.run(&["metric", "memory"]);
    assert_eq!(memory.errors(), ["metric-not-applicable"]);
    place.write("job/rank1.pickle", encode(SNAPSHOT));
    place.run(&["ingest", "job"]).done();
    assert_eq!(place.answers(&COUNTING), before);
    let memory = place.run(&["metric", "memory", "--format", "csv", "-q"]);
    assert!(
        memory.stdout.contains("\njob,4.76837158203125e-7,4.65661287307739"),
        "{}",
        memory.stdout
    );
    let again = place.run(&["ingest", "job"]);
    assert!(again.stderr.contains("unchanged, 2 ranks"), "{}", again.stderr);
    // Without it again.
    std::fs::remove_file(place.input().join("job/rank1.pickle")).expect("it is there");
    place.run(&["ingest", "job"]).done();
    assert_eq!(place.query("SELECT count(*) FROM memory_events").rows[0][0].as_deref(), Some("0"));
    assert_eq!(place.answers(&COUNTING), before);
}

#[test]
fn a_snapshot_that_is_left_out_is_no_reason_to_read_again() {
    let place = Place::new();
    let trace = r#"{"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0}}]}"#;
    place.write("job/rank0.json", trace).write("job/rank9.pickle", encode(SNAPSHOT));
    let first = place.run(&["ingest", "job"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stderr.contains("warning[memory-rank-unknown]"), "{}", first.stderr);
    assert!(first.stderr.contains("rank 9"), "{}", first.stderr);
    let again = place.run(&["ingest", "job"]);
    assert!(again.stderr.contains("unchanged, 1 rank"), "{}", again.stderr);
}

#[test]
fn a_damaged_snapshot_stops_no_trace_and_a_damaged_trace_leaves_none_of_the_snapshot() {
    let place = Place::new();
    let trace = r#"{"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0}}]}"#;
    let snapshot = encode(SNAPSHOT);
    place.write("a/rank0.json", trace).write("a/rank0.pickle", &snapshot[..snapshot.len() - 9]);
    let run = place.run(&["ingest", "a"]);
    assert_eq!(run.errors(), ["trace-truncated"], "{}", run.stderr);
    assert!(run.stderr.contains("a: kineto, 1 rank"), "{}", run.stderr);
    place.write("b/rank0.json", &trace[..trace.len() - 20]).write("b/rank0.pickle", &snapshot);
    let run = place.run(&["ingest", "b"]);
    assert_eq!(run.errors(), ["trace-truncated"], "{}", run.stderr);
    assert!(!run.stderr.contains("b: "), "{}", run.stderr);
}
