//! What a view says of a trace does not change with the traces that are shown beside it.
//!
//! Numbers of events, ranks and calls are unique within a trace alone: a view that joins without
//! the trace mixes them, and only where several are shown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccl_sql::registry::SqlFile;

use crate::support::fixtures::build;
use crate::support::{Cell, Csv, Tables, in_parallel, registry};

/// Fixtures that together fill many views, with the same numbers of events in each.
const FIXTURES: [&str; 3] = ["wild-0", "wild-3", "wild-4"];

/// Rows by trace.
type Rows = BTreeMap<String, Vec<Vec<Cell>>>;

/// The rows of a view by trace, in a total order; None where they are of no trace.
fn by_trace(tables: &Tables, view: &str) -> Option<Rows> {
    let text = match tables.select(view, "trace, *") {
        Err(error) if error.contains("column \"trace\" not found") => return None,
        text => text.unwrap_or_else(|e| panic!("{view}: {e}")),
    };
    let mut out = Rows::new();
    for row in Csv::parse(&text).rows {
        out.entry(row[0].clone().unwrap_or_default()).or_default().push(row);
    }
    Some(out)
}

#[test]
fn a_trace_is_the_same_alone_and_beside_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (all, alone) = (folder.path().join("all"), |name: &str| folder.path().join(name));
    for fixture in FIXTURES {
        build(fixture, &all);
        build(fixture, &alone(fixture));
    }
    let files: Vec<&SqlFile> = registry().views().collect();
    let views: Vec<&str> = files.iter().map(|view| view.header.name.as_str()).collect();
    let parts: Vec<&[&str]> = views.chunks(views.len().div_ceil(2)).collect();
    let compared = AtomicUsize::new(0);
    let failures = in_parallel(&parts, |views| {
        let beside = Tables::open(&all);
        let of_traces = |view: &&'static str| Some((*view, by_trace(&beside, view)?));
        let (views, mut found): (Vec<&str>, Vec<Rows>) = views.iter().filter_map(of_traces).unzip();
        compared.fetch_add(views.len(), Ordering::Relaxed);
        let mut out = Vec::new();
        for fixture in FIXTURES {
            // What several views read is a table there: the same rows, and sooner.
            let tables = Tables::keeping(&alone(fixture), &files);
            for (view, found) in views.iter().zip(&mut found) {
                let rows = by_trace(&tables, view).and_then(|mut rows| rows.remove(fixture));
                let expected = rows.unwrap_or_default();
                let found = found.remove(fixture).unwrap_or_default();
                let place = expected.iter().zip(&found).position(|(e, f)| e != f);
                if place.is_some() || expected.len() != found.len() {
                    let row = place.map(|n| (&expected[n], &found[n]));
                    let (alone, beside) = (expected.len(), found.len());
                    out.push(format!("{view} of {fixture}: {alone} and {beside} rows; {row:?}"));
                }
            }
        }
        // No trace that there is not.
        let strange = found.iter().flat_map(BTreeMap::keys);
        out.extend(strange.map(|name| format!("rows of {name:?}, which is no trace")));
        out
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let compared = compared.into_inner();
    assert!(compared > 150, "{compared} views are of traces");
}
