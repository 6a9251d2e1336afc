//! Known answers on real execution traces, counted by another program (formats_kineto, section 4).
//! The traces are not part of the project: without them each test says so and passes.

use std::path::PathBuf;

use crate::support::real::traces;
use crate::support::{Place, files, name};

const DLRM: &str = "facebookresearch+param/et_replay/tests/inputs/dlrm_8rank";
const PARAM: &str = "et/facebookresearch+param/et_replay/tests/inputs";

/// Ingests some files, under one root, as one trace.
fn ingest(files: &[PathBuf]) -> Place {
    let place = Place::new();
    for file in files {
        place.write(&format!("job/{}", name(file)), std::fs::read(file).expect("it can be read"));
    }
    place.run(&["ingest", "job", "-q"]).done();
    place
}

/// Nodes, records of communication and names of each file of every version.
#[test]
fn nodes_of_every_version() {
    let Some(traces) = traces("nodes_of_every_version") else { return };
    for (path, nodes, records, names) in FILES {
        let folder = ingest(&[traces.join(path)]);
        let sql = "SELECT count(*), count(*) FILTER (name = 'record_param_comms'),
                count(DISTINCT name), count(DISTINCT node_id),
                count(*) FILTER (name = 'record_param_comms' AND collective_name IS NULL)
            FROM et_nodes";
        assert_eq!(folder.lines(sql), [format!("{nodes} {records} {names} {nodes} 0")], "{path}");
    }
}

/// File, nodes, records of communication, names.
const FILES: [(&str, u64, u64, u64); 18] = [
    (
        "et/facebookresearch+HolisticTraceAnalysis/tests/data/execution_trace/benchmark_simple_add_et.json.gz",
        38,
        0,
        19,
    ),
    (
        "et/facebookresearch+param/et_replay/tests/inputs/1.0.3-chakra.0.0.4/resnet_1gpu_et.json.gz",
        14391,
        27,
        102,
    ),
    (
        "et/facebookresearch+param/et_replay/tests/inputs/1.1.0-chakra.0.0.4/resnet_2gpu_et.json.gz",
        14392,
        27,
        103,
    ),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_0.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_1.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_2.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_3.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_4.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_5.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_6.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/dlrm_8rank/dlrm_eg_7.json", 1675, 13, 162),
    ("et/facebookresearch+param/et_replay/tests/inputs/linear_et.json.gz", 931, 0, 52),
    ("et/facebookresearch+param/et_replay/tests/inputs/pt2_et.json", 20, 0, 13),
    ("et/facebookresearch+param/et_replay/tests/inputs/resnet_et__v3.json.gz", 1313, 0, 88),
    ("et/facebookresearch+param/train/compute/python/test/data/linear_et.json", 931, 0, 52),
    ("et/mlcommons+chakra/tests/data/1.0.2-chakra.0.0.4.json", 263, 20, 18),
    ("own/gloo-ddp-2rank/torch_et_0.json", 809, 0, 75),
    ("own/gloo-ddp-2rank/torch_et_1.json", 809, 0, 75),
];

#[test]
fn dlrm_is_linked_in_order_and_gets_its_splits() {
    let Some(traces) = traces("dlrm_is_linked_in_order_and_gets_its_splits") else { return };
    let plain = ingest(&files(&traces.join("kineto").join(DLRM)));
    let mut both = files(&traces.join("kineto").join(DLRM));
    both.extend(files(&traces.join("et").join(DLRM)));
    let folder = ingest(&both);
    let links = "SELECT rank, linked_by, count(*) FROM et_links GROUP BY ALL ORDER BY rank";
    let expected: Vec<String> = (0..8).map(|rank| format!("{rank} order 13")).collect();
    assert_eq!(folder.lines(links), expected);
    // Kinds and sizes are what they were, but for what the splits say of the uneven call.
    let sizes =
        "SELECT rank, ts_ns, collective, coll_source, dtype, in_elems, in_bytes, message_bytes,
            CASE WHEN in_elems <> 3392 THEN wire_bytes END, group_size, group_source, collective_id
        FROM collectives ORDER BY rank, ts_ns";
    assert_eq!(folder.lines(sizes), plain.lines(sizes));
    let splits =
        "SELECT rank, count(*), count(in_split), count(out_split), count(DISTINCT in_split),
            bool_and(in_elems = list_sum(in_split)), bool_and(out_elems = list_sum(out_split))
        FROM collectives WHERE collective = 'all_to_all' GROUP BY rank ORDER BY rank";
    let expected: Vec<String> = (0..8).map(|r| format!("{r} 5 4 4 3 true true")).collect();
    assert_eq!(folder.lines(splits), expected);
    let uneven = "SELECT rank, in_split, out_split[1], out_elems, wire_bytes FROM collectives
        WHERE in_elems = 3392 ORDER BY rank";
    let outputs = [768, 1792, 2304, 13312, 4736, 768, 1536, 1920];
    let expected: Vec<String> = (0..8)
        .map(|r| {
            let (of_one, all) = (outputs[r] / 8, outputs[r]);
            // What a rank keeps is what it gets from each: elements of 4 bytes.
            let wire = 4 * (3392 - of_one);
            format!("{r} [96,224,288,1664,592,96,192,240] {of_one} {all} {wire}")
        })
        .collect();
    assert_eq!(folder.lines(uneven), expected);
    let rank_rows = "SELECT source, count(*), count(DISTINCT rank) FROM ranks GROUP BY source";
    assert_eq!(folder.lines(rank_rows), ["kineto 8 8"]);
    assert_eq!(folder.lines("SELECT sources, rank_count FROM traces"), ["kineto 8"]);
}

#[test]
fn gloo_is_linked_by_record_ids_and_changes_nothing() {
    let Some(traces) = traces("gloo_is_linked_by_record_ids_and_changes_nothing") else { return };
    let all = files(&traces.join("own/gloo-ddp-2rank"));
    let folder = ingest(&all);
    let is_kineto = |f: &&PathBuf| f.to_string_lossy().contains("kineto");
    let plain = ingest(&all.iter().filter(is_kineto).cloned().collect::<Vec<_>>());
    let links = "SELECT l.rank, linked_by, count(*), count(DISTINCT l.node_id),
            count(DISTINCT l.event_id), bool_and(h.name = n.name)
        FROM et_links l
        JOIN host_events h USING (event_id)
        JOIN et_nodes n ON n.rank = l.rank AND n.node_id = l.node_id
        GROUP BY ALL ORDER BY l.rank";
    let expected = ["0 record_id 804 804 804 true", "1 record_id 804 804 804 true"];
    assert_eq!(folder.lines(links), expected);
    let unlinked = "SELECT n.rank, n.name, count(*) FROM et_nodes n
        ANTI JOIN et_links l ON l.rank = n.rank AND l.node_id = n.node_id
        GROUP BY ALL ORDER BY ALL";
    let of_rank = |r: u64| {
        [
            format!("{r} ## process_group:init ## 1"),
            format!("{r} [pytorch|profiler|execution_trace|process] 1"),
            format!("{r} [pytorch|profiler|execution_trace|thread] 3"),
        ]
    };
    assert_eq!(folder.lines(unlinked), [of_rank(0), of_rank(1)].concat());
    let calls = "SELECT * EXCLUDE (trace, event_id) FROM collectives
        ORDER BY rank, ts_ns, collective";
    assert_eq!(folder.lines(calls), plain.lines(calls));
}

#[test]
fn a_record_that_states_its_group_says_it() {
    let Some(traces) = traces("a_record_that_states_its_group_says_it") else { return };
    let of = |file: &str| ingest(&[traces.join(PARAM).join(file)]);
    let sql = "SELECT collective_name, pg_name, pg_desc, group_size, rank_start, rank_stride,
            count(*), sum(in_elems)
        FROM et_nodes WHERE name = 'record_param_comms' GROUP BY ALL ORDER BY ALL";
    let one = of("1.0.3-chakra.0.0.4/resnet_1gpu_et.json.gz");
    let two = of("1.1.0-chakra.0.0.4/resnet_2gpu_et.json.gz");
    assert_eq!(one.lines(sql), ONE_GPU);
    assert_eq!(two.lines(sql), TWO_GPUS);
}

/// Records of the run on one device, and of that on two, by kind.
const ONE_GPU: [&str; 3] = [
    "allreduce 0 default_pg 1 0 1 15 76671096",
    "broadcast 0 default_pg 1 0 1 6 159519",
    "wait NULL NULL 1 NULL NULL 6 NULL",
];
const TWO_GPUS: [&str; 3] = [
    "allreduce 0 default_pg 2 0 1 15 76671096",
    "broadcast 0 default_pg 2 0 1 6 159519",
    "wait NULL NULL 1 NULL NULL 6 0",
];
