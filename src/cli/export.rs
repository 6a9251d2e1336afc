//! `export`: one timeline of all ranks, for viewers.

use std::path::Path;

use crate::cli::answers::selection;
use crate::cli::args::{ExportArgs, OnlySide};
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Target, form, target};
use crate::cli::select::traces;
use crate::cli::timeline::{self, one_trace};
use crate::engine::{Engine, Settings, is_small};
use crate::error::{Error, Result};
use crate::export::select::{Selection, Side};
use crate::export::{Export, Paths, views};
use crate::registry::SqlFile;
use crate::report::Format;
use crate::report::staged::Staged;
use crate::store::manifest::Manifest;

/// Memory for sorting, where the user names none: events are sorted rank by rank, and what is more
/// goes to the disk.
const MEMORY: &str = "160MB";

/// Runs the command.
pub fn run(context: &Context, args: &ExportArgs) -> Result<(), Errors> {
    let target = target(context)?;
    let forms = [Format::Perfetto, Format::Chrome];
    let format = form(context, "export", &target, &forms, Format::Perfetto)?;
    let align = align(&args.report.param)?;
    let traces = traces(context, &args.report.wanted(), &args.report.reading)?;
    let trace = one_trace(&traces)?;
    let directory = context.directories(std::slice::from_ref(trace))?.remove(0);
    let manifest = Manifest::read(&directory)?;
    let shown = selection(&directory, &manifest, args.report.profile_mode);
    let given = context.settings();
    let memory_limit =
        if given.memory_limit.is_empty() { MEMORY.to_owned() } else { given.memory_limit };
    // Rows are written by one thread: others that hand them over cost more than they save, and each
    // wants memory of its own.
    let threads = if given.threads == 0 { 1 } else { given.threads };
    let settings = Settings { memory_limit, threads, ..given };
    let is_small = is_small(manifest.row_count());
    let open = |files: &[&SqlFile]| -> Result<Engine<'_>> {
        let engine = Engine::open(std::slice::from_ref(&directory), &context.registry, &settings)?
            .keeping(files);
        engine.show(vec![shown.clone()])?;
        // Nothing depends on the order of rows that no query asks for.
        engine.connection.execute_batch("SET preserve_insertion_order = false")?;
        engine.lock_down()?;
        Ok(engine)
    };
    let selection = selected(args);
    let is_timeline = !matches!(target, Target::Folder(_));
    let paths = match context.registry.metric("critical_path") {
        Ok(file) if is_timeline => Paths::new(&open(&[file])?, &manifest, file, &selection, align)?,
        _ => Paths::default(),
    };
    let engine = open(&if is_small { views(&context.registry) } else { Vec::new() })?;
    let export = Export::new(&engine, &manifest, selection, align)?;
    let form = timeline::form(format).expect("the forms are those of timelines");
    match &target {
        Target::Folder(folder) if format == Format::Chrome => {
            return Ok(files(context, &export, folder)?);
        }
        Target::Folder(folder) => {
            let file = folder.join("job.pftrace");
            return Err(Error::new("usage", "a timeline is one file, and this is a folder")
                .at(folder.display().to_string())
                .hint(format!(
                    "name the file: -o {}; or write a file of Kineto for each rank: --format chrome",
                    file.display()
                ))
                .into());
        }
        _ => {}
    }
    let counts =
        timeline::write(context, form, export.epoch_ns(), |sink| export.write(sink, &paths))?;
    timeline::note(context, &counts);
    if let Some(reason) = paths.reason {
        context.printer.note(&format!("no critical path: {reason}"));
    }
    Ok(())
}

/// Writes a file of Kineto for each rank into a folder.
fn files(context: &Context, export: &Export<'_, '_>, folder: &Path) -> Result<()> {
    let mut staged = Staged::new(context.global.force);
    let (mut files, mut events) = (0, 0);
    for rank in export.ranks() {
        let stem = rank.map_or("no_rank".to_owned(), |rank| format!("rank{rank}"));
        let path = folder.join(format!("{stem}.json.gz"));
        events += timeline::file(&mut staged, &path, |to| export.kineto(rank, to))?;
        files += 1;
    }
    staged.commit()?;
    context
        .printer
        .note(&format!("wrote {events} events to {files} files in {}", folder.display()));
    Ok(())
}

/// What the options ask for.
fn selected(args: &ExportArgs) -> Selection {
    Selection {
        steps: args.steps.clone(),
        ranks: args.ranks.clone().map(|ranks| ranks.0).unwrap_or_default(),
        from_ns: args.from,
        to_ns: args.to,
        only: args.only.map(|only| match only {
            OnlySide::Device => Side::Device,
            OnlySide::Host => Side::Host,
        }),
        min_dur_ns: args.min_dur,
    }
}

/// Whether the offsets of the clocks are taken away, as they are where nobody says otherwise.
fn align(params: &[(String, String)]) -> Result<bool> {
    let mut align = true;
    for (key, value) in params {
        align = match (key.as_str(), value.as_str()) {
            ("align", "true" | "1" | "yes") => true,
            ("align", "false" | "0" | "no") => false,
            ("align", _) => {
                let message = format!("parameter `align` is {value:?}, which is no BOOLEAN");
                return Err(Error::new("param-invalid", message).hint("write true or false"));
            }
            _ => {
                let message = format!("export has no parameter `{key}`");
                return Err(Error::new("param-invalid", message)
                    .hint("it has one: -p align=false keeps the clocks as recorded"));
            }
        };
    }
    Ok(align)
}
