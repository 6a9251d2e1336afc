//! All commands: help, completions, slips, exit codes, closed pipes.

use std::path::Path;
use std::process::{Command, Stdio};

use ccl_sql::cli::args::Cli;
use clap::CommandFactory;
use insta::assert_snapshot;
use regex::Regex;

use crate::cli::shown::{ingested, shown};
use crate::support::{Place, program};

#[test]
fn each_command_has_its_help_page() {
    let place = Place::new();
    let root = place.run(&["--help"]);
    assert_snapshot!("help", shown(&root, &place));
    for command in Cli::command().get_subcommands() {
        let run = place.run(&[command.get_name(), "--help"]);
        assert_snapshot!(format!("help_{}", command.get_name()), shown(&run, &place));
    }
}

#[test]
fn completions_and_manual_come_without_traces() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = place.run(&["completions", shell]).done();
        assert!(text.contains("CCL_SQL_COMPLETE"), "{shell}");
    }
    assert!(place.run(&["man"]).done().starts_with(".ie"), "it is roff");
    assert!(!Path::new(&place.data()).exists(), "nothing was made");
}

#[test]
fn the_version_comes_in_a_line_or_with_what_it_is_made_of() {
    let place = Place::new();
    let first = format!("ccl-sql {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(place.run(&["-V"]).done(), first);
    let long = place.run(&["--version"]).done();
    let rest = long.strip_prefix(&first).unwrap_or_else(|| panic!("{long}"));
    let facts = Regex::new(
        r"^commit: ([0-9a-f]{7,12}|unknown)\nduckdb: v[2-9]\.\d+\.\d+\S* \((bundled|linked|host)\)\n$",
    );
    assert!(facts.expect("a pattern").is_match(rest), "{long}");
    assert!(!Path::new(&place.data()).exists(), "nothing was made");
    // The manual has the version, and no commit.
    let manual = place.run(&["man"]).done();
    assert!(manual.contains(first.trim_end()) && !manual.contains("commit:"), "{manual}");
}

#[test]
fn a_wrong_command_line_is_2() {
    let place = Place::new();
    for args in [
        &[][..],
        &["metrik"],
        &["metric"],
        &["metric", "iter_time", "--format", "yaml"],
        &["metric", "iter_time", "-p", "align"],
        &["ingest", "--rank", "x=a.json"],
        &["metric", "iter_time", "--all"],
        &["list", "traces", "--cache-size", "1potato"],
    ] {
        let run = place.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
    }
    let run = place.run(&["ingest", ".", "--name", "a/b"]);
    assert_snapshot!(shown(&run, &place), @r#"
    exit code 2
    --- stderr
    error[usage]: a trace cannot be named "a/b": the name holds '/'
    hint: use letters, digits and . _ - + [ ] ( ) , @
    "#);
}

#[test]
fn slips_get_the_nearest_name() {
    let place = ingested();
    assert_snapshot!(shown(&place.run(&["metric", "coll_cal_num"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: there is no metric `coll_cal_num`
    hint: did you mean `coll_call_num`?
    ");
    assert_snapshot!(shown(&place.run(&["metric", "coll_call_num@9"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: metric `coll_call_num` has no version 9
    hint: its versions: 1
    ");
    assert_snapshot!(shown(&place.run(&["metric", "iter_time", "--trace", "jib"]), &place), @r"
    exit code 1
    --- stderr
    error[trace-unknown]: there is no trace `jib`
      --> ../data
    hint: did you mean `job`?
    ");
    assert_snapshot!(shown(&place.run(&["show", "collectivs"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: there is no metric, diagnosis, view, table, function or trace `collectivs`
    hint: did you mean `collectives`?
    ");
    let run = place.run(&["metric", "straggler_lag", "-p", "aling=true"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[param-invalid]: metric `straggler_lag` has no parameter `aling`
    hint: did you mean `align`?
    ");
    let run = place.run(&["metric", "straggler_lag", "--n_chips", "8", "--format", "value"]);
    let said = "note: n_chips changes nothing here: it is a parameter of avg_comm_bandwidth_GBps, ";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(run.errors().is_empty(), "{}", run.stderr);
    let run = place.run(&["metric", "straggler_lag", "-p", "align=perhaps"]);
    assert_snapshot!(shown(&run, &place), @r#"
    exit code 1
    --- stderr
    error[param-invalid]: parameter `align` is "perhaps", which is no BOOLEAN
      Take the offsets of the clocks (clock_offsets) from the times of the ranks before they are compared: true or false; without it where an offset exceeds both its uncertainty and the median lag of the calls.
    hint: write true or false
    "#);
    let run = place.run(&["metric", "iter_time", "--sql-dir", "nowhere"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[sql-file]: cannot read the folder of SQL files: it is no folder
      --> nowhere
    hint: give a folder that holds metrics and views: --sql-dir DIR
    ");
}

#[test]
fn without_traces_the_way_in_is_shown() {
    let place = Place::new();
    assert_snapshot!(shown(&place.run(&["metric", "iter_time"]), &place), @r"
    exit code 1
    --- stderr
    error[trace-unknown]: there are no traces yet
      --> ../data
    hint: ingest one first: ccl-sql ingest PATH, or give a path: --trace PATH
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "."]), &place), @r"
    exit code 1
    --- stderr
    error[nothing-found]: no trace was found
      --> .
    hint: give a folder with traces of Kineto (.json, .json.gz), Nsight Systems (.sqlite, .nsys-rep) or XLA (.xplane.pb, .trace.json.gz), with torch memory snapshots (.pickle), or with results of inference benchmarks (.json, .jsonl), or one such file
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "nowhere"]), &place), @r"
    exit code 1
    --- stderr
    error[file-unreadable]: cannot open the path: No such file or directory (os error 2)
      --> nowhere
    hint: check the spelling; a relative path counts from the current folder
    ");
}

#[test]
fn a_closed_pipe_is_quiet() {
    let place = Place::new();
    let mut child = Command::new(program())
        .args(["sql", "SELECT range AS n FROM range(300000)", "--format", "csv"])
        .current_dir(place.input())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
