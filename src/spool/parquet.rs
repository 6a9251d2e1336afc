//! Parquet files: how they are written, and rows into one file in bounded batches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr,
    WriterVersion,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result, io};
use crate::pool::Pool;
use crate::schema::Table;
use crate::spool::rows::Rows;

/// Rows that go to the writer at a time.
pub const BATCH_ROWS: usize = 8192;
/// Integers in lists after which rows go to the writer early.
const BATCH_LISTED: usize = 1 << 20;
/// Rows of a row group, as DuckDB likes them.
pub const GROUP_ROWS: usize = 122_880;
/// Encoded bytes after which a row group is closed early, to bound memory.
const GROUP_BYTES: usize = 16 << 20;

/// How much memory a file takes while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Large pages and row groups.
    Usual,
    /// Small ones: of a file among many that are open at a time.
    Small,
    /// As small; and what can wait for the end of the source is not opened before.
    None,
}

impl Effort {
    /// Values of a column that wait for their page, in bytes.
    fn page_bytes(self) -> usize {
        match self {
            Self::Usual => 1 << 20,
            Self::Small | Self::None => 64 << 10,
        }
    }

    /// Encoded bytes after which a row group is closed early.
    fn group_bytes(self) -> usize {
        match self {
            Self::Usual => GROUP_BYTES,
            Self::Small | Self::None => GROUP_BYTES / 8,
        }
    }
}

/// How Parquet files are written: zstd; dictionaries for what repeats, differences for times, ids
/// and arguments; minima and maxima where a query prunes by them.
pub fn properties(schema: &SchemaRef, effort: Effort) -> WriterPropertiesPtr {
    Arc::new(builder(schema, effort).build())
}

/// [`properties`] of a file that holds these rows alone. What is short is not compressed: to set up
/// zstd, here and in the reader, takes longer than the column.
fn properties_of(batch: &RecordBatch, effort: Effort, stay: Stay) -> WriterProperties {
    let schema = batch.schema();
    let mut properties = builder(&schema, effort);
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let is_short = column.null_count() == column.len()
            || column.to_data().get_slice_memory_size().is_ok_and(|bytes| bytes < stay.short());
        if is_short {
            let path = ColumnPath::from(field.name().as_str());
            properties = properties.set_column_compression(path, Compression::UNCOMPRESSED);
        }
    }
    properties.build()
}

fn builder(schema: &SchemaRef, effort: Effort) -> WriterPropertiesBuilder {
    // The writer keeps pages of the second version in as much memory as they could have taken,
    // until their row group ends: several times what they take.
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("level 1 exists")))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(effort.page_bytes())
        .set_dictionary_page_size_limit(effort.page_bytes())
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    let leaves = ArrowSchemaConverter::new().convert(schema).expect("a schema of Parquet");
    for leaf in leaves.columns() {
        let encoding = match leaf.physical_type() {
            Type::BOOLEAN => Encoding::RLE,
            Type::INT32 | Type::INT64 => Encoding::DELTA_BINARY_PACKED,
            Type::BYTE_ARRAY => Encoding::DELTA_BYTE_ARRAY,
            _ => continue,
        };
        properties = properties.set_column_encoding(leaf.path().clone(), encoding);
    }
    for field in schema.fields() {
        let path = ColumnPath::from(field.name().as_str());
        let is_differences = matches!(
            field.name().as_str(),
            "ts_ns" | "dur_ns" | "event_id" | "correlation" | "external_id" | "flow_id" | "args"
        );
        if is_differences {
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
        }
        let prunes = *field.data_type() == DataType::Int64
            || matches!(field.name().as_str(), "class" | "source" | "category");
        if prunes {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
    }
    properties
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// It is read once, and gone.
    OnTheWay,
    /// It is a file of a trace.
    Kept,
}

impl Stay {
    /// Bytes of a column that are not compressed where the file has one batch.
    fn short(self) -> usize {
        match self {
            Self::OnTheWay => 64 << 10,
            Self::Kept => 512,
        }
    }
}

/// Bytes of a batch that waits for another: of a file of many ranks each has several that wait.
const HELD_BYTES: usize = 256 << 10;

/// Writes batches of one schema to one file. The file appears with the second batch, one that is
/// long, or at the end; without rows there is none.
pub struct FileWriter {
    path: PathBuf,
    schema: SchemaRef,
    effort: Effort,
    stay: Stay,
    /// The first batch, if it is short, until there is another: most files of small ranks have one.
    first: Option<RecordBatch>,
    writer: Option<ArrowWriter<File>>,
}

impl FileWriter {
    /// For batches of this schema.
    fn new(path: PathBuf, schema: SchemaRef, effort: Effort, stay: Stay) -> Self {
        Self { path, schema, effort, stay, first: None, writer: None }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.writer.is_none() {
            let first = self.first.take();
            if first.is_none() && batch.get_array_memory_size() <= HELD_BYTES {
                self.first = Some(batch.clone());
                return Ok(());
            }
            self.open(builder(&self.schema, self.effort).build())?;
            first.map_or(Ok(()), |first| self.encode(&first))?;
        }
        self.encode(batch)
    }

    fn here(&self, error: impl Into<Error>) -> Error {
        error.into().at(self.path.display().to_string())
    }

    fn open(&mut self, properties: WriterProperties) -> Result<()> {
        let file = File::create(&self.path).map_err(|e| io(&self.path, &e))?;
        self.writer = Some(ArrowWriter::try_new(file, self.schema.clone(), Some(properties))?);
        Ok(())
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut written = writer.write(batch);
        if written.is_ok() && writer.in_progress_size() > self.effort.group_bytes() {
            written = writer.flush();
        }
        written.map_err(|e| self.here(e))
    }

    /// Closes the file; its path when there were rows.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        if let Some(first) = self.first.take() {
            self.open(properties_of(&first, self.effort, self.stay))?;
            self.encode(&first)?;
        }
        let Some(writer) = self.writer.take() else { return Ok(None) };
        writer.close().map_err(|e| self.here(e))?;
        Ok(Some(self.path))
    }
}

/// Writes the rows of one table to one file, row by row.
pub struct TableWriter {
    rows: Rows,
    file: FileWriter,
}

impl TableWriter {
    /// For the columns of `table` without those named in `without`.
    pub fn new(table: &'static Table, without: &[&str], path: PathBuf) -> Self {
        let rows = Rows::new(table, without);
        let file = FileWriter::new(path, rows.schema().clone(), Effort::Usual, Stay::Kept);
        Self { rows, file }
    }

    /// The next columns of the row: [`Rows::text`], [`Rows::int`], [`Rows::double`].
    pub fn row(&mut self) -> &mut Rows {
        &mut self.rows
    }

    /// Ends the row.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn end_row(&mut self) -> Result<()> {
        self.rows.end_row();
        if self.rows.len() == BATCH_ROWS || self.rows.listed() >= BATCH_LISTED {
            self.file.write(&self.rows.take()?)?;
        }
        Ok(())
    }

    /// Writes what is left and closes the file; its path when there were rows.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        if !self.rows.is_empty() {
            self.file.write(&self.rows.take()?)?;
        }
        self.file.finish()
    }
}

struct Waiting {
    batches: std::collections::VecDeque<RecordBatch>,
    /// Whether a task is at it.
    running: bool,
    /// None while a task has it, and after the end.
    file: Option<FileWriter>,
    error: Option<Error>,
}

/// A file that is written by the threads of a pool: batches go in in order, any thread encodes.
pub struct Sink {
    waiting: Mutex<Waiting>,
    /// Batches that are not encoded yet.
    pending: AtomicUsize,
}

/// Batches that may wait at a sink.
const SINK_DEPTH: usize = 4;

impl Sink {
    /// For batches of this schema.
    pub fn new(path: PathBuf, schema: SchemaRef, effort: Effort, stay: Stay) -> Arc<Self> {
        let file = Some(FileWriter::new(path, schema, effort, stay));
        let batches = std::collections::VecDeque::new();
        Arc::new(Self {
            waiting: Mutex::new(Waiting { batches, running: false, file, error: None }),
            pending: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a batch over; waits, helping, while too many are not encoded yet.
    pub fn push(self: &Arc<Self>, pool: &Pool, batch: RecordBatch) {
        if batch.num_rows() == 0 {
            return;
        }
        pool.wait(|| self.pending.load(Ordering::Acquire) < SINK_DEPTH);
        self.pending.fetch_add(1, Ordering::AcqRel);
        let mut waiting = self.lock();
        waiting.batches.push_back(batch);
        if !waiting.running {
            waiting.running = true;
            drop(waiting);
            let sink = self.clone();
            pool.submit(move || sink.encode());
        }
    }

    /// Encodes what waits.
    fn encode(&self) {
        let mut waiting = self.lock();
        let Some(mut file) = waiting.file.take() else { return };
        while let Some(batch) = waiting.batches.pop_front() {
            let failed = waiting.error.is_some();
            drop(waiting);
            let outcome = if failed { Ok(()) } else { file.write(&batch) };
            drop(batch);
            self.pending.fetch_sub(1, Ordering::AcqRel);
            waiting = self.lock();
            if let Err(error) = outcome {
                waiting.error = Some(error);
            }
        }
        waiting.file = Some(file);
        waiting.running = false;
    }

    /// Waits for the encoding and closes the file; its path when there were rows.
    ///
    /// # Errors
    /// `io` when the file could not be written.
    pub fn finish(&self, pool: &Pool) -> Result<Option<PathBuf>> {
        pool.wait(|| self.pending.load(Ordering::Acquire) == 0 && self.lock().file.is_some());
        let mut waiting = self.lock();
        if let Some(error) = waiting.error.take() {
            return Err(error);
        }
        match waiting.file.take() {
            Some(file) => file.finish(),
            None => Ok(None),
        }
    }
}

/// Rows of a Parquet file, from its footer.
///
/// # Errors
/// `io` when it cannot be read.
pub fn count_rows(path: &Path) -> Result<u64> {
    Ok(u64::try_from(footer(path)?.file_metadata().num_rows()).unwrap_or(0))
}

/// Rows of a file of a table, and the least and the greatest rank in it, from its footer. None
/// where that does not say it, or some rows are of no rank.
///
/// # Errors
/// `io` when it cannot be read.
pub fn rows_and_ranks(path: &Path) -> Result<(u64, Option<(i64, i64)>)> {
    let footer = footer(path)?;
    let rows = u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0);
    let of_group = |group: &RowGroupMetaData| {
        let is_rank = |column: &&ColumnChunkMetaData| column.column_path().string() == "rank";
        match group.columns().iter().find(is_rank)?.statistics()? {
            Statistics::Int64(s) if s.null_count_opt() == Some(0) => {
                Some((*s.min_opt()?, *s.max_opt()?))
            }
            _ => None,
        }
    };
    let groups = footer.row_groups().iter().map(of_group);
    let all: Option<Vec<(i64, i64)>> = groups.collect();
    let span = all.and_then(|all| all.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))));
    Ok((rows, span))
}

fn footer(path: &Path) -> Result<ParquetMetaData> {
    let file = File::open(path).map_err(|e| io(path, &e))?;
    let mut reader = ParquetMetaDataReader::new();
    reader
        .try_parse(&file)
        .and_then(|()| reader.finish())
        .map_err(|e| Error::from(e).at(path.display().to_string()))
}
