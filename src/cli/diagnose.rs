//! `diagnose`: what is wrong with a trace, and what to fix first.

use serde_json::{Value, json};

use crate::cli::answers::Asked;
use crate::cli::args::DiagnoseArgs;
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Target, form, target};
use crate::cli::select::traces;
use crate::cli::shape;
use crate::cli::spread::spread;
use crate::engine::metric::{Params, check_params};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::diagnosis::Diagnosis;
use crate::report::document::provenance;
use crate::report::sheets::diagnosis_views;
use crate::report::{Format, text};
use crate::store::manifest::Manifest;

/// The fields of a diagnosis that say most.
const BRIEF: [&str; 11] = [
    "trace",
    "per",
    "step_ms",
    "findings.diagnosis",
    "findings.finding",
    "findings.gain_ms",
    "findings.gain_pct",
    "findings.confidence",
    "findings.advice",
    "findings.shown",
    "not_looked_for",
];

/// Runs the command.
pub fn run(context: &Context, args: &DiagnoseArgs) -> Result<(), Errors> {
    let target = target(context)?;
    let forms = [Format::Text, Format::Markdown, Format::Json];
    let format = form(context, "diagnose", &target, &forms, Format::Text)?;
    if let Target::Folder(folder) = &target {
        return Err(Error::new("usage", "diagnose writes one file")
            .at(folder.display().to_string())
            .hint("name the file: -o FILE.md")
            .into());
    }
    let (all, errors) = diagnosed(context, args)?;
    let bytes = match (format, &all[..]) {
        (Format::Json, [(trace, diagnosis)]) => {
            shape::json(context, &BRIEF, json(trace, diagnosis))?
        }
        (Format::Json, all) => {
            let all = all.iter().map(|(trace, d)| json(trace, d)).collect();
            shape::json(context, &BRIEF, all)?
        }
        (format, all) => {
            let write =
                if format == Format::Markdown { text::diagnosis_md } else { text::diagnosis };
            let texts: String = all.iter().map(|(t, d)| write(&t.trace, d, args.what_if)).collect();
            texts.trim_start().as_bytes().to_vec()
        }
    };
    context.printer.result(&bytes)?;
    Errors(errors).result()
}

/// A trace, and what is wrong with it.
pub type Diagnosed = (Manifest, Diagnosis);

/// What the diagnoses say of each trace; the errors of those that failed, which say so too.
///
/// # Errors
/// `trace-unknown`, `param-invalid`, and those of an ingest.
pub fn diagnosed(
    context: &Context,
    args: &DiagnoseArgs,
) -> Result<(Vec<Diagnosed>, Vec<Error>), Errors> {
    let report = &args.report;
    let traces = traces(context, &report.wanted(), &report.reading)?;
    let diagnoses: Vec<&SqlFile> = context.registry.diagnoses().collect();
    let params: Params = report.param.iter().cloned().collect();
    check_params(&diagnoses, &params)?;
    let views = diagnosis_views(&context.registry)?;
    let directories = context.directories_to_ask(&traces)?;
    let mut batch = Batch::new(context, &[], &params, report.profile_mode, &directories)
        .with_views(&views)
        .with_diagnoses(&diagnoses);
    spread(context, report.engine.as_ref(), &batch)?;
    let asked = Asked { views: &views, diagnoses: &diagnoses, ..Asked::default() };
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for directory in &directories {
        let answers = batch.trace(directory)?;
        let manifest = answers.manifest.clone();
        let mut known = answers.known(asked, &mut errors);
        let diagnosis = Diagnosis::new(&mut known.sheets, known.diagnosed);
        all.push((manifest, Diagnosis { least_pct: args.least, ..diagnosis }));
    }
    Ok((all, errors))
}

/// The diagnosis of a trace for programs.
fn json(manifest: &Manifest, diagnosis: &Diagnosis) -> Value {
    let provenance = provenance(Some(&manifest.fingerprint()));
    let mut out = json!({"diagnose": 1, "trace": manifest.trace, "provenance": provenance});
    if let (Value::Object(out), Value::Object(more)) = (&mut out, diagnosis.json()) {
        out.extend(more);
    }
    out
}
