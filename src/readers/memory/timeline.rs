//! The raw timeline of `torch.profiler` (`export_memory_timeline` into `.raw.json.gz`): a JSON list
//! of `[time in ns, action, signed bytes, category]`, for one device that it does not name.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::readers::log::{Log, Severity};
use crate::readers::memory::snapshot::Out;
use crate::schema::table;
use crate::spool::parquet::TableWriter;
use crate::spool::totals::{Totals, widen};

/// Words of `torch.profiler._memory_profiler.Action`, from 1 on.
const ACTIONS: [&str; 4] = ["preexisting", "create", "new_version", "destroy"];
/// Words of its categories, in the order of their colours, from 0 on.
const CATEGORIES: [&str; 8] = [
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "none",
];

/// Whether a text begins with a list of four integers, in a list.
pub fn begins(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut parts = text.trim_start().strip_prefix('[').unwrap_or("").trim_start().splitn(2, ']');
    let Some(first) = parts.next().and_then(|part| part.strip_prefix('[')) else { return false };
    let numbers: Vec<_> = first.split(',').map(|n| n.trim().parse::<i64>()).collect();
    parts.next().is_some() && numbers.len() == 4 && numbers.iter().all(Result::is_ok)
}

/// Writes a timeline.
///
/// # Errors
/// `trace-truncated`, `json-invalid`; `io`.
pub(super) fn read(bytes: &[u8], shown: &str, folder: &Path, source_id: i64) -> Result<Out> {
    let events: Vec<[i64; 4]> = serde_json::from_slice(bytes).map_err(|e| {
        let (code, what) = match e.is_eof() {
            true => ("trace-truncated", "the timeline ends early".to_owned()),
            false => {
                ("json-invalid", format!("the timeline is no list of four integers each: {e}"))
            }
        };
        Error::new(code, what)
            .at(format!("{shown}, line {}, column {}", e.line(), e.column()))
            .hint("export the timeline again")
    })?;
    let events_table = table("memory_events").expect("the table is in the schema");
    let path = folder.join("memory_events.parquet");
    let mut writer = TableWriter::new(events_table, &["source", "rank"], path);
    let (mut totals, mut log) = (Totals::default(), Log::default());
    for (place, [time, action, bytes, category]) in events.into_iter().enumerate() {
        let word = |words: &'static [&'static str], number: i64| {
            usize::try_from(number).ok().and_then(|n| words.get(n)).copied()
        };
        let Some(action) = action.checked_sub(1).and_then(|n| word(&ACTIONS, n)) else {
            totals.skipped += 1;
            log.add(Severity::Loss, "memory-event", None, || {
                "events of the timeline with an unknown action; left out".to_owned()
            });
            continue;
        };
        // What was there before has no time.
        let ts = Some(time).filter(|time| *time >= 0);
        let row = writer.row();
        row.int(Some(source_id)).int(Some((source_id << 40) + place as i64));
        row.text(Some("timeline")).nulls(1).text(Some(action)).nulls(1).int(Some(bytes)).nulls(1);
        row.int(ts).text(word(&CATEGORIES, category)).nulls(5);
        writer.end_row()?;
        totals.events += 1;
        if let Some(ts) = ts {
            widen(&mut totals.span_ns, ts, ts);
        }
    }
    let mut spool = BTreeMap::new();
    spool.extend(writer.finish()?.map(|path| ("memory_events", path)));
    Ok(Out { totals, log, spool })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timelines_are_known_by_their_first_entry() {
        assert!(begins(b" [[-1, 1, 37888, 7], [-1, 1, 512"));
        assert!(begins(b"[\n[1,2,3,4]\n]"));
        for other in
            ["[[1, 2, 3], [4", "[[1, 2, 3, 4, 5], [", "[{\"ph\": 1}]", "[[1, 2, 3, 4", "[1]", ""]
        {
            assert!(!begins(other.as_bytes()), "{other}");
        }
    }
}
