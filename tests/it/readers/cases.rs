//! Traces as text, and the tables they become: `tests/ingest/<source>/<case>/`.
//!
//! A case holds the files of a trace, as text where they are none (see [`Place::file`]);
//! `<table>.csv` with expected rows (its header picks the columns; also views), or `expected.error`
//! with the codes of the errors, and behind a code what the message says; and `command` where the
//! command line is not `ingest . --name <case>`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{
    Place, files, folders, in_parallel, name, project, rows_differ, selected, settled,
};

/// Differences between the expected files of a case and what the program made.
fn failures(case: &Path) -> Vec<String> {
    let place = Place::new();
    let mut expected = BTreeMap::new();
    let mut command = format!("ingest . --name {}", name(case));
    let mut codes = String::new();
    for file in files(case) {
        let bytes = std::fs::read(&file).expect("the case can be read");
        let text = || String::from_utf8(bytes.clone()).expect("expected files are UTF-8");
        match name(&file).as_str() {
            "README.md" => {}
            "command" => command = text(),
            "expected.error" => codes = text(),
            file_name => match file_name.strip_suffix(".csv") {
                Some(table) => drop(expected.insert(table.to_owned(), (file.clone(), text()))),
                None => {
                    let path = file.strip_prefix(case).expect("it lies in the case");
                    place.file(&path.to_string_lossy(), &bytes);
                }
            },
        }
    }
    let run = place.run(&command.split_whitespace().collect::<Vec<_>>());
    let expected_errors = codes.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let (known, said): (Vec<&str>, Vec<&str>) = expected_errors.unzip();
    let says = |part: &&str| run.stderr.contains(*part);
    if run.errors() != known || !said.iter().all(says) || (run.code == 0) != known.is_empty() {
        return vec![format!(
            "{}: expected errors {codes:?}, got exit code {}\n{}{}",
            case.display(),
            run.code,
            run.stdout,
            run.stderr
        )];
    }
    let mut out = Vec::new();
    if expected.is_empty() {
        return out;
    }
    let tables = place.tables();
    for (table, (file, text)) in expected {
        let columns = text.lines().next().unwrap_or("*");
        let actual = match tables.select(&table, columns) {
            Ok(actual) => actual,
            Err(error) => {
                out.push(format!("{}: {error}", file.display()));
                continue;
            }
        };
        out.extend(settled(&file, &actual, rows_differ(&text, &actual)));
    }
    out
}

#[test]
fn every_case_gives_its_tables() {
    let cases: Vec<PathBuf> = folders(&project().join("tests/ingest"))
        .iter()
        .flat_map(|source| folders(source))
        .filter(|case| selected(case))
        .collect();
    let failures = in_parallel(&cases, |case| failures(case));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_case_says_what_it_shows() {
    let sources = ["kineto", "xla", "memory", "bench"].map(|s| format!("tests/ingest/{s}"));
    for case in sources.iter().flat_map(|source| folders(&project().join(source))) {
        let readme = std::fs::read_to_string(case.join("README.md")).unwrap_or_default();
        assert!(readme.trim().len() > 20, "{} has no README.md", case.display());
        let expects = |f: &PathBuf| f.extension().is_some_and(|e| e == "csv" || e == "error");
        assert!(files(&case).iter().any(expects), "{} expects nothing", case.display());
    }
}
