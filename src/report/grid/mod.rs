//! A table as bytes: one file per form. Values keep the unit of their column everywhere.

mod csv;
pub mod format;
mod line;
pub mod markdown;
mod parquet;
pub mod stream;
pub mod table;
pub mod value;

use arrow::array::RecordBatch;
use serde_json::Value;

use self::format::Format;
use self::table::Layout;
use self::value::{bare, pretty};
use crate::engine::json;
use crate::error::{Error, Result};

/// A result in rows of JSON values, and as Arrow where it came from a query.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// The rows as Arrow, where they came from a query.
    pub batches: Vec<RecordBatch>,
    /// Column that the format `value` prints; the first one by default.
    pub value_column: usize,
    /// Keys and values for the footer of a Parquet file.
    pub footer: Vec<(String, String)>,
}

impl Grid {
    /// The rows of a query.
    pub fn of_batches(batches: Vec<RecordBatch>) -> Self {
        let columns = batches.first().map_or_else(Vec::new, |b| {
            b.schema().fields().iter().map(|f| f.name().clone()).collect()
        });
        let rows = batches
            .iter()
            .flat_map(|b| {
                (0..b.num_rows())
                    .map(|row| b.columns().iter().map(|c| json::value(c, row)).collect())
            })
            .collect();
        Self { columns, rows, batches, ..Self::default() }
    }

    /// Rows that come from the program itself.
    pub fn of_rows(columns: &[&str], rows: Vec<Vec<Value>>) -> Self {
        Self { columns: columns.iter().map(|c| (*c).to_owned()).collect(), rows, ..Self::default() }
    }

    /// The rows as objects.
    pub fn objects(&self) -> Value {
        Value::Array(
            self.rows
                .iter()
                .map(|row| {
                    Value::Object(self.columns.iter().cloned().zip(row.iter().cloned()).collect())
                })
                .collect(),
        )
    }

    /// The rows as objects, a line each.
    pub fn json_lines(&self) -> Vec<u8> {
        let Value::Array(rows) = self.objects() else { return Vec::new() };
        rows.iter().flat_map(value::json_line).collect()
    }

    /// The rows as values between tabs; of those in a text a backslash and a letter stay.
    pub fn tab_separated(&self) -> Vec<u8> {
        let whole = |text: &str| {
            text.replace('\\', "\\\\")
                .replace('\t', "\\t")
                .replace('\n', "\\n")
                .replace('\r', "\\r")
        };
        let mut out: Vec<String> = self.columns.iter().map(|name| whole(name)).collect();
        let mut text = out.join("\t") + "\n";
        for row in &self.rows {
            out = row
                .iter()
                .map(|value| if value.is_null() { String::new() } else { whole(&bare(value)) })
                .collect();
            text.push_str(&(out.join("\t") + "\n"));
        }
        text.into_bytes()
    }

    /// `column = value`, a line each.
    pub fn lines(&self) -> Vec<u8> {
        line::write(&self.columns, &self.rows).into_bytes()
    }

    /// The rows as aligned columns: of a screen those that have room.
    pub fn table(&self, layout: Layout) -> Vec<u8> {
        table::write(&self.columns, &self.rows, usize::MAX, layout).into_bytes()
    }

    /// The bare values of the value column, a line each.
    pub(super) fn values(&self) -> Vec<u8> {
        let mut out = String::new();
        for row in &self.rows {
            out.push_str(&row.get(self.value_column).map(bare).unwrap_or_default());
            out.push('\n');
        }
        out.into_bytes()
    }

    /// The bytes in a format. Cells of a table that are longer than `max_cell` characters are cut.
    ///
    /// # Errors
    /// `io` when Parquet cannot be built.
    pub fn bytes(&self, format: Format, max_cell: usize) -> Result<Vec<u8>> {
        Ok(match format {
            Format::Table => {
                table::write(&self.columns, &self.rows, max_cell, Layout::default()).into_bytes()
            }
            Format::Csv => csv::write(&self.columns, &self.rows, true).into_bytes(),
            Format::Json => pretty(&self.objects()),
            Format::Markdown => markdown::table(&self.columns, &self.rows, true).into_bytes(),
            Format::Value => self.values(),
            Format::Parquet if self.batches.is_empty() => {
                parquet::write(&[parquet::batch(&self.columns, &self.rows)?], &self.footer)?
            }
            Format::Parquet => parquet::write(&self.batches, &self.footer)?,
            Format::Text | Format::Html | Format::Xlsx | Format::Perfetto | Format::Chrome => {
                return Err(Error::new("usage", "a single table has no such form")
                    .hint("table, json, csv, parquet, md or value"));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::of_rows(
            &["name", "n", "x"],
            vec![
                vec!["a,\"b\"".into(), 1.into(), 0.5.into()],
                vec!["".into(), Value::Null, 1e30.into()],
            ],
        )
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let text = String::from_utf8(grid().bytes(Format::Csv, 80).expect("csv")).expect("text");
        assert_eq!(text, "name,n,x\n\"a,\"\"b\"\"\",1,0.5\n\"\",,1e+30\n");
    }

    #[test]
    fn json_steers_no_terminal() {
        let text = "a\u{1b}[31m\u{9b}31m\u{7f}\u{202e}ü漢";
        let out = String::from_utf8(pretty(&text.into())).expect("text");
        assert_eq!(out, "\"a\\u001b[31m\\u009b31m\\u007f\\u202eü漢\"\n");
        assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), text);
    }

    #[test]
    fn value_prints_the_value_column() {
        let grid = Grid { value_column: 1, ..grid() };
        let text = String::from_utf8(grid.bytes(Format::Value, 80).expect("value")).expect("text");
        assert_eq!(text, "1\nnull\n");
    }

    #[test]
    fn parquet_of_own_rows_has_types() {
        let batch = parquet::batch(&grid().columns, &grid().rows).expect("a batch");
        let types: Vec<String> =
            batch.schema().fields().iter().map(|f| f.data_type().to_string()).collect();
        assert_eq!(types, ["Utf8", "Int64", "Float64"]);
        assert!(grid().bytes(Format::Parquet, 80).expect("parquet").starts_with(b"PAR1"));
    }

    #[test]
    fn table_aligns_numbers_and_cuts_long_cells() {
        let long = Grid::of_rows(&["a"], vec![vec!["x".repeat(50).into()]]);
        let text = String::from_utf8(long.bytes(Format::Table, 10).expect("table")).expect("text");
        assert_eq!(text, "a\n----------\nxxxxxxxxx…\n");
        let text =
            String::from_utf8(grid().bytes(Format::Table, 80).expect("table")).expect("text");
        assert_eq!(
            text,
            "name      n      x\n-----  ----  -----\na,\"b\"     1    0.5\n       NULL  1e+30\n"
        );
    }
}
