//! The library's public interface: the answers of the command line, as Arrow.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ccl_sql::{Data, open, progress, stop};
use duckdb::arrow::array::{Array, AsArray, RecordBatch};
use duckdb::arrow::datatypes::{Float64Type, Int64Type};
use serde_json::Value;

use crate::cli::own_sql::{FINDING, own_diagnosis, own_metric};
use crate::support::kineto::{Args, slice};
use crate::support::{Place, example, run};

const EXAMPLE: &str = "llama-tiny-fsdp2-tp2-4";

/// A text, or nothing where it is NULL.
fn text(batch: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let column = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
}

fn real(batch: &RecordBatch, column: &str, row: usize) -> Option<f64> {
    let column = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    column.is_valid(row).then(|| column.as_primitive::<Float64Type>().value(row))
}

fn integer(batch: &RecordBatch, column: &str, row: usize) -> i64 {
    let column = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    column.as_primitive::<Int64Type>().value(row)
}

fn ingested(folder: &Path) -> (Data, RecordBatch) {
    let data = open(folder.join("data"));
    let batch = data.ingest(&[example(EXAMPLE)], &[]).expect("the example can be read");
    (data, batch)
}

#[test]
fn the_library_says_what_the_program_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, batch) = ingested(folder.path());
    assert_eq!(text(&batch, "trace", 0).as_deref(), Some(EXAMPLE));
    assert_eq!((integer(&batch, "ranks", 0), integer(&batch, "events", 0)), (4, 1340));
    assert_eq!((batch.num_rows(), text(&batch, "error", 0)), (1, None));
    let traces = data.traces().expect("a list");
    assert_eq!((traces.num_rows(), integer(&traces, "events", 0)), (1, 1340));

    let names = ["coll_call_num", "avg_step_time", "ttft"];
    let batch = data.metric(&names, &["--trace", EXAMPLE]).expect("metrics");
    let words = ["--data", "data", "--format", "json", "metric", "--trace", EXAMPLE];
    let of_program = run(folder.path(), &[&words[..], &names[..]].concat());
    let json: Value = serde_json::from_str(&of_program.stdout).expect("the program writes JSON");
    assert_eq!(batch.num_rows(), 3);
    for row in 0..3 {
        let of_program = &json[row];
        assert_eq!(text(&batch, "metric", row).as_deref(), of_program["metric"].as_str());
        assert_eq!(real(&batch, "value", row), of_program["value"].as_f64());
        assert_eq!(text(&batch, "reason", row).as_deref(), of_program["reason"].as_str());
        assert_eq!(text(&batch, "unit", row).as_deref(), of_program["unit"].as_str());
        let details = text(&batch, "details", row).expect("an object");
        let details: Value = serde_json::from_str(&details).expect("details are JSON");
        assert_eq!(details, of_program["details"]);
    }
    assert!(text(&batch, "reason", 2).is_some(), "the trace is of no inference");

    let batches = data.sql("SELECT count(*) FROM collectives").expect("a count");
    let csv = run(
        folder.path(),
        &["--data", "data", "--format", "csv", "sql", "SELECT count(*) AS n FROM collectives"],
    );
    let count = batches[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(csv.stdout, format!("n\n{count}\n"));

    let findings = data.diagnose(&[EXAMPLE], &[]).expect("findings");
    let words = ["--data", "data", "--format", "json", "diagnose", EXAMPLE];
    let of_program: Value =
        serde_json::from_str(&run(folder.path(), &words).stdout).expect("it is JSON");
    let of_program = of_program["findings"].as_array().expect("findings");
    assert!(!of_program.is_empty());
    assert_eq!(findings.num_rows(), of_program.len());
    for (row, said) in of_program.iter().enumerate() {
        assert_eq!(text(&findings, "trace", row).as_deref(), Some(EXAMPLE));
        for column in ["diagnosis", "finding", "confidence", "advice", "evidence", "shown"] {
            assert_eq!(text(&findings, column, row).as_deref(), said[column].as_str(), "{column}");
        }
        for column in ["time_per_step_ms", "gain_ms", "gain_pct"] {
            assert_eq!(real(&findings, column, row), said[column].as_f64(), "{column}");
        }
        let place = text(&findings, "where", row).expect("an object");
        assert_eq!(serde_json::from_str::<Value>(&place).ok().as_ref(), Some(&said["where"]));
    }

    let report = data.report(EXAMPLE, "json", &[]).expect("a report");
    let report: Value = serde_json::from_slice(&report.content).expect("it is JSON");
    assert_eq!(report["trace"], EXAMPLE);
}

#[test]
fn a_comparison_is_that_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, _) = ingested(folder.path());
    assert_eq!(data.path(), folder.path().join("data"));
    data.ingest(&[example(EXAMPLE)], &["--name", "twin"]).expect("under another name, too");
    let compared = data.compare(EXAMPLE, &["twin"], "json", &[]).expect("a comparison");
    let compared: Value = serde_json::from_slice(&compared.content).expect("it is JSON");
    let words = ["--data", "data", "--format", "json", "compare", EXAMPLE, "twin"];
    let of_program = run(folder.path(), &words).stdout;
    let of_program: Value = serde_json::from_str(&of_program).expect("the program writes JSON");
    assert!(of_program.to_string().contains("twin"), "{of_program}");
    assert_eq!(compared, of_program);
}

#[test]
fn an_ingest_says_its_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let bare = folder.path().join("bare.json");
    std::fs::write(&bare, r#"[{"ph":"X","cat":"cpu_op","name":"op","ts":1,"dur":1}]"#)
        .expect("a file");
    let batch = open(folder.path().join("data")).ingest(&[&bare], &[]).expect("a list of events");
    let findings = text(&batch, "findings", 0).expect("a list");
    let findings: Value = serde_json::from_str(&findings).expect("findings are JSON");
    let found = |code: &str| findings.as_array().into_iter().flatten().find(|f| f["code"] == code);
    let array = found("top-level-array").unwrap_or_else(|| panic!("{findings}"));
    assert_eq!((&array["severity"], &array["count"]), (&"info".into(), &1.into()));
    assert!(array["file"].as_str().is_some_and(|file| file.ends_with("bare.json")), "{array}");
}

#[test]
fn every_metric_can_be_asked_for_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, _) = ingested(folder.path());
    let known = data.metrics().expect("a list");
    let all = data.metric(&["*"], &[]).expect("all metrics");
    assert_eq!(all.num_rows(), known.num_rows());
    let silent = |row: &usize| {
        let has = |column| text(&all, column, *row).is_some();
        real(&all, "value", *row).is_none() && !has("text") && !has("reason")
    };
    assert_eq!((0..all.num_rows()).filter(silent).count(), 0, "a value or a reason");
}

#[test]
fn errors_are_those_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, _) = ingested(folder.path());
    let code = |outcome: ccl_sql::Result<RecordBatch>| outcome.map_or_else(|e| e.code, |_| "-");
    assert_eq!(code(data.metric(&["coll_call_nun"], &[])), "metric-unknown");
    assert_eq!(code(data.metric(&["coll_call_num"], &["--trace", "nope"])), "trace-unknown");
    assert_eq!(code(data.metric(&["coll_call_num"], &["-p", "nope=1"])), "param-invalid");
    assert_eq!(code(data.metric(&["coll_call_num"], &["--nope"])), "usage");
    // A word that begins with a dash is a name here, never an option.
    assert_eq!(code(data.metric(&["--all"], &["--trace", EXAMPLE, "--help"])), "usage");
    assert_eq!(code(data.metric(&["-q"], &[])), "metric-unknown");
    assert_eq!(code(data.ingest(&["nowhere"], &[])), "file-unreadable");
    assert_eq!(code(data.ingest(&["nowhere"], &["--data", "elsewhere"])), "usage");
    assert_eq!(code(data.sql("SELECT nope FROM collectives").map(|mut b| b.remove(0))), "sql");
    for form in ["exe", "", "../x", "html/.."] {
        let outcome = data.report(EXAMPLE, form, &[]);
        let error = outcome.expect_err("no such form");
        let is_form = form == "exe";
        assert_eq!(error.code, "usage", "{form:?}");
        assert!(is_form || error.message == format!("{form:?} is no form of a file"), "{error:?}");
    }
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn a_query_that_fails_is_the_fault_of_the_call() {
    let place = Place::of(&example(EXAMPLE));
    let data = open(place.data());
    own_metric(&place, "broken", "error('no luck')");
    let own = place.input().join("own").display().to_string();
    let options = ["--sql-dir", own.as_str()];
    let fault = data.metric(&["broken"], &options).expect_err("it fails");
    assert!((fault.code, fault.message.contains("no luck")) == ("sql", true), "{fault}");
    // Beside others it takes no answer away.
    let all = data.metric(&["*"], &options).expect("the others have answers");
    let names: Vec<_> = (0..all.num_rows()).map(|row| text(&all, "metric", row)).collect();
    assert!(names.len() > 50 && names.contains(&Some("coll_call_num".to_owned())), "{names:?}");
    let columns = FINDING.replace("'do'", "error('no luck again')");
    own_diagnosis(&place, "wrong", &columns, "kernels");
    let fault = data.diagnose(&[], &options).expect_err("it fails");
    assert!(fault.message.contains("no luck again"), "{fault}");
}

#[test]
fn a_fault_has_its_row_beside_the_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.json");
    std::fs::write(&broken, "{\"traceEvents\": [{\"ph\": ").expect("a file");
    let data = open(folder.path().join("data"));
    let batch = data.ingest(&[example(EXAMPLE), broken], &[]).expect("one of them can be read");
    assert_eq!(batch.num_rows(), 2);
    assert_eq!(text(&batch, "trace", 1), None);
    let error = text(&batch, "error", 1).expect("the fault");
    assert!(error.starts_with("error["), "{error}");
}

/// A trace of one rank, large enough to be still read when somebody looks.
fn large(folder: &Path) -> std::path::PathBuf {
    let mut out = String::from("{\"distributedInfo\": {\"rank\": 0, \"world_size\": 1},\n");
    out.push_str("\"traceEvents\": [\n");
    for i in 0..400_000 {
        out.push_str(&slice("cpu_op", "aten::add", 1, 1, (i * 10, i * 10 + 5), Args::op(i)));
    }
    let _ = write!(out, "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{{}}}}]}}");
    let path = folder.join("rank0.json");
    std::fs::write(&path, out).expect("a file");
    path
}

#[test]
fn an_ingest_says_how_far_it_is_and_can_be_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = large(folder.path());
    let data = open(folder.path().join("data")).with_token("a token of this test");
    let mine = || progress().into_iter().find(|p| p.token == "a token of this test");
    let outcome = std::thread::scope(|scope| {
        let ingest = scope.spawn(|| data.ingest(&[&trace], &[]));
        let seen = loop {
            match mine() {
                Some(seen) if seen.bytes_read > 0 => break Some(seen),
                _ if ingest.is_finished() => break None,
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        let seen = seen.expect("the ingest can be watched");
        assert!(seen.bytes_read <= seen.bytes_total, "{seen:?}");
        assert_eq!(stop(Some("a token of another")), 0);
        assert_eq!(stop(Some("a token of this test")), 1);
        ingest.join().expect("it ends")
    });
    assert_eq!(outcome.expect_err("it was stopped").code, "interrupted");
    assert_eq!(data.traces().expect("a list").num_rows(), 0, "nothing half done");
    assert_eq!(mine(), None);
    let again = data.ingest(&[&trace], &[]).expect("the next one goes on");
    assert_eq!(integer(&again, "events", 0), 400_000);
}
