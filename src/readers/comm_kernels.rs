//! Kernels that carry communication, known by their names.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// What the name of a kernel of communication holds, in lower case.
///
/// Sources: NCCL and RCCL kernel names; vLLM `cross_device_reduce` and quick reduce, TensorRT-LLM
/// and FlashInfer `allreduce_fusion`, `oneShotAllReduceKernel` and `moeAllToAllKernel`, PyTorch
/// symmetric memory `one_shot_all_reduce` and kin, NVSHMEM, MSCCL++, DeepEP, MORI `EpDispatch...`,
/// pplx-kernels.
const COMM_PARTS: [&str; 21] = [
    "nccldevkernel",
    "ncclkernel",
    "rcclgenerickernel",
    "cross_device_reduce",
    "quickreduce::",
    "allreduce_fusion",
    "shotallreduce",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "multimem_",
    "c10d::symmetric_memory::",
    "nvshmem",
    "mscclpp",
    "deep_ep::",
    "pplx::",
    "a2a_dispatch",
    "a2a_combine",
    "moealltoall",
    "moea2a",
    "epdispatch",
    "epcombine",
];

/// Name spaces of expert parallelism, and the functions in them that exchange tokens: forks of
/// DeepEP keep both (`dpsk::ep::internode::dispatch`).
const EP_SPACES: [&str; 2] = ["::ep::", "hybrid_ep::"];
const EP_EXCHANGES: [&str; 3] = ["dispatch", "combine", "notify"];
/// What only counts on its own device where tokens will go.
const EP_LOCAL: &str = "get_dispatch_layout";

/// Kernels of communication, by name (the part of the rule that needs no arguments).
///
/// `sql/data/kernel_patterns.sql` says the same of these names, with the library of each.
pub fn is_comm_kernel(name: &str) -> bool {
    fn any_of(parts: &[&str]) -> AhoCorasick {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(parts)
            .expect("the patterns are few and short")
    }
    static PARTS: LazyLock<AhoCorasick> = LazyLock::new(|| any_of(&COMM_PARTS));
    static SPACES: LazyLock<AhoCorasick> = LazyLock::new(|| any_of(&EP_SPACES));
    static EXCHANGES: LazyLock<AhoCorasick> = LazyLock::new(|| any_of(&EP_EXCHANGES));
    let head = name.as_bytes().get(..4).unwrap_or_default();
    let exchanges = || {
        SPACES.find(name).is_some_and(|space| EXCHANGES.is_match(&name[space.end()..]))
            || PARTS.is_match(name)
    };
    head.eq_ignore_ascii_case(b"nccl")
        || head.eq_ignore_ascii_case(b"rccl")
        || exchanges() && !name.contains(EP_LOCAL)
}

#[cfg(test)]
mod tests {
    use super::is_comm_kernel;

    #[test]
    fn kernels_that_communicate() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
            "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymDevArgs)",
            "RcclDevKernel_1(void)",
            "void dpsk::ep::internode::dispatch<false, 8>(int4*)",
            "void dpsk::ep::internode::cached_notify<false>(int)",
            "void fork::ep::intranode::combine<__nv_bfloat16, 8>(__nv_bfloat16*)",
            "void hybrid_ep::dispatch_kernel<4>(void)",
            "void Dpsk::EP::Internode::Combine<4>(int)",
            "nvshmemi_barrier_on_stream_kernel(int)",
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(void)",
        ] {
            assert!(is_comm_kernel(name), "{name}");
        }
        for name in [
            "void deepspeed::step::dispatch<4>(int)",
            "void moe::dispatch_tokens(int)",
            "void ep::permute(int)",
            "void dpsk::ep::layout::get_dispatch_layout<4>(int)",
            "void deep_ep::layout::get_dispatch_layout<4>(int)",
            "void dpsk::ep::layout::count(int)",
            "triton_poi_fused_all_reduce_add_wait_tensor_3",
            "void LayerNorm<cub::BlockAllReduce<float>>(float*)",
            "",
            "nc",
        ] {
            assert!(!is_comm_kernel(name), "{name}");
        }
    }
}
