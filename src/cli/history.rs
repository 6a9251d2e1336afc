//! `history`: metrics over the runs of a series.

use std::collections::BTreeSet;

use duckdb::types::Value as SqlValue;

use crate::cli::across::Across;
use crate::cli::answers::Asked;
use crate::cli::args::HistoryArgs;
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Target, form, target};
use crate::cli::series::{Series, selections, series};
use crate::cli::shape;
use crate::engine::metric::{Params, check_params, result_rows};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::history::{History, Member};
use crate::report::sheet::Sheet;
use crate::report::sheets::comparison;
use crate::report::{Format, html, text};

/// The fields of a history that say most.
const BRIEF: [&str; 8] = [
    "series.series",
    "series.runs.trace",
    "series.metrics.metric",
    "series.metrics.unit",
    "series.sheet.columns.name",
    "series.sheet.columns.unit",
    "series.sheet.rows",
    "series.sheet.reason",
];

/// Runs the command.
pub fn run(context: &Context, args: &HistoryArgs) -> Result<(), Errors> {
    let registry = &context.registry;
    let target = target(context)?;
    let forms = [Format::Table, Format::Csv, Format::Json, Format::Html];
    let format = form(context, "history", &target, &forms, Format::Table)?;
    if let Target::Folder(folder) = &target {
        return Err(Error::new("usage", "history writes one file")
            .at(folder.display().to_string())
            .hint("name the file: -o FILE.html")
            .into());
    }
    let mut files: Vec<&SqlFile> =
        args.metrics.iter().map(|name| registry.metric(name)).collect::<Result<_>>()?;
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.id()));
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params)?;
    let mut errors = Vec::new();
    let all = series(context, args.series.as_deref(), args.last)?
        .into_iter()
        .map(|series| history(context, args, series, &files, &params, &mut errors))
        .collect::<Result<Vec<History>>>()?;
    for (at, file) in files.iter().enumerate() {
        let is_known = |history: &History| {
            let rows = history.rows(&history.metrics[at]);
            rows.iter().any(|row| !history.sheet.cell(row, "value").is_null())
        };
        if !all.iter().any(is_known) {
            let message = format!("metric `{}` has no value on any run", file.id());
            let hint = format!("`ccl-sql show {}` says what it needs", file.header.name);
            errors.push(Error::new("metric-not-applicable", message).hint(hint));
        }
    }
    let bytes = match format {
        Format::Json => shape::json(context, &BRIEF, History::json(&all))?,
        Format::Html => html::history_page(&History::json(&all)).into_bytes(),
        Format::Csv => text::history::csv(&all)?,
        _ => text::history::text(&all, context.printer.layout()).into_bytes(),
    };
    context.printer.result(&bytes)?;
    Errors(errors).result()
}

/// The history of one series.
fn history(
    context: &Context,
    args: &HistoryArgs,
    series: Series,
    files: &[&SqlFile],
    params: &Params,
    errors: &mut Vec<Error>,
) -> Result<History> {
    let directories = context.directories_to_ask(&series.traces)?;
    let mut batch = Batch::new(context, files, params, args.profile_mode, &directories);
    let asked = Asked { files, ..Asked::default() };
    let (mut members, mut results) = (Vec::new(), Vec::new());
    for directory in &directories {
        let answers = batch.trace(directory)?;
        let (trace, fingerprint) = (answers.manifest.trace.clone(), answers.manifest.fingerprint());
        members.push(Member { trace, fingerprint });
        results.extend(answers.known(asked, errors).results);
    }
    drop(batch);
    let file = comparison(&context.registry, "history")?;
    let selections = selections(&directories, args.profile_mode)?;
    let mut all = Across::new(context, selections, result_rows(files, &results), vec![file]);
    let threshold = [("threshold", SqlValue::Double(args.threshold))];
    let sheet = Sheet::query_traces(&mut all, file, &threshold)?;
    let metrics = files.iter().map(|file| file.header.clone()).collect();
    Ok(History { series: series.name, members, metrics, sheet })
}
