//! Options of an ingest hold for its trace; names say the workload; people find traces by parts of
//! names.

use std::path::Path;

use serde_json::Value;

use crate::cli::faults::by_other_readers;
use crate::support::runs::{Plan, step_of_rank, write};
use crate::support::{Csv, Place, Run, files, name};

const CONFIG: &str = "[model]\nname = \"llama3\"\n[training]\nlocal_batch_size = 2\nseq_len = 64\n\
    [parallelism]\ndata_parallel_shard_degree = -1\n";

/// A run of two ranks in a folder, and a configuration beside it.
fn job(folder: &str) -> Place {
    let place = Place::new();
    add(&place, folder, 1000.0);
    place.write("titan.toml", CONFIG);
    place
}

fn add(place: &Place, folder: &str, step_us: f64) {
    write(&place.input().join(folder), &Plan { step_us, ..Plan::default() });
}

fn traces(place: &Place) -> Vec<String> {
    let csv = Csv::parse(&place.run(&["list", "traces", "--format", "csv"]).done());
    (0..csv.rows.len()).filter_map(|row| csv.get(row, "trace").map(str::to_owned)).collect()
}

fn value(place: &Place, metric: &str, args: &[&str]) -> String {
    place.run(&[&["metric", metric, "--format", "value", "-q"], args].concat()).done()
}

fn said(run: &Run) -> &str {
    assert_eq!(run.code, 0, "{}", run.stderr);
    &run.stderr
}

fn rename(place: &Place, from: &str, to: &str) {
    let (from, to) = (place.input().join(from), place.input().join(to));
    std::fs::create_dir_all(to.parent().expect("it lies in a folder")).expect("a folder");
    std::fs::rename(from, to).expect("it can be moved");
}

#[test]
fn a_path_answers_as_it_was_ingested() {
    let place = job("job");
    place.run(&["ingest", "job", "--config", "titan.toml", "--name", "mine"]).done();
    let by_name = value(&place, "throughput_tokens", &["--trace", "mine"]);
    // 2 sequences of 64 tokens on each of 2 ranks, in steps of 1 ms.
    assert_eq!(by_name, "256000.0\n");
    let inside = "job/torch_profiler/rank1/trace.json";
    for path in ["job", "./job/", "job/torch_profiler", inside] {
        assert_eq!(value(&place, "throughput_tokens", &["--trace", path]), by_name, "{path}");
    }
    let part = place.run(&["metric", "wall_time_s", "--trace", inside]);
    assert!(said(&part).contains("is part of the trace `mine`"), "{}", part.stderr);
    place.run(&["report", "job", "-o", "reports/"]).done();
    let report = std::fs::read_dir(place.input().join("reports")).expect("it is there").flatten();
    let names: Vec<String> = report.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    assert!(names[0].contains("llama3_dp1x2"), "{names:?}");
    add(&place, "other", 1100.0);
    let csv = place.run(&["compare", "job", "other", "--format", "csv", "-q"]).done();
    assert!(csv.lines().any(|l| l.contains(",throughput_tokens,1,tokens_per_s,higher,256000.0,")));
    place.run(&["board", "job", "-o", "board"]).done();
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "mine"]), by_name);
    assert_eq!(traces(&place), ["mine", "other"]);
}

#[test]
fn one_command_reads_and_answers() {
    let place = job("job");
    let args = ["--trace", "job", "--config", "titan.toml", "--name", "first"];
    assert_eq!(value(&place, "throughput_tokens", &args), "256000.0\n");
    let run = place.run(&["report", "job", "--step-range", "ProfilerStep.*", "--format", "json"]);
    let report: Value = serde_json::from_str(&run.done()).expect("JSON");
    assert_eq!(report["trace"], "first");
    assert_eq!(traces(&place), ["first"]);
    // A name that is known takes new options too, and keeps the others.
    place.write("half.toml", CONFIG.replace("seq_len = 64", "seq_len = 32"));
    let run =
        place.run(&["metric", "throughput_tokens", "--trace", "first", "--config", "half.toml"]);
    assert!(said(&run).contains("half.toml replaces"), "{}", run.stderr);
    assert_eq!(value(&place, "throughput_tokens", &[]), "128000.0\n");
    let shown = place.run(&["show", "first", "--format", "json"]).done();
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["options"]["step_range"], "ProfilerStep.*");
    // Options without a trace would be of all.
    let run = place.run(&["metric", "wall_time_s", "--config", "titan.toml"]);
    assert_eq!((run.code, run.errors()), (2, vec!["usage"]));
}

#[test]
fn changed_bytes_are_read_with_the_options_of_before() {
    let place = job("job");
    place.run(&["ingest", "job", "--config", "titan.toml", "--source", "kineto"]).done();
    add(&place, "job", 2000.0);
    assert_eq!(
        value(&place, "throughput_tokens", &["--trace", "job/torch_profiler"]),
        "128000.0\n"
    );
    place.run(&["ingest", "job", "--force"]).done();
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "job"]), "128000.0\n");
    assert_eq!(traces(&place), ["job"]);
    // A configuration that changed is read again, one that is gone is known.
    place.write("titan.toml", CONFIG.replace("seq_len = 64", "seq_len = 32"));
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "./job"]), "64000.0\n");
    std::fs::remove_file(place.input().join("titan.toml")).expect("it is there");
    let run = place.run(&["ingest", "job"]);
    assert!(said(&run).contains("titan.toml cannot be read any more"), "{}", run.stderr);
    assert!(run.stderr.contains("job: unchanged"), "{}", run.stderr);
    add(&place, "job", 1000.0);
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "./job"]), "128000.0\n");
}

/// Files, ranks and a card that were given by hand hold until others are, and after they are gone.
#[test]
fn what_was_given_by_hand_is_known_again() {
    let place = Place::new();
    let event = |name: &str| {
        format!(
            "{{\"traceEvents\":[{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"{name}\",\"pid\":1,\
             \"tid\":1,\"ts\":1,\"dur\":2}}]}}"
        )
    };
    place.write("job/a.json", event("a"));
    place.write("job/b.json", event("b"));
    place.write("card.yaml", "workload:\n  model:\n    model_family: llama3\n");
    let ranks = || place.lines("SELECT rank, name FROM events ORDER BY rank");
    let given = |a: &str| format!("{a}=job/a.json");
    let ingest = |a: &str, more: &[&str]| {
        let a = given(a);
        let words = ["ingest", "--rank", &a, "--rank", "5=job/b.json"];
        place.run(&[&words[..], more].concat())
    };
    assert!(!said(&ingest("3", &["--card", "card.yaml"])).contains("replaces"));
    assert_eq!(ranks(), ["3 a", "5 b"]);
    let run = ingest("3", &[]);
    assert!(!said(&run).contains("replaces") && run.stderr.contains("unchanged"), "{}", run.stderr);
    let run = ingest("4", &[]);
    assert!(said(&run).contains("job/a.json --rank 5=/"), "{}", run.stderr);
    assert!(run.stderr.contains("/job/b.json replaces 3=/"), "{}", run.stderr);
    assert_eq!(ranks(), ["4 a", "5 b"]);
    std::fs::remove_file(place.input().join("card.yaml")).expect("it is there");
    let run = place.run(&["ingest", "job"]);
    let gone = "card.yaml cannot be read any more: what it said before is used\n";
    assert!(said(&run).contains(gone), "{}", run.stderr);
    assert!(run.stderr.contains("job: unchanged"), "{}", run.stderr);
    place.write("job/b.json", event("other"));
    assert!(said(&place.run(&["ingest", "job"])).contains(gone));
    assert_eq!(ranks(), ["4 a", "5 other"]);
    let family = place.lines("SELECT model_family FROM cards");
    assert_eq!(family, ["llama3"]);
    std::fs::remove_file(place.input().join("job/a.json")).expect("it is there");
    let run = place.run(&["ingest", "job"]);
    assert!(said(&run).contains("job/a.json was given before, and is gone\n"), "{}", run.stderr);
    assert_eq!(ranks(), ["4 a", "5 other"]);
    // Other readers cannot read it again: what was read stays.
    by_other_readers(&place, &["manifest.json", "records.json"]);
    place.run(&["ingest", "job"]).done();
    assert_eq!(ranks(), ["4 a", "5 other"]);
}

#[test]
fn a_folder_of_several_names_answers_as_one() {
    let place = job("job");
    for name in ["first", "second"] {
        place.run(&["ingest", "job", "--name", name, "-q"]).done();
    }
    let run = place.run(&["ingest", "job"]);
    let note = "job was ingested under several names (first, second); this is `first`\n";
    assert!(said(&run).contains(note), "{}", run.stderr);
    assert_eq!(traces(&place), ["first", "second"]);
    let run = place.run(&["ingest", "job", "--name", "second"]);
    assert!(!said(&run).contains("several names"), "{}", run.stderr);
}

/// Files of one rank each lie side by side, and a card above all.
#[test]
fn one_of_several_files_alone_keeps_the_card_of_before() {
    let place = Place::new();
    place.write("runs/workload_card.yaml", "workload: {model: {model_family: mine}}\n");
    let about = r#""distributedInfo":{"backend":"nccl","rank":0,"world_size":1},"#;
    let text = |compute_us| step_of_rank(0, 1, compute_us, 1200).replace(about, "");
    for file in ["a_rank0.json", "b_rank0.json"] {
        place.write(&format!("runs/set/{file}"), text(400));
    }
    place.run(&["ingest", "runs"]).done();
    let models = "SELECT model, count(*) FROM configuration GROUP BY model";
    assert_eq!(place.lines(models), ["mine 2"]);
    place.write("runs/set/a_rank0.json", text(500));
    let run = place.run(&["ingest", "runs/set/a_rank0.json"]);
    assert!(run.stderr.contains("1 rank"), "{}", run.stderr);
    assert!(!run.stderr.contains("b_rank0"), "{}", run.stderr);
    assert_eq!(place.lines(models), ["mine 2"]);
    assert_eq!(
        place.lines("SELECT sum(dur_ns) FROM device_events WHERE name = 'gemm'"),
        ["900000"]
    );
}

#[test]
fn files_that_are_gone_still_name_their_trace() {
    let place = job("job");
    place.run(&["ingest", "job", "--config", "titan.toml"]).done();
    std::fs::remove_dir_all(place.input().join("job")).expect("it is there");
    add(&place, "keep", 1200.0);
    place.run(&["ingest", "keep"]).done();
    for path in ["./job", "job/torch_profiler/rank0/trace.json"] {
        assert_eq!(value(&place, "throughput_tokens", &["--trace", path]), "256000.0\n", "{path}");
    }
    let run = place.run(&["metric", "wall_time_s", "--trace", "job", "--config", "titan.toml"]);
    assert_eq!((run.code, run.errors()), (1, vec!["file-unreadable"]), "{}", run.stderr);
}

#[test]
fn a_folder_that_moved_is_the_same_trace() {
    let place = job("a/jobA/profile_trace/iteration_10");
    place.write("a/titan.toml", CONFIG);
    place.run(&["ingest", "a/jobA", "--config", "a/titan.toml"]).done();
    rename(&place, "a", "b/c");
    let run = place.run(&["metric", "throughput_tokens", "--trace", "b", "--format", "value"]);
    assert!(said(&run).contains("its folder moved from"), "{}", run.stderr);
    assert!(run.stderr.contains("2 ranks (0 read)"), "{}", run.stderr);
    assert_eq!(run.stdout, "256000.0\n");
    assert_eq!(traces(&place), ["jobA.iteration_10"]);
    assert!(said(&place.run(&["ingest", "b/c/jobA"])).contains("unchanged"));
    let path = "SELECT bool_and(contains(path, 'b/c/jobA')) AS moved FROM sources";
    assert_eq!(place.query(path), Csv::parse("moved\ntrue\n"));
    // A copy is another trace.
    add(&place, "d/jobA/profile_trace/iteration_10", 1000.0);
    place.run(&["ingest", "d"]).done();
    assert_eq!(traces(&place).len(), 2);
}

#[test]
fn names_say_the_workload_in_whatever_order() {
    let folders =
        ["jobA/profile_trace/iteration_10", "jobB/profile_trace/iteration_10", "sweep/run_a"];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let place = Place::new();
        for at in order {
            add(&place, folders[at], 1000.0);
            place.run(&["ingest", folders[at]]).done();
        }
        assert_eq!(traces(&place), ["jobA.iteration_10", "jobB.iteration_10", "sweep.run_a"]);
    }
}

#[test]
fn a_clash_makes_both_names_longer() {
    let expected = ["x.jobA.iteration_10", "y.jobA.iteration_10"];
    for order in [["x", "y"], ["y", "x"]] {
        let place = Place::new();
        for (n, top) in order.iter().enumerate() {
            add(&place, &format!("{top}/jobA/iteration_10"), 1000.0 * (n + 1) as f64);
            let run = place.run(&["ingest", top]);
            assert_eq!(said(&run).contains("warning[name-taken]"), n == 1, "{}", run.stderr);
        }
        assert_eq!(traces(&place), expected);
        // The first one is still found by the name that it had, and by its path.
        assert_eq!(value(&place, "avg_step_time", &["--trace", "jobA.iteration_10"]), "0.001\n");
        assert_eq!(value(&place, "avg_step_time", &["--trace", order[0]]), "0.001\n");
        assert_eq!(value(&place, "avg_step_time", &["--trace", order[1]]), "0.002\n");
        assert!(said(&place.run(&["ingest", "x", "y"])).matches("unchanged").count() == 2);
        // The third one finds both taken.
        add(&place, "z/jobA/iteration_10", 3000.0);
        place.run(&["ingest", "z"]).done();
        assert_eq!(traces(&place), [expected[0], expected[1], "z.jobA.iteration_10"]);
        let log = place.query("SELECT count(*) AS n FROM ingest_log WHERE code = 'name-taken'");
        assert_eq!(log, Csv::parse("n\n2\n"));
    }
    // Of one call they are told apart at once.
    let place = Place::new();
    ["x", "y"].iter().for_each(|top| add(&place, &format!("{top}/jobA/iteration_10"), 1000.0));
    let run = place.run(&["ingest", "x", "y"]);
    assert!(!said(&run).contains("name-taken"), "{}", run.stderr);
    assert_eq!(traces(&place), expected);
}

#[test]
fn a_second_sweep_of_the_same_configurations_is_compared() {
    let place = Place::new();
    for (sweep, step_us) in [("A", 1000.0), ("B", 2000.0)] {
        for (threads, factor) in [("56cu_256threads", 1.0), ("37cu_384threads", 1.5)] {
            add(&place, &format!("experiments/{sweep}/{threads}"), step_us * factor);
        }
    }
    for sweep in ["A", "B"] {
        let run = |threads: &str| format!("experiments/{sweep}/{threads}");
        let (base, test) = (run("56cu_256threads"), run("37cu_384threads"));
        let csv = place.run(&["compare", &base, &test, "--format", "csv", "-q"]).done();
        let row = csv.lines().find(|l| l.contains(",avg_step_time,")).expect("a row");
        assert!(row.starts_with("56cu_256threads,37cu_384threads,"), "{row}");
        assert!(row.contains(",50.0"), "{row}");
    }
    assert_eq!(
        traces(&place),
        ["A.37cu_384threads", "A.56cu_256threads", "B.37cu_384threads", "B.56cu_256threads"]
    );
}

#[test]
fn traces_are_found_by_what_people_write() {
    let place = Place::new();
    for folder in ["in/jobA/iteration_10", "in/jobA/iteration_20", "in/llama", "in/mixtral"] {
        add(&place, folder, 1000.0);
    }
    place.run(&["ingest", "in"]).done();
    rename(&place, "in", "away");
    let count = |word: &str| {
        let run = place.run(&["metric", "wall_time_s", "--trace", word, "--format", "csv", "-q"]);
        run.done().lines().count() - 1
    };
    for (word, n) in [
        ("jobA", 2),
        ("job", 0),
        ("*", 4),
        ("jobA.iteration_?0", 2),
        ("ll", 1),
        ("llama,mixtral", 2),
    ] {
        match n {
            0 => {
                let run = place.run(&["metric", "wall_time_s", "--trace", word]);
                assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]));
                assert!(run.stderr.contains("several traces begin with `job`"), "{}", run.stderr);
            }
            _ => assert_eq!(count(word), n, "{word}"),
        }
    }
    let run = Place::new().run(&["metric", "wall_time_s", "--trace", "llama"]);
    assert!(run.stderr.contains("hint: ingest one first: ccl-sql ingest PATH"), "{}", run.stderr);
    let run = place.run(&["report", "lama"]);
    assert!(run.stderr.contains("did you mean `llama`?"), "{}", run.stderr);
    let run = place.run(&["compare", "llama", "jobA"]);
    assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{}", run.stderr);
    assert!(run.stderr.contains("a run is one trace, and here are 2"), "{}", run.stderr);
}

#[test]
fn show_says_what_a_trace_is() {
    let place = job("job");
    place.write("job/README.md", "what this is");
    place.run(&["ingest", "job", "--config", "titan.toml"]).done();
    let text = place.run(&["show", "job"]).done();
    for part in [
        "\noptions of reading:\n",
        "titan.toml",
        "\nsteps:\n",
        "ProfilerStep",
        "\nranks:\n",
        "\nfindings:\n",
        "\ncard:\n",
        "model_family         llama3",
        "\nrows of tables:\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let json = place.run(&["show", "job", "--format", "json"]).done();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "trace",
            "folder",
            "profilers",
            "ranks_count",
            "events",
            "fingerprint",
            "ccl_sql",
            "schema_version",
            "options",
            "sources",
            "ranks",
            "steps",
            "findings",
            "card",
            "tables",
        ]
    );
    assert_eq!(json["trace"], "job");
    assert_eq!(json["profilers"], serde_json::json!(["kineto"]));
    assert_eq!(json["ranks"].as_array().map(Vec::len), Some(2));
    let events: u64 = place.lines("SELECT count(*) FROM events")[0].parse().expect("a number");
    assert_eq!((&json["ranks_count"], &json["events"]), (&2.into(), &events.into()));
    assert_eq!(json["ccl_sql"], env!("CARGO_PKG_VERSION"));
    let fingerprint = json["fingerprint"].as_str().expect("a text");
    assert!(fingerprint.len() == 64 && fingerprint.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(json["steps"][0]["steps"], 4);
    assert_eq!(json["card"]["seq_len"], 64);
    assert_eq!(json["tables"]["steps"], 8);
    let run = place.run(&["show", "jab"]);
    assert!(run.stderr.contains("did you mean `job`?"), "{}", run.stderr);
}

#[test]
fn a_trace_is_renamed_and_removed() {
    let place = job("job");
    add(&place, "other", 1000.0);
    place.run(&["ingest", "job", "other"]).done();
    let steps = value(&place, "avg_step_time", &["--trace", "job"]);
    place.run(&["rename", "job", "before"]).done();
    assert_eq!(traces(&place), ["before", "other"]);
    for word in ["before", "job", "./job"] {
        assert_eq!(value(&place, "avg_step_time", &["--trace", word]), steps, "{word}");
    }
    let in_tables = place.query("SELECT DISTINCT trace FROM steps ORDER BY trace");
    assert_eq!(in_tables, Csv::parse("trace\nbefore\nother\n"));
    // Read again it keeps its name.
    add(&place, "job", 2000.0);
    place.run(&["ingest", "job"]).done();
    assert_eq!(traces(&place), ["before", "other"]);
    let run = place.run(&["rename", "before", "other"]);
    assert_eq!((run.code, run.errors()), (1, vec!["name-clash"]), "{}", run.stderr);
    for (args, error) in [
        (["rename", "nothing", "x"], "trace-unknown"),
        (["rename", "before", "a/b"], "usage"),
        (["remove", "before", "nothing"], "trace-unknown"),
        (["remove", "oth*", "before"], "usage"),
        (["remove", "job", "other"], "trace-unknown"),
        (["remove", "..", "other"], "usage"),
    ] {
        let run = place.run(&args);
        assert_eq!(run.errors(), [error], "{args:?}\n{}", run.stderr);
        assert_eq!(traces(&place), ["before", "other"], "{args:?}");
    }
    place.run(&["remove", "before", "other"]).done();
    assert_eq!(traces(&place), [""; 0]);
    let left = std::fs::read_dir(place.data()).expect("it is there").count();
    assert_eq!(left, 0, "nothing is left of them");
    assert!(place.input().join("job").exists(), "the files that it was made from stay");
}

#[test]
fn old_forms_work_and_say_those_of_today() {
    let place = job("job");
    let run = place.run(&["--trace", "job", "--metric", "coll_call_num", "--output-json"]);
    assert!(
        said(&run)
            .contains("ccl-sql --data ../data metric coll_call_num --trace job --format json")
            || run.stderr.contains("ccl-sql metric coll_call_num --data ../data --trace job"),
        "{}",
        run.stderr
    );
    let json: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(json["value"], 8);
    let list = place.run(&["--list-metrics", "-q"]);
    assert_eq!(said(&list), "");
    assert!(list.stdout.contains("coll_call_num"));
}

#[test]
fn a_card_is_looked_for_above_the_folder_of_the_traces() {
    let card = |n: u32| format!("workload:\n  data:\n    batch_size: {n}\n    seq_len: 64\n");
    let place = job("w/profile_traces/iteration_10");
    place.write("workload_card.yaml", card(1)).write("w/workload_card.yaml", card(4));
    let args = ["--trace", "w/profile_traces/iteration_10"];
    assert_eq!(value(&place, "throughput_tokens", &args), "256000.0\n");
    // A folder that is none of traces is not left.
    add(&place, "v/other/iteration_10", 1000.0);
    place.write("v/workload_card.yaml", card(4));
    let run = place.run(&["metric", "throughput_tokens", "--trace", "v/other/iteration_10"]);
    assert_eq!(run.errors(), ["metric-not-applicable"], "{}", run.stderr);
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "v"]), "256000.0\n");
}

/// Empties the files of a trace, as a loss of power may.
fn empty(trace: &Path, which: impl Fn(&str) -> bool) -> usize {
    let mut n = 0;
    for file in files(trace) {
        if which(&name(&file)) {
            std::fs::remove_file(&file).expect("it can be removed");
            std::fs::write(&file, "").expect("it can be written");
            n += 1;
        }
    }
    n
}

#[test]
fn a_trace_that_lost_its_bytes_is_mended_by_the_next_ingest() {
    let place = job("job");
    add(&place, "other", 1000.0);
    place.run(&["ingest", "job", "--config", "titan.toml"]).done();
    place.run(&["ingest", "other"]).done();
    let all = value(&place, "throughput_tokens", &["--trace", "job"]);
    let trace = place.data().join("trace=job");
    assert!(empty(&trace, |name| name.ends_with(".parquet")) > 10);
    let run = place.run(&["metric", "wall_time_s", "--trace", "job"]);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]));
    assert!(run.stderr.contains("ingest it again, which mends it"), "{}", run.stderr);
    assert!(!run.stderr.contains("remove"), "{}", run.stderr);
    // The others answer.
    let run = place.run(&["metric", "wall_time_s", "--format", "csv"]);
    assert!(said(&run).contains("warning[trace-unknown]"), "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 2);
    let run = place.run(&["ingest", "job"]);
    assert!(said(&run).contains("warning[trace-damaged]"), "{}", run.stderr);
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "job"]), all);
    let log = "SELECT count(*) AS n FROM ingest_log WHERE code = 'trace-damaged'";
    assert_eq!(place.query(log), Csv::parse("n\n1\n"));
    // Without its manifest nothing of it is known but its name.
    assert_eq!(empty(&trace, |name| name == "manifest.json"), 1);
    let run = place.run(&["metric", "wall_time_s", "--trace", "job"]);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]), "{}", run.stderr);
    assert!(run.stderr.contains("its manifest is empty"), "{}", run.stderr);
    let run = place.run(&["metric", "wall_time_s", "--trace", "./job", "--config", "titan.toml"]);
    assert!(said(&run).contains("warning[trace-damaged]"), "{}", run.stderr);
    assert_eq!(value(&place, "throughput_tokens", &["--trace", "job"]), all);
    assert_eq!(traces(&place), ["job", "other"]);
}

#[test]
fn what_waited_through_a_loss_of_power_is_not_trusted() {
    let place = job("job");
    place.run(&["ingest", "job", "--name", "whole"]).done();
    let left = |boot: &str| {
        let work = place.data().join(".tmp-1-0");
        std::fs::create_dir_all(work.join("spool-0-0")).expect("a folder");
        std::fs::write(work.join("lock"), boot).expect("written");
        let records = place.data().join("trace=whole/records.json");
        let text = std::fs::read(records).expect("it is there");
        let records: Vec<Value> = serde_json::from_slice(&text).expect("records");
        let text = serde_json::to_vec(&records[..1]).expect("JSON");
        std::fs::write(work.join("spool-0-0/records.json"), text).expect("written");
    };
    left("another start of the machine");
    let run = place.run(&["ingest", "job", "--name", "again"]);
    assert!(said(&run).contains("again: kineto, 2 ranks, "), "{}", run.stderr);
    let entries = std::fs::read_dir(place.data()).expect("it can be listed").flatten();
    assert!(!entries.into_iter().any(|e| e.file_name().to_string_lossy().starts_with(".tmp")));
}

#[test]
fn a_trace_of_another_version_is_left_out_where_all_are_asked() {
    let place = job("runs/before_all");
    add(&place, "runs/later_one", 900.0);
    place.run(&["ingest", "."]).done();
    let [first, second] = &traces(&place)[..] else { panic!("two traces") };
    let manifest = place.data().join(format!("trace={first}/manifest.json"));
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let now = format!("\"schema_version\": {}", ccl_sql::schema::SCHEMA_VERSION);
    assert!(text.contains(&now));
    std::fs::write(&manifest, text.replace(&now, "\"schema_version\": 1")).expect("written");
    for words in [
        &["metric", "avg_step_time", "--format", "csv"][..],
        &["sql", "SELECT DISTINCT trace FROM steps", "--format", "csv"],
        &["diagnose", "--format", "json"],
    ] {
        let run = place.run(words);
        let said = said(&run);
        assert!(said.contains("another version") && said.contains("ccl-sql ingest"), "{said}");
        assert!(said.contains(&**first), "{said}");
        assert!(run.stdout.contains(&**second) && !run.stdout.contains(&**first), "{}", run.stdout);
    }
    // Who names it is told that it cannot be.
    let run = place.run(&["metric", "avg_step_time", "--trace", first]);
    assert!(run.code == 1 && run.stderr.contains("error[trace-unknown]"), "{}", run.stderr);
    // One that nobody can ask is an error in the end.
    place.run(&["remove", second, "--force"]).done();
    let run = place.run(&["sql", "SELECT 1"]);
    assert!(run.code == 1 && run.stderr.contains("error[trace-unknown]"), "{}", run.stderr);
}
