//! Diagnoses of jobs whose causes are known because they are made: the first finding is the cause,
//! it gains what the job takes less without it, and nobody else is blamed. And the account of a
//! step, on these jobs and on the examples.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sql::jobs::plan::{Cause, JOBS, Planted};
use crate::sql::jobs::{Job, Sim};
use crate::support::{Csv, Place, examples, in_parallel, selected};

/// Diagnoses that blame a rank.
const BLAMING: [&str; 3] = ["slow_rank", "late_rank", "uneven_all_to_all"];

/// Part of the gain by which a diagnosis may be off.
const TOLERANCE: f64 = 0.1;

/// Most of a step that a finding in a healthy job may gain, in percent.
const HEALTHY_PCT: f64 = 2.0;

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a job says of itself, for messages.
fn told(finding: &Value) -> String {
    let number = |key: &str| finding[key].as_f64().unwrap_or_default();
    format!(
        "{} {} gains {:.4} ms ({:.1} %): {}",
        text(&finding["diagnosis"]),
        finding["where"],
        number("gain_ms"),
        number("gain_pct"),
        text(&finding["finding"])
    )
}

/// Whether a finding is this cause.
fn is_of(finding: &Value, cause: &Cause) -> bool {
    let place = |(key, value): &(&str, &str)| text(&finding["where"][*key]) == *value;
    finding["diagnosis"] == cause.diagnosis && cause.place.iter().all(place)
}

/// What is wrong with the findings of a job, which are sorted by their gain.
fn failures(planted: &Planted, step_ms: f64, findings: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    if planted.causes.is_empty() {
        let large = findings.iter().filter(|f| f["gain_pct"].as_f64() >= Some(HEALTHY_PCT));
        out.extend(large.map(told));
    }
    for (place, cause) in planted.causes.iter().enumerate() {
        let truth = step_ms - Sim::play(cause.without).step_ms();
        let found = findings.iter().position(|f| is_of(f, cause));
        let Some(at) = found else {
            out.push(format!("{} of {truth:.4} ms is not found", cause.diagnosis));
            continue;
        };
        let gain = findings[at]["gain_ms"].as_f64().unwrap_or_default();
        if (gain - truth).abs() > TOLERANCE * truth {
            out.push(format!("the truth is {truth:.4} ms; {}", told(&findings[at])));
        }
        if place != at {
            out.push(format!("{} comes after {}", cause.diagnosis, told(&findings[place])));
        }
    }
    let blames = |f: &&Value| BLAMING.iter().any(|name| f["diagnosis"] == *name);
    let blamed: BTreeSet<String> =
        findings.iter().filter(blames).map(|f| text(&f["where"]["rank"])).collect();
    let ranks = planted.causes.iter().flat_map(|c| c.place).filter(|p| p.0 == "rank");
    let ranks: BTreeSet<String> = ranks.map(|p| p.1.to_owned()).collect();
    if !blamed.is_subset(&ranks) {
        out.push(format!("ranks {blamed:?} are blamed, the plan has {ranks:?}"));
    }
    out
}

/// Steps whose parts are not all of them; and how many steps there are.
fn unequal_steps(place: &Place) -> (Vec<String>, usize) {
    let columns = "trace, rank, device, place, time_ns, step_ns";
    let rows = place.tables().select("step_account", columns).expect("the view runs");
    let csv = Csv::parse(&rows);
    let mut steps: BTreeMap<Vec<Option<String>>, (i64, i64)> = BTreeMap::new();
    for row in csv.rows {
        let number = |i: usize| row[i].as_deref().and_then(|n| n.parse().ok()).unwrap_or(-1);
        let (time, length): (i64, i64) = (number(4), number(5));
        steps.entry(row[..4].to_vec()).or_insert((0, length)).0 += time;
    }
    let unequal = steps.iter().filter(|(_, (time, length))| time != length);
    let texts = unequal.map(|(step, (time, length))| format!("{step:?}: {time} of {length} ns"));
    (texts.collect(), steps.len())
}

#[test]
fn the_planted_cause_comes_first_and_gains_what_it_costs() {
    let jobs: Vec<Planted> = JOBS.into_iter().filter(|j| selected(j.name.as_ref())).collect();
    let failures = in_parallel(&jobs, |planted| {
        let job = Job::of(planted.plan);
        let run = job.place.run(&["diagnose", "job", "--format", "json", "-q"]).done();
        let document: Value = serde_json::from_str(&run).expect("JSON");
        let step_ms = job.sim.step_ms();
        let findings = document["findings"].as_array().cloned().unwrap_or_default();
        let mut out = failures(planted, step_ms, &findings);
        let said = document["step_ms"].as_f64().unwrap_or_default();
        if (said - step_ms).abs() > 1e-9 {
            out.push(format!("a step takes {step_ms} ms, not {said}"));
        }
        let (unequal, steps) = unequal_steps(&job.place);
        out.extend(unequal);
        if steps != 40 {
            out.push(format!("{steps} steps, not five of eight ranks"));
        }
        out.into_iter().map(|o| format!("{}: {o}", planted.name)).collect()
    });
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_parts_of_every_example_are_its_steps() {
    let place = Place::new();
    place.run(&["ingest", &examples().to_string_lossy(), "-q"]).done();
    let (unequal, steps) = unequal_steps(&place);
    assert!(unequal.is_empty(), "{} wrong:\n{}", unequal.len(), unequal.join("\n"));
    assert!(steps > 20, "{steps} steps");
}
