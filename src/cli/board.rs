//! `board`: a static leaderboard over traces, with a report of each.

use crate::cli::across::Across;
use crate::cli::answers::Asked;
use crate::cli::args::ReportArgs;
use crate::cli::batch::Batch;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::output::{Files, Names, Target, safe};
use crate::cli::select::traces;
use crate::cli::spread::spread;
use crate::engine::Selection;
use crate::engine::metric::{Params, check_params};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::report::board::Board;
use crate::report::html::board::{board_page, definitions_page};
use crate::report::sheets::{shown_metrics, views};
use crate::report::staged::vacant;
use crate::report::{Format, html, pretty};

/// Runs the command.
pub fn run(context: &Context, args: &ReportArgs) -> Result<(), Errors> {
    let registry = &context.registry;
    let Some(folder) = context.global.output.as_deref() else {
        return Err(Error::new("usage", "a leaderboard is a folder, and none is named")
            .hint("ccl-sql board -o DIR")
            .into());
    };
    if folder.is_file() || folder.as_os_str() == "-" {
        return Err(Error::new("usage", "a leaderboard is a folder, and -o names a file")
            .at(folder.display().to_string())
            .hint("ccl-sql board -o DIR")
            .into());
    }
    vacant(&folder.join("index.html"), context.global.force)?;
    let mut known = Across::none(context);
    let shown = shown_metrics(registry, &mut known)?;
    let mut board = Board::new(registry, &mut known, &shown)?;
    let files = board.files.clone();
    let params: Params = args.param.iter().cloned().collect();
    check_params(&files, &params)?;
    let views = views(registry, Format::Html)?;
    let traces = traces(context, &args.wanted(), &args.reading)?;
    let directories = context.directories_to_ask(&traces)?;
    let diagnoses: Vec<&SqlFile> = registry.diagnoses().collect();
    let asked = Asked { files: &files, views: &views, diagnoses: &diagnoses };
    let mut batch = Batch::new(context, &files, &params, args.profile_mode, &directories)
        .with_views(&views)
        .with_diagnoses(&diagnoses);
    spread(context, args.engine.as_ref(), &batch)?;
    let mut written = Files::new(context);
    written.prepare(&Target::Folder(folder.to_owned()))?;
    let mut names = Names::new(&folder.join("reports"));
    let mut errors = Vec::new();
    for directory in &directories {
        let answers = batch.trace(directory)?;
        let (document, results) = answers.document(&shown, asked, &mut errors);
        let path = names.path(&safe(&document.trace), &document.fingerprint[..8], ".html");
        written.add(&path, html::report_page(&document.page()).as_bytes())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        board.add(&document, &format!("reports/{name}"), results);
    }
    drop(batch);
    let all = directories.into_iter().map(|directory| Selection {
        directory,
        source: None,
        rows: u64::MAX,
    });
    let mut all = Across::new(context, all.collect(), board.results(), Vec::new());
    let document = board.json(registry, &mut all)?;
    let pages = [
        ("board.json", pretty(&document)),
        ("metrics.html", definitions_page(registry, &files).into_bytes()),
        ("index.html", board_page(&document).into_bytes()),
    ];
    for (name, bytes) in pages {
        written.add(&folder.join(name), &bytes)?;
    }
    written.commit()?;
    Errors(errors).result()
}
