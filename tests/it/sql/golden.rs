//! Known answers on tiny tables.
//!
//! - `tests/golden/<metric>/<case>.csv` is what `ccl-sql metric <metric> --format csv` gives on
//!   `tests/fixtures/<case>`, or `<case>.error` the code of its error, or `<case>.reason` the
//!   reason why it has no value. A case with parameters is `<case>@KEY=VALUE.csv`.
//! - `tests/golden/derived/<table>/` are derived tables, and `tests/golden/views/_<view>/` helpers;
//!   the header of the file says which columns are compared.
//! - `tests/golden/views/<view>/<case>.csv` is what a report shows of a view, in its order.
//! - `tests/golden/diagnoses/<diagnosis>/<case>.csv` is what a diagnosis finds, the header alone
//!   where that is nothing, or `<case>.reason` why it is not looked for.
//! - `tests/golden/comparisons/<comparison>/<base>+<test>.csv` is what a comparison of two cases
//!   says (`metric_results.csv` of a case holds its metrics); without rows `.reason`, and why.
//!
//! The numbers were worked out by hand (the README of the fixture says how), not taken from a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use duckdb::types::Value;

use crate::support::fixtures::{build, metric_results};
use crate::support::{
    Run, Tables, files, folders, in_parallel, name, project, registry, rows_differ, run, selected,
    settled,
};

/// Kind of the thing that a case asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metric,
    Derived,
    View,
    Diagnosis,
    Comparison,
}

/// One expected file.
struct Golden {
    file: PathBuf,
    /// The fixture; of a comparison several, joined by `+`.
    fixture: String,
    /// Parameters of the metric, diagnosis or comparison.
    params: Vec<String>,
    kind: Kind,
    /// The metric, table, view, diagnosis or comparison.
    subject: String,
}

fn all() -> Vec<Golden> {
    let root = project().join("tests/golden");
    let mut out = Vec::new();
    for file in files(&root) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (fixture, params) = stem.split_once('@').unwrap_or((&stem, ""));
        let kind = match file.strip_prefix(&root).ok().and_then(|f| f.iter().next()) {
            Some(folder) if folder == "derived" => Kind::Derived,
            Some(folder) if folder == "views" => Kind::View,
            Some(folder) if folder == "diagnoses" => Kind::Diagnosis,
            Some(folder) if folder == "comparisons" => Kind::Comparison,
            _ => Kind::Metric,
        };
        out.push(Golden {
            fixture: fixture.to_owned(),
            params: params.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect(),
            kind,
            subject: name(file.parent().expect("a file lies in a folder")),
            file,
        });
    }
    out
}

impl Golden {
    /// The fixtures that it needs.
    fn fixtures(&self) -> Vec<&str> {
        self.fixture.split('+').collect()
    }

    /// Whether the header of the file says which columns are compared: no report shows a derived
    /// table or a helper as it is.
    fn names_its_columns(&self) -> bool {
        self.kind == Kind::Derived || self.kind == Kind::View && self.subject.starts_with('_')
    }

    /// Parameters of a comparison: the traces, as many as it names, and what the program sets
    /// where nobody does.
    fn comparison_params(&self) -> Vec<(&str, Value)> {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut out: Vec<(&str, Value)> = match self.subject.as_str() {
            "ranking" => vec![("metrics", text("avg_step_time,iter_time,wall_time_s"))],
            _ => ["base", "test"].into_iter().zip(self.fixtures().into_iter().map(text)).collect(),
        };
        let file = registry().comparison(&self.subject);
        let has = |name: &str| file.is_some_and(|f| f.header.params.iter().any(|p| p.name == name));
        out.push(("threshold", Value::Double(1.0)));
        out.retain(|(name, _)| has(name));
        for (name, value) in self.params.iter().filter_map(|p| p.split_once('=')) {
            out.retain(|(n, _)| *n != name);
            out.push((name, value.parse().map_or_else(|_| text(value), Value::Double)));
        }
        out
    }

    /// The answer as a run of the program: that of a metric, or what one of the others would be.
    /// `columns` are those that count of a derived table or a helper, and say whether the advice of
    /// a diagnosis does.
    fn answer(&self, data: &Path, tables: &Tables, columns: &str) -> Run {
        let of = |result: Result<String, String>| match result {
            Ok(stdout) => Run { code: 0, stdout, stderr: String::new() },
            Err(stderr) => Run { code: 1, stdout: String::new(), stderr },
        };
        // Another form than that of the file is never written into it.
        let rows = |answer: Result<Result<String, String>, String>| {
            of(match answer {
                Ok(Ok(csv)) if self.is("csv") => Ok(csv),
                Ok(Err(reason)) if self.is("reason") => Ok(reason + "\n"),
                Ok(Ok(csv)) => Err(format!("it has rows:\n{csv}")),
                Ok(Err(reason)) => Err(format!("it has no rows: {reason}")),
                Err(error) => Err(error),
            })
        };
        let sheet = |params: &[(&str, Value)]| rows(tables.sheet(&self.subject, params));
        match self.kind {
            Kind::Metric => {
                let data = data.to_string_lossy();
                let mut args = vec!["--data", &data, "--format", "csv", "metric", &self.subject];
                args.extend(self.params.iter().flat_map(|p| ["-p", p]));
                run(project(), &args)
            }
            _ if self.names_its_columns() => of(tables.select(&self.subject, columns)),
            Kind::Comparison => sheet(&self.comparison_params()),
            Kind::Diagnosis => {
                let directory = data.join(format!("trace={}", self.fixture));
                let pairs = self.params.iter().filter_map(|p| p.split_once('='));
                let params = pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
                let with_advice = columns.split(',').any(|c| c == "advice");
                rows(tables.findings(&directory, &self.subject, &params, with_advice))
            }
            Kind::Derived | Kind::View => sheet(&[]),
        }
    }

    /// Whether the file has this ending.
    fn is(&self, extension: &str) -> bool {
        self.file.extension().is_some_and(|e| e == extension)
    }

    /// Differences between the file and the answer.
    fn failures(&self, data: &Path, tables: &Tables) -> Vec<String> {
        let expected = std::fs::read_to_string(&self.file).expect("the expected file can be read");
        let run = self.answer(data, tables, expected.lines().next().unwrap_or("*"));
        let actual = match (run.code, self.kind) {
            (1, _) if self.is("error") => run.errors().join("\n") + "\n",
            (1, Kind::Metric) if self.is("reason") => {
                let said = run.stderr.lines().find_map(|l| l.split_once("has no value: "));
                said.map_or_else(String::new, |(_, reason)| format!("{reason}\n"))
            }
            (0, _) if !self.is("error") => run.stdout,
            (code, _) => {
                let place = self.file.display();
                return vec![format!("{place}: exit code {code}\n{}{}", run.stdout, run.stderr)];
            }
        };
        let found = if self.is("csv") {
            rows_differ(&expected, &actual)
        } else if actual == expected {
            Vec::new()
        } else {
            vec![format!("expected {expected:?}, got {actual:?}")]
        };
        settled(&self.file, &actual, found)
    }
}

#[test]
fn every_case_gives_its_known_answer() {
    let mut by_fixture: BTreeMap<String, Vec<Golden>> = BTreeMap::new();
    // Of another program than cargo's, each metric once: the code is the same. All but metrics is
    // asked of the library.
    let of_program = std::env::var_os("CCL_SQL_PROGRAM").is_some();
    let mut asked = BTreeSet::new();
    let mut once = |g: &Golden| g.is("csv") && asked.insert(g.subject.clone());
    let is_asked =
        |g: &Golden| selected(&g.file) && (!of_program || g.kind == Kind::Metric && once(g));
    for golden in all().into_iter().filter(is_asked) {
        by_fixture.entry(golden.fixture.clone()).or_default().push(golden);
    }
    let cases: Vec<(String, Vec<Golden>)> = by_fixture.into_iter().collect();
    let failures = in_parallel(&cases, |(fixture, goldens)| {
        let data = tempfile::tempdir().expect("a temporary folder");
        fixture.split('+').for_each(|f| build(f, data.path()));
        let has_diagnoses = goldens.iter().any(|g| g.kind == Kind::Diagnosis);
        let open = if has_diagnoses { Tables::of_diagnoses } else { Tables::open };
        let tables = open(data.path());
        fixture.split('+').for_each(|f| tables.add_results(f, &metric_results(f)));
        goldens.iter().flat_map(|golden| golden.failures(data.path(), &tables)).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_metric_and_every_fixture_has_a_case() {
    let all = all();
    let of = |golden: &Golden| golden.file.extension().is_some_and(|e| e == "csv");
    let answered: BTreeSet<&str> = all
        .iter()
        .filter(|g| of(g) && g.kind == Kind::Metric)
        .map(|g| g.subject.as_str())
        .collect();
    let mut metrics = BTreeSet::new();
    for file in files(&project().join("sql/metrics")) {
        let file = name(&file);
        metrics.insert(file.split('.').next().unwrap_or_default().to_owned());
    }
    assert!(!metrics.is_empty());
    let without: Vec<_> = metrics.iter().filter(|m| !answered.contains(m.as_str())).collect();
    assert!(without.is_empty(), "no golden case: {without:?}");
    let used: BTreeSet<&str> = all.iter().flat_map(Golden::fixtures).collect();
    let fixtures: BTreeSet<String> =
        folders(&project().join("tests/fixtures")).iter().map(|f| name(f)).collect();
    let fixtures: BTreeSet<&str> = fixtures.iter().map(String::as_str).collect();
    assert_eq!(used, fixtures, "a fixture without a case, or a case without a fixture");
}

/// Every diagnosis has a case in which it finds something, and one in which it does not or is not
/// looked for.
#[test]
fn every_diagnosis_has_cases() {
    let all = all();
    let cases = |finds: bool| -> BTreeSet<String> {
        let of = |g: &&Golden| {
            let text = std::fs::read_to_string(&g.file).expect("the expected file can be read");
            g.kind == Kind::Diagnosis && finds == (g.is("csv") && text.lines().count() > 1)
        };
        all.iter().filter(of).map(|g| g.subject.clone()).collect()
    };
    let names: BTreeSet<String> = files(&project().join("sql/diagnoses"))
        .iter()
        .filter_map(|file| name(file).split('.').next().map(str::to_owned))
        .collect();
    assert!(!names.is_empty());
    for (finds, what) in [(true, "that finds something"), (false, "that finds nothing")] {
        let cases = cases(finds);
        let lacking: Vec<&String> = names.difference(&cases).collect();
        assert!(lacking.is_empty(), "no case {what}: {lacking:?}");
        let unknown: Vec<&String> = cases.difference(&names).collect();
        assert!(unknown.is_empty(), "cases of no diagnosis: {unknown:?}");
    }
}

/// Views whose rows are one for each trace.
const NEVER_EMPTY: [&str; 3] = ["configuration", "traces", "trace_series"];

/// A view that has rows only of a step of more than 50,000 events: the tests of reports make one.
const NEEDS_MANY: [&str; 1] = ["step_short_events"];

/// Every sheet of a report or a comparison has a case with numbers, and one without rows.
#[test]
fn every_public_view_and_every_comparison_has_cases() {
    let all = all();
    let cases = |kind: Kind, extension: &str| -> BTreeSet<String> {
        let of = |g: &&Golden| g.kind == kind && !g.names_its_columns() && g.is(extension);
        all.iter().filter(of).map(|g| g.subject.clone()).collect()
    };
    for (folder, kind) in [("views", Kind::View), ("comparisons", Kind::Comparison)] {
        let names: BTreeSet<String> = files(&project().join("sql").join(folder))
            .iter()
            .filter_map(|file| name(file).strip_suffix(".sql").map(str::to_owned))
            .filter(|name| !name.starts_with('_'))
            .collect();
        assert!(names.len() > 5, "{folder}: {names:?}");
        let full = cases(kind, "csv");
        let may_lack = |n: &&String| !full.contains(*n) && !NEEDS_MANY.contains(&n.as_str());
        let lacking: Vec<&String> = names.iter().filter(may_lack).collect();
        assert!(lacking.is_empty(), "{folder} without a case: {lacking:?}");
        let empty = cases(kind, "reason");
        let unknown: Vec<&String> = full.union(&empty).filter(|n| !names.contains(*n)).collect();
        assert!(unknown.is_empty(), "cases of no file in {folder}: {unknown:?}");
        let may_lack = |n: &&String| !empty.contains(*n) && !NEVER_EMPTY.contains(&n.as_str());
        let lacking: Vec<&String> = names.iter().filter(may_lack).collect();
        assert!(lacking.is_empty(), "{folder} without a case that has no rows: {lacking:?}");
    }
}
