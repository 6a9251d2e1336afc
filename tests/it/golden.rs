//! Known answers on tiny tables: `tests/golden/<metric>/<case>.csv` is what
//! `ccl-sql metric <metric> --format csv` gives on `tests/fixtures/<case>`, or `<case>.error` the
//! code of its error. A case with parameters is `<case>@KEY=VALUE.csv`. Derived tables are under
//! `tests/golden/derived/<table>/`; the header of the file says which columns are compared.
//!
//! The numbers were worked out by hand (the README of the fixture says how), not taken from a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::fixtures::build;
use crate::program::{Run, Tables, blessing, files, folders, name, project, run, selected};
use crate::tables::{Csv, differences};

/// One expected file.
struct Golden {
    file: PathBuf,
    fixture: String,
    /// Parameters of the metric.
    params: Vec<String>,
    /// A derived table, not a metric.
    derived: bool,
    /// The metric or table.
    subject: String,
}

fn all() -> Vec<Golden> {
    let root = project().join("tests/golden");
    let mut out = Vec::new();
    for file in files(&root) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (fixture, params) = stem.split_once('@').unwrap_or((&stem, ""));
        let derived = file.starts_with(root.join("derived"));
        out.push(Golden {
            fixture: fixture.to_owned(),
            params: params.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect(),
            derived,
            subject: name(file.parent().expect("a file lies in a folder")),
            file,
        });
    }
    out
}

impl Golden {
    /// What differs from the file.
    fn failures(&self, data: &Path, tables: &Tables) -> Vec<String> {
        let expected = std::fs::read_to_string(&self.file).expect("the expected file can be read");
        let run = if self.derived {
            let columns = expected.lines().next().unwrap_or("*");
            let (code, stdout, stderr) = match tables.select(&self.subject, columns) {
                Ok(stdout) => (0, stdout, String::new()),
                Err(stderr) => (1, String::new(), stderr),
            };
            Run { code, stdout, stderr }
        } else {
            let data = data.to_string_lossy();
            let mut args = vec!["--data", &data, "--format", "csv", "metric", &self.subject];
            args.extend(self.params.iter().flat_map(|p| ["-p", p]));
            run(project(), &args)
        };
        let is_error = self.file.extension().is_some_and(|e| e == "error");
        let (actual, found) = match (is_error, run.code) {
            (false, 0) => {
                let found = match expected.is_empty() {
                    true => vec!["the file is empty: write the rows, or bless".to_owned()],
                    false => differences(&Csv::parse(&expected), &Csv::parse(&run.stdout)),
                };
                (run.stdout, found)
            }
            (true, 1) => {
                let actual = run.errors().join("\n") + "\n";
                let found = match actual == expected {
                    true => Vec::new(),
                    false => vec![format!("expected error {expected:?}, got {actual:?}")],
                };
                (actual, found)
            }
            (_, code) => {
                return vec![format!(
                    "{}: exit code {code}\n{}{}",
                    self.file.display(),
                    run.stdout,
                    run.stderr
                )];
            }
        };
        if blessing() && !found.is_empty() {
            std::fs::write(&self.file, actual).expect("the expected file can be written");
            return Vec::new();
        }
        found.into_iter().map(|f| format!("{}: {f}", self.file.display())).collect()
    }
}

#[test]
fn every_case_gives_its_known_answer() {
    let mut by_fixture: BTreeMap<String, Vec<Golden>> = BTreeMap::new();
    for golden in all().into_iter().filter(|g| selected(&g.file)) {
        by_fixture.entry(golden.fixture.clone()).or_default().push(golden);
    }
    let cases: Vec<(String, Vec<Golden>)> = by_fixture.into_iter().collect();
    let failures = crate::program::in_parallel(&cases, |(fixture, goldens)| {
        let data = tempfile::tempdir().expect("a temporary folder");
        build(fixture, data.path());
        let tables = Tables::open(data.path());
        goldens.iter().flat_map(|g| g.failures(data.path(), &tables)).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_metric_and_every_fixture_has_a_case() {
    let all = all();
    let of = |golden: &Golden| golden.file.extension().is_some_and(|e| e == "csv");
    let answered: BTreeSet<&str> =
        all.iter().filter(|g| of(g) && !g.derived).map(|g| g.subject.as_str()).collect();
    let mut metrics = BTreeSet::new();
    for file in files(&project().join("sql/metrics")) {
        let file = name(&file);
        metrics.insert(file.split('.').next().unwrap_or_default().to_owned());
    }
    assert!(!metrics.is_empty());
    let without: Vec<_> = metrics.iter().filter(|m| !answered.contains(m.as_str())).collect();
    assert!(without.is_empty(), "no golden case: {without:?}");
    let used: BTreeSet<&str> = all.iter().map(|g| g.fixture.as_str()).collect();
    let fixtures: BTreeSet<String> =
        folders(&project().join("tests/fixtures")).iter().map(|f| name(f)).collect();
    let fixtures: BTreeSet<&str> = fixtures.iter().map(String::as_str).collect();
    assert_eq!(used, fixtures, "a fixture without a case, or a case without a fixture");
}
