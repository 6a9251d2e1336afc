//! Questions about a data directory in an object store that several machines answer.

use std::path::Path;

use serde_json::Value;

use crate::cli::own_sql::own_metric;
use crate::support::runs::many_kernels;
use crate::support::s3::S3;
use crate::support::{Place, Run, example};

const DATA: &str = "s3://traces/lake/ccl-data";

/// Stands for Python and its Ray: each task runs on a machine of its own, which has no files yet.
const CLUSTER: &str = r#"#!/usr/bin/env python3
import json, subprocess, sys, tempfile

program, plan, address, *options = sys.argv[4:]
assert plan == "-" and address == "", sys.argv
at = options.index("--cache-dir") + 1
listing = json.load(sys.stdin)
for task in listing["tasks"]:
    with tempfile.TemporaryDirectory() as options[at]:
        subprocess.run([program, *task["words"], *options, "--quiet"], check=True)
    print(listing["step"], *task["words"][:1], file=sys.stderr)
"#;

/// Asks as `--engine ray` does, of a cluster of machines without anything in common.
fn ask_cluster(s3: &S3, place: &Place, words: &[&str]) -> Run {
    let python = place.program("cluster", CLUSTER);
    let mut command = s3.command(&place.input());
    command.env("CCL_SQL_PYTHON", &python);
    let of_store = ["--data", DATA, "--cache-dir", "../cache"];
    Run::of(command.args(of_store).args(words).args(["--engine", "ray"]))
}

fn store_of(example: &Path) -> (S3, Place) {
    let (s3, disk) = (S3::start(), Place::new());
    let path = example.to_string_lossy();
    let words = ["ingest", &path, "--data", DATA, "--cache-dir", "../cache"];
    s3.run(&Place::new(), &words).done();
    disk.run(&["ingest", &path]).done();
    (s3, disk)
}

#[test]
fn machines_hand_answers_on_through_the_store() {
    let (s3, disk) = store_of(&example("fsdp2-cpu-2"));
    let asker = Place::new();
    s3.requests();
    let question = ["metric", "--all", "--format", "json"];
    let answered = ask_cluster(&s3, &asker, &question);
    assert!(answered.stderr.contains("answer answer"), "{}", answered.stderr);
    let expected = disk.run(&question);
    assert_eq!((answered.code, &answered.stdout), (expected.code, &expected.stdout));
    // Who asks needs no table: the answers came from the others.
    let is_table = |file: &str| file.ends_with(".parquet") && !file.contains("/.partials/");
    let here = names_below(&asker.input().join("../cache"));
    assert!(!here.iter().any(|name| is_table(name)), "{here:?}");
    let kept = |s3: &S3| {
        s3.keys().into_iter().filter(|key| key.contains("/.answers/")).collect::<Vec<String>>()
    };
    assert!(!kept(&s3).is_empty());
    // Another one who asks the same finds them, and no machine computes.
    s3.requests();
    let again = ask_cluster(&s3, &Place::new(), &question);
    assert_eq!(again.stdout, expected.stdout);
    assert!(!again.stderr.contains("answer answer"), "{}", again.stderr);
    assert!(!s3.requests().iter().any(|line| is_table(line)));
    // One more question; of the first nothing is computed again.
    let page = ask_cluster(&s3, &Place::new(), &["report", "--format", "md"]);
    assert_eq!(page.stdout, disk.run(&["report", "--format", "md"]).stdout);
    // A parameter goes with the question.
    let given = ["metric", "straggler", "-p", "slowdown_pct=0.001", "--format", "json"];
    assert_eq!(ask_cluster(&s3, &Place::new(), &given).stdout, disk.run(&given).stdout);
    // What the user wrote is asked there too.
    let user = Place::new();
    own_metric(&user, "ranks_here", "count(*)");
    let own = ["metric", "ranks_here", "--sql-dir", "own", "--format", "csv"];
    let answered = ask_cluster(&s3, &user, &own);
    assert_eq!(answered.stdout, "trace,number\nfsdp2-cpu-2,2\n", "{}", answered.stderr);
    assert!(answered.stderr.contains("answer answer"), "{}", answered.stderr);
    // A new version of the trace takes nothing over.
    let version = kept(&s3)[0].clone();
    let path = example("fsdp2-cpu-2").to_string_lossy().into_owned();
    let words = ["ingest", &path, "--force", "--data", DATA, "--cache-dir", "../cache"];
    s3.run(&Place::new(), &words).done();
    let again = ask_cluster(&s3, &Place::new(), &question);
    assert!(again.stderr.contains("answer answer"), "{}", again.stderr);
    assert!(kept(&s3).iter().any(|key| *key != version));
}

/// Four ranks, whose rows are shared out to two machines, and read again by others.
#[test]
fn machines_share_out_the_ranks_of_a_large_trace() {
    let (s3, disk) = (S3::start(), Place::new());
    for rank in 0..4 {
        disk.write(&format!("large/rank{rank}.json"), many_kernels(rank, 4, 40_000));
    }
    disk.run(&["ingest", "large", "-q"]).done();
    let ingest = ["ingest", "large", "-q", "--data", DATA, "--cache-dir", "../cache"];
    s3.run(&disk, &ingest).done();
    let question = [
        "metric",
        "coll_call_num",
        "iter_time",
        "exposed_comm_by_group",
        "straggler",
        "critical_path",
        "comm_comp_overlap",
        "straggler_by_rank",
        "--format",
        "json",
    ];
    let expected = disk.run(&question);
    let answered = ask_cluster(&s3, &Place::new(), &question);
    assert_eq!((answered.code, &answered.stdout), (expected.code, &expected.stdout));
    let shares = answered.stderr.matches("partials answer").count();
    assert!(shares >= 2 && shares.is_multiple_of(2), "{}", answered.stderr);
    // What one machine computed of its ranks, another one read.
    let keys = s3.keys();
    let of_ranks = keys.iter().filter(|key| key.contains("/.partials/")).count();
    assert!(of_ranks >= shares, "{keys:?}");
    s3.requests();
    let again = ask_cluster(&s3, &Place::new(), &question);
    assert_eq!(again.stdout, expected.stdout);
    assert!(!again.stderr.contains("answer answer"), "{}", again.stderr);
    // A question that reads other columns of the same views finds their rows.
    let other = ["metric", "straggler_lag", "idle_time_s", "--format", "json"];
    let answered = ask_cluster(&s3, &Place::new(), &other);
    assert_eq!(answered.stdout, disk.run(&other).stdout);
}

#[test]
fn what_is_no_answer_in_the_store_is_computed() {
    let (s3, disk) = store_of(&example("fsdp2-cpu-2"));
    let question = ["metric", "coll_call_num", "iter_time", "--format", "json"];
    let expected = disk.run(&question).stdout;
    let first = ask_cluster(&s3, &Place::new(), &question);
    assert_eq!(first.stdout, expected);
    let kept: Vec<String> =
        s3.keys().into_iter().filter(|key| key.contains("/.answers/")).collect();
    let text = String::from_utf8(s3.get(&kept[0]).expect("it is there")).expect("it is UTF-8");
    let value: Value = serde_json::from_str(&expected).expect("it is JSON");
    assert!(value.is_array());
    // Damaged, of another trace, and names that lead elsewhere.
    let folder = kept[0].rsplit_once('/').expect("a folder").0.to_owned();
    let other = text.replacen("ccl-sql answers 1 ", "ccl-sql answers 1 0", 1);
    for (name, bytes) in [
        (kept[0].clone(), b"\xff\xfe".to_vec()),
        (format!("{folder}/other.txt"), other.into_bytes()),
        (format!("{folder}/a/b.txt"), text.clone().into_bytes()),
        (folder.replace("/.answers", "/.partials/a/b.parquet"), text.clone().into_bytes()),
        (folder.replace("/.answers", "/.partials/.hidden.parquet"), text.into_bytes()),
    ] {
        s3.put(&name, bytes);
    }
    let asker = Place::new();
    let again = ask_cluster(&s3, &asker, &question);
    assert_eq!(again.stdout, expected);
    assert!(again.stderr.contains("answer answer"), "{}", again.stderr);
    let here = names_below(&asker.input().join("../cache"));
    assert!(!here.iter().any(|name| name.contains(".partials/")), "{here:?}");
}

/// The names of all files below a folder.
fn names_below(folder: &Path) -> Vec<String> {
    crate::support::files(folder).iter().map(|file| file.to_string_lossy().into_owned()).collect()
}
