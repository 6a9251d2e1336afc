//! `B` and `E` events joined into slices.

use super::super::json::{Scanner, text};
use super::super::log::Severity;
use super::event::Event;
use super::part::{Half, Part};

/// The name of an event as it stands, with its escapes resolved.
fn name_of(raw: &str) -> Option<String> {
    let mut event = Event::default();
    event.scan(&mut Scanner::default(), raw, 0).ok()?;
    Some(text(event.name?)?.into_owned())
}

/// Joins `B` and `E` per process and thread by nesting. An `E` closes the innermost open `B` of
/// its name (of any name when it has none); what stays open is a finding and keeps no duration.
pub(super) fn join(mut halves: Vec<Half>, part: &mut Part) {
    // At one time, ends come before begins; among equals, the order of the file.
    halves.sort_by(|a, b| {
        (&a.pid, &a.tid, a.ts, a.begin, a.ordinal).cmp(&(&b.pid, &b.tid, b.ts, b.begin, b.ordinal))
    });
    let mut open: Vec<(&Half, Option<String>)> = Vec::new();
    let mut rows: Vec<(&Half, Option<i64>)> = Vec::new();
    let mut strays: Vec<u64> = Vec::new();
    for (i, half) in halves.iter().enumerate() {
        if i > 0 && (&halves[i - 1].pid, &halves[i - 1].tid) != (&half.pid, &half.tid) {
            rows.extend(open.drain(..).map(|(h, _)| (h, None)));
        }
        let name = name_of(&half.raw);
        if half.begin {
            open.push((half, name));
            continue;
        }
        match open.iter().rposition(|(_, begun)| name.is_none() || *begun == name) {
            Some(at) => {
                let (begin, _) = open.remove(at);
                rows.push((begin, half.ts.checked_sub(begin.ts)));
            }
            None => strays.push(half.offset),
        }
    }
    rows.extend(open.drain(..).map(|(h, _)| (h, None)));
    rows.sort_by_key(|(h, _)| h.ordinal);
    for offset in strays {
        part.skip("end-without-begin", offset, "an end (`E`) without its begin; left out");
    }
    let mut scanner = Scanner::default();
    for (half, dur) in rows {
        if dur.is_none() {
            part.log.add(Severity::Loss, "begin-without-end", Some(half.offset), || {
                "a begin (`B`) without its end; its duration is NULL".to_owned()
            });
        }
        let mut event = Event::default();
        if event.scan(&mut scanner, &half.raw, 0).is_ok() {
            if let Some(dur) = event.dur {
                event.extra.push(("dur", dur));
            }
            part.row(&event, b'B', half.ts, dur, half.ordinal, half.offset);
        }
    }
}
