//! `vacuum`: removes what nothing names any more.

use std::time::Duration;

use crate::cli::args::VacuumArgs;
use crate::cli::context::Context;
use crate::error::Result;
use crate::report::units::human;
use crate::store::scratch::sweep;

/// Runs the command.
///
/// # Errors
/// Those of the object store.
pub fn run(context: &Context, args: &VacuumArgs) -> Result<()> {
    // On this machine: what killed commands left.
    context.store.tidy(|_| true);
    sweep(&context.store.path);
    let older_than = Duration::from_secs(args.older_than.saturating_mul(3600));
    let (files, bytes) = context.store.vacuum(older_than)?;
    if context.store.mirror.is_some() {
        let size = human(&bytes.into(), Some("bytes"));
        context.printer.note(&match files {
            0 => "nothing to remove".to_owned(),
            1 => format!("removed 1 file, {size}"),
            n => format!("removed {n} files, {size}"),
        });
    }
    Ok(())
}
