//! `ingest`: reads traces into the data directory.

use crate::cli::args::IngestArgs;
use crate::cli::context::Context;
use crate::cli::engine;
use crate::cli::errors::Errors;
use crate::cli::reading::{ingest_paths, options};
use crate::ingest::options::Options;

/// Runs the command.
pub fn run(context: &Context, args: &IngestArgs) -> Result<(), Errors> {
    let options = Options { force: context.global.force, ..options(context, &args.reading) };
    if let Some(engine) = &args.engine {
        return engine::ingest(context, engine, &args.paths, &options);
    }
    Errors(ingest_paths(context, &args.paths, &options)?.errors).result()
}
