//! Objects make the same tables as files.

use std::path::Path;

use crate::readers::nsys;
use crate::support::s3::S3;
use crate::support::{Place, STEPS, examples, files, gzip};

/// The tables that hold paths.
const WITH_PATHS: [&str; 3] = ["cards", "ingest_log", "sources"];

/// Fails where two data directories are not of the same bytes but for the root of the paths.
pub fn assert_same(of_objects: &Place, of_files: &Place, url: &str, folder: &Path) {
    let parquet = |place: &Place| -> Vec<std::path::PathBuf> {
        let data = place.data();
        let all =
            files(&data).into_iter().filter(|f| f.extension().is_some_and(|e| e == "parquet"));
        all.map(|f| f.strip_prefix(&data).expect("it lies there").to_owned()).collect()
    };
    let names = parquet(of_files);
    assert!(!names.is_empty());
    assert_eq!(parquet(of_objects), names);
    for name in names {
        let read = |place: &Place| std::fs::read(place.data().join(&name)).expect("a file");
        let has_paths = name.iter().nth(1).is_some_and(|t| WITH_PATHS.iter().any(|w| t == *w));
        assert!(has_paths || read(of_objects) == read(of_files), "{}", name.display());
    }
    let folder = folder.to_str().expect("it is UTF-8");
    for table in WITH_PATHS {
        let rows = |place: &Place, root: &str| -> Vec<String> {
            let rows = place.lines(&format!("SELECT * FROM {table} ORDER BY ALL"));
            let mut rows: Vec<_> = rows.iter().map(|row| row.replace(root, "[ROOT]")).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(of_objects, url), rows(of_files, folder), "{table}");
    }
}

#[test]
fn all_examples_are_the_same() {
    let (s3, of_objects, of_files) = (S3::start(), Place::new(), Place::new());
    s3.put_all(&examples(), "all/of them");
    // What programs make for folders, and what is hidden.
    s3.put("all/of them/", "").put("all/of them/jax-cpu-8dev/", "");
    s3.put("all/of them/.cache/rank7.json", "{}").put("all/of them-2/rank7.json", "{}");
    let run = s3.run(&of_objects, &["ingest", "s3://traces/all/of them/"]);
    let local = of_files.run(&["ingest", &examples().to_string_lossy()]);
    assert_eq!((run.code, local.code), (0, 0), "{}", run.stderr);
    let ends = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" in ").next().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(ends(&run.stderr), ends(&local.stderr));
    assert_same(&of_objects, &of_files, "s3://traces/all/of them", &examples());
}

#[test]
fn archives_packed_files_and_exports_in_folders_are_the_same() {
    let (s3, of_objects, of_files) = (S3::start(), Place::new(), Place::new());
    let rank = |n: i64| crate::support::runs::step_of_rank(n, 2, 400, 1200);
    of_files.write("in/packed/rank0.json.gz", gzip(rank(0).as_bytes()));
    of_files.write("in/packed/rank1.json", rank(1));
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for n in 0..2 {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(format!("rank{n}.json"), options).expect("a member");
        std::io::Write::write_all(&mut archive, rank(n).as_bytes()).expect("its bytes");
    }
    of_files.write("in/archive.zip", archive.finish().expect("an archive").into_inner());
    of_files.write("in/workload_card.yaml", "workload:\n  model:\n    iteration: 3\n");
    let folder = of_files.input().join("in");
    s3.put_all(&folder, "in");
    s3.run(&of_objects, &["ingest", "s3://traces/in"]).done();
    of_files.run(&["ingest", &folder.to_string_lossy()]).done();
    assert_same(&of_objects, &of_files, "s3://traces/in", &folder);
}

#[test]
fn a_folder_of_nsys_tables_is_the_same() {
    let (s3, of_objects, of_files) = (S3::start(), Place::new(), Place::new());
    nsys::folder(&of_files);
    of_files.write("job_pqtdir/notes.txt", "no table").write("job_pqtdir/.a.parquet", "no table");
    let folder = of_files.input();
    s3.put_all(&folder, "in");
    let of_store = |url: &str| s3.run(&of_objects, &["ingest", url]);
    of_store("s3://traces/in").done();
    of_files.run(&["ingest", &folder.to_string_lossy()]).done();
    assert_same(&of_objects, &of_files, "s3://traces/in", &folder);
    for url in ["s3://traces/in", "s3://traces/in/job_pqtdir"] {
        let again = of_store(url);
        assert!(again.stderr.contains("in: unchanged"), "{}", again.stderr);
    }
    // Another file of it makes it another.
    let strings = std::fs::read(folder.join("job_pqtdir/StringIds.parquet")).expect("a file");
    s3.put("in/job_pqtdir/OTHER.parquet", strings);
    let changed = of_store("s3://traces/in");
    assert!(changed.stderr.contains("in: nsys, 2 ranks, 20001 events"), "{}", changed.stderr);
}

#[test]
fn what_is_unchanged_is_not_read() {
    let (s3, place) = (S3::start(), Place::new());
    for name in ["fsdp2-cpu-2", "jax-cpu-8dev", "ulysses-tiny-nsys-2"] {
        s3.put_all(&crate::support::example(name), &format!("runs/{name}"));
    }
    let ingest = ["ingest", "s3://traces/runs"];
    s3.run(&place, &ingest).done();
    let is_trace = |line: &String| {
        line.starts_with("GET") && [".gz", ".pb", ".sqlite"].iter().any(|end| line.ends_with(end))
    };
    // XLA's other form of the same run is looked at, and left out: its kind is not kept.
    let looked = |line: &&String| !line.ends_with("vm.trace.json.gz");
    assert!(s3.requests().iter().filter(|line| is_trace(line)).count() >= 4);
    let run = s3.run(&place, &ingest);
    assert_eq!(run.stderr.matches("unchanged").count(), 3, "{}", run.stderr);
    let read: Vec<String> = s3.requests().into_iter().filter(is_trace).collect();
    assert_eq!(read.iter().filter(looked).count(), 0, "{read:?}");

    // One that is another is read, and only that.
    let other = std::fs::read(crate::support::example("fsdp2-cpu-2/rank0_trace.json.gz"));
    let other = other.expect("the example is there");
    s3.put("runs/fsdp2-cpu-2/rank1_trace.json.gz", other);
    let run = s3.run(&place, &ingest);
    assert_eq!(run.stderr.matches("unchanged").count(), 2, "{}", run.stderr);
    let read = s3.requests();
    let gets = |name: &str| read.iter().any(|l| l.starts_with("GET") && l.ends_with(name));
    assert!(gets("rank1_trace.json.gz") && !gets("rank0_trace.json.gz"), "{read:?}");
}

#[test]
fn one_object_and_one_path_of_a_question() {
    let (s3, place) = (S3::start(), Place::new());
    s3.put_all(&crate::support::example("fsdp2-cpu-2"), "runs/fsdp2-cpu-2");
    let url = "s3://traces/runs/fsdp2-cpu-2/rank0_trace.json.gz";
    s3.run(&place, &["ingest", url]).done();
    assert_eq!(place.lines("SELECT path FROM sources"), [url]);
    let trace = "s3://traces/runs/fsdp2-cpu-2";
    let run = s3.run(&place, &["metric", "iter_time", "--trace", trace, "--format", "json"]);
    assert!(run.done().contains("fsdp2-cpu-2"));
    // The tables are here: nothing is asked of the store.
    s3.requests();
    s3.run(&place, &["report", "fsdp2-cpu-2"]).done();
    assert_eq!(s3.requests(), [""; 0]);
}

#[test]
fn tasks_of_a_plan_read_objects() {
    let (s3, one, tasks) = (S3::start(), Place::new(), Place::new());
    s3.put_all(&crate::support::example("fsdp2-cpu-2"), "runs/fsdp2-cpu-2");
    let url = "s3://traces/runs/fsdp2-cpu-2";
    s3.run(&one, &["ingest", url]).done();
    s3.run(&tasks, &["plan", url, "-o", "plan"]).done();
    let begin: [&[&str]; 4] =
        [&["read", "plan", "0"], &["read", "plan", "1"], &["layout", "plan"], &["join", "plan"]];
    for task in begin {
        s3.run(&tasks, &[&["task"], task].concat()).done();
    }
    let listing = s3.run(&tasks, &["task", "list", "plan", "--format", "json"]).done();
    let listing: serde_json::Value = serde_json::from_str(&listing).expect("it is JSON");
    let total = listing["total"].as_u64().expect("a number");
    assert_eq!(listing["step"], "derive", "{listing}");
    for n in 0..total {
        s3.run(&tasks, &["task", "derive", "plan", &n.to_string()]).done();
    }
    for step in &STEPS[4..] {
        s3.run(&tasks, &["task", step, "plan"]).done();
    }
    assert_same(&tasks, &one, url, Path::new(url));
}
