//! The rows of a job as JSON, and the traces that they make.
//!
//! The form is that of 2024 and later (formats_kineto.md, generation C): decimal microseconds
//! relative to `baseTimeNanoseconds`, which stands *after* the events; `External id` names the CPU
//! op; NCCL arguments lie on the kernels too.

use crate::llama::plan::{Autograd, Comm, FIRST_STEP, Group, MIB, Op, RANKS, Work};
use crate::llama::play::{EPOCH_NS, Launch, Sim};
use crate::support::kineto::{Args, Span, decimal, flow, index, slice, us};

/// 2025-01-01T00:00:00Z: Kineto's base is a coarse constant, and `ts` stays large (1e12 us).
const BASE_NS: i64 = 1_735_689_600_000_000_000;
const SM_COUNT: i64 = 132;
const DEVICE: &str = "\"name\":\"NVIDIA H100 80GB HBM3\",\"totalGlobalMem\":85029158912,\
    \"computeMajor\":9,\"computeMinor\":0,\"maxThreadsPerBlock\":1024,\
    \"maxThreadsPerMultiprocessor\":2048,\"regsPerBlock\":65536,\"warpSize\":32,\
    \"sharedMemPerBlock\":49152";

/// The host process of a rank; never equal to a device number.
fn pid(rank: usize) -> i64 {
    4100 + index(rank)
}

impl Sim {
    /// The host's side of an op: its slice, the record of a collective, the call to the runtime.
    pub fn host_rows(&mut self, rank: usize, op: &Op, launch: &Launch) {
        let (host, full_rows, step) = (pid(rank), self.plan.full_rows, self.step);
        let tid = host + if op.backward { 37 } else { 0 };
        let start = launch.op.0;
        let args = Args::op(launch.id);
        let (args, arrow) = match op.autograd {
            Autograd::None => (args, None),
            Autograd::Forward(n) => (autograd(args, n, 0), Some(("s", n))),
            Autograd::Backward(n) => (autograd(args, n, 1), Some(("f", n))),
        };
        let rows = &mut self.ranks[rank].rows;
        rows[0] += &slice("cpu_op", op.host, host, tid, launch.op, args);
        if let Some((end, n)) = arrow {
            rows[0] += &flow(end, "fwdbwd", n, host, tid, start);
        }
        if let Work::Comm(comm) = op.work {
            let args = comm_args(Args::op(launch.external_id), &comm, rank, launch.seq);
            let args = if full_rows { with_members(args, &comm, rank) } else { args };
            let span = (start + 1_800, launch.call.1 + 700);
            rows[0] += &slice("cpu_op", "record_param_comms", host, tid, span, args);
            if full_rows {
                let (name, span) = (comm.kind.names()[2], (start + 2_600, launch.call.1 + 300));
                let args = Args::op(launch.annotation_id);
                rows[0] += &slice("user_annotation", name, host, tid, span, args);
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
        rows[1] += &slice("cuda_runtime", name, host, tid, launch.call, args);
        if step == 0 && full_rows {
            rows[1] += &flow("s", "ac2g", launch.correlation, host, tid, launch.call.0);
        }
    }

    /// The device's side: the event, its arrow, and for a collective the annotation over it.
    pub fn device_rows(&mut self, rank: usize, op: &Op, launch: &Launch, span: Span) {
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

    /// The marker of a step, from `start` to now.
    pub fn step_row(&mut self, rank: usize, id: i64, start: i64) {
        let name = format!("ProfilerStep#{}", FIRST_STEP + self.step);
        let (host, end) = (pid(rank), self.ranks[rank].now);
        let row = slice("user_annotation", &name, host, host, (start, end), Args::op(id));
        self.ranks[rank].rows[0] += &row;
    }

    /// The module in Python, from `start` to now.
    pub fn module_row(&mut self, rank: usize, start: i64) {
        let (host, end) = (pid(rank), self.ranks[rank].now);
        let args = Args::none()
            .raw("Python parent id", "null")
            .raw("Python id", self.step + 1)
            .raw("Python module id", 0);
        let name = "nn.Module: LlamaTiny_0";
        let row = slice("python_function", name, host, host, (start, end), args);
        self.ranks[rank].rows[0] += &row;
    }

    /// A user annotation from `start` to now, and its copy over a span of the device.
    pub fn annotate(
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
    pub fn memory_instant(&mut self, rank: usize, bytes: i64) -> i64 {
        let (host, state) = (pid(rank), &mut self.ranks[rank]);
        state.now += 300;
        state.allocated += bytes;
        let args = Args::none()
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
    pub fn wait_record(&mut self, rank: usize) {
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
    pub fn synchronize(&mut self, rank: usize, until: i64) {
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

/// Arguments of an op in the autograd graph.
fn autograd(args: Args, number: i64, thread: i64) -> Args {
    args.raw("Sequence number", 900 + number).raw("Fwd thread id", thread)
}

/// Arguments of a record of communication that no answer needs.
fn with_members(args: Args, comm: &Comm, rank: usize) -> Args {
    let members = comm.group.members(rank);
    args.text("In split size", "[]")
        .text("Out split size", "[]")
        .raw("Global rank start", members[0])
        .raw("Global rank stride", members[1] - members[0])
}

/// Arguments of NCCL.
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

impl Sim {
    /// The trace of a rank.
    pub fn trace_json(&self, rank: usize) -> String {
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
        let args = Args::none;
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
}
