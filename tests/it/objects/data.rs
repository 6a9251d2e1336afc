//! A data directory in an object store.

use std::time::Duration;

use serde_json::Value;

use crate::support::runs::step_of_rank;
use crate::support::s3::{Fault, S3};
use crate::support::{Place, Run, example, files, in_parallel};

const DATA: &str = "s3://traces/lake/ccl-data";

/// Runs the program with its data in the store, and a cache of the place's own.
fn run(s3: &S3, place: &Place, args: &[&str]) -> Run {
    s3.run(place, &[&["--data", DATA, "--cache-dir", "../cache"], args].concat())
}

/// A store with an example, and a place that has ingested it.
fn ingested() -> (S3, Place) {
    let (s3, place) = (S3::start(), Place::new());
    let folder = example("fsdp2-cpu-2");
    run(&s3, &place, &["ingest", &folder.to_string_lossy()]).done();
    (s3, place)
}

/// The manifest of a trace in the store.
fn manifest(s3: &S3, trace: &str) -> Value {
    let bytes = s3.get(&format!("lake/ccl-data/trace={trace}/manifest.json"));
    serde_json::from_slice(&bytes.expect("a manifest")).expect("it is JSON")
}

/// The folder of the files of a trace in the store.
fn version(s3: &S3, trace: &str) -> String {
    manifest(s3, trace)["at"].as_str().expect("a folder").to_owned()
}

#[test]
fn another_machine_answers_from_the_store() {
    let (s3, one) = ingested();
    let (other, disk) = (Place::new(), Place::new());
    disk.run(&["ingest", &example("fsdp2-cpu-2").to_string_lossy()]).done();
    // The files are those of a disk.
    let at = format!("lake/ccl-data/trace=fsdp2-cpu-2/{}", version(&s3, "fsdp2-cpu-2"));
    let folder = disk.data().join("trace=fsdp2-cpu-2");
    for file in files(&folder).iter().filter(|f| f.extension().is_some_and(|e| e == "parquet")) {
        let name = file.strip_prefix(&folder).expect("it lies there").to_string_lossy();
        let bytes = std::fs::read(file).expect("a file");
        assert!(s3.get(&format!("{at}/{name}")) == Some(bytes), "{name}");
    }
    s3.requests();
    let listed = run(&s3, &other, &["list", "traces", "--format", "csv"]).done();
    assert!(listed.contains("fsdp2-cpu-2,kineto,2"), "{listed}");
    let is_table = |line: &String| line.ends_with(".parquet");
    assert!(!s3.requests().iter().any(is_table), "a list needs no table");
    let questions: [&[&str]; 3] = [
        &["metric", "--all", "--format", "csv"],
        &["report", "fsdp2-cpu-2", "--format", "md"],
        &["sql", "SELECT count(*), sum(dur_ns) FROM host_events", "--format", "csv"],
    ];
    for question in questions {
        let of_disk = disk.run(question);
        assert_eq!(run(&s3, &other, question).stdout, of_disk.stdout, "{question:?}");
        assert_eq!(run(&s3, &one, question).stdout, of_disk.stdout, "{question:?}");
    }
    s3.requests();
    run(&s3, &other, &["metric", "iter_time", "--trace", "fsdp2-cpu-2"]).done();
    assert!(!s3.requests().iter().any(is_table), "they are here");
}

/// Hexadecimal digits that do not pack well, the same on any machine.
fn digits(count: usize) -> String {
    let mut state = 1u64;
    let mut out = String::with_capacity(count + 16);
    while out.len() < count {
        // The multiplier and the increment of Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.push_str(&format!("{:08x}", state >> 32));
    }
    out
}

/// A table of more than is sent at a time: it comes in parts, and is the same file.
#[test]
fn a_large_table_comes_in_parts() {
    let (s3, one, disk) = (S3::start(), Place::new(), Place::new());
    let large = digits(24 << 20);
    let with_large = format!(r#""args":{{"large":"{large}","#);
    let rank = step_of_rank(0, 1, 400, 1200).replacen(r#""args":{"#, &with_large, 1);
    assert!(rank.len() > large.len(), "the event has arguments");
    for place in [&one, &disk] {
        place.write("job/rank0.json", &rank);
    }
    disk.run(&["ingest", "job"]).done();
    let is_large = |file: &&std::path::PathBuf| file.metadata().is_ok_and(|m| m.len() > 8 << 20);
    let folder = disk.data().join("trace=job");
    let all = files(&folder);
    let file = all.iter().find(is_large).expect("a large table");

    // What has come of a table that did not come whole is forgotten, and the trace is not there.
    s3.fails(Fault::Part(2));
    let run_of = |args: &[&str]| run(&s3, &one, args);
    let refused = run_of(&["ingest", "job"]);
    assert_eq!((refused.code, refused.errors()), (1, vec!["io"]), "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot write to the store"), "{}", refused.stderr);
    assert_eq!(s3.uploads(), 0);
    assert!(s3.get("lake/ccl-data/trace=job/manifest.json").is_none());

    s3.fails(Fault::Busy(0));
    run_of(&["ingest", "job"]).done();
    assert_eq!(s3.uploads(), 0);
    let name = file.strip_prefix(&folder).expect("it lies there").to_string_lossy();
    let key = format!("lake/ccl-data/trace=job/{}/{name}", version(&s3, "job"));
    assert!(s3.get(&key) == std::fs::read(file).ok(), "{key}");
    assert!(s3.requests().iter().filter(|line| **line == format!("PUT {key}")).count() >= 2);
}

/// A metric is answered as on a disk from the tables that it reads, and no others are fetched.
#[test]
fn of_a_trace_the_tables_of_the_question_are_fetched() {
    let (s3, disk) = (S3::start(), Place::new());
    let folder = example("llama-tiny-fsdp2-tp2-4").to_string_lossy().into_owned();
    run(&s3, &Place::new(), &["ingest", &folder]).done();
    disk.run(&["ingest", &folder]).done();
    let expected = disk.run(&["metric", "--all", "--format", "json", "--no-cache"]).stdout;
    let expected: Vec<Value> = serde_json::from_str(&expected).expect("it is JSON");
    let failures = in_parallel(&expected, |expected| {
        let other = Place::new();
        let name = expected["metric"].as_str().expect("a name");
        let found = run(&s3, &other, &["metric", name, "--format", "json"]).stdout;
        let found: Value = serde_json::from_str(&found).expect("it is JSON");
        Vec::from_iter((found != *expected).then(|| format!("{expected}\n{found}")))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let other = Place::new();
    s3.requests();
    let ask = |args: &[&str]| {
        run(&s3, &other, args).done();
        s3.requests()
    };
    let gets = |asked: &[String], table: &str| {
        asked.iter().any(|line| line.starts_with("GET") && line.contains(&format!("/{table}/")))
    };
    let asked = ask(&["metric", "iter_time"]);
    assert!(gets(&asked, "steps") && !gets(&asked, "host_events"), "{asked:?}");
    let asked = ask(&["metric", "iter_time", "--no-cache"]);
    assert!(!gets(&asked, "steps"), "it is here: {asked:?}");
    let asked = ask(&["sql", "SELECT count(*) FROM host_events"]);
    assert!(gets(&asked, "host_events") && !gets(&asked, "steps"), "{asked:?}");
    assert_eq!(
        run(&s3, &other, &["sql", "SELECT count(*) FROM host_events"]).done(),
        disk.run(&["sql", "SELECT count(*) FROM host_events"]).done()
    );
}

#[test]
fn a_second_ingest_goes_on_with_what_the_store_has() {
    let s3 = S3::start();
    let job = |place: &Place, rank: i64, call_us: i64| {
        place.write(&format!("job/rank{rank}.json"), step_of_rank(rank, 2, 400, call_us));
    };
    let place = Place::new();
    job(&place, 0, 1200);
    job(&place, 1, 1200);
    run(&s3, &place, &["ingest", "job"]).done();
    let before = version(&s3, "job");
    let run_again = run(&s3, &place, &["ingest", "job"]);
    assert!(run_again.stderr.contains("unchanged"), "{}", run_again.stderr);
    assert_eq!(version(&s3, "job"), before);
    // With nothing kept here, and one rank another.
    std::fs::remove_dir_all(place.input().join("../cache")).expect("a folder");
    job(&place, 1, 1250);
    let changed = run(&s3, &place, &["ingest", "job"]);
    assert!(changed.stderr.contains("2 ranks (1 read)"), "{}", changed.stderr);
    assert_ne!(version(&s3, "job"), before);
    let other = Place::new();
    let calls = ["sql", "SELECT max(ts_ns) FROM device_events", "--format", "csv"];
    assert_eq!(run(&s3, &other, &calls).done(), run(&s3, &place, &calls).done());

    // The version of before goes, and nothing else.
    let old = format!("job/{before}/");
    assert!(s3.keys().iter().any(|key| key.contains(&old)));
    let kept = run(&s3, &other, &["vacuum"]);
    assert!(kept.stderr.contains("nothing to remove"), "{}", kept.stderr);
    s3.is_of(Duration::from_secs(25 * 3600));
    let kept = run(&s3, &other, &["vacuum", "--older-than", "26"]);
    assert!(kept.stderr.contains("nothing to remove"), "{}", kept.stderr);
    let removed = run(&s3, &other, &["vacuum"]);
    assert!(removed.stderr.contains("removed"), "{}", removed.stderr);
    assert!(!s3.keys().iter().any(|key| key.contains(&old)));
    let third = Place::new();
    assert_eq!(run(&s3, &third, &calls).done(), run(&s3, &place, &calls).done());
}

#[test]
fn of_two_writers_one_is_told_to_try_again() {
    let (s3, place) = (S3::start(), Place::new());
    place.write("job/rank0.json", step_of_rank(0, 1, 400, 1200));
    // Another was first by a moment: there is a manifest when this one writes its own.
    let first = Place::new();
    first.write("job/rank0.json", step_of_rank(0, 1, 450, 1200));
    run(&s3, &first, &["ingest", "job"]).done();
    let key = "lake/ccl-data/trace=job/manifest.json";
    let theirs = s3.get(key).expect("a manifest");
    s3.remove(key);
    s3.fails(Fault::Meanwhile(key.to_owned(), key.to_owned(), theirs.clone()));
    let second = run(&s3, &place, &["ingest", "job"]);
    assert_eq!(second.errors(), ["store-conflict"], "{}", second.stderr);
    assert!(s3.get(key) == Some(theirs), "the first one stays");
    // Tried again, both are there: they are of two folders of one name.
    run(&s3, &place, &["ingest", "job"]).done();
    let listed = run(&s3, &Place::new(), &["list", "traces", "--format", "csv"]).done();
    assert_eq!(listed.lines().count(), 3, "{listed}");
}

#[test]
fn names_change_and_go_in_the_store() {
    let (s3, place) = ingested();
    run(&s3, &place, &["rename", "fsdp2-cpu-2", "other"]).done();
    let elsewhere = Place::new();
    let listed = run(&s3, &elsewhere, &["list", "traces", "--format", "csv"]).done();
    assert!(listed.contains("other,kineto,2") && !listed.contains("fsdp2-cpu-2,"), "{listed}");
    // The old name finds it, as on a disk.
    run(&s3, &elsewhere, &["metric", "iter_time", "--trace", "fsdp2-cpu-2"]).done();
    run(&s3, &elsewhere, &["remove", "other"]).done();
    let gone = run(&s3, &place, &["metric", "iter_time"]);
    assert_eq!(gone.errors(), ["trace-unknown"], "{}", gone.stderr);
    run(&s3, &place, &["vacuum", "--older-than", "0"]).done();
    assert_eq!(s3.keys(), [""; 0]);
}

#[test]
fn a_manifest_that_names_files_outside_is_refused() {
    let (s3, _) = ingested();
    let key = "lake/ccl-data/trace=fsdp2-cpu-2/manifest.json";
    for (field, value) in [
        ("at", serde_json::json!("../../x")),
        ("files", serde_json::json!({"ranks/../../../x.parquet": 3})),
    ] {
        let mut manifest = manifest(&s3, "fsdp2-cpu-2");
        manifest[field] = value;
        let odd = S3::start();
        odd.put(key, manifest.to_string());
        let place = Place::new();
        let refused = run(&odd, &place, &["metric", "iter_time"]);
        assert_eq!(refused.errors(), ["trace-unknown"], "{}", refused.stderr);
    }
}

#[test]
fn the_cache_has_a_bound() {
    let (s3, place) = ingested();
    run(&s3, &place, &["ingest", &example("gloo-ddp-2rank").to_string_lossy()]).done();
    let other = Place::new();
    let metric = ["metric", "iter_time", "--trace", "fsdp2-cpu-2"];
    run(&s3, &other, &metric).done();
    let held = |place: &Place| {
        let all = files(&place.input().join("../cache"));
        all.iter().filter(|f| f.extension().is_some_and(|e| e == "parquet")).count()
    };
    assert!(held(&other) > 0);
    // What was just asked for stays, for whoever reads it.
    run(&s3, &other, &["list", "traces", "--cache-size", "1MB"]).done();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for used in files(&other.input().join("../cache")).iter().filter(|f| f.ends_with(".used")) {
        let file = std::fs::File::options().write(true).open(used).expect("a file");
        file.set_modified(long_ago).expect("a time");
    }
    assert!(held(&other) > 0);
    run(&s3, &other, &["list", "traces", "--cache-size", "0MB"]).done();
    assert_eq!(held(&other), 0);
    run(&s3, &other, &metric).done();
    let wrong = run(&s3, &other, &["list", "traces", "--cache-size", "much"]);
    assert_eq!(wrong.errors(), ["usage"], "{}", wrong.stderr);
}

#[test]
fn what_asks_for_no_trace_asks_for_no_store() {
    let (s3, place) = ingested();
    s3.requests();
    run(&s3, &place, &["completions", "bash"]).done();
    assert_eq!(s3.requests(), [""; 0]);
}

/// Whoever has all tables of a trace has those of the one that takes its place, too.
#[test]
fn a_machine_follows_what_another_ingests_anew() {
    let (s3, one, other, disk) = (S3::start(), Place::new(), Place::new(), Place::new());
    for (rank, end_us) in [(0, 1200), (1, 1230)] {
        s3.put(&format!("job/rank{rank}.json"), step_of_rank(rank, 2, 400, end_us));
    }
    run(&s3, &one, &["ingest", "s3://traces/job"]).done();
    s3.put("job/rank1.json", step_of_rank(1, 2, 400, 1290));
    run(&s3, &other, &["ingest", "s3://traces/job"]).done();
    for (rank, end_us) in [(0, 1200), (1, 1290)] {
        disk.write(&format!("job/rank{rank}.json"), step_of_rank(rank, 2, 400, end_us));
    }
    disk.run(&["ingest", "job"]).done();
    let question = ["metric", "--all", "--format", "csv"];
    assert_eq!(run(&s3, &one, &question).stdout, disk.run(&question).stdout);
    s3.requests();
    assert_eq!(run(&s3, &one, &["metric", "straggler_lag", "--format", "value"]).done(), "90.0\n");
    assert!(!s3.requests().iter().any(|line| line.ends_with(".parquet")), "they are here");
}

#[test]
fn a_table_that_is_gone_or_another_is_a_conflict() {
    let (s3, _) = ingested();
    let trace = "fsdp2-cpu-2";
    let prefix = format!("lake/ccl-data/trace={trace}/{}/host_events/", version(&s3, trace));
    let key = s3.keys().into_iter().find(|key| key.starts_with(&prefix)).expect("a table");
    let whole = s3.get(&key).expect("it is there");
    let question = ["metric", "launch_delay_us", "iter_time", "--trace", trace];
    let refused = |place: &Place| {
        let refused = run(&s3, place, &question);
        assert_eq!(refused.errors(), ["store-conflict"], "{}", refused.stderr);
        let said = "it was replaced, or removed, while it was fetched";
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    };
    let asker = Place::new();
    s3.remove(&key);
    refused(&asker);
    s3.put(&key, &whole[..whole.len() - 1]);
    refused(&asker);
    // When it is what it was, nothing stands in the way.
    s3.put(&key, &*whole);
    let answered = run(&s3, &asker, &["sql", "SELECT count(*) > 0 AS n FROM host_events"]);
    assert!(answered.stdout.contains("true"), "{}", answered.stderr);
}

#[test]
fn who_may_only_read_is_told() {
    let (s3, place) = ingested();
    place.write("job/rank0.json", step_of_rank(0, 1, 400, 1200));
    s3.fails(Fault::ReadOnly);
    // What may be read is answered from.
    run(&s3, &Place::new(), &["metric", "iter_time"]).done();
    for words in
        [&["ingest", "job"][..], &["remove", "fsdp2-cpu-2"], &["rename", "fsdp2-cpu-2", "a"]]
    {
        let refused = run(&s3, &place, words);
        assert_eq!(refused.errors(), ["io"], "{words:?}: {}", refused.stderr);
        let said = "cannot write to the store: access is denied";
        assert!(refused.stderr.contains(said), "{words:?}: {}", refused.stderr);
    }
    assert!(!s3.keys().iter().any(|key| key.contains("trace=job")));
    // What was sent before the manifest is refused is of no trace, and in nobody's way.
    s3.fails(Fault::Refuses("lake/ccl-data/trace=job/manifest.json".to_owned()));
    let refused = run(&s3, &place, &["ingest", "job"]);
    assert_eq!(refused.errors(), ["io"], "{}", refused.stderr);
    assert!(refused.stderr.contains("trace=job/manifest.json"), "{}", refused.stderr);
    let listed = run(&s3, &Place::new(), &["list", "traces", "--format", "csv"]).done();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    s3.fails(Fault::Busy(0));
    run(&s3, &place, &["ingest", "job"]).done();
}

#[test]
fn a_vacuum_removes_nothing_where_it_cannot_know() {
    let s3 = S3::start();
    // There is nothing yet.
    assert_eq!(run(&s3, &Place::new(), &["vacuum", "--older-than", "0"]).code, 0);
    let (s3, place) = ingested();
    let key = "lake/ccl-data/trace=fsdp2-cpu-2/manifest.json";
    s3.put(key, "{");
    let before = s3.keys();
    let refused = run(&s3, &place, &["vacuum", "--older-than", "0"]);
    assert_eq!(refused.errors(), ["trace-unknown"], "{}", refused.stderr);
    assert!(refused.stderr.contains("a manifest cannot be read"), "{}", refused.stderr);
    assert_eq!(s3.keys(), before);
}
