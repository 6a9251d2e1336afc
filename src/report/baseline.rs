//! Runs against the median and the spread of a series, by the comparison `baseline_cmp`.

use serde_json::{Value, json};

use crate::report::document::provenance;
use crate::report::sheet::Sheet;

/// Runs against a series.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// Name of the series, or the pattern of names.
    pub series: String,
    /// Runs of the baseline in order of recording.
    pub runs: Vec<String>,
    /// The runs that are compared with it.
    pub tests: Vec<Test>,
}

/// A run against a series.
#[derive(Debug, Clone)]
pub struct Test {
    /// Name of the trace.
    pub trace: String,
    /// The rows of the comparison.
    pub sheet: Sheet,
}

impl Baseline {
    /// The JSON document.
    pub fn json(&self) -> Value {
        let test = |test: &Test| json!({"test": test.trace, "sheet": test.sheet.json()});
        json!({
            "baseline": 1, "provenance": provenance(None), "series": self.series,
            "runs": self.runs, "tests": self.tests.iter().map(test).collect::<Vec<Value>>(),
        })
    }
}
