//! Completion by shells: the script that ties the program to a shell, and the answers that the
//! shell asks for.

use std::ffi::OsString;

use clap_complete::env::Shells;

use crate::cli::args::{CompletionsArgs, command};
use crate::error::{Error, Result};

/// Environment variable by which a shell asks.
const VARIABLE: &str = "CCL_SQL_COMPLETE";

/// Answers a shell that asks what could come next; false for a command line like any other.
///
/// # Errors
/// `usage` for a shell that is not known.
pub fn answer(words: &[OsString]) -> Result<bool> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    clap_complete::CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(words, std::env::current_dir().ok().as_deref())
        .map_err(|e| Error::new("usage", e.to_string().trim_end().to_owned()))
}

/// The script that ties the program to a shell.
///
/// # Errors
/// `usage` for a shell that is not known.
pub fn script(args: &CompletionsArgs) -> Result<Vec<u8>> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Error::new("usage", format!("there are no completions for {name}")))?;
    let mut out = Vec::new();
    shell
        .write_registration(VARIABLE, "ccl-sql", "ccl-sql", "ccl-sql", &mut out)
        .map_err(|e| Error::new("io", e.to_string()))?;
    Ok(out)
}
