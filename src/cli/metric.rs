//! `metric`: computes metrics of traces and writes their results.

use std::collections::BTreeSet;

use crate::cli::args::MetricArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::metric_text::people;
use crate::cli::output::table_form;
use crate::cli::results::{Results, compute};
use crate::cli::shape;
use crate::engine::metric::MetricResult;
use crate::error::{Error, Result};
use crate::report::Format;
use crate::report::grid::value::bare;

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
        write(context, &results, format, args)?;
    }
    Errors(results.errors).result()
}

/// Writes results in a form.
fn write(context: &Context, all: &Results<'_>, format: Format, args: &MetricArgs) -> Result<()> {
    let (printer, label, exact) = (&context.printer, args.label, args.exact);
    let bytes = match (format, &all.results[..]) {
        (Format::Json, _) => shape::json(context, &BRIEF, all.json())?,
        (Format::Value, results) if label => labelled(results).into_bytes(),
        (Format::Table, [_]) => people(all, printer.card_layout(), exact).into_bytes(),
        (Format::Table, _) => people(all, printer.layout(), exact).into_bytes(),
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
