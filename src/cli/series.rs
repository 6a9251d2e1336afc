//! Series of runs: by their cards or by their names, in order of recording.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::across::Across;
use crate::cli::answers::selection;
use crate::cli::args::ProfileMode;
use crate::cli::context::Context;
use crate::cli::select::{fits, none_yet};
use crate::engine::Selection;
use crate::error::{Error, Result};
use crate::report::sheet::Sheet;
use crate::report::sheets::view;
use crate::store::manifest::Manifest;

/// Runs of one kind in order of recording.
pub struct Series {
    /// Name of the series, or the pattern of names.
    pub name: String,
    /// Traces; those whose time of recording is not known are the last, by name.
    pub traces: Vec<String>,
}

/// A trace, the series that its card names, and when it was recorded.
struct Member {
    trace: String,
    series: Option<String>,
    recorded_ns: Option<i64>,
}

/// The series that are meant: those that the cards name, else the runs whose names fit; without a
/// word every series of the cards. Of each the last `last` runs.
///
/// # Errors
/// `trace-unknown` where there is none.
pub fn series(context: &Context, wanted: Option<&str>, last: Option<u32>) -> Result<Vec<Series>> {
    let mut members = members(context)?;
    if members.is_empty() {
        return Err(none_yet(context).hint("ingest the runs first: ccl-sql ingest PATH..."));
    }
    members.sort_by(|a, b| {
        let key = |m: &Member| (m.recorded_ns.is_none(), m.recorded_ns);
        key(a).cmp(&key(b)).then_with(|| a.trace.cmp(&b.trace))
    });
    let is_meant = |name: &str| wanted.is_none_or(|word| fits(word.as_bytes(), name.as_bytes()));
    let mut out: Vec<Series> = Vec::new();
    let mut add = |name: &str, trace: &str| match out.iter_mut().find(|s| s.name == name) {
        Some(series) => series.traces.push(trace.to_owned()),
        None => out.push(Series { name: name.to_owned(), traces: vec![trace.to_owned()] }),
    };
    for member in &members {
        if let Some(series) = member.series.as_deref().filter(|name| is_meant(name)) {
            add(series, &member.trace);
        }
    }
    if out.is_empty() {
        let word = wanted.ok_or_else(|| {
            Error::new("trace-unknown", "no card names a series")
                .at(context.store.shown())
                .hint("name the runs by a pattern: --series 'nightly-*'")
        })?;
        let traces: Vec<String> =
            members.into_iter().map(|m| m.trace).filter(|trace| is_meant(trace)).collect();
        if traces.is_empty() {
            return Err(Error::new("trace-unknown", format!("no series or trace fits `{word}`"))
                .at(context.store.shown())
                .hint("`ccl-sql list traces` shows them all"));
        }
        out.push(Series { name: word.to_owned(), traces });
    }
    for series in &mut out {
        let count = last.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        series.traces.drain(..series.traces.len().saturating_sub(count));
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

/// All traces that are whole.
fn members(context: &Context) -> Result<Vec<Member>> {
    let mut selections = Vec::new();
    for (directory, manifest) in context.store.manifests() {
        // One that needs to be derived anew, or cannot be read, is found out when it is asked.
        if manifest.check_version().is_ok() {
            let rows = manifest.row_count();
            selections.push(Selection { directory, source: None, rows });
        }
    }
    let mut all = Across::new(context, selections, Vec::new(), Vec::new());
    let sheet = Sheet::query_traces(&mut all, view(&context.registry, "trace_series")?, &[])?;
    let text = |row: &[Value], column| sheet.cell(row, column).as_str().map(str::to_owned);
    let member = |row: &Vec<Value>| Member {
        trace: text(row, "trace").unwrap_or_default(),
        series: text(row, "series"),
        recorded_ns: sheet.cell(row, "recorded_ns").as_i64(),
    };
    Ok(sheet.rows.iter().map(member).collect())
}

/// The traces in directories, each with the rows of the profiler that is wanted.
///
/// # Errors
/// `trace-unknown` for a damaged one.
pub fn selections(directories: &[PathBuf], mode: ProfileMode) -> Result<Vec<Selection>> {
    let of = |directory: &PathBuf| Ok(selection(directory, &Manifest::read(directory)?, mode));
    directories.iter().map(of).collect()
}
