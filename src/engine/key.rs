//! What an answer depends on, in a hash: it is kept under that.

use std::sync::OnceLock;

use serde_json::Value;

use crate::registry::{Registry, SqlFile};

/// The program that answers.
pub(crate) const PROGRAM: &str =
    concat!(env!("CARGO_PKG_VERSION"), " ", env!("CCL_SQL_BUILD_SOURCES"));

/// The version of the DuckDB that answers, where the program was not built with it.
static HOST: OnceLock<String> = OnceLock::new();

/// Says which DuckDB loaded the library.
#[cfg(feature = "extension")]
pub fn answered_by(version: String) {
    // One library is loaded by one DuckDB.
    let _ = HOST.set(version);
}

/// The key of an answer: a hash over the program, its DuckDB, the SQL of the file and of all views
/// below it, and `terms`: the parameters, and whatever else changes the answer.
pub fn key(registry: &Registry, file: &SqlFile, terms: &Value) -> String {
    let (duckdb, sql) = (HOST.get().map_or("", String::as_str), registry.fingerprint(file));
    crate::hash::sha256_text(&format!("{PROGRAM}\n{duckdb}\n{sql}\n{terms}"))
}
