//! Answers of a trace: results of metrics, rows of views, what diagnoses say.

use std::path::Path;

use serde_json::{Map, Value};

use crate::cli::args::ProfileMode;
use crate::engine::Selection;
use crate::engine::diagnose::Diagnosed;
use crate::engine::metric::MetricResult;
use crate::engine::rows::Rows;
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::diagnosis::Diagnosis;
use crate::report::document::Document;
use crate::report::metric::Metric;
use crate::report::sheet::Sheet;
use crate::schema::source::Source;
use crate::store::manifest::Manifest;

/// The answers of a trace.
pub struct Answers {
    /// The trace.
    pub manifest: Manifest,
    /// Results of the metrics, in the order in which they were asked.
    pub results: Vec<Result<MetricResult>>,
    /// Rows of the views.
    pub rows: Vec<Result<Rows>>,
    /// What the diagnoses say.
    pub diagnosed: Vec<Result<Diagnosed>>,
}

/// The files that a trace is asked.
#[derive(Clone, Copy, Default)]
pub struct Asked<'a, 'c> {
    /// Metrics.
    pub files: &'a [&'c SqlFile],
    /// Views.
    pub views: &'a [&'c SqlFile],
    /// Diagnoses.
    pub diagnoses: &'a [&'c SqlFile],
}

/// The answers of a trace, where those that failed say so.
pub struct Known {
    /// Results of the metrics.
    pub results: Vec<MetricResult>,
    /// Sheets of the views.
    pub sheets: Vec<Sheet>,
    /// What the diagnoses say.
    pub diagnosed: Vec<Diagnosed>,
}

impl Answers {
    /// The answers without errors. A file that failed has its reason in place of a value, and its
    /// error in `errors`, each error once.
    pub fn known(self, asked: Asked<'_, '_>, errors: &mut Vec<Error>) -> Known {
        let mut failed = |error: Error| {
            let reason = format!("it could not be computed: {}", error.message);
            if !errors.contains(&error) {
                errors.push(error);
            }
            reason
        };
        let results = asked.files.iter().zip(self.results).map(|(file, outcome)| {
            outcome.unwrap_or_else(|e| MetricResult {
                reason: Some(failed(e)),
                ..MetricResult::empty(&self.manifest, file)
            })
        });
        let results = results.collect();
        let sheets = asked.views.iter().zip(self.rows).map(|(view, outcome)| {
            let rows =
                outcome.unwrap_or_else(|e| Rows { rows: Vec::new(), reason: Some(failed(e)) });
            Sheet::new(view, rows)
        });
        let sheets = sheets.collect();
        let diagnosed = asked.diagnoses.iter().zip(self.diagnosed).map(|(file, outcome)| {
            outcome.unwrap_or_else(|e| Diagnosed::lacking(&file.header, failed(e)))
        });
        let diagnosed = diagnosed.collect();
        Known { results, sheets, diagnosed }
    }

    /// The report of the trace, which shows the first of the metrics, and the results of all
    /// metrics. A file that failed has its reason in the report, and its error in `errors`.
    pub fn document(
        self,
        shown: &[(String, &SqlFile)],
        asked: Asked<'_, '_>,
        errors: &mut Vec<Error>,
    ) -> (Document, Vec<MetricResult>) {
        let (trace, fingerprint) = (self.manifest.trace.clone(), self.manifest.fingerprint());
        let mut known = self.known(asked, errors);
        let diagnosis = Diagnosis::new(&mut known.sheets, known.diagnosed);
        let metrics = shown
            .iter()
            .zip(&known.results)
            .map(|((section, file), result)| Metric::new(file, section, result.clone()))
            .collect();
        let (label, sheets) = (trace.clone(), known.sheets);
        (Document { label, trace, fingerprint, diagnosis, sheets, metrics }, known.results)
    }
}

/// The profilers of a trace. Memory snapshots and benchmarks saw none of the work on devices, and
/// must not count as ranks in what a profiler is asked.
pub fn profilers(manifest: &Manifest) -> Vec<Source> {
    let mut profilers = manifest.kinds();
    profilers.retain(|source| source.is_profiler());
    profilers
}

/// A trace, and the one profiler whose rows are shown: the one asked for, though the trace may have
/// none of it; else the first of several, which all saw the same work.
pub fn selection(directory: &Path, manifest: &Manifest, mode: ProfileMode) -> Selection {
    let several = manifest.kinds().len() > 1;
    let source = mode.source().or(profilers(manifest).first().copied().filter(|_| several));
    Selection {
        directory: directory.to_owned(),
        source: source.map(|source| source.to_string()),
        rows: manifest.row_count(),
    }
}

/// Takes the value of a result away, as the trace lacks the profiler that was asked for.
pub fn without_source(result: &mut MetricResult, source: Source) {
    result.value = Value::Null;
    result.reason = Some(format!("the trace has no {source} source"));
    result.details = Map::new();
    result.warnings = Vec::new();
    result.batch = None;
}
