//! Metrics over traces: one database for all of them, each trace shown in it in turn.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Context;
use super::args::ProfileMode;
use super::progress::Steps;
use crate::engine::run::{MetricResult, Params, run};
use crate::engine::{Engine, interrupt};
use crate::error::Result;
use crate::ingest::manifest::{Manifest, identity};
use crate::registry::SqlFile;

/// Why nothing that is measured can be said of execution traces.
const ET_ALONE: &str = "the trace holds execution traces alone, which record no times and nothing of devices; ingest them together with the Kineto traces of the run";

/// What is asked of every trace, and the database that answers.
pub struct Batch<'a, 'c> {
    context: &'c Context,
    files: &'a [&'c SqlFile],
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
        Self { context, files, params, mode, directories, engine: None, steps }
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
        // One profiler at a time: of two, both saw the same work. A memory snapshot saw none of it, and
        // must not count as a rank in what a profiler is asked; nor did a benchmark.
        let mut profilers = sources.clone();
        profilers.retain(|source| !matches!(*source, "memory" | "bench"));
        let wanted = self.mode.source().or(profilers.first().copied());
        let source = wanted.filter(|_| sources.len() > 1);
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
            if self.context.printer.verbose() {
                let ms = began.elapsed().as_millis();
                self.context
                    .printer
                    .note(&format!("{} of {}: {ms} ms", file.header.name, manifest.trace));
            }
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
                let engine =
                    Engine::open(self.directories, registry, &settings)?.keeping(self.files);
                // The lock first: views of a user's folder are bound behind it too.
                engine.lock_down()?;
                engine
            }
        };
        engine.show(directory, source)?;
        self.engine = Some(engine);
        Ok(())
    }
}

fn without_source(result: &mut MetricResult, source: &str) {
    result.value = serde_json::Value::Null;
    result.reason = Some(format!("the trace has no {source} source"));
    result.details = serde_json::Map::new();
    result.warnings = Vec::new();
    result.batch = None;
}
