//! placeholder
use super::Context;
use super::args::CheckArgs;
use crate::error::Error;
pub fn run(_c: &Context, _a: &CheckArgs) -> Result<(), Vec<Error>> {
    Ok(())
}
