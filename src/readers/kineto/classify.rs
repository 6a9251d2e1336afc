//! What a category of Kineto means: the class of its events, and which arguments have a column.

use crate::input::json;
use crate::readers::comm_kernels::is_comm_kernel;
use crate::spool::events::{DeviceEvent, Double, Int};

/// The table that a slice or instant goes to, and its class there.
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

/// Class of a category; `Operator` is split by name.
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

/// Which arguments have a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    Device,
    Host,
    /// The arguments of an annotation that the profiler put on a device.
    Annotation,
}

/// Arguments that have a column.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) device: Int,
    pub(super) stream: Int,
    pub(super) correlation: Int,
    pub(super) external_id: Int,
    context: Int,
    bytes: Int,
    registers: Int,
    shared_memory: Int,
    grid: [Int; 3],
    block: [Int; 3],
    blocks_per_sm: Double,
    warps_per_sm: Double,
    occupancy_pct: Double,
}

/// 4294967295 and -1 say "no stream".
pub(super) fn is_stream(stream: &i64) -> bool {
    (0..i64::from(u32::MAX)).contains(stream)
}

impl Taken {
    /// Moves an argument into its column; false when it has none, or does not fit, or the column is
    /// taken (a key that comes twice).
    pub(super) fn take(&mut self, columns: Columns, key: &str, value: &str) -> bool {
        let on_device = columns != Columns::Host;
        match (key, columns) {
            ("correlation", _) => int(&mut self.correlation, value),
            ("External id" | "external id", _) => int(&mut self.external_id, value),
            ("device", _) if on_device => int(&mut self.device, value),
            ("stream", _) if on_device => {
                // What is no stream is NULL in the column, and as recorded in the arguments.
                let taken = int(&mut self.stream, value);
                self.stream = self.stream.filter(is_stream);
                taken && self.stream.is_some()
            }
            ("context", Columns::Device) => int(&mut self.context, value),
            // MTIA says `size` of a copy.
            ("bytes" | "size", Columns::Device) => int(&mut self.bytes, value),
            ("registers per thread", Columns::Device) => int(&mut self.registers, value),
            ("shared memory", Columns::Device) => int(&mut self.shared_memory, value),
            ("blocks per SM", Columns::Device) => double(&mut self.blocks_per_sm, value),
            ("warps per SM", Columns::Device) => double(&mut self.warps_per_sm, value),
            ("est. achieved occupancy %", Columns::Device) => {
                double(&mut self.occupancy_pct, value)
            }
            ("grid", Columns::Device) => triple(&mut self.grid, value),
            ("block", Columns::Device) => triple(&mut self.block, value),
            _ => false,
        }
    }

    /// The columns of a device event.
    pub(super) fn device_event(&self) -> DeviceEvent<'static> {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (self.grid, self.block);
        DeviceEvent {
            device: self.device,
            stream: self.stream,
            context: self.context,
            correlation: self.correlation,
            external_id: self.external_id,
            bytes: self.bytes,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            registers: self.registers,
            shared_memory: self.shared_memory,
            blocks_per_sm: self.blocks_per_sm,
            warps_per_sm: self.warps_per_sm,
            occupancy_pct: self.occupancy_pct,
            ..DeviceEvent::default()
        }
    }
}

fn int(column: &mut Int, value: &str) -> bool {
    if value.starts_with('"') || column.is_some() {
        return false;
    }
    *column = json::integer(value);
    column.is_some()
}

fn double(column: &mut Double, value: &str) -> bool {
    if column.is_some() {
        return false;
    }
    *column = value.parse::<f64>().ok().filter(|n| n.is_finite());
    column.is_some()
}

fn triple(columns: &mut [Int; 3], value: &str) -> bool {
    if !value.starts_with('[') || columns[0].is_some() {
        return false;
    }
    let mut numbers = json::elements(value).map(json::integer);
    match [numbers.next(), numbers.next(), numbers.next(), numbers.next()] {
        [Some(Some(x)), Some(Some(y)), Some(Some(z)), None] => {
            *columns = [Some(x), Some(y), Some(z)];
            true
        }
        _ => false,
    }
}
