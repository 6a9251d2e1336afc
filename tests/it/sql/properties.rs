//! Answers do not depend on the order of events in a file, the numbers that ranks go by, the
//! sizes of the pieces in which a file arrives, plain or compressed.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use ccl_sql::input::place::{self, Place as Source};
use ccl_sql::input::progress::Watcher;
use ccl_sql::pool::Pool;
use ccl_sql::readers::contract::{Kind, Reading, Said};
use ccl_sql::readers::kineto;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::property::check;
use crate::support::{Place, examples, near, project};

/// Ranks of a job.
const RANKS: usize = 3;

/// A job: of each rank compute kernels (start, duration) and, of each of the calls that all ranks
/// share, start and duration.
#[derive(Debug, Clone)]
struct Job {
    compute: Vec<Vec<(i64, i64)>>,
    calls: Vec<Vec<(i64, i64)>>,
}

fn job() -> impl Strategy<Value = Job> {
    let span = || (0_i64..900, 1_i64..400);
    let compute = proptest::collection::vec(proptest::collection::vec(span(), 1..8), RANKS);
    let calls = proptest::collection::vec(proptest::collection::vec(span(), RANKS), 1..5);
    (compute, calls).prop_map(|(compute, calls)| Job { compute, calls })
}

impl Job {
    /// The events of a rank, one a line.
    fn events(&self, rank: usize, labels: &[usize]) -> Vec<String> {
        let mut out = Vec::new();
        let mut kernel = |name: &str,
                          stream: i64,
                          (start, dur): (i64, i64),
                          id: usize,
                          args: &str| {
            // No two ranks start at one time: which of equals is last would depend on their
            // numbers.
            let start = 10_000 + start * 10 + rank as i64;
            out.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{},"dur":1,"args":{{"correlation":{id}}}}}"#,
                start - 5
            ));
            out.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{start},"dur":{dur},"args":{{"device":0,"stream":{stream},"correlation":{id}{args}}}}}"#
            ));
        };
        for (i, span) in self.compute[rank].iter().enumerate() {
            kernel("gemm", 7, *span, i, "");
        }
        let mut sorted = labels.to_vec();
        sorted.sort_unstable();
        for (i, shares) in self.calls.iter().enumerate() {
            let (start, dur) = shares[rank];
            let args = format!(
                r#","Collective name":"allreduce","dtype":"Float","In msg nelems":{n},"Out msg nelems":{n},"Group size":{RANKS},"Process Group Name":"0","Process Group Description":"mesh_dp","Process Group Ranks":"{sorted:?}","Seq":{i}"#,
                n = 100 + i,
            );
            // The calls of a rank follow each other, as on a stream.
            kernel("ncclDevKernel_AllReduce", 20, (start + 2000 * i as i64, dur), 100 + i, &args);
        }
        for (step, start) in [(1, 9_000), (2, 19_000)] {
            out.push(format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":9,"tid":9,"ts":{},"dur":9000}}"#,
                start + rank as i64
            ));
        }
        out
    }

    /// The file of a rank.
    fn text(&self, rank: usize, labels: &[usize], events: &[String]) -> String {
        format!(
            "{{\"distributedInfo\":{{\"rank\":{},\"world_size\":8}},\n\"traceEvents\":[\n{}\n],\n\
             \"baseTimeNanoseconds\":1700000000000000000}}\n",
            labels[rank],
            events.join(",\n")
        )
    }
}

/// Value and details of every metric of the trace that the files make.
fn metrics(files: &[String]) -> BTreeMap<String, Value> {
    let place = Place::new();
    for (i, text) in files.iter().enumerate() {
        place.write(&format!("job/part_{i}.json"), text);
    }
    // Clocks as recorded: offsets are measured against the first rank of a call.
    let recorded = ["-p", "align=false"];
    let args = ["metric", "--all", "--trace", "job", "--format", "json", "-q"];
    let args = [&args[..], &recorded].concat();
    let results: Value = serde_json::from_str(&place.run(&args).done()).expect("JSON");
    let of = |r: &Value| {
        let name = r["metric"].as_str().expect("a name").to_owned();
        (
            name,
            serde_json::json!({"value": r["value"], "reason": r["reason"], "details": r["details"]}),
        )
    };
    results.as_array().expect("a list").iter().map(of).collect()
}

/// Differences between two sets of results.
fn differences(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>) -> Vec<String> {
    assert_eq!(a.len(), b.len());
    a.iter()
        .filter(|(name, value)| !near(value, &b[*name]))
        .map(|(name, value)| format!("{name}: {value} against {}", b[name]))
        .collect()
}

#[test]
fn the_order_of_events_changes_no_metric() {
    let strategy = job().prop_flat_map(|job| {
        let labels = [0, 1, 2];
        let shuffled: Vec<_> =
            (0..RANKS).map(|r| Just(job.events(r, &labels)).prop_shuffle()).collect();
        (Just(job), shuffled)
    });
    check(1, &strategy, |(job, shuffled)| {
        let labels = [0, 1, 2];
        let file = |r: usize, events: &[String]| job.text(r, &labels, events);
        let one: Vec<_> = (0..RANKS).map(|r| file(r, &job.events(r, &labels))).collect();
        let other: Vec<_> = (0..RANKS).map(|r| file(r, &shuffled[r])).collect();
        let found = differences(&metrics(&one), &metrics(&other));
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
}

/// The value with ranks renamed: keys of maps by rank, and the fields that name a rank.
fn renamed(value: &Value, names: &BTreeMap<String, String>) -> Value {
    match value {
        Value::Object(map) if !map.is_empty() && map.keys().all(|k| names.contains_key(k)) => {
            let mut pairs: Vec<(i64, String, Value)> = map
                .iter()
                .map(|(k, v)| (names[k].parse().expect("a rank"), names[k].clone(), v.clone()))
                .collect();
            pairs.sort_by_key(|(rank, _, _)| *rank);
            Value::Object(pairs.into_iter().map(|(_, k, v)| (k, v)).collect())
        }
        Value::Object(map) => {
            let field = |(key, value): (&String, &Value)| {
                let value = match key.as_str() {
                    // The lowest of equals stands out, which is another one under other names.
                    "straggler_rank" | "slowest_rank" | "fastest_rank" => Value::Null,
                    // A ring runs in the order of the numbers.
                    "pairs" | "heaviest_src" | "heaviest_dst" => Value::Null,
                    "rank" => {
                        let name = names[&value.to_string()].parse::<i64>().expect("a rank");
                        Value::from(name)
                    }
                    _ => renamed(value, names),
                };
                (key.clone(), value)
            };
            Value::Object(map.iter().map(field).collect())
        }
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(|v| renamed(v, names)).collect();
            if list.iter().all(|v| v.get("rank").is_some()) {
                list.sort_by_key(|v| v["rank"].as_i64());
            }
            Value::Array(list)
        }
        value => value.clone(),
    }
}

#[test]
fn other_numbers_for_the_ranks_only_permute_rows() {
    let labels = Just(vec![0_usize, 1, 2, 3, 4, 5, 6, 7]).prop_shuffle();
    check(1, &(job(), labels), |(job, labels)| {
        let before = [0, 1, 2];
        let after = &labels[..RANKS];
        let files = |labels: &[usize]| -> Vec<String> {
            (0..RANKS).map(|r| job.text(r, labels, &job.events(r, labels))).collect()
        };
        let names: BTreeMap<String, String> =
            before.iter().zip(after).map(|(b, a)| (b.to_string(), a.to_string())).collect();
        // The lowest of the ranks that end together ends the path: another one here.
        let of_path = |name: &str, value: Value| match name {
            "critical_path" => serde_json::json!({"value": value["value"]}),
            _ => value,
        };
        let expected: BTreeMap<String, Value> = metrics(&files(&before))
            .iter()
            .map(|(name, value)| (name.clone(), of_path(name, renamed(value, &names))))
            .collect();
        let same: BTreeMap<String, String> =
            (0..8).map(|rank| (rank.to_string(), rank.to_string())).collect();
        let after_all: BTreeMap<String, Value> = metrics(&files(after))
            .iter()
            .map(|(name, value)| (name.clone(), of_path(name, renamed(value, &same))))
            .collect();
        // Offsets of clocks are against the lowest rank, which is another one under other names.
        let found: Vec<String> = differences(&expected, &after_all)
            .into_iter()
            .filter(|difference| !difference.starts_with("clock_offsets:"))
            .collect();
        prop_assert!(found.is_empty(), "ranks {after:?}: {}", found.join("\n"));
        Ok(())
    });
}

/// Gives at most so many bytes at a time, one size after the other.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()];
        self.turn += 1;
        let n = size.min(buffer.len()).min(self.bytes.len() - self.at);
        buffer[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// A file as a reader reads it: what is said of it, and the rows of its tables.
type WhatWasRead = (String, BTreeMap<String, RecordBatch>);

/// Reads a file by segments of so many bytes.
fn read_by(name: &str, reader: Box<dyn Read + Send>, segment_bytes: usize) -> WhatWasRead {
    let spool = tempfile::tempdir().expect("a temporary folder");
    let pool = Arc::new(Pool::new(2));
    let folder = |_| Ok(spool.path().to_owned());
    let reading = Reading {
        place: &Source::file(name),
        kind: Kind::Json,
        source_id: 0,
        said: Said::default(),
        keep_partial: true,
        folder: &folder,
        pool: &pool,
        own_steps: None,
        watcher: &Watcher::default(),
    };
    let kineto = std::thread::scope(|scope| {
        scope.spawn(|| pool.help());
        let kineto = kineto::read_bytes(reader, &reading, segment_bytes);
        pool.close();
        kineto
    });
    let mut trace = kineto.expect("the file can be read").expect("it is a trace of Kineto");
    let tables = std::mem::take(&mut trace.spool);
    let rows = |path: &Path| {
        let file = std::fs::File::open(path).expect("the table is there");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
        let schema = reader.schema().clone();
        let reader = reader.build().expect("a Parquet file");
        let batches: Vec<RecordBatch> = reader.map(|b| b.expect("rows")).collect();
        concat_batches(&schema, &batches).expect("batches of one schema")
    };
    let tables = tables.iter().map(|(table, path)| ((*table).to_owned(), rows(path))).collect();
    (format!("{trace:?}"), tables)
}

fn read(name: &str, reader: Box<dyn Read + Send>) -> WhatWasRead {
    read_by(name, reader, kineto::SEGMENT_BYTES)
}

/// Files of the ingest cases that can be read, the odd ones among them, and an example.
fn texts() -> Vec<Vec<u8>> {
    let root = project();
    let of = |path: &str| std::fs::read(root.join(path)).expect("the file is there");
    let cases = ["generation_a", "times_base_after", "begin_end_pairs", "args", "bad_escape"];
    let more = ["bad_events", "bad_durations", "bad_utf8", "bad_trailing_comma", "bad_bom"];
    cases
        .iter()
        .chain(&more)
        .map(|case| of(&format!("tests/ingest/kineto/{case}/trace.json")))
        .chain([of("trace_collection/llama-tiny-fsdp2-tp2-4/rank0_trace.json")])
        .collect()
}

#[test]
fn the_pieces_in_which_a_file_arrives_do_not_matter() {
    let texts = texts();
    let whole: Vec<_> = texts
        .iter()
        .map(|text| read("trace.json", Box::new(std::io::Cursor::new(text.clone()))))
        .collect();
    let sizes =
        proptest::collection::vec(prop_oneof![1_usize..4, 1_usize..300, 1_usize..9000], 1..6);
    check(6, &sizes, |sizes| {
        for (text, whole) in texts.iter().zip(&whole) {
            let pieces = Pieces { bytes: text.clone(), at: 0, sizes: sizes.clone(), turn: 0 };
            prop_assert!(read("trace.json", Box::new(pieces)) == *whole, "pieces of {sizes:?}");
        }
        Ok(())
    });
}

#[test]
fn the_places_where_the_list_is_cut_do_not_matter() {
    for text in texts() {
        let whole = read("trace.json", Box::new(std::io::Cursor::new(text.clone())));
        for segment_bytes in [1, 60, 200, 333, 1000, 20_000] {
            let reader = Box::new(std::io::Cursor::new(text.clone()));
            let cut = read_by("trace.json", reader, segment_bytes);
            assert!(cut == whole, "segments of {segment_bytes} bytes");
        }
    }
}

#[test]
fn a_wrong_guess_of_where_an_event_starts_does_no_harm() {
    // Objects among the arguments that look like events, with the key that events start with.
    let event = |i: usize| {
        let inner = r#"{"ph":"X","a":1},{"ph":"X","b":[{"ph":1},{"ph":2}]}, {"ph": "E"}"#;
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":{i},"dur":1,"args":{{"list":[{inner}]}}}}"#
        )
    };
    let events: Vec<String> = (0..200).map(event).collect();
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(",\n")).into_bytes();
    let whole = read("trace.json", Box::new(std::io::Cursor::new(text.clone())));
    assert_eq!(whole.1["host_events"].num_rows(), 200);
    for segment_bytes in 20..120 {
        let reader = Box::new(std::io::Cursor::new(text.clone()));
        assert!(read_by("trace.json", reader, segment_bytes) == whole, "{segment_bytes}");
    }
}

#[test]
fn members_of_a_gzip_may_end_anywhere() {
    let texts = texts();
    let cuts = proptest::collection::vec(0.0_f64..1.0, 0..4);
    check(4, &cuts, |cuts| {
        for text in &texts {
            let mut places: Vec<usize> =
                cuts.iter().map(|c| (c * text.len() as f64) as usize).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let mut bytes = Vec::new();
            for pair in places.windows(2) {
                let mut encoder = GzEncoder::new(bytes, Compression::fast());
                encoder.write_all(&text[pair[0]..pair[1]]).expect("memory can be written");
                bytes = encoder.finish().expect("memory can be written");
            }
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("trace.json.gz");
            std::fs::write(&path, bytes).expect("the file can be written");
            let plain = read("trace.json", Box::new(std::io::Cursor::new(text.clone())));
            let opened = place::open(&Source::file(Path::new(&path)), &Watcher::default())
                .expect("it can be opened");
            prop_assert!(read("trace.json", opened.reader) == plain, "cut at {places:?}");
        }
        Ok(())
    });
}

#[test]
fn threads_change_no_digit() {
    let place = Place::new();
    place.run(&["ingest", &examples().to_string_lossy(), "-q"]).done();
    let answers = |jobs: &str| {
        place.run(&["metric", "--all", "--format", "json", "-q", "--jobs", jobs]).done()
    };
    let one = answers("1");
    for jobs in ["1", "2", "3", "4", "4", "4"] {
        assert!(answers(jobs) == one, "--jobs {jobs} gives other digits");
    }
}
