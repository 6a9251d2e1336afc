//! What an event of communication says of itself, as columns: the arguments of NCCL kernels and of
//! `record_param_comms` that the metrics need, so that no query has to take them out of JSON.

use crate::input::json;
use crate::spool::events::CommArgs;
use crate::spool::rows::Rows;

/// Adds the row of `comm_args` (without the rank) of an event with these arguments (raw JSON);
/// nothing where they name no operation. Of a key that comes twice, the first counts.
pub fn add(rows: &mut Rows, event_id: i64, arguments: &[(&str, &str)]) {
    let raw = |key: &str| {
        let mut of_key = arguments.iter().filter(|(k, value)| *k == key && *value != "null");
        of_key.next().map(|(_, value)| *value)
    };
    let text = |key| raw(key).map(|value| json::text(value).unwrap_or(value.into()));
    let int = |key| raw(key).and_then(json::integer);
    let Some(collective) = text("Collective name") else { return };
    CommArgs {
        event_id,
        collective_name: Some(&collective),
        dtype: text("dtype").as_deref(),
        in_elems: int("In msg nelems"),
        out_elems: int("Out msg nelems"),
        group_size: int("Group size"),
        pg_name: text("Process Group Name").as_deref(),
        pg_desc: text("Process Group Description").as_deref(),
        pg_ranks: text("Process Group Ranks").as_deref(),
        // Some versions write it in small letters.
        seq: raw("Seq").or_else(|| raw("seq")).and_then(json::integer),
        src_rank: int("Src Rank"),
        dst_rank: int("Dst Rank"),
        in_split: text("In split size").as_deref(),
        out_split: text("Out split size").as_deref(),
        rank_start: int("Global rank start"),
        rank_stride: int("Global rank stride"),
        ..CommArgs::default()
    }
    .push(rows);
}
