//! `metric`: runs metrics on traces and writes their results.

use std::collections::BTreeSet;

use arrow::array::{RecordBatch, StringArray, new_null_array};
use serde_json::Value;

use super::Context;
use super::args::MetricArgs;
use super::batch::Batch;
use super::output::table_form;
use super::select::traces;
use crate::engine::run::{MetricResult, Params, check_params};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::registry::header::{Column, Header};
use crate::report::card::{Card, cell_unit};
use crate::report::units::human;
use crate::report::{Format, Grid, Layout, bare, pretty, texts};

/// Runs the command.
pub fn run(context: &Context, args: &MetricArgs) -> Result<(), Vec<Error>> {
    let one = |e: Error| vec![e];
    let format = match (table_form(context, "metric").map_err(one)?, args.label) {
        (Format::Value, _) => Format::Value,
        (Format::Table, true) if context.printer.asked().is_none() => Format::Value,
        (_, true) => {
            return Err(one(Error::new("usage", "--label is for bare values")
                .hint("write --format value --label; the other forms have names already")));
        }
        (format, false) => format,
    };
    let answers = compute(context, args)?;
    if answers.answered() || args.all || format == Format::Json {
        write(context, &answers, format, args.label).map_err(one)?;
    }
    if answers.errors.is_empty() { Ok(()) } else { Err(answers.errors) }
}

/// What metrics say of traces.
pub struct Answers<'c> {
    files: Vec<&'c SqlFile>,
    results: Vec<MetricResult>,
    /// Why a metric has no value anywhere, or could not be computed.
    pub errors: Vec<Error>,
}

impl Answers<'_> {
    /// Whether there is any value.
    pub fn answered(&self) -> bool {
        self.results.iter().any(|r| !r.value.is_null())
    }

    /// What the header of a result's metric says.
    fn header(&self, result: &MetricResult) -> &Header {
        let of =
            |f: &&&SqlFile| f.header.name == result.metric && f.header.version == result.version;
        &self.files.iter().find(of).expect("a result is of a metric that was asked for").header
    }

    /// One object for one metric on one trace, an array for several.
    pub fn json(&self) -> Value {
        let mut objects: Vec<Value> = self.results.iter().map(MetricResult::json).collect();
        match objects.len() {
            1 => objects.remove(0),
            _ => Value::Array(objects),
        }
    }

    /// The columns of the one metric, or a row per metric and trace for several.
    ///
    /// # Errors
    /// `io` when the rows do not fit together.
    pub fn grid(&self) -> Result<Grid> {
        match &self.files[..] {
            [one] => own_columns(&self.results, one.header.value.as_deref().unwrap_or("")),
            _ => Ok(long(&self.results)),
        }
    }
}

/// Computes metrics of traces; reasons and warnings go out as notes.
///
/// # Errors
/// `metric-unknown`, `param-invalid`, `trace-unknown`, and those of an ingest.
pub fn compute<'c>(context: &'c Context, args: &MetricArgs) -> Result<Answers<'c>, Vec<Error>> {
    let one = |e: Error| vec![e];
    let registry = &context.registry;
    let mut files: Vec<&SqlFile> = if args.all {
        registry.metrics().collect()
    } else {
        args.names.iter().map(|n| registry.metric(n)).collect::<Result<_>>().map_err(one)?
    };
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.id()));
    let mut params: Params = args.param.iter().cloned().collect();
    for (key, value) in [("n_chips", &args.n_chips), ("model_params", &args.model_params)] {
        let Some(value) = value else { continue };
        // Scripts give these whatever the metric is.
        let is_used = |f: &&SqlFile| f.header.params.iter().any(|p| p.name == key);
        if files.iter().any(is_used) {
            params.insert(key.to_owned(), value.clone());
        } else {
            let with: Vec<&str> = registry
                .metrics()
                .filter(|f| f.header.params.iter().any(|p| p.name == key))
                .map(|f| f.header.name.as_str())
                .collect();
            context.printer.note(&format!(
                "note: {key} changes nothing here: it is a parameter of {} alone",
                with.join(", ")
            ));
        }
    }
    if !args.all {
        check_params(&files, &params).map_err(one)?;
    }
    let traces = traces(context, &args.trace, &args.reading)?;
    let directories = context.directories(&traces).map_err(one)?;
    let mut results = Vec::new();
    let mut errors = Vec::new();
    let mut batch = Batch::new(context, &files, &params, args.profile_mode, &directories);
    for directory in &directories {
        for outcome in batch.trace(directory).map_err(one)?.results {
            match outcome {
                Ok(result) => results.push(result),
                // What is wrong with a metric or a parameter is wrong on every trace: said once.
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    drop(batch);
    for file in &files {
        let of_metric: Vec<&MetricResult> = results
            .iter()
            .filter(|r| r.metric == file.header.name && r.version == file.header.version)
            .collect();
        if !args.all && !of_metric.is_empty() && of_metric.iter().all(|r| r.value.is_null()) {
            errors.push(not_applicable(file, &of_metric));
        }
    }
    notes(context, &results, args.all);
    if context.global.strict && errors.is_empty() && results.iter().any(|r| !r.warnings.is_empty())
    {
        errors.push(Error::new("strict", "there are warnings, and --strict was given"));
    }
    Ok(Answers { files, results, errors })
}

fn not_applicable(file: &SqlFile, results: &[&MetricResult]) -> Error {
    let reason = results[0].reason.clone().unwrap_or_default();
    let traces: Vec<&str> = results.iter().map(|r| r.trace.as_str()).take(5).collect();
    let more = results.len().saturating_sub(5);
    let place = match more {
        0 => traces.join(", "),
        n => format!("{} and {n} more", traces.join(", ")),
    };
    Error::new("metric-not-applicable", format!("metric `{}` has no value: {reason}", file.id()))
        .at(place)
        .hint(format!("`ccl-sql show {}` says what it needs", file.header.name))
}

/// Reasons and warnings, each once with the traces that it is for. A metric that answers nowhere
/// gives an error in their place; with `--all` the reasons stand in the result.
fn notes(context: &Context, results: &[MetricResult], all: bool) {
    let mut notes: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for result in results {
        let answers = results.iter().any(|r| r.metric == result.metric && !r.value.is_null());
        let reasons = result.reason.iter().filter(|_| !all && answers);
        let warnings = result.warnings.iter().filter(|_| !all || context.printer.verbose());
        for text in reasons.chain(warnings) {
            match notes.iter_mut().find(|(m, t, _)| *m == result.metric && t == text) {
                Some((_, _, traces)) => traces.push(&result.trace),
                None => notes.push((&result.metric, text, vec![&result.trace])),
            }
        }
    }
    for (metric, text, traces) in notes {
        let of = match traces[..] {
            [one] => format!(" of {one}"),
            _ if traces.len() < results.len() => format!(" of {}", traces.join(", ")),
            _ => String::new(),
        };
        context.printer.note(&format!("note: {metric}{of}: {text}"));
    }
}

fn write(context: &Context, answers: &Answers<'_>, format: Format, label: bool) -> Result<()> {
    let printer = &context.printer;
    let bytes = match (format, &answers.results[..]) {
        (Format::Json, _) => pretty(&answers.json()),
        (Format::Value, results) if label => labelled(results).into_bytes(),
        (Format::Table, [one]) => {
            card(answers.header(one), one, printer.card_layout()).into_bytes()
        }
        (Format::Table, results) => people(&answers.files, results, printer.layout()).into_bytes(),
        (format, results) => {
            if format == Format::Value && results.len() > 1 {
                printer.note(&format!(
                    "note: {} (--label writes the names beside the values)",
                    order(results)
                ));
            }
            answers.grid()?.bytes(format, usize::MAX)?
        }
    };
    printer.result(&bytes)
}

/// Trace, metric and value a line, parted by tabs.
fn labelled(results: &[MetricResult]) -> String {
    let line = |r: &MetricResult| format!("{}\t{}\t{}\n", r.trace, r.metric, bare(&r.value));
    results.iter().map(line).collect()
}

/// What bare values are, in their order.
fn order(results: &[MetricResult]) -> String {
    let unit = |r: &MetricResult| r.unit.as_ref().map(|u| format!(" ({u})")).unwrap_or_default();
    let traces: BTreeSet<&str> = results.iter().map(|r| r.trace.as_str()).collect();
    let metrics: BTreeSet<&str> = results.iter().map(|r| r.metric.as_str()).collect();
    if metrics.len() == 1 {
        let of: Vec<&str> = results.iter().map(|r| r.trace.as_str()).collect();
        return format!("{}{} of {}", results[0].metric, unit(&results[0]), of.join(", "));
    }
    let name = |r: &MetricResult| match traces.len() {
        1 => format!("{}{}", r.metric, unit(r)),
        _ => format!("{} of {}{}", r.metric, r.trace, unit(r)),
    };
    results.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// One metric of one trace for people.
fn card(header: &Header, result: &MetricResult, layout: Layout) -> String {
    let units: Vec<(&str, Option<&str>)> =
        header.columns.iter().map(|c| (c.name.as_str(), c.unit.as_deref())).collect();
    Card {
        metric: &result.metric,
        trace: &result.trace,
        value: &result.value,
        unit: result.unit.as_deref(),
        reason: result.reason.as_deref(),
        answer: result.answer.as_deref(),
        meaning: header.value_column().map_or(&header.summary, |c| &c.doc),
        value_name: header.value.as_deref().unwrap_or_default(),
        details: &result.details,
        units: &units,
    }
    .write(layout)
}

/// Several results for people: of one metric the traces, of several the metrics of each trace.
fn people(files: &[&SqlFile], results: &[MetricResult], layout: Layout) -> String {
    if let [file] = files {
        return by_trace(&file.header, results, layout);
    }
    let mut out = String::new();
    let mut rest = results;
    let several = results.iter().any(|r| r.trace != results[0].trace);
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|r| r.trace == first.trace).count();
        let (of_trace, others) = rest.split_at(count);
        rest = others;
        if several {
            let gap = if out.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{gap}{}\n", super::printer::clean(&first.trace)));
        }
        let rows = of_trace.iter().map(|r| {
            vec![r.metric.clone(), human(&r.value, r.unit.as_deref()), remark(r).to_owned()]
        });
        let columns = [("metric", false), ("value", true), ("remark", false)];
        out.push_str(&texts(&columns, rows.collect(), layout));
    }
    out
}

/// What stands beside a value, or in its place.
fn remark(result: &MetricResult) -> &str {
    result.answer.as_ref().or(result.reason.as_ref()).map_or("", String::as_str)
}

/// One metric, a row per trace: its value, what it comes to, and its single details.
fn by_trace(header: &Header, results: &[MetricResult], layout: Layout) -> String {
    let value_name = header.value.as_deref().unwrap_or_default();
    let values = |name: &str| {
        let values = results.iter().filter_map(|r| r.details.get(name));
        values.filter(|v| !v.is_null()).collect::<Vec<&Value>>()
    };
    let single = |c: &&Column| {
        let values = values(&c.name);
        !values.is_empty() && !values.iter().any(|v| v.is_array() || v.is_object())
    };
    let others: Vec<&Column> =
        header.columns.iter().filter(|c| c.name != value_name).filter(single).collect();
    let with_remarks = results.iter().any(|r| !remark(r).is_empty());
    let mut columns = vec![("trace", false), (value_name, true)];
    if with_remarks {
        columns.push(("remark", false));
    }
    columns.extend(
        others.iter().map(|c| (c.name.as_str(), values(&c.name).iter().all(|v| v.is_number()))),
    );
    let rows = results.iter().map(|r| {
        let mut row = vec![r.trace.clone(), human(&r.value, cell_unit(r.unit.as_deref()))];
        if with_remarks {
            row.push(remark(r).to_owned());
        }
        row.extend(others.iter().map(|c| {
            human(r.details.get(&c.name).unwrap_or(&Value::Null), cell_unit(c.unit.as_deref()))
        }));
        row
    });
    texts(&columns, rows.collect(), layout)
}

/// One metric: its own columns, a row per trace; a trace without a value has NULLs.
fn own_columns(results: &[MetricResult], value: &str) -> Result<Grid> {
    let Some(schema) = results.iter().find_map(|r| r.batch.as_ref().map(RecordBatch::schema))
    else {
        return Ok(long(results));
    };
    let mut batches = Vec::new();
    for result in results {
        let batch = match &result.batch {
            Some(batch) => batch.clone(),
            None => {
                let columns = schema
                    .fields()
                    .iter()
                    .map(|f| match f.name().as_str() {
                        "trace" => {
                            std::sync::Arc::new(StringArray::from(vec![result.trace.clone()])) as _
                        }
                        _ => new_null_array(f.data_type(), 1),
                    })
                    .collect();
                RecordBatch::try_new(schema.clone(), columns)?
            }
        };
        batches.push(batch);
    }
    let first = &results[0];
    let mut grid = Grid::of_batches(batches);
    grid.value_column = schema.index_of(value).unwrap_or(0);
    grid.footer = vec![
        ("metric".to_owned(), first.metric.clone()),
        ("version".to_owned(), first.version.to_string()),
        ("sql_sha256".to_owned(), first.sql_sha256.clone()),
    ];
    Ok(grid)
}

/// Several metrics: one row per trace and metric, details as JSON.
fn long(results: &[MetricResult]) -> Grid {
    let rows = results
        .iter()
        .map(|r| {
            vec![
                Value::from(r.trace.as_str()),
                Value::from(r.metric.as_str()),
                Value::from(r.version),
                r.value.clone(),
                r.unit.clone().map_or(Value::Null, Value::from),
                r.reason.clone().map_or(Value::Null, Value::from),
                match r.details.is_empty() {
                    true => Value::Null,
                    false => Value::Object(r.details.clone()).to_string().into(),
                },
            ]
        })
        .collect();
    let columns = ["trace", "metric", "version", "value", "unit", "reason", "details"];
    Grid { value_column: 3, ..Grid::of_rows(&columns, rows) }
}
