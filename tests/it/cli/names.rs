//! `docs/names.md`: old names answer as the page says, the columns that it names are there, and
//! what it says was verified is a test.

use std::collections::BTreeMap;

use ccl_sql::registry::Registry;

use crate::support::project;

/// Rows of the tables below a heading that `wanted` accepts: cells without the bars.
fn rows(page: &str, wanted: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let (mut inside, mut line_of_table) = (false, 0);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = wanted(heading);
        }
        let cells = line.strip_prefix('|').and_then(|l| l.strip_suffix('|'));
        line_of_table = if cells.is_some() { line_of_table + 1 } else { 0 };
        if let Some(cells) = cells.filter(|_| inside && line_of_table > 2) {
            out.push(cells.split('|').map(|c| c.trim().to_owned()).collect());
        }
    }
    out
}

/// The parts of a cell in code type.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

const VERIFIED: &str = "What was verified";
const KEYS: &str = "Keys of the dictionaries";

#[test]
fn old_names_answer_as_the_page_says() {
    let registry = Registry::load(None).expect("the registry loads");
    let page = std::fs::read_to_string(project().join("docs/names.md")).expect("the page is there");
    let rows = rows(&page, |heading| ![VERIFIED, KEYS].contains(&heading));
    assert!(rows.len() > 120, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let [there, here, _] = &row[..] else { panic!("{row:?}") };
        let here = code(here);
        // A sheet is a view or a comparison, a workbook what a command writes.
        let sheet = registry.view(here[0]).or(registry.comparison(here[0])).is_some();
        if sheet || matches!(here[0], "report" | "compare") {
            continue;
        }
        let metric = registry.metric(here[0]).map(|f| f.header.name.clone()).unwrap_or_default();
        if metric != here[0] {
            wrong.push(format!("`{}` is no metric", here[0]));
            continue;
        }
        for old in code(there) {
            if registry.metric(old).map(|f| f.header.name.clone()) != Ok(metric.clone()) {
                wrong.push(format!("`{old}` is not `{metric}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn keys_of_earlier_tools_are_columns() {
    let registry = Registry::load(None).expect("the registry loads");
    let page = std::fs::read_to_string(project().join("docs/names.md")).expect("the page is there");
    let rows = rows(&page, |heading| heading == KEYS);
    assert!(rows.len() > 120, "{} rows", rows.len());
    let mut wrong = Vec::new();
    let mut tools = Vec::new();
    for row in &rows {
        let [tool, key, metric, column, note] = &row[..] else { panic!("{row:?}") };
        if !tool.is_empty() {
            tools.push(tool.as_str());
        }
        let (metric, column) = (code(metric), code(column));
        let ([metric], [column]) = (&metric[..], &column[..]) else {
            // Of what is no column the note says where it is.
            if !metric.is_empty() || !column.is_empty() || note.is_empty() {
                wrong.push(format!("{key}: neither a column nor a note"));
            }
            continue;
        };
        match registry.metric(metric) {
            Ok(file) if file.header.columns.iter().any(|c| c.name == *column) => {}
            Ok(_) => wrong.push(format!("{key}: `{metric}` has no column `{column}`")),
            Err(_) => wrong.push(format!("{key}: `{metric}` is no metric")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The tools whose dictionaries the documents describe.
    for tool in
        ["coll_call_num", "iter_time", "straggler_lag", "overlap", "memory", "gpu_utilization"]
    {
        assert!(tools.contains(&tool), "{tool}: {tools:?}");
    }
}

#[test]
fn what_was_verified_is_a_test() {
    let registry = Registry::load(None).expect("the registry loads");
    let root = project();
    let page = std::fs::read_to_string(root.join("docs/names.md")).expect("the page is there");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows(&page, |heading| heading == VERIFIED) {
        let [metric, inputs, tests] = &row[..] else { panic!("{row:?}") };
        let name = code(metric)[0].to_owned();
        *seen.entry(name.clone()).or_default() += 1;
        if inputs.is_empty() {
            wrong.push(format!("{name}: neither an input nor a reason"));
        }
        for test in code(tests) {
            let text = std::fs::read_to_string(root.join(test)).unwrap_or_default();
            if !text.contains(&name) {
                wrong.push(format!("{test} does not speak of {name}"));
            }
        }
        if code(tests).is_empty() != inputs.starts_with("made") {
            wrong.push(format!("{name}: verified by no test, and not said to be made"));
        }
    }
    for metric in registry.metrics() {
        let name = &metric.header.name;
        if seen.remove(name) != Some(1) {
            wrong.push(format!("{name} is not on the page once"));
        }
    }
    wrong.extend(seen.keys().map(|name| format!("{name} is no metric")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
