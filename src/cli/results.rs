//! Results of metrics on traces, for `metric` and for `.run` of the shell.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ListBuilder, RecordBatch, StringArray, StringBuilder, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::Value;

use crate::cli::args::{Engine, MetricArgs, ProfileMode};
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::select::traces;
use crate::cli::spread::spread;
use crate::engine::metric::{MetricResult, Params, check_params, schema};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::registry::header::Header;
use crate::report::Grid;

/// The column of a metric's table that says why a trace has no value.
pub const NULL_REASON: &str = "null_reason";

/// Results of metrics on traces.
pub struct Results<'c> {
    /// The metrics.
    pub files: Vec<&'c SqlFile>,
    /// Results by trace, of the metrics in their order.
    pub results: Vec<MetricResult>,
    /// Errors of metrics that have no value anywhere, or could not be computed.
    pub errors: Vec<Error>,
}

impl Results<'_> {
    /// Whether there is any value.
    pub fn answered(&self) -> bool {
        self.results.iter().any(|r| !r.value.is_null())
    }

    /// The header of a result's metric.
    pub fn header(&self, result: &MetricResult) -> &Header {
        let of =
            |f: &&&SqlFile| f.header.name == result.metric && f.header.version == result.version;
        &self.files.iter().find(of).expect("a result is of a metric that was asked for").header
    }

    /// One object for one metric on one trace, an array for several.
    pub fn json(&self) -> Value {
        let mut objects: Vec<Value> = self.results.iter().map(MetricResult::json).collect();
        if objects.len() == 1 { objects.remove(0) } else { Value::Array(objects) }
    }

    /// An error for each metric that has no value on any trace.
    fn without_values(&self) -> Vec<Error> {
        let error = |file: &&SqlFile| {
            let of_metric: Vec<&MetricResult> = self
                .results
                .iter()
                .filter(|r| r.metric == file.header.name && r.version == file.header.version)
                .collect();
            let answers = of_metric.iter().any(|r| !r.value.is_null());
            (!of_metric.is_empty() && !answers).then(|| not_applicable(file, &of_metric))
        };
        self.files.iter().filter_map(error).collect()
    }

    /// Says on standard error why metrics have no value, and what their values rest on.
    pub fn say(&self, context: &Context) {
        for error in self.without_values() {
            let place = error.place.as_deref().unwrap_or_default();
            context.printer.note(&format!("note: {} ({place})", error.message));
        }
        notes(context, &self.results, false);
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
pub fn compute<'c>(context: &'c Context, args: &MetricArgs) -> Result<Results<'c>, Errors> {
    let registry = &context.registry;
    let mut files: Vec<&SqlFile> = if args.all {
        registry.metrics().collect()
    } else {
        args.names.iter().map(|n| registry.metric(n)).collect::<Result<_>>()?
    };
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.id()));
    let params = parameters(context, args, &files);
    if !args.all {
        check_params(&files, &params)?;
    }
    let traces = traces(context, &args.trace, &args.reading)?;
    let directories = context.directories_to_ask(&traces)?;
    let cluster = args.engine.as_ref();
    let mut out = computed(context, files, &params, args.profile_mode, &directories, cluster)?;
    if !args.all {
        out.errors.extend(out.without_values());
    }
    notes(context, &out.results, args.all);
    let warned = out.results.iter().any(|r| !r.warnings.is_empty());
    if context.global.strict && out.errors.is_empty() && warned {
        out.errors.push(Error::new("strict", "there are warnings, and --strict was given"));
    }
    Ok(out)
}

/// Results of metrics on the traces of some directories, and the errors of those that failed.
/// The machines of a cluster do the work where one is named.
///
/// # Errors
/// Faults of a trace as a whole.
pub fn computed<'c>(
    context: &'c Context,
    files: Vec<&'c SqlFile>,
    params: &Params,
    mode: ProfileMode,
    directories: &[PathBuf],
    cluster: Option<&Engine>,
) -> Result<Results<'c>> {
    let mut results = Vec::new();
    let mut errors = Vec::new();
    let mut batch = Batch::new(context, &files, params, mode, directories);
    spread(context, cluster, &batch)?;
    for directory in directories {
        for outcome in batch.trace(directory)?.results {
            match outcome {
                Ok(result) => results.push(result),
                // What is wrong with a metric or a parameter is wrong on every trace: said once.
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    drop(batch);
    Ok(Results { files, results, errors })
}

/// Parameters of the metrics; says of a known one that none of them has what it is for.
fn parameters(context: &Context, args: &MetricArgs, files: &[&SqlFile]) -> Params {
    let mut params: Params = args.param.iter().cloned().collect();
    for (key, value) in [("n_chips", &args.n_chips), ("model_params", &args.model_params)] {
        let Some(value) = value else { continue };
        // Scripts give these whatever the metric is.
        let is_used = |f: &&SqlFile| f.header.params.iter().any(|p| p.name == key);
        if files.iter().any(is_used) {
            params.insert(key.to_owned(), value.clone());
            continue;
        }
        let with = context.registry.metrics().filter(is_used).map(|f| f.header.name.as_str());
        context.printer.note(&format!(
            "note: {key} changes nothing here: it is a parameter of {} alone",
            with.collect::<Vec<_>>().join(", ")
        ));
    }
    params
}

/// The error of a metric that has no value on any trace.
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

/// Results of one metric as a table, a batch for each trace: its columns, the reason where a trace
/// has no value, and the warnings.
///
/// # Errors
/// `sql` where no trace has a row and the columns cannot be asked for, `io` when the rows do not
/// fit together.
pub fn table<'r>(
    context: &Context,
    file: &SqlFile,
    results: impl Iterator<Item = &'r MetricResult> + Clone,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let own = match results.clone().find_map(|r| r.batch.as_ref()) {
        Some(batch) => batch.schema(),
        None => schema(&context.registry, &context.settings(), file)?,
    };
    let whole = with_reasons(&own);
    let rows = results.map(|result| {
        let mut columns = row(result, &own)?.columns().to_vec();
        for field in &whole.fields()[own.fields().len()..] {
            columns.push(match field.name().as_str() {
                NULL_REASON => Arc::new(StringArray::from(vec![result.reason.clone()])) as _,
                _ => {
                    let mut texts = ListBuilder::new(StringBuilder::new());
                    result.warnings.iter().for_each(|w| texts.values().append_value(w));
                    texts.append(true);
                    Arc::new(texts.finish()) as _
                }
            });
        }
        Ok(RecordBatch::try_new(whole.clone(), columns)?)
    });
    let rows = rows.collect::<Result<_>>()?;
    Ok((whole, rows))
}

/// The row of a result; one without a value has the trace, and NULLs.
fn row(result: &MetricResult, schema: &SchemaRef) -> Result<RecordBatch> {
    if let Some(batch) = &result.batch {
        return Ok(batch.clone());
    }
    let columns = schema.fields().iter().map(|f| match f.name().as_str() {
        "trace" => Arc::new(StringArray::from(vec![result.trace.clone()])) as _,
        _ => new_null_array(f.data_type(), 1),
    });
    Ok(RecordBatch::try_new(schema.clone(), columns.collect())?)
}

/// The columns of a metric as a table, of those of its query. One of its own comes first.
pub fn with_reasons(own: &SchemaRef) -> SchemaRef {
    let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    let added = [(NULL_REASON, DataType::Utf8), ("warnings", texts)];
    let mut fields: Vec<Arc<Field>> = own.fields().iter().cloned().collect();
    for (name, ty) in added {
        if own.index_of(name).is_err() {
            fields.push(Arc::new(Field::new(name, ty, true)));
        }
    }
    Arc::new(Schema::new(fields))
}

/// One metric: its own columns, a row per trace; a trace without a value has NULLs.
fn own_columns(results: &[MetricResult], value: &str) -> Result<Grid> {
    let Some(schema) = results.iter().find_map(|r| r.batch.as_ref().map(RecordBatch::schema))
    else {
        return Ok(long(results));
    };
    let batches = results.iter().map(|r| row(r, &schema)).collect::<Result<Vec<_>>>()?;
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
                if r.details.is_empty() {
                    Value::Null
                } else {
                    Value::Object(r.details.clone()).to_string().into()
                },
            ]
        })
        .collect();
    let columns = ["trace", "metric", "version", "value", "unit", "reason", "details"];
    Grid { value_column: 3, ..Grid::of_rows(&columns, rows) }
}
