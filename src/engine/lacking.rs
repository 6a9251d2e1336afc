//! Reasons why a query has no rows: the tables that it needs and that are empty, or NULL.

use duckdb::Connection;

use crate::error::Result;
use crate::registry::SqlFile;
use crate::registry::header::Header;
use crate::schema;
use crate::sql_text::sql_name;
use crate::store::manifest::Manifest;

/// The reason of a metric that lacks tables.
pub(super) fn needs(lacking: &[&str]) -> String {
    let mut all: Vec<String> = lacking.iter().map(|l| spoken(l)).collect();
    all.dedup();
    format!("it needs {}, and this trace has none", all.join(" and "))
}

/// The tables that a file cannot do without, and that the trace has no rows of. The manifest counts
/// the rows of all profilers.
pub(super) fn without_files<'f>(manifest: &Manifest, file: &'f SqlFile) -> Vec<&'f str> {
    without(manifest, file.header.requires.iter().map(String::as_str))
}

/// The tables of the schema among `names` that a trace has no rows of, by its manifest.
pub(super) fn without<'a>(
    manifest: &Manifest,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let is_empty = |name: &&str| {
        schema::table(name).is_some() && manifest.rows.get(*name).copied().unwrap_or(0) == 0
    };
    names.into_iter().filter(is_empty).collect()
}

/// The tables of the schema among `names` that have no rows.
pub(super) fn without_rows<'a>(
    connection: &Connection,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'a str>> {
    let mut out = Vec::new();
    for name in names.into_iter().filter(|name| schema::table(name).is_some()) {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", sql_name(name));
        if !connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
            out.push(name);
        }
    }
    Ok(out)
}

/// The reason that the header gives for NULL; `otherwise` where it gives none.
pub(super) fn why_null(header: &Header, otherwise: &str) -> String {
    header.nulls.first().cloned().unwrap_or_else(|| otherwise.to_owned())
}

/// A table in a sentence: its name, but for those whose name says little.
fn spoken(table: &str) -> String {
    match table {
        "kernel_times" => "kernels".to_owned(),
        "busy_intervals" => "work of devices".to_owned(),
        "cards" => "a workload card".to_owned(),
        "collective_calls" => "calls that are matched over ranks".to_owned(),
        "collectives" => "communication".to_owned(),
        "fsdp_ranges" => "ranges of FSDP".to_owned(),
        "memory_events" | "memory_segments" | "memory_blocks" => "a memory snapshot".to_owned(),
        other => other.replace('_', " "),
    }
}
