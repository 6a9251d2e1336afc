//! Which calls of NCCL a kernel of communication serves, and what they say of themselves.
//!
//! A call outside a group launches its kernel itself. Inside a group nothing is launched until the
//! outermost `ncclGroupEnd`, and then a kernel for each communicator that the group's calls name: one
//! launch serves several calls. So the sizes are summed over the calls, by communicator, and go to the
//! kernels in the order in which the group names the communicators. Of sends and receives the sums are
//! kept by peer too: an all-to-all of unlike sizes is a group of them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Result;
use crate::readers::share::Communicator;
use crate::spool::launches::{Launch, NONE, some};
use crate::spool::rows::Rows;
use crate::spool::sort_ints::{Sorted, Spill};

/// What a range of NCCL's API is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    code: i64,
}

const OTHER: i64 = 0;
const GROUP_START: i64 = 1;
const GROUP_END: i64 = 2;
const INIT: i64 = 3;
/// Codes from here on are calls that communicate.
const FIRST: i64 = 10;
const ALL_GATHER: i64 = 11;
const REDUCE_SCATTER: i64 = 12;
const SEND: i64 = 15;
const RECV: i64 = 16;
const BROADCAST: i64 = 13;
const ALL_TO_ALL: i64 = 17;
const GATHER: i64 = 18;
const SCATTER: i64 = 19;
/// A group of sends and receives.
const SEND_RECV: i64 = 20;
/// A group of calls of several kinds.
const MIXED: i64 = 21;

/// Names of the calls that communicate, from [`FIRST`] on.
const NAMES: [&str; 11] = [
    "ncclAllReduce",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclReduce",
    "ncclSend",
    "ncclRecv",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
    "ncclSendRecv",
];

impl Call {
    /// Of the name of a range in NCCL's domain.
    pub fn of(name: &str) -> Self {
        let code = match name {
            "ncclGroupStart" => GROUP_START,
            "ncclGroupEnd" | "ncclGroupSimulateEnd" => GROUP_END,
            "ncclBcast" => BROADCAST,
            "ncclAllToAll" => ALL_TO_ALL,
            n if n.starts_with("ncclCommInit") || n == "ncclCommSplit" => INIT,
            n => NAMES[..10].iter().position(|k| *k == n).map_or(OTHER, |at| FIRST + at as i64),
        };
        Self { code }
    }

    /// Whether it communicates.
    pub fn communicates(self) -> bool {
        self.code >= FIRST
    }

    /// Whether kernels may be launched inside it for calls that communicate.
    pub fn launches(self) -> bool {
        self.communicates() || self.code == GROUP_END
    }

    /// Whether it makes a communicator.
    pub fn is_init(self) -> bool {
        self.code == INIT
    }

    /// Whether it says anything about kernels.
    pub fn matters(self) -> bool {
        self.code != OTHER && self.code != INIT
    }
}

/// A range of NCCL's API: thread, start, event, code of the call, communicator, bytes, root or peer.
pub type Range = [i64; 7];

/// The record of a range.
pub fn range(
    thread: i64,
    start: i64,
    event: i64,
    call: Call,
    communicator: Option<i64>,
    bytes: Option<i64>,
    other_rank: Option<i64>,
) -> Range {
    let or = |value: Option<i64>| value.unwrap_or(NONE);
    [thread, start, event, call.code, or(communicator), or(bytes), or(other_rank)]
}

/// The call that a kernel of this name is made for, as far as the name says it.
pub fn code_of_kernel(name: &str) -> i64 {
    let name = name.to_lowercase();
    let kinds = [
        ("sendrecv", SEND_RECV),
        ("allreduce", FIRST),
        ("allgather", ALL_GATHER),
        ("reducescatter", REDUCE_SCATTER),
        ("broadcast", BROADCAST),
    ];
    kinds.iter().find(|(word, _)| name.contains(word)).map_or(OTHER, |(_, code)| *code)
}

/// Whether a kernel may serve a call.
fn fits(kernel: i64, call: i64) -> bool {
    let in_pairs = [SEND, RECV, SEND_RECV, ALL_TO_ALL, GATHER, SCATTER];
    kernel == OTHER
        || call == MIXED
        || kernel == call
        || (kernel == SEND_RECV && in_pairs.contains(&call))
}

/// The calls of one communicator that one launch serves.
#[derive(Debug, Clone)]
struct Served {
    code: i64,
    communicator: i64,
    /// Bytes of the calls; of the sends in a group of both.
    bytes: Option<i64>,
    /// Bytes of the receives.
    received: Option<i64>,
    other_rank: i64,
    calls: i64,
    /// Bytes of each call, while they are all alike.
    alike: Option<i64>,
    /// Bytes to and from each peer; None where a call is no send or receive, or says no peer or size.
    peers: Option<BTreeMap<i64, [i64; 2]>>,
}

impl Served {
    /// The first call of a communicator.
    fn one(code: i64, communicator: i64, bytes: i64, other_rank: i64) -> Self {
        let mut out = Self {
            code,
            communicator,
            bytes: Some(0),
            received: Some(0),
            other_rank,
            calls: 0,
            alike: None,
            peers: Some(BTreeMap::new()),
        };
        out.add(code, bytes, other_rank);
        out
    }

    /// The share of one of `devices` that the process calls for with the same communicator: none says
    /// which call is whose, so it is known only where they are alike.
    fn of_one_device(mut self, devices: i64) -> Self {
        if devices > 1 {
            let even = self.calls % devices == 0 && self.alike.is_some();
            let part = |bytes: Option<i64>| bytes.filter(|_| even).map(|b| b / devices);
            (self.bytes, self.received) = (part(self.bytes), part(self.received));
            self.peers = None;
        }
        self
    }

    fn add(&mut self, code: i64, bytes: i64, other_rank: i64) {
        let plus = |sum: Option<i64>| sum?.checked_add(some(bytes)?);
        match code {
            RECV => self.received = plus(self.received),
            _ => self.bytes = plus(self.bytes),
        }
        self.code = match (self.code, code) {
            (a, b) if a == b => a,
            (SEND | RECV | SEND_RECV, SEND | RECV) => SEND_RECV,
            _ => MIXED,
        };
        if self.calls > 0 && self.other_rank != other_rank {
            self.other_rank = NONE;
        }
        self.alike = some(bytes).filter(|b| self.calls == 0 || self.alike == Some(*b));
        self.calls += 1;
        self.peers = match (self.peers.take(), code, some(bytes), some(other_rank)) {
            (Some(mut peers), SEND | RECV, Some(bytes), Some(peer)) => {
                let sum = &mut peers.entry(peer).or_default()[usize::from(code == RECV)];
                *sum = sum.saturating_add(bytes);
                Some(peers)
            }
            _ => None,
        };
    }

    /// Bytes to each rank of the communicator and from each, as lists; a peer without a call gets and
    /// gives none. Without the number of ranks they end with the last peer.
    fn splits(&self, ranks: Option<i64>) -> Option<[String; 2]> {
        let peers = self.peers.as_ref()?;
        let (first, last) = (*peers.keys().next()?, *peers.keys().next_back()?);
        let ranks = ranks.unwrap_or_else(|| last.saturating_add(1));
        if first < 0 || last >= ranks || ranks > MAX_SPLITS {
            return None;
        }
        let list = |at: usize| {
            let of = |peer| peers.get(&peer).map_or(0, |sums| sums[at]).to_string();
            format!("[{}]", (0..ranks).map(of).collect::<Vec<_>>().join(","))
        };
        Some([list(0), list(1)])
    }

    /// Bytes of input and output of this rank.
    fn sizes(&self, ranks: Option<i64>) -> (Option<i64>, Option<i64>) {
        let times = |bytes: Option<i64>| bytes?.checked_mul(ranks?);
        match self.code {
            ALL_GATHER => (self.bytes, times(self.bytes)),
            REDUCE_SCATTER => (times(self.bytes), self.bytes),
            ALL_TO_ALL => (times(self.bytes), times(self.bytes)),
            // Only the root has the whole of it.
            GATHER => (self.bytes, None),
            SCATTER => (None, self.bytes),
            SEND => (self.bytes, None),
            RECV => (None, self.received),
            SEND_RECV => (self.bytes, self.received),
            MIXED => (None, None),
            _ => (self.bytes, self.bytes),
        }
    }
}

/// Communicators of a process that are kept.
const MAX_COMMUNICATORS: usize = 65_536;
/// Communicators that one group may name before they are no longer told apart.
const MAX_PARTS: usize = 1024;
/// Ranks of a communicator whose bytes are listed one by one.
const MAX_SPLITS: i64 = 8192;

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
    /// Whether it is the first rank of its process: what no communicator gives to one device is told
    /// there.
    is_first: bool,
}

/// What was found while rows were made.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    /// Calls that communicate.
    pub calls: u64,
    /// Those that say their size.
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
    pub fn kernels(&mut self, folder: &Path) -> Result<std::iter::Peekable<Sorted<2>>> {
        let all = std::mem::replace(&mut self.kernels, Spill::new(folder, "nccl-none", 0));
        Ok(all.sorted()?.peekable())
    }

    /// Takes a launch; launches come in the order of their device events.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn launch(
        &mut self,
        kernels: &mut std::iter::Peekable<Sorted<2>>,
        launch: &Launch,
    ) -> Result<()> {
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
        mut self,
        device: Option<i64>,
        rows: &mut Rows,
        mut flush: impl FnMut(&mut Rows) -> Result<()>,
    ) -> Result<Outcome> {
        let mut out = Outcome::default();
        let all = Communicators { all: std::mem::take(&mut self.communicators), device };
        let mut thread = None;
        let mut depth = 0_u32;
        let mut group: Vec<Served> = Vec::new();
        for row in self.ranges.sorted()? {
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
                        for (part, s) in group.drain(..).enumerate() {
                            let sized = s.bytes.is_some() && s.received.is_some();
                            let devices = all.devices(s.communicator);
                            let s = s.of_one_device(devices);
                            out.unclear += u64::from(sized && s.bytes.is_none());
                            push(&mut self.served, event, part, &s)?;
                            for (peer, [sent, received]) in s.peers.iter().flatten() {
                                self.peers.push([event, part as i64, *peer, *sent, *received])?;
                            }
                        }
                    }
                }
                // Told where its kernel is.
                _ if all.elsewhere(communicator) => {}
                _ => {
                    let one = Served::one(code, communicator, bytes, other);
                    if self.is_first || all.devices(communicator) == 1 {
                        out.calls += 1;
                        out.sized += u64::from(bytes != NONE);
                        let call = Served { peers: None, ..one.clone() };
                        comm_args(rows, event, Some(&call), all.own(communicator));
                        flush(rows)?;
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
        let mut served = self.served.sorted()?.peekable();
        let mut peers = self.peers.sorted()?.peekable();
        let mut launched = self.launched.sorted()?.peekable();
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
            let mut parts = Vec::new();
            while let Some(row) =
                served.next_if(|row| !matches!(row, Ok([other, ..]) if *other > range))
            {
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
            if let Some(pairs) = pairs(&kernels, &parts) {
                for ((kernel, _), part) in kernels.iter().zip(pairs) {
                    let part = &parts[part];
                    out.unclear += u64::from(part.code == MIXED);
                    comm_args(rows, *kernel, Some(part), all.own(part.communicator));
                    flush(rows)?;
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
                out.unclear += u64::from(!parts.is_empty());
                let own = same.as_ref().filter(|_| parts.len() == 1);
                let own = own.map(|s| all.own(s.communicator)).unwrap_or_default();
                comm_args(rows, kernel, same.as_ref(), own);
                flush(rows)?;
            }
        }
        Ok(out)
    }
}

/// What a communicator is to a device: its ranks, and which of them the device is.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    ranks: Option<i64>,
    rank: Option<i64>,
}

/// The communicators of a process, as one of its devices sees them.
struct Communicators {
    all: BTreeMap<(Option<i64>, Option<i64>, i64), Communicator>,
    device: Option<i64>,
}

impl Communicators {
    fn of(&self, id: i64) -> impl Iterator<Item = &Communicator> {
        let id = some(id);
        // Those of one number lie together.
        let from = (id, None, i64::MIN);
        self.all.range(from..).take_while(move |(key, _)| key.0 == id).map(|(_, c)| c)
    }

    fn here(&self, c: &Communicator) -> bool {
        c.device.is_none() || c.device == self.device
    }

    /// Its ranks, and the own one among them. Where versions name no communicator, all of the device may
    /// have the same number.
    fn own(&self, id: i64) -> Own {
        let mut of = self.of(id).filter(|c| self.here(c));
        let Some(first) = of.next() else { return Own::default() };
        let (mut ranks, mut rank) = (Some(first.ranks), Some(first.rank));
        for c in of {
            ranks = ranks.filter(|ranks| *ranks == c.ranks);
            rank = rank.filter(|rank| *rank == c.rank);
        }
        Own { ranks, rank: rank.filter(|_| ranks.is_some()) }
    }

    /// Devices of the process that take part in it, as far as is known.
    fn devices(&self, id: i64) -> i64 {
        let devices: std::collections::BTreeSet<_> = self.of(id).map(|c| c.device).collect();
        devices.len().max(1) as i64
    }

    /// Whether its calls are served by the kernels of another rank of the process.
    fn elsewhere(&self, id: i64) -> bool {
        let mut of = self.of(id).peekable();
        of.peek().is_some() && !of.any(|c| self.here(c))
    }
}

/// Which part each kernel serves: the group names the communicators in the order of their launches,
/// unless the names of the kernels say otherwise. None where it cannot be told.
fn pairs(kernels: &[(i64, i64)], parts: &[Served]) -> Option<Vec<usize>> {
    if kernels.len() != parts.len() {
        return None;
    }
    let in_order = || kernels.iter().zip(parts).all(|((_, kernel), part)| fits(*kernel, part.code));
    if parts.len() == 1 || in_order() {
        return Some((0..parts.len()).collect());
    }
    let mut taken = std::collections::BTreeSet::new();
    kernels
        .iter()
        .map(|(_, kernel)| {
            let mut may = (0..parts.len()).filter(|part| fits(*kernel, parts[*part].code));
            let only = may.next().filter(|_| may.next().is_none())?;
            taken.insert(only).then_some(only)
        })
        .collect()
}

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
    rows.int(Some(event)).text(name.copied()).nulls(3).int(own.ranks);
    rows.text(communicator.as_deref()).nulls(3).int(source).int(target);
    for at in 0..2 {
        rows.text(splits.as_ref().map(|lists| &*lists[at]));
    }
    rows.nulls(2).int(into).int(out);
    let sized = into.is_some() || out.is_some();
    rows.text(Some(if sized { "nvtx_payload" } else { "nvtx_range" })).nulls(1).int(own.rank);
    rows.end_row();
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
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
    fn names_of_kernels_tell_communicators_apart() {
        let part = |code| Served {
            code,
            communicator: 0,
            bytes: None,
            received: None,
            other_rank: NONE,
            calls: 1,
            alike: None,
            peers: None,
        };
        let parts = [part(FIRST), part(REDUCE_SCATTER)];
        assert_eq!(pairs(&[(1, FIRST), (2, REDUCE_SCATTER)], &parts), Some(vec![0, 1]));
        assert_eq!(pairs(&[(1, REDUCE_SCATTER), (2, FIRST)], &parts), Some(vec![1, 0]));
        assert_eq!(pairs(&[(1, OTHER), (2, OTHER)], &parts), Some(vec![0, 1]));
        assert_eq!(pairs(&[(1, ALL_GATHER), (2, FIRST)], &parts), None);
        assert_eq!(pairs(&[(1, FIRST)], &parts), None);
    }
}
