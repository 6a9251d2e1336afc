//! The example of Nsight Systems in `trace_collection`: a database made of statements, and answers
//! that follow from them by hand.
//!
//! Two GPUs of one node, a process each; five iterations that start 1 ms apart. Times within an
//! iteration, in microseconds (`r` is the rank):
//!
//! ```text
//! gemm            50 ..             250    stream 7
//! all-to-all     260 + 10 r ..      360    stream 7    a group of 2 sends and receives of 4 MiB
//! gemm           370 ..             670    stream 7
//! all-reduce     400 + 20 r ..      800    stream 13   64 MiB
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::Value;

use crate::support::{Place, blessing, example};

const MIB: i64 = 1 << 20;

/// Strings of the file; their ids are their places.
const STRINGS: [&str; 18] = [
    "",
    "ampere_bf16_s16816gemm(cutlass::Params)",
    "ampere_bf16_s16816gemm",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclDevKernel_SendRecv",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "cudaLaunchKernel_v7000",
    "cuLaunchKernelEx",
    "NCCL",
    "ncclCommInitRankConfig",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclSend",
    "ncclRecv",
    "ncclAllReduce",
    "pt_main_thread",
    "python3",
];

fn id(string: &str) -> usize {
    STRINGS.iter().position(|s| *s == string).expect("it is a string of the file")
}

/// A payload behind its header, as digits.
fn blob(schema: i64, payload: &[u8]) -> String {
    let header = [1, (1 << 24) + schema, payload.len() as i64, 32];
    let bytes = header.iter().flat_map(|w| w.to_le_bytes()).chain(payload.iter().copied());
    bytes.fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("memory can be written");
        out
    })
}

/// The payload of a call of NCCL: communicator, bytes, and a rank or an operation.
fn says(bytes: i64, other: i32) -> Vec<u8> {
    let words = [0x00c0_ffee_0123_4567, bytes].map(i64::to_le_bytes).concat();
    [words, other.to_le_bytes().to_vec(), vec![0; 4]].concat()
}

fn init(rank: i32) -> Vec<u8> {
    let head = 0x00c0_ffee_0123_4567_i64.to_le_bytes().to_vec();
    let numbers: Vec<u8> = [2, rank, rank].iter().flat_map(|n: &i32| n.to_le_bytes()).collect();
    [head, numbers, vec![0; 4]].concat()
}

const TABLES: &str = "
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight Systems'),
    ('EXPORT_SCHEMA_VERSION', '3.25.0'), ('EXPORT_PARAM_INCLUDE_BLOBS', 'true');
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1795200000000000000, '', '');
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Platform', 'Hostname', 1, 'node0');
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER, cuDevice INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-80GB', 108, 85899345920, 0), (1, 'NVIDIA A100-SXM4-80GB', 108, 85899345920, 1);
CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId INTEGER, schemaId INTEGER, name TEXT, type INTEGER, flags INTEGER, numEntries INTEGER, payloadSize INTEGER, alignTo INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, flags INTEGER, type INTEGER, name TEXT, description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);
";

/// The statements that make the database.
fn statements() -> String {
    let mut sql = Statements(TABLES.to_owned());
    for (i, string) in STRINGS.iter().enumerate().skip(1) {
        sql.add(format!("INSERT INTO StringIds VALUES ({i}, '{string}')"));
    }
    sql.schemas();
    for rank in 0..2 {
        sql.rank(&Process::new(rank));
    }
    sql.0
}

/// A process, which is a rank, with its only thread.
struct Process {
    rank: i64,
    pid: i64,
    thread: i64,
}

impl Process {
    fn new(rank: i64) -> Self {
        let pid = 4001 + rank;
        Self { rank, pid, thread: pid << 24 | pid }
    }
}

/// Statements, one a line.
struct Statements(String);

impl Statements {
    fn add(&mut self, text: String) {
        self.0.push_str(&text);
        self.0.push_str(";\n");
    }

    /// The forms of the payloads of NCCL.
    fn schemas(&mut self) {
        let size = ("Message size [bytes]", 18, 8);
        type Field = (&'static str, i64, i64);
        let schemas: [(i64, &[Field]); 4] = [
            (5, &[size, ("Reduction operation", (1 << 24) + 16, 16)]),
            (9, &[size, ("Peer rank", 5, 16)]),
            (10, &[size, ("Peer rank", 5, 16)]),
            (11, &[("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)]),
        ];
        for (schema, fields) in schemas {
            let schema = (1 << 24) + schema;
            let count = fields.len() + 1;
            self.add(format!(
                "INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, {schema}, NULL, 1, NULL, {count}, 24, NULL)"
            ));
            let table = "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES";
            let comm = "NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL";
            self.add(format!("{table} (1, {schema}, 0, {comm})"));
            for (i, (name, ty, offset)) in (1..).zip(fields) {
                self.add(format!(
                    "{table} (1, {schema}, {i}, NULL, {ty}, '{name}', NULL, NULL, {offset})"
                ));
            }
        }
    }

    /// The names of a process, the start of NCCL, and five iterations.
    fn rank(&mut self, process: &Process) {
        let Process { rank, pid, thread } = *process;
        self.add(format!(
            "INSERT INTO ThreadNames VALUES ({}, 20, {thread})",
            id("pt_main_thread")
        ));
        self.add(format!("INSERT INTO PROCESSES VALUES ({}, {pid}, 'python3')", pid << 24));
        self.add(format!(
            "INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, NULL, NULL, NULL, NULL, {thread}, NULL, {}, 1, NULL)",
            id("NCCL")
        ));
        let whole = blob(11, &init(rank as i32));
        self.call(process, (1000, 90_000), "ncclCommInitRankConfig", Some(whole));
        for step in 0..5 {
            self.step(process, step);
        }
    }

    /// A range of PyTorch.
    fn range(&mut self, process: &Process, (from, to): (i64, i64), name: &str) {
        self.add(format!(
            "INSERT INTO NVTX_EVENTS VALUES ({from}, {to}, 59, NULL, NULL, NULL, '{name}', {}, NULL, NULL, 0, NULL)",
            process.thread
        ));
    }

    /// A range of NCCL, with what it says.
    fn call(
        &mut self,
        process: &Process,
        (from, to): (i64, i64),
        name: &str,
        payload: Option<String>,
    ) {
        let payload = payload.map_or("NULL".to_owned(), |digits| format!("X'{digits}'"));
        self.add(format!(
            "INSERT INTO NVTX_EVENTS VALUES ({from}, {to}, 59, NULL, NULL, NULL, NULL, {}, NULL, {}, 1, {payload})",
            process.thread,
            id(name)
        ));
    }

    /// An iteration: its ranges on the host, then its launches and kernels.
    fn step(&mut self, process: &Process, step: i64) {
        let at = 1_000_000 * (step + 1);
        let us = |from: i64, to: i64| (at + 1000 * from, at + 1000 * to);
        self.range(process, (at, at + 900_000), &format!("iteration {}", 10 + step));
        let op = |name: &str| format!("{name}, op_id = {}", 100 * step + process.rank);
        self.range(process, us(5, 15), &op("aten::mm"));
        self.range(process, us(20, 60), &op("nccl:all_to_all"));
        self.call(process, us(21, 22), "ncclGroupStart", None);
        for peer in 0..2_i32 {
            let t = 23 + 4 * i64::from(peer);
            let send = blob(9, &says(4 * MIB, peer));
            let recv = blob(10, &says(4 * MIB, peer));
            self.call(process, us(t, t + 1), "ncclSend", Some(send));
            self.call(process, us(t + 2, t + 3), "ncclRecv", Some(recv));
        }
        self.call(process, us(32, 50), "ncclGroupEnd", None);
        self.range(process, us(62, 68), &op("aten::mm"));
        self.range(process, us(70, 90), &op("nccl:all_reduce"));
        self.call(process, us(72, 88), "ncclAllReduce", Some(blob(5, &says(64 * MIB, 0))));
        // Launch, kernel, stream, name of the kernel, blocks, name of the call.
        let late = process.rank;
        for (i, (launch, kernel, stream, name, blocks, call)) in (1..).zip([
            (8, (50, 250), 7, STRINGS[2], 216, STRINGS[7]),
            (35, (260 + 10 * late, 360), 7, STRINGS[4], 16, STRINGS[8]),
            (64, (370, 670), 7, STRINGS[2], 432, STRINGS[7]),
            (75, (400 + 20 * late, 800), 13, STRINGS[6], 24, STRINGS[8]),
        ]) {
            let (launch, (start, end)) = (at + 1000 * launch, us(kernel.0, kernel.1));
            let correlation = 10 * step + i;
            self.add(format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({launch}, {}, {}, {}, {correlation}, {}, 0, NULL)",
                launch + 1500,
                i64::from(call == STRINGS[8]),
                process.thread,
                id(call)
            ));
            self.add(format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {end}, {}, 1, {stream}, {correlation}, {}, {}, {}, {blocks}, 1, 1, 256, 1, 1, 96, 0, 49152)",
                process.rank,
                process.pid << 24,
                id(name) - 1,
                id(name)
            ));
        }
    }
}

fn path() -> PathBuf {
    example("ulysses-tiny-nsys-2").join("report.sqlite")
}

/// Every row of every table.
fn rows(connection: &Connection) -> Vec<(String, Vec<Cell>)> {
    let mut out = Vec::new();
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .expect("a query");
    let names: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .expect("a query")
        .map(|name| name.expect("a name"))
        .collect();
    for name in names {
        let mut all =
            connection.prepare(&format!("SELECT * FROM {name} ORDER BY rowid")).expect("a query");
        let columns = all.column_count();
        let mut found = all.query([]).expect("a query");
        while let Some(row) = found.next().expect("rows") {
            let cells = (0..columns).map(|i| row.get(i).expect("a value")).collect();
            out.push((name.clone(), cells));
        }
    }
    out
}

#[test]
fn the_committed_database_is_what_the_statements_make() {
    let made = Connection::open_in_memory().expect("SQLite starts");
    made.execute_batch(&statements()).expect("the statements are right");
    if blessing() {
        let _ = std::fs::remove_file(path());
        std::fs::create_dir_all(path().parent().expect("a folder")).expect("it can be made");
        let file = Connection::open(path()).expect("the file can be written");
        file.execute_batch(&format!("PRAGMA page_size = 1024; BEGIN; {} COMMIT;", statements()))
            .expect("the statements are right");
    }
    let committed = Connection::open(path()).expect("the file is committed");
    assert!(rows(&committed) == rows(&made), "CCL_SQL_BLESS=1 writes it");
}

#[test]
fn the_answers_are_those_that_follow_by_hand() {
    let place = Place::of(&path());
    let metric = |name: &str| -> Value {
        let args = ["metric", name, "--profile-mode", "nsys", "--format", "json"];
        serde_json::from_str(&place.run(&args).done()).expect("it is JSON")
    };
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap_or(f64::NAN);
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found}, expected {expected}");
    };
    let calls = metric("coll_call_num");
    assert_eq!(calls["value"], 20);
    assert_eq!(
        calls["details"]["calls_by_type"],
        serde_json::json!({"all_reduce": 10, "all_to_all": 10})
    );
    assert_eq!(
        calls["details"]["calls_per_rank_per_step"],
        serde_json::json!({"0": 2.0, "1": 2.0})
    );
    // 270 and 250 of the 500 and 470 us of communication lie beside the second gemm.
    let overlap = metric("comm_comp_overlap");
    near(&overlap["value"], 520.0 / 970.0);
    near(&overlap["details"]["comm_time_ms"], 5.0 * 0.97);
    near(&overlap["details"]["comp_time_ms"], 5.0 * 2.0 * 0.5);
    near(&metric("total_comm_time_s")["value"], 5.0 * 0.97e-3 / 2.0);
    near(&metric("avg_step_time")["value"], 1e-3);
    // 10 us at the all-to-all, 20 us at the all-reduce.
    near(&metric("straggler_lag")["value"], 15.0);
    // 64 MiB in 380 us; the factor of two ranks is 1.
    let sql = "SELECT collective, group_size, message_bytes, count(*) AS calls, max(bus_bw_gb_per_s) AS rate,
        max(transfer_ns) AS t FROM collective_calls GROUP BY ALL ORDER BY ALL";
    let rows = place.run(&["sql", "--format", "json", sql]).done();
    let rows: Value = serde_json::from_str(&rows).expect("it is JSON");
    near(&rows[0]["rate"], (64 * MIB) as f64 / 380_000.0);
    let kind = |at: usize, key: &str| rows[at][key].clone();
    assert_eq!((kind(0, "collective"), kind(0, "calls")), ("all_reduce".into(), 5.into()));
    assert_eq!((kind(1, "message_bytes"), kind(1, "t")), ((8 * MIB).into(), 90_000.into()));
    assert_eq!(kind(1, "group_size"), 2);
}

#[test]
fn what_a_metric_requires_is_asked_of_the_profiler_that_it_looks_at() {
    let place = Place::new();
    let copy = |name: &str, from: &Path| {
        place.write(&format!("both/{name}"), std::fs::read(from).expect("it can be read"));
    };
    for name in ["kineto_trace_0.json", "kineto_trace_1.json"] {
        copy(name, &example("gloo-ddp-2rank").join(name));
    }
    copy("report.sqlite", &path());
    place.run(&["ingest", "both", "-q"]).done();
    let answer = |mode: &str| {
        let args = ["metric", "pipeline_bubble", "--profile-mode", mode, "--format", "csv", "-q"];
        place.run(&args)
    };
    // Only the nsys file has device events.
    assert!(answer("nsys").code == 0);
    let torch = answer("torch");
    assert!(torch.code == 1, "{}", torch.stdout);
    assert!(torch.stderr.contains("it needs device events"), "{}", torch.stderr);
}
