//! The result of one metric on one trace.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use duckdb::ToSql;
use duckdb::types::Value as SqlValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::each::{first_reasons, rows_of_each};
use crate::engine::lacking::{needs, why_null, without_files, without_rows};
use crate::engine::remarks::{ANSWER, remark, with_remarks};
use crate::engine::{Engine, ResultRow, Settings, json};
use crate::error::{Error, Result, nearest};
use crate::registry::header::{Header, Pair, Param};
use crate::registry::{Registry, SqlFile, lint, units};
use crate::schema::SCHEMA_VERSION;
use crate::schema::source::Source;
use crate::store::manifest::Manifest;

/// Below this share of known sizes, groups or launches a figure carries a warning (product 6.7).
const COVERAGE_WARNING: f64 = 0.95;
/// The table that holds the rows of a query for a moment; no name of a table or view.
const ROWS: &str = "\"@rows\"";

/// The result of a metric on a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MetricResult {
    /// Name of the metric.
    pub metric: String,
    /// Version of the metric.
    pub version: u32,
    /// The trace.
    pub trace: String,
    /// The one number; null with a reason where there is none.
    pub value: Value,
    /// Unit of the value.
    pub unit: Option<String>,
    /// The reason why there is no value.
    pub reason: Option<String>,
    /// Every column but the trace.
    pub details: Map<String, Value>,
    /// Parameters as they were used.
    pub params: Map<String, Value>,
    /// Warnings that hold for this trace; what always holds is in the metric's definition.
    pub warnings: Vec<String>,
    /// Words for people beside the value, as the rank that is meant.
    pub answer: Option<String>,
    /// Hash of the query.
    pub sql_sha256: String,
    /// Hash over the bytes that the trace was made from.
    pub trace_fingerprint: String,
    /// The row of the query.
    #[serde(with = "crate::engine::arrow_text")]
    pub batch: Option<RecordBatch>,
}

impl MetricResult {
    /// A result with no value and no reason yet.
    pub fn empty(manifest: &Manifest, file: &SqlFile) -> Self {
        let header = &file.header;
        Self {
            metric: header.name.clone(),
            version: header.version,
            trace: manifest.trace.clone(),
            value: Value::Null,
            unit: header.unit().map(str::to_owned),
            reason: None,
            details: Map::new(),
            params: Map::new(),
            warnings: Vec::new(),
            answer: None,
            sql_sha256: file.sha256(),
            trace_fingerprint: manifest.fingerprint(),
            batch: None,
        }
    }

    /// The JSON object of one metric on one trace.
    pub fn json(&self) -> Value {
        serde_json::json!({
            "metric": self.metric, "version": self.version, "trace": self.trace,
            "value": self.value, "unit": self.unit, "reason": self.reason, "answer": self.answer,
            "details": self.details, "params": self.params, "warnings": self.warnings,
            "provenance": {
                "sql_sha256": self.sql_sha256, "schema_version": SCHEMA_VERSION,
                "trace_fingerprint": self.trace_fingerprint, "ccl_sql": env!("CARGO_PKG_VERSION"),
            },
        })
    }
}

/// Values for the parameters of a metric, by name, as the user wrote them.
pub type Params = BTreeMap<String, String>;

/// Refuses parameters that none of the metrics has.
///
/// # Errors
/// `param-invalid` with the nearest name.
pub fn check_params(files: &[&SqlFile], params: &Params) -> Result<()> {
    let known: Vec<&str> =
        files.iter().flat_map(|f| f.header.params.iter().map(|p| p.name.as_str())).collect();
    let Some(name) = params.keys().find(|n| !known.contains(&n.as_str())) else { return Ok(()) };
    let message = match files {
        [one] => {
            let (kind, of) = (one.header.kind.word(), &one.header.name);
            format!("{kind} `{of}` has no parameter `{name}`")
        }
        _ => format!("none of these has a parameter `{name}`"),
    };
    let error = Error::new("param-invalid", message);
    Err(match nearest(name, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`ccl-sql show NAME` lists the parameters of a metric"),
    })
}

/// The value that is bound, and its JSON form.
fn bind(param: &Param, text: Option<&str>) -> Result<(SqlValue, Value)> {
    let Some(text) = text else { return Ok((SqlValue::Null, Value::Null)) };
    let bad = || {
        Error::new(
            "param-invalid",
            format!("parameter `{}` is {text:?}, which is no {}", param.name, param.ty),
        )
        .facts(param.doc.clone())
        .hint(match param.ty.as_str() {
            "BOOLEAN" => "write true or false",
            "BIGINT" => "write a whole number",
            _ => "write a number",
        })
    };
    Ok(match param.ty.as_str() {
        "BIGINT" => {
            let number: i64 = text.parse().or_else(|_| {
                // 7e9 parameters are written like this.
                let float: f64 = text.parse().map_err(|_| bad())?;
                let whole = float.fract() == 0.0 && float.abs() < 9e15;
                whole.then_some(float as i64).ok_or_else(bad)
            })?;
            (SqlValue::BigInt(number), number.into())
        }
        "DOUBLE" => {
            let number: f64 = text.parse().map_err(|_| bad())?;
            if !number.is_finite() {
                return Err(bad());
            }
            (SqlValue::Double(number), number.into())
        }
        "BOOLEAN" => {
            let truth = match text {
                "true" | "1" | "yes" => true,
                "false" | "0" | "no" => false,
                _ => return Err(bad()),
            };
            (SqlValue::Boolean(truth), truth.into())
        }
        _ => (SqlValue::Text(text.to_owned()), text.into()),
    })
}

/// Runs a metric on the trace that `engine` shows, which is that of `manifest`.
///
/// # Errors
/// `sql` with the path of the metric, `param-invalid` for a parameter of the wrong type,
/// `check-failed` when the query gives more than one row for the trace.
pub fn run(
    engine: &Engine<'_>,
    manifest: &Manifest,
    file: &SqlFile,
    params: &Params,
) -> Result<MetricResult> {
    Ok(run_each(engine, &[manifest], file, params)?.swap_remove(0))
}

/// Runs a metric on the traces that `engine` shows, which are those of `traces`; its results are in
/// their order. Of several, each is of one source.
///
/// # Errors
/// As [`run`].
pub fn run_each(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
    params: &Params,
) -> Result<Vec<MetricResult>> {
    let header = &file.header;
    let (bound, shown) = bound(header, params)?;
    let reasons = reasons(engine, traces, file)?;
    let empty = |(of, reason): (&&Manifest, Option<String>)| MetricResult {
        params: shown.clone(),
        reason,
        ..MetricResult::empty(of, file)
    };
    let mut out: Vec<MetricResult> = traces.iter().zip(reasons).map(empty).collect();
    if out.iter().all(|result| result.reason.is_some()) {
        return Ok(out);
    }
    let sql = with_remarks(file, traces.len() > 1);
    engine.admit_file(file, &sql)?;
    let ask_each = |bound: &Bound<'_>| {
        let rows = rows_of_each(&ask(engine, file, &sql, bound)?, traces);
        rows.into_iter().map(|rows| single_row(file, rows)).collect::<Result<Vec<_>>>()
    };
    let rows = ask_each(&bound)?;
    // Without a parameter that was given: asked where it could matter, once.
    let mut without: BTreeMap<usize, Vec<Option<RecordBatch>>> = BTreeMap::new();
    for (place, (result, row)) in out.iter_mut().zip(&rows).enumerate() {
        if result.reason.is_some() {
            continue;
        }
        let Some(row) = row else {
            result.reason = Some(why_null(header, "the trace has no rows for it"));
            continue;
        };
        for (i, param) in fill(result, header, row)? {
            if !params.contains_key(&param.name) {
                continue;
            }
            let (default, _) = bind(param, param.default.as_deref())?;
            let mut other = bound.clone();
            other[i].1 = default;
            if other[i] == bound[i] {
                continue;
            }
            let other = match without.entry(i) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(ask_each(&other)?),
            };
            if other[place].as_ref() == Some(row) {
                result.warnings.push(format!(
                    "{} changes nothing for this trace: the answer is the same without it",
                    param.name
                ));
            }
        }
    }
    Ok(out)
}

/// Puts a row of the query into the result. Gives the parameters that no warning is about, of
/// which one may change nothing.
fn fill<'h>(
    out: &mut MetricResult,
    header: &'h Header,
    batch: &RecordBatch,
) -> Result<Vec<(usize, &'h Param)>> {
    let mut row = json::rows(std::slice::from_ref(batch)).pop().unwrap_or_default();
    let said: Vec<&Pair> = (header.warns.iter().enumerate())
        .filter(|(i, _)| row.shift_remove(&remark(*i)) == Some(Value::Bool(true)))
        .map(|(_, warn)| warn)
        .collect();
    let answer = row.shift_remove(ANSWER);
    row.shift_remove("trace");
    let value_name = header.value.as_deref().unwrap_or_default();
    out.value = row.get(value_name).cloned().unwrap_or(Value::Null);
    out.warnings = coverage(header, &row);
    let mut unexplained = Vec::new();
    if out.value.is_null() {
        out.reason = Some(why_null(header, &format!("{value_name} is NULL")));
    } else {
        out.warnings.extend(said.iter().map(|warn| filled(&warn.right, header, &row)));
        out.answer = answer.and_then(|a| a.as_str().map(str::to_owned));
        unexplained.extend(header.params.iter().enumerate());
        unexplained.retain(|(_, p)| !said.iter().any(|warn| names_param(&warn.left, &p.name)));
    }
    out.details = row;
    out.batch = Some(own_columns(header, batch)?);
    Ok(unexplained)
}

/// Values of parameters by name.
pub(super) type Bound<'h> = Vec<(&'h str, SqlValue)>;

/// Values of the parameters of a file, by name, and their JSON forms.
///
/// # Errors
/// `param-invalid` for one of the wrong type.
pub(super) fn bound<'h>(
    header: &'h Header,
    params: &Params,
) -> Result<(Bound<'h>, Map<String, Value>)> {
    let (mut bound, mut shown) = (Vec::new(), Map::new());
    for param in &header.params {
        let text = params.get(&param.name).or(param.default.as_ref());
        let (value, json) = bind(param, text.map(String::as_str))?;
        shown.insert(param.name.clone(), json);
        bound.push((param.name.as_str(), value));
    }
    Ok((bound, shown))
}

/// Makes what a file reads. Gives the reasons why traces have no answer for it, in their order.
pub(super) fn reasons(
    engine: &Engine<'_>,
    traces: &[&Manifest],
    file: &SqlFile,
) -> Result<Vec<Option<String>>> {
    let lacking = |of: &&Manifest| Some(without_files(of, file)).filter(|all| !all.is_empty());
    let mut out: Vec<Option<String>> =
        traces.iter().map(|of| lacking(of).map(|lacking| needs(&lacking))).collect();
    if out.iter().all(Option::is_some) {
        return Ok(out);
    }
    engine.make_inputs(file)?;
    if let [of] = traces {
        let reason = match empty(engine, of, file)? {
            None => first_reason(engine, file)?,
            reason => reason,
        };
        return Ok(vec![reason]);
    }
    let mut first = first_reasons(engine, traces, file)?;
    for (reason, of) in out.iter_mut().zip(traces) {
        *reason = reason.take().or_else(|| first.remove(&of.trace));
    }
    Ok(out)
}

/// The reason where tables that a file cannot do without are empty, of a trace of several sources,
/// of which one is shown.
fn empty(engine: &Engine<'_>, of: &Manifest, file: &SqlFile) -> Result<Option<String>> {
    let sources: BTreeSet<Source> = of.sources.iter().map(|s| s.source).collect();
    if sources.len() < 2 {
        return Ok(None);
    }
    let names = file.header.requires.iter().map(String::as_str);
    let lacking = without_rows(&engine.connection, names)?;
    Ok((!lacking.is_empty()).then(|| needs(&lacking)))
}

/// The first sentence of the header why the trace has no value (`@check`).
fn first_reason(engine: &Engine<'_>, file: &SqlFile) -> Result<Option<String>> {
    engine.admit_file(file, file.query())?;
    for check in &file.header.checks {
        let sql = format!("SELECT {}", check.reason());
        engine.admit_file(file, &sql)?;
        let reason: Option<String> = engine
            .connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(|e| engine.explained(file, e))?;
        if reason.is_some() {
            return Ok(reason);
        }
    }
    Ok(None)
}

/// The row of a metric; none where the query gives none.
///
/// # Errors
/// `check-failed` for several rows.
fn single_row(file: &SqlFile, mut rows: Vec<RecordBatch>) -> Result<Option<RecordBatch>> {
    if rows.len() > 1 {
        return Err(Error::new(
            "check-failed",
            format!("the metric gives {} rows for one trace", rows.len()),
        )
        .at(file.path.clone())
        .hint("its grain is one row per trace: aggregate, or use LIST and MAP columns"));
    }
    Ok(rows.pop())
}

/// Warnings of shares that are too small for the figures that rest on them.
fn coverage(header: &Header, row: &Map<String, Value>) -> Vec<String> {
    let warning = |coverage: &Pair| {
        let share = row.get(&coverage.left).and_then(Value::as_f64);
        Some(match share.filter(|s| *s < COVERAGE_WARNING)? {
            0.0 => format!("{} nowhere known", coverage.right),
            share => format!("{} known for {:.1} % only", coverage.right, share * 100.0),
        })
    };
    header.coverage.iter().filter_map(warning).collect()
}

/// The row without the columns of the remarks.
fn own_columns(header: &Header, row: &RecordBatch) -> Result<RecordBatch> {
    let remarks = header.warns.len() + usize::from(header.answer.is_some());
    let own: Vec<usize> = (0..row.num_columns().saturating_sub(remarks)).collect();
    Ok(row.project(&own)?)
}

/// The rows of a query, with the parameters that it names.
pub(super) fn ask(
    engine: &Engine<'_>,
    file: &SqlFile,
    sql: &str,
    bound: &[(&str, SqlValue)],
) -> Result<Vec<RecordBatch>> {
    let rows = || -> Result<_, duckdb::Error> {
        // DuckDB binds a query that it prepares a second time when it runs. A table it makes at
        // once, and the query for its rows is short. A file of a user's stays one query.
        if let Some(sql) = written_out(sql, bound).filter(|_| file.embedded) {
            let made = format!("CREATE OR REPLACE TEMP TABLE {ROWS} AS {sql}");
            engine.connection.execute_batch(&made)?;
            let mut statement = engine.connection.prepare(&format!("FROM {ROWS}"))?;
            return Ok(statement.query_arrow([])?.collect());
        }
        Ok(bound_rows(engine, sql, bound)?.1)
    };
    rows().map_err(|e| engine.explained(file, e))
}

/// The columns of a query with the parameters that it names, and its rows.
fn bound_rows(
    engine: &Engine<'_>,
    sql: &str,
    bound: &[(&str, SqlValue)],
) -> Result<(SchemaRef, Vec<RecordBatch>), duckdb::Error> {
    let mut statement = engine.connection.prepare(sql)?;
    // A parameter that nothing names cannot be bound.
    let known: Vec<String> = (1..=statement.parameter_count())
        .map(|i| statement.parameter_name(i))
        .collect::<Result<_, _>>()?;
    let named: Vec<(&str, &dyn ToSql)> = bound
        .iter()
        .filter(|(name, _)| known.iter().any(|k| k == name))
        .map(|(name, value)| (*name, value as &dyn ToSql))
        .collect();
    let rows = statement.query_arrow(&named[..])?;
    Ok((rows.get_schema(), rows.collect()))
}

/// The columns of a metric's rows, as its query gives them of no trace at all.
///
/// # Errors
/// `sql` with the path of the metric.
pub fn schema(registry: &Registry, settings: &Settings, file: &SqlFile) -> Result<SchemaRef> {
    let engine = Engine::open(&[], registry, &settings.clone().for_rows(0))?;
    engine.lock_down()?;
    engine.make_inputs(file)?;
    engine.admit_file(file, file.query())?;
    let (bound, _) = bound(&file.header, &Params::new())?;
    let rows = bound_rows(&engine, file.query(), &bound);
    Ok(rows.map_err(|e| engine.explained(file, e))?.0)
}

/// A query with the values of its parameters in their places; None where one is a text, which is
/// bound and never written into SQL.
fn written_out(sql: &str, bound: &[(&str, SqlValue)]) -> Option<String> {
    let mut out = sql.to_owned();
    for (name, value) in bound {
        let value = match value {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Boolean(truth) => truth.to_string(),
            SqlValue::BigInt(number) => format!("CAST({number} AS BIGINT)"),
            SqlValue::Double(number) => format!("CAST('{number:e}' AS DOUBLE)"),
            _ => return None,
        };
        let mut pieces = out.split('$');
        let mut with = pieces.next().unwrap_or_default().to_owned();
        for rest in pieces {
            match after_name(rest, name) {
                Some(after) => with.extend([&value, after]),
                None => with.extend(["$", rest]),
            }
        }
        out = with;
    }
    Some(out)
}

/// What stands behind the name of a parameter, where a text begins with it.
fn after_name<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let after = text.strip_prefix(name)?;
    let goes_on = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (!goes_on).then_some(after)
}

/// Whether an expression names a parameter.
fn names_param(expression: &str, name: &str) -> bool {
    expression.split('$').skip(1).any(|rest| after_name(rest, name).is_some())
}

/// A message with the values of the columns that it names between braces.
fn filled(message: &str, header: &Header, row: &Map<String, Value>) -> String {
    let mut out = message.to_owned();
    for name in lint::placeholders(message) {
        let unit = header.columns.iter().find(|c| c.name == name).and_then(|c| c.unit.as_deref());
        let value = row.get(name).unwrap_or(&Value::Null);
        out = out.replace(&format!("{{{name}}}"), &units::human(value, unit));
    }
    out
}

/// Results as comparisons read them: in the order of `files`, with their better directions.
pub fn result_rows<'a>(files: &[&'a SqlFile], results: &'a [MetricResult]) -> Vec<ResultRow<'a>> {
    let row = |r: &'a MetricResult| {
        let same = |f: &&SqlFile| f.header.name == r.metric && f.header.version == r.version;
        let place = files.iter().position(same)?;
        let better = files[place].header.value_column().and_then(|c| c.better.as_deref());
        let place = i64::try_from(place).ok()?;
        let value = r.value.as_f64();
        Some((&*r.trace, place, &*r.metric, r.version, r.unit.as_deref(), better, value))
    };
    results.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_where_their_parameters_stand() {
        let bound = [
            ("a", SqlValue::BigInt(-3)),
            ("ab", SqlValue::Double(0.1)),
            ("c", SqlValue::Null),
            ("d", SqlValue::Boolean(true)),
        ];
        let sql = written_out("$a + $ab, $abc, $c,$d", &bound).expect("no text is among them");
        assert_eq!(sql, "CAST(-3 AS BIGINT) + CAST('1e-1' AS DOUBLE), $abc, NULL,true");
    }

    #[test]
    fn a_text_is_never_written_into_sql() {
        let bound = [("a", SqlValue::Text("1; DROP".to_owned()))];
        assert_eq!(written_out("SELECT $a", &bound), None);
    }
}
