//! `remove`: removes traces from the data directory.

use std::collections::BTreeSet;

use crate::cli::args::RemoveArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::select::exact;

/// Runs the command: removes all of the traces, or none where one is not there.
///
/// # Errors
/// `trace-unknown`, `usage`, `io`.
pub fn run(context: &Context, args: &RemoveArgs) -> Result<(), Errors> {
    let mut names = BTreeSet::new();
    let mut errors = Errors::default();
    for trace in &args.traces {
        match exact(context, trace) {
            Ok(name) => _ = names.insert(name),
            Err(error) => errors.0.push(error),
        }
    }
    errors.result()?;
    for name in names {
        let turn = context.store.turn();
        context.store.remove(&name)?;
        drop(turn);
        context.printer.note(&format!("{name}: removed"));
    }
    Ok(())
}
