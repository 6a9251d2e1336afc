//! What a category of Kineto means: the class of its events, and which arguments have a column.

use crate::input::json;
use crate::readers::comm_kernels::is_comm_kernel;

/// Where a slice or instant goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Device(&'static str),
    Host(&'static str),
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
