//! What the ranks of a job do, one after the other: the same plan for all.

use super::World;
use super::dice::Dice;

/// An operator, the kernel that it launches, and what it says of its inputs.
pub struct Op {
    pub name: &'static str,
    pub kernel: &'static str,
    pub dims: &'static str,
    pub types: &'static str,
    pub concrete: &'static str,
    /// Of XLA: category, and name of the operation.
    pub hlo: (&'static str, &'static str),
}

const fn op(
    name: &'static str,
    kernel: &'static str,
    [dims, types, concrete]: [&'static str; 3],
    hlo: (&'static str, &'static str),
) -> Op {
    Op { name, kernel, dims, types, concrete, hlo }
}

/// Operators of forward and backward passes.
pub const OPS: [Op; 24] = [
    op(
        "aten::mm",
        "ampere_sgemm_128x128_tn",
        ["[[1000, 2000], [2000, 500]]", "[\"float\", \"float\"]", "[\"\", \"\"]"],
        ("convolution fusion", "fusion.1"),
    ),
    op(
        "aten::mm",
        "nvjet_tst_96x64_64x10_1x2_h_bz_bias_TNN",
        ["[[100, 200], [200, 50]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", "[\"\", \"\"]"],
        ("convolution fusion", "fusion.2"),
    ),
    op(
        "aten::addmm",
        "volta_sgemm_128x64_nn",
        [
            "[[500], [1000, 200], [200, 500], [], []]",
            "[\"float\", \"float\", \"float\", \"Scalar\", \"Scalar\"]",
            "[\"\", \"\", \"\", \"1\", \"1\"]",
        ],
        ("loop fusion", "fusion.3"),
    ),
    op(
        "aten::bmm",
        "cutlass_80_tensorop_bf16_s16816gemm",
        ["[[4, 100, 200], [4, 200, 300]]", "[\"c10::Half\", \"c10::Half\"]", "[\"\", \"\"]"],
        ("convolution", "convolution.4"),
    ),
    op(
        "aten::linear",
        "gemm_tf32",
        ["[[2, 5, 20], [30, 20], [30]]", "[\"double\", \"double\", \"double\"]", ""],
        ("custom-call", "custom-call.1"),
    ),
    op(
        "aten::add",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        ["[[1000], [1000], []]", "[\"float\", \"float\", \"Scalar\"]", "[\"\", \"\", \"1\"]"],
        ("non-fusion elementwise", "add.7"),
    ),
    op(
        "aten::mul",
        "triton_poi_fused_add_mul_0",
        ["[[10, 100], [100], []]", "[\"float\", \"c10::BFloat16\", \"Scalar\"]", ""],
        ("loop fusion", "multiply_fusion"),
    ),
    op(
        "aten::sum",
        "triton_red_fused_native_layer_norm_3",
        ["[[1000]]", "[\"double\"]", "[\"\", \"\", \"False\"]"],
        ("reduce", "reduce.2"),
    ),
    op(
        "aten::_flash_attention_forward",
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >",
        [
            "[[2, 128, 8, 64], [2, 128, 2, 64], [2, 128, 2, 64], [], [], [], [], [], []]",
            "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"\", \"\", \"\", \"\", \"\"]",
            "[\"\", \"\", \"\", \"\", \"\", \"128\", \"128\", \"0.\", \"True\"]",
        ],
        ("custom fusion", "attention.1"),
    ),
    op(
        "aten::embedding",
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<float>",
        ["[[100, 8], [2, 3]]", "[\"float\", \"long int\"]", "[\"\", \"\", \"-1\"]"],
        ("gather", "gather.1"),
    ),
    op(
        "aten::cudnn_convolution",
        "cudnn_infer_ampere_scudnn_winograd_128x128",
        [
            "[[2, 3, 8, 8], [4, 3, 3, 3]]",
            "[\"float\", \"float\"]",
            "[\"\", \"\", \"[1, 1]\", \"[2, 2]\", \"[1]\", \"1\", \"False\", \"False\", \"True\"]",
        ],
        ("convolution", "convolution.9"),
    ),
    op("aten::softmax", "softmax_warp_forward", ["[[8, 8]]", "[\"float\"]", ""], ("", "exp.1")),
    op(
        "aten::mse_loss",
        "void at::native::reduce_kernel<512, 1>",
        ["[[10], [10], []]", "[\"float\", \"float\", \"\"]", "[\"\", \"\", \"1\"]"],
        ("reduce", "reduce.5"),
    ),
    op(
        "aten::convolution_backward",
        "cudnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3>",
        [
            "[[2, 4, 3, 3], [2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], [], [], [], []]",
            "[\"float\", \"float\", \"float\"]",
            "[\"\", \"\", \"\", \"[4]\", \"[2, 2]\", \"[0, 0]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\", \
             \"[True, True, False]\"]",
        ],
        ("convolution", "convolution.11"),
    ),
    op(
        "aten::_flash_attention_backward",
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>",
        [
            "[[2, 128, 8, 64], [2, 128, 8, 64], [2, 128, 2, 64], [2, 128, 2, 64], \
             [2, 128, 8, 64], [2, 8, 128], [], [], [], [], [], []]",
            "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \
             \"c10::BFloat16\", \"float\", \"\", \"\", \"\", \"\", \"\", \"\"]",
            "[\"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\", \"128\", \"128\", \"0.\", \"False\"]",
        ],
        ("custom fusion", "attention.2"),
    ),
    op(
        "aten::ones_like",
        "void at::native::fill_kernel<float>",
        ["[[]]", "[\"float\"]", ""],
        ("", "one"),
    ),
    op(
        "aten::cat",
        "triton_poi_fused_cat_view_5",
        ["[[], []]", "[\"TensorList\", \"\"]", ""],
        ("", "y"),
    ),
    op(
        "vllm::moe_forward",
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32, int>(float const*)",
        ["[[16, 64], [16, 8]]", "[\"c10::BFloat16\", \"float\"]", ""],
        ("sort", "sort.3"),
    ),
    op(
        "vllm::moe_forward",
        "fused_moe_kernel",
        ["[[16, 64]]", "[\"c10::BFloat16\"]", ""],
        ("", "z"),
    ),
    op(
        "aten::native_layer_norm",
        "void at::native::vectorized_layer_norm_kernel<c10::BFloat16>",
        ["[[8, 64], [], [64], [64], []]", "[\"c10::BFloat16\", \"\", \"float\", \"float\"]", ""],
        ("loop fusion", "fusion.12"),
    ),
    op(
        "aten::linear",
        "nvjet_qqtst_128x64",
        ["[[7, 30], [20, 30]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", "[\"\", \"\"]"],
        ("custom-call", "custom-call.5"),
    ),
    op(
        "aten::baddbmm",
        "Cijk_Alik_Bljk_HHS_MT128x128",
        [
            "[[4, 5, 7], [4, 5, 6], [4, 6, 7], [], []]",
            "[\"c10::Half\", \"c10::Half\", \"c10::Half\", \"Scalar\", \"Scalar\"]",
            "[\"\", \"\", \"\", \"0\", \"1\"]",
        ],
        ("convolution fusion", "fusion.20"),
    ),
    op(
        "aten::mul_",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>",
        ["[[0, 4], [0, 4]]", "[\"float\", \"float\"]", ""],
        ("data formatting", "transpose.2"),
    ),
    op(
        "my_own::op",
        "my_own_kernel",
        ["[[3, 4], [5, 6]]", "[\"c10::Half\",\"int\"]", ""],
        ("", "x"),
    ),
];

/// What autograd starts from, in OPS.
pub const SEED: usize = 15;

/// Kinds of calls: name in the arguments, kernel, c10d operator, annotation, HLO.
pub const CALLS: [[&str; 5]; 9] = [
    [
        "allreduce",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "c10d::allreduce_",
        "all_reduce",
        "all-reduce",
    ],
    [
        "_allgather_base",
        "ncclDevKernel_AllGather_RING_LL",
        "c10d::_allgather_base_",
        "_all_gather_base",
        "all-gather",
    ],
    [
        "_reduce_scatter_base",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
        "c10d::_reduce_scatter_base_",
        "_reduce_scatter_base",
        "reduce-scatter",
    ],
    ["all_to_all", "ncclDevKernel_SendRecv", "c10d::alltoall_base_", "all_to_all", "all-to-all"],
    ["all_to_allv", "ncclDevKernel_SendRecv", "c10d::alltoall_base_", "all_to_all", "all-to-all"],
    ["broadcast", "ncclDevKernel_Broadcast_RING_LL", "c10d::broadcast_", "broadcast", ""],
    ["send", "ncclDevKernel_SendRecv", "c10d::send", "send", "send"],
    ["recv", "ncclDevKernel_SendRecv", "c10d::recv_", "recv", "recv"],
    ["barrier", "ncclDevKernel_AllReduce_Sum_i8_RING_LL", "c10d::barrier", "barrier", ""],
];

/// A group of ranks.
#[derive(Clone)]
pub struct Group {
    pub name: String,
    pub desc: &'static str,
    pub ranks: Vec<i64>,
}

/// The groups that a rank is in: all, its half, and those of its place in each half.
pub fn groups(world: &World, rank: i64) -> [Group; 3] {
    let half = (world.ranks / 2).max(1);
    let all = Group { name: "0".to_owned(), desc: "default_pg", ranks: (0..world.ranks).collect() };
    let first = rank / half * half;
    let last = (first + half).min(world.ranks);
    let tp = Group {
        name: (1 + rank / half).to_string(),
        desc: "mesh_tp",
        ranks: (first..last).collect(),
    };
    let own = rank % half;
    let dp = Group {
        name: (5 + own).to_string(),
        desc: if world.number.is_multiple_of(2) { "mesh_dp_shard" } else { "undefined" },
        ranks: (own..world.ranks).step_by(half as usize).collect(),
    };
    [all, tp, dp]
}

/// A piece of a step, the same on all ranks.
#[derive(Clone, Copy)]
pub enum Item {
    /// An operator, by its place in OPS.
    Compute(usize),
    /// A call: kind, group, elements, type, and whether it is on a stream of its own.
    Call {
        kind: usize,
        group: usize,
        elems: i64,
        dtype: &'static str,
        beside: bool,
    },
    /// A copy: direction and bytes.
    Copy(&'static str, i64),
    Set(i64),
    /// A call of the runtime that launches nothing.
    Runtime(&'static str),
    Graph,
    /// A call of gloo: on the host alone.
    Gloo(&'static str),
    /// A span begins, and the last one that began ends.
    Open(&'static str, usize),
    Close,
    /// What follows runs on another thread of the host.
    Thread(i64),
}

const RUNTIME: [&str; 9] = [
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaMalloc",
    "cudaFree",
    "cudaMemcpy",
    "cuCtxSynchronize",
    "hipExtModuleLaunchKernel",
    "cudaEventRecord",
];

const COPIES: [&str; 6] = [
    "HtoD (Pinned -> Device)",
    "HtoD (Pageable -> Device)",
    "DtoH (Device -> Pinned)",
    "DtoH (Device -> Pageable)",
    "DtoD (Device -> Device)",
    "PtoP (Device -> Device)",
];

fn call(dice: &mut Dice, kind: usize, group: usize) -> Item {
    let elems = dice.one(&[0, 1, 1000, 1000, 100_000, 100_000, 1_000_000, 25_000_000]);
    let dtype = dice.one(&["Float", "Float", "BFloat16", "Byte", "Long", "Float8_e4m3fn"]);
    Item::Call { kind, group, elems, dtype, beside: dice.chance(60) }
}

fn compute(dice: &mut Dice) -> Item {
    Item::Compute(dice.below(OPS.len() as u64) as usize)
}

/// What a step does.
pub fn step(world: &World, step: i64) -> Vec<Item> {
    let mut dice = Dice::new(&[world.number, 77, step as u64]);
    let dice = &mut dice;
    let mut plan = Vec::new();
    if step == 0 && world.has("warm") {
        plan.extend([Item::Runtime("cudaMalloc"); 3]);
    }
    load(dice, &mut plan);
    if world.has("engine") {
        plan.push(Item::Open("engine", step as usize));
    }
    plan.push(Item::Open("forward", 0));
    for layer in 0..2 {
        forward(world, dice, layer, &mut plan);
    }
    plan.push(Item::Close);
    if world.has("engine") {
        plan.push(Item::Close);
    } else {
        plan.extend((0..dice.of(0, 2)).map(|_| Item::Compute(SEED)));
        plan.push(Item::Thread(2));
        for layer in [1, 0] {
            backward(world, dice, layer, &mut plan);
        }
        if world.has("fsdp") {
            plan.extend([Item::Open("root_post_backward_callback", 0), Item::Close]);
        }
        plan.push(Item::Thread(1));
        plan.push(Item::Open("optimizer", 0));
        plan.extend([compute(dice), Item::Runtime(dice.one(&RUNTIME))]);
        plan.push(Item::Close);
    }
    if dice.chance(60) {
        plan.extend([Item::Copy(dice.one(&COPIES), 8), Item::Runtime(dice.one(&RUNTIME))]);
    }
    if dice.chance(50) {
        plan.push(call(dice, 8, 0));
    }
    plan
}

fn load(dice: &mut Dice, plan: &mut Vec<Item>) {
    if dice.chance(70) {
        plan.push(Item::Open("loader", 0));
        plan.push(Item::Copy(dice.one(&COPIES), dice.one(&[0, 100, 1000, 1 << 20])));
        plan.push(Item::Close);
    }
    if dice.chance(50) {
        plan.push(Item::Open("zero_grad", 0));
        plan.push(Item::Set(dice.one(&[0, 64, 1 << 16])));
        plan.push(Item::Close);
    }
}

fn forward(world: &World, dice: &mut Dice, layer: usize, plan: &mut Vec<Item>) {
    if world.has("fsdp") {
        plan.extend([Item::Open("pre_forward", layer), Item::Open("all_gather", layer)]);
        plan.extend([Item::Open("all_gather_copy_in", layer), compute(dice), Item::Close]);
        plan.extend([call(dice, 1, 0), Item::Close]);
        plan.extend([Item::Open("all_gather_copy_out", layer), compute(dice), Item::Close]);
        plan.push(Item::Close);
    }
    plan.push(Item::Open("layer", layer));
    plan.extend((0..dice.of(1, 3)).map(|_| compute(dice)).collect::<Vec<_>>());
    if world.has("tp") {
        plan.push(Item::Open("tensor_parallel", 0));
        plan.extend([call(dice, 0, 1), Item::Close]);
    }
    if world.has("moe") {
        plan.push(Item::Compute(dice.one(&[18, 19])));
        let kind = dice.one(&[3, 4]);
        plan.extend([call(dice, kind, 0), compute(dice), call(dice, kind, 0)]);
    }
    if world.has("graph") && dice.chance(40) {
        plan.push(Item::Graph);
    }
    plan.push(Item::Close);
    if world.has("fsdp") && dice.chance(70) {
        plan.extend([Item::Open("reshard", layer), compute(dice), Item::Close]);
    }
    if world.has("p2p") {
        plan.push(Item::Open("stage", layer));
        plan.extend([call(dice, 6, 0), call(dice, 7, 0), Item::Close]);
    }
    if dice.chance(30) {
        plan.push(Item::Runtime(dice.one(&RUNTIME)));
    }
}

fn backward(world: &World, dice: &mut Dice, layer: usize, plan: &mut Vec<Item>) {
    plan.push(Item::Open("evaluate", layer));
    if world.has("fsdp") {
        plan.push(Item::Open("prefetch", layer));
        plan.extend([call(dice, 1, 0), Item::Close]);
    }
    plan.extend((0..dice.of(1, 2)).map(|_| compute(dice)).collect::<Vec<_>>());
    if world.has("fsdp") {
        let words = ["post_backward", "post_backward_reduce", "post_backward_reshard", "wait"];
        plan.push(Item::Open(dice.one(&words), layer));
        plan.extend([call(dice, 2, 0), compute(dice), Item::Close]);
    }
    if world.has("ddp") {
        let group = dice.one(&[0, 2]);
        plan.push(call(dice, 0, group));
        plan.extend([Item::Open("bucket", 0), compute(dice), Item::Close]);
    }
    if dice.chance(20) {
        plan.push(call(dice, 5, 0));
    }
    if world.has("gloo") {
        plan.push(Item::Gloo(dice.one(&["all_reduce", "all_gather", "broadcast", "barrier"])));
    }
    plan.push(Item::Close);
    if dice.chance(30) {
        plan.extend([Item::Open("accumulate", 0), compute(dice), Item::Close]);
    }
}
