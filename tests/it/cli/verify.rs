//! `ccl-sql verify`: what is said of the figures of a second program, which is a script here.
//!
//! `tests/it/sql/agreement.rs` asks the real one.

use serde_json::{Value, json};

use crate::cli::shown::ingested;
use crate::support::{Place, Run, command};

/// A row of one value, as the second program says it.
fn row(figure: &str, key: &str, difference: f64, verdict: &str) -> Value {
    json!({
        "figure": figure, "of": "m", "key": key, "ccl_sql": 1.0, "independent": 1.0 + difference,
        "difference": difference, "verdict": verdict, "reason": null,
    })
}

/// Verifies with a Python that takes what it is given and says this.
fn verified(place: &Place, said: &str, words: &[&str]) -> Run {
    let script = "#!/bin/sh\ncat > given\nprintf '%s\\n' \"$@\" > words\ncat said\n";
    let python = place.write("said", said).program("python", script);
    let mut command = command(&place.input());
    command.env("CCL_SQL_PYTHON", &python).arg("--data").arg(place.data());
    Run::of(command.arg("verify").args(words))
}

#[test]
fn figures_of_a_second_program_are_told() {
    let place = ingested();
    let same = json!([row("busy", "0", 0.0, "equal"), row("busy", "1", 1e-12, "equal")]);
    let run = verified(&place, &same.to_string(), &["--format", "csv"]);
    assert_eq!(
        run.stdout,
        "trace,figure,of,key,ccl_sql,independent,difference,verdict,reason\n\
         job,busy,m,0,1.0,1.0,0.0,equal,\n\
         job,busy,m,1,1.0,1.000000000001,1e-12,equal,\n"
    );
    assert!(run.code == 0 && run.stderr.contains("2 values are equal"), "{}", run.stderr);
    // With metrics of the user's own, those too.
    std::fs::create_dir(place.input().join("own")).expect("a folder");
    let own = verified(&place, &same.to_string(), &["--sql-dir", "own"]);
    assert_eq!(own.code, 0, "{}", own.stderr);
    let words = std::fs::read_to_string(place.input().join("words")).expect("written");
    let own = format!("\n--sql-dir\n{}\n", place.input().join("own").display());
    assert!(words.contains(&own), "{words}");
    let run = verified(&place, &same.to_string(), &["--format", "csv"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // It is given all modules, and which trace to look at.
    let given = |name: &str| std::fs::read_to_string(place.input().join(name)).expect("written");
    let modules: Value = serde_json::from_str(&given("given")).expect("JSON");
    assert!(modules["verify"].as_str().is_some_and(|text| text.contains("def main(")));
    let words = given("words");
    assert!(words.contains("\njob\n--tolerance\n") && words.starts_with("-I\n-c\n"), "{words}");

    let unlike = json!([
        row("busy", "0", 0.5, "differs"),
        row("busy", "1", 0.0, "equal"),
        row("idle", "", 0.0, "not recomputed"),
    ]);
    let run = verified(&place, &unlike.to_string(), &[]);
    assert_eq!(run.errors(), ["figures-differ"], "{}", run.stderr);
    assert!(run.stderr.contains("1 of 2 values differ"), "{}", run.stderr);
    assert_eq!(run.stdout.matches("busy").count(), 1, "the worst stands for all: {}", run.stdout);

    let nothing = json!([row("idle", "", 0.0, "not recomputed")]).to_string();
    assert_eq!(verified(&place, &nothing, &[]).errors(), ["nothing-found"]);
    assert_eq!(verified(&place, "no JSON", &[]).errors(), ["python-failed"]);
    let mut command = command(&place.input());
    command.env("CCL_SQL_PYTHON", "nowhere").arg("--data").arg(place.data()).arg("verify");
    assert_eq!(Run::of(&mut command).errors(), ["python-failed"]);
}
