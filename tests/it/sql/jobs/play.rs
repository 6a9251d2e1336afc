//! A small event simulation in whole nanoseconds that plays five steps of a [`Plan`], and writes a
//! Kineto trace for each rank.
//!
//! The host launches ahead of the devices and waits once a step, for the last kernel of the
//! backward pass: the optimizer ends after the step on the host.

use std::array::from_fn;
use std::collections::BTreeMap;

use crate::sql::jobs::plan::{PerRank, Plan, RANKS, Sync};
use crate::support::kineto::{Args, Span, index, slice};

const STEPS: i64 = 5;
const EPOCH_NS: i64 = 1_000_000_000;
const COMPUTE: i64 = 7;
const LOADER: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
const PAGEABLE: [&str; 2] =
    ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Tp,
    Dp,
    Ep,
}

impl Group {
    /// Ranks of the group that `rank` is in; rank = 2 x dp index + tp index.
    fn members(self, rank: usize) -> Vec<usize> {
        match self {
            Group::Tp => vec![rank / 2 * 2, rank / 2 * 2 + 1],
            Group::Dp => (0..RANKS).filter(|r| r % 2 == rank % 2).collect(),
            Group::Ep => (0..RANKS).collect(),
        }
    }

    /// Name, which each rank set has for itself, and description.
    fn names(self, rank: usize) -> (usize, &'static str) {
        match self {
            Group::Tp => (10 + rank / 2, "mesh_tp"),
            Group::Dp => (20 + rank % 2, "mesh_dp"),
            Group::Ep => (30, "mesh_ep"),
        }
    }

    /// Kind, kernel, stream; steps of its ring, nanoseconds of each, and picoseconds for a byte.
    fn call(self) -> (&'static str, &'static str, i64, i64, i64, i64) {
        match self {
            // 250 GB/s.
            Group::Tp => ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 2, 3_000, 4),
            // 66.7 GB/s.
            Group::Dp => {
                ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_f32", 24, 3, 9_000, 15)
            }
            Group::Ep => ("all_to_allv", "ncclDevKernel_SendRecv", 28, 1, 12_000, 20),
        }
    }
}

/// A call over its ranks, by a clock that all share: who starts when.
pub struct Call {
    starts: Vec<(usize, i64)>,
}

impl Call {
    fn last(&self) -> (usize, i64) {
        self.starts.iter().copied().max_by_key(|s| s.1).unwrap_or_default()
    }

    fn lag_ns(&self) -> i64 {
        self.last().1 - self.starts.iter().map(|s| s.1).min().unwrap_or_default()
    }
}

/// A job that was played.
pub struct Sim {
    plan: Plan,
    lcg: u64,
    host: PerRank,
    free: BTreeMap<(usize, i64), i64>,
    correlation: i64,
    op: i64,
    seq: BTreeMap<Group, i64>,
    rows: [String; RANKS],
    calls: Vec<Call>,
    /// The steps of each rank as the host marks them, by a clock that all share.
    pub steps: Vec<[Span; RANKS]>,
}

impl Sim {
    pub fn play(plan: Plan) -> Sim {
        let mut sim = Sim {
            plan,
            lcg: 77,
            host: [EPOCH_NS; RANKS],
            free: BTreeMap::new(),
            correlation: 0,
            op: 0,
            seq: BTreeMap::new(),
            rows: from_fn(|_| String::new()),
            calls: Vec::new(),
            steps: Vec::new(),
        };
        for step in 0..plan.early_steps + STEPS {
            if step == plan.early_steps {
                sim.rows = from_fn(|_| String::new());
                sim.calls.clear();
                sim.steps.clear();
            }
            sim.play_step(step);
        }
        sim
    }

    /// 0 to `limit` - 1, from Knuth's MMIX generator.
    fn jitter(&mut self, limit: i64) -> i64 {
        self.lcg = self
            .lcg
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.lcg >> 33).unwrap_or_default() % limit
    }

    fn play_step(&mut self, step: i64) {
        let begins: PerRank = from_fn(|r| {
            self.host[r] += 20_000;
            self.host[r]
        });
        (0..RANKS).for_each(|r| self.read_input(r));
        let exchange = if self.plan.has_experts { Group::Ep } else { Group::Tp };
        let mut met = [0; RANKS];
        for layer in 1..=4 {
            if layer == 3 {
                self.host.iter_mut().for_each(|host| *host += self.plan.stall_ns);
            }
            met = self.layer(600_000, self.plan.pieces, exchange, layer, met);
            match self.plan.sync {
                Some(Sync::Device) => (0..RANKS).for_each(|r| self.synchronize(r)),
                Some(Sync::Item) => (0..RANKS).for_each(|r| self.item(r, met[r])),
                None => {}
            }
        }
        let mut scattered = met;
        for (layer, bytes) in (1..).zip(self.plan.gradient_bytes) {
            met = self.layer(1_000_000, 1, exchange, layer, met);
            scattered = self.collective(Group::Dp, bytes, met);
        }
        let differentiated: PerRank = from_fn(|r| self.free[&(r, COMPUTE)]);
        for _ in 0..self.plan.small_calls {
            scattered = self.collective(Group::Dp, 4096, scattered);
        }
        self.compute("adam_kernel", 500_000, 1, self.plan.pace, scattered);
        for r in 0..RANKS {
            self.wait("cudaEventSynchronize", 131, r, differentiated[r]);
            let span = (begins[r], self.host[r]);
            self.host_row("user_annotation", &format!("ProfilerStep#{step}"), r, span, Args::id(0));
        }
        self.steps.push(from_fn(|r| (begins[r], self.host[r])));
    }

    /// The host waits for its input, and copies it.
    fn read_input(&mut self, rank: usize) {
        self.host[rank] += self.plan.sleep_ns[rank];
        if self.plan.load_ns[rank] > 0 {
            let start = self.host[rank];
            self.host[rank] += self.plan.load_ns[rank];
            self.host_row("user_annotation", LOADER, rank, (start, self.host[rank]), Args::id(0));
        }
        if self.plan.copy_bytes > 0 {
            let start = self.host[rank];
            // 10 GB/s.
            self.copy(rank, PAGEABLE[0], self.plan.copy_bytes, self.plan.copy_bytes / 10, 0);
            self.op_row("aten::copy_", rank, start - 2_000);
        }
    }

    /// A kernel that all ranks run, then their exchange; of experts, tokens go out and come back.
    fn layer(
        &mut self,
        ns: i64,
        pieces: i64,
        exchange: Group,
        layer: i64,
        met: PerRank,
    ) -> PerRank {
        self.host.iter_mut().for_each(|host| *host += self.plan.host_ns);
        let bytes = layer * self.plan.exchange_bytes;
        let attended = self.compute("gemm_kernel", ns, pieces, self.plan.pace, met);
        let sent = self.collective(exchange, bytes, attended);
        if !self.plan.has_experts {
            return sent;
        }
        let expert = self.compute("expert_gemm_kernel", ns / 2, 1, self.plan.experts, sent);
        self.collective(exchange, bytes, expert)
    }

    /// The value of a tensor that is there at `after`: 4 bytes, which the host waits for.
    fn item(&mut self, rank: usize, after: i64) {
        let start = self.host[rank];
        self.host[rank] += 2_000;
        self.copy(rank, PAGEABLE[1], 4, 1_500, after);
        self.op_row("aten::_local_scalar_dense", rank, start + 1_000);
        self.op += 1;
        self.op_row("aten::item", rank, start);
    }

    /// A copy of pageable memory, which the host waits for.
    fn copy(&mut self, rank: usize, name: &str, bytes: i64, ns: i64, after: i64) {
        self.op += 1;
        let (start, correlation) = self.launch(rank, "cudaMemcpyAsync", COMPUTE, after, self.op);
        let end = start + ns;
        let args = device_args(rank, COMPUTE, correlation, self.op).raw("bytes", bytes);
        self.busy_row("gpu_memcpy", name, rank, COMPUTE, (start, end), args);
        self.wait("cudaStreamSynchronize", 131, rank, end);
    }

    fn synchronize(&mut self, rank: usize) {
        let streams = self.free.iter().filter(|(key, _)| key.0 == rank);
        let last = streams.map(|(_, end)| *end).max().unwrap_or_default();
        self.wait("cudaDeviceSynchronize", 165, rank, last);
    }

    /// A call that returns when the device has come to `until`.
    fn wait(&mut self, call: &str, cbid: i64, rank: usize, until: i64) {
        let start = self.host[rank] + 500;
        self.host[rank] = until.max(start) + 3_000;
        self.correlation += 1;
        let args = Args::id(0).raw("cbid", cbid).raw("correlation", self.correlation);
        self.host_row("cuda_runtime", call, rank, (start, self.host[rank]), args);
    }

    /// The host launches; the event starts when it is launched, its stream is free and `after` has
    /// come.
    fn launch(&mut self, rank: usize, call: &str, stream: i64, after: i64, op: i64) -> (i64, i64) {
        let start = self.host[rank] + 1_000 + self.jitter(300);
        let end = start + 4_000;
        self.host[rank] = end;
        self.correlation += 1;
        let args = Args::id(op).raw("cbid", 211).raw("correlation", self.correlation);
        self.host_row("cuda_runtime", call, rank, (start, end), args);
        let free = self.free.get(&(rank, stream)).copied().unwrap_or_default();
        (free.max(after).max(end) + 1_000, self.correlation)
    }

    /// The same work on all ranks, in as many kernels.
    fn compute(
        &mut self,
        name: &str,
        ns: i64,
        pieces: i64,
        pace: PerRank,
        after: PerRank,
    ) -> PerRank {
        let mut done = after;
        for _ in 0..pieces {
            done = from_fn(|r| {
                let (start, correlation) = self.launch(r, "cudaLaunchKernel", COMPUTE, done[r], 0);
                let end = start + ns / pieces * pace[r] / 1000 + self.jitter(2_000 / pieces);
                let args = device_args(r, COMPUTE, correlation, 0);
                self.busy_row("kernel", name, r, COMPUTE, (start, end), args);
                end
            });
        }
        done
    }

    /// Each rank starts when it comes; all leave together, after the transfer, when the last has.
    fn collective(&mut self, group: Group, bytes: i64, after: PerRank) -> PerRank {
        let (kind, kernel, stream, ring_steps, alpha_ns, ps_per_byte) = group.call();
        let seq = self.seq.entry(group).or_default();
        *seq += 1;
        let seq = *seq;
        let launches: [(i64, i64); RANKS] =
            from_fn(|r| self.launch(r, "cudaLaunchKernelExC", stream, after[r], 0));
        let ends: PerRank = from_fn(|r| {
            let members = group.members(r);
            let last = members.iter().map(|m| launches[*m].0).max().unwrap_or_default();
            let part = bytes / index(members.len());
            let is_odd = group == Group::Dp && r % 2 == 1;
            let slower = if is_odd { self.plan.odd_link } else { 1 };
            last + ring_steps * (alpha_ns + part * ps_per_byte * slower / 1000)
        });
        for r in 0..RANKS {
            let members = group.members(r);
            if members[0] == r {
                let starts = members.iter().map(|m| (*m, launches[*m].0)).collect();
                self.calls.push(Call { starts });
            }
            let (start, correlation) = launches[r];
            let ranks: Vec<String> = members.iter().map(ToString::to_string).collect();
            let (name, description) = group.names(r);
            let (sent, received) = self.elements(group, bytes / 4, r, seq);
            let args = device_args(r, stream, correlation, 0)
                .text("Collective name", kind)
                .raw("In msg nelems", sent)
                .raw("Out msg nelems", received)
                .raw("Group size", members.len())
                .text("dtype", "Float")
                .text("Process Group Name", &name.to_string())
                .text("Process Group Description", description)
                .text("Process Group Ranks", &format!("[{}]", ranks.join(", ")))
                .raw("Seq", seq);
            self.busy_row("kernel", kernel, r, stream, (start, ends[r]), args);
        }
        ends
    }

    /// Elements that go into a call and come out of it. Tokens go to the experts and come back, in
    /// turns.
    fn elements(&self, group: Group, elements: i64, rank: usize, seq: i64) -> (i64, i64) {
        let own = elements * self.plan.experts[rank] / 1000;
        let even = elements * self.plan.experts.iter().sum::<i64>() / index(RANKS) / 1000;
        match group {
            Group::Tp => (elements, elements),
            Group::Dp => (elements, elements / 4),
            Group::Ep if seq % 2 == 1 => (even, own),
            Group::Ep => (own, even),
        }
    }

    /// An operator that ends now.
    fn op_row(&mut self, name: &str, rank: usize, start: i64) {
        self.host[rank] += 1_000;
        self.host_row("cpu_op", name, rank, (start, self.host[rank]), Args::op(self.op));
    }

    fn host_row(&mut self, cat: &str, name: &str, rank: usize, span: Span, args: Args) {
        let host = 4000 + index(rank);
        let span = self.by_its_clock(rank, span);
        self.rows[rank] += &slice(cat, name, host, host, span, args);
    }

    fn busy_row(
        &mut self,
        cat: &str,
        name: &str,
        rank: usize,
        stream: i64,
        span: Span,
        args: Args,
    ) {
        self.free.insert((rank, stream), span.1);
        let span = self.by_its_clock(rank, span);
        self.rows[rank] += &slice(cat, name, index(rank), stream, span, args);
    }

    fn by_its_clock(&self, rank: usize, (start, end): Span) -> Span {
        (start + self.plan.clock_ns[rank], end + self.plan.clock_ns[rank])
    }

    pub fn trace_json(&self, rank: usize) -> String {
        format!(
            "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\
             \"world_size\":{RANKS}}},\"baseTimeNanoseconds\":0,\"traceEvents\":[\n{}\n]}}\n",
            self.rows[rank].trim_end_matches(",\n")
        )
    }

    /// Calls in which each rank is last.
    pub fn last_counts(&self) -> BTreeMap<String, i64> {
        let mut out = BTreeMap::new();
        for call in &self.calls {
            *out.entry(call.last().0.to_string()).or_default() += 1;
        }
        out
    }

    pub fn mean_lag_us(&self) -> f64 {
        let total: i64 = self.calls.iter().map(Call::lag_ns).sum();
        total as f64 / self.calls.len() as f64 / 1e3
    }

    /// Mean over ranks of the time from start to next start of the steps, but for the first and the
    /// last.
    pub fn step_ms(&self) -> f64 {
        let last = self.steps.len() - 1;
        let lengths = (0..RANKS).map(|r| self.steps[last][r].0 - self.steps[1][r].0);
        lengths.sum::<i64>() as f64 / (RANKS * (last - 1)) as f64 / 1e6
    }
}

fn device_args(rank: usize, stream: i64, correlation: i64, op: i64) -> Args {
    Args::id(op).raw("device", rank).raw("stream", stream).raw("correlation", correlation)
}
