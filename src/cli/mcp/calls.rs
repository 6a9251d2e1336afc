//! The tools: what each takes, and what it answers. Each is a command of the program, asked with
//! less: by names of traces in place of paths, and behind the sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::args::{
    CompareArgs, DiagnoseArgs, MetricArgs, ProfileMode, ReadingArgs, ReportArgs, What,
};
use crate::cli::compare::{Compared, Wanted, asked, compared};
use crate::cli::context::Context;
use crate::cli::diagnose::diagnosed;
use crate::cli::errors::Errors;
use crate::cli::list::{described, grid};
use crate::cli::mcp::answer::Answer;
use crate::cli::mcp::stop::Stop;
use crate::cli::reading::{ingest_paths, options};
use crate::cli::results::compute;
use crate::cli::select::{by_name, named};
use crate::cli::trace;
use crate::engine::metric::MetricResult;
use crate::error::{Error, Result};
use crate::ingest::options::{Options, Summary, Within};
use crate::registry::SqlFile;
use crate::report::comparison::DASHBOARD;
use crate::report::diagnosis::LEAST_PCT;
use crate::report::sheet::Sheet;
use crate::schema::source::joined;

/// A call under way.
pub struct Call<'c> {
    /// What every command has.
    pub context: &'c Context,
    /// Folders below which it may ingest.
    pub roots: &'c [PathBuf],
    /// What it is stopped by.
    pub stop: &'c Stop,
}

/// What several errors are to a client: the first, as a call has one answer.
pub fn first(errors: Errors) -> Error {
    let none = || Error::new("nothing-found", "the call gave nothing");
    errors.0.into_iter().next().unwrap_or_else(none)
}

/// An object without its nulls and empty lists: they say nothing, and cost the reader.
fn lean(value: Value) -> Value {
    let says = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, v)| says(v)).collect()),
        other => other,
    }
}

/// The rows of a sheet as objects without nulls.
fn objects(sheet: &Sheet) -> Vec<Value> {
    let row = |row: &Vec<Value>| {
        let names = sheet.columns.iter().map(|c| c.name.clone());
        lean(Value::Object(names.zip(row.iter().cloned()).collect()))
    };
    sheet.rows.iter().map(row).collect()
}

/// Columns of a sheet that have a unit.
fn units(sheet: &Sheet) -> Value {
    let unit =
        |c: &crate::report::sheet::SheetColumn| Some((c.name.clone(), c.unit.clone()?.into()));
    Value::Object(sheet.columns.iter().filter_map(unit).collect())
}

/// Arguments of `list_traces` and `list_tables`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Word {
    /// Only what has this word in its name or description
    #[serde(default)]
    word: Option<String>,
}

/// Whether one of the texts of a row holds a word.
fn holds(row: &Value, word: Option<&str>) -> bool {
    let Some(word) = word.map(str::to_lowercase) else { return true };
    let texts = row.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_str);
    texts.into_iter().any(|text| text.to_lowercase().contains(&word))
}

fn listed(call: &Call<'_>, what: What, word: Option<&str>) -> Vec<Value> {
    let rows = match grid(call.context, what).objects() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    rows.into_iter().filter(|row| holds(row, word)).collect()
}

/// The traces that were ingested.
pub fn list_traces(call: &Call<'_>, args: Word) -> Result<Answer> {
    let rows = listed(call, What::Traces, args.word.as_deref());
    let answer = Answer::list("traces", rows.into_iter().map(lean).collect());
    Ok(match call.roots {
        [] => answer.with("ingest", "not allowed: the server was started without --root"),
        roots => {
            let roots: Vec<Value> = roots.iter().map(|r| r.display().to_string().into()).collect();
            answer.with("ingest_roots", roots)
        }
    })
}

/// Tables and views.
pub fn list_tables(call: &Call<'_>, args: Word) -> Result<Answer> {
    Ok(Answer::list("tables", listed(call, What::Tables, args.word.as_deref())))
}

/// Arguments of `list_metrics`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct ListMetrics {
    /// Only what has this word in its name, its other names or its summary
    #[serde(default)]
    word: Option<String>,
    /// Only metrics of this area
    #[serde(default)]
    area: Option<String>,
}

/// The metrics that there are.
pub fn list_metrics(call: &Call<'_>, args: ListMetrics) -> Result<Answer> {
    let metrics = || call.context.registry.metrics();
    let mut areas: BTreeMap<&str, u64> = BTreeMap::new();
    metrics().for_each(|f| *areas.entry(&f.header.area).or_default() += 1);
    if let Some(area) = args.area.as_deref().filter(|area| !areas.contains_key(area)) {
        let known: Vec<&str> = areas.keys().copied().collect();
        return Err(Error::new("usage", format!("no metric is of the area `{area}`"))
            .hint(format!("the areas: {}", known.join(", "))));
    }
    let row = |f: &SqlFile| {
        let h = &f.header;
        let others = json!({"names": h.aliases.join(" ")});
        let row = json!({
            "metric": h.name, "area": h.area, "unit": h.unit(),
            "better": h.value_column().and_then(|c| c.better.as_deref()), "summary": h.summary,
        });
        let word = args.word.as_deref();
        (holds(&row, word) || word.is_some() && holds(&others, word)).then(|| lean(row))
    };
    let of_area = |f: &&SqlFile| args.area.as_ref().is_none_or(|area| f.header.area == *area);
    let answer = Answer::list("metrics", metrics().filter(of_area).filter_map(row).collect());
    Ok(match (&args.word, &args.area) {
        (None, None) => answer.with("areas", json!(areas)),
        _ => answer,
    })
}

/// Arguments of `describe`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Describe {
    /// Name of a metric (NAME or NAME@VERSION), diagnosis, table, view, function or trace
    name: String,
    /// Also the SQL of a metric, diagnosis or view
    #[serde(default)]
    sql: bool,
}

/// What a name stands for, with its columns.
pub fn describe(call: &Call<'_>, args: Describe) -> Result<Answer> {
    let value = match described(call.context, &args.name) {
        Ok(value) => value,
        Err(error) => match named(call.context, &args.name) {
            Some(trace) => trace::described(call.context, &trace)?,
            None => return Err(error),
        },
    };
    let Value::Object(mut map) = lean(value) else { return Ok(Answer::default()) };
    if !args.sql {
        map.shift_remove("sql");
    }
    let columns = match map.shift_remove("columns") {
        Some(Value::Array(columns)) => columns,
        _ => return Ok(Answer::one(Value::Object(map))),
    };
    let head = map.into_iter();
    let answer = Answer::list("columns", columns.into_iter().map(lean).collect());
    Ok(head.fold(answer, |answer, (key, value)| answer.with(&key, value)))
}

/// Arguments of `run_metrics`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct RunMetrics {
    /// Names, each NAME or NAME@VERSION; none means all
    #[serde(default)]
    metrics: Vec<String>,
    /// Names of traces; none means all
    #[serde(default)]
    traces: Vec<String>,
    /// Parameters by name, as in {"min_calls": 5}; `describe` says which a metric has
    #[serde(default)]
    params: BTreeMap<String, Value>,
    /// The details beside each value; left out, they come where one metric is asked for
    #[serde(default)]
    details: Option<bool>,
}

/// Parameters as a command line has them.
fn params(params: BTreeMap<String, Value>) -> Vec<(String, String)> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    params.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Values of metrics, with units, and reasons where there is none.
pub fn run_metrics(call: &Call<'_>, args: RunMetrics) -> Result<Answer> {
    let with_details = args.details.unwrap_or(args.metrics.len() == 1);
    let args = MetricArgs {
        all: args.metrics.is_empty(),
        trace: by_name(call.context, &args.traces)?,
        param: params(args.params),
        names: args.metrics,
        label: false,
        exact: false,
        n_chips: None,
        model_params: None,
        profile_mode: ProfileMode::Auto,
        engine: None,
        reading: ReadingArgs::default(),
    };
    let mut results = compute(call.context, &args).map_err(first)?;
    // Its row has the reason.
    results.errors.retain(|error| error.code != "metric-not-applicable");
    if results.results.is_empty()
        && let Some(error) = results.errors.first()
    {
        return Err(error.clone());
    }
    let row = |r: &MetricResult| {
        let details = with_details.then(|| Value::Object(r.details.clone()));
        // A null is what the metric says, with the reason beside it.
        let mut row = json!({
            "trace": r.trace, "metric": r.metric, "version": r.version, "value": r.value,
        });
        let beside = lean(json!({
            "unit": r.unit, "answer": r.answer, "reason": r.reason, "warnings": r.warnings,
            "params": lean(Value::Object(r.params.clone())), "details": details.map(lean),
        }));
        if let (Value::Object(row), Value::Object(beside)) = (&mut row, beside) {
            row.extend(beside);
        }
        row
    };
    let answer = Answer::list("results", results.results.iter().map(row).collect());
    Ok(with_errors(answer, &results.errors))
}

/// What failed beside what did not.
fn with_errors(answer: Answer, errors: &[Error]) -> Answer {
    match errors {
        [] => answer,
        errors => answer.with("errors", errors.iter().map(|e| lean(e.json())).collect::<Value>()),
    }
}

/// Arguments of `diagnose`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Diagnose {
    /// Names of traces; none means all
    #[serde(default)]
    traces: Vec<String>,
    /// Only findings that gain at least so many percent of a step [default: 1]
    #[serde(default)]
    least_pct: Option<f64>,
}

/// What is wrong with traces, the largest gain first.
pub fn diagnose(call: &Call<'_>, args: Diagnose) -> Result<Answer> {
    let least = args.least_pct.unwrap_or(LEAST_PCT);
    if !(least.is_finite() && least >= 0.0) {
        return Err(Error::new("usage", "least_pct is 0 or more"));
    }
    let args = DiagnoseArgs {
        report: ReportArgs {
            traces: by_name(call.context, &args.traces)?,
            trace: Vec::new(),
            param: Vec::new(),
            profile_mode: ProfileMode::Auto,
            engine: None,
            reading: ReadingArgs::default(),
        },
        what_if: false,
        least,
    };
    let (all, errors) = diagnosed(call.context, &args).map_err(first)?;
    let (mut heads, mut findings) = (Vec::new(), Vec::new());
    for (manifest, diagnosis) in &all {
        let said = diagnosis.json();
        let mut account = objects(&diagnosis.account);
        for part in account.iter_mut().filter_map(Value::as_object_mut) {
            // Of all parts the same, which stands above them.
            part.retain(|name, _| name != "per" && name != "step_ms");
        }
        heads.push(lean(json!({
            "trace": manifest.trace, "times_are_per": said["per"], "step_ms": said["step_ms"],
            "smaller_findings": diagnosis.smaller().len(), "not_found": diagnosis.absent().len(),
            "not_looked_for": said["not_looked_for"],
            "where_it_goes": account,
        })));
        for finding in said["findings"].as_array().into_iter().flatten() {
            let Value::Object(finding) = lean(finding.clone()) else { continue };
            let mut row = Map::from_iter([("trace".to_owned(), manifest.trace.clone().into())]);
            row.extend(finding);
            findings.push(Value::Object(row));
        }
    }
    let answer = Answer::list("findings", findings).with("traces", heads);
    Ok(with_errors(answer, &errors))
}

/// Arguments of `compare`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Compare {
    /// Name of the trace that is the baseline
    base: String,
    /// Names of the traces that are compared with it
    tests: Vec<String>,
    /// Changes up to so many percent are Similar [default: 1]
    #[serde(default)]
    threshold_pct: Option<f64>,
    /// Also what is Similar
    #[serde(default)]
    all: bool,
}

/// Runs beside a baseline: what changed, the largest effect on a step first.
pub fn compare(call: &Call<'_>, args: Compare) -> Result<Answer> {
    let threshold = args.threshold_pct.unwrap_or(1.0);
    if !(threshold.is_finite() && threshold >= 0.0) {
        return Err(Error::new("usage", "threshold_pct is 0 or more"));
    }
    let with_similar = args.all;
    let args = CompareArgs {
        base: by_name(call.context, &[args.base])?.join(","),
        tests: by_name(call.context, &args.tests)?,
        baseline: None,
        last: None,
        threshold,
        fail_on: Vec::new(),
        rank_by: None,
        param: Vec::new(),
        profile_mode: ProfileMode::Auto,
        reading: ReadingArgs::default(),
    };
    if args.tests.is_empty() {
        return Err(Error::new("usage", "there is no run to compare with the baseline"));
    }
    let (files, params) = asked(call.context, &args, None, &[])?;
    let wanted = Wanted { files: &files, params: &params, rank_by: None, calls: &[] };
    let Compared { comparison, errors, .. } =
        compared(call.context, &args, &wanted).map_err(first)?;
    let mut rows = Vec::new();
    let (mut summaries, mut of_columns) = (Vec::new(), Value::Null);
    for (test, run) in comparison.runs[1..].iter().enumerate() {
        let Some(sheet) = comparison.sheet(test, DASHBOARD) else { continue };
        of_columns = units(sheet);
        let mut of_test = objects(sheet);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for row in &of_test {
            *counts.entry(row["status"].as_str().unwrap_or("no status").to_owned()).or_default() +=
                1;
        }
        of_test.retain(|row| with_similar || row["status"] != "Similar");
        let weight = |row: &Value| {
            let of = |name: &str| row[name].as_f64().map_or(-1.0, f64::abs);
            (of("effect_pct"), of("change_pct"))
        };
        of_test.sort_by(|a, b| {
            let ((effect_a, change_a), (effect_b, change_b)) = (weight(a), weight(b));
            effect_b.total_cmp(&effect_a).then(change_b.total_cmp(&change_a))
        });
        for row in &mut of_test {
            row["run"] = run.trace.clone().into();
        }
        summaries.push(json!({"run": run.trace, "metrics_by_status": counts}));
        rows.extend(of_test);
    }
    let answer = Answer::list("changes", rows)
        .with("base", comparison.runs[0].trace.clone())
        .with("runs", summaries)
        .with("change_is", "(test - base) / |base|")
        .with_each("units_of_columns", of_columns);
    let answer = match &comparison.ranking {
        Some(ranking) => answer.with("ranking", objects(ranking)),
        None => answer,
    };
    Ok(with_errors(answer, &errors))
}

/// Arguments of `ingest`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub struct Ingest {
    /// A folder or file below the roots that `list_traces` names
    path: String,
    /// A name for the trace [default: of its folder]
    #[serde(default)]
    name: Option<String>,
}

/// Reads traces below the roots.
pub fn ingest(call: &Call<'_>, args: Ingest) -> Result<Answer> {
    let path = permitted(call.roots, &args.path)?;
    let reading = ReadingArgs { name: args.name, ..ReadingArgs::default() };
    let options =
        Options { within: Within::folders(call.roots.to_vec()), ..options(call.context, &reading) };
    let outcome = ingest_paths(call.context, &[path], &options).map_err(first)?;
    call.stop.go_on()?;
    if outcome.traces.is_empty() {
        let none = || Error::new("nothing-found", "no trace was found").at(args.path.clone());
        return Err(outcome.errors.into_iter().next().unwrap_or_else(none));
    }
    let row = |s: &Summary| {
        let findings: Vec<Value> = s
            .findings
            .iter()
            .map(|(file, f)| {
                json!({
                    "code": f.code, "severity": f.severity.word(), "count": f.count,
                    "file": file, "message": f.message,
                })
            })
            .collect();
        lean(json!({
            "trace": s.trace, "source": joined(&s.sources, "+"), "ranks": s.ranks,
            "events": s.events, "bytes": s.bytes, "unchanged": s.unchanged, "findings": findings,
        }))
    };
    let answer = Answer::list("traces", outcome.traces.iter().map(row).collect());
    let answer = match outcome.set_aside.len() {
        0 => answer,
        files => answer.with("files_set_aside", files),
    };
    Ok(with_errors(answer, &outcome.errors))
}

/// The real path of what may be ingested. What lies elsewhere, and what is not there at all, are
/// one error: nobody learns of files outside of the roots.
fn permitted(roots: &[PathBuf], path: &str) -> Result<PathBuf> {
    if roots.is_empty() {
        return Err(Error::new("usage", "this server ingests nothing: no root was named")
            .hint("start it as: ccl-sql mcp --root DIR, or ingest by hand: ccl-sql ingest PATH"));
    }
    // A relative path counts from each root.
    let found = roots.iter().find_map(|root| {
        let real = root.join(path).canonicalize().ok()?;
        roots.iter().any(|root| real.starts_with(root)).then_some(real)
    });
    found.ok_or_else(|| {
        let shown: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Error::new("file-unreadable", "there is no such file or folder below the roots")
            .at(path.to_owned())
            .facts(format!("the roots: {}", shown.join(", ")))
            .hint("name a path below one of them")
    })
}
