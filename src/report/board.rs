//! The document of a leaderboard: traces beside each other, their configurations, and the values of
//! their metrics with grades.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::engine::ResultRow;
use crate::engine::metric::{MetricResult, result_rows};
use crate::error::Result;
use crate::registry::{Registry, SqlFile};
use crate::report::document::{Document, provenance};
use crate::report::sheet::{Sheet, SheetColumn, Tables};
use crate::report::sheets::{comparison, view};

/// A leaderboard, to which traces are added one after the other.
#[derive(Debug)]
pub struct Board<'r> {
    /// The metrics of a report, then those besides that have thresholds.
    pub files: Vec<&'r SqlFile>,
    thresholds: Sheet,
    traces: Vec<Value>,
    configurations: Option<Sheet>,
    results: Vec<MetricResult>,
}

impl<'r> Board<'r> {
    /// A board without traces; `shown` are the metrics of a report.
    ///
    /// # Errors
    /// `sql`, `sql-file`, `metric-unknown` where a threshold is of a metric that is not there.
    pub fn new(
        registry: &'r Registry,
        tables: &mut dyn Tables,
        shown: &[(String, &'r SqlFile)],
    ) -> Result<Self> {
        let thresholds = Sheet::query(tables, view(registry, "metric_thresholds")?, &[])?;
        let mut files: Vec<&SqlFile> = shown.iter().map(|(_, file)| *file).collect();
        for row in &thresholds.rows {
            let name = thresholds.cell(row, "metric").as_str().unwrap_or_default();
            files.push(registry.metric(name)?);
        }
        let mut seen = BTreeSet::new();
        files.retain(|f| seen.insert(f.header.name.clone()));
        let (traces, results) = (Vec::new(), Vec::new());
        Ok(Self { files, thresholds, traces, configurations: None, results })
    }

    /// Adds a trace: its report, the path of the page with that report, the results of all metrics.
    pub fn add(&mut self, document: &Document, page: &str, results: Vec<MetricResult>) {
        self.traces.push(json!({
            "trace": document.trace, "report": page, "trace_fingerprint": document.fingerprint,
            "first_finding": document.diagnosis.first(),
        }));
        // The grades read values alone.
        self.results.extend(results.into_iter().map(|result| MetricResult {
            details: Map::new(),
            batch: None,
            ..result
        }));
        let Some(sheet) = document.sheet("configuration") else { return };
        let mut own = sheet.clone();
        let trace = SheetColumn {
            name: "trace".to_owned(),
            doc: "The ingested trace.".to_owned(),
            ..SheetColumn::default()
        };
        own.columns.insert(0, trace);
        for row in &mut own.rows {
            row.insert(0, document.trace.clone().into());
        }
        match &mut self.configurations {
            Some(all) => all.rows.extend(own.rows),
            None => self.configurations = Some(own),
        }
    }

    /// The values of the metrics of all traces, for `metric_results`.
    pub fn results(&self) -> Vec<ResultRow<'_>> {
        result_rows(&self.files, &self.results)
    }

    /// The JSON board. The comparison `board` grades the values: traces of one model and hardware
    /// are compared, as the tables and cards of the traces have them.
    ///
    /// # Errors
    /// `sql`, `sql-file`.
    pub fn json(&self, registry: &Registry, tables: &mut dyn Tables) -> Result<Value> {
        let graded = Sheet::query_traces(tables, comparison(registry, "board")?, &[])?;
        Ok(json!({
            "board": 1, "provenance": provenance(None), "traces": self.traces,
            "configurations": self.configurations.as_ref().map(Sheet::json),
            "metrics": described(&self.files, &self.thresholds), "results": graded.json(),
        }))
    }
}

/// The metrics with what their headers say, and the thresholds of their grades.
fn described(files: &[&SqlFile], thresholds: &Sheet) -> Vec<Value> {
    files
        .iter()
        .map(|file| {
            let h = &file.header;
            let mut out = Map::new();
            let better = h.value_column().and_then(|c| c.better.clone());
            for (key, value) in [
                ("metric", Value::from(h.name.clone())),
                ("version", h.version.into()),
                ("area", h.area.clone().into()),
                ("unit", h.unit().into()),
                ("better", better.into()),
                ("summary", h.summary.clone().into()),
                ("sql_sha256", file.sha256().into()),
            ] {
                out.insert(key.to_owned(), value);
            }
            let row = thresholds.rows.iter().find(|row| *thresholds.cell(row, "metric") == *h.name);
            for key in ["basis", "good", "poor"] {
                let value = row.map_or(Value::Null, |row| thresholds.cell(row, key).clone());
                out.insert(key.to_owned(), value);
            }
            Value::Object(out)
        })
        .collect()
}
