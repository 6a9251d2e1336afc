//! `compare --baseline`: runs against the median and the spread of a series.

use std::collections::BTreeSet;

use duckdb::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::cli::across::Across;
use crate::cli::answers::Asked;
use crate::cli::args::CompareArgs;
use crate::cli::batch::Batch;
use crate::cli::compare;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::limits::Limit;
use crate::cli::output::{Target, form, target};
use crate::cli::select::each;
use crate::cli::series::{selections, series};
use crate::cli::shape;
use crate::engine::metric::{MetricResult, result_rows};
use crate::error::{Error, Result};
use crate::report::Format;
use crate::report::baseline::{Baseline, Test};
use crate::report::sheet::Sheet;
use crate::report::sheets::comparison;
use crate::report::text::baseline as written;

/// The fields of a comparison with a series that say most.
const BRIEF: [&str; 7] = [
    "series",
    "runs",
    "tests.test",
    "tests.sheet.columns.name",
    "tests.sheet.columns.unit",
    "tests.sheet.rows",
    "tests.sheet.reason",
];

/// Runs the command; `wanted` is the series.
pub fn run(context: &Context, args: &CompareArgs, wanted: &str) -> Result<(), Errors> {
    let registry = &context.registry;
    let target = target(context)?;
    let forms = [Format::Table, Format::Csv, Format::Json];
    let format = form(context, "compare --baseline", &target, &forms, Format::Table)?;
    if let Target::Folder(folder) = &target {
        return Err(Error::new("usage", "compare --baseline writes one file")
            .at(folder.display().to_string())
            .hint("name the file: -o FILE.json")
            .into());
    }
    let limits: Vec<Limit<'_>> =
        args.fail_on.iter().map(|text| Limit::parse(registry, text)).collect::<Result<_>>()?;
    let (files, params) = compare::asked(context, args, None, &limits)?;
    let words: Vec<String> = std::iter::once(&args.base).chain(&args.tests).cloned().collect();
    let mut names = BTreeSet::new();
    let tests: Vec<String> = each(context, &words, &args.reading)?
        .into_iter()
        .flatten()
        .filter(|trace| names.insert(trace.clone()))
        .collect();
    let (series, before) = baseline(context, args, wanted, &names)?;

    let all: Vec<String> = before.iter().chain(&tests).cloned().collect();
    let directories = context.directories_to_ask(&all)?;
    let mut batch = Batch::new(context, &files, &params, args.profile_mode, &directories);
    let asked = Asked { files: &files, ..Asked::default() };
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for directory in &directories {
        results.extend(batch.trace(directory)?.known(asked, &mut errors).results);
    }
    drop(batch);
    let mut out = Baseline { series, runs: before, tests: Vec::new() };
    for trace in tests {
        let is_meant = |name: &String| *name == trace || out.runs.contains(name);
        let of: Vec<MetricResult> =
            results.iter().filter(|r| is_meant(&r.trace)).cloned().collect();
        let places = all.iter().zip(&directories).filter(|(name, _)| is_meant(name));
        let places: Vec<_> = places.map(|(_, directory)| directory.clone()).collect();
        let shown = selections(&places, args.profile_mode)?;
        let file = comparison(registry, "baseline_cmp")?;
        let mut tables = Across::new(context, shown, result_rows(&files, &of), vec![file]);
        let params = [
            ("test", SqlValue::Text(trace.clone())),
            ("threshold", SqlValue::Double(args.threshold)),
        ];
        let sheet = Sheet::query(&mut tables, file, &params)?;
        errors.extend(limits.iter().filter_map(|limit| limit.crossed(context, &trace, &sheet)));
        out.tests.push(Test { trace, sheet });
    }
    let bytes = match format {
        Format::Json => shape::json(context, &BRIEF, out.json())?,
        Format::Csv => written::csv(&out)?,
        _ => written::text(&out, context.printer.layout()).into_bytes(),
    };
    context.printer.result(&bytes)?;
    Errors(errors).result()
}

/// Name and runs of the one series that is meant, without the runs that are compared with it.
fn baseline(
    context: &Context,
    args: &CompareArgs,
    wanted: &str,
    tests: &BTreeSet<String>,
) -> Result<(String, Vec<String>)> {
    let mut all = series(context, Some(wanted), None)?;
    if all.len() > 1 {
        let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        return Err(Error::new("usage", format!("{} series fit `{wanted}`", all.len()))
            .facts(names.join(", "))
            .hint("name one of them"));
    }
    let mut one = all.remove(0);
    one.traces.retain(|trace| !tests.contains(trace));
    let count = args.last.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    one.traces.drain(..one.traces.len().saturating_sub(count));
    if one.traces.is_empty() {
        return Err(Error::new("usage", "the series has no other run to compare with")
            .at(one.name)
            .hint("`ccl-sql list traces` shows the runs"));
    }
    Ok((one.name, one.traces))
}

impl Limit<'_> {
    /// The error of a run that crosses the limit, or cannot be judged. What the spread of the
    /// baseline covers is only said.
    fn crossed(&self, context: &Context, trace: &str, sheet: &Sheet) -> Option<Error> {
        let header = &self.file.header;
        let row = sheet.rows.iter().find(|row| {
            *sheet.cell(row, "metric") == *header.name
                && *sheet.cell(row, "version") == header.version
        });
        let cell = |column| row.map_or(&Value::Null, |row| sheet.cell(row, column));
        let Some(change) = cell("change_pct").as_f64() else {
            let message = format!("--fail-on '{}' cannot be judged for {trace}", self.text());
            let why = match row {
                Some(_) => "the median of the baseline is 0",
                None => "the run or the baseline has no value",
            };
            return Some(Error::new("metric-not-applicable", message).facts(why));
        };
        if !self.holds(change) {
            return None;
        }
        let said = |column| crate::report::units::human(cell(column), header.unit());
        let message =
            format!("{} of {trace} changed by {change:+.2} %: '{}'", header.name, self.text());
        if *cell("is_outside") == json!(false) {
            let (low, high) = (said("low"), said("high"));
            context.printer.note(&format!(
                "note: {message} does not count: the spread of the baseline is {low} to {high}"
            ));
            return None;
        }
        let spread = match cell("low") {
            Value::Null => "its spread is not known".to_owned(),
            _ => format!("its spread is {} to {}", said("low"), said("high")),
        };
        Some(Error::new("change-too-large", message).facts(format!(
            "median {} of {} runs, {spread}; {} in {trace}",
            said("median"),
            cell("run_count"),
            said("test"),
        )))
    }
}
