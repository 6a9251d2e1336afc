//! A plan in an object store: machines that share no disk do its tasks.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::plan::CLIENT;
use crate::support::runs::step_of_rank;
use crate::support::s3::{Fault, S3};
use crate::support::{Place, Run, STEPS, files};

const DATA: &str = "s3://traces/lake/ccl-data";
const RANKS: i64 = 6;

/// A store with the files of a job, and a machine that has read it alone, on its disk.
fn job() -> (S3, Place) {
    let (s3, alone) = (S3::start(), Place::new());
    for rank in 0..RANKS {
        let trace = step_of_rank(rank, RANKS, 400, 1200);
        s3.put(&format!("runs/job/rank{rank}.json"), trace.to_string());
    }
    few(&s3, &alone, &["ingest", "s3://traces/runs/job"]).done();
    (s3, alone)
}

/// Runs the program where so few files may be open that two ranks are looked at together.
fn few(s3: &S3, place: &Place, args: &[&str]) -> Run {
    s3.run_with_few_files(place, 68, args)
}

/// A machine that plans: the URL of the plan.
fn plan(s3: &S3, more: &[&str]) -> String {
    let args = [&["plan", "s3://traces/runs/job", "--cache-dir", "../cache"], more].concat();
    few(s3, &Place::new(), &args).done().trim().to_owned()
}

/// Runs a task on a machine of its own.
fn task(s3: &S3, words: &[&str]) -> Run {
    few(s3, &Place::new(), &[&["task", "--cache-dir", "../cache"], words].concat())
}

fn next(s3: &S3, plan: &str) -> (Value, usize) {
    let listing: Value =
        serde_json::from_str(&task(s3, &["list", plan]).done()).expect("it is JSON");
    (listing["step"].clone(), listing["tasks"].as_array().map_or(0, Vec::len))
}

/// The tables of the job in the store, by their names.
fn tables(s3: &S3) -> BTreeMap<String, Vec<u8>> {
    let table = |key: String| {
        let (_, file) = key.split_once("/trace=job/v=")?.1.split_once('/')?;
        file.ends_with(".parquet").then(|| (file.to_owned(), s3.get(&key).expect("an object")))
    };
    s3.keys().into_iter().filter_map(table).collect()
}

/// Fails where the tables in the store are not those that one machine made.
fn assert_as_alone(s3: &S3, alone: &Place) {
    let (there, folder) = (tables(s3), alone.data().join("trace=job"));
    let here: Vec<_> = files(&folder)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "parquet"))
        .collect();
    assert_eq!(there.len(), here.len());
    for file in here {
        let name = file.strip_prefix(&folder).expect("it lies there").to_string_lossy();
        let bytes = std::fs::read(&file).expect("a table");
        assert!(there.get(&*name) == Some(&bytes), "{name} differs");
    }
}

/// Fails where the manifest in the store says something else of the files, and where it does not
/// say which ranks a file holds some of.
fn assert_manifest_as_alone(s3: &S3, alone: &Place) {
    let there: Value =
        serde_json::from_slice(&s3.get("lake/ccl-data/trace=job/manifest.json").expect("it is"))
            .expect("it is JSON");
    let here = std::fs::read(alone.data().join("trace=job/manifest.json")).expect("a manifest");
    let here: Value = serde_json::from_slice(&here).expect("it is JSON");
    for field in ["rows", "files", "findings", "sources"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    let spans = there["spans"].as_object().expect("spans");
    let of_rank = |rank: i64| {
        let of = |name: &&String| name.starts_with(&format!("host_events/rank={rank}/"));
        spans.keys().find(of).map(|name| spans[name].clone())
    };
    assert_eq!(of_rank(3), Some(serde_json::json!([3, 3])));
    assert!(spans.iter().any(|(name, span)| {
        name.starts_with("device_events/") && *span == serde_json::json!([0, 5])
    }));
}

#[test]
fn machines_without_a_disk_in_common_make_the_tables_of_one() {
    let (s3, alone) = job();
    let url = plan(&s3, &["--data", DATA]);
    assert!(url.starts_with(&format!("{DATA}/.plan-")), "{url}");
    assert_eq!(next(&s3, &url), ("read".into(), 6));
    assert_eq!(task(&s3, &["layout", &url]).code, 75);
    task(&s3, &["read", &url, "2"]).done();
    // The same plan made again goes on; of two that do the same one counts.
    assert_eq!(plan(&s3, &["--data", DATA]), url);
    assert_eq!(next(&s3, &url), ("read".into(), 5));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| task(&s3, &["read", &url, "1"]).done());
        }
    });
    let of = |task: &str| s3.keys().iter().filter(|k| k.contains(task)).cloned().collect();
    let folders: Vec<String> = of("/read-1-");
    let name = |key: &String| key.split('/').find(|p| p.starts_with("read-1-")).map(str::to_owned);
    let mut folders: Vec<_> = folders.iter().filter_map(name).collect();
    folders.dedup();
    assert_eq!(folders.len(), 1, "{folders:?}");
    task(&s3, &["read", &url, "0/2"]).done();
    task(&s3, &["read", &url]).done();
    task(&s3, &["layout", &url]).done();
    assert_eq!(next(&s3, &url), ("join".into(), 1));
    task(&s3, &["join", &url]).done();
    assert_eq!(next(&s3, &url), ("derive".into(), 3));
    // A machine fetches the events of its own ranks alone.
    s3.requests();
    task(&s3, &["derive", &url, "1"]).done();
    let asked = s3.requests();
    let gets = |rank: i64| {
        let folder = format!("/host_events/rank={rank}/");
        asked.iter().any(|line| line.starts_with("GET") && line.contains(&folder))
    };
    assert_eq!([0, 1, 2, 3, 4, 5].map(gets), [false, false, true, true, false, false]);
    task(&s3, &["derive", &url]).done();
    for (step, tasks) in [("groups", 1), ("place", 3), ("match", 1), ("collect", 3)] {
        assert_eq!(next(&s3, &url), (step.into(), tasks));
        task(&s3, &[step, &url]).done();
    }
    assert_eq!(next(&s3, &url), ("finish".into(), 1));
    s3.requests();
    let said = task(&s3, &["finish", &url]);
    assert!(said.stderr.contains("job: kineto, 6 ranks"), "{}", said.stderr);
    // Tables go to their places inside of the store, but those that the last step reads.
    let asked = s3.requests();
    let fetched = asked.iter().any(|line| line.starts_with("GET") && line.contains("_events/"));
    assert!(!fetched, "{asked:?}");
    assert_eq!(next(&s3, &url), (Value::Null, 0));
    assert_as_alone(&s3, &alone);
    assert_manifest_as_alone(&s3, &alone);
    let mut left: Vec<String> = of("/.plan-");
    left.retain(|key| !key.ends_with("plan.json") && !key.ends_with("outcome.json"));
    assert_eq!(left, [""; 0]);
    // A copy of a task that comes too late leaves nothing: the plan is as it was, but for its end.
    let of_plan = |file: &str| format!("{}/{file}", url.trim_start_matches("s3://traces/"));
    let outcome = of_plan("outcome.json");
    let kept = s3.get(&outcome).expect("what the ingest did");
    s3.remove(&outcome);
    s3.fails(Fault::Meanwhile(of_plan("done/read-3"), outcome.clone(), kept));
    task(&s3, &["read", &url, "3"]).done();
    assert!(s3.get(&outcome).is_some());
    let left: Vec<String> = of("/.plan-");
    assert_eq!(left.len(), 2, "{left:?}");
    // What is there need not be read again.
    let again = few(&s3, &Place::new(), &["plan", "s3://traces/runs/job", "--data", DATA]);
    assert!(again.stderr.contains("0 files to read"), "{}", again.stderr);
}

#[test]
fn files_of_many_tasks_are_listed_together() {
    let (s3, place) = (S3::start(), Place::new());
    for rank in 0..20 {
        let trace = step_of_rank(rank, 20, 400, 1200);
        s3.put(&format!("runs/job/rank{rank}.json"), trace.to_string());
    }
    let url = few(&s3, &place, &["plan", "s3://traces/runs/job", "--data", DATA]).done();
    let url = url.trim();
    task(&s3, &["read", url]).done();
    // A copy of a task that was not done, and one that was too late.
    let of_plan = |file: &str| format!("{}/{file}", url.trim_start_matches("s3://traces/"));
    s3.put(&of_plan("read-3-00/done.json"), "{}").put(&of_plan("read-1-0123/x.json"), "{}");
    s3.requests();
    task(&s3, &["layout", url]).done();
    let asked = s3.requests();
    let marks: Vec<&String> = asked
        .iter()
        .filter(|line| line.starts_with("GET") && line.contains("/done/read-"))
        .collect();
    assert_eq!(marks.len(), 2, "{asked:?}");
    for step in &STEPS[2..] {
        task(&s3, &[step, url]).done();
    }
    let alone = Place::new();
    few(&s3, &alone, &["ingest", "s3://traces/runs/job"]).done();
    assert_as_alone(&s3, &alone);
}

#[test]
fn a_store_that_is_busy_or_breaks_off_changes_nothing() {
    let (s3, alone) = job();
    let url = plan(&s3, &["--data", DATA]);
    for (step, fault) in [
        ("read", Fault::Cut(3, 100)),
        ("layout", Fault::Busy(3)),
        ("join", Fault::Cut(3, 100)),
        ("derive", Fault::Slow),
        ("groups", Fault::Cut(2, 40)),
        ("place", Fault::Busy(2)),
        ("match", Fault::Slow),
        ("collect", Fault::Busy(3)),
        ("finish", Fault::Busy(3)),
    ] {
        s3.fails(fault);
        task(&s3, &[step, &url]).done();
    }
    assert_as_alone(&s3, &alone);
}

#[test]
fn a_store_that_refuses_may_be_asked_later() {
    let (s3, alone) = job();
    let url = plan(&s3, &["--data", DATA]);
    task(&s3, &["read", &url]).done();
    s3.fails(Fault::Denied);
    for step in ["list", "layout"] {
        let refused = task(&s3, &[step, &url]);
        assert_eq!(refused.code, 75, "{step}: {}", refused.stderr);
        assert!(refused.stderr.contains("403"), "{}", refused.stderr);
    }
    s3.fails(Fault::Busy(0));
    for step in &STEPS[1..] {
        task(&s3, &[step, &url]).done();
    }
    assert_as_alone(&s3, &alone);
}

#[test]
fn a_plan_in_a_store_may_be_of_a_disk_and_the_other_way_round() {
    let (s3, alone) = job();
    // The plan on a disk, the data in the store.
    let place = Place::new();
    let on = |words: &[&str]| few(&s3, &place, &[words, &["--cache-dir", "../cache"]].concat());
    on(&["plan", "s3://traces/runs/job", "--data", DATA, "-o", "plan"]).done();
    for step in STEPS {
        on(&["task", step, "plan"]).done();
    }
    assert_as_alone(&s3, &alone);
    // The plan in the store, the data on a disk.
    let url = "s3://traces/plans/one";
    assert_eq!(on(&["plan", "s3://traces/runs/job", "-o", url]).done().trim(), url);
    for step in STEPS {
        on(&["task", step, url]).done();
    }
    let of = |place: &Place| place.lines("SELECT trace, count(*) FROM device_events GROUP BY 1");
    assert_eq!(of(&place), of(&alone));
}

#[test]
fn what_is_no_plan_is_left_alone() {
    let (s3, _) = job();
    s3.put("plans/two/mine.txt", "mine");
    let place = Place::new();
    let made = ["plan", "s3://traces/runs/job", "--cache-dir", "../cache"];
    let refused = few(&s3, &place, &[&made[..], &["-o", "s3://traces/plans/two"]].concat());
    assert_eq!(refused.errors(), ["output-exists"], "{}", refused.stderr);
    assert_eq!(s3.get("plans/two/mine.txt").as_deref(), Some(&b"mine"[..]));
    let none = task(&s3, &["list", "s3://traces/plans/two"]);
    assert_eq!(none.errors(), ["plan-invalid"], "{}", none.stderr);
    // Whoever can write there names no other folder.
    let url = plan(&s3, &["--data", DATA]);
    task(&s3, &["read", &url]).done();
    let key = |file: &str| format!("{}/{file}", url.trim_start_matches("s3://traces/"));
    for name in ["../../runs/job", "read-0-", "read-0-../x", "read-1-00", ""] {
        s3.put(&key("done/read-0"), name);
        let refused = task(&s3, &["layout", &url]);
        assert_ne!(refused.code, 0, "{name}");
    }
    // What a task leaves behind the end of its plan goes with a vacuum.
    let old = key("read-9-0123456789ab/done.json").replace(".plan-", ".plan-x");
    s3.put(&old, "{}");
    few(&s3, &place, &["vacuum", "--older-than", "0", "--data", DATA, "--cache-dir", "../cache"])
        .done();
    assert!(s3.get(&old).is_none() && s3.get(&key("plan.json")).is_some());
}

#[test]
fn an_engine_leaves_no_plan_in_the_store() {
    let (s3, alone) = job();
    let client = alone.program("cluster", CLIENT);
    let mut command = s3.command(&alone.input());
    command.env("CCL_SQL_PYTHON", &client);
    let words = [
        "--data",
        DATA,
        "--cache-dir",
        "../cache",
        "ingest",
        "s3://traces/runs/job",
        "--engine",
        "ray",
    ];
    let run = Run::of(command.args(words));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let question = ["metric", "--all", "--format", "csv"];
    let there = ["--data", DATA, "--cache-dir", "../other"];
    let answered = s3.run(&alone, &[&there[..], &question].concat());
    assert_eq!(answered.stdout, alone.run(&question).stdout, "{}", answered.stderr);
    let keys = s3.keys();
    assert!(!keys.iter().any(|key| key.contains("plan")), "{keys:?}");
}
