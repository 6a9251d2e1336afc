//! The library: a data directory, and answers as Arrow.
//!
//! A call says what the command line says, and its answer comes back in place of being printed:
//! same SQL, same numbers, same errors. Options are words of the command line, and are checked
//! as such: `["--keep-partial", "--name", "run_a"]`.

mod calls;
pub(crate) mod rows;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
#[cfg(feature = "extension")]
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

pub use self::calls::{Progress, progress, stop};
use self::calls::{Running, running};
pub use self::rows::{Column, Type};
use self::rows::{FINDING, INGEST, METRIC, METRICS, TRACES, batch};
use crate::cli::args::{Cli, Command, What};
use crate::cli::context::Context;
use crate::cli::diagnose::diagnosed;
use crate::cli::list::grid;
use crate::cli::reading::{ingest_paths, options};
use crate::cli::results::compute;
#[cfg(feature = "extension")]
use crate::cli::results::{table, with_reasons};
use crate::cli::statement::Session;
use crate::cli::{line_of, prepare, run};
use crate::engine::diagnose::Finding;
use crate::engine::metric::MetricResult;
#[cfg(feature = "extension")]
use crate::engine::metric::{check_params, schema};
#[cfg(feature = "extension")]
use crate::engine::{Definition, definitions};
use crate::error::{Error, Result, io};
use crate::ingest::options::Summary;
use crate::registry::SqlFile;
use crate::report::diagnosis::Diagnosis;
use crate::schema::source::joined;
use crate::store::scratch::Scratch;

/// A data directory: the traces that were ingested into it.
///
/// It is opened anew by each call, so that a value of this type holds no file and no memory, and
/// may be used by several threads.
#[derive(Debug, Clone)]
pub struct Data {
    path: PathBuf,
    token: String,
}

/// Names a data directory; the first ingest makes it.
///
/// ```no_run
/// # fn main() -> ccl_sql::Result<()> {
/// let data = ccl_sql::open("ccl-data");
/// data.ingest(&["trace_collection/llama-tiny-fsdp2-tp2-4"], &[])?;
/// let batches = data.sql("SELECT collective, count(*) AS calls FROM collectives GROUP BY ALL")?;
/// # Ok(())
/// # }
/// ```
pub fn open(path: impl Into<PathBuf>) -> Data {
    Data { path: path.into(), token: String::new() }
}

/// A file that a command wrote, as bytes.
#[derive(Debug, Clone)]
pub struct Output {
    /// The bytes.
    pub content: Vec<u8>,
    /// What could not be computed, or was found to be beyond a limit (`--fail-on`).
    pub errors: Vec<Error>,
}

impl Data {
    /// The same with a word by which its calls are known to [`progress`] and [`stop`].
    #[must_use]
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self { token: token.into(), ..self }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads traces: files, and folders with all below. `options` are those of `ccl-sql ingest`.
    ///
    /// A row for each trace, and one for each fault: `trace`, `source`, `ranks`, `ranks_read`,
    /// `events`, `bytes` (uncompressed), `seconds`, `unchanged`, `findings` (JSON), `error`.
    ///
    /// # Errors
    /// `usage`, `nothing-found`, `interrupted`, and `io`; what concerns one file is in its row.
    pub fn ingest<P: AsRef<OsStr>>(&self, paths: &[P], options: &[&str]) -> Result<RecordBatch> {
        let call = running(&self.token);
        let (context, command) = self.line("ingest", options, paths, &call)?;
        let Command::Ingest(args) = command else { return Err(other_command()) };
        let mut options = self::options(&context, &args.reading);
        options.force = context.global.force;
        let outcome = ingest_paths(&context, &args.paths, &options).map_err(first)?;
        if call.is_stopped() {
            return Err(outcome.errors.into_iter().next().unwrap_or_else(other_command));
        }
        let mut rows: Vec<Vec<Value>> = outcome.traces.iter().map(ingested).collect();
        for error in &outcome.errors {
            let mut row = vec![Value::Null; INGEST.len()];
            row[INGEST.len() - 1] = error.to_string().into();
            rows.push(row);
        }
        batch(INGEST, rows)
    }

    /// The traces that are there, a row each: `trace`, `source`, `ranks`, `events`, `findings`
    /// (their number), `path`.
    ///
    /// # Errors
    /// None but those of Arrow.
    pub fn traces(&self) -> Result<RecordBatch> {
        let (context, _) = self.line::<&str>("list", &[], &[], &running(&self.token))?;
        batch(TRACES, grid(&context, What::Traces).rows)
    }

    /// The metrics that are known, a row each: `metric`, `area`, `unit`, `better` (`lower` or
    /// `higher`), `sources`, `nvtx`, `version`, `summary`, `params` (JSON).
    ///
    /// # Errors
    /// None but those of Arrow.
    pub fn metrics(&self) -> Result<RecordBatch> {
        let (context, _) = self.line::<&str>("list", &[], &[], &running(&self.token))?;
        batch(METRICS, context.registry.metrics().map(known_metric).collect())
    }

    /// Metrics of traces: names, or `*` for every metric. `options` are those of
    /// `ccl-sql metric`: `["--trace", "run_a", "-p", "min_calls=5"]`.
    ///
    /// A row per trace and metric: `trace`, `metric`, `version`, `value`, `text` (a value that is
    /// no number), `unit`, `reason` (why there is no value), `answer` (words beside it),
    /// `warnings`, `details` and `params` (JSON), `sql_sha256`, `fingerprint` (of the bytes of the
    /// trace).
    ///
    /// # Errors
    /// `metric-unknown`, `param-invalid`, `trace-unknown`, and those of an ingest where a trace is
    /// given by path.
    pub fn metric(&self, names: &[&str], options: &[&str]) -> Result<RecordBatch> {
        let call = running(&self.token);
        let all = names == ["*"];
        let names = if all { &["--all"][..] } else { names };
        let (context, command) = self.line("metric", options, names, &call)?;
        let Command::Metric(args) = command else { return Err(other_command()) };
        let _running = context.interrupt.begin();
        let mut results = compute(&context, &args).map_err(first)?;
        // Its row has the reason.
        results.errors.retain(|error| error.code != "metric-not-applicable");
        match results.errors.into_iter().next() {
            Some(error) if !all => Err(error),
            _ => batch(METRIC, results.results.iter().map(metric_row).collect()),
        }
    }

    /// The columns of [`Data::metric_table`], without computing it.
    #[cfg(feature = "extension")]
    pub(crate) fn metric_schema(&self, name: &str, options: &[&str]) -> Result<SchemaRef> {
        let (context, command) = self.line("metric", options, &[name], &running(&self.token))?;
        let Command::Metric(args) = command else { return Err(other_command()) };
        let file = context.registry.metric(name)?;
        check_params(&[file], &args.param.into_iter().collect())?;
        Ok(with_reasons(&schema(&context.registry, &context.settings(), file)?))
    }

    /// One metric with its own columns, `null_reason` and `warnings`: a batch of a row for each
    /// trace.
    ///
    /// # Errors
    /// As [`Data::metric`].
    #[cfg(feature = "extension")]
    pub(crate) fn metric_table(&self, name: &str, options: &[&str]) -> Result<Vec<RecordBatch>> {
        let call = running(&self.token);
        let (context, command) = self.line("metric", options, &[name], &call)?;
        let Command::Metric(mut args) = command else { return Err(other_command()) };
        args.names = vec![name.to_owned()];
        let _running = context.interrupt.begin();
        if args.trace.is_empty() && context.store.traces().is_empty() {
            return Ok(Vec::new());
        }
        let mut results = compute(&context, &args).map_err(first)?;
        results.errors.retain(|error| error.code != "metric-not-applicable");
        if let Some(error) = results.errors.into_iter().next() {
            return Err(error);
        }
        let file = context.registry.metric(name)?;
        Ok(table(&context, file, results.results.iter())?.1)
    }

    /// What is wrong with a trace, a row per finding, the largest gain first. `options` are those
    /// of `ccl-sql diagnose`.
    ///
    /// A row: `trace`, `diagnosis`, `version`, `finding`, `where` (JSON), `time_per_step_ms`,
    /// `gain_ms`, `gain_pct` (of a step), `confidence`, `limits`, `advice`, `evidence` (SQL),
    /// `shown` (the metric or view that shows it).
    ///
    /// # Errors
    /// As [`Data::report`].
    pub fn diagnose(&self, traces: &[&str], options: &[&str]) -> Result<RecordBatch> {
        let call = running(&self.token);
        let (context, command) = self.line("diagnose", options, traces, &call)?;
        let Command::Diagnose(args) = command else { return Err(other_command()) };
        let _running = context.interrupt.begin();
        let (diagnosed, errors) = diagnosed(&context, &args).map_err(first)?;
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let rows = diagnosed.iter().flat_map(|(trace, diagnosis)| {
            let row = |f| finding_row(&trace.trace, diagnosis, f);
            diagnosis.findings().into_iter().map(row).collect::<Vec<_>>()
        });
        batch(FINDING, rows.collect())
    }

    /// The rows of one `SELECT`, over every table and view of the directory.
    ///
    /// # Errors
    /// `sql`.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        let call = running(&self.token);
        let (context, _) = self.line("sql", &[], &[query], &call)?;
        let _running = context.interrupt.begin();
        let session = Session::open(&context, &[], false).map_err(first)?;
        session.with_named(query, || {
            let mut statement = session.engine.connection.prepare(query)?;
            Ok(statement.query_arrow([])?.collect())
        })
    }

    /// The report of a trace, in the form of `ending`: `html`, `xlsx`, `json`, `md` or `txt`.
    /// `options` are those of `ccl-sql report`.
    ///
    /// # Errors
    /// `trace-unknown`, `usage`, and those of an ingest where the trace is given by path.
    pub fn report(&self, trace: &str, ending: &str, options: &[&str]) -> Result<Output> {
        self.output("report", options, &[trace], ending)
    }

    /// Runs beside a baseline, in the form of `ending`: `html`, `xlsx`, `json`, `csv` or `txt`.
    /// `options` are those of `ccl-sql compare`.
    ///
    /// # Errors
    /// As [`Data::report`].
    pub fn compare(
        &self,
        base: &str,
        tests: &[&str],
        ending: &str,
        options: &[&str],
    ) -> Result<Output> {
        let runs: Vec<&str> = std::iter::once(base).chain(tests.iter().copied()).collect();
        self.output("compare", options, &runs, ending)
    }

    /// The tables and views over the traces that are there, each behind those that it reads, for
    /// a connection of the caller's own.
    #[cfg(feature = "extension")]
    pub(crate) fn definitions(&self, options: &[&str]) -> Result<Vec<Definition>> {
        let (context, _) = self.line::<&str>("list", options, &[], &running(&self.token))?;
        let directories = context.directories(&context.usable()?)?;
        Ok(definitions(&context.registry, &directories))
    }

    /// Runs a command that writes a file, and takes the file.
    fn output(
        &self,
        command: &str,
        options: &[&str],
        words: &[&str],
        ending: &str,
    ) -> Result<Output> {
        if ending.is_empty() || !ending.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(Error::new("usage", format!("{ending:?} is no form of a file"))
                .hint("html, xlsx, json, md, csv or txt"));
        }
        let call = running(&self.token);
        let scratch = Scratch::below(&[&std::env::temp_dir(), &self.path])
            .ok_or_else(|| Error::new("io", "there is no temporary folder that can be written"))?;
        let path = scratch.path.join(format!("{command}.{ending}"));
        let place = format!("--output={}", path.display());
        let form = if ending == "txt" { "text" } else { ending };
        let form = if (command, form) == ("compare", "text") { "table" } else { form };
        let form = format!("--format={form}");
        let options: Vec<&str> = options.iter().copied().chain([&*place, &*form]).collect();
        let (context, command) = self.line(command, &options, words, &call)?;
        let _running = context.interrupt.begin();
        let errors = run(&context, &command).err().map_or_else(Vec::new, |errors| errors.0);
        match std::fs::read(&path) {
            Ok(content) => Ok(Output { content, errors }),
            Err(e) => Err(errors.into_iter().next().unwrap_or_else(|| io(&path, &e))),
        }
    }

    /// The command line of a call: a command, its options, and words that are none.
    fn line<W: AsRef<OsStr>>(
        &self,
        command: &str,
        options: &[&str],
        words: &[W],
        call: &Running,
    ) -> Result<(Context, Command)> {
        let mut line: Vec<OsString> = vec!["ccl-sql".into(), command.into()];
        line.extend(options.iter().map(OsString::from));
        let mut data = OsString::from("--data=");
        data.push(&self.path);
        line.push(data);
        match words {
            [all] if command == "metric" && all.as_ref() == "--all" => line.push("--all".into()),
            words => {
                line.push("--".into());
                line.extend(words.iter().map(|word| word.as_ref().to_owned()));
            }
        }
        let Cli { global, command } = line_of(line)?;
        let context = Context::new(global, call.watcher())?;
        prepare(&context, &command)?;
        call.interrupts(&context.interrupt);
        Ok((context, command))
    }
}

/// The first of several errors: a call has one answer.
fn first(errors: crate::cli::errors::Errors) -> Error {
    errors.0.into_iter().next().unwrap_or_else(other_command)
}

/// Options made another command of a command line.
fn other_command() -> Error {
    Error::new("usage", "the options are of another command")
}

fn ingested(summary: &Summary) -> Vec<Value> {
    let findings: Vec<Value> = summary
        .findings
        .iter()
        .map(|(file, f)| {
            json!({
                "code": f.code, "severity": f.severity.word(), "count": f.count, "file": file,
                "offset": f.first_offset, "message": f.message,
            })
        })
        .collect();
    vec![
        summary.trace.as_str().into(),
        joined(&summary.sources, "+").into(),
        summary.ranks.into(),
        summary.ranks_read.into(),
        summary.events.into(),
        summary.bytes.into(),
        summary.seconds.into(),
        summary.unchanged.into(),
        Value::Array(findings).to_string().into(),
        Value::Null,
    ]
}

fn known_metric(file: &SqlFile) -> Vec<Value> {
    let h = &file.header;
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let params: Vec<Value> = h
        .params
        .iter()
        .map(|p| json!({"name": p.name, "type": p.ty, "default": p.default, "doc": p.doc}))
        .collect();
    vec![
        h.name.as_str().into(),
        text(&h.area),
        h.unit().map_or(Value::Null, Value::from),
        h.value_column().and_then(|c| c.better.as_deref()).map_or(Value::Null, Value::from),
        h.profilers.join(" ").into(),
        text(&h.nvtx),
        h.version.into(),
        h.summary.as_str().into(),
        Value::Array(params).to_string().into(),
    ]
}

fn finding_row(trace: &str, diagnosis: &Diagnosis, f: &Finding) -> Vec<Value> {
    vec![
        trace.into(),
        f.diagnosis.as_str().into(),
        f.version.into(),
        f.finding.as_str().into(),
        Value::Object(f.place.clone()).to_string().into(),
        f.time_per_step_ms.into(),
        f.gain_ms.into(),
        f.gain_ms.and_then(|ms| diagnosis.share_pct(ms)).into(),
        f.confidence().into(),
        f.limits.clone().into(),
        f.advice.as_str().into(),
        f.evidence.as_str().into(),
        f.shown.as_str().into(),
    ]
}

fn metric_row(r: &MetricResult) -> Vec<Value> {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::from);
    vec![
        r.trace.as_str().into(),
        r.metric.as_str().into(),
        r.version.into(),
        r.value.clone(),
        if r.value.is_number() { Value::Null } else { r.value.clone() },
        text(&r.unit),
        text(&r.reason),
        text(&r.answer),
        r.warnings.clone().into(),
        Value::Object(r.details.clone()).to_string().into(),
        Value::Object(r.params.clone()).to_string().into(),
        r.sql_sha256.as_str().into(),
        r.trace_fingerprint.as_str().into(),
    ]
}
