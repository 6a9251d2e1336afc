//! `compare`: runs beside a baseline.

use std::path::{Path, PathBuf};

use duckdb::types::Value as SqlValue;
use serde_json::Value;

use super::Context;
use super::args::{CompareArgs, ProfileMode};
use super::batch::{Batch, result_rows, source};
use super::ingest::{ingest_paths, options};
use super::output::{Files, Names, Target, ending, form, safe, target};
use super::report::{shown_metrics, view};
use crate::engine::run::{MetricResult, Params, check_params};
use crate::engine::sheet::rows;
use crate::engine::{Engine, Shown};
use crate::error::{Error, Result};
use crate::ingest::manifest::Manifest;
use crate::registry::SqlFile;
use crate::report::document::{Comparison, MOST_ROWS, Run, Sheet};
use crate::report::units::human;
use crate::report::{Format, books, changes, html, pretty};

/// Comparisons by the names that workbooks have for them.
const COMPARISONS: [(&str, &str); 6] = [
    ("Summary_Dashboard", "summary_dashboard"),
    ("GPU_Summary_Cmp", "gpu_summary_cmp"),
    ("GPU_ByRank_Cmp", "gpu_by_rank_cmp"),
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

/// Metrics that rank runs where nobody says one.
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
    let mut rank_by = RANK_BY.to_owned();
    if let Some(name) = &args.rank_by {
        let file = context.registry.metric(name).map_err(one)?;
        rank_by.clone_from(&file.header.name);
        files.push(file);
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
    let comparison =
        compared(context, args, &named, &directories, &files, &results, &rank_by).map_err(one)?;
    write(context, &comparison, &target, format, out).map_err(one)?;
    errors.extend(crossed(&comparison, &limits, &results));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Labels and traces of the runs, in the order of the command line; folders are ingested first,
/// all together, so that their names are told apart.
fn runs(context: &Context, args: &CompareArgs) -> Result<Vec<(String, String)>, Vec<Error>> {
    let one = |e: Error| vec![e];
    let asked: Vec<&String> = std::iter::once(&args.base).chain(&args.tests).collect();
    let known = context.store.traces();
    let is_path = |text: &String| !known.contains(text) && Path::new(text).exists();
    // What is neither is said before the others are read.
    let names: Vec<String> = asked.iter().filter(|t| !is_path(t)).map(|t| (*t).clone()).collect();
    if !names.is_empty() {
        crate::engine::directories(&context.store, &names).map_err(one)?;
    }
    let mut paths: Vec<PathBuf> = asked.iter().filter(|t| is_path(t)).map(PathBuf::from).collect();
    paths.sort();
    paths.dedup();
    let mut ingested = Vec::new();
    if !paths.is_empty() {
        let options = crate::ingest::Options { force: false, ..options(context) };
        let outcome = ingest_paths(context, &paths, &options)?;
        if !outcome.errors.is_empty() {
            return Err(outcome.errors);
        }
        for trace in outcome.traces {
            let manifest = Manifest::read(&context.store.directory(&trace.trace)).map_err(one)?;
            ingested.push(manifest);
        }
    }
    let mut out: Vec<(String, String)> = Vec::new();
    for text in asked {
        let (label, trace) = if is_path(text) {
            let manifest = of_path(Path::new(text), &ingested).map_err(one)?;
            (label(Path::new(text), manifest), manifest.trace.clone())
        } else {
            (text.clone(), text.clone())
        };
        if out.iter().any(|(_, t)| *t == trace) {
            return Err(one(Error::new("usage", format!("trace `{trace}` is given twice"))
                .hint("name a baseline and the runs that differ from it")));
        }
        out.push((label, trace));
    }
    let labels: Vec<String> = out.iter().map(|(label, _)| label.clone()).collect();
    for (label, trace) in &mut out {
        if labels.iter().filter(|l| *l == label).count() > 1 {
            label.clone_from(trace);
        }
    }
    Ok(out)
}

fn whole(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// What the user calls the run: the folder as it was named; of a folder inside of the run
/// (`torch_profiler`) the run's own; of a file the name of the trace.
fn label(path: &Path, manifest: &Manifest) -> String {
    let last = |p: &Path| p.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = if whole(&manifest.root).starts_with(whole(path)) {
        last(path).or_else(|| last(&whole(path)))
    } else if path.is_dir() {
        last(&manifest.root)
    } else {
        None
    };
    name.unwrap_or_else(|| manifest.trace.clone())
}

/// The one trace that lies in a folder, or is made of a file.
fn of_path<'m>(path: &Path, ingested: &'m [Manifest]) -> Result<&'m Manifest> {
    let wanted = std::fs::canonicalize(path).map_err(|e| crate::error::io(path, &e))?;
    let found: Vec<&Manifest> = ingested
        .iter()
        .filter(|m| {
            whole(&m.root).starts_with(&wanted)
                || m.sources.iter().any(|s| whole(Path::new(&s.path)).starts_with(&wanted))
        })
        .collect();
    let place = path.display().to_string();
    match found[..] {
        [one] => Ok(one),
        [] => Err(Error::new("nothing-found", "no trace was found").at(place)),
        _ => Err(Error::new("usage", format!("a run is one trace, and here are {}", found.len()))
            .at(place)
            .facts(found.iter().map(|m| &*m.trace).collect::<Vec<_>>().join(", "))
            .hint("name the folder of each run: compare RUNS/base RUNS/test")),
    }
}

/// The comparison of all tests with the baseline, by the SQL files.
fn compared(
    context: &Context,
    args: &CompareArgs,
    named: &[(String, String)],
    directories: &[PathBuf],
    files: &[&SqlFile],
    results: &[MetricResult],
    rank_by: &str,
) -> Result<Comparison> {
    let views: Vec<&SqlFile> = RUN_SHEETS
        .iter()
        .chain(&["nccl_summary_long"])
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
        compared.push(of_test);
    }
    let ranking = match named.len() {
        0..=2 => None,
        _ => {
            let file = comparison("ranking")?;
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
