//! Launches: each device event with its runtime call (by correlation, within a file) and the operators
//! around that call (by time, on the thread of the call).
//!
//! The reader gives what takes part as records of integers; when the file ends, they are sorted and
//! joined in memory that does not grow with the file.

use std::path::Path;

use super::spill::Spill;
use super::time::shifted;
use crate::error::Result;

/// An operator or annotation: process, thread, start, end, event, kind.
pub type Around = [i64; 6];
/// A runtime call: correlation, length, event, process, thread, start.
pub type Call = [i64; 6];
/// A device event: correlation, event, start.
pub type Device = [i64; 3];

/// Stands for NULL; no process, thread, length or event has this number.
pub const NONE: i64 = i64::MIN;

/// What takes part in the launches of a run of events.
#[derive(Debug, Default, Clone)]
pub struct Parts {
    /// Operators and annotations that may enclose a call.
    pub around: Vec<Around>,
    /// Calls with a correlation.
    pub calls: Vec<Call>,
    /// Device events with a correlation.
    pub devices: Vec<Device>,
}

/// Collects the parts of one file.
pub struct Launches {
    around: Spill<6>,
    calls: Spill<6>,
    devices: Spill<3>,
    matched: Spill<4>,
    enclosed: Spill<5>,
    launches: Spill<8>,
    bytes: usize,
}

/// The number, or what stands for NULL.
pub fn some(value: i64) -> Option<i64> {
    (value != NONE).then_some(value)
}

impl Launches {
    /// Records past so many bytes of each list go into files of `folder`.
    pub fn new(folder: &Path, bytes: usize) -> Self {
        Self {
            around: Spill::new(folder, "around", bytes),
            calls: Spill::new(folder, "calls", bytes),
            devices: Spill::new(folder, "devices", bytes),
            matched: Spill::new(folder, "matched", bytes),
            enclosed: Spill::new(folder, "enclosed", bytes),
            launches: Spill::new(folder, "launches", bytes),
            bytes,
        }
    }

    /// Takes the parts of a run whose event ids count from `first`.
    ///
    /// # Errors
    /// `io` when records cannot be written.
    pub fn add(&mut self, parts: Parts, first: i64) -> Result<()> {
        for [pid, tid, start, end, event, kind] in parts.around {
            // What starts first, and of what starts together the longest.
            self.around.push([pid, tid, start, -end, event + first, kind])?;
        }
        for [correlation, length, event, pid, tid, start] in parts.calls {
            // Of two calls with one correlation (seen on MI350) the longer one is the launch.
            let longest_first = if length == NONE { i64::MAX } else { -length };
            self.calls.push([correlation, longest_first, event + first, pid, tid, start])?;
        }
        for [correlation, event, start] in parts.devices {
            self.devices.push([correlation, event + first, start])?;
        }
        Ok(())
    }

    /// Gives the rows of `launches` (without the rank), by event, `NONE` for NULL; `base_ns` is still
    /// to be added to relative times.
    ///
    /// # Errors
    /// `io` when records cannot be written or read; what `each` returns.
    pub fn finish(
        mut self,
        folder: &Path,
        base_ns: i64,
        mut each: impl FnMut([i64; 8]) -> Result<()>,
    ) -> Result<()> {
        let mut around = match base_ns {
            0 => self.around,
            // With the base added, relative times may fall between epoch times.
            base => {
                let mut again = Spill::new(folder, "again", self.bytes);
                for row in self.around.sorted()? {
                    let [pid, tid, start, end, event, kind] = row?;
                    again.push([
                        pid,
                        tid,
                        shifted(start, base),
                        -shifted(-end, base),
                        event,
                        kind,
                    ])?;
                }
                again
            }
        };
        // Calls and device events of one correlation.
        let mut calls = self.calls.sorted()?.peekable();
        let mut last: Option<Call> = None;
        let mut used = NONE;
        for device in self.devices.sorted()? {
            let [correlation, event, start] = device?;
            while let Some(call) = calls.next_if(|call| match call {
                Ok(call) => call[0] <= correlation,
                Err(_) => true,
            }) {
                let call = call?;
                if last.is_none_or(|last| last[0] != call[0]) {
                    last = Some(call);
                }
            }
            let Some([found, _, call, pid, tid, at]) = last else { continue };
            if found != correlation {
                continue;
            }
            let at = shifted(at, base_ns);
            self.matched.push([call, event, shifted(start, base_ns), at])?;
            if used != call && pid != NONE && tid != NONE {
                around.push([pid, tid, at, -at, call, CALL])?;
                used = call;
            }
        }
        // What encloses each call.
        let mut sweep = Sweep::default();
        let mut thread = None;
        for row in around.sorted()? {
            let [pid, tid, start, end, event, kind] = row?;
            if thread != Some((pid, tid)) {
                thread = Some((pid, tid));
                sweep = Sweep::default();
            }
            if kind == CALL {
                let [op, record, annotation, comm_op] =
                    sweep.around(start).map(|found| found.unwrap_or(NONE));
                self.enclosed.push([event, op, record, annotation, comm_op])?;
            } else {
                sweep.enter(start, Open { end: -end, event_id: event, kind });
            }
        }
        let mut enclosed = self.enclosed.sorted()?.peekable();
        let mut current: Option<[i64; 5]> = None;
        for row in self.matched.sorted()? {
            let [call, event, start, at] = row?;
            while let Some(next) = enclosed.next_if(|next| match next {
                Ok(next) => next[0] <= call,
                Err(_) => true,
            }) {
                current = Some(next?);
            }
            let [_, op, record, annotation, comm_op] =
                current.filter(|found| found[0] == call).unwrap_or([NONE; 5]);
            // Times that are no times may lie further apart than an integer holds.
            let delay = start.checked_sub(at).unwrap_or(NONE);
            self.launches.push([event, op, call, delay, at, record, annotation, comm_op])?;
        }
        for row in self.launches.sorted()? {
            each(row?)?;
        }
        Ok(())
    }
}

/// What stands open on a thread: an operator or annotation that encloses what follows.
#[derive(Debug, Clone, Copy)]
struct Open {
    end: i64,
    event_id: i64,
    kind: i64,
}

/// Kinds of rows in the sweep.
const CALL: i64 = 0;
/// An operator.
pub const OP: i64 = 1;
/// What says the arguments of a communication call.
pub const RECORD: i64 = 2;
/// An operator of c10d.
pub const COMM_OP: i64 = 3;
/// An annotation `nccl:<operation>`.
pub const ANNOTATION: i64 = 4;

/// What a host event of this class and name is to the launches inside it; None for no more than any
/// other.
pub fn kind(class: &str, name: &str) -> Option<i64> {
    match class {
        "host_op" if name == "record_param_comms" => Some(RECORD),
        "host_op" if name.starts_with("c10d::") => Some(COMM_OP),
        "host_op" => Some(OP),
        "host_annotation" if name.starts_with("nccl:") => Some(ANNOTATION),
        _ => None,
    }
}

/// The enclosing operators of the calls of one thread, found by one sweep over rows that come
/// sorted by start (longer first, calls after what starts with them).
#[derive(Debug, Default)]
struct Sweep {
    open: Vec<Open>,
    /// Operator that ended last, and when: times of older traces are whole microseconds, so that a
    /// launch may fall on the end of its operator.
    ended: Option<Open>,
}

/// Innermost operator, record, annotation and communication operator around a call.
type Enclosing = [Option<i64>; 4];

impl Sweep {
    fn enter(&mut self, start: i64, open: Open) {
        self.leave(start);
        self.open.push(open);
    }

    fn leave(&mut self, now: i64) {
        while let Some(top) = self.open.last() {
            if top.end > now {
                break;
            }
            if top.kind != ANNOTATION && self.ended.is_none_or(|e| e.end < top.end) {
                self.ended = Some(*top);
            }
            self.open.pop();
        }
    }

    fn around(&mut self, now: i64) -> Enclosing {
        self.leave(now);
        let innermost = |kinds: &[i64]| {
            self.open
                .iter()
                .rev()
                .find(|o| o.end > now && kinds.contains(&o.kind))
                .map(|o| o.event_id)
        };
        let op = innermost(&[OP, RECORD, COMM_OP])
            .or_else(|| self.ended.filter(|e| e.end == now).map(|e| e.event_id));
        [op, innermost(&[RECORD]), innermost(&[ANNOTATION]), innermost(&[COMM_OP])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(end: i64, event_id: i64, kind: i64) -> Open {
        Open { end, event_id, kind }
    }

    #[test]
    fn innermost_of_each_kind() {
        let mut s = Sweep::default();
        s.enter(0, open(100, 1, COMM_OP));
        s.enter(10, open(90, 2, RECORD));
        s.enter(20, open(80, 3, ANNOTATION));
        assert_eq!(s.around(50), [Some(2), Some(2), Some(3), Some(1)]);
        assert_eq!(s.around(80), [Some(2), Some(2), None, Some(1)]);
        assert_eq!(s.around(95), [Some(1), None, None, Some(1)]);
        assert_eq!(s.around(200), [None; 4]);
    }

    #[test]
    fn an_operator_that_ends_with_the_call_counts_when_no_other_does() {
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, OP));
        assert_eq!(s.around(10)[0], Some(1));
        let mut s = Sweep::default();
        s.enter(0, open(20, 1, OP));
        s.enter(5, open(10, 2, OP));
        assert_eq!(s.around(10)[0], Some(1));
    }

    #[test]
    fn ranges_that_only_overlap_do_not_hide_the_outer_one() {
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, OP));
        s.enter(5, open(20, 2, OP));
        s.enter(6, open(7, 3, OP));
        assert_eq!(s.around(12)[0], Some(2));
    }
}
