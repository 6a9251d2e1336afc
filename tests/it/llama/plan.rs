//! The jobs: their sizes and delays, the groups, collectives and operations of a step.

pub const RANKS: usize = 4;
pub const STEPS: i64 = 4;
pub const FIRST_STEP: i64 = 10;
pub const LAYERS: usize = 2;
pub const STRAGGLER: usize = 2;
/// Time that rank 2 needs more for the first kernel of a layer, so before every tp call.
pub const STRAGGLER_GEMM_NS: i64 = 120_000;
/// Time that rank 2 needs more for the optimizer, so before the call on `default_pg`.
pub const STRAGGLER_OPTIMIZER_NS: i64 = 20_000;
/// Delay of the host of rank 2 at the start of a step, so before the first all_gather.
pub const STRAGGLER_HOST_NS: i64 = 25_000;
/// Without a straggler the ranks of a call start within this.
pub const BALANCED_LAG_NS: i64 = 10_000;
/// Time that a call beside flash attention may run before it.
pub const BARE_NS: i64 = 500;
/// Latency of one ring step.
pub const ALPHA_NS: i64 = 6_000;
/// Bandwidth of a link: beta is 1/128 ns per byte, a power of two so that transfers are exact.
pub const BYTES_PER_NS: i64 = 128;
pub const MIB: i64 = 1 << 20;
pub const BATCH_SIZE: i64 = 16;
pub const SEQ_LEN: i64 = 2048;

/// A number for each rank.
pub type PerRank = [i64; RANKS];

/// The differences between the two jobs.
pub struct Plan {
    pub name: &'static str,
    /// Rank 2 gets the delays above.
    pub straggler: bool,
    /// The tp `all_reduce` of layer 1 waits for the gemm alone and runs beside flash attention.
    pub beside_attention: bool,
    /// With arrows in the first step, annotations of collectives and every argument; without them
    /// the files are smaller and say the same.
    pub full_rows: bool,
    /// Paragraph of the README after the first, of what this job is to the other.
    pub pair: &'static str,
    /// README: the `all_reduce` of layer 1 and the dp calls, and the delays.
    pub layer_1: &'static str,
    pub delays: &'static str,
    /// README: rows that are no work, and rows left out.
    pub rows: &'static str,
    /// Lines of the card about the job.
    pub card: &'static str,
}

impl Plan {
    /// `ns` if the rank is the straggler of the job.
    pub fn late(&self, rank: usize, ns: i64) -> i64 {
        if self.straggler && rank == STRAGGLER { ns } else { 0 }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Group {
    World,
    Dp,
    Tp,
}

impl Group {
    /// Ranks of the group that `rank` is in; rank = 2 x dp index + tp index.
    pub fn members(self, rank: usize) -> Vec<usize> {
        match self {
            Group::World => (0..RANKS).collect(),
            Group::Dp => vec![rank % 2, rank % 2 + 2],
            Group::Tp => vec![rank / 2 * 2, rank / 2 * 2 + 1],
        }
    }

    pub fn size(self) -> i64 {
        if self == Group::World { 4 } else { 2 }
    }

    /// `new_group` counts on every rank, so each rank set has a name of its own.
    pub fn name(self, rank: usize) -> usize {
        match self {
            Group::World => 0,
            Group::Dp => 1 + rank % 2,
            Group::Tp => 3 + rank / 2,
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Group::World => "default_pg",
            Group::Dp => "mesh_dp",
            Group::Tp => "mesh_tp",
        }
    }

    pub fn ranks_text(self, rank: usize) -> String {
        let ranks: Vec<_> = self.members(rank).iter().map(ToString::to_string).collect();
        format!("[{}]", ranks.join(", "))
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter];

    /// Canonical name, c10d op, NCCL annotation, `Collective name`.
    pub fn names(self) -> [&'static str; 4] {
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

    pub fn calls_by_type_field(self) -> &'static str {
        match self {
            Kind::AllReduce => "calls_by_type.all_reduce",
            Kind::AllGather => "calls_by_type.all_gather",
            Kind::ReduceScatter => "calls_by_type.reduce_scatter",
        }
    }
}

/// A collective; `bytes` is S: output of all_gather, input of reduce_scatter, else the buffer.
#[derive(Clone, Copy)]
pub struct Comm {
    pub kind: Kind,
    pub group: Group,
    pub bytes: i64,
    pub dtype: &'static str,
    pub element_bytes: i64,
}

impl Comm {
    /// Numbers of 2 bytes.
    pub fn bf16(kind: Kind, group: Group, bytes: i64) -> Comm {
        Comm { kind, group, bytes, dtype: "BFloat16", element_bytes: 2 }
    }

    /// Numbers of 4 bytes.
    pub fn f32(kind: Kind, group: Group, bytes: i64) -> Comm {
        Comm { kind, group, bytes, dtype: "Float", element_bytes: 4 }
    }

    /// Steps of the ring.
    pub fn ring_steps(&self) -> i64 {
        let once = self.group.size() - 1;
        if self.kind == Kind::AllReduce { 2 * once } else { once }
    }

    /// T = steps x (alpha + S/n x beta), whole nanoseconds.
    pub fn transfer_ns(&self) -> i64 {
        let moved = self.ring_steps() * self.bytes / (self.group.size() * BYTES_PER_NS);
        self.ring_steps() * ALPHA_NS + moved
    }

    /// Bytes that one rank sends: steps x S/n (metrics.md 1.4).
    pub fn wire_bytes(&self) -> i64 {
        self.ring_steps() * self.bytes / self.group.size()
    }

    /// Elements of a rank's input and output.
    pub fn elements(&self) -> (i64, i64) {
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
pub enum Work {
    /// Grid, threads of a block, registers, shared memory, occupancy.
    Compute([i64; 5]),
    Copy(i64),
    Set(i64),
    Comm(Comm),
}

/// Place of an op in the autograd graph, with its sequence number.
#[derive(Clone, Copy, PartialEq)]
pub enum Autograd {
    None,
    Forward(i64),
    Backward(i64),
}

/// One operation, launched by all ranks.
#[derive(Clone, Copy)]
pub struct Op {
    pub host: &'static str,
    pub device: &'static str,
    pub stream: i64,
    pub work: Work,
    pub duration_ns: i64,
    pub straggler_ns: i64,
    pub autograd: Autograd,
    /// Launched by the thread of the autograd engine.
    pub backward: bool,
}

impl Op {
    pub fn compute(host: &'static str, device: &'static str, us: i64, shape: [i64; 5]) -> Op {
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

    pub fn comm(device: &'static str, stream: i64, backward: bool, comm: Comm) -> Op {
        let op = Op::compute(comm.kind.names()[1], device, 0, [0; 5]);
        Op { stream, backward, work: Work::Comm(comm), ..op }
    }

    pub fn memory(
        host: &'static str,
        device: &'static str,
        stream: i64,
        us: i64,
        work: Work,
    ) -> Op {
        Op { stream, work, ..Op::compute(host, device, us, [0; 5]) }
    }
}

pub const GEMM: &str = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT";
pub const FLASH: &str =
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(flash::Flash_fwd_params)";
pub const ADD: &str = "void at::native::vectorized_elementwise_kernel<4, \
    at::native::CUDAFunctor_add<c10::BFloat16> >(int)";
pub const GEMM_BACKWARD: &str = "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNT";
pub const ADAM: &str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<\
    FusedAdamMathFunctor<float, 4> >(int)";
pub const ALL_REDUCE_BF16: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub const ALL_REDUCE_F32: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub const REDUCE_SCATTER: &str =
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

pub static PLANS: [Plan; 2] = [
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
