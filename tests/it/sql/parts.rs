//! What a view says of a trace does not change when it is computed for one rank after the other
//! (`@partition rank`).

use std::collections::BTreeSet;
use std::sync::Mutex;

use ccl_sql::registry::SqlFile;

use crate::support::fixtures::build;
use crate::support::{Csv, Tables, in_parallel, registry};

/// The views that are computed in parts, where a trace is large.
fn views() -> Vec<&'static SqlFile> {
    registry().views().filter(|v| v.header.by_rank && v.header.materialize).collect()
}

/// Fixtures whose ranks differ: in devices, streams, steps, ranges, groups, calls and clocks.
const FIXTURES: [&str; 26] = [
    "bubble_stages",
    "calls_apart",
    "calls_on_nodes",
    "copies_beside",
    "critical_path_ranks",
    "exposed_groups",
    "exposed_waits",
    "fsdp2_two_layers",
    "fsdp_late_rank",
    "gloo",
    "gpu_gaps",
    "hang_cascade",
    "late_alike",
    "launch_gaps",
    "launches_of_one_rank",
    "phases_uneven_ranks",
    "rank_without_calls",
    "ranks_unlike",
    "report_many_ranks",
    "scale_up_model",
    "straggler_clocks",
    "straggler_groups",
    "traffic_mesh",
    "traffic_ranges",
    "two_devices",
    "waits_in_turn",
];

#[test]
fn a_view_is_the_same_rank_by_rank() {
    let views = views();
    assert!(views.len() > 15, "{} views are computed in parts", views.len());
    let filled = Mutex::new(BTreeSet::new());
    let failures = in_parallel(&FIXTURES, |fixture| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        build(fixture, folder.path());
        let whole = Tables::keeping(folder.path(), &views);
        let in_parts = Tables::by_rank(folder.path(), &views);
        let mut out = Vec::new();
        for view in &views {
            let view = &view.header.name;
            let [expected, found] = [&whole, &in_parts]
                .map(|tables| tables.select(view, "*").unwrap_or_else(|e| panic!("{view}: {e}")));
            if !Csv::parse(&expected).rows.is_empty() {
                filled.lock().expect("no thread panics here").insert(view);
            }
            if expected != found {
                out.push(format!("{view} of {fixture}:\n{expected}\nin parts:\n{found}"));
            }
        }
        out
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let filled = filled.into_inner().expect("no thread panics here");
    let empty: Vec<_> = views.iter().filter(|v| !filled.contains(&v.header.name)).collect();
    assert!(empty.is_empty(), "no fixture has rows of {:?}", empty.iter().map(|v| &v.header.name));
}
