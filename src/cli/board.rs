//! `board`: a static leaderboard over traces, with a report of each.

use std::collections::BTreeSet;

use duckdb::types::Value as SqlValue;
use serde_json::{Map, Value, json};

use super::Context;
use super::args::ReportArgs;
use super::batch::Batch;
use super::output::{Files, Names, Target, safe};
use super::report::{MOST_ROWS, page_views, shown_metrics, view};
use super::select::traces;
use crate::engine::run::{MetricResult, Params, check_params};
use crate::engine::sheet::rows;
use crate::engine::{Engine, ResultRow};
use crate::error::{Error, Result};
use crate::ingest::manifest::Manifest;
use crate::registry::{SqlFile, docs};
use crate::report::document::{Document, Metric, Sheet, provenance};
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
    let files = files(context, &shown).map_err(one)?;
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
    for directory in &directories {
        let (answers, rows) = batch.trace_with_views(directory, MOST_ROWS).map_err(one)?;
        let manifest = Manifest::read(directory).map_err(one)?;
        let answers: Vec<MetricResult> = answers.into_iter().collect::<Result<_>>().map_err(one)?;
        let metrics = shown
            .iter()
            .zip(&answers)
            .map(|((section, file), result)| Metric::new(file, section, result.clone()))
            .collect();
        let sheets =
            views.iter().zip(rows).map(|(v, rows)| Sheet::new(v, rows, MOST_ROWS)).collect();
        let document = Document {
            trace: manifest.trace.clone(),
            label: manifest.trace.clone(),
            fingerprint: manifest.fingerprint(),
            sheets,
            metrics,
        };
        let path = names.path(&safe(&manifest.trace), &document.fingerprint[..8], ".html");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        listed.push(json!({
            "trace": manifest.trace, "report": format!("reports/{name}"),
            "trace_fingerprint": document.fingerprint,
        }));
        add(&mut configurations, &document);
        let page = html::report_page(&document.json()).into_bytes();
        written.add(&path, &page).map_err(one)?;
        results.extend(answers);
    }
    drop(batch);
    let graded = graded(context, &files, &results).map_err(one)?;
    let document = json!({
        "board": 1, "provenance": provenance(None), "traces": listed,
        "configurations": configurations.as_ref().map(Sheet::json),
        "metrics": described(&files, &graded), "results": graded.json(),
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
        ("board.json", pretty(&document)),
        ("metrics.html", definitions_page(&definitions).into_bytes()),
        ("index.html", board_page(&document).into_bytes()),
    ];
    for (name, bytes) in pages {
        written.add(&folder.join(name), &bytes).map_err(one)?;
    }
    written.commit().map_err(one)
}

/// The metrics of a report, then those besides that have thresholds.
fn files<'c>(context: &'c Context, shown: &[(String, &'c SqlFile)]) -> Result<Vec<&'c SqlFile>> {
    let mut files: Vec<&SqlFile> = shown.iter().map(|(_, file)| *file).collect();
    let engine = Engine::open(&[], &context.registry, &context.settings())?;
    let thresholds = rows(&engine, view(context, "metric_thresholds")?, &[], MOST_ROWS)?.rows;
    for name in thresholds.iter().filter_map(|row| row.first()?.as_str()) {
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
        crate::report::document::SheetColumn {
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

/// Values with their grades, by the comparison `board`.
fn graded(context: &Context, files: &[&SqlFile], results: &[MetricResult]) -> Result<Sheet> {
    let file = context
        .registry
        .comparison("board")
        .ok_or_else(|| Error::new("sql-file", "there is no comparison `board`"))?;
    let engine = Engine::open(&[], &context.registry, &context.settings())?;
    engine.lock_down()?;
    let values: Vec<ResultRow<'_>> = results
        .iter()
        .filter_map(|r| {
            let place = files.iter().position(|f| f.header.name == r.metric)?;
            let better = files[place].header.value_column().and_then(|c| c.better.as_deref());
            let place = i64::try_from(place).ok()?;
            Some((
                &*r.trace,
                place,
                &*r.metric,
                r.version,
                r.unit.as_deref(),
                better,
                r.value.as_f64(),
            ))
        })
        .collect();
    engine.fill_results(&values)?;
    let params: [(&str, SqlValue); 0] = [];
    let rows = rows(&engine, file, &params, usize::MAX - 1)?;
    // The trace is no matter of course here: all columns are kept.
    Ok(Sheet::with_trace(file, rows))
}

/// What a reader of the board needs to know of each metric.
fn described(files: &[&SqlFile], graded: &Sheet) -> Vec<Value> {
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
            let row = graded.rows.iter().find(|row| *graded.cell(row, "metric") == *h.name);
            for key in ["good", "poor"] {
                let value = row.map_or(Value::Null, |row| graded.cell(row, key).clone());
                out.insert(key.to_owned(), value);
            }
            Value::Object(out)
        })
        .collect()
}
