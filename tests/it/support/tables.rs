//! The tables and views of ingested traces, asked in the process of the test, and the plans of
//! queries over them.

use std::path::Path;
use std::sync::OnceLock;

use ccl_sql::engine::diagnose::diagnose;
use ccl_sql::engine::metric::{self, Params};
use ccl_sql::engine::{Engine, Own, ResultRow, Selection, Settings, Share, directories, rows};
use ccl_sql::registry::{Registry, SqlFile};
use ccl_sql::report::{Format, Grid};
use ccl_sql::sql_text::{sql_name, sql_string};
use ccl_sql::store::Store;
use ccl_sql::store::manifest::Manifest;
use duckdb::arrow::array::RecordBatch;
use duckdb::types::Value as SqlValue;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::Csv;

/// The SQL files of the project.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::load(None).expect("the registry loads"))
}

/// An operator of a plan that ran.
#[derive(Debug, Default)]
pub struct Operator {
    /// The kind, as DuckDB calls it.
    pub kind: String,
    /// Rows that it made.
    pub rows: f64,
    /// Bytes of these.
    pub bytes: f64,
    /// Conditions, where it is a join.
    pub conditions: Vec<String>,
    /// The operators that its rows come from.
    pub inputs: Vec<Operator>,
}

#[derive(serde::Deserialize)]
struct Plan<'a> {
    #[serde(borrow, default)]
    operator: Vec<&'a RawValue>,
}

/// An operator as DuckDB writes it. Plans lie deeper than a parser of nested values goes: what is
/// below is read one level at a time.
#[derive(serde::Deserialize)]
struct Level<'a> {
    #[serde(rename = "type")]
    kind: String,
    intermediate_rows: f64,
    intermediate_size_bytes: f64,
    extra_info: Value,
    #[serde(borrow, default)]
    children: Vec<&'a RawValue>,
}

impl Operator {
    fn new(text: &&RawValue) -> serde_json::Result<Self> {
        let level: Level<'_> = serde_json::from_str(text.get())?;
        let conditions = match &level.extra_info["Conditions"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            one => one.as_str().map(str::to_owned).into_iter().collect(),
        };
        Ok(Self {
            kind: level.kind,
            rows: level.intermediate_rows,
            bytes: level.intermediate_size_bytes,
            conditions,
            inputs: level.children.iter().map(Self::new).collect::<serde_json::Result<_>>()?,
        })
    }
}

/// The traces of a data directory under one connection: many queries for the price of one start.
pub struct Tables {
    engine: Engine<'static>,
}

impl Tables {
    /// Tables and views over every trace; each is made when it is asked for.
    ///
    /// # Panics
    /// When DuckDB does not start.
    pub fn open(data: &Path) -> Self {
        Self::keeping(data, &[])
    }

    /// The same, for diagnoses: views that several of them read are made once.
    pub fn of_diagnoses(data: &Path) -> Self {
        Self::keeping(data, &registry().diagnoses().collect::<Vec<_>>())
    }

    /// The same; what several of `files` read is made once.
    pub fn keeping(data: &Path, files: &[&SqlFile]) -> Self {
        let registry = registry();
        let store = Store::new(data);
        let folders = directories(&store, &store.traces()).expect("the traces are there");
        let settings = Settings { threads: 1, ..Settings::default() };
        let engine = Engine::open(&folders, registry, &settings).expect("DuckDB starts");
        Self { engine: engine.keeping(files) }
    }

    /// The same of one trace, whose ranks are looked at one by one.
    ///
    /// # Panics
    /// When there is no trace.
    pub fn by_rank(data: &Path, files: &[&SqlFile]) -> Self {
        Self::one_by_one(data, files, false)
    }

    /// The same; what was computed of each rank is kept beside the trace, and read from there.
    ///
    /// # Panics
    /// When there is no trace.
    pub fn with_partials(data: &Path, files: &[&SqlFile]) -> Self {
        Self::one_by_one(data, files, true)
    }

    /// The same with the rows of a share of the ranks alone, of some tables.
    ///
    /// # Panics
    /// When there is no trace.
    pub fn of_share(data: &Path, files: &[&SqlFile], own: Own) -> Self {
        let Self { engine } = Self::one_by_one(data, files, true);
        Self { engine: engine.of_share(Some(own)) }
    }

    fn one_by_one(data: &Path, files: &[&SqlFile], partials: bool) -> Self {
        let store = Store::new(data);
        let directory = directories(&store, &store.traces()).expect("the trace is there").remove(0);
        let data = data.to_owned();
        let settings = Settings { threads: 1, partials, data, ..Settings::default() };
        let folders = [directory.clone()];
        let engine = Engine::open(&folders, registry(), &settings).expect("DuckDB starts");
        let engine = engine.keeping(files).in_parts(0, 0);
        engine.lock_down().expect("files of others are locked away");
        engine.show(vec![Selection { directory, source: None, rows: 0 }]).expect("it is shown");
        Self { engine }
    }

    /// Traces that are shown in turn; those of 100 rows or more are looked at rank by rank.
    ///
    /// # Panics
    /// When DuckDB does not start.
    pub fn in_turn(data: &Path, files: &[&SqlFile]) -> Self {
        let Self { engine } = Self::keeping(data, files);
        Self { engine: engine.in_parts(100, 0) }
    }

    /// Shows one trace, as if it had so many rows.
    ///
    /// # Panics
    /// When what was shown before cannot be forgotten.
    pub fn show(&self, data: &Path, trace: &str, rows: u64) {
        let directory = Store::new(data).directory(trace);
        self.engine.show(vec![Selection { directory, source: None, rows }]).expect("it is shown");
    }

    /// Shows one trace, as one profiler recorded it.
    ///
    /// # Panics
    /// When what was shown before cannot be forgotten.
    pub fn show_source(&self, data: &Path, trace: &str, source: &str) {
        let directory = Store::new(data).directory(trace);
        let source = Some(source.to_owned());
        self.engine.show(vec![Selection { directory, source, rows: 0 }]).expect("it is shown");
    }

    /// Takes the rows of a table away, for whoever asks from now on.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn empty(&self, table: &str) {
        self.engine.make(table).expect("the table can be made");
        let columns = format!("CREATE OR REPLACE TEMP TABLE {table} AS FROM {table} LIMIT 0");
        self.engine.connection.execute_batch(&columns).expect("a table");
    }

    /// Keeps what is of a share of the ranks: the first of two, and so on.
    ///
    /// # Panics
    /// When it cannot be computed.
    pub fn keep_share(&self, level: usize, place: usize, of: usize) {
        self.engine.keep_share(level, Share { place, of }).expect("it can be computed");
    }

    /// The same; or the code of the error.
    pub fn try_share(&self, level: usize, place: usize, of: usize) -> Result<(), &'static str> {
        self.engine.keep_share(level, Share { place, of }).map_err(|e| e.code)
    }

    /// What a metric says of the one trace, which lies in `directory`; or the error.
    pub fn result(&self, directory: &Path, metric: &SqlFile) -> Result<Value, String> {
        self.result_with(directory, metric, &Params::new())
    }

    /// The same with parameters.
    pub fn result_with(
        &self,
        directory: &Path,
        metric: &SqlFile,
        params: &Params,
    ) -> Result<Value, String> {
        let manifest = Manifest::read(directory).map_err(|e| e.to_string())?;
        let result = metric::run(&self.engine, &manifest, metric, params);
        result.map(|result| result.json()).map_err(|e| e.to_string())
    }

    /// No trace, and values of metrics as comparisons read them.
    ///
    /// # Panics
    /// When DuckDB does not start.
    pub fn with_results(rows: &[ResultRow<'_>]) -> Self {
        let settings = Settings { threads: 1, ..Settings::default() };
        let engine = Engine::open(&[], registry(), &settings).expect("DuckDB starts");
        engine.fill_results(rows).expect("the results can be written");
        Self { engine }
    }

    /// The rows of a view, or of a comparison with numbers for its parameters.
    ///
    /// # Panics
    /// When there are none.
    pub fn rows_of(&self, name: &str, params: &[(&str, f64)]) -> Csv {
        let params: Vec<(&str, SqlValue)> =
            params.iter().map(|(name, value)| (*name, SqlValue::Double(*value))).collect();
        let text = self.sheet(name, &params).expect("the query works");
        Csv::parse(&text.expect("there are rows"))
    }

    /// Columns (a list, as SQL) of a table or view as the program would print them in CSV, in a
    /// total order; or why there are none.
    pub fn select(&self, table: &str, columns: &str) -> Result<String, String> {
        self.engine.make(table).map_err(|e| e.to_string())?;
        self.csv(&format!("SELECT {columns} FROM {table} ORDER BY ALL"))
    }

    /// The sheet of a view in a report, or of a comparison with its parameters: the rows as CSV, in
    /// their order, or why there are none; or the error.
    pub fn sheet(
        &self,
        name: &str,
        params: &[(&str, SqlValue)],
    ) -> Result<Result<String, String>, String> {
        let registry = registry();
        let file = registry.view(name).or_else(|| registry.comparison(name));
        let file = file.ok_or_else(|| format!("there is no view or comparison `{name}`"))?;
        let rows = rows::rows(&self.engine, file, params, 10_000).map_err(|e| e.to_string())?;
        if let Some(reason) = rows.reason {
            return Ok(Err(reason));
        }
        let columns: Vec<&str> = file.header.columns.iter().map(|c| c.name.as_str()).collect();
        let bytes = Grid::of_rows(&columns, rows.rows).bytes(Format::Csv, 0);
        let text = String::from_utf8(bytes.map_err(|e| e.to_string())?);
        Ok(Ok(text.map_err(|e| e.to_string())?))
    }

    /// What a diagnosis finds in the one trace, which lies in `directory`, as CSV: `where` and
    /// `limits` are JSON, and `advice` is there where it is asked for; or why it is not looked for;
    /// or the error.
    pub fn findings(
        &self,
        directory: &Path,
        name: &str,
        params: &Params,
        with_advice: bool,
    ) -> Result<Result<String, String>, String> {
        let file = registry().diagnosis(name);
        let file = file.ok_or_else(|| format!("there is no diagnosis `{name}`"))?;
        let manifest = Manifest::read(directory).map_err(|e| e.to_string())?;
        let said = diagnose(&self.engine, &manifest, file, params).map_err(|e| e.to_string())?;
        if let Some(reason) = said.reason {
            return Ok(Err(reason));
        }
        let advice = if with_advice { ",advice" } else { "" };
        let mut out = format!("finding,where,time_per_step_ms,gain_ms,limits{advice}\n");
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let number =
            |ms: Option<f64>| ms.map_or_else(String::new, |ms| Value::from(ms).to_string());
        for found in said.findings {
            let mut fields = vec![
                quoted(&found.finding),
                quoted(&Value::Object(found.place).to_string()),
                number(found.time_per_step_ms),
                number(found.gain_ms),
                quoted(&Value::from(found.limits).to_string()),
            ];
            fields.extend(with_advice.then(|| quoted(&found.advice)));
            out += &(fields.join(",") + "\n");
        }
        Ok(Ok(out))
    }

    /// Whether the tables hold what a file cannot do without.
    pub fn has_rows_for(&self, file: &SqlFile) -> bool {
        file.header.requires.iter().filter(|name| ccl_sql::schema::table(name).is_some()).all(
            |name| {
                self.engine.make(name).expect("the table can be made");
                let sql =
                    format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1)", sql_name(name));
                let rows = self.engine.connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
                rows.expect("the table can be read") > 0
            },
        )
    }

    /// The operators that ran a metric or view, as DuckDB tells them (EXPLAIN ANALYZE).
    pub fn plan(&self, file: &SqlFile) -> Result<Operator, String> {
        for input in file.header.inputs() {
            self.engine.make(input).map_err(|e| e.to_string())?;
        }
        let mut params: Vec<_> = file.header.params.iter().collect();
        // The longest first: one name may begin another.
        params.sort_by_key(|p| std::cmp::Reverse(p.name.len()));
        let sql = params.iter().fold(file.query().to_owned(), |sql, param| {
            let value = param.default.as_deref().map_or_else(|| "NULL".to_owned(), sql_string);
            sql.replace(&format!("${}", param.name), &format!("CAST({value} AS {})", param.ty))
        });
        self.plan_of(&sql)
    }

    /// The operators that ran a query over tables.
    pub fn plan_of(&self, sql: &str) -> Result<Operator, String> {
        let text = self.engine.connection.query_row(
            &format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}"),
            [],
            |row| row.get::<_, String>(1),
        );
        let text = text.map_err(|e| e.to_string())?;
        let plan: Plan<'_> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        // A query of what it says itself needs none.
        let top = plan.operator.first().map(Operator::new).transpose();
        top.map(Option::unwrap_or_default).map_err(|e| e.to_string())
    }

    /// Adds what metrics say of a trace, for comparisons.
    ///
    /// # Panics
    /// When a row lacks a column.
    pub fn add_results(&self, trace: &str, csv: &Csv) {
        let number = |text: Option<&str>| text.map(|t| t.parse::<f64>().expect("a number"));
        let rows: Vec<ResultRow<'_>> = (0..csv.rows.len())
            .map(|row| {
                let place = csv.get(row, "place").expect("a place").parse().expect("an integer");
                let metric = csv.get(row, "metric").expect("a metric");
                let value = number(csv.get(row, "value"));
                let version = csv.index("version").and_then(|_| csv.get(row, "version"));
                let version = version.map_or(1, |v| v.parse().expect("an integer"));
                (trace, place, metric, version, csv.get(row, "unit"), csv.get(row, "better"), value)
            })
            .collect();
        self.engine.fill_results(&rows).expect("the results can be written");
    }

    fn csv(&self, sql: &str) -> Result<String, String> {
        let mut statement = self.engine.connection.prepare(sql).map_err(|e| e.to_string())?;
        let arrow = statement.query_arrow([]).map_err(|e| e.to_string())?;
        let schema = arrow.get_schema();
        let mut batches: Vec<RecordBatch> = arrow.collect();
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        let bytes = Grid::of_batches(batches).bytes(Format::Csv, 0).map_err(|e| e.to_string())?;
        String::from_utf8(bytes).map_err(|e| e.to_string())
    }

    /// The result of a query.
    ///
    /// # Panics
    /// When the query fails.
    pub fn query(&self, sql: &str) -> Csv {
        self.engine.make_named(sql).expect("what it reads can be made");
        Csv::parse(&self.csv(sql).unwrap_or_else(|e| panic!("{e}\n{sql}")))
    }

    /// The one field of the one row of a query, as an integer.
    ///
    /// # Panics
    /// When it is none.
    pub fn int(&self, sql: &str) -> i64 {
        let csv = self.query(sql);
        let field = csv.rows.first().and_then(|row| row.first()?.clone());
        field.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no integer: {sql}"))
    }
}
