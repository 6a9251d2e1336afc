//! Plays the plan in whole nanoseconds. Hosts launch, streams run in order, a collective starts on
//! each rank when that rank is ready, and ends after the last has come and the transfer is over.

use std::array::from_fn;
use std::collections::BTreeMap;

use crate::llama::plan::{
    ADAM, ADD, ALL_GATHER, ALL_REDUCE_BF16, ALL_REDUCE_F32, Autograd, Comm, FIRST_STEP, FLASH,
    GEMM, GEMM_BACKWARD, Group, Kind, LAYERS, MIB, Op, PerRank, Plan, RANKS, REDUCE_SCATTER,
    STRAGGLER_GEMM_NS, STRAGGLER_HOST_NS, STRAGGLER_OPTIMIZER_NS, Work,
};
use crate::support::kineto::{Span, index};

/// Start of the first step, relative to the base.
pub const EPOCH_NS: i64 = 4_458_676_416_788_066;

/// A device event of the plan.
pub struct Event {
    pub rank: usize,
    pub step: i64,
    pub work: Work,
    pub stream: i64,
    pub span: Span,
}

/// A collective over its ranks: (rank, start, end) of each.
pub struct Call {
    pub comm: Comm,
    pub shares: Vec<(usize, i64, i64)>,
}

impl Call {
    pub fn last(&self) -> (usize, i64) {
        self.shares.iter().map(|s| (s.0, s.1)).max_by_key(|s| s.1).unwrap_or_default()
    }

    pub fn lag_ns(&self) -> i64 {
        let first = self.shares.iter().map(|s| s.1).min().unwrap_or_default();
        self.last().1 - first
    }
}

/// The launch of an op by the host of a rank.
#[derive(Clone, Copy)]
pub struct Launch {
    /// The op on the host.
    pub op: Span,
    /// The call to the runtime inside it.
    pub call: Span,
    pub correlation: i64,
    pub id: i64,
    /// Id of the record of the collective, and of its annotation; else that of the op.
    pub external_id: i64,
    pub annotation_id: i64,
    /// Number of the call in its group; 0 where it is no collective.
    pub seq: i64,
}

/// One process: its host clock, its counters, its rows of JSON.
pub struct Rank {
    pub now: i64,
    pub last_id: i64,
    pub last_correlation: i64,
    pub allocated: i64,
    pub stream_free: BTreeMap<i64, i64>,
    /// Rows of the host, of the device, of annotations on the device.
    pub rows: [String; 3],
    pub steps: Vec<Span>,
}

impl Rank {
    pub fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
}

/// A job while it is played.
pub struct Sim {
    pub plan: &'static Plan,
    pub lcg: u64,
    pub step: i64,
    pub seq: [i64; 3],
    pub ranks: Vec<Rank>,
    pub events: Vec<Event>,
    pub calls: Vec<Call>,
}
impl Sim {
    /// Before the first step.
    pub fn new(plan: &'static Plan) -> Sim {
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

    /// Plays a step: forward and backward pass, the optimizer, and the loss.
    pub fn play_step(&mut self, step: i64) {
        self.step = step;
        let begins = self.begin_step();
        let reduced = self.forward();
        let scattered = self.backward(reduced);
        let updated = self.optimizer(scattered);
        let read = self.loss(updated);
        self.end_step(begins, read);
    }

    /// Id and start of the marker of each rank; the batch is copied, and what is reused is cleared.
    fn begin_step(&mut self) -> [(i64, i64); RANKS] {
        let begins = from_fn(|r| {
            let gap = 50_000 + self.jitter(6_000);
            let late = if self.step > 0 { self.plan.late(r, STRAGGLER_HOST_NS) } else { 0 };
            self.ranks[r].now += gap + late;
            (self.ranks[r].next_id(), self.ranks[r].now)
        });
        self.run(&Op::memory("aten::zero_", "Memset (Device)", 7, 3, Work::Set(MIB)), &[]);
        let h2d = "Memcpy HtoD (Pinned -> Device)";
        self.run(&Op::memory("aten::copy_", h2d, 16, 96, Work::Copy(2 * MIB)), &[]);
        begins
    }

    /// A size that changes from step to step, and with `shift` from layer to layer.
    fn mib(&self, shift: i64) -> i64 {
        MIB * ((self.step + shift) % 4 + 1)
    }

    /// The parameters of a layer.
    fn all_gather(&mut self, layer: i64, after: &[PerRank]) -> PerRank {
        let comm = Comm::bf16(Kind::AllGather, Group::Dp, 2 * self.mib(layer));
        self.run(&Op::comm(ALL_GATHER, 24, false, comm), after)
    }

    /// The forward pass: when the last `all_reduce` of its layers is done.
    fn forward(&mut self) -> PerRank {
        let starts: PerRank = from_fn(|r| self.memory_instant(r, 32 * MIB));
        let mut gathered = self.all_gather(0, &[]);
        let mut reduced = gathered;
        for layer in 0..index(LAYERS) {
            let gemm = Op {
                straggler_ns: STRAGGLER_GEMM_NS,
                autograd: Autograd::Forward(index(LAYERS) * self.step + layer + 1),
                ..Op::compute("aten::mm", GEMM, 300, [264, 384, 168, 213_000, 19])
            };
            let projected = self.run(&gemm, &[gathered, reduced]);
            if layer + 1 < index(LAYERS) {
                gathered = self.all_gather(layer + 1, &[projected]);
            }
            let shape = [512, 128, 255, 49_152, 13];
            let flash = Op::compute("aten::_flash_attention_forward", FLASH, 220, shape);
            let attended = self.run(&flash, &[]);
            let comm = Comm::bf16(Kind::AllReduce, Group::Tp, 4 * self.mib(2 * layer));
            let beside = layer > 0 && self.plan.beside_attention;
            let ready = if beside { projected } else { attended };
            reduced = self.run(&Op::comm(ALL_REDUCE_BF16, 20, false, comm), &[ready]);
            if layer == 0 {
                let add = Op::compute("aten::add", ADD, 60, [8192, 128, 32, 0, 100]);
                self.run(&add, &[]);
            }
        }
        (0..RANKS).for_each(|r| self.module_row(r, starts[r]));
        reduced
    }

    /// The backward pass: when the last `reduce_scatter` is done.
    fn backward(&mut self, reduced: PerRank) -> PerRank {
        let mut scattered = reduced;
        for layer in (0..index(LAYERS)).rev() {
            let node = "autograd::engine::evaluate_function: MmBackward0";
            let gemm = Op {
                autograd: Autograd::Backward(index(LAYERS) * self.step + layer + 1),
                backward: true,
                ..Op::compute(node, GEMM_BACKWARD, 650, [132, 384, 168, 213_000, 19])
            };
            let differentiated = self.run(&gemm, &[reduced]);
            let comm = Comm::f32(Kind::ReduceScatter, Group::Dp, 4 * self.mib(1 - layer));
            scattered = self.run(&Op::comm(REDUCE_SCATTER, 24, true, comm), &[differentiated]);
        }
        scattered
    }

    /// The optimizer, under its annotation: when the parameters are new.
    fn optimizer(&mut self, scattered: PerRank) -> PerRank {
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
        updated
    }

    /// The mean of the loss over all ranks: when the host can read it.
    fn loss(&mut self, updated: PerRank) -> PerRank {
        let loss = Comm::f32(Kind::AllReduce, Group::World, 4);
        let averaged = self.run(&Op::comm(ALL_REDUCE_F32, 28, false, loss), &[updated]);
        (0..RANKS).for_each(|r| self.wait_record(r));
        let d2h = "Memcpy DtoH (Device -> Pageable)";
        let item = Op::memory("aten::_local_scalar_dense", d2h, 7, 2, Work::Copy(4));
        self.run(&item, &[averaged])
    }

    /// The host of each rank waits for the loss, and the marker ends.
    fn end_step(&mut self, begins: [(i64, i64); RANKS], read: PerRank) {
        for (r, (id, start)) in begins.into_iter().enumerate() {
            self.synchronize(r, read[r]);
            self.ranks[r].now += 9_000;
            self.step_row(r, id, start);
            let end = self.ranks[r].now;
            self.ranks[r].steps.push((start, end));
        }
    }

    /// Launches `op` on every rank; gives its end on each. It starts when it is
    /// launched, its stream is free and every event of `after` has come.
    fn run(&mut self, op: &Op, after: &[PerRank]) -> PerRank {
        if let Work::Comm(comm) = op.work {
            self.seq[comm.group as usize] += 1;
        }
        let launches: [Launch; RANKS] = from_fn(|r| self.launch(r, op));
        let starts: PerRank = from_fn(|r| {
            let free = self.ranks[r].stream_free.get(&op.stream).copied().unwrap_or(0);
            let ready = after.iter().map(|ends| ends[r]).fold(free, i64::max) + 700;
            ready.max(launches[r].call.1 + 1_400) + self.jitter(500)
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

    /// The host's side of an op.
    fn launch(&mut self, rank: usize, op: &Op) -> Launch {
        let start = self.ranks[rank].now + 400 + self.jitter(600);
        let call = start + 4_500 + self.jitter(1_500);
        let call_end = call + 4_500 + self.jitter(1_500);
        let end = call_end + 1_200 + self.jitter(600);
        let state = &mut self.ranks[rank];
        state.now = end;
        state.last_correlation += 2;
        let id = state.next_id();
        let (external_id, annotation_id, seq) = match op.work {
            Work::Comm(comm) => (state.next_id(), state.next_id(), self.seq[comm.group as usize]),
            _ => (id, id, 0),
        };
        let correlation = state.last_correlation;
        let (op_span, call) = ((start, end), (call, call_end));
        let launch = Launch { op: op_span, call, correlation, id, external_id, annotation_id, seq };
        self.host_rows(rank, op, &launch);
        launch
    }

    /// The end of a collective on each rank: the last to come after exactly the transfer time,
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
}
