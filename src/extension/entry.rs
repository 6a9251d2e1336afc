//! The two symbols of the library: the one that DuckDB calls at `LOAD`, and a command line.

#![allow(unsafe_code, reason = "C calls these")]

use std::error::Error as StdError;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;

use duckdb::{Connection, ffi};

use crate::cli::program;
use crate::extension::metric_table::scan_names;

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

/// The C API that the library was written for. All that it calls is in the stable part.
const API: &str = "v1.5.6";

/// Called at `LOAD`.
///
/// # Safety
/// DuckDB calls it with pointers of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccl_sql_init_c_api(
    info: ffi::duckdb_extension_info,
    access: *const ffi::duckdb_extension_access,
) -> bool {
    // SAFETY: DuckDB hands both over, for the time of the call.
    let loaded = catch_unwind(|| unsafe { loaded(info, access) });
    let error = match loaded {
        Ok(Ok(is_loaded)) => return is_loaded,
        Ok(Err(error)) => error.to_string().replace('\0', " "),
        Err(_) => "the extension panicked".to_owned(),
    };
    let text = CString::new(error).unwrap_or_default();
    // SAFETY: as above; DuckDB copies the text.
    if let Some(set_error) = unsafe { (*access).set_error } {
        unsafe { set_error(info, text.as_ptr()) };
    }
    false
}

/// Registers everything; false where DuckDB has another API, and has said so.
///
/// # Safety
/// As [`ccl_sql_init_c_api`].
unsafe fn loaded(
    info: ffi::duckdb_extension_info,
    access: *const ffi::duckdb_extension_access,
) -> Result<bool, Box<dyn StdError>> {
    // SAFETY: the caller says so.
    unsafe {
        if !ffi::duckdb_rs_extension_api_init(info, access, API)? {
            return Ok(false);
        }
        let get_database = (*access).get_database.ok_or("DuckDB gives no database")?;
        let place = get_database(info);
        if place.is_null() {
            return Ok(false);
        }
        let database: ffi::duckdb_database = *place;
        super::load(Connection::open_from_raw(database.cast())?)?;
        scan_names(database);
    }
    Ok(true)
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
