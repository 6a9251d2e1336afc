//! Diagnoses of a trace: what is wrong, how much it costs, and what to change.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::engine::each::rows_of_each;
use crate::engine::metric::{Params, ask, bound, reasons};
use crate::engine::{Engine, json};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::registry::header::Header;
use crate::sql_text::sql_string;
use crate::store::manifest::Manifest;

/// One thing that is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the diagnosis.
    pub diagnosis: String,
    /// Version of the diagnosis.
    pub version: u32,
    /// A sentence with its numbers.
    pub finding: String,
    /// What it is about: rank, group, kind, size, kernel, phase; by name, what is known of it.
    pub place: Map<String, Value>,
    /// Time of a step that it takes, in milliseconds; None where it takes none.
    pub time_per_step_ms: Option<f64>,
    /// Time that a step loses if this alone is gone: an upper bound, in milliseconds. None where
    /// what it costs is no time of a step.
    pub gain_ms: Option<f64>,
    /// What limits the confidence in it.
    pub limits: Vec<String>,
    /// What to change.
    pub advice: String,
    /// The query that shows it.
    pub evidence: String,
    /// The metric or view that shows it.
    pub shown: String,
}

impl Finding {
    /// `high` where nothing limits it, `medium` where one thing does, else `low`.
    pub fn confidence(&self) -> &'static str {
        match self.limits.len() {
            0 => "high",
            1 => "medium",
            _ => "low",
        }
    }

    /// The finding as JSON.
    pub fn json(&self) -> Value {
        json!({
            "diagnosis": self.diagnosis, "version": self.version, "finding": self.finding,
            "where": self.place, "time_per_step_ms": self.time_per_step_ms,
            "gain_ms": self.gain_ms, "confidence": self.confidence(), "limits": self.limits,
            "advice": self.advice, "evidence": self.evidence, "shown": self.shown,
        })
    }
}

/// What a diagnosis says of a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Diagnosed {
    /// Name of the diagnosis.
    pub diagnosis: String,
    /// Version of the diagnosis.
    pub version: u32,
    /// The sentence of what it looks for.
    pub summary: String,
    /// The bound that its gain is.
    pub gain: String,
    /// Its findings.
    pub findings: Vec<Finding>,
    /// The reason why it could not be looked for.
    pub reason: Option<String>,
}

impl Diagnosed {
    /// What is not looked for, and why.
    pub fn lacking(header: &Header, reason: String) -> Self {
        Self {
            diagnosis: header.name.clone(),
            version: header.version,
            summary: header.summary.clone(),
            gain: header.gain.clone(),
            findings: Vec::new(),
            reason: Some(reason),
        }
    }
}

/// Runs a diagnosis on the trace that `engine` shows, which is that of `manifest`.
///
/// # Errors
/// `sql` with the path of the file, `param-invalid` for a parameter of the wrong type,
/// `check-failed` where a row is no finding.
pub fn diagnose(
    engine: &Engine<'_>,
    manifest: &Manifest,
    file: &SqlFile,
    params: &Params,
) -> Result<Diagnosed> {
    Ok(diagnose_each(engine, &[manifest], file, params)?.swap_remove(0))
}

/// Runs a diagnosis on the traces that `engine` shows, which are those of `traces`; what it says is
/// in their order. Of several, each is of one source.
///
/// # Errors
/// As [`diagnose`].
pub fn diagnose_each(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
    params: &Params,
) -> Result<Vec<Diagnosed>> {
    let header = &file.header;
    let (values, _) = bound(header, params)?;
    let lacking = |reason| Diagnosed { reason, ..Diagnosed::lacking(header, String::new()) };
    let mut out: Vec<Diagnosed> = reasons(engine, traces, file)?.into_iter().map(lacking).collect();
    if out.iter().all(|one| one.reason.is_some()) {
        return Ok(out);
    }
    engine.admit_file(file, file.query())?;
    let rows = rows_of_each(&ask(engine, file, file.query(), &values)?, traces);
    for ((one, rows), of) in out.iter_mut().zip(rows).zip(traces) {
        if one.reason.is_none() {
            let findings = json::rows(&rows).into_iter().map(|row| finding(file, &of.trace, row));
            one.findings = findings.collect::<Result<_>>()?;
        }
    }
    Ok(out)
}

/// The finding that a row is.
fn finding(file: &SqlFile, trace: &str, mut row: Map<String, Value>) -> Result<Finding> {
    let header = &file.header;
    let mut take = |name: &str| row.shift_remove(name).unwrap_or_default();
    let mut text = |name: &str| match take(name) {
        Value::String(text) => Ok(text),
        _ => Err(Error::new("check-failed", format!("a finding has no {name}"))
            .at(file.path.clone())
            .hint("give it a text that is not NULL")),
    };
    let (finding, advice, evidence) = (text("finding")?, text("advice")?, text("evidence")?);
    let place = match take("where") {
        Value::Object(place) => place.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => Map::new(),
    };
    let limits = match take("limits") {
        Value::Array(limits) => {
            limits.iter().filter_map(|l| l.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    Ok(Finding {
        diagnosis: header.name.clone(),
        version: header.version,
        finding,
        place,
        time_per_step_ms: take("time_per_step_ms").as_f64(),
        gain_ms: take("gain_ms").as_f64(),
        limits,
        advice,
        evidence: evidence.replace("{trace}", &sql_string(trace)),
        shown: header.shown.clone().unwrap_or_default(),
    })
}

/// Findings of all diagnoses: the largest gain first, then by the time that they take, those
/// without either last.
pub fn ranked(diagnosed: &[Diagnosed]) -> Vec<&Finding> {
    let mut out: Vec<&Finding> = diagnosed.iter().flat_map(|d| &d.findings).collect();
    let key = |f: &Finding| (f.gain_ms.unwrap_or(-1.0), f.time_per_step_ms.unwrap_or(-1.0));
    out.sort_by(|a, b| {
        let ((gain_a, time_a), (gain_b, time_b)) = (key(a), key(b));
        gain_b.total_cmp(&gain_a).then(time_b.total_cmp(&time_a))
    });
    out
}
