//! One metric on one trace.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use duckdb::ToSql;
use duckdb::types::Value as SqlValue;
use serde_json::{Map, Value};

use super::{Engine, json};
use crate::error::{Error, Result, nearest};
use crate::ingest::manifest::Manifest;
use crate::registry::header::{Header, Pair, Param};
use crate::registry::{Registry, SqlFile, lint, units};
use crate::schema::SCHEMA_VERSION;
use crate::sql_text::sql_name;

/// Below this share of known sizes, groups or launches a figure carries a warning (product 6.7).
const COVERAGE_WARNING: f64 = 0.95;

/// What a metric says of a trace.
#[derive(Debug, Clone)]
pub struct MetricResult {
    /// Its name.
    pub metric: String,
    /// Its version.
    pub version: u32,
    /// The trace.
    pub trace: String,
    /// The one number; null with a reason where there is none.
    pub value: Value,
    /// Its unit.
    pub unit: Option<String>,
    /// Why there is no value.
    pub reason: Option<String>,
    /// Every column but the trace.
    pub details: Map<String, Value>,
    /// Parameters as they were used.
    pub params: Map<String, Value>,
    /// What the reader should know of this trace; what always holds is in the metric's definition.
    pub warnings: Vec<String>,
    /// What a person reads beside the value, as the rank that is meant.
    pub answer: Option<String>,
    /// Hash of the query.
    pub sql_sha256: String,
    /// Hash over the bytes that the trace was made from.
    pub trace_fingerprint: String,
    /// The row itself.
    pub batch: Option<RecordBatch>,
}

impl MetricResult {
    /// Nothing yet: no value, no reason.
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
            "value": self.value, "unit": self.unit, "reason": self.reason,
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
        [one] => format!("metric `{}` has no parameter `{name}`", one.header.name),
        _ => format!("none of these metrics has a parameter `{name}`"),
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
    let header = &file.header;
    let mut out = MetricResult::empty(manifest, file);
    let mut bound = Vec::new();
    for param in &header.params {
        let text = params.get(&param.name).or(param.default.as_ref());
        let (value, shown) = bind(param, text.map(String::as_str))?;
        out.params.insert(param.name.clone(), shown);
        bound.push((param.name.as_str(), value));
    }
    let lacking: Vec<&str> = header
        .requires
        .iter()
        .filter(|r| {
            crate::schema::table(r).is_some() && manifest.rows.get(*r).copied().unwrap_or(0) == 0
        })
        .map(String::as_str)
        .collect();
    if !lacking.is_empty() {
        out.reason = Some(needs(&lacking));
        return Ok(out);
    }
    for input in header.inputs() {
        engine.make(input)?;
    }
    // The manifest counts the rows of all profilers.
    let sources: BTreeSet<&str> = manifest.sources.iter().map(|s| s.source.as_str()).collect();
    if sources.len() > 1 {
        let lacking = empty_ones(engine, &header.requires)?;
        if !lacking.is_empty() {
            out.reason = Some(needs(&lacking));
            return Ok(out);
        }
    }
    let fail = |e: duckdb::Error| explained(engine.registry, file, e);
    engine.admit_file(file, file.query())?;
    out.reason = first_reason(engine, file)?;
    if out.reason.is_some() {
        return Ok(out);
    }
    let sql = with_remarks(file);
    engine.admit_file(file, &sql)?;
    let ask = |bound: &[(&str, SqlValue)]| query(engine, &sql, bound).map_err(fail);
    let batches = ask(&bound)?;
    let mut rows = json::rows(&batches);
    if rows.len() > 1 {
        return Err(Error::new(
            "check-failed",
            format!("the metric gives {} rows for one trace", rows.len()),
        )
        .at(file.path.clone())
        .hint("its grain is one row per trace: aggregate, or use LIST and MAP columns"));
    }
    let Some(mut row) = rows.pop() else {
        out.reason = Some(
            header
                .nulls
                .first()
                .cloned()
                .unwrap_or_else(|| "the trace has no rows for it".to_owned()),
        );
        return Ok(out);
    };
    let holds: Vec<bool> = (0..header.warns.len())
        .map(|i| row.shift_remove(&remark(i)) == Some(Value::Bool(true)))
        .collect();
    let answer = row.shift_remove(ANSWER);
    row.shift_remove("trace");
    let value_name = header.value.as_deref().unwrap_or_default();
    out.value = row.get(value_name).cloned().unwrap_or(Value::Null);
    if out.value.is_null() {
        out.reason =
            Some(header.nulls.first().cloned().unwrap_or_else(|| format!("{value_name} is NULL")));
    }
    for coverage in &header.coverage {
        let share = row.get(&coverage.left).and_then(Value::as_f64);
        if let Some(share) = share.filter(|s| *s < COVERAGE_WARNING) {
            out.warnings.push(match share {
                0.0 => format!("{} nowhere known", coverage.right),
                _ => format!("{} known for {:.1} % only", coverage.right, share * 100.0),
            });
        }
    }
    if !out.value.is_null() {
        let said: Vec<&Pair> =
            header.warns.iter().zip(holds).filter(|(_, holds)| *holds).map(|(w, _)| w).collect();
        out.warnings.extend(said.iter().map(|w| filled(&w.right, header, &row)));
        for (i, param) in header.params.iter().enumerate() {
            let explained = said.iter().any(|w| names_param(&w.left, &param.name));
            if explained || !params.contains_key(&param.name) {
                continue;
            }
            let (default, _) = bind(param, param.default.as_deref())?;
            if bound[i].1 == default {
                continue;
            }
            let mut without = bound.clone();
            without[i].1 = default;
            if ask(&without)? == batches {
                out.warnings.push(format!(
                    "{} changes nothing for this trace: the answer is the same without it",
                    param.name
                ));
            }
        }
        out.answer = answer.and_then(|a| a.as_str().map(str::to_owned));
    }
    out.details = row;
    let remarks = header.warns.len() + usize::from(header.answer.is_some());
    out.batch = match batches.into_iter().find(|b| b.num_rows() > 0) {
        Some(batch) if remarks > 0 => {
            let own: Vec<usize> = (0..batch.num_columns().saturating_sub(remarks)).collect();
            Some(batch.project(&own)?)
        }
        batch => batch,
    };
    Ok(out)
}

/// The first sentence of the header why the trace has no value (`@check`, `@reason`).
fn first_reason(engine: &Engine<'_>, file: &SqlFile) -> Result<Option<String>> {
    for check in &file.header.checks {
        let sql = format!("SELECT {}", check.reason());
        engine.admit_file(file, &sql)?;
        let reason: Option<String> = engine
            .connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(|e| explained(engine.registry, file, e))?;
        if reason.is_some() {
            return Ok(reason);
        }
    }
    Ok(None)
}

/// The column of the answer for people.
const ANSWER: &str = "@answer";

/// The column that says whether the warning at place `i` of the header holds.
fn remark(i: usize) -> String {
    format!("@warn {i}")
}

/// The query, and after its columns what the header makes of its row: warnings, and the answer.
pub(super) fn with_remarks(file: &SqlFile) -> String {
    let header = &file.header;
    let mut sql = String::new();
    for (i, warn) in header.warns.iter().enumerate() {
        sql.push_str(&format!(", CAST(({}) AS BOOLEAN) AS {}", warn.left, sql_name(&remark(i))));
    }
    if let Some(answer) = &header.answer {
        sql.push_str(&format!(", CAST(({answer}) AS VARCHAR) AS {}", sql_name(ANSWER)));
    }
    match sql.is_empty() {
        true => file.query().to_owned(),
        false => format!("SELECT result.*{sql}\nFROM (\n{}\n) AS result", file.query()),
    }
}

fn query(
    engine: &Engine<'_>,
    sql: &str,
    bound: &[(&str, SqlValue)],
) -> Result<Vec<RecordBatch>, duckdb::Error> {
    let mut statement = engine.connection.prepare(sql)?;
    // One that nothing names cannot be bound.
    let known: Vec<String> = (1..=statement.parameter_count())
        .map(|i| statement.parameter_name(i))
        .collect::<Result<_, _>>()?;
    let named: Vec<(&str, &dyn ToSql)> = bound
        .iter()
        .filter(|(name, _)| known.iter().any(|k| k == name))
        .map(|(name, value)| (*name, value as &dyn ToSql))
        .collect();
    Ok(statement.query_arrow(&named[..])?.collect())
}

/// Whether an expression names a parameter.
fn names_param(expression: &str, name: &str) -> bool {
    expression.split('$').skip(1).any(|rest| {
        rest.strip_prefix(name).is_some_and(|after| {
            !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    })
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

/// What is wrong with a query; of a table that the header does not list, how to list it.
pub(super) fn explained(registry: &Registry, file: &SqlFile, error: duckdb::Error) -> Error {
    let error = Error::from(error).at(file.path.clone());
    let Some((_, rest)) = error.message.split_once("Table with name ") else { return error };
    let Some((table, _)) = rest.split_once(" does not exist") else { return error };
    let tables = crate::schema::TABLES.iter().map(|t| t.name);
    let known: Vec<&str> = tables.chain(registry.views().map(|v| v.header.name.as_str())).collect();
    if known.contains(&table) {
        let message = format!("the query reads `{table}`, which its header does not list");
        return Error::new("sql", message).at(file.path.clone()).hint(format!(
            "add `-- @requires {table}`, or `-- @reads {table}` where it may be empty"
        ));
    }
    let message = format!("the query reads `{table}`, and there is no such table or view");
    Error::new("sql", message).at(file.path.clone()).hint(match nearest(table, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ccl-sql list tables` shows them".to_owned(),
    })
}

/// The reason of a metric that lacks tables.
pub(super) fn needs(lacking: &[&str]) -> String {
    let mut all: Vec<String> = lacking.iter().map(|l| spoken(l)).collect();
    all.dedup();
    format!("it needs {}, and this trace has none", all.join(" and "))
}

/// Those of the tables that have no rows.
fn empty_ones<'a>(engine: &Engine, names: &'a [String]) -> Result<Vec<&'a str>> {
    let mut out = Vec::new();
    for name in names.iter().filter(|name| crate::schema::table(name).is_some()) {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", sql_name(name));
        if !engine.connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
            out.push(name.as_str());
        }
    }
    Ok(out)
}

/// A table in a sentence: its name, but for those whose name says little.
fn spoken(table: &str) -> String {
    match table {
        "kernel_times" => "kernels".to_owned(),
        "busy_intervals" => "work of devices".to_owned(),
        "cards" => "a workload card".to_owned(),
        "collective_calls" => "calls that are matched over ranks".to_owned(),
        "collectives" => "communication".to_owned(),
        "fsdp_ranges" => "ranges of FSDP".to_owned(),
        "memory_events" | "memory_segments" | "memory_blocks" => "a memory snapshot".to_owned(),
        other => other.replace('_', " "),
    }
}
