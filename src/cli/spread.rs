//! Answers that the machines of a cluster compute, and keep beside the trace: what each is asked.

use std::collections::BTreeMap;

use crate::cli::args::{AnswerArgs, Engine, word_of};
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::engine::{Part, run_all};
use crate::cli::errors::Errors;
use crate::engine::metric::Params;
use crate::engine::{Engine as Database, is_small};
use crate::error::{Error, Result};
use crate::input::place::absolute;
use crate::registry::SqlFile;
use crate::registry::header::Kind;
use crate::store::manifest::Manifest;

/// From so many traces on, one machine asks all of a trace.
const MANY_TRACES: usize = 8;

/// Memory of a question, beside that of the rows that it goes through.
const LEAST_MB: u64 = 256;

/// Rows of a trace of which one task computes what is of each rank, about.
const ROWS_OF_SHARE: u64 = 250_000;

/// Rows of a trace that a question holds in a megabyte, about.
const ROWS_OF_MB: u64 = 8_000;

/// Has a cluster answer what is not kept yet, so that this process finds it kept.
///
/// # Errors
/// `usage` where nothing is to be kept, `engine-failed`, and faults of a trace as a whole.
pub fn spread(context: &Context, engine: Option<&Engine>, batch: &Batch<'_, '_>) -> Result<()> {
    let Some(engine) = engine else { return Ok(()) };
    if context.global.no_cache {
        return Err(Error::new("usage", "--engine hands answers over as they are kept")
            .hint("leave --no-cache out; `ccl-sql remove` or a new ingest forgets them"));
    }
    let data = match &context.store.mirror {
        Some(_) => context.store.given().to_owned(),
        None => absolute(&context.store.path),
    };
    let Some(data) = data.to_str().map(str::to_owned) else {
        return Err(Error::new("usage", "a data directory that is no UTF-8 cannot be handed over"));
    };
    batch.bring_answers()?;
    let mut asked = Vec::new();
    for directory in batch.directories() {
        let (manifest, files) = batch.lacking(directory)?;
        asked.push(Asked { manifest, files, data: &data });
    }
    partials(context, engine, batch, &asked)?;
    let mut parts = Vec::new();
    let one_part = asked.len() >= MANY_TRACES;
    for trace in &asked {
        let rows = trace.manifest.row_count();
        // Metrics of an area read the same views.
        let mut areas: BTreeMap<&str, Vec<&SqlFile>> = BTreeMap::new();
        for file in &trace.files {
            let area = match file.header.kind {
                _ if one_part => "",
                Kind::Metric => file.header.area.as_str(),
                kind => kind.word(),
            };
            areas.entry(area).or_default().push(file);
        }
        for files in areas.into_values() {
            let size = rows.saturating_mul(files.len() as u64);
            let words = trace.words(batch, &files, &[]);
            parts.push(Part { size, memory_mb: LEAST_MB + rows / ROWS_OF_MB, words });
        }
    }
    run_all(context, engine, "answer", &parts)?;
    batch.bring_answers()
}

/// A trace, and what is not answered of it yet.
struct Asked<'a, 'c> {
    manifest: Manifest,
    files: Vec<&'c SqlFile>,
    data: &'a str,
}

impl Asked<'_, '_> {
    /// The words of `answer` for some files.
    fn words(&self, batch: &Batch<'_, '_>, files: &[&SqlFile], more: &[String]) -> Vec<String> {
        let mut words = vec!["answer".to_owned(), "--trace".to_owned()];
        words.extend([self.manifest.trace.clone(), "--data".to_owned(), self.data.to_owned()]);
        words.extend(["--jobs".to_owned(), "1".to_owned()]);
        words.extend(["--profile-mode".to_owned(), word_of(&batch.mode())]);
        for (key, value) in batch.params() {
            words.extend(["-p".to_owned(), format!("{key}={value}")]);
        }
        words.extend_from_slice(more);
        words.extend(files.iter().map(|file| name(file)));
        words
    }
}

/// Has a cluster compute what the questions about large traces read of each rank, so that their
/// answers find it kept.
fn partials(
    context: &Context,
    engine: &Engine,
    batch: &Batch<'_, '_>,
    asked: &[Asked<'_, '_>],
) -> Result<()> {
    let is_large = |trace: &&Asked<'_, '_>| !is_small(trace.manifest.row_count());
    let depth = |trace: &Asked<'_, '_>| Database::levels(&context.registry, &trace.files);
    let traces: Vec<(&Asked<'_, '_>, usize)> =
        asked.iter().filter(is_large).map(|trace| (trace, depth(trace))).collect();
    for level in 0..traces.iter().map(|(_, levels)| *levels).max().unwrap_or(0) {
        let mut parts = Vec::new();
        for (trace, _) in traces.iter().filter(|(_, levels)| *levels > level) {
            let rows = trace.manifest.row_count();
            let ranks = trace.manifest.rows.get("ranks").copied().unwrap_or(0);
            let shares = rows.div_ceil(ROWS_OF_SHARE).clamp(1, ranks.max(1));
            parts.extend((0..shares).map(|i| {
                let share = format!("{i}/{shares}");
                let more = ["--level".to_owned(), level.to_string(), "--share".to_owned(), share];
                let words = trace.words(batch, &trace.files, &more);
                let size = rows / shares;
                Part { size, memory_mb: LEAST_MB + size / ROWS_OF_MB, words }
            }));
        }
        run_all(context, engine, "partials", &parts)?;
    }
    Ok(())
}

/// Computes answers, and keeps them: one of the parts. Machines that share no disk take over what
/// others have kept, and hand on what is new.
///
/// # Errors
/// `usage` for a file that there is not; those of the trace, and of the store.
pub fn answer(context: &Context, args: &AnswerArgs) -> Result<(), Errors> {
    let registry = &context.registry;
    let (mut metrics, mut views, mut diagnoses) = (Vec::new(), Vec::new(), Vec::new());
    for name in &args.names {
        let unknown = || Error::new("usage", format!("there is no {name}"));
        match name.split_once('/') {
            Some(("metric", name)) => metrics.push(registry.metric(name)?),
            Some(("view", name)) => views.push(registry.view(name).ok_or_else(unknown)?),
            Some(("diagnosis", name)) => {
                diagnoses.push(registry.diagnosis(name).ok_or_else(unknown)?);
            }
            _ => return Err(unknown().into()),
        }
    }
    let params: Params = args.param.iter().cloned().collect();
    let directories = context.directories_to_ask(std::slice::from_ref(&args.trace))?;
    let mut batch = Batch::new(context, &metrics, &params, args.profile_mode, &directories)
        .with_views(&views)
        .with_diagnoses(&diagnoses);
    batch.bring_answers()?;
    for directory in &directories {
        let (_, new) = batch.lacking(directory)?;
        match args.share {
            Some(share) => batch.keep_share(directory, args.level, share)?,
            None => batch.trace(directory).map(|_| ())?,
        }
        batch.send_kept(directory, &new)?;
    }
    Ok(())
}

/// A file as `answer` is told it.
fn name(file: &SqlFile) -> String {
    match file.header.kind {
        Kind::Metric => format!("metric/{}", file.id()),
        kind => format!("{}/{}", kind.word(), file.header.name),
    }
}
