//! `-V` and `--version`: the version alone, and what a report of a bug should say.

use clap::Error;
use clap::error::ErrorKind;
use duckdb::Connection;

/// What `-V` prints behind the name.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// What `--version` prints behind the name, but for the line about DuckDB: only an open database
/// says its version, and no other command line opens one for that.
pub const LONG: &str = if env!("CCL_SQL_BUILD_COMMIT").is_empty() {
    concat!(env!("CARGO_PKG_VERSION"), "\ncommit: unknown")
} else {
    concat!(env!("CARGO_PKG_VERSION"), "\ncommit: ", env!("CCL_SQL_BUILD_COMMIT"))
};

/// How the program came by its DuckDB: compiled in, in a shared library, or the one that loaded it.
const LINKED: &str = if cfg!(feature = "extension") {
    "host"
} else if cfg!(feature = "bundled") {
    "bundled"
} else {
    "linked"
};

/// The answer to `--version`, which the parser does not know whole; None where it does.
pub fn answer(asked: &Error) -> Option<String> {
    let text = asked.to_string();
    let long = asked.kind() == ErrorKind::DisplayVersion && text.trim_end().ends_with(LONG);
    long.then(|| {
        let version = Connection::open_in_memory().and_then(|connection| connection.version());
        let version = version.unwrap_or_else(|_| "unknown".to_owned());
        format!("{text}duckdb: {version} ({LINKED})\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_knows_all_but_duckdb() {
        let asked = |word| crate::cli::command().try_get_matches_from(["ccl-sql", word]);
        let short = asked("-V").expect_err("it asks for the version");
        assert_eq!(short.to_string(), format!("ccl-sql {SHORT}\n"));
        assert_eq!(answer(&short), None);
        let long = asked("--version").expect_err("it asks for the version");
        assert_eq!(long.to_string(), format!("ccl-sql {LONG}\n"));
        let help = asked("--help").expect_err("it asks for help");
        assert_eq!(answer(&help), None);
    }
}
