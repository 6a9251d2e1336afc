//! `B` and `E` events joined into slices.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use crate::input::json::{Scanner, text};
use crate::readers::kineto::event::Event;
use crate::readers::kineto::part::Part;
use crate::readers::log::Severity;

/// A begin whose end has not come yet.
struct Open {
    name: Option<String>,
    ts: i64,
    place: u64,
    offset: u64,
    event: String,
}

/// Joins `B` and `E` per process and thread by nesting. An `E` closes the innermost open `B` of
/// its name (of any name when it has none); what stays open is a finding and keeps no duration.
#[derive(Default)]
pub(super) struct Join {
    thread: (String, String),
    open: Vec<Open>,
    scanner: Scanner,
}

impl Join {
    /// Takes halves, sorted by process, thread and time; ids count from `first`.
    pub(super) fn add(&mut self, halves: &RecordBatch, first: i64, part: &mut Part<'_>) {
        let column = |name: &str| halves.column_by_name(name).expect("the column of a half");
        let texts = |name: &str| column(name).as_string::<i32>();
        let ints = |name: &str| column(name).as_primitive::<Int64Type>();
        let (pids, tids, events) = (texts("pid"), texts("tid"), texts("event"));
        let (times, begin) = (ints("ts_ns"), ints("begins"));
        let (places, offsets) = (ints("event_id"), ints("offset"));
        for row in 0..halves.num_rows() {
            let (pid, tid) = (pids.value(row), tids.value(row));
            if (self.thread.0.as_str(), self.thread.1.as_str()) != (pid, tid) {
                self.finish(part);
                self.thread = (pid.to_owned(), tid.to_owned());
            }
            let (ts, begins) = (times.value(row), begin.value(row) == 1);
            let place = u64::try_from(places.value(row) - first).unwrap_or_default();
            let offset = u64::try_from(offsets.value(row)).unwrap_or_default();
            let recorded = events.value(row);
            let mut event = Event::default();
            // Recorded events are strict JSON: they were read once.
            let name = match event.scan(&mut self.scanner, recorded, 0) {
                Ok(_) => event.name.and_then(text).map(std::borrow::Cow::into_owned),
                Err(_) => None,
            };
            if begins {
                let event = recorded.to_owned();
                self.open.push(Open { name, ts, place, offset, event });
                continue;
            }
            match self.open.iter().rposition(|open| name.is_none() || open.name == name) {
                Some(at) => {
                    let open = self.open.remove(at);
                    let dur = ts.checked_sub(open.ts);
                    self.row(&open, dur, part);
                }
                None => {
                    part.skip(
                        "end-without-begin",
                        offset,
                        "an end (`E`) without its begin; left out",
                    );
                }
            }
        }
    }

    /// The thread is over: what is open stays without an end.
    pub(super) fn finish(&mut self, part: &mut Part<'_>) {
        for open in std::mem::take(&mut self.open) {
            self.row(&open, None, part);
        }
    }

    fn row(&mut self, open: &Open, dur: Option<i64>, part: &mut Part<'_>) {
        if dur.is_none() {
            part.log.add(Severity::Loss, "begin-without-end", Some(open.offset), || {
                "a begin (`B`) without its end; its duration is NULL".to_owned()
            });
        }
        let mut event = Event::default();
        if event.scan(&mut self.scanner, &open.event, 0).is_ok() {
            if let Some(dur) = event.dur {
                event.extra.push(("dur", dur));
            }
            part.row(&event, b'B', open.ts, dur, open.place, open.offset);
        }
    }
}
