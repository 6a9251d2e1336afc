//! Makes two example jobs, four ranks of a training job each as Kineto traces, with the workload
//! card and a README with the true answers: `llama-tiny-fsdp2-tp2-4`, which a straggler slows, and
//! `llama-tiny-fsdp2-tp2-4-balanced`, the same without it and with more overlap: before and after.
//!
//! Nothing here was recorded. A small event simulation in whole nanoseconds plays four steps of a
//! job with dp 2 x tp 2: hosts launch, streams run in order, a collective starts on each rank
//! when that rank is ready, and ends when the last rank has come and the transfer is over. The
//! answers are computed from this plan, never from the JSON, so they can judge a reader of it. Both
//! jobs draw the same uneven digits in the same order, so they differ by what [`Plan`] says alone.
//!
//! In: the constants below. Out: [`jobs`], file names with their texts, and the answers as text.
//! Not here: writing to disk, and the comparison with the committed copy; both are the caller's.
//!
//! The JSON has the form of 2024 and later (formats_kineto.md, generation C): decimal
//! microseconds relative to `baseTimeNanoseconds`, which stands *after* the events; `External id`
//! names the CPU op; NCCL arguments lie on the kernels too. It is written as text, not through
//! `serde_json::Value`, because the form of a decimal number there depends on crate features.
//!
//! One file, though long: the plan, its JSON and its answers are read side by side, and the card
//! and the README are part of the output.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use serde_json::Value;

const RANKS: usize = 4;
const STEPS: i64 = 4;
const FIRST_STEP: i64 = 10;
const LAYERS: usize = 2;
const STRAGGLER: usize = 2;
/// What rank 2 needs more for the first kernel of a layer, so before every tensor-parallel call.
const STRAGGLER_GEMM_NS: i64 = 120_000;
/// What rank 2 needs more for the optimizer, so before the call on `default_pg`.
const STRAGGLER_OPTIMIZER_NS: i64 = 20_000;
/// How much later the host of rank 2 enters a step, so before the first all_gather.
const STRAGGLER_HOST_NS: i64 = 25_000;
/// Without a straggler the ranks of a call start within this.
const BALANCED_LAG_NS: i64 = 10_000;
/// How long a call beside flash attention may run before it.
const BARE_NS: i64 = 500;
/// Latency of one ring step.
const ALPHA_NS: i64 = 6_000;
/// Bandwidth of a link: beta is 1/128 ns per byte, a power of two so that transfers are exact.
const BYTES_PER_NS: i64 = 128;
const MIB: i64 = 1 << 20;
const BATCH_SIZE: i64 = 16;
const SEQ_LEN: i64 = 2048;
/// 2025-01-01T00:00:00Z: Kineto's base is a coarse constant, and `ts` stays large (1e12 us).
const BASE_NS: i64 = 1_735_689_600_000_000_000;
/// The first step, relative to the base.
const EPOCH_NS: i64 = 4_458_676_416_788_066;

type PerRank = [i64; RANKS];
/// Start and end.
pub type Span = (i64, i64);

/// A generated job.
pub struct Job {
    /// Name of the job, which is also the folder that holds it.
    pub name: &'static str,
    /// File name in the job's folder and text of the file.
    pub files: Vec<(String, String)>,
    /// The true answers, in the order of the README.
    pub answers: Vec<Answer>,
}

/// One true answer; numbers are decimal text, exact unless the README says otherwise.
pub struct Answer {
    /// Metric as `ccl-sql list` names it.
    pub metric: &'static str,
    /// Key in the metric's details.
    pub field: &'static str,
    /// Unit of the numbers.
    pub unit: &'static str,
    /// Value over the whole job.
    pub job: String,
    /// Values of ranks 0 to 3; empty where a rank has none of its own.
    pub per_rank: Vec<String>,
}

/// Metric, field, unit; value of the job; values of the ranks.
fn answer(
    [metric, field, unit]: [&'static str; 3],
    job: String,
    per_rank: impl IntoIterator<Item = String>,
) -> Answer {
    let per_rank = per_rank.into_iter().collect();
    Answer { metric, field, unit, job, per_rank }
}

/// The jobs, the one with the straggler first: of each the four traces, the card and the README, the
/// same bytes on every run.
///
/// # Panics
/// When a plan breaks a promise of its README (see `Sim::verify`): a bug in the constants.
pub fn jobs() -> Vec<Job> {
    PLANS.iter().map(job).collect()
}

fn job(plan: &'static Plan) -> Job {
    let mut sim = Sim::new(plan);
    for step in 0..STEPS {
        sim.play_step(step);
    }
    sim.verify();
    let answers = sim.answers();
    let mut files: Vec<_> =
        (0..RANKS).map(|r| (format!("rank{r}_trace.json"), sim.trace_json(r))).collect();
    let card = CARD.replace("{card}", plan.card);
    files.push(("workload_card.yaml".to_owned(), card));
    files.push(("README.md".to_owned(), sim.readme(&answers)));
    Job { name: plan.name, files, answers }
}

/// In what the jobs differ.
struct Plan {
    name: &'static str,
    /// Rank 2 gets the delays above.
    straggler: bool,
    /// The tp `all_reduce` of layer 1 waits for the gemm alone and runs beside flash attention.
    beside_attention: bool,
    /// With arrows in the first step, annotations of collectives and every argument; without them
    /// the files are smaller and say the same.
    full_rows: bool,
    /// Paragraph of the README after the first, of what this job is to the other.
    pair: &'static str,
    /// README: the `all_reduce` of layer 1 and the dp calls, and the delays.
    layer_1: &'static str,
    delays: &'static str,
    /// README: rows that are no work, and rows left out.
    rows: &'static str,
    /// What the card says of the job.
    card: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Group {
    World,
    Dp,
    Tp,
}

impl Group {
    /// Ranks of the group that `rank` is in; rank = 2 x dp index + tp index.
    fn members(self, rank: usize) -> Vec<usize> {
        match self {
            Group::World => (0..RANKS).collect(),
            Group::Dp => vec![rank % 2, rank % 2 + 2],
            Group::Tp => vec![rank / 2 * 2, rank / 2 * 2 + 1],
        }
    }

    fn size(self) -> i64 {
        if self == Group::World { 4 } else { 2 }
    }

    /// `new_group` counts on every rank, so each rank set has a name of its own.
    fn name(self, rank: usize) -> usize {
        match self {
            Group::World => 0,
            Group::Dp => 1 + rank % 2,
            Group::Tp => 3 + rank / 2,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Group::World => "default_pg",
            Group::Dp => "mesh_dp",
            Group::Tp => "mesh_tp",
        }
    }

    fn ranks_text(self, rank: usize) -> String {
        let ranks: Vec<_> = self.members(rank).iter().map(ToString::to_string).collect();
        format!("[{}]", ranks.join(", "))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter];

    /// Canonical name, c10d op, NCCL annotation, `Collective name`.
    fn names(self) -> [&'static str; 4] {
        match self {
            Kind::AllReduce => ["all_reduce", "c10d::allreduce_", "nccl:all_reduce", "allreduce"],
            Kind::AllGather => {
                ["all_gather", "c10d::_allgather_base_", "nccl:_all_gather_base", "_allgather_base"]
            }
            Kind::ReduceScatter => [
                "reduce_scatter",
                "c10d::_reduce_scatter_base_",
                "nccl:_reduce_scatter_base",
                "_reduce_scatter_base",
            ],
        }
    }

    fn calls_by_type_field(self) -> &'static str {
        match self {
            Kind::AllReduce => "calls_by_type.all_reduce",
            Kind::AllGather => "calls_by_type.all_gather",
            Kind::ReduceScatter => "calls_by_type.reduce_scatter",
        }
    }
}

/// A collective; `bytes` is S: output of all_gather, input of reduce_scatter, else the buffer.
#[derive(Clone, Copy)]
struct Comm {
    kind: Kind,
    group: Group,
    bytes: i64,
    dtype: &'static str,
    element_bytes: i64,
}

impl Comm {
    /// Steps of the ring.
    fn ring_steps(&self) -> i64 {
        let once = self.group.size() - 1;
        if self.kind == Kind::AllReduce { 2 * once } else { once }
    }

    /// T = steps x (alpha + S/n x beta), whole nanoseconds.
    fn transfer_ns(&self) -> i64 {
        let moved = self.ring_steps() * self.bytes / (self.group.size() * BYTES_PER_NS);
        self.ring_steps() * ALPHA_NS + moved
    }

    /// Bytes that one rank sends: steps x S/n (metrics.md 1.4).
    fn wire_bytes(&self) -> i64 {
        self.ring_steps() * self.bytes / self.group.size()
    }

    /// Elements of a rank's input and output.
    fn elements(&self) -> (i64, i64) {
        let (whole, part) =
            (self.bytes / self.element_bytes, self.bytes / self.element_bytes / self.group.size());
        match self.kind {
            Kind::AllReduce => (whole, whole),
            Kind::AllGather => (part, whole),
            Kind::ReduceScatter => (whole, part),
        }
    }
}

#[derive(Clone, Copy)]
enum Work {
    /// Grid, threads of a block, registers, shared memory, occupancy.
    Compute([i64; 5]),
    Copy(i64),
    Set(i64),
    Comm(Comm),
}

/// Place of an op in the autograd graph, with its sequence number.
#[derive(Clone, Copy, PartialEq)]
enum Autograd {
    None,
    Forward(i64),
    Backward(i64),
}

/// One operation, launched by all ranks.
#[derive(Clone, Copy)]
struct Op {
    host: &'static str,
    device: &'static str,
    stream: i64,
    work: Work,
    duration_ns: i64,
    straggler_ns: i64,
    autograd: Autograd,
    /// Launched by the thread of the autograd engine.
    backward: bool,
}

impl Op {
    fn compute(host: &'static str, device: &'static str, us: i64, shape: [i64; 5]) -> Op {
        Op {
            host,
            device,
            stream: 7,
            work: Work::Compute(shape),
            duration_ns: us * 1000,
            straggler_ns: 0,
            autograd: Autograd::None,
            backward: false,
        }
    }

    fn comm(device: &'static str, stream: i64, backward: bool, comm: Comm) -> Op {
        let op = Op::compute(comm.kind.names()[1], device, 0, [0; 5]);
        Op { stream, backward, work: Work::Comm(comm), ..op }
    }

    fn memory(host: &'static str, device: &'static str, stream: i64, us: i64, work: Work) -> Op {
        Op { stream, work, ..Op::compute(host, device, us, [0; 5]) }
    }
}

/// A device event of the plan.
struct Event {
    rank: usize,
    step: i64,
    work: Work,
    stream: i64,
    span: Span,
}

/// A collective over its ranks: (rank, start, end) of each.
struct Call {
    comm: Comm,
    shares: Vec<(usize, i64, i64)>,
}

impl Call {
    fn last(&self) -> (usize, i64) {
        self.shares.iter().map(|s| (s.0, s.1)).max_by_key(|s| s.1).unwrap_or_default()
    }

    fn lag_ns(&self) -> i64 {
        let first = self.shares.iter().map(|s| s.1).min().unwrap_or_default();
        self.last().1 - first
    }
}

/// Where an op was launched, and what its device event repeats of it.
#[derive(Clone, Copy)]
struct Launch {
    end: i64,
    correlation: i64,
    external_id: i64,
    annotation_id: i64,
    seq: i64,
}

/// One process: its host clock, its counters, its rows of JSON.
struct Rank {
    now: i64,
    last_id: i64,
    last_correlation: i64,
    allocated: i64,
    stream_free: BTreeMap<i64, i64>,
    /// Rows of the host, of the device, of annotations on the device.
    rows: [String; 3],
    steps: Vec<Span>,
}

impl Rank {
    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
}

struct Sim {
    plan: &'static Plan,
    lcg: u64,
    step: i64,
    seq: [i64; 3],
    ranks: Vec<Rank>,
    events: Vec<Event>,
    calls: Vec<Call>,
}

/// Arguments of an event, as JSON text in the order given.
pub struct Args(String);

impl Args {
    /// The id of the CPU op.
    pub fn id(id: i64) -> Args {
        Args(String::new()).raw("External id", id)
    }

    fn op(id: i64) -> Args {
        Args::id(id).raw("Record function id", id)
    }

    /// With a number, or whatever else is JSON.
    pub fn raw(mut self, key: &str, value: impl Display) -> Args {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}\"{key}\":{value}");
        self
    }

    /// With a text.
    pub fn text(self, key: &str, value: &str) -> Args {
        self.raw(key, Value::from(value))
    }
}

/// Nanoseconds as Kineto writes them: microseconds with three decimals.
fn us(ns: i64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A complete event (`ph` X) on one line.
pub fn slice(cat: &str, name: &str, pid: i64, tid: i64, (start, end): Span, args: Args) -> String {
    format!(
        "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\
         \"ts\":{},\"dur\":{},\"args\":{{{}}}}},\n",
        Value::from(name),
        us(start),
        us(end - start),
        args.0
    )
}

/// One end of an arrow: `s` on the call, `f` on what it caused.
fn flow(ph: &str, cat: &str, id: i64, pid: i64, tid: i64, at: i64) -> String {
    let bind = if ph == "f" { ",\"bp\":\"e\"" } else { "" };
    format!(
        "{{\"ph\":\"{ph}\",\"id\":{id},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\
         \"cat\":\"{cat}\",\"name\":\"{cat}\"{bind}}},\n",
        us(at)
    )
}

/// The host process of a rank; never equal to a device number.
fn pid(rank: usize) -> i64 {
    4100 + index(rank)
}

/// A place or a count as JSON has it.
pub fn index(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Plan {
    /// `ns` if the rank is the straggler of the job.
    fn late(&self, rank: usize, ns: i64) -> i64 {
        if self.straggler && rank == STRAGGLER { ns } else { 0 }
    }
}

impl Sim {
    fn new(plan: &'static Plan) -> Sim {
        let rank = |r: usize| Rank {
            now: EPOCH_NS - 50_000 + plan.late(r, STRAGGLER_HOST_NS),
            last_id: 0,
            last_correlation: 50_000,
            allocated: 96 * MIB,
            stream_free: BTreeMap::new(),
            rows: Default::default(),
            steps: Vec::new(),
        };
        Sim {
            plan,
            lcg: 2025,
            step: 0,
            seq: [FIRST_STEP, FIRST_STEP * 4, FIRST_STEP * 2],
            ranks: (0..RANKS).map(rank).collect(),
            events: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// 0 to `limit` - 1, from Knuth's MMIX generator: makes the digits uneven, nothing more.
    fn jitter(&mut self, limit: u32) -> i64 {
        self.lcg = self
            .lcg
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::from(u32::try_from(self.lcg >> 33).unwrap_or(0) % limit)
    }

    fn play_step(&mut self, step: i64) {
        self.step = step;
        let size = |shift: i64| (step + shift) % 4 + 1;
        let bf16 =
            |kind, group, bytes| Comm { kind, group, bytes, dtype: "BFloat16", element_bytes: 2 };
        let begins: [(i64, i64); RANKS] = from_fn(|r| {
            let gap = 50_000 + self.jitter(6_000);
            let late = if step > 0 { self.plan.late(r, STRAGGLER_HOST_NS) } else { 0 };
            self.ranks[r].now += gap + late;
            (self.ranks[r].next_id(), self.ranks[r].now)
        });

        self.run(&Op::memory("aten::zero_", "Memset (Device)", 7, 3, Work::Set(MIB)), &[]);
        let h2d = "Memcpy HtoD (Pinned -> Device)";
        self.run(&Op::memory("aten::copy_", h2d, 16, 96, Work::Copy(2 * MIB)), &[]);
        let forward: PerRank = from_fn(|r| self.memory_instant(r, 32 * MIB));
        let all_gather = |layer| {
            let comm = bf16(Kind::AllGather, Group::Dp, 2 * MIB * size(layer));
            Op::comm(ALL_GATHER, 24, false, comm)
        };
        let mut gathered = self.run(&all_gather(0), &[]);
        let mut reduced = gathered;
        for layer in 0..index(LAYERS) {
            let gemm = Op {
                straggler_ns: STRAGGLER_GEMM_NS,
                autograd: Autograd::Forward(index(LAYERS) * step + layer + 1),
                ..Op::compute("aten::mm", GEMM, 300, [264, 384, 168, 213_000, 19])
            };
            let projected = self.run(&gemm, &[gathered, reduced]);
            if layer + 1 < index(LAYERS) {
                gathered = self.run(&all_gather(layer + 1), &[projected]);
            }
            let flash = Op::compute(
                "aten::_flash_attention_forward",
                FLASH,
                220,
                [512, 128, 255, 49_152, 13],
            );
            let attended = self.run(&flash, &[]);
            let comm = bf16(Kind::AllReduce, Group::Tp, 4 * MIB * size(2 * layer));
            let beside = layer > 0 && self.plan.beside_attention;
            let ready = if beside { projected } else { attended };
            reduced = self.run(&Op::comm(ALL_REDUCE_BF16, 20, false, comm), &[ready]);
            if layer == 0 {
                let add = Op::compute("aten::add", ADD, 60, [8192, 128, 32, 0, 100]);
                self.run(&add, &[]);
            }
        }
        for (r, start) in forward.iter().enumerate() {
            let (host, end) = (pid(r), self.ranks[r].now);
            let args = Args(String::new())
                .raw("Python parent id", "null")
                .raw("Python id", step + 1)
                .raw("Python module id", 0);
            let name = "nn.Module: LlamaTiny_0";
            let row = slice("python_function", name, host, host, (*start, end), args);
            self.ranks[r].rows[0] += &row;
        }

        let mut scattered = reduced;
        for layer in (0..index(LAYERS)).rev() {
            let node = "autograd::engine::evaluate_function: MmBackward0";
            let gemm = Op {
                autograd: Autograd::Backward(index(LAYERS) * step + layer + 1),
                backward: true,
                ..Op::compute(node, GEMM_BACKWARD, 650, [132, 384, 168, 213_000, 19])
            };
            let differentiated = self.run(&gemm, &[reduced]);
            let comm = Comm {
                dtype: "Float",
                element_bytes: 4,
                ..bf16(Kind::ReduceScatter, Group::Dp, 4 * MIB * size(1 - layer))
            };
            scattered = self.run(&Op::comm(REDUCE_SCATTER, 24, true, comm), &[differentiated]);
        }
        let before: [(i64, i64); RANKS] = from_fn(|r| {
            self.memory_instant(r, -32 * MIB);
            (self.ranks[r].next_id(), self.ranks[r].now)
        });
        let adam = Op {
            straggler_ns: STRAGGLER_OPTIMIZER_NS,
            ..Op::compute("aten::_fused_adamw_", ADAM, 150, [640, 512, 64, 0, 75])
        };
        let updated = self.run(&adam, &[scattered]);
        for (r, (id, start)) in before.into_iter().enumerate() {
            let (begin, _) = self.events[self.events.len() - RANKS + r].span;
            self.annotate(r, "Optimizer.step#AdamW.step", id, start, 7, (begin, updated[r]));
        }
        let loss = Comm {
            kind: Kind::AllReduce,
            group: Group::World,
            bytes: 4,
            dtype: "Float",
            element_bytes: 4,
        };
        let averaged = self.run(&Op::comm(ALL_REDUCE_F32, 28, false, loss), &[updated]);
        (0..RANKS).for_each(|r| self.wait_record(r));
        let d2h = "Memcpy DtoH (Device -> Pageable)";
        let item = Op::memory("aten::_local_scalar_dense", d2h, 7, 2, Work::Copy(4));
        let read = self.run(&item, &[averaged]);
        for (r, (id, start)) in begins.into_iter().enumerate() {
            self.synchronize(r, read[r]);
            self.ranks[r].now += 9_000;
            let (host, end) = (pid(r), self.ranks[r].now);
            let name = format!("ProfilerStep#{}", FIRST_STEP + step);
            let row = slice("user_annotation", &name, host, host, (start, end), Args::op(id));
            self.ranks[r].rows[0] += &row;
            self.ranks[r].steps.push((start, end));
        }
    }

    /// Launches `op` on every rank and returns when it is done there. It starts when it is
    /// launched, its stream is free and every event of `after` has come.
    fn run(&mut self, op: &Op, after: &[PerRank]) -> PerRank {
        if let Work::Comm(comm) = op.work {
            self.seq[comm.group as usize] += 1;
        }
        let launches: [Launch; RANKS] = from_fn(|r| self.launch(r, op));
        let starts: PerRank = from_fn(|r| {
            let free = self.ranks[r].stream_free.get(&op.stream).copied().unwrap_or(0);
            let ready = after.iter().map(|ends| ends[r]).fold(free, i64::max) + 700;
            ready.max(launches[r].end + 1_400) + self.jitter(500)
        });
        let ends = match op.work {
            Work::Comm(comm) => self.meet(comm, starts),
            _ => from_fn(|r| {
                let late = self.plan.late(r, op.straggler_ns);
                starts[r] + op.duration_ns + late + self.jitter(2_000)
            }),
        };
        for r in 0..RANKS {
            let span = (starts[r], ends[r]);
            self.ranks[r].stream_free.insert(op.stream, span.1);
            self.events.push(Event {
                rank: r,
                step: self.step,
                work: op.work,
                stream: op.stream,
                span,
            });
            self.device_rows(r, op, &launches[r], span);
        }
        ends
    }

    /// When each rank leaves the collective: the last to come after exactly the transfer time,
    /// the others within a microsecond of it.
    fn meet(&mut self, comm: Comm, starts: PerRank) -> PerRank {
        let mut ends = [0; RANKS];
        for first in (0..RANKS).filter(|&r| comm.group.members(r)[0] == r) {
            let members = comm.group.members(first);
            let last = members.iter().map(|&r| starts[r]).max().unwrap_or_default();
            for &r in &members {
                let after = if starts[r] == last { 0 } else { 50 + self.jitter(850) };
                ends[r] = last + comm.transfer_ns() + after;
            }
            let shares = members.iter().map(|&r| (r, starts[r], ends[r])).collect();
            self.calls.push(Call { comm, shares });
        }
        ends
    }

    /// The host's side of an op: its slice, and inside it the call to the runtime.
    fn launch(&mut self, rank: usize, op: &Op) -> Launch {
        let start = self.ranks[rank].now + 400 + self.jitter(600);
        let call = start + 4_500 + self.jitter(1_500);
        let call_end = call + 4_500 + self.jitter(1_500);
        let end = call_end + 1_200 + self.jitter(600);
        let (host, seq, step) = (pid(rank), self.seq, self.step);
        let full_rows = self.plan.full_rows;
        let tid = host + if op.backward { 37 } else { 0 };
        let state = &mut self.ranks[rank];
        state.now = end;
        state.last_correlation += 2;
        let id = state.next_id();
        let args = match op.autograd {
            Autograd::None => Args::op(id),
            Autograd::Forward(n) => {
                Args::op(id).raw("Sequence number", 900 + n).raw("Fwd thread id", 0)
            }
            Autograd::Backward(n) => {
                Args::op(id).raw("Sequence number", 900 + n).raw("Fwd thread id", 1)
            }
        };
        state.rows[0] += &slice("cpu_op", op.host, host, tid, (start, end), args);
        match op.autograd {
            Autograd::None => {}
            Autograd::Forward(n) => state.rows[0] += &flow("s", "fwdbwd", n, host, tid, start),
            Autograd::Backward(n) => state.rows[0] += &flow("f", "fwdbwd", n, host, tid, start),
        }
        let mut launch = Launch {
            end: call_end,
            correlation: state.last_correlation,
            external_id: id,
            annotation_id: id,
            seq: 0,
        };
        if let Work::Comm(comm) = op.work {
            (launch.external_id, launch.annotation_id) = (state.next_id(), state.next_id());
            launch.seq = seq[comm.group as usize];
            let members = comm.group.members(rank);
            let mut args = comm_args(Args::op(launch.external_id), &comm, rank, launch.seq);
            if full_rows {
                args = args
                    .text("In split size", "[]")
                    .text("Out split size", "[]")
                    .raw("Global rank start", members[0])
                    .raw("Global rank stride", members[1] - members[0]);
            }
            let span = (start + 1_800, call_end + 700);
            state.rows[0] += &slice("cpu_op", "record_param_comms", host, tid, span, args);
            if full_rows {
                let (name, span) = (comm.kind.names()[2], (start + 2_600, call_end + 300));
                let args = Args::op(launch.annotation_id);
                state.rows[0] += &slice("user_annotation", name, host, tid, span, args);
            }
        }
        let (name, cbid) = match op.work {
            Work::Compute(_) => ("cudaLaunchKernel", 211),
            Work::Copy(_) => ("cudaMemcpyAsync", 41),
            Work::Set(_) => ("cudaMemsetAsync", 51),
            Work::Comm(_) => ("cudaLaunchKernelExC", 430),
        };
        let args =
            Args::id(launch.external_id).raw("cbid", cbid).raw("correlation", launch.correlation);
        state.rows[1] += &slice("cuda_runtime", name, host, tid, (call, call_end), args);
        if step == 0 && full_rows {
            state.rows[1] += &flow("s", "ac2g", launch.correlation, host, tid, call);
        }
        launch
    }

    /// The device's side: the event, its arrow, and for a collective the annotation over it.
    fn device_rows(&mut self, rank: usize, op: &Op, launch: &Launch, span: Span) {
        let device = index(rank);
        let place = |args: Args| {
            args.raw("device", device)
                .raw("context", 1)
                .raw("stream", op.stream)
                .raw("correlation", launch.correlation)
        };
        let kernel = |[grid, block, registers, shared, occupancy]: [i64; 5]| {
            let mut args = Args::id(launch.external_id);
            if self.plan.full_rows {
                args = args.raw("queued", 0);
            }
            args = place(args);
            if self.plan.full_rows {
                args = args.raw("registers per thread", registers).raw("shared memory", shared);
            }
            args = args.raw("blocks per SM", decimal(grid, SM_COUNT, 6));
            if self.plan.full_rows {
                args = args.raw("warps per SM", decimal(grid * block, 32 * SM_COUNT, 6));
            }
            args.raw("grid", format_args!("[{grid},1,1]"))
                .raw("block", format_args!("[{block},1,1]"))
                .raw("est. achieved occupancy %", occupancy)
        };
        let memory = |bytes: i64| {
            place(Args::id(launch.external_id))
                .raw("bytes", bytes)
                .raw("memory bandwidth (GB/s)", decimal(bytes, span.1 - span.0, 9))
        };
        let (cat, args) = match op.work {
            Work::Compute(shape) => ("kernel", kernel(shape)),
            Work::Comm(comm) => {
                let args = kernel([16, 544, 96, 82_240, 0]);
                ("kernel", comm_args(args, &comm, rank, launch.seq))
            }
            Work::Copy(bytes) => ("gpu_memcpy", memory(bytes)),
            Work::Set(bytes) => ("gpu_memset", memory(bytes)),
        };
        let state = &mut self.ranks[rank];
        state.rows[1] += &slice(cat, op.device, device, op.stream, span, args);
        if self.step == 0 && self.plan.full_rows {
            let id = launch.correlation;
            state.rows[1] += &flow("f", "ac2g", id, device, op.stream, span.0);
        }
        if let (Work::Comm(comm), true) = (op.work, self.plan.full_rows) {
            // Kineto's copy of an annotation is 1 ns wider than its kernels on each side.
            let (wide, args) = ((span.0 - 1, span.1 + 1), Args::id(launch.annotation_id));
            let name = comm.kind.names()[2];
            state.rows[2] += &slice("gpu_user_annotation", name, device, op.stream, wide, args);
        }
    }

    /// A user annotation from `start` to now, and its copy over a span of the device.
    fn annotate(
        &mut self,
        rank: usize,
        name: &str,
        id: i64,
        start: i64,
        stream: i64,
        (begin, end): Span,
    ) {
        let (host, now) = (pid(rank), self.ranks[rank].now);
        let rows = &mut self.ranks[rank].rows;
        rows[0] += &slice("user_annotation", name, host, host, (start, now), Args::op(id));
        let wide = (begin - 1, end + 1);
        rows[2] += &slice("gpu_user_annotation", name, index(rank), stream, wide, Args::id(id));
    }

    /// A change of allocated memory, now; returns the time.
    fn memory_instant(&mut self, rank: usize, bytes: i64) -> i64 {
        let (host, state) = (pid(rank), &mut self.ranks[rank]);
        state.now += 300;
        state.allocated += bytes;
        let args = Args(String::new())
            .raw("Device Type", 1)
            .raw("Device Id", rank)
            .raw("Addr", 140_580_996_775_936_i64)
            .raw("Bytes", bytes)
            .raw("Total Allocated", state.allocated)
            .raw("Total Reserved", 256 * MIB);
        state.rows[0] += &format!(
            "{{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\
             \"pid\":{host},\"tid\":{host},\"ts\":{},\"args\":{{{}}}}},\n",
            us(state.now),
            args.0
        );
        state.now
    }

    /// PyTorch records a wait under the name of a collective; it is no call.
    fn wait_record(&mut self, rank: usize) {
        let (host, state) = (pid(rank), &mut self.ranks[rank]);
        let start = state.now + 500;
        state.now = start + 3_970;
        let args = Args::op(state.next_id())
            .text("Collective name", "wait")
            .text("dtype", "Byte")
            .raw("In msg nelems", 0)
            .raw("Out msg nelems", 0)
            .raw("Group size", 1)
            .text("In split size", "[]")
            .text("Out split size", "[]")
            .text("Process Group Ranks", "[]");
        let span = (start, state.now);
        state.rows[0] += &slice("cpu_op", "record_param_comms", host, host, span, args);
    }

    /// The host waits for the device: a call that starts nothing.
    fn synchronize(&mut self, rank: usize, until: i64) {
        let (host, state) = (pid(rank), &mut self.ranks[rank]);
        let start = state.now + 600;
        state.now = until.max(start) + 3_000;
        state.last_correlation += 2;
        let id = state.last_correlation;
        let args = Args::id(id).raw("cbid", 131).raw("correlation", id);
        let span = (start, state.now);
        state.rows[1] += &slice("cuda_runtime", "cudaStreamSynchronize", host, host, span, args);
    }
}

fn comm_args(args: Args, comm: &Comm, rank: usize, seq: i64) -> Args {
    let (elements_in, elements_out) = comm.elements();
    args.text("Collective name", comm.kind.names()[3])
        .raw("In msg nelems", elements_in)
        .raw("Out msg nelems", elements_out)
        .raw("Group size", comm.group.size())
        .text("dtype", comm.dtype)
        .text("Process Group Name", &comm.group.name(rank).to_string())
        .text("Process Group Description", comm.group.description())
        .text("Process Group Ranks", &comm.group.ranks_text(rank))
        .raw("Seq", seq)
}

/// Number over number as decimal text: at most `digits` decimals, half up, no trailing zeros.
fn decimal(numerator: i64, denominator: i64, digits: u32) -> String {
    let unit = 10_i128.pow(digits);
    let doubled = 2 * unit * i128::from(numerator) / i128::from(denominator);
    let rounded = (doubled + 1) / 2;
    let width = digits as usize;
    let text = format!("{}.{:0width$}", rounded / unit, rounded % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Sorted, disjoint intervals that cover the same time.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn union_ns(spans: Vec<Span>) -> i64 {
    union(spans).iter().map(|(start, end)| end - start).sum()
}

/// Mean over ranks of a ratio, in double precision.
fn mean_ratio(names: [&'static str; 3], per_rank: [f64; RANKS]) -> Answer {
    let mean = per_rank.iter().sum::<f64>() / RANKS as f64;
    answer(names, format!("{mean:.12}"), per_rank.map(|ratio| format!("{ratio:.12}")))
}

fn is_comm(event: &Event) -> bool {
    matches!(event.work, Work::Comm(_))
}

fn is_compute(event: &Event) -> bool {
    matches!(event.work, Work::Compute(_))
}

/// What the plan says of one rank, in nanoseconds.
struct Totals {
    comm: PerRank,
    compute: PerRank,
    overlap: PerRank,
    window: PerRank,
}

impl Sim {
    fn spans(&self, rank: usize, keep: impl Fn(&Event) -> bool) -> Vec<Span> {
        self.events.iter().filter(|e| e.rank == rank && keep(e)).map(|e| e.span).collect()
    }

    fn totals(&self) -> Totals {
        let comm: PerRank = from_fn(|r| union_ns(self.spans(r, is_comm)));
        let compute: PerRank = from_fn(|r| union_ns(self.spans(r, is_compute)));
        let both: PerRank = from_fn(|r| union_ns(self.spans(r, |e| is_comm(e) || is_compute(e))));
        let window = from_fn(|r| {
            let all = union(self.spans(r, |_| true));
            all[all.len() - 1].1 - all[0].0
        });
        Totals { comm, compute, overlap: from_fn(|r| comm[r] + compute[r] - both[r]), window }
    }

    /// Union of compute and communication launched in a step of a rank. No call is a send or
    /// receive, so all of them are work here.
    fn busy_ns(&self, rank: usize, step: i64) -> i64 {
        union_ns(self.spans(rank, |e| e.step == step && (is_comm(e) || is_compute(e))))
    }

    fn step_span(&self, rank: usize, step: i64) -> Span {
        self.ranks[rank].steps[usize::try_from(step).unwrap_or_default()]
    }

    /// Holds the plan to what the README promises.
    fn verify(&self) {
        let mut last_calls = [0; RANKS];
        for call in &self.calls {
            let (last_rank, last_start) = call.last();
            last_calls[last_rank] += 1;
            let has_rank_2 = call.shares.iter().any(|s| s.0 == STRAGGLER);
            assert!(
                !self.plan.straggler || !has_rank_2 || last_rank == STRAGGLER,
                "rank 2 comes last in its groups"
            );
            assert!(self.plan.straggler || call.lag_ns() < BALANCED_LAG_NS, "nobody waits long");
            let ties = call.shares.iter().filter(|s| s.1 == last_start).count();
            assert_eq!(ties, 1, "one rank comes last");
            let least = call.shares.iter().map(|s| s.2 - s.1).min();
            assert_eq!(least, Some(call.comm.transfer_ns()), "the last to come waits for nobody");
            let ends = call.shares.iter().map(|s| s.2);
            let skew = ends.clone().max().unwrap_or(0) - ends.min().unwrap_or(0);
            assert!(skew < 1_000, "all leave within a microsecond");
        }
        let calls_of_a_rank =
            index(self.events.iter().filter(|e| e.rank == 0 && is_comm(e)).count());
        assert!(
            self.plan.straggler
                || last_calls.iter().all(|n| (1..=calls_of_a_rank * 2 / 3).contains(n)),
            "no rank is always last, none never: {last_calls:?}"
        );
        if self.plan.beside_attention {
            self.verify_beside_attention();
        }
        for event in &self.events {
            let (begin, end) = self.step_span(event.rank, event.step);
            assert!(begin < event.span.0 && event.span.1 < end, "a step waits for its device");
        }
        let streams: Vec<_> = self.ranks[0].stream_free.keys().collect();
        for (&stream, rank) in streams.iter().flat_map(|s| (0..RANKS).map(move |r| (*s, r))) {
            let spans = self.spans(rank, |e| e.stream == stream);
            assert_eq!(union(spans.clone()).len(), spans.len(), "a stream runs in order");
        }
    }

    /// Holds the tp calls of layer 1, every second one of a rank, to their place beside compute.
    fn verify_beside_attention(&self) {
        for rank in 0..RANKS {
            let compute = union(self.spans(rank, is_compute));
            let calls = self.spans(rank, |e| is_comm(e) && e.stream == 20);
            for (start, end) in calls.into_iter().skip(1).step_by(LAYERS) {
                let hidden = |c: &&Span| c.0 < start + BARE_NS && end < c.1;
                assert!(compute.iter().any(|c| hidden(&c)), "hidden beside flash attention");
            }
        }
    }

    fn answers(&self) -> Vec<Answer> {
        let mut answers = self.answers_of_steps();
        answers.extend(self.answers_of_time());
        answers.extend(self.answers_of_calls());
        answers
    }

    fn answers_of_steps(&self) -> Vec<Answer> {
        let steps: PerRank = from_fn(|r| self.ranks[r].steps.iter().map(|s| s.1 - s.0).sum());
        let iter_ms = |ns: i64, ranks: i64| decimal(ns, ranks * STEPS * 1_000_000, 12);
        // Of steps 10 to 13 the middle two are kept, each up to the start of the next.
        let kept: PerRank = from_fn(|r| self.step_span(r, 3).0 - self.step_span(r, 1).0);
        let step_s = |ns: i64, ranks: i64| decimal(ns, ranks * 2 * 1_000_000_000, 12);
        let kept_all: i64 = kept.iter().sum();
        let tokens_per_s = decimal(BATCH_SIZE * SEQ_LEN * 8 * 1_000_000_000, kept_all, 6);
        let bubble: [f64; RANKS] =
            from_fn(|r| (0..STEPS).map(|s| self.bubble(r, s)).sum::<f64>() / STEPS as f64);
        vec![
            answer(
                ["iter_time", "avg_iter_time_ms", "ms"],
                iter_ms(steps.iter().sum(), 4),
                steps.map(|ns| iter_ms(ns, 1)),
            ),
            answer(
                ["avg_step_time", "avg_step_time", "s"],
                step_s(kept_all, 4),
                kept.map(|ns| step_s(ns, 1)),
            ),
            answer(["throughput_tokens", "throughput_tokens_per_s", "tokens/s"], tokens_per_s, []),
            mean_ratio(["pipeline_bubble", "bubble_ratio", "ratio"], bubble),
        ]
    }

    fn bubble(&self, rank: usize, step: i64) -> f64 {
        let (start, end) = self.step_span(rank, step);
        1.0 - self.busy_ns(rank, step) as f64 / (end - start) as f64
    }

    fn answers_of_time(&self) -> Vec<Answer> {
        let times = self.totals();
        let (comm, compute, overlap) = (times.comm, times.compute, times.overlap);
        let exposed: PerRank = from_fn(|r| comm[r] - overlap[r]);
        let sum = |of: PerRank| of.iter().sum::<i64>();
        let ms = |field, of: PerRank| {
            let text = |ns| decimal(ns, 1_000_000, 12);
            answer(["comm_comp_overlap", field, "ms"], text(sum(of)), of.map(text))
        };
        let ratio = |field, of: PerRank, by: PerRank| {
            let ranks = (0..RANKS).map(|r| decimal(of[r], by[r], 12));
            answer(["comm_comp_overlap", field, "ratio"], decimal(sum(of), sum(by), 12), ranks)
        };
        let seconds = |metric, ns, of: i64, per_rank: PerRank| {
            let ranks = per_rank.map(|ns| decimal(ns, 1_000_000_000, 12));
            answer([metric, metric, "s"], decimal(ns, of * 1_000_000_000, 12), ranks)
        };
        let window = times.window;
        let largest = window.iter().copied().max().unwrap_or_default();
        let fraction = from_fn(|r| comm[r] as f64 / window[r] as f64);
        vec![
            ms("comm_time_ms", comm),
            ms("comp_time_ms", compute),
            ms("overlap_time_ms", overlap),
            ms("exposed_comm_time_ms", exposed),
            ratio("overlap_ratio_of_comm", overlap, comm),
            ratio("overlap_ratio_of_comp", overlap, compute),
            seconds("wall_time_s", largest, 1, window),
            seconds("total_comm_time_s", sum(comm), 4, comm),
            seconds("total_compute_time_s", sum(compute), 4, compute),
            mean_ratio(["communication_fraction", "communication_fraction", "ratio"], fraction),
        ]
    }

    fn answers_of_calls(&self) -> Vec<Answer> {
        // Sums over the shares of calls: of the job and of each rank.
        let counted = |names, weigh: &dyn Fn(&Call, usize) -> i64| {
            let of = |rank: usize| -> i64 {
                let mine = self.calls.iter().filter(|c| c.shares.iter().any(|s| s.0 == rank));
                mine.map(|call| weigh(call, rank)).sum()
            };
            let ranks: PerRank = from_fn(of);
            answer(names, ranks.iter().sum::<i64>().to_string(), ranks.map(|n| n.to_string()))
        };
        let mut answers = vec![counted(["coll_call_num", "total_calls", "calls"], &|_, _| 1)];
        answers.extend(Kind::ALL.map(|kind| {
            let names = ["coll_call_num", kind.calls_by_type_field(), "calls"];
            counted(names, &|call, _| i64::from(call.comm.kind == kind))
        }));
        for (field, group) in
            [("dp_bytes", Group::Dp), ("tp_bytes", Group::Tp), ("unknown_bytes", Group::World)]
        {
            answers.push(counted(["traffic_distribution", field, "bytes"], &|call, _| {
                i64::from(call.comm.group == group) * call.comm.wire_bytes()
            }));
        }

        let last = |call: &Call, rank| i64::from(call.last().0 == rank);
        answers.push(counted(["straggler_lag", "last_rank_counts", "calls"], &last));
        let mut lags: Vec<_> = self.calls.iter().map(Call::lag_ns).collect();
        lags.sort_unstable();
        let (calls, half) = (index(lags.len()), lags.len() / 2);
        let mut single = |metric, field, unit, numerator, denominator| {
            let value = decimal(numerator, denominator, 18);
            answers.push(answer([metric, field, unit], value, []));
        };
        single("straggler_lag", "mean_lag_us", "us", lags.iter().sum(), calls * 1000);
        single("straggler_lag", "p50_lag_us", "us", lags[half - 1] + lags[half], 2000);
        single("straggler_lag", "min_lag_us", "us", lags[0], 1000);
        single("straggler_lag", "max_lag_us", "us", lags[lags.len() - 1], 1000);
        single("straggler_lag", "num_collectives", "calls", calls, 1);
        let (name, second) = ("hockney_alpha_s", 1_000_000_000);
        single(name, name, "s", ALPHA_NS, second);
        let name = "hockney_beta_s_per_byte";
        single(name, name, "s/B", 1, BYTES_PER_NS * second);
        let name = "hockney_inverse_beta_Bps";
        single(name, name, "B/s", BYTES_PER_NS * second, 1);
        let wire = self.calls.iter().map(|c| c.comm.wire_bytes()).sum();
        let transfer = self.calls.iter().map(|c| c.comm.transfer_ns()).sum();
        let name = "avg_comm_bandwidth_GBps";
        single(name, name, "GB/s", wire, transfer);
        answers
    }

    fn trace_json(&self, rank: usize) -> String {
        let (host, state) = (pid(rank), &self.ranks[rank]);
        let (first, last) = (EPOCH_NS - 900_000, state.now + 400_000);
        let devices: Vec<_> = (0..RANKS)
            .map(|id| format!("{{\"id\":{id},{DEVICE},\"numSms\":{SM_COUNT}}}"))
            .collect();
        let groups = [Group::World, Group::Dp, Group::Tp].map(|g| {
            format!(
                "{{\"pg_name\":\"{}\",\"pg_desc\":\"{}\",\"backend_config\":\"cuda:nccl\",\
                 \"pg_size\":{},\"ranks\":{}}}",
                g.name(rank),
                g.description(),
                g.size(),
                g.ranks_text(rank)
            )
        });
        let mut meta = String::new();
        let mut name = |row: &str, pid: i64, tid: i64, args: Args| {
            let (at, args) = (us(first), args.0);
            meta += &format!(
                "{{\"name\":\"{row}\",\"ph\":\"M\",\"ts\":{at},\"pid\":{pid},\
                 \"tid\":{tid},\"args\":{{{args}}}}},\n"
            );
        };
        let args = || Args(String::new());
        name("process_name", host, 0, args().text("name", "python3"));
        name("process_labels", host, 0, args().text("labels", "CPU"));
        name("process_sort_index", host, 0, args().raw("sort_index", host));
        for gpu in 0..index(RANKS) {
            name("process_name", gpu, 0, args().text("name", "python3"));
            name("process_labels", gpu, 0, args().text("labels", &format!("GPU {gpu}")));
        }
        for &stream in state.stream_free.keys() {
            let text = format!("stream {stream} ");
            name("thread_name", index(rank), stream, args().text("name", &text));
        }
        name("thread_name", host, host, args().text("name", "python3"));
        name("thread_name", host, host + 37, args().text("name", "pt_autograd_0"));
        let [host_rows, device_rows, annotations] = &state.rows;
        format!(
            "{{\n\"schemaVersion\":1,\n\"deviceProperties\":[\n{}\n],\n\
             \"cupti_version\":24,\"cuda_runtime_version\":12060,\
             \"cuda_driver_version\":12060,\n\"host_name\":\"llama-tiny-node0\",\n\
             \"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\
             \"world_size\":{RANKS},\"pg_count\":3,\"pg_config\":[{}],\
             \"nccl_version\":\"2.21.5\"}},\n\"traceEvents\":[\n\
             {host_rows}{device_rows}{annotations}{meta}\
             {{\"ph\":\"X\",\"cat\":\"Trace\",\"ts\":{},\"dur\":{},\"pid\":\"Spans\",\
             \"tid\":\"PyTorch Profiler\",\"name\":\"PyTorch Profiler (0)\",\
             \"args\":{{\"Op count\":0}}}},\n\
             {{\"name\":\"process_sort_index\",\"ph\":\"M\",\"ts\":{},\"pid\":\"Spans\",\
             \"tid\":0,\"args\":{{\"sort_index\":536870912}}}},\n\
             {{\"name\":\"Iteration Start: PyTorch Profiler\",\"ph\":\"i\",\"s\":\"g\",\
             \"pid\":\"Traces\",\"tid\":\"Trace PyTorch Profiler\",\"ts\":{}}},\n\
             {{\"name\":\"Record Window End\",\"ph\":\"i\",\"s\":\"g\",\"pid\":\"\",\
             \"tid\":\"\",\"ts\":{}}}\n],\n\
             \"traceName\":\"rank{rank}_trace.json\",\n\"displayTimeUnit\":\"ms\",\n\
             \"baseTimeNanoseconds\":{BASE_NS}\n}}\n",
            devices.join(",\n"),
            groups.join(","),
            us(first),
            us(last - first),
            us(first),
            us(first),
            us(last),
        )
    }

    fn readme(&self, answers: &[Answer]) -> String {
        let mut table = String::new();
        for a in answers {
            let ranks = (0..RANKS).map(|r| a.per_rank.get(r).map_or("", String::as_str));
            let ranks = ranks.collect::<Vec<_>>().join(" | ");
            table +=
                &format!("| `{}` | `{}` | {} | {} | {ranks} |\n", a.metric, a.field, a.unit, a.job);
        }
        let mut steps = String::new();
        for (rank, step) in (0..RANKS).flat_map(|r| (0..STEPS).map(move |s| (r, s))) {
            let (start, end) = self.step_span(rank, step);
            steps += &format!(
                "| {rank} | {} | {} | {} | {} | {:.12} |\n",
                FIRST_STEP + step,
                start - EPOCH_NS,
                end - start,
                self.busy_ns(rank, step),
                self.bubble(rank, step)
            );
        }
        let mut sizes = BTreeMap::new();
        for Call { comm, .. } in &self.calls {
            let group = comm.group;
            let key = (comm.kind.names()[0], group.description(), group.size(), comm.bytes);
            sizes.entry(key).or_insert((0, comm.transfer_ns())).0 += 1;
        }
        let sizes: String = sizes
            .into_iter()
            .map(|((kind, group, n, bytes), (calls, ns))| {
                format!("| `{kind}` | `{group}` | {n} | {bytes} | {calls} | {ns} |\n")
            })
            .collect();
        README
            .replace("{name}", self.plan.name)
            .replace("{pair}", self.plan.pair)
            .replace("{layer_1}", self.plan.layer_1)
            .replace("{delays}", self.plan.delays)
            .replace("{rows}", self.plan.rows)
            .replace("{answers}", &table)
            .replace("{steps}", &steps)
            .replace("{sizes}", &sizes)
    }
}

const SM_COUNT: i64 = 132;
const DEVICE: &str = "\"name\":\"NVIDIA H100 80GB HBM3\",\"totalGlobalMem\":85029158912,\
    \"computeMajor\":9,\"computeMinor\":0,\"maxThreadsPerBlock\":1024,\
    \"maxThreadsPerMultiprocessor\":2048,\"regsPerBlock\":65536,\"warpSize\":32,\
    \"sharedMemPerBlock\":49152";
const GEMM: &str = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT";
const FLASH: &str =
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(flash::Flash_fwd_params)";
const ADD: &str = "void at::native::vectorized_elementwise_kernel<4, \
    at::native::CUDAFunctor_add<c10::BFloat16> >(int)";
const GEMM_BACKWARD: &str = "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNT";
const ADAM: &str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<\
    FusedAdamMathFunctor<float, 4> >(int)";
const ALL_REDUCE_BF16: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const ALL_REDUCE_F32: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const REDUCE_SCATTER: &str =
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

const CARD: &str = "\
version: 1

description: >
  Generated, not measured: four steps of a tiny Llama on 4 GPUs of one node, FSDP2 over 2 ranks and
  tensor parallel over 2. Every time in the traces follows from a plan; README.md has the answers.
{card}
hf_url: null
trace_url: null
contributor: ccl-sql
contact: null

workload:
  model:
    phase: training
    moe: false
    granularity: model_fwd_bwd_pass
    model_family: llama-tiny
    precision: bf16
    epochs: 1
    iteration: 4
    model_arch:
      num_params: 15206912
      num_params_embedding: 4194304
      num_layers: 2
      num_heads: 8
      head_dim: 64
      num_kv_heads: 8
      hidden_size: 512
      intermediate_size: 1536
      vocab_size: 8192
  data:
    batch_size: 16
    batch_size_scope: global
    seq_len: 2048
    dataset: c4_test
  hardware:
    network_topo:
      topology: point-to-point
      bandwidth_gbps: [400, 1024]  # scale-out, scale-up; 1024 Gbit/s is the 128 GB/s of the plan
    xpu_spec:
      type: GPU
      model: nvidia_h100
      total_count: 4
      count_per_node: 4
    driver_version: cuda_12.6

Model-executor:
  framework:
    name: torchtitan
    version: generated
    compiler_tool_selection: disabled
    env: {}
  model_plan_parallelization:
    dp_replicate: 1
    dp_shard: 2
    tp: 2
    pp: 1
    cp: 1
    ep: 1
    pp_mb: 1
  communication_library:
    name: NCCL
    version: 2.21.5
    env: {}
  protocol_selection: [none, nvlink]

metric_source:
  traces: [json]
  metrics_specific_trace: []

collection_notes:
  profile_iteration: 10
  total_steps: 14
  launcher: generated
";

const README: &str = "\
# {name}

**Generated, not recorded.** No GPU ran this job. `tests/it/generator.rs` (function `job`) plays
four steps of a training job in whole nanoseconds and writes them in the form of PyTorch Kineto
traces of 2024 and later; a test asserts that these files are what it writes. The answers below come
from the plan, not from the files, so they can judge a tool that reads the files.
{pair}
## The job

- World 4 = dp 2 x tp 2 on one host, rank = device = 2 x dp index + tp index. Groups: `default_pg`
  {0,1,2,3}, `mesh_dp` {0,2} and {1,3}, `mesh_tp` {0,1} and {2,3}. The clocks of the ranks agree.
- Steps 10 to 13, two layers. Stream 7 computes and clears, 16 copies the batch to the device, 20
  carries the tp calls, 24 the dp calls, 28 the call on `default_pg`.
- Forward, per layer: gemm (waits for the parameters and for the previous tp `all_reduce`), flash
  attention, then the tp `all_reduce` (bf16): in layer 0 beside an elementwise kernel that hides it or a
  part of it, in layer 1 {layer_1}
- Backward, layer 1 then 0, launched by the thread of the autograd engine: gemm, then the dp
  `reduce_scatter` (fp32); that of layer 1 runs beside the gemm of layer 0, that of layer 0 is exposed.
- Then the optimizer, one `all_reduce` of the loss (4 bytes) on `default_pg`, a copy of the loss to
  the host, and the host waits for it: every device event lies within the step that launched it.
- The copy of the batch begins before the first compute kernel and ends beside it; the copy of the loss
  and the memset meet none.
{delays}- A collective ends for the last to come after exactly the transfer time, for the others 50 to 900 ns
  later. Transfer time: `all_reduce` 2(n-1)(alpha + S/n beta), `all_gather` and `reduce_scatter`
  (n-1)(alpha + S/n beta), alpha = 6 us, beta = 1/128 ns per byte (128 GB/s), whole nanoseconds
  (nothing is cut but 0.05 ns of the 4-byte call).
- Message sizes change from layer to layer and step to step by design, which the parameters of a
  real job do not do: a fit needs several sizes. The card says 16 x 2048 tokens in every step.
{rows}
## Answers

The column `job` is what `ccl-sql metric NAME --trace trace_collection/{name}` is to
give: mean, sum or largest over the ranks, as the metric's definition says. Times and counts are exact.
Ratios are rounded to 12 decimals, the throughput to 6, the mean lag and the bandwidth to 18. An empty
cell: no value per rank.

| metric | field | unit | job | rank 0 | rank 1 | rank 2 | rank 3 |
|---|---|---|---|---|---|---|---|
{answers}
- `iter_time`: durations of all four markers. `avg_step_time`: steps 11 and 12, each from its start
  to the start of the next. `throughput_tokens`: 16 x 2048 tokens over `avg_step_time`.
- `pipeline_bubble`: per rank and step 1 - |compute and communication launched in the step| / duration
  of the marker, all four steps; mean over steps, then over ranks. Copies and memsets are not busy here.
- `comm_comp_overlap`: unions per rank over the whole trace, summed over ranks; ratios of these sums.
- `wall_time_s`: first start to last end of device events, copies and memsets too; the largest rank.
  `communication_fraction`: mean over ranks of communication / that window.
- `traffic_distribution`: wire bytes of all ranks; `unknown_bytes` are those on `default_pg`.
- `straggler_lag`: last start - first start of a call, mean over calls; `last_rank_counts` of ranks.
- Hockney: ring form on the 16 calls of `all_reduce` over 2 ranks, 4 sizes, which lie on the line.
  `avg_comm_bandwidth_GBps`: wire bytes of one rank over transfer time, sums over all calls.

## Steps

| rank | step | start (ns after `ts` 4458676416788.066) | duration (ns) | busy (ns) | bubble |
|---|---|---|---|---|---|
{steps}
## Calls by size

| collective | group | n | S (bytes) | calls | transfer (ns) |
|---|---|---|---|---|---|
{sizes}";

static PLANS: [Plan; 2] = [
    Plan {
        name: "llama-tiny-fsdp2-tp2-4",
        straggler: true,
        beside_attention: false,
        full_rows: true,
        pair: "",
        layer_1: "exposed. The dp `all_gather` of layer 0 opens the step and is exposed, that of
  layer 1 is prefetched after the gemm of layer 0.",
        delays: "\
- Rank 2 is the straggler: 120 us more in the first gemm of each layer, 20 us more in the optimizer,
  and its host enters each step 25 us late. So it comes last in every call of its groups, and rank 3,
  which waits for it in `mesh_tp`, is mostly late in {1,3}.
",
        rows: "\
- Two kinds of rows are no work and no calls: a `record_param_comms` named `wait` per step, and the
  `gpu_user_annotation` copies of the collectives and the optimizer, 1 ns wider on each side. Arrows
  between calls and device events (`ac2g`) are there in step 10 only, to keep the files small.
",
        card: "",
    },
    Plan {
        name: "llama-tiny-fsdp2-tp2-4-balanced",
        straggler: false,
        beside_attention: true,
        full_rows: false,
        pair: "
It is the second of a pair: `llama-tiny-fsdp2-tp2-4` is before, this is after. The same steps, kernels,
calls, sizes and pseudo-random variation; three things differ:

1. No straggler: rank 2 gets none of the delays it has there (120 us in each layer's first gemm, 20 us
   in the optimizer, 25 us on the host).
2. The tp `all_reduce` of layer 1 waits for the gemm alone, not for flash attention too, and runs
   beside it; there it is exposed.
3. The files leave out rows and arguments that no answer needs (below), only to be smaller.

Steps and waiting are shorter, but not every number is better: the idle time of a step stays while the
step shrinks, so `bubble_ratio` rises; there much of the waiting for rank 2 lies beside compute, so
`overlap_time_ms` and `overlap_ratio_of_comp` fall here, though `overlap_ratio_of_comm` rises.
",
        layer_1: "beside flash attention, which hides all but at most 500 ns at its start.
  The dp `all_gather` of layer 0 opens the step and is exposed, that of layer 1 is prefetched after the
  gemm of layer 0.",
        delays: "\
- No rank is a straggler: the ranks start a call within 10 us of each other. Each comes last now and
  then, by the variation alone. In every call exactly one rank is last, so the counts need no rule for
  ties.
",
        rows: "\
- Two kinds of rows are no work and no calls: a `record_param_comms` named `wait` per step, and the
  `gpu_user_annotation` copy of the optimizer, 1 ns wider on each side.
- Left out, unlike in `llama-tiny-fsdp2-tp2-4`: arrows between calls and device events (`ac2g`),
  annotations of the collectives (`nccl:...`, host and device), and the arguments `queued`,
  `registers per thread`, `shared memory`, `warps per SM` of kernels and the split sizes and `Global rank
  start`, `Global rank stride` of `record_param_comms`.
",
        card: "  The second of a pair: llama-tiny-fsdp2-tp2-4 without its straggler and with more overlap.\n",
    },
];
