//! `report`: all about a trace, for people and programs.

use serde_json::Value;

use super::Context;
use super::args::ReportArgs;
use super::batch::{Answers, Batch};
use super::output::{Files, Names, Target, ending, form, safe, target, timestamp};
use super::select::traces;
use crate::engine::run::{MetricResult, Params, check_params};
use crate::engine::{Engine, sheet};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::document::{Document, MOST_ROWS, Metric};
use crate::report::{Format, books, html, pretty, text};

/// What reports for people show.
const TEXT_SHEETS: [&str; 14] = [
    "configuration",
    "time_per_step",
    "trace_findings",
    "gpu_timeline",
    "overlap_summary",
    "overlap_by_rank",
    "network_load",
    "network_by_rank",
    "hockney_fits",
    "traffic",
    "message_sizes",
    "straggler_summary",
    "kernel_class_times",
    "copy_summary",
];

/// What the JSON report and the page show besides.
const PAGE_SHEETS: [&str; 12] = [
    "gpu_timeline_by_rank",
    "step_overlap",
    "step_overlap_mean",
    "step_timeline",
    "step_short_events",
    "collective_sizes",
    "nccl_summary_implicit_sync",
    "nccl_summary_all2allv",
    "kernel_summary",
    "ops_summary",
    "short_kernels_summary",
    "memory_timeline",
];

/// What a workbook holds besides the sheets of the text.
const BOOK_SHEETS: [&str; 19] = [
    "gpu_timeline_by_rank",
    "step_overlap",
    "collective_sizes",
    "nccl_long",
    "nccl_summary_long",
    "nccl_implicit_sync",
    "nccl_summary_implicit_sync",
    "nccl_all2allv",
    "nccl_summary_all2allv",
    "kernel_summary_by_rank",
    "ops_summary_by_category",
    "ops_summary_by_category_by_rank",
    "ops_summary_by_rank",
    "ops_unique_args",
    "ops_unique_args_by_rank",
    "short_kernel_histogram",
    "short_kernel_histogram_by_rank",
    "short_kernels_summary",
    "short_kernels_summary_by_rank",
];

/// Runs the command.
pub fn run(context: &Context, args: &ReportArgs) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    let target = target(context).map_err(one)?;
    let forms = [Format::Text, Format::Markdown, Format::Json, Format::Html, Format::Xlsx];
    let format = form(context, "report", &target, &forms, Format::Text).map_err(one)?;
    let traces = traces(context, &args.wanted(), &args.reading)?;
    let single = matches!(format, Format::Html | Format::Xlsx) || matches!(target, Target::File(_));
    if single && !matches!(target, Target::Folder(_)) && traces.len() > 1 {
        let message = format!("a report is of one trace, and there are {}", traces.len());
        return Err(one(Error::new("usage", message)
            .facts(traces.join(", "))
            .hint("name one with --trace, or write all into a folder: -o DIR/")));
    }
    let shown = shown_metrics(context).map_err(one)?;
    let files: Vec<&SqlFile> = shown.iter().map(|(_, file)| *file).collect();
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params).map_err(one)?;
    let views = views(context, format).map_err(one)?;
    let directories = context.directories(&traces).map_err(one)?;
    let mut batch =
        Batch::new(context, &files, &params, args.profile_mode, &directories).with_views(&views);
    let mut out = Output::new(context, target, format, directories.len()).map_err(one)?;
    let mut errors = Vec::new();
    for directory in &directories {
        let answers = batch.trace(directory).map_err(one)?;
        let (document, _) = document(answers, &shown, &files, &views, &mut errors);
        out.add(&document).map_err(one)?;
    }
    drop(batch);
    out.finish().map_err(one)?;
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The document of a trace, of the first of the metrics that were asked, and what all of them said.
/// What failed is said in it, and is among `errors`.
pub fn document(
    answers: Answers,
    shown: &[(String, &SqlFile)],
    files: &[&SqlFile],
    views: &[&SqlFile],
    errors: &mut Vec<Error>,
) -> (Document, Vec<MetricResult>) {
    let (trace, fingerprint) = (answers.manifest.trace.clone(), answers.manifest.fingerprint());
    let (results, sheets) = answers.known(files, views, errors);
    let metrics = shown
        .iter()
        .zip(&results)
        .map(|((section, file), result)| Metric::new(file, section, result.clone()))
        .collect();
    (Document { label: trace.clone(), trace, fingerprint, sheets, metrics }, results)
}

/// Metrics of a report by section, as the view `report_metrics` lists them.
///
/// # Errors
/// `sql`, `metric-unknown` where the list names a metric that is not there.
pub fn shown_metrics(context: &Context) -> Result<Vec<(String, &SqlFile)>> {
    let registry = &context.registry;
    let engine = Engine::open(&[], registry, &context.settings())?;
    let file = view(context, "report_metrics")?;
    let rows = sheet::rows(&engine, file, &[], MOST_ROWS)?.rows;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| Ok((text(&row[1]), registry.metric(&text(&row[2]))?))).collect()
}

/// A view that a report shows.
///
/// # Errors
/// `sql-file` where it is not there.
pub fn view<'c>(context: &'c Context, name: &str) -> Result<&'c SqlFile> {
    context.registry.view(name).ok_or_else(|| {
        Error::new("sql-file", format!("there is no view `{name}`"))
            .hint("the folder of SQL files in CCL_SQL_TREE lacks it")
    })
}

/// The views of a page.
///
/// # Errors
/// `sql-file`.
pub fn page_views(context: &Context) -> Result<Vec<&SqlFile>> {
    views(context, Format::Html)
}

fn views(context: &Context, format: Format) -> Result<Vec<&SqlFile>> {
    let more: &[&str] = match format {
        Format::Json | Format::Html => &PAGE_SHEETS,
        Format::Xlsx => &BOOK_SHEETS,
        _ => &[],
    };
    TEXT_SHEETS.iter().chain(more).map(|name| view(context, name)).collect()
}

/// Collects what goes out: text one after the other, JSON as one document, or files.
struct Output<'c> {
    context: &'c Context,
    target: Target,
    format: Format,
    bytes: Vec<u8>,
    documents: Vec<Value>,
    files: Files<'c>,
    /// Names in the folder, and the time that they hold.
    names: Option<(Names, String)>,
    /// Traces that there will be.
    traces: usize,
}

impl<'c> Output<'c> {
    fn new(context: &'c Context, target: Target, format: Format, traces: usize) -> Result<Self> {
        let mut files = Files::new(context);
        files.prepare(&target)?;
        let names = match &target {
            Target::Folder(folder) => Some((Names::new(folder), timestamp()?)),
            _ => None,
        };
        let (bytes, documents) = (Vec::new(), Vec::new());
        Ok(Self { context, target, format, bytes, documents, files, names, traces })
    }

    fn add(&mut self, document: &Document) -> Result<()> {
        let Some((names, time)) = &mut self.names else {
            if self.format == Format::Json {
                self.documents.push(document.json());
                return Ok(());
            }
            if !self.bytes.is_empty() {
                self.bytes.extend_from_slice(b"\n\n");
            }
            self.bytes.extend(rendered(document, self.format)?);
            return Ok(());
        };
        if self.format != Format::Xlsx {
            let path = names.path(&stem(document, time), &document.trace, &ending(self.format));
            return self.files.add(&path, &rendered(document, self.format)?);
        }
        // Workbooks lie in the folders that tools before have made, of several traces below one for
        // each.
        let folder = match &self.target {
            Target::Folder(folder) if self.traces == 1 => folder.clone(),
            _ => names.path(&safe(&document.trace), "trace", ""),
        };
        for (name, bytes) in books::report_files(document)? {
            self.files.add(&folder.join(name), &bytes)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        match self.documents.len() {
            0 => {}
            1 => self.bytes = pretty(&self.documents[0]),
            _ => self.bytes = pretty(&Value::Array(self.documents)),
        }
        match &self.target {
            Target::Stdout => return self.context.printer.stdout(&self.bytes).map(|_| ()),
            Target::File(path) => self.files.add(path, &self.bytes)?,
            Target::Folder(_) => {}
        }
        self.files.commit()
    }
}

/// A document in a form.
fn rendered(document: &Document, format: Format) -> Result<Vec<u8>> {
    Ok(match format {
        Format::Markdown => text::markdown(document).into_bytes(),
        Format::Json => pretty(&document.json()),
        Format::Html => html::report_page(&document.page()).into_bytes(),
        Format::Xlsx => books::report(document)?,
        _ => text::text(document).into_bytes(),
    })
}

/// `<time>_<model>_dpXxY_tpZ_gpuN`; what nobody stated is left out.
fn stem(document: &Document, time: &str) -> String {
    let fact = |column| match document.fact("configuration", column) {
        Value::Null => None,
        Value::String(text) => Some(safe(text)),
        other => Some(other.to_string()),
    };
    let mut out = format!("{time}_{}", fact("model").unwrap_or_else(|| safe(&document.label)));
    match (fact("dp_replicate"), fact("dp_shard")) {
        (Some(replicate), Some(shard)) => out.push_str(&format!("_dp{replicate}x{shard}")),
        (Some(one), None) | (None, Some(one)) => out.push_str(&format!("_dp{one}")),
        (None, None) => {}
    }
    for (column, short) in [("tp", "tp"), ("devices", "gpu")] {
        if let Some(number) = fact(column) {
            out.push_str(&format!("_{short}{number}"));
        }
    }
    out
}
