//! Answers that are kept: how they are written down.

use serde::Serialize;

use crate::engine::diagnose::Diagnosed;
use crate::engine::metric::MetricResult;
use crate::engine::rows::Rows;
use crate::registry::SqlFile;
use crate::store::cache::Cache;
use crate::store::manifest::Manifest;

/// An answer that can be kept.
pub trait Answer: Serialize + Sized {
    /// The answer out of JSON, with what its file and its trace say of themselves; None where the
    /// program cannot have written it.
    fn restored(text: &str, manifest: &Manifest, file: &SqlFile) -> Option<Self>;
}

/// The answer of a file about a trace, under a key.
pub fn get<T: Answer>(cache: &Cache, key: &str, manifest: &Manifest, file: &SqlFile) -> Option<T> {
    T::restored(cache.get(key)?, manifest, file)
}

/// Rows of a file out of JSON; None where they are not of its columns.
pub fn rows(text: &str, file: &SqlFile) -> Option<Rows> {
    let rows: Rows = serde_json::from_str(text).ok()?;
    let width = file.header.columns.len();
    rows.rows.iter().all(|row| row.len() == width).then_some(rows)
}

/// Keeps an answer.
pub fn put(cache: &mut Cache, key: String, answer: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(answer) {
        cache.put(key, text);
    }
}

impl Answer for MetricResult {
    fn restored(text: &str, manifest: &Manifest, file: &SqlFile) -> Option<Self> {
        let Self { value, reason, details, params, warnings, answer, batch, .. } =
            serde_json::from_str(text).ok()?;
        let empty = Self::empty(manifest, file);
        Some(Self { value, reason, details, params, warnings, answer, batch, ..empty })
    }
}

impl Answer for Rows {
    fn restored(text: &str, _: &Manifest, file: &SqlFile) -> Option<Self> {
        rows(text, file)
    }
}

impl Answer for Diagnosed {
    fn restored(text: &str, _: &Manifest, file: &SqlFile) -> Option<Self> {
        let Self { findings, reason, .. } = serde_json::from_str(text).ok()?;
        let mut out = Self { reason, ..Self::lacking(&file.header, String::new()) };
        for mut finding in findings {
            // Users run it as it stands there.
            if finding.evidence.contains(';') {
                return None;
            }
            finding.diagnosis.clone_from(&out.diagnosis);
            finding.version = out.version;
            finding.shown = file.header.shown.clone().unwrap_or_default();
            out.findings.push(finding);
        }
        Some(out)
    }
}
