//! Halves of `B`/`E` pairs as rows, until the file ends.

use crate::schema::table::columns;
use crate::schema::{Made, Table};
use crate::spool::events::{Int, rows};

/// The table of the halves; it lies in no trace.
pub(super) static HALVES: Table = Table {
    name: "halves",
    doc: "half of a pair",
    made: Made::Ingest,
    by_rank: false,
    columns: columns! {
        pid      TEXT "Process as recorded.",
        tid      TEXT "Thread as recorded.",
        ts_ns    INT  "Time.",
        begins   INT  "1 for a begin; at one time, ends come first.",
        event_id INT  "Place in the file.",
        offset   INT  "Byte of the file.",
        event    TEXT "The event as recorded.",
    },
};

rows! {
    /// A row of [`HALVES`].
    Half<'a> {
        pid: &'a str,
        tid: &'a str,
        ts_ns: i64,
        begins: i64,
        event_id: i64,
        offset: Int,
        event: &'a str,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_table() {
        let columns: Vec<_> = HALVES.columns.iter().map(|c| c.name).collect();
        assert_eq!(Half::COLUMNS, columns);
    }
}
