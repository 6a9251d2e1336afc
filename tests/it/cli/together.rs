//! Small traces are asked together, and none answers otherwise than alone.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::own_sql::own_metric;
use crate::support::fixtures::build;
use crate::support::{Place, in_parallel};

/// Fixtures whose answers and reasons differ: with calls and without, of one rank and of several,
/// with steps, memory, requests and whole CUDA graphs.
const FIXTURES: [&str; 8] = [
    "bench_requests",
    "device_classes",
    "fit_exact",
    "fsdp2_two_layers",
    "hang_cascade",
    "memory_full",
    "traffic_mesh",
    "whole_graph",
];

/// What is said of each trace: the page of its report, and its metrics.
type Told = BTreeMap<String, (String, Vec<Value>)>;

/// What is said of some traces that are asked in one command.
fn told(place: &Place, traces: &[&str]) -> Told {
    let board = format!("board-{}", traces.join("-"));
    place.run(&[&["board", "--no-cache", "-q", "-o", &board], traces].concat()).done();
    let page = |trace: &&str| {
        let path = place.input().join(&board).join(format!("reports/{trace}.html"));
        let text = std::fs::read_to_string(path).expect("the page of a trace has its name");
        ((*trace).to_owned(), (text, Vec::new()))
    };
    let mut out: Told = traces.iter().map(page).collect();
    let of = traces.join(",");
    let args = ["metric", "--all", "--no-cache", "-q", "--format", "json", "--trace", &of];
    let json: Value = serde_json::from_str(&place.run(&args).done()).expect("JSON");
    for result in json.as_array().expect("a list of results") {
        let trace = result["trace"].as_str().expect("a result is of a trace");
        out.get_mut(trace).expect("a trace that was asked").1.push(result.clone());
    }
    out
}

/// A place with the traces of all fixtures.
fn all() -> Place {
    let place = Place::new();
    FIXTURES.iter().for_each(|fixture| build(fixture, &place.data()));
    place
}

#[test]
fn traces_that_are_asked_together_answer_as_each_alone() {
    let place = all();
    let together = told(&place, &FIXTURES);
    let failures = in_parallel(&FIXTURES, |fixture| {
        let alone = told(&place, &[fixture]);
        let ((page, results), (own_page, own_results)) = (&together[*fixture], &alone[*fixture]);
        assert!(results.len() > 100, "{fixture}: {} results", results.len());
        let mut out = Vec::new();
        if page != own_page {
            let line = page.lines().zip(own_page.lines()).find(|(a, b)| a != b);
            out.push(format!("the page of {fixture}: {line:?}"));
        }
        let pairs = results.iter().zip(own_results).filter(|(a, b)| a != b);
        out.extend(pairs.map(|(a, b)| format!("{fixture}: {a} together, {b} alone")));
        out
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn all_that_is_small_is_asked_at_once() {
    let place = all();
    for args in [&["metric", "--all"][..], &["diagnose"], &["board", "-o", "board"]] {
        let args = [&["--no-cache", "-v"], args].concat();
        let run = place.run(&args);
        let said: Vec<&str> = run.stderr.lines().filter(|l| l.contains("together")).collect();
        assert_eq!(said, [format!("{} traces are asked together", FIXTURES.len())], "{args:?}");
    }
    // What is kept is not asked again, and what one trace lacks is asked of it alone.
    place.run(&["metric", "--all", "-q"]).done();
    std::fs::remove_file(place.data().join("trace=fit_exact/.answers")).expect("it was kept");
    let run = place.run(&["metric", "--all", "-v"]);
    assert!(!run.stderr.contains("together"), "{}", run.stderr);
    let asked: Vec<&str> = run.stderr.lines().filter(|l| l.ends_with(" ms")).collect();
    assert!(asked.len() > 100, "{}", run.stderr);
    assert!(asked.iter().all(|line| line.contains(" of fit_exact: ")), "{}", run.stderr);
    // Two that do not lack the same are asked together too.
    for fixture in ["fit_exact", "hang_cascade"] {
        let kept = place.data().join(format!("trace={fixture}/.answers"));
        std::fs::remove_file(kept).expect("it was kept");
    }
    place.run(&["metric", "coll_call_num", "-q", "--trace", "fit_exact"]);
    let run = place.run(&["metric", "--all", "-v"]);
    assert!(run.stderr.contains("2 traces are asked together"), "{}", run.stderr);
}

/// A question of a user that fails takes nothing from the others.
#[test]
fn what_fails_for_each_leaves_the_others_together() {
    let place = all();
    own_metric(&place, "odd", "CAST('no number ' || count(*) AS BIGINT)");
    let ask = ["metric", "odd", "coll_call_num", "--sql-dir", "own", "--format", "json", "-v"];
    let run = place.run(&ask);
    let note = format!("{} traces are asked together\n", FIXTURES.len());
    assert!(run.stderr.contains(&note), "{}", run.stderr);
    let errors = run.errors();
    assert!(!errors.is_empty() && errors.iter().all(|code| *code == "sql"), "{}", run.stderr);
    let results: Vec<Value> = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(results.len(), FIXTURES.len());
    assert!(results.iter().all(|result| result["metric"] == "coll_call_num"), "{results:?}");
}

#[test]
fn a_metric_of_a_user_is_asked_of_each_trace() {
    let place = all();
    // It counts the ranks of whatever is shown.
    place.write(
        "own/own.v1.sql",
        "-- @metric own\n-- @version 1\n-- @summary Own.\n-- @area speed\n-- @grain trace\n\
         -- @requires ranks\n\
         -- @column trace VARCHAR dim - | Trace.\n\
         -- @column own_count BIGINT value count | Own.\n-- @value own_count\n\
         -- @source own\n\
         SELECT any_value(trace) AS trace, count(*) AS own_count FROM ranks\n",
    );
    let ask = |more: &[&str]| {
        let args = ["metric", "own", "coll_call_num", "--sql-dir", "own", "--format", "json", "-q"];
        let json = place.run(&[&args, more].concat()).stdout;
        serde_json::from_str::<Vec<Value>>(&json).expect("JSON")
    };
    let together = ask(&[]);
    assert_eq!(together.len(), 2 * FIXTURES.len());
    for fixture in FIXTURES {
        let mine = together.iter().filter(|result| result["trace"] == fixture);
        let mine: Vec<Value> = mine.cloned().collect();
        assert_eq!(mine, ask(&["--trace", fixture, "--no-cache"]), "{fixture}");
    }
}
