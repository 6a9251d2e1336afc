//! Stores that refuse, are slow or break off, and what others put into them.

use crate::support::runs::step_of_rank;
use crate::support::s3::{Fault, S3};
use crate::support::{Place, Run, files};

/// A server with a job of two ranks.
fn job() -> S3 {
    let s3 = S3::start();
    for rank in 0..2 {
        s3.put(&format!("job/rank{rank}.json"), step_of_rank(rank, 2, 400, 1200));
    }
    s3
}

fn ingest(s3: &S3, place: &Place) -> Run {
    s3.run(place, &["ingest", "s3://traces/job"])
}

#[test]
fn names_of_others_are_no_paths() {
    let (s3, place) = (job(), Place::new());
    let long = format!("job/{}/rank9.txt", "x".repeat(1000));
    for key in ["job/../../etc/passwd", "job//rank7.json", "job/./rank8.json", "job/a\nb.json"] {
        s3.put(key, "{}");
    }
    s3.put(&long, "words").put("../rank5.json", "{}").put("/job/rank6.json", "{}");
    let run = s3.run(&place, &["ingest", "s3://traces/job", "-v"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("job: kineto, 2 ranks"), "{}", run.stderr);
    for name in ["..%2F..%2Fetc%2Fpasswd", "%2Frank7.json", ".%2Frank8.json", "a\\nb.json"] {
        let told = format!("s3://traces/job/{name}: an object whose key is no path");
        assert!(run.stderr.contains(&told), "{name}: {}", run.stderr);
    }
    let outside = |file: &std::path::PathBuf| !file.starts_with(place.data());
    let root = place.data().parent().expect("a folder").to_owned();
    assert_eq!(files(&root).into_iter().filter(outside).count(), 0);
}

#[test]
fn many_keys_that_are_no_paths_among_many() {
    let (s3, place) = (job(), Place::new());
    for n in 0..2500 {
        s3.put(&format!("job/a{n:05}.md"), "");
    }
    for n in [0, 1, 2, 700, 1500, 2499] {
        s3.put(&format!("job/a{n:05}.md//x"), "");
    }
    let run = ingest(&s3, &place);
    assert!(run.stderr.contains("set aside 6 files"), "{}", run.stderr);
    let listings = s3.requests().iter().filter(|line| line.contains('?')).count();
    assert!(listings < 80, "{listings}");
}

#[test]
fn a_busy_store_is_asked_again() {
    let (s3, place) = (job(), Place::new());
    s3.fails(Fault::Busy(3));
    let run = ingest(&s3, &place);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn broken_connections_and_slow_answers_lose_nothing() {
    let (s3, broken, slow, whole) = (job(), Place::new(), Place::new(), Place::new());
    ingest(&s3, &whole).done();
    s3.fails(Fault::Cut(6, 1000));
    assert_eq!(ingest(&s3, &broken).code, 0);
    s3.fails(Fault::Slow);
    assert_eq!(ingest(&s3, &slow).code, 0);
    let sums = "SELECT sha256 FROM sources ORDER BY ALL";
    assert_eq!(broken.lines(sums), whole.lines(sums));
    assert_eq!(slow.lines(sums), whole.lines(sums));
    let events = "SELECT count(*), sum(ts_ns) FROM device_events";
    assert_eq!(broken.lines(events), whole.lines(events));
}

/// Where a store says no version of an object, nobody else asks again for what broke off.
#[test]
fn a_store_without_versions_is_read_on_from_where_it_broke_off() {
    let (s3, whole, broken) = (job(), Place::new(), Place::new());
    s3.put("job/rank0.json", step_of_rank(0, 2, 400, 1200) + &" ".repeat(3_000_000));
    ingest(&s3, &whole).done();
    s3.says_no_versions();
    s3.fails(Fault::Cut(8, 400_000));
    let run = ingest(&s3, &broken);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sums = "SELECT sha256 FROM sources ORDER BY ALL";
    assert_eq!(broken.lines(sums), whole.lines(sums));
    // Of a store that breaks off five times before a mebibyte has come nothing is read.
    s3.fails(Fault::Cut(usize::MAX, 100_000));
    let run = ingest(&s3, &Place::new());
    assert_eq!(run.errors(), ["file-unreadable"], "{}", run.stderr);
    assert!(run.stderr.contains("s3://traces/job/rank0.json"), "{}", run.stderr);
}

#[test]
fn an_object_that_changes_while_it_is_read_is_an_error() {
    let (s3, place) = (job(), Place::new());
    // Larger than what is looked at first: then it is read by one request for all of it.
    let large = step_of_rank(0, 2, 400, 1200) + &" ".repeat(100_000);
    s3.put("job/rank0.json", large);
    s3.fails(Fault::Replaced(step_of_rank(0, 2, 500, 1300).into_bytes()));
    let run = ingest(&s3, &place);
    assert_eq!(run.errors(), ["file-changed"], "{}", run.stderr);
    assert!(run.stderr.contains("s3://traces/job/rank0.json"), "{}", run.stderr);
    // Then it is as it is now.
    assert_eq!(ingest(&s3, &place).code, 0);
    assert_eq!(place.lines("SELECT count(*) FROM sources"), ["2"]);
}

#[test]
fn a_refusal_says_what_to_do_and_no_secret() {
    let (s3, place) = (job(), Place::new());
    let run = s3.run(&place, &["ingest", "s3://elsewhere/job"]);
    assert_eq!(run.errors(), ["file-unreadable"], "{}", run.stderr);
    let run = s3.run(&place, &["ingest", "s3://traces/nothing"]);
    assert!(run.stderr.contains("there is nothing under that URL"), "{}", run.stderr);
    let run = s3.run(&place, &["ingest", "s3://me:SECRETTEST@traces/job"]);
    assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{}", run.stderr);
    s3.fails(Fault::Denied);
    let run = ingest(&s3, &place);
    assert!(run.stderr.contains("access is denied"), "{}", run.stderr);
    assert!(run.stderr.contains("AWS_ACCESS_KEY_ID"), "{}", run.stderr);
    assert!(!place.data().join("trace=job").exists());
}

#[test]
fn without_a_home_the_cache_has_to_be_named() {
    let (s3, place) = (job(), Place::new());
    let list = |words: &[&str]| {
        let mut command = s3.command(&place.input());
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
        Run::of(command.args(["--data", "s3://traces/lake", "list", "traces"]).args(words))
    };
    let run = list(&[]);
    assert_eq!(run.errors(), ["usage"], "{}", run.stderr);
    assert!(run.stderr.contains("name one with --cache-dir DIR"), "{}", run.stderr);
    assert_eq!(list(&["--cache-dir", "../cache"]).code, 0);
}

#[test]
fn what_is_verified_lies_on_a_disk() {
    let (s3, place) = (job(), Place::new());
    ingest(&s3, &place).done();
    let run = s3.run(&place, &["verify", "--trace", "job"]);
    assert_eq!(run.errors(), ["file-unreadable"], "{}", run.stderr);
    assert!(run.stderr.contains("copy them to a disk, and ingest the copies"), "{}", run.stderr);
}

#[test]
fn nothing_of_the_credentials_is_kept() {
    let (s3, place) = (job(), Place::new());
    ingest(&s3, &place).done();
    for file in files(&place.data()) {
        let bytes = std::fs::read(&file).expect("a file");
        for secret in ["SECRETTEST", "AKIDTEST"] {
            let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "{secret} in {}", file.display());
        }
    }
}

/// The card lies beside more files than a page of a listing holds, and beside keys that are no
/// paths.
#[test]
fn a_card_is_found_beside_anything() {
    for odd in [None, Some("runs/a//b.json"), Some("runs//rank0.json")] {
        let job = "runs/profile_traces/iteration_10";
        let (s3, place) = (S3::start(), Place::new());
        for rank in 0..2 {
            s3.put(&format!("{job}/rank{rank}.json"), step_of_rank(rank, 2, 400, 1200));
        }
        (0..1200).for_each(|n| _ = s3.put(&format!("runs/notes-{n:04}.md"), ""));
        s3.put("runs/workload_card.yaml", "workload: {model: {model_family: mine}}\n");
        odd.iter().for_each(|key| _ = s3.put(key, "{}"));
        let run = s3.run(&place, &["ingest", &format!("s3://traces/{job}")]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(place.lines("SELECT model FROM configuration"), ["mine"], "{odd:?}");
    }
}

#[test]
fn a_card_in_a_store_is_a_small_object() {
    let (s3, place) = (job(), Place::new());
    s3.put("large.yaml", "#".repeat((1 << 20) + 1)).put("cards/card.yaml", "workload: {}\n");
    for (card, why) in [
        ("s3://traces/large.yaml", "it is larger than 1024 KiB"),
        ("s3://traces/cards", "it is a prefix of objects"),
        ("s3://traces/none.yaml", "there is no such object"),
    ] {
        let run = s3.run(&place, &["ingest", "s3://traces/job", "--card", card]);
        assert_eq!(run.errors(), ["card-invalid"], "{}", run.stderr);
        assert!(run.stderr.contains(why) && run.stderr.contains(card), "{}", run.stderr);
    }
}
