//! The tables that a reader writes, by their places.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::schema::table;
use crate::spool::rows::Rows;

/// The tables, and the columns that their spool files lack.
pub const TABLES: [(&str, &[&str]); 9] = [
    ("host_events", &["rank"]),
    ("device_events", &["source", "rank"]),
    ("flows", &["rank"]),
    ("counters", &["source", "rank"]),
    ("metadata", &["rank"]),
    ("launches", &["rank"]),
    ("comm_args", &["rank"]),
    ("step_ranges", &["source", "rank"]),
    ("host_ranges", &["source", "rank"]),
];

/// Places in [`TABLES`].
pub const HOST: usize = 0;
/// Device events.
pub const DEVICE: usize = 1;
/// Arrows.
pub const FLOWS: usize = 2;
/// Samples.
pub const COUNTERS: usize = 3;
/// Header keys.
pub const METADATA: usize = 4;
/// Made when the file ends.
pub const LAUNCHES: usize = 5;
/// What communication says of itself.
pub const COMM_ARGS: usize = 6;
/// Made when the file ends.
pub const STEP_RANGES: usize = 7;
/// Made when the file ends.
pub const HOST_RANGES: usize = 8;

/// A batch of each table, in the order of [`TABLES`]. Event ids count from the start of a run.
pub type Batches = [RecordBatch; TABLES.len()];

/// Empty rows of each table, with room for about so many host events.
pub fn rows(host_events: usize) -> [Rows; TABLES.len()] {
    let mut room = [0; TABLES.len()];
    room[HOST] = host_events;
    std::array::from_fn(|i| {
        let (name, without) = TABLES[i];
        Rows::with_room(table(name).expect("the table is in the schema"), without, room[i])
    })
}

/// Empty rows of one table.
pub fn rows_of(place: usize) -> Rows {
    let (name, without) = TABLES[place];
    Rows::new(table(name).expect("the table is in the schema"), without)
}

/// The rows in hand as batches.
///
/// # Errors
/// `io` when Arrow refuses them.
pub fn take(rows: &mut [Rows; TABLES.len()]) -> Result<Batches> {
    let mut batches = Vec::with_capacity(TABLES.len());
    for rows in rows {
        batches.push(rows.take()?);
    }
    Ok(batches.try_into().expect("one batch a table"))
}
