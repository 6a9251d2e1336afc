//! What holds of any trace, on jobs that were made up.

use std::collections::BTreeMap;

use ccl_sql::registry::SqlFile;
use ccl_sql::store::Store;

use crate::sql::pinned::{answers, form, hashed, pinned, that_differ};
use crate::support::fixtures::make_of;
use crate::support::wild::{self, Dice};
use crate::support::{Csv, Tables, in_parallel, registry};

#[test]
fn the_order_of_rows_changes_no_answer() {
    let failures = in_parallel(&[1, 3, 5, 9], |number| {
        let case = wild::case(*number);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut tables = wild::tables(*number);
        let mut dice = Dice::new(&[*number, 99]);
        tables.values_mut().for_each(|csv| wild::shuffled(csv, &mut dice));
        make_of(&case, tables, folder.path());
        let (_, before) = pinned(&case);
        assert!(before.len() > 200, "{case}: {} say something", before.len());
        let found = that_differ(&before, &hashed(answers(folder.path(), &case)));
        found.iter().map(|of| format!("{of} of {case}")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What says when something was.
const AT: [&str; 2] = ["\"start_ns\":", "\"ts_ns\":"];

/// What every metric says of a job, without the times of clocks.
fn metrics(number: u64, tables: BTreeMap<String, Csv>) -> BTreeMap<String, String> {
    let case = wild::case(number);
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_of(&case, tables, folder.path());
    let files: Vec<&SqlFile> = registry().metrics().collect();
    let tables = Tables::keeping(folder.path(), &files);
    if let Some(source) = wild::shown(number) {
        tables.show_source(folder.path(), &case, source);
    }
    let directory = Store::new(folder.path()).directory(&case);
    let answer = |metric: &&SqlFile| {
        let name = &metric.header.name;
        let mut result =
            tables.result(&directory, metric).unwrap_or_else(|e| panic!("{name}: {e}"));
        result.as_object_mut().expect("an object").remove("provenance");
        let text = form(&serde_json::to_string_pretty(&result).expect("JSON"));
        let lines = text.lines().filter(|line| !AT.iter().any(|key| line.trim().starts_with(key)));
        (name.clone(), lines.collect::<Vec<_>>().join("\n"))
    };
    files.iter().map(answer).collect()
}

/// Nanoseconds since 1970 are more than a double holds exactly.
#[test]
fn where_a_clock_begins_changes_no_metric() {
    let failures = in_parallel(&[0, 2], |number| {
        let [first, second] = [0, 1_790_000_000_123_456_789]
            .map(|base| metrics(*number, wild::tables_at(*number, base)));
        let differs = |name: &&String| first[*name] != second[*name];
        let lines = |name: &String| -> Vec<String> {
            let pairs = first[name].lines().zip(second[name].lines());
            pairs.filter(|(a, b)| a != b).map(|(a, b)| format!("{a} | {b}")).take(4).collect()
        };
        let say = |name: &String| format!("{name} of {number}: {}", lines(name).join(" ; "));
        first.keys().filter(differs).map(say).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
