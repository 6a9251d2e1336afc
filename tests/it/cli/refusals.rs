//! What a command does not do: what it says in place of that, and what to do.

use crate::cli::shell::shell;
use crate::cli::shown::{ingested, rank_file};
use crate::support::{Place, Run};

/// That a run fails with an error of this code, and that its message has these parts.
fn refused(run: &Run, code: &str, parts: &[&str]) {
    let text = &run.stderr;
    assert_eq!(run.errors(), [code], "{text}{}", run.stdout);
    assert!(run.code != 0, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

/// The job of two ranks and one of another name, of one rank.
fn two() -> Place {
    let place = ingested();
    place.write("other/rank0.json", rank_file(0, 1, 0));
    place.run(&["ingest", "other"]).done();
    place
}

#[test]
fn commands_of_one_trace_refuse_several() {
    let place = two();
    for file in ["many/a_rank0.json", "many/b_rank0.json"] {
        place.write(file, r#"{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1}]}"#);
    }
    for (args, parts) in [
        (
            &["export", "-o", "x.pftrace"][..],
            &["a timeline is of one trace, and there are 2", "job, other", "--trace"][..],
        ),
        (
            &["report", "*", "--step-range", "0..1"],
            &["options of reading traces are of one trace each", "these are 2: job, other"],
        ),
        (&["report", "job", "--name", "new"], &["`job` has a name", "ccl-sql rename job NEW"]),
        (&["ingest", "many", "--name", "one"], &["--name names one trace, and here are 2"]),
    ] {
        refused(&place.run(args), "usage", parts);
    }
}

#[test]
fn one_file_is_no_folder() {
    let place = two();
    for (args, parts) in [
        (&["diagnose", "job", "-o", "new/"][..], &["diagnose writes one file", "-o FILE.md"][..]),
        (
            &["compare", "--baseline", "job", "other", "-o", "new/"],
            &["compare --baseline writes one file", "-o FILE.json"],
        ),
        (
            &["man", "metric", "-o", "new/"],
            &["a folder is for the pages of all commands", "leave the name of the command away"],
        ),
    ] {
        refused(&place.run(args), "usage", parts);
    }
    assert!(!place.input().join("new").exists());
}

#[test]
fn forms_that_a_command_does_not_have() {
    let place = ingested();
    for (args, parts) in [
        (&["show", "mfu", "--format", "csv"][..], &["a definition is text or JSON"][..]),
        (&["show", "job", "--format", "csv"], &["what a trace is has no such form"]),
        (&["shell", "--format", "parquet"], &["the shell does not print Parquet", "COPY (SELECT"]),
        (&["shell", "--format", "text"], &["the shell prints tables only", "--format table"]),
    ] {
        refused(&place.run(args), "usage", parts);
    }
}

#[test]
fn words_that_are_near_nothing_get_the_list() {
    let place = ingested();
    for (args, parts) in [
        (
            &["list", "metrics", "--area", "zzzzzzzzzz"][..],
            &["no metric is of the area `zzzzzzzzzz`", "the areas: "][..],
        ),
        (
            &["man", "zzzzzzzzzz"],
            &["there is no command `zzzzzzzzzz`", "`ccl-sql --help` lists them"],
        ),
    ] {
        refused(&place.run(args), "usage", parts);
    }
    for (args, part) in [
        (&["ingest", "--rank=-1=a.json"][..], "a rank is 0 or more"),
        (&["ingest", "--rank", "1="], "the file must have a name"),
        (&["ingest", "--engine", "spark=1"], r#"there is no engine "spark"; write ray"#),
    ] {
        let run = place.run(args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn a_folder_without_what_is_wanted_of_it() {
    let place = Place::new();
    place.write("job/rank0.json", rank_file(0, 1, 0)).write("none/notes.txt", "nothing");
    let run = place.run(&["ingest", "job", "--memory", "none"]);
    let parts = ["no memory snapshot was found", "--> none", "_dump_snapshot"];
    refused(&run, "nothing-found", &parts);
}

#[test]
fn a_metric_without_a_value_names_the_first_traces() {
    let place = ingested();
    for name in ["b", "c", "d", "e", "f", "g"] {
        place.run(&["ingest", "job", "--name", name]).done();
    }
    let run = place.run(&["metric", "ttft"]);
    refused(&run, "metric-not-applicable", &["metric `ttft@", "has no value", " and 2 more\n"]);
}

#[test]
fn a_trace_is_shown_by_path_and_by_the_beginning_of_its_name() {
    let place = two();
    let by_name = place.run(&["show", "job"]).done();
    for word in ["jo", "j*", "job/rank0.json", "job/"] {
        assert_eq!(place.run(&["show", word]).done(), by_name, "{word}");
    }
    // Two fit, and none.
    for word in ["*o*", "job/rank7.json"] {
        refused(&place.run(&["show", word]), "metric-unknown", &[word]);
    }
}

#[test]
fn what_is_written_is_of_the_projects_own_folder() {
    let place = Place::new();
    let parts = ["--write is for the project's own folder", "Cargo.toml"];
    refused(&place.run(&["check", "--write"]), "usage", &parts);
}

#[test]
fn the_shell_says_what_it_does_not_know() {
    let place = ingested();
    let script = ".help zzzzzzzz\n.mode zzzzzzzz\n.\n.tables zzzzzzzz\n\
        .metrics zzzzzzzz\n.schema zzzzzzzz\nSELECT 'a' AS a, 'b' AS b;\n.plot\n";
    let run = shell(&place, &[], script);
    let said = run.stderr.replace("standard input, line ", "line ");
    for part in [
        "no command is about `zzzzzzzz`\n  --> line 1\nhint: `.help` shows them all",
        "there is no mode `zzzzzzzz`\n  --> line 2\nhint: write .mode [table|box|",
        "there is no command `.`\n  --> line 3\nhint: `.help` shows them all",
        "there is no table or view `zzzzzzzz`\n  --> line 4\nhint: `.tables` shows them all",
        "none of the metrics has `zzzzzzzz` in its name or description\n  --> line 5\nhint: `.met",
        "there is no table or view `zzzzzzzz`\n  --> line 6\nhint: `.tables` shows them all",
        "the last query has no two columns that could be drawn\n  --> line 8\nhint: a plot is of",
    ] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}

/// A part of a table says that it is one; files for programs are whole.
#[test]
fn the_shell_says_how_much_of_a_long_table_it_shows() {
    let place = ingested();
    for (mode, lines, last) in [
        ("table", 1003, "(1000 of 1500 rows; other modes show all)"),
        ("csv", 1501, "1499"),
        ("md", 1502, "| 1499 |"),
    ] {
        let script = format!(".mode {mode}\nSELECT range AS n FROM range(1500);\n");
        let shown = shell(&place, &[], &script).done();
        assert_eq!((shown.lines().count(), shown.lines().last()), (lines, Some(last)), "{mode}");
    }
}

#[test]
fn the_shell_begins_in_any_form() {
    let place = ingested();
    for (form, shown) in [
        ("table", "n\n-\n1\n"),
        ("json", "[\n  {\n    \"n\": 1\n  }\n]\n"),
        ("csv", "n\n1\n"),
        ("md", "| n |\n| --- |\n| 1 |\n"),
        ("value", "1\n"),
    ] {
        let run = shell(&place, &["--format", form], "SELECT 1 AS n;\n");
        assert_eq!((run.code, run.stdout.as_str()), (0, shown), "{form}: {}", run.stderr);
    }
}
