//! placeholder
use super::Context;
use super::args::ShellArgs;
use crate::error::Result;
pub fn run(_c: &Context, _a: &ShellArgs) -> Result<()> {
    Ok(())
}
