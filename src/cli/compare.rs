//! `compare`: runs beside a baseline.

use std::path::{Path, PathBuf};

use duckdb::types::Value as SqlValue;
use serde_json::Value;

use super::Context;
use super::args::{CompareArgs, ProfileMode};
use super::batch::{Batch, result_rows, source};
use super::output::{Files, Names, Target, ending, form, safe, target};
use super::report::{shown_metrics, view};
use super::select::each;
use crate::engine::run::{MetricResult, Params, check_params};
use crate::engine::sheet::rows;
use crate::engine::{Engine, Shown};
use crate::error::{Error, Result};
use crate::input::place::absolute;
use crate::registry::SqlFile;
use crate::report::document::{Comparison, MOST_ROWS, Run, Sheet};
use crate::report::units::human;
use crate::report::{Format, books, changes, html, pretty};
use crate::store::manifest::Manifest;

/// Comparisons by the names that workbooks have for them.
const COMPARISONS: [(&str, &str); 7] = [
    ("GPU_Summary_Cmp", "gpu_summary_cmp"),
    ("GPU_ByRank_Cmp", "gpu_by_rank_cmp"),
    ("Kernel_Cmp", "kernel_cmp"),
    ("Op_Cmp", "op_cmp"),
    ("NCCL_ImplSync_Cmp", "nccl_impl_sync_cmp"),
    ("NCCL_Long_Cmp", "nccl_long_cmp"),
    ("Metrics_Cmp", "metric_cmp"),
];

/// What is kept of each run, beside what is compared.
const RUN_SHEETS: [&str; 11] = [
    "configuration",
    "gpu_timeline",
    "gpu_timeline_by_rank",
    "step_overlap_mean",
    "collective_sizes",
    "hockney_fits",
    "network_load",
    "traffic",
    "straggler_summary",
    "kernel_class_times",
    "nccl_summary_implicit_sync",
];

/// Metrics that rank runs where nobody says one; of these one that rests on several steps.
const RANK_BY: &str = "avg_step_time,iter_time,wall_time_s";

/// Runs the command.
pub fn run(context: &Context, args: &CompareArgs) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    let target = target(context).map_err(one)?;
    let forms = [Format::Table, Format::Csv, Format::Json, Format::Html, Format::Xlsx];
    let default = match target {
        Target::Folder(_) => Format::Xlsx,
        _ => Format::Table,
    };
    let format = form(context, "compare", &target, &forms, default).map_err(one)?;
    if format == Format::Xlsx && args.tests.len() > 1 && !matches!(target, Target::Folder(_)) {
        return Err(one(Error::new("usage", "a workbook is of one baseline and one test")
            .hint("write one for each test into a folder: -o DIR/")));
    }
    let mut limits = Vec::new();
    for text in &args.fail_on {
        limits.push(limit(context, text).map_err(one)?);
    }
    let mut files: Vec<&SqlFile> =
        shown_metrics(context).map_err(one)?.into_iter().map(|(_, file)| file).collect();
    if let Some(name) = &args.rank_by {
        files.push(context.registry.metric(name).map_err(one)?);
    }
    files.extend(limits.iter().map(|l| l.file));
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|f| seen.insert((f.header.name.clone(), f.header.version)));
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params).map_err(one)?;
    let mut out = Files::new(context);
    out.prepare(&target).map_err(one)?;
    let named = runs(context, args)?;
    let traces: Vec<String> = named.iter().map(|(_, trace)| trace.clone()).collect();
    let directories = context.directories(&traces).map_err(one)?;
    let mut batch = Batch::new(context, &files, &params, args.profile_mode, &directories);
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for directory in &directories {
        let answers = batch.trace(directory).map_err(one)?;
        results.extend(answers.known(&files, &[], &mut errors).0);
    }
    drop(batch);
    let calls: &[&str] = match (format, &target) {
        (Format::Xlsx, Target::Folder(_)) => &books::CALL_VIEWS,
        _ => &[],
    };
    let comparison =
        compared(context, args, &named, &directories, &files, &results, calls).map_err(one)?;
    write(context, &comparison, &target, format, out).map_err(one)?;
    errors.extend(crossed(&comparison, &limits, &results));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Labels and traces of the runs, in the order of the command line.
fn runs(context: &Context, args: &CompareArgs) -> Result<Vec<(String, String)>, Vec<Error>> {
    let one = |e: Error| vec![e];
    let asked: Vec<String> = std::iter::once(&args.base).chain(&args.tests).cloned().collect();
    let found = each(context, &asked, &args.reading)?;
    let mut out: Vec<(String, String)> = Vec::new();
    for (text, traces) in asked.iter().zip(found) {
        let [trace] = &traces[..] else {
            let message = format!("a run is one trace, and here are {}", traces.len());
            return Err(one(Error::new("usage", message)
                .at(text.clone())
                .facts(traces.join(", "))
                .hint("name each run, or its folder: compare RUNS/base RUNS/test")));
        };
        if out.iter().any(|(_, t)| t == trace) {
            return Err(one(Error::new("usage", format!("trace `{trace}` is given twice"))
                .hint("name a baseline and the runs that differ from it")));
        }
        let manifest = Manifest::read(&context.store.directory(trace)).map_err(one)?;
        out.push((label(text, &manifest), trace.clone()));
    }
    let labels: Vec<String> = out.iter().map(|(label, _)| label.clone()).collect();
    for (label, trace) in &mut out {
        if labels.iter().filter(|l| *l == label).count() > 1 {
            label.clone_from(trace);
        }
    }
    Ok(out)
}

/// What the user calls the run: its name; the folder as it was named; of a folder inside of the run
/// (`torch_profiler`) the run's own; of a file the name of the trace.
fn label(text: &str, manifest: &Manifest) -> String {
    let path = Path::new(text);
    let last = |p: &Path| p.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = if manifest.trace == text || !path.is_dir() {
        None
    } else if absolute(&manifest.root).starts_with(absolute(path)) {
        last(path).or_else(|| last(&absolute(path)))
    } else {
        last(&manifest.root)
    };
    name.unwrap_or_else(|| manifest.trace.clone())
}

/// The comparison of all tests with the baseline, by the SQL files; `calls` are views of each run
/// that only its workbooks need.
fn compared(
    context: &Context,
    args: &CompareArgs,
    named: &[(String, String)],
    directories: &[PathBuf],
    files: &[&SqlFile],
    results: &[MetricResult],
    calls: &[&str],
) -> Result<Comparison> {
    let views: Vec<&SqlFile> = RUN_SHEETS
        .iter()
        .chain(&["nccl_summary_long"])
        .chain(calls)
        .map(|n| view(context, n))
        .collect::<Result<_>>()?;
    let comparison = |name: &str| {
        context.registry.comparison(name).ok_or_else(|| {
            Error::new("sql-file", format!("there is no comparison `{name}`"))
                .hint("the folder of SQL files in CCL_SQL_TREE lacks it")
        })
    };
    let sheets: Vec<(&str, &SqlFile)> = COMPARISONS
        .iter()
        .map(|(tab, name)| Ok((*tab, comparison(name)?)))
        .collect::<Result<_>>()?;
    let all: Vec<&SqlFile> = views.iter().copied().chain(sheets.iter().map(|(_, f)| *f)).collect();
    let engine = Engine::open(directories, &context.registry, &context.settings())?.keeping(&all);
    engine.lock_down()?;
    let mut runs = Vec::new();
    let mut shown = Vec::new();
    for ((label, trace), directory) in named.iter().zip(directories) {
        let manifest = Manifest::read(directory)?;
        let only = shown_of(directory, &manifest, args.profile_mode);
        engine.show(vec![only.clone()])?;
        let mut sheets = Vec::new();
        for view in &views {
            sheets.push(Sheet::new(view, rows(&engine, view, &[], MOST_ROWS)?));
        }
        runs.push(Run {
            label: label.clone(),
            trace: trace.clone(),
            fingerprint: manifest.fingerprint(),
            sheets,
        });
        shown.push(only);
    }
    engine.show(shown)?;
    engine.fill_results(&result_rows(files, results))?;
    let base = SqlValue::Text(named[0].1.clone());
    let mut compared = Vec::new();
    for (_, test) in &named[1..] {
        let mut of_test = Vec::new();
        for (tab, file) in &sheets {
            let mut params = vec![("base", base.clone()), ("test", SqlValue::Text(test.clone()))];
            if file.header.params.iter().any(|p| p.name == "threshold") {
                params.push(("threshold", SqlValue::Double(args.threshold)));
            }
            let rows = rows(&engine, file, &params, MOST_ROWS)?;
            of_test.push(Sheet { name: (*tab).to_owned(), ..Sheet::new(file, rows) });
        }
        let of = |name: &str| of_test.iter().find(|s| s.name == name);
        if let (Some(times), Some(metrics)) = (of("GPU_Summary_Cmp"), of("Metrics_Cmp")) {
            let dashboard = changes::dashboard(times, metrics);
            of_test.insert(0, Sheet { name: books::DASHBOARD.to_owned(), ..dashboard });
        }
        compared.push(of_test);
    }
    let ranking = match named.len() {
        0..=2 => None,
        _ => {
            let file = comparison("ranking")?;
            let rank_by = match &args.rank_by {
                Some(name) => &context.registry.metric(name)?.header.name,
                None => RANK_BY,
            };
            let metrics = SqlValue::Text(rank_by.to_owned());
            let mut sheet =
                Sheet::new(file, rows(&engine, file, &[("metrics", metrics)], MOST_ROWS)?);
            relabel(&mut sheet, named);
            Some(sheet)
        }
    };
    Ok(Comparison { threshold_pct: args.threshold, runs, sheets: compared, ranking })
}

fn shown_of(directory: &Path, manifest: &Manifest, mode: ProfileMode) -> Shown {
    let source = source(manifest, mode).map(str::to_owned);
    Shown { directory: directory.to_owned(), source }
}

/// Labels in place of traces.
fn relabel(sheet: &mut Sheet, named: &[(String, String)]) {
    let Some(column) = sheet.index("trace") else { return };
    sheet.columns[column].name = "label".to_owned();
    for row in &mut sheet.rows {
        let label = named.iter().find(|(_, trace)| row[column] == **trace).map(|(l, _)| l.clone());
        row[column] = label.into();
    }
}

fn write(
    context: &Context,
    comparison: &Comparison,
    target: &Target,
    format: Format,
    mut out: Files<'_>,
) -> Result<()> {
    let bytes = match format {
        Format::Json => pretty(&comparison.json()),
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

/// All workbooks; of several tests each in a folder by its label.
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

/// A condition of `--fail-on`.
struct Limit<'c> {
    text: String,
    file: &'c SqlFile,
    above: bool,
    or_equal: bool,
    percent: f64,
}

/// Reads `METRIC > +3%`.
fn limit<'c>(context: &'c Context, text: &str) -> Result<Limit<'c>> {
    let bad = |why: &str| {
        Error::new("usage", format!("--fail-on {text:?}: {why}"))
            .hint("write METRIC, < or >, and a change in percent: --fail-on 'avg_step_time > +3%'")
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
    let number = rest.trim().strip_suffix('%').ok_or_else(|| bad("the change has no %"))?.trim();
    let percent: f64 = number.parse().map_err(|_| bad("the change is no number"))?;
    if !percent.is_finite() {
        return Err(bad("the change is no number"));
    }
    let file = context.registry.metric(name.trim())?;
    Ok(Limit { text: text.to_owned(), file, above, or_equal, percent })
}

/// The conditions that hold, and those that cannot be judged.
fn crossed(comparison: &Comparison, limits: &[Limit<'_>], results: &[MetricResult]) -> Vec<Error> {
    let mut out = Vec::new();
    for limit in limits {
        let name = &limit.file.header.name;
        let version = limit.file.header.version;
        for (test, run) in comparison.runs[1..].iter().enumerate() {
            let row = comparison.sheet(test, "Metrics_Cmp").and_then(|sheet| {
                let row = sheet.rows.iter().find(|row| {
                    *sheet.cell(row, "metric") == **name && *sheet.cell(row, "version") == version
                });
                Some((sheet, row?))
            });
            let cell = |column| row.map_or(&Value::Null, |(sheet, row)| sheet.cell(row, column));
            let Some(change) = cell("change_pct").as_f64() else {
                let why = results
                    .iter()
                    .filter(|r| r.metric == *name && r.version == version)
                    .filter(|r| [&comparison.runs[0].trace, &run.trace].contains(&&r.trace))
                    .find_map(|r| r.reason.clone().map(|reason| format!("{}: {reason}", r.trace)))
                    .unwrap_or_else(|| "the baseline is 0".to_owned());
                out.push(
                    Error::new(
                        "metric-not-applicable",
                        format!("--fail-on '{}' cannot be judged for {}", limit.text, run.label),
                    )
                    .facts(why),
                );
                continue;
            };
            // 1.1 against 1.0 is 10.000000000000009 %: what floats add is no change.
            let equal = (change - limit.percent).abs() <= 1e-9 * change.abs().max(1.0);
            let holds = match limit.above {
                _ if equal => limit.or_equal,
                true => change > limit.percent,
                false => change < limit.percent,
            };
            if !holds {
                continue;
            }
            let unit = limit.file.header.unit();
            let noise = match cell("noise_pct").as_f64() {
                Some(noise) => format!("noise over the steps {noise:.2} %"),
                None => "its noise is not known".to_owned(),
            };
            out.push(
                Error::new(
                    "change-too-large",
                    format!("{name} of {} changed by {change:+.2} %: '{}'", run.label, limit.text),
                )
                .facts(format!(
                    "{} in {}, {} in {}; {noise}",
                    human(cell("base"), unit),
                    comparison.runs[0].label,
                    human(cell("test"), unit),
                    run.label
                )),
            );
        }
    }
    out
}
