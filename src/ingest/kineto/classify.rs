//! What a category of Kineto means: the class of its events, and which arguments have a column.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::super::json;

/// Where a slice or instant goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Device(&'static str),
    Host(&'static str),
}

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

/// Class of a kernel: what is no communication and no copy or set in disguise computes.
fn kernel(name: &str, args: &[(&str, &str)]) -> Target {
    let named = || args.iter().any(|(key, _)| *key == "Collective name");
    Target::Device(if name.contains("__amd_rocclr_fillBuffer") {
        "set"
    } else if name.contains("__amd_rocclr_copyBuffer") {
        "copy"
    } else if is_comm_kernel(name) || named() {
        "comm"
    } else {
        "compute"
    })
}

/// Class of a category; `Operator` is split by name in [`Events::target`].
pub(super) fn target(category: &str, name: &str, args: &[(&str, &str)]) -> Target {
    match category {
        "kernel" | "Kernel" => kernel(name, args),
        "gpu_memcpy" | "Memcpy" => Target::Device("copy"),
        "gpu_memset" | "Memset" => Target::Device("set"),
        "mtia_ccp_events" => match name {
            "dma_request" => Target::Device("copy"),
            // event_wait, event_record, cb_wait: the order between streams, and no work.
            _ if name.ends_with("_wait") || name.ends_with("_record") => {
                Target::Host("device_annotation")
            }
            _ => kernel(name, args),
        },
        "gpu_user_annotation" | "cuda_sync" => Target::Host("device_annotation"),
        "cuda_runtime"
        | "cuda_driver"
        | "mtia_runtime"
        | "xpu_runtime"
        | "xpu_driver"
        | "privateuse1_runtime"
        | "privateuse1_driver"
        | "Runtime" => Target::Host("host_runtime"),
        "cpu_op" => Target::Host("host_op"),
        "Operator" => {
            let marker = name.starts_with("ProfilerStep#")
                || name.starts_with("Optimizer.")
                || name.starts_with("enumerate(DataLoader)");
            Target::Host(if marker { "host_annotation" } else { "host_op" })
        }
        "user_annotation" => Target::Host("host_annotation"),
        "python_function" => Target::Host("python"),
        _ => Target::Host("other"),
    }
}

/// Place of the stream among the integers.
pub(super) const STREAM: usize = 1;

/// The column of integers of an argument of a device event.
fn device_int(key: &str) -> Option<usize> {
    Some(match key {
        "device" => 0,
        "stream" => STREAM,
        "context" => 2,
        "correlation" => 3,
        "External id" | "external id" => 4,
        "bytes" => 5,
        "registers per thread" => 6,
        "shared memory" => 7,
        _ => return None,
    })
}

/// The column of integers of an argument of a host event.
fn host_int(key: &str) -> Option<usize> {
    Some(match key {
        "correlation" => 3,
        "External id" | "external id" => 4,
        _ => return None,
    })
}

/// Which arguments have a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    Device,
    Host,
    /// Of an annotation that the profiler put on a device.
    Annotation,
}

/// Moves an integer argument into its column; false when it has none, or is no plain integer, or
/// the column is taken (a key that comes twice).
pub(super) fn take_int(
    columns: Columns,
    key: &str,
    value: &str,
    ints: &mut [Option<i64>; 8],
) -> bool {
    let column = match columns {
        Columns::Device => device_int(key),
        Columns::Host => host_int(key),
        Columns::Annotation => host_int(key).or(match key {
            "device" => Some(0),
            "stream" => Some(STREAM),
            _ => None,
        }),
    };
    let Some(column) = column else { return false };
    if value.starts_with('"') || ints[column].is_some() {
        return false;
    }
    // 4294967295 and -1 say "no stream": NULL in the column, and as recorded in the arguments.
    ints[column] =
        json::integer(value).filter(|v| column != STREAM || (0..i64::from(u32::MAX)).contains(v));
    ints[column].is_some()
}

pub(super) fn take_double(key: &str, value: &str, doubles: &mut [Option<f64>; 3]) -> bool {
    let column = match key {
        "blocks per SM" => 0,
        "warps per SM" => 1,
        "est. achieved occupancy %" => 2,
        _ => return false,
    };
    let number = value.parse::<f64>().ok();
    match number.filter(|n| n.is_finite() && doubles[column].is_none()) {
        Some(number) => {
            doubles[column] = Some(number);
            true
        }
        None => false,
    }
}

pub(super) fn take_triple(value: &str, out: &mut [Option<i64>]) -> bool {
    if !value.starts_with('[') || out[0].is_some() {
        return false;
    }
    let mut numbers = json::elements(value).map(json::integer);
    match [numbers.next(), numbers.next(), numbers.next(), numbers.next()] {
        [Some(Some(x)), Some(Some(y)), Some(Some(z)), None] => {
            out.copy_from_slice(&[Some(x), Some(y), Some(z)]);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_comm_kernel;

    #[test]
    fn kernels_that_communicate() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
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
