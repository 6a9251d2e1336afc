//! Comparisons: runs as they come from a sweep, what is compared, what a build breaks on.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::kineto::{Args, slice};
use crate::support::runs::{HOSTILE, Plan, assert_inert, is_plain, parts, write};
use crate::support::{Place, Run, example, files, name, run};

/// A sweep, as the runs of two experiments: steps of 1000, 1100 and 900 us in the first one.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let runs = folder.path().join("experiments");
            for (name, step_us) in [
                ("rccl_a/56cu_256threads", 1000.0),
                ("rccl_a/37cu_384threads.v1.2", 1100.0),
                ("rccl_a/32cu_512threads", 900.0),
                ("rccl_b/56cu_256threads", 2000.0),
            ] {
                write(&runs.join(name), &Plan { step_us, ..Plan::default() });
            }
            write(&runs.join("evil").join(hostile()), &Plan { kernel: HOSTILE, ..Plan::default() });
            folder
        })
        .path()
}

/// A name of a folder: no slash, and no longer than file systems take.
fn hostile() -> String {
    HOSTILE.replace('/', "") + &"x".repeat(100)
}

const BASE: &str = "experiments/rccl_a/56cu_256threads";
const SLOWER: &str = "experiments/rccl_a/37cu_384threads.v1.2";
const FASTER: &str = "experiments/rccl_a/32cu_512threads";

/// Compares with a data directory of its own: what is ingested already changes names.
fn compare(data: &str, args: &[&str]) -> Run {
    run(folder(), &[&["compare", "--data", data, "-q"], args].concat())
}

fn sheet<'v>(of: &'v Value, name: &str) -> &'v Value {
    let sheets = of["sheets"].as_array().expect("a list");
    sheets.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no sheet {name}"))
}

/// The cell of the row whose first cell is `key`.
fn cell<'v>(sheet: &'v Value, key: &str, column: &str) -> &'v Value {
    let columns = sheet["columns"].as_array().expect("a list");
    let place = columns.iter().position(|c| c["name"] == column).expect("a column");
    let rows = sheet["rows"].as_array().expect("a list");
    &rows.iter().find(|row| row[0] == key).expect("a row")[place]
}

#[test]
fn runs_of_a_sweep_are_read_labelled_and_ranked() {
    let out = compare("sweep", &[BASE, SLOWER, FASTER, "--format", "json"]).done();
    let said: Value = serde_json::from_str(&out).expect("JSON");
    let labels: Vec<&Value> =
        said["runs"].as_array().expect("a list").iter().map(|r| &r["label"]).collect();
    assert_eq!(labels, ["56cu_256threads", "37cu_384threads.v1.2", "32cu_512threads"]);
    let [slower, faster] = &said["comparisons"].as_array().expect("a list")[..] else { panic!() };
    for (test, change, status) in [(slower, 10.0, "Worse"), (faster, -10.0, "Better")] {
        let metrics = sheet(test, "Metrics_Cmp");
        let found = cell(metrics, "avg_step_time", "change_pct").as_f64().expect("a number");
        assert!((found - change).abs() < 1e-9, "{found}");
        assert_eq!(cell(metrics, "avg_step_time", "status"), status);
        let time = cell(sheet(test, "GPU_Summary_Cmp"), "computation_time", "change_pct");
        assert!((time.as_f64().expect("a number") - change).abs() < 1e-9, "{time}");
        // The dashboard says the same of both, with the same sign.
        let dashboard = sheet(test, "Summary_Dashboard");
        for (key, found) in [("GPU_computation_time", time), ("avg_step_time", &found.into())] {
            assert_eq!(cell(dashboard, key, "change_pct"), found, "{key}");
        }
        assert_eq!(cell(dashboard, "avg_step_time", "status"), status);
        for sheet in test["sheets"].as_array().expect("a list") {
            let empty = sheet["rows"].as_array().is_some_and(Vec::is_empty);
            assert_eq!(empty, sheet["reason"].is_string(), "{}", sheet["name"]);
        }
    }
    let places: Vec<&Value> =
        said["ranking"]["rows"].as_array().expect("a list").iter().map(|r| &r[1]).collect();
    assert_eq!(places, ["32cu_512threads", "56cu_256threads", "37cu_384threads.v1.2"]);

    let evil = format!("experiments/evil/{}", hostile());
    let text = compare("sweep", &[BASE, SLOWER, FASTER, &evil]).done();
    assert!(is_plain(&text), "{text:?}");
    assert!(text.contains("  test 3  =cmd|'C calc'!A0 <script>"), "{text}");
    // A table that is wider than the text goes on below, each part with the names in front.
    let words: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("avg_step_time "))
        .flat_map(str::split_whitespace)
        .collect();
    assert_eq!(
        words[..17],
        [
            "1.000", "ms", "1.100", "ms", "+10.00", "%", "Worse", "900.0", "us", "-10.00", "%",
            "Better", "1.000", "ms", "0.00", "%", "Similar"
        ],
        "{text}"
    );
    assert!(text.contains("\nRANKING\n"), "{text}");
    assert!(!text.contains("-0.00"), "{text}");
}

/// Two runs as text: of like runs all tables, of unlike ones what cannot be said, and why.
#[test]
fn two_examples_as_text() {
    for [base, test] in [
        ["llama-tiny-fsdp2-tp2-4", "llama-tiny-fsdp2-tp2-4-balanced"],
        ["gloo-ddp-2rank", "jax-cpu-8dev"],
    ] {
        let [base, test] = [base, test].map(|name| example(name).display().to_string());
        let text = compare("examples", &[&*base, &*test]).done();
        insta::assert_snapshot!(format!("text_of_{}", name(Path::new(&base))), text);
    }
}

#[test]
fn names_that_occur_in_two_experiments_are_told_apart() {
    let other = "experiments/rccl_b/56cu_256threads";
    let csv = compare("twice", &[BASE, other, "--format", "csv"]).done();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some(
            "base_label,test_label,metric,version,unit,better,base,test,diff,change_pct,\
             effect_pct,status,noise_pct,within_noise,base_steps,test_steps,note"
        )
    );
    let wanted = "rccl_a.56cu_256threads,rccl_b.56cu_256threads,avg_step_time,1,s,lower,";
    assert!(lines.any(|line| line.starts_with(wanted)), "{csv}");
    // A link is called as it is named, and a folder inside of a run as the run.
    #[cfg(unix)]
    std::os::unix::fs::symlink("rccl_b/56cu_256threads", folder().join("experiments/latest"))
        .expect("linked");
    let inside = format!("{BASE}/torch_profiler");
    // A condition that holds by no more than what floats add is none that is crossed.
    let conditions = ["--fail-on", "avg_step_time > +100%", "--fail-on", "iter_time<0%"];
    let args = [&[&*inside, "experiments/latest", "--format", "csv"], &conditions[..]].concat();
    let csv = compare("twice", &args).done();
    assert!(csv.lines().nth(1).is_some_and(|l| l.starts_with("56cu_256threads,latest,")), "{csv}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    for (args, code, error) in [
        (vec![BASE, BASE], 2, "usage"),
        (vec!["experiments/rccl_a", FASTER], 2, "usage"),
        (vec![BASE, SLOWER, FASTER, "-o", "many.xlsx"], 2, "usage"),
        (vec![BASE, SLOWER, "-o", "out.md"], 2, "usage"),
        (vec![BASE, SLOWER, "--format", "text"], 2, "usage"),
        (vec![BASE, SLOWER, "--rank-by", "no_such"], 1, "metric-unknown"),
        (vec![BASE, SLOWER, "-p", "no_such=1"], 1, "param-invalid"),
    ] {
        let run = compare("sweep", &args);
        assert_eq!((run.code, run.errors()), (code, vec![error]), "{args:?}\n{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    // Nothing is read where a name is wrong.
    let run = compare("untouched", &[BASE, "no/such/run"]);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]));
    assert!(!folder().join("untouched/trace=56cu_256threads").exists());
    for threshold in ["nan", "-1", "1e999", ""] {
        let threshold = format!("--threshold={threshold}");
        assert_eq!(compare("sweep", &[BASE, SLOWER, &threshold]).code, 2, "{threshold}");
    }
}

/// A change of few parts is told whole.
#[test]
fn all_of_few_changes_are_told() {
    let place = Place::new();
    for (name, dur_us) in [("old", 700), ("new", 900)] {
        let events: String = (0..4)
            .map(|n| {
                let at = |from: i64, to: i64| (1_000_000 * n + from, 1_000_000 * n + to);
                let step = format!("ProfilerStep#{n}");
                slice("user_annotation", &step, 1, 1, at(0, 1_000_000), Args::none())
                    + &slice("cuda_runtime", "cudaLaunchKernel", 1, 1, at(1000, 3000), Args::id(n))
                    + &slice(
                        "kernel",
                        "gemm",
                        0,
                        7,
                        at(10_000, 10_000 + 1000 * dur_us),
                        Args::id(n),
                    )
            })
            .collect();
        let events = events.trim_end().trim_end_matches(',');
        let text = format!(
            "{{\"schemaVersion\":1,\"distributedInfo\":{{\"rank\":0,\"world_size\":1}},\
             \"traceEvents\":[{events}]}}"
        );
        place.write(&format!("{name}/rank0.json"), text);
    }
    let text = place.run(&["compare", "old", "new"]).done();
    let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    let told =
        "in place of 1.000 ms: +0 ms = +200.0 us gemm, -200.0 us idle: launch not recorded what";
    assert!(words.contains(told), "{text}");
    assert!(!text.contains("smaller ones"), "{text}");
}

#[test]
fn conditions_decide_the_exit_code() {
    let judge = |conditions: &[&str], more: &[&str]| {
        let mut args = vec![BASE, SLOWER, "--format", "csv"];
        conditions.iter().for_each(|c| args.extend(["--fail-on", c]));
        args.extend(more);
        compare("sweep", &args)
    };
    for wrong in [
        "",
        "avg_step_time",
        "avg_step_time = 3%",
        "avg_step_time > 3",
        "avg_step_time > 1e999%",
        "avg_step_time >> 3%",
        "> 3%",
        "avg_step_time > +-3%",
    ] {
        let run = judge(&[wrong], &[]);
        assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{wrong}\n{}", run.stderr);
    }
    // The step takes 10 % longer: exactly, although 1.1 - 1.0 is more than 0.1 in floats.
    let conditions = [
        "avg_step_time > +10%",
        "avg_step_time<0%",
        "avg_step_time@1 > 10.5 %",
        "avg_step_time >= 10%",
        "iter_time > +3%",
        "throughput_tokens < -2%",
    ];
    // A wide threshold makes the change Similar, and the condition holds all the same.
    let run = judge(&conditions, &["--threshold", "50%"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.errors(),
        ["change-too-large", "change-too-large", "metric-not-applicable"],
        "{}",
        run.stderr
    );
    for crossed in ["avg_step_time >= 10%", "iter_time > +3%", "throughput_tokens < -2%"] {
        assert!(run.stderr.contains(&format!("'{crossed}'")), "{crossed}\n{}", run.stderr);
    }
    assert!(run.stderr.contains("avg_step_time of 37cu_384threads.v1.2 changed by +10.00 %"));
    assert!(run.stderr.contains("noise over the steps 0.00 %"), "{}", run.stderr);
    // The result is there nevertheless.
    let steps = run.stdout.lines().find(|line| line.contains(",avg_step_time,")).expect("a row");
    assert!(steps.contains(",Similar,"), "{steps}");
}

#[test]
fn workbooks_have_their_pages_and_the_same_bytes() {
    compare("sweep", &[BASE, SLOWER, "-o", "out/books/"]).done();
    let written: Vec<String> = files(&folder().join("out/books")).iter().map(|f| name(f)).collect();
    assert_eq!(
        written,
        [
            "collective_combined.xlsx",
            "collective_comparison.xlsx",
            "comparison_report.xlsx",
            "final_analysis_report.xlsx",
            "gpu_timeline_combined.xlsx",
            "gpu_timeline_comparison.xlsx",
        ]
    );
    let whole = folder().join("out/books/final_analysis_report.xlsx");
    let parts = parts(&whole);
    assert_inert(&parts);
    assert_eq!(
        pages(&parts),
        [
            ("Summary_Dashboard", false),
            ("GPU_Summary_Cmp", false),
            ("GPU_ByRank_Cmp", false),
            ("Kernel_Cmp", false),
            ("Op_Cmp", false),
            ("NCCL_ImplSync_Cmp", false),
            ("NCCL_Long_Cmp", false),
            ("Metrics_Cmp", false),
            ("Change_Account", false),
            ("Change_ByRank", false),
            ("Runs", false),
            ("GPU_Summary_Raw", true),
            ("GPU_AllRanks_Raw", true),
            ("NCCL_ImplSync_Raw", true),
            ("NCCL_Long_Raw", true),
            ("GPU_Time_Raw", true),
            ("GPU_Pct_Raw", true),
        ]
    );
    let by_rank = &parts["xl/worksheets/sheet3.xml"];
    for part in ["<colorScale>", "val=\"-20\"", "FFF8696B", "FF63BE7B", "<tablePart "] {
        assert!(by_rank.contains(part), "{part}");
    }
    assert!(parts["xl/tables/table1.xml"].contains("<autoFilter "));
    // A native chart beside the dashboard reads its cells: the times of the devices, in ms.
    let chart = &parts["xl/charts/chart1.xml"];
    for part in ["Summary_Dashboard!$A$2:$A$", "Summary_Dashboard!$B$1", "Summary_Dashboard!$C$1"] {
        assert!(chart.contains(part), "{part} in {chart}");
    }
    // The parts have the sheets that scripts look for.
    for (book, wanted) in [
        (
            "gpu_timeline_combined",
            &["Summary", "All_Ranks_Combined", "Per_Rank_Time_ms", "Per_Rank_Percent"][..],
        ),
        (
            "gpu_timeline_comparison",
            &[
                "Summary_Comparison",
                "Comparison_By_Rank",
                "Summary",
                "All_Ranks_Combined",
                "Per_Rank_Time_ms",
                "Per_Rank_Percent",
            ],
        ),
        (
            "collective_combined",
            &["nccl_summary_implicit_sync", "nccl_summary_long", "nccl_implicit_sync", "nccl_long"],
        ),
        ("collective_comparison", &["nccl_implicit_sync_cmp", "nccl_long_cmp"]),
    ] {
        let parts = crate::support::runs::parts(&folder().join(format!("out/books/{book}.xlsx")));
        assert_eq!(pages(&parts), wanted.iter().map(|w| (*w, false)).collect::<Vec<_>>(), "{book}");
    }

    let kept = std::fs::read(&whole).expect("read");
    let one = compare("sweep", &[BASE, SLOWER, "-o", "one.xlsx", "--jobs", "1"]);
    assert_eq!(one.code, 0, "{}", one.stderr);
    assert!(kept == std::fs::read(folder().join("one.xlsx")).expect("read"), "the bytes differ");
}

/// Pages of a workbook, and whether they are hidden.
fn pages(parts: &std::collections::BTreeMap<String, String>) -> Vec<(&str, bool)> {
    parts["xl/workbook.xml"]
        .split("<sheet ")
        .skip(1)
        .map(|s| {
            let name = s.split('"').nth(1).expect("a name");
            (name, s.split("/>").next().expect("an end").contains("state=\"hidden\""))
        })
        .collect()
}

#[test]
fn labels_of_strangers_do_nothing() {
    let evil = format!("experiments/evil/{}", hostile());
    let csv = compare("evil", &[BASE, &evil, "--format", "csv"]).done();
    let quoted = format!("56cu_256threads,\"{}\",avg_step_time,", hostile().replace('"', "\"\""));
    assert!(csv.contains(&quoted), "{csv}");
    // Several tests: a folder for each, inside of the one asked for.
    compare("evil", &[BASE, &evil, FASTER, "-o", "out/evil/"]).done();
    let written = files(&folder().join("out/evil"));
    assert_eq!(written.len(), 12);
    for file in &written {
        let place = file.strip_prefix(folder().join("out/evil")).expect("inside");
        let first = place.components().next().expect("a folder").as_os_str().to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        assert!(first.chars().all(plain), "{first}");
    }
    let first = written.iter().find(|f| f.ends_with("final_analysis_report.xlsx"));
    let parts = parts(first.expect("it is among them"));
    assert_inert(&parts);
    assert!(parts["xl/sharedStrings.xml"].contains("=cmd|'C calc'!A0 &lt;script&gt;"));
}

/// A trace with steps and a kernel in each; one of a host alone; and one where the host idles.
fn little(place: &Place) {
    let begin = r#"{"distributedInfo":{"rank":0,"world_size":1},"traceEvents":["#;
    let host = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":10}"#;
    // Kernels of so many microseconds, one after the other.
    let steps = |kernels: &[i64]| {
        let step = |n: i64| {
            let mut ts = 1000 * n;
            let mut out = format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":1,"tid":1,"ts":{ts},"dur":1000}}"#
            );
            for dur in kernels {
                out += &format!(
                    r#",{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7}}}}"#
                );
                ts += dur;
            }
            out
        };
        (0..4).map(step).collect::<Vec<_>>().join(",")
    };
    for (name, events) in [
        ("host", host.to_owned()),
        ("host2", host.to_owned()),
        ("full", steps(&[1000])),
        ("full2", steps(&[1000])),
        ("idle", steps(&[800])),
        ("twice", steps(&[300, 300])),
    ] {
        place.write(&format!("{name}/rank0.json"), format!("{begin}{events}]}}"));
        place.run(&["ingest", name, "-q"]).done();
    }
}

#[test]
fn of_runs_that_have_little_in_common_it_says_why() {
    let place = Place::new();
    little(&place);
    let told = |runs: &[&str]| {
        let text = place.run(&[&["compare"], runs].concat()).done();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let equal = told(&["full", "full2"]);
    assert!(equal.contains("every part of a step takes the same time in both runs"), "{equal}");
    let hosts = told(&["host", "host2"]);
    for part in [
        "they have no device in common terms",
        "neither run has a device",
        "neither run has kernels of a rank",
        "wall_time_s 10.00 us 10.00 us 0.00 % 0.00 % Similar",
    ] {
        assert!(hosts.contains(part), "no {part:?} in {hosts}");
    }
    // Of several runs what one has is told, and of the others that it is not known.
    let several = told(&["host", "full", "idle"]);
    for part in ["busy_time n/a 4.000 ms 3.200 ms", "computation_time n/a 4.000 ms 3.200 ms"] {
        assert!(several.contains(part), "no {part:?} in {several}");
    }
    let mixed = told(&["full", "host", "idle"]);
    assert!(mixed.contains("avg_step_time 1.000 ms n/a 1.000 ms 0.00 % Similar"), "{mixed}");
    // One kernel of 800 us became two of 300: 800 us for another, and twice 500 us less.
    let twice = told(&["idle", "twice"]);
    assert!(twice.contains("-200.0 us gemm"), "{twice}");
    for part in ["gemm count 800.0 us 600.0 us", "gemm duration 800.0 us 600.0 us"] {
        assert!(twice.contains(part), "no {part:?} in {twice}");
    }
    // A time of a trace without steps has no noise.
    let run = place.run(&["compare", "host", "full", "--fail-on", "wall_time_s > 5%"]);
    assert_eq!((run.code, run.errors()), (1, vec!["change-too-large"]), "{}", run.stderr);
    let said = "10.00 us in host, 4.000 ms in full; its noise is not known";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}
