//! A history: metrics over the runs of a series, by the comparison `history`.

use serde_json::{Value, json};

use crate::registry::header::Header;
use crate::report::document::provenance;
use crate::report::sheet::Sheet;

/// A run of a series.
#[derive(Debug, Clone)]
pub struct Member {
    /// Name of the trace.
    pub trace: String,
    /// Hash over the bytes that the trace was made from.
    pub fingerprint: String,
}

/// Metrics over the runs of a series.
#[derive(Debug, Clone)]
pub struct History {
    /// Name of the series, or the pattern of names.
    pub series: String,
    /// Runs in order of recording.
    pub members: Vec<Member>,
    /// Headers of the metrics.
    pub metrics: Vec<Header>,
    /// The rows of the comparison `history`.
    pub sheet: Sheet,
}

impl History {
    /// The rows of a metric, by run.
    pub fn rows(&self, metric: &Header) -> Vec<&Vec<Value>> {
        let cell = |row: &[Value], column| self.sheet.cell(row, column).clone();
        let is_of = |row: &&Vec<Value>| {
            cell(row, "metric") == *metric.name && cell(row, "version") == metric.version
        };
        self.sheet.rows.iter().filter(is_of).collect()
    }

    /// The JSON histories of several series.
    pub fn json(all: &[Self]) -> Value {
        let one = |history: &Self| {
            let member = |m: &Member| json!({"trace": m.trace, "trace_fingerprint": m.fingerprint});
            let metric = |h: &Header| {
                json!({
                    "metric": h.name, "version": h.version, "unit": h.unit(),
                    "better": h.value_column().and_then(|c| c.better.clone()),
                    "summary": h.summary,
                })
            };
            json!({
                "series": history.series,
                "runs": history.members.iter().map(member).collect::<Vec<Value>>(),
                "metrics": history.metrics.iter().map(metric).collect::<Vec<Value>>(),
                "sheet": history.sheet.json(),
            })
        };
        json!({
            "history": 1, "provenance": provenance(None),
            "series": all.iter().map(one).collect::<Vec<Value>>(),
        })
    }
}
