//! A kill, a changed file or an odd folder leaves nothing behind that a clean ingest would
//! not have made. The slow ones (full disks, bad disks, kills by the hundred) are in
//! `tests/faults/run.py`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ccl_sql::schema::TABLES;
use serde_json::Value;

use crate::cli::shown::rank_file;
use crate::support::runs::step_of_rank;
use crate::support::{Csv, Place, Run, Tables, example, files, program};

/// Names of the ranks of the job below.
const RANKS: [&str; 4] = ["rank0", "rank1", "rank2", "rank3"];

/// The trace of a rank of the example.
fn trace(rank: &str) -> Vec<u8> {
    let folder = example("llama-tiny-fsdp2-tp2-4");
    std::fs::read(folder.join(format!("{rank}_trace.json"))).expect("the example is there")
}

/// The example of four ranks, in the folder `job`.
fn job() -> Place {
    let place = Place::new();
    for rank in RANKS {
        place.write(&format!("job/{rank}_trace.json"), trace(rank));
    }
    place
}

/// The example, ingested.
fn ingested() -> Place {
    let place = job();
    place.run(&["ingest", "job"]).done();
    place
}

/// A rank of the job with other durations, as another run would have.
fn changed(rank: &str) -> Vec<u8> {
    let text = String::from_utf8(trace(rank)).expect("the example is UTF-8");
    let other = text.replace("\"dur\":11", "\"dur\":12");
    assert_ne!(text, other);
    other.into_bytes()
}

/// Rows of every table that one of two traces has and the other has not.
fn differences(data: &Path, one: &str, other: &str) -> Vec<String> {
    let tables = Tables::open(data);
    let rows = |table: &str, from: &str, to: &str| {
        let of =
            |trace: &str| format!("SELECT * EXCLUDE (trace) FROM {table} WHERE trace = '{trace}'");
        tables.int(&format!("SELECT count(*) FROM ({} EXCEPT ALL {})", of(from), of(to)))
    };
    TABLES
        .iter()
        .map(|t| (t.name, rows(t.name, one, other), rows(t.name, other, one)))
        .filter(|(_, more, less)| (*more, *less) != (0, 0))
        .map(|(name, more, less)| format!("{name}: {more} rows more, {less} less"))
        .collect()
}

/// Ingests the folder again, and says how many ranks were read; checks that every table is that of
/// a fresh ingest.
fn again(place: &Place, folder: &str) -> usize {
    let run = place.run(&["ingest", folder]);
    let read = ranks_read(&run);
    assert_like_fresh(place, folder);
    read
}

fn assert_like_fresh(place: &Place, folder: &str) {
    place.run(&["ingest", folder, "--name", "fresh", "--force"]).done();
    let name = folder.rsplit('/').next().unwrap_or(folder);
    assert_eq!(differences(&place.data(), name, "fresh"), [""; 0]);
    let ids = "SELECT count(*) - count(DISTINCT (trace, event_id)) FROM events";
    assert_eq!(Tables::open(&place.data()).int(ids), 0, "the ids of events are unique");
    assert_eq!(left(&place.data()), [""; 0]);
}

/// Files and folders of a data directory besides traces.
pub fn left(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data).expect("it can be listed");
    let names = entries.map(|e| e.expect("it can be listed").file_name());
    names.map(|n| n.to_string_lossy().into_owned()).filter(|n| !n.starts_with("trace=")).collect()
}

/// The ranks that the summary says were read.
fn ranks_read(run: &Run) -> usize {
    assert_eq!(run.code, 0, "{}", run.stderr);
    if run.stderr.contains(": unchanged, ") {
        return 0;
    }
    let (before, _) = run.stderr.split_once(" rank").expect("a summary says the ranks");
    let all = before.rsplit(' ').next().expect("a number");
    let read = run.stderr.split_once(" read)").and_then(|(before, _)| before.rsplit('(').next());
    read.unwrap_or(all).parse().expect("a number")
}

#[test]
fn a_changed_rank_is_read_alone() {
    let place = ingested();
    place.write("job/rank2_trace.json", changed("rank2"));
    assert_eq!(again(&place, "job"), 1);
}

/// Ranks are looked at some at a time: with cores and memory for it, side by side.
#[test]
fn parts_side_by_side_say_the_same() {
    let place = Place::new();
    for rank in 0..260 {
        place.write(&format!("job/rank{rank}_trace.json"), rank_file(rank, 260, rank % 3));
    }
    let ingest = |name: &str, jobs: &str| {
        let wide = ["--jobs", jobs, "--memory-limit", "1GB", "--force"];
        place.run(&[&["ingest", "job", "--name", name], &wide[..]].concat()).done();
        place.data().join(format!("trace={name}/collectives"))
    };
    let (one, three) = (ingest("one", "1"), ingest("three", "3"));
    assert_eq!(differences(&place.data(), "one", "three"), [""; 0]);
    let parts = |folder: &Path| std::fs::read_dir(folder).expect("it has parts").count();
    assert_eq!(parts(&one), parts(&three));
    let made = one.with_file_name("busy_intervals");
    assert_eq!(parts(&made), 3, "260 ranks are 128, 128 and 4");

    // Files of many ranks, none of which has changed, stay.
    let inodes = || -> BTreeMap<PathBuf, u64> {
        let of = |file: PathBuf| {
            let inode = file.metadata().expect("it is there").ino();
            (file, inode)
        };
        files(&one.with_file_name("device_events")).into_iter().map(of).collect()
    };
    let before = inodes();
    place.write("job/rank70_trace.json", rank_file(70, 260, 5));
    place.run(&["ingest", "job", "--name", "one", "--jobs", "1"]).done();
    let after = inodes();
    let stayed = before.iter().filter(|(file, inode)| after.get(*file) == Some(*inode)).count();
    assert_eq!((before.len(), after.len(), stayed), (5, 5, 4), "64 ranks each, and 4");
}

#[test]
fn a_rank_that_is_removed_is_gone() {
    let place = ingested();
    std::fs::remove_file(place.input().join("job/rank1_trace.json")).expect("it is there");
    assert_eq!(place.run(&["ingest", "job"]).code, 0);
    let ranks = "SELECT count(*) FROM ranks WHERE trace = 'job'";
    assert_eq!(Tables::open(&place.data()).int(ranks), 3);
    assert_eq!(differences_but_ids(&place, "job"), [""; 0]);
    // Back again: the number of its file is free, and so are its events.
    place.write("job/rank1_trace.json", trace("rank1"));
    assert_eq!(again(&place, "job"), 1);
}

/// Differences from a fresh ingest, besides the numbers of files: those that stay keep theirs.
fn differences_but_ids(place: &Place, name: &str) -> Vec<String> {
    place.run(&["ingest", name, "--name", "fresh", "--force"]).done();
    let tables = Tables::open(&place.data());
    let mut out = Vec::new();
    for table in TABLES {
        let ids: Vec<&str> =
            table.columns.iter().map(|c| c.name).filter(|c| c.ends_with("_id")).collect();
        let of = |trace: &str| {
            let without = [&["trace"], &ids[..]].concat().join(", ");
            format!("SELECT * EXCLUDE ({without}) FROM {} WHERE trace = '{trace}'", table.name)
        };
        for (one, other) in [(name, "fresh"), ("fresh", name)] {
            let sql = format!("SELECT count(*) FROM ({} EXCEPT ALL {})", of(one), of(other));
            let rows = tables.int(&sql);
            if rows > 0 {
                out.push(format!("{}: {rows} rows of {one}", table.name));
            }
        }
    }
    out
}

#[test]
fn a_rank_that_is_added_is_read_alone() {
    let place = job();
    let aside = place.input().join("aside");
    let file = place.input().join("job/rank3_trace.json");
    std::fs::rename(&file, &aside).expect("it is there");
    place.run(&["ingest", "job"]).done();
    std::fs::rename(&aside, &file).expect("it is there");
    assert_eq!(again(&place, "job"), 1);
}

#[test]
fn a_changed_card_reads_no_rank() {
    let place = ingested();
    let card = |batch: u32| {
        format!("workload:\n  model:\n    phase: training\n  data:\n    batch_size: {batch}\n")
    };
    for batch in [4, 16] {
        place.write("job/workload_card.yaml", card(batch));
        assert_eq!(again(&place, "job"), 0);
        let size = "SELECT max(batch_size) FROM cards WHERE trace = 'job'";
        assert_eq!(Tables::open(&place.data()).int(size), i64::from(batch));
    }
}

/// Makes a trace one that other readers read: by its manifest, its records, or both.
pub fn by_other_readers(place: &Place, files: &[&str]) {
    for file in files {
        let path = place.data().join("trace=job").join(file);
        let text = std::fs::read_to_string(&path).expect("the file is there");
        let mut told: Value = serde_json::from_str(&text).expect("JSON");
        match &mut told {
            Value::Array(records) => {
                assert!(!records.is_empty());
                records.iter_mut().for_each(|record| record["reader_version"] = 0.into());
            }
            manifest => manifest["reader_version"] = 0.into(),
        }
        std::fs::write(&path, told.to_string()).expect("written");
    }
}

/// The program of another version may read other rows from the same bytes.
#[test]
fn what_other_readers_made_is_read_again() {
    let place = ingested();
    by_other_readers(&place, &["manifest.json", "records.json"]);
    assert_eq!(again(&place, "job"), 4);
    assert_eq!(again(&place, "job"), 0);
    // What is known of each file is by itself enough to read it: one that changed brings all.
    by_other_readers(&place, &["records.json"]);
    place.write("job/rank2_trace.json", changed("rank2"));
    assert_eq!(again(&place, "job"), 4);
}

#[test]
fn a_renamed_folder_is_the_same_trace() {
    let place = ingested();
    let input = place.input();
    std::fs::rename(input.join("job"), input.join("moved")).expect("it is there");
    assert_eq!(ranks_read(&place.run(&["ingest", "moved"])), 0);
    place.run(&["ingest", "moved", "--name", "fresh", "--force"]).done();
    assert_eq!(differences(&place.data(), "job", "fresh"), [""; 0]);
    assert_eq!(Tables::open(&place.data()).int("SELECT count(DISTINCT trace) FROM ranks"), 2);
    assert_eq!(left(&place.data()), [""; 0]);
}

#[test]
fn a_second_window_of_a_rank_counts_too() {
    let window = |rank: i64, start: i64| {
        format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[
{{"ph":"X","cat":"cpu_op","name":"op","pid":9,"tid":9,"ts":{start},"dur":9}},
{{"ph":"X","cat":"kernel","name":"k","pid":{rank},"tid":7,"ts":{start},"dur":9,"args":{{"device":0,"stream":7}}}}
]}}
"#
        )
    };
    let place = Place::new();
    place.write("job/h0.1.json", window(0, 1000)).write("job/h1.1.json", window(1, 1000));
    place.run(&["ingest", "job"]).done();
    place.write("job/h0.2.json", window(0, 2000));
    assert_eq!(ranks_read(&place.run(&["ingest", "job"])), 1);
    assert_eq!(differences_but_ids(&place, "job"), [""; 0]);
    let kernels = "SELECT count(*) FROM device_events WHERE trace = 'job'";
    assert_eq!(Tables::open(&place.data()).int(kernels), 3);
}

#[test]
fn halves_of_two_jobs_are_a_job_of_their_own() {
    let rank = |job: i64, rank: i64| {
        format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[
{{"ph":"X","cat":"kernel","name":"of_job_{job}","pid":{rank},"tid":7,"ts":{job}00,"dur":9,"args":{{"device":0,"stream":7}}}}
]}}
"#
        )
    };
    let place = Place::new();
    for (job, name) in [(1, "a"), (2, "b")] {
        for r in 0..2 {
            place.write(&format!("job/{name}_rank{r}.json"), rank(job, r));
        }
    }
    place.run(&["ingest", "job"]).done();
    for gone in ["a_rank1", "b_rank0"] {
        std::fs::remove_file(place.input().join(format!("job/{gone}.json"))).expect("it is there");
    }
    place.run(&["ingest", "job"]).done();
    let query = "SELECT rank, name FROM device_events WHERE trace = 'job' ORDER BY rank";
    let expected = Csv::parse("rank,name\n0,of_job_1\n1,of_job_2\n");
    assert_eq!(place.query(query), expected);
    let busy = "SELECT count(DISTINCT start_ns) FROM busy_intervals WHERE trace = 'job'";
    assert_eq!(Tables::open(&place.data()).int(busy), 2);
}

/// Starts an ingest and kills it as soon as `moment` says so; false when it was through before.
fn killed(place: &Place, moment: impl Fn() -> bool) -> bool {
    let mut child = Command::new(program())
        .args(["--data", "../data", "ingest", "job", "-q"])
        .current_dir(place.input())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let through = loop {
        if child.try_wait().expect("it is a child").is_some() {
            break true;
        }
        if moment() {
            break false;
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    !through
}

/// Folders of files that were read whole.
fn spools(data: &Path) -> Vec<PathBuf> {
    if !data.exists() {
        return Vec::new();
    }
    let walk = walkdir::WalkDir::new(data).min_depth(3).max_depth(3).into_iter().flatten();
    let records = walk.map(walkdir::DirEntry::into_path).filter(|p| p.ends_with("records.json"));
    records.filter(|p| p.to_string_lossy().contains("spool-")).collect()
}

/// A job whose ingest was killed, and the number of its files that were read whole.
fn interrupted() -> (Place, usize) {
    let place = job();
    // A rank that takes long: the others are whole before it is.
    let event =
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},";
    let long = String::from_utf8(trace("rank0")).expect("UTF-8");
    let list = long.find("\"traceEvents\"").expect("the list of events");
    let first = list + long[list..].find('[').expect("the list of events") + 1;
    let (before, after) = long.split_at(first);
    place.write("job/rank0_trace.json", [before, &event.repeat(150_000), after].concat());
    let data = place.data();
    assert!(killed(&place, || spools(&data).len() >= 2), "the ingest was through too soon");
    let whole = spools(&data).len();
    assert!(whole >= 2, "{whole} files are left");
    assert!(!data.join("trace=job").exists(), "half of a trace");
    (place, whole)
}

#[test]
fn an_interrupted_ingest_goes_on_where_it_was() {
    let (place, whole) = interrupted();
    let run = place.run(&["ingest", "job"]);
    assert_eq!(ranks_read(&run), 4 - whole);
    assert_like_fresh(&place, "job");
}

/// What was read waits for an ingest of its job. Of a file that is another one by then it goes.
#[test]
fn what_was_read_of_a_file_that_changed_is_removed() {
    let (place, whole) = interrupted();
    place.write("other/rank0.json", step_of_rank(0, 1, 400, 1200));
    place.run(&["ingest", "other"]).done();
    assert_eq!(spools(&place.data()).len(), whole);
    for rank in 0..4 {
        let file = format!("job/rank{rank}_trace.json");
        let text = std::fs::read_to_string(place.input().join(&file)).expect("it is there");
        place.write(&file, text + "\n");
    }
    let run = place.run(&["ingest", "job"]);
    assert_eq!(ranks_read(&run), 4);
    assert_eq!(left(&place.data()), [""; 0]);
    assert_like_fresh(&place, "job");
}

#[test]
fn a_kill_leaves_the_trace_of_before_or_a_whole_one() {
    let place = ingested();
    let metric = ["metric", "coll_call_num", "--trace", "job", "--format", "value", "-q"];
    let before = place.run(&metric).done();
    let mut text = String::from_utf8(trace("rank2")).expect("UTF-8");
    for milliseconds in [5, 20, 60, 120, 250] {
        text.push('\n');
        place.write("job/rank2_trace.json", &text);
        let started = std::time::Instant::now();
        killed(&place, || started.elapsed() >= Duration::from_millis(milliseconds));
        assert_eq!(place.run(&metric).done(), before, "killed after {milliseconds} ms");
    }
    place.run(&["ingest", "job"]).done();
    assert_like_fresh(&place, "job");
}

#[test]
fn folders_of_work_without_a_lock_are_removed() {
    let place = ingested();
    std::fs::create_dir_all(place.data().join(".tmp-1-0/trace=job")).expect("a folder");
    assert!(place.run(&["ingest", "job"]).stderr.contains("unchanged"));
    assert_eq!(left(&place.data()), [""; 0]);
}

#[test]
fn a_trace_that_was_moved_aside_is_put_back() {
    let place = ingested();
    let metric = ["metric", "coll_call_num", "--trace", "job", "--format", "value", "-q"];
    let before = place.run(&metric).done();
    // As a kill leaves it where the file system cannot exchange two names.
    let aside = place.data().join(".tmp-1-0/made-0");
    std::fs::create_dir_all(&aside).expect("folders");
    std::fs::rename(place.data().join("trace=job"), aside.join("before=job")).expect("renamed");
    assert!(place.run(&["ingest", "job"]).stderr.contains("unchanged"));
    assert_eq!(place.run(&metric).done(), before);
    assert_eq!(left(&place.data()), [""; 0]);
    // One that took its place stays.
    std::fs::create_dir_all(aside.join("before=job/old")).expect("folders");
    assert!(place.run(&["ingest", "job"]).stderr.contains("unchanged"));
    assert_eq!(left(&place.data()), [""; 0]);
    assert_eq!(place.run(&metric).done(), before);
}

#[test]
fn a_rename_leaves_nothing_beside_the_manifest() {
    let place = ingested();
    place.run(&["rename", "job", "kept"]).done();
    let trace = std::fs::read_dir(place.data().join("trace=kept")).expect("a folder");
    let names = trace.map(|entry| entry.expect("listed").file_name());
    assert!(names.into_iter().all(|name| !name.as_encoded_bytes().starts_with(b".")));
    assert_eq!(left(&place.data()), [""; 0]);
}

#[test]
fn pipes_and_circles_of_links_are_no_traces() {
    use rustix::fs::{CWD, Mode};
    let place = job();
    let folder = place.input().join("job");
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, folder.join(name)).expect("a link can be made");
    };
    link(&folder, "loop");
    link(Path::new("self"), "self");
    link(Path::new("nowhere"), "gone.txt");
    for name in ["x.json", "cards.yaml"] {
        rustix::fs::mkfifoat(CWD, folder.join(name), Mode::RUSR | Mode::WUSR).expect("a pipe");
    }
    std::fs::create_dir(folder.join("y.json")).expect("a folder");
    assert_eq!(ranks_read(&place.run(&["ingest", "job"])), 4);
    assert!(place.run(&["ingest", "job"]).stderr.contains("unchanged"));
    let run = place.run(&["ingest", "job/x.json"]);
    assert_eq!((run.code, run.errors()), (1, vec!["file-unreadable"]), "{}", run.stderr);
    // The file of a rank that is missing is missed.
    link(Path::new("nowhere"), "rank4_trace.json");
    let run = place.run(&["ingest", "job"]);
    assert_eq!((run.code, run.errors()), (1, vec!["file-unreadable"]), "{}", run.stderr);
}

#[test]
fn a_file_in_place_of_the_data_directory_stays() {
    let place = job();
    std::fs::write(place.data(), "mine").expect("it can be written");
    let run = place.run(&["ingest", "job"]);
    assert_eq!((run.code, run.errors()), (1, vec!["io"]), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(place.data()).expect("it is there"), "mine");
}

#[test]
fn a_data_directory_that_is_no_utf_8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let place = job();
    let mut command = crate::support::command(&place.input());
    command.arg("--data").arg(std::ffi::OsStr::from_bytes(b"caf\xe9")).args(["ingest", "job"]);
    let run = Run::of(&mut command);
    assert_eq!((run.code, run.errors()), (1, vec!["io"]), "{}", run.stderr);
    for part in ["the path of the data directory is no UTF-8", "give another folder with --data"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn names_that_are_no_utf_8_are_found_again() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let folder = place.input().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).expect("a folder");
    for rank in RANKS {
        let name = [b"\xff_", rank.as_bytes(), b".json"].concat();
        std::fs::write(folder.join(OsStr::from_bytes(&name)), trace(rank)).expect("written");
    }
    assert_eq!(ranks_read(&place.run(&["ingest", "."])), 4);
    assert!(place.run(&["ingest", "."]).stderr.contains("unchanged"));
    let name = OsStr::from_bytes(b"\xff_rank1.json");
    std::fs::write(folder.join(name), changed("rank1")).expect("written");
    assert_eq!(ranks_read(&place.run(&["ingest", "."])), 1);
}

#[test]
fn a_damaged_trace_is_refused_and_ingested_anew() {
    let metric = ["metric", "coll_call_num", "--trace", "job", "--format", "value", "-q"];
    let place = ingested();
    let value = place.run(&metric).done();
    let parquet = files(&place.data().join("trace=job"))
        .into_iter()
        .find(|f| f.to_string_lossy().contains("device_events/"))
        .expect("there are device events");
    let cut = |name: &str| {
        let path = place.data().join("trace=job").join(name);
        let bytes = std::fs::read(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it can be removed");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("it can be written");
    };
    // The records only spare reading.
    cut("records.json");
    assert_eq!(place.run(&metric).done(), value);
    place.write("job/rank2_trace.json", [trace("rank2"), b"\n".to_vec()].concat());
    assert_eq!(again(&place, "job"), 4);
    let damages: [&dyn Fn(); 2] =
        [&|| cut("manifest.json"), &|| std::fs::remove_file(&parquet).expect("it is there")];
    for damage in damages {
        damage();
        let sql = ["sql", "SELECT count(*) FROM device_events"];
        for args in [&metric[..], &[&sql[..], &["--trace", "job"]].concat()] {
            let run = place.run(args);
            assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]), "{}", run.stderr);
        }
        // What is known of it is shown, unless the manifest is what broke.
        let shown = place.run(&["show", "job", "--format", "json"]);
        let is_known = shown.code == 0 && shown.stdout.contains("\"unusable\": \"device_events/");
        assert!(is_known || shown.errors() == ["trace-unknown"], "{}", shown.stdout);
        assert_eq!(is_known, !parquet.exists(), "{}", shown.stderr);
        // Of all traces it is left out, and said.
        let run = place.run(&sql);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.starts_with("warning[trace-unknown]"), "{}", run.stderr);
        assert_eq!(ranks_read(&place.run(&["ingest", "job"])), 4);
        assert_eq!(place.run(&metric).done(), value);
    }
}

#[test]
fn two_ingests_at_once_leave_one_whole_trace() {
    let place = job();
    let start = || {
        Command::new(program())
            .args(["--data", "../data", "ingest", "job", "-q"])
            .current_dir(place.input())
            .spawn()
            .expect("the program can be started")
    };
    for _ in 0..2 {
        let both = [start(), start()];
        for mut child in both {
            assert!(child.wait().expect("it ends").success());
        }
        place.write("job/rank2_trace.json", changed("rank2"));
    }
    place.run(&["ingest", "job"]).done();
    assert_like_fresh(&place, "job");
}

#[test]
fn a_trace_of_another_version_is_ingested_again_and_not_answered_from() {
    let place = ingested();
    let manifest = place.data().join("trace=job/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("the manifest is there");
    let now = format!("\"schema_version\": {}", ccl_sql::schema::SCHEMA_VERSION);
    assert!(text.contains(&now), "{text}");
    std::fs::write(&manifest, text.replace(&now, "\"schema_version\": 1"))
        .expect("it can be written");
    for command in [&["metric", "coll_call_num"][..], &["sql", "SELECT 1"]] {
        let run = place.run(command);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
        assert!(run.stderr.contains("error[trace-unknown]"), "{}", run.stderr);
        assert!(run.stderr.contains("ingest it again"), "{}", run.stderr);
    }
    place.run(&["ingest", "job"]).done();
    place.run(&["metric", "coll_call_num"]).done();
}
