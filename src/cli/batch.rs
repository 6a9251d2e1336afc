//! Metrics over traces: one database for all of them, each trace shown in it in turn.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Context;
use super::args::ProfileMode;
use super::progress::Steps;
use crate::engine::run::{MetricResult, Params, run};
use crate::engine::sheet::{Rows, rows};
use crate::engine::{Engine, ResultRow, Shown, interrupt};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::document::{MOST_ROWS, Sheet};
use crate::store::manifest::{Manifest, identity};

/// Why nothing that is measured can be said of execution traces.
const ET_ALONE: &str = "the trace holds execution traces alone, which record no times and nothing of devices; ingest them together with the Kineto traces of the run";

/// What is asked of every trace, and the database that answers.
pub struct Batch<'a, 'c> {
    context: &'c Context,
    files: &'a [&'c SqlFile],
    /// Views whose rows are wanted too.
    views: &'a [&'c SqlFile],
    params: &'a Params,
    mode: ProfileMode,
    directories: &'a [PathBuf],
    engine: Option<Engine<'c>>,
    steps: Steps,
}

impl<'a, 'c> Batch<'a, 'c> {
    /// Metrics of the traces in `directories`.
    pub fn new(
        context: &'c Context,
        files: &'a [&'c SqlFile],
        params: &'a Params,
        mode: ProfileMode,
        directories: &'a [PathBuf],
    ) -> Self {
        let steps = Steps::new(context.global.quiet, files.len() * directories.len());
        Self { context, files, views: &[], params, mode, directories, engine: None, steps }
    }

    /// Views whose rows are asked for beside the metrics.
    #[must_use]
    pub fn with_views(self, views: &'a [&'c SqlFile]) -> Self {
        let steps = Steps::new(
            self.context.global.quiet,
            (self.files.len() + views.len()) * self.directories.len(),
        );
        Self { views, steps, ..self }
    }

    /// What each metric says of a trace, and the rows of each view.
    ///
    /// # Errors
    /// `interrupted`, and what is wrong with the trace as a whole.
    pub fn trace(&mut self, directory: &Path) -> Result<Answers> {
        loop {
            let before = identity(directory);
            let out = self.answers(directory)?;
            // An ingest may have put another trace in its place: then tables were read of both.
            if identity(directory) == before {
                return Ok(out);
            }
            self.engine = None;
            self.steps.back(out.results.len() + out.rows.len());
        }
    }

    fn say(&self, name: &str, trace: &str, began: Instant) {
        if self.context.printer.verbose() {
            let ms = began.elapsed().as_millis();
            self.context.printer.note(&format!("{name} of {trace}: {ms} ms"));
        }
    }

    fn answers(&mut self, directory: &Path) -> Result<Answers> {
        let manifest = Manifest::read(directory)?;
        let sources = manifest.kinds();
        let profilers = profilers(&manifest);
        let wanted = self.mode.source().or(profilers.first().copied());
        let source = source(&manifest, self.mode);
        let mut shown = false;
        let mut results = Vec::new();
        for file in self.files {
            let mut outcome =
                self.ask(directory, source, &manifest, file, &mut shown, |engine| {
                    run(engine, &manifest, file, self.params)
                })?;
            if let (Ok(result), ["et"]) = (&mut outcome, &profilers[..])
                && result.value.is_null()
            {
                result.reason = Some(ET_ALONE.to_owned());
            }
            if let (Ok(result), Some(wanted)) = (&mut outcome, wanted) {
                if !sources.contains(&wanted) {
                    without_source(result, wanted);
                } else if profilers.len() > 1
                    && self.mode == ProfileMode::Auto
                    && !result.value.is_null()
                {
                    result.warnings.push(format!(
                        "the trace is of {}; this is of {wanted} (see --profile-mode)",
                        profilers.join(" and ")
                    ));
                }
            }
            results.push(outcome);
        }
        let mut all = Vec::new();
        for view in self.views {
            all.push(self.ask(directory, source, &manifest, view, &mut shown, |engine| {
                rows(engine, view, &[], MOST_ROWS)
            })?);
        }
        Ok(Answers { results, rows: all, manifest })
    }

    /// Asks the database, in which the trace is, for one file.
    fn ask<T>(
        &mut self,
        directory: &Path,
        source: Option<&str>,
        manifest: &Manifest,
        file: &SqlFile,
        shown: &mut bool,
        question: impl FnOnce(&Engine<'c>) -> Result<T>,
    ) -> Result<Result<T>> {
        self.steps.next(&manifest.trace, &file.header.name);
        let began = Instant::now();
        let engine = match self.engine.take() {
            Some(engine) if *shown => engine,
            other => self.show(other, directory, source)?,
        };
        *shown = true;
        let outcome = question(&engine);
        if outcome.is_ok() {
            self.engine = Some(engine);
        } else if self.context.interrupt.asked() {
            return Err(interrupt::error());
        }
        // A database that failed once may be of no more use: the next question opens another.
        *shown = outcome.is_ok();
        self.say(&file.header.name, &manifest.trace, began);
        Ok(outcome)
    }

    /// A database with the trace in its tables.
    fn show(
        &self,
        engine: Option<Engine<'c>>,
        directory: &Path,
        source: Option<&str>,
    ) -> Result<Engine<'c>> {
        let engine = match engine {
            Some(engine) => engine,
            None => {
                let registry = &self.context.registry;
                let settings = self.context.settings();
                let files: Vec<&SqlFile> = self.files.iter().chain(self.views).copied().collect();
                let engine = Engine::open(self.directories, registry, &settings)?.keeping(&files);
                // The lock first: views of a user's folder are bound behind it too.
                engine.lock_down()?;
                engine
            }
        };
        let source = source.map(str::to_owned);
        engine.show(vec![Shown { directory: directory.to_owned(), source }])?;
        Ok(engine)
    }
}

/// What a trace answered.
pub struct Answers {
    /// The trace.
    pub manifest: Manifest,
    /// Of each metric, in the order in which they were asked.
    pub results: Vec<Result<MetricResult>>,
    /// Of each view.
    pub rows: Vec<Result<Rows>>,
}

impl Answers {
    /// Results of the metrics and sheets of the views; what failed has its reason in place of a
    /// value, and is among `errors`, each once.
    pub fn known(
        self,
        files: &[&SqlFile],
        views: &[&SqlFile],
        errors: &mut Vec<Error>,
    ) -> (Vec<MetricResult>, Vec<Sheet>) {
        let mut failed = |error: Error| {
            let reason = format!("it could not be computed: {}", error.message);
            if !errors.contains(&error) {
                errors.push(error);
            }
            reason
        };
        let results = files.iter().zip(self.results).map(|(file, outcome)| {
            outcome.unwrap_or_else(|e| MetricResult {
                reason: Some(failed(e)),
                ..MetricResult::empty(&self.manifest, file)
            })
        });
        let results = results.collect();
        let sheets = views.iter().zip(self.rows).map(|(view, outcome)| {
            let rows =
                outcome.unwrap_or_else(|e| Rows { rows: Vec::new(), reason: Some(failed(e)) });
            Sheet::new(view, rows)
        });
        (results, sheets.collect())
    }
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

/// The profilers of a trace. A memory snapshot saw none of the work, and must not count as a rank in
/// what a profiler is asked; nor did a benchmark.
fn profilers(manifest: &Manifest) -> Vec<&str> {
    let mut profilers = manifest.kinds();
    profilers.retain(|source| !matches!(*source, "memory" | "bench"));
    profilers
}

/// The one profiler whose rows are shown: that asked for, though the trace may have none of it; of
/// two, both saw the same work. None for all rows.
pub fn source(manifest: &Manifest, mode: ProfileMode) -> Option<&str> {
    let several = manifest.kinds().len() > 1;
    mode.source().or(profilers(manifest).first().copied().filter(|_| several))
}

fn without_source(result: &mut MetricResult, source: &str) {
    result.value = serde_json::Value::Null;
    result.reason = Some(format!("the trace has no {source} source"));
    result.details = serde_json::Map::new();
    result.warnings = Vec::new();
    result.batch = None;
}
