//! Reading of traces, for `ingest` and for commands that are given a path: files in, a summary line
//! for each trace out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::args::{ReadingArgs, word_of};
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::error::Error;
use crate::ingest;
use crate::ingest::options::{Kinds, Options, Outcome, Summary, Within};
use crate::readers::log::Severity;
use crate::report::units::human;
use crate::schema::source::joined;
use crate::store::manifest::Asked;

/// Options of reading traces. Only `ingest` takes --force for reading; other commands take it for
/// their output.
pub fn options(context: &Context, reading: &ReadingArgs) -> Options {
    Options {
        name: reading.name.clone(),
        source: reading.source.as_ref().map(word_of),
        ranks: reading.rank.clone(),
        memory: reading.memory.clone(),
        card: reading.card.clone(),
        config: reading.config.clone(),
        asked: Asked { keep_partial: reading.keep_partial, step_range: reading.step_range.clone() },
        jobs: context.global.jobs,
        force: false,
        no_sync: reading.no_sync,
        within: Within::default(),
        kinds: Kinds::default(),
        watcher: context.watcher.clone(),
    }
}

/// Ingests paths and prints the summary.
///
/// # Errors
/// Only errors of the ingest as a whole; those of single files are in the outcome.
pub fn ingest_paths(
    context: &Context,
    paths: &[PathBuf],
    options: &Options,
) -> Result<Outcome, Errors> {
    let outcome = ingest::ingest(paths, &context.store, options, &context.derive())?;
    Ok(say(context, outcome))
}

/// Prints what an ingest did. With --strict, loss of data is one of its errors.
pub fn say(context: &Context, mut outcome: Outcome) -> Outcome {
    for note in &outcome.notes {
        context.printer.note(&format!("note: {note}"));
    }
    for trace in &outcome.traces {
        summary(context, trace);
    }
    if !outcome.set_aside.is_empty() {
        context.printer.note(&match outcome.set_aside.len() {
            1 => "set aside 1 file that is no trace of its own".to_owned(),
            n => format!("set aside {n} files that are no traces of their own"),
        });
        if context.printer.verbose() {
            for (file, why) in &outcome.set_aside {
                context.printer.note(&format!("  {file}: {why}"));
            }
        }
    }
    if context.global.strict
        && let Some((trace, _)) = outcome.traces.iter().find_map(|t| {
            t.findings.iter().find(|(_, f)| f.severity >= Severity::Loss).map(|f| (t, f))
        })
    {
        outcome.errors.push(
            Error::new(
                "strict",
                format!("data was lost in `{}`, and --strict was given", trace.trace),
            )
            .hint("`SELECT * FROM ingest_log` says what"),
        );
    }
    outcome
}

/// Prints what was read of a trace, and the findings that a user should know.
fn summary(context: &Context, s: &Summary) {
    let printer = &context.printer;
    let mut ranks = if s.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", s.ranks) };
    if s.unchanged {
        printer.note(&format!("{}: unchanged, {ranks}, {} events", s.trace, s.events));
        return;
    }
    if s.ranks_read < s.ranks {
        ranks.push_str(&format!(" ({} read)", s.ranks_read));
    }
    let size = human(&s.bytes.into(), Some("bytes"));
    let rate = human(&(s.bytes as f64 / s.seconds.max(1e-9)).into(), Some("bytes_per_s"));
    // One finding for each cause, however often it came and in however many files.
    let findings = s.findings.iter().map(|(_, f)| &f.code).collect::<BTreeSet<_>>().len();
    printer.note(&format!(
        "{}: {}, {ranks}, {} events, {size} in {:.2} s ({rate}), {}",
        s.trace,
        joined(&s.sources, "+"),
        s.events,
        s.seconds,
        match findings {
            0 => "no findings".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        }
    ));
    let mut said = BTreeSet::new();
    for (file, f) in &s.findings {
        // The same of several files is said once, at the first of them.
        let same = || s.findings.iter().filter(|(_, o)| o.code == f.code && o.message == f.message);
        if !said.insert((&f.code, &f.message)) {
            continue;
        }
        // Findings that a user should know without asking; the others are in `ingest_log`.
        let matters = f.severity >= Severity::Loss
            || matches!(
                &*f.code,
                "card-invalid"
                    | "card-value"
                    | "no-events"
                    | "rank-assumed"
                    | "calls-apart"
                    | "nccl-sizes-missing"
                    | "rank-name-ignored"
                    | "stray-device"
                    | "nccl-group-unclear"
                    | "graphs-opaque"
                    | "no-epoch"
                    | "memory-no-events"
                    | "memory-ranks-missing"
                    | "memory-several"
                    | "name-taken"
                    | "trace-damaged"
            );
        if !matters && !printer.verbose() {
            continue;
        }
        let place = match (file.as_str(), f.first_offset) {
            ("", _) => String::new(),
            (file, Some(offset)) => format!("{file}, byte {offset}"),
            (file, None) => file.to_owned(),
        };
        // The code of a finding is its own list, not that of errors.
        let count: u64 = same().map(|(_, f)| f.count).sum();
        let mut text = format!("warning[{}]: {count} x {}", f.code, f.message);
        if !place.is_empty() {
            text.push_str(&format!("\n  --> {place}"));
        }
        match same().count() {
            1 => {}
            2 => text.push_str(", and 1 more"),
            n => text.push_str(&format!(", and {} more", n - 1)),
        }
        printer.note(&text);
    }
}
