//! Known answers of metrics on real traces: `tests/real/*.csv`, a row each, computed from the raw
//! files by programs that know nothing of this one (`how` says by what). Inputs are folders of
//! `trace_collection`, or of the traces that are not part of the project (see `real::traces`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Csv, Place, files, in_parallel, project, real, selected};

/// One row.
#[derive(Debug, Clone)]
struct Known {
    /// File and line of the row.
    place: String,
    metric: String,
    params: Vec<String>,
    /// `value`, or a path into the details.
    key: String,
    expected: String,
    /// Relative.
    tolerance: f64,
}

/// Rows by input.
fn all() -> BTreeMap<String, Vec<Known>> {
    let mut out: BTreeMap<String, Vec<Known>> = BTreeMap::new();
    for file in files(&project().join("tests/real")) {
        if !selected(&file) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the known answers can be read");
        let csv = Csv::parse(&text);
        let header = ["input", "metric", "params", "key", "expected", "tolerance", "how"];
        assert_eq!(csv.columns, header, "{}", file.display());
        for (line, row) in csv.rows.iter().enumerate() {
            let cell = |i: usize| row[i].clone().unwrap_or_default();
            assert!(!cell(6).is_empty(), "{}: row {line} does not say how", file.display());
            out.entry(cell(0)).or_default().push(Known {
                place: format!("{}:{}", file.display(), line + 2),
                metric: cell(1),
                params: cell(2).split_whitespace().map(str::to_owned).collect(),
                key: cell(3),
                expected: cell(4),
                tolerance: cell(5).parse().expect("a tolerance is a number"),
            });
        }
    }
    out
}

/// A place in the details: names of members, numbers of elements.
fn at<'v>(result: &'v Value, key: &str) -> Option<&'v Value> {
    if key == "value" {
        return result.get("value");
    }
    key.split('.').try_fold(result.get("details")?, |value, part| match value {
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

impl Known {
    fn failure(&self, result: &Value) -> Option<String> {
        let found = at(result, &self.key)?;
        let same = match (found.as_f64(), self.expected.parse::<f64>()) {
            (Some(found), Ok(expected)) => {
                (found - expected).abs() <= self.tolerance * expected.abs().max(f64::MIN_POSITIVE)
            }
            _ => found.as_str().map_or_else(|| found.to_string(), str::to_owned) == self.expected,
        };
        (!same).then(|| format!("{} is {found}, known is {}", self.key, self.expected))
    }
}

/// Differences in the answers about one input.
fn failures(path: &Path, rows: &[Known]) -> Vec<String> {
    let (place, input) = (Place::new(), path.to_string_lossy());
    let outcome = place.run(&["ingest", &input, "--name", "known", "-q"]);
    if outcome.code != 0 {
        return vec![format!("{input}: {}", outcome.stderr)];
    }
    // Those with the same parameters in one command.
    let mut asked: BTreeMap<&[String], BTreeMap<&str, Vec<&Known>>> = BTreeMap::new();
    for row in rows {
        asked.entry(&row.params).or_default().entry(&row.metric).or_default().push(row);
    }
    let mut out = Vec::new();
    for (params, metrics) in asked {
        let mut args = vec!["--format", "json", "-q", "metric"];
        args.extend(metrics.keys());
        args.extend(params.iter().flat_map(|p| ["-p", p]));
        let answer = place.run(&args);
        // One is no list.
        let results = match serde_json::from_str(&answer.stdout) {
            Ok(Value::Array(list)) => list,
            Ok(one) => vec![one],
            Err(_) => Vec::new(),
        };
        for (metric, rows) in metrics {
            let result = results.iter().find(|result| result["metric"] == metric);
            let result = result.unwrap_or(&Value::Null);
            for row in rows {
                let failure = match at(result, &row.key) {
                    Some(_) => row.failure(result),
                    None => Some(format!("there is no {}: {result}{}", row.key, answer.stderr)),
                };
                out.extend(failure.map(|f| format!("{}: {input}: {metric}: {f}", row.place)));
            }
        }
    }
    out
}

#[test]
fn metrics_give_their_known_answers() {
    let traces = real::traces("known");
    let inputs: Vec<(PathBuf, Vec<Known>)> = all()
        .into_iter()
        .filter_map(|(input, rows)| {
            let ours = input.starts_with("trace_collection/");
            let root = if ours { project() } else { traces.as_deref()? };
            let path = root.join(&input);
            Some((path, rows))
        })
        .collect();
    let failures = in_parallel(&inputs, |(path, rows)| failures(path, rows));
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_wrong_answer_is_seen() {
    let result =
        serde_json::json!({"value": 2.0, "details": {"a": [{"b": 3}], "t": "x", "n": null}});
    let row = |key: &str, expected: &str| Known {
        place: String::new(),
        metric: String::new(),
        params: Vec::new(),
        key: key.to_owned(),
        expected: expected.to_owned(),
        tolerance: 1e-9,
    };
    for (key, expected) in [("value", "2"), ("a.0.b", "3"), ("t", "x"), ("n", "null")] {
        assert_eq!(row(key, expected).failure(&result), None, "{key}");
        assert!(row(key, "2.5").failure(&result).is_some(), "{key}");
    }
    assert!(at(&result, "a.1.b").is_none() && at(&result, "z").is_none());
}
