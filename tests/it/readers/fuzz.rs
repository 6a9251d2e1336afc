//! The corpus of the fuzz targets (`tests/fuzz`): what was found once stays found.

use std::panic::catch_unwind;

use crate::support::{files, folders, name, project, selected};

#[path = "../../fuzz/checks.rs"]
mod checks;

#[test]
fn the_corpus_of_the_fuzz_targets_holds() {
    let mut failures = Vec::new();
    let mut run = 0;
    for folder in folders(&project().join("tests/fuzz/corpus")) {
        let check = match name(&folder).as_str() {
            "kineto" => checks::kineto,
            "json" => checks::json,
            "header" => checks::header,
            "nsys" => checks::nsys,
            "xla" => checks::xla,
            "et" => checks::et,
            "pickle" => checks::pickle,
            "bench" => checks::bench,
            other => panic!("no target is called {other}"),
        };
        for file in files(&folder).into_iter().filter(|file| selected(file)) {
            let data = std::fs::read(&file).expect("the file can be read");
            run += 1;
            if catch_unwind(|| check(&data)).is_err() {
                failures.push(file.display().to_string());
            }
        }
    }
    assert!(failures.is_empty(), "of {run} files:\n{}", failures.join("\n"));
}

/// Bytes that look random, the same on any machine.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let length = next() % 4096;
    (0..length).map(|_| next() as u8).collect()
}

#[test]
fn inputs_of_the_right_shape_hold() {
    let shapes = [
        ("kineto", checks::shaped::events::check as fn(&[u8]) -> bool, 200),
        ("nsys", checks::shaped::database::check, 100),
        ("xla", checks::shaped::xspace::check, 400),
        ("pickle", checks::shaped::snapshot::check, 400),
    ];
    let mut failures = Vec::new();
    for (name, check, seeds) in shapes {
        let mut far = 0;
        for seed in 0..seeds {
            match catch_unwind(|| check(&bytes(seed))) {
                Ok(is_far) => far += u64::from(is_far),
                Err(_) => failures.push(format!("{name}, seed {seed}")),
            }
        }
        // Of what nobody reads, nothing is learnt.
        if far < seeds / 3 {
            failures.push(format!("{name}: {far} of {seeds} are read"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
