//! The table functions: what the library answers, as rows.

use std::sync::Arc;

use arrow::array::{BinaryArray, RecordBatch};
use serde_json::Value;

use crate::api::rows::{FINDING, INGEST, METRIC, METRICS, TRACES, batch, schema};
use crate::api::{self, Column, Output, Type};
use crate::error::{Error, Result};
use crate::extension::answer::Function;
use crate::extension::call::Call;

/// Columns of a file that a command writes.
const OUTPUT: &[Column] =
    &[("name", Type::Text), ("content", Type::Bytes), ("errors", Type::Texts)];

/// References to texts, as the library takes them.
fn refs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The words of a text with commas, or of a list.
fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|w| !w.is_empty()).collect()
}

/// The texts of an argument, of which there must be some.
fn given<'c>(call: &'c Call, argument: usize, what: &str) -> Result<&'c [String]> {
    let texts = &call.arguments[argument];
    if texts.is_empty() {
        return Err(Error::new("usage", format!("{what} is NULL or an empty list")));
    }
    Ok(texts)
}

/// `ccl_traces()`.
pub struct Traces;

impl Function for Traces {
    const NAME: &'static str = "ccl_traces";
    const ARGUMENTS: usize = 0;
    const NAMED: &'static [&'static str] = &["data"];
    const COLUMNS: &'static [Column] = TRACES;

    fn answer(call: &Call) -> Result<RecordBatch> {
        call.data()?.traces()
    }
}

/// `ccl_metrics()`.
pub struct Metrics;

impl Function for Metrics {
    const NAME: &'static str = "ccl_metrics";
    const ARGUMENTS: usize = 0;
    const NAMED: &'static [&'static str] = &[];
    const COLUMNS: &'static [Column] = METRICS;

    fn answer(_: &Call) -> Result<RecordBatch> {
        // The files of the program alone are read.
        api::open(".").metrics()
    }
}

/// `ccl_metric('NAME')`.
pub struct Metric;

impl Function for Metric {
    const NAME: &'static str = "ccl_metric";
    const ARGUMENTS: usize = 1;
    const NAMED: &'static [&'static str] = &["trace", "params", "data", "options", "token"];
    const COLUMNS: &'static [Column] = METRIC;

    fn answer(call: &Call) -> Result<RecordBatch> {
        let names = given(call, 0, "the name of the metric")?;
        let mut options = call.options(&[("trace", "--trace")]);
        // A list has one parameter in each text, which may hold commas.
        let params = call.named("params");
        let params = if params.len() == 1 { words(params) } else { refs(params) };
        options.extend(params.iter().map(|param| format!("--param={param}")));
        call.data()?.metric(&words(names), &refs(&options))
    }
}

/// `ccl_diagnose('TRACE')`.
pub struct Diagnose;

impl Function for Diagnose {
    const NAME: &'static str = "ccl_diagnose";
    const ARGUMENTS: usize = 1;
    const NAMED: &'static [&'static str] = &["data", "options", "token"];
    const COLUMNS: &'static [Column] = FINDING;

    fn answer(call: &Call) -> Result<RecordBatch> {
        let traces = given(call, 0, "the trace")?;
        call.data()?.diagnose(&refs(traces), &refs(&call.options(&[])))
    }
}

/// `ccl_ingest('PATH')`.
pub struct Ingest;

impl Function for Ingest {
    const NAME: &'static str = "ccl_ingest";
    const ARGUMENTS: usize = 1;
    const NAMED: &'static [&'static str] = &["data", "options", "token"];
    const COLUMNS: &'static [Column] = INGEST;

    fn answer(call: &Call) -> Result<RecordBatch> {
        let paths = given(call, 0, "the path")?;
        call.data()?.ingest(paths, &refs(&call.options(&[])))
    }
}

/// The row of [`OUTPUT`] for a file.
fn output(name: &str, content: &[u8], errors: Vec<String>) -> Result<RecordBatch> {
    let row = vec![name.into(), Value::Null, errors.into()];
    let mut columns = batch(OUTPUT, vec![row])?.columns().to_vec();
    columns[1] = Arc::new(BinaryArray::from_vec(vec![content]));
    Ok(RecordBatch::try_new(Arc::new(schema(OUTPUT)), columns)?)
}

/// The row of a file.
fn file(what: &str, ending: &str, written: Output) -> Result<RecordBatch> {
    let errors = written.errors.iter().map(ToString::to_string).collect();
    output(&format!("{what}.{ending}"), &written.content, errors)
}

/// The ending of the file that a call wants.
fn ending(call: &Call) -> &str {
    call.one("format").unwrap_or("html")
}

/// `ccl_report('TRACE')`.
pub struct Report;

impl Function for Report {
    const NAME: &'static str = "ccl_report";
    const ARGUMENTS: usize = 1;
    const NAMED: &'static [&'static str] = &["format", "data", "options", "token"];
    const COLUMNS: &'static [Column] = OUTPUT;

    fn answer(call: &Call) -> Result<RecordBatch> {
        let [trace] = given(call, 0, "the trace")? else {
            return Err(Error::new("usage", "a report is of one trace"));
        };
        let options = call.options(&[]);
        file("report", ending(call), call.data()?.report(trace, ending(call), &refs(&options))?)
    }
}

/// `ccl_compare('BASE', ['TEST'])`.
pub struct Compare;

impl Function for Compare {
    const NAME: &'static str = "ccl_compare";
    const ARGUMENTS: usize = 2;
    const NAMED: &'static [&'static str] = &["format", "data", "options", "token"];
    const COLUMNS: &'static [Column] = OUTPUT;

    fn answer(call: &Call) -> Result<RecordBatch> {
        let [base] = given(call, 0, "the baseline")? else {
            return Err(Error::new("usage", "a baseline is one trace"));
        };
        let tests = refs(given(call, 1, "the run to compare with it")?);
        let (data, options) = (call.data()?, call.options(&[]));
        file("compare", ending(call), data.compare(base, &tests, ending(call), &refs(&options))?)
    }
}

/// `ccl_progress()`.
pub struct Progress;

impl Function for Progress {
    const NAME: &'static str = "ccl_progress";
    const ARGUMENTS: usize = 0;
    const NAMED: &'static [&'static str] = &[];
    const COLUMNS: &'static [Column] = &[
        ("token", Type::Text),
        ("job", Type::Text),
        ("phase", Type::Text),
        ("bytes_read", Type::Integer),
        ("bytes_total", Type::Integer),
    ];

    fn answer(_: &Call) -> Result<RecordBatch> {
        let row = |p: api::Progress| -> Vec<Value> {
            let (job, phase) = (p.job.into(), p.phase.into());
            vec![p.token.into(), job, phase, p.bytes_read.into(), p.bytes_total.into()]
        };
        batch(Self::COLUMNS, api::progress().into_iter().map(row).collect())
    }
}

/// `ccl_stop()`.
pub struct Stop;

impl Function for Stop {
    const NAME: &'static str = "ccl_stop";
    const ARGUMENTS: usize = 0;
    const NAMED: &'static [&'static str] = &["token"];
    const COLUMNS: &'static [Column] = &[("calls", Type::Integer)];

    fn answer(call: &Call) -> Result<RecordBatch> {
        batch(Self::COLUMNS, vec![vec![api::stop(call.one("token")).into()]])
    }
}
