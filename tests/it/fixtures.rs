//! Turns `tests/fixtures/<case>/*.csv` into a trace directory.
//!
//! A file is a table that a reader makes; columns that it lacks are NULL. `event_id` and `source`
//! are filled in where they are left out, and so is the table `sources` (one file per rank). A
//! column `args.KEY` is the argument KEY; together they become the JSON of `args`.

use std::path::Path;

use ccl_sql::derive::Derive;
use ccl_sql::ingest::manifest::Manifest;
use ccl_sql::ingest::{Finish, ToDerive, count_rows};
use ccl_sql::registry::Registry;
use ccl_sql::schema::{Made, SCHEMA_VERSION, TABLES, Table, table};
use ccl_sql::sql_text::{sql_name, sql_string};
use duckdb::Connection;
use serde_json::{Map, Value};

use crate::program::{files, name, project};
use crate::tables::{Cell, Csv};

/// Arguments that Kineto writes as text, whatever they look like.
const TEXT_ARGS: [&str; 7] = [
    "Collective name",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "In split size",
    "Out split size",
];

/// Makes `<data>/trace=<case>` from a fixture.
///
/// # Panics
/// When the fixture is no fixture, or cannot be turned into tables.
pub fn build(case: &str, data: &Path) {
    let folder = project().join("tests/fixtures").join(case);
    let directory = data.join(format!("trace={case}"));
    std::fs::create_dir_all(&directory).expect("the data directory can be written");
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    let mut seen = Vec::new();
    for file in files(&folder) {
        let Some(stem) = name(&file).strip_suffix(".csv").map(str::to_owned) else { continue };
        let table = table(&stem).filter(|t| t.made == Made::Ingest);
        let table = table.unwrap_or_else(|| panic!("{}: no table of a reader", file.display()));
        let text = std::fs::read_to_string(&file).expect("the fixture can be read");
        write(&connection, &directory, table, &with_args(Csv::parse(&text)));
        seen.push(stem);
    }
    assert!(seen.contains(&"ranks".to_owned()), "{case} has no ranks.csv");
    if !seen.contains(&"sources".to_owned()) {
        let ranks = Csv::parse(&std::fs::read_to_string(folder.join("ranks.csv")).expect("read"));
        let rows = (0..ranks.rows.len()).map(|i| vec![Some(i.to_string())]).collect();
        let sources = Csv { columns: vec!["source_id".to_owned()], rows };
        write(&connection, &directory, table("sources").expect("in the schema"), &sources);
    }
    let registry = Registry::load(None).expect("the registry loads");
    let derive = Derive { registry: &registry, memory_limit: String::new(), threads: 0 };
    let work = tempfile::tempdir().expect("a temporary folder");
    let what = ToDerive { directory: &directory, work: work.path(), earlier: None };
    derive.derive(&what).expect("the derived tables can be made");
    let mut manifest = Manifest {
        trace: case.to_owned(),
        schema_version: SCHEMA_VERSION,
        ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
        root: folder,
        named: true,
        keep_partial: false,
        sources: Vec::new(),
        set_aside: Vec::new(),
        cards: Vec::new(),
        rows: count_rows(&directory).expect("the rows can be counted"),
        findings: std::collections::BTreeMap::new(),
        derived_sha256: derive.sha256(),
        files: std::collections::BTreeMap::new(),
    };
    manifest.write(&directory).expect("the manifest can be written");
}

/// The table with its `args.KEY` columns joined into `args`.
fn with_args(csv: Csv) -> Csv {
    let is_arg = |column: &String| column.starts_with("args.");
    if !csv.columns.iter().any(is_arg) {
        return csv;
    }
    let keep = |row: Vec<Cell>| -> Vec<Cell> {
        let mut args = Map::new();
        let mut out = Vec::new();
        for (column, cell) in csv.columns.iter().zip(row) {
            match (column.strip_prefix("args."), cell) {
                (None, cell) => out.push(cell),
                (Some(_), None) => {}
                (Some(key), Some(text)) => {
                    let json = serde_json::from_str(&text).ok();
                    let value = json.filter(|_| !TEXT_ARGS.contains(&key));
                    args.insert(key.to_owned(), value.unwrap_or(Value::String(text)));
                }
            }
        }
        out.push((!args.is_empty()).then(|| Value::Object(args).to_string()));
        out
    };
    let rows = csv.rows.iter().cloned().map(keep).collect();
    let mut columns: Vec<String> = csv.columns.iter().filter(|c| !is_arg(c)).cloned().collect();
    columns.push("args".to_owned());
    Csv { columns, rows }
}

/// Writes the rows as the files of a table.
fn write(connection: &Connection, directory: &Path, table: &Table, csv: &Csv) {
    for column in &csv.columns {
        let known = table.columns.iter().any(|c| c.name == column);
        assert!(known, "{} has no column {column}", table.name);
    }
    let rows: Vec<String> = csv
        .rows
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let cell = |c: &Cell| c.as_ref().map_or("NULL".to_owned(), |text| sql_string(text));
            let cells: Vec<String> = row.iter().map(cell).collect();
            format!("({i}, {})", cells.join(", "))
        })
        .collect();
    let named: Vec<String> = csv.columns.iter().map(|c| sql_name(c)).collect();
    // Host events after device events: numbers are unique in a trace.
    let first_id = if table.by_rank { 1001 } else { 1 };
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|c| {
            let given = csv.index(c.name).is_some();
            let value = match c.name {
                name if given => sql_name(name),
                "event_id" => format!("place + {first_id}"),
                "source" => "'kineto'".to_owned(),
                _ => "NULL".to_owned(),
            };
            format!("CAST({value} AS {}) AS {}", c.ty.sql(), sql_name(c.name))
        })
        .collect();
    connection
        .execute_batch(&format!(
            "CREATE OR REPLACE TABLE fixture AS SELECT {} FROM (VALUES {}) AS t(place, {})",
            columns.join(", "),
            rows.join(", "),
            named.join(", ")
        ))
        .unwrap_or_else(|e| panic!("{}: {e}", table.name));
    let copy = |query: &str, folder: &Path| {
        std::fs::create_dir_all(folder).expect("the data directory can be written");
        let target = folder.join("part-0000.parquet");
        connection
            .execute_batch(&format!(
                "COPY ({query}) TO {} (FORMAT parquet)",
                sql_string(&target.to_string_lossy())
            ))
            .unwrap_or_else(|e| panic!("{}: {e}", table.name));
    };
    let folder = directory.join(table.name);
    if !table.by_rank {
        return copy("SELECT * FROM fixture", &folder);
    }
    let mut ranks = connection.prepare("SELECT DISTINCT rank FROM fixture").expect("a query");
    let ranks: Vec<i64> = ranks
        .query_map([], |row| row.get(0))
        .expect("a query")
        .map(|rank| rank.expect("every host event of a fixture has a rank"))
        .collect();
    for rank in ranks {
        copy(
            &format!("SELECT * EXCLUDE (rank) FROM fixture WHERE rank = {rank}"),
            &folder.join(format!("rank={rank}")),
        );
    }
}

/// Tables that a fixture may hold are those that readers make.
#[test]
fn every_fixture_is_small_and_says_what_it_shows() {
    for folder in crate::program::folders(&project().join("tests/fixtures")) {
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        assert!(readme.trim().len() > 20, "{} has no README.md", folder.display());
        for file in files(&folder) {
            let stem = name(&file);
            let Some(stem) = stem.strip_suffix(".csv") else { continue };
            assert!(TABLES.iter().any(|t| t.name == stem && t.made == Made::Ingest), "{stem}");
            let csv = Csv::parse(&std::fs::read_to_string(&file).expect("the fixture can be read"));
            assert!((1..=40).contains(&csv.rows.len()), "{} is no tiny table", file.display());
        }
    }
}
