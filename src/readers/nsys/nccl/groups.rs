//! Which kernels of communication serve which calls: the ranges and the kernels of one rank, joined
//! when the file ends.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::Path;

use crate::error::Result;
use crate::readers::nsys::nccl::calls::{
    BROADCAST, FIRST, GROUP_END, GROUP_START, MIXED, NAMES, RECV, Range, SCATTER,
};
use crate::readers::nsys::nccl::communicators::{Communicators, Own};
use crate::readers::nsys::nccl::served::{Served, pairs};
use crate::readers::share::Communicator;
use crate::spool::events::CommArgs;
use crate::spool::launches::{Launch, NONE, some};
use crate::spool::rows::Rows;
use crate::spool::sort_ints::{Sorted, Spill};

/// Communicators of a process that are kept.
const MAX_COMMUNICATORS: usize = 65_536;
/// Communicators that one group may name before they are no longer told apart.
const MAX_PARTS: usize = 1024;
/// Collects the ranges of NCCL of one rank, and the kernels launched in them.
pub struct Groups {
    ranges: Spill<7>,
    /// Device events of class comm, and what their names say.
    kernels: Spill<2>,
    /// Range, launch, device event, what its name says.
    launched: Spill<4>,
    /// Range, part, code, communicator, bytes, received, other rank, calls.
    served: Spill<8>,
    /// Range, part, peer, bytes sent, bytes received.
    peers: Spill<5>,
    /// Communicators of the process, by their number and device.
    communicators: BTreeMap<(Option<i64>, Option<i64>, i64), Communicator>,
    /// Whether it is the first rank of its process: what no communicator gives to one device is
    /// told there.
    is_first: bool,
}

/// What was found while rows were made.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    /// Calls that communicate.
    pub calls: u64,
    /// Calls that say their size.
    pub sized: u64,
    /// Kernels whose calls could not be told apart.
    pub unclear: u64,
}

impl Groups {
    /// Records past so many bytes of each list go into files of `folder`.
    pub fn new(folder: &Path, bytes: usize, is_first: bool) -> Self {
        Self {
            is_first,
            ranges: Spill::new(folder, "nccl-ranges", bytes),
            kernels: Spill::new(folder, "nccl-kernels", bytes),
            launched: Spill::new(folder, "nccl-launched", bytes),
            served: Spill::new(folder, "nccl-served", bytes),
            peers: Spill::new(folder, "nccl-peers", bytes),
            communicators: BTreeMap::new(),
        }
    }

    /// Takes communicators of the process.
    pub fn communicators(&mut self, more: &[Communicator]) {
        for c in more {
            if self.communicators.len() < MAX_COMMUNICATORS {
                self.communicators.insert((c.id, c.device, c.ranks), *c);
            }
        }
    }

    /// The largest communicator on a device: that of the job, unless the job says otherwise.
    pub fn world(&self, device: Option<i64>) -> Option<Communicator> {
        let here = |c: &&Communicator| c.device.is_none() || c.device == device;
        let of = self.communicators.values().filter(here);
        of.max_by_key(|c| (c.ranks, std::cmp::Reverse(c.id))).copied()
    }

    /// Takes ranges and kernels whose events count from `first`.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn add(&mut self, ranges: &[Range], kernels: &[[i64; 2]], first: i64) -> Result<()> {
        for [thread, start, event, rest @ ..] in ranges {
            let [code, communicator, bytes, other] = *rest;
            let event = event + first;
            self.ranges.push([*thread, *start, event, code, communicator, bytes, other])?;
        }
        kernels.iter().try_for_each(|[event, code]| self.kernels.push([event + first, *code]))
    }

    /// The kernels in ascending order, for [`Groups::launch`].
    ///
    /// # Errors
    /// `io` when they cannot be read.
    pub fn kernels(&mut self, folder: &Path) -> Result<Peekable<Sorted<2>>> {
        let all = std::mem::replace(&mut self.kernels, Spill::new(folder, "nccl-none", 0));
        Ok(all.sorted()?.peekable())
    }

    /// Takes a launch; launches come in the order of their device events.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn launch(&mut self, kernels: &mut Peekable<Sorted<2>>, launch: &Launch) -> Result<()> {
        let [event, _, _, _, at, range, ..] = *launch;
        while let Some(kernel) = kernels.next_if(|k| !matches!(k, Ok([k, _]) if *k >= event)) {
            kernel?;
        }
        match kernels.peek() {
            Some(Ok([kernel, code])) if *kernel == event && range != NONE => {
                self.launched.push([range, at, event, *code])
            }
            _ => Ok(()),
        }
    }

    /// Gives the rows of `comm_args`: of each call that communicates, and of each kernel that is
    /// launched for such calls. `device` is that of the rank.
    ///
    /// # Errors
    /// `io` when records cannot be written or read; what `flush` returns.
    pub fn finish(
        self,
        device: Option<i64>,
        rows: &mut Rows,
        mut flush: impl FnMut(&mut Rows) -> Result<()>,
    ) -> Result<Outcome> {
        let mut join = Join {
            of: Communicators { all: self.communicators, device },
            is_first: self.is_first,
            served: self.served,
            peers: self.peers,
            out: Outcome::default(),
            write: |event: i64, call: Option<&Served>, own: Own| {
                comm_args(rows, event, call, own);
                flush(rows)
            },
        };
        join.calls(self.ranges)?;
        join.kernels(self.launched)
    }
}

/// Joins calls and kernels.
struct Join<F> {
    of: Communicators,
    is_first: bool,
    served: Spill<8>,
    peers: Spill<5>,
    out: Outcome,
    /// Writes the row of an event: its calls, and what their communicator is.
    write: F,
}

impl<F: FnMut(i64, Option<&Served>, Own) -> Result<()>> Join<F> {
    /// Writes the calls, and notes which of them a launch serves.
    fn calls(&mut self, ranges: Spill<7>) -> Result<()> {
        let mut thread = None;
        let mut depth = 0_u32;
        let mut group: Vec<Served> = Vec::new();
        for row in ranges.sorted()? {
            let [at, _, event, code, communicator, bytes, other] = row?;
            if thread != Some(at) {
                thread = Some(at);
                depth = 0;
                group.clear();
            }
            match code {
                GROUP_START => {
                    if depth == 0 {
                        group.clear();
                    }
                    depth += 1;
                }
                GROUP_END => {
                    // A group whose start was not recorded holds what was seen of it.
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.end_of_group(&mut group, event)?;
                    }
                }
                // Told where its kernel is.
                _ if self.of.elsewhere(communicator) => {}
                _ => {
                    let one = Served::one(code, communicator, bytes, other);
                    if self.is_first || self.of.devices(communicator) == 1 {
                        self.out.calls += 1;
                        self.out.sized += u64::from(bytes != NONE);
                        let call = Served { peers: None, ..one.clone() };
                        (self.write)(event, Some(&call), self.of.own(communicator))?;
                    }
                    if depth == 0 {
                        push(&mut self.served, event, 0, &one)?;
                        continue;
                    }
                    match group.iter().position(|s| s.communicator == communicator) {
                        Some(same) => group[same].add(code, bytes, other),
                        None if group.len() < MAX_PARTS => group.push(one),
                        // Not told apart any more: no size is said.
                        None => group[0].add(MIXED, NONE, NONE),
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes the calls of a group that the range `event` ends.
    fn end_of_group(&mut self, group: &mut Vec<Served>, event: i64) -> Result<()> {
        for (part, s) in group.drain(..).enumerate() {
            let sized = s.bytes.is_some() && s.received.is_some();
            let devices = self.of.devices(s.communicator);
            let s = s.of_one_device(devices);
            self.out.unclear += u64::from(sized && s.bytes.is_none());
            push(&mut self.served, event, part, &s)?;
            for (peer, [sent, received]) in s.peers.iter().flatten() {
                self.peers.push([event, part as i64, *peer, *sent, *received])?;
            }
        }
        Ok(())
    }

    /// Writes the kernels that were launched for calls.
    fn kernels(mut self, launched: Spill<4>) -> Result<Outcome> {
        let mut served = self.served.sorted()?.peekable();
        let mut peers = self.peers.sorted()?.peekable();
        let mut launched = launched.sorted()?.peekable();
        while let Some(next) = launched.peek() {
            let range = match next {
                Ok([range, ..]) => *range,
                Err(_) => NONE,
            };
            let mut kernels = Vec::new();
            while let Some(row) =
                launched.next_if(|row| !matches!(row, Ok([other, ..]) if *other != range))
            {
                let [_, _, event, code] = row?;
                kernels.push((event, code));
            }
            let parts = parts(&mut served, &mut peers, range)?;
            if let Some(pairs) = pairs(&kernels, &parts) {
                for ((kernel, _), part) in kernels.iter().zip(pairs) {
                    let part = &parts[part];
                    self.out.unclear += u64::from(part.code == MIXED);
                    (self.write)(*kernel, Some(part), self.of.own(part.communicator))?;
                }
                continue;
            }
            // Of one kind, they at least say that.
            let same = parts.first().filter(|p| parts.iter().all(|o| o.code == p.code));
            let same = same.map(|p| Served {
                bytes: None,
                received: None,
                other_rank: NONE,
                communicator: if parts.len() == 1 { p.communicator } else { NONE },
                peers: None,
                ..p.clone()
            });
            for (kernel, _) in kernels {
                self.out.unclear += u64::from(!parts.is_empty());
                let own = same.as_ref().filter(|_| parts.len() == 1);
                let own = own.map(|s| self.of.own(s.communicator)).unwrap_or_default();
                (self.write)(kernel, same.as_ref(), own)?;
            }
        }
        Ok(self.out)
    }
}

/// The calls that a launch in this range serves, by communicator.
fn parts(
    served: &mut Peekable<Sorted<8>>,
    peers: &mut Peekable<Sorted<5>>,
    range: i64,
) -> Result<Vec<Served>> {
    let mut parts = Vec::new();
    while let Some(row) = served.next_if(|row| !matches!(row, Ok([other, ..]) if *other > range)) {
        let [at, part, code, communicator, bytes, received, other_rank, calls] = row?;
        let mut of: BTreeMap<i64, [i64; 2]> = BTreeMap::new();
        while let Some(row) =
            peers.next_if(|row| !matches!(row, Ok([r, p, ..]) if (*r, *p) > (at, part)))
        {
            let [r, p, peer, sent, received] = row?;
            if (r, p) == (at, part) {
                of.insert(peer, [sent, received]);
            }
        }
        if at == range {
            parts.push(Served {
                code,
                communicator,
                bytes: some(bytes),
                received: some(received),
                other_rank,
                calls,
                alike: None,
                peers: Some(of).filter(|of| !of.is_empty()),
            });
        }
    }
    Ok(parts)
}

/// Notes calls that the launches in a range serve.
fn push(served: &mut Spill<8>, range: i64, part: usize, s: &Served) -> Result<()> {
    let or = |value: Option<i64>| value.unwrap_or(NONE);
    served.push([
        range,
        part as i64,
        s.code,
        s.communicator,
        or(s.bytes),
        or(s.received),
        s.other_rank,
        s.calls,
    ])
}

/// The row of an event; nothing where no call is known.
fn comm_args(rows: &mut Rows, event: i64, served: Option<&Served>, own: Own) {
    let Some(s) = served else { return };
    let name = usize::try_from(s.code - FIRST).ok().and_then(|at| NAMES.get(at));
    let (into, out) = s.sizes(own.ranks);
    let communicator = some(s.communicator).map(|id| format!("{:#018x}", id as u64));
    // A send or receive names its peer, a rooted call its root: at the place that its kind has.
    let other = some(s.other_rank);
    let from = matches!(s.code, RECV | BROADCAST | SCATTER);
    let (source, target) = if from { (other, None) } else { (None, other) };
    let splits = s.splits(own.ranks);
    let [in_split, out_split] = [0, 1].map(|at| splits.as_ref().map(|lists| &*lists[at]));
    let sized = into.is_some() || out.is_some();
    CommArgs {
        event_id: event,
        collective_name: name.copied(),
        group_size: own.ranks,
        pg_name: communicator.as_deref(),
        src_rank: source,
        dst_rank: target,
        in_split,
        out_split,
        in_bytes: into,
        out_bytes: out,
        coll_source: Some(if sized { "nvtx_payload" } else { "nvtx_range" }),
        group_rank: own.rank,
        ..CommArgs::default()
    }
    .push(rows);
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::readers::nsys::nccl::calls::{Call, OTHER, range};
    use crate::schema::table;

    const COMM: Option<i64> = Some(7);

    /// (event, name, group size, in, out) of the rows made.
    type Row = (i64, Option<String>, Option<i64>, Option<i64>, Option<i64>);

    fn rows(ranges: &[Range], launches: &[(i64, i64, i64)], n: Option<i64>) -> (Vec<Row>, Outcome) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut groups = Groups::new(folder.path(), 1 << 20, true);
        if let Some(ranks) = n {
            let id = Some(7);
            groups.communicators(&[Communicator { id, ranks, rank: 0, device: Some(0) }]);
        }
        let kernels: Vec<[i64; 2]> = launches.iter().map(|l| [l.0, OTHER]).collect();
        groups.add(ranges, &kernels, 0).expect("it fits in memory");
        let mut all = groups.kernels(folder.path()).expect("it fits in memory");
        for (kernel, range, at) in launches {
            let launch = [*kernel, NONE, 0, 0, *at, *range, NONE, NONE, NONE, NONE, NONE];
            groups.launch(&mut all, &launch).expect("it fits in memory");
        }
        let table = table("comm_args").expect("the table is in the schema");
        let mut rows = Rows::new(table, &["rank"]);
        let outcome = groups.finish(Some(0), &mut rows, |_| Ok(())).expect("nothing is on disk");
        let batch: RecordBatch = rows.take().expect("the rows are whole");
        let int = |name: &str, row: usize| {
            let c = batch.column_by_name(name).expect("the column").as_primitive::<Int64Type>();
            c.is_valid(row).then(|| c.value(row))
        };
        let names = batch.column_by_name("collective_name").expect("the column").as_string::<i32>();
        let rows = (0..batch.num_rows())
            .map(|r| {
                let name = names.is_valid(r).then(|| names.value(r).to_owned());
                let id = int("event_id", r).expect("every row has an id");
                (id, name, int("group_size", r), int("in_bytes", r), int("out_bytes", r))
            })
            .collect();
        (rows, outcome)
    }

    fn call(start: i64, event: i64, name: &str, bytes: Option<i64>) -> Range {
        range(1, start, event, Call::of(name), COMM, bytes, None)
    }

    fn of_kernels(rows: Vec<Row>, from: i64) -> Vec<Row> {
        rows.into_iter().filter(|r| r.0 >= from).collect()
    }

    #[test]
    fn a_call_outside_a_group_serves_its_kernel() {
        let ranges =
            [call(0, 1, "ncclAllGather", Some(100)), call(9, 2, "ncclReduceScatter", Some(5))];
        let (rows, outcome) = rows(&ranges, &[(10, 1, 3), (11, 2, 10)], Some(4));
        let kernels = of_kernels(rows, 10);
        let name = |n: &str| Some(n.to_owned());
        assert_eq!(kernels[0], (10, name("ncclAllGather"), Some(4), Some(100), Some(400)));
        assert_eq!(kernels[1], (11, name("ncclReduceScatter"), Some(4), Some(20), Some(5)));
        assert_eq!((outcome.calls, outcome.sized, outcome.unclear), (2, 2, 0));
    }

    /// How much each of them moves is not known, but whose they are.
    #[test]
    fn two_kernels_of_one_call_are_of_its_communicator() {
        let (rows, outcome) =
            rows(&[call(0, 1, "ncclAllReduce", Some(100))], &[(10, 1, 0), (11, 1, 0)], Some(4));
        let kernel = |id| (id, Some("ncclAllReduce".to_owned()), Some(4), None, None);
        assert_eq!(of_kernels(rows, 10), [kernel(10), kernel(11)]);
        assert_eq!((outcome.calls, outcome.sized, outcome.unclear), (1, 1, 2));
    }

    #[test]
    fn one_launch_of_a_group_serves_all_its_calls() {
        // Groups nest; only the outermost end launches.
        let ranges = [
            call(0, 1, "ncclGroupStart", None),
            call(1, 2, "ncclSend", Some(10)),
            call(2, 3, "ncclRecv", Some(1)),
            call(3, 4, "ncclGroupStart", None),
            call(4, 5, "ncclSend", Some(20)),
            call(5, 6, "ncclRecv", Some(2)),
            call(6, 7, "ncclGroupEnd", None),
            call(7, 8, "ncclGroupEnd", None),
        ];
        let (rows, _) = rows(&ranges, &[(10, 8, 8)], Some(2));
        assert_eq!(
            of_kernels(rows, 10),
            [(10, Some("ncclSendRecv".to_owned()), Some(2), Some(30), Some(3))]
        );
    }

    #[test]
    fn kernels_of_several_communicators_come_in_the_order_of_the_group() {
        let other = |start, event, bytes| {
            range(1, start, event, Call::of("ncclAllReduce"), Some(9), Some(bytes), None)
        };
        let ranges = [
            call(0, 1, "ncclGroupStart", None),
            other(1, 2, 1000),
            call(2, 3, "ncclAllReduce", Some(7)),
            other(3, 4, 500),
            call(4, 5, "ncclGroupEnd", None),
        ];
        let sizes = |launches: &[(i64, i64, i64)]| {
            let (rows, outcome) = rows(&ranges, launches, Some(4));
            let of: Vec<_> = of_kernels(rows, 10).into_iter().map(|r| (r.2, r.3)).collect();
            (of, outcome.unclear)
        };
        assert_eq!(
            sizes(&[(10, 5, 5), (11, 5, 6)]),
            (vec![(None, Some(1500)), (Some(4), Some(7))], 0)
        );
        // With one kernel for two communicators, whose it is is not known.
        assert_eq!(sizes(&[(10, 5, 5)]), (vec![(None, None)], 1));
    }

    #[test]
    fn mixed_and_unsized_calls_say_no_size() {
        let ranges = [
            call(0, 1, "ncclGroupStart", None),
            call(1, 2, "ncclAllGather", Some(10)),
            call(2, 3, "ncclReduceScatter", Some(10)),
            call(3, 4, "ncclGroupEnd", None),
            call(5, 5, "ncclAllReduce", None),
            call(6, 6, "ncclBcast", Some(3)),
        ];
        let (rows, outcome) = rows(&ranges, &[(10, 4, 4), (11, 5, 5), (12, 6, 6)], None);
        let name = |n: &str| Some(n.to_owned());
        assert_eq!(
            of_kernels(rows, 10),
            [
                (10, None, None, None, None),
                (11, name("ncclAllReduce"), None, None, None),
                (12, name("ncclBroadcast"), None, Some(3), Some(3)),
            ]
        );
        assert_eq!((outcome.calls, outcome.sized), (4, 3));
    }

    #[test]
    fn calls_of_another_device_are_served_elsewhere() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut groups = Groups::new(folder.path(), 1 << 20, true);
        for (id, device) in [(7, 0), (9, 1)] {
            groups.communicators(&[Communicator {
                id: Some(id),
                ranks: 2,
                rank: device,
                device: Some(device),
            }]);
        }
        let on = |start, event, id| {
            range(1, start, event, Call::of("ncclAllReduce"), Some(id), Some(id), None)
        };
        let ranges = [
            call(0, 1, "ncclGroupStart", None),
            on(1, 2, 7),
            on(2, 3, 9),
            call(3, 4, "ncclGroupEnd", None),
        ];
        groups.add(&ranges, &[[10, OTHER]], 0).expect("it fits in memory");
        let mut all = groups.kernels(folder.path()).expect("it fits in memory");
        groups
            .launch(&mut all, &[10, NONE, 0, 0, 3, 4, NONE, NONE, NONE, NONE, NONE])
            .expect("it fits in memory");
        let mut rows = Rows::new(table("comm_args").expect("the table"), &["rank"]);
        groups.finish(Some(1), &mut rows, |_| Ok(())).expect("nothing is on disk");
        let batch = rows.take().expect("the rows are whole");
        let into =
            batch.column_by_name("in_bytes").expect("the column").as_primitive::<Int64Type>();
        assert_eq!(into.value(batch.num_rows() - 1), 9);
    }

    /// Bytes of input of the one kernel, and whether it was told apart.
    fn of_device(ranges: &[Range], communicators: &[Communicator]) -> (Option<i64>, u64) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut groups = Groups::new(folder.path(), 1 << 20, true);
        groups.communicators(communicators);
        groups.add(ranges, &[[10, OTHER]], 0).expect("it fits in memory");
        let mut all = groups.kernels(folder.path()).expect("it fits in memory");
        groups
            .launch(&mut all, &[10, NONE, 0, 0, 9, 9, NONE, NONE, NONE, NONE, NONE])
            .expect("it fits in memory");
        let mut rows = Rows::new(table("comm_args").expect("the table"), &["rank"]);
        let outcome = groups.finish(Some(0), &mut rows, |_| Ok(())).expect("nothing is on disk");
        let batch = rows.take().expect("the rows are whole");
        let into =
            batch.column_by_name("out_bytes").expect("the column").as_primitive::<Int64Type>();
        let last = batch.num_rows() - 1;
        (into.is_valid(last).then(|| into.value(last)), outcome.unclear)
    }

    #[test]
    fn two_devices_of_a_process_share_the_calls_of_a_group() {
        let both = [0, 1].map(|d| Communicator { id: COMM, ranks: 2, rank: d, device: Some(d) });
        let group = |a, b| {
            [
                call(0, 1, "ncclGroupStart", None),
                call(1, 2, "ncclAllReduce", Some(a)),
                call(2, 3, "ncclAllReduce", Some(b)),
                call(3, 9, "ncclGroupEnd", None),
            ]
        };
        assert_eq!(of_device(&group(100, 100), &both), (Some(100), 0));
        // Which of two is whose is not said.
        assert_eq!(of_device(&group(100, 200), &both), (None, 1));
    }

    #[test]
    fn versions_that_name_no_communicator_still_say_its_ranks() {
        let gather = [range(1, 9, 9, Call::of("ncclAllGather"), None, Some(5), None)];
        let of = |ranks| Communicator { id: None, ranks, rank: 0, device: Some(0) };
        assert_eq!(of_device(&gather, &[of(4)]), (Some(20), 0));
        assert_eq!(of_device(&gather, &[of(4), of(2)]), (None, 0));
    }

    #[test]
    fn the_most_communicators_of_a_process() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut groups = Groups::new(folder.path(), 1 << 20, true);
        let one = |id| Communicator { id: Some(id), ranks: 2, rank: 0, device: Some(0) };
        let most = MAX_COMMUNICATORS as i64;
        groups.communicators(&(0..=most).map(one).collect::<Vec<_>>());
        assert_eq!(groups.communicators.len() as i64, most);
        assert!(groups.communicators.values().all(|c| c.id != Some(most)));
    }
}
