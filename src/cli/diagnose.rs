//! `diagnose`: what is wrong with a trace, and what to fix first.

use serde_json::{Value, json};

use crate::cli::answers::{Asked, Batch};
use crate::cli::args::DiagnoseArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Target, form, target};
use crate::cli::select::traces;
use crate::engine::metric::{Params, check_params};
use crate::error::Error;
use crate::registry::SqlFile;
use crate::report::diagnosis::Diagnosis;
use crate::report::document::provenance;
use crate::report::sheets::diagnosis_views;
use crate::report::{Format, pretty, text};

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
    let report = &args.report;
    let traces = traces(context, &report.wanted(), &report.reading)?;
    let diagnoses: Vec<&SqlFile> = context.registry.diagnoses().collect();
    let params: Params = report.param.iter().cloned().collect();
    check_params(&diagnoses, &params)?;
    let views = diagnosis_views(&context.registry)?;
    let directories = context.directories(&traces)?;
    let mut batch = Batch::new(context, &[], &params, report.profile_mode, &directories)
        .with_views(&views)
        .with_diagnoses(&diagnoses);
    let asked = Asked { views: &views, diagnoses: &diagnoses, ..Asked::default() };
    let (mut out, mut documents, mut errors) = (String::new(), Vec::new(), Vec::new());
    for directory in &directories {
        let answers = batch.trace(directory)?;
        let (trace, fingerprint) = (answers.manifest.trace.clone(), answers.manifest.fingerprint());
        let mut known = answers.known(asked, &mut errors);
        let diagnosis = Diagnosis {
            least_pct: args.least,
            ..Diagnosis::new(&mut known.sheets, known.diagnosed)
        };
        match format {
            Format::Json => documents.push(json(&trace, &fingerprint, &diagnosis)),
            Format::Markdown => out.push_str(&text::diagnosis_md(&trace, &diagnosis, args.what_if)),
            _ => out.push_str(&text::diagnosis(&trace, &diagnosis, args.what_if)),
        }
    }
    drop(batch);
    let bytes = match (format, documents.len()) {
        (Format::Json, 1) => pretty(&documents[0]),
        (Format::Json, _) => pretty(&Value::Array(documents)),
        _ => out.trim_start().as_bytes().to_vec(),
    };
    context.printer.result(&bytes)?;
    Errors(errors).result()
}

/// The diagnosis of a trace for programs.
fn json(trace: &str, fingerprint: &str, diagnosis: &Diagnosis) -> Value {
    let mut out =
        json!({"diagnose": 1, "trace": trace, "provenance": provenance(Some(fingerprint))});
    if let (Value::Object(out), Value::Object(more)) = (&mut out, diagnosis.json()) {
        out.extend(more);
    }
    out
}
