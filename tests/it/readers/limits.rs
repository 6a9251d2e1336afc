//! The most that readers take: exactly as much is read, and of one more it is said, or it is left
//! out.

use crate::support::Place;

/// Lists inside each other, so many.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn an_event_of_kineto_has_128_levels() {
    let place = Place::new();
    let event = |name: &str, members: String| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 1, "tid": 7, "ts": 1, "dur": 1, {members}}}"#
        )
    };
    // The event is the first level, its arguments the second.
    let args = |depth: usize| format!(r#""args": {{"stream": 3, "deep": {}}}"#, nested(depth - 2));
    let other =
        |depth: usize| format!(r#""deep": {}, "args": {{"stream": 3, "a": 1}}"#, nested(depth - 1));
    let events = [
        event("as deep", args(128)),
        event("deeper", args(129)),
        event("other as deep", other(128)),
        event("other deeper", other(129)),
    ];
    place.write("job.json", format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")));
    place.run(&["ingest", "job.json"]).done();
    // Arguments that are too deep have no columns; `tid` is the stream then.
    let sql = "SELECT name, stream, left(replace(args, '[', ''), 20) FROM device_events
        ORDER BY name";
    let rows = [
        r#"as deep 3 {"deep":]]]]]]]]]]]]"#,
        r#"deeper 7 {"$text":"{\"stream\"#,
        r#"other as deep 3 {"a":1,"$deep":]]]]]"#,
        r#"other deeper 3 {"a":1,"$deep":"]]]]"#,
    ];
    assert_eq!(place.lines(sql), rows);
    // DuckDB takes all of them for JSON, to the last level.
    let structures = "SELECT count(json_structure(args)) FROM device_events";
    assert_eq!(place.lines(structures), ["4"]);
    let said = "SELECT count FROM ingest_log WHERE code = 'args-too-deep'";
    assert_eq!(place.lines(said), ["2"]);
}

#[test]
fn a_chain_of_nsys_has_512_frames() {
    let place = Place::new();
    // The sample has 513 frames, the innermost first; the last two are named apart.
    place.database(
        "job.sqlite",
        "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.13.2');
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'f'), (511, 'last'), (512, 'beyond');
        CREATE TABLE COMPOSITE_EVENTS (id INTEGER, start INTEGER, cpu INTEGER, globalTid INTEGER);
        INSERT INTO COMPOSITE_EVENTS VALUES (1, 10, 0, 70 << 24 | 70);
        CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER,
            unresolved INTEGER, stackDepth INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 512)
        INSERT INTO SAMPLING_CALLCHAINS SELECT 1, iif(i < 511, 1, i), NULL, NULL, i FROM n;",
    );
    place.run(&["ingest", "job.sqlite"]).done();
    let chain = "SELECT len(f), f[1], f[2] FROM (SELECT from_json(value, '[\"VARCHAR\"]') AS f
        FROM metadata WHERE key LIKE 'call_chain:%')";
    assert_eq!(place.lines(chain), ["512 last f"]);
    let said = "SELECT severity, count FROM ingest_log WHERE code = 'chain-cut'";
    assert_eq!(place.lines(said), ["loss 1"]);
}

#[test]
fn a_folder_of_nsys_has_a_thousand_tables() {
    let place = Place::new();
    let folder = place.input().join("job_pqtdir");
    std::fs::create_dir(&folder).expect("it is ours");
    let connection = duckdb::Connection::open_in_memory().expect("DuckDB starts");
    let file = |name: &str, query: &str| {
        let path = folder.join(format!("{name}.parquet"));
        let copy = format!("COPY ({query}) TO '{}' (FORMAT parquet)", path.display());
        connection.execute_batch(&copy).expect("the file can be written");
        path
    };
    file("META_DATA_EXPORT", "SELECT 'EXPORT_SCHEMA_VERSION' AS name, '3.8.0' AS value");
    file("StringIds", "SELECT 1 AS id, 'gemm' AS value");
    file(
        "NVTX_EVENTS",
        "SELECT 1::BIGINT AS start, 9::BIGINT AS \"end\", 59 AS eventType, 'step 1' AS text,
            (70 * 16777216 + 70)::UBIGINT AS globalTid",
    );
    let other = file("Z0", "SELECT 1 AS x");
    for n in 1..997 {
        std::fs::copy(&other, folder.join(format!("Z{n}.parquet"))).expect("it is ours");
    }
    place.run(&["ingest", "job_pqtdir"]).done();
    assert_eq!(place.lines("SELECT name FROM host_events"), ["step 1"]);
    std::fs::copy(&other, folder.join("Z997.parquet")).expect("it is ours");
    assert_eq!(place.run(&["ingest", "job_pqtdir"]).errors(), ["value-too-large"]);
}

#[test]
fn a_device_has_1024_links() {
    let place = Place::new();
    let samples = [1023, 1024, i64::from(u32::MAX)]
        .map(|link| format!("[1700000000000000, 138, {link}, 3]"))
        .join(",");
    place.file("nvlink_gpu0.bin.json", format!("{{\"samples\": [{samples}]}}").as_bytes());
    place.run(&["ingest", "nvlink_gpu0.bin"]).done();
    let names = place.lines("SELECT name FROM counters ORDER BY name");
    assert_eq!(names, ["nvlink.tx.1023", "nvlink.tx.all"]);
    let said = "SELECT count FROM ingest_log WHERE code = 'nvml-sample'";
    assert_eq!(place.lines(said), ["1"]);
}

#[test]
fn a_request_keeps_a_million_gaps() {
    let most = 1 << 20;
    for (gaps, kept, said) in [(most, most.to_string(), 0), (most + 1, "NULL".to_owned(), 1)] {
        let place = Place::new();
        // Of a second each, but for the last.
        let list = format!("{}0.5", "1,".repeat(gaps - 1));
        let record = format!(
            r#"{{"duration": 2.0, "completed": 1, "total_output_tokens": 6,
                "output_throughput": 3.0, "request_throughput": 1.0, "mean_ttft_ms": 45.0,
                "output_lens": [3], "ttfts": [0.5], "itls": [[{list}]]}}"#
        );
        place.write("a.json", record);
        place.run(&["ingest", "a.json"]).done();
        // The time of the last token is known either way.
        let sql = "SELECT len(itl_ns), latency_ns FROM requests";
        assert_eq!(place.lines(sql), [format!("{kept} {}", gaps as i64 * 1_000_000_000)]);
        let log = "SELECT count(*) FROM ingest_log WHERE code LIKE 'bench%'";
        assert_eq!(place.lines(log), [said.to_string()]);
    }
}
