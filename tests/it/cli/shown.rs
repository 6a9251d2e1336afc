//! A run as one text: exit code, stdout and stderr together. What changes from run to run (paths,
//! times, hashes, the version) is replaced by a name in brackets, never left out. And the job that
//! these runs are about.

use crate::support::runs::step_of_rank;
use crate::support::{Place, Run};

/// Everything of a run as one text.
pub fn shown(run: &Run, place: &Place) -> String {
    let mut out = format!("exit code {}\n", run.code);
    for (name, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
        if !text.is_empty() {
            out.push_str(&format!("--- {name}\n{text}"));
        }
    }
    masked(&out, place)
}

/// A text without what changes from run to run.
pub fn masked(text: &str, place: &Place) -> String {
    let root = place.input();
    let root = root.parent().expect("the folder has a parent").to_string_lossy().into_owned();
    let canonical = std::fs::canonicalize(&root).expect("the folder is there");
    let out = text.replace(&*canonical.to_string_lossy(), "[DIR]").replace(&root, "[DIR]");
    let version = format!("\"ccl_sql\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let out = out.replace(&version, "\"ccl_sql\": \"[VERSION]\"");
    hashes(&out).split_inclusive('\n').map(untimed).collect()
}

/// A line of a summary with its times replaced.
fn untimed(line: &str) -> String {
    let parts = line
        .split_once(" in ")
        .and_then(|(before, after)| after.split_once("/s), ").map(|(_, after)| (before, after)));
    match parts {
        Some((before, after)) => format!("{before} in [TIME] s ([RATE]/s), {after}"),
        None => line.to_owned(),
    }
}

/// The text with every SHA-256 replaced.
fn hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    text.split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|part| match part.get(..64).filter(|word| is_hash(word)) {
            Some(word) if part.len() <= 65 => part.replace(word, "[SHA256]"),
            _ => part.to_owned(),
        })
        .collect()
}

/// A rank of the job below: compute of 400 us, all of it beside a call that begins `late_us` later.
pub fn rank_file(rank: i64, world: i64, late_us: i64) -> String {
    step_of_rank(rank, world, 400, 1200 + late_us)
}

/// Two ranks in the folder `job`, not ingested.
pub fn job() -> Place {
    let place = Place::new();
    place.write("job/rank0.json", rank_file(0, 2, 0)).write("job/rank1.json", rank_file(1, 2, 30));
    place
}

/// The job of two ranks, ingested.
pub fn ingested() -> Place {
    let place = job();
    place.run(&["ingest", "job"]).done();
    place
}
