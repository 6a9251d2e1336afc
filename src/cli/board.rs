//! `board`: a static leaderboard over traces, with a report of each.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Context;
use super::args::ReportArgs;
use super::batch::{Batch, result_rows};
use super::output::{Files, Names, Target, safe};
use super::report::{document, page_views, shown_metrics, view};
use super::select::traces;
use crate::engine::Engine;
use crate::engine::run::{MetricResult, Params, check_params};
use crate::engine::sheet::rows;
use crate::error::{Error, Result};
use crate::registry::{SqlFile, docs};
use crate::report::document::{Document, MOST_ROWS, Sheet, SheetColumn, provenance};
use crate::report::files::vacant;
use crate::report::html::board::{Definition, board_page, definitions_page};
use crate::report::{html, pretty};

/// Runs the command.
pub fn run(context: &Context, args: &ReportArgs) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    let Some(output) = &context.global.output else {
        return Err(one(Error::new("usage", "a leaderboard is a folder, and none is named")
            .hint("ccl-sql board -o DIR")));
    };
    if output.is_file() || output.as_os_str() == "-" {
        return Err(one(Error::new("usage", "a leaderboard is a folder, and -o names a file")
            .at(output.display().to_string())
            .hint("ccl-sql board -o DIR")));
    }
    let folder = output.as_path();
    let index = folder.join("index.html");
    vacant(&index, context.global.force).map_err(one)?;
    let shown = shown_metrics(context).map_err(one)?;
    let thresholds = thresholds(context).map_err(one)?;
    let files = files(context, &shown, &thresholds).map_err(one)?;
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params).map_err(one)?;
    let views = page_views(context).map_err(one)?;
    let traces = traces(context, &args.wanted(), &args.reading)?;
    let directories = context.directories(&traces).map_err(one)?;
    let mut batch =
        Batch::new(context, &files, &params, args.profile_mode, &directories).with_views(&views);
    let mut written = Files::new(context);
    written.prepare(&Target::Folder(folder.to_owned())).map_err(one)?;
    let mut names = Names::new(&folder.join("reports"));
    let mut listed = Vec::new();
    let mut results: Vec<MetricResult> = Vec::new();
    let mut configurations: Option<Sheet> = None;
    let mut errors = Vec::new();
    for directory in &directories {
        let answers = batch.trace(directory).map_err(one)?;
        let (document, answers) = document(answers, &shown, &files, &views, &mut errors);
        let path = names.path(&safe(&document.trace), &document.fingerprint[..8], ".html");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        listed.push(json!({
            "trace": document.trace, "report": format!("reports/{name}"),
            "trace_fingerprint": document.fingerprint,
        }));
        add(&mut configurations, &document);
        let page = html::report_page(&document.page()).into_bytes();
        written.add(&path, &page).map_err(one)?;
        results.extend(answers);
    }
    drop(batch);
    let graded = graded(context, &directories, &files, &results).map_err(one)?;
    let board = json!({
        "board": 1, "provenance": provenance(None), "traces": listed,
        "configurations": configurations.as_ref().map(Sheet::json),
        "metrics": described(&files, &thresholds), "results": graded.json(),
    });
    let definitions: Vec<Definition> = files
        .iter()
        .map(|file| Definition {
            name: file.header.name.clone(),
            version: file.header.version,
            text: docs::file(file, &context.registry.versions(&file.header.name)),
            sql: file.text.clone(),
        })
        .collect();
    let pages = [
        ("board.json", pretty(&board)),
        ("metrics.html", definitions_page(&definitions).into_bytes()),
        ("index.html", board_page(&board).into_bytes()),
    ];
    for (name, bytes) in pages {
        written.add(&folder.join(name), &bytes).map_err(one)?;
    }
    written.commit().map_err(one)?;
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What grades rest on.
fn thresholds(context: &Context) -> Result<Sheet> {
    let engine = Engine::open(&[], &context.registry, &context.settings())?;
    let file = view(context, "metric_thresholds")?;
    Ok(Sheet::new(file, rows(&engine, file, &[], MOST_ROWS)?))
}

/// The metrics of a report, then those besides that have thresholds.
fn files<'c>(
    context: &'c Context,
    shown: &[(String, &'c SqlFile)],
    thresholds: &Sheet,
) -> Result<Vec<&'c SqlFile>> {
    let mut files: Vec<&SqlFile> = shown.iter().map(|(_, file)| *file).collect();
    for row in &thresholds.rows {
        let name = thresholds.cell(row, "metric").as_str().unwrap_or_default();
        files.push(context.registry.metric(name)?);
    }
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.header.name.clone()));
    Ok(files)
}

/// Adds the row of a trace to those of the others, with its name.
fn add(all: &mut Option<Sheet>, document: &Document) {
    let Some(sheet) = document.sheet("configuration") else { return };
    let mut own = sheet.clone();
    own.columns.insert(
        0,
        SheetColumn {
            name: "trace".to_owned(),
            doc: "The ingested trace.".to_owned(),
            ..Default::default()
        },
    );
    for row in &mut own.rows {
        row.insert(0, document.trace.clone().into());
    }
    match all {
        Some(all) => all.rows.extend(own.rows),
        None => *all = Some(own),
    }
}

/// Values with their grades, by the comparison `board`, which reads what the traces and their cards
/// say of model and hardware.
fn graded(
    context: &Context,
    directories: &[PathBuf],
    files: &[&SqlFile],
    results: &[MetricResult],
) -> Result<Sheet> {
    let file = context
        .registry
        .comparison("board")
        .ok_or_else(|| Error::new("sql-file", "there is no comparison `board`"))?;
    let engine = Engine::open(directories, &context.registry, &context.settings())?;
    engine.lock_down()?;
    engine.fill_results(&result_rows(files, results))?;
    // The trace is no matter of course here: all columns are kept.
    Ok(Sheet::with_trace(file, rows(&engine, file, &[], MOST_ROWS)?))
}

/// What a reader of the board needs to know of each metric.
fn described(files: &[&SqlFile], thresholds: &Sheet) -> Vec<Value> {
    files
        .iter()
        .map(|file| {
            let h = &file.header;
            let mut out = Map::new();
            let better = h.value_column().and_then(|c| c.better.clone());
            for (key, value) in [
                ("metric", Value::from(h.name.clone())),
                ("version", h.version.into()),
                ("area", h.area.clone().into()),
                ("unit", h.unit().into()),
                ("better", better.into()),
                ("summary", h.summary.clone().into()),
                ("sql_sha256", file.sha256().into()),
            ] {
                out.insert(key.to_owned(), value);
            }
            let row = thresholds.rows.iter().find(|row| *thresholds.cell(row, "metric") == *h.name);
            for key in ["basis", "good", "poor"] {
                let value = row.map_or(Value::Null, |row| thresholds.cell(row, key).clone());
                out.insert(key.to_owned(), value);
            }
            Value::Object(out)
        })
        .collect()
}
