//! Results as bytes: one file per format. Values keep the unit of their column everywhere.

pub mod books;
pub mod card;
pub mod changes;
mod csv;
pub mod document;
pub mod files;
pub mod headline;
pub mod html;
mod line;
mod nested;
pub mod section;
pub mod stream;
mod table;
pub mod text;
pub mod workbook;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

pub use self::table::{Entry, Layout, entries, table_of, texts};
use crate::engine::json;
use crate::error::{Error, Result};
pub use crate::registry::units;

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// JSON.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Parquet.
    Parquet,
    /// The bare value, one per line.
    Value,
    /// A report for people.
    Text,
    /// Markdown.
    Markdown,
    /// A page that needs nothing beside it.
    Html,
    /// A workbook.
    Xlsx,
}

/// A result in rows of JSON values, and as Arrow where it came from a query.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells, by row.
    pub rows: Vec<Vec<Value>>,
    /// The same rows as Arrow.
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

    /// `column = value`, a line each.
    pub fn lines(&self) -> Vec<u8> {
        line::write(self).into_bytes()
    }

    /// The rows as aligned columns: of a screen those that have room.
    pub fn table(&self, layout: Layout) -> Vec<u8> {
        table::write(self, usize::MAX, layout).into_bytes()
    }

    /// The bare values of the value column, a line each.
    fn values(&self) -> Vec<u8> {
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
            Format::Table => table::write(self, max_cell, Layout::default()).into_bytes(),
            Format::Csv => csv::write(self, true).into_bytes(),
            Format::Json => pretty(&self.objects()),
            Format::Markdown => text::table(self, true).into_bytes(),
            Format::Value => self.values(),
            Format::Parquet => self.parquet()?,
            Format::Text | Format::Html | Format::Xlsx => {
                return Err(Error::new("usage", "a single table has no such form")
                    .hint("table, json, csv, parquet, md or value"));
            }
        })
    }

    fn parquet(&self) -> Result<Vec<u8>> {
        let batch = match self.batches.first() {
            Some(first) => concat_batches(&first.schema(), &self.batches)?,
            None => self.as_batch()?,
        };
        let footer: Vec<KeyValue> =
            self.footer.iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata((!footer.is_empty()).then_some(footer))
            .build();
        let mut out = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(out)
    }

    /// The program's own rows as Arrow: integers, doubles, and all else as text.
    fn as_batch(&self) -> Result<RecordBatch> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (i, name) in self.columns.iter().enumerate() {
            let cells: Vec<&Value> = self.rows.iter().map(|row| &row[i]).collect();
            let known = || cells.iter().filter(|c| !c.is_null());
            let array: ArrayRef = if known().count() > 0 && known().all(|c| c.is_i64()) {
                Arc::new(cells.iter().map(|c| c.as_i64()).collect::<Int64Array>())
            } else if known().count() > 0 && known().all(|c| c.is_number()) {
                Arc::new(cells.iter().map(|c| c.as_f64()).collect::<Float64Array>())
            } else {
                Arc::new(
                    cells
                        .iter()
                        .map(|c| match c {
                            Value::Null => None,
                            Value::String(text) => Some(text.clone()),
                            other => Some(other.to_string()),
                        })
                        .collect::<StringArray>(),
                )
            };
            let ty: DataType = array.data_type().clone();
            fields.push(Field::new(name, ty, true));
            arrays.push(array);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// A value as scripts read it: text without quotes, all else as in JSON.
pub fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// JSON for people and programs: indented, with a final line break. What steers a terminal or turns
/// the direction of the text is written as its number, and means the same.
pub fn pretty(value: &Value) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c => out.push(c),
        }
    }
    out.push('\n');
    out.into_bytes()
}

/// Writes a file whole: under a temporary name beside it, then renamed.
///
/// # Errors
/// `output-exists` for an existing file without `force`, `io` when it cannot be written.
pub fn write_file(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let mut staged = files::Staged::new(force);
    staged.add(path, bytes)?;
    staged.commit()
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
        let batch = grid().as_batch().expect("a batch");
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
