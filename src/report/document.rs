//! What a report or a comparison holds before it has a form: tables with what their columns mean,
//! and results of metrics. Nothing is computed here; every form is written from these values.

use serde_json::{Map, Value, json};

use crate::registry::SqlFile;
use crate::registry::header::Column;

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
    /// The sheet of a view without its rows; `trace` says which trace anyway.
    pub fn of(file: &SqlFile) -> Self {
        let header = &file.header;
        Self {
            name: header.name.clone(),
            summary: header.summary.clone(),
            caveats: header.caveats.clone(),
            columns: header.columns.iter().map(|c| column(file, c)).collect(),
            rows: Vec::new(),
            reason: None,
        }
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
