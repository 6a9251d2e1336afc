//! `busy_intervals`: the union of the spans of events, in one sweep.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use duckdb::Connection;

use crate::error::Result;
use crate::functions::interval::{Interval, Merger};
use crate::spool::parquet::TableWriter;
use crate::spool::sort_ints::Spill;

/// Bytes of records that a sort holds before it writes some aside.
pub(crate) const SORT_BYTES: usize = 8 << 20;

/// An integer column of a batch by name.
pub(crate) fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a Int64Array {
    batch.column_by_name(name).expect("the query names the column").as_primitive::<Int64Type>()
}

/// A text column of a batch by name.
pub(crate) fn texts<'a>(batch: &'a RecordBatch, name: &str) -> &'a StringArray {
    batch.column_by_name(name).expect("the query names the column").as_string::<i32>()
}

/// The number in a row, where it is not NULL.
pub(crate) fn int_at(column: &Int64Array, row: usize) -> Option<i64> {
    column.is_valid(row).then(|| column.value(row))
}

/// Whose spans are merged.
struct Key {
    source: String,
    rank: Option<i64>,
    device: Option<i64>,
    class: String,
}

/// The keys in the order of the table, and where each is found.
struct Keys {
    keys: Vec<Key>,
    by_device: HashMap<[Option<i64>; 2], Vec<usize>>,
}

impl Keys {
    fn new(connection: &Connection, spans: &str) -> Result<Self> {
        let mut statement = connection.prepare(&format!(
            "SELECT DISTINCT source, rank, device, class FROM ({spans})
             ORDER BY source, rank, device, class"
        ))?;
        let key = |row: &duckdb::Row<'_>| {
            Ok(Key {
                source: row.get(0)?,
                rank: row.get(1)?,
                device: row.get(2)?,
                class: row.get(3)?,
            })
        };
        let keys: Vec<Key> = statement.query_map([], key)?.collect::<duckdb::Result<_>>()?;
        let mut by_device: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            by_device.entry([key.rank, key.device]).or_default().push(place);
        }
        Ok(Self { keys, by_device })
    }

    fn place(&self, of: [Option<i64>; 2], source: &str, class: &str) -> Option<usize> {
        let mut places = self.by_device.get(&of)?.iter().copied();
        places.find(|p| self.keys[*p].class == class && self.keys[*p].source == source)
    }
}

/// `busy_intervals`: per rank, device and class the union of the spans of its events; where
/// picoseconds are known, each bound is rounded down by itself, so that their loss does not add up.
/// On a rank without any device, the spans of the communication on the host (gloo).
///
/// `ranks` follow each other. `busy` is given what is merged of devices: source, rank, span.
pub(crate) fn busy_intervals(
    connection: &Connection,
    ranks: &[i64],
    work: &Path,
    writer: &mut TableWriter,
    mut busy: impl FnMut(&str, Option<i64>, Interval) -> Result<()>,
) -> Result<()> {
    let on_devices = "SELECT source, rank, device, class, ts_ns,
             ts_ns + dur_ns + coalesce(ts_ps + dur_ps, 0) // 1000 AS end_ns
         FROM device_events
         WHERE class IN ('comm', 'compute', 'copy', 'set', 'graph') AND dur_ns IS NOT NULL";
    let (Some(first), Some(last)) = (ranks.first(), ranks.last()) else { return Ok(()) };
    let on_hosts = format!(
        "SELECT source, rank, device, 'comm' AS class, ts_ns, ts_ns + dur_ns AS end_ns
         FROM _collective_events
         WHERE device IS NULL AND rank BETWEEN {first} AND {last}"
    );
    for (spans, is_device) in [(on_devices, true), (&*on_hosts, false)] {
        let keys = Keys::new(connection, spans)?;
        let mut sorted = Spill::new(work, "busy", SORT_BYTES);
        for batch in connection.prepare(spans)?.stream_arrow([])? {
            let batch = batch?;
            let (rank, device) = (ints(&batch, "rank"), ints(&batch, "device"));
            let (start, end) = (ints(&batch, "ts_ns"), ints(&batch, "end_ns"));
            let (source, class) = (texts(&batch, "source"), texts(&batch, "class"));
            for row in 0..batch.num_rows() {
                let of = [int_at(rank, row), int_at(device, row)];
                if let Some(place) = keys.place(of, source.value(row), class.value(row)) {
                    let place = i64::try_from(place).unwrap_or(i64::MAX);
                    sorted.push([place, start.value(row), end.value(row)])?;
                }
            }
        }
        let mut write = |place: usize, merged: Option<Interval>| -> Result<()> {
            let (Some((start, end)), Some(key)) = (merged, keys.keys.get(place)) else {
                return Ok(());
            };
            let row = writer.row();
            row.text(Some(&key.source)).int(key.rank).int(key.device);
            row.text(Some(&key.class)).int(Some(start)).int(Some(end));
            writer.end_row()?;
            if is_device { busy(&key.source, key.rank, (start, end)) } else { Ok(()) }
        };
        let (mut place, mut merger) = (0, Merger::default());
        for row in sorted.sorted()? {
            let [next, start, end] = row?;
            let next = usize::try_from(next).unwrap_or_default();
            if next != place {
                write(place, merger.finish())?;
                place = next;
            }
            write(place, merger.push((start, end)))?;
        }
        write(place, merger.finish())?;
    }
    Ok(())
}
