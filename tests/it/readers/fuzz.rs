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
