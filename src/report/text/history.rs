//! A history as text: a table for each metric, and what it comes to.

use serde_json::Value;

use crate::error::Result;
use crate::registry::header::Header;
use crate::registry::units::human;
use crate::report::grid::table::{Layout, texts};
use crate::report::grid::value::printable;
use crate::report::history::History;
use crate::report::text::labelled_csv;

/// Runs below which no level is known to change.
const LEAST_RUNS: usize = 6;

/// Histories for people.
pub fn text(all: &[History], layout: Layout) -> String {
    let mut out = String::new();
    for history in all {
        for metric in &history.metrics {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&of_metric(history, metric, layout));
        }
    }
    out
}

fn of_metric(history: &History, metric: &Header, layout: Layout) -> String {
    let rows = history.rows(metric);
    let (unit, sheet) = (metric.unit(), &history.sheet);
    let value = |row: &[Value], column| human(sheet.cell(row, column), unit);
    let mut out = format!("{} of {}\n", metric.name, printable(&history.series));
    if rows.is_empty() {
        let reason = sheet.reason.as_deref().unwrap_or("no run has a value");
        return out + reason + "\n";
    }
    let cells = rows.iter().map(|row| {
        let known = |column| !sheet.cell(row, column).is_null();
        let band = if known("low") {
            format!("{} to {}", value(row, "low"), value(row, "high"))
        } else {
            String::new()
        };
        let mark = match sheet.cell(row, "status").as_str() {
            Some(status) => format!("{} {status}", change(sheet.cell(row, "change_pct"))),
            None if *sheet.cell(row, "is_outside") == Value::Bool(true) => "outside".to_owned(),
            None => String::new(),
        };
        let recorded = sheet.cell(row, "recorded").as_str().unwrap_or("n/a").to_owned();
        let level = if known("level") { value(row, "level") } else { String::new() };
        vec![
            human(sheet.cell(row, "run"), None),
            printable(sheet.cell(row, "trace").as_str().unwrap_or_default()),
            recorded,
            value(row, "value"),
            level,
            band,
            mark,
        ]
    });
    let columns = [
        ("run", true),
        ("trace", false),
        ("recorded", false),
        ("value", true),
        ("level", true),
        ("band", true),
        ("change", false),
    ];
    out.push_str(&texts(&columns, cells.collect(), layout));
    for line in outcome(history, metric, &rows) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// A change in percent.
pub(super) fn change(value: &Value) -> String {
    // What rounds to nothing has no sign.
    let rounded = value.as_f64().map(|pct| if pct.abs() < 0.005 { 0.0 } else { pct });
    rounded.map_or_else(|| "from 0".to_owned(), |pct| format!("{pct:+.2} %"))
}

/// The changes of a metric, or why there are none.
fn outcome(history: &History, metric: &Header, rows: &[&Vec<Value>]) -> Vec<String> {
    let sheet = &history.sheet;
    let valued = rows.iter().filter(|row| !sheet.cell(row, "value").is_null()).count();
    if valued < LEAST_RUNS {
        return vec![format!("{valued} runs have a value: a change of level needs {LEAST_RUNS}")];
    }
    let mut out = Vec::new();
    let mut before = &Value::Null;
    for row in rows {
        if let Some(status) = sheet.cell(row, "status").as_str() {
            out.push(format!(
                "{status} from {} on: {}, {} to {}",
                printable(sheet.cell(row, "trace").as_str().unwrap_or_default()),
                change(sheet.cell(row, "change_pct")),
                human(before, metric.unit()),
                human(sheet.cell(row, "level"), metric.unit()),
            ));
        }
        if !sheet.cell(row, "level").is_null() {
            before = sheet.cell(row, "level");
        }
    }
    if out.is_empty() {
        out.push(format!("no change of level in {valued} runs"));
    }
    out
}

/// Histories as CSV, a row for each run and metric.
///
/// # Errors
/// `io`.
pub fn csv(all: &[History]) -> Result<Vec<u8>> {
    let sheets: Vec<_> = all.iter().map(|h| (h.series.as_str(), &h.sheet)).collect();
    labelled_csv("series", &sheets)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        let changes = [0.0, -0.004, 0.004, 0.005, -0.005, -12.345].map(|pct| change(&json!(pct)));
        assert_eq!(changes, ["+0.00 %", "+0.00 %", "+0.00 %", "+0.01 %", "-0.01 %", "-12.35 %"]);
        assert_eq!(change(&Value::Null), "from 0");
    }
}
