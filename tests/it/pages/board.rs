//! The leaderboard: its files, what its page shows in a browser, and what strangers wrote into it.

use std::path::Path;

use serde_json::Value;

use crate::support::browser::probe;
use crate::support::{example, run};

/// A data folder with three traces, of which one has a card and a name of a stranger.
fn data(folder: &Path) {
    for job in ["llama-tiny-fsdp2-tp2-4", "llama-tiny-fsdp2-tp2-4-balanced"] {
        let path = example(job);
        run(folder, &["ingest", path.to_str().expect("UTF-8"), "--data", "data"]).done();
    }
    let card = "version: 1\nworkload:\n  model:\n    phase: training\n    \
                model_family: '</script><img src=x onerror=window.__hacked=1>=cmd()'\n";
    std::fs::write(folder.join("card.yaml"), card).expect("the card can be written");
    let gloo = example("gloo-ddp-2rank");
    let gloo = gloo.to_str().expect("UTF-8");
    let name = "x[1],(a)@..b";
    run(folder, &["ingest", gloo, "--name", name, "--card", "card.yaml", "--data", "data"]).done();
}

#[test]
fn a_board_links_grades_filters_and_sorts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    data(folder.path());
    run(folder.path(), &["board", "-o", "out", "--data", "data"]).done();
    let out = folder.path().join("out");
    let text = std::fs::read_to_string(out.join("board.json")).expect("board.json");
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let traces = board["traces"].as_array().expect("traces");
    assert_eq!(traces.len(), 3);
    for trace in traces {
        let report = out.join(trace["report"].as_str().expect("a link"));
        assert!(report.starts_with(&out) && report.is_file(), "{}", report.display());
    }
    let configurations = &board["configurations"];
    let heads = configurations["columns"].as_array().expect("columns");
    assert_eq!(heads[0]["name"], "trace");
    let rows = configurations["rows"].as_array().expect("rows");
    for (row, trace) in rows.iter().zip(traces) {
        assert_eq!(
            (row[0].as_str(), row.as_array().map(Vec::len)),
            (trace["trace"].as_str(), Some(heads.len()))
        );
    }
    assert_eq!(rows.len(), traces.len());
    let definitions = std::fs::read_to_string(out.join("metrics.html")).expect("metrics.html");
    for metric in board["metrics"].as_array().expect("metrics") {
        let anchor = format!("id=\"{}\"", metric["metric"].as_str().expect("a name"));
        assert!(definitions.contains(&anchor), "{anchor}");
    }
    // The one place where the balanced job must win, by its plan.
    let columns = board["results"]["columns"].as_array().expect("columns");
    let place = |name: &str| columns.iter().position(|c| c["name"] == name).expect("a column");
    let (trace, metric, value, grade) =
        (place("trace"), place("metric"), place("value"), place("grade"));
    let rows = board["results"]["rows"].as_array().expect("rows");
    let of = |t: &str, m: &str| {
        let row = rows.iter().find(|r| r[trace] == t && r[metric] == m).expect("a result");
        (row[value].as_f64().expect("a value"), row[grade].as_str().map(str::to_owned))
    };
    let (slow, slow_grade) = of("llama-tiny-fsdp2-tp2-4", "mfu");
    let (fast, fast_grade) = of("llama-tiny-fsdp2-tp2-4-balanced", "mfu");
    assert!(slow < 25.0 && fast > 25.0 && fast < 50.0, "{slow} {fast}");
    assert_eq!((slow_grade.as_deref(), fast_grade.as_deref()), (Some("poor"), Some("fair")));
    // Times are graded against the median of the same model and hardware: 3.214 and 2.840 ms,
    // median 3.027. The third trace is alone of its kind, and has no grade.
    let grades: Vec<Option<String>> =
        ["llama-tiny-fsdp2-tp2-4", "llama-tiny-fsdp2-tp2-4-balanced", "x[1],(a)@..b"]
            .iter()
            .map(|t| of(t, "avg_step_time").1)
            .collect();
    assert_eq!(grades, [Some("fair".to_owned()), Some("good".to_owned()), None]);
    let index = std::fs::read_to_string(out.join("index.html")).expect("index.html");
    let script = "const texts = (selector) => [...document.querySelectorAll(selector)].map((n) => n.textContent);
        const heads = texts('#traces th');
        const column = heads.findIndex((h) => h.includes('mfu'));
        const button = document.querySelectorAll('#traces th')[column].querySelector('button');
        const order = () => [...document.querySelectorAll('#traces tbody tr')].map((r) => r.children[0].textContent);
        button.click();
        const high = order();
        button.click();
        const low = order();
        const links = [...document.querySelectorAll('#traces a')].map((a) => a.getAttribute('href'));
        const model = [...document.querySelectorAll('.tools select')][0];
        model.selectedIndex = [...model.options].findIndex((o) => o.textContent.includes('llama'));
        model.dispatchEvent(new Event('change'));
        const plot = at('ranking-plot').series[0].data;
        result = {high, low, links, filtered: order(), plot, hacked: String(window.__hacked),
          images: document.images.length, poor: texts('#traces .badge.worse').length,
          theme: document.documentElement.dataset.theme};";
    let Some(probe) = probe(&index, script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = &probe.value;
    assert_eq!((&value["hacked"], &value["images"]), (&"undefined".into(), &0.into()));
    let first = |list: &str| value[list][0].as_str().expect("a name").to_owned();
    assert_eq!(first("high"), "llama-tiny-fsdp2-tp2-4-balanced");
    assert_eq!(first("low"), "llama-tiny-fsdp2-tp2-4");
    // Without a value is last in both directions.
    assert_eq!(value["high"][2], value["low"][2]);
    assert_eq!(value["filtered"].as_array().map(Vec::len), Some(2));
    let mut links: Vec<&str> =
        value["links"].as_array().expect("links").iter().filter_map(Value::as_str).collect();
    let mut reports: Vec<&str> = traces.iter().filter_map(|t| t["report"].as_str()).collect();
    links.sort_unstable();
    reports.sort_unstable();
    assert_eq!(links, reports);
    let step_times: Vec<f64> = ["llama-tiny-fsdp2-tp2-4-balanced", "llama-tiny-fsdp2-tp2-4"]
        .iter()
        .map(|t| of(t, "avg_step_time").0)
        .collect();
    let plot: Vec<f64> =
        value["plot"].as_array().expect("bars").iter().filter_map(Value::as_f64).collect();
    assert_eq!(plot[..2], step_times[..]);
}

#[test]
fn a_board_is_a_folder_that_is_not_written_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let gloo = example("gloo-ddp-2rank");
    let gloo = gloo.to_str().expect("UTF-8");
    run(folder.path(), &["ingest", gloo, "--data", "data"]).done();
    let nowhere = run(folder.path(), &["board", "--data", "data"]);
    assert_eq!((nowhere.code, nowhere.errors()), (2, vec!["usage"]));
    std::fs::write(folder.path().join("file"), "mine").expect("a file");
    let file = run(folder.path(), &["board", "-o", "file", "--data", "data"]);
    assert_eq!((file.code, file.errors()), (2, vec!["usage"]));
    let board = |more: &[&str]| {
        run(folder.path(), &[&["board", "-o", "out", "--data", "data"], more].concat())
    };
    board(&[]).done();
    let again = board(&[]);
    assert_eq!((again.code, again.errors()), (1, vec!["output-exists"]));
    let before = std::fs::read(folder.path().join("out/index.html")).expect("index.html");
    board(&["--force", "--jobs", "1"]).done();
    let after = std::fs::read(folder.path().join("out/index.html")).expect("index.html");
    assert!(before == after, "the same traces give the same bytes");
}
