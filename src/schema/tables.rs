//! The list of tables, in the order of the documentation.
//!
//! Each begins with who makes it, its name and what a row is. A column is its name, its type and
//! what it says. Columns that several tables share are constants, in capitals.

use crate::schema::table::{Column, Table, columns};

/// The constant [`TABLES`] of a list of tables; those `by rank` lie under `rank=<r>/`.
macro_rules! tables {
    ($($made:ident $name:ident $(by $rank:ident)? $doc:literal { $($columns:tt)* })*) => {
        /// Every table of a trace directory, in the order of the documentation.
        pub const TABLES: &[Table] = &[$(Table {
            name: stringify!($name),
            doc: $doc,
            made: crate::schema::table::Made::$made,
            by_rank: !stringify!($($rank)?).is_empty(),
            columns: columns! { $($columns)* },
        }),*];
    };
}

/// Columns that several tables share.
macro_rules! shared {
    ($($constant:ident: $name:ident $ty:ident $doc:literal,)*) => {
        $(const $constant: Column = columns! { $name $ty $doc }[0];)*
    };
}

shared! {
    SOURCE:     source   TEXT "Profiler that recorded it: kineto, nsys or xla.",
    RANK:       rank     INT  "Global rank; NULL where the source is not of one rank.",
    EVENT_ID:   event_id INT  "Number of the event, unique in the trace: source number x 2^40 + \
                               place in its file.",
    TS_NS:      ts_ns    INT  "Start, nanoseconds on the clock of the rank; since the Unix epoch \
                               where the source allows.",
    DUR_NS:     dur_ns   INT  "Duration in nanoseconds.",
    DEVICE:     device   INT  "Index of the accelerator in its host, as the trace numbers it.",
    STEP:       step     INT  "Step of the rank; NULL outside any, and where there are no steps.",
    BENCH_RANK: rank     INT  "NULL: a benchmark is of the whole job.",
    RECORD:     record   INT  "Place of the record in its file, from 0.",
}

tables! {
    Ingest device_events "one kernel, copy, set or other operation of a device" {
        SOURCE, RANK, EVENT_ID,
        class          TEXT   "compute, comm, copy, set, graph (a whole CUDA graph whose kernels \
                               were not recorded: busy, of no kind), or other (work whose kind is \
                               unknown: in no metric).",
        category       TEXT   "Category as recorded; of nsys the table, of XLA the line.",
        name           TEXT   "Name as recorded.",
        TS_NS, DUR_NS,
        ts_ps          INT    "Picoseconds of the start beyond ts_ns (XLA).",
        dur_ps         INT    "Picoseconds of the duration beyond dur_ns (XLA).",
        DEVICE,
        stream         INT    "In-order queue of the device.",
        context        INT    "Context of the device.",
        correlation    INT    "Ties a device event to the runtime call that launched it, within a \
                               rank; on TPUs and CPUs of XLA the number of the run.",
        external_id    INT    "External id as recorded: the id of the launching operator in newer \
                               Kineto files, the correlation in older ones.",
        bytes          INT    "Bytes copied or set.",
        flops          INT    "Floating-point operations, where the source says so (XLA: \
                               model_flops, else flops).",
        bytes_accessed INT    "Memory traffic, where the source says so; never a message size.",
        hlo_category   TEXT   "Category of the HLO operation (XLA).",
        hlo_module     TEXT   "HLO module (XLA).",
        hlo_op         TEXT   "HLO operation (XLA).",
        grid_x         INT    "Thread blocks, x.",
        grid_y         INT    "Thread blocks, y.",
        grid_z         INT    "Thread blocks, z.",
        block_x        INT    "Threads in a block, x.",
        block_y        INT    "Threads in a block, y.",
        block_z        INT    "Threads in a block, z.",
        registers      INT    "Registers of a thread.",
        shared_memory  INT    "Shared memory of a block in bytes.",
        blocks_per_sm  DOUBLE "Blocks on a multiprocessor, as the profiler estimates.",
        warps_per_sm   DOUBLE "Warps on a multiprocessor, as the profiler estimates.",
        occupancy_pct  DOUBLE "Occupancy estimated by the profiler, percent.",
        args           TEXT   "JSON object of every argument that has no column, as recorded; keys \
                               with a leading $ are fields of the event itself (XLA: $line_ts_ns \
                               and $line_dur_ps are times of the line where those of the chip are \
                               taken, $done is the end of an asynchronous pair, $metadata_id names \
                               the row event_metadata:<plane>:<id> of metadata).",
    }

    Ingest host_events by rank "one slice or instant of the host, or an annotation that the \
        profiler put on a device" {
        SOURCE, RANK, EVENT_ID,
        class       TEXT "host_op, host_annotation, host_runtime, device_annotation, python or \
                          other.",
        category    TEXT "Category as recorded; of nsys the table, of XLA the line.",
        name        TEXT "Name as recorded.",
        TS_NS,
        dur_ns      INT  "Duration in nanoseconds; NULL for an instant, or when the recorded one \
                          is unusable.",
        pid         INT  "Process; a pid that is no integer stays in args.",
        tid         INT  "Thread; a tid that is no integer stays in args.",
        device      INT  "Accelerator of a device annotation.",
        stream      INT  "Stream of a device annotation.",
        correlation INT  "Ties a device event to the runtime call that launched it, within a rank; \
                          on TPUs and CPUs of XLA the number of the run.",
        external_id INT  "External id as recorded: the id of the launching operator in newer \
                          Kineto files, the correlation in older ones.",
        args        TEXT "JSON object of every argument that has no column, as recorded; keys with \
                          a leading $ are fields of the event itself.",
    }

    Derived collectives "one rank's share of a communication call" {
        SOURCE, RANK, EVENT_ID, DEVICE,
        stream         INT  "In-order queue of the device.",
        TS_NS, DUR_NS,
        collective     TEXT "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, \
                             reduce, gather, scatter, barrier, send, recv, send_recv or unknown.",
        collective_raw TEXT "The name that the kind was read from.",
        dtype          TEXT "Element type as recorded.",
        group_size     INT  "Ranks of the group.",
        pg_id          INT  "Process group, key of process_groups.",
        in_elems       INT  "Elements of the input of this rank.",
        out_elems      INT  "Elements of the output of this rank.",
        in_bytes       INT  "Bytes of the input of this rank.",
        out_bytes      INT  "Bytes of the output of this rank.",
        message_bytes  INT  "Size S of nccl-tests: output of all_gather, input of reduce_scatter, \
                             else the buffer of one rank.",
        wire_bytes     INT  "Bytes that a rank must send at least, by kind, S and group size; of \
                             an uneven all-to-all, or a group of sends, what its splits send to \
                             others. Rounded down.",
        seq            INT  "Sequence number in the group, where recorded.",
        root_rank      INT  "Root of a rooted operation, where recorded (NVTX: its rank in the \
                             communicator).",
        peer_rank      INT  "Peer of a send or receive, where recorded: its rank in the group, from \
                             0; of a send_recv the one that it sends to. Where nobody lists the \
                             group, as recorded.",
        in_split       INTS "Input split sizes of an uneven all-to-all, or to each rank of a group \
                             of sends (NVTX: in bytes); NULL where even, unknown or cut by the \
                             profiler.",
        out_split      INTS "Output split sizes, likewise.",
        coll_source    TEXT "Where the kind was found: kernel_args, record, coalesced (the records \
                             of the group that one launch serves), annotation, op, et, \
                             nvtx_payload, nvtx_range, hlo, rendezvous, or where nothing better \
                             says it op_name (the name of an operation of XLA) or kernel_name.",
        size_source    TEXT "et where type, sizes, splits or group are of the execution trace \
                             beside, in part at least; op where they are the dimensions of the \
                             operator that launched it; NULL where they are of what names the \
                             kind.",
        group_source   TEXT "stated by the trace, or assumed_world.",
        collective_id  INT  "Call over the ranks, key of collective_calls; NULL where unmatched.",
        step           INT  "Step that launched it; NULL outside any.",
        stall_ns       INT  "Exposed part of an asynchronous pair (XLA).",
    }

    Derived collective_calls "one operation over all ingested ranks of its group" {
        SOURCE,
        collective_id    INT    "Number of the call.",
        pg_id            INT    "Process group.",
        collective       TEXT   "Kind.",
        group_size       INT    "Ranks of the group.",
        ranks_seen       INT    "Ranks of the group whose events are here.",
        message_bytes    INT    "Largest message size over the ranks.",
        dtype            TEXT   "Element type.",
        first_start_ns   INT    "First start over the ranks.",
        last_start_ns    INT    "Last start over the ranks.",
        first_end_ns     INT    "First end over the ranks.",
        last_end_ns      INT    "Last end over the ranks.",
        transfer_ns      INT    "Least duration over the ranks: needs no common clock.",
        start_skew_ns    INT    "Last start - first start.",
        end_skew_ns      INT    "Last end - first end.",
        mean_wait_ns     DOUBLE "Mean over the ranks of last start - own start.",
        last_rank        INT    "Rank that started last (the lowest of equals).",
        algo_bw_gb_per_s DOUBLE "message_bytes / transfer_ns.",
        bus_bw_gb_per_s  DOUBLE "Algorithm bandwidth x bus factor of nccl-tests.",
        link             TEXT   "intra (all ranks in one host), inter, or NULL where unknown.",
        step             INT    "Step of the lowest rank.",
        matched_by       TEXT   "seq, order, or shift (order, with a rank that misses calls).",
    }

    Derived busy_intervals "one merged span in which a device is busy with a class of work" {
        SOURCE, RANK, DEVICE,
        class    TEXT "comm, compute, copy, set or graph.",
        start_ns INT  "First nanosecond of the span.",
        end_ns   INT  "End of the span, exclusive.",
    }

    Derived steps "one step of a rank, by the marker on the host" {
        SOURCE, RANK,
        step   INT  "Number of the step.",
        TS_NS, DUR_NS,
        marker TEXT "What marked it.",
    }

    Ingest step_ranges "one range on the host whose name marks a step (--step-range, or a pattern \
        that is known)" {
        SOURCE, RANK,
        event_id INT  "The range in host_events.",
        step     INT  "Number that its name says, else its place.",
        TS_NS, DUR_NS,
        marker   TEXT "The pattern that its name matches.",
    }

    Derived phases "one window of a training phase on the host of a rank; windows of a rank do not \
        overlap" {
        SOURCE, RANK, STEP,
        phase  TEXT "forward, backward, optimizer, zero_grad or data_loading.",
        ts_ns  INT  "Start.",
        dur_ns INT  "Duration.",
    }

    Derived phase_times "a phase in one step of a rank: its time on the host, and that of what it \
        launched on the device" {
        SOURCE, RANK, STEP,
        phase       TEXT "forward, backward, optimizer, zero_grad, data_loading, or rest: what is \
                          left of the step.",
        windows     INT  "Windows of the phase in the step; NULL for the rest.",
        host_ns     INT  "Their time: all phases of a step and the rest are the step. NULL where \
                          only the device is known.",
        device_ns   INT  "Time in which the device is busy with what the phase launched, and with \
                          nothing that an earlier phase of the step launched: all phases and the \
                          rest are the busy time of the step.",
        launched_ns INT  "Union of the device events that it launched.",
        comm_ns     INT  "Union of those of class comm.",
        compute_ns  INT  "Union of those of class compute.",
        work_ns     INT  "Sum of their durations.",
        events      INT  "Device events that it launched.",
    }

    Derived layer_times "a layer that annotations name, in a step and phase of a rank" {
        SOURCE, RANK, STEP,
        layer     TEXT "Layer, as the names of ranges say it.",
        phase     TEXT "Phase in which its ranges stand, and in which its device events were \
                        launched.",
        ranges    INT  "Ranges of the layer, the outermost ones.",
        host_ns   INT  "Union of the ranges.",
        device_ns INT  "Union of the device events that were launched inside them.",
        events    INT  "Those device events.",
    }

    Derived fsdp_ranges "an operation of FSDP on one layer in a step of a rank" {
        SOURCE, RANK, STEP,
        operation TEXT "all_gather, all_gather_copy_in, all_gather_copy_out, reduce_scatter, \
                        reduce_scatter_copy_in, reshard, prefetch, pre_forward, post_forward, \
                        pre_backward, post_backward, accumulate, wait or other.",
        layer     TEXT "Module that its name or an annotation around it says; NULL for the root.",
        ranges    INT  "Ranges of the operation.",
        host_ns   INT  "Their own time on the host: without the ranges of FSDP inside them.",
        device_ns INT  "Union of the device events that they launched.",
        comm_ns   INT  "Union of those of class comm.",
        copy_ns   INT  "Union of the others: copies, and kernels that copy.",
        events    INT  "Device events that they launched.",
    }

    Derived fsdp_steps "the device work of FSDP in a step of a rank" {
        SOURCE, RANK, STEP,
        comm_ns          INT "Union of its communication.",
        copy_ns          INT "Union of its other work: copies in and out.",
        gather_ns        INT "Union of the communication that gathers parameters.",
        hidden_gather_ns INT "Part of that beside which compute runs that is not of FSDP.",
        reduce_ns        INT "Union of the communication that reduces gradients: reduce_scatter \
                              and all_reduce.",
        hidden_reduce_ns INT "Part of that beside which compute runs that is not of FSDP.",
        exposed_comm_ns  INT "Communication without such compute beside it.",
        overhead_ns      INT "Communication and copies without such compute beside them.",
    }

    Derived kernel_times "kernels of one name that operators of one name launched, on a device of \
        a rank" {
        SOURCE, RANK, DEVICE,
        class      TEXT "compute or comm.",
        name       TEXT "Name of the kernel as recorded.",
        op_name    TEXT "Innermost operator around the launch; NULL without one.",
        events     INT  "Kernels.",
        dur_ns     INT  "Sum of their durations.",
        min_dur_ns INT  "Least duration.",
        max_dur_ns INT  "Greatest duration.",
    }

    Derived host_times "operators on the host of a rank in one step (in the whole trace where \
        there are no steps)" {
        SOURCE, RANK, STEP,
        main_op_ns    INT "Time in which the main thread runs an operator.",
        exposed_op_ns INT "Part of it in which no device of the rank is busy.",
        op_self_ns    INT "Time in operators on all threads, each thread by itself: the sum of the \
                           own times of all operators.",
    }

    Ingest comm_args "what an event of communication says of itself (kernels and \
        record_param_comms with a `Collective name`), or what the NVTX ranges of NCCL around its \
        launch, or the HLO of its operation, say of it" {
        RANK, EVENT_ID,
        collective_name TEXT "Operation as recorded.",
        dtype           TEXT "Type of the elements as recorded.",
        in_elems        INT  "Elements of the input.",
        out_elems       INT  "Elements of the output.",
        group_size      INT  "Ranks of the process group.",
        pg_name         TEXT "Name of the process group.",
        pg_desc         TEXT "Description of the process group.",
        pg_ranks        TEXT "Ranks of the process group as recorded: a JSON list, cut short when \
                              it is long.",
        seq             INT  "Sequence number of the call in its group.",
        src_rank        INT  "Rank that sends.",
        dst_rank        INT  "Rank that receives.",
        in_split        TEXT "Elements for each rank, as recorded: a JSON list. NVTX: bytes, of a \
                              group of sends and receives.",
        out_split       TEXT "Elements from each rank, likewise.",
        rank_start      INT  "First rank of a regular group.",
        rank_stride     INT  "Distance of the ranks of a regular group.",
        in_bytes        INT  "Bytes of the input of this rank (NVTX; summed over the calls of a \
                              group).",
        out_bytes       INT  "Bytes of the output of this rank, likewise.",
        coll_source     TEXT "nvtx_payload where the ranges of NCCL say sizes, nvtx_range where \
                              they do not, hlo, rendezvous or op_name (XLA); NULL where the event \
                              says it itself.",
        stall_ns        INT  "Exposed part of an asynchronous pair (XLA).",
        group_rank      INT  "Own rank in the process group, from 0 (NVTX).",
    }

    Ingest launches "one device event with the call that launched it" {
        RANK, EVENT_ID,
        op_event_id         INT "Innermost operator around the call; in nsys the innermost NVTX \
                                 range.",
        runtime_event_id    INT "The runtime or driver call.",
        launch_delay_ns     INT "Start of the device event - start of the call.",
        launch_ts_ns        INT "Start of the call.",
        record_event_id     INT "Innermost record_param_comms around the call, in nsys the range \
                                 of NCCL's API (communication only).",
        annotation_event_id INT "Innermost nccl:<operation> around the call (communication only).",
        comm_op_event_id    INT "Innermost c10d operator around the call (communication only).",
        pid                 INT "Process of the call.",
        tid                 INT "Thread of the call.",
        range_event_id      INT "Innermost annotation around the call, of the annotations in \
                                 host_ranges.",
    }

    Ingest host_ranges "one range of a thread of the host that says what the program does: an \
        annotation, or an operator that no other encloses" {
        SOURCE, RANK,
        event_id        INT  "The range in host_events.",
        kind            TEXT "annotation, or operator: an operator of its thread that lasts longer \
                              than all before it. An operator of FSDP (fsdp::*) may be both and \
                              has two rows.",
        parent_event_id INT  "Innermost annotation around its start, on its thread.",
        pid             INT  "Process.",
        tid             INT  "Thread.",
        TS_NS, DUR_NS,
    }

    Ingest flows "one end of an arrow" {
        RANK,
        kind    TEXT "Category of the arrow: ids are unique per kind.",
        flow_id INT  "Id within the kind.",
        phase   TEXT "s start, t step, f finish.",
        TS_NS,
        pid     INT  "Process or device.",
        tid     INT  "Thread or stream.",
        name    TEXT "Name as recorded.",
    }

    Ingest counters "one sample of a counter" {
        source TEXT   "Profiler that recorded it: kineto, nsys or xla; bench for samples that \
                       another program took.",
        RANK, TS_NS,
        name   TEXT   "Counter. nvlink.tx.3 and nvlink.rx.3 are the bytes that link 3 of a device \
                       has sent and received so far (nvlink.tx.all: all links), with @ and the \
                       number of the file where its name does not say the device.",
        DEVICE,
        value  DOUBLE "Value.",
        unit   TEXT   "Unit of the value.",
    }

    Ingest ranks "one rank and source" {
        source              TEXT "Profiler that recorded it: kineto, nsys, xla, memory, or et for \
                                  an execution trace that lies alone.",
        RANK,
        source_id           INT  "File, key of sources.",
        host                TEXT "Host, where the trace names it.",
        pid                 INT  "Process of the operators.",
        DEVICE,
        device_name         TEXT "Accelerator.",
        sm_count            INT  "Multiprocessors of the device.",
        device_memory_bytes INT  "Memory of the device.",
        compute_capability  TEXT "Compute capability, `9.0`.",
        world_size          INT  "Ranks of the job.",
        backend             TEXT "Communication backend.",
        comm_version        TEXT "Version of NCCL or RCCL.",
        base_ts_ns          INT  "What was added to the recorded times.",
        first_ts_ns         INT  "First start over all events.",
        last_ts_ns          INT  "Last end over all events.",
        rank_source         TEXT "Where the rank was found: trace (the trace itself), name, order \
                                  or flag.",
    }

    Derived process_groups "one process group" {
        pg_id      INT  "Number of the group in the trace.",
        pg_name    TEXT "Name as recorded.",
        pg_desc    TEXT "Description as recorded.",
        group_size INT  "Members.",
        ranks      INTS "Global ranks of the members; NULL where the trace cuts the list.",
        dim        TEXT "Parallel dimension that the description names: dp, tp, pp, ep, cp or \
                         NULL.",
    }

    Ingest memory_segments "one segment that PyTorch's allocator held on a device when a memory \
        snapshot was taken; sizes are bytes" {
        source          TEXT "Profiler that recorded it: memory.",
        RANK,
        source_id       INT  "File, key of sources: a rank may have several snapshots.",
        segment_id      INT  "Number of the segment, unique in the trace: source number x 2^40 + \
                              place in its file.",
        device          INT  "Index of the accelerator in its host.",
        address         INT  "First address.",
        total_size      INT  "Bytes that the allocator reserved.",
        allocated_size  INT  "Bytes of its allocated blocks, rounded up as the allocator does.",
        active_size     INT  "Bytes of its allocated blocks and of those that wait for a stream \
                              before they are free.",
        requested_size  INT  "Bytes of its active blocks as they were asked for; NULL before torch \
                              2.0.",
        stream          INT  "Stream that it is for.",
        segment_type    TEXT "large or small.",
        segment_pool_id TEXT "Memory pool, a JSON list of two numbers; [0,0] is the usual one.",
        is_expandable   TEXT "true or false: whether it may grow.",
        stack_id        INT  "Call stack that allocated it, key of memory_stacks.",
        args            TEXT "JSON object of every field that has no column.",
    }

    Ingest memory_blocks "one block of a segment, in use or free, when a memory snapshot was \
        taken; sizes are bytes" {
        source         TEXT "Profiler that recorded it: memory.",
        RANK,
        source_id      INT  "File, key of sources: a rank may have several snapshots.",
        block_id       INT  "Number of the block, unique in the trace: source number x 2^40 + \
                             place in its file.",
        segment_id     INT  "Its segment.",
        device         INT  "Index of the accelerator in its host.",
        address        INT  "First address; where the snapshot leaves it out, that of the segment \
                             + the blocks before it.",
        size           INT  "Bytes that it takes.",
        requested_size INT  "Bytes that were asked for; of a free block those of its last use. \
                             NULL where not recorded.",
        state          TEXT "active_allocated, active_pending_free (active_awaiting_free) or \
                             inactive, as recorded.",
        stack_id       INT  "Call stack that allocated it, key of memory_stacks.",
        args           TEXT "JSON object of every field that has no column (history: earlier uses, \
                             each with its stack_id).",
    }

    Ingest memory_events "one event of PyTorch's allocator, of a memory snapshot or a raw \
        timeline; sizes are bytes" {
        source          TEXT "Profiler that recorded it: memory.",
        RANK,
        source_id       INT  "File, key of sources: a rank may have several snapshots.",
        event_id        INT  "Number of the event, unique in the trace and in the order of the \
                              recording: source number x 2^40 + place in its file.",
        form            TEXT "snapshot or timeline.",
        device          INT  "Index of the accelerator in its host; NULL in a timeline.",
        action          TEXT "As recorded: alloc, free_requested, free_completed, segment_alloc, \
                              segment_free, segment_map, segment_unmap, snapshot, oom, \
                              workspace_snapshot; of a timeline preexisting, create, new_version \
                              or destroy.",
        addr            INT  "Address.",
        size            INT  "Bytes that were asked for, of a segment its bytes; in a timeline \
                              with a sign.",
        stream          INT  "Stream.",
        ts_ns           INT  "Time, nanoseconds since the Unix epoch; NULL where not recorded, and \
                              for what was there before.",
        category        TEXT "What the memory is for, where recorded.",
        compile_context TEXT "Compilation that it was part of.",
        user_metadata   TEXT "What the program said of it.",
        device_free     INT  "Bytes that the device had left (oom).",
        stack_id        INT  "Call stack, key of memory_stacks.",
        args            TEXT "JSON object of every field that has no column.",
    }

    Ingest memory_stacks "one frame of a call stack that memory snapshots name; each distinct \
        stack is here once" {
        RANK,
        stack_id INT  "Number of the stack, unique in the trace: source number x 2^40 + place in \
                       its file.",
        depth    INT  "0 for the innermost frame.",
        function TEXT "Function; of a recording that writes frames as text, the text.",
        filename TEXT "Source file.",
        line     INT  "Line in the source file.",
        args     TEXT "JSON object of every field that has no column.",
    }

    Ingest benchmarks "one record of a benchmark of inference, as the tool wrote it" {
        BENCH_RANK,
        source_id              INT    "File, key of sources: a file may hold several records.",
        RECORD,
        format                 TEXT   "vllm_serve, vllm_latency, vllm_throughput or sglang_serve; \
                                       tools that write the fields of `vllm bench serve` count as \
                                       it.",
        backend                TEXT   "What was asked, as the client names it.",
        model                  TEXT   "Model.",
        duration_ns            INT    "From the first request to the last answer.",
        request_rate           TEXT   "Requests per second that the client aimed at, as recorded; \
                                       inf: all at once.",
        num_prompts            INT    "Requests sent.",
        max_concurrency        INT    "Most requests at a time.",
        completed              INT    "Requests answered.",
        failed                 INT    "Requests not answered.",
        total_input_tokens     INT    "Input tokens of the answered requests.",
        total_output_tokens    INT    "Output tokens of the answered requests.",
        request_throughput     DOUBLE "Answered requests per second.",
        output_throughput      DOUBLE "Output tokens per second.",
        total_token_throughput DOUBLE "Input and output tokens per second.",
        mean_ttft_ms           DOUBLE "Mean of the time to the first token, as recorded.",
        median_ttft_ms         DOUBLE "Median of the time to the first token, as recorded.",
        std_ttft_ms            DOUBLE "Standard deviation of the time to the first token, as \
                                       recorded.",
        p99_ttft_ms            DOUBLE "99th percentile of the time to the first token, as \
                                       recorded.",
        mean_tpot_ms           DOUBLE "Mean of the time per output token after the first, as \
                                       recorded.",
        median_tpot_ms         DOUBLE "Median of the time per output token after the first, as \
                                       recorded.",
        std_tpot_ms            DOUBLE "Standard deviation of the time per output token after the \
                                       first, as recorded.",
        p99_tpot_ms            DOUBLE "99th percentile of the time per output token after the \
                                       first, as recorded.",
        mean_itl_ms            DOUBLE "Mean of the gap between tokens, as recorded.",
        median_itl_ms          DOUBLE "Median of the gap between tokens, as recorded.",
        std_itl_ms             DOUBLE "Standard deviation of the gap between tokens, as recorded.",
        p99_itl_ms             DOUBLE "99th percentile of the gap between tokens, as recorded.",
        mean_e2el_ms           DOUBLE "Mean of the time of a whole request; of vllm_latency of a \
                                       batch, seconds x 1000, as recorded.",
        median_e2el_ms         DOUBLE "Median of the time of a whole request; of vllm_latency of a \
                                       batch, seconds x 1000, as recorded.",
        std_e2el_ms            DOUBLE "Standard deviation of the time of a whole request; of \
                                       vllm_latency of a batch, seconds x 1000, as recorded.",
        p99_e2el_ms            DOUBLE "99th percentile of the time of a whole request; of \
                                       vllm_latency of a batch, seconds x 1000, as recorded.",
        batch_latencies_ns     INTS   "Times of the batches (vllm_latency): of whole batches, not \
                                       of requests.",
        requests               INT    "Rows of it in requests; 0 where it has no details.",
        texts_left_out         INT    "Prompts and generated texts in the record: counted and not \
                                       kept, because they may be private.",
        args                   TEXT   "JSON object of every field that has no column, as recorded; \
                                       without those larger than 64 KiB.",
    }

    Ingest requests "one request of a benchmark of inference that records each of them" {
        BENCH_RANK,
        source_id     INT  "File, key of sources.",
        RECORD,
        request       INT  "Place of the request in the record, from 0.",
        input_tokens  INT  "Tokens of the prompt.",
        output_tokens INT  "Tokens of the answer; 0 where it failed.",
        ttft_ns       INT  "From sending the request to its first token; NULL where none came, or \
                            none was waited for.",
        latency_ns    INT  "From sending the request to its last token: as recorded, else ttft_ns \
                            and the gaps.",
        itl_ns        INTS "Gaps between what came of the answer; a piece may hold several tokens.",
        start_ns      INT  "When it was sent, on a clock of the client that has no epoch.",
        status        TEXT "ok, failed, or NULL where the record says nothing of errors.",
        error         TEXT "What went wrong, its first 4 KiB.",
    }

    Ingest expert_loads "the load of one expert of a mixture of experts in a step, as a log of the \
        gates says it" {
        rank      INT "Global rank that the name of the file says.",
        source_id INT "File, key of sources.",
        step      INT "Place of the step in the file, from 0.",
        layer     INT "Layer: its place in the step, or what the file or its name says.",
        expert    INT "Number of the expert, from 0.",
        load      INT "Tokens that were sent to it.",
        tokens    INT "Tokens of the step, where recorded.",
    }

    Ingest cards "the workload card of the trace" {
        path                 TEXT   "File of the card.",
        phase                TEXT   "training, inference or serving.",
        model_family         TEXT   "Model.",
        precision            TEXT   "Precision.",
        moe                  TEXT   "true or false: mixture of experts.",
        batch_size           INT    "Global batch size.",
        seq_len              INT    "Sequence length.",
        input_len            INT    "Input tokens of a request.",
        output_len           INT    "Output tokens of a request.",
        iteration            INT    "Iterations of the run.",
        num_params           INT    "Parameters.",
        num_params_active    INT    "Parameters active per token.",
        num_params_embedding INT    "Parameters of the embedding.",
        num_layers           INT    "Layers.",
        num_heads            INT    "Attention heads.",
        head_dim             INT    "Size of a head.",
        xpu_type             TEXT   "GPU or TPU.",
        xpu_model            TEXT   "Device model.",
        total_count          INT    "Devices of the job.",
        count_per_node       INT    "Devices of a node.",
        scale_out_gbit_per_s DOUBLE "Network bandwidth between nodes.",
        scale_up_gbit_per_s  DOUBLE "Bandwidth inside a node.",
        framework            TEXT   "Framework.",
        comm_library         TEXT   "Communication library.",
        dp_replicate         INT    "Data-parallel replicas.",
        dp_shard             INT    "Data-parallel shards.",
        tp                   INT    "Tensor-parallel degree.",
        pp                   INT    "Pipeline-parallel degree.",
        cp                   INT    "Context-parallel degree.",
        ep                   INT    "Expert-parallel degree.",
        pp_mb                INT    "Micro-batches of the pipeline.",
        card                 TEXT   "The whole card as JSON.",
    }

    Ingest metadata "one header key of a trace" {
        RANK,
        key   TEXT "Key; M rows are name:pid:tid.",
        value TEXT "Value; text as it is, all else as JSON.",
    }

    Ingest et_nodes "one node of an execution trace of PyTorch: an operator with what went in and \
        came out, without times" {
        RANK,
        source_id       INT  "File, key of sources: numbers of nodes count within it.",
        node_id         INT  "Number of the node in its file; NULL where the file has none that \
                              can be used.",
        parent_id       INT  "Node that it was called by (ctrl_deps, parent); NULL for the root.",
        name            TEXT "Operator, annotation, or a process or thread in brackets.",
        op_schema       TEXT "Signature of the operator.",
        rf_id           INT  "Number of the record function; in newer versions the `Record \
                              function id` of Kineto.",
        seq_id          INT  "Sequence number that ties forward and backward operators.",
        fw_parent_id    INT  "Node of the forward pass that it belongs to.",
        scope           INT  "Scope of the record function: 0 function, 1 backward function, 2 \
                              TorchScript function, 7 user annotation.",
        tid             INT  "Thread, as the execution trace counts them: no number of the system.",
        fw_tid          INT  "Thread of the forward operator, counted likewise.",
        kernel_backend  TEXT "What made the kernel (triton).",
        kernel_file     TEXT "File of the kernel.",
        tensor_range    TEXT "Least and largest value of tensors, where recorded.",
        inputs          TEXT "Values of the inputs: a JSON list as recorded; a tensor is [id, \
                              storage, offset, elements, bytes of an element, device].",
        input_shapes    TEXT "Their shapes, a JSON list as recorded.",
        input_types     TEXT "Their types, likewise.",
        input_strides   TEXT "Their strides, likewise.",
        outputs         TEXT "Values of the outputs: a JSON list as recorded; a tensor is [id, \
                              storage, offset, elements, bytes of an element, device].",
        output_shapes   TEXT "Their shapes, a JSON list as recorded.",
        output_types    TEXT "Their types, likewise.",
        output_strides  TEXT "Their strides, likewise.",
        collective_name TEXT "Operation of a communication call as recorded (record_param_comms, \
                              nccl:<operation>, gloo:<operation>); wait is no call.",
        dtype           TEXT "Type of its elements as recorded.",
        in_elems        INT  "Elements of its input.",
        out_elems       INT  "Elements of its output.",
        in_split        TEXT "Elements for each rank, as recorded: a JSON list, empty where even.",
        out_split       TEXT "Elements from each rank, likewise.",
        group_size      INT  "Ranks of its process group.",
        pg_name         TEXT "Name of its process group; before 1.0.3 the inputs have a pointer, \
                              which names nothing.",
        pg_desc         TEXT "Description of its process group.",
        rank_start      INT  "First rank of a regular group.",
        rank_stride     INT  "Distance of the ranks of a regular group.",
        seq             INT  "Sequence number of the call.",
        pid             INT  "Process.",
        args            TEXT "JSON object of every other member of the node, as recorded; \
                              attributes with their types.",
    }

    Derived et_links "one node of an execution trace that is an event of Kineto" {
        RANK,
        source_id INT  "File of the node, key of sources.",
        node_id   INT  "The node in et_nodes.",
        event_id  INT  "The event in host_events; each has one node at most.",
        linked_by TEXT "record_id (both say one record function id and one name) or order \
                        (record_param_comms, in the order of their threads, counts and dimensions \
                        equal).",
    }

    Ingest sources "one file that was read" {
        source_id INT  "Number of the file in the trace.",
        path      TEXT "Path as given.",
        source    TEXT "Profiler that recorded it: kineto, nsys, xla, memory, et (execution trace) \
                        or bench (benchmark).",
        bytes     INT  "Size on disk.",
        sha256    TEXT "Hash of the bytes on disk.",
        events    INT  "Events kept.",
        skipped   INT  "Events left out, each with a finding.",
    }

    Ingest ingest_log "one kind of finding of a file" {
        source_id    INT  "File; NULL for the trace as a whole.",
        code         TEXT "Stable name of the finding.",
        severity     TEXT "info, loss or error.",
        count        INT  "How often.",
        first_offset INT  "Byte of the uncompressed file where it came first.",
        message      TEXT "What was seen and what was done.",
    }
}
