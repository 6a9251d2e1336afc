//! `compare`: runs beside a baseline.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::across::Across;
use crate::cli::answers::{Asked, selection};
use crate::cli::args::CompareArgs;
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::limits::{Limit, crossed};
use crate::cli::output::{Files, Names, Target, ending, form, safe, target};
use crate::cli::select::each;
use crate::cli::shape;
use crate::engine::metric::{MetricResult, Params, check_params, result_rows};
use crate::error::{Error, Result};
use crate::input::place::{absolute, is_dir};
use crate::registry::SqlFile;
use crate::report::comparison::{Comparison, DASHBOARD, Run, Terms, run_views, tabs};
use crate::report::sheets::shown_metrics;
use crate::report::text::changes;
use crate::report::xlsx::books;
use crate::report::{Format, html};
use crate::store::manifest::Manifest;

/// The fields of a comparison that say most, where the dashboard is its only sheet.
const BRIEF: [&str; 10] = [
    "threshold_pct",
    "runs.label",
    "runs.trace",
    "runs.role",
    "comparisons.test",
    "comparisons.sheets.name",
    "comparisons.sheets.columns.name",
    "comparisons.sheets.columns.unit",
    "comparisons.sheets.rows",
    "ranking",
];

/// Runs the command.
pub fn run(context: &Context, args: &CompareArgs) -> Result<(), Errors> {
    let registry = &context.registry;
    let target = target(context)?;
    let is_folder = matches!(target, Target::Folder(_));
    let forms = [Format::Table, Format::Csv, Format::Json, Format::Html, Format::Xlsx];
    let default = if is_folder { Format::Xlsx } else { Format::Table };
    let format = form(context, "compare", &target, &forms, default)?;
    if format == Format::Xlsx && args.tests.len() > 1 && !is_folder {
        return Err(Error::new("usage", "a workbook is of one baseline and one test")
            .hint("write one for each test into a folder: -o DIR/")
            .into());
    }
    let limits: Vec<Limit<'_>> =
        args.fail_on.iter().map(|text| Limit::parse(registry, text)).collect::<Result<_>>()?;
    let rank_by = args.rank_by.as_ref().map(|name| registry.metric(name)).transpose()?;
    let (files, params) = asked(context, args, rank_by, &limits)?;
    let mut out = Files::new(context);
    out.prepare(&target)?;
    let calls: &[&str] = if format == Format::Xlsx && is_folder { &books::CALL_VIEWS } else { &[] };
    let wanted = Wanted { files: &files, params: &params, rank_by, calls };
    let Compared { comparison, results, mut errors } = compared(context, args, &wanted)?;
    write(context, &comparison, &target, format, out)?;
    errors.extend(crossed(&comparison, &limits, &results));
    Errors(errors).result()
}

/// What runs are compared by.
pub struct Wanted<'a, 'c> {
    /// Metrics.
    pub files: &'a [&'c SqlFile],
    /// Their parameters.
    pub params: &'a Params,
    /// The metric that ranks several tests.
    pub rank_by: Option<&'c SqlFile>,
    /// Views that only the workbooks of a run need.
    pub calls: &'a [&'a str],
}

/// Runs beside each other.
pub struct Compared {
    /// The comparison.
    pub comparison: Comparison,
    /// Results of the metrics on every run.
    pub results: Vec<MetricResult>,
    /// Errors of what could not be computed.
    pub errors: Vec<Error>,
}

/// Compares the runs of a command line.
///
/// # Errors
/// `trace-unknown`, `usage`, and those of an ingest.
pub fn compared(
    context: &Context,
    args: &CompareArgs,
    wanted: &Wanted<'_, '_>,
) -> Result<Compared, Errors> {
    let registry = &context.registry;
    let (files, params) = (wanted.files, wanted.params);
    let (labels, traces) = runs(context, args)?;
    let directories = context.directories(&traces)?;
    let views = run_views(registry, wanted.calls)?;
    let mut batch =
        Batch::new(context, files, params, args.profile_mode, &directories).with_views(&views);
    let asked = Asked { files, views: &views, ..Asked::default() };
    let (mut runs, mut selections) = (Vec::new(), Vec::new());
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for ((label, trace), directory) in labels.into_iter().zip(traces).zip(&directories) {
        let answers = batch.trace(directory)?;
        let fingerprint = answers.manifest.fingerprint();
        selections.push(selection(directory, &answers.manifest, args.profile_mode));
        let known = answers.known(asked, &mut errors);
        results.extend(known.results);
        runs.push(Run { label, trace, fingerprint, sheets: known.sheets });
    }
    drop(batch);
    let tabs = tabs(registry)?;
    let asked = tabs.iter().map(|(_, file)| *file).collect();
    let mut all = Across::new(context, selections, result_rows(files, &results), asked);
    let terms = Terms { threshold_pct: args.threshold, rank_by: wanted.rank_by };
    let comparison = Comparison::new(registry, &mut all, &tabs, runs, terms)?;
    drop(all);
    Ok(Compared { comparison, results, errors })
}

/// The metrics of a report and those that are asked for besides, each once, and their parameters.
///
/// # Errors
/// `sql`, `param-invalid`.
pub fn asked<'c>(
    context: &'c Context,
    args: &CompareArgs,
    rank_by: Option<&'c SqlFile>,
    limits: &[Limit<'c>],
) -> Result<(Vec<&'c SqlFile>, Params)> {
    let shown = shown_metrics(&context.registry, &mut Across::none(context))?;
    let mut files: Vec<&SqlFile> = shown.into_iter().map(|(_, file)| file).collect();
    files.extend(rank_by);
    files.extend(limits.iter().map(|limit| limit.file));
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.id()));
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params)?;
    Ok((files, params))
}

/// Labels and traces of the runs, in the order of the command line.
fn runs(context: &Context, args: &CompareArgs) -> Result<(Vec<String>, Vec<String>), Errors> {
    let words: Vec<String> = std::iter::once(&args.base).chain(&args.tests).cloned().collect();
    let (mut labels, mut traces) = (Vec::new(), Vec::new());
    for (word, found) in words.iter().zip(each(context, &words, &args.reading)?) {
        let [trace] = &found[..] else {
            let message = format!("a run is one trace, and here are {}", found.len());
            return Err(Error::new("usage", message)
                .at(word.clone())
                .facts(found.join(", "))
                .hint("name each run, or its folder: compare RUNS/base RUNS/test")
                .into());
        };
        if traces.contains(trace) {
            return Err(Error::new("usage", format!("trace `{trace}` is given twice"))
                .hint("name a baseline and the runs that differ from it")
                .into());
        }
        let manifest = Manifest::read(&context.store.directory(trace))?;
        labels.push(label(word, &manifest));
        traces.push(trace.clone());
    }
    let is_taken = |label: &String| labels.iter().filter(|other| *other == label).count() > 1;
    let told_apart = labels.iter().zip(&traces);
    let told_apart = told_apart.map(|(label, trace)| if is_taken(label) { trace } else { label });
    Ok((told_apart.cloned().collect(), traces))
}

/// The label of a run, as the user calls it: its name; the folder as it was named; of a folder
/// inside of the run (`torch_profiler`) that of the run; of a file the name of the trace.
fn label(text: &str, manifest: &Manifest) -> String {
    let path = Path::new(text);
    let last = |p: &Path| p.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = if manifest.trace == text || !is_dir(path) {
        None
    } else if absolute(&manifest.root).starts_with(absolute(path)) {
        last(path).or_else(|| last(&absolute(path)))
    } else {
        last(&manifest.root)
    };
    name.unwrap_or_else(|| manifest.trace.clone())
}

/// Writes a comparison in a form.
fn write(
    context: &Context,
    comparison: &Comparison,
    target: &Target,
    format: Format,
    mut out: Files<'_>,
) -> Result<()> {
    let bytes = match format {
        Format::Json => json(context, comparison)?,
        Format::Html => html::compare_page(&comparison.json()).into_bytes(),
        Format::Csv => changes::csv(comparison)?,
        Format::Xlsx => match target {
            Target::Folder(folder) => {
                write_books(&mut out, comparison, folder)?;
                return out.commit();
            }
            _ => books::comparison(comparison, 0)?,
        },
        _ => changes::text(comparison).into_bytes(),
    };
    match target {
        Target::Stdout => return context.printer.stdout(&bytes).map(|_| ()),
        Target::File(path) => out.add(path, &bytes)?,
        Target::Folder(folder) => {
            let path = Names::new(folder).path("comparison", "", &ending(format));
            out.add(&path, &bytes)?;
        }
    }
    out.commit()
}

/// A comparison for programs; in brief the dashboard alone.
fn json(context: &Context, comparison: &Comparison) -> Result<Vec<u8>> {
    let mut out = comparison.json();
    if context.global.brief {
        let tests = out["comparisons"].as_array_mut().into_iter().flatten();
        for sheets in tests.filter_map(|test| test["sheets"].as_array_mut()) {
            sheets.retain(|sheet| sheet["name"] == DASHBOARD);
        }
    }
    shape::json(context, &BRIEF, out)
}

/// Writes all workbooks; those of several tests in a folder each, by the label of the test.
fn write_books(out: &mut Files<'_>, comparison: &Comparison, folder: &Path) -> Result<()> {
    let tests = &comparison.runs[1..];
    for (test, run) in tests.iter().enumerate() {
        let folder = match tests.len() {
            1 => folder.to_owned(),
            _ => folder.join(format!("{}-{}", test + 1, safe(&run.label))),
        };
        for (name, bytes) in books::comparison_files(comparison, test)? {
            out.add(&folder.join(name), &bytes)?;
        }
    }
    Ok(())
}
