//! Events into rows of the tables.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::readers::comm_kernels::is_comm_kernel;
use crate::readers::log::{Log, Severity};
use crate::readers::xla::event::Event;
use crate::readers::xla::hlo::groups::Groups;
use crate::readers::xla::hlo::{Call, Class, Op, Programs, is_control};
use crate::readers::xla::layout::{LineKind, Ranks};
use crate::readers::xla::ops::{Found, Seen};
use crate::readers::xla::stats::{Datum, Key};
use crate::spool::args::Args;
use crate::spool::batch::Bundle;
use crate::spool::events::{CommArgs, Counter, DeviceEvent, HostEvent};
use crate::spool::launches::NONE;
use crate::spool::steps::{STEP_LINE, STEP_NUMBER, StepPatterns};
use crate::spool::tables::{COMM_ARGS, COUNTERS, HOST};

/// Times beyond are none: 73 years on either side of the epoch.
const MAX_NS: i128 = 1 << 61;
/// Members of a group that are written out one by one; a longer group that is regular is a rule.
const LISTED: usize = 32;

/// The rank that rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The rank that drives this device.
    Device(i64),
    /// None: the process as a whole.
    Host,
}

/// What is the same for all events of a line.
#[derive(Debug, Clone)]
pub struct Line {
    pub kind: LineKind,
    /// Device of its plane.
    pub device: Option<i64>,
    pub id: i64,
    pub name: String,
    /// Process, where the source says one.
    pub pid: Option<i64>,
    /// What times of the chip are moved by to be on the clock of the line.
    pub shift_ps: i128,
    /// Programs that ran on the core, by their starts on the clock of the line.
    pub modules: Arc<Vec<Module>>,
}

/// A program that ran on a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    pub start_ps: i128,
    pub end_ps: i128,
    pub run: Option<i64>,
    pub name: Arc<str>,
}

/// What is the same for all events of a file.
pub struct Context {
    pub programs: Arc<Programs>,
    pub ranks: Ranks,
    pub steps: Arc<StepPatterns>,
    /// Whether events of the host with an operation are work of a device.
    pub host_computes: bool,
    /// Whether markers of steps say `_r`: the Chrome form drops what begins with an underscore.
    pub says_root: bool,
    /// Meetings of the devices of the host, by line, in the order of their starts.
    pub meetings: HashMap<i64, Vec<Meeting>>,
}

/// A call as the host sees it: the devices that met, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    pub start_ps: i128,
    pub end_ps: i128,
    pub call: Arc<Op>,
}

/// Rows of a part of a file.
#[derive(Default)]
pub struct Outcome {
    /// In the order of the keys.
    pub bundles: BTreeMap<To, Bundle>,
    pub log: Log,
    pub skipped: u64,
    args: Args,
    /// Groups that were written out, by operation and device.
    groups: HashMap<(usize, i64), Arc<Group>>,
}

/// A group as `comm_args` says it.
#[derive(Default)]
struct Group {
    name: Option<String>,
    ranks: Option<String>,
    size: Option<i64>,
    start: Option<i64>,
    stride: Option<i64>,
}

impl Group {
    fn of(call: &Call, rank: Option<i64>) -> Self {
        let Some(ranks) = rank.and_then(|rank| call.group_of(rank)) else {
            return Self { size: call.members(), ..Self::default() };
        };
        let size = Some(ranks.len() as i64);
        let stride = match &ranks[..] {
            [a, b, ..] if ranks.windows(2).all(|w| w[1] - w[0] == b - a) && b > a => Some(b - a),
            _ => None,
        };
        let listed = || ranks.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let (first, last) = (ranks.first().copied(), ranks.last().copied());
        let name = match (stride, first, last) {
            (Some(1), Some(first), Some(last)) if ranks.len() > 2 => format!("{first}-{last}"),
            (Some(stride), Some(first), Some(last)) if ranks.len() > LISTED => {
                format!("{first}-{last}/{stride}")
            }
            _ => listed(),
        };
        let by_rule = stride.is_some() && ranks.len() > LISTED;
        Self {
            name: Some(name),
            ranks: (!by_rule).then(|| format!("[{}]", listed())),
            size,
            start: first.filter(|_| by_rule),
            stride: stride.filter(|_| by_rule),
        }
    }
}

/// Launch shape of a kernel, from the text that the profiler makes of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    grid: [Option<i64>; 3],
    block: [Option<i64>; 3],
    registers: Option<i64>,
    shared: Option<i64>,
    occupancy: Option<i64>,
}

impl Shape {
    fn of_text(text: &str) -> Self {
        let mut out = Self::default();
        for (key, value) in text.split_whitespace().filter_map(|w| w.split_once(':')) {
            let number = || value.parse::<i64>().ok().filter(|v| *v >= 0);
            let three = || {
                let mut dims = value.split(',').map(|d| d.parse::<i64>().ok().filter(|d| *d > 0));
                [(); 3].map(|()| dims.next().flatten())
            };
            match key {
                "grid" => out.grid = three(),
                "block" => out.block = three(),
                // No device has more; what is said then is garbage.
                "regs" => out.registers = number().filter(|r| *r <= 65_535),
                "static_shared" | "dynamic_shared" | "group_mem" => {
                    out.shared =
                        Some(out.shared.unwrap_or(0).saturating_add(number().unwrap_or(0)));
                }
                "occ_pct" => out.occupancy = number().filter(|o| *o > 0),
                _ => {}
            }
        }
        out
    }
}

/// Nanoseconds and picoseconds beyond them.
fn split(ps: i128) -> Option<(i64, i64)> {
    let ns = ps.div_euclid(1000);
    (-MAX_NS..MAX_NS).contains(&ns).then(|| (ns as i64, ps.rem_euclid(1000) as i64))
}

/// A device event on its way into a row.
#[derive(Default)]
struct DeviceRow<'a> {
    place: u64,
    class: &'static str,
    name: &'a str,
    start_ps: i128,
    dur_ps: Option<i64>,
    stream: Option<i64>,
    correlation: Option<i64>,
    bytes: Option<i64>,
    flops: Option<i64>,
    bytes_accessed: Option<i64>,
    category: Option<&'a str>,
    module: Option<&'a str>,
    op: Option<&'a str>,
    shape: Shape,
    /// The collective, and the number of its run.
    call: Option<(&'a Arc<Op>, Option<i64>)>,
    stall_ps: Option<i64>,
    /// What says the collective, where it is not HLO.
    said_by: Option<&'static str>,
}

impl Outcome {
    fn bundle(&mut self, to: To) -> &mut Bundle {
        self.bundles.entry(to).or_default()
    }

    fn lost_time(&mut self, place: u64) {
        self.skipped += 1;
        self.log.add(Severity::Loss, "ts-invalid", Some(place), || {
            "events at times that no clock can show; left out".to_owned()
        });
    }

    /// Adds the row of an event of any line but one of operations.
    pub fn event(&mut self, context: &Context, line: &Line, event: &Event<'_>) {
        let is_work = match line.kind {
            LineKind::Stream => true,
            LineKind::Host => context.host_computes && event.get(Key::HloOp).is_some(),
            _ => false,
        };
        match (is_work, line.kind) {
            (true, LineKind::Stream) => self.kernel(context, line, event),
            (true, _) => self.host_work(context, line, event),
            _ => self.host(context, line, event),
        }
    }

    /// What an event says, but for what has columns, and where to find what stands once for its
    /// operation.
    fn arguments(&mut self, event: &Event<'_>, columns: &[Key]) {
        event.arguments(columns, &mut self.args);
        if let Some(meta) = event.meta.filter(|m| m.has_row) {
            self.args.int("$metadata_id", meta.id);
        }
    }

    /// An event of a stream of a GPU.
    fn kernel(&mut self, context: &Context, line: &Line, event: &Event<'_>) {
        let (name, copy) = (&*event.name, event.text(Key::Copy));
        let (program, module) = (event.int(Key::Program), event.text(Key::HloModule));
        let op = event.text(Key::HloOp);
        let op = op.and_then(|op| context.programs.find(program, module, op).flatten());
        let held = line.name.split_once('(').map_or("", |(_, held)| held.trim_end_matches(')'));
        let only_copies =
            !held.is_empty() && held.split(',').all(|h| h.trim().starts_with("Memcpy"));
        let class = if name.contains("__amd_rocclr_fillBuffer") || name.starts_with("Memset") {
            "set"
        } else if copy.is_some() || only_copies || name.contains("__amd_rocclr_copyBuffer") {
            "copy"
        } else if is_comm_kernel(name) || op.is_some_and(|op| op.class == Class::Comm) {
            "comm"
        } else {
            "compute"
        };
        let bytes = copy.and_then(|details| {
            let size = details.split_whitespace().find_map(|w| w.strip_prefix("size:"))?;
            size.parse().ok().filter(|size| *size > 0)
        });
        let correlation = event.int(Key::Correlation);
        let columns = [Key::Correlation, Key::HloOp, Key::HloModule, Key::HloCategory];
        self.arguments(event, &columns);
        let row = DeviceRow {
            place: event.place,
            class,
            name,
            start_ps: event.start_ps,
            dur_ps: event.dur_ps,
            stream: stream_number(&line.name).or(Some(line.id)),
            correlation,
            bytes,
            flops: event.number(Key::ModelFlops).or(event.number(Key::Flops)),
            bytes_accessed: event.number(Key::BytesAccessed),
            category: event.text(Key::HloCategory),
            module: event.text(Key::HloModule),
            op: event.text(Key::HloOp),
            shape: event.text(Key::Kernel).map(Shape::of_text).unwrap_or_default(),
            call: op.filter(|op| class == "comm" && op.call.is_some()).map(|op| (op, None)),
            ..DeviceRow::default()
        };
        self.device(context, line.device.unwrap_or(0), &line.name, row);
    }

    /// An operation that ran on the host, which is the device.
    fn host_work(&mut self, context: &Context, line: &Line, event: &Event<'_>) {
        let name = event.text(Key::HloOp).unwrap_or_default();
        let program = event.int(Key::Program);
        let by_program = context.programs.find(program, event.text(Key::HloModule), name);
        let device = event.int(Key::Device).unwrap_or(0);
        // Without HLO, by the names that XLA gives what is no fusion.
        let opcode = name.split('.').next().unwrap_or_default();
        let control = match by_program {
            Some(op) => op.is_some_and(|op| op.class == Class::Control),
            None => is_control(opcode),
        };
        if control && let Some(dur_ps) = event.dur_ps {
            // What it runs are events of their own.
            self.arguments(event, &[]);
            let times = (event.start_ps, dur_ps);
            return self.annotation((device, line.id), &line.name, &event.name, event.place, times);
        }
        let meeting = match by_program {
            Some(_) => None,
            None => context.meeting(line.id, event),
        };
        // Where the file has meetings, what met nobody is none.
        let named = match by_program {
            None if context.meetings.is_empty() => Op::of_name(name),
            _ => None,
        };
        if named.is_some() {
            self.log.add(Severity::Info, "kind-by-name", Some(event.place), || {
                "operations that count as communication by their names alone, because the file has neither HLO nor meetings; their groups and sizes are not known"
                    .to_owned()
            });
        }
        let op = by_program.flatten().or(meeting).or(named);
        let class = match op {
            Some(op) => op.class,
            None if by_program.is_none() && opcode == "copy" => Class::Copy,
            None => Class::Compute,
        };
        let run = event.int(Key::Run);
        let columns = [Key::HloOp, Key::HloModule, Key::HloCategory];
        self.arguments(event, &columns);
        let row = DeviceRow {
            place: event.place,
            class: class.word(),
            name: &event.name,
            start_ps: event.start_ps,
            dur_ps: event.dur_ps,
            stream: Some(line.id),
            correlation: run,
            bytes: op.and_then(|op| op.bytes),
            flops: event.number(Key::ModelFlops).or(event.number(Key::Flops)),
            bytes_accessed: event.number(Key::BytesAccessed),
            category: event.text(Key::HloCategory),
            module: event.text(Key::HloModule),
            op: Some(name),
            call: op.filter(|op| op.call.is_some()).map(|op| (op, run)),
            said_by: meeting.map(|_| "rendezvous").or(named.map(|_| "op_name")),
            ..DeviceRow::default()
        };
        self.device(context, device, &line.name, row);
    }

    /// What the events of a line of operations turned out to be.
    pub fn operations(&mut self, context: &Context, line: &Line, found: Vec<Found>) {
        for found in found {
            if let Found::Alone(seen) = &found {
                self.log.add(Severity::Info, "async-unpaired", Some(seen.place), || {
                    "starts or ends of asynchronous operations whose other half is not in the trace; each counts for itself"
                        .to_owned()
                });
            }
            self.operation(context, line, found);
        }
    }

    fn operation(&mut self, context: &Context, line: &Line, found: Found) {
        let (seen, done) = match found {
            Found::Parent(seen) => return self.parent(line, &seen),
            Found::Leaf(seen) if seen.meta.op.class == Class::Control => {
                return self.parent(line, &seen);
            }
            Found::Leaf(seen) | Found::Alone(seen) => (seen, None),
            Found::Pair(start, done) => (start, Some(done)),
        };
        let meta = seen.meta.clone();
        let module = line.module_at(seen.line_ps);
        let run = module.and_then(|m| m.run);
        self.own(line, &seen, None);
        let mut dur_ps = seen.dur_ps;
        if let Some(done) = &done {
            let end = done.start_ps + i128::from(done.dur_ps);
            dur_ps = i64::try_from(end - seen.start_ps).unwrap_or(i64::MAX);
            self.args.int("start_dur_ps", seen.dur_ps);
            self.own(line, done, Some(&done.meta.name));
        }
        if let Some(direction) = meta.op.direction {
            self.args.said("direction", direction);
        }
        let sum = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => a.checked_add(b),
            (a, b) => a.or(b),
        };
        let row = DeviceRow {
            place: seen.place,
            class: meta.op.class.word(),
            name: &meta.name,
            start_ps: seen.start_ps,
            dur_ps: Some(dur_ps),
            stream: Some(line.id),
            correlation: run,
            bytes: meta.op.bytes,
            flops: sum(seen.flops, done.as_ref().and_then(|d| d.flops)),
            bytes_accessed: seen.bytes_accessed,
            category: meta.category.as_deref(),
            module: module.map(|m| &*m.name),
            op: Some(&meta.name),
            call: meta.op.call.is_some().then_some((&meta.op, None)),
            stall_ps: done.as_ref().map(|d| d.dur_ps),
            ..DeviceRow::default()
        };
        self.device(context, line.device.unwrap_or(0), &line.name, row);
    }

    /// The arguments of an operation of its own; of the end of a pair as a member.
    fn own(&mut self, line: &Line, seen: &Seen, of_done: Option<&str>) {
        let mut text = Args::default();
        let args = if of_done.is_some() { &mut text } else { &mut self.args };
        if !seen.args.is_empty() {
            // Without its braces, as the first members.
            args.raw(&seen.args[..seen.args.len() - 1]);
        }
        if let Some(name) = of_done {
            args.said("name", name);
            args.int("place", seen.place);
            args.int("dur_ps", seen.dur_ps);
        }
        if seen.meta.has_row {
            args.int("$metadata_id", seen.meta.id);
        }
        if seen.line_ps != seen.start_ps || line.shift_ps != 0 {
            // What the line said, where the clock of the chip is taken.
            if let Some((ns, ps)) = split(seen.line_ps) {
                args.int("$line_ts_ns", ns);
                args.int("$line_ts_ps", ps);
            }
        }
        if of_done.is_some() {
            let text = text.object().unwrap_or("{}").to_owned();
            self.args.key("$done");
            self.args.raw(&text);
        }
    }

    /// An operation that only encloses others.
    fn parent(&mut self, line: &Line, seen: &Seen) {
        self.own(line, seen, None);
        if let Some(category) = &seen.meta.category {
            self.args.said("hlo_category", category);
        }
        if let Some(flops) = seen.flops {
            self.args.int("model_flops", flops);
        }
        let to = (line.device.unwrap_or(0), line.id);
        self.annotation(to, &line.name, &seen.meta.name, seen.place, (seen.start_ps, seen.dur_ps));
    }

    /// A row that says what a device does without being work: it repeats what others are.
    fn annotation(
        &mut self,
        (device, stream): (i64, i64),
        category: &str,
        name: &str,
        place: u64,
        (start_ps, dur_ps): (i128, i64),
    ) {
        let Some((ts, _)) = split(start_ps) else {
            self.args.clear();
            return self.lost_time(place);
        };
        let mut args = std::mem::take(&mut self.args);
        let bundle = self.bundle(To::Device(device));
        let dur = dur_ps / 1000;
        bundle.count(ts, Some(dur), None);
        HostEvent {
            source: "xla",
            event_id: place as i64,
            class: "device_annotation",
            category: Some(category),
            name: Some(name),
            ts_ns: Some(ts),
            dur_ns: Some(dur),
            device: Some(device),
            stream: Some(stream),
            args: args.object(),
            ..HostEvent::default()
        }
        .push(bundle.table(HOST));
        args.clear();
        self.args = args;
    }

    /// A row of work of a device.
    fn device(&mut self, context: &Context, device: i64, category: &str, row: DeviceRow<'_>) {
        let Some((ts, ts_ps)) = split(row.start_ps) else {
            self.args.clear();
            return self.lost_time(row.place);
        };
        let mut args = std::mem::take(&mut self.args);
        let place = row.place as i64;
        let dur = row.dur_ps.map(|d| d / 1000);
        let name = if row.name.is_empty() { None } else { Some(row.name) };
        let class = if name.is_none() { "other" } else { row.class };
        if let Some((op, run)) = row.call {
            self.call(context, device, &row, op, run);
        }
        let bundle = self.bundle(To::Device(device));
        bundle.count(ts, dur, Some(class));
        if let Some(correlation) = row.correlation {
            bundle.launches.devices.push([correlation, place, ts]);
        }
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) =
            (row.shape.grid, row.shape.block);
        DeviceEvent {
            event_id: place,
            class,
            category: Some(category),
            name,
            ts_ns: ts,
            dur_ns: dur,
            ts_ps: Some(ts_ps),
            dur_ps: row.dur_ps.map(|d| d % 1000),
            device: Some(device),
            stream: row.stream,
            correlation: row.correlation,
            bytes: row.bytes,
            flops: row.flops,
            bytes_accessed: row.bytes_accessed,
            hlo_category: row.category,
            hlo_module: row.module,
            hlo_op: row.op,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            registers: row.shape.registers,
            shared_memory: row.shape.shared,
            occupancy_pct: row.shape.occupancy.map(|o| o as f64),
            args: args.object(),
            ..DeviceEvent::default()
        }
        .push(bundle.class(class));
        args.clear();
        self.args = args;
    }

    /// What a collective says of itself.
    fn call(
        &mut self,
        context: &Context,
        device: i64,
        row: &DeviceRow<'_>,
        op: &Arc<Op>,
        run: Option<i64>,
    ) {
        let Some(call) = &op.call else { return };
        if call.groups == Some(Groups::Unread) {
            self.log.add(Severity::Info, "groups-unreadable", Some(row.place), || {
                "collectives whose groups are spelled in a way that is not known; who is in them is not known"
                    .to_owned()
            });
        }
        let rank = context.ranks.known(device);
        let key = (Arc::as_ptr(op) as usize, device);
        // Operations of a file live as long as its reading.
        let group = self.groups.entry(key).or_insert_with(|| Arc::new(Group::of(call, rank)));
        let group = group.clone();
        let (to, from) = rank.map_or((None, None), |rank| call.peers(rank));
        let dtype = call.input.dtype.as_deref().or(call.output.dtype.as_deref());
        CommArgs {
            event_id: row.place as i64,
            collective_name: Some(&call.word),
            dtype,
            in_elems: call.input.elems,
            out_elems: call.output.elems,
            group_size: group.size,
            pg_name: group.name.as_deref(),
            pg_ranks: group.ranks.as_deref(),
            seq: run,
            src_rank: from,
            dst_rank: to,
            rank_start: group.start,
            rank_stride: group.stride,
            in_bytes: call.input.bytes,
            out_bytes: call.output.bytes,
            coll_source: Some(row.said_by.unwrap_or("hlo")),
            stall_ns: row.stall_ps.map(|s| s / 1000),
            ..CommArgs::default()
        }
        .push(self.bundle(To::Device(device)).table(COMM_ARGS));
    }

    /// An event of the host, or an annotation on a device.
    fn host(&mut self, context: &Context, line: &Line, event: &Event<'_>) {
        let Some((ts, _)) = split(event.start_ps) else { return self.lost_time(event.place) };
        let is_device = line.kind != LineKind::Host;
        let place = event.place as i64;
        let dur = event.dur_ps.map(|d| d / 1000);
        let correlation = event.int(Key::Correlation);
        let is_root = || !context.says_root || event.int(Key::Root) == Some(1);
        let step = event.int(Key::StepNumber).filter(|_| is_root());
        let class = match (is_device, correlation, step) {
            (true, ..) => "device_annotation",
            (_, Some(_), _) => "host_runtime",
            (_, _, Some(_)) => "host_annotation",
            _ if event.name.starts_with('$') => "python",
            _ => "host_op",
        };
        // A device that did not compute has no rank of its own.
        let of_rank = line.device.filter(|d| is_device && context.ranks.has(*d));
        self.arguments(event, &[Key::Correlation]);
        let mut args = std::mem::take(&mut self.args);
        let by_name = match (is_device, event.meta) {
            (true, _) => None,
            (_, Some(meta)) => meta.step,
            (_, None) => context.steps.find(&event.name).filter(|_| class != "python"),
        };
        let marks = match (context.steps.by_user, step, line.kind) {
            (false, Some(step), _) => Some((STEP_NUMBER, step)),
            (false, _, LineKind::Steps) => Some((STEP_LINE, step_of_name(event).unwrap_or(NONE))),
            _ => by_name,
        };
        let bundle = self.bundle(of_rank.map_or(To::Host, To::Device));
        bundle.count(ts, dur, None);
        if let (Some((pattern, step)), Some(dur)) = (marks, dur) {
            bundle.steps.push([pattern, ts, -ts.saturating_add(dur), place, step]);
        }
        HostEvent {
            source: "xla",
            event_id: place,
            class,
            category: Some(&line.name),
            name: Some(&*event.name).filter(|n| !n.is_empty()),
            ts_ns: Some(ts),
            dur_ns: dur,
            pid: line.pid.filter(|_| !is_device),
            tid: Some(line.id).filter(|_| !is_device),
            device: line.device,
            stream: Some(line.id).filter(|_| is_device),
            correlation,
            external_id: None,
            args: args.object(),
        }
        .push(bundle.table(HOST));
        args.clear();
        self.args = args;
        if !is_device {
            self.host_call(context, event, ts, dur);
            self.allocation(context, event, ts);
        }
    }

    /// Notes an event of the host that launches device events: a call of the runtime, or the start
    /// of a run (the first event that names it).
    fn host_call(&mut self, context: &Context, event: &Event<'_>, ts: i64, dur: Option<i64>) {
        let correlation = event.int(Key::Correlation);
        let [key, length] = match (correlation, event.int(Key::Run)) {
            (Some(correlation), _) => [correlation, dur.unwrap_or(NONE)],
            (_, Some(run)) => [run, -ts],
            _ => return,
        };
        let launch = [key, length, event.place as i64, NONE, NONE, ts];
        let to = match event.int(Key::Device).filter(|_| correlation.is_none()) {
            Some(device) if context.ranks.has(device) => To::Device(device),
            Some(_) => return,
            None => To::Host,
        };
        self.bundle(to).launches.calls.push(launch);
    }

    /// The sample of an event that says how much an allocator holds.
    fn allocation(&mut self, context: &Context, event: &Event<'_>, ts: i64) {
        let Some(Datum::Text(allocator)) = event.get(Key::Allocator) else { return };
        let Some(bytes) = event.number(Key::BytesAllocated) else { return };
        let device = allocator.split('_').find_map(|word| word.parse::<i64>().ok());
        let of_rank = device.filter(|d| context.ranks.has(*d)).map(To::Device);
        Counter {
            ts_ns: ts,
            name: "bytes_allocated",
            device,
            value: Some(bytes as f64),
            unit: Some("bytes"),
        }
        .push(self.bundle(of_rank.unwrap_or(To::Host)).table(COUNTERS));
    }
}

/// The number of a step of a line of steps.
fn step_of_name(event: &Event<'_>) -> Option<i64> {
    event.int(Key::StepNumber).or_else(|| event.name.trim().parse().ok())
}

/// The stream of a line `Stream #7(Kernel)`.
fn stream_number(name: &str) -> Option<i64> {
    let digits = name.strip_prefix("Stream #")?;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Line {
    /// The program that ran at a time.
    fn module_at(&self, ps: i128) -> Option<&Module> {
        let after = self.modules.partition_point(|m| m.start_ps <= ps);
        self.modules[..after].last().filter(|m| ps <= m.end_ps)
    }
}

impl Context {
    /// The meeting that an operation of the host holds.
    fn meeting(&self, line: i64, event: &Event<'_>) -> Option<&Arc<Op>> {
        let end = event.start_ps + i128::from(event.dur_ps?);
        let meetings = self.meetings.get(&line)?;
        let at = meetings.partition_point(|m| m.start_ps < event.start_ps);
        meetings.get(at).filter(|m| m.end_ps <= end).map(|m| &m.call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::xla::hlo::groups::Ids;

    #[test]
    fn launch_shapes() {
        let shape = Shape::of_text(
            "regs:2191500840 static_shared:32462 dynamic_shared:2 grid:1280,1,1 block:256,1,1 occ_pct:0",
        );
        assert_eq!(shape.grid, [Some(1280), Some(1), Some(1)]);
        assert_eq!((shape.registers, shape.shared, shape.occupancy), (None, Some(32464), None));
        assert_eq!(Shape::of_text("grid:x block regs:-1"), Shape::default());
        assert_eq!(Shape::of_text("regs:0 grid:0,2").registers, Some(0));
        assert_eq!(Shape::of_text("regs:0 grid:0,2").grid, [None, Some(2), None]);
    }

    #[test]
    fn streams_of_lines() {
        assert_eq!(stream_number("Stream #17(Kernel)"), Some(17));
        assert_eq!(stream_number("Stream #8"), Some(8));
        assert_eq!(stream_number("XLA Ops"), None);
    }

    #[test]
    fn groups_have_names_of_their_ranks() {
        let group = |groups: &str, rank: i64| {
            let text = format!("%a = f32[2] all-reduce(f32[2] %p), replica_groups={groups}");
            let call = Op::of_text(Some(&text), None).call.expect("a call");
            assert_eq!(call.ids, Ids::Replicas);
            let g = Group::of(&call, Some(rank));
            (g.name, g.ranks, g.size, g.start.zip(g.stride))
        };
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(group("{{0,4},{1,5}}", 1), (text("1,5"), text("[1,5]"), Some(2), None));
        assert_eq!(group("[1,4]<=[4]", 1), (text("0-3"), text("[0,1,2,3]"), Some(4), None));
        assert_eq!(
            group("[2,64]<=[64,2]T(1,0)", 1),
            (text("1-127/2"), None, Some(64), Some((1, 2)))
        );
        // Of more than 32 the rule is said.
        let of = |n: i64| {
            let (_, ranks, size, by_rule) = group(&format!("[1,{n}]<=[{n}]"), 0);
            (ranks.is_some(), size, by_rule)
        };
        assert_eq!(of(32), (true, Some(32), None));
        assert_eq!(of(33), (false, Some(33), Some((0, 1))));
        // Not all the same step apart, or downwards.
        assert_eq!(group("{{0,1,3}}", 1), (text("0,1,3"), text("[0,1,3]"), Some(3), None));
        assert_eq!(group("{{3,2,1}}", 1), (text("3,2,1"), text("[3,2,1]"), Some(3), None));
        // A list that says one rank again and again has no step.
        let same = format!("{{{{{}5}}}}", "5,".repeat(39));
        let (name, _, size, by_rule) = group(&same, 5);
        assert_eq!((name.map(|n| n.len()), size, by_rule), (Some(79), Some(40), None));
        assert_eq!(group("{{0,1}}", 7), (None, None, Some(2), None));
        assert_eq!(group("{}", 7), (None, None, None, None));
    }
}
