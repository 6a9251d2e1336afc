//! `ccl-sql shell`: piped in, and typed on a terminal.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cli::shown::ingested;
use crate::support::runs::step_of_rank;
use crate::support::terminal::{Ended, Terminal};
use crate::support::{Place, Run, command, files, program};

/// The shell, with these lines on its standard input.
pub fn shell(place: &Place, args: &[&str], input: &str) -> Run {
    let mut command = command(&place.input());
    let command = command.args([&["--data", "../data", "shell"], args].concat());
    Run::of(command.write_stdin(input.to_owned()))
}

fn two() -> Place {
    let place = ingested();
    place
        .write("late/rank0.json", step_of_rank(0, 2, 400, 1200))
        .write("late/rank1.json", step_of_rank(1, 2, 400, 1290));
    place.run(&["ingest", "late", "-q"]).done();
    place
}

#[test]
fn traces_are_chosen_and_metrics_follow() {
    let place = two();
    let input = ".mode csv\n\
        SELECT trace, mean_lag_us FROM straggler_lag ORDER BY trace;\n\
        CREATE TABLE mine AS SELECT 7 AS n;\n\
        .use late\n\
        SELECT trace, mean_lag_us FROM straggler_lag;\n\
        SELECT DISTINCT trace FROM collectives;\n\
        .run coll_call_num\n\
        .use\n\
        .run straggler_lag trace=job\n\
        SELECT count(DISTINCT trace) AS n FROM collectives;\n\
        FROM mine;\n";
    let run = shell(&place, &[], input);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..3], ["trace,mean_lag_us", "job,30.0", "late,90.0"], "{}", run.stdout);
    assert_eq!(lines[3..7], ["trace,mean_lag_us", "late,90.0", "trace", "late"], "{}", run.stdout);
    assert!(lines[8].starts_with("late,2,"), "{}", run.stdout);
    assert!(lines[10].starts_with("job,30.0,"), "{}", run.stdout);
    assert_eq!(lines[11..], ["n", "2", "n", "7"], "{}", run.stdout);
    assert!(run.stderr.contains("traces: late"), "{}", run.stderr);
    let run = shell(&place, &["--trace", "late"], ".mode csv\n.traces\n.use lat\n.use nothing\n");
    let shown: Vec<&str> =
        run.stdout.lines().map(|l| l.split_at(l.find(",k").unwrap_or(0)).0).collect();
    assert_eq!(shown[1..], ["job,false", "late,true"], "{}", run.stdout);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-unknown"]), "{}", run.stderr);
}

#[test]
fn a_transaction_takes_back_no_table_of_the_program() {
    let place = two();
    let input = ".mode csv\nSELECT count(*) AS a FROM collectives;\nBEGIN;\n\
        CREATE VIEW mine AS SELECT DISTINCT trace FROM collectives;\n\
        SELECT count(*) AS b FROM steps;\nSELECT count(*) AS c FROM straggler_lag;\nROLLBACK;\n\
        SELECT count(*) AS d FROM steps;\nSELECT count(*) AS e FROM straggler_lag;\n\
        CREATE VIEW mine AS SELECT DISTINCT trace FROM collectives;\n.use late\nFROM mine;\n\
        .tables min*\n";
    let run = shell(&place, &[], input);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let wanted = ["a", "4", "b", "4", "c", "2", "d", "4", "e", "2", "trace", "late"];
    assert_eq!(lines[..12], wanted, "{}\n{}", run.stdout, run.stderr);
    let input = "BEGIN;\nFROM metric('straggler_lag', align := false);\nROLLBACK;\n.mode csv\n\
        SELECT count(*) AS n FROM metric('straggler_lag', align := false);\n";
    let called = shell(&place, &[], input);
    assert_eq!(
        (called.errors(), called.stdout.as_str()),
        (vec!["sql"], "n\n2\n"),
        "{}",
        called.stderr
    );
    // One that is committed keeps what was made in it, and is over.
    let input = ".mode csv\nBEGIN;\nCREATE TABLE mine AS SELECT count(*) AS n FROM collectives;\n\
        COMMIT;\nFROM mine;\nSELECT count(*) AS c FROM straggler_lag;\n.use late\n\
        SELECT count(*) AS d FROM collectives;\nROLLBACK;\nFROM mine;\n";
    let kept = shell(&place, &[], input);
    assert_eq!(kept.errors(), ["sql"], "{}", kept.stderr);
    assert_eq!(kept.stdout.lines().collect::<Vec<_>>(), ["n", "4", "c", "2", "d", "2", "n", "4"]);
    // Views that were first made in one are made again, though others were shown meanwhile.
    let input = ".mode csv\nBEGIN;\nSELECT count(*) > 0 AS a FROM kernels;\n.use late\nROLLBACK;\n\
        SELECT DISTINCT trace FROM kernels;\n";
    let taken = shell(&place, &[], input).done();
    assert_eq!(taken.lines().collect::<Vec<_>>(), ["a", "true", "trace", "late"]);
    assert_eq!(lines[12..], ["table,kind,columns,row", "mine,view,1,"], "{}", run.stdout);
}

/// The catalogue counts the columns that a query of all of a table gives.
#[test]
fn a_session_follows_a_trace_that_another_takes_the_place_of() {
    let place = ingested();
    let mut shell = Command::new(program())
        .current_dir(place.input())
        .args(["--data", "../data", "-q", "shell", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut typed = shell.stdin.take().expect("it is piped");
    let mut lines = BufReader::new(shell.stdout.take().expect("it is piped")).lines();
    let mut answer = |text: &str| -> Vec<String> {
        writeln!(typed, "{text}\n.print END").expect("it reads");
        let lines = lines.by_ref().map(|line| line.expect("it is UTF-8"));
        lines.take_while(|line| line != "END").collect()
    };
    answer("CREATE VIEW mine AS SELECT sum(ts_ns) AS starts FROM device_events;");
    let questions = [
        "SELECT count(*) AS n FROM host_events;",
        "SELECT mean_lag_us FROM straggler_lag;",
        "FROM mine;",
    ];
    let before = questions.map(&mut answer);
    assert_eq!(before[1], ["mean_lag_us", "30.0"]);
    // The second rank comes later than it did.
    place.write("job/rank0.json", step_of_rank(0, 2, 400, 1200));
    place.write("job/rank1.json", step_of_rank(1, 2, 400, 1290));
    place.run(&["ingest", "job", "-q"]).done();
    let after = questions.map(&mut answer);
    assert_eq!(after[1], ["mean_lag_us", "90.0"]);
    assert_ne!(before[2], after[2]);
    // Nothing is held of the first any more.
    let manifests = |file: &&PathBuf| file.ends_with("manifest.json");
    let held = || files(&place.data()).iter().filter(manifests).count();
    assert_eq!(held(), 2);
    drop(typed);
    assert!(shell.wait().expect("it is our child").success());
    assert_eq!(held(), 1);
}

#[test]
fn arrays_of_any_layout_are_shown() {
    let place = Place::new();
    let input = ".mode json\nSET arrow_large_buffer_size = true;\n\
        SELECT 'a' AS text, [1, 2] AS list, {'of': ['b']} AS inner;\n\
        SET arrow_large_buffer_size = false;\nSET produce_arrow_string_view = true;\n\
        SELECT 'longer than twelve bytes' AS text, ['a'] AS list;\n\
        SET arrow_output_version = '1.5';\nSELECT 1.5::DECIMAL(4, 1) AS small,\n\
        -2.25::DECIMAL(12, 2) AS medium, 3::HUGEINT AS large;\n\
        SELECT 'longer than twelve bytes' AS text;\n";
    let run = shell(&place, &[], input);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let shown: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&run.stdout)
        .into_iter()
        .map(|value| value.expect("JSON"))
        .collect();
    let expected = serde_json::json!([
        [{"text": "a", "list": [1, 2], "inner": {"of": ["b"]}}],
        [{"text": "longer than twelve bytes", "list": ["a"]}],
        [{"small": 1.5, "medium": -2.25, "large": 3}],
        [{"text": "longer than twelve bytes"}],
    ]);
    assert_eq!(serde_json::Value::from(shown), expected);
    let input = ".mode box\nSET arrow_output_version = '1.5';\n\
        SELECT 1.5::DECIMAL(4, 1) AS small, 2::DECIMAL(12, 2) AS medium;\n";
    let boxed = shell(&place, &[], input).stdout;
    assert!(boxed.contains("DECIMAL(4, 1)") || boxed.contains("decimal(4,1)"), "{boxed}");
    assert!(boxed.contains("12"), "{boxed}");
}

#[test]
fn the_catalogue_counts_columns() {
    let place = ingested();
    for name in ["steps", "collectives", "gpu_timeline"] {
        let listed = shell(&place, &[], &format!(".mode csv\n.tables {name}\n")).done();
        let columns =
            listed.lines().nth(1).and_then(|line| line.split(',').nth(2).map(str::to_owned));
        let sql = format!("SELECT count(*) FROM (DESCRIBE {name})");
        assert_eq!(columns.as_ref(), place.lines(&sql).first(), "{name}: {listed}");
    }
    // Tables of traces come first; views, and what the user made, follow by their names.
    let typed = "CREATE TABLE aaa(n INT); CREATE VIEW zzz AS SELECT 1 AS n;\n.mode csv\n.tables\n";
    let listed = shell(&place, &[], typed).done();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(',').next()).collect();
    let first = names.iter().position(|name| *name == "aaa").expect("it is listed");
    assert!(names[..first].contains(&"device_events"), "{names:?}");
    assert_eq!(names.last(), Some(&"zzz"), "{names:?}");
    assert!(names.len() > first + 10 && names[first..].is_sorted(), "{names:?}");
}

#[test]
fn results_take_the_form_that_is_set() {
    let place = ingested();
    for (mode, wanted) in [
        ("json", "[\n  {\n    \"a\": 1,\n    \"b\": \"x\\ty\"\n  }\n]\n"),
        ("jsonl", "{\"a\":1,\"b\":\"x\\ty\"}\n"),
        ("csv", "a,b\n1,x\ty\n"),
        ("tsv", "a\tb\n1\tx\\ty\n"),
        ("value", "1\n"),
        ("line", "a = 1\nb = x\\ty\n"),
        ("trash", ""),
        ("table", "a  b\n-  ----\n1  x\\ty\n"),
    ] {
        let input = format!(".mode {mode}\nSELECT 1 AS a, 'x\ty' AS b;\n");
        assert_eq!(shell(&place, &[], &input).done(), wanted, "{mode}");
    }
    let input = ".mode box\n.maxwidth 60\nSELECT 1234567 AS dur_ns, [1, 2] AS list;\n\
                 .exact on\nSELECT 1234567 AS dur_ns;\n";
    let text = shell(&place, &[], input).done();
    assert!(text.contains("│   dur_ns │ list      │\n│  integer │ integer[] │\n"), "{text}");
    assert!(text.contains("│ 1.235 ms │ 1, 2      │\n"), "{text}");
    assert!(text.contains("│ 1234567 │\n"), "{text}");
    assert!(text.contains("1 row, 2 columns\n"), "{text}");
    let input = ".mode box\n.maxrows 4\nFROM range(100000) t(n);\n";
    let text = shell(&place, &[], input).done();
    assert!(text.contains("100,000 rows (4 shown), 1 column"), "{text}");
    assert!(
        text.contains("99999 │") && text.contains("    1 │") && !text.contains("    2 │"),
        "{text}"
    );
}

#[test]
fn files_are_read_and_written() {
    let place = ingested();
    place.write("inner.sql", "SELECT 2 AS n;\nSELECT nothing;\n");
    place.write("outer.sql", ".mode csv\nSELECT 1 AS n;\n.read inner.sql\n.print 'the end'\n");
    let run =
        shell(&place, &[], ".read outer.sql\n.once once.json\nSELECT 3 AS n;\nSELECT 4 AS n;\n");
    assert_eq!(run.stdout, "n\n1\nn\n2\nthe end\nn\n4\n", "{}", run.stderr);
    assert!(run.stderr.contains("inner.sql, line 2"), "{}", run.stderr);
    let file = |name: &str| std::fs::read(place.input().join(name)).expect("it was written");
    assert_eq!(file("once.json"), b"[\n  {\n    \"n\": 3\n  }\n]\n");
    let input = ".once once.json\nSELECT 5 AS n;\n.once --force once.json\nSELECT 6 AS n;\n\
                 .once p.parquet\nSELECT 7 AS n;\n";
    let run = shell(&place, &[], input);
    assert_eq!(run.errors(), ["output-exists"], "{}", run.stderr);
    assert!(String::from_utf8_lossy(&file("once.json")).contains('6'));
    assert!(file("p.parquet").starts_with(b"PAR1"));
    let run = shell(&place, &[], ".bail on\nSELECT nothing;\n.mode csv\nSELECT 1 AS n;\n");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    place.write("loop.sql", ".print again\n.read loop.sql\n");
    let run = shell(&place, &[], ".read loop.sql\n.read nowhere.sql\n");
    assert_eq!(run.errors(), ["usage", "io"], "{}", run.stderr);
    assert_eq!(run.stdout, "again\n".repeat(16));
}

#[test]
fn results_go_to_a_file_until_they_go_back() {
    let place = ingested();
    let input = ".mode csv\n.output a.csv\nSELECT 1 AS n;\nSELECT 2 AS n;\n.run straggler_lag\n.output\n\
                 SELECT 3 AS n;\n.output a.csv\nSELECT 4 AS n;\n.output no/where.csv\n";
    let run = shell(&place, &[], input);
    assert_eq!(run.stdout, "n\n3\nn\n4\n", "{}", run.stderr);
    assert_eq!(run.errors(), ["output-exists", "io"], "{}", run.stderr);
    assert!(run.stderr.contains("say `.output --force a.csv` to write over it"), "{}", run.stderr);
    let file = || std::fs::read_to_string(place.input().join("a.csv")).expect("it was written");
    assert!(file().starts_with("n\n1\nn\n2\ntrace,"), "{}", file());
    shell(&place, &[], ".mode csv\n.output --force a.csv\nSELECT 5 AS n;\n").done();
    assert_eq!(file(), "n\n5\n");
}

#[test]
fn a_setting_says_what_it_is() {
    let place = ingested();
    let settings = ["mode", "maxrows", "maxwidth", "bail", "timer", "exact", "pager", "highlight"];
    let ask = settings.map(|name| format!(".{name}\n")).concat();
    let run = shell(&place, &[], &ask);
    let said = |run: &Run| -> Vec<String> { run.stderr.lines().map(str::to_owned).collect() };
    let first = [
        "the mode is table",
        "a table shows 1000 rows",
        "a table is as wide as the terminal",
        "to end at an error is off",
        "the timer is off",
        "exact numbers are off",
        "the pager is on",
        "colours are off",
    ];
    assert_eq!(said(&run), first);
    let set = ".mode csv\n.maxrows 7\n.maxwidth 60\n.bail on\n.timer on\n.exact on\n.pager off\n\
               .highlight on\n";
    let run = shell(&place, &[], &format!("{set}{ask}.maxwidth 0\n.maxwidth\nSELECT 1;\n"));
    let second = [
        "the mode is csv",
        "a table shows 7 rows",
        "a table is 60 columns wide",
        "to end at an error is on",
        "the timer is on",
        "exact numbers are on",
        "the pager is off",
        "colours are on",
        "a table is as wide as the terminal",
    ];
    let said = said(&run);
    assert_eq!(said[..9], second);
    assert!(said[9].starts_with("time: 0.") && said.len() == 10, "{said:?}");
}

#[test]
fn a_metric_is_a_card_where_a_width_is_set() {
    let place = ingested();
    let input = ".mode box\n.maxwidth 60\n.run straggler_lag\n.exact on\n.run straggler_lag\n";
    let text = shell(&place, &[], input).done();
    let command =
        |more: &[&str]| place.run(&[&["metric", "straggler_lag"][..], more].concat()).done();
    assert!(text.contains("straggler_lag of job: 30.00 us\n"), "{text}");
    assert!(text.contains("straggler_lag of job: 30.0\n"), "{text}");
    assert!(command(&[]).contains("straggler_lag of job: 30.00 us\n"));
    assert!(command(&["--exact"]).contains("straggler_lag of job: 30.0\n"));
}

#[test]
fn a_sandbox_touches_no_file() {
    let place = ingested();
    place.write("a.sql", "SELECT 1;\n");
    let input = ".read a.sql\n.once b.csv\n.output c.csv\n.use ../in/job\n.use /etc\n\
                 COPY (SELECT 1) TO 'd.csv';\n.mode csv\nSELECT mean_lag_us FROM straggler_lag;\n";
    let run = shell(&place, &["--sandbox"], input);
    assert_eq!(run.errors(), ["usage", "usage", "usage", "trace-unknown", "sql"], "{}", run.stderr);
    assert_eq!(run.stdout, "mean_lag_us\n30.0\n");
    // A metric is of traces by name, and a path is none.
    place.write("new/rank0.json", step_of_rank(0, 1, 400, 1200));
    let input = ".mode csv\n.run straggler_lag trace=job\n.run straggler_lag trace=new\n";
    let of_name = shell(&place, &["--sandbox"], input);
    assert_eq!(of_name.errors(), ["trace-unknown"], "{}", of_name.stderr);
    assert!(of_name.stdout.contains("\njob,30.0,"), "{}", of_name.stdout);
    for file in ["b.csv", "c.csv", "d.csv"] {
        assert!(!place.input().join(file).exists(), "{file}");
    }
}

#[test]
fn columns_are_explained_and_drawn() {
    let place = ingested();
    let input = ".mode csv\n.describe straggler_lag\n.schema steps\n.metrics straggler_l*\n";
    let text = shell(&place, &[], input).done();
    assert!(text.contains("mean_lag_us,DOUBLE,us,"), "{text}");
    assert!(text.contains("null_reason,VARCHAR,,"), "{text}");
    assert!(text.contains("column,type,meaning\n") && text.contains("\nstraggler_lag,"), "{text}");
    let input = "SELECT * FROM (VALUES ('a', 1), ('b', 3)) t(name, calls);\n.plot name calls\n\
                 SELECT n AS start_ns, n * n AS dur_ns FROM range(100) t(n);\n.plot\n.plot start_ns no\n";
    let run = shell(&place, &[], input);
    assert!(run.stdout.contains("calls by name\na  1 calls"), "{}", run.stdout);
    assert!(run.stdout.contains("dur_ns, 0 ns to 9.801 us\n"), "{}", run.stdout);
    assert!(run.stdout.contains("\n100 points\n"), "{}", run.stdout);
    assert_eq!(run.errors(), ["sql"], "{}", run.stderr);
    let input = "SELECT 'n' || range AS name, 1 AS calls FROM range(100);\n.plot name calls\n\
                 SELECT range / 4 AS x, range AS y FROM range(5);\n.plot x y\n";
    let run = shell(&place, &[], input).done();
    assert!(run.contains("\n(60 more)\n") && run.contains("\n5 points\n"), "{run}");
    assert_eq!(shell(&place, &[], ".plot\n").errors(), ["usage"]);
    let help = shell(&place, &[], ".help plot\n").done();
    assert_eq!(help.lines().count(), 1, "{help}");
}

#[test]
fn definitions_plans_and_answers_have_their_forms() {
    let place = two();
    let done = |typed: &str| shell(&place, &[], typed).done();
    let plan = done("EXPLAIN SELECT count(*) FROM ranks;\n");
    assert!(plan.starts_with('╭') && !plan.contains("explain_key"), "{plan}");
    let csv = done(".mode csv\nEXPLAIN SELECT count(*) FROM ranks;\n");
    assert!(csv.starts_with("explain_key,explain_value\n"), "{csv}");
    // A view of the user's own is shown as DuckDB keeps it.
    let own = done("CREATE VIEW mine AS SELECT 7 AS n;\n.show mine\n");
    assert!(own.contains("CREATE VIEW mine AS SELECT 7 AS n;"), "{own}");
    assert!(done(".show straggler_lag\n").contains("straggler_lag"));
    assert_eq!(shell(&place, &[], ".show nothing_here\n").errors(), ["metric-unknown"]);
    let json = done(".mode json\n.metric straggler_lag\n");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["metric"], "straggler_lag");
    // Columns of all, and of one.
    let all = done(".mode csv\n.schema\n");
    let one = done(".mode csv\n.describe ranks\n");
    assert!(all.lines().count() > 10 * one.lines().count(), "{one}");
    assert!(all.lines().skip(1).all(|l| !l.starts_with('_')));
    let place_of = |head: &str, name: &str| head.split(',').position(|n| n == name);
    let (of_all, of_one) =
        (all.lines().next().expect("a head"), one.lines().next().expect("a head"));
    assert_eq!(place_of(of_one, "column"), Some(0), "{of_one}");
    assert_eq!(place_of(of_all, "column"), Some(1), "{of_all}");
    let tables = done(".mode csv\n.tables\n");
    assert!(tables.lines().any(|l| l.starts_with("ranks,")) && !tables.contains("\n_"), "{tables}");
    // Results go to the file that the command line names.
    let run = shell(&place, &["-o", "out.csv"], ".mode csv\nSELECT 1 AS n;\nSELECT 2 AS n;\n");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let text = std::fs::read_to_string(place.input().join("out.csv")).expect("it was written");
    assert_eq!(text, "n\n1\nn\n2\n");
    let refused = shell(&place, &["-o", "out.csv"], "SELECT 1 AS n;\n");
    assert_eq!(refused.errors(), ["output-exists"]);
    // The form of a file follows its ending.
    for (file, begins) in [("a.txt", "n\n-\n1"), ("a.ndjson", "{\"n\":1}"), ("a.tsv", "n\n1")] {
        done(&format!(".once {file}\nSELECT 1 AS n;\n"));
        let text = std::fs::read_to_string(place.input().join(file)).expect("it was written");
        assert!(text.starts_with(begins), "{file}: {text}");
    }
}

/// What a terminal shows of a session; None where there is none.
fn on_terminal(place: &Place, args: &str, pager: &str, typed: &str) -> Option<Ended> {
    let words = format!("shell {args}");
    let mut terminal = Terminal::start(place, (12, 72), &words, &[("PAGER", pager)])?;
    terminal.type_in(typed);
    Some(terminal.end())
}

#[test]
fn what_is_longer_than_the_terminal_goes_to_the_pager() {
    let place = ingested();
    let typed = ".mode csv\nSELECT 'long' || n AS a FROM range(30) t(n);\nSELECT 'short' AS b;\n\
                 .pager off\nSELECT 'whole' || n AS c FROM range(30) t(n);\n.quit\n";
    let Some(ended) = on_terminal(&place, "", "sed s/^/>/", typed) else { return };
    let text = ended.written;
    assert!(text.contains("\n>a\r\n>long0\r\n") && text.contains("\n>long29\r\n"), "{text}");
    assert!(text.contains("\nb\r\nshort\r\n"), "{text}");
    assert!(text.contains("\nc\r\nwhole0\r\n") && !text.contains(">whole"), "{text}");
    // A pager that is not there is none.
    let typed = ".mode csv\nSELECT 'long' || n AS a FROM range(30) t(n);\n.quit\n";
    let text = on_terminal(&place, "", "no-such-pager", typed).map(|e| e.written);
    let text = text.unwrap_or_default();
    assert!(text.contains("\na\r\nlong0\r\n") && text.contains("\nlong29\r\n"), "{text}");
    // No piece of a long one ends inside of a character.
    let long = ".mode csv\n.pager off\nSELECT 'x' || repeat(chr(233), 50000) AS d;\n.quit\n";
    let text = on_terminal(&place, "", "cat", long).map(|e| e.written).unwrap_or_default();
    assert!(text.contains(&format!("\nx{}\r\n", "é".repeat(50_000))), "{} bytes", text.len());
    // One of a sandbox runs no commands.
    for (args, secured) in [("", false), ("--sandbox", true)] {
        let text = on_terminal(&place, args, "env", typed).map(|e| e.written).unwrap_or_default();
        assert!(!text.contains("long29"), "{text}");
        assert_eq!(text.contains("\nLESSSECURE=1\r\n"), secured, "{text}");
    }
    // Of exactly as many lines as the screen has, none is lost.
    let typed = ".mode csv\nSELECT 'fits' || n AS a FROM range(10) t(n);\n\
                 SELECT 'not' || n AS a FROM range(11) t(n);\n.quit\n";
    let text = on_terminal(&place, "", "sed s/^/>/", typed).map(|e| e.written);
    let text = text.unwrap_or_default();
    assert!(text.contains("\nfits9\r\n") && text.contains("\n>not10\r\n"), "{text}");
}

#[test]
fn a_terminal_gets_a_box_and_no_escape_of_a_trace() {
    let place = ingested();
    let typed = "SELECT 1234567 AS dur_ns,\n'\u{202e}' || chr(27) || '[31mred' AS name;\n.quit\n";
    let Some(ended) = on_terminal(&place, "", "cat", typed) else { return };
    let text = ended.written;
    assert!(text.contains("│ 1.235 ms │ \\u{202e}\\u{1b}[31mred │"), "{text}");
    assert!(text.contains("1 row, 2 columns"), "{text}");
    // What is typed has colours.
    assert!(text.contains("\u{1b}[1;34mSELECT\u{1b}[0m"), "{text}");
    // A statement over two lines is one entry of the history.
    let history =
        std::fs::read_to_string(place.input().join("ccl-sql/history")).expect("it is kept");
    assert!(history.contains("dur_ns,\\n"), "{history}");
}

#[test]
fn a_prompt_names_the_traces_and_keys_end_lines_and_sessions() {
    let place = two();
    let Some(mut terminal) = Terminal::start(&place, (12, 72), "shell", &[]) else { return };
    terminal.see("ccl-sql> ").type_in(".use late\n");
    terminal.see("ccl-sql late> ").type_in(".use late job\n");
    // Ctrl-C forgets what was typed, and Ctrl-D ends.
    terminal.see("ccl-sql 2 traces> ").type_in("SELECT 'gone").see("gone").type_in("\u{3}");
    terminal.see("ccl-sql 2 traces> ").type_in("SELECT 'there';\n").see("there");
    terminal.see("1 row, 1 column").see("ccl-sql 2 traces> ").type_in("\u{4}");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    assert!(!ended.screen.contains("error"), "{}", ended.screen);
}

#[test]
fn tables_and_drawings_fit_the_terminal() {
    let place = two();
    let typed = ".traces\nSELECT n AS x, n * n AS y FROM range(20) t(n);\n.plot\n\
                 SELECT true AS yes, 3 AS n UNION ALL SELECT false, 1 ORDER BY 1;\n.plot\n\
                 .run straggler_lag trace=late\n.quit\n";
    let Some(ended) = on_terminal(&place, "", "cat", typed) else { return };
    let screen = ended.screen;
    for part in ["late", "false", "true", "straggler_lag of late"] {
        assert!(screen.contains(part), "no {part:?} in\n{screen}");
    }
    let is_wide = |line: &&str| line.chars().count() > 72;
    assert_eq!(screen.lines().find(is_wide), None);
}

#[test]
fn lists_of_few_rows_lie_below_the_table() {
    let place = Place::new();
    let input = ".mode box\nSELECT 'first' AS name,\n\
        [{'a': 1, 'b': 'a long text'}, {'a': 3, 'b': 'more of it'}] AS parts\n\
        UNION ALL SELECT 'second', [{'a': 5, 'b': 'x'}, {'a': 6, 'b': 'another long text'}]\n\
        ORDER BY 1;\n";
    let shown = shell(&place, &[], input).stdout;
    let (table, below) = shown.split_once("parts of first").expect("the first list");
    assert!(table.contains("2 rows, below"), "{shown}");
    let (first, second) = below.split_once("parts of second").expect("the second list");
    assert!(first.contains("more of it") && !first.contains("another"), "{shown}");
    assert!(second.contains("another long text"), "{shown}");
}

#[test]
fn an_unknown_word_gets_the_nearest() {
    let place = ingested();
    let input = ".schema collectve\n.timer maybe\n.tables colectives\n\
        CREATE TABLE mine AS SELECT 1 AS other, 'b' AS trace;\n.mode csv\n.schema mine\n\
        .once out.odd\nSELECT 1 AS n;\n";
    let run = shell(&place, &[], input);
    for part in ["did you mean `collectives`?", "write .timer [on|off]"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    // What somebody made has no words; a file of an unknown ending takes the form that is set.
    assert!(run.stdout.contains("other,INTEGER,\n"), "{}", run.stdout);
    let text = std::fs::read_to_string(place.input().join("out.odd")).expect("it was written");
    assert_eq!(text, "n\n1\n");
}
