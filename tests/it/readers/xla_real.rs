//! Known answers on real profiles of XLA, by a decoder written for this purpose (formats_xla,
//! sections 7 and 8). One lies in `trace_collection`; tests that need the others say so and pass
//! without them.

use crate::support::real::traces;
use crate::support::{Place, example};

/// The JSON form of a TPU profile: 4 chips of 8.
const TPU: &str = "xla/derived-from-xprof-tpu_inference_2/host.trace.json.gz";
/// Profiles of GPUs.
const MI300: &str = "xla/AMD-AGI+TraceLens/tests/traces/mi300";
const GPU_JSON: &str = "xla/derived-from-TraceLens-jax_conv_minimal_08";

/// Nanosecond columns move a value by less than this.
const NANOSECONDS: f64 = 1e-8;

fn check(read: &Place, known: &[(&str, &str, Option<f64>)]) {
    for (metric, key, expected) in known {
        let is_of_model = metric.starts_with("estimated") || metric.starts_with("flops_per");
        let params = if is_of_model { vec!["model_params=7e9"] } else { Vec::new() };
        let result = read.metric(metric, &params);
        let found = if key.is_empty() { &result["value"] } else { &result["details"][key] };
        // Numbers keep their digits as text.
        let found: Option<f64> = found.to_string().parse().ok();
        let near = match (expected, found) {
            (Some(a), Some(b)) => (a - b).abs() <= NANOSECONDS * a.abs(),
            (a, b) => a.is_none() && b.is_none(),
        };
        assert!(near, "{metric}.{key}: expected {expected:?}, got {found:?}");
    }
}

#[test]
fn events_of_each_line_are_those_of_the_file() {
    let read = Place::of(&example("jax-cpu-8dev"));
    // python; the client's threads; Eigen's.
    let lines = read.lines(
        "SELECT category, count(*) FROM events GROUP BY category, coalesce(stream, tid), tid IS NULL
         ORDER BY category, count(*)",
    );
    let mut by_thread = std::collections::BTreeMap::<String, i64>::new();
    for line in read.lines("SELECT coalesce(tid, stream), 1 FROM events") {
        let thread = line.split(' ').next().unwrap_or_default().to_owned();
        *by_thread.entry(thread).or_default() += 1;
    }
    let mut counts: Vec<i64> = by_thread.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [4, 16, 18, 43, 193, 221, 249, 251, 251, 258, 261, 273, 293], "{lines:?}");
    assert_eq!(read.lines("SELECT count(*) FROM events"), ["2331"]);
    assert_eq!(
        read.lines("SELECT rank, count(*) FROM device_events GROUP BY rank ORDER BY rank"),
        (0..8).map(|rank| format!("{rank} 57")).collect::<Vec<_>>()
    );
}

#[test]
fn devices_of_the_example() {
    let read = Place::of(&example("jax-cpu-8dev"));
    let busy = |class: &str| {
        read.lines(&format!(
            "SELECT sum(end_ns - start_ns)::BIGINT FROM busy_intervals WHERE class = '{class}'
             GROUP BY rank ORDER BY rank"
        ))
    };
    assert_eq!(
        busy("comm"),
        [
            "29229581", "29907206", "29611135", "26999504", "24161295", "21219812", "22653791",
            "24906129"
        ]
    );
    assert_eq!(
        busy("compute"),
        ["3316790", "2461458", "2908507", "5226020", "7497001", "9751367", "6062574", "6352122"]
    );
    assert_eq!(
        read.lines("SELECT end_ns - start_ns FROM _windows ORDER BY rank"),
        [
            "35109022", "34884828", "34870047", "34762076", "34608628", "34240741", "33903950",
            "34269294"
        ]
    );
    assert_eq!(
        read.lines("SELECT DISTINCT rank_source, world_size, base_ts_ns FROM ranks"),
        ["trace 8 1795232688616752671"]
    );
    assert_eq!(
        read.lines("SELECT step, ts_ns - 1795232688616752671, dur_ns FROM steps WHERE rank = 5"),
        ["0 69333 13521405", "1 13637377 10739027", "2 24423755 11067335"]
    );
}

#[test]
fn collectives_of_the_example() {
    let read = Place::of(&example("jax-cpu-8dev"));
    assert_eq!(
        read.lines(
            "SELECT collective, group_size, message_bytes, in_bytes, out_bytes, coll_source, count(*),
                 sum(dur_ns)::BIGINT
             FROM collectives GROUP BY ALL ORDER BY collective"
        ),
        [
            "all_gather 8 131072 16384 131072 hlo 24 101562266",
            "all_reduce 8 4 4 4 hlo 24 13011403",
            "all_to_all 8 32768 32768 32768 hlo 24 6697981",
            "reduce_scatter 8 262144 262144 32768 hlo 24 80970498",
            "send_recv 8 32768 32768 32768 hlo 24 6446305",
        ]
    );
    assert_eq!(
        read.lines(
            "SELECT collective, string_agg(transfer_ns, ',' ORDER BY first_start_ns), min(ranks_seen)
             FROM collective_calls GROUP BY collective ORDER BY collective"
        ),
        [
            "all_gather 995930,669495,1059896 8",
            "all_reduce 398302,181129,183243 8",
            "all_to_all 273727,271093,91085 8",
            "reduce_scatter 273957,418141,271353 8",
            "send_recv 259206,228049,121832 8",
        ]
    );
    assert_eq!(read.lines("SELECT count(*) FROM collectives WHERE step IS NULL"), ["0"]);
    check(
        &read,
        &[
            ("straggler_lag", "mean_lag_us", Some(1432.552)),
            ("wall_time_s", "", Some(0.035_109_022)),
            ("total_compute_time_s", "", Some(0.005_446_979_875)),
            ("total_comm_time_s", "", Some(0.026_086_056_625)),
            ("total_comm_time_s", "sum_all_ranks_s", Some(0.208_688_453)),
            ("avg_comm_kernel_time_s", "", Some(0.001_739_070_441_67)),
            ("compute_utilization_proxy", "", Some(0.158_045_416_5)),
            ("communication_fraction", "", Some(0.753_566_958_0)),
            ("communication_fraction", "of_busy", Some(0.825_555_106_4)),
            ("num_comm_kernels", "", Some(120.0)),
            ("num_comm_kernels_w_size_and_time", "", Some(120.0)),
            ("avg_comm_bandwidth_GBps", "from_events_gb_per_s", Some(0.046_635_373_7)),
            ("avg_comm_bandwidth_GBps", "", Some(0.213_560_298_6)),
            ("allreduce_comm_time_s", "", Some(0.013_011_403)),
            ("allreduce_comm_time_s", "mean_per_rank_s", Some(0.001_626_425_375)),
            ("hockney_alpha_s", "", None),
            ("total_model_flops_from_args", "", None),
            ("flops_per_token_used", "", Some(4.2e10)),
            ("estimated_total_tokens", "", None),
        ],
    );
}

/// Values of all metrics that two forms of one run must agree on.
const SHARED: [&str; 9] = [
    "wall_time_s",
    "total_compute_time_s",
    "total_comm_time_s",
    "avg_comm_kernel_time_s",
    "compute_utilization_proxy",
    "communication_fraction",
    "num_comm_kernels",
    "allreduce_comm_time_s",
    "straggler_lag",
];

fn agree(one: &Place, other: &Place) {
    for metric in SHARED {
        assert_eq!(
            one.metric(metric, &[])["value"],
            other.metric(metric, &[])["value"],
            "{metric}"
        );
    }
    let work =
        "SELECT rank, class, name, dur_ns, ts_ps, stream % 1000000 * 0 AS s, hlo_op, ts_ns - (
            SELECT min(ts_ns) FROM device_events) AS since
        FROM device_events ORDER BY rank, since, name, dur_ns, hlo_op";
    assert_eq!(one.lines(work), other.lines(work));
}

#[test]
fn both_forms_of_the_example_agree() {
    let folder = example("jax-cpu-8dev").join("plugins/profile/2026_11_21_03_44_48");
    let (pb, json) =
        (Place::of(&example("jax-cpu-8dev")), Place::of(&folder.join("vm.trace.json.gz")));
    agree(&pb, &json);
    assert_eq!(json.lines("SELECT count(*) FROM events"), ["2331"]);
    // Kinds come from the meetings of the devices; sizes are not there, and the figures say so.
    assert_eq!(
        json.lines(
            "SELECT collective, count(*), count(message_bytes), any_value(coll_source), any_value(group_size)
             FROM collectives GROUP BY collective ORDER BY collective"
        ),
        [
            "all_gather 24 0 rendezvous 8",
            "all_reduce 24 0 rendezvous 8",
            "all_to_all 24 0 rendezvous 8",
            "reduce_scatter 24 0 rendezvous 8",
            "send_recv 24 0 rendezvous 8",
        ]
    );
    assert_eq!(json.lines("SELECT count(*) FROM collective_calls WHERE ranks_seen = 8"), ["15"]);
    check(
        &json,
        &[
            ("num_comm_kernels_w_size_and_time", "", Some(0.0)),
            ("avg_comm_bandwidth_GBps", "", None),
            ("straggler_lag", "mean_lag_us", Some(1432.552)),
        ],
    );
}

#[test]
fn the_tpu_gives_its_known_answers() {
    let Some(traces) = traces("the_tpu_gives_its_known_answers") else { return };
    let read = Place::of(&traces.join(TPU));
    assert_eq!(
        read.lines(
            "SELECT rank, category, count(*) FROM host_events WHERE class = 'device_annotation'
                 AND (category LIKE 'XLA%' OR category LIKE 'Host Offload%')
             GROUP BY ALL ORDER BY ALL"
        )
        .iter()
        .filter(|line| !line.contains("Offload"))
        .collect::<Vec<_>>(),
        [
            "0 XLA Modules 105",
            "0 XLA TraceMe 108",
            "1 XLA Modules 103",
            "1 XLA TraceMe 106",
            "2 XLA Modules 103",
            "2 XLA TraceMe 106",
            "3 XLA Modules 103",
            "3 XLA TraceMe 106",
        ]
    );
    // 1504, 1503, 1503 and 1503 operations; 600 of each chip are the second halves of copies.
    assert_eq!(
        read.lines(
            "SELECT rank, count(*), count(*) FILTER (class = 'copy'), count(*) FILTER (class = 'comm'),
                 count(*) FILTER (class = 'compute')
             FROM device_events GROUP BY rank ORDER BY rank"
        ),
        ["0 904 600 3 301", "1 903 600 3 300", "2 903 600 3 300", "3 903 600 3 300"]
    );
    assert_eq!(
        read.lines("SELECT direction, bytes, count(*) FROM copies GROUP BY ALL ORDER BY ALL"),
        ["d2h 5368709120 1200", "h2d 5368709120 1200"]
    );
    // On the clock of the chip.
    assert_eq!(
        read.lines(
            "SELECT rank, string_agg(dur_ns, ',' ORDER BY ts_ns), any_value(message_bytes),
                 any_value(group_size), count(collective_id)
             FROM collectives GROUP BY rank ORDER BY rank"
        ),
        [
            "0 121687640,121687590,121685863 5368709120 2 0",
            "1 121699567,121702095,121696067 5368709120 2 0",
            "2 121692113,121691791,121690185 5368709120 2 0",
            "3 121704501,121707005,121700838 5368709120 2 0",
        ]
    );
    let near = |sql: &str, known: [i64; 4]| {
        for (found, known) in read.lines(sql).iter().zip(known) {
            let found: i64 = found.parse().expect("a number");
            assert!((found - known).abs() <= 600, "{sql}: {found}, not {known}");
        }
    };
    let busy = |class: &str| {
        format!(
            "SELECT sum(end_ns - start_ns)::BIGINT FROM busy_intervals WHERE class = '{class}'
             GROUP BY rank ORDER BY rank"
        )
    };
    near(&busy("comm"), [365_061_094, 365_097_730, 365_074_090, 365_112_345]);
    near(&busy("compute"), [2_409_145_079, 2_404_046_933, 2_404_978_770, 2_406_166_623]);
    near(&busy("copy"), [78_414_219_795, 78_423_207_605, 78_415_724_039, 78_399_966_285]);
    near(
        "SELECT end_ns - start_ns FROM _windows ORDER BY rank",
        [92_475_685_460, 90_428_220_550, 90_420_790_793, 90_405_001_966],
    );
    check(
        &read,
        &[
            ("wall_time_s", "", Some(92.475_685_46)),
            ("total_compute_time_s", "", Some(2.406_084_350_9)),
            ("total_comm_time_s", "", Some(0.365_086_314_687_5)),
            ("avg_comm_kernel_time_s", "", Some(0.121_695_438_229_17)),
            ("communication_fraction", "", Some(0.004_015_301_7)),
            ("num_comm_kernels", "", Some(12.0)),
            ("num_comm_kernels_w_size_and_time", "", Some(12.0)),
            ("avg_comm_bandwidth_GBps", "", Some(44.115_943_85)),
            ("avg_comm_bandwidth_GBps", "from_events_gb_per_s", Some(44.115_943_85)),
            ("allreduce_comm_time_s", "", Some(1.460_345_258_75)),
            ("hockney_alpha_s", "", None),
            ("total_model_flops_from_args", "", Some(1_626_718_863_360.0)),
            ("achieved_flops_from_trace_json", "", Some(17_590_773_783.06)),
            ("flops_per_token_used", "", Some(4.2e10)),
            ("estimated_total_tokens", "", Some(38.731_401_508_6)),
            ("estimated_throughput_tokens_per_s", "", Some(0.418_827_947_2)),
        ],
    );
    // The number of chips moves no figure whose events state their group.
    let all = |params: &[&str]| read.metric("avg_comm_bandwidth_GBps", params)["value"].clone();
    assert_eq!(all(&["n_chips=8"]), all(&[]));
}

#[test]
fn gpus_give_their_known_answers() {
    let Some(traces) = traces("gpus_give_their_known_answers") else { return };
    let of = |job: &str| Place::of(&traces.join(MI300).join(job));
    let counts =
        "SELECT rank, count(*) FILTER (class = 'compute'), count(*) FILTER (class = 'copy')
        FROM device_events GROUP BY rank ORDER BY rank";
    let busy = "SELECT class, rank, sum(end_ns - start_ns)::BIGINT FROM busy_intervals
        WHERE class IN ('compute', 'copy') GROUP BY ALL ORDER BY ALL";
    let windows = "SELECT end_ns - start_ns FROM _windows ORDER BY rank";
    let launched = "SELECT count(runtime_event_id), count(*) FROM launches";
    let (g1, g2, g3) = (of("jax08_gemm"), of("jax_conv_minimal_08"), of("jax_conv_minimal_legacy"));
    assert_eq!(g1.lines(counts), ["0 30 24"]);
    assert_eq!(g1.lines(busy), ["compute 0 3387604", "copy 0 87880"]);
    assert_eq!(g1.lines(windows), ["9456212"]);
    assert_eq!(g1.lines(launched), ["54 54"]);
    assert_eq!(g3.lines(counts), ["0 0 53", "7 25 0"]);
    assert_eq!(g3.lines(busy), ["compute 7 3586493", "copy 0 889028"]);
    assert_eq!(g3.lines(windows), ["27867728", "15761301"]);
    assert_eq!(g3.lines(launched), ["78 78"]);
    let kernels: Vec<String> =
        (0..8).map(|rank| format!("{rank} 25 {}", if rank == 0 { 35 } else { 0 })).collect();
    assert_eq!(g2.lines(counts), kernels);
    assert_eq!(
        g2.lines(windows),
        [
            "138470832",
            "112106106",
            "106992671",
            "95261145",
            "91596080",
            "92938503",
            "104221477",
            "90563059"
        ]
    );
    let compute = [3436644, 3345845, 3524285, 3403364, 3493365, 3464884, 3403004, 3502165];
    let mut expected: Vec<String> =
        compute.iter().enumerate().map(|(rank, ns)| format!("compute {rank} {ns}")).collect();
    expected.push("copy 0 559321".to_owned());
    assert_eq!(g2.lines(busy), expected);
    assert_eq!(g2.lines("SELECT count(*) FROM host_events"), ["3415"]);
    check(
        &g2,
        &[
            ("total_compute_time_s", "", Some(0.003_446_694_5)),
            ("total_compute_time_s", "sum_all_ranks_s", Some(0.027_573_556)),
            ("compute_utilization_proxy", "", Some(0.033_759_124_9)),
            ("total_comm_time_s", "", Some(0.0)),
            ("num_comm_kernels", "", Some(0.0)),
        ],
    );
    let json = Place::of(&traces.join(GPU_JSON));
    agree(&g2, &json);
    assert_eq!(json.lines(counts), kernels);
}

#[test]
fn a_process_of_two_knows_its_ranks() {
    let Some(traces) = traces("a_process_of_two_knows_its_ranks") else { return };
    let folder = traces.join("weird/derived-broken");
    let read = Place::of(&folder.join("gzipped.xplane.pb"));
    assert_eq!(
        read.lines("SELECT DISTINCT rank, world_size, rank_source FROM ranks ORDER BY rank"),
        ["0 8 trace", "1 8 trace", "2 8 trace", "3 8 trace"]
    );
    assert_eq!(
        read.lines(
            "SELECT hlo_op, collective, message_bytes, to_json(g.ranks), count(*)
             FROM collectives AS c
             INNER JOIN process_groups AS g USING (pg_id)
             INNER JOIN device_events AS d USING (event_id)
             WHERE c.rank = 2 GROUP BY ALL ORDER BY ALL"
        ),
        [
            "all_gather.3 all_gather 131072 [2,6] 3",
            "psum_invariant.14 all_reduce 65536 [0,1,2,3] 3",
            "psum_invariant.15 all_reduce 4 [0,1,2,3,4,5,6,7] 3",
            "reduce_scatter.7 reduce_scatter 131072 [0,1,2,3] 3",
        ]
    );
    assert_eq!(read.lines("SELECT count(DISTINCT step) FROM steps"), ["3"]);
    let (place, broken) = (Place::new(), folder.join("truncated.xplane.pb"));
    let args = ["ingest", &broken.to_string_lossy()];
    let outcome = place.run(&args);
    assert_eq!((outcome.code, outcome.errors()), (1, vec!["trace-truncated"]));
    assert_eq!(place.run(&[&args[..], &["--keep-partial"]].concat()).code, 0);
    let tables = place.tables();
    assert_eq!(tables.int("SELECT count(*) FROM events"), 0);
    assert_eq!(tables.int("SELECT count(*) FROM ingest_log WHERE code = 'trace-truncated'"), 1);
}
