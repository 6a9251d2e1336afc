//! A folder with a Parquet file for each table (`nsys export --type parquetdir`): the same tables
//! and columns as in the database, so it is made into one, which the reader then reads.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::error::{Error, Result};
use crate::input::place;
use crate::sql_text::sql_name;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 4096;
/// Tables of a folder that are read.
const MAX_TABLES: usize = 1000;

/// The type of a column in the database; None for one that has none.
fn sqlite_type(ty: &DataType) -> Option<&'static str> {
    Some(match ty {
        ty if ty.is_integer() => "INTEGER",
        DataType::Boolean => "INTEGER",
        DataType::Float32 | DataType::Float64 => "REAL",
        DataType::Utf8 | DataType::LargeUtf8 => "TEXT",
        DataType::Binary | DataType::LargeBinary => "BLOB",
        _ => return None,
    })
}

/// A field; unsigned numbers past 2^63 turn negative, as in the database.
fn value(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Int8 => Value::Integer(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Value::Integer(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Integer(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Integer(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Value::Integer(column.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Value::Integer(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Value::Integer(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => {
            Value::Integer(column.as_primitive::<UInt64Type>().value(row).cast_signed())
        }
        DataType::Boolean => Value::Integer(column.as_boolean().value(row).into()),
        DataType::Float32 => Value::Real(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::Real(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Value::Text(column.as_string::<i64>().value(row).to_owned()),
        DataType::Binary => Value::Blob(column.as_binary::<i32>().value(row).to_owned()),
        DataType::LargeBinary => Value::Blob(column.as_binary::<i64>().value(row).to_owned()),
        _ => Value::Null,
    }
}

/// Makes the database at `to` out of the folder, which messages call `shown`.
///
/// # Errors
/// `database-corrupt` when a file cannot be read, `value-too-large` for more tables than are read,
/// `io` when the database cannot be written.
pub fn convert(folder: &Path, to: &Path, shown: &str) -> Result<()> {
    let write = |e: rusqlite::Error| {
        Error::new("io", format!("cannot write the database: {e}")).at(to.display().to_string())
    };
    let mut database = Connection::open(to).map_err(write)?;
    database
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        .map_err(write)?;
    let mut tables = 0;
    for path in place::files_of(folder)? {
        let Some(name) = path
            .file_name()
            .and_then(|n| n.to_str()?.strip_suffix(".parquet"))
            .filter(|n| n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
            .filter(|n| !n.starts_with("ENUM_") && !n.starts_with("sqlite_"))
        else {
            continue;
        };
        tables += 1;
        if tables > MAX_TABLES {
            return Err(Error::new("value-too-large", "the folder holds too many tables")
                .at(shown)
                .facts(format!("at most {MAX_TABLES} are read"))
                .hint("leave in the folder what nsys export wrote"));
        }
        let broken = |e: &dyn std::fmt::Display| {
            Error::new("database-corrupt", format!("{name}.parquet cannot be read: {e}"))
                .at(shown)
                .hint("export the report again: nsys export --type parquetdir REPORT.nsys-rep")
        };
        let file = File::open(&path).map_err(|e| broken(&e))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| broken(&e))?;
        let columns: Vec<(usize, String, &str)> = builder
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter_map(|(i, f)| Some((i, sql_name(f.name()), sqlite_type(f.data_type())?)))
            .collect();
        if columns.is_empty() {
            continue;
        }
        let declared: Vec<String> = columns.iter().map(|(_, c, ty)| format!("{c} {ty}")).collect();
        let places = vec!["?"; columns.len()].join(", ");
        let transaction = database.transaction().map_err(write)?;
        transaction
            .execute_batch(&format!("CREATE TABLE {} ({})", sql_name(name), declared.join(", ")))
            .map_err(|e| broken(&e))?;
        {
            let mut insert = transaction
                .prepare(&format!("INSERT INTO {} VALUES ({places})", sql_name(name)))
                .map_err(write)?;
            let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| broken(&e))?;
            for batch in reader {
                let batch = batch.map_err(|e| broken(&e))?;
                for row in 0..batch.num_rows() {
                    let fields = columns.iter().map(|(i, ..)| value(batch.column(*i), row));
                    insert.execute(rusqlite::params_from_iter(fields)).map_err(write)?;
                }
            }
        }
        transaction.commit().map_err(write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::record_batch::RecordBatch;
    use parquet::arrow::ArrowWriter;

    use super::*;

    /// Two rows: a value of each type, and NULL.
    #[test]
    fn values_of_every_type_are_those_of_the_database() {
        let columns: [(&str, ArrayRef, Value); 15] = [
            ("i8", Arc::new(Int8Array::from(vec![Some(-1), None])), Value::Integer(-1)),
            ("i16", Arc::new(Int16Array::from(vec![Some(-2), None])), Value::Integer(-2)),
            ("i32", Arc::new(Int32Array::from(vec![Some(-3), None])), Value::Integer(-3)),
            (
                "i64",
                Arc::new(Int64Array::from(vec![Some(i64::MIN), None])),
                Value::Integer(i64::MIN),
            ),
            ("u8", Arc::new(UInt8Array::from(vec![Some(255), None])), Value::Integer(255)),
            ("u16", Arc::new(UInt16Array::from(vec![Some(65_535), None])), Value::Integer(65_535)),
            ("u32", Arc::new(UInt32Array::from(vec![Some(7), None])), Value::Integer(7)),
            // Past 2^63 it turns negative.
            ("u64", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])), Value::Integer(-1)),
            ("flag", Arc::new(BooleanArray::from(vec![Some(true), None])), Value::Integer(1)),
            ("f32", Arc::new(Float32Array::from(vec![Some(0.5), None])), Value::Real(0.5)),
            ("f64", Arc::new(Float64Array::from(vec![Some(0.1), None])), Value::Real(0.1)),
            (
                "text",
                Arc::new(StringArray::from(vec![Some("a'b"), None])),
                Value::Text("a'b".into()),
            ),
            (
                "long",
                Arc::new(LargeStringArray::from(vec![Some("c"), None])),
                Value::Text("c".into()),
            ),
            (
                "blob",
                Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\0x"), None])),
                Value::Blob(b"\0x".to_vec()),
            ),
            (
                "long_blob",
                Arc::new(LargeBinaryArray::from_opt_vec(vec![Some(b"y"), None])),
                Value::Blob(b"y".to_vec()),
            ),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let exported = folder.path().join("parquetdir");
        std::fs::create_dir(&exported).expect("made");
        let nothing: ArrayRef = Arc::new(Date32Array::from(vec![Some(1), None]));
        let all = columns.iter().map(|(name, array, _)| (*name, Arc::clone(array)));
        let batch = RecordBatch::try_from_iter_with_nullable(
            all.map(|(name, array)| (name, array, true)).chain([("date", nothing, true)]),
        );
        let batch = batch.expect("a batch");
        for name in ["TABLE_1.parquet", "ENUM_X.parquet", "odd name.parquet", "notes.txt"] {
            let file = File::create(exported.join(name)).expect("made");
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
            writer.write(&batch).expect("written");
            writer.close().expect("closed");
        }
        let to = folder.path().join("made.sqlite");
        convert(&exported, &to, "report").expect("converted");
        let database = Connection::open(&to).expect("a database");
        let sql = "SELECT group_concat(name) FROM sqlite_master";
        let tables: String = database.query_row(sql, [], |row| row.get(0)).expect("a row");
        assert_eq!(tables, "TABLE_1");
        let mut rows = database.prepare("SELECT * FROM TABLE_1 ORDER BY rowid").expect("a query");
        assert_eq!(rows.column_count(), columns.len(), "what SQLite has no type for is left out");
        let mut rows = rows.query([]).expect("rows");
        for is_null in [false, true] {
            let row = rows.next().expect("read").expect("a row");
            for (at, (name, _, value)) in columns.iter().enumerate() {
                let found: Value = row.get(at).expect("a value");
                assert_eq!(found, if is_null { Value::Null } else { value.clone() }, "{name}");
            }
        }
    }
}
