//! Traces as text, and the tables they become: `tests/ingest/<source>/<case>/`.
//!
//! A case holds the files of a trace (`<name>.sqlite.sql` is a database as statements, and
//! `<name>.xplane.pb.json` a profile of XLA as text, see [`crate::xspace`],
//! `<name>.pickle.json` a memory snapshot, see [`crate::pickles`]; `<name>.bin.json` samples of NVLink, see
//! [`samples`]; `<name>.gz.json` is packed),
//! `<table>.csv` with expected rows (its header picks the columns; also views), or `expected.error` with
//! the codes of the errors, and `command` where the command line is not `ingest . --name <case>`.
//! Compressed and very large files are made here.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::{
    Run, Tables, blessing, files, folders, in_parallel, name, project, run, selected,
};
use crate::tables::{Cell, Csv, differences};
use crate::{pickles, xspace};

type Rows = Vec<Vec<Cell>>;

/// A folder for the files of a trace and a data directory beside it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("in")).expect("a temporary folder");
        Self { folder }
    }

    /// Where the files of the trace lie, and commands run.
    pub fn input(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// Writes a file of the trace.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.input().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("the file can be written");
        self
    }

    /// Makes a database out of statements.
    ///
    /// # Panics
    /// When they fail.
    pub fn database(&self, name: &str, sql: &str) {
        let path = self.input().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        let connection = rusqlite::Connection::open(&path).expect("SQLite starts");
        connection.execute_batch(sql).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    /// Writes a file of a case: a database or a profile that is text becomes what it describes, and
    /// `<name>.gz.json` is packed.
    ///
    /// # Panics
    /// When it does not describe one.
    pub fn file(&self, name: &str, bytes: &[u8]) {
        let text = || std::str::from_utf8(bytes).expect("the case is UTF-8");
        if let Some(database) = name.strip_suffix(".sql") {
            return self.database(database, text());
        }
        match name.strip_suffix(".json") {
            Some(made) if made.ends_with(".xplane.pb") => {
                self.write(made, xspace::encode(text()));
            }
            Some(made) if made.ends_with(".xplane.pb.gz") => {
                self.write(made, gzip(&xspace::encode(text())));
            }
            Some(made) if made.ends_with(".pickle") => {
                self.write(made, pickles::encode(text()));
            }
            Some(made) if made.ends_with(".pickle.gz") => {
                self.write(made, gzip(&pickles::encode(text())));
            }
            Some(made) if made.ends_with(".bin") => {
                self.write(made, samples(text()));
            }
            Some(made) if made.ends_with(".gz") => drop(self.write(made, gzip(bytes))),
            _ => drop(self.write(name, bytes)),
        }
    }

    /// Runs the program in the folder of the files.
    pub fn run(&self, args: &[&str]) -> Run {
        run(&self.input(), &[&["--data", "../data"], args].concat())
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The result of a query.
    ///
    /// # Panics
    /// When the query fails.
    pub fn query(&self, sql: &str) -> Csv {
        Tables::open(&self.data()).query(sql)
    }
}

/// Samples of NVML as text: `{"samples": [[us, field, link, value, return code], ...]}`, with `layout` (version,
/// bytes of a field, bytes of a time) and `cut` (bytes of one more sample) where they are odd.
fn samples(text: &str) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(text).expect("the case is JSON");
    let numbers = |list: &serde_json::Value| -> Vec<i64> {
        let list = list.as_array().expect("a list of numbers");
        list.iter().map(|n| n.as_i64().expect("a number")).collect()
    };
    let layout = value.get("layout").map_or(vec![1, 40, 8], numbers);
    let mut out = b"NVF1".to_vec();
    out.extend(u16::try_from(layout[0]).expect("a version").to_le_bytes());
    out.extend(u16::try_from(layout[1]).expect("a size").to_le_bytes());
    out.extend(i32::try_from(layout[2]).expect("a size").to_le_bytes());
    for sample in value["samples"].as_array().expect("a list of samples") {
        let sample = numbers(sample);
        out.extend(77u64.to_le_bytes());
        out.extend(u32::try_from(sample[1]).expect("a field").to_le_bytes());
        out.extend(u32::try_from(sample[2]).expect("a link").to_le_bytes());
        out.extend(sample[0].to_le_bytes());
        out.extend(0i64.to_le_bytes());
        // An unsigned long long.
        out.extend(3u32.to_le_bytes());
        let code = sample.get(4).copied().unwrap_or_default();
        out.extend(i32::try_from(code).expect("a code").to_le_bytes());
        out.extend(sample[3].to_le_bytes());
    }
    let cut = value.get("cut").and_then(serde_json::Value::as_u64).unwrap_or_default();
    out.extend(vec![0; usize::try_from(cut).expect("a size")]);
    out
}

/// Differences between the expected files of a case and what the program made.
fn failures(case: &Path) -> Vec<String> {
    let place = Place::new();
    let mut expected = BTreeMap::new();
    let mut command = format!("ingest . --name {}", name(case));
    let mut codes = String::new();
    for file in files(case) {
        let bytes = std::fs::read(&file).expect("the case can be read");
        let text = || String::from_utf8(bytes.clone()).expect("expected files are UTF-8");
        match name(&file).as_str() {
            "README.md" => {}
            "command" => command = text(),
            "expected.error" => codes = text(),
            file_name => match file_name.strip_suffix(".csv") {
                Some(table) => drop(expected.insert(table.to_owned(), (file.clone(), text()))),
                None => {
                    let path = file.strip_prefix(case).expect("it lies in the case");
                    place.file(&path.to_string_lossy(), &bytes);
                }
            },
        }
    }
    let run = place.run(&command.split_whitespace().collect::<Vec<_>>());
    let found: String = run.errors().iter().map(|code| format!("{code}\n")).collect();
    if found != codes || (run.code == 0) != codes.is_empty() {
        return vec![format!(
            "{}: expected errors {codes:?}, got exit code {}\n{}{}",
            case.display(),
            run.code,
            run.stdout,
            run.stderr
        )];
    }
    let mut out = Vec::new();
    if expected.is_empty() {
        return out;
    }
    let tables = Tables::open(&place.data());
    for (table, (file, text)) in expected {
        let columns = text.lines().next().unwrap_or("*");
        let actual = match tables.select(&table, columns) {
            Ok(actual) => actual,
            Err(error) => {
                out.push(format!("{}: {error}", file.display()));
                continue;
            }
        };
        let found = match text.is_empty() {
            true => vec!["the file is empty: write the rows, or bless".to_owned()],
            false => differences(&Csv::parse(&text), &Csv::parse(&actual)),
        };
        if blessing() && !found.is_empty() {
            std::fs::write(&file, &actual).expect("the expected file can be written");
        } else {
            out.extend(found.into_iter().map(|f| format!("{}: {f}", file.display())));
        }
    }
    out
}

#[test]
fn every_case_gives_its_tables() {
    let cases: Vec<PathBuf> = folders(&project().join("tests/ingest"))
        .iter()
        .flat_map(|source| folders(source))
        .filter(|case| selected(case))
        .collect();
    let failures = in_parallel(&cases, |case| failures(case));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_case_says_what_it_shows() {
    let sources = ["kineto", "xla", "memory", "bench"].map(|s| format!("tests/ingest/{s}"));
    for case in sources.iter().flat_map(|source| folders(&project().join(source))) {
        let readme = std::fs::read_to_string(case.join("README.md")).unwrap_or_default();
        assert!(readme.trim().len() > 20, "{} has no README.md", case.display());
        let expects = |f: &PathBuf| f.extension().is_some_and(|e| e == "csv" || e == "error");
        assert!(files(&case).iter().any(expects), "{} expects nothing", case.display());
    }
}

/// The sound trace that compressed ones are made from.
fn plain() -> Vec<u8> {
    std::fs::read(project().join("tests/ingest/kineto/plain/trace.json"))
        .expect("the case is there")
}

/// In one member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

/// Names and durations of the host events, and the findings besides the assumed rank.
fn content(place: &Place) -> (Rows, Rows) {
    let events = place.query("SELECT name, ts_ns, dur_ns FROM host_events ORDER BY ts_ns").rows;
    let log = place.query(
        "SELECT code, severity, first_offset FROM ingest_log WHERE code <> 'rank-assumed' ORDER BY code",
    );
    (events, log.rows)
}

fn plain_events() -> Rows {
    Csv::parse("name,ts_ns,dur_ns\none,1000,2000\ntwo,3000,4000\n").rows
}

#[test]
fn gzip_is_told_by_its_bytes_and_read_to_its_last_member() {
    let text = plain();
    let (first, second) = text.split_at(text.len() / 2);
    let members = [gzip(first), gzip(second)].concat();
    for (file, bytes) in
        [("trace.json.gz", gzip(&text)), ("trace.json", gzip(&text)), ("two.json.gz", members)]
    {
        let place = Place::new();
        place.write(file, bytes).run(&["ingest", "."]).done();
        assert_eq!(content(&place), (plain_events(), vec![]), "{file}");
    }
}

#[test]
fn a_zip_holds_traces_like_a_folder() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for rank in 0..2 {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(format!("job/rank{rank}.json"), options).expect("memory can be written");
        let text = String::from_utf8(plain()).expect("the case is UTF-8");
        let header = format!("{{\"distributedInfo\":{{\"rank\":{rank},\"world_size\":2}},");
        zip.write_all(text.replacen('{', &header, 1).as_bytes()).expect("memory can be written");
    }
    let place = Place::new();
    let bytes = zip.finish().expect("memory can be written").into_inner();
    place.write("job.zip", bytes).run(&["ingest", "job.zip"]).done();
    let rows = place.query("SELECT trace, rank, rank_source FROM ranks ORDER BY rank").rows;
    let expected = "trace,rank,rank_source\njob,0,trace\njob,1,trace\n";
    assert_eq!(rows, Csv::parse(expected).rows);
}

#[test]
fn a_gzip_whose_checksum_is_wrong_is_kept_only_on_demand() {
    let mut bytes = gzip(&plain());
    let crc = bytes.len() - 8;
    bytes[crc] ^= 0xff;
    let place = Place::new();
    let run = place.write("trace.json.gz", &bytes).run(&["ingest", "."]);
    assert_eq!((run.code, run.errors()), (1, vec!["gzip-broken"]), "{}", run.stderr);
    place.run(&["ingest", ".", "--keep-partial"]).done();
    let (events, log) = content(&place);
    assert_eq!(events, plain_events());
    assert_eq!(log[0][..2], [Some("gzip-broken".to_owned()), Some("error".to_owned())]);
}

#[test]
fn a_gzip_that_is_cut_keeps_its_complete_events_on_demand() {
    // Stored blocks, so that the cut falls into the second event.
    let text = plain();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(&text).expect("memory can be written");
    let bytes = encoder.finish().expect("memory can be written");
    let cut = &bytes[..bytes.len() - 40];
    let place = Place::new();
    let run = place.write("trace.json.gz", cut).run(&["ingest", "."]);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-truncated"]), "{}", run.stderr);
    place.run(&["ingest", ".", "--keep-partial"]).done();
    let (events, log) = content(&place);
    assert_eq!(events, plain_events()[..1]);
    assert_eq!(log[0][..2], [Some("trace-truncated".to_owned()), Some("error".to_owned())]);
}

#[test]
fn a_gzip_that_is_cut_before_its_first_event_keeps_nothing() {
    let bytes = gzip(&plain());
    let place = Place::new();
    place.write("trace.json.gz", &bytes[..12]);
    for args in [&["ingest", "."][..], &["ingest", ".", "--keep-partial"]] {
        let run = place.run(args);
        assert_eq!((run.code, run.errors()), (1, vec!["trace-truncated"]), "{}", run.stderr);
    }
}

#[test]
fn a_pointer_beside_a_trace_is_a_finding() {
    let place = Place::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    place.write("job/rank0.json", plain()).write("job/rank1.json", pointer);
    place.run(&["ingest", "job"]).done();
    let (_, log) = content(&place);
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0][0].as_deref(), Some("set-aside"));
}

/// A trace with one event whose name and arguments are given.
fn one_event(name: &str, args: &str) -> String {
    format!(
        "{{\"traceEvents\":[{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"{name}\",\"pid\":0,\
         \"tid\":7,\"ts\":1,\"dur\":2,\"args\":{args}}}]}}\n"
    )
}

#[test]
fn deep_nesting_neither_crashes_nor_loses_the_event() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let place = Place::new();
    place.write("trace.json", one_event("k", &deep)).run(&["ingest", "."]).done();
    let found = place.query(
        "SELECT name, dur_ns, json_valid(args) AS valid, length(args) > 40000 AS whole,
             (SELECT count(*) FROM ingest_log WHERE code = 'args-too-deep') AS findings
         FROM device_events",
    );
    let expected = "name,dur_ns,valid,whole,findings\nk,2000,true,true,1\n";
    assert_eq!(found, Csv::parse(expected));
}

#[test]
fn a_name_of_two_million_characters_is_read_whole_and_shown_short() {
    let long = "k".repeat(2_000_000);
    let place = Place::new();
    place.write("trace.json", one_event(&long, "{}")).run(&["ingest", "."]).done();
    let length = place.query("SELECT length(name) AS n, class FROM device_events");
    assert_eq!(length, Csv::parse("n,class\n2000000,compute\n"));
    let shown = place.run(&["sql", "SELECT name FROM device_events"]).done();
    assert!(shown.len() < 1000, "{} bytes in a table", shown.len());
}

#[test]
fn an_execution_trace_that_comes_later_is_linked_and_one_that_goes_is_not() {
    let case = project().join("tests/ingest/et/order_of_threads");
    let read = |name: &str| std::fs::read(case.join(name)).expect("the case can be read");
    let place = Place::new();
    let links = || {
        place.run(&["ingest", ".", "--name", "job", "-q"]).done();
        let found = place.query("SELECT count(*), count(DISTINCT event_id) FROM et_links").rows;
        let kinds = "SELECT count(*) FILTER (coll_source = 'et'), count(*) FROM collectives";
        (found, place.query(kinds).rows)
    };
    let row = |a: &str, b: &str| vec![vec![Some(a.to_owned()), Some(b.to_owned())]];
    place.write("rank0.json", read("rank0.json"));
    assert_eq!(links(), (row("0", "0"), row("0", "2")));
    place.write("torch_et_0.json", read("torch_et_0.json"));
    assert_eq!(links(), (row("3", "3"), row("2", "2")));
    // The same once more, from what is there.
    assert_eq!(links(), (row("3", "3"), row("2", "2")));
    std::fs::remove_file(place.input().join("torch_et_0.json")).expect("it is there");
    assert_eq!(links(), (row("0", "0"), row("0", "2")));
}
