//! The shares of a file: which rank the rows of a process and device are of, and what belongs
//! together in each when the file ends.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::pool::lock;
use crate::readers::contract::Reading;
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::chains;
use crate::readers::nsys::context::Context;
use crate::readers::nsys::database::{Database, int, text};
use crate::readers::nsys::ids::{self, MAX_PROCESSES, thread_ids};
use crate::readers::nsys::layout::{Layout, Place, To};
use crate::readers::nsys::nccl::{self, Groups};
use crate::readers::nsys::reader::{Bundle, Outcome};
use crate::readers::nsys::rows::{self, SEGMENT_ROWS};
use crate::readers::nsys::tables::{Kind, Plan, plans};
use crate::readers::nsys::target::Target;
use crate::readers::share::{RankRow, Share};
use crate::spool::events::Metadata;
use crate::spool::parquet::BATCH_ROWS;
use crate::spool::rows::Rows;
use crate::spool::steps::StepPatterns;
use crate::spool::totals::Totals;
use crate::spool::{self, COMM_ARGS, CROWD, MANY_RANKS, METADATA, Spool, batch};

/// Ranks of a file from which on each gets less memory.
const CROWDED: usize = 32;

/// A range of rows that some thread reads.
struct Segment {
    plan: usize,
    from: i64,
    to: i64,
    outcome: Mutex<Option<(Outcome, Option<Error>)>>,
}

/// One rank of the file, or the rows that are of no rank.
struct Of {
    /// None for what is of no rank.
    key: Option<Place>,
    folder: PathBuf,
    spool: Spool,
    groups: Groups,
    totals: Totals,
}

/// Collects the rows of a file, in the order of its tables.
pub(super) struct Gather<'a> {
    reading: &'a Reading<'a>,
    context: Arc<Context>,
    plans: Arc<Vec<Plan>>,
    target: Target,
    log: Log,
    shares: Vec<Of>,
    /// The share that is of no rank.
    rest: Option<usize>,
    first_folder: Option<PathBuf>,
    elements: u64,
    /// Rows that were left out.
    skipped: u64,
    /// Bytes of the file for each row, to tell how far it is.
    row_bytes: f64,
    told: f64,
    bytes: u64,
    /// Processes with events, for their names.
    processes: BTreeSet<i64>,
}

impl<'a> Gather<'a> {
    pub(super) fn new(
        reading: &'a Reading<'a>,
        database: Database,
        folder: PathBuf,
        bytes: u64,
        tells: bool,
    ) -> Result<Self> {
        let mut log = Log::default();
        let shown = reading.place.display();
        let partial = reading.keep_partial;
        let plans = plans(&database, &shown, partial.then_some(&mut log))?;
        let target = match Target::read(&database, &mut log) {
            Err(e) if partial => {
                log.say(
                    Severity::Error,
                    e.code,
                    1,
                    format!(
                        "{}; what it says of the machine and the clock was left out",
                        e.message
                    ),
                );
                Target::default()
            }
            other => other?,
        };
        if target.base_ns.is_none() {
            log.add(Severity::Info, "no-epoch", None, || {
                "the file does not say when the capture started; times count from there".to_owned()
            });
        }
        let ignored: Vec<&str> = database
            .left_out
            .iter()
            .map(String::as_str)
            .filter(|n| n.len() < 100)
            .take(8)
            .collect();
        if !ignored.is_empty() {
            log.add(Severity::Info, "view-ignored", None, || {
                format!(
                    "views, virtual tables and tables without row numbers are never read: {}",
                    ignored.join(", ")
                )
            });
        }
        let unread = unread(&database, &plans)?;
        if !unread.is_empty() {
            log.say(
                Severity::Info,
                "tables-not-read",
                unread.len() as u64,
                format!(
                    "tables that hold no events that this version knows: {}",
                    unread.join(", ")
                ),
            );
        }
        let base_ns = target.base_ns.unwrap_or(0);
        let mut context = Context::read(database, &plans, base_ns, reading.steps())?;
        context.layout =
            Layout::read(&context.database, &plans, context.by_process, &shown, partial)?;
        if context.layout.stray > 0 {
            log.say(
                Severity::Info,
                "stray-device",
                context.layout.stray,
                "events on devices that their process touches by accident; they count for its rank"
                    .to_owned(),
            );
        }
        context.chains.say(&mut log);
        let rows: f64 = plans.iter().map(|p| p.rows.1 as f64 - p.rows.0 as f64 + 1.0).sum();
        let ranks = context.layout.ranks.clone();
        let mut out = Self {
            reading,
            context: Arc::new(context),
            plans: Arc::new(plans),
            target,
            log,
            shares: Vec::new(),
            rest: None,
            first_folder: Some(folder),
            elements: 0,
            skipped: 0,
            row_bytes: if tells { bytes as f64 / rows.max(1.0) } else { 0.0 },
            told: 0.0,
            bytes,
            processes: BTreeSet::new(),
        };
        for place in ranks {
            out.share(Some(place))?;
        }
        Ok(out)
    }

    /// The ranges of all tables. A table whose row numbers lie far apart is one range.
    fn segments(&self) -> VecDeque<Segment> {
        let mut out = VecDeque::new();
        for (plan, p) in self.plans.iter().enumerate() {
            let (first, last) = p.rows;
            let segment = |from, to| Segment { plan, from, to, outcome: Mutex::new(None) };
            // A row takes some bytes of the file.
            let dense = last.checked_sub(first).is_some_and(|n| n >= 0 && n as u64 <= self.bytes);
            if !dense {
                out.push_back(segment(first, last));
                continue;
            }
            let mut from = first;
            loop {
                let to = last.min(from.saturating_add(SEGMENT_ROWS - 1));
                out.push_back(segment(from, to));
                if to == last {
                    break;
                }
                from = to + 1;
            }
        }
        out
    }

    pub(super) fn run(mut self) -> Result<Vec<Share>> {
        let pool = self.reading.pool;
        let mut waiting = self.segments();
        let mut flying: VecDeque<Arc<Segment>> = VecDeque::new();
        loop {
            while flying.len() < pool.threads() + 1
                && let Some(segment) = waiting.pop_front()
            {
                let segment = Arc::new(segment);
                let (task, context, plans) =
                    (segment.clone(), self.context.clone(), self.plans.clone());
                pool.submit(move || {
                    let read = rows::read(&context, &plans[task.plan], task.from, task.to);
                    *lock(&task.outcome) = Some(read);
                });
                flying.push_back(segment);
            }
            let Some(front) = flying.pop_front() else { break };
            pool.wait(|| lock(&front.outcome).is_some());
            let (mut outcome, mut failed) = lock(&front.outcome).take().expect("it was waited for");
            // Rows that are passed over where a page is damaged; more each time.
            let (mut leap, mut start) = (1, front.from);
            loop {
                let (last, rest) = (outcome.last, outcome.rest);
                self.accept(outcome)?;
                let from = match failed {
                    None => rest,
                    Some(e) if self.reading.keep_partial => {
                        let table = &self.plans[front.plan].table;
                        self.log.add(Severity::Error, e.code, None, || {
                            format!("{}; rows of {table} that lie there were left out", e.message)
                        });
                        let after = last.unwrap_or(start);
                        leap *= 2;
                        after.checked_add(leap).filter(|from| *from <= front.to)
                    }
                    Some(e) => {
                        // The others must not write into folders that are going away.
                        pool.wait(|| flying.iter().all(|s| lock(&s.outcome).is_some()));
                        return Err(e.hint(
                            "export the report again, or keep what can be read with --keep-partial",
                        ));
                    }
                };
                let Some(from) = from else { break };
                start = from;
                (outcome, failed) =
                    rows::read(&self.context, &self.plans[front.plan], from, front.to);
            }
            if self.row_bytes > 0.0 {
                // A damaged index may say that the last row comes before the first.
                let rows = (front.to as f64 - front.from as f64 + 1.0).max(0.0) * self.row_bytes;
                let before = self.told as u64;
                self.told += rows;
                let now = self.told as u64 - before;
                self.reading.watcher.tell(|w| w.read(now));
                if let Err(stopped) = self.reading.watcher.go_on() {
                    // The others must not write into folders that are going away.
                    pool.wait(|| flying.iter().all(|s| lock(&s.outcome).is_some()));
                    return Err(stopped);
                }
            }
        }
        self.finish()
    }

    /// A new share.
    fn share(&mut self, key: Option<Place>) -> Result<usize> {
        let index = self.shares.len();
        let folder = match self.first_folder.take() {
            Some(folder) => folder,
            None => (self.reading.folder)(index)?,
        };
        let pool = self.reading.pool.clone();
        let budget = if self.context.layout.ranks.len() > CROWDED { CROWD } else { MANY_RANKS };
        let is_first = key.is_none_or(|(process, _)| {
            self.context.layout.of_process(process).first() == Some(&index)
        });
        self.shares.push(Of {
            key,
            spool: Spool::new(&folder, self.reading.source_id, pool, budget),
            groups: Groups::new(&folder, budget.spill_bytes, is_first),
            totals: Totals { device: key.and_then(|k| k.1), ..Totals::default() },
            folder,
        });
        Ok(index)
    }

    /// The share of what is of no rank.
    fn rest(&mut self) -> Result<usize> {
        match self.rest {
            Some(rest) => Ok(rest),
            None => {
                let rest = self.share(None)?;
                self.rest = Some(rest);
                Ok(rest)
            }
        }
    }

    fn accept(&mut self, outcome: Outcome) -> Result<()> {
        self.log.append(outcome.log);
        let before = self.elements;
        self.elements += outcome.elements;
        self.skipped += outcome.skipped;
        if self.processes.len() < MAX_PROCESSES {
            self.processes.extend(outcome.processes);
        }
        for (to, bundle) in outcome.bundles {
            let Bundle { base, ranges, kernels, communicators } = bundle;
            let batch::Bundle { rows, device, totals, launches, steps } = base;
            let (share, ranks) = match to {
                To::Rank(rank) => (rank, vec![rank]),
                To::Process(process) => {
                    (self.rest()?, self.context.layout.of_process(process).to_vec())
                }
                To::Rest => (self.rest()?, Vec::new()),
            };
            for rank in ranks {
                let of = &mut self.shares[rank];
                let first = of.spool.event_id(before);
                of.groups.add(&ranges, &kernels, first)?;
                of.groups.communicators(&communicators);
                of.spool.note(launches.clone(), &steps, before)?;
            }
            let of = &mut self.shares[share];
            of.totals.add(totals);
            for (table, mut rows) in rows {
                of.spool.write_table(table, rows.take()?, before)?;
            }
            for (class, mut rows) in device {
                of.spool.write_class(class, &rows.take()?, before)?;
            }
        }
        Ok(())
    }

    /// Joins what belongs together, and closes the files.
    fn finish(mut self) -> Result<Vec<Share>> {
        if self.shares.is_empty() {
            self.rest()?;
            self.log.add(Severity::Info, "no-events", None, || {
                "the trace has no events: only its header was read".to_owned()
            });
        }
        if self.shares.iter().all(|s| s.key.is_none()) {
            // A trace has a rank, even if nothing in it says so.
            for s in &mut self.shares {
                s.key = Some((0, None));
            }
            self.rest = None;
        }
        let ranks = self.shares.iter().filter(|s| s.key.is_some()).count();
        if ranks > 1 {
            // What is of the file as a whole is of no rank.
            self.rest()?;
        }
        if self.plans.iter().any(|p| p.kind == Kind::Graph) {
            self.log.add(Severity::Info, "graphs-opaque", None, || {
                "whole CUDA graphs were traced: their kernels, of communication too, are not in the file; \
                 profile with --cuda-graph-trace=node to see them"
                    .to_owned()
            });
        }
        let metadata = self.metadata()?;
        // By the GPU, or the number of the device, and the process.
        let order = |s: &Of| match s.key {
            None => (true, None, 0),
            Some((process, device)) => {
                let gpu = device.and_then(|d| self.target.gpu_id(process, d));
                (false, gpu.or(device), process)
            }
        };
        let mut places: Vec<usize> = (0..self.shares.len()).collect();
        places.sort_by_key(|i| (order(&self.shares[*i]), *i));
        let target = self.target;
        let shared =
            Arc::new(Shared { target, steps: self.reading.steps(), metadata, is_only: ranks == 1 });
        let (rest, of_all) = (self.rest, shared.clone());
        let finished =
            self.reading.pool.map(self.shares.into_iter().enumerate(), move |(index, of)| {
                let file_wide = rest.is_none_or(|rest| rest == index);
                let place = places.iter().position(|i| *i == index).unwrap_or(index);
                finish_share(of, &of_all, file_wide, place)
            });
        let (mut calls, mut sized, mut unclear) = (0, 0, 0);
        let mut shares: Vec<Share> = Vec::with_capacity(finished.len());
        for finished in finished {
            let (share, outcome) = finished?;
            calls += outcome.calls;
            sized += outcome.sized;
            unclear += outcome.unclear;
            shares.push(share);
        }
        if calls > sized {
            let blobs = shared.target.blobs_left_out || self.context.schemas.is_empty();
            self.log.say(
                Severity::Info,
                "nccl-sizes-missing",
                calls - sized,
                if blobs {
                    "calls of NCCL without a size, because the payloads were not exported; \
                     export again with --include-blobs=true for NCCL sizes"
                        .to_owned()
                } else {
                    "calls of NCCL whose payload says no size".to_owned()
                },
            );
        }
        if unclear > 0 {
            self.log.say(
                Severity::Info,
                "nccl-group-unclear",
                unclear,
                "kernels launched by a group of NCCL calls that cannot be told apart; their sizes are NULL"
                    .to_owned(),
            );
        }
        shares[0].totals.skipped += self.skipped;
        shares[0].log = self.log;
        shares[0].bytes = self.bytes;
        Ok(shares)
    }

    /// Rows of `metadata` that are of the file as a whole.
    fn metadata(&self) -> Result<Vec<(String, String)>> {
        let mut out = self.target.metadata.clone();
        let pids: BTreeSet<i64> = self.processes.iter().filter_map(|p| ids::pid_of(*p)).collect();
        let (database, context) = (&self.context.database, &self.context);
        let mut names = Vec::new();
        database.each("PROCESSES", &["pid", "name"], "", 100_000, |row| {
            if let (Some(pid), Some(name)) = (int(row, 0), text(row, 1))
                && pids.contains(&pid)
            {
                // A path may hold the name of a user, and is part of the command line.
                let name = name.split_whitespace().next().unwrap_or_default();
                let name = name.rsplit('/').next().unwrap_or_default().to_owned();
                out.push((format!("process_name:{pid}"), name));
            }
            Ok(())
        })?;
        database.each("ThreadNames", &["globalTid", "nameId"], "", 100_000, |row| {
            names.extend(int(row, 0).zip(int(row, 1)));
            Ok(())
        })?;
        for (thread, name) in names {
            let Some(pid) = ids::pid_of(thread).filter(|pid| pids.contains(pid)) else { continue };
            let name = database.with(|c| context.strings.get(name, database, c))?;
            if let Some(name) = &name.text {
                out.push((format!("thread_name:{pid}:{}", thread & 0xFF_FFFF), name.clone()));
            }
        }
        for chain in &context.chains.all {
            out.push((format!("call_chain:{}", chain.key), chain.frames.clone()));
        }
        Ok(out)
    }
}

/// Tables with rows that nothing is read from: call chains of calls, samples of a network card,
/// what another program added.
fn unread(database: &Database, plans: &[Plan]) -> Result<Vec<String>> {
    let read = |table: &str| {
        ["ENUM_", "TARGET_INFO_", "META_DATA_", "EXPORT_META", "ANALYSIS_", "NVTX_PAYLOAD_"]
            .iter()
            .any(|words| table.starts_with(words))
            || ["StringIds", "PROCESSES", "ThreadNames", "DIAGNOSTIC_EVENT", "MPI_RANKS", chains::TABLE]
                .contains(&table)
            // What programs printed is no event, and may hold anything.
            || table == "ProcessStreams"
            || plans.iter().any(|p| p.table == table)
    };
    let mut out = Vec::new();
    for table in database.tables.keys().filter(|t| t.len() < 100 && !read(t)) {
        if out.len() < 20 && matches!(database.rowids(table), Ok(Some(_))) {
            out.push(table.clone());
        }
    }
    Ok(out)
}

/// What the shares of a file have in common when they are finished.
struct Shared {
    target: Target,
    steps: Arc<StepPatterns>,
    /// Rows of `metadata` that are of the file as a whole.
    metadata: Vec<(String, String)>,
    /// Whether the file holds one rank.
    is_only: bool,
}

/// Joins what belongs together in a share, and closes its files. `file_wide` says that it takes
/// what is of the file as a whole, `place` is its place among the ranks.
fn finish_share(
    of: Of,
    shared: &Shared,
    file_wide: bool,
    place: usize,
) -> Result<(Share, nccl::Outcome)> {
    let (target, steps) = (&shared.target, &*shared.steps);
    let Of { key, folder, mut spool, mut groups, totals, .. } = of;
    let mut kernels = groups.kernels(&folder)?;
    spool.link(0, thread_ids, |launch| groups.launch(&mut kernels, launch))?;
    drop(kernels);
    let mut rows = spool::rows(0);
    let device = key.and_then(|k| k.1);
    let world = groups.world(device);
    let outcome = groups.finish(device, &mut rows[COMM_ARGS], |rows: &mut Rows| {
        if rows.len() < BATCH_ROWS { Ok(()) } else { spool.comm_args(rows.take()?) }
    })?;
    let last = rows[COMM_ARGS].take()?;
    spool.comm_args(last)?;
    let marked = spool.mark_steps(steps)?;
    if let Some((marker, count)) = marked.filter(|_| key.is_some()) {
        let by = if steps.by_user { "--step-range" } else { "known pattern" };
        let value = serde_json::json!({ "marker": marker, "by": by, "steps": count });
        Metadata { key: "step_marker", value: &value.to_string() }.push(&mut rows[METADATA]);
    }
    for (key, value) in shared.metadata.iter().filter(|_| file_wide) {
        Metadata { key, value }.push(&mut rows[METADATA]);
    }
    spool.write(spool::take(&mut rows)?, 0)?;
    let gpu = key.and_then(|(process, device)| target.gpu(process, device?));
    let by_environment =
        if shared.is_only { (target.rank, target.world_size) } else { (None, None) };
    let by_mpi = key.and_then(|(process, _)| target.mpi_ranks.get(&process).copied());
    let mut share = Share {
        row: RankRow {
            host: target.host.clone(),
            device_name: gpu.and_then(|g| g.name.clone()),
            sm_count: gpu.and_then(|g| g.sm_count),
            memory_bytes: gpu.and_then(|g| g.memory_bytes),
            compute_capability: gpu.and_then(|g| g.compute_capability.clone()),
            world_size: by_environment.1,
            backend: None,
            nccl_version: None,
            base_ns: target.base_ns,
        },
        trace_rank: by_mpi.or(by_environment.0),
        nccl: world,
        is_rank: key.is_some(),
        place,
        totals,
        spool: spool.close()?,
        ..Share::default()
    };
    if share.totals.pid().is_none() {
        share.totals.host_pid =
            key.and_then(|(process, _)| ids::pid_of(process)).filter(|p| *p > 0);
    }
    if key.is_none() {
        share.totals.device = None;
    }
    Ok((share, outcome))
}
