//! A table of a report: the rows of a view or of a comparison, with what its columns mean.

use duckdb::types::Value as SqlValue;
use serde_json::{Map, Value, json};

use crate::engine::rows::Rows;
use crate::error::Result;
use crate::registry::SqlFile;
use crate::registry::header::Column;
use crate::registry::units::plain_text;

/// Most rows of a sheet: as many as a worksheet holds below its headings.
pub const MOST_ROWS: usize = 1_048_575;

/// Traces whose rows can be had.
pub trait Tables {
    /// The rows of a view, or of a comparison with its parameters; one more than [`MOST_ROWS`] says
    /// that there are more.
    ///
    /// # Errors
    /// `sql` with the path of the file.
    fn rows(&mut self, file: &SqlFile, params: &[(&str, SqlValue)]) -> Result<Rows>;
}

/// A table of a report: the rows of a view or of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// Name of the view.
    pub name: String,
    /// A sentence about the rows.
    pub summary: String,
    /// Sentences about when the rows mislead.
    pub caveats: Vec<String>,
    /// Columns, that of the trace left out.
    pub columns: Vec<SheetColumn>,
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// The reason why there are no rows, or not all of them.
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
    /// A sentence about the column.
    pub doc: String,
}

impl Sheet {
    /// A sentence that stands for the rows where there are none.
    pub fn why_empty(&self) -> String {
        plain_text(self.reason.as_deref().unwrap_or("there are no rows"))
    }

    /// The rows of a view of the traces shown, or of a comparison with its parameters.
    ///
    /// # Errors
    /// `sql` with the path of the file.
    pub fn query(
        tables: &mut dyn Tables,
        file: &SqlFile,
        params: &[(&str, SqlValue)],
    ) -> Result<Self> {
        Ok(Self::new(file, tables.rows(file, params)?))
    }

    /// As [`Sheet::query`], with the column `trace`: for rows of several traces.
    ///
    /// # Errors
    /// `sql` with the path of the file.
    pub fn query_traces(
        tables: &mut dyn Tables,
        file: &SqlFile,
        params: &[(&str, SqlValue)],
    ) -> Result<Self> {
        Ok(Self::with_trace(file, tables.rows(file, params)?))
    }

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

    /// As [`Sheet::new`], with the column `trace`.
    fn with_trace(file: &SqlFile, rows: Rows) -> Self {
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

    /// The sheet in a JSON report: rows are arrays in the order of the columns.
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

/// Whether a ratio is a part of a whole, by what its name ends in. Others are factors, as an
/// imbalance or a change.
pub(super) fn is_share(name: &str) -> bool {
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
pub(super) fn percent(value: &Value) -> Value {
    value.as_f64().map_or_else(|| value.clone(), |part| (100.0 * part).into())
}

/// A column as the header of its file has it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn a_sheet_has_an_end_and_says_so() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let file = registry.view("kernels").expect("a view");
        let of = |count| Sheet::new(file, Rows { rows: vec![Vec::new(); count], reason: None });
        assert_eq!((of(MOST_ROWS).rows.len(), of(MOST_ROWS).reason), (MOST_ROWS, None));
        let cut = of(MOST_ROWS + 1);
        let said = "the first 1048575 rows; `ccl-sql sql \"FROM kernels\"` has all";
        assert_eq!((cut.rows.len(), cut.reason.as_deref()), (MOST_ROWS, Some(said)));
    }
}
