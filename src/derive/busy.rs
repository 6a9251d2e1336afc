//! `busy_intervals`: the union of the spans of events, in one sweep.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use duckdb::Connection;

use crate::error::Result;
use crate::functions::interval::Merger;
use crate::spool::parquet::TableWriter;

/// An integer column of a batch by name.
fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::Int64Array {
    batch.column_by_name(name).expect("the query names the column").as_primitive::<Int64Type>()
}

/// `busy_intervals`: per rank, device and class the union of the spans of its events; where
/// picoseconds are known, each bound is rounded down by itself, so that their loss does not add up.
/// On a rank without any device, the spans of the communication on the host (gloo).
pub(crate) fn busy_intervals(
    connection: &Connection,
    ranks: &[i64],
    writer: &mut TableWriter,
) -> Result<()> {
    let list: Vec<String> = ranks.iter().map(i64::to_string).collect();
    let mut statement = connection.prepare(&format!(
        "SELECT source, rank, device, class, ts_ns,
                ts_ns + dur_ns + coalesce(ts_ps + dur_ps, 0) // 1000 AS end_ns
         FROM device_events
         WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL
         UNION ALL
         SELECT source, rank, NULL, 'comm', ts_ns, ts_ns + dur_ns
         FROM _collective_events
         WHERE device IS NULL AND rank IN ({})
         ORDER BY source, rank, device, class, ts_ns",
        list.join(", ")
    ))?;
    type Key = (String, Option<i64>, Option<i64>, String);
    let mut key: Option<Key> = None;
    let mut merger = Merger::default();
    let mut row_of = |key: &Option<Key>, merged: Option<(i64, i64)>| -> Result<()> {
        if let (Some((source, rank, device, class)), Some((start, end))) = (key, merged) {
            let row = writer.row();
            row.text(Some(source))
                .int(*rank)
                .int(*device)
                .text(Some(class))
                .int(Some(start))
                .int(Some(end));
            writer.end_row()?;
        }
        Ok(())
    };
    for batch in statement.stream_arrow([])? {
        let batch = batch?;
        let (rank, device) = (ints(&batch, "rank"), ints(&batch, "device"));
        let (start, end) = (ints(&batch, "ts_ns"), ints(&batch, "end_ns"));
        let text =
            |name| batch.column_by_name(name).expect("the query names it").as_string::<i32>();
        let (source, class) = (text("source"), text("class"));
        for row in 0..batch.num_rows() {
            let of = |c: &arrow::array::Int64Array| c.is_valid(row).then(|| c.value(row));
            let same = key.as_ref().is_some_and(|(s, r, d, c)| {
                s == source.value(row)
                    && *r == of(rank)
                    && *d == of(device)
                    && c == class.value(row)
            });
            if !same {
                row_of(&key, merger.finish())?;
                let source = source.value(row).to_owned();
                key = Some((source, of(rank), of(device), class.value(row).to_owned()));
            }
            let merged = merger.push((start.value(row), end.value(row)));
            row_of(&key, merged)?;
        }
    }
    row_of(&key, merger.finish())
}
