//! The document of a report, before it has a form: sheets, and results of metrics. Nothing is
//! computed here; every form is written from these values.

use serde_json::{Value, json};

use crate::report::diagnosis::Diagnosis;
use crate::report::headline::{Tile, headline};
use crate::report::metric::Metric;
use crate::report::sheet::{Sheet, is_share, percent};
use crate::schema::SCHEMA_VERSION;

/// The report of one trace.
#[derive(Debug, Clone)]
pub struct Document {
    /// Name of the trace.
    pub trace: String,
    /// The label that the reader has for it.
    pub label: String,
    /// Hash over the bytes that the trace was made from.
    pub fingerprint: String,
    /// What is wrong with it.
    pub diagnosis: Diagnosis,
    /// Tables.
    pub sheets: Vec<Sheet>,
    /// Metrics.
    pub metrics: Vec<Metric>,
}

impl Document {
    /// A sheet by its name.
    pub fn sheet(&self, name: &str) -> Option<&Sheet> {
        self.sheets.iter().find(|s| s.name == name)
    }

    /// The table of a nested detail by its name, as `straggler.per_rank`.
    pub fn nested(&self, name: &str) -> Option<&Sheet> {
        self.metrics.iter().flat_map(|m| &m.tables).find(|s| s.name == name)
    }

    /// The cell of a sheet of one row; null where there is none.
    pub fn fact(&self, sheet: &str, column: &str) -> &Value {
        let Some(sheet) = self.sheet(sheet) else { return &Value::Null };
        sheet.rows.first().map_or(&Value::Null, |row| sheet.cell(row, column))
    }

    /// The numbers that come first.
    pub fn headline(&self) -> Vec<Tile> {
        headline(self.sheet("time_per_step"), &self.metrics)
    }

    /// The JSON report.
    pub fn json(&self) -> Value {
        json!({
            "report": 1, "trace": self.trace, "label": self.label,
            "provenance": provenance(Some(&self.fingerprint)),
            "headline": self.headline().iter().map(Tile::json).collect::<Vec<Value>>(),
            "diagnosis": self.diagnosis.json(),
            "sheets": self.sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
            "metrics": self.metrics.iter().map(Metric::json).collect::<Vec<Value>>(),
        })
    }

    /// The JSON report as the page needs it: with nested details as tables, and shares in percent.
    pub fn page(&self) -> Value {
        let mut out = self.json();
        out["sheets"] = self.sheets.iter().map(|s| s.in_percent().json()).collect();
        let pages = out["metrics"].as_array_mut().into_iter().flatten();
        for (page, metric) in pages.zip(&self.metrics) {
            let (value, unit) = metric.shown();
            page["value"] = value;
            page["unit"] = unit.into();
            page["answer"] = metric.result.answer.clone().into();
            page["tables"] = metric.tables.iter().map(|s| s.in_percent().json()).collect();
            let mut shares = Vec::new();
            for (name, detail) in page["details"].as_object_mut().into_iter().flatten() {
                if is_share(name) && detail.is_number() {
                    *detail = percent(detail);
                    shares.push(name.clone());
                }
            }
            page["shares"] = shares.into();
        }
        out
    }
}

/// The versions that a document was made with, and the trace that it was made from.
pub fn provenance(fingerprint: Option<&str>) -> Value {
    let mut out = json!({
        "ccl_sql": env!("CARGO_PKG_VERSION"), "schema_version": SCHEMA_VERSION,
    });
    if let (Value::Object(map), Some(fingerprint)) = (&mut out, fingerprint) {
        map.insert("trace_fingerprint".to_owned(), fingerprint.into());
    }
    out
}
