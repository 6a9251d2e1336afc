//! Parquet: one table, compressed with Zstandard.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use crate::error::Result;

/// The bytes of a file that holds some batches of one schema, with keys and values in its footer.
///
/// # Errors
/// `io` when it cannot be built.
pub(super) fn write(batches: &[RecordBatch], footer: &[(String, String)]) -> Result<Vec<u8>> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let batch = concat_batches(&first.schema(), batches)?;
    let footer: Vec<KeyValue> =
        footer.iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())).collect();
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

/// Rows of the program's own as Arrow: integers, doubles, and all else as text.
///
/// # Errors
/// `io` when the rows are no table.
pub(super) fn batch(columns: &[String], rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (i, name) in columns.iter().enumerate() {
        let cells: Vec<&Value> = rows.iter().map(|row| &row[i]).collect();
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
