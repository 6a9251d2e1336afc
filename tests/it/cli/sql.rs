//! `ccl-sql sql`: files, stdin, the sandbox, odd folders.

use insta::assert_snapshot;

use crate::cli::shown::{ingested, shown};
use crate::support::{command, run};

#[test]
fn sql_may_use_files_unless_it_is_sandboxed() {
    let place = ingested();
    place.write("numbers.csv", "a\n42\n");
    let sql = ["sql", "SELECT a FROM 'numbers.csv'", "--format", "value"];
    assert_eq!(place.run(&sql).done(), "42\n");
    let run = place.run(&[&sql[..], &["--sandbox"]].concat());
    assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{}", run.stderr);
    let tables = ["sql", "SELECT count(*) FROM device_events", "--format", "value", "--sandbox"];
    assert_eq!(place.run(&tables).done(), "4\n");
}

#[test]
fn sql_gives_rows_from_text_file_and_stdin() {
    let place = ingested();
    let query = "SELECT class, count(*) AS n, NULL AS nothing, '' AS empty FROM device_events
                 GROUP BY class ORDER BY class";
    place.write("query.sql", query);
    assert_snapshot!(shown(&place.run(&["sql", query, "--format", "json"]), &place), @r#"
    exit code 0
    --- stdout
    [
      {
        "class": "comm",
        "n": 2,
        "nothing": null,
        "empty": ""
      },
      {
        "class": "compute",
        "n": 2,
        "nothing": null,
        "empty": ""
      }
    ]
    "#);
    let csv = place.run(&["sql", "--file", "query.sql", "--format", "csv"]).done();
    assert_eq!(csv, "class,n,nothing,empty\ncomm,2,,\"\"\ncompute,2,,\"\"\n");
    let mut command = command(&place.input());
    let args = ["--data", "../data", "sql", "-", "--format", "csv"];
    let output = command.args(args).write_stdin(query).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), csv);
    assert_snapshot!(shown(&place.run(&["sql", "SELECT nothing FROM steps"]), &place), @r#"
    exit code 1
    --- stderr
    error[sql]: Binder Error: Referenced column "nothing" not found in FROM clause!
    Candidate bindings: "ts_ns"

    LINE 1: SELECT nothing FROM steps
                   ^^^^^^^
    "#);
}

#[test]
fn folders_may_hold_the_characters_of_patterns() {
    let place = ingested();
    let input = place.input();
    let data = "../d z[1]*?'s";
    run(&input, &["ingest", "job", "--name", "run[x]", "--data", data]).done();
    let args = ["metric", "coll_call_num", "--trace", "run[x]", "--data", data];
    let odd = run(&input, &[&args[..], &["--format", "value"]].concat()).done();
    let plain = place.run(&["metric", "coll_call_num", "--format", "value"]).done();
    assert_eq!(odd, plain);
}

#[test]
fn what_is_no_metric_is_said_as_duckdb_says_it() {
    let place = ingested();
    for (query, said) in [
        ("FROM zzz(1)", "Table Function with name zzz does not exist"),
        ("SELECT zzz(1)", "Scalar Function with name zzz does not exist"),
        ("SELECT 'a'::INT FROM straggler_lag", "Could not convert string 'a' to INT32"),
        ("BEGIN; SELECT 'a'::INT FROM straggler_lag", "Could not convert string 'a' to INT32"),
        ("FROM straggler_lag(1)", "`straggler_lag` is a metric, no function"),
    ] {
        let run = place.run(&["sql", query]);
        assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{query}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{query}: {}", run.stderr);
    }
}
