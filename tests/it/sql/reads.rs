//! What a metric reads does not grow with the events of a trace, once what it needs of each rank is
//! kept (`@partition rank`).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ccl_sql::engine::Engine;
use ccl_sql::registry::SqlFile;
use serde_json::json;

use crate::support::{Place, Tables, files, in_parallel, registry};

const RANKS: u64 = 2;
const STEPS: u64 = 3;
const CALLS: u64 = 4;

/// The metric that reads more of what events add: quantiles of the delays of all launches.
const READERS: [&str; 1] = ["launch_delay_us"];

/// The part of what events add that a metric may read. The critical path reads the work of one
/// step, event by event: of a long trace a part.
fn part(metric: &str) -> u64 {
    if metric == "critical_path" { 20 } else { 100 }
}

/// A rank: steps of so many kernels, each with an operator and a launch, and some calls.
fn rank(rank: u64, kernels: u64) -> String {
    let step_us = kernels * 20 + 100;
    let mut events = Vec::new();
    let mut id = 0;
    let mut add = |event: serde_json::Value| events.push(event.to_string());
    for step in 0..STEPS {
        let start = 1_000_000 + step * step_us;
        add(json!({"ph": "X", "cat": "user_annotation", "name": format!("ProfilerStep#{step}"),
            "pid": 1, "tid": 1, "ts": start, "dur": step_us - 10}));
        for n in 0..kernels {
            id += 1;
            let at = start + 20 + n * 20;
            // A few calls in a step, however many kernels it has.
            let is_call = n % (kernels / CALLS) == 1;
            add(json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
                "ts": at, "dur": 8}));
            add(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,
                "tid": 1, "ts": at + 2, "dur": 4, "args": {"correlation": id}}));
            let mut args = json!({"device": rank, "stream": 7, "correlation": id, "grid": [64, 1, 1],
                "block": [256, 1, 1], "blocks per SM": 0.5});
            let name = match (is_call, n % 50) {
                (true, _) => {
                    args["Collective name"] = json!("allreduce");
                    args["In msg nelems"] = json!(1000);
                    args["Out msg nelems"] = json!(1000);
                    args["Group size"] = json!(RANKS);
                    args["dtype"] = json!("Float");
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                }
                (false, 3) => "Memcpy HtoD (Pinned -> Device)",
                (false, _) => "gemm",
            };
            let category = if name.starts_with("Memcpy") { "gpu_memcpy" } else { "kernel" };
            add(json!({"ph": "X", "cat": category, "name": name, "pid": rank, "tid": 7,
                "ts": at + 7 + n % 3, "dur": 5 + n % 7, "args": args}));
        }
    }
    let events = events.join(",\n");
    format!(
        r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{RANKS}}},
"deviceProperties":[{{"id":{rank},"name":"NVIDIA H100","numSms":132}}],"traceEvents":[{events}]}}"#
    )
}

/// A trace with so many kernels in a step.
fn ingested(kernels: u64) -> Place {
    let place = Place::new();
    for r in 0..RANKS {
        place.write(&format!("job/rank{r}.json"), rank(r, kernels));
    }
    place.run(&["ingest", "job"]).done();
    place
}

/// The same; what is of each rank is kept.
fn job(kernels: u64) -> Place {
    let place = ingested(kernels);
    let metrics: Vec<&SqlFile> = registry().metrics().collect();
    for level in 0..Engine::levels(registry(), &metrics) {
        Tables::with_partials(&place.data(), &metrics).keep_share(level, 0, 1);
    }
    place
}

/// The bytes of the tables of a trace.
fn size(directory: &Path) -> u64 {
    let is_table = |file: &PathBuf| !file.to_string_lossy().contains(".partials");
    let bytes = |file| std::fs::metadata(file).expect("a file").len();
    files(directory).into_iter().filter(is_table).map(bytes).sum()
}

/// The bytes that this thread has read; None where the system does not say it.
fn read_here() -> Option<u64> {
    let said = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    said.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

/// The bytes that a metric reads, and whether it has a value.
fn bytes(place: &Place, metric: &SqlFile) -> Option<(u64, bool)> {
    let tables = Tables::with_partials(&place.data(), &[metric]);
    let before = read_here()?;
    let result = tables.result(&place.data().join("trace=job"), metric).expect("an answer");
    Some((read_here()? - before, !result["value"].is_null()))
}

#[test]
fn metrics_read_a_hundredth_of_what_events_add() {
    if read_here().is_none() {
        let _ = writeln!(std::io::stderr(), "not tested: nothing says what a thread reads");
        return;
    }
    let (few, many) = (job(2_000), job(16_000));
    let added = size(&many.data().join("trace=job")) - size(&few.data().join("trace=job"));
    assert!(added > 1_000_000, "the larger trace is larger by {added}");
    let metrics: Vec<&SqlFile> = registry().metrics().collect();
    let answered = AtomicUsize::new(0);
    let grown = in_parallel(&metrics, |metric| {
        let (few, _) = bytes(&few, metric).expect("the system says it");
        let (many, has_value) = bytes(&many, metric).expect("the system says it");
        answered.fetch_add(usize::from(has_value), Ordering::Relaxed);
        let said = format!("{}: {few} bytes, and {many} of many events", metric.header.name);
        Vec::from_iter((many > few + added / part(&metric.header.name)).then_some(said))
    });
    let answered = answered.into_inner();
    assert!(answered > 60, "{answered} metrics have a value");
    let names: Vec<&str> = grown.iter().filter_map(|said| said.split(':').next()).collect();
    assert_eq!(names, READERS, "of {added} bytes: {grown:#?}");
}

#[test]
fn the_program_keeps_what_is_of_each_rank_of_a_large_trace() {
    let place = ingested(16_000);
    let metrics = ["gpu_utilization", "straggler", "critical_path"];
    let ask = |more: &[&str]| {
        let words = [&["metric"][..], &metrics, &["--format", "json"], more].concat();
        place.run(&words).done()
    };
    let computed = ask(&["--no-cache"]);
    let folder = place.data().join("trace=job/.partials");
    assert!(!folder.exists(), "nobody asked to keep anything");
    assert_eq!(ask(&[]), computed);
    let kept = files(&folder);
    let of = |view: &str| {
        let is_of = |file: &&PathBuf| file.to_string_lossy().contains(&format!("/{view}@"));
        kept.iter().find(is_of).unwrap_or_else(|| panic!("{view}: {kept:?}"))
    };
    let [_, _, gaps] = ["_hidden_waits", "_longest_events", "_gap_sizes"].map(of);
    // They are read, and not computed again: what another file says is what is answered.
    let forget = || std::fs::remove_file(place.data().join("trace=job/.answers"));
    forget().expect("answers are kept too");
    assert_eq!(ask(&[]), computed);
    let (gaps, other) = (gaps.display(), format!("{}.new", gaps.display()));
    let twice = format!(
        "COPY (SELECT * REPLACE (idle_ns * 2 AS idle_ns) FROM read_parquet('{gaps}'))
         TO '{other}' (FORMAT parquet)"
    );
    let connection = duckdb::Connection::open_in_memory().expect("DuckDB starts");
    connection.execute_batch(&twice).expect("a copy");
    std::fs::rename(other, gaps.to_string()).expect("it takes its place");
    forget().expect("answers are kept too");
    assert_ne!(ask(&[]), computed);
}
