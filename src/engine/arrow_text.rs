//! A row of Arrow as a text, for what is written down as JSON: its stream as hexadecimal digits.

use arrow::array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a row, where there is one.
///
/// # Errors
/// Those of Arrow.
pub fn serialize<S: Serializer>(batch: &Option<RecordBatch>, to: S) -> Result<S::Ok, S::Error> {
    let text = batch.as_ref().map(written).transpose();
    text.map_err(S::Error::custom)?.serialize(to)
}

fn written(batch: &RecordBatch) -> arrow::error::Result<String> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    Ok(crate::hash::hex(&writer.into_inner()?))
}

/// Reads what [`serialize`] wrote.
///
/// # Errors
/// For anything else.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RecordBatch>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let bytes = crate::hash::unhex(&text).ok_or_else(|| D::Error::custom("no digits"))?;
    let mut batches = StreamReader::try_new(&bytes[..], None).map_err(D::Error::custom)?;
    batches.next().transpose().map_err(D::Error::custom)
}
