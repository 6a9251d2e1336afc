//! The facts about a file that the lint asks DuckDB for: syntax trees, parameters, columns.

use duckdb::Connection;
use serde_json::Value;

use crate::engine::admit::syntax_tree;
use crate::engine::each::reasons_of_each;
use crate::engine::remarks::with_remarks;
use crate::error::Result;
use crate::registry::SqlFile;
use crate::registry::header::Kind;
use crate::registry::lint::Probe;

/// The facts about a query that the lint needs, on empty tables.
///
/// # Errors
/// `sql` when DuckDB itself fails; a query that is wrong is in the probe.
pub fn lint_probe(connection: &Connection, file: &SqlFile) -> Result<Probe> {
    let tree = |sql: &str| syntax_tree(connection, sql);
    let mut probe = Probe { tree: tree(file.query())?, ..Probe::default() };
    let header = &file.header;
    let checks = header.checks.iter().map(|check| &check.left);
    let warns = header.warns.iter().map(|warn| &warn.left);
    for expression in checks.chain(warns).chain(&header.answer) {
        probe.expression_trees.push(tree(&format!("SELECT ({expression})"))?);
    }
    if probe.tree.get("error").and_then(Value::as_bool) == Some(true) {
        return Ok(probe);
    }
    match described(connection, file, &mut probe) {
        Ok(()) => {}
        Err(e) => probe.error = Some(e.message),
    }
    Ok(probe)
}

/// Names and types of parameters and columns, as DuckDB binds the query of the file.
fn described(connection: &Connection, file: &SqlFile, probe: &mut Probe) -> Result<()> {
    let statement = connection.prepare(file.query())?;
    for i in 1..=statement.parameter_count() {
        probe.params.push(statement.parameter_name(i)?);
    }
    // Parameters take the type of their declaration, so that DESCRIBE can bind.
    // One without a declaration is told later.
    let undeclared = probe.params.clone();
    let typed = |sql: &str| {
        let sql = file.header.params.iter().fold(sql.to_owned(), |sql, param| {
            sql.replace(&format!("${}", param.name), &format!("CAST(NULL AS {})", param.ty))
        });
        undeclared.iter().fold(sql, |sql, name| sql.replace(&format!("${name}"), "NULL"))
    };
    let mut describe = connection.prepare(&format!("DESCRIBE {}", typed(file.query())))?;
    let mut rows = describe.query([])?;
    while let Some(row) = rows.next()? {
        probe.columns.push((row.get(0)?, row.get(1)?));
    }
    for check in &file.header.checks {
        connection.prepare(&format!("SELECT {}", check.reason()))?;
    }
    connection.prepare(&typed(&with_remarks(file, false)))?;
    // Traces are asked together what is no file of a user's.
    if !file.of_user && matches!(file.header.kind, Kind::Metric | Kind::Diagnosis) {
        if !file.header.checks.is_empty() {
            connection.prepare(&reasons_of_each(&file.header, ["a", "b"]))?;
        }
        connection.prepare(&typed(&with_remarks(file, true)))?;
    }
    Ok(())
}
