//! Tables of the schema: as a query over Parquet files, and empty ones, which the lint asks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use duckdb::Connection;

use crate::error::Result;
use crate::registry::{Registry, SqlFile};
use crate::schema::{RESULTS, TABLES, Table, files};
use crate::sql_text::{sql_name, sql_path};

/// A `SELECT` that gives a table its columns from files; without files, no rows of the right types.
pub fn select(table: &Table, files: &[PathBuf]) -> String {
    let columns: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
    if files.is_empty() {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|c| format!("NULL::{} AS {}", c.ty.sql(), sql_name(c.name)))
            .collect();
        return format!("SELECT NULL::VARCHAR AS trace, {} WHERE false", columns.join(", "));
    }
    let list: Vec<String> = files.iter().map(|f| sql_path(f)).collect();
    let columns: Vec<String> = columns.iter().map(|c| sql_name(c)).collect();
    let types = if table.by_rank { "'trace': VARCHAR, 'rank': BIGINT" } else { "'trace': VARCHAR" };
    format!(
        "SELECT trace, {} FROM read_parquet([{}], hive_partitioning = true, \
         hive_types = {{{types}}})",
        columns.join(", "),
        list.join(", ")
    )
}

/// Empty tables of the schema, as tables: what the lint checks queries against.
///
/// # Errors
/// `sql` when DuckDB does not start.
pub fn empty_tables(connection: &Connection) -> Result<()> {
    for table in TABLES.iter().chain([&RESULTS]) {
        empty_table(connection, table)?;
    }
    Ok(())
}

/// One empty table, as a table.
pub(super) fn empty_table(connection: &Connection, table: &Table) -> Result<()> {
    let columns: Vec<String> = std::iter::once("trace VARCHAR".to_owned())
        .chain(table.columns.iter().map(|c| format!("{} {}", sql_name(c.name), c.ty.sql())))
        .collect();
    let sql = format!("CREATE TABLE {} ({})", table.name, columns.join(", "));
    Ok(connection.execute_batch(&sql)?)
}

/// A table or view of traces, as a view of some DuckDB's own.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// Whether it is a table of the schema, and no view of the registry.
    pub is_table: bool,
    /// What a row is.
    pub doc: String,
    /// The file that the query comes from, where it is not one of the program's own.
    pub file: Option<String>,
    /// The query of the view.
    pub query: String,
}

/// Every table and view over the traces of some directories, each behind those that it reads.
pub fn definitions(registry: &Registry, directories: &[PathBuf]) -> Vec<Definition> {
    let mut out: Vec<Definition> = Vec::new();
    for table in TABLES {
        let files: Vec<PathBuf> = directories.iter().flat_map(|d| files(d, table)).collect();
        out.push(Definition {
            name: table.name.to_owned(),
            is_table: true,
            doc: table.doc.to_owned(),
            file: None,
            query: select(table, &files),
        });
    }
    let mut seen = BTreeSet::new();
    registry.views().for_each(|view| behind_inputs(registry, view, &mut seen, &mut out));
    out
}

/// Adds the views that a view reads, and then the view.
fn behind_inputs(
    registry: &Registry,
    view: &SqlFile,
    seen: &mut BTreeSet<String>,
    out: &mut Vec<Definition>,
) {
    if !seen.insert(view.header.name.clone()) {
        return;
    }
    let inputs = view.header.inputs().filter_map(|name| registry.view(name));
    inputs.for_each(|input| behind_inputs(registry, input, seen, out));
    out.push(Definition {
        name: view.header.name.clone(),
        is_table: false,
        doc: view.header.summary.clone(),
        file: (!view.embedded).then(|| view.path.clone()),
        query: view.query().to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_stands_behind_what_it_reads() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let all = definitions(&registry, &[]);
        let at = |name: &str| all.iter().position(|d| d.name == name);
        assert_eq!(all.len(), TABLES.len() + registry.views().count());
        for (place, definition) in all.iter().enumerate() {
            assert_eq!(
                (definition.is_table, at(&definition.name)),
                (place < TABLES.len(), Some(place))
            );
            assert!(!definition.doc.is_empty());
        }
        for view in registry.views() {
            let own = at(&view.header.name);
            let before = |input: &str| at(input).is_some_and(|input| Some(input) < own);
            assert!(view.header.inputs().all(before), "{}", view.path);
            assert_eq!(all[own.expect("it is there")].query, view.query());
        }
        // Without a trace a table has its columns and no rows.
        let ranks = &all[at("ranks").expect("a table")];
        let begins = "SELECT NULL::VARCHAR AS trace, NULL::VARCHAR AS \"source\", ";
        assert!(ranks.query.starts_with(begins), "{}", ranks.query);
        assert!(ranks.query.ends_with(" WHERE false"), "{}", ranks.query);
    }
}
