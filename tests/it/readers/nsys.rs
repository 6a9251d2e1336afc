//! Exports of Nsight Systems that tables of expected rows cannot show: damage, locks, secrets,
//! reports, and what a second ingest does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ccl_sql::schema::TABLES;
use rusqlite::Connection;
use zip::write::SimpleFileOptions;

use crate::support::{Place, Run, Tables, command, files, gzip, run};

/// Kernels of two processes, each on its device; the second half of a file that is large enough to
/// lose pages.
const JOB: &str = "
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 10, i * 10 + 5, i % 2, 7, i, (70 + i % 2) << 24, 1 FROM n;
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (1, 100000, 59, 'step 1', 70 << 24 | 70);
";

fn job() -> Place {
    let place = Place::new();
    place.database("job.sqlite", JOB);
    place
}

fn events(place: &Place) -> i64 {
    Tables::open(&place.data()).int("SELECT count(*) FROM events")
}

#[test]
fn a_token_is_nowhere_in_the_tables() {
    let token = "hf_pLaNtEdToKeN0123456789";
    let place = Place::new();
    place.database(
        "job.sqlite",
        &format!(
            "{JOB}
            CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
            INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0'),
                ('EXPORT_USER', '{token}'), ('EXPORT_HOST', '{token}'),
                ('EXPORT_PARAM_INPUT_PATH_ABS', '/home/{token}/x'), ('{token}', '1');
            CREATE TABLE META_DATA_CAPTURE (id INTEGER, name TEXT, value TEXT);
            INSERT INTO META_DATA_CAPTURE VALUES
                (1, 'PROCESS_0:ENVIRONMENT_VARIABLE', 'HF_TOKEN=\"{token}\"'),
                (2, 'PROCESS_0:ENVIRONMENT_VARIABLE', 'NCCL_AUTH_TOKEN=\"{token}\"'),
                (3, 'PROCESS_0:ENVIRONMENT_VARIABLE', 'NCCL_DEBUG=\"INFO\"'),
                (4, 'PROCESS_0:ENVIRONMENT_VARIABLE', 'CUDA_VISIBLE_DEVICES=\"0,1\"'),
                (5, 'PROCESS_0:COMMAND', '/bin/1pLaNtEdCoMmAnD'),
                (6, 'PROCESS_0:ARGUMENT_0', '2pLaNtEdArGuMeNt'),
                (7, 'PROCESS_0:WORKING_DIR', '/home/3pLaNtEdFoLdEr');
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT,
                nameEnum INTEGER, value TEXT);
            INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES
                (0, '', 'DeviceEnvironment', 1, 'PATH=/bin;HF_TOKEN={token};RANK=0'),
                (0, '', 'CpuDescription', 2, 'EPYC'), (0, '', 'TargetInstallDir', 3, '/{token}');
            CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, content TEXT, globalPid INTEGER);
            INSERT INTO ANALYSIS_FILE VALUES (1, '{token}', '{token}', 0);
            INSERT INTO StringIds VALUES (77, '{token}');
            CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
            INSERT INTO ProcessStreams VALUES (0, 77, 77);
            CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
            INSERT INTO DIAGNOSTIC_EVENT VALUES
                (0, 1, 'Process {token} was launched with {token}.'),
                (1, 1, '1pLaNtEdCoMmAnD 2pLaNtEdArGuMeNt in 3pLaNtEdFoLdEr');"
        ),
    );
    place.run(&["ingest", "job.sqlite"]).done();
    let tables = Tables::open(&place.data());
    for table in TABLES {
        let text = tables.select(table.name, "*").expect("the table can be read");
        assert!(!text.contains("pLaNtEd"), "{}: {text}", table.name);
    }
    for file in files(&place.data()) {
        let bytes = std::fs::read(&file).expect("the file can be read");
        let found = bytes.windows(token.len()).any(|w| w == token.as_bytes());
        assert!(!found, "{}", file.display());
    }
    let kept = tables.query("SELECT key, value FROM metadata WHERE key LIKE 'env:%' ORDER BY key");
    let kept: Vec<_> =
        kept.rows.iter().map(|r| r.iter().flatten().cloned().collect::<Vec<_>>()).collect();
    assert_eq!(kept, [["env:CUDA_VISIBLE_DEVICES", "0,1"], ["env:NCCL_DEBUG", "INFO"]]);
    let said = "SELECT message FROM ingest_log WHERE code = 'nsys-diagnostic' ORDER BY message";
    let said = tables.query(said);
    let said: Vec<_> = said.rows.iter().flatten().flatten().collect();
    assert_eq!(said, ["*** *** in ***", "Process *** was launched with ***."]);
}

#[test]
fn the_file_and_its_folder_are_never_written() {
    let place = job();
    let before = std::fs::read(place.input().join("job.sqlite")).expect("it is there");
    let folder = place.input();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).expect("it is ours");
    let run = run(&folder, &["--data", "../data", "ingest", "job.sqlite"]);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("it is ours");
    run.done();
    assert_eq!(files(&folder).len(), 1);
    assert_eq!(std::fs::read(folder.join("job.sqlite")).expect("it is there"), before);
}

#[test]
fn a_second_ingest_reads_what_changed() {
    let place = Place::new();
    place.database("rank0.sqlite", &JOB.replace("i % 2, 7", "0, 7").replace("70 + i % 2", "70"));
    place.database("rank1.sqlite", &JOB.replace("i % 2, 7", "1, 7").replace("70 + i % 2", "71"));
    place.run(&["ingest", "."]).done();
    let again = place.run(&["ingest", "."]);
    assert!(again.stderr.contains("unchanged, 2 ranks"), "{}", again.stderr);
    let connection = Connection::open(place.input().join("rank1.sqlite")).expect("SQLite starts");
    connection.execute_batch("DELETE FROM NVTX_EVENTS").expect("it can be changed");
    drop(connection);
    let changed = place.run(&["ingest", "."]);
    assert!(changed.stderr.contains("2 ranks (1 read), 40001 events"), "{}", changed.stderr);
    let anew = place.run(&["ingest", ".", "--force"]);
    assert!(anew.stderr.contains("nsys, 2 ranks, 40001 events"), "{}", anew.stderr);
    // Other names of steps are other rows.
    let own = place.run(&["ingest", ".", "--step-range", "^step"]);
    assert!(own.stderr.contains("nsys, 2 ranks, 40001 events"), "{}", own.stderr);
    let bad = place.run(&["ingest", ".", "--step-range", "("]);
    assert_eq!(bad.errors(), ["usage"]);
}

/// Of a database that is there packed and unpacked a folder has one trace; who names a file has it.
#[test]
fn a_packed_database_beside_itself_is_read_once() {
    let place = job();
    let bytes = std::fs::read(place.input().join("job.sqlite")).expect("it is there");
    // A file without an ending is no reason to leave a database out.
    place.write("job.sqlite.gz", gzip(&bytes)).write("job", "not the same");
    let said = |args: &[&str]| place.run(&[&["ingest"], args].concat()).stderr;
    let both = said(&[".", "--name", "both"]);
    assert!(both.contains("both: nsys, 2 ranks, 20001 events"), "{both}");
    let read = place.lines("SELECT path FROM sources WHERE trace = 'both'");
    assert!(read.len() == 1 && read[0].ends_with("/job.sqlite"), "{read:?}");
    let packed = said(&["job.sqlite.gz", "--name", "packed"]);
    assert!(packed.contains("packed: nsys, 2 ranks, 20001 events"), "{packed}");
    let read = place.lines("SELECT path FROM sources WHERE trace = 'packed'");
    assert!(read.len() == 1 && read[0].ends_with("job.sqlite.gz"), "{read:?}");
}

/// The codes of the errors of an ingest, with and without `--keep-partial`.
fn outcome(place: &Place) -> (String, Run) {
    let plain = place.run(&["ingest", "job.sqlite"]);
    (plain.errors().join(" "), place.run(&["ingest", "job.sqlite", "--keep-partial"]))
}

#[test]
fn damage_is_an_error_or_a_finding() {
    let place = job();
    let path = place.input().join("job.sqlite");
    let whole = std::fs::read(&path).expect("it is there");
    // Cut in the middle: fewer bytes than the header says.
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("it can be written");
    let (plain, kept) = outcome(&place);
    assert_eq!((plain.as_str(), kept.errors()), ("trace-truncated", vec!["trace-truncated"]));
    // Pages in the middle are lost.
    let mut lost = whole.clone();
    let middle = (whole.len() / 2) & !4095;
    lost[middle..middle + 8192].fill(0xA5);
    std::fs::write(&path, &lost).expect("it can be written");
    let (plain, kept) = outcome(&place);
    assert_eq!((plain.as_str(), kept.code), ("database-corrupt", 0), "{}", kept.stderr);
    assert!(kept.stderr.contains("warning[database-corrupt]"), "{}", kept.stderr);
    // Two pages hold some 300 rows.
    let found = events(&place);
    assert!((19_300..20_001).contains(&found), "{found} events");
    // The schema itself.
    let mut schema = whole.clone();
    schema[100..140].fill(0xFF);
    std::fs::write(&path, &schema).expect("it can be written");
    let (plain, kept) = outcome(&place);
    assert_eq!((plain.as_str(), kept.errors()), ("database-corrupt", vec!["database-corrupt"]));
    // Bytes of the header, one at a time: an answer, never a crash.
    for at in [1, 16, 17, 18, 20, 21, 23, 28, 31, 44, 47, 52, 56, 59] {
        let mut odd = whole.clone();
        odd[at] ^= 0x5A;
        std::fs::write(&path, &odd).expect("it can be written");
        let run = place.run(&["ingest", "job.sqlite", "--force"]);
        assert!(matches!(run.code, 0 | 1), "byte {at}: {}", run.stderr);
    }
    std::fs::write(&path, "").expect("it can be written");
    assert_eq!(outcome(&place).0, "trace-truncated");
    std::fs::write(&path, "no database").expect("it can be written");
    assert_eq!(outcome(&place).0, "not-a-trace");
}

#[test]
fn a_compressed_export_is_told_by_its_bytes() {
    use std::io::Write;
    let place = job();
    let path = place.input().join("job.sqlite");
    let whole = std::fs::read(&path).expect("it is there");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&whole).expect("memory can be written");
    let packed = packed.finish().expect("memory can be written");
    std::fs::write(&path, &packed).expect("it can be written");
    place.run(&["ingest", "job.sqlite"]).done();
    assert_eq!(events(&place), 20_001);
    std::fs::write(&path, &packed[..packed.len() - 9]).expect("it can be written");
    assert_eq!(outcome(&place).0, "trace-truncated");
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("job.sqlite", zip::write::SimpleFileOptions::default()).expect("a member");
    zip.write_all(&whole).expect("memory can be written");
    let zip = zip.finish().expect("memory can be written").into_inner();
    place.write("all.zip", zip);
    std::fs::remove_file(&path).expect("it is ours");
    let run = place.run(&["ingest", "all.zip", "--name", "zipped"]);
    assert!(run.stderr.contains("zipped: nsys, 2 ranks, 20001 events"), "{}", run.stderr);
}

#[test]
fn a_database_that_somebody_writes_is_refused() {
    let place = job();
    let path = place.input().join("job.sqlite");
    let writer = Connection::open(&path).expect("SQLite starts");
    writer.execute_batch("BEGIN EXCLUSIVE").expect("nobody else has it");
    assert_eq!(outcome(&place).0, "database-locked");
    writer.execute_batch("ROLLBACK").expect("it is ours");
    drop(writer);
    place.run(&["ingest", "job.sqlite"]).done();
    // Its newest pages are in a journal.
    place.write("job.sqlite-wal", "frames");
    let run = place.run(&["ingest", "job.sqlite", "--force"]);
    assert_eq!(run.errors(), ["database-locked"]);
}

#[test]
fn what_is_too_large_or_too_many_is_refused() {
    let place = Place::new();
    place.database(
        "job.sqlite",
        &format!(
            "{JOB} INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, zeroblob(30000000), 70 << 24 | 70);"
        ),
    );
    assert_eq!(outcome(&place).0, "value-too-large");
    place.database(
        "many.sqlite",
        &JOB.replace("(70 + i % 2) << 24", "i << 24").replace("i % 2, 7", "0, 7"),
    );
    assert_eq!(place.run(&["ingest", "many.sqlite"]).errors(), ["nsys-unusable"]);
    // As many processes on the host are no ranks, and no harm.
    place.database(
        "hosts.sqlite",
        &format!(
            "{JOB} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO NVTX_EVENTS SELECT i, i + 1, 59, 'x' || i, (i + 1000) << 24 FROM n;"
        ),
    );
    let run = place.run(&["ingest", "hosts.sqlite"]);
    assert!(run.stderr.contains("2 ranks, 40001 events"), "{}", run.stderr);
}

#[test]
fn one_profiler_answers_at_a_time() {
    let place = Place::new();
    place.database("rank0.sqlite", &JOB.replace("i % 2, 7", "0, 7").replace("70 + i % 2", "70"));
    place.write(
        "rank0.json",
        r#"{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":0,"dur":250}]}"#,
    );
    place.run(&["ingest", ".", "--name", "both"]).done();
    let metric = |mode: &[&str]| {
        let args = [&["metric", "total_compute_time_s", "--format", "json"], mode].concat();
        place.run(&args)
    };
    let value =
        |run: Run| -> serde_json::Value { serde_json::from_str(&run.done()).expect("it is JSON") };
    assert_eq!(value(metric(&["--profile-mode", "torch"]))["value"], 0.000_25);
    assert_eq!(value(metric(&["--profile-mode", "nsys"]))["value"], 0.000_1);
    let either = value(metric(&[]));
    assert_eq!(either["value"], 0.000_25);
    assert_eq!(
        either["warnings"][0],
        "the trace is of kineto and nsys; this is of kineto (see --profile-mode)"
    );
    // In a report that is said once, as it holds for all of them.
    let page = place.run(&["report", "both", "--format", "md"]).done();
    assert_eq!(page.matches("the trace is of kineto and nsys; this is of kineto").count(), 1);
    let none = metric(&["--profile-mode", "xla"]);
    assert_eq!(none.errors(), ["metric-not-applicable"]);
    // Only one of them.
    place.run(&["ingest", ".", "--name", "one", "--source", "nsys"]).done();
    let sources = place.query("SELECT DISTINCT source FROM events WHERE trace = 'one'");
    assert_eq!(sources.rows, [[Some("nsys".to_owned())]]);
}

#[test]
fn every_metric_answers_where_events_are_of_no_rank() {
    let place = Place::new();
    // A launcher beside two ranks, and one process on two devices.
    place.database(
        "torchrun.sqlite",
        &format!("{JOB} INSERT INTO NVTX_EVENTS VALUES (1, 900000000, 59, 'wait', 5 << 24 | 5);"),
    );
    place.database("one.sqlite", &JOB.replace("(70 + i % 2) << 24", "70 << 24"));
    for name in ["torchrun", "one"] {
        place.run(&["ingest", &format!("{name}.sqlite")]).done();
        place.run(&["metric", "--all", "--trace", name]).done();
        let wall = place.run(&["metric", "wall_time_s", "--trace", name, "--format", "value"]);
        assert_eq!(wall.done().trim(), "0.000199985");
    }
    let hosts = place.query("SELECT DISTINCT trace, rank FROM host_events ORDER BY ALL").rows;
    let hosts: Vec<_> = hosts.iter().map(|r| (r[0].as_deref(), r[1].as_deref())).collect();
    assert_eq!(
        hosts,
        [(Some("one"), None), (Some("torchrun"), Some("0")), (Some("torchrun"), None)]
    );
}

#[test]
fn a_kernel_on_a_device_by_accident_makes_no_rank() {
    let place = Place::new();
    for rank in 0..3 {
        let of = JOB.replace("i % 2, 7", &format!("CASE WHEN i = 9 THEN 0 ELSE {rank} END, 7"));
        place.database(&format!("rank{rank}.sqlite"), &of.replace("70 + i % 2", "70"));
    }
    let run = place.run(&["ingest", ".", "--name", "job"]);
    assert!(run.stderr.contains("job: nsys, 3 ranks, 60003 events"), "{}", run.stderr);
    assert!(run.stderr.contains("warning[stray-device]: 2 x"), "{}", run.stderr);
    assert!(run.stderr.contains("rank1.sqlite, and 1 more"), "{}", run.stderr);
    let ranks = place.query("SELECT rank, device, rank_source FROM ranks ORDER BY rank").rows;
    let ranks: Vec<Vec<_>> = ranks.iter().map(|r| r.iter().flatten().cloned().collect()).collect();
    assert_eq!(ranks, [["0", "0", "name"], ["1", "1", "name"], ["2", "2", "name"]]);
}

/// Runs an ingest of `job.nsys-rep` with a program named `nsys` that does this.
fn with_nsys(place: &Place, script: Option<&str>) -> Run {
    ingest_with_nsys(place, script, "job.nsys-rep")
}

/// The same of another file.
fn ingest_with_nsys(place: &Place, script: Option<&str>, file: &str) -> Run {
    let bin = place.input().join("bin");
    std::fs::create_dir_all(&bin).expect("it is ours");
    if let Some(script) = script {
        place.program("bin/nsys", &format!("#!/bin/sh\n{script}\n"));
    }
    let path = match script {
        Some(_) => format!("{}:/usr/bin:/bin", bin.display()),
        None => bin.display().to_string(),
    };
    let output = command(&place.input())
        .env("PATH", path)
        .args(["--data", "../data", "ingest", file])
        .output()
        .expect("the program can be started");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn workspaces(data: &Path) -> usize {
    let all = std::fs::read_dir(data).expect("it is there").flatten();
    all.filter(|e| e.file_name().to_string_lossy().starts_with(".tmp")).count()
}

#[test]
fn a_report_is_exported_by_nsys() {
    let place = job();
    std::fs::rename(place.input().join("job.sqlite"), place.input().join("../made")).expect("ours");
    place.write("job.nsys-rep", "a report");
    let missing = with_nsys(&place, None);
    assert_eq!(missing.errors(), ["nsys-missing"]);
    assert!(
        missing.stderr.contains("nsys export --type sqlite --include-blobs=true job.nsys-rep"),
        "{}",
        missing.stderr
    );
    let fails = with_nsys(&place, Some("echo 'the report is of a newer version' >&2; exit 3"));
    assert_eq!(fails.errors(), ["nsys-unusable"]);
    let said = "exit status: 3: the report is of a newer version\n";
    assert!(fails.stderr.contains(said), "{}", fails.stderr);
    // Neither an export without a file is one, nor what a failure left.
    let nothing = with_nsys(&place, Some("echo 'nothing to do'"));
    assert_eq!(nothing.errors(), ["nsys-unusable"]);
    assert!(nothing.stderr.contains("exit status: 0: nothing to do\n"), "{}", nothing.stderr);
    let half = "while [ \"$1\" != --output ]; do shift; done; cp ../made \"$2\"; exit 4";
    assert_eq!(with_nsys(&place, Some(half)).errors(), ["nsys-unusable"]);
    // An older one does not know the option for blobs.
    let old = "case \"$*\" in *include-blobs*) echo 'unrecognised option' >&2; exit 1;; esac
        while [ \"$1\" != --output ]; do shift; done; cp ../made \"$2\"";
    let exported = with_nsys(&place, Some(old));
    assert!(exported.stderr.contains("job: nsys, 2 ranks, 20001 events"), "{}", exported.stderr);
    assert_eq!(workspaces(&place.data()), 0);
    // One in an archive is unpacked for it.
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("job.nsys-rep", SimpleFileOptions::default()).expect("memory");
    std::io::Write::write_all(&mut zip, b"a report").expect("memory");
    let zip = zip.finish().expect("memory").into_inner();
    place.write("packed.zip", &*zip).write("other.zip", zip);
    let reads = format!("grep -q 'a report' \"$(eval echo \\$$#)\" || exit 5\n{old}");
    let packed = ingest_with_nsys(&place, Some(&reads), "packed.zip");
    assert!(packed.stderr.contains(": nsys, 2 ranks, 20001 events"), "{}", packed.stderr);
    let fails = ingest_with_nsys(&place, Some("exit 3"), "other.zip");
    assert_eq!(fails.errors(), ["nsys-unusable"], "{}", fails.stderr);
    assert!(fails.stderr.contains("other.zip/job.nsys-rep"), "{}", fails.stderr);
    assert_eq!(workspaces(&place.data()), 0);
    // A program that nobody may run.
    let program = place.input().join("bin/nsys");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o644)).expect("it is ours");
    place.write("third.nsys-rep", "a report");
    let refused = ingest_with_nsys(&place, None, "third.nsys-rep");
    assert_eq!(refused.errors(), ["nsys-unusable"], "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot run `nsys`: Permission denied"), "{}", refused.stderr);
    // Where its export lies beside it, that is read.
    place.database("job.sqlite", JOB);
    let both = place.run(&["ingest", ".", "--name", "folder"]);
    assert!(both.stderr.contains("folder: nsys, 2 ranks, 20001 events"), "{}", both.stderr);
}

/// More steps, and more calls of NCCL, than are written at once: a step of a call, 9,000 times.
#[test]
fn steps_and_calls_are_as_many_as_there_are() {
    let place = Place::new();
    place.database(
        "job.sqlite",
        "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.13.2');
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
            correlationId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER,
            globalTid INTEGER, domainId INTEGER, text TEXT);
        INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 70 << 24 | 70, 1, 'NCCL');
        CREATE TABLE n (i INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 8999)
        INSERT INTO main.n SELECT i FROM n;
        INSERT INTO NVTX_EVENTS
        SELECT i * 100, i * 100 + 90, 59, 70 << 24 | 70, 0, 'step ' || i FROM n
        UNION ALL
        SELECT i * 100 + 10, i * 100 + 20, 59, 70 << 24 | 70, 1, 'ncclAllReduce' FROM n;
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
        SELECT i * 100 + 12, i * 100 + 14, 70 << 24 | 70, i + 1 FROM n;
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
        SELECT i * 100 + 30, i * 100 + 40, 0, 7, i + 1, 70 << 24, 1 FROM n;
        DROP TABLE n;",
    );
    place.run(&["ingest", "job.sqlite"]).done();
    let steps =
        "SELECT count(*), count(DISTINCT step), min(step), max(step), sum(dur_ns) FROM steps";
    assert_eq!(place.lines(steps), ["9000 9000 0 8999 810000"]);
    let calls = "SELECT count(*), count(DISTINCT event_id), any_value(collective_name),
        any_value(coll_source) FROM comm_args";
    // Of the ranges, and of the kernels.
    assert_eq!(place.lines(calls), ["18000 18000 ncclAllReduce nvtx_range"]);
    assert_eq!(place.lines("SELECT count(DISTINCT event_id) FROM collectives"), ["9000"]);
}

/// The job as `nsys export --type parquetdir` lays it out: unsigned ids, a file for each table.
pub fn folder(place: &Place) {
    let folder = place.input().join("job_pqtdir");
    std::fs::create_dir_all(&folder).expect("it is ours");
    let connection = duckdb::Connection::open_in_memory().expect("DuckDB starts");
    for (table, query) in [
        ("META_DATA_EXPORT", "SELECT 'EXPORT_SCHEMA_VERSION' AS name, '3.8.0' AS value"),
        (
            "StringIds",
            "SELECT * FROM (VALUES (1::INTEGER, 'gemm'), (2, 'cudaLaunchKernel_v7000')) AS t(id, value)",
        ),
        (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "SELECT i * 10 AS start, i * 10 + 5 AS \"end\", (i % 2)::UTINYINT AS deviceId, 7::UINTEGER AS streamId,
                i::UINTEGER AS correlationId, ((70 + i % 2) * 16777216)::UBIGINT AS globalPid, 1::UBIGINT AS demangledName
             FROM range(1, 20001) AS t(i)",
        ),
        (
            "NVTX_EVENTS",
            "SELECT 1::BIGINT AS start, 100000::BIGINT AS \"end\", 59::INTEGER AS eventType, 'step 1' AS text,
                (70 * 16777216 + 70)::UBIGINT AS globalTid, 1.5::FLOAT AS floatValue, '\\x00\\xFF'::BLOB AS binaryData,
                18446744073709551615::UBIGINT AS uint64Value, [1, 2] AS nested",
        ),
        ("OF_LISTS_ALONE", "SELECT [1, 2] AS nested"),
    ] {
        let path = folder.join(format!("{table}.parquet"));
        connection
            .execute_batch(&format!("COPY ({query}) TO '{}' (FORMAT parquet)", path.display()))
            .expect("the file can be written");
    }
}

#[test]
fn a_folder_of_parquet_files_is_read_as_the_database() {
    let place = Place::new();
    folder(&place);
    place.run(&["ingest", "job_pqtdir"]).done();
    place.database("other/job.sqlite", JOB);
    place.run(&["ingest", "other/job.sqlite", "--name", "database"]).done();
    let tables = Tables::open(&place.data());
    let rows = |trace: &str| {
        let sql = format!(
            "SELECT rank, class, name, ts_ns, dur_ns, device FROM events WHERE trace = '{trace}' ORDER BY ALL"
        );
        tables.query(&sql).rows
    };
    assert_eq!(rows("job").len(), 20_001);
    assert!(rows("job") == rows("database"));
    let args = tables.query("SELECT args FROM host_events WHERE trace = 'job'").rows;
    assert_eq!(
        args[0][0].as_deref(),
        Some(r#"{"eventType":59,"binaryData":"00ff","floatValue":1.5,"uint64Value":-1}"#)
    );
    drop(tables);
    let again = place.run(&["ingest", "job_pqtdir"]);
    assert!(again.stderr.contains("job: unchanged"), "{}", again.stderr);
    // In a folder it is one trace, however many files it has; beside its database it is not read
    // twice.
    std::fs::copy(place.input().join("other/job.sqlite"), place.input().join("job.sqlite"))
        .expect("it is ours");
    std::fs::remove_dir_all(place.input().join("other")).expect("it is ours");
    let one = place.run(&["ingest", ".", "--name", "all"]);
    assert!(one.stderr.contains("all: nsys, 2 ranks, 20001 events"), "{}", one.stderr);
    std::fs::remove_file(place.input().join("job.sqlite")).expect("it is ours");
    place.write("job_pqtdir/NVTX_EVENTS.parquet", "PAR1 no more");
    assert_eq!(place.run(&["ingest", "job_pqtdir"]).errors(), ["database-corrupt"]);
}

#[test]
fn ranges_that_share_a_place_of_a_cache_are_told_apart() {
    let place = Place::new();
    // Many more names than a cache has places, of two kinds in turn.
    place.database(
        "job.sqlite",
        &format!(
            "{JOB}
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
            INSERT INTO NVTX_EVENTS SELECT 200000 + i * 10, 200009 + i * 10, 59,
                iif(i % 2 = 0, 'step ', 'work ') || i, 70 << 24 | 70 FROM n;"
        ),
    );
    place.run(&["ingest", "job.sqlite"]).done();
    // Half of them, and the step of the job.
    let steps = "SELECT count(*), sum(step) FROM step_ranges";
    assert_eq!(place.lines(steps), [format!("1001 {}", 1000 * 1001 + 1)]);
}

#[test]
fn what_a_call_says_is_of_its_event_wherever_that_stands() {
    let case = include_str!("../../ingest/nsys/nccl_payloads/job.sqlite.sql");
    let calls = |more: &str| {
        let place = Place::new();
        place.database("job.sqlite", &format!("{case}{more}"));
        place.run(&["ingest", "job.sqlite"]).done();
        place.lines(
            "SELECT rank, e.name, ts_ns, collective_name, in_bytes, out_bytes, group_size
            FROM comm_args AS c INNER JOIN events AS e USING (trace, rank, event_id) ORDER BY ALL",
        )
    };
    let alone = calls("");
    assert!(alone.len() > 5, "{alone:?}");
    // More rows before them than are read at a time, in both tables.
    let more = "
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO NVTX_EVENTS (rowid, start, end, eventType, text, globalTid)
        SELECT -i, 1000000000 + i * 10, 1000000005 + i * 10, 59, 'work', globalTid
        FROM n, (SELECT globalTid FROM NVTX_EVENTS WHERE eventType = 59 LIMIT 1);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
            (rowid, start, end, deviceId, streamId, globalPid, demangledName, shortName)
        SELECT -i, 1000000000 + i * 10, 1000000005 + i * 10, deviceId, streamId, globalPid, 43, 50
        FROM n, (SELECT deviceId, streamId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1);";
    assert_eq!(calls(more), alone);
}
