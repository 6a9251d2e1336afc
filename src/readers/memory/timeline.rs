//! The raw timeline of `torch.profiler` (`export_memory_timeline` into `.raw.json.gz`): a JSON list
//! of `[time in ns, action, signed bytes, category]`, for one device that it does not name.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::error::Category;

use crate::error::{Error, Result};
use crate::input::place;
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

/// Writes a timeline of at most `most` bytes; how many it has.
///
/// # Errors
/// `trace-truncated`, `json-invalid`, `gzip-broken`, `file-unreadable`, `value-too-large`; `io`.
pub(super) fn read(
    reader: Box<dyn Read + Send>,
    most: u64,
    shown: &str,
    folder: &Path,
    source_id: i64,
) -> Result<(Out, u64)> {
    let events_table = table("memory_events").expect("the table is in the schema");
    let path = folder.join("memory_events.parquet");
    let mut writer = TableWriter::new(events_table, &["source", "rank"], path);
    let (mut totals, mut log) = (Totals::default(), Log::default());
    let mut rows = 0;
    let mut failed = None;
    let mut row = |[time, action, bytes, category]: [i64; 4]| -> Result<()> {
        let word = |words: &'static [&'static str], number: i64| {
            usize::try_from(number).ok().and_then(|n| words.get(n)).copied()
        };
        let place = rows;
        rows += 1;
        let Some(action) = action.checked_sub(1).and_then(|n| word(&ACTIONS, n)) else {
            totals.skipped += 1;
            log.add(Severity::Loss, "memory-event", None, || {
                "events of the timeline with an unknown action; left out".to_owned()
            });
            return Ok(());
        };
        // What was there before has no time.
        let ts = Some(time).filter(|time| *time >= 0);
        let row = writer.row();
        row.int(Some(source_id)).int(Some((source_id << 40) + place));
        row.text(Some("timeline")).nulls(1).text(Some(action)).nulls(1).int(Some(bytes)).nulls(1);
        row.int(ts).text(word(&CATEGORIES, category)).nulls(5);
        writer.end_row()?;
        totals.events += 1;
        if let Some(ts) = ts {
            widen(&mut totals.span_ns, ts, ts);
        }
        Ok(())
    };
    // One byte more says that there are more.
    let mut reader = BufReader::with_capacity(256 << 10, reader.take(most + 1));
    let mut json = serde_json::Deserializer::from_reader(&mut reader);
    let events = Events { row: &mut row, failed: &mut failed };
    let read = json.deserialize_seq(events).and_then(|()| json.end());
    drop(json);
    let left = reader.get_ref().limit();
    let failure = match (failed, read) {
        (Some(error), _) => Some(error),
        (None, _) if left == 0 => Some(
            Error::new("value-too-large", "the timeline is larger than any that is read")
                .at(shown.to_owned())
                .facts(format!("at most {most} bytes are read"))
                .hint("record a shorter time"),
        ),
        (None, Err(e)) => Some(fault(e, shown, most + 1 - left)),
        (None, Ok(())) => None,
    };
    if let Some(error) = failure {
        return Err(error);
    }
    let mut spool = BTreeMap::new();
    spool.extend(writer.finish()?.map(|path| ("memory_events", path)));
    Ok((Out { totals, log, spool }, most + 1 - left))
}

/// The error of a timeline that cannot be read on after so many bytes.
fn fault(e: serde_json::Error, shown: &str, bytes: u64) -> Error {
    let (line, column) = (e.line(), e.column());
    let (code, what) = match e.classify() {
        Category::Io => return place::broken(&e.into(), shown, bytes),
        Category::Eof => ("trace-truncated", "the timeline ends early".to_owned()),
        _ => ("json-invalid", format!("the timeline is no list of four integers each: {e}")),
    };
    Error::new(code, what)
        .at(format!("{shown}, line {line}, column {column}"))
        .hint("export the timeline again")
}

/// Hands on one event after the other.
struct Events<'e, F> {
    row: &'e mut F,
    failed: &'e mut Option<Error>,
}

impl<'de, F: FnMut([i64; 4]) -> Result<()>> Visitor<'de> for Events<'_, F> {
    type Value = ();

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> std::result::Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            if let Err(error) = (self.row)(event) {
                *self.failed = Some(error);
                return Err(A::Error::custom("not taken"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: impl Read + Send + 'static, most: u64) -> Result<(Out, u64)> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        super::read(Box::new(bytes), most, "timeline", folder.path(), 0)
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("torn"))
        }
    }

    #[test]
    fn a_timeline_has_a_bound_and_a_fault_its_place() {
        let text: &[u8] = b"[[-1, 1, 512, 0],\n[5, 2, 64, 3], [9, 4, -64, 3], [9, 5, 1, 1]]";
        let most = text.len() as u64;
        let (out, bytes) = read(text, most).expect("it can be read");
        assert_eq!(bytes, most);
        let totals = out.totals;
        assert_eq!((totals.events, totals.skipped, totals.span_ns), (3, 1, Some((5, 9))));
        let error = read(text, most - 1).err().expect("it is too large");
        assert_eq!(error.code, "value-too-large");
        let error = read(text[..30].chain(Broken), most).err().expect("it is torn");
        assert_eq!(error.code, "gzip-broken");
        assert!(error.render("error").contains("timeline, byte 30"), "{}", error.render("error"));
        let error = read(&text[..30], most).err().expect("it ends early");
        assert_eq!(error.code, "trace-truncated");
        assert!(error.render("error").contains("timeline, line 2, column 12"));
    }

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
