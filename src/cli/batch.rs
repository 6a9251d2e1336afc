//! Metrics over traces: one database for all of them, each trace shown in it in turn.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Context;
use super::args::ProfileMode;
use super::progress::Steps;
use crate::engine::run::{MetricResult, Params, run};
use crate::engine::sheet::{Rows, rows};
use crate::engine::{Engine, Shown, interrupt};
use crate::error::Result;
use crate::ingest::manifest::{Manifest, identity};
use crate::registry::SqlFile;

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

    /// What each metric says of a trace, and the rows of each view, `limit` and one more at most.
    ///
    /// # Errors
    /// As [`Batch::trace`], and those of a view.
    pub fn trace_with_views(
        &mut self,
        directory: &Path,
        limit: usize,
    ) -> Result<(Vec<Result<MetricResult>>, Vec<Rows>)> {
        loop {
            let before = identity(directory);
            let results = self.answers(directory)?;
            let manifest = Manifest::read(directory)?;
            let mut all = Vec::new();
            for view in self.views {
                self.steps.next(&manifest.trace, &view.header.name);
                let began = Instant::now();
                if self.engine.is_none() {
                    self.show(directory, source(&manifest, self.mode))?;
                }
                let Some(engine) = &self.engine else { continue };
                all.push(rows(engine, view, &[], limit)?);
                self.say(&view.header.name, &manifest.trace, began);
            }
            if identity(directory) == before {
                return Ok((results, all));
            }
            self.engine = None;
            self.steps.back(results.len() + all.len());
        }
    }

    fn say(&self, name: &str, trace: &str, began: Instant) {
        if self.context.printer.verbose() {
            let ms = began.elapsed().as_millis();
            self.context.printer.note(&format!("{name} of {trace}: {ms} ms"));
        }
    }

    /// What each metric says of a trace.
    ///
    /// # Errors
    /// `interrupted`, and what is wrong with the trace as a whole.
    pub fn trace(&mut self, directory: &Path) -> Result<Vec<Result<MetricResult>>> {
        loop {
            let before = identity(directory);
            let out = self.answers(directory)?;
            // An ingest may have put another trace in its place: then tables were read of both.
            if identity(directory) == before {
                return Ok(out);
            }
            self.engine = None;
            self.steps.back(out.len());
        }
    }

    fn answers(&mut self, directory: &Path) -> Result<Vec<Result<MetricResult>>> {
        let manifest = Manifest::read(directory)?;
        let sources = manifest.kinds();
        let profilers = profilers(&manifest);
        let wanted = self.mode.source().or(profilers.first().copied());
        let source = source(&manifest, self.mode);
        let mut shown = false;
        let mut out = Vec::new();
        for file in self.files {
            self.steps.next(&manifest.trace, &file.header.name);
            let began = Instant::now();
            if self.engine.is_none() || !shown {
                self.show(directory, source)?;
                shown = true;
            }
            let Some(engine) = &self.engine else { continue };
            let mut outcome = run(engine, &manifest, file, self.params);
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
            if outcome.is_err() {
                if self.context.interrupt.asked() {
                    return Err(interrupt::error());
                }
                // A database that failed once may be of no more use.
                self.engine = None;
                shown = false;
            }
            self.say(&file.header.name, &manifest.trace, began);
            out.push(outcome);
        }
        Ok(out)
    }

    /// Puts the trace into the tables.
    fn show(&mut self, directory: &Path, source: Option<&str>) -> Result<()> {
        let engine = match self.engine.take() {
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
        self.engine = Some(engine);
        Ok(())
    }
}

/// The profilers of a trace. A memory snapshot saw none of the work, and must not count as a rank in
/// what a profiler is asked; nor did a benchmark.
fn profilers(manifest: &Manifest) -> Vec<&str> {
    let mut profilers = manifest.kinds();
    profilers.retain(|source| !matches!(*source, "memory" | "bench"));
    profilers
}

/// The one profiler whose rows are shown: of two, both saw the same work. None for all rows.
pub fn source(manifest: &Manifest, mode: ProfileMode) -> Option<&str> {
    let wanted = mode.source().or(profilers(manifest).first().copied());
    wanted.filter(|_| manifest.kinds().len() > 1)
}

fn without_source(result: &mut MetricResult, source: &str) {
    result.value = serde_json::Value::Null;
    result.reason = Some(format!("the trace has no {source} source"));
    result.details = serde_json::Map::new();
    result.warnings = Vec::new();
    result.batch = None;
}
