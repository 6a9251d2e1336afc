//! What an event of communication says of itself, as columns: the arguments of NCCL kernels and of
//! `record_param_comms` that the metrics need, so that no query has to take them out of JSON.

use crate::input::json;
use crate::spool::rows::Rows;

/// Arguments with a column, in the order of the table.
const KEYS: [&str; 15] = [
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Seq",
    "Src Rank",
    "Dst Rank",
    "In split size",
    "Out split size",
    "Global rank start",
    "Global rank stride",
];
/// Place of the sequence number, which some versions write in small letters.
const SEQ: usize = 8;

/// Adds the row of `comm_args` (without the rank) of an event with these arguments (raw JSON);
/// nothing where they name no operation. Of a key that comes twice, the first counts.
pub fn add(rows: &mut Rows, event_id: Option<i64>, arguments: &[(&str, &str)]) {
    let mut values = [None; KEYS.len()];
    let mut seq = None;
    for (key, value) in arguments.iter().filter(|(_, value)| *value != "null") {
        if let Some(at) = KEYS.iter().position(|k| k == key) {
            values[at].get_or_insert(*value);
        } else if *key == "seq" {
            seq.get_or_insert(*value);
        }
    }
    if values[0].is_none() {
        return;
    }
    values[SEQ] = values[SEQ].or(seq);
    rows.int(event_id);
    for (at, value) in values.into_iter().enumerate() {
        if matches!(at, 0 | 1 | 5..=7 | 11 | 12) {
            let text = value.map(|v| json::text(v).unwrap_or(v.into()));
            rows.text(text.as_deref());
        } else {
            rows.int(value.and_then(json::integer));
        }
    }
    // Bytes, who says it, and the own rank in the group: of other readers.
    rows.nulls(5).end_row();
}
