//! The program with SQL files of a folder in place of its own, as somebody has who changes them.

use std::path::PathBuf;

use assert_cmd::Command;

use crate::cli::shown::ingested;
use crate::support::runs::{many_calls, many_kernels, step_of_rank};
use crate::support::{Place, Run, command, files, project};

/// The files of the program, in the folder `tree` of a place.
pub fn tree(place: &Place) -> PathBuf {
    let tree = place.input().join("tree");
    let of_project = project().join("sql");
    for file in files(&of_project) {
        let target = tree.join(file.strip_prefix(&of_project).expect("it lies below"));
        std::fs::create_dir_all(target.parent().expect("it lies in a folder")).expect("made");
        std::fs::copy(&file, target).expect("copied");
    }
    tree
}

/// The program with the files of the folder `tree`.
pub fn of_tree(place: &Place, words: &[&str]) -> Command {
    let mut command = command(&place.input());
    command.env("CCL_SQL_TREE", place.input().join("tree")).args(["--data", "../data"]);
    command.args(words);
    command
}

/// Has a file of the folder `tree` ask something else of what it asks.
pub fn change(place: &Place, file: &str, change: impl FnOnce(&str) -> String) {
    let path = place.input().join("tree").join(file);
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let is_code = |line: &&str| !line.starts_with("--");
    let query: Vec<&str> = text.lines().filter(is_code).collect();
    let header = text.lines().filter(|line| line.starts_with("--")).collect::<Vec<_>>();
    let query = query.join("\n");
    let changed = change(query.trim_end().trim_end_matches(';'));
    std::fs::write(&path, format!("{}\n{changed}\n", header.join("\n"))).expect("written");
}

#[test]
fn a_derived_table_that_fails_leaves_no_trace() {
    let place = Place::new();
    for rank in 0..4 {
        place.write(&format!("job/rank{rank}.json"), step_of_rank(rank, 4, 400, 1200));
    }
    tree(&place);
    change(&place, "derived/_device_calls.sql", |query| {
        format!("SELECT * FROM ({query}) WHERE error('no luck') IS NULL")
    });
    // The ranks of the other job are two parts, which are made side by side.
    (0..2).for_each(|n| _ = place.write(&format!("two/rank{n}.json"), many_calls(n, 50_001)));
    for (job, jobs) in [("job", "2"), ("job", "1"), ("two", "2"), ("two", "1")] {
        let run = Run::of(&mut of_tree(&place, &["ingest", job, "--jobs", jobs]));
        assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{}", run.stderr);
        assert!(run.stderr.contains("no luck"), "{}", run.stderr);
        assert!(run.stderr.contains("derived/_device_calls.sql"), "{}", run.stderr);
        assert!(!place.data().join(format!("trace={job}")).exists());
    }
}

#[test]
fn a_folder_without_a_file_that_is_needed_is_named() {
    let place = ingested();
    place.write("late/rank0.json", step_of_rank(0, 1, 400, 1200));
    place.run(&["ingest", "late", "-q"]).done();
    let tree = tree(&place);
    std::fs::remove_file(tree.join("comparisons/change_account.sql")).expect("it was there");
    let run = Run::of(&mut of_tree(&place, &["compare", "job", "late"]));
    assert_eq!((run.code, run.errors()), (1, vec!["sql-file"]), "{}", run.stderr);
    for part in ["no comparison `change_account`", "the folder of SQL files in CCL_SQL_TREE"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn a_file_in_a_folder_of_others_is_found_by_the_check() {
    let place = Place::new();
    let tree = tree(&place);
    std::fs::create_dir(tree.join("metrics/odd")).expect("a folder");
    std::fs::rename(tree.join("metrics/speed/mfu.v1.sql"), tree.join("metrics/odd/mfu.v1.sql"))
        .expect("it was there");
    let run = Run::of(&mut of_tree(&place, &["check"]));
    assert_eq!((run.code, run.errors()), (1, vec!["check-failed"]), "{}", run.stderr);
    for part in [
        "a metric does not belong in the folder `odd`",
        "sql/metrics/odd/mfu.v1.sql",
        "the folders: speed, traffic, bandwidth",
        "that of a metric is its @area",
    ] {
        assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
    }
}

/// Two parts of the ranks are looked at side by side. What is too much for both is enough for one
/// after the other.
#[test]
fn parts_that_need_more_memory_have_it_alone() {
    let place = Place::new();
    for rank in 0..4 {
        place.write(&format!("large/rank{rank}.json"), many_kernels(rank, 4, 40_000));
    }
    place.run(&["ingest", "large", "-q"]).done();
    tree(&place);
    // A list of 40 million numbers takes 900 MB while it is made.
    let list = "SELECT len(list(i)) FROM range(40000000) AS t (i)";
    change(&place, "views/kernels/_device_counts.sql", |query| {
        format!("SELECT * FROM ({query}) WHERE ({list}) > 0")
    });
    let question = ["metric", "comm_comp_overlap", "--format", "json", "--no-cache"];
    let of = |limit: &str| {
        let more = ["--jobs", "2", "--memory-limit", limit];
        Run::of(&mut of_tree(&place, &[&question[..], &more].concat()))
    };
    let answered = of("1300MB");
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    assert_eq!(answered.stdout, place.run(&question).stdout);
    let refused = of("600MB");
    assert_eq!((refused.code, refused.errors()), (1, vec!["limit"]), "{}", refused.stderr);
    // Any other fault ends the question at once.
    change(&place, "views/kernels/_device_counts.sql", |query| {
        format!("SELECT * FROM ({query}) WHERE error('no luck') IS NULL")
    });
    let failed = of("1300MB");
    assert_eq!((failed.code, failed.errors()), (1, vec!["sql"]), "{}", failed.stderr);
    assert!(failed.stderr.contains("no luck"), "{}", failed.stderr);
}
