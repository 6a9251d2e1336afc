//! Parses the command line, dispatches, and turns the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ccl_sql::cli::main()
}
