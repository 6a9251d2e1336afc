//! Output for people: cards, tables, lists, and forms by the ending of a file. Output for programs
//! stays exact.

use serde_json::Value;

use crate::support::runs::step_of_rank;
use crate::support::{Place, Run, command};

/// A rank with compute of `compute_us`, and a call that begins `late_us` late.
fn rank_file(rank: i64, compute_us: i64, late_us: i64) -> String {
    step_of_rank(rank, 2, compute_us, 1600 + late_us)
}

/// The traces `one` and `two`, of two ranks each; rank 1 computes longer and comes later.
fn traces() -> Place {
    let place = Place::new();
    for name in ["one", "two"] {
        place
            .write(&format!("{name}/rank0.json"), rank_file(0, 300, 0))
            .write(&format!("{name}/rank1.json"), rank_file(1, 450, 30));
        place.run(&["ingest", name, "-q"]).done();
    }
    place
}

fn out(place: &Place, file: &str) -> String {
    std::fs::read_to_string(place.input().join(file)).expect("it was written")
}

fn one(place: &Place, args: &[&str]) -> Run {
    place.run(&[&["metric"], args, &["--trace", "one"]].concat())
}

#[test]
fn one_metric_of_one_trace_is_a_card() {
    let place = traces();
    let card = one(&place, &["straggler"]).done();
    let first = card.lines().next().unwrap_or_default();
    assert!(first.starts_with("straggler of one: 40.0 %; rank 1 computes longer"), "{card}");
    assert!(first.len() <= 100, "{first}");
    // Nested details are tables, with the fields of their rows as headings.
    let (_, table) = card.split_once("\nper_rank\n").expect("a nested table");
    let heading = table.lines().next().unwrap_or_default();
    assert!(heading.trim_start().starts_with("rank  "), "{card}");
    // The number is the exact one, rounded.
    let exact = one(&place, &["straggler", "--format", "value"]).done();
    assert_eq!(exact, "40.0\n");
    assert!(!card.contains('…'), "nothing is cut where no terminal reads: {card}");
}

#[test]
fn several_are_tables_with_units() {
    let place = traces();
    let text = place.run(&["metric", "straggler_lag"]).done();
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("trace  mean_lag_us"), "{text}");
    assert!(rows[2].starts_with("one       30.00 us"), "{text}");
    assert_eq!(rows.len(), 4, "{text}");
    let text = one(&place, &["straggler_lag", "throughput_tokens"]).stdout;
    assert!(text.contains("straggler_lag      30.00 us"), "{text}");
    assert!(text.contains("throughput_tokens       n/a  the batch size or the sequence"), "{text}");
}

#[test]
fn the_ending_of_a_file_says_its_form() {
    let place = traces();
    for (file, begins) in [
        ("a.csv", "trace,total_calls,"),
        ("a.json", "{\n  \"metric\": \"coll_call_num\""),
        ("a.md", "| trace | total_calls |"),
        ("a.txt", "coll_call_num of one: 2 calls\n"),
    ] {
        let run = one(&place, &["coll_call_num", "-o", file]);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{file}: {}", run.stderr);
        assert!(out(&place, file).starts_with(begins), "{file}: {}", out(&place, file));
        assert!(run.stderr.contains(&format!("wrote {file}")), "{}", run.stderr);
    }
    one(&place, &["coll_call_num", "-o", "a.parquet", "-q"]).done();
    let bytes = std::fs::read(place.input().join("a.parquet")).expect("it was written");
    assert!(bytes.starts_with(b"PAR1"));
    place.run(&["sql", "SELECT 1 AS n", "-o", "n.csv", "-q"]).done();
    assert_eq!(out(&place, "n.csv"), "n\n1\n");
    place.run(&["list", "traces", "-o", "traces.json", "-q"]).done();
    let list: Value = serde_json::from_str(&out(&place, "traces.json")).expect("JSON");
    assert_eq!(list[0]["trace"], "one");
}

#[test]
fn a_statement_is_explained_and_written_as_parquet() {
    let place = traces();
    let plan = place.run(&["sql", "EXPLAIN SELECT trace FROM ranks WHERE rank = 1"]).done();
    assert!(plan.starts_with('╭') && plan.contains("rank"), "{plan}");
    assert!(!plan.contains("explain_key"), "{plan}");
    for (query, expected) in [
        (
            "SELECT rank AS r, [rank] AS l FROM ranks ORDER BY ALL",
            "r,l\n0,[0]\n0,[0]\n1,[1]\n1,[1]\n",
        ),
        ("SELECT 1 AS n WHERE false", "n\n"),
    ] {
        place.run(&["sql", query, "-o", "rows.parquet", "--force", "-q"]).done();
        let back = place.run(&["sql", "FROM 'rows.parquet'", "--format", "csv"]).done();
        assert_eq!(back, expected);
    }
}

#[test]
fn a_trace_says_how_it_was_ingested() {
    let place = traces();
    place.run(&["ingest", "two", "--name", "named", "--step-range", "epoch", "-q"]).done();
    let options = |trace: &str| -> Value {
        let text = place.run(&["show", trace, "--format", "json"]).done();
        serde_json::from_str::<Value>(&text).expect("JSON")["options"].clone()
    };
    let (one, named) = (options("one"), options("named"));
    assert!(one["path"][0].as_str().is_some_and(|path| path.ends_with("/one")), "{one}");
    assert_eq!((one.get("name"), one.get("step_range")), (None, None), "{one}");
    assert_eq!((&named["name"], &named["step_range"]), (&"named".into(), &"epoch".into()));
}

#[test]
fn lists_have_a_form_for_people() {
    let place = traces();
    let list = |what: &str| place.run(&["list", what]).done();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    // A name stands before what it is.
    let diagnoses = lines(&list("diagnoses"));
    let slow = diagnoses.iter().find(|l| l.trim_start().starts_with("slow_rank "));
    assert!(slow.is_some_and(|line| line.len() > 30), "{diagnoses:?}");
    // An empty line stands between areas, and none in front of the first.
    let metrics = list("metrics");
    let areas = metrics.lines().filter(|l| !l.is_empty() && !l.starts_with(' ')).count();
    assert_eq!(metrics.matches("\n\n").count(), areas - 1, "{metrics}");
    let functions = list("functions");
    assert!(functions.contains("interval_union("), "{functions}");
    let tables = lines(&list("tables"));
    assert!(
        tables.iter().any(|l| l == "tables") && tables.iter().any(|l| l == "views"),
        "{tables:?}"
    );
    let traces = list("traces");
    assert!(traces.lines().nth(2).is_some_and(|l| l.starts_with("one ")), "{traces}");
}

#[test]
fn strict_takes_a_warning_for_an_error() {
    let place = traces();
    let run = |more: &[&str]| one(&place, &[&["iter_time", "--n-chips", "8"], more].concat());
    assert_eq!((run(&[]).code, run(&["--strict"]).code), (0, 0));
    let warned = ["avg_comm_bandwidth_GBps", "--n-chips", "8"];
    assert_eq!(one(&place, &warned).code, 0);
    let strict = one(&place, &[&warned[..], &["--strict"]].concat());
    assert_eq!((strict.code, strict.errors()), (1, vec!["strict"]));
}

#[test]
fn several_reports_are_one_text_or_one_array() {
    let place = traces();
    let both = place.run(&["report", "one", "two"]).done();
    let [first, second] = ["one", "two"].map(|trace| place.run(&["report", trace]).done());
    assert_eq!(both, format!("{first}\n\n{second}"));
    let json = place.run(&["report", "one", "two", "--format", "json"]).done();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    place.run(&["report", "one", "two", "--format", "json", "-o", "out/", "-q"]).done();
    let names = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(place.input().join(folder)).expect("a folder");
        files.map(|f| f.expect("a file").file_name().to_string_lossy().into_owned()).collect()
    };
    let files = names("out");
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        let text = out(&place, &format!("out/{file}"));
        let one: Value = serde_json::from_str(&text).expect("JSON");
        assert!(file.ends_with(".json") && one["trace"].is_string(), "{file}: {text}");
    }
    // A comparison lies in a folder too, or is a page on its own.
    place.run(&["compare", "one", "two", "--format", "json", "-o", "diff/", "-q"]).done();
    assert_eq!(names("diff"), ["comparison.json"]);
    let page = place.run(&["compare", "one", "two", "--format", "html"]).done();
    assert!(page.starts_with("<!doctype html>"), "{}", &page[..200]);
    let sheets = |more: &[&str]| {
        let words = ["compare", "one", "two", "--format", "json"];
        let text = place.run(&[&words[..], more].concat()).done();
        let json: Value = serde_json::from_str(&text).expect("JSON");
        json["comparisons"][0]["sheets"].as_array().map(Vec::len)
    };
    assert!(sheets(&[]) > Some(1));
    assert_eq!(sheets(&["--brief"]), Some(1));
}

#[test]
fn a_report_says_what_was_found_in_the_files() {
    let place = traces();
    let whole = rank_file(0, 300, 0);
    // No rank is stated, and the end is lost.
    let cut = whole.trim_end().trim_end_matches("]}").trim_end().trim_end_matches('}');
    place.write("cut/a.json", cut.replace("\"rank\":0,", ""));
    place.run(&["ingest", "cut", "--keep-partial", "-q"]).done();
    for format in ["text", "md"] {
        let report = place.run(&["report", "cut", "--format", format]).done();
        let is_row = |l: &&str| l.contains(" trace-truncated ") && l.contains("the trace ends ");
        assert_eq!(report.lines().filter(is_row).count(), 1, "{report}");
        let noted = report.lines().find(|l| l.contains("also noted: ")).unwrap_or_default();
        assert!(noted.contains("rank-assumed") && !noted.contains("truncated"), "{report}");
        let clean = place.run(&["report", "one", "--format", format]).done();
        assert!(!clean.contains("also noted: "), "{clean}");
    }
    let diagnosis = place.run(&["diagnose", "one", "two", "--format", "md"]).done();
    let titles: Vec<&str> = diagnosis.lines().filter(|l| l.starts_with("# ")).collect();
    assert_eq!(titles, ["# one", "# two"]);
    assert!(diagnosis.contains("\n| where | "), "{diagnosis}");
}

#[test]
fn a_form_that_the_ending_contradicts_is_refused_before_the_work() {
    let place = Place::new();
    for args in [
        &["metric", "coll_call_num", "--format", "json", "-o", "a.csv"][..],
        &["metric", "coll_call_num", "-o", "a.xlsx"],
        &["metric", "coll_call_num", "--format", "html"],
        &["metric", "coll_call_num", "-o", "folder/"],
        &["sql", "SELECT 1", "--format", "csv", "-o", "a.parquet"],
        &["report", "--format", "html", "-o", "a.json"],
        &["metric", "coll_call_num", "--label", "--format", "csv"],
        &["sql", ""],
        &["sql", "/* nothing */"],
        &["sql", ".tables"],
        &["sql", "SELECT 1; SELECT 2", "-o", "a.parquet"],
        &["list", "tables", "--area", "bandwidth"],
        &["list", "metrics", "--area", "bandwith"],
        &["man", "metrik"],
    ] {
        let run = place.run(args);
        assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{args:?}: {}", run.stderr);
        assert_eq!(std::fs::read_dir(place.input()).expect("a folder").count(), 0, "{args:?}");
    }
}

#[test]
fn bare_values_are_exact_and_can_be_named() {
    let place = traces();
    let several = place.run(&["metric", "straggler_lag", "coll_call_num", "--format", "value"]);
    assert_eq!(several.stdout, "30.0\n2\n30.0\n2\n");
    assert!(
        several.stderr.contains(
            "straggler_lag of one (us), coll_call_num of one (calls), straggler_lag of two (us), coll_call_num of two (calls)"
        ),
        "{}",
        several.stderr
    );
    for form in [&["--label"][..], &["--format", "value", "--label"]] {
        let run = place.run(&[&["metric", "straggler_lag"], form].concat());
        assert_eq!(
            (run.stdout.as_str(), run.stderr.as_str()),
            ("one\tstraggler_lag\t30.0\ntwo\tstraggler_lag\t30.0\n", "")
        );
    }
}

#[test]
fn lists_are_searched_and_whole() {
    let place = Place::new();
    let all = place.run(&["list", "metrics"]).done();
    assert!(!all.contains('…'), "{all}");
    let areas: Vec<&str> = all.lines().filter(|l| !l.is_empty() && !l.starts_with(' ')).collect();
    assert_eq!(areas[..2], ["speed: How fast is it?", "traffic: Who sends what to whom?"], "{all}");
    let words: Vec<&str> = all.lines().nth(1).unwrap_or("").split_whitespace().take(4).collect();
    let first = ["achieved_flops_from_trace_json", "flops_per_s", "Floating-point", "operations"];
    assert_eq!(words, first, "its name, unit and summary");
    let found = place.run(&["list", "metrics", "BANDWIDTH", "--format", "csv"]).done();
    assert!(found.lines().count() > 5, "{found}");
    // One is found by another name of it, `estimated_bandwidth`.
    let says = |line: &str| {
        line.to_lowercase().contains("bandwidth") || line.starts_with("hbm_traffic_gb_per_s,")
    };
    assert!(found.lines().skip(1).all(says), "{found}");
    // Another name finds its metric.
    let alias = place.run(&["list", "metrics", "total_trace_time", "--format", "csv"]).done();
    assert!(alias.lines().nth(1).is_some_and(|l| l.starts_with("wall_time_s,")), "{alias}");
    let area = place.run(&["list", "metrics", "--area", "stragglers", "--format", "csv"]).done();
    assert!(area.lines().skip(1).all(|l| l.contains(",stragglers,")), "{area}");
    let none = place.run(&["list", "tables", "nothing_like_this"]);
    assert_eq!((none.code, none.errors()), (1, vec!["nothing-found"]));
    let slip = place.run(&["metric", "bandwidth_percentiles"]);
    assert!(slip.stderr.contains("did you mean `bus_bandwidth_percentiles`?"), "{}", slip.stderr);
    let part = place.run(&["metric", "bandwidth"]);
    assert!(part.stderr.contains("hint: these names hold `bandwidth`: "), "{}", part.stderr);
}

#[test]
fn definitions_are_json_too() {
    let place = Place::new();
    let json = |name: &str| -> Value {
        let text = place.run(&["show", name, "--format", "json"]).done();
        serde_json::from_str(&text).expect("JSON")
    };
    let metric = json("hockney_alpha_s");
    assert_eq!((&metric["kind"], &metric["unit"]), (&"metric".into(), &"s".into()));
    assert_eq!(metric["params"][0]["name"], "n_chips");
    assert!(metric["sql"].as_str().is_some_and(|sql| sql.starts_with("WITH")), "{metric}");
    // Of a diagnosis alone it is said what it gains.
    assert_eq!(metric.get("gain"), None, "{metric}");
    let diagnosis = json("late_rank");
    assert!(diagnosis["gain"].is_string() && diagnosis["shown"] == "idle_causes", "{diagnosis}");
    assert_eq!(json("steps")["columns"][0]["name"], "trace");
    assert_eq!(json("interval_union")["kind"], "function");
    assert_eq!(json("kernels")["kind"], "view");
    let tables = place.run(&["list", "tables", "--format", "json"]).done();
    let tables: Value = serde_json::from_str(&tables).expect("JSON");
    let keys: Vec<&String> = tables[0].as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["table", "kind", "columns", "row"]);
}

#[test]
fn errors_are_json_when_asked_for() {
    let place = traces();
    for (args, code, exit) in [
        (&["metric", "coll_cal_num", "--errors", "json"][..], "metric-unknown", 1),
        (&["metric", "iter_time", "--trace", "onn", "--errors", "json"], "trace-unknown", 1),
        (&["metrik", "--errors=json"], "usage", 2),
        (&["metric", "iter_time", "--format", "yaml", "--errors", "json"], "usage", 2),
    ] {
        let run = place.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (exit, ""), "{args:?}: {}", run.stderr);
        let error: Value = serde_json::from_str(&run.stderr).expect("one JSON object");
        assert_eq!((&error["level"], &error["code"]), (&"error".into(), &code.into()));
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{error}");
        let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["level", "code", "message", "where", "facts", "hint"]);
    }
    let note = one(&place, &["iter_time", "--n-chips", "8", "--errors", "json"]).stderr;
    let note: Value = serde_json::from_str(&note).expect("one JSON object");
    assert_eq!(note["level"], "note");
}

#[test]
fn every_statement_of_a_text_shows_its_result() {
    let place = traces();
    let sql = |text: &str, format: &str| place.run(&["sql", text, "--format", format]);
    assert_eq!(sql("SELECT 1 AS a; SELECT 'x;y' AS b", "csv").done(), "a\n1\n\nb\nx;y\n");
    assert_eq!(sql("SELECT 1 AS a; SELECT 2 AS b", "table").done(), "a\n-\n1\n\nb\n-\n2\n");
    let json = sql("SELECT 1 AS a; SELECT 2 AS b WHERE false; SELECT 3 AS c", "json").done();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json, serde_json::json!([[{"a": 1}], [], [{"c": 3}]]));
    // What only prepares is no result of its own.
    let made = sql("CREATE TABLE t AS SELECT 7 AS n; SELECT n FROM t", "json").done();
    let made: Value = serde_json::from_str(&made).expect("JSON");
    assert_eq!(made, serde_json::json!([{"n": 7}]));
    // What came before a fault is shown, and the fault says where it is.
    let half = sql("SELECT 1 AS a; SELECT nothing", "csv");
    assert_eq!((half.code, half.stdout.as_str()), (1, "a\n1\n"));
    assert!(half.stderr.contains("--> statement 2 of 2"), "{}", half.stderr);
    // More rows than one piece of a result has.
    let many = sql("SELECT range AS n, 'text ' || range AS t FROM range(100000)", "csv").done();
    assert_eq!(many.lines().count(), 100_001);
    assert_eq!(many.lines().last(), Some("99999,text 99999"));
    let table = sql("SELECT range AS n FROM range(5000)", "table").done();
    assert_eq!(table.lines().count(), 5002, "all rows in a pipe");
    assert_eq!(table.lines().last(), Some("4999"));
}

#[test]
fn manual_pages_and_completions_know_commands_metrics_and_traces() {
    let place = traces();
    let page = place.run(&["man", "metric"]).done();
    assert!(page.contains(".TH ccl-sql-metric 1"), "{page}");
    assert!(page.contains("profile\\-mode"), "{page}");
    place.run(&["man", "-o", "man/", "-q"]).done();
    let pages = std::fs::read_dir(place.input().join("man")).expect("a folder").count();
    let commands = ccl_sql::cli::command().get_subcommands().filter(|c| !c.is_hide_set()).count();
    assert_eq!(pages, commands + 1);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).done();
        assert!(script.contains("ccl-sql"), "{shell}: {script}");
    }
    let complete = |words: &[&str]| {
        let mut command = command(&place.input());
        command.env("CCL_SQL_COMPLETE", "bash").env("CCL_SQL_DATA", "../data");
        command.env("_CLAP_COMPLETE_INDEX", (words.len()).to_string());
        let output = command.arg("--").arg("ccl-sql").args(words).output().expect("it starts");
        String::from_utf8(output.stdout).expect("words are UTF-8")
    };
    let words = |words: &[&str]| -> Vec<String> {
        complete(words).split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words(&["metr"]), ["metric"]);
    assert_eq!(words(&["man", "metr"]), ["metric"]);
    // Other names of a metric, and another data directory.
    assert_eq!(words(&["metric", "communication_overh"]), ["communication_overhead"]);
    let away = ["--data", "nowhere", "metric", "iter_time", "--trace", "t"];
    assert_eq!(words(&away), ["two/"]);
    assert_eq!(words(&["metric", "hockney_al"]), ["hockney_alpha_s"]);
    assert_eq!(words(&["metric", "iter_time", "--trace", "t"]), ["two"]);
    assert_eq!(words(&["list", "metrics", "--area", "inf"]), ["inference"]);
    assert_eq!(words(&["show", "collective_cal"]), ["collective_calls"]);
}

#[test]
fn help_of_a_command_is_of_that_command() {
    let place = Place::new();
    let short = place.run(&["metric", "-h"]).done();
    assert!(!short.contains("Threads, and files read at a time"), "{short}");
    assert!(short.contains("--jobs"), "{short}");
    let long = place.run(&["metric", "--help"]).done();
    assert!(long.contains("Global options:") && long.contains("Threads, and files"), "{long}");
}

/// A metric of a user's, with more lines in its header.
fn own(place: &Place, name: &str, header: &str, query: &str) {
    let text = format!(
        "-- @metric   {name}\n-- @version  1\n-- @area     own\n-- @summary  A metric of a user.\n\
         -- @grain    trace\n-- @value    ranks_count\n{header}\
         -- @column   trace VARCHAR dim - | The ingested trace.\n\
         -- @column   ranks_count BIGINT value count | Ranks.\n-- @source   a test\n{query}\n"
    );
    place.write(&format!("own/{name}.v1.sql"), text);
}

#[test]
fn warnings_are_of_the_trace_and_say_its_numbers() {
    let place = traces();
    let query = "SELECT trace, count(*) + coalesce($more, 0) * (count(*) - 2) AS ranks_count\nFROM ranks\nGROUP BY trace\nORDER BY trace";
    let header = "-- @requires ranks\n-- @reads    collectives steps\n\
        -- @param    more BIGINT NULL | More for each rank beyond two.\n\
        -- @warn     ranks_count < 3 | only {ranks_count} ranks\n\
        -- @warn     ranks_count > 3 | never\n\
        -- @warn     (SELECT count(*) FROM collectives) = 2 || '' | two calls\n\
        -- @answer   'up to rank ' || (SELECT max(rank) FROM steps)\n\
        -- @caveat   Always true.\n";
    own(&place, "ranks_here", header, query);
    place.run(&["check", "--sql-dir", "own"]).done();
    let run = |more: &[&str]| -> Value {
        let args = [&["ranks_here", "--sql-dir", "own", "--format", "json"], more].concat();
        serde_json::from_str(&one(&place, &args).stdout).expect("JSON")
    };
    assert_eq!(run(&[])["warnings"], serde_json::json!(["only 2 ranks", "two calls"]));
    let keys: Vec<String> =
        run(&[])["details"].as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["ranks_count"], "expressions of the header are no details");
    let card = one(&place, &["ranks_here", "--sql-dir", "own"]);
    assert!(card.stdout.starts_with("ranks_here of one: 2; up to rank 1\n"), "{}", card.stdout);
    assert!(card.stderr.contains("note: ranks_here of one: only 2 ranks"), "{}", card.stderr);
    assert!(!card.stderr.contains("Always true"), "{}", card.stderr);
    let csv = one(&place, &["ranks_here", "--sql-dir", "own", "--format", "csv"]).done();
    assert_eq!(csv, "trace,ranks_count\none,2\n");
    // A parameter that changes nothing is answered; its default is no question.
    let said = run(&["-p", "more=5"])["warnings"].to_string();
    assert!(said.contains("more changes nothing for this trace"), "{said}");
    let why = header.replace(
        "-- @answer",
        "-- @warn $more > 0 AND ranks_count = 2 | more counts from three ranks on\n-- @answer",
    );
    own(&place, "ranks_here", &why, query);
    let said = run(&["-p", "more=5"])["warnings"].to_string();
    assert!(said.contains("more counts from three ranks on"), "{said}");
    assert!(!said.contains("changes nothing"), "{said}");
}

#[test]
fn a_parameter_that_the_trace_answers_itself_is_said() {
    let place = traces();
    let json = one(&place, &["avg_comm_bandwidth_GBps", "--n-chips", "8", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("n_chips changes nothing: the trace states the group"), "{warnings}");
    let note = one(&place, &["iter_time", "--model-params", "8e9"]).stderr;
    assert!(note.contains("it is a parameter of estimated_"), "{note}");
}

#[test]
fn a_table_that_the_header_lacks_is_named() {
    let place = traces();
    let query = "SELECT trace, count(*) AS ranks_count\nFROM collective_calls\nGROUP BY trace\nORDER BY trace";
    own(&place, "calls_here", "-- @requires ranks\n", query);
    let run = place.run(&["metric", "calls_here", "--sql-dir", "own"]);
    assert_eq!((run.code, run.errors()), (1, vec!["sql"]));
    assert!(
        run.stderr.contains("the query reads `collective_calls`, which its header does not list"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("-- @requires collective_calls"), "{}", run.stderr);
    own(
        &place,
        "calls_here",
        "-- @requires ranks\n",
        &query.replace("collective_calls", "collective_cals"),
    );
    let run = place.run(&["metric", "calls_here", "--sql-dir", "own"]);
    assert!(run.stderr.contains("did you mean `collective_calls`?"), "{}", run.stderr);
    own(
        &place,
        "calls_here",
        "-- @requires ranks\n-- @warn nothing > 1 | {nothing}\n",
        "SELECT trace, count(*) AS ranks_count\nFROM ranks\nGROUP BY trace\nORDER BY trace",
    );
    let lint = place.run(&["check", "--sql-dir", "own"]);
    assert_eq!(lint.code, 1, "{}", lint.stderr);
    assert!(lint.stderr.contains("nothing"), "{}", lint.stderr);
}

#[test]
fn a_closing_select_that_only_repeats_is_named() {
    let place = traces();
    let counts = "WITH\n    counts AS (\n        SELECT trace, count(*) AS ranks_count\n        FROM ranks\n        GROUP BY trace\n    )\n\n";
    let repeat = "SELECT trace, ranks_count\nFROM counts\nORDER BY trace";
    own(&place, "ranks_here", "-- @requires ranks\n", &format!("{counts}{repeat}"));
    let lint = place.run(&["check", "--sql-dir", "own"]);
    assert_eq!(lint.code, 1, "{}", lint.stderr);
    let fault = "the closing SELECT only repeats the columns of `counts`";
    assert!(lint.stderr.contains(fault), "{}", lint.stderr);
    // A condition is a job of its own.
    let chosen = repeat.replace("ORDER", "WHERE ranks_count > 1\nORDER");
    own(&place, "ranks_here", "-- @requires ranks\n", &format!("{counts}{chosen}"));
    place.run(&["check", "--sql-dir", "own"]).done();
}
