//! Turns `tests/fixtures/<case>/*.csv` into a trace directory.
//!
//! A file is a table that a reader makes; columns that it lacks are NULL. `event_id` and `source`
//! are filled in where they are left out, and so is the table `sources` (one file per rank). A
//! column `args.KEY` is the argument KEY; together they become the JSON of `args`. The file
//! `metric_results.csv` is no table of the trace: it holds what metrics say of it, for comparisons.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use ccl_sql::derive::{Derive, ToDerive};
use ccl_sql::error::Result;
use ccl_sql::schema::{Made, RESULTS, SCHEMA_VERSION, TABLES, Table, table};
use ccl_sql::spool::launches::{Found, HostRange, Launch, Launches, NONE, Parts, kind, some};
use ccl_sql::spool::rows::Rows;
use ccl_sql::sql_text::{sql_name, sql_string};
use ccl_sql::store::files::{count_rows, rank_folder};
use ccl_sql::store::manifest::Manifest;
use duckdb::Connection;
use serde_json::{Map, Value};

use crate::support::{Cell, Csv, files, folders, name, project, registry, wild};

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

/// Names a folder of traces that were made before: who runs the same cases again and again does not
/// make them each time.
const MADE: &str = "CCL_SQL_FIXTURES";

/// Makes `<data>/trace=<case>` from a fixture.
///
/// # Panics
/// When the fixture is no fixture, or cannot be turned into tables.
pub fn build(case: &str, data: &Path) {
    let Some(made) = made() else { return make(case, data) };
    let place = made.join(case);
    if !place.is_dir() {
        let aside = tempfile::tempdir_in(&made).expect("the folder can be written");
        make(case, aside.path());
        // Another process may have made it meanwhile.
        let _ = std::fs::rename(aside.path(), &place);
    }
    let trace = format!("trace={case}");
    copy(&place.join(&trace), &data.join(&trace)).expect("the trace can be copied");
}

/// The folder of traces that were made before, where there is one.
pub fn made() -> Option<PathBuf> {
    std::env::var_os(MADE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Copies a folder and what lies below.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(name(&path));
        if path.is_dir() {
            copy(&path, &target)?
        } else {
            std::fs::copy(&path, &target).map(|_| ())?
        }
    }
    Ok(())
}

/// The tables of a fixture, by name: of its folder, or made up.
fn tables_of(case: &str) -> BTreeMap<String, Csv> {
    if let Some(number) = wild::number(case) {
        return wild::tables(number);
    }
    let folder = project().join("tests/fixtures").join(case);
    let mut tables = BTreeMap::new();
    for file in files(&folder) {
        let Some(stem) = name(&file).strip_suffix(".csv").map(str::to_owned) else { continue };
        if stem == RESULTS.name {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the fixture can be read");
        tables.insert(stem, Csv::parse(&text));
    }
    tables
}

fn make(case: &str, data: &Path) {
    make_of(case, tables_of(case), data);
}

/// A table that readers make.
fn of_reader(name: &str) -> &'static Table {
    let found = table(name).filter(|t| t.made == Made::Ingest);
    found.unwrap_or_else(|| panic!("{name} is no table of a reader"))
}

/// The rows of two tables, without those of the first that the second has, too.
fn together(first: Csv, second: Csv) -> Csv {
    if first.rows.is_empty() {
        return second;
    }
    let event = |csv: &Csv, row: &[Cell]| csv.index("event_id").and_then(|i| row[i].clone());
    let given: Vec<Cell> = second.rows.iter().map(|row| event(&second, row)).collect();
    let columns: BTreeSet<String> =
        [&first, &second].iter().flat_map(|c| c.columns.clone()).collect();
    let rows_of = |csv: &Csv, keep: &dyn Fn(&[Cell]) -> bool| -> Vec<Vec<Cell>> {
        let places: Vec<_> = columns.iter().map(|column| csv.index(column)).collect();
        let cells =
            |row: &Vec<Cell>| places.iter().map(|i| i.and_then(|i| row[i].clone())).collect();
        csv.rows.iter().filter(|row| keep(row)).map(cells).collect()
    };
    let mut rows = rows_of(&first, &|row| !given.contains(&event(&first, row)));
    rows.extend(rows_of(&second, &|_| true));
    Csv { columns: columns.into_iter().collect(), rows }
}

/// Makes `<data>/trace=<case>` of tables.
///
/// # Panics
/// When they are none, or cannot be turned into a trace.
pub fn make_of(case: &str, mut tables: BTreeMap<String, Csv>, data: &Path) {
    let directory = data.join(format!("trace={case}"));
    std::fs::create_dir_all(&directory).expect("the data directory can be written");
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    // A record of a benchmark alone has no ranks.
    if !tables.contains_key("sources") {
        let ranks = tables.get("ranks").unwrap_or_else(|| panic!("{case} has no ranks.csv"));
        let rows = (0..ranks.rows.len()).map(|i| vec![Some(i.to_string())]).collect();
        let columns = vec!["source_id".to_owned()];
        tables.insert("sources".to_owned(), Csv { columns, rows });
    }
    let seen: Vec<String> = tables.keys().cloned().collect();
    let given = tables.remove("comm_args");
    for (stem, csv) in tables {
        write(&connection, &directory, of_reader(&stem), &with_args(csv));
    }
    let has = |name: &str| seen.contains(&name.to_owned());
    let [made_launches, made_ranges] = linked(&connection, &has, data);
    for (name, made) in [("launches", made_launches), ("host_ranges", made_ranges)] {
        if !has(name) && !made.rows.is_empty() {
            write(&connection, &directory, of_reader(name), &made);
        }
    }
    let said = comm_args(&connection, &["device_events", "host_events"].map(|t| (t, has(t))));
    let said = given.into_iter().fold(said, together);
    write(&connection, &directory, of_reader("comm_args"), &said);
    let derive = Derive { registry: registry(), memory_limit: String::new(), threads: 0 };
    let work = tempfile::tempdir().expect("a temporary folder");
    let what =
        ToDerive { directory: &directory, into: &directory, work: work.path(), earlier: None };
    let counts = derive.counts(&what).expect("the rows can be counted");
    derive.derive(&what, &counts).expect("the derived tables can be made");
    let mut manifest = Manifest {
        trace: case.to_owned(),
        schema_version: SCHEMA_VERSION,
        reader_version: 0,
        ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
        root: project().join("tests/fixtures").join(case),
        named: true,
        wanted: None,
        aliases: Vec::new(),
        label: None,
        asked: Default::default(),
        kept: None,
        sources: Vec::new(),
        set_aside: Vec::new(),
        cards: Vec::new(),
        rows: count_rows(&directory).expect("the rows can be counted"),
        findings: std::collections::BTreeMap::new(),
        derived_sha256: derive.sha256(),
        files: std::collections::BTreeMap::new(),
        spans: std::collections::BTreeMap::new(),
        at: None,
    };
    manifest.write(&directory).expect("the manifest can be written");
}

/// The results of metrics in a fixture, which comparisons read.
///
/// # Panics
/// When the file cannot be read.
pub fn metric_results(case: &str) -> Csv {
    let file = project().join("tests/fixtures").join(case).join(format!("{}.csv", RESULTS.name));
    if !file.exists() {
        return Csv { columns: Vec::new(), rows: Vec::new() };
    }
    Csv::parse(&std::fs::read_to_string(file).expect("the file can be read"))
}

/// The rows of a query, as text.
fn cells(connection: &Connection, query: &str) -> Vec<Vec<Cell>> {
    let mut statement = connection.prepare(query).expect("a query");
    let mut rows = statement.query([]).expect("a query");
    let mut out = Vec::new();
    while let Some(row) = rows.next().expect("rows") {
        let columns = row.as_ref().column_count();
        out.push((0..columns).map(|i| row.get::<_, Option<String>>(i).expect("text")).collect());
    }
    out
}

/// The rows in hand as a table, with the rank in front.
fn with_rank(rows: &mut Rows, rank: &str, csv: &mut Csv) {
    let batch = rows.take().expect("a batch");
    let format = FormatOptions::default();
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|c| ArrayFormatter::try_new(c.as_ref(), &format).expect("text"))
        .collect();
    if csv.columns.is_empty() {
        csv.columns = vec!["rank".to_owned()];
        csv.columns.extend(batch.schema().fields().iter().map(|f| f.name().clone()));
    }
    for row in 0..batch.num_rows() {
        let cell = |(i, c): (usize, &ArrayFormatter<'_>)| -> Cell {
            (!batch.column(i).is_null(row)).then(|| c.value(row).to_string())
        };
        let mut cells = vec![Some(rank.to_owned())];
        cells.extend(columns.iter().enumerate().map(cell));
        csv.rows.push(cells);
    }
}

/// Rows as the sweep over the host finds them.
struct Linked {
    launches: Rows,
    ranges: Rows,
}

impl Found for Linked {
    fn launch(&mut self, row: Launch) -> Result<()> {
        row.into_iter().for_each(|value| _ = self.launches.int(some(value)));
        self.launches.end_row();
        Ok(())
    }

    fn range(&mut self, row: HostRange) -> Result<()> {
        let [event, is_op, rest @ ..] = row;
        self.ranges.int(Some(event));
        self.ranges.text(Some(if is_op == 1 { "operator" } else { "annotation" }));
        rest.into_iter().for_each(|value| _ = self.ranges.int(some(value)));
        self.ranges.end_row();
        Ok(())
    }
}

/// The links that a reader makes of the launches and ranges of the host in a fixture.
fn linked(connection: &Connection, has: &dyn Fn(&str) -> bool, work: &Path) -> [Csv; 2] {
    let empty = || Csv { columns: Vec::new(), rows: Vec::new() };
    let [mut launches, mut ranges] = [empty(), empty()];
    let number = |cell: &Cell| cell.as_ref().map_or(NONE, |text| text.parse().expect("a number"));
    let of =
        |table: &str, query: &str| if has(table) { cells(connection, query) } else { Vec::new() };
    let ranks = "SELECT DISTINCT rank::VARCHAR FROM";
    let mut all = of("device_events", &format!("{ranks} device_events"));
    all.extend(of("host_events", &format!("{ranks} host_events")));
    all.sort();
    all.dedup();
    // What is of no rank has no links: readers make them for ranks.
    for rank in all.iter().filter_map(|row| row[0].as_deref()) {
        let mut parts = Parts::default();
        let text = "correlation::VARCHAR, event_id::VARCHAR, ts_ns::VARCHAR";
        let only = format!("rank = {rank}");
        let query =
            format!("SELECT {text} FROM device_events WHERE {only} AND correlation IS NOT NULL");
        for row in of("device_events", &query) {
            parts.devices.push([number(&row[0]), number(&row[1]), number(&row[2])]);
        }
        let query = format!(
            "SELECT {text}, class, name, pid::VARCHAR, tid::VARCHAR, dur_ns::VARCHAR
             FROM host_events WHERE {only}"
        );
        for row in of("host_events", &query) {
            let [correlation, event, ts, pid, tid, dur] =
                [0, 1, 2, 5, 6, 7].map(|i| number(&row[i]));
            let class = row[3].clone().unwrap_or_default();
            let name = row[4].clone().unwrap_or_default();
            if class == "host_runtime" && correlation != NONE {
                parts.calls.push([correlation, dur, event, pid, tid, ts]);
            } else if let Some(kind) = kind(&class, &name)
                && ![pid, tid, dur].contains(&NONE)
            {
                parts.around.push([pid, tid, ts, ts + dur, event, kind]);
            }
        }
        let mut sweep = Launches::new(work, 1 << 20);
        sweep.add(parts, 0).expect("it fits in memory");
        let rows = |name: &str, without| Rows::new(table(name).expect("in the schema"), without);
        let mut found = Linked {
            launches: rows("launches", &["rank"]),
            ranges: rows("host_ranges", &["source", "rank"]),
        };
        sweep.finish(work, 0, &mut found).expect("it fits in memory");
        with_rank(&mut found.launches, rank, &mut launches);
        with_rank(&mut found.ranges, rank, &mut ranges);
    }
    [launches, ranges]
}

/// The rows that a reader makes of the arguments of communication in a fixture.
fn comm_args(connection: &Connection, tables: &[(&str, bool)]) -> Csv {
    let mut csv = Csv { columns: Vec::new(), rows: Vec::new() };
    for (table_name, _) in tables.iter().filter(|(_, has)| *has) {
        let query = format!(
            "SELECT rank::VARCHAR, event_id::VARCHAR, args FROM {table_name}
             WHERE args IS NOT NULL AND (class = 'comm' OR name = 'record_param_comms')"
        );
        for row in cells(connection, &query) {
            let Some(rank) = &row[0] else { continue };
            let event = row[1].as_ref().and_then(|id| id.parse::<i64>().ok());
            let event = event.expect("every event of a fixture has an id");
            let args: Map<String, Value> =
                serde_json::from_str(row[2].as_deref().unwrap_or("{}")).expect("an object");
            let args: Vec<(&str, String)> =
                args.iter().map(|(k, v)| (k.as_str(), v.to_string())).collect();
            let args: Vec<(&str, &str)> = args.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let mut rows = Rows::new(table("comm_args").expect("in the schema"), &["rank"]);
            ccl_sql::readers::kineto::comm_args::add(&mut rows, event, &args);
            with_rank(&mut rows, rank, &mut csv);
        }
    }
    csv
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

/// Writes the rows as the files of a table, and keeps them as a table of the connection.
fn write(connection: &Connection, directory: &Path, table: &Table, csv: &Csv) {
    if csv.rows.is_empty() {
        return;
    }
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
            "CREATE OR REPLACE TABLE {} AS SELECT {} FROM (VALUES {}) AS t(place, {})",
            table.name,
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
        return copy(&format!("SELECT * FROM {}", table.name), &folder);
    }
    let query = format!("SELECT DISTINCT rank FROM {}", table.name);
    let mut ranks = connection.prepare(&query).expect("a query");
    let ranks: Vec<Option<i64>> = ranks
        .query_map([], |row| row.get(0))
        .expect("a query")
        .map(|rank| rank.expect("a number or NULL"))
        .collect();
    for rank in ranks {
        let only = rank.map_or("rank IS NULL".to_owned(), |rank| format!("rank = {rank}"));
        let query = format!("SELECT * EXCLUDE (rank) FROM {} WHERE {only}", table.name);
        copy(&query, &folder.join(rank_folder(rank)));
    }
}

/// Tables that a fixture may hold are those that readers make.
#[test]
fn every_fixture_is_small_and_says_what_it_shows() {
    for folder in folders(&project().join("tests/fixtures")) {
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        assert!(readme.trim().len() > 20, "{} has no README.md", folder.display());
        for file in files(&folder) {
            let stem = name(&file);
            let Some(stem) = stem.strip_suffix(".csv") else { continue };
            let known = TABLES.iter().any(|t| t.name == stem && t.made == Made::Ingest);
            assert!(known || stem == RESULTS.name, "{stem}");
            let csv = Csv::parse(&std::fs::read_to_string(&file).expect("the fixture can be read"));
            assert!((1..=60).contains(&csv.rows.len()), "{} is no tiny table", file.display());
        }
    }
}
