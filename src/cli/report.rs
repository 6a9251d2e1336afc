//! `report`: all about a trace, for people and programs.

use serde_json::Value;

use crate::cli::across::Across;
use crate::cli::answers::Asked;
use crate::cli::args::ReportArgs;
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Files, Names, Target, ending, form, safe, target, timestamp};
use crate::cli::select::traces;
use crate::cli::shape;
use crate::cli::spread::spread;
use crate::engine::metric::{Params, check_params};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::document::Document;
use crate::report::sheets::{shown_metrics, views};
use crate::report::xlsx::books;
use crate::report::{Format, html, text};

/// The fields of a report that say most.
const BRIEF: [&str; 17] = [
    "trace",
    "headline.title",
    "headline.value",
    "headline.unit",
    "headline.note",
    "diagnosis.per",
    "diagnosis.step_ms",
    "diagnosis.findings.diagnosis",
    "diagnosis.findings.finding",
    "diagnosis.findings.gain_ms",
    "diagnosis.findings.gain_pct",
    "diagnosis.findings.advice",
    "metrics.metric",
    "metrics.value",
    "metrics.unit",
    "metrics.answer",
    "metrics.reason",
];

/// Runs the command.
pub fn run(context: &Context, args: &ReportArgs) -> Result<(), Errors> {
    let target = target(context)?;
    let forms = [Format::Text, Format::Markdown, Format::Json, Format::Html, Format::Xlsx];
    let format = form(context, "report", &target, &forms, Format::Text)?;
    let traces = traces(context, &args.wanted(), &args.reading)?;
    let single = matches!(format, Format::Html | Format::Xlsx) || matches!(target, Target::File(_));
    if single && !matches!(target, Target::Folder(_)) && traces.len() > 1 {
        let message = format!("a report is of one trace, and there are {}", traces.len());
        return Err(Error::new("usage", message)
            .facts(traces.join(", "))
            .hint("name one with --trace, or write all into a folder: -o DIR/")
            .into());
    }
    let shown = shown_metrics(&context.registry, &mut Across::none(context))?;
    let files: Vec<&SqlFile> = shown.iter().map(|(_, file)| *file).collect();
    let diagnoses: Vec<&SqlFile> = context.registry.diagnoses().collect();
    let params: Params = args.param.iter().cloned().collect();
    check_params(&[&files[..], &diagnoses[..]].concat(), &params)?;
    let views = views(&context.registry, format)?;
    let directories = context.directories_to_ask(&traces)?;
    let asked = Asked { files: &files, views: &views, diagnoses: &diagnoses };
    let mut batch = Batch::new(context, &files, &params, args.profile_mode, &directories)
        .with_views(&views)
        .with_diagnoses(&diagnoses);
    spread(context, args.engine.as_ref(), &batch)?;
    let mut out = Output::new(context, target, format, directories.len())?;
    let mut errors = Vec::new();
    for directory in &directories {
        let (document, _) = batch.trace(directory)?.document(&shown, asked, &mut errors);
        out.add(&document)?;
    }
    drop(batch);
    out.finish()?;
    Errors(errors).result()
}

/// Collects the output: text one after the other, JSON as one document, or files.
struct Output<'c> {
    context: &'c Context,
    target: Target,
    format: Format,
    bytes: Vec<u8>,
    documents: Vec<Value>,
    files: Files<'c>,
    /// Names in the folder, and the time of day in them.
    names: Option<(Names, String)>,
    /// Number of all traces.
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
            let bytes = match self.format {
                Format::Json => json(self.context, document.json())?,
                format => rendered(document, format)?,
            };
            return self.files.add(&path, &bytes);
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
            1 => self.bytes = json(self.context, self.documents.remove(0))?,
            _ => self.bytes = json(self.context, Value::Array(self.documents))?,
        }
        match &self.target {
            Target::Stdout => return self.context.printer.stdout(&self.bytes).map(|_| ()),
            Target::File(path) => self.files.add(path, &self.bytes)?,
            Target::Folder(_) => {}
        }
        self.files.commit()
    }
}

/// One document or several as JSON.
fn json(context: &Context, documents: Value) -> Result<Vec<u8>> {
    shape::json(context, &BRIEF, documents)
}

/// A document in a form other than JSON.
fn rendered(document: &Document, format: Format) -> Result<Vec<u8>> {
    Ok(match format {
        Format::Markdown => text::markdown(document).into_bytes(),
        Format::Html => html::report_page(&document.page()).into_bytes(),
        Format::Xlsx => books::report(document)?,
        _ => text::text(document).into_bytes(),
    })
}

/// `<time>_<model>_dpXxY_tpZ_gpuN`; parts that nobody stated are left out.
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
