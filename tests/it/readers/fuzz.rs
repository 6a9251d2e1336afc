//! The corpus of the fuzz targets (`tests/fuzz`): what was found once stays found.

use std::fs::File;
use std::io::Read;
use std::panic::catch_unwind;
use std::path::Path;

use crate::support::{files, folders, name, project, selected};

#[path = "../../fuzz/checks.rs"]
mod checks;

/// What must hold of the bytes of a target.
fn check_of(target: &str) -> fn(&[u8]) {
    match target {
        "kineto" => checks::kineto,
        "json" => checks::json,
        "header" => checks::header,
        "nsys" => checks::nsys,
        "xla" => checks::xla,
        "et" => checks::et,
        "pickle" => checks::pickle,
        "bench" => checks::bench,
        "kineto_shaped" => |data| _ = checks::shaped::events::check(data),
        "nsys_shaped" => |data| _ = checks::shaped::database::check(data),
        "xla_shaped" => |data| _ = checks::shaped::xspace::check(data),
        "pickle_shaped" => |data| _ = checks::shaped::snapshot::check(data),
        other => panic!("no target is called {other}"),
    }
}

/// The files of an archive, by name.
fn unpacked(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let file = File::open(archive).expect("the archive can be read");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().expect("it is an archive");
    entries
        .map(|entry| {
            let mut entry = entry.expect("it is an archive");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("the archive is whole");
            (entry.path().expect("it has a name").display().to_string(), bytes)
        })
        .collect()
}

#[test]
fn the_corpus_of_the_fuzz_targets_holds() {
    let corpus = project().join("tests/fuzz/corpus");
    let mut failures = Vec::new();
    let mut run = 0;
    for folder in folders(&corpus) {
        let check = check_of(&name(&folder));
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

#[test]
fn what_the_fuzzer_found_holds() {
    let mut archives = files(&project().join("tests/fuzz/corpus"));
    archives.retain(|file| name(file).ends_with(".tar.gz"));
    assert_eq!(archives.len(), 12, "one of each target");
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads = archives.iter().filter(|archive| selected(archive)).map(|archive| {
            let file = name(archive);
            let target = file.strip_suffix(".tar.gz").expect("a target's archive").to_owned();
            scope.spawn(move || {
                let check = check_of(&target);
                let found = unpacked(archive);
                assert!(!found.is_empty(), "nothing in the archive of {target}");
                let failed = found.iter().filter(|(_, data)| catch_unwind(|| check(data)).is_err());
                failed.map(|(entry, _)| format!("{target}.tar.gz: {entry}")).collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it checks")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
