//! Answers on the examples as they were before: `tests/pinned/<example>.txt` has a line for each
//! metric, diagnosis and view that says something there, with a hash over what it says.
//!
//! These are no known answers: nobody worked them out. They say which answers a change of the SQL
//! touches, also those that nobody had in mind. Where that is meant, `CCL_SQL_BLESS=1` writes the
//! files anew, and their difference goes into the commit. `ccl-sql metric --all` and `sql` show the
//! rows themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccl_sql::engine::metric::Params;
use ccl_sql::registry::SqlFile;
use ccl_sql::store::Store;
use regex::{Captures, Regex};

use crate::support::fixtures::made;
use crate::support::{Place, Tables, examples, folders, in_parallel, name, project, registry};
use crate::support::{selected, settled};

/// The folder of the examples that holds no trace.
const NO_EXAMPLE: &str = "collect";

/// Digits of a hash.
const DIGITS: usize = 12;

/// What is asked of an example: kind and name, as they are printed.
fn subjects() -> Vec<(&'static str, &'static SqlFile)> {
    let registry = registry();
    let metrics = registry.metrics().map(|file| ("metric", file));
    let diagnoses = registry.diagnoses().map(|file| ("diagnosis", file));
    let views = registry.views().map(|file| ("view", file));
    let all = metrics.chain(diagnoses).chain(views);
    let is_asked = |kind: &str, file: &SqlFile| {
        selected(Path::new(&format!("/pinned/{kind}/{}/", file.header.name)))
    };
    all.filter(|(kind, file)| is_asked(kind, file)).collect()
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
fn form(text: &str) -> String {
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

/// What one of them says of the one trace; None where that is nothing.
fn said(tables: &Tables, directory: &Path, kind: &str, file: &SqlFile) -> Option<String> {
    let name = &file.header.name;
    let text = match kind {
        "metric" => {
            let mut result = tables.result(directory, file).unwrap_or_else(|e| e.into());
            if result["value"].is_null() && result["reason"].is_string() {
                return None;
            }
            // Of the file and the trace, not of what is said.
            if let Some(result) = result.as_object_mut() {
                result.remove("provenance");
            }
            serde_json::to_string_pretty(&result).expect("JSON")
        }
        "diagnosis" => tables.findings(directory, name, &Params::new()).ok()?.ok()?,
        _ => tables.select(name, "*").unwrap_or_else(|error| format!("\n{error}")),
    };
    // Not the names of the columns alone.
    (text.lines().count() > 1).then_some(text)
}

/// The lines of an example, by what they are of.
fn lines(example: &Path) -> BTreeMap<String, String> {
    let (_place, data) = data(example);
    let subjects = subjects();
    let files: Vec<&SqlFile> = subjects.iter().map(|(_, file)| *file).collect();
    let tables = Tables::keeping(&data, &files);
    let directory = Store::new(&data).directory("job");
    let line = |(kind, file): &(&str, &SqlFile)| {
        let text = said(&tables, &directory, kind, file)?;
        let hash = ccl_sql::hash::sha256_text(&form(&text));
        Some((format!("{kind} {}", file.header.name), hash[..DIGITS].to_owned()))
    };
    subjects.iter().filter_map(line).collect()
}

#[test]
fn answers_are_as_they_were() {
    let examples = folders(&examples());
    let all = subjects();
    let failures = in_parallel(&examples, |example| {
        if name(example) == NO_EXAMPLE {
            return Vec::new();
        }
        let file = project().join("tests/pinned").join(name(example)).with_extension("txt");
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        let is_asked = |of: &str| all.iter().any(|(k, f)| of == format!("{k} {}", f.header.name));
        let pairs = before.lines().filter_map(|line| line.rsplit_once(' '));
        let before: BTreeMap<Cow<'_, str>, &str> = pairs
            .filter(|(of, _)| std::env::var_os("CCL_SQL_CASE").is_none() || is_asked(of))
            .map(|(of, hash)| (Cow::from(of), hash))
            .collect();
        let now = lines(example);
        let names = before.keys().map(|of| &**of).chain(now.keys().map(|of| &**of));
        let is_other = |of: &&str| before.get(*of).copied() != now.get(*of).map(|h| &**h);
        let mut found: Vec<String> = names.filter(is_other).map(str::to_owned).collect();
        found.sort();
        found.dedup();
        let text: String = now.iter().map(|(of, hash)| format!("{of} {hash}\n")).collect();
        settled(&file, &text, found)
    });
    assert!(
        failures.is_empty(),
        "other answers than before, of the code of now (CCL_SQL_BLESS=1 takes them over):\n{}",
        failures.join("\n")
    );
}
