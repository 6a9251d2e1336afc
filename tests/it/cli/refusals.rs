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
fn of_many_traces_the_first_are_named() {
    let place = ingested();
    for n in 0..11 {
        place.run(&["ingest", "job", "--name", &format!("run-{n:02}")]).done();
    }
    let run = place.run(&["show", "run", "--format", "json"]);
    assert_ne!(run.code, 0, "{}", run.stdout);
    let run = place.run(&["metric", "coll_call_num", "--trace", "run"]);
    let parts = ["several traces begin with `run`", "run-00, run-01", "run-07 and 3 more"];
    refused(&run, "trace-unknown", &parts);
}

#[test]
fn colours_are_as_the_user_says() {
    let place = ingested();
    for (when, is_coloured) in [("always", true), ("never", false), ("auto", false)] {
        let run = place.run(&["--color", when, "metric", "zzzzzz"]);
        assert_eq!(run.stderr.contains("\u{1b}["), is_coloured, "{when}: {:?}", run.stderr);
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
        (&["list", "tables", "--area", "speed"], &["only metrics have an area"]),
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
fn a_list_without_what_is_sought_names_itself() {
    let place = ingested();
    for what in ["metrics", "diagnoses", "traces", "tables", "functions"] {
        let run = place.run(&["list", what, "zzzzzzzzzz"]);
        let message = format!("none of the {what} has `zzzzzzzzzz` in its name or description");
        refused(&run, "nothing-found", &[&message, &format!("`ccl-sql list {what}` shows them")]);
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
fn a_rank_is_given_a_trace() {
    let place = Place::new();
    let files = ["a.json", "b.json", "c.json"];
    files.iter().for_each(|file| _ = place.write(file, rank_file(0, 1, 0)));
    place.write("words.md", "no trace").write("card.yaml", "a: 1").write("empty/words.md", "none");
    place.write("job/rank0.json", rank_file(0, 1, 0)).write("job/words.md", "beside it");
    for (given, parts) in [
        ("0=words.md", &["the file is no trace: a text to read", "--> words.md"][..]),
        ("0=card.yaml", &["the file is no trace: a YAML file", "--> card.yaml"]),
    ] {
        refused(&place.run(&["ingest", "--rank", given]), "not-a-trace", parts);
    }
    let run = place.run(&["ingest", "--rank", "3=empty"]);
    refused(&run, "nothing-found", &["no trace of rank 3 was found", "--> empty"]);
    // Others are ingested, as beside a path that is no trace.
    let run = place.run(&["ingest", "a.json", "--rank", "1=words.md"]);
    refused(&run, "not-a-trace", &["a: kineto, 1 rank"]);
    // A folder of one trace stands for it.
    assert_eq!(place.run(&["ingest", "--rank", "5=job", "--name", "five"]).code, 0);
    assert_eq!(place.lines("SELECT rank FROM ranks WHERE trace = 'five'"), ["5"]);
    for (more, parts) in [
        (&["--rank", "0=b.json"][..], &["two traces claim rank 0", "each by --rank"][..]),
        (&["--rank", "0=b.json", "--rank", "0=c.json"], &["three traces claim rank 0"]),
    ] {
        let run = place.run(&[&["ingest", "--rank", "0=a.json"], more].concat());
        refused(&run, "duplicate-rank", parts);
    }
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
