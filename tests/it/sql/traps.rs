//! Traps that tools of this field fell into, one test each: a small trace on which they miscount,
//! stop or stay silent, and what is right.

use serde_json::{Value, json};

use crate::support::Place;

/// A complete event; times in microseconds.
fn event(category: &str, name: &str, ts: f64, dur: f64, tid: i64, args: &Value) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args})
}

/// A kernel on a stream, launched by a call with the same correlation.
fn kernel(name: &str, ts: f64, dur: f64, stream: i64, correlation: i64) -> Value {
    let args = json!({"device": 0, "stream": stream, "correlation": correlation});
    event("kernel", name, ts, dur, stream, &args)
}

fn launch(ts: f64, correlation: i64) -> Value {
    event("cuda_runtime", "cudaLaunchKernel", ts, 1.0, 100, &json!({"correlation": correlation}))
}

fn step(number: i64, ts: f64, dur: f64) -> Value {
    event("user_annotation", &format!("ProfilerStep#{number}"), ts, dur, 100, &json!({}))
}

/// Arguments of NCCL on a kernel.
fn sized(mut kernel: Value, collective: &str, elements: i64) -> Value {
    let args = json!({
        "Collective name": collective, "In msg nelems": elements, "Out msg nelems": elements,
        "Group size": 2, "dtype": "Float",
    });
    for (key, value) in args.as_object().expect("an object") {
        kernel["args"][key] = value.clone();
    }
    kernel
}

/// A job of one file for each rank, ingested.
fn job(ranks: Vec<Vec<Value>>) -> Place {
    let place = Place::new();
    let world = ranks.len();
    for (rank, events) in ranks.into_iter().enumerate() {
        let trace = json!({
            "schemaVersion": 1, "traceEvents": events,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        });
        place.write(&format!("job/kineto_trace_{rank}.json"), trace.to_string());
    }
    place.run(&["ingest", "job", "-q"]).done();
    place
}

#[test]
fn communication_counts_whatever_its_kernels_are_called() {
    let names = [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals)",
    ];
    let events = names.iter().zip(1..).map(|(n, i)| kernel(n, 100.0 * i as f64, 10.0, 7, i));
    let job = job(vec![events.collect()]);
    assert_eq!(job.metric("coll_call_num", &[])["value"], 5);
}

#[test]
fn overlap_is_one_number_with_steps_or_without() {
    // Communication 100 to 200, compute 150 to 250: half of it overlaps. Both run after the step
    // has ended on the host, which launched them.
    let work = || {
        vec![
            launch(10.0, 1),
            launch(12.0, 2),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100.0, 100.0, 20, 1),
            kernel("gemm", 150.0, 100.0, 7, 2),
        ]
    };
    let with_steps: Vec<Value> =
        [work(), vec![step(1, 0.0, 20.0), step(2, 20.0, 20.0), step(3, 40.0, 20.0)]].concat();
    for events in [work(), with_steps] {
        let job = job(vec![events]);
        assert_eq!(job.metric("comm_comp_overlap", &[])["value"], 0.5);
        assert_eq!(job.metric("communication_overlap_ratio", &[])["value"], 0.5);
        assert_eq!(job.metric("overlap", &[])["value"], 50.0);
        assert_eq!(job.metric("compute_comm_overlap", &[])["value"], 50.0);
    }
}

#[test]
fn no_rank_is_left_out() {
    let ranks = (0..20).map(|_| vec![kernel("ncclDevKernel_AllReduce", 1.0, 1.0, 7, 1)]);
    let result = job(ranks.collect()).metric("coll_call_num", &[]);
    assert_eq!(result["value"], 20);
    assert_eq!(result["details"]["calls_per_rank"].as_object().map(|m| m.len()), Some(20));
}

#[test]
fn numbers_of_streams_and_correlations_are_not_narrowed() {
    let job = job(vec![vec![kernel("gemm", 1.0, 1.0, 70_000, 1 << 40)]]);
    assert_eq!(job.lines("SELECT stream FROM device_events"), ["70000"]);
    assert_eq!(job.lines("SELECT correlation FROM device_events"), ["1099511627776"]);
}

#[test]
fn kernels_shorter_than_a_microsecond_keep_their_time() {
    let job = job(vec![vec![
        kernel("a", 1.001, 0.5, 7, 1),
        kernel("b", 1.501, 0.001, 7, 2),
        kernel("c", 2.999, 0.002, 7, 3),
    ]]);
    assert_eq!(job.lines("SELECT dur_ns FROM device_events ORDER BY ts_ns"), ["500", "1", "2"]);
    assert_eq!(job.metric("total_kernel_time_s", &[])["value"], 503e-9);
}

#[test]
fn a_straggler_metric_says_why_it_cannot_answer() {
    // One rank; ranks without compute; ranks without steps.
    let comm = || kernel("ncclDevKernel_AllReduce", 1.0, 1.0, 7, 1);
    for ranks in [vec![vec![comm()]], vec![vec![comm()], vec![comm()]]] {
        let job = job(ranks);
        for metric in ["straggler", "straggler_score", "straggler_by_rank", "straggler_lag"] {
            let result = job.metric(metric, &[]);
            let silent =
                result["value"].is_null() && result["reason"].as_str().is_none_or(str::is_empty);
            assert!(!silent, "{metric}: {result}");
        }
    }
    // Where nothing communicates, no call could be matched.
    let job = job(vec![vec![kernel("gemm", 1.0, 1.0, 7, 1)]; 2]);
    assert_eq!(job.metric("sync_overhead_ms", &[])["reason"], "the trace has no communication");
}

#[test]
fn work_of_the_last_step_counts() {
    let job = job(vec![vec![
        step(1, 0.0, 100.0),
        step(2, 100.0, 100.0),
        launch(10.0, 1),
        launch(150.0, 2),
        kernel("gemm", 50.0, 10.0, 7, 1),
        kernel("gemm", 300.0, 10.0, 7, 2),
    ]]);
    assert_eq!(job.lines("SELECT step FROM step_events ORDER BY event_id"), ["1", "2"]);
}

#[test]
fn bandwidth_is_in_units_of_a_thousand_million() {
    // 2^28 floats are 2^30 bytes in one second; the bus factor of two ranks is 1.
    let call =
        || vec![sized(kernel("ncclDevKernel_AllReduce", 1.0, 1e6, 7, 1), "allreduce", 1 << 28)];
    let result = job(vec![call(), call()]).metric("avg_comm_bandwidth_GBps", &[]);
    assert_eq!(result["value"], 1.073_741_824);
}

#[test]
fn calls_of_unknown_size_are_counted_and_said() {
    let calls = || {
        vec![
            sized(kernel("ncclDevKernel_AllReduce", 1.0, 10.0, 7, 1), "allreduce", 1000),
            kernel("ncclDevKernel_AllReduce", 100.0, 10.0, 7, 2),
        ]
    };
    let result = job(vec![calls(), calls()]).metric("avg_comm_bandwidth_GBps", &[]);
    assert_eq!(result["details"]["calls"], 2);
    assert_eq!(result["details"]["size_coverage_ratio"], 0.5);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("known for 50.0 % only"), "{warnings}");
}

#[test]
fn slices_that_overlap_on_a_stream_are_all_kept() {
    let job = job(vec![vec![
        kernel("a", 0.0, 100.0, 7, 1),
        kernel("b", 50.0, 100.0, 7, 2),
        kernel("c", 60.0, 10.0, 7, 3),
    ]]);
    assert_eq!(job.lines("SELECT count(*) FROM device_events"), ["3"]);
    assert_eq!(job.metric("total_compute_time_s", &[])["value"], 150e-6);
    assert_eq!(job.metric("total_kernel_time_s", &[])["value"], 210e-6);
}
