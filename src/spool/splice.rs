//! Files of many ranks out of files of one: row groups are copied as they are encoded, and only
//! what they lack is added (the rank, the source, the base of the clock).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{BatchCoalescer, filter_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, ProjectionMask};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;

use crate::error::{Error, Result, io};
use crate::input::time::shifted;
use crate::spool::parquet::{Effort, GROUP_ROWS, properties};

/// Row groups with fewer rows are not copied but joined: a reader pays for each row group.
const COPY_ROWS: i64 = 32_768;
/// Row groups with so many bytes are copied, though they have few rows: their lists or texts are
/// long, and joined they would all be in memory.
const COPY_BYTES: i64 = 8 << 20;
/// The same of values of a column of lists, in however few bytes they are encoded.
const COPY_VALUES: i64 = 1 << 20;
/// Bytes of a file that is read at once.
const SMALL: u64 = 1 << 20;
/// Rows read at a time where rows are joined.
const BATCH_ROWS: usize = 8192;

/// The columns that a file lacks, and the base that its times lack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lacks {
    /// Value of the column `rank`.
    pub rank: Option<i64>,
    /// Value of the column `source`.
    pub source: &'static str,
    /// Added to relative `ts_ns`.
    pub base_ns: i64,
}

/// A file to read from: in memory where it is small, so that a page does not cost calls of the
/// system.
enum Input {
    Small(Bytes),
    Large(File),
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|e| io(path, &e))?;
        let bytes = file.metadata().map_err(|e| io(path, &e))?.len();
        if bytes > SMALL {
            return Ok(Self::Large(file));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|e| io(path, &e))?;
        Ok(Self::Small(text.into()))
    }

    fn again(&self) -> Result<Self> {
        Ok(match self {
            Self::Small(bytes) => Self::Small(bytes.clone()),
            Self::Large(file) => Self::Large(file.try_clone().map_err(|e| {
                Error::new("io", format!("cannot read a file of the workspace: {e}"))
            })?),
        })
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        match self {
            Self::Small(bytes) => bytes.len() as u64,
            Self::Large(file) => Length::len(file),
        }
    }
}

impl ChunkReader for Input {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Self::Small(bytes) => Box::new(bytes.get_read(start)?),
            Self::Large(file) => Box::new(file.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::Small(bytes) => bytes.get_bytes(start, length),
            Self::Large(file) => file.get_bytes(start, length),
        }
    }
}

/// Writes one file of a table.
pub struct Splicer {
    path: PathBuf,
    schema: SchemaRef,
    writer: Option<SerializedFileWriter<File>>,
    /// Rows that are joined into a row group of their own.
    joined: BatchCoalescer,
    rows: u64,
}

fn shift(times: &Int64Array, base_ns: i64) -> ArrayRef {
    Arc::new(times.unary::<_, Int64Type>(|ts| shifted(ts, base_ns)))
}

/// Whether a row group holds `rank` alone, and whether it may hold it, as its statistics say.
fn holds(group: &RowGroupMetaData, column: usize, rank: Option<i64>) -> (bool, bool) {
    let Some(rank) = rank else { return (false, true) };
    match group.column(column).statistics() {
        Some(Statistics::Int64(s)) => match (s.min_opt(), s.max_opt()) {
            (Some(min), Some(max)) => {
                let no_nulls = s.null_count_opt() == Some(0);
                (no_nulls && *min == rank && *max == rank, *min <= rank && rank <= *max)
            }
            _ => (false, true),
        },
        _ => (false, true),
    }
}

/// Whether a row group is copied as it is.
fn is_copied(group: &RowGroupMetaData) -> bool {
    let is_long = |column: &ColumnChunkMetaData| column.num_values() >= COPY_VALUES;
    group.num_rows() >= COPY_ROWS
        || group.total_byte_size() >= COPY_BYTES
        || group.columns().iter().any(is_long)
}

impl Splicer {
    /// For a file of this schema.
    pub fn new(path: PathBuf, schema: SchemaRef) -> Self {
        let joined = BatchCoalescer::new(schema.clone(), GROUP_ROWS / 2);
        Self { path, schema, writer: None, joined, rows: 0 }
    }

    fn here(&self, error: impl Into<Error>) -> Error {
        error.into().at(self.path.display().to_string())
    }

    /// Adds every row of a file that lacks `lacks`.
    ///
    /// # Errors
    /// `io` when a file cannot be read or written.
    pub fn add(&mut self, from: &Path, lacks: Lacks) -> Result<()> {
        let file = Input::open(from)?;
        let metadata = ArrowReaderMetadata::load(&file, Default::default())?;
        for (i, group) in metadata.metadata().row_groups().iter().enumerate() {
            if is_copied(group) {
                self.copy(&file, &metadata, i, lacks)?;
            } else {
                for batch in read(&file, &metadata, i, ProjectionMask::all())? {
                    let batch = self.completed(&batch?, lacks)?;
                    self.join(batch)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of one rank out of a file that has every column.
    ///
    /// # Errors
    /// As [`Splicer::add`].
    pub fn add_rank(&mut self, from: &Path, rank: Option<i64>) -> Result<()> {
        let file = Input::open(from)?;
        let metadata = ArrowReaderMetadata::load(&file, Default::default())?;
        let column = metadata.schema().index_of("rank")?;
        for (i, group) in metadata.metadata().row_groups().iter().enumerate() {
            let (whole, part) = holds(group, column, rank);
            if whole && is_copied(group) {
                self.copy(&file, &metadata, i, Lacks::default())?;
            } else if part {
                for batch in read(&file, &metadata, i, ProjectionMask::all())? {
                    let batch = batch?;
                    let ranks = batch.column(column).as_primitive::<Int64Type>();
                    let is_wanted = |i| ranks.is_valid(i).then(|| ranks.value(i)) == rank;
                    let wanted = BooleanBuffer::collect_bool(ranks.len(), is_wanted);
                    self.join(filter_record_batch(&batch, &wanted.into())?)?;
                }
            }
        }
        Ok(())
    }

    /// Adds rows of the full schema.
    ///
    /// # Errors
    /// `io` when the file cannot be written.
    pub fn join(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // Types alone: what came from a file carries its own metadata.
        let batch = RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?;
        self.joined.push_batch(batch)?;
        self.write_joined()
    }

    /// The batch with the columns and the base that it lacks.
    ///
    /// # Errors
    /// `io` when the columns do not fit.
    pub fn completed(&self, batch: &RecordBatch, lacks: Lacks) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self
            .schema
            .fields()
            .iter()
            .map(|field| match batch.column_by_name(field.name()) {
                Some(column) if field.name() == "ts_ns" && lacks.base_ns != 0 => {
                    shift(column.as_primitive(), lacks.base_ns)
                }
                Some(column) => column.clone(),
                None => constant(field.name(), rows, lacks),
            })
            .collect();
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    fn writer(&mut self) -> Result<&mut SerializedFileWriter<File>> {
        if self.writer.is_none() {
            let file = File::create(&self.path).map_err(|e| io(&self.path, &e))?;
            let schema = ArrowSchemaConverter::new().convert(&self.schema)?;
            let writer = SerializedFileWriter::new(
                file,
                schema.root_schema_ptr(),
                properties(&self.schema, Effort::Usual),
            )
            .map_err(|e| self.here(e))?;
            self.writer = Some(writer);
        }
        Ok(self.writer.as_mut().expect("it was made just now"))
    }

    /// Writes the joined rows that make whole row groups.
    fn write_joined(&mut self) -> Result<()> {
        while let Some(batch) = self.joined.next_completed_batch() {
            let columns = batch.columns().iter().cloned().map(Column::New).collect();
            self.group(columns, batch.num_rows())?;
        }
        Ok(())
    }

    /// Copies a row group.
    fn copy(
        &mut self,
        file: &Input,
        metadata: &ArrowReaderMetadata,
        index: usize,
        lacks: Lacks,
    ) -> Result<()> {
        // What came before goes before.
        self.joined.finish_buffered_batch()?;
        self.write_joined()?;
        let group = metadata.metadata().row_group(index);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let name = field.name();
            columns.push(match metadata.schema().index_of(name) {
                Err(_) => Column::New(constant(name, rows, lacks)),
                Ok(at) if name == "ts_ns" && lacks.base_ns != 0 => {
                    let mask = ProjectionMask::leaves(metadata.parquet_schema(), [at]);
                    let mut times = Vec::with_capacity(rows);
                    for batch in read(file, metadata, index, mask)? {
                        times.extend(batch?.column(0).as_primitive::<Int64Type>().iter());
                    }
                    Column::New(shift(&Int64Array::from(times), lacks.base_ns))
                }
                Ok(at) => Column::Old(
                    file,
                    Box::new(ColumnCloseResult {
                        bytes_written: u64::try_from(group.column(at).compressed_size())
                            .unwrap_or(0),
                        rows_written: rows as u64,
                        metadata: group.column(at).clone(),
                        bloom_filter: None,
                        column_index: None,
                        offset_index: None,
                    }),
                ),
            });
        }
        self.group(columns, rows)
    }

    fn group(&mut self, columns: Vec<Column<'_>>, rows: usize) -> Result<()> {
        let schema = self.schema.clone();
        let index = self.writer.as_ref().map_or(0, |w| w.flushed_row_groups().len());
        let path = self.path.display().to_string();
        let writer = self.writer()?;
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        let encoders = factory.create_column_writers(index)?;
        let write = || -> Result<()> {
            let mut group = writer.next_row_group()?;
            for ((column, field), mut encoder) in
                columns.into_iter().zip(schema.fields()).zip(encoders)
            {
                match column {
                    Column::Old(file, close) => group.append_column(file, *close)?,
                    Column::New(array) => {
                        for leaf in compute_leaves(field, &array)? {
                            encoder.write(&leaf)?;
                        }
                        encoder.close()?.append_to_row_group(&mut group)?;
                    }
                }
            }
            group.close()?;
            Ok(())
        };
        write().map_err(|e| e.at(path))?;
        self.rows += rows as u64;
        Ok(())
    }

    /// Closes the file; its rows (a file without rows does not appear).
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn finish(mut self) -> Result<u64> {
        self.joined.finish_buffered_batch()?;
        self.write_joined()?;
        if let Some(writer) = self.writer.take() {
            writer.close().map_err(|e| self.here(e))?;
        }
        Ok(self.rows)
    }
}

/// A column of a row group: copied from a file, or encoded here.
enum Column<'f> {
    Old(&'f Input, Box<ColumnCloseResult>),
    New(ArrayRef),
}

fn constant(name: &str, rows: usize, lacks: Lacks) -> ArrayRef {
    match name {
        "rank" => Arc::new(match lacks.rank {
            Some(rank) => Int64Array::from_value(rank, rows),
            None => Int64Array::new_null(rows),
        }),
        "source" => {
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n(lacks.source, rows)))
        }
        other => panic!("a spool file lacks the column {other}"),
    }
}

/// The rows of one row group.
fn read(
    file: &Input,
    metadata: &ArrowReaderMetadata,
    group: usize,
    columns: ProjectionMask,
) -> Result<impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>> {
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file.again()?, metadata.clone())
        .with_row_groups(vec![group])
        .with_projection(columns)
        .with_batch_size(BATCH_ROWS)
        .build()?)
}

/// Gives every row of files of one rank to `take`, in the order of the files.
///
/// # Errors
/// `io` when a file cannot be read; what `take` returns.
pub fn each_batch(from: &Path, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let file = Input::open(from)?;
    let metadata = ArrowReaderMetadata::load(&file, Default::default())?;
    for group in 0..metadata.metadata().num_row_groups() {
        for batch in read(&file, &metadata, group, ProjectionMask::all())? {
            take(batch?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn batch(schema: &SchemaRef, ranks: Int64Array) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..ranks.len() as i64);
        RecordBatch::try_new(schema.clone(), vec![Arc::new(ranks), Arc::new(numbers)])
            .expect("the columns fit")
    }

    /// Row groups that are large enough to be copied, of each kind: of one rank, of it and of none,
    /// of two, and of another.
    #[test]
    fn rows_of_one_rank_are_those_of_no_other_and_of_none() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("rank", DataType::Int64, true),
            Field::new("number", DataType::Int64, false),
        ]));
        let from = folder.path().join("from.parquet");
        let file = File::create(&from).expect("a file");
        let mut writer = ArrowWriter::try_new(file, schema.clone(), None).expect("a writer");
        let rows = COPY_ROWS;
        let mixed: [fn(i64) -> Option<i64>; 4] = [
            |_| Some(3),
            |i| (i % 4 != 0).then_some(3),
            |i| Some(if i % 4 == 0 { 5 } else { 3 }),
            |_| Some(5),
        ];
        for rank in mixed {
            let ranks = (0..rows).map(rank).collect();
            writer.write(&batch(&schema, ranks)).expect("it can be written");
            writer.flush().expect("it can be written");
        }
        writer.close().expect("it can be written");
        let quarter = rows / 4;
        for (rank, count) in [
            (Some(3), rows + 3 * quarter + 3 * quarter),
            (Some(5), quarter + rows),
            (Some(4), 0),
            (None, quarter),
        ] {
            let to = folder.path().join("to.parquet");
            let mut splicer = Splicer::new(to.clone(), schema.clone());
            splicer.add_rank(&from, rank).expect("it can be read");
            assert_eq!(splicer.finish().expect("it can be written"), count as u64, "{rank:?}");
            if count > 0 {
                each_batch(&to, |batch| {
                    let ranks = batch.column(0).as_primitive::<Int64Type>();
                    assert!(ranks.iter().all(|of| of == rank), "{rank:?}");
                    Ok(())
                })
                .expect("it can be read");
            }
        }
    }
}
