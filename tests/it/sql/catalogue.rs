//! The whole catalogue at once: `metric --all` over the examples of the project.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{Csv, Place, Run, example, examples};

/// Two columns of a list: of metrics, or of the examples that were ingested.
fn list(place: &Place, what: &str, columns: [usize; 2]) -> BTreeMap<String, String> {
    let csv = Csv::parse(&place.run(&["list", what, "--format", "csv"]).done());
    let cell = |row: &[Option<String>], i: usize| row[i].clone().unwrap_or_default();
    csv.rows.iter().map(|row| (cell(row, columns[0]), cell(row, columns[1]))).collect()
}

#[test]
fn all_metrics_of_all_examples_answer_or_say_why() {
    let place = Place::new();
    place.run(&["ingest", &examples().to_string_lossy(), "-q"]).done();
    let text = place.run(&["metric", "--all", "--format", "json", "-q"]).done();
    let Value::Array(results) = serde_json::from_str(&text).expect("JSON") else {
        panic!("no array of results")
    };
    let profilers = list(&place, "metrics", [0, 3]);
    let sources = list(&place, "traces", [0, 1]);
    assert_eq!(results.len(), profilers.len() * sources.len());
    let mut wrong = Vec::new();
    for result in &results {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        let (metric, trace) = (text("metric"), text("trace"));
        let of: BTreeSet<&str> = sources[&trace].split('+').collect();
        let from: BTreeSet<&str> = profilers[&metric].split(' ').collect();
        match result["value"].is_null() {
            true if text("reason").is_empty() => wrong.push(format!("{metric} of {trace}: silent")),
            false if of.is_disjoint(&from) => {
                wrong.push(format!(
                    "{metric} answers for {trace} ({}), not @profilers",
                    sources[&trace]
                ));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_metric_that_fails_does_not_stop_the_others() {
    let place = Place::new();
    let header = |name: &str| {
        format!(
            "-- @metric {name}\n-- @version 1\n-- @area x\n-- @summary S.\n-- @grain trace\n\
             -- @requires ranks\n-- @value n_count\n-- @column trace VARCHAR dim - | T.\n\
             -- @column n_count BIGINT value count | N.\n-- @source here\n"
        )
    };
    let write = |name: &str, value: &str| {
        let text =
            format!("{}SELECT trace, {value} AS n_count FROM ranks GROUP BY trace\n", header(name));
        place.write(&format!("own/{name}.v1.sql"), text);
    };
    write("aaa_fails", "sum(CAST(source AS BIGINT))");
    write("aab_works", "count(*)");
    let example = example("gloo-ddp-2rank").to_string_lossy().into_owned();
    let args = ["--sql-dir", "own", "--format", "json", "-q", "metric", "--all", "--trace"];
    let Run { code, stdout, stderr } = place.run(&[&args[..], &[&example]].concat());
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.starts_with("error[sql]") && stderr.contains("aaa_fails"), "{stderr}");
    let Value::Array(results) = serde_json::from_str(&stdout).expect("JSON") else {
        panic!("no array of results")
    };
    let value = |name: &str| results.iter().find(|r| r["metric"] == name).map(|r| &r["value"]);
    assert_eq!(value("aab_works"), Some(&Value::from(2)));
    assert_eq!(value("aaa_fails"), None);
    assert!(value("iter_time").is_some_and(Value::is_f64), "what is there is still read");
}
