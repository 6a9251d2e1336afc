//! A metric of a report: its result, and what its header says.

use serde_json::Value;

use crate::engine::metric::MetricResult;
use crate::registry::SqlFile;
use crate::report::nested;
use crate::report::sheet::{Sheet, is_share, percent};

/// A metric of a report.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Section of the report that shows it first.
    pub section: String,
    /// A sentence about the metric.
    pub summary: String,
    /// Area of the metric.
    pub area: String,
    /// Better direction: higher or lower.
    pub better: Option<String>,
    /// The column of its value.
    pub value_name: String,
    /// Tables of the details that are lists and maps.
    pub tables: Vec<Sheet>,
    /// The result on the trace.
    pub result: MetricResult,
}

impl Metric {
    /// A metric with what its header says.
    pub fn new(file: &SqlFile, section: &str, result: MetricResult) -> Self {
        let better = file.header.value_column().and_then(|c| c.better.clone());
        Self {
            section: section.to_owned(),
            summary: file.header.summary.clone(),
            area: file.header.area.clone(),
            better,
            value_name: file.header.value.clone().unwrap_or_default(),
            tables: nested::tables(file, &result),
            result,
        }
    }

    /// The value and its unit for people: a share in percent.
    pub fn shown(&self) -> (Value, Option<&str>) {
        let (value, unit) = (&self.result.value, self.result.unit.as_deref());
        match unit {
            Some("ratio") if is_share(&self.value_name) => (percent(value), Some("pct")),
            unit => (value.clone(), unit),
        }
    }

    /// The object of `metric --format json`, and what the header says.
    pub fn json(&self) -> Value {
        let mut out = self.result.json();
        if let Value::Object(map) = &mut out {
            map.insert("section".to_owned(), self.section.clone().into());
            map.insert("area".to_owned(), self.area.clone().into());
            map.insert("summary".to_owned(), self.summary.clone().into());
            map.insert("better".to_owned(), self.better.clone().into());
        }
        out
    }
}
