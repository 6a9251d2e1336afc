//! Jobs whose stragglers and clocks are known (see [`jobs`](crate::sql::jobs)): what metrics and
//! views say of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::sql::jobs::plan::{LATE_HOST, SLOW_RANK, SLOW_RANK_CLOCKS, UNEVEN_EXPERTS};
use crate::sql::jobs::{Job, RANKS};

impl Job {
    /// Ranks that anything names as a straggler, and victims with the rank that each waits for.
    fn named(&self) -> (BTreeSet<i64>, BTreeSet<(i64, i64)>) {
        let number = |v: &Value| v.as_i64().unwrap_or(-1);
        let (mut causes, mut victims) = (BTreeSet::new(), BTreeSet::new());
        for metric in ["straggler", "straggler_by_rank", "straggler_score"] {
            let details = &self.metric(metric, &[])["details"];
            causes.insert(number(&details["straggler_rank"]));
            let list = |key: &str| details[key].as_array().cloned().unwrap_or_default();
            causes.extend(list("stragglers").iter().map(|s| number(&s["rank"])));
            victims.extend(
                list("victims").iter().map(|v| (number(&v["rank"]), number(&v["cause_rank"]))),
            );
        }
        let summary = self.view("straggler_summary");
        let cell =
            |row: usize, column: &str| summary.get(row, column).and_then(|n| n.parse::<f64>().ok());
        let rows = 0..summary.rows.len();
        let origin = |row: &usize| (cell(*row, "origin_wait_us").unwrap_or_default() * 1e3) as i64;
        let most = rows.max_by_key(origin).expect("the view has rows");
        for row in [0, most] {
            causes.insert(cell(row, "rank").map_or(-1, |r| r as i64));
        }
        (causes, victims)
    }

    /// The paths that end on any rank in any step: each as long as its step, without gap; gives the
    /// ranks on which most of them lie, and why.
    fn paths(&self) -> BTreeSet<(i64, String)> {
        let mut out = BTreeSet::new();
        for rank in [0, 4, 5, 7] {
            for step in [1, 3] {
                let params = [format!("rank={rank}"), format!("step={step}")];
                let result = self.metric("critical_path", &[&params[0], &params[1]]);
                let details = &result["details"];
                let length = result["value"].as_f64().expect("there is a path");
                assert!((length - details["step_ms"].as_f64().unwrap_or_default()).abs() < 1e-9);
                let segments = details["segments"].as_array().expect("the path has segments");
                let at = |s: &Value, key: &str| s[key].as_i64().expect("nanoseconds");
                for pair in segments.windows(2) {
                    let end = at(&pair[0], "start_ns") + at(&pair[0], "dur_ns");
                    assert_eq!(end, at(&pair[1], "start_ns"), "rank {rank}, step {step}");
                }
                let reason = details["reason"].as_str().unwrap_or_default().to_owned();
                out.insert((details["rank"].as_i64().unwrap_or(-1), reason));
            }
        }
        out
    }
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value}, planned {expected}");
}

/// Ranks, as a set.
fn only(rank: i64) -> BTreeSet<i64> {
    BTreeSet::from([rank])
}

#[test]
fn a_slow_rank_is_named_and_its_victim_is_not() {
    for plan in [SLOW_RANK, SLOW_RANK_CLOCKS] {
        let job = Job::of(plan);
        assert_eq!(job.named(), (only(4), BTreeSet::from([(5, 4)])));
        let by_rank = job.metric("straggler_by_rank", &[]);
        assert!(by_rank["details"]["origin_pct"].as_f64().expect("a share") > 90.0);
        let lag = job.metric("straggler_lag", &[]);
        assert_eq!(lag["details"]["last_rank_counts"], json!(job.sim.last_counts()));
        near(&lag["value"], job.sim.mean_lag_us());
        assert_eq!(job.paths(), BTreeSet::from([(4, "compute".to_owned())]));
    }
}

#[test]
fn a_path_is_no_longer_than_the_plan_says() {
    let job = Job::of(SLOW_RANK);
    let details = job.metric("critical_path", &["rank=7", "step=2"])["details"].clone();
    // From one end of the optimizer to the next, whatever the host does in between.
    let step_ms = details["step_ms"].as_f64().expect("a step");
    let marker = |step: usize| job.sim.steps[step][7];
    let period_ms = (marker(3).0 - marker(2).0) as f64 / 1e6;
    assert!((step_ms - period_ms).abs() < 0.1, "{step_ms} ms, a step is {period_ms} ms");
    assert_eq!(details["end_rank"], 7);
}

#[test]
fn clocks_that_are_apart_change_nothing() {
    let (even, apart) = (Job::of(SLOW_RANK), Job::of(SLOW_RANK_CLOCKS));
    let offsets = apart.metric("clock_offsets", &[]);
    assert_eq!(offsets["details"]["taken_away"], true);
    let by_rank = offsets["details"]["by_rank"].as_array().expect("offsets of ranks");
    assert_eq!(by_rank.len(), RANKS - 1);
    for offset in by_rank {
        let rank = usize::try_from(offset["rank"].as_i64().expect("a rank")).expect("from 0 on");
        near(&offset["offset_us"], SLOW_RANK_CLOCKS.clock_ns[rank] as f64 / 1e3);
    }
    for metric in [
        "straggler",
        "straggler_by_rank",
        "straggler_score",
        "straggler_lag",
        "straggler_delay_ms",
        "sync_overhead_ms",
        "bubble_time_s",
        "wall_time_s",
    ] {
        let (mut a, mut b) = (even.metric(metric, &[]), apart.metric(metric, &[]));
        let said = |r: &Value| r["warnings"].to_string().contains("-p align=false");
        assert!(!said(&a) && said(&b), "{metric}: {} and {}", a["warnings"], b["warnings"]);
        for (result, aligned) in [(&mut a, false), (&mut b, true)] {
            let details = result["details"].as_object_mut().expect("details");
            assert_eq!(details.remove("clock_aligned"), Some(json!(aligned)), "{metric}");
            details.remove("alignment_spread_us");
        }
        assert_eq!(a["details"], b["details"], "{metric}");
    }
    for view in ["straggler_summary", "nccl_implicit_sync", "step_timeline"] {
        let rows = |job: &Job| -> Vec<Vec<Option<String>>> {
            let csv = job.view(view);
            let aligned = csv.columns.iter().position(|c| c == "clock_aligned");
            assert!(aligned.is_some() || view == "step_timeline", "{view} does not say it");
            // Calls are numbered by the clocks as recorded.
            let number = csv.columns.iter().position(|c| c == "collective_id");
            let kept = |place: &usize| Some(*place) != aligned && Some(*place) != number;
            let keep = |row: Vec<Option<String>>| -> Vec<Option<String>> {
                let cells = row.into_iter().enumerate().filter(|(place, _)| kept(place));
                cells.map(|(_, cell)| cell).collect()
            };
            let mut rows: Vec<Vec<Option<String>>> = csv.rows.into_iter().map(keep).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(&even), rows(&apart), "{view}");
    }
    // As recorded another rank seems to be late, and nothing says that it was set right.
    let raw = apart.metric("straggler_by_rank", &["align=false"]);
    assert_eq!(raw["details"]["straggler_rank"], 5);
    assert_eq!(raw["details"]["clock_aligned"], false);
}

#[test]
fn a_late_host_is_named_with_its_reason() {
    let job = Job::of(LATE_HOST);
    assert_eq!(job.named(), (only(6), BTreeSet::from([(7, 6)])));
    let paths = job.paths();
    assert!(paths.iter().all(|p| p.0 == 6), "{paths:?}");
    let details = &job.metric("critical_path", &[])["details"];
    let ranks = details["by_rank"].as_array().expect("the path is on ranks");
    let late = ranks.iter().find(|r| r["rank"] == 6).expect("the late rank is on the path");
    assert!(late["by_kind_ms"]["host"].as_f64().expect("time of the host") > 1.0, "{details}");
}

#[test]
fn a_rank_with_more_tokens_is_named() {
    let job = Job::of(UNEVEN_EXPERTS);
    let (causes, victims) = job.named();
    assert_eq!((causes, victims), (only(2), BTreeSet::new()));
    assert_eq!(job.paths(), BTreeSet::from([(2, "compute".to_owned())]));
}
