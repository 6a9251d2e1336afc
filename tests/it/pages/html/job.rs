//! The page of an ingested job against its report as JSON.

use serde_json::Value;

use crate::pages::html::timeline::DRAWN;
use crate::support::browser::probe;
use crate::support::{example, run};

/// The values that a plot of the page shall hold, from its sheet in the JSON report.
fn cells<'a>(document: &'a Value, sheet: &str, column: &str) -> Vec<&'a Value> {
    let sheets = document["sheets"].as_array().expect("sheets");
    let sheet = sheets.iter().find(|s| s["name"] == sheet).expect("the sheet");
    let columns = sheet["columns"].as_array().expect("columns");
    let place = columns.iter().position(|c| c["name"] == column).expect("the column");
    sheet["rows"].as_array().expect("rows").iter().map(|row| &row[place]).collect()
}

/// Numbers in order: plots arrange the rows of a sheet by themselves.
fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Union of the spans of each lane of the timeline after its start, added up.
fn union_us(document: &Value) -> f64 {
    let column = |name| cells(document, "step_timeline", name);
    let lanes = column("rank").into_iter().zip(column("device")).zip(column("lane"));
    let times = column("start_us").into_iter().zip(column("dur_us"));
    // The rows of a lane stand together, by start.
    let (mut sum, mut before, mut reach) = (0.0, None, 0.0_f64);
    for (lane, (start, dur)) in lanes.zip(times) {
        if before != Some(lane) {
            (before, reach) = (Some(lane), 0.0);
        }
        let start = start.as_f64().expect("us");
        let end = start + dur.as_f64().expect("us");
        sum += (end - start.max(reach)).max(0.0);
        reach = reach.max(end);
    }
    sum
}

#[test]
fn the_page_of_a_job_holds_the_numbers_of_its_json_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = example("llama-tiny-fsdp2-tp2-4");
    let job = job.to_str().expect("UTF-8");
    let report = |format: &str| {
        run(folder.path(), &["report", "--trace", job, "--data", "data", "--format", format]).done()
    };
    let document: Value = serde_json::from_str(&report("json")).expect("JSON");
    let page = report("html");
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    let script = "result = Object.fromEntries(['breakdown', 'bandwidth', 'memory', 'classes', 'stragglers']
            .map((p) => [p, at('plot-' + p).series.map((s) => s.data)]));
        result.metrics = document.querySelector('#metrics .count').textContent;
        result.tables = [...document.querySelectorAll('table')].map((t) => t.id);
        result.drawn = drawn().map(area).reduce((a, b) => a + b, 0) / (pixels(0, 1)[1] - pixels(0, 1)[0]);";
    let Some(probe) = probe(&page, &format!("{DRAWN}{script}")) else { return };
    assert_eq!(probe.console, [""; 0]);
    let drawn = probe.value["drawn"].as_f64().expect("us");
    let ran = union_us(&document);
    assert!(ran > 0.0 && (drawn - ran).abs() < 0.02 * ran, "{drawn} us are drawn of {ran}");
    let tables = probe.value["tables"].to_string();
    for id in [
        "table-exposed-dims",
        "table-exposed-groups",
        "table-idle-causes",
        "table-path-kinds",
        "table-network",
    ] {
        assert!(tables.contains(id), "{id}: {tables}");
    }
    let numbers = |values: Vec<&Value>| sorted(values.into_iter().filter_map(Value::as_f64));
    let plotted = |plot: &str, place: Option<usize>| {
        let series = probe.value[plot].as_array().expect("series").iter();
        let items = series.flat_map(|s| s.as_array().expect("data").iter());
        sorted(items.filter_map(|item| place.map_or(item, |i| &item[i]).as_f64()))
    };
    let parts = ["computation_time", "exposed_comm_time", "exposed_memcpy_time", "idle_time"];
    let types = cells(&document, "gpu_timeline_by_rank", "type");
    let times = cells(&document, "gpu_timeline_by_rank", "time_ms").into_iter().zip(types);
    let stacked = times.filter(|(_, kind)| parts.contains(&kind.as_str().expect("a type")));
    let want = numbers(stacked.map(|(time, _)| time).collect());
    assert!(want.len() == 16 && want[15] > 1.0, "{want:?}");
    assert_eq!(plotted("breakdown", None), want);
    for (plot, place, sheet, column) in [
        ("memory", Some(1), "memory_timeline", "allocated_bytes"),
        ("classes", None, "kernel_class_times", "time_ms"),
        ("stragglers", None, "straggler_summary", "mean_lag_us"),
    ] {
        let mut want = numbers(cells(&document, sheet, column));
        assert!(!want.is_empty(), "{sheet}");
        // A plot of two columns holds both.
        let second = match plot {
            "memory" => "reserved_bytes",
            "stragglers" => "mean_wait_us",
            _ => "",
        };
        if !second.is_empty() {
            want.extend(numbers(cells(&document, sheet, second)));
            want = sorted(want);
        }
        assert_eq!(plotted(plot, place), want, "{plot} {column}");
    }
    let points = probe.value["bandwidth"].as_array().expect("series").iter();
    let points = points.flat_map(|s| s.as_array().expect("data").iter());
    let points = points.filter(|p| p.as_array().is_some_and(|p| p.len() == 3));
    let want = numbers(cells(&document, "collective_sizes", "median_algo_bw_gb_per_s"));
    assert_eq!(sorted(points.filter_map(|p| p[1].as_f64())), want);
    let metrics = document["metrics"].as_array().expect("metrics").len();
    assert_eq!(probe.value["metrics"], format!("{metrics} rows"));
}
