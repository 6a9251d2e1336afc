//! Rows into one Parquet file, column by column, in bounded batches.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use duckdb::arrow::array::{ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringBuilder};
use duckdb::arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result, io};
use crate::schema::{Table, Type};

/// Rows that go to the writer at a time.
const BATCH_ROWS: usize = 8192;
/// Rows of a row group, as DuckDB likes them.
const GROUP_ROWS: usize = 122_880;
/// Encoded bytes after which a row group is closed early, to bound memory.
const GROUP_BYTES: usize = 24 << 20;

enum Column {
    Text(StringBuilder),
    Int(Int64Builder),
    Double(Float64Builder),
}

/// Writes the rows of one table to one file. The file appears with the first batch; a table
/// without rows leaves no file.
pub struct TableWriter {
    path: PathBuf,
    schema: SchemaRef,
    columns: Vec<Column>,
    names: Vec<&'static str>,
    writer: Option<ArrowWriter<File>>,
    at: usize,
    pending: usize,
    rows: u64,
}

/// How Parquet files are written: zstd, dictionaries, times and ids as differences.
fn properties(names: &[&str]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for name in names
        .iter()
        .filter(|n| matches!(**n, "ts_ns" | "event_id" | "correlation" | "external_id" | "flow_id"))
    {
        let path = ColumnPath::from(*name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

impl TableWriter {
    /// For the columns of `table` without those named in `without`.
    ///
    /// # Panics
    /// For a table with a column of lists: only derived tables have them, and SQL writes those.
    pub fn new(table: &'static Table, without: &[&str], path: PathBuf) -> Self {
        let kept: Vec<_> = table.columns.iter().filter(|c| !without.contains(&c.name)).collect();
        let full = table.arrow();
        let fields: Vec<_> = full
            .fields()
            .iter()
            .filter(|f| !without.contains(&f.name().as_str()))
            .cloned()
            .collect();
        let columns = kept
            .iter()
            .map(|c| match c.ty {
                Type::Text => Column::Text(StringBuilder::new()),
                Type::Int => Column::Int(Int64Builder::new()),
                Type::Double => Column::Double(Float64Builder::new()),
                Type::IntList => panic!("lists are made by SQL only: {}", c.name),
            })
            .collect();
        Self {
            path,
            schema: Arc::new(Schema::new(fields)),
            columns,
            names: kept.iter().map(|c| c.name).collect(),
            writer: None,
            at: 0,
            pending: 0,
            rows: 0,
        }
    }

    fn wrong(&self, what: &str) -> ! {
        panic!("column {} of {} got {what}", self.at, self.path.display())
    }

    /// The next column of the row, text.
    ///
    /// # Panics
    /// When the next column is of another type: the callers list columns in the order of the schema.
    pub fn text(&mut self, value: Option<&str>) -> &mut Self {
        match &mut self.columns[self.at] {
            Column::Text(b) => b.append_option(value),
            _ => self.wrong("text"),
        }
        self.at += 1;
        self
    }

    /// The next column of the row, an integer.
    ///
    /// # Panics
    /// As [`TableWriter::text`].
    pub fn int(&mut self, value: Option<i64>) -> &mut Self {
        match &mut self.columns[self.at] {
            Column::Int(b) => b.append_option(value),
            _ => self.wrong("an integer"),
        }
        self.at += 1;
        self
    }

    /// The next column of the row, a double.
    ///
    /// # Panics
    /// As [`TableWriter::text`].
    pub fn double(&mut self, value: Option<f64>) -> &mut Self {
        match &mut self.columns[self.at] {
            Column::Double(b) => b.append_option(value),
            _ => self.wrong("a double"),
        }
        self.at += 1;
        self
    }

    /// Ends the row.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    ///
    /// # Panics
    /// When the row has fewer values than columns.
    pub fn end_row(&mut self) -> Result<()> {
        assert_eq!(self.at, self.columns.len(), "a row of {} is short", self.path.display());
        self.at = 0;
        self.pending += 1;
        if self.pending == BATCH_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .map(|c| match c {
                Column::Text(b) => Arc::new(b.finish()) as ArrayRef,
                Column::Int(b) => Arc::new(b.finish()),
                Column::Double(b) => Arc::new(b.finish()),
            })
            .collect();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let file = File::create(&self.path).map_err(|e| io(&self.path, &e))?;
                none.insert(ArrowWriter::try_new(
                    file,
                    self.schema.clone(),
                    Some(properties(&self.names)),
                )?)
            }
        };
        let mut written = writer.write(&batch);
        if written.is_ok() && writer.in_progress_size() > GROUP_BYTES {
            written = writer.flush();
        }
        written.map_err(|e| Error::from(e).at(self.path.display().to_string()))?;
        self.rows += self.pending as u64;
        self.pending = 0;
        Ok(())
    }

    /// Writes what is left and closes the file; the path when there were rows.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        self.flush()?;
        match self.writer.take() {
            None => Ok(None),
            Some(writer) => {
                writer.close()?;
                Ok(Some(self.path))
            }
        }
    }
}
