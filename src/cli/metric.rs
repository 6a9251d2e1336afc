//! `metric`: computes metrics of traces and writes their results.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cli::args::MetricArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::table_form;
use crate::cli::results::{Results, compute};
use crate::cli::shape;
use crate::cli::terminal::clean;
use crate::engine::metric::MetricResult;
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::registry::header::{Column, Header};
use crate::report::Format;
use crate::report::card::{Card, cell_unit};
use crate::report::grid::table::{Layout, texts};
use crate::report::grid::value::bare;
use crate::report::units::human;

/// The fields of a result that say most.
const BRIEF: [&str; 6] = ["metric", "trace", "value", "unit", "answer", "reason"];

/// Runs the command.
pub fn run(context: &Context, args: &MetricArgs) -> Result<(), Errors> {
    let format = match (table_form(context, "metric")?, args.label) {
        (Format::Value, _) => Format::Value,
        (Format::Table, true) if context.printer.asked().is_none() => Format::Value,
        (_, true) => {
            return Err(Error::new("usage", "--label is for bare values")
                .hint("write --format value --label; the other forms have names already")
                .into());
        }
        (format, false) => format,
    };
    let results = compute(context, args)?;
    if results.answered() || args.all || format == Format::Json {
        write(context, &results, format, args.label)?;
    }
    Errors(results.errors).result()
}

/// Writes results in a form.
fn write(context: &Context, all: &Results<'_>, format: Format, label: bool) -> Result<()> {
    let printer = &context.printer;
    let bytes = match (format, &all.results[..]) {
        (Format::Json, _) => shape::json(context, &BRIEF, all.json())?,
        (Format::Value, results) if label => labelled(results).into_bytes(),
        (Format::Table, [one]) => card(all.header(one), one, printer.card_layout()).into_bytes(),
        (Format::Table, results) => people(&all.files, results, printer.layout()).into_bytes(),
        (format, results) => {
            if format == Format::Value && results.len() > 1 {
                printer.note(&format!(
                    "note: {} (--label writes the names beside the values)",
                    names(results)
                ));
            }
            all.grid()?.bytes(format, usize::MAX)?
        }
    };
    printer.result(&bytes)
}

/// Trace, metric and value a line, parted by tabs.
fn labelled(results: &[MetricResult]) -> String {
    let line = |r: &MetricResult| format!("{}\t{}\t{}\n", r.trace, r.metric, bare(&r.value));
    results.iter().map(line).collect()
}

/// Names and units of bare values, in their order.
fn names(results: &[MetricResult]) -> String {
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
            out.push_str(&format!("{gap}{}\n", clean(&first.trace)));
        }
        let rows = of_trace.iter().map(|r| {
            vec![r.metric.clone(), human(&r.value, r.unit.as_deref()), remark(r).to_owned()]
        });
        let columns = [("metric", false), ("value", true), ("remark", false)];
        out.push_str(&texts(&columns, rows.collect(), layout));
    }
    out
}

/// Words beside a value, or in its place.
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
