//! Types of Arrow as DuckDB names them.

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::sql_text::sql_name;

/// The type of DuckDB whose values DuckDB gives as this type of Arrow.
pub fn sql_type(ty: &DataType) -> String {
    let of = |field: &Field| sql_type(field.data_type());
    match ty {
        DataType::List(item) | DataType::LargeList(item) => format!("{}[]", of(item)),
        DataType::FixedSizeList(item, size) => format!("{}[{size}]", of(item)),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|f| format!("{} {}", sql_name(f.name()), of(f)));
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                format!("MAP({}, {})", of(&pair[0]), of(&pair[1]))
            }
            _ => "VARCHAR".to_owned(),
        },
        // Sums of BIGINT come as HUGEINT.
        DataType::Decimal128(38, 0) => "HUGEINT".to_owned(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        other => scalar(other).to_owned(),
    }
}

fn scalar(ty: &DataType) -> &'static str {
    match ty {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(..) => "TIMESTAMPTZ",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BLOB",
        _ => "VARCHAR",
    }
}

/// The type in a word, for the head of a column: `double`, `struct[]`, `map`.
pub fn short_type(ty: &DataType) -> String {
    match ty {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("{}[]", short_type(item.data_type()))
        }
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        other => sql_type(other).replace(", ", ",").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use duckdb::Connection;

    use super::*;

    #[test]
    fn duckdb_reads_the_types_that_it_gave() {
        let connection = Connection::open_in_memory().expect("DuckDB starts");
        for ty in [
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
            "FLOAT",
            "HUGEINT",
            "DOUBLE",
            "DECIMAL(10, 2)",
            "VARCHAR",
            "BLOB",
            "DATE",
            "TIME",
            "TIMESTAMP",
            "TIMESTAMP_NS",
            "TIMESTAMPTZ",
            "INTERVAL",
            "BIGINT[]",
            "FLOAT[3]",
            "STRUCT(\"a b\" BIGINT, \"c\" VARCHAR[])[]",
            "MAP(VARCHAR, STRUCT(\"n\" DOUBLE))",
        ] {
            let mut statement =
                connection.prepare(&format!("SELECT NULL::{ty} AS x")).expect("a type");
            let schema = statement.query_arrow([]).expect("a row").get_schema();
            let read = sql_type(schema.field(0).data_type());
            let same = format!("SELECT typeof(NULL::{ty}) = typeof(NULL::{read})");
            let is_same: bool = connection.query_row(&same, [], |r| r.get(0)).expect("a row");
            assert!(is_same, "{ty} came back as {read}");
        }
    }
    #[test]
    fn heads_of_columns_have_a_word_for_a_type() {
        let text = |name| Field::new(name, DataType::Utf8, true);
        let pair = DataType::Struct(vec![text("key"), text("value")].into());
        let list = |ty| DataType::List(Field::new("item", ty, true).into());
        for (ty, word) in [
            (DataType::Float64, "double"),
            (DataType::Decimal128(10, 2), "decimal(10,2)"),
            (list(DataType::Int64), "bigint[]"),
            (list(list(pair.clone())), "struct[][]"),
            (DataType::FixedSizeList(text("item").into(), 2), "varchar[]"),
            (pair.clone(), "struct"),
            (DataType::Map(Field::new("entries", pair, false).into(), false), "map"),
        ] {
            assert_eq!(short_type(&ty), word);
        }
    }
}
