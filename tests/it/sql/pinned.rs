//! Answers on the examples, and on jobs that were made up (`wild`), as they were before:
//! `tests/pinned/<trace>.txt` has a line for each metric, diagnosis and view that says something
//! there, with a hash over what it says.
//!
//! These are no known answers: nobody worked them out. They say which answers a change of the SQL
//! touches, also those that nobody had in mind. Where that is meant, `CCL_SQL_BLESS=1` writes the
//! files anew, and their difference goes into the commit. `ccl-sql metric --all` and `sql` show the
//! rows themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ccl_sql::engine::metric::Params;
use ccl_sql::registry::SqlFile;
use ccl_sql::registry::header::Param;
use ccl_sql::schema::{Made, TABLES, Table};
use ccl_sql::store::Store;
use duckdb::types::Value as SqlValue;
use regex::{Captures, Regex};

use crate::support::fixtures::{build, made};
use crate::support::{
    Place, Tables, examples, files, folders, in_parallel, name, project, registry,
};
use crate::support::{selected, settled, wild};

/// The folder of the examples that holds no trace.
const NO_EXAMPLE: &str = "collect";

/// Digits of a hash.
const DIGITS: usize = 12;

/// Whether a file of a kind is asked.
fn is_asked(kind: &str, name: &str) -> bool {
    selected(Path::new(&format!("/pinned/{kind}/{name}/")))
}

/// Comparisons of two traces, and the like.
fn comparisons() -> impl Iterator<Item = &'static SqlFile> {
    let files = files(&project().join("sql/comparisons"));
    files.into_iter().filter_map(|file| registry().comparison(name(&file).strip_suffix(".sql")?))
}

/// The tables that the end of an ingest makes of others.
fn derived() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.made == Made::Derived)
}

/// What is asked of an example: kind and name, as they are printed.
fn subjects() -> Vec<(&'static str, &'static SqlFile)> {
    let registry = registry();
    let metrics = registry.metrics().map(|file| ("metric", file));
    let diagnoses = registry.diagnoses().map(|file| ("diagnosis", file));
    let views = registry.views().map(|file| ("view", file));
    let all = metrics.chain(diagnoses).chain(views);
    all.filter(|(kind, file)| is_asked(kind, &file.header.name)).collect()
}

/// The data directory of an example. Who asks again and again does not ingest each time.
fn data(example: &Path) -> (Option<Place>, PathBuf) {
    let Some(made) = made() else {
        let place = Place::of(example);
        let data = place.data();
        return (Some(place), data);
    };
    let data = made.join(format!("example-{}", name(example)));
    if !data.is_dir() {
        // Another process may make it meanwhile.
        let _ = std::fs::rename(Place::of(example).data(), &data);
    }
    (None, data)
}

/// What is said, in a form that does not depend on the machine: paths without the folder of the
/// project, and numbers with seven digits. Numbers are scaled, so that round ones, of which there
/// are many, lie on no boundary of rounding.
pub fn form(text: &str) -> String {
    let number = Regex::new(r"-?\d+\.\d+(?:[eE][-+]?\d+)?").expect("a pattern");
    let text = text.replace(&*project().to_string_lossy(), "");
    let rounded = number.replace_all(&text, |found: &Captures<'_>| {
        let number: f64 = found[0].parse().expect("a number");
        format!("{:.6e}", number * 1.000_318_309_886)
    });
    let mut lines: Vec<&str> = rounded.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// What a metric says of the one trace; None where it has no value.
fn metric(tables: &Tables, directory: &Path, file: &SqlFile, params: &Params) -> Option<String> {
    let result = tables.result_with(directory, file, params);
    let mut result = result.unwrap_or_else(|e| panic!("{}: {e}", file.header.name));
    if result["value"].is_null() && result["reason"].is_string() {
        return None;
    }
    // Of the file and the trace, not of what is said.
    if let Some(result) = result.as_object_mut() {
        result.remove("provenance");
    }
    Some(serde_json::to_string_pretty(&result).expect("JSON"))
}

/// Jobs whose metrics are also asked with each of their parameters.
const WITH_PARAMS: [&str; 3] = ["wild-0", "wild-4", "wild-5"];

/// What metrics say with one parameter that is not its default.
fn with_params(tables: &Tables, directory: &Path) -> Vec<(String, String)> {
    let asked = subjects().into_iter().filter(|(kind, _)| *kind == "metric");
    let pairs = asked.flat_map(|(_, file)| file.header.params.iter().map(move |p| (file, p)));
    let answer = |(file, param): (&SqlFile, &Param)| {
        let value = match &*param.ty {
            "BOOLEAN" => (param.default.as_deref() != Some("true")).to_string(),
            "BIGINT" | "DOUBLE" => "2".to_owned(),
            _ => return None,
        };
        let params = Params::from([(param.name.clone(), value)]);
        let text = metric(tables, directory, file, &params)?;
        Some((format!("param {} {}", file.header.name, param.name), form(&text)))
    };
    pairs.filter_map(answer).collect()
}

/// What one of them says of the one trace; None where that is nothing.
fn said(tables: &Tables, directory: &Path, kind: &str, file: &SqlFile) -> Option<String> {
    let name = &file.header.name;
    let text = match kind {
        "metric" => metric(tables, directory, file, &Params::new())?,
        "diagnosis" => {
            let found = tables.findings(directory, name, &Params::new(), true);
            found.unwrap_or_else(|e| panic!("{name}: {e}")).ok()?
        }
        _ => tables.select(name, "*").unwrap_or_else(|e| panic!("{name}: {e}")),
    };
    // Not the names of the columns alone.
    (text.lines().count() > 1).then_some(text)
}

/// What is said of the one trace of a data directory, by what says it; in a form that any machine
/// gives. Derived tables are of all profilers, the rest of the one that is shown.
pub fn answers(data: &Path, trace: &str) -> BTreeMap<String, String> {
    let subjects = subjects();
    let asked: Vec<&SqlFile> = subjects.iter().map(|(_, file)| *file).collect();
    let tables = Tables::keeping(data, &asked);
    let directory = Store::new(data).directory(trace);
    let derived = derived().filter(|table| is_asked("table", table.name));
    let rows = |table: &Table| {
        let text = tables.select(table.name, "*").unwrap_or_else(|e| panic!("{}: {e}", table.name));
        (text.lines().count() > 1).then(|| (format!("table {}", table.name), form(&text)))
    };
    let mut out: BTreeMap<String, String> = derived.filter_map(rows).collect();
    if let Some(source) = wild::number(trace).and_then(wild::shown) {
        tables.show_source(data, trace, source);
    }
    let answer = |(kind, file): &(&str, &SqlFile)| {
        let text = said(&tables, &directory, kind, file)?;
        Some((format!("{kind} {}", file.header.name), form(&text)))
    };
    out.extend(subjects.iter().filter_map(answer));
    if WITH_PARAMS.contains(&trace) {
        out.extend(with_params(&tables, &directory));
    }
    out
}

/// What comparisons say of traces: the first against the second, or beside all others. What metrics
/// say of them is made up.
fn compared(numbers: &[u64]) -> BTreeMap<String, String> {
    let asked: Vec<_> = comparisons().filter(|f| is_asked("comparison", &f.header.name)).collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<String> = numbers.iter().copied().map(wild::case).collect();
    names.iter().for_each(|case| build(case, folder.path()));
    let tables = Tables::open(folder.path());
    let value = |metric: &'static SqlFile| {
        let column = metric.header.value_column();
        let words = column.map(|c| (c.unit.as_deref(), c.better.as_deref()));
        let (unit, better) = words.unwrap_or_default();
        (&*metric.header.name, unit, better)
    };
    let metrics: Vec<_> = registry().metrics().map(value).collect();
    for (case, number) in names.iter().zip(numbers) {
        tables.add_results(case, &wild::results(*number, &metrics));
    }
    let text = |text: &str| SqlValue::Text(text.to_owned());
    let all = [
        ("base", text(&names[0])),
        ("test", text(&names[1])),
        ("threshold", SqlValue::Double(1.0)),
        ("metrics", text("avg_step_time,iter_time,wall_time_s")),
    ];
    let answer = |file: &SqlFile| {
        let has = |name: &str| file.header.params.iter().any(|param| param.name == name);
        let params: Vec<_> = all.iter().filter(|(name, _)| has(name)).cloned().collect();
        let name = &file.header.name;
        let text = tables.sheet(name, &params).unwrap_or_else(|e| panic!("{name}: {e}")).ok()?;
        Some((format!("comparison {name}"), form(&text)))
    };
    asked.into_iter().filter_map(answer).collect()
}

/// The lines of a case (an example, a made-up trace or two of them): what says something, and a
/// hash over that.
fn lines(case: &str) -> BTreeMap<String, String> {
    let example = examples().join(case);
    let answers = if example.is_dir() {
        let (_place, data) = data(&example);
        answers(&data, "job")
    } else if let Some(numbers) = wild::numbers(case) {
        compared(&numbers)
    } else {
        let folder = tempfile::tempdir().expect("a temporary folder");
        build(case, folder.path());
        answers(folder.path(), case)
    };
    hashed(answers)
}

/// Answers as the lines of a file have them.
pub fn hashed(answers: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let hash = |text: String| ccl_sql::hash::sha256_text(&text)[..DIGITS].to_owned();
    answers.into_iter().map(|(of, text)| (of, hash(text))).collect()
}

/// The lines of before, of a case.
pub fn pinned(case: &str) -> (PathBuf, BTreeMap<String, String>) {
    let file = project().join("tests/pinned").join(case).with_extension("txt");
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let pairs = before.lines().filter_map(|line| line.rsplit_once(' '));
    let lines = pairs.map(|(of, hash)| (of.to_owned(), hash.to_owned())).collect();
    (file, lines)
}

/// What two sets of lines do not say alike.
pub fn that_differ(
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|of| before.get(*of) != now.get(*of)).cloned().collect()
}

#[test]
fn answers_are_as_they_were() {
    let mut all: BTreeSet<String> = BTreeSet::new();
    all.extend(subjects().iter().map(|(kind, file)| format!("{kind} {}", file.header.name)));
    let words = comparisons().map(|file| ("comparison", &*file.header.name));
    let words = words.chain(derived().map(|table| ("table", table.name)));
    let asked = words.filter(|(kind, name)| is_asked(kind, name));
    all.extend(asked.map(|(kind, name)| format!("{kind} {name}")));
    let examples = folders(&examples()).into_iter().map(|folder| name(&folder).to_owned());
    let mut cases: Vec<String> = (0..wild::ALL).map(wild::case).collect();
    cases.extend(examples.filter(|name| name != NO_EXAMPLE));
    // The same kind of job several times, and some that have little in common.
    let compared: [&[u64]; 4] = [&[0, 10, 20, 30], &[2, 12], &[7, 1], &[8, 0, 18]];
    cases.extend(compared.map(wild::case_of));
    let is_now_asked = |of: &str| {
        let of_metric = of.strip_prefix("param ").and_then(|of| of.split_once(' '));
        all.contains(of)
            || of_metric.is_some_and(|(name, _)| all.contains(&format!("metric {name}")))
    };
    let failures = in_parallel(&cases, |case| {
        let (file, mut before) = pinned(case);
        before.retain(|of, _| std::env::var_os("CCL_SQL_CASE").is_none() || is_now_asked(of));
        let now = lines(case);
        let found = that_differ(&before, &now);
        let text: String = now.iter().map(|(of, hash)| format!("{of} {hash}\n")).collect();
        settled(&file, &text, found)
    });
    assert!(
        failures.is_empty(),
        "other answers than before, of the code of now (CCL_SQL_BLESS=1 takes them over):\n{}",
        failures.join("\n")
    );
}
