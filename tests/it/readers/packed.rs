//! Compressed, cut, deep and very large files of Kineto, which are made here, and what joins a
//! trace later.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Cell, Csv, Place, gzip, project};

type Rows = Vec<Vec<Cell>>;

/// The sound trace that compressed ones are made from.
fn plain() -> Vec<u8> {
    std::fs::read(project().join("tests/ingest/kineto/plain/trace.json"))
        .expect("the case is there")
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

/// A zip archive of one trace.
fn zipped() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("rank0.json", zip::write::SimpleFileOptions::default()).expect("memory");
    zip.write_all(&plain()).expect("memory can be written");
    zip.finish().expect("memory can be written").into_inner()
}

#[test]
fn a_zip_that_cannot_be_unpacked_says_why() {
    let whole = zipped();
    let header = memchr::memmem::find(&whole, b"PK\x03\x04").expect("a member");
    let entry = memchr::memmem::find(&whole, b"PK\x01\x02").expect("its entry");
    let changed = |bytes: &[(usize, u8)]| {
        let mut out = whole.clone();
        bytes.iter().for_each(|(at, byte)| out[*at] = *byte);
        out
    };
    let place = Place::new();
    for (name, bytes, said) in [
        ("cut.zip", whole[..whole.len() - 30].to_vec(), "cannot read the zip archive"),
        ("locked.zip", changed(&[(header + 6, 1), (entry + 8, 1)]), "Password required"),
        ("method.zip", changed(&[(header + 8, 97), (entry + 10, 97)]), "method not supported"),
        ("astray.zip", changed(&[(entry + 44, 0xff)]), "cannot open the file"),
    ] {
        place.write(name, bytes);
        let run = place.run(&["ingest", name]);
        assert_eq!((run.code, run.errors()), (1, vec!["file-unreadable"]), "{}", run.stderr);
        assert!(run.stderr.contains(said) && run.stderr.contains(name), "{}", run.stderr);
        let hint = "unpack the archive with another program";
        assert_eq!(run.stderr.contains(hint), name != "cut.zip", "{}", run.stderr);
    }
}

/// A name that is nothing but an ending is a name.
#[test]
fn a_file_of_an_ending_alone_is_read() {
    let place = Place::new();
    place.write(".json", plain()).run(&["ingest", "./.json"]).done();
    assert_eq!(place.lines("SELECT trace FROM sources"), ["json"]);
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
