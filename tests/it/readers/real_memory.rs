//! Known answers on real memory snapshots, by programs written for this purpose (formats_kineto,
//! section 11): start, peak and end of what was allocated, and what was reserved. Skipped where the
//! files are not.

use serde_json::Value;

use crate::support::Place;
use crate::support::real::traces;

/// A snapshot: its file below the traces and its events; start, peak and end of what was asked for,
/// and of what was allocated (a block that is there at the end by its own size, any other rounded
/// up to 512 bytes); reserved bytes. By a program in Python.
struct Snapshot {
    path: &'static str,
    events: i64,
    requested: [i64; 3],
    allocated: [i64; 3],
    reserved: i64,
}

const SNAPSHOTS: [Snapshot; 7] = [
    Snapshot {
        path: "memory/MAGMA27+assignment2-systems/memory_snapshot.pickle",
        events: 5_163,
        requested: [1_373_919_236, 13_923_997_700, 1_373_919_236],
        allocated: [1_377_753_600, 13_927_832_064, 1_377_753_600],
        reserved: 14_180_941_824,
    },
    Snapshot {
        path: "memory/Wedsonlin+assignment2-systems/results/medium_128_inference_memory_snapshot.pickle",
        events: 3_840,
        requested: [1_701_310_464, 1_736_962_048, 1_701_310_464],
        allocated: [1_703_276_544, 1_738_928_128, 1_703_276_544],
        reserved: 1_763_704_832,
    },
    Snapshot {
        path: "memory/Wedsonlin+assignment2-systems/results/medium_128_training_memory_snapshot.pickle",
        events: 19_136,
        requested: [5_095_321_600, 7_013_335_044, 6_808_535_044],
        allocated: [5_097_287_680, 7_021_691_392, 6_816_891_392],
        reserved: 7_235_174_400,
    },
    Snapshot {
        path: "memory/Wedsonlin+assignment2-systems/results/medium_256_inference_memory_snapshot.pickle",
        events: 3_840,
        requested: [1_701_367_808, 1_793_775_616, 1_701_367_808],
        allocated: [1_703_333_888, 1_795_741_696, 1_703_333_888],
        reserved: 1_864_368_128,
    },
    Snapshot {
        path: "memory/Wedsonlin+assignment2-systems/results/medium_256_training_memory_snapshot.pickle",
        events: 19_430,
        requested: [5_095_403_520, 9_103_544_320, 6_829_096_964],
        allocated: [5_097_369_600, 9_106_493_440, 6_837_944_832],
        reserved: 9_265_217_536,
    },
    Snapshot {
        path: "memory/Wedsonlin+assignment2-systems/results/medium_512_inference_memory_snapshot.pickle",
        events: 4_998,
        requested: [1_701_482_496, 1_949_343_744, 1_701_482_496],
        allocated: [1_703_448_576, 1_951_309_824, 1_703_448_576],
        reserved: 1_981_808_640,
    },
    Snapshot {
        path: "memory/bcrafton+assignment2-systems/memory_snapshot.pickle",
        events: 6_486,
        requested: [3_064_418_304, 3_849_232_640, 3_064_418_304],
        allocated: [3_068_886_016, 3_857_686_016, 3_072_871_424],
        reserved: 4_238_344_192,
    },
];

/// A raw timeline: start, peak, end, span in ns.
const TIMELINE: &str = "memory/facebookresearch+HolisticTraceAnalysis/tests/data/memory_analysis/memory_timeline.raw.gz";

/// The only row of a query, as integers.
fn row(place: &Place, sql: &str) -> Vec<i64> {
    let number = |cell: Option<String>| {
        cell.expect("a number").parse::<f64>().expect("a number").round() as i64
    };
    let rows = place.query(sql).rows;
    rows.into_iter().next().expect("a row").into_iter().map(number).collect()
}

/// A GiB in the details of a metric, in bytes.
fn bytes(result: &Value, key: &str) -> i64 {
    let gib: f64 = result["details"][key].to_string().parse().expect("a number");
    (gib * f64::from(1 << 30)).round() as i64
}

#[test]
fn snapshots_play_back_to_their_peaks() {
    let Some(folder) = traces("snapshots_play_back_to_their_peaks") else { return };
    for Snapshot { path, events, requested, allocated, reserved } in SNAPSHOTS {
        let place = Place::of(&folder.join(path));
        let memory = place.metric("memory", &[]);
        let [start, peak, end] = allocated;
        let said = ["peak_allocated_gib", "peak_active_gib", "current_allocated_gib"]
            .map(|key| bytes(&memory, key));
        assert_eq!(said, [peak, peak, end], "{path}");
        let said = ["peak_requested_gib", "current_requested_gib"].map(|key| bytes(&memory, key));
        assert_eq!(said, requested[1..], "{path}");
        let said = ["peak_reserved_gib", "current_reserved_gib", "peak_above_start_gib"]
            .map(|key| bytes(&memory, key));
        assert_eq!(said, [reserved, reserved, peak - start], "{path}");
        assert_eq!(memory["details"]["consistent"], true, "{path}");
        let levels = row(
            &place,
            "SELECT count(*) - 1, max(allocated_bytes) FILTER (WHERE place = 0),
                    max(allocated_bytes), arg_max(allocated_bytes, place), min(reserved_bytes),
                    max(requested_bytes) FILTER (WHERE place = 0)
             FROM _memory_levels",
        );
        assert_eq!(levels, [events, start, peak, end, reserved, requested[0]], "{path}");
        // What is alive at the peak, allocation by allocation, is the peak.
        let alive = row(&place, "SELECT sum(alive_bytes) FROM _memory_alive WHERE moment = 'peak'");
        assert_eq!(alive, [peak], "{path}");
        // Blocks fill their segments; every event names a stack that is there.
        let checks = row(
            &place,
            "SELECT (SELECT count(*) FROM memory_segments AS s
                     WHERE total_size <> (SELECT sum(size) FROM memory_blocks AS b
                                          WHERE b.segment_id = s.segment_id)),
                    (SELECT count(*) FROM memory_events
                     WHERE stack_id NOT IN (SELECT stack_id FROM memory_stacks)),
                    (SELECT count(*) FROM ingest_log WHERE severity <> 'info')",
        );
        assert_eq!(checks, [0, 0, 0], "{path}");
    }
}

#[test]
fn stacks_and_states_of_a_snapshot() {
    let Some(folder) = traces("stacks_and_states_of_a_snapshot") else { return };
    let place = Place::of(&folder.join(SNAPSHOTS[0].path));
    let memory = place.metric("memory", &[]);
    let details = &memory["details"];
    assert_eq!(details["block_states"].to_string(), r#"{"active_allocated":229,"inactive":226}"#);
    assert_eq!(details["num_segments"], 216);
    assert_eq!((&details["num_allocations"], &details["num_frees"]), (&1721.into(), &1721.into()));
    let top = place.metric("memory_top_stacks", &[]);
    let largest: Vec<String> = top["details"]["top_stacks"]
        .as_array()
        .expect("a list")
        .iter()
        .take(5)
        .map(|stack| stack["alive_bytes"].to_string())
        .collect();
    assert_eq!(largest, ["2415919104", "2415919104", "1212678144", "1207959552", "1207959552"]);
    let near = |key: &str, expected: f64, of: &Value| {
        let found: f64 = of["details"][key].to_string().parse().expect("a number");
        assert!((found - expected).abs() < 1e-12, "{key}: {found}");
    };
    near("known_ratio", 0.924_606_098_409_659_9, &top);
    near("external_fragmentation_ratio", 0.902_844_704_033_107_8, &memory);
    near("internal_fragmentation_ratio", 0.002_783_054_967_158_133, &memory);
    near("scattered_ratio", 0.974_283_525_459_478_6, &memory);
}

#[test]
fn a_raw_timeline_has_its_peak() {
    let Some(folder) = traces("a_raw_timeline_has_its_peak") else { return };
    let place = Place::of(&folder.join(TIMELINE));
    let memory = place.metric("memory", &[]);
    assert_eq!(memory["details"]["method"], "timeline");
    assert_eq!(bytes(&memory, "peak_allocated_gib"), 3_082_832_104);
    let levels = row(
        &place,
        "SELECT max(allocated_bytes) FILTER (WHERE place = 0), max(allocated_bytes),
                arg_max(allocated_bytes, place), max(ts_ns) - min(ts_ns)
         FROM _memory_levels",
    );
    assert_eq!(levels, [332_060_904, 3_082_832_104, 332_060_904, 987_186_231]);
    let counts = row(&place,
        "SELECT count(*) FILTER (WHERE action = 'preexisting' AND ts_ns IS NULL),
                count(*) FILTER (WHERE action = 'create'), count(*) FILTER (WHERE action = 'new_version'),
                count(*) FILTER (WHERE action = 'destroy'), count(*)
         FROM memory_events",
    );
    assert_eq!(counts, [645, 3345, 9510, 3345, 16_845]);
}

#[test]
fn strange_pickles_are_refused_or_read() {
    let Some(folder) = traces("strange_pickles_are_refused_or_read") else { return };
    let weird = folder.join("weird/derived-broken");
    for (file, codes) in [
        ("memory_MALICIOUS_global.pickle", &["pickle-code"][..]),
        ("memory_truncated.pickle", &["trace-truncated"]),
        ("memory_old_list_form.pickle", &[]),
    ] {
        let outcome = Place::new().run(&["ingest", &weird.join(file).to_string_lossy()]);
        assert_eq!(outcome.errors(), codes, "{file}: {}", outcome.stderr);
    }
}

#[test]
fn samples_of_kineto_have_peaks() {
    let Some(folder) = traces("samples_of_kineto_have_peaks") else { return };
    // The largest Total Allocated and Total Reserved of the GPU, read off the files.
    for (path, allocated, reserved) in SAMPLES {
        let place = Place::of(&folder.join(path));
        let memory = place.metric("memory", &[]);
        assert_eq!(memory["details"]["method"], "counters", "{path}");
        let said = ["peak_allocated_gib", "peak_reserved_gib"].map(|key| bytes(&memory, key));
        assert_eq!(said, [allocated, reserved], "{path}");
    }
}

/// Traces of Kineto with samples of the allocator: largest totals of their GPU.
const SAMPLES: [(&str, i64, i64); 2] = [
    (
        "kineto/AMD-AGI+TraceLens/tests/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        2088508416,
        2629828608,
    ),
    (
        "kineto/AMD-AGI+TraceLens/tests/traces/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
        146394112,
        224395264,
    ),
];
