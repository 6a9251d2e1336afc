//! Results of metrics as text for people, for `metric` and for the shell.

use serde_json::Value;

use crate::cli::results::Results;
use crate::cli::terminal::clean;
use crate::engine::metric::MetricResult;
use crate::registry::header::{Column, Header};
use crate::report::card::{Card, cell_unit, number};
use crate::report::grid::table::{Layout, texts};

/// Results for people: a card for one, of one metric the traces, of several the metrics of each
/// trace. Numbers have their units, unless they are wanted exact.
pub fn people(all: &Results<'_>, layout: Layout, exact: bool) -> String {
    let results = &all.results[..];
    match (&all.files[..], results) {
        (_, [one]) => return card(all.header(one), one, layout, exact),
        ([file], _) => return by_trace(&file.header, results, layout, exact),
        _ => {}
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
            vec![r.metric.clone(), number(&r.value, r.unit.as_deref(), exact), remark(r).to_owned()]
        });
        let columns = [("metric", false), ("value", true), ("remark", false)];
        out.push_str(&texts(&columns, rows.collect(), layout));
    }
    out
}

/// One metric of one trace for people.
fn card(header: &Header, result: &MetricResult, layout: Layout, exact: bool) -> String {
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
        exact,
    }
    .write(layout)
}

/// Words beside a value, or in its place.
fn remark(result: &MetricResult) -> &str {
    result.answer.as_ref().or(result.reason.as_ref()).map_or("", String::as_str)
}

/// One metric, a row per trace: its value, what it comes to, and its single details.
fn by_trace(header: &Header, results: &[MetricResult], layout: Layout, exact: bool) -> String {
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
        let mut row = vec![r.trace.clone(), number(&r.value, cell_unit(r.unit.as_deref()), exact)];
        if with_remarks {
            row.push(remark(r).to_owned());
        }
        row.extend(others.iter().map(|c| {
            number(
                r.details.get(&c.name).unwrap_or(&Value::Null),
                cell_unit(c.unit.as_deref()),
                exact,
            )
        }));
        row
    });
    texts(&columns, rows.collect(), layout)
}
