//! Runs against a series as text.

use serde_json::Value;

use crate::error::Result;
use crate::registry::units::human;
use crate::report::baseline::{Baseline, Test};
use crate::report::grid::table::{Layout, texts};
use crate::report::grid::value::printable;
use crate::report::text::history::change;
use crate::report::text::labelled_csv;

/// Runs against a series for people.
pub fn text(baseline: &Baseline, layout: Layout) -> String {
    let series = printable(&baseline.series);
    let runs = &baseline.runs;
    let (first, last) = (printable(&runs[0]), printable(&runs[runs.len() - 1]));
    let mut out = format!("Baseline: {series}, {} runs, {first} to {last}\n", runs.len());
    for test in &baseline.tests {
        out.push_str(&format!("\n{}\n", printable(&test.trace)));
        out.push_str(&of_test(test, layout));
    }
    out
}

fn of_test(test: &Test, layout: Layout) -> String {
    let sheet = &test.sheet;
    if sheet.rows.is_empty() {
        return sheet.why_empty() + "\n";
    }
    let text =
        |row: &[Value], column| sheet.cell(row, column).as_str().unwrap_or_default().to_owned();
    let rows = sheet.rows.iter().map(|row| {
        let unit = sheet.cell(row, "unit").as_str();
        let value = |column| human(sheet.cell(row, column), unit);
        let band = match sheet.cell(row, "low") {
            Value::Null => String::new(),
            _ => format!("{} to {}", value("low"), value("high")),
        };
        vec![
            text(row, "metric"),
            value("median"),
            band,
            value("test"),
            change(sheet.cell(row, "change_pct")),
            text(row, "status"),
        ]
    });
    let columns = [
        ("metric", false),
        ("median", true),
        ("spread", true),
        ("test", true),
        ("change", true),
        ("status", false),
    ];
    texts(&columns, rows.collect(), layout)
}

/// Runs against a series as CSV, a row for each run and metric.
///
/// # Errors
/// `io`.
pub fn csv(baseline: &Baseline) -> Result<Vec<u8>> {
    let sheets: Vec<_> = baseline.tests.iter().map(|t| (t.trace.as_str(), &t.sheet)).collect();
    labelled_csv("trace", &sheets)
}
