//! Runs against a series as text.

use serde_json::Value;

use crate::error::Result;
use crate::registry::units::human;
use crate::report::Grid;
use crate::report::baseline::{Baseline, Test};
use crate::report::grid::format::Format;
use crate::report::grid::table::{Layout, texts};
use crate::report::grid::value::printable;
use crate::report::text::history::change;

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
        return sheet.reason.clone().unwrap_or_default() + "\n";
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
    let names = baseline.tests.first().into_iter().flat_map(|t| &t.sheet.columns);
    let columns: Vec<&str> =
        std::iter::once("trace").chain(names.map(|c| c.name.as_str())).collect();
    let row = |trace: &str, row: &Vec<Value>| {
        std::iter::once(Value::from(trace)).chain(row.iter().cloned()).collect()
    };
    let rows = baseline.tests.iter().flat_map(|t| t.sheet.rows.iter().map(|r| row(&t.trace, r)));
    Grid::of_rows(&columns, rows.collect()).bytes(Format::Csv, 0)
}
