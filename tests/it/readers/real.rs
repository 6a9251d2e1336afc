//! Known answers on real traces, counted by hand or by other programs (formats_kineto, sections 12
//! and 13). The traces are not part of the project: without them (`CCL_SQL_TRACES`, else
//! `../shared/traces` beside the project) each test says so and passes.

use std::path::Path;

use serde_json::Value;

use crate::support::real::traces;
use crate::support::{Place, in_parallel};

/// Ranks and what each has, in their order.
type PerRank<'a> = &'a [i64];

/// A job and its known answers. Times are in `unit_ns`.
struct Job {
    /// Folder or file below the traces.
    path: &'static str,
    unit_ns: i64,
    /// Calls by kind, of each rank.
    calls: &'static [(&'static str, PerRank<'static>)],
    comm: PerRank<'static>,
    compute: PerRank<'static>,
    overlap: PerRank<'static>,
    wall: PerRank<'static>,
    /// Durations of the steps of each rank, one rank after the other.
    steps: PerRank<'static>,
    /// Metric, key of its details, value.
    values: &'static [(&'static str, &'static str, f64)],
}

const US: i64 = 1000;
const NS: i64 = 1;

const JOBS: [Job; 18] = [
    Job {
        path: "kineto/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank",
        unit_ns: US,
        calls: &[
            ("all_to_all", &[5, 5, 5, 5, 5, 5, 5, 5]),
            ("all_reduce", &[3, 3, 3, 3, 3, 3, 3, 3]),
        ],
        comm: &[5798, 11336, 3492, 9774, 6587, 6251, 3558, 1746],
        compute: &[1034, 1246, 1068, 1240, 1126, 1041, 1051, 1059],
        overlap: &[261, 280, 275, 324, 37, 40, 269, 166],
        wall: &[13009, 18749, 11350, 18853, 16589, 16392, 11410, 10967],
        steps: &[14455, 19901, 13017, 19313, 17979, 17797, 13091, 12509],
        values: &[
            ("coll_call_num", "total_calls", 64.0),
            ("straggler_lag", "mean_lag_us", 1405.5),
            ("straggler_lag", "num_collectives", 8.0),
            ("sync_overhead_ms", "sync_overhead_ms", 5.855375),
            ("straggler", "sync_overhead_ms", 5.855375),
            ("straggler", "straggler_rank", 7.0),
            ("straggler", "num_stragglers", 1.0),
            ("bubble_time_s", "bubble_time_s", 0.007675625),
            ("communication", "communication_time_ms", 6.06775),
            ("comm_volume_bytes", "comm_volume_bytes", 2_549_700.0),
            ("training_phases", "forward_time_ms", 5.94775),
            ("training_phases", "backward_time_ms", 4.654_875),
            ("training_phases", "optimizer_time_ms", 1.42325),
            ("training_phases", "forward_device_ms", 3.588_125),
            ("training_phases", "backward_device_ms", 2.064_125),
            ("training_phases", "rest_device_ms", 1.084),
        ],
    },
    Job {
        path: "kineto/pytorch+torchrec/trace/sst_long_a2a_optimizer",
        unit_ns: US,
        calls: &[("all_to_all", &[12, 12, 12, 12]), ("send_recv", &[1, 1, 0, 1])],
        comm: &[3_073_067, 3_073_095, 36_693, 3_071_948],
        compute: &[118_965, 122_076, 122_190, 122_074],
        overlap: &[36_693, 39_605, 4_975, 39_567],
        wall: &[3_294_949, 3_294_927, 3_282_373, 3_294_799],
        steps: &[
            1_056_620, 1_172_473, 1_054_116, 1_056_624, 1_172_391, 1_054_205, 1_057_092, 1_161_900,
            1_064_398, 1_056_477, 1_172_887, 1_053_678,
        ],
        values: &[
            ("straggler", "straggler_rank", 2.0),
            ("bubble_time_s", "bubble_time_s", 0.886_851_5),
            ("straggler_lag", "mean_lag_us", 253_030.916_667),
            ("straggler_lag", "num_collectives", 12.0),
        ],
    },
    Job {
        path: "kineto/pytorch+torchrec/trace/sst_long_a2a_optimizer_2/run_a",
        unit_ns: US,
        calls: &[
            ("all_to_all", &[15, 15, 15, 15]),
            ("all_reduce", &[16, 16, 15, 16]),
            ("send_recv", &[2, 2, 1, 2]),
        ],
        comm: &[3_223_525, 3_234_628, 109_964, 3_231_958],
        compute: &[377_657, 381_129, 371_819, 381_729],
        overlap: &[139_687, 152_147, 24_239, 150_171],
        wall: &[3_667_678, 3_667_879, 3_654_099, 3_667_910],
        steps: &[
            1_346_957, 1_108_236, 1_132_810, 1_343_228, 1_110_681, 1_132_785, 1_329_549, 1_123_939,
            1_135_165, 1_343_300, 1_110_814, 1_132_613,
        ],
        values: &[("straggler", "straggler_rank", 2.0)],
    },
    Job {
        path: "kineto/pytorch+torchrec/trace/sst_long_a2a_optimizer_2/run_b",
        unit_ns: US,
        calls: &[
            ("all_to_all", &[15, 15, 15, 15]),
            ("all_reduce", &[16, 16, 15, 16]),
            ("send_recv", &[1, 1, 1, 1]),
        ],
        comm: &[278_923, 275_908, 115_840, 272_482],
        compute: &[377_045, 380_152, 354_708, 380_475],
        overlap: &[129_084, 129_868, 29_818, 127_672],
        wall: &[729_287, 729_236, 698_932, 728_567],
        steps: &[
            355_642, 138_977, 158_800, 355_322, 140_002, 158_250, 343_498, 150_628, 160_199,
            355_002, 139_847, 158_333,
        ],
        values: &[("straggler", "straggler_rank", 2.0)],
    },
    Job {
        path: "kineto/pytorch+torchrec/trace/sst_long_a2a_optimizer_3",
        unit_ns: US,
        calls: &[
            ("all_to_all", &[15, 15, 15, 15]),
            ("all_reduce", &[16, 15, 15, 16]),
            ("send_recv", &[1, 1, 1, 1]),
        ],
        comm: &[261_518, 250_308, 108_377, 251_919],
        compute: &[375_340, 378_090, 354_720, 377_417],
        overlap: &[126_317, 120_355, 24_013, 119_203],
        wall: &[743_208, 739_262, 714_594, 743_188],
        steps: &[
            378_402, 134_195, 155_424, 379_340, 134_608, 155_871, 369_045, 142_845, 157_209,
            378_215, 135_186, 155_230,
        ],
        values: &[("straggler", "straggler_rank", 2.0)],
    },
    Job {
        path: "kineto/pytorch+torchrec/trace/sst_sleep_pl_dense_after_backward_2",
        unit_ns: US,
        calls: &[("all_to_all", &[12, 12, 12, 12]), ("send_recv", &[1, 1, 0, 1])],
        comm: &[3_069_862, 3_069_545, 37_105, 3_068_398],
        compute: &[118_938, 122_083, 122_459, 122_443],
        overlap: &[36_279, 39_252, 4_989, 39_486],
        wall: &[3_296_150, 3_296_078, 3_283_743, 3_296_002],
        steps: &[
            1_056_410, 1_172_759, 1_055_019, 1_056_382, 1_172_767, 1_055_113, 1_056_705, 1_160_062,
            1_068_008, 1_056_493, 1_172_774, 1_054_888,
        ],
        values: &[("straggler", "straggler_rank", 2.0)],
    },
    Job {
        path: "kineto/pytorch+torchrec/log/resnet18",
        unit_ns: US,
        calls: &[("all_to_all", &[12, 12])],
        comm: &[7734, 172],
        compute: &[684, 698],
        overlap: &[0, 0],
        wall: &[128_959, 129_231],
        steps: &[43_240, 43_021, 42_889, 43_483, 42_945, 42_997],
        values: &[],
    },
    Job {
        path: "kineto/facebookresearch+HolisticTraceAnalysis/tests/data/trace_filter",
        unit_ns: US,
        calls: &[("all_to_all", &[4, 4]), ("all_reduce", &[4, 4]), ("all_gather", &[2, 2])],
        comm: &[396_199, 379_053],
        compute: &[210_320, 271_973],
        overlap: &[59_216, 75_530],
        wall: &[1_222_847, 1_231_186],
        steps: &[607_312, 622_928, 607_904, 630_639],
        values: &[],
    },
    Job {
        path: "kineto/facebookresearch+HolisticTraceAnalysis/tests/data/nccl_parser_config",
        unit_ns: NS,
        calls: &[("all_reduce", &[15]), ("broadcast", &[6])],
        comm: &[46_876_493],
        compute: &[115_655_847],
        overlap: &[7_317_025],
        wall: &[660_551_005],
        steps: &[222_442_191, 219_726_905, 224_936_243],
        values: &[
            ("training_phases", "forward_time_ms", 103.193_409),
            ("training_phases", "backward_time_ms", 103.522_193),
            ("training_phases", "optimizer_time_ms", 14.8352),
            ("training_phases", "forward_device_ms", 12.922_674),
            ("training_phases", "backward_device_ms", 38.884_571),
            ("training_phases", "step_device_ms", 52.500_005),
            ("coll_call_num", "total_calls", 21.0),
            ("comm_comp_overlap", "overlap_ratio_of_comm", 0.156_091_562),
            ("total_comm_time_s", "total_comm_time_s", 0.046_876_493),
            ("iter_time", "avg_iter_time_ms", 222.368_446),
        ],
    },
    Job {
        path: "kineto/derived-hta-nccl-metadata-2rank",
        unit_ns: NS,
        calls: &[("all_reduce", &[15, 15]), ("broadcast", &[6, 6])],
        comm: &[46_876_493, 22_081_945],
        compute: &[115_655_847, 115_655_847],
        overlap: &[7_317_025, 4_358_561],
        wall: &[660_551_005, 660_551_005],
        steps: &[222_442_191, 219_726_905, 224_936_243, 222_442_191, 219_726_905, 224_936_243],
        values: &[
            // The mean of the 21 start delays that made rank 1: its clock offset is taken away.
            ("straggler_lag", "mean_lag_us", 1_180.692_761_9),
            ("straggler_lag", "num_collectives", 21.0),
        ],
    },
    Job {
        path: "kineto/AMD-AGI+TraceLens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
        unit_ns: NS,
        calls: &[("all_reduce", &[6]), ("broadcast", &[6]), ("unknown", &[5])],
        comm: &[71_516_523],
        compute: &[25_739_303],
        overlap: &[15_891_299],
        wall: &[86_567_708],
        steps: &[16_798_984, 15_950_958, 15_887_029],
        values: &[
            ("coll_call_num", "total_calls", 17.0),
            ("comm_comp_overlap", "overlap_ratio_of_comm", 0.222_204_581),
        ],
    },
    Job {
        path: "nsys/GindaChen+nsys-ai/tests/fixtures/mfu_2gpu_before.sqlite",
        unit_ns: NS,
        calls: &[("all_to_all", &[32, 32]), ("send_recv", &[1, 1])],
        comm: &[17_172_652, 8_229_100],
        compute: &[253_690_832, 256_095_624],
        overlap: &[0, 0],
        wall: &[299_848_812, 298_661_551],
        steps: &[],
        values: &[
            ("coll_call_num", "total_calls", 66.0),
            ("comm_comp_overlap", "overlap_ratio_of_comm", 0.0),
            ("total_comm_time_s", "sum_all_ranks_s", 0.025_401_752),
        ],
    },
    Job {
        path: "nsys/GindaChen+nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite",
        unit_ns: NS,
        calls: &[],
        comm: &[],
        compute: &[22_385_163, 22_444_359],
        overlap: &[],
        wall: &[],
        steps: &[],
        values: &[("coll_call_num", "total_calls", 0.0)],
    },
    Job {
        path: "nsys/GindaChen+nsys-ai/tests/fixtures/healthy_1pct.sqlite",
        unit_ns: NS,
        calls: &[],
        comm: &[],
        compute: &[400_000_000],
        overlap: &[],
        wall: &[],
        steps: &[],
        values: &[],
    },
    Job {
        path: "nsys/GindaChen+nsys-ai/tests/fixtures/mock.sqlite",
        unit_ns: NS,
        calls: &[],
        comm: &[],
        compute: &[4_129],
        overlap: &[],
        wall: &[],
        steps: &[],
        values: &[],
    },
    Job {
        path: "nsys/hpcgroup+pipit/pipit/tests/data/cloverleaf-nsys/perlmutter-cloverleaf-cuda.sqlite",
        unit_ns: NS,
        calls: &[],
        comm: &[],
        compute: &[294_404_540],
        overlap: &[],
        wall: &[],
        steps: &[],
        values: &[],
    },
    Job {
        path: "own/nsys-c-nvtx/rep.sqlite",
        unit_ns: NS,
        calls: &[],
        comm: &[],
        compute: &[],
        overlap: &[],
        wall: &[],
        steps: &[19_891_145, 11_362_395, 12_625_952, 16_000_971],
        values: &[],
    },
    Job {
        path: "own/gloo-ddp-2rank",
        unit_ns: NS,
        calls: &[
            ("all_reduce", &[9, 9]),
            ("broadcast", &[3, 3]),
            ("all_gather", &[3, 3]),
            ("barrier", &[3, 3]),
            ("send", &[3, 0]),
            ("recv", &[0, 3]),
        ],
        comm: &[70_976_531, 43_178_598],
        compute: &[],
        overlap: &[],
        wall: &[],
        steps: &[25_380_998, 45_119_737, 28_458_113, 23_593_219, 41_334_879, 24_502_912],
        values: &[],
    },
];

/// Differences from the known answers, in words.
fn failures(job: &Job, traces: &Path) -> Vec<String> {
    let (place, trace) = (Place::new(), traces.join(job.path));
    let outcome = place.run(&["ingest", &trace.to_string_lossy(), "--name", "job", "-q"]);
    if outcome.code != 0 {
        return vec![format!("{}: {}", job.path, outcome.stderr)];
    }
    let mut out = Vec::new();
    let mut check = |what: &str, expected: String, found: String| {
        if expected != found {
            out.push(format!("{}: {what}: expected {expected}, got {found}", job.path));
        }
    };
    let tables = place.tables();
    let list = |sql: &str| -> String {
        let csv = tables.query(sql);
        let texts: Vec<String> =
            csv.rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
        texts.join(" ")
    };
    let known = |numbers: &[i64], unit: i64| {
        numbers.iter().map(|n| (n * unit).to_string()).collect::<Vec<_>>().join(" ")
    };
    for (kind, counts) in job.calls {
        let sql = format!(
            "SELECT count(c.event_id) FROM (SELECT DISTINCT rank FROM ranks) AS r
             LEFT JOIN collectives AS c ON c.rank = r.rank AND c.collective = '{kind}'
             GROUP BY r.rank ORDER BY r.rank"
        );
        check(kind, known(counts, 1), list(&sql));
    }
    let kinds: i64 = job.calls.iter().flat_map(|(_, counts)| counts.iter()).sum();
    check("calls", kinds.to_string(), list("SELECT count(*) FROM collectives"));
    for (class, numbers) in [("comm", job.comm), ("compute", job.compute)] {
        let sql = format!(
            "SELECT sum(end_ns - start_ns)::BIGINT FROM busy_intervals
             WHERE class = '{class}' GROUP BY rank ORDER BY rank"
        );
        check(class, known(numbers, job.unit_ns), list(&sql));
    }
    if !job.wall.is_empty() {
        let sql = "SELECT sum(interval_overlap_ns(comm, compute))::BIGINT FROM _busy
                   GROUP BY rank ORDER BY rank";
        check("overlap", known(job.overlap, job.unit_ns), list(sql));
        let sql = "SELECT end_ns - start_ns FROM _windows ORDER BY rank";
        check("wall", known(job.wall, job.unit_ns), list(sql));
    }
    let sql = "SELECT dur_ns FROM steps ORDER BY rank, ts_ns";
    check("steps", known(job.steps, job.unit_ns), list(sql));
    for (metric, key, value) in job.values {
        let result = place.metric(metric, &[]);
        let found = match &result["details"][key] {
            Value::Null => &result["value"],
            found => found,
        };
        let number = found.to_string().parse().unwrap_or(f64::NAN);
        // Known values were written down with nine decimals below 1 and six above.
        let digit = if value.abs() < 1.0 { 1e-9 } else { 1e-6 };
        let near = (number - value).abs() <= 0.51 * digit;
        if !near {
            check(&format!("{metric}.{key}"), value.to_string(), found.to_string());
        }
    }
    out
}

#[test]
fn jobs_give_their_known_answers() {
    let Some(traces) = traces("jobs_give_their_known_answers") else { return };
    let failures = in_parallel(&JOBS, |job| failures(job, &traces));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn sizes_of_real_collectives_are_known() {
    let Some(traces) = traces("sizes_of_real_collectives_are_known") else { return };
    // Rank 0: kind, bytes in order of time (formats_kineto, section 4, the worked example).
    let place = Place::of(&traces.join(JOBS[0].path));
    let tables = place.tables();
    let bytes = |kind: &str, rank: i64| {
        let sql = format!(
            "SELECT string_agg(message_bytes, ' ' ORDER BY ts_ns) AS s FROM collectives
             WHERE rank = {rank} AND collective = '{kind}' AND coll_source = 'annotation'"
        );
        tables.query(&sql).get(0, "s").unwrap_or_default().to_owned()
    };
    for rank in 0..8 {
        let sorted = |text: String| {
            let mut numbers: Vec<i64> = text.split(' ').filter_map(|n| n.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(bytes("all_to_all", rank)), [192, 1536, 13568, 24576, 24576], "{rank}");
        assert_eq!(sorted(bytes("all_reduce", rank)), [448, 907_840, 1_576_964], "{rank}");
    }
    // What the ranks receive of the 3392 sent by each is 8 x 3392 in all.
    let sql = "SELECT CAST(sum(out_elems) AS BIGINT) FROM collectives
               WHERE collective = 'all_to_all' AND in_elems = 3392";
    assert_eq!(tables.int(sql), 8 * 3392);
}

/// Elements of `traceEvents` that were read: slices, instants, arrows and rows of names (`M`).
const ELEMENTS: &str = "SELECT (SELECT count(*) FROM host_events)
    + (SELECT count(*) FROM device_events) + (SELECT count(*) FROM flows)
    + (SELECT count(*) FROM metadata WHERE key LIKE '%:%' AND NOT EXISTS (
        SELECT 1 FROM sources WHERE source = 'nsys'))";

/// Damaged files: name, elements read when it can be read, else the code of the error, and what a
/// second run with --keep-partial keeps (None: refuses as well).
const WEIRD: [(&str, Result<i64, &str>, Option<i64>); 21] = [
    ("kineto_bom.json", Ok(75), Some(75)),
    ("kineto_crlf.json", Ok(75), Some(75)),
    ("kineto_windows_path_bad_escape.json", Ok(75), Some(75)),
    ("kineto_raw_control_char.json", Ok(75), Some(75)),
    ("kineto_trailing_comma.json", Ok(75), Some(75)),
    // Its last byte, half a character, follows a complete string: no JSON even before the end.
    ("kineto_truncated_in_utf8_multibyte.json", Err("trace-truncated"), None),
    ("kineto_gz_truncated.json.gz", Err("trace-truncated"), None),
    ("kineto_gz_bad_crc.json.gz", Err("gzip-broken"), Some(30)),
    ("kineto_gz_two_members.json.gz", Ok(30), Some(30)),
    ("kineto_gz_without_gz_name.json", Ok(30), Some(30)),
    ("kineto_toplevel_array.json", Ok(75), Some(75)),
    ("kineto_no_events.json", Ok(0), Some(0)),
    ("kineto_bad_distributedInfo.json", Ok(75), Some(75)),
    ("kineto_ts_dur_as_strings.json", Ok(75), Some(75)),
    ("kineto_nan_inf_negative_dur.json", Ok(75), Some(75)),
    ("kineto_weird_events.json", Ok(76), Some(76)),
    ("html_404.json", Err("not-a-trace"), None),
    ("nsys_truncated.sqlite", Err("trace-truncated"), None),
    ("nsys_kernel_table_missing_columns.sqlite", Err("nsys-unusable"), None),
    ("nsys_nccl_stringids_dangling.sqlite", Ok(28_868), Some(28_868)),
    ("nsys_gz.sqlite.gz", Ok(736), Some(736)),
];

#[test]
fn damaged_files_do_what_is_known() {
    let Some(traces) = traces("damaged_files_do_what_is_known") else { return };
    let folder = traces.join("weird/derived-broken");
    let failures = in_parallel(&WEIRD, |(file, expected, kept)| {
        let trace = folder.join(file).to_string_lossy().into_owned();
        let mut out = Vec::new();
        let outcome = |partial: bool| -> Result<i64, String> {
            let place = Place::new();
            let mut args = vec!["ingest", &trace];
            args.extend(partial.then_some("--keep-partial"));
            let run = place.run(&args);
            match run.code {
                0 => Ok(place.tables().int(ELEMENTS)),
                1 => Err(run.errors().join(" ")),
                code => Err(format!("exit code {code}: {}", run.stderr)),
            }
        };
        let found = outcome(false);
        if found.as_ref().map_err(String::as_str) != expected.as_ref().map_err(|e| *e) {
            out.push(format!("{file}: expected {expected:?}, got {found:?}"));
        }
        if expected.is_err() {
            let found = outcome(true);
            if found.as_ref().ok() != kept.as_ref() {
                out.push(format!("{file} --keep-partial: expected {kept:?}, got {found:?}"));
            }
        }
        out
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
