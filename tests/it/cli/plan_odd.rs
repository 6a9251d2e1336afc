//! Plans whose files come or go, whose tables cannot be made, and that somebody has changed.

use std::path::Path;

use serde_json::Value;

use crate::cli::own_tree::{change, of_tree, tree};
use crate::support::runs::step_of_rank;
use crate::support::{Place, Run, STEPS, files};

/// Jobs `a` and `b` of two ranks each.
fn two() -> Place {
    let place = Place::new();
    for (job, end_us) in [("a", 1200), ("b", 1300)] {
        for rank in 0..2 {
            let text = step_of_rank(rank, 2, 400, end_us);
            place.write(&format!("jobs/{job}/rank{rank}.json"), text);
        }
    }
    place
}

fn plan(place: &Place, more: &[&str]) -> String {
    let input = place.input().join("jobs").display().to_string();
    place.run(&[&["plan", &input], more].concat()).done().trim().to_owned()
}

/// Does the tasks of some steps.
fn all_of(place: &Place, plan: &str, steps: &[&str]) -> Vec<Run> {
    let run = |step: &&str| place.run(&["task", step, plan]);
    let runs: Vec<Run> = steps.iter().map(run).collect();
    runs.iter().for_each(|run| assert_eq!(run.code, 0, "{}", run.stderr));
    runs
}

/// That a run fails with an error of this code alone, which says this.
fn refused(run: &Run, code: &str, part: &str) {
    assert_eq!((run.code, run.errors()), (1, vec![code]), "{}", run.stderr);
    assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
}

/// Changes a file of JSON.
fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(file).expect("it can be read");
    let mut value: Value = serde_json::from_str(&text).expect("it is JSON");
    change(&mut value);
    std::fs::write(file, value.to_string()).expect("it can be written");
}

#[test]
fn a_trace_that_is_unchanged_stays_as_it_is() {
    let place = two();
    let of_a = place.input().join("jobs/a").display().to_string();
    place.run(&["ingest", &of_a]).done();
    let manifest = place.data().join("trace=a/manifest.json");
    let before = std::fs::read(&manifest).expect("a manifest");
    let plan = plan(&place, &[]);
    let runs = all_of(&place, &plan, &STEPS);
    let said = &runs.last().expect("a run").stderr;
    assert!(
        said.contains("a: unchanged, 2 ranks") && said.contains("b: kineto, 2 ranks"),
        "{said}"
    );
    assert_eq!(std::fs::read(&manifest).expect("a manifest"), before);
    // What is done is done: a task that comes late changes nothing.
    all_of(&place, &plan, &STEPS);
    assert_eq!(std::fs::read(&manifest).expect("a manifest"), before);
}

#[test]
fn files_that_change_or_go_after_they_were_read_make_a_plan_stale() {
    let place = two();
    let plan = plan(&place, &[]);
    all_of(&place, &plan, &["read"]);
    let file = place.input().join("jobs/b/rank1.json");
    let whole = std::fs::read(&file).expect("it is there");
    std::fs::remove_file(&file).expect("it was there");
    refused(&place.run(&["task", "layout", &plan]), "plan-stale", "jobs/b");
    std::fs::remove_file(place.input().join("jobs/b/rank0.json")).expect("it was there");
    refused(&place.run(&["task", "layout", &plan]), "plan-stale", "jobs/b");
    place.write("jobs/b/rank0.json", &*whole).write("jobs/b/rank1.json", &*whole);
    refused(&place.run(&["task", "layout", &plan]), "plan-stale", "jobs/b");
    assert!(!place.data().join("trace=a").exists());
}

#[test]
fn a_table_that_cannot_be_made_is_said_at_the_end() {
    for (file, first) in [("_device_calls", "derive"), ("collectives", "collect")] {
        let place = two();
        tree(&place);
        change(&place, &format!("derived/{file}.sql"), |query| {
            format!("SELECT * FROM ({query}) WHERE error('no luck') IS NULL")
        });
        let input = place.input().join("jobs").display().to_string();
        let made = Run::of(&mut of_tree(&place, &["plan", &input])).done();
        let mut failed = Vec::new();
        for step in STEPS {
            let run = Run::of(&mut of_tree(&place, &["task", step, made.trim()]));
            if run.code != 0 {
                assert!(run.stderr.contains("no luck"), "{step}: {}", run.stderr);
                failed.push(step);
            }
        }
        assert_eq!(failed.first(), Some(&first), "{failed:?}");
        assert_eq!(failed.last(), Some(&"finish"), "{failed:?}");
        assert!(!place.data().join("trace=a").exists());
        let left = Run::of(&mut of_tree(&place, &["task", "list", made.trim()])).done();
        assert!(left.contains("\"step\": null"), "{left}");
    }
}

#[test]
fn a_plan_that_somebody_changed_is_refused() {
    let place = two();
    let plan = plan(&place, &[]);
    let written = Path::new(&plan).join("plan.json");
    let before = std::fs::read(&written).expect("a plan");
    edit(&written, |plan| plan["reads"][0]["kind"] = "odd".into());
    let run = place.run(&["task", "read", &plan, "0"]);
    refused(&run, "plan-invalid", "there is no kind of file `odd`");
    std::fs::write(&written, before).expect("it can be written");
    all_of(&place, &plan, &["read", "layout"]);
    let layout = Path::new(&plan).join("layout");
    let is_block = |file: &&std::path::PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("block-"))
    };
    let all = files(&layout);
    let block = all.iter().find(is_block).expect("a block of ranks");
    let before = std::fs::read(block).expect("it can be read");
    for task in ["../../elsewhere", ""] {
        edit(block, |block| block["files"][0]["task"] = task.into());
        let run = place.run(&["task", "join", &plan]);
        refused(&run, "plan-invalid", "a block of ranks cannot be understood");
    }
    std::fs::write(block, before).expect("it can be written");
    all_of(&place, &plan, &STEPS[2..]);
    assert!(place.data().join("trace=a").exists());
}

#[test]
fn relative_paths_count_from_where_the_plan_was_made() {
    let place = two();
    let folder = place.input().join("moved");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::rename(place.input().join("jobs"), folder.join("jobs")).expect("moved");
    let at = |folder: &Path, words: &[&str]| {
        let mut command = crate::support::command(folder);
        Run::of(command.arg("--data").arg(place.data()).args(words))
    };
    let plan = at(&folder, &["plan", "jobs"]).done();
    let read = ["task", "read", plan.trim()];
    std::fs::rename(&folder, place.input().join("gone")).expect("moved");
    let run = at(&place.input(), &read);
    refused(&run, "plan-invalid", "paths of the plan are relative to a folder that is not here");
    std::fs::rename(place.input().join("gone"), &folder).expect("moved");
    assert_eq!(at(&place.input(), &read).code, 0);
}

#[test]
fn a_plan_of_nothing_says_what_was_looked_for() {
    let place = Place::new();
    place.write("empty/words.txt", "no trace");
    let input = place.input().join("empty").display().to_string();
    refused(&place.run(&["plan", &input]), "nothing-found", "empty");
}

#[test]
fn what_turns_out_to_be_no_trace_is_set_aside_as_by_one_ingest() {
    let (one, two) = (two(), two());
    // What it is stands behind more than is looked at first.
    let long = format!("{{\"words\": \"{}\", \"more\": 1}}", "x".repeat(3_000_000));
    for place in [&one, &two] {
        place.write("jobs/a/notes.json", long.as_str());
    }
    let alone = one.run(&["ingest", "jobs"]);
    let plan = plan(&two, &[]);
    let runs = all_of(&two, &plan, &STEPS);
    let aside = |text: &str| {
        let lines =
            text.lines().filter(|line| line.contains("set aside") || line.contains("notes"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let finished = &runs.last().expect("a run").stderr;
    assert_eq!(aside(finished), aside(&alone.stderr), "{finished}");
    assert!(!aside(finished).is_empty(), "{finished}");
}
