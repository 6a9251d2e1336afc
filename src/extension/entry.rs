//! The two symbols of the library: the one that DuckDB calls at `LOAD`, and a command line.

#![allow(unsafe_code, reason = "C calls these")]

use std::error::Error as StdError;
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;

use duckdb::{Connection, duckdb_entrypoint_c_api};

use crate::cli::program;

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

/// Called at `LOAD`. Everything that the program calls is in the stable C API of this version.
#[duckdb_entrypoint_c_api(ext_name = "ccl_sql", min_duckdb_version = "v1.5.6")]
fn entry(connection: Connection) -> Result<(), Box<dyn StdError>> {
    Ok(super::load(connection)?)
}

/// Runs the program on a command line, the first word of which is its name; the exit code.
///
/// A DuckDB must have loaded the library before. The program listens to signals: it is called once
/// in a process, which ends after it.
///
/// # Safety
/// `argv` must hold `argc` strings that end in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccl_sql_main(argc: c_int, argv: *const *const c_char) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller says so.
    let words = (0..count).map(|i| word(unsafe { CStr::from_ptr(*argv.add(i)) })).collect();
    // What was said of the panic went to stderr.
    let code = catch_unwind(move || program(words)).unwrap_or(PANICKED);
    // Nobody is left to tell when they are closed.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    c_int::from(code)
}

fn word(text: &CStr) -> OsString {
    OsStr::from_bytes(text.to_bytes()).to_owned()
}
