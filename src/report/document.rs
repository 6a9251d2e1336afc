//! What a report or a comparison holds before it has a form: tables with what their columns mean,
//! and results of metrics. Nothing is computed here; every form is written from these values.

use serde_json::{Map, Value, json};

use super::headline::{Tile, headline};
use super::nested;
use crate::engine::run::MetricResult;
use crate::engine::sheet::Rows;
use crate::registry::SqlFile;
use crate::registry::header::Column;
use crate::schema::SCHEMA_VERSION;

/// Most rows of a sheet: what a worksheet holds below its headings.
pub const MOST_ROWS: usize = 1_048_575;

/// Everything that a report of one trace says.
#[derive(Debug, Clone)]
pub struct Document {
    /// Name of the trace.
    pub trace: String,
    /// What the reader calls it.
    pub label: String,
    /// Hash over the bytes that the trace was made from.
    pub fingerprint: String,
    /// Tables.
    pub sheets: Vec<Sheet>,
    /// Metrics.
    pub metrics: Vec<Metric>,
}

/// A metric of a report.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Section of the report that shows it first.
    pub section: String,
    /// What it is, in a sentence.
    pub summary: String,
    /// Its area.
    pub area: String,
    /// Better direction: higher or lower.
    pub better: Option<String>,
    /// The column of its value.
    pub value_name: String,
    /// Its details that are lists and maps, as tables.
    pub tables: Vec<Sheet>,
    /// What it says of the trace.
    pub result: MetricResult,
}

impl Document {
    /// A sheet by its name.
    pub fn sheet(&self, name: &str) -> Option<&Sheet> {
        self.sheets.iter().find(|s| s.name == name)
    }

    /// The table of a nested detail by its name, as `straggler.per_rank`.
    pub fn nested(&self, name: &str) -> Option<&Sheet> {
        self.metrics.iter().flat_map(|m| &m.tables).find(|s| s.name == name)
    }

    /// The cell of a sheet of one row; null where there is none.
    pub fn fact(&self, sheet: &str, column: &str) -> &Value {
        let Some(sheet) = self.sheet(sheet) else { return &Value::Null };
        sheet.rows.first().map_or(&Value::Null, |row| sheet.cell(row, column))
    }

    /// The JSON report.
    pub fn json(&self) -> Value {
        json!({
            "report": 1, "trace": self.trace, "label": self.label,
            "provenance": provenance(Some(&self.fingerprint)),
            "headline": headline(self).iter().map(Tile::json).collect::<Vec<Value>>(),
            "sheets": self.sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
            "metrics": self.metrics.iter().map(Metric::json).collect::<Vec<Value>>(),
        })
    }

    /// What the page of the report is made from: the JSON report, with its nested details as tables,
    /// and shares in percent.
    pub fn page(&self) -> Value {
        let mut out = self.json();
        out["sheets"] = self.sheets.iter().map(|s| s.in_percent().json()).collect();
        let pages = out["metrics"].as_array_mut().into_iter().flatten();
        for (page, metric) in pages.zip(&self.metrics) {
            let (value, unit) = metric.shown();
            page["value"] = value;
            page["unit"] = unit.into();
            page["answer"] = metric.result.answer.clone().into();
            page["tables"] = metric.tables.iter().map(|s| s.in_percent().json()).collect();
            let mut shares = Vec::new();
            for (name, detail) in page["details"].as_object_mut().into_iter().flatten() {
                if is_share(name) && detail.is_number() {
                    *detail = percent(detail);
                    shares.push(name.clone());
                }
            }
            page["shares"] = shares.into();
        }
        out
    }
}

impl Metric {
    /// A metric with what its header says.
    pub fn new(file: &SqlFile, section: &str, result: MetricResult) -> Self {
        let better = file.header.value_column().and_then(|c| c.better.clone());
        Self {
            section: section.to_owned(),
            summary: file.header.summary.clone(),
            area: file.header.area.clone(),
            better,
            value_name: file.header.value.clone().unwrap_or_default(),
            tables: nested::tables(file, &result),
            result,
        }
    }

    /// The value and its unit for people: a share in percent.
    pub fn shown(&self) -> (Value, Option<&str>) {
        let (value, unit) = (&self.result.value, self.result.unit.as_deref());
        match unit {
            Some("ratio") if is_share(&self.value_name) => (percent(value), Some("pct")),
            unit => (value.clone(), unit),
        }
    }

    /// The object of `metric --format json`, and what the header says.
    pub fn json(&self) -> Value {
        let mut out = self.result.json();
        if let Value::Object(map) = &mut out {
            map.insert("section".to_owned(), self.section.clone().into());
            map.insert("area".to_owned(), self.area.clone().into());
            map.insert("summary".to_owned(), self.summary.clone().into());
            map.insert("better".to_owned(), self.better.clone().into());
        }
        out
    }
}

/// Runs beside each other: the first is the baseline of each other one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Changes up to this many percent are Similar.
    pub threshold_pct: f64,
    /// Baseline, then tests.
    pub runs: Vec<Run>,
    /// Of each test, its sheets against the baseline.
    pub sheets: Vec<Vec<Sheet>>,
    /// Order of the runs, where there are several tests.
    pub ranking: Option<Sheet>,
}

/// A run of a comparison.
#[derive(Debug, Clone)]
pub struct Run {
    /// What the reader calls it.
    pub label: String,
    /// Name of the trace.
    pub trace: String,
    /// Hash over the bytes that it was made from.
    pub fingerprint: String,
    /// What a report of it shows.
    pub sheets: Vec<Sheet>,
}

impl Comparison {
    /// The JSON comparison.
    pub fn json(&self) -> Value {
        let runs: Vec<Value> = self
            .runs
            .iter()
            .enumerate()
            .map(|(i, run)| {
                json!({
                    "label": run.label, "trace": run.trace,
                    "role": if i == 0 { "base" } else { "test" },
                    "provenance": provenance(Some(&run.fingerprint)),
                    "sheets": run.sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
                })
            })
            .collect();
        let comparisons: Vec<Value> = self.runs[1..]
            .iter()
            .zip(&self.sheets)
            .map(|(run, sheets)| {
                json!({
                    "test": run.label,
                    "sheets": sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
                })
            })
            .collect();
        json!({
            "comparison": 1, "threshold_pct": self.threshold_pct, "provenance": provenance(None),
            "runs": runs, "comparisons": comparisons,
            "ranking": self.ranking.as_ref().map(Sheet::json),
        })
    }

    /// A sheet of a test by its name.
    pub fn sheet(&self, test: usize, name: &str) -> Option<&Sheet> {
        self.sheets.get(test)?.iter().find(|s| s.name == name)
    }
}

/// What made a document.
pub fn provenance(fingerprint: Option<&str>) -> Value {
    let mut out = json!({
        "ccl_sql": env!("CARGO_PKG_VERSION"), "schema_version": SCHEMA_VERSION,
    });
    if let (Value::Object(map), Some(fingerprint)) = (&mut out, fingerprint) {
        map.insert("trace_fingerprint".to_owned(), fingerprint.into());
    }
    out
}

/// A table of a report: the rows of a view or of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// Name of the view.
    pub name: String,
    /// What it says, in a sentence.
    pub summary: String,
    /// When it misleads.
    pub caveats: Vec<String>,
    /// Its columns, the trace left out.
    pub columns: Vec<SheetColumn>,
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// Why there are no rows, or not all of them.
    pub reason: Option<String>,
}

/// A column of a sheet.
#[derive(Debug, Clone, Default)]
pub struct SheetColumn {
    /// Name in SQL.
    pub name: String,
    /// Name in a workbook, where tools before have set one.
    pub heading: Option<String>,
    /// Unit, as `ms` or `pct`; None for names and counts of no unit.
    pub unit: Option<String>,
    /// `higher` or `lower`.
    pub better: Option<String>,
    /// What it is.
    pub doc: String,
}

impl Sheet {
    /// The rows of a view or comparison with what its header says. The column `trace` is left out:
    /// all rows are of one. Of more than [`MOST_ROWS`] the first are kept, and the reason says so.
    pub fn new(file: &SqlFile, rows: Rows) -> Self {
        let mut sheet = Self::with_trace(file, rows);
        if sheet.rows.len() > MOST_ROWS {
            sheet.rows.truncate(MOST_ROWS);
            sheet.reason = Some(format!(
                "the first {MOST_ROWS} rows; `ccl-sql sql \"FROM {}\"` has all",
                file.header.name
            ));
        }
        if sheet.index("trace") == Some(0) {
            sheet.columns.remove(0);
            sheet.rows.iter_mut().filter(|row| !row.is_empty()).for_each(|row| drop(row.remove(0)));
        }
        sheet
    }

    /// The same with the column `trace`, for rows of several.
    pub fn with_trace(file: &SqlFile, rows: Rows) -> Self {
        let header = &file.header;
        Self {
            name: header.name.clone(),
            summary: header.summary.clone(),
            caveats: header.caveats.clone(),
            columns: header.columns.iter().map(|c| column(file, c)).collect(),
            rows: rows.rows,
            reason: rows.reason,
        }
    }

    /// The rows for which `keep` holds, by the cell of a column.
    #[must_use]
    pub fn only(&self, column: &str, keep: impl Fn(&Value) -> bool) -> Self {
        let rows = self.rows.iter().filter(|row| keep(self.cell(row, column))).cloned().collect();
        Self { rows, ..self.clone() }
    }

    /// The sheet for people: its shares, which are parts of 1, in percent as all the others.
    #[must_use]
    pub fn in_percent(&self) -> Self {
        let mut out = self.clone();
        for (i, column) in out.columns.iter_mut().enumerate() {
            if column.unit.as_deref() == Some("ratio") && is_share(&column.name) {
                column.unit = Some("pct".to_owned());
                out.rows.iter_mut().for_each(|row| row[i] = percent(&row[i]));
            }
        }
        out
    }

    /// Place of a column.
    pub fn index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == column)
    }

    /// A cell by the name of its column; null where there is no such column.
    pub fn cell<'a>(&self, row: &'a [Value], column: &str) -> &'a Value {
        self.index(column).and_then(|i| row.get(i)).unwrap_or(&Value::Null)
    }

    /// As it stands in a JSON report: rows are arrays in the order of the columns.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name, "summary": self.summary, "caveats": self.caveats,
            "columns": self.columns.iter().map(SheetColumn::json).collect::<Vec<Value>>(),
            "rows": self.rows, "reason": self.reason,
        })
    }
}

impl SheetColumn {
    /// Name for a workbook.
    pub fn heading(&self) -> &str {
        self.heading.as_deref().unwrap_or(&self.name)
    }

    fn json(&self) -> Value {
        let mut out = Map::new();
        out.insert("name".to_owned(), self.name.clone().into());
        for (key, value) in
            [("heading", &self.heading), ("unit", &self.unit), ("better", &self.better)]
        {
            if let Some(value) = value {
                out.insert(key.to_owned(), value.clone().into());
            }
        }
        out.insert("doc".to_owned(), self.doc.clone().into());
        Value::Object(out)
    }
}

/// Whether a ratio is a part of a whole, as others that are factors (an imbalance, a change) are not:
/// by what its name ends in.
fn is_share(name: &str) -> bool {
    const SHARES: [&str; 21] = [
        "bubble_ratio",
        "classified_ratio",
        "communication_fraction",
        "communication_ratio",
        "compute_utilization_proxy",
        "coverage_ratio",
        "fragmentation_ratio",
        "grouped_ratio",
        "in_steps_ratio",
        "internal_ratio",
        "known_ratio",
        "largest_fraction",
        "largest_stack_ratio",
        "overlap_ratio",
        "overlap_ratio_of_comm",
        "overlap_ratio_of_comp",
        "scattered_ratio",
        "share_ratio",
        "unknown_ratio",
        "utilization_ratio",
        "waiting_ratio",
    ];
    SHARES.iter().any(|share| name.ends_with(share))
        || ["dp", "tp", "pp", "cp", "ep"].iter().any(|dim| name.strip_prefix(dim) == Some("_ratio"))
}

/// A part of 1 in percent.
fn percent(value: &Value) -> Value {
    value.as_f64().map_or_else(|| value.clone(), |part| (100.0 * part).into())
}

fn column(file: &SqlFile, column: &Column) -> SheetColumn {
    let heading = file.header.headings.iter().find(|h| h.left == column.name);
    SheetColumn {
        name: column.name.clone(),
        heading: heading.map(|h| h.right.clone()),
        unit: column.unit.clone(),
        better: column.better.clone(),
        doc: column.doc.clone(),
    }
}
