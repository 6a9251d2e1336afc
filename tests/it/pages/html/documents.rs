//! Documents that the tests of the pages draw: small enough to know every number.

use serde_json::{Value, json};

fn sheet(name: &str, columns: &[(&str, &str)], rows: Vec<Vec<Value>>) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, unit)| match *unit {
            "" => json!({"name": name, "doc": "A column."}),
            unit => json!({"name": name, "unit": unit, "doc": "A column."}),
        })
        .collect();
    json!({"name": name, "summary": "About it.", "caveats": [], "columns": columns, "rows": rows,
           "reason": null})
}

fn row(cells: Value) -> Vec<Value> {
    cells.as_array().expect("cells").clone()
}

const TYPES: [&str; 5] =
    ["computation_time", "exposed_comm_time", "exposed_memcpy_time", "idle_time", "total_time"];

fn timeline_sheets(ranks: usize, scale: f64) -> [Value; 2] {
    let part = |rank: usize, k: usize| match k {
        4 => (0..4).map(|k| scale * (k + rank + 1) as f64 + 0.25).sum::<f64>(),
        k => scale * (k + rank + 1) as f64 + 0.25,
    };
    let by_rank = (0..ranks).flat_map(|rank| {
        TYPES.iter().enumerate().map(move |(k, kind)| {
            let total = part(rank, 4);
            row(json!([rank, kind, part(rank, k), 100.0 * part(rank, k) / total]))
        })
    });
    let mean = TYPES.iter().enumerate().map(|(k, kind)| {
        let mean = (0..ranks).map(|rank| part(rank, k)).sum::<f64>() / ranks as f64;
        row(json!([kind, mean, 12.5, ranks]))
    });
    [
        sheet(
            "gpu_timeline",
            &[("type", ""), ("time_ms", "ms"), ("share_pct", "pct"), ("num_ranks", "")],
            mean.collect(),
        ),
        sheet(
            "gpu_timeline_by_rank",
            &[("rank", ""), ("type", ""), ("time_ms", "ms"), ("share_pct", "pct")],
            by_rank.collect(),
        ),
    ]
}

fn sizes_sheet(suffix: &str) -> Value {
    let sizes = [
        ("all_gather", 1_048_576, 3, 20.5),
        ("all_gather", 16_777_216, 12, 41.25),
        ("all_reduce", 4096, 100, 0.75),
        ("all_reduce", 4200, 2, 0.5),
    ];
    sheet(
        "collective_sizes",
        &[
            ("collective", ""),
            ("group_size", ""),
            ("link", ""),
            ("message_bytes", "bytes"),
            ("calls", "calls"),
            ("total_bytes", "bytes"),
            ("median_algo_bw_gb_per_s", "gb_per_s"),
            ("median_bus_bw_gb_per_s", "gb_per_s"),
        ],
        sizes
            .iter()
            .map(|(kind, bytes, calls, bw)| {
                let kind = format!("{kind}{suffix}");
                row(json!([kind, 4, "intra", bytes, calls, bytes * calls, bw, bw * 1.5]))
            })
            .collect(),
    )
}

fn fits_sheet(suffix: &str) -> Value {
    let columns = [
        ("collective", ""),
        ("group_size", ""),
        ("link", ""),
        ("alpha_us", "us"),
        ("beta_s_per_gb", "s_per_gb"),
        ("min_bytes", "bytes"),
        ("max_bytes", "bytes"),
    ];
    let kind = format!("all_gather{suffix}");
    let fit = row(json!([kind, 4, "intra", 20.0, 0.02, 1_048_576, 16_777_216]));
    sheet("hockney_fits", &columns, vec![fit])
}

fn overlap_sheet(ranks: usize, scale: f64) -> Value {
    let columns = [("rank", ""), ("step", ""), ("step_time_ms", "ms"), ("overlap_ratio", "ratio")];
    let rows = (0..ranks).flat_map(|rank| {
        (7..10).map(move |step| {
            let ratio =
                if rank == 1 && step == 8 { Value::Null } else { json!(0.25 * rank as f64) };
            row(json!([rank, step, scale * step as f64, ratio]))
        })
    });
    sheet("step_overlap", &columns, rows.collect())
}

/// Means over the ranks of [`overlap_sheet`].
fn overlap_mean_sheet(ranks: usize, scale: f64) -> Value {
    let columns = [("step", ""), ("step_time_ms", "ms"), ("overlap_ratio", "ratio")];
    let rows = (7..10).map(|step| {
        let known = if step == 8 { 1 } else { ranks };
        let sum: f64 = (0..known).map(|rank| 0.25 * rank as f64).sum();
        row(json!([step, scale * step as f64, sum / known as f64]))
    });
    sheet("step_overlap_mean", &columns, rows.collect())
}

/// Classes of the calls of [`sizes_sheet`]: 4096 and 4200 are of one power of two.
fn message_sizes_sheet(suffix: &str) -> Value {
    let columns = [
        ("collective", ""),
        ("from_bytes", "bytes"),
        ("to_bytes", "bytes"),
        ("calls", "calls"),
        ("total_bytes", "bytes"),
    ];
    let classes = [
        ("all_gather", 1_048_576, 3, 3 * 1_048_576_u64),
        ("all_gather", 16_777_216, 12, 12 * 16_777_216),
        ("all_reduce", 4096, 102, 100 * 4096 + 2 * 4200),
    ];
    let rows = classes.iter().map(|(kind, from, calls, bytes)| {
        row(json!([format!("{kind}{suffix}"), from, 2 * from, calls, bytes]))
    });
    sheet("message_sizes", &columns, rows.collect())
}

/// A report of two ranks; `suffix` follows every name that a trace states.
pub fn report(suffix: &str) -> Value {
    let named = |name: &str| format!("{name}{suffix}");
    let spans = [
        (0, "compute", 0.0, 12.5, "gemm"),
        (0, "comm", 4.25, 100.0, "ncclKernel"),
        (1, "compute", 2.0, 3.0, "gemm"),
        (1, "compute", 1.0, 0.5, "relu"),
        (1, "copy", 50.0, 5.0, "Memcpy HtoD"),
    ];
    let step_timeline = sheet(
        "step_timeline",
        &[
            ("step", ""),
            ("rank", ""),
            ("device", ""),
            ("lane", ""),
            ("start_us", "us"),
            ("dur_us", "us"),
            ("label", ""),
            ("message_bytes", "bytes"),
        ],
        spans
            .iter()
            .map(|(rank, lane, start, dur, label)| {
                row(json!([8, rank, 0, lane, start, dur, named(label), null]))
            })
            .collect(),
    );
    let stragglers = sheet(
        "straggler_summary",
        &[("rank", ""), ("mean_wait_us", "us"), ("mean_lag_us", "us"), ("times_last", "")],
        vec![row(json!([1, 5.5, 30.25, 7])), row(json!([0, 40.0, 1.0, 2]))],
    );
    let memory = sheet(
        "memory_timeline",
        &[
            ("rank", ""),
            ("device", ""),
            ("t_ms", "ms"),
            ("allocated_bytes", "bytes"),
            ("reserved_bytes", "bytes"),
        ],
        vec![row(json!([0, 0, 0.0, 100, 2048])), row(json!([0, 0, 2.5, 1_000_000_000, null]))],
    );
    let classes = sheet(
        "kernel_class_times",
        &[("class", ""), ("time_ms", "ms"), ("share_pct", "pct"), ("kernel_count", "")],
        vec![
            row(json!([named("gemm"), 2.0, 20.0, 4])),
            row(json!([named("communication"), 8.0, 80.0, 2])),
        ],
    );
    let kernels = sheet(
        "kernel_summary",
        &[("name", ""), ("kernel_count", ""), ("total_ms", "ms"), ("mean_us", "us")],
        [9.5, 100.25, 20.0, 3.0]
            .iter()
            .map(|ms| row(json!([named(&format!("kernel_{ms}")), 3, ms, null])))
            .collect(),
    );
    let configuration = sheet(
        "configuration",
        &[("device_name", ""), ("rank_count", ""), ("model", ""), ("comm_env", "")],
        vec![row(json!([named("H100"), 2, named("llama"), "{\"NCCL_ALGO\": \"Ring\"}"]))],
    );
    let metric = |name: &str, value: Value, unit: &str| {
        json!({"metric": name, "version": 1, "trace": "t", "value": value, "unit": unit,
               "reason": if value.is_null() { json!(named("there is none")) } else { Value::Null },
               "details": {"calls": 3, "by_rank": [1, 2]}, "params": {}, "provenance": {},
               "tables": [sheet(&format!("{name}.by_rank"), &[("name", ""), ("wait_ms", "ms")],
                   vec![row(json!([named("group"), 1.5]))])],
               "warnings": [named("a clock may be off")], "area": "time", "better": "lower",
               "summary": named("What it is")})
    };
    let [timeline, by_rank] = timeline_sheets(2, 10.0);
    json!({"report": 1, "trace": named("run"), "label": named("run"),
        "provenance": {"ccl_sql": "0.1.0", "schema_version": 6, "trace_fingerprint": "0123"},
        "headline": [{"title": "Step time", "value": 12.5, "unit": "ms", "source": "time_per_step",
            "note": named("per step, mean of 3 steps")}],
        "sheets": [configuration, timeline, by_rank, step_timeline, sizes_sheet(suffix),
            fits_sheet(suffix), overlap_sheet(2, 1.0), overlap_mean_sheet(2, 1.0),
            message_sizes_sheet(suffix), stragglers, memory, classes, kernels],
        "metrics": [metric("avg_step_time", json!(0.0125), "s"), metric("mfu", Value::Null, "pct"),
            metric("idle", json!(-3), "us"), metric("calls", json!(20000), "calls")]})
}

/// A comparison of a base and two tests; `suffix` follows the names that traces state.
pub fn comparison(suffix: &str) -> Value {
    let label = |i: usize| format!("run{i}{suffix}");
    let run = |i: usize| {
        let scale = 10.0 * (i + 1) as f64;
        let [timeline, by_rank] = timeline_sheets(2, scale);
        let configuration = sheet(
            "configuration",
            &[("device_name", ""), ("comm_env", "")],
            vec![row(json!(["H100", format!("{{\"NCCL_NTHREADS\": {i}}}")]))],
        );
        json!({"label": label(i), "trace": label(i), "role": if i == 0 { "base" } else { "test" },
            "sheets": [configuration, timeline, by_rank, sizes_sheet(suffix), fits_sheet(suffix),
                overlap_mean_sheet(2, scale)]})
    };
    let of_test = |i: usize| {
        let dashboard = sheet(
            "Summary_Dashboard",
            &[
                ("metric", ""),
                ("base", ""),
                ("test", ""),
                ("change_pct", "pct"),
                ("status", ""),
                ("unit", ""),
                ("effect_pct", "pct"),
                ("note", ""),
            ],
            vec![
                row(json!([
                    "GPU_total_time",
                    100.0,
                    90.0,
                    -10.0 * i as f64,
                    "Better",
                    "ms",
                    -8.0,
                    null
                ])),
                row(json!(["GPU_idle_time", 9.0, 10.0, 11.5, "Worse", "ms", 0.75, null])),
            ],
        );
        let metrics = sheet(
            "Metrics_Cmp",
            &[
                ("metric", ""),
                ("version", ""),
                ("unit", ""),
                ("better", ""),
                ("base", ""),
                ("test", ""),
                ("change_pct", "pct"),
                ("status", ""),
                ("noise_pct", "pct"),
                ("within_noise", ""),
            ],
            vec![
                row(json!([
                    "avg_step_time",
                    1,
                    "s",
                    "lower",
                    0.2,
                    0.1,
                    -50.0,
                    "Better",
                    2.0,
                    false
                ])),
                row(json!(["mfu", 1, "pct", "higher", 40.0, 4.0, -90.0, "Worse", null, null])),
                row(json!(["coll_call_num", 1, "calls", null, 9, 18, 100.0, null, 1.0, false])),
            ],
        );
        let by_rank = sheet(
            "GPU_ByRank_Cmp",
            &[("rank", ""), ("type", ""), ("percent_change", "pct"), ("status", "")],
            (0..12).map(|r| row(json!([r, "idle_time", 3.0 * r as f64, "Better"]))).collect(),
        );
        json!({"test": label(i), "sheets": [dashboard, metrics, by_rank]})
    };
    json!({"comparison": 1, "threshold_pct": 1.0, "provenance": {}, "runs": [run(0), run(1), run(2)],
        "comparisons": [of_test(1), of_test(2)],
        "ranking": sheet("ranking", &[("place", ""), ("label", "")],
            vec![row(json!([1, label(2)])), row(json!([2, label(0)]))])})
}
