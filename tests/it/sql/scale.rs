//! The cost of a question grows as its trace does: every metric and every public view on made
//! traces of one size and of four times that size.
//!
//! Nothing here is timed. A plan says how many rows and bytes each of its operators made, and how
//! many pairs a join looked at whose only equality is one that all rows share. None of them may
//! grow by more than [`MOST`], where a cost that is linear grows by four and a quadratic one by 16.

use std::fmt::Write as _;

use ccl_sql::registry::SqlFile;
use serde_json::{Value, json};

use crate::support::{Operator, Place, Tables, in_parallel, pickles, registry};

/// Events of the smaller trace, about.
const SMALL: usize = 600;
/// Size of the larger trace, in smaller ones.
const TIMES: usize = 4;
/// Most that a cost may grow by.
const MOST: f64 = 5.0;
/// Rows that cost nothing worth a word, whatever they grow by.
const FEW_ROWS: f64 = 40_000.0;
/// Bytes likewise.
const FEW_BYTES: f64 = 8e6;

/// Columns that all or most of the rows of a trace share: an equality of these alone sets every row
/// beside every other.
const SHARED: [&str; 9] =
    ["trace", "rank", "source", "device", "device_key", "source_id", "form", "method", "class"];

/// The work of the operators of a plan.
#[derive(Debug, Default, Clone, Copy)]
struct Cost {
    rows: f64,
    bytes: f64,
    pairs: f64,
}

/// Whether a condition tells rows of one trace apart: an equality of something that few share.
fn is_selective(condition: &str) -> bool {
    let sides = condition.split_once(" = ").or(condition.split_once(" IS NOT DISTINCT FROM "));
    sides.is_some_and(|(left, right)| {
        let name = |side: &str| side.trim().rsplit('.').next().unwrap_or_default().to_owned();
        ![left, right].iter().any(|side| SHARED.contains(&&*name(side)))
    })
}

/// Pairs of rows that a join may have looked at.
fn pairs(node: &Operator) -> f64 {
    // The other joins sort (ASOF, IE_JOIN) or are of rows that belong together (DELIM).
    let looks_at_all = match &*node.kind {
        "CROSS_PRODUCT" | "NESTED_LOOP_JOIN" | "BLOCKWISE_NL_JOIN" => true,
        "HASH_JOIN" => !node.conditions.iter().any(|c| is_selective(c)),
        _ => false,
    };
    match (looks_at_all, &node.inputs[..]) {
        (true, [left, right]) => left.rows * right.rows,
        _ => 0.0,
    }
}

impl Cost {
    fn of(node: &Operator) -> Self {
        let mut out = Self { rows: node.rows, bytes: node.bytes, pairs: pairs(node) };
        for input in &node.inputs {
            let other = Self::of(input);
            out.rows += other.rows;
            out.bytes += other.bytes;
            out.pairs += other.pairs;
        }
        out
    }

    /// The costs that grew too much since `before`, in words.
    fn grown(&self, before: &Self) -> Vec<String> {
        let grew = |what: &str, few: f64, before: f64, after: f64| {
            (after > few && after > MOST * before.max(1.0))
                .then(|| format!("{what} {before} -> {after}"))
        };
        [
            grew("rows", FEW_ROWS, before.rows, self.rows),
            grew("bytes", FEW_BYTES, before.bytes, self.bytes),
            grew(
                "pairs of rows with nothing but a trace or rank in common",
                FEW_ROWS * 10.0,
                before.pairs,
                self.pairs,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The rows and bytes of the operators of a plan, for the message.
fn made(node: &Operator, out: &mut Vec<(f64, String)>) {
    let rows = node.rows.max(pairs(node));
    out.push((rows, format!("{} {:?} {rows}", node.kind, node.conditions)));
    node.inputs.iter().for_each(|input| made(input, out));
}

/// Serial work of one rank: each operator launches one kernel on one stream, now and then a copy,
/// with a gap before the next. Names repeat; allocations are sampled.
fn serial(place: &Place, n: usize) {
    let mut events = String::new();
    for i in 0..n {
        let (at, id) = (1_000.0 + 20.0 * i as f64, i + 1);
        let (category, name) = match i % 8 {
            0 => ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
            _ => ("kernel", "gemm"),
        };
        let _ = write!(
            events,
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::op{}","pid":9,"tid":9,"ts":{at},"dur":6,"args":{{"External id":{id}}}}},
            {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{},"dur":2,"args":{{"External id":{id},"correlation":{id}}}}},
            {{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":{},"dur":5,"args":{{"External id":{id},"correlation":{id},"stream":7,"device":0,"bytes":4096,"grid":[8,1,1],"block":[64,1,1]}}}},
            {{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":{},"s":"t","args":{{"Device Type":1,"Device Id":0,"Bytes":512,"Total Allocated":{},"Total Reserved":1048576,"Addr":{id}}}}},"#,
            i % 5,
            at + 1.0,
            at + 4.0,
            at + 0.5,
            512 * id,
        );
    }
    for step in 0..4 {
        let length = 5.0 * n as f64;
        let _ = write!(
            events,
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":9,"tid":9,"ts":{},"dur":{length}}},"#,
            1_000.0 + f64::from(step) * length,
        );
    }
    write_rank(place, 0, 1, &events);
}

/// Two ranks with a step for every four events: kernels with names of their own on 64 streams, and
/// a call of both ranks in each step.
fn wide(place: &Place, n: usize) {
    for rank in 0..2 {
        let mut events = String::new();
        for step in 0..n / 8 {
            let start = 1_000.0 + 100.0 * step as f64;
            let _ = write!(
                events,
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":9,"tid":9,"ts":{start},"dur":100}},"#
            );
            for k in 0..4 {
                let (i, at) = (4 * step + k, start + 20.0 * k as f64);
                let (id, stream, thread) = (i + 1, i % 64, 9 + k % 2);
                let (name, args) = match k {
                    3 => (
                        "ncclDevKernel_AllReduce_Sum_f32_RING_LL".to_owned(),
                        format!(
                            r#","Collective name":"allreduce","In msg nelems":{0},"Out msg nelems":{0},"Group size":2,"dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1]""#,
                            1024 * (1 + i % 5)
                        ),
                    ),
                    _ => (format!("kernel_{i}"), String::new()),
                };
                let _ = write!(
                    events,
                    r#"{{"ph":"X","cat":"cpu_op","name":"aten::op{i}","pid":9,"tid":{thread},"ts":{at},"dur":6,"args":{{"External id":{id}}}}},
                    {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":{thread},"ts":{0},"dur":2,"args":{{"External id":{id},"correlation":{id}}}}},
                    {{"ph":"X","cat":"kernel","name":"{name}","pid":{rank},"tid":{stream},"ts":{1},"dur":{2},"args":{{"External id":{id},"correlation":{id},"stream":{stream},"device":{rank}{args}}}}},"#,
                    at + 1.0,
                    at + 4.0,
                    5 + (i + rank) % 3,
                );
            }
        }
        write_rank(place, rank, 2, &events);
    }
}

fn write_rank(place: &Place, rank: usize, ranks: usize, events: &str) {
    place.write(
        &format!("job/rank{rank}.json"),
        format!(
            r#"{{"schemaVersion":1,"distributedInfo":{{"rank":{rank},"world_size":{ranks},"backend":"nccl"}},
            "deviceProperties":[{{"id":{rank},"name":"NVIDIA H100","numSms":132}}],
            "traceEvents":[{}]}}"#,
            events.trim_end_matches(',')
        ),
    );
}

/// An export of Nsight Systems: NVTX ranges as deep as there are kernels, and samples of a counter.
fn nested(place: &Place, n: usize) {
    let thread = "70 << 24 | 70";
    place.database(
        "job/job.sqlite",
        &format!(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER,
                deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
                globalPid INTEGER, syncType INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
                globalTid INTEGER);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
                SELECT 100000 + i * 1000, 100000 + i * 1000 + 700, 0, i % 3, i, 70 << 24, 1 FROM n;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
                SELECT 99000 + i * 1000, 99000 + i * 1000 + 300, {thread}, i, 2 FROM n;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n} / 4)
            INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
                SELECT 99000 + i * 4000 + 400, 99000 + i * 4000 + 600, 0, 1, 0, {n} + i, 70 << 24, 3
                FROM n;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
            INSERT INTO NVTX_EVENTS
                SELECT i, 900000 + {n} * 1000 - i, 59, 'range ' || i, {thread} FROM n;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n} / 8)
            INSERT INTO NVTX_EVENTS
                SELECT 98500 + i * 8000, 98500 + i * 8000 + 7900, 59, 'iteration ' || i, {thread}
                FROM n;"
        ),
    );
}

/// A memory snapshot in which every allocation has a stack of its own and every fourth fails,
/// beside a trace with a step for every eight of them.
fn memory(place: &Place, n: usize) {
    let base = 1_776_479_641_000_000_u64;
    let mut moves = Vec::new();
    for i in 0..n as u64 {
        let frames = json!([{"filename": "train.py", "line": i + 1, "name": format!("f{i}")}]);
        let time = base + 10 * i;
        moves.push(json!({"action": "alloc", "addr": 512 * i, "size": 512, "stream": 0,
            "time_us": time, "frames": frames}));
        if i % 4 == 0 {
            moves.push(json!({"action": "oom", "addr": 0, "size": 4096, "stream": 0,
                "device_free": 100, "time_us": time + 1, "frames": frames}));
        }
        if i % 2 == 0 {
            for action in ["free_requested", "free_completed"] {
                moves.push(json!({"action": action, "addr": 512 * i, "size": 512, "stream": 0,
                    "time_us": time + 5, "frames": []}));
            }
        }
    }
    let blocks: Vec<Value> = (0..n)
        .map(|i| match i % 2 {
            0 => json!({"address": 512 * i, "size": 512, "requested_size": 0, "state": "inactive"}),
            _ => json!({"address": 512 * i, "size": 512, "requested_size": 512,
                "state": "active_allocated"}),
        })
        .collect();
    let snapshot = json!({"segments": [{"device": 0, "address": 0, "total_size": 512 * n,
        "allocated_size": 256 * n, "active_size": 256 * n, "requested_size": 256 * n,
        "blocks": blocks}], "device_traces": [moves]});
    place.write("job/rank0_memory_snapshot.pickle", pickles::encode(&snapshot.to_string()));
    let mut events = String::new();
    for step in 0..n as u64 / 8 {
        let _ = write!(
            events,
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":9,"tid":9,"ts":{0},"dur":80}},
            {{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{0},"dur":60,"args":{{"stream":7,"device":0}}}},"#,
            base + 80 * step,
        );
    }
    write_rank(place, 0, 1, &events);
}

type Shape = (&'static str, fn(&Place, usize));

const SHAPES: [Shape; 4] =
    [("serial", serial), ("wide", wide), ("nested", nested), ("memory", memory)];

/// Metrics and public views that a trace of the shape can answer, and what grew too much.
fn failures(shape: Shape, file: &SqlFile, tables: &[Tables; 2]) -> Vec<String> {
    let name = &file.header.name;
    let plan = |tables: &Tables| {
        tables.plan(file).unwrap_or_else(|e| panic!("{name} of {}: {e}", shape.0))
    };
    let (before, after) = (plan(&tables[0]), plan(&tables[1]));
    let grown = Cost::of(&after).grown(&Cost::of(&before));
    if grown.is_empty() {
        return Vec::new();
    }
    let mut nodes = Vec::new();
    made(&after, &mut nodes);
    nodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let nodes: Vec<String> = nodes.into_iter().take(3).map(|n| n.1).collect();
    vec![format!("{name} of {}: {}\n    {}", shape.0, grown.join("; "), nodes.join("\n    "))]
}

#[test]
fn no_question_costs_more_than_its_trace_grows() {
    let registry = registry();
    let metrics = registry.metrics();
    let views = registry.views().filter(|v| !v.header.name.starts_with('_'));
    let files: Vec<&SqlFile> = metrics.chain(views).collect();
    let failures = in_parallel(&SHAPES, |shape| {
        let tables = [SMALL, SMALL * TIMES].map(|n| {
            let place = Place::new();
            shape.1(&place, n);
            place.run(&["ingest", "job", "-q"]).done();
            (Tables::open(&place.data()), place)
        });
        let [(small, _one), (large, _other)] = tables;
        let tables = [small, large];
        let found: Vec<String> = files
            .iter()
            .filter(|file| tables[0].has_rows_for(file))
            .flat_map(|file| failures(*shape, file, &tables))
            .collect();
        found
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_join_of_all_with_all_is_seen() {
    let place = Place::new();
    serial(&place, 40);
    place.run(&["ingest", "job", "-q"]).done();
    let tables = Tables::open(&place.data());
    assert!(tables.has_rows_for(registry().metric("idle_causes").expect("a metric")));
    let cost = |sql: &str| Cost::of(&tables.plan_of(sql).expect("the query runs"));
    let all = "SELECT count(*) FROM device_events AS a INNER JOIN device_events AS b
        ON b.trace = a.trace AND b.rank = a.rank AND b.ts_ns > a.ts_ns";
    assert_eq!(cost(all).pairs, 1_600.0);
    let one = "SELECT count(*) FROM device_events AS a INNER JOIN device_events AS b
        ON b.trace = a.trace AND b.event_id = a.event_id";
    assert_eq!(cost(one).pairs, 0.0);
    assert!(cost(one).rows >= 40.0);
}
