//! `--fail-on`: conditions on the changes of metrics, and which of them hold.

use serde_json::Value;

use crate::engine::metric::MetricResult;
use crate::error::{Error, Result};
use crate::registry::{Registry, SqlFile};
use crate::report::comparison::Comparison;
use crate::report::units::human;

/// A condition of `--fail-on`.
pub struct Limit<'c> {
    text: String,
    /// The metric that must not change so much.
    pub file: &'c SqlFile,
    above: bool,
    or_equal: bool,
    percent: f64,
}

impl<'c> Limit<'c> {
    /// Reads `METRIC > +3%`.
    ///
    /// # Errors
    /// `usage` for another form, `metric-unknown`.
    pub fn parse(registry: &'c Registry, text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::new("usage", format!("--fail-on {text:?}: {why}")).hint(
                "write METRIC, < or >, and a change in percent: --fail-on 'avg_step_time > +3%'",
            )
        };
        let at = text.find(['<', '>']).ok_or_else(|| bad("it has neither < nor >"))?;
        let (name, rest) = text.split_at(at);
        if name.trim().is_empty() {
            return Err(bad("it names no metric"));
        }
        let above = rest.starts_with('>');
        let rest = &rest[1..];
        let (or_equal, rest) = match rest.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let number =
            rest.trim().strip_suffix('%').ok_or_else(|| bad("the change has no %"))?.trim();
        let percent: f64 = number.parse().map_err(|_| bad("the change is no number"))?;
        if !percent.is_finite() {
            return Err(bad("the change is no number"));
        }
        let file = registry.metric(name.trim())?;
        Ok(Self { text: text.to_owned(), file, above, or_equal, percent })
    }

    /// The error of a test that crosses the limit, or cannot be judged.
    fn judged(
        &self,
        comparison: &Comparison,
        test: usize,
        results: &[MetricResult],
    ) -> Option<Error> {
        let (base, run) = (&comparison.runs[0], &comparison.runs[test + 1]);
        let header = &self.file.header;
        let row = comparison.sheet(test, "Metrics_Cmp").and_then(|sheet| {
            let row = sheet.rows.iter().find(|row| {
                *sheet.cell(row, "metric") == *header.name
                    && *sheet.cell(row, "version") == header.version
            });
            Some((sheet, row?))
        });
        let cell = |column| row.map_or(&Value::Null, |(sheet, row)| sheet.cell(row, column));
        let Some(change) = cell("change_pct").as_f64() else {
            let why = results
                .iter()
                .filter(|r| r.metric == header.name && r.version == header.version)
                .filter(|r| [&base.trace, &run.trace].contains(&&r.trace))
                .find_map(|r| r.reason.clone().map(|reason| format!("{}: {reason}", r.trace)))
                .unwrap_or_else(|| "the baseline is 0".to_owned());
            let message = format!("--fail-on '{}' cannot be judged for {}", self.text, run.label);
            return Some(Error::new("metric-not-applicable", message).facts(why));
        };
        if !self.holds(change) {
            return None;
        }
        let noise = match cell("noise_pct").as_f64() {
            Some(noise) => format!("noise over the steps {noise:.2} %"),
            None => "its noise is not known".to_owned(),
        };
        let message =
            format!("{} of {} changed by {change:+.2} %: '{}'", header.name, run.label, self.text);
        Some(Error::new("change-too-large", message).facts(format!(
            "{} in {}, {} in {}; {noise}",
            human(cell("base"), header.unit()),
            base.label,
            human(cell("test"), header.unit()),
            run.label
        )))
    }

    /// The condition as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a change in percent crosses the limit.
    pub fn holds(&self, change: f64) -> bool {
        // 1.1 against 1.0 is 10.000000000000009 %: what floats add is no change.
        if (change - self.percent).abs() <= 1e-9 * change.abs().max(1.0) {
            self.or_equal
        } else if self.above {
            change > self.percent
        } else {
            change < self.percent
        }
    }
}

/// Errors for the conditions that hold, and for those that cannot be judged.
pub fn crossed(
    comparison: &Comparison,
    limits: &[Limit<'_>],
    results: &[MetricResult],
) -> Vec<Error> {
    let tests = 0..comparison.sheets.len();
    limits
        .iter()
        .flat_map(|limit| tests.clone().filter_map(|test| limit.judged(comparison, test, results)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_floats_add_crosses_no_limit() {
        let registry = Registry::load(None).expect("the files of the program are right");
        let holds = |text: &str, change: f64| {
            Limit::parse(&registry, text).expect("a condition").holds(change)
        };
        assert!(!holds("iter_time > +10%", 10.000000000000009));
        assert!(holds("iter_time >= +10%", 9.99999999999999));
        assert!(holds("iter_time > +10%", 10.0001) && !holds("iter_time >= +10%", 9.9999));
        assert!(holds("iter_time < -10%", -10.0001) && !holds("iter_time < -10%", -9.9999));
        // Of large changes the part counts, of small ones the difference.
        assert!(
            !holds("iter_time > 1000%", 1000.0000001) && holds("iter_time > 1000%", 1000.00001)
        );
        assert!(!holds("iter_time > 0%", 1e-10) && holds("iter_time > 0%", 1e-8));
    }
}
