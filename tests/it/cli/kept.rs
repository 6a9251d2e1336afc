//! Answers that are kept: asked again they cost nothing, and none is of what is no more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::shown::{ingested, rank_file};
use crate::support::{Place, files, folders, name, project, run};

/// The file with the answers of a trace.
fn answers(place: &Place) -> PathBuf {
    place.data().join("trace=job/.answers")
}

/// Makes the kept value of a metric another one, so that it can be told from one computed.
fn forge(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("answers were kept");
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).expect("the file can be written");
}

const ASK: [&str; 6] = ["metric", "comm_comp_overlap", "--format", "json", "--trace", "job"];

fn asked(place: &Place, more: &[&str]) -> String {
    let json = place.run(&[&ASK[..], more].concat()).done();
    serde_json::from_str::<Value>(&json).expect("JSON")["value"].to_string()
}

#[test]
fn an_answer_is_kept_until_something_changes() {
    let place = ingested();
    assert_eq!(asked(&place, &[]), "1.0");
    forge(&answers(&place), "\"value\":1.0", "\"value\":0.25");
    assert_eq!(asked(&place, &[]), "0.25", "it is not computed again");
    assert_eq!(asked(&place, &["--no-cache"]), "1.0");
    assert_eq!(asked(&place, &["--profile-mode", "torch"]), "1.0", "another question");

    // The SQL: of a metric, and of a view below it.
    let own = place.input().join("own");
    let write = |view: &str, metric: &str| {
        place.write("own/_own.sql", format!("-- @view _own\n-- @summary Own.\n{view}\n"));
        place.write(
            "own/own.v1.sql",
            format!(
                "-- @metric own\n-- @version 1\n-- @summary Own.\n-- @area speed\n-- @grain trace\n\
                 -- @requires traces _own\n\
                 -- @column trace VARCHAR dim - | Trace.\n\
                 -- @column own_count BIGINT value count | Own.\n-- @value own_count\n\
                 -- @source own\n{metric}\n"
            ),
        );
    };
    let own = own.to_string_lossy();
    let ask = || place.run(&["metric", "own", "--sql-dir", &own, "--format", "value"]).done();
    let metric = "SELECT t.trace, o.x AS own_count FROM traces AS t CROSS JOIN _own AS o";
    write("SELECT 1 AS x", metric);
    assert_eq!((ask(), ask()), ("1\n".to_owned(), "1\n".to_owned()));
    write("SELECT 2 AS x", metric);
    assert_eq!(ask(), "2\n");
    write("SELECT 2 AS x", &metric.replace("o.x", "o.x + 1"));
    assert_eq!(ask(), "3\n");

    // The trace.
    let before = std::fs::read_to_string(answers(&place)).expect("answers");
    place.write("job/rank1.json", rank_file(1, 2, 60));
    place.run(&["ingest", "job", "-q"]).done();
    assert!(!answers(&place).exists(), "they were those of the tables of before");
    std::fs::write(answers(&place), before).expect("written");
    assert_eq!(asked(&place, &[]), "1.0", "answers of other tables are not taken");
    place.run(&["rename", "job", "other"]).done();
    let renamed = place.run(&["metric", "comm_comp_overlap", "--format", "csv"]).done();
    assert!(renamed.lines().nth(1).is_some_and(|row| row.starts_with("other,1.0,")), "{renamed}");
}

/// The program of another version may make derived tables by other SQL: who asks first makes them
/// anew.
#[test]
fn derived_tables_of_other_sql_are_made_anew() {
    let place = ingested();
    let trace = place.data().join("trace=job");
    let manifest = || std::fs::read_to_string(trace.join("manifest.json")).expect("a manifest");
    let before = manifest();
    let calls = "SELECT * EXCLUDE (trace) FROM collectives ORDER BY ALL";
    let rows = place.lines(calls);
    assert!(!rows.is_empty());
    // Of the steps on the way those stay that the next ingest reads.
    let steps: BTreeSet<String> =
        folders(&trace).iter().map(|f| name(f)).filter(|name| name.starts_with('_')).collect();
    let wanted = ["_call_counts", "_collective_events", "_rank_lists"];
    assert_eq!(steps, BTreeSet::from(wanted.map(str::to_owned)));
    // As another version left it, with a step that is no more.
    let told: Value = serde_json::from_str(&before).expect("JSON");
    let mut older = told.clone();
    older["derived_sha256"] = "0".repeat(64).into();
    older["rows"]["collectives"] = 999.into();
    std::fs::write(trace.join("manifest.json"), older.to_string()).expect("written");
    std::fs::create_dir(trace.join("_of_another_version")).expect("made");
    assert_eq!(asked(&place, &[]), "1.0");
    assert_eq!(place.lines(calls), rows);
    assert!(!trace.join("_of_another_version").exists());
    let now: Value = serde_json::from_str(&manifest()).expect("JSON");
    assert_eq!((&now["derived_sha256"], &now["rows"]), (&told["derived_sha256"], &told["rows"]));
}

#[test]
fn a_copy_of_a_trace_answers_by_its_own_name() {
    let place = ingested();
    let ask = ["metric", "comm_comp_overlap", "--format", "csv"];
    let job = place.run(&ask).done();
    let (from, to) = (place.data().join("trace=job"), place.data().join("trace=twin"));
    for file in files(&from) {
        let copy = to.join(file.strip_prefix(&from).expect("a file below the folder"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&file, &copy).expect("copied");
    }
    assert!(to.join(".answers").exists(), "its answers were copied with it");
    let (_, row) = job.trim_end().split_once('\n').expect("two lines");
    let twin = row.replacen("job,", "twin,", 1);
    assert_eq!(place.run(&ask).done(), format!("{job}{twin}\n"));
}

#[test]
fn an_answer_of_several_traces_is_kept_until_one_of_them_changes() {
    let place = ingested();
    let second = |late: i64| {
        for rank in 0..2 {
            place.write(&format!("two/rank{rank}.json"), rank_file(rank, 2, late * rank));
        }
        place.run(&["ingest", "two", "-q"]).done();
    };
    second(50);
    let compared = || place.run(&["compare", "job", "two", "--format", "json"]).done();
    let first = compared();
    forge(&place.data().join(".answers"), "\"exposed_comm_time\"", "\"made up\"");
    let again = compared();
    assert!(!first.contains("made up") && again.contains("made up"), "{again}");
    second(60);
    let anew = compared();
    assert!(!anew.contains("made up") && anew != first, "{anew}");
}

#[test]
fn every_command_says_the_same_again() {
    let place = ingested();
    for rank in 0..2 {
        place.write(&format!("two/rank{rank}.json"), rank_file(rank, 2, 50 * rank));
    }
    place.run(&["ingest", "two", "-q"]).done();
    let commands: [&[&str]; 8] = [
        &["metric", "--all", "--format", "json"],
        &["metric", "--all", "--format", "csv"],
        &["metric", "coll_call_num", "--format", "csv"],
        &["metric", "straggler", "-p", "align=true"],
        &["diagnose", "job", "--what-if"],
        &["report", "job", "--format", "json"],
        &["report", "job", "--format", "md"],
        &["compare", "job", "two", "--format", "json"],
    ];
    for command in commands {
        let fresh = place.run(&[command, &["--no-cache"]].concat());
        let first = place.run(command);
        let again = place.run(command);
        assert_eq!(first, fresh, "{command:?}");
        assert_eq!(again, fresh, "{command:?}");
    }
    // A Parquet file has the types of the query.
    for name in ["fresh", "first", "again"] {
        let more: &[&str] = if name == "fresh" { &["--no-cache"] } else { &[] };
        let file = format!("{name}.parquet");
        place.run(&[&["metric", "straggler", "-o", &file], more].concat()).done();
    }
    let bytes = |name: &str| std::fs::read(place.input().join(format!("{name}.parquet")));
    assert_eq!(bytes("fresh").expect("written"), bytes("again").expect("written"));
}

#[test]
fn damaged_answers_are_computed_again() {
    let place = ingested();
    let ask = ["metric", "--all", "--format", "json"];
    let right = place.run(&ask).done();
    let whole = std::fs::read(answers(&place)).expect("answers");
    let mut state = 1_u64;
    for round in 0..24_usize {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).expect("it fits") % whole.len();
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(at),
            // Hidden in the digits of a row of Arrow, or in JSON.
            1 => bytes[at] = b'0',
            _ => bytes[at..(at + 64).min(whole.len())].fill(b'f'),
        }
        std::fs::write(answers(&place), &bytes).expect("written");
        let run = place.run(&ask);
        assert_eq!(run.code, 0, "byte {at}: {}", run.stderr);
        // Another digit of a number is another number: only what is no answer is seen.
        if round % 3 == 0 {
            assert_eq!(run.stdout, right, "cut at {at}");
        }
    }
}

#[test]
fn answers_of_strangers_steer_no_terminal_and_bring_no_statements() {
    let place = ingested();
    let ask = ["diagnose", "job", "--least", "0"];
    let right = place.run(&ask).done();
    assert!(right.contains("recording"), "{right}");
    let text = std::fs::read_to_string(answers(&place)).expect("answers");
    assert!(text.contains("\"evidence\":\""), "{text}");
    let hostile = text
        .replace("\"evidence\":\"", "\"evidence\":\"COPY traces TO 'x'; ")
        .replace("\"finding\":\"", "\"finding\":\"\\u001b[2J");
    std::fs::write(answers(&place), hostile).expect("written");
    let run = place.run(&ask);
    assert!(!run.stdout.contains('\u{1b}') && !run.stdout.contains("COPY"), "{}", run.stdout);
    let hostile = text.replace("\"finding\":\"", "\"finding\":\"\\u001b[2J\\u202e");
    std::fs::write(answers(&place), hostile).expect("written");
    let run = place.run(&ask);
    assert!(!run.stdout.contains(['\u{1b}', '\u{202e}']), "{}", run.stdout);
}

#[test]
fn processes_that_answer_together_keep_what_is_right() {
    let place = ingested();
    let names = ["comm_comp_overlap", "coll_call_num", "wall_time_s", "straggler", "iter_time"];
    let data = place.data().to_string_lossy().into_owned();
    let right: Vec<String> = names
        .iter()
        .map(|name| place.run(&["metric", name, "--format", "csv", "--no-cache"]).stdout)
        .collect();
    std::thread::scope(|scope| {
        for round in 0..4 {
            for (name, right) in names.iter().zip(&right) {
                let data = &data;
                scope.spawn(move || {
                    let args = ["--data", data, "metric", name, "--format", "csv"];
                    assert_eq!(run(project(), &args).stdout, *right, "{name} in round {round}");
                });
            }
        }
    });
    let left: Vec<_> = std::fs::read_dir(place.data().join("trace=job"))
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(".answers-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_folder_that_may_not_be_written_answers_too() {
    use std::os::unix::fs::PermissionsExt;
    let place = ingested();
    let folder = place.data().join("trace=job");
    let mode = |mode: u32| {
        let all = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&folder, all).expect("the folder is ours");
    };
    mode(0o555);
    let first = asked(&place, &[]);
    mode(0o755);
    assert_eq!(first, "1.0");
}
