//! Reports as people and programs get them. The numbers are those of the metrics, which have tests of
//! their own; here it is what is shown, where it goes, and that strangers' text stays text.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{name, project, run};
use crate::runs::{HOSTILE, Plan, assert_inert, is_plain, parts, write};

const EXAMPLE: &str = "llama-tiny-fsdp2-tp2-4";

/// A folder with ingested traces: the example, one of each lack, and one with hostile names.
fn data() -> &'static Path {
    static DATA: OnceLock<tempfile::TempDir> = OnceLock::new();
    DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        write(&at("bare"), &Plan { ranks: 1, steps: false, comm: false, ..Plan::default() });
        write(&at("a(1)"), &Plan { kernel: HOSTILE, ..Plan::default() });
        write(&at("a)1("), &Plan::default());
        let model = serde_json::json!(HOSTILE);
        let card = format!(
            "version: 1\nworkload:\n  model:\n    phase: training\n    model_family: {model}\n"
        );
        std::fs::write(at("a(1)/workload_card.yaml"), card).expect("the card can be written");
        let example = project().join("trace_collection").join(EXAMPLE).display().to_string();
        for [path, name] in
            [[example.as_str(), EXAMPLE], ["bare", "bare"], ["a(1)", "a(1)"], ["a)1(", "a)1("]]
        {
            run(folder.path(), &["ingest", path, "--name", name, "-q", "--data", "d"]).done();
        }
        folder
    })
    .path()
}

fn report(args: &[&str]) -> crate::program::Run {
    run(data(), &[&["report", "--data", "d", "-q"], args].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// All below a folder, as paths relative to it.
fn below(folder: &Path) -> Vec<String> {
    crate::program::files(folder)
        .iter()
        .map(|f| f.strip_prefix(folder).expect("below it").display().to_string())
        .collect()
}

#[test]
fn the_text_of_the_example() {
    let text = report(&["--trace", EXAMPLE]).done();
    assert!(is_plain(&text));
    assert!(!text.contains(&*project().display().to_string()), "a path of the machine");
    let (body, notes) = text.split_once("\n\nNOTES\n-----\n").expect("notes end the report");
    assert!(notes.contains("avg_step_time measures from start to start"), "{notes}");
    assert_snapshot!("report_text", body);
}

/// The reports of two traces as JSON, made by a number of threads.
fn both(jobs: &str) -> String {
    report(&["--trace", "bare", "--trace", "a)1(", "--format", "json", "--jobs", jobs]).done()
}

#[test]
fn several_traces_are_a_list_and_the_same_bytes_on_any_number_of_threads() {
    let written = both("8");
    assert!(written == both("1"));
    let list = json(&written);
    let traces: Vec<&Value> =
        list.as_array().expect("a list").iter().map(|d| &d["trace"]).collect();
    assert_eq!(traces, ["a)1(", "bare"]);
    let bare = &list[1];
    let mut empty = 0;
    for sheet in bare["sheets"].as_array().expect("a list") {
        if sheet["rows"].as_array().is_some_and(Vec::is_empty) {
            empty += 1;
            assert!(sheet["reason"].is_string(), "{}", sheet["name"]);
        }
    }
    assert!(empty >= 5, "{empty}");
    for metric in bare["metrics"].as_array().expect("a list") {
        assert_eq!(metric["value"].is_null(), metric["reason"].is_string(), "{metric}");
    }
}

#[test]
fn the_json_report_holds_the_metrics_and_whole_tables() {
    let document = json(&report(&["--trace", EXAMPLE, "--format", "json"]).done());
    assert_eq!((&document["report"], &document["trace"]), (&1.into(), &EXAMPLE.into()));
    let names: Vec<&str> = document["sheets"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|s| s["name"].as_str())
        .collect();
    for name in ["configuration", "gpu_timeline", "network_load", "traffic", "step_timeline"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    for sheet in document["sheets"].as_array().expect("a list") {
        let width = sheet["columns"].as_array().expect("a list").len();
        for row in sheet["rows"].as_array().expect("a list") {
            assert_eq!(row.as_array().map(Vec::len), Some(width), "{}", sheet["name"]);
        }
    }
    let asked = ["coll_call_num", "avg_step_time", "comm_comp_overlap", "mfu"];
    let args =
        [&["metric", "--data", "d", "--format", "json", "--trace", EXAMPLE], &asked[..]].concat();
    let alone = json(&run(data(), &args).done());
    for (metric, of) in asked.iter().zip(alone.as_array().expect("one object each")) {
        let shown = document["metrics"].as_array().expect("a list").iter();
        let mut shown =
            shown.clone().find(|m| m["metric"] == *metric).expect("it is shown").clone();
        for more in ["section", "area", "summary", "better"] {
            shown.as_object_mut().expect("an object").remove(more);
        }
        assert_eq!(shown, *of);
    }
}

#[test]
fn what_a_trace_lacks_is_said() {
    let text = report(&["--trace", "bare"]).done();
    for line in [
        "avg_step_time, iter_time, step_time_variance: it needs steps, and this trace has none",
        "traffic: it needs communication, and this trace has none",
        "straggler, sync_overhead_ms: the trace has fewer than two ranks",
        "memory_fragmentation: it needs a memory snapshot, and this trace has none",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let titles = text.lines().zip(text.lines().skip(1));
    let mut count = 0;
    for (title, _) in titles.filter(|(_, rule)| rule.starts_with("----") && !rule.contains(' ')) {
        count += 1;
        let body = text.split_once(&format!("{title}\n---")).expect("it is there").1;
        let mut lines = body.lines().skip(1).filter(|l| !l.is_empty());
        assert!(lines.next().is_some_and(|l| l.starts_with("  ")), "nothing below {title}");
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn text_of_strangers_does_nothing() {
    let text = report(&["--trace", "a(1)"]).done();
    assert!(is_plain(&text), "{text:?}");
    assert!(text.contains("=cmd|'/C calc'!A0 <script>"), "{text}");

    let markdown = report(&["--trace", "a(1)", "--format", "md"]).done();
    assert!(is_plain(&markdown));
    assert!(markdown.contains("&lt;script&gt;alert"), "{markdown}");
    for live in ["<script", "](http:", "a@b", "[l]"] {
        assert!(!markdown.contains(live), "{live}");
    }
    // Every row of a table has the cells of its head, whatever is in them.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut rows = 0;
    for pair in markdown.lines().collect::<Vec<_>>().windows(2) {
        if pair[0].starts_with('|') && pair[1].starts_with('|') {
            rows += 1;
            assert_eq!(cells(pair[0]), cells(pair[1]), "{pair:?}");
        }
    }
    assert!(rows > 50, "{rows}");

    report(&["--trace", "a(1)", "-o", "evil.json"]).done();
    report(&["--trace", "a(1)", "-o", "evil.xlsx"]).done();
    let written = std::fs::read_to_string(data().join("evil.json")).expect("it was written");
    assert!(is_plain(&written));
    let document = json(&written);
    let sheets = document["sheets"].as_array().expect("a list");
    let kernels = sheets.iter().find(|s| s["name"] == "kernel_summary").expect("it is there");
    let names: Vec<&Value> =
        kernels["rows"].as_array().expect("a list").iter().map(|row| &row[0]).collect();
    assert!(names.contains(&&HOSTILE.into()), "{names:?}");
    let parts = parts(&data().join("evil.xlsx"));
    assert_inert(&parts);
    let strings = &parts["xl/sharedStrings.xml"];
    assert!(strings.contains("&lt;script&gt;") && strings.contains("=cmd|"), "{strings}");
}

#[test]
fn a_folder_gets_names_that_say_what_is_in_it() {
    report(&["--trace", EXAMPLE, "-o", "analysis/"]).done();
    let names = below(&data().join("analysis"));
    let [file] = &names[..] else { panic!("{names:?}") };
    let (time, rest) = file.split_at(15);
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    assert!(digits(&time[..8]) && &time[8..9] == "-" && digits(&time[9..]), "{file}");
    assert_eq!(rest, "_llama-tiny_dp1x2_tp2_gpu4.txt");
}

#[test]
fn workbooks_of_several_traces_are_written_together_or_not_at_all() {
    let folder = data().join("books");
    let two = ["--trace", "a(1)", "--trace", "a)1(", "--format", "xlsx", "-o", "books/"];
    // Two traces whose names are alike as names of folders.
    report(&two).done();
    let names = below(&folder);
    for folder in ["a-1", "a-1-trace"] {
        for file in [
            "individual_reports/rank0_individual_report.xlsx",
            "individual_reports/rank1_individual_report.xlsx",
            "collective_reports/collective_all_ranks.xlsx",
            "gpu_timeline_summary_mean.xlsx",
        ] {
            assert!(names.contains(&format!("{folder}/{file}")), "{folder}/{file} in {names:?}");
        }
    }
    assert_eq!(names.len(), 8);
    // One file of the second trace is left: nothing is written beside it, and it stays.
    let kept = folder.join("a-1-trace/gpu_timeline_summary_mean.xlsx");
    std::fs::remove_dir_all(folder.join("a-1")).expect("removed");
    std::fs::remove_dir_all(folder.join("a-1-trace/individual_reports")).expect("removed");
    std::fs::remove_dir_all(folder.join("a-1-trace/collective_reports")).expect("removed");
    std::fs::write(&kept, "mine").expect("written");
    let again = report(&two);
    assert_eq!((again.code, again.errors()), (1, vec!["output-exists"]), "{}", again.stderr);
    assert_eq!(below(&folder), ["a-1-trace/gpu_timeline_summary_mean.xlsx"]);
    assert!(!folder.join("a-1").exists());
    assert_eq!(std::fs::read(&kept).expect("read"), b"mine");
}

#[test]
fn outputs_that_cannot_be_are_refused_before_the_work() {
    let taken = data().join("taken.txt");
    std::fs::write(&taken, "mine").expect("written");
    let inside = "taken.txt/deep/report.txt".to_owned();
    for (args, code, error) in [
        (vec!["--trace", EXAMPLE, "-o", "taken.txt"], 1, "output-exists"),
        (vec!["--trace", EXAMPLE, "-o", "report.pdf"], 2, "usage"),
        (vec!["--trace", EXAMPLE, "-o", "report.csv"], 2, "usage"),
        (vec!["--trace", EXAMPLE, "--format", "parquet"], 2, "usage"),
        (vec!["--trace", EXAMPLE, "--trace", "bare", "-o", "two.html"], 2, "usage"),
        (vec!["--trace", EXAMPLE, "-o", "taken.txt/"], 1, "io"),
        (vec!["--trace", "bare", "-o", &inside], 1, "io"),
        (vec!["--trace", "llama-tiny-fsdp2-tp3"], 1, "trace-unknown"),
        (vec!["--trace", EXAMPLE, "-p", "no_such=1"], 1, "param-invalid"),
    ] {
        let run = report(&args);
        assert_eq!((run.code, run.errors()), (code, vec![error]), "{args:?}\n{}", run.stderr);
        assert_eq!(run.stdout, "", "{args:?}");
    }
    assert_eq!(std::fs::read(&taken).expect("read"), b"mine");
    let left: Vec<String> = std::fs::read_dir(data())
        .expect("listed")
        .map(|e| name(&PathBuf::from(e.expect("listed").file_name())))
        .filter(|n| n.ends_with(".tmp") || n.starts_with("report."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
