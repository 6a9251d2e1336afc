//! An ingest in tasks: the same files as on one machine, whatever is run twice, out of turn or
//! again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::runs::{many_calls, step_of_rank};
use crate::support::{Place, Run, STEPS, command, files, program, project};

/// The bytes of every file of a trace, by its path there.
fn bytes(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let of = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file of a trace can be read");
        (path.strip_prefix(directory).expect("it is below").to_owned(), bytes)
    };
    files(directory).into_iter().map(of).collect()
}

/// A trace has the same files, byte for byte, in both places.
fn assert_same(alone: &Place, planned: &Place, trace: &str) {
    let files = |place: &Place| bytes(&place.data().join(format!("trace={trace}")));
    let (alone, planned) = (files(alone), files(planned));
    assert_eq!(alone.keys().collect::<Vec<_>>(), planned.keys().collect::<Vec<_>>());
    for (file, bytes) in alone {
        assert!(planned[&file] == bytes, "{} differs", file.display());
    }
}

fn example() -> String {
    project().join("trace_collection/llama-tiny-fsdp2-tp2-4").display().to_string()
}

fn plan(place: &Place, more: &[&str]) -> String {
    place.run(&[&["plan", &example()], more].concat()).done().trim().to_owned()
}

fn task(place: &Place, words: &[&str], code: i32) -> String {
    let run = place.run(&[&["task"], words].concat());
    assert_eq!(run.code, code, "{words:?}: {}", run.stderr);
    run.stderr
}

fn next(place: &Place, plan: &str) -> (Value, usize) {
    let listing = place.run(&["task", "list", plan]).done();
    let listing: Value = serde_json::from_str(&listing).expect("JSON");
    (listing["step"].clone(), listing["tasks"].as_array().map_or(0, Vec::len))
}

#[test]
fn tasks_make_the_files_of_one_ingest() {
    let (one, two) = (Place::new(), Place::new());
    one.run(&["ingest", &example()]).done();
    let made = two.run(&["plan", &example()]);
    assert!(!made.stderr.contains("goes on"), "{}", made.stderr);
    let plan_of = made.stdout.trim();
    assert_eq!(next(&two, plan_of), ("read".into(), 4));
    assert!(task(&two, &["layout", plan_of], 75).contains("task-early"));
    assert!(task(&two, &["derive", plan_of], 75).contains("task-early"));
    assert!(task(&two, &["finish", plan_of], 75).contains("task-early"));
    task(&two, &["read", plan_of, "2"], 0);
    // The same plan made again goes on; the same task at the same time does no harm.
    let again = two.run(&["plan", &example()]);
    assert_eq!(again.stdout.trim(), plan_of);
    assert!(again.stderr.contains("the plan was begun, and goes on"), "{}", again.stderr);
    assert_eq!(next(&two, plan_of), ("read".into(), 3));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| task(&two, &["read", plan_of, "1"], 0));
        }
    });
    task(&two, &["read", plan_of, "0/2"], 0);
    task(&two, &["read", plan_of], 0);
    assert!(task(&two, &["read", plan_of, "4"], 2).contains("no task 4"));
    assert_eq!(next(&two, plan_of), ("layout".into(), 1));
    assert!(task(&two, &["layout", plan_of, "0"], 2).contains("this step is one task"));
    task(&two, &["layout", plan_of], 0);
    assert_eq!(next(&two, plan_of), ("join".into(), 1));
    assert!(task(&two, &["derive", plan_of], 75).contains("task join 0 is not done"));
    assert!(task(&two, &["join", plan_of, "1"], 2).contains("no task 1"));
    task(&two, &["join", plan_of], 0);
    assert_eq!(next(&two, plan_of), ("derive".into(), 1));
    // What a killed task leaves does not count.
    std::fs::create_dir(Path::new(plan_of).join(".derive-0-1-0")).expect("a folder");
    task(&two, &["derive", plan_of, "0"], 0);
    assert!(task(&two, &["match", plan_of], 75).contains("task groups 0 is not done"));
    for step in &STEPS[4..8] {
        assert_eq!(next(&two, plan_of), ((*step).into(), 1));
        task(&two, &[step, plan_of], 0);
    }
    assert_eq!(next(&two, plan_of), ("finish".into(), 1));
    let said = task(&two, &["finish", plan_of], 0);
    assert!(said.contains("4 ranks, 1340 events"), "{said}");
    assert_eq!(next(&two, plan_of), (Value::Null, 0));
    assert_same(&one, &two, "llama-tiny-fsdp2-tp2-4");
}

/// A disk that takes no more is no end of a task: tried again it is done, whoever writes, the
/// program or DuckDB.
#[test]
fn a_task_is_tried_again_where_a_disk_took_no_more() {
    let (one, two) = (Place::new(), Place::new());
    one.run(&["ingest", &example()]).done();
    let plan = plan(&two, &[]);
    let mut failed = Vec::new();
    for step in STEPS {
        // No file may be larger than a kilobyte, and to try that is an error and no signal.
        let limited = Command::new("bash")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "_"])
            .arg(program())
            .args(["--data", "../data", "task", step, &plan])
            .current_dir(two.input())
            .output()
            .expect("bash can be started");
        let said = String::from_utf8_lossy(&limited.stderr).into_owned();
        // Some write less.
        if limited.status.code() != Some(0) {
            assert_eq!(limited.status.code(), Some(75), "{step}: {said}");
            assert!(said.contains("error[io]: ") && said.contains("too large"), "{step}: {said}");
            failed.push(step);
        }
        task(&two, &[step, &plan], 0);
    }
    let written = ["read", "join", "derive"];
    assert!(written.iter().all(|step| failed.contains(step)), "{failed:?}");
    assert_same(&one, &two, "llama-tiny-fsdp2-tp2-4");
}

#[test]
fn a_plan_that_was_killed_at_its_first_file_is_made_anew() {
    let place = Place::new();
    let made = plan(&place, &[]);
    let (whole, aside) = (Path::new(&made).join("plan.json"), Path::new(&made).join("plan.17.tmp"));
    std::fs::rename(&whole, &aside).expect("renamed");
    assert_eq!(plan(&place, &[]), made);
    assert!(whole.exists() && !aside.exists());
    // A folder with files of somebody else is not cleared.
    std::fs::rename(&whole, Path::new(&made).join("plan.mine.tmp")).expect("renamed");
    let run = place.run(&["plan", &example()]);
    assert_eq!(run.errors(), ["output-exists"], "{}", run.stderr);
}

#[test]
fn a_file_that_cannot_be_read_stops_its_job_alone() {
    let place = Place::new();
    let event = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}"#;
    let whole =
        format!(r#"{{"distributedInfo":{{"rank":0,"world_size":2}},"traceEvents":[{event}]}}"#);
    place.write("good/rank0.json", &whole);
    place.write("bad/rank0.json", &whole);
    place.write("bad/rank1.json", &whole[..whole.len() - 20]);
    let input = place.input().display().to_string();
    let plan = place.run(&["plan", &input]).done().trim().to_owned();
    let said = task(&place, &["read", &plan], 1);
    assert!(said.contains("rank1.json"), "{said}");
    for step in &STEPS[1..8] {
        task(&place, &[step, &plan], 0);
    }
    let said = task(&place, &["finish", &plan], 1);
    assert!(said.contains("good: kineto") && said.contains("rank1.json"), "{said}");
    assert!(place.data().join("trace=good").exists());
    assert!(!place.data().join("trace=bad").exists());
}

#[test]
fn a_plan_is_of_these_files_and_this_program() {
    let place = Place::new();
    let event = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}"#;
    place.write("job/rank0.json", format!(r#"{{"traceEvents":[{event}]}}"#));
    let input = place.input().display().to_string();
    let plan = place.run(&["plan", &input]).done().trim().to_owned();
    place.write("job/rank0.json", format!(r#"{{"traceEvents":[{event},{event}]}}"#));
    assert!(task(&place, &["read", &plan], 1).contains("plan-stale"));
    // Planned again, the plan is of the files of now.
    assert_eq!(place.run(&["plan", &input]).done().trim(), plan);
    task(&place, &["read", &plan], 0);
    let file = Path::new(&plan).join("plan.json");
    let text = std::fs::read_to_string(&file).expect("the plan can be read");
    let other = text.replacen("\"program\":\"", "\"program\":\"other ", 1);
    std::fs::write(&file, other).expect("the plan can be written");
    assert!(task(&place, &["read", &plan], 1).contains("plan-other"));
    assert!(task(&place, &["read", &input], 1).contains("plan-invalid"));
    std::fs::write(&file, "{").expect("the plan can be written");
    assert!(task(&place, &["read", &plan], 1).contains("plan-invalid"));
    let elsewhere = place.run(&["plan", &input, "-o", &input]);
    assert!(elsewhere.stderr.contains("output-exists"), "{}", elsewhere.stderr);
    let named = place.input().with_file_name("named").display().to_string();
    assert_eq!(place.run(&["plan", &input, "-o", &named]).done().trim(), named);
    task(&place, &["read", &named], 0);
}

#[test]
fn what_a_cluster_is_asked_is_kept_and_found() {
    let place = Place::new();
    place.run(&["ingest", &example(), "--name", "job"]).done();
    let asked =
        ["metric/mfu@1", "metric/coll_call_num@1", "view/steps_of_none", "diagnosis/late_rank"];
    let run = place.run(&[&["answer", "--trace", "job"], &asked[..]].concat());
    assert!(run.code == 2 && run.stderr.contains("view/steps_of_none"), "{}", run.stderr);
    let run = place.run(&["answer", "--trace", "job", "--share", "3", "metric/mfu@1"]);
    assert!(run.code == 2 && run.stderr.contains("'--share <I/M>'"), "{}", run.stderr);
    for odd in ["steps", "odd/steps"] {
        let run = place.run(&["answer", "--trace", "job", odd]);
        assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("there is no {odd}")), "{}", run.stderr);
    }
    let known =
        ["metric/mfu@1", "metric/coll_call_num@1", "view/step_overlap", "diagnosis/late_rank"];
    assert_eq!(place.run(&[&["answer", "--trace", "job"], &known[..]].concat()).done(), "");
    let answers = place.data().join("trace=job/.answers");
    let text = std::fs::read_to_string(&answers).expect("answers are kept");
    assert_eq!(text.lines().count(), 1 + known.len());
    // The same questions, asked as a person asks them, are found there.
    place.run(&["metric", "mfu", "coll_call_num", "--format", "json"]);
    assert_eq!(std::fs::read_to_string(&answers).expect("they stay"), text);
}

#[test]
fn an_engine_that_does_not_run_says_so() {
    let place = Place::new();
    place.run(&["ingest", &example(), "--name", "job"]).done();
    let ask = |more: &[&str]| {
        let words = [&["--data", "../data", "metric", "mfu", "--engine", "ray"], more].concat();
        let output = command(&place.input())
            .env("CCL_SQL_PYTHON", "/nowhere/python")
            .args(words)
            .output()
            .expect("the program can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = ask(&[]);
    assert!(code == Some(1) && said.contains("engine-failed"), "{said}");
    let (code, said) = ask(&["--no-cache"]);
    assert!(code == Some(2) && said.contains("--no-cache"), "{said}");
}

#[test]
fn a_part_that_stays_is_not_derived_again() {
    // Two parts: the first has too many calls for others beside it.
    let place = Place::new();
    place.write("job/rank0.json", many_calls(0, 50_001));
    place.write("job/rank1.json", many_calls(1, 50_000));
    let input = place.input().join("job").display().to_string();
    let all = |place: &Place| {
        let plan = place.run(&["plan", &input]).done().trim().to_owned();
        let mut tasks = Vec::new();
        for step in STEPS {
            tasks.push(next(place, &plan).1);
            task(place, &[step, &plan], 0);
        }
        tasks
    };
    assert_eq!(all(&place), [2, 1, 1, 2, 1, 2, 1, 2, 1]);
    let one = Place::new();
    one.run(&["ingest", &input]).done();
    assert_same(&one, &place, "job");
    // One call more: the calls of both ranks are other ones now.
    place.write("job/rank1.json", many_calls(1, 50_001));
    // The rows of both go into their files in the layout: the next open task is one that derives.
    assert_eq!(all(&place), [1, 1, 1, 1, 1, 2, 1, 2, 1]);
    let fresh = Place::new();
    fresh.run(&["ingest", &input]).done();
    let matched = |place: &Place| {
        place.lines("SELECT rank, count(collective_id), max(collective_id) FROM collectives GROUP BY 1 ORDER BY 1")
    };
    assert_eq!(matched(&place), matched(&fresh));
    assert_eq!(matched(&place)[0], "0 50001 50001");
}

#[test]
fn blocks_of_ranks_are_put_into_the_files_of_one_ingest() {
    let place = Place::new();
    for rank in 0..70 {
        place.write(&format!("job/rank{rank}.json"), step_of_rank(rank, 70, 400, 1200));
    }
    let input = place.input().join("job").display().to_string();
    let plan = place.run(&["plan", &input]).done().trim().to_owned();
    let mut tasks = Vec::new();
    for step in STEPS {
        tasks.push(next(&place, &plan).1);
        task(&place, &[step, &plan], 0);
    }
    // Files of 64 ranks; all ranks are looked at together.
    assert_eq!(tasks, [70, 1, 2, 1, 1, 1, 1, 1, 1]);
    let one = Place::new();
    one.run(&["ingest", &input]).done();
    assert_same(&one, &place, "job");
    // With one rank another, the files of the others stay.
    place.write("job/rank69.json", step_of_rank(69, 70, 400, 1300));
    let said = place.run(&["ingest", &input]);
    assert!(said.stderr.contains("70 ranks (1 read)"), "{}", said.stderr);
    let fresh = Place::new();
    fresh.run(&["ingest", &input]).done();
    let rows = |place: &Place| place.lines("SELECT * FROM device_events ORDER BY ALL");
    assert_eq!(rows(&place), rows(&fresh));
}

/// Stands for Python and its Ray: runs the tasks of a plan one after the other, each with a cache
/// of its own, and says with which options.
pub const CLIENT: &str = r#"#!/usr/bin/env python3
import json, subprocess, sys, tempfile

program, plan, address, *options = sys.argv[4:]
print("options:", address, *options, file=sys.stderr)
at = options.index("--cache-dir") + 1
while True:
    listing = [program, "task", "list", plan, *options]
    now = json.loads(subprocess.run(listing, stdout=subprocess.PIPE, check=True).stdout)
    if now["step"] is None:
        break
    for one in now["tasks"]:
        number = [] if now["step"] in ("layout", "finish") else [str(one["n"])]
        with tempfile.TemporaryDirectory() as options[at]:
            subprocess.run([program, "task", now["step"], plan, *number, *options])
"#;

/// Ingests by an engine whose client is a script.
#[cfg(unix)]
fn engine(place: &Place, client: &str, more: &[&str]) -> Run {
    let path = place.program("client", client);
    let mut command = command(&place.input());
    let words = ["--data", "../data", "--cache-dir", "../cache", "ingest", "--engine", "ray"];
    command.env("CCL_SQL_PYTHON", &path).args(words).args(more);
    Run::of(&mut command)
}

#[cfg(unix)]
#[test]
fn an_engine_runs_the_tasks_of_an_ingest() {
    let (one, two) = (Place::new(), Place::new());
    one.run(&["ingest", &example()]).done();
    // What was done before its client broke off stays.
    let breaks = CLIENT.replace("if now[\"step\"] is None", "if now[\"step\"] == \"join\"");
    let run = engine(&two, &format!("{breaks}sys.exit(7)\n"), &[&example()]);
    assert_eq!((run.code, run.errors()), (1, vec!["engine-failed"]), "{}", run.stderr);
    let said = "the client of Ray ended with exit status: 7";
    assert!(run.stderr.contains(said) && run.stderr.contains("goes on with it"), "{}", run.stderr);
    let options = ["--timeout", "500", "--memory-limit", "3GB", "--quiet"];
    let run = engine(&two, CLIENT, &[&[&*example()][..], &options].concat());
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let given = run.stderr.lines().find_map(|line| line.strip_prefix("options: "));
    let given: Vec<&str> = given.expect("its options").split_whitespace().collect();
    assert!(given.windows(2).any(|pair| pair == ["--timeout", "500"]), "{given:?}");
    assert!(given.windows(2).any(|pair| pair == ["--memory-limit", "3GB"]), "{given:?}");
    assert!(given.contains(&"--quiet"), "{given:?}");
    assert_same(&one, &two, "llama-tiny-fsdp2-tp2-4");
    // The plan is done, and gone.
    let left = files(&two.input().join(".."));
    assert!(left.iter().all(|file| !file.ends_with("plan.json")), "{left:?}");
    // What is wrong with a file is said at the end.
    two.write("broken.json", "{\"traceEvents\": [{\"ph\": ");
    let run = engine(&two, CLIENT, &["broken.json"]);
    assert!(run.code == 1 && run.stderr.contains("error[trace-truncated]"), "{}", run.stderr);
    let run = engine(&two, CLIENT, &[&*example(), "--force", "--name", "a/b"]);
    assert_eq!(run.errors().first(), Some(&"usage"), "{}", run.stderr);
}
