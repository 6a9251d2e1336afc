//! What a view says of a trace does not change when it is computed for one rank after the other
//! (`@partition rank`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use ccl_sql::engine::{Engine, Own, Share, Tables as ReadTables};
use ccl_sql::registry::SqlFile;
use ccl_sql::store::manifest::Manifest;

use tempfile::TempDir;

use crate::support::fixtures::build;
use crate::support::{Csv, Tables, files, in_parallel, registry};

/// The views that are computed in parts, where a trace is large.
fn views() -> Vec<&'static SqlFile> {
    registry().views().filter(|v| v.header.by_rank && v.header.materialize).collect()
}

/// Fixtures whose ranks differ: in devices, streams, steps, ranges, groups, calls and clocks. Jobs
/// that were made up fill every view.
const FIXTURES: [&str; 37] = [
    "wild-0",
    "wild-1",
    "wild-3",
    "wild-4",
    "wild-5",
    "wild-9",
    "two_devices",
    "bytes_accessed",
    "critical_path_ranks",
    "engine_vllm",
    "exposed_groups",
    "exposed_waits",
    "flops_steps",
    "fsdp2_two_layers",
    "fsdp_late_rank",
    "gpu_gaps",
    "permute_rings",
    "phases_uneven_ranks",
    "ranks_unlike",
    "straggler_groups",
    "traffic_ranges",
    "gloo",
    "launches_of_one_rank",
    "rank_without_calls",
    "bubble_stages",
    "calls_apart",
    "calls_on_nodes",
    "copies_beside",
    "hang_cascade",
    "late_alike",
    "launch_gaps",
    "report_many_ranks",
    "scale_up_model",
    "sm_shapes",
    "straggler_clocks",
    "traffic_mesh",
    "waits_in_turn",
];

/// The first of them: together they have rows of every view, and ranks that lack what others have.
/// The last of these has one rank.
const FIRST: &[&str] = FIXTURES.split_at(7).0;

#[test]
fn a_view_is_the_same_rank_by_rank() {
    let views = views();
    assert!(views.len() > 15, "{} views are computed in parts", views.len());
    let filled = Mutex::new(BTreeSet::new());
    let failures = in_parallel(&FIXTURES, |fixture| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        build(fixture, folder.path());
        let whole = rows_of(&Tables::keeping(folder.path(), &views), &views);
        note_filled(&filled, &views, &whole);
        let in_parts = rows_of(&Tables::by_rank(folder.path(), &views), &views);
        views_that_differ(fixture, &views, &whole, &in_parts)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    every_view_was_filled(filled, &views);
}

/// Notes the views that have rows.
fn note_filled<'v>(filled: &Mutex<BTreeSet<&'v str>>, views: &[&'v SqlFile], rows: &[String]) {
    let pairs = views.iter().zip(rows).filter(|(_, rows)| !Csv::parse(rows).rows.is_empty());
    filled.lock().expect("no thread panics here").extend(pairs.map(|(v, _)| &*v.header.name));
}

/// A comparison of nothing with nothing says nothing.
fn every_view_was_filled(filled: Mutex<BTreeSet<&str>>, views: &[&SqlFile]) {
    let filled = filled.into_inner().expect("no thread panics here");
    let names = views.iter().map(|view| &*view.header.name);
    let empty: Vec<&str> = names.filter(|name| !filled.contains(name)).collect();
    assert!(empty.is_empty(), "no fixture has rows of {empty:?}");
}

/// What of two answers about a fixture is not the same.
fn views_that_differ(
    fixture: &str,
    views: &[&SqlFile],
    expected: &[String],
    found: &[String],
) -> Vec<String> {
    let pairs = views.iter().zip(expected.iter().zip(found)).filter(|(_, (a, b))| a != b);
    let say = |(view, (a, b)): (&&SqlFile, _)| {
        format!("{} of {fixture}:\n{a}\nand in parts:\n{b}", view.header.name)
    };
    pairs.map(say).collect()
}

/// Views stay where the next trace is shown, and become tables where that is large.
#[test]
fn a_trace_is_the_same_whatever_was_shown_before_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let traces = ["critical_path_ranks", "fsdp2_two_layers"];
    traces.iter().for_each(|trace| build(trace, folder.path()));
    let (views, metrics): (Vec<_>, Vec<_>) = (views(), registry().metrics().collect());
    let alone = traces.map(|trace| {
        let tables = Tables::keeping(folder.path(), &[]);
        tables.show(folder.path(), trace, 10);
        rows_of(&tables, &views)
    });
    assert!(alone[0] != alone[1]);
    let tables = Tables::in_turn(folder.path(), &metrics);
    for (trace, rows) in [(0, 10), (1, 10), (0, 100), (1, 10), (1, 100), (0, 10)] {
        tables.show(folder.path(), traces[trace], rows);
        assert_eq!(rows_of(&tables, &views), alone[trace], "{} with {rows}", traces[trace]);
    }
}

/// Tables that have a row for each event, or nearly so.
const EVENTS: [&str; 6] =
    ["busy_intervals", "device_events", "flows", "host_events", "host_ranges", "launches"];

/// The tables of a trace without events, and what is kept of them.
fn without_events(data: &Path, files: &[&SqlFile]) -> Tables {
    let tables = Tables::with_partials(data, files);
    EVENTS.iter().for_each(|table| tables.empty(table));
    tables
}

fn rows_of(tables: &Tables, views: &[&SqlFile]) -> Vec<String> {
    let rows = |view: &&SqlFile| tables.select(&view.header.name, "*");
    views.iter().map(|view| rows(view).unwrap_or_else(|e| panic!("{}: {e}", view.path))).collect()
}

/// A copy of a trace as a machine has it that fetched what is computed of a share of the ranks: of
/// some tables the rows of these ranks alone, and others not at all.
fn cut(from: &Path, trace: &str, tables: &ReadTables<'_>, (first, last): (i64, i64)) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (from, to) = (from.join(trace), folder.path().join(trace));
    let duckdb = duckdb::Connection::open_in_memory().expect("DuckDB starts");
    for file in files(&from) {
        let name = file.strip_prefix(&from).expect("it lies there");
        let parts: Vec<&str> = name.iter().filter_map(|part| part.to_str()).collect();
        let (is_own, is_whole) = (tables.own.contains(parts[0]), tables.whole.contains(parts[0]));
        let rank = parts.iter().find_map(|p| p.strip_prefix("rank=")?.parse::<i64>().ok());
        let is_of_others = is_own && rank.is_some_and(|rank| !(first..=last).contains(&rank));
        let is_table = parts.len() > 1 && !parts[0].starts_with('.');
        if is_of_others || is_table && !is_own && !is_whole {
            continue;
        }
        let target = to.join(name);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&file, &target).expect("a copy");
        let read = format!("read_parquet('{}', hive_partitioning = false)", file.display());
        let has_rank = "SELECT 'rank' IN (SELECT column_name FROM (DESCRIBE FROM {}))";
        let has_rank = has_rank.replace("{}", &read);
        let is_cut = || duckdb.query_row(&has_rank, [], |row| row.get(0)).expect("a table");
        if is_own && is_cut() {
            let rows = format!("rank BETWEEN {first} AND {last} OR rank IS NULL");
            let sql = format!("COPY (FROM {read} WHERE {rows}) TO '{}'", target.display());
            duckdb.execute_batch(&sql).expect("it can be cut");
        }
    }
    std::fs::write(to.join(".partial"), "").expect("a file");
    folder
}

/// Has the manifest of a trace say which files have the rows of one rank, as it does in a store.
fn say_spans(directory: &Path) {
    let mut manifest = Manifest::parse(directory).expect("a manifest");
    let rank = |name: &String| name.split_once("rank=")?.1.split('/').next()?.parse().ok();
    let span = |name: &String| rank(name).map(|rank: i64| (name.clone(), (rank, rank)));
    manifest.spans = manifest.files.keys().filter_map(span).collect();
    manifest.replace(directory, &directory.join("aside")).expect("it can be written");
}

#[test]
fn what_was_computed_of_each_rank_alone_is_read_where_it_is_kept() {
    let views = views();
    let levels = Engine::levels(registry(), &views);
    assert!(levels > 1, "some read what others say of all ranks");
    let filled = Mutex::new(BTreeSet::new());
    let failures = in_parallel(FIRST, |fixture| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        build(fixture, folder.path());
        let trace = format!("trace={fixture}");
        say_spans(&folder.path().join(&trace));
        let kept = folder.path().join(&trace).join(".partials");
        let whole = Tables::by_rank(folder.path(), &views);
        let expected = rows_of(&whole, &views);
        note_filled(&filled, &views, &expected);
        let ranks =
            whole.query("SELECT DISTINCT rank FROM ranks WHERE rank IS NOT NULL ORDER BY 1");
        let ranks = ranks.rows.iter().filter_map(|row| row[0].as_ref()?.parse::<i64>().ok());
        let ranks: Vec<i64> = ranks.collect();
        for level in 0..levels {
            for place in [1, 0] {
                let share = Share { place, of: 2 };
                let mine = &ranks[share.of_many(ranks.len())];
                let ([first, ..], [.., last]) = (mine, mine) else {
                    Tables::with_partials(folder.path(), &views).keep_share(level, place, 2);
                    continue;
                };
                let tables = ReadTables::of_share(registry(), &views, level);
                let here = cut(folder.path(), &trace, &tables, (*first, *last));
                let own = Own {
                    share,
                    ranks: (*first, *last),
                    tables: tables.own.iter().map(|name| (*name).to_owned()).collect(),
                };
                let machine = Tables::of_share(here.path(), &views, own);
                if place == 1 {
                    let of_others = machine.try_share(level, 0, 2);
                    assert_eq!(of_others, Err("table-away"), "{fixture}");
                }
                machine.keep_share(level, place, 2);
                for file in files(&here.path().join(&trace).join(".partials")) {
                    std::fs::create_dir_all(&kept).expect("a folder");
                    std::fs::copy(&file, kept.join(file.file_name().expect("a name")))
                        .expect("a copy");
                }
            }
        }
        assert_eq!(files(&kept).len(), 2 * views.len(), "types that a file cannot hold");
        let found = rows_of(&without_events(folder.path(), &views), &views);
        views_that_differ(fixture, &views, &expected, &found)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    every_view_was_filled(filled, &views);
}

/// Metrics that read tables of events: each of them anew, for each question.
const READERS: [&str; 2] = [
    // The work of a step, event by event, over all ranks.
    "critical_path",
    // What ran while a link was busiest.
    "nvlink_throughput_gb_per_s",
];

/// What the query of a file reads of tables of events, also through views that are not kept.
fn events_of<'a>(file: &'a SqlFile, seen: &mut BTreeSet<&'a str>) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // Outside of comments and texts.
    let lines = file.query().lines().map(|line| line.split("--").next().unwrap_or_default());
    let code: Vec<&str> = lines.flat_map(|line| line.split('\'').step_by(2)).collect();
    let words: BTreeSet<&str> =
        code.into_iter().flat_map(|code| code.split(|c| !is_word(c))).collect();
    let inputs: Vec<&str> = file.header.inputs().filter(|i| words.contains(i)).collect();
    inputs.into_iter().any(|input| match registry().view(input) {
        Some(view) if view.header.by_rank && view.header.materialize => false,
        Some(view) => seen.insert(input) && events_of(view, seen),
        None => EVENTS.contains(&input),
    })
}

#[test]
fn metrics_read_what_is_kept_and_no_events() {
    let metrics: Vec<&SqlFile> = registry().metrics().collect();
    let reads = |metric: &&&SqlFile| events_of(metric, &mut BTreeSet::new());
    let readers: Vec<&str> =
        metrics.iter().filter(reads).map(|metric| metric.header.name.as_str()).collect();
    assert_eq!(readers, READERS);
    // One asks in a warning whether clocks put an event before its launch.
    let others = [&READERS[..], &["stream_queue_length"]].concat();
    let is_kept = |m: &&SqlFile| !others.contains(&&*m.header.name);
    let metrics: Vec<&SqlFile> = metrics.into_iter().filter(is_kept).collect();
    let failures = in_parallel(FIRST, |fixture| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        build(fixture, folder.path());
        let directory = folder.path().join(format!("trace={fixture}"));
        let ask = |tables: Tables| {
            let of = |metric: &&SqlFile| tables.result(&directory, metric);
            metrics.iter().map(of).collect::<Vec<_>>()
        };
        let before = ask(Tables::with_partials(folder.path(), &metrics));
        let after = ask(without_events(folder.path(), &metrics));
        let pairs = metrics.iter().zip(before.iter().zip(&after));
        let differ = pairs.filter(|(_, (before, after))| before != after);
        let say = |(metric, (a, b)): (&&SqlFile, (_, _))| {
            format!("{} of {fixture}:\n{a:?}\n{b:?}", metric.header.name)
        };
        differ.map(say).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
