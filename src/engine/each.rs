//! Several traces that are asked together: what is of one trace, of each of them.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use serde_json::Value;

use crate::engine::{Engine, json};
use crate::error::Result;
use crate::registry::SqlFile;
use crate::registry::header::Header;
use crate::sql_text::{sql_name, sql_string};
use crate::store::manifest::Manifest;

/// The traces, by name, in a query that asks something of each of them.
const EACH: &str = "\"@each\"";
/// The rows of all of them, of a table or view.
const ALL: &str = "\"@all\"";

/// An expression of a header, over the rows of one trace: that which the SQL in `trace` names.
///
/// In a header, a table or view stands behind FROM or JOIN, without another name.
pub(super) fn of_trace(header: &Header, expression: &str, trace: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest, mut is_source) = (String::new(), expression, false);
    while let Some(first) = rest.chars().next() {
        let end = match first {
            quote @ ('\'' | '"') => rest[1..].find(quote).map(|at| at + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)),
            c => Some(c.len_utf8()),
        };
        let (token, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        if is_source && header.inputs().any(|input| input == token) {
            let name = sql_name(token);
            out.push_str(&format!(
                "(SELECT * FROM {name} AS {ALL} WHERE {ALL}.trace = {trace}) AS {name}"
            ));
        } else {
            out.push_str(token);
        }
        if !token.trim().is_empty() {
            is_source = ["FROM", "JOIN"].iter().any(|word| token.eq_ignore_ascii_case(word));
        }
    }
    out
}

/// A query for the name of each trace, and the first sentence of the header why it has no value.
pub(super) fn reasons_of_each<'a>(
    header: &Header,
    traces: impl IntoIterator<Item = &'a str>,
) -> String {
    let trace = format!("{EACH}.trace");
    let names: Vec<String> =
        traces.into_iter().map(|name| format!("({})", sql_string(name))).collect();
    let reasons: Vec<String> =
        header.checks.iter().map(|check| of_trace(header, &check.reason(), &trace)).collect();
    format!(
        "SELECT {trace}, coalesce({}, NULL) FROM (VALUES {}) AS {EACH}(trace)",
        reasons.join(", "),
        names.join(", ")
    )
}

/// The first sentence of the header why each trace has no value; by name, where there is one.
///
/// # Errors
/// `sql` with the path of the file.
pub(super) fn first_reasons(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
) -> Result<BTreeMap<String, String>> {
    if file.header.checks.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = reasons_of_each(&file.header, traces.iter().map(|of| of.trace.as_str()));
    let fail = |e| engine.explained(file, e);
    let mut statement = engine.connection.prepare(&sql).map_err(fail)?;
    let pairs = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))
        .map_err(fail)?;
    let pairs: Vec<_> = pairs.collect::<Result<_, duckdb::Error>>().map_err(fail)?;
    Ok(pairs.into_iter().filter_map(|(trace, reason)| Some((trace, reason?))).collect())
}

/// The rows of each trace, each a batch of its own, in the order in which they came.
pub(super) fn rows_of_each(batches: &[RecordBatch], traces: &[&Manifest]) -> Vec<Vec<RecordBatch>> {
    let mut out = vec![Vec::new(); traces.len()];
    for batch in batches {
        for (own, places) in out.iter_mut().zip(places_of_each(batch, traces)) {
            own.extend(places.into_iter().map(|row| batch.slice(row, 1)));
        }
    }
    out
}

/// The places of the rows of each trace. A single trace has them all; and so has each of several
/// where the rows are of no trace.
pub(super) fn places_of_each(batch: &RecordBatch, traces: &[&Manifest]) -> Vec<Vec<usize>> {
    let all = 0..batch.num_rows();
    let Some(names) = batch.column_by_name("trace").filter(|_| traces.len() > 1) else {
        return vec![all.collect(); traces.len()];
    };
    let places: BTreeMap<&str, usize> =
        traces.iter().enumerate().map(|(place, of)| (of.trace.as_str(), place)).collect();
    let mut out = vec![Vec::new(); traces.len()];
    for row in all {
        let Value::String(name) = json::value(names, row) else { continue };
        if let Some(place) = places.get(name.as_str()) {
            out[*place].push(row);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::registry::header;

    /// A header that reads `steps` and `ranks`.
    fn sample() -> Header {
        let text = "-- @view v\n-- @summary s\n-- @requires steps\n-- @reads ranks\n";
        header::parse("v.sql", text).expect("a header")
    }

    #[test]
    fn sources_are_those_of_one_trace() {
        let found = of_trace(
            &sample(),
            "(SELECT count(*) FROM steps WHERE name <> 'from ranks') > 0 AND ranks < 1 \
             OR EXISTS (SELECT 1 from\n  ranks)",
            "t.trace",
        );
        let of = |name: &str| {
            format!(
                "(SELECT * FROM \"{name}\" AS \"@all\" WHERE \"@all\".trace = t.trace) AS \"{name}\""
            )
        };
        let (steps, ranks) = (of("steps"), of("ranks"));
        assert_eq!(
            found,
            format!(
                "(SELECT count(*) FROM {steps} WHERE name <> 'from ranks') > 0 AND ranks < 1 \
                 OR EXISTS (SELECT 1 from\n  {ranks})"
            )
        );
    }

    #[test]
    fn a_text_that_does_not_end_is_left() {
        assert_eq!(of_trace(&sample(), "'from steps", "t"), "'from steps");
        assert_eq!(of_trace(&sample(), "é from é", "t"), "é from é");
    }

    #[test]
    fn every_expression_of_a_header_names_its_sources_behind_from() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let mut seen = 0;
        for file in registry.files() {
            let h = &file.header;
            let texts = h.checks.iter().map(|check| check.reason());
            let texts = texts.chain(h.warns.iter().map(|warn| warn.left.clone()));
            for text in texts.chain(h.answer.clone()) {
                let from = |text: &str| text.matches("FROM ").count();
                let selects = from(&text.replace("DISTINCT FROM ", "").replace("FROM (", ""));
                let found = of_trace(h, &text, "t").matches("\"@all\".trace").count();
                assert_eq!(found, selects, "{}: {text}", file.path);
                assert!(!text.contains("JOIN"), "{}: {text}", file.path);
                seen += selects;
            }
        }
        assert!(seen > 150, "{seen} sources");
    }
}
