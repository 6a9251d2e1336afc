//! The whole catalogue at once: `metric --all` over the examples of the project.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::program::{Run, project, run};

/// The examples in a data directory, and what `list` says in CSV of metrics and of traces.
fn list(data: &str, what: &str, columns: [usize; 2]) -> BTreeMap<String, String> {
    let args = ["--data", data, "--format", "csv", "list", what];
    let text = run(project(), &args).done();
    let csv = crate::tables::Csv::parse(&text);
    let cell = |row: &[Option<String>], i: usize| row[i].clone().unwrap_or_default();
    csv.rows.iter().map(|row| (cell(row, columns[0]), cell(row, columns[1]))).collect()
}

#[test]
fn all_metrics_of_all_examples_answer_or_say_why() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let data = data.path().to_string_lossy().into_owned();
    run(project(), &["--data", &data, "ingest", "trace_collection", "-q"]).done();
    let text =
        run(project(), &["--data", &data, "metric", "--all", "--format", "json", "-q"]).done();
    let Value::Array(results) = serde_json::from_str(&text).expect("JSON") else {
        panic!("no array of results")
    };
    let profilers = list(&data, "metrics", [0, 3]);
    let sources = list(&data, "traces", [0, 1]);
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
    let data = tempfile::tempdir().expect("a temporary folder");
    let data = data.path().to_string_lossy().into_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
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
        std::fs::write(folder.path().join(format!("{name}.v1.sql")), text).expect("written");
    };
    write("aaa_fails", "sum(CAST(source AS BIGINT))");
    write("aab_works", "count(*)");
    let folder = folder.path().to_string_lossy().into_owned();
    let example = "trace_collection/gloo-ddp-2rank";
    let args = ["--data", &data, "--sql-dir", &folder, "--format", "json", "-q", "metric"];
    let Run { code, stdout, stderr } =
        run(project(), &[&args[..], &["--all", "--trace", example]].concat());
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
