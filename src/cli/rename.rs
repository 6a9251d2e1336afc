//! `rename`: gives a trace another name.

use crate::cli::args::RenameArgs;
use crate::cli::context::Context;
use crate::cli::select::exact;
use crate::error::Result;
use crate::store::names::valid_name;

/// Runs the command.
///
/// # Errors
/// `trace-unknown`, `name-clash`, `usage`, `io`.
pub fn run(context: &Context, args: &RenameArgs) -> Result<()> {
    let from = exact(context, &args.from)?;
    valid_name(&args.to)?;
    let turn = context.store.turn();
    context.store.rename(&from, &args.to, true, true)?;
    drop(turn);
    context.printer.note(&format!("{from} is {} now; the old name still finds it", args.to));
    Ok(())
}
