//! What is wrong with a trace, and what to fix first: where its steps go, and the findings of the
//! diagnoses, the largest gain first.

use serde_json::{Value, json};

use crate::engine::diagnose::{Diagnosed, Finding, ranked};
use crate::report::sheet::{Sheet, SheetColumn};

/// Findings that gain less of the step than this, in percent, are only counted.
pub const LEAST_PCT: f64 = 1.0;

/// Columns of the findings as a table: name, unit, meaning.
const COLUMNS: [(&str, Option<&str>, &str); 11] = [
    ("diagnosis", None, "Name of the diagnosis."),
    ("finding", None, "What is wrong."),
    ("where", None, "Rank, group, kind, size, kernel or phase."),
    ("time_per_step_ms", Some("ms"), "Time of a step that it takes."),
    ("gain_ms", Some("ms"), "The most that a step could lose if this alone were gone."),
    ("gain_pct", Some("pct"), "The same, of a step."),
    ("confidence", None, "high, medium or low."),
    ("limits", None, "What limits the confidence."),
    ("advice", None, "What to change."),
    ("shown", None, "The metric or view that shows it."),
    ("evidence", None, "The query that shows it."),
];

/// What the diagnoses say of a trace.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    /// The rows of `account_summary`.
    pub account: Sheet,
    /// The rows of `what_if`.
    pub what_if: Sheet,
    /// What each diagnosis says.
    pub diagnosed: Vec<Diagnosed>,
    /// The least gain that is shown, in percent of the step.
    pub least_pct: f64,
}

impl Diagnosis {
    /// What the diagnoses say of a trace; takes the views of a diagnosis out of its sheets.
    pub fn new(sheets: &mut Vec<Sheet>, diagnosed: Vec<Diagnosed>) -> Self {
        let mut take = |name: &str| {
            let place = sheets.iter().position(|s| s.name == name);
            place.map(|i| sheets.remove(i)).unwrap_or_default()
        };
        let (account, what_if) = (take("account_summary"), take("what_if"));
        Self { account, what_if, diagnosed, least_pct: LEAST_PCT }
    }

    /// Mean time of a step in milliseconds; of the trace where it has no steps.
    pub fn step_ms(&self) -> Option<f64> {
        let row = self.account.rows.first()?;
        self.account.cell(row, "step_ms").as_f64()
    }

    /// What a step is called: the trace, where it has no steps.
    pub fn unit(&self) -> &'static str {
        let row = self.account.rows.first();
        match row.map(|row| self.account.cell(row, "per")) {
            Some(Value::String(per)) if per == "trace" => "trace",
            _ => "step",
        }
    }

    /// A time in percent of the step.
    pub fn share_pct(&self, ms: f64) -> Option<f64> {
        self.step_ms().filter(|step| *step > 0.0).map(|step| 100.0 * ms / step)
    }

    /// Findings that are shown, the largest gain first: those that gain enough of the step, and
    /// those whose cost is no time of a step.
    pub fn findings(&self) -> Vec<&Finding> {
        let mut all = ranked(&self.diagnosed);
        all.retain(|f| f.gain_ms.is_none_or(|gain| self.counts(gain)));
        all
    }

    /// Findings that gain less than is shown.
    pub fn smaller(&self) -> Vec<&Finding> {
        let mut all = ranked(&self.diagnosed);
        all.retain(|f| f.gain_ms.is_some_and(|gain| !self.counts(gain)));
        all
    }

    fn counts(&self, gain_ms: f64) -> bool {
        self.share_pct(gain_ms).is_none_or(|pct| pct >= self.least_pct)
    }

    /// Names of the diagnoses that found nothing.
    pub fn absent(&self) -> Vec<&str> {
        let absent = |d: &&Diagnosed| d.findings.is_empty() && d.reason.is_none();
        self.diagnosed.iter().filter(absent).map(|d| d.diagnosis.as_str()).collect()
    }

    /// Names of the diagnoses that could not be looked for, by the reason.
    pub fn lacking(&self) -> Vec<(&str, Vec<&str>)> {
        let mut out: Vec<(&str, Vec<&str>)> = Vec::new();
        for one in &self.diagnosed {
            let Some(reason) = one.reason.as_deref() else { continue };
            match out.iter_mut().find(|(r, _)| *r == reason) {
                Some((_, names)) => names.push(&one.diagnosis),
                None => out.push((reason, vec![&one.diagnosis])),
            }
        }
        out
    }

    /// The time of a step without the first finding, and the finding.
    pub fn without_first(&self) -> Option<(f64, &Finding)> {
        let first = *self.findings().first()?;
        Some((self.step_ms()? - first.gain_ms?, first))
    }

    /// The findings as a table: a page of a workbook.
    pub fn sheet(&self) -> Sheet {
        let column = |(name, unit, doc): (&str, Option<&str>, &str)| SheetColumn {
            name: name.to_owned(),
            unit: unit.map(str::to_owned),
            doc: doc.to_owned(),
            ..SheetColumn::default()
        };
        let row = |f: &Finding| {
            vec![
                f.diagnosis.clone().into(),
                f.finding.clone().into(),
                place(f).into(),
                f.time_per_step_ms.into(),
                f.gain_ms.into(),
                f.gain_ms.and_then(|ms| self.share_pct(ms)).into(),
                f.confidence().into(),
                f.limits.join("; ").into(),
                f.advice.clone().into(),
                f.shown.clone().into(),
                f.evidence.clone().into(),
            ]
        };
        let rows: Vec<Vec<Value>> = self.findings().into_iter().map(row).collect();
        let reason = rows.is_empty().then(|| "nothing was found that is wrong".to_owned());
        Sheet {
            name: "what_to_fix".to_owned(),
            summary: "What is wrong with the trace, the largest gain first.".to_owned(),
            columns: COLUMNS.into_iter().map(column).collect(),
            rows,
            reason,
            ..Sheet::default()
        }
    }

    /// The first finding in a few words, for a list of traces.
    pub fn first(&self) -> Option<Value> {
        let first = *self.findings().first()?;
        Some(json!({
            "diagnosis": first.diagnosis, "finding": first.finding, "gain_ms": first.gain_ms,
            "gain_pct": first.gain_ms.and_then(|ms| self.share_pct(ms)),
            "confidence": first.confidence(),
        }))
    }

    /// The diagnosis in a JSON document.
    pub fn json(&self) -> Value {
        let finding = |f: &&Finding| {
            let mut out = f.json();
            let gain = self.diagnosed.iter().find(|d| d.diagnosis == f.diagnosis);
            out["gain_pct"] = f.gain_ms.and_then(|ms| self.share_pct(ms)).into();
            out["gain_is"] = gain.map(|d| d.gain.as_str()).into();
            out
        };
        let lacking: Vec<Value> = self
            .lacking()
            .into_iter()
            .map(|(reason, names)| json!({"reason": reason, "diagnoses": names}))
            .collect();
        json!({
            "per": self.unit(), "step_ms": self.step_ms(), "least_pct": self.least_pct,
            "account": self.account.json(),
            "findings": self.findings().iter().map(finding).collect::<Vec<Value>>(),
            "smaller": self.smaller().iter().map(finding).collect::<Vec<Value>>(),
            "not_found": self.absent(), "not_looked_for": lacking,
            "what_if": self.what_if.json(),
        })
    }
}

/// What a finding is about, in words: `rank 4, mesh_dp, all_reduce`.
pub fn place(finding: &Finding) -> String {
    let word = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match name.as_str() {
            "rank" | "group" | "step" | "device" => format!("{name} {value}"),
            "size_bytes" => crate::registry::units::human(&finding.place[name], Some("bytes")),
            _ => value,
        }
    };
    finding.place.iter().map(word).collect::<Vec<_>>().join(", ")
}
