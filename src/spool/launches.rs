//! Launches: each device event with its runtime call (by correlation, within a file) and the
//! operators around that call (by time, on the thread of the call). On the way, the ranges of each
//! thread that say what the program does: its annotations, and its outermost operators.
//!
//! The reader gives what takes part as records of integers; when the file ends, they are sorted and
//! joined in memory that does not grow with the file.

use std::path::Path;

use crate::error::Result;
use crate::input::time::shifted;
use crate::spool::sort_ints::Spill;

/// An operator or annotation: process, thread, start, end, event, kind.
pub type Around = [i64; 6];
/// A runtime call: correlation, length, event, process, thread, start.
pub type Call = [i64; 6];
/// A device event: correlation, event, start.
pub type Device = [i64; 3];

/// Stands for NULL; no process, thread, length or event has this number.
pub const NONE: i64 = i64::MIN;

/// A row of `launches` without the rank: event, operator, call, delay, start of the call, record,
/// annotation of NCCL, operator of c10d, process, thread, range.
pub type Launch = [i64; 11];
/// A row of `host_ranges` without the source and the rank: event, whether it is an operator, the
/// range around it, process, thread, start, length.
pub type HostRange = [i64; 7];

/// The writer of the rows that are found.
pub trait Found {
    /// Takes a launch.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    fn launch(&mut self, row: Launch) -> Result<()>;
    /// Takes a range of the host.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    fn range(&mut self, row: HostRange) -> Result<()>;
}

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
    enclosed: Spill<8>,
    launches: Spill<11>,
    bytes: usize,
}

/// Process and thread as they are, where they are told apart by nothing else.
pub fn own_ids(ids: [i64; 2]) -> [Option<i64>; 2] {
    ids.map(some)
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

    /// Gives the rows of `host_ranges`, by thread and start, then those of `launches`, by event;
    /// `NONE` for NULL. `base_ns` is still to be added to relative times.
    ///
    /// # Errors
    /// `io` when records cannot be written or read; what `found` returns.
    pub fn finish(mut self, folder: &Path, base_ns: i64, found: &mut impl Found) -> Result<()> {
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
                let [op, record, annotation, comm_op, range] =
                    sweep.around(start).map(|id| id.unwrap_or(NONE));
                self.enclosed.push([event, op, record, annotation, comm_op, pid, tid, range])?;
                continue;
            }
            let open = Open { end: -end, event_id: event, kind };
            let length = open.end.saturating_sub(start);
            let entered = sweep.enter(start, open);
            let around = entered.range.unwrap_or(NONE);
            for (wanted, is_op) in [(is_range(kind), 0), (entered.is_outermost, 1)] {
                if wanted {
                    found.range([event, is_op, around, pid, tid, start, length])?;
                }
            }
        }
        let mut enclosed = self.enclosed.sorted()?.peekable();
        let mut current: Option<[i64; 8]> = None;
        for row in self.matched.sorted()? {
            let [call, event, start, at] = row?;
            while let Some(next) = enclosed.next_if(|next| match next {
                Ok(next) => next[0] <= call,
                Err(_) => true,
            }) {
                current = Some(next?);
            }
            let [_, op, record, annotation, comm_op, pid, tid, range] =
                current.filter(|found| found[0] == call).unwrap_or([NONE; 8]);
            // Times that are no times may lie further apart than an integer holds.
            let delay = start.checked_sub(at).unwrap_or(NONE);
            self.launches
                .push([event, op, call, delay, at, record, annotation, comm_op, pid, tid, range])?;
        }
        for row in self.launches.sorted()? {
            found.launch(row?)?;
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

/// An annotation by the program or its framework.
pub const RANGE: i64 = 5;
/// An operator that says what the program does, as an annotation would.
pub const RANGE_OP: i64 = 6;
/// An annotation that stands for the operator around a launch where the source records both alike
/// (NVTX).
pub const RANGE_LIKE_OP: i64 = 7;

/// Beginnings of names by which frameworks annotate what they do, where the source records them
/// like operators (in nsys every range that PyTorch emits).
const ANNOTATIONS: [&str; 7] = [
    "FSDP::",
    "FullyShardedDataParallel.",
    "DistributedDataParallel.",
    "Optimizer.",
    "enumerate(DataLoader)",
    "ProfilerStep#",
    "## ",
];

/// What a host event of this class and name is to the launches inside it; None for no more than any
/// other.
pub fn kind(class: &str, name: &str) -> Option<i64> {
    match class {
        "host_op" if name == "record_param_comms" => Some(RECORD),
        "host_op" if name.starts_with("c10d::") => Some(COMM_OP),
        "host_op" if name.starts_with("fsdp::") => Some(RANGE_OP),
        "host_op" if ANNOTATIONS.iter().any(|a| name.starts_with(a)) => Some(RANGE_LIKE_OP),
        "host_op" => Some(OP),
        "host_annotation" if name.starts_with("nccl:") => Some(ANNOTATION),
        "host_annotation" => Some(RANGE),
        _ => None,
    }
}

/// Whether it may be the operator around a launch.
fn is_op(kind: i64) -> bool {
    matches!(kind, OP | RECORD | COMM_OP | RANGE_OP | RANGE_LIKE_OP)
}

/// Whether it says what the program does.
fn is_range(kind: i64) -> bool {
    matches!(kind, RANGE | RANGE_OP | RANGE_LIKE_OP)
}

/// The enclosing operators of the calls of one thread, found by one sweep over rows that come
/// sorted by start (longer first, calls after what starts with them).
#[derive(Debug, Default)]
struct Sweep {
    open: Vec<Open>,
    /// The open ones that are ranges: operators may lie deep.
    ranges: Vec<Open>,
    /// Operator that ended last, and when: times of older traces are whole microseconds, so that a
    /// launch may fall on the end of its operator.
    ended: Option<Open>,
    /// Latest end of the operators so far; None before the first.
    reach: Option<i64>,
}

/// Innermost operator, record, annotation of NCCL, communication operator and range around a call.
type Enclosing = [Option<i64>; 5];

/// What is said of an operator or range when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entered {
    /// The innermost range around it.
    range: Option<i64>,
    /// Whether it is an operator, and none before it on its thread lasts as long.
    is_outermost: bool,
}

impl Sweep {
    fn enter(&mut self, start: i64, open: Open) -> Entered {
        self.leave(start);
        let range = self.range_around(start);
        let runs = is_op(open.kind) && open.kind != RANGE_LIKE_OP;
        let is_outermost = runs && self.reach.is_none_or(|reach| open.end > reach);
        if is_outermost {
            self.reach = Some(open.end);
        }
        self.open.push(open);
        if is_range(open.kind) {
            self.ranges.push(open);
        }
        Entered { range, is_outermost }
    }

    fn range_around(&self, now: i64) -> Option<i64> {
        self.ranges.iter().rev().find(|o| o.end > now).map(|o| o.event_id)
    }

    /// The last of what stands open that is of such a kind.
    fn innermost(&self, now: i64, wanted: impl Fn(i64) -> bool) -> Option<i64> {
        let open = self.open.iter().rev();
        open.filter(|o| o.end > now).find(|o| wanted(o.kind)).map(|o| o.event_id)
    }

    fn leave(&mut self, now: i64) {
        while self.ranges.last().is_some_and(|o| o.end <= now) {
            self.ranges.pop();
        }
        while let Some(top) = self.open.last() {
            if top.end > now {
                break;
            }
            if is_op(top.kind) && self.ended.is_none_or(|e| e.end < top.end) {
                self.ended = Some(*top);
            }
            self.open.pop();
        }
    }

    fn around(&mut self, now: i64) -> Enclosing {
        self.leave(now);
        let op = self
            .innermost(now, is_op)
            .or_else(|| self.ended.filter(|e| e.end == now).map(|e| e.event_id));
        [
            op,
            self.innermost(now, |kind| kind == RECORD),
            self.innermost(now, |kind| kind == ANNOTATION),
            self.innermost(now, |kind| kind == COMM_OP),
            self.range_around(now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(end: i64, event_id: i64, kind: i64) -> Open {
        Open { end, event_id, kind }
    }

    /// Keeps what is found.
    #[derive(Default)]
    struct Kept {
        launches: Vec<Launch>,
        ranges: Vec<HostRange>,
    }

    impl Found for Kept {
        fn launch(&mut self, row: Launch) -> Result<()> {
            self.launches.push(row);
            Ok(())
        }

        fn range(&mut self, row: HostRange) -> Result<()> {
            self.ranges.push(row);
            Ok(())
        }
    }

    /// What is found in runs of events, each with the number of its first event.
    fn found(runs: &[(Parts, i64)], base_ns: i64) -> Kept {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut launches = Launches::new(folder.path(), 1 << 20);
        for (parts, first) in runs {
            launches.add(parts.clone(), *first).expect("it fits in memory");
        }
        let mut kept = Kept::default();
        launches.finish(folder.path(), base_ns, &mut kept).expect("it fits in memory");
        kept
    }

    #[test]
    fn kinds_of_host_events() {
        for (class, name, wanted) in [
            ("host_op", "record_param_comms", Some(RECORD)),
            ("host_op", "c10d::allreduce_", Some(COMM_OP)),
            ("host_op", "fsdp::all_gather_copy_in", Some(RANGE_OP)),
            ("host_op", "FSDP::pre_forward", Some(RANGE_LIKE_OP)),
            ("host_op", "## forward", Some(RANGE_LIKE_OP)),
            ("host_op", "aten::mm", Some(OP)),
            ("host_annotation", "nccl:all_reduce", Some(ANNOTATION)),
            ("host_annotation", "## forward", Some(RANGE)),
            ("host_runtime", "record_param_comms", None),
        ] {
            assert_eq!(kind(class, name), wanted, "{class} {name}");
        }
    }

    #[test]
    fn a_launch_has_its_call_and_what_is_around_it() {
        // Thread 2 of process 1: a range, in it an operator, in that two calls. Thread 3: a call in
        // another operator. The first event of the run is 100.
        let parts = Parts {
            around: vec![[1, 2, 20, 50, 1, OP], [1, 2, 0, 100, 0, RANGE], [1, 3, 0, 100, 2, OP]],
            calls: vec![
                [7, 3, 13, 1, 2, 30],
                [8, 3, 11, 1, 2, 60],
                [9, 3, 12, 1, 3, 40],
                // Of two calls with one correlation the longer one counts; without a length none.
                [7, 2, 10, 1, 3, 31],
                [9, NONE, 9, 1, 2, 41],
                // Of no device event, and of no thread.
                [5, 3, 15, 1, 2, 45],
                [10, 3, 16, NONE, NONE, 47],
                [12, 3, 17, NONE, 2, 48],
            ],
            devices: vec![
                [9, 23, 45],
                [7, 20, 35],
                [7, 21, 36],
                [8, 22, 55],
                // Of no call.
                [6, 24, 70],
                [11, 25, 70],
                [10, 26, 50],
                [12, 27, 50],
            ],
        };
        let n = NONE;
        let kept = found(&[(parts.clone(), 100)], 0);
        let expected: [Launch; 6] = [
            [120, 101, 113, 5, 30, n, n, n, 1, 2, 100],
            [121, 101, 113, 6, 30, n, n, n, 1, 2, 100],
            [122, n, 111, -5, 60, n, n, n, 1, 2, 100],
            [123, 102, 112, 5, 40, n, n, n, 1, 3, n],
            // Nobody knows the thread of its call.
            [126, n, 116, 3, 47, n, n, n, n, n, n],
            [127, n, 117, 2, 48, n, n, n, n, n, n],
        ];
        assert_eq!(kept.launches, expected);
        let ranges: [HostRange; 3] =
            [[100, 0, n, 1, 2, 0, 100], [101, 1, 100, 1, 2, 20, 30], [102, 1, n, 1, 3, 0, 100]];
        assert_eq!(kept.ranges, ranges);
        // Relative times, with their base: the same, so much later.
        let base = 1_000_000;
        let later = found(&[(parts, 100)], base);
        assert_eq!(
            later.launches,
            expected.map(|mut row| {
                row[4] += base;
                row
            })
        );
        assert_eq!(
            later.ranges,
            ranges.map(|mut row| {
                row[5] += base;
                row
            })
        );
    }

    #[test]
    fn parts_of_a_launch_come_in_any_run() {
        let around = Parts { around: vec![[1, 2, 0, 10, 0, OP]], ..Parts::default() };
        let calls = Parts { calls: vec![[7, 1, 0, 1, 2, 5]], ..Parts::default() };
        let devices = Parts { devices: vec![[7, 1, 6]], ..Parts::default() };
        let kept = found(&[(devices, 10), (calls, 20), (around, 30)], 0);
        let expected: [Launch; 1] = [[11, 30, 20, 1, 5, NONE, NONE, NONE, 1, 2, NONE]];
        assert_eq!(kept.launches, expected);
        // Times further apart than an integer holds have no delay.
        let far = Parts {
            calls: vec![[7, 1, 0, 1, 2, i64::MIN + 1]],
            devices: vec![[7, 1, i64::MAX]],
            ..Parts::default()
        };
        assert_eq!(found(&[(far, 0)], 0).launches[0][3], NONE);
    }

    #[test]
    fn innermost_of_each_kind() {
        let mut s = Sweep::default();
        s.enter(0, open(100, 1, COMM_OP));
        s.enter(10, open(90, 2, RECORD));
        s.enter(20, open(80, 3, ANNOTATION));
        assert_eq!(s.around(50), [Some(2), Some(2), Some(3), Some(1), None]);
        assert_eq!(s.around(80), [Some(2), Some(2), None, Some(1), None]);
        assert_eq!(s.around(95), [Some(1), None, None, Some(1), None]);
        assert_eq!(s.around(200), [None; 5]);
        // What has ended is around nothing, and no annotation ends as an operator does.
        let mut s = Sweep::default();
        s.enter(0, open(100, 1, RANGE));
        s.enter(10, open(30, 2, RANGE));
        s.enter(10, open(30, 3, ANNOTATION));
        assert_eq!(s.around(30), [None, None, None, None, Some(1)]);
        // Of two operators that end with the call the inner one counts.
        let mut s = Sweep::default();
        s.enter(0, open(30, 1, OP));
        s.enter(10, open(30, 2, OP));
        assert_eq!(s.around(30)[0], Some(2));
        // One that ended counts though an annotation has begun.
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, OP));
        s.enter(10, open(20, 2, ANNOTATION));
        assert_eq!(s.around(10), [Some(1), None, Some(2), None, None]);
        // What ends below one that goes on is over.
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, RECORD));
        s.enter(5, open(20, 2, ANNOTATION));
        assert_eq!(s.around(10)[1..], [None, Some(2), None, None]);
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

    #[test]
    fn ranges_and_outermost_operators() {
        let mut s = Sweep::default();
        let entered = |range, is_outermost| Entered { range, is_outermost };
        assert_eq!(s.enter(0, open(100, 1, RANGE)), entered(None, false));
        assert_eq!(s.enter(10, open(50, 2, OP)), entered(Some(1), true));
        assert_eq!(s.enter(20, open(50, 3, OP)), entered(Some(1), false));
        assert_eq!(s.enter(25, open(40, 4, RANGE_OP)), entered(Some(1), false));
        assert_eq!(s.around(30), [Some(4), None, None, None, Some(4)]);
        // What only looks like an operator is a range, and hides none.
        assert_eq!(s.enter(42, open(90, 8, RANGE_LIKE_OP)), entered(Some(1), false));
        assert_eq!(s.around(43), [Some(8), None, None, None, Some(8)]);
        // One that lasts longer than all before it is outermost too.
        assert_eq!(s.enter(45, open(60, 5, OP)), entered(Some(8), true));
        assert_eq!(s.enter(100, open(110, 6, RANGE)), entered(None, false));
        assert_eq!(s.enter(120, open(130, 7, OP)), entered(None, true));
    }
}
