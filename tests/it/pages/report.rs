//! Reports as people and programs get them. The numbers are those of the metrics, which have tests
//! of their own; here it is what is shown, where it goes, and that strangers' text stays text.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use insta::assert_snapshot;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::support::runs::{HOSTILE, Plan, assert_inert, is_plain, parts, step_of_rank, write};
use crate::support::{Place, Run, example, files, name, project, run};

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
        let example = example(EXAMPLE).display().to_string();
        for [path, name] in
            [[example.as_str(), EXAMPLE], ["bare", "bare"], ["a(1)", "a(1)"], ["a)1(", "a)1("]]
        {
            run(folder.path(), &["ingest", path, "--name", name, "-q", "--data", "d"]).done();
        }
        folder
    })
    .path()
}

fn report(args: &[&str]) -> Run {
    run(data(), &[&["report", "--data", "d", "-q"], args].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// All below a folder, as paths relative to it.
fn below(folder: &Path) -> Vec<String> {
    files(folder)
        .iter()
        .map(|f| f.strip_prefix(folder).expect("below it").display().to_string())
        .collect()
}

/// The beginning of the same in Markdown: facts and tables have their heads.
#[test]
fn the_markdown_of_the_example() {
    report(&["--trace", EXAMPLE, "-o", "example.md", "--force"]).done();
    let text = std::fs::read_to_string(data().join("example.md")).expect("it was written");
    let begin: Vec<&str> = text.lines().take(70).collect();
    assert_snapshot!(begin.join("\n"));
}

#[test]
fn the_text_of_the_example() {
    let text = report(&["--trace", EXAMPLE]).done();
    assert!(is_plain(&text));
    assert!(!text.contains(&*project().display().to_string()), "a path of the machine");
    assert!(text.lines().all(|l| l.width() <= 100), "{text}");
    assert!(text.lines().take(8).any(|l| l == "WHAT TO FIX FIRST"), "{text}");
    let first: Vec<&str> = text.lines().skip_while(|l| *l != "KEY NUMBERS").take(25).collect();
    for number in ["Step time", "Exposed communication", "Straggler", "Peak memory"] {
        assert!(first.iter().any(|l| l.trim().starts_with(number)), "{number}: {first:?}");
    }
    assert!(!text.contains("avg_step_time measures from start to start"), "a definition");
    assert_snapshot!("report_text", text);
}

/// Details by group, dimension, rank and kind are in the text and in the document of the page.
#[test]
fn nothing_nested_is_dropped() {
    let text = report(&["--trace", EXAMPLE]).done();
    for table in [
        "exposed_comm_by_group.by_dim",
        "exposed_comm_by_group.by_group",
        "straggler.per_rank",
        "idle_causes.by_rank",
        "critical_path.by_kind_ms",
        "network_by_rank",
        "copy_summary",
    ] {
        assert!(text.contains(&format!("  {table}: ")), "{table}\n{text}");
    }
    let document = json(&report(&["--trace", EXAMPLE, "--format", "json"]).done());
    let page = report(&["--trace", EXAMPLE, "--format", "html"]).done();
    let mut lists = 0;
    for metric in document["metrics"].as_array().expect("a list") {
        let details = metric["details"].as_object().expect("an object");
        for (name, value) in details {
            let full = value.as_array().is_some_and(|a| !a.is_empty())
                || value.as_object().is_some_and(|o| !o.is_empty());
            let table = format!("{}.{name}", metric["metric"].as_str().expect("a name"));
            assert_eq!(page.contains(&format!("\"name\":\"{table}\"")), full, "{table}");
            lists += u32::from(full);
        }
    }
    assert!(lists > 30, "{lists}");
}

/// The longest events of a step with too many are spans, and slices sum up the others: the drawn
/// time adds up to the time that ran.
#[test]
fn a_timeline_of_many_events_sums_up_the_short_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let event = |name: &str, ts: f64, dur: f64, i: usize| {
        serde_json::json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts,
            "dur": dur, "args": {"stream": 7, "device": 0, "correlation": i}})
    };
    // 52,000 kernels of 1 us, every other us, under a third of which a long one runs.
    let mut events: Vec<Value> =
        (0..52_000).map(|i| event("short", 1e6 + 2.0 * i as f64, 1.0, i)).collect();
    events.extend((0..10).map(|i| event("long", 1e6 + 10_400.0 * i as f64, 3466.0, 60_000 + i)));
    let trace = serde_json::json!({"schemaVersion": 1, "traceEvents": events,
        "distributedInfo": {"rank": 0, "world_size": 1}});
    std::fs::write(folder.path().join("rank0.json"), trace.to_string()).expect("written");
    run(folder.path(), &["ingest", "rank0.json", "--name", "many", "-q", "--data", "d"]).done();
    let args = ["report", "--data", "d", "-q", "--trace", "many", "--format", "json"];
    let document = json(&run(folder.path(), &args).done());
    let sheet = |name: &str| {
        let sheets = document["sheets"].as_array().expect("a list");
        sheets.iter().find(|s| s["name"] == name).expect("it is there").clone()
    };
    let cell = |sheet: &Value, row: usize, column: &str| {
        let columns = sheet["columns"].as_array().expect("a list");
        let place = columns.iter().position(|c| c["name"] == column).expect("it is there");
        sheet["rows"][row][place].clone()
    };
    let timeline = sheet("step_timeline");
    assert_eq!(timeline["rows"].as_array().map(Vec::len), Some(10));
    assert_eq!(cell(&timeline, 9, "dur_us"), 3466.0);
    let shorts = sheet("step_short_events");
    assert_eq!(shorts["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(cell(&shorts, 0, "event_count"), 52_000);
    // Each long one covers 1733 short ones.
    let busy = cell(&shorts, 0, "busy_us").as_f64().expect("us");
    assert_eq!(busy, f64::from(52_000 - 10 * 1733));
    let slice = cell(&shorts, 0, "slice_us").as_f64().expect("us");
    let filled = cell(&shorts, 0, "filled_pct");
    let filled: Vec<f64> =
        filled.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(filled.len(), 4000);
    // Rounded down to whole percent: never more than there was.
    let sum: f64 = filled.iter().map(|pct| pct * slice / 100.0).sum();
    assert!(sum <= busy && sum > busy - 4000.0 * slice / 100.0, "{sum} of {busy}");
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
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "samples_per_second, step_time_variance: it needs steps, and this trace has none",
        "traffic: it needs communication, and this trace has none",
        "straggler, sync_overhead_ms: the trace has fewer than two ranks",
        "memory_fragmentation: it needs a memory snapshot, and this trace has none",
        "no steps: per trace, 1 rank",
    ] {
        assert!(flat.contains(line), "{line}\n{text}");
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
fn of_several_stragglers_the_first_is_named() {
    let place = Place::new();
    for (name, slow) in [("two", 2), ("none", 0)] {
        for rank in 0..6 {
            // The slow ones come to the call later.
            let (compute, call) = if rank < slow { (600, 1700) } else { (400, 1500) };
            let text = step_of_rank(rank, 6, compute, call);
            place.write(&format!("{name}/rank{rank}.json"), text);
        }
        place.run(&["ingest", name, "-q"]).done();
    }
    let told = |name: &str| {
        let text = place.run(&["report", name, "--format", "text"]).done();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let two = told("two");
    // 600 is 50 % more than the median of 400.
    let said = "Straggler rank 0 computes 50.0 % longer than the others; and 1 more";
    assert!(two.contains(said), "{two}");
    let none = told("none");
    let said = "Straggler none no rank computes longer, or is waited for, by enough";
    assert!(none.contains(said), "{none}");
}

#[test]
fn of_a_trace_without_events_nothing_is_known() {
    let place = Place::new();
    place.write("none/rank0.json", r#"{"traceEvents":[]}"#);
    place.run(&["ingest", "none", "-q"]).done();
    let text = place.run(&["report", "none", "--format", "text"]).done();
    let (_, numbers) = text.split_once("KEY NUMBERS").expect("the section is there");
    let said = numbers.lines().nth(3).unwrap_or_default();
    assert_eq!(said.trim(), "none of them is known of this trace", "{numbers}");
}

#[test]
fn a_name_leaves_out_what_the_card_does() {
    let place = Place::new();
    for (name, card, rest) in [
        ("shards", "{dp_shard: 4, tp: 2}", "_mine_dp4_tp2_gpu1.txt"),
        ("replicas", "{dp_replicate: 8}", "_mine_dp8_gpu1.txt"),
        ("neither", "{}", "_mine_gpu1.txt"),
    ] {
        let plan = format!("Model-executor: {{model_plan_parallelization: {card}}}");
        place.write(&format!("{name}/rank0.json"), step_of_rank(0, 1, 400, 1200));
        let model = "workload: {model: {model_family: mine}}";
        place.write(&format!("{name}/workload_card.yaml"), format!("{model}\n{plan}\n"));
        place.run(&["ingest", name, "-q"]).done();
        let out = format!("{name}-reports/");
        place.run(&["report", name, "-q", "-o", &out]).done();
        let names = below(&place.input().join(out));
        let [file] = &names[..] else { panic!("{names:?}") };
        assert_eq!(&file[15..], rest);
    }
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
fn workbooks_of_one_trace_lie_where_scripts_look_for_them() {
    report(&["--trace", EXAMPLE, "--format", "xlsx", "-o", "tracelens_analysis/"]).done();
    let folder = data().join("tracelens_analysis");
    let names = below(&folder);
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(
        names.contains(&"collective_reports/collective_all_ranks.xlsx".to_owned()),
        "{names:?}"
    );
    let book = parts(&folder.join("individual_reports/rank3_individual_report.xlsx"));
    let pages: Vec<&str> = book["xl/workbook.xml"]
        .split("<sheet name=\"")
        .skip(1)
        .filter_map(|s| s.split('"').next())
        .collect();
    assert_eq!(
        pages,
        [
            "gpu_timeline",
            "ops_summary_by_category",
            "ops_summary",
            "ops_unique_args",
            "kernel_summary",
            "short_kernel_histogram",
            "short_kernels_summary",
            "coll_analysis",
        ]
    );
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
