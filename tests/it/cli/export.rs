//! `export`: timelines hold what the tables hold, nest, and come back.
//!
//! `python/tests/test_timeline.py` reads them with Perfetto's own protocol buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use crate::cli::shown::{ingested, masked, shown};
use crate::support::kineto::{Args, slice};
use crate::support::pftrace::{Timeline, as_text, read};
use crate::support::runs::many_kernels;
use crate::support::{Place, example, files, program};

/// Exports the trace `job`, and reads what was written.
fn exported(place: &Place, args: &[&str]) -> Timeline {
    let words = ["export", "job", "-o", "t.pftrace", "--force", "-q"];
    place.run(&[&words[..], args].concat()).done();
    read(&std::fs::read(place.input().join("t.pftrace")).expect("it was written"))
}

/// The trace `job` of a file with these events, which `slice` made.
fn job_of(events: &str) -> Place {
    let place = Place::new();
    let events = events.trim_end().trim_end_matches(',');
    place.write("job/a.json", format!("{{\"traceEvents\":[{events}]}}"));
    place.run(&["ingest", "job", "--name", "job", "-q"]).done();
    place
}

fn number(place: &Place, sql: &str) -> usize {
    place.lines(sql)[0].parse().expect("a number")
}

/// Who reads a timeline may leave when it has seen enough: that is no failure.
#[test]
fn the_reader_of_a_timeline_may_leave() {
    let place = Place::new();
    let traces = example("llama-tiny-fsdp2-tp2-4");
    place.run(&["ingest", &traces.to_string_lossy(), "--name", "job", "-q"]).done();
    let whole = place.run(&["export", "job", "--format", "chrome"]).done();
    assert!(whole.len() > 200_000, "more than a pipe holds: {}", whole.len());
    let mut child = Command::new(program())
        .args(["--data", "../data", "export", "job", "--format", "chrome"])
        .current_dir(place.input())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut first = [0; 1];
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_exact(&mut first).expect("it begins");
    drop(pipe);
    let left = child.wait_with_output().expect("it ends");
    assert_eq!((left.status.code(), &first), (Some(0), b"{"));
    assert!(!String::from_utf8_lossy(&left.stderr).contains("error"), "{left:?}");
}

#[test]
fn a_timeline_holds_every_event() {
    for name in ["llama-tiny-fsdp2-tp2-4", "ulysses-tiny-nsys-2", "gloo-ddp-2rank"] {
        let place = Place::of(&example(name));
        let timeline = exported(&place, &[]);
        let recorded = |track: &u64| {
            let name = &timeline.tracks[track];
            ["thread", "no thread", "device"].iter().any(|kind| name.starts_with(kind))
        };
        let slices = timeline.slices.iter().filter(|(track, ..)| recorded(track)).count();
        let lasting = "SELECT count(*) FROM events WHERE dur_ns IS NOT NULL";
        assert_eq!(slices, number(&place, lasting), "{name}");
        let instants = "SELECT count(*) FROM events WHERE dur_ns IS NULL";
        assert_eq!(timeline.instants.len(), number(&place, instants), "{name}");
        // Rows are of the profiler that recorded them.
        let sources = "SELECT count(*) FROM (SELECT DISTINCT source FROM host_times
                       EXCEPT SELECT DISTINCT source FROM host_events)";
        assert_eq!(number(&place, sources), 0, "{name}");
        for (track, sql) in [
            ("steps", "SELECT count(*) FROM steps"),
            ("phases", "SELECT count(*) FROM phases WHERE dur_ns IS NOT NULL"),
        ] {
            let of_it = |track_of: &u64| timeline.tracks[track_of] == track;
            let slices = timeline.slices.iter().filter(|(of, ..)| of_it(of)).count();
            assert_eq!(slices, number(&place, sql), "{name}: {track}");
        }
        let (mut left, mut arrived) = timeline.arrows;
        left.sort_unstable();
        arrived.sort_unstable();
        assert_eq!(left, arrived, "{name}: every arrow has two ends");
    }
}

/// Two ranks with one of everything, the second of which has a clock that is 50 us ahead.
fn one_of_everything() -> Place {
    let place = Place::new();
    for rank in 0..2 {
        let call = r#""Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,
            "Group size":2,"dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1]""#;
        let at = |us: u64| us + 50 * rank;
        let events = [
            r#"{"ph":"M","name":"thread_name","pid":10,"tid":11,"args":{"name":"main"}}"#
                .to_owned(),
            format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":10,"tid":11,
                "ts":{},"dur":100}}"#,
                at(0)
            ),
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":11,"ts":{},"dur":20,
                "args":{{"External id":1,"Input Dims":[[2,3],[3,4]],"x":1.5,"y":true,"z":"t"}}}}"#,
                at(5)
            ),
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10,"tid":12,
                "ts":{},"dur":4,"args":{{"correlation":7}}}}"#,
                at(8)
            ),
            format!(
                r#"{{"ph":"s","id":7,"pid":10,"tid":12,"ts":{},"cat":"ac2g","name":"ac2g"}}"#,
                at(8)
            ),
            format!(
                r#"{{"ph":"f","id":7,"pid":0,"tid":7,"ts":{},"cat":"ac2g","name":"ac2g","bp":"e"}}"#,
                at(20)
            ),
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":30,
                "args":{{"device":0,"stream":7,"correlation":7}}}}"#,
                at(20)
            ),
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":9,
                "ts":{},"dur":{},"args":{{"device":0,"stream":9,"correlation":8,{call}}}}}"#,
                at(40 + 5 * rank),
                20 - 5 * rank
            ),
            format!(
                r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":10,
                "tid":11,"ts":{},"args":{{"Total Allocated":1000,"Total Reserved":2000,"Bytes":512,
                "Addr":64,"Device Id":0,"Device Type":1}}}}"#,
                at(6)
            ),
        ];
        let text = format!(
            r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"H100"}}],
            "distributedInfo":{{"rank":{rank},"world_size":2,"backend":"nccl"}},
            "traceEvents":[{}]}}"#,
            events.join(",\n")
        );
        place.write(&format!("job/rank{rank}.json"), text);
    }
    place.run(&["ingest", "job", "--name", "job", "-q"]).done();
    place
}

#[test]
fn a_timeline_says_which_time_its_base_is() {
    let place = Place::new();
    place.write(
        "job/rank0.json",
        r#"{"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,
        "distributedInfo":{"rank":0,"world_size":1},"traceEvents":[
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":3.5,"dur":30,
        "args":{"device":0,"stream":7,"correlation":7}}]}"#,
    );
    place.run(&["ingest", "job", "--name", "job", "-q"]).done();
    let written = |file: &str| {
        place.run(&["export", "job", "-o", file, "-q"]).done();
        std::fs::read(place.input().join(file)).expect("it was written")
    };
    // At 0 of the clock of the trace (6, boot time) it is this time of day (1, real time).
    let clocks = "6: {1: {1: 6, 2: 0}, 1: {1: 1, 2: 1700000000000003500}}";
    assert_eq!(as_text(&written("t.pftrace"))[0], format!("8: 0, {clocks}, 10: 1, 13: 1"));
    let text = String::from_utf8(written("t.json")).expect("text");
    assert!(text.contains("\"baseTimeNanoseconds\":1700000000000003500"), "{text}");
}

/// Every field of every packet, as Perfetto's own description of the format numbers them.
#[test]
fn a_small_timeline_in_full() {
    let place = one_of_everything();
    place.run(&["export", "job", "-o", "t.pftrace", "-q"]).done();
    let bytes = std::fs::read(place.input().join("t.pftrace")).expect("it was written");
    assert_snapshot!(masked(&as_text(&bytes).join("\n"), &place));
    place.run(&["export", "job", "-o", "t.json", "-q"]).done();
    let text = std::fs::read_to_string(place.input().join("t.json")).expect("it was written");
    assert_snapshot!(masked(&text, &place));
    place.run(&["export", "job", "--format", "chrome", "-o", "files/", "-q"]).done();
    let packed = std::fs::File::open(place.input().join("files/rank1.json.gz")).expect("a file");
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(packed)).expect("text");
    assert_snapshot!(masked(&text, &place));
}

/// A value of the header is of the type that it was of, as far as its text says it.
#[test]
fn headers_of_kineto_come_back() {
    let place = Place::new();
    let header = r#"{"schemaVersion":1,"trace_id":"00912","id":"123456789012345678901","x":1.5,
        "less":-3,"flag":true,"none":null,"word":"a \"b\"","e":"1e5","list":[1,"2"],"of":{"a":"1"},
        "inf":"inf","dot":"1."}"#;
    let events = r#"[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]"#;
    let header: Value = serde_json::from_str(header).expect("JSON");
    let mut trace = header.clone();
    trace["traceEvents"] = serde_json::from_str(events).expect("JSON");
    place.write("job/rank0.json", trace.to_string());
    place.run(&["ingest", "job", "--name", "job", "-q"]).done();
    place.run(&["export", "job", "--format", "chrome", "-o", "files/", "-q"]).done();
    let file = files(&place.input().join("files")).remove(0);
    let packed = std::fs::File::open(&file).expect("it was written");
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(packed)).expect("text");
    let mut back: Value = serde_json::from_str(&text).expect("JSON");
    back.as_object_mut().expect("an object").remove("traceEvents");
    assert_eq!(back, header);
}

/// What a device does at each moment: tracks of their own, with what `_account_spans` says.
#[test]
fn a_timeline_accounts_for_each_moment_of_a_device() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let timeline = exported(&place, &["-p", "align=false"]);
    for (track, is_idle) in [("busy", false), ("idle", true)] {
        let mut times: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (of, _, dur, name) in &timeline.slices {
            if timeline.tracks[of].starts_with(track) {
                let process = timeline.tracks[&timeline.parents[of]].as_str();
                *times.entry((process, name)).or_default() += dur;
            }
        }
        let line = |((process, part), ns)| format!("{process} {part} {ns}");
        let times: Vec<String> = times.into_iter().map(line).collect();
        let sql = format!(
            "SELECT 'rank ' || rank, part, sum(end_ns - start_ns) FROM _account_spans
             WHERE is_idle = {is_idle} GROUP BY rank, part ORDER BY rank, part"
        );
        assert!(times.len() > 1);
        assert_eq!(times, place.lines(&sql), "{track}");
    }
    let host = exported(&place, &["--only", "host"]);
    assert!(host.tracks.values().all(|name| !name.starts_with("busy")), "{:?}", host.tracks);
}

/// One whose rows are not small is written a rank at a time.
#[test]
fn a_large_trace_is_written_as_a_small_one_is() {
    const RANKS: usize = 4;
    let of = |kernels: usize| {
        let place = Place::new();
        for rank in 0..RANKS {
            place.write(&format!("job/rank{rank}.json"), many_kernels(rank, RANKS, kernels));
        }
        place.run(&["ingest", "job", "-q"]).done();
        place
    };
    let (large, small) = (of(40_000), of(2_000));
    // Both in the same steps, of which the small trace has no more.
    let steps = ["--steps", "0..1"];
    let [of_large, of_small] = [&large, &small].map(|place| {
        let timeline = exported(place, &steps);
        let tracks = &timeline.tracks;
        let named = |(of, start, dur, name): &(u64, u64, u64, String)| {
            (tracks[of].clone(), *start, *dur, name.clone())
        };
        let mut slices: Vec<_> = timeline.slices.iter().map(named).collect();
        slices.sort();
        (tracks.values().cloned().collect::<BTreeSet<String>>(), slices)
    });
    assert_eq!(of_large.1.len(), of_small.1.len());
    assert!(of_large == of_small, "the same slices on the same tracks");
    // All of it: a kernel for each, and a call and a step for each thousand.
    let timeline = exported(&large, &["--ranks", "1,2", "-p", "align=false"]);
    let count = |begins: &str| timeline.slices.iter().filter(|s| s.3.starts_with(begins)).count();
    assert_eq!(count("gemm"), 2 * 40_000);
    assert_eq!(count("ProfilerStep#"), 2 * 40);
    let busy: BTreeMap<u64, u64> = timeline
        .slices
        .iter()
        .filter(|(of, ..)| timeline.tracks[of].starts_with("busy"))
        .fold(BTreeMap::new(), |mut sums, (of, _, dur, _)| {
            *sums.entry(*of).or_default() += dur;
            sums
        });
    // 40,000 kernels of 5 us, and of 40 calls of 30 or 20 us what lies beside these.
    assert_eq!(busy.len(), 2);
    let mut busy: Vec<u64> = busy.into_values().collect();
    busy.sort_unstable();
    assert_eq!(busy, [200_000_000 + 40 * 10_000, 200_000_000 + 40 * 15_000]);
    // And as files of Kineto.
    large.run(&["export", "job", "--format", "chrome", "-o", "files/", "-q"]).done();
    large.run(&["ingest", "files", "--name", "back", "-q"]).done();
    let events = |trace: &str| {
        let sql = format!(
            "SELECT rank, name, ts_ns, dur_ns FROM events WHERE trace = '{trace}' \
             ORDER BY ALL"
        );
        large.lines(&sql)
    };
    assert!(events("job") == events("back"));
}

#[test]
fn what_overlaps_on_a_stream_is_on_lanes() {
    let kernel = |name: &str, span| {
        slice("kernel", name, 0, 7, span, Args::none().raw("device", 0).raw("stream", 7))
    };
    let events = [
        kernel("outer", (1_000, 9_000)),
        kernel("inner", (2_000, 3_000)),
        kernel("across", (8_000, 12_000)),
        kernel("after", (12_000, 12_000)),
    ]
    .concat();
    let place = job_of(&events);
    let timeline = exported(&place, &["--only", "device"]);
    let mut lanes: BTreeMap<u64, Vec<(u64, u64, &str)>> = BTreeMap::new();
    for (track, start, dur, name) in &timeline.slices {
        if timeline.tracks[track].starts_with("device 0 · stream 7") {
            lanes.entry(*track).or_default().push((*start, *dur, name));
        }
    }
    assert_eq!(
        lanes.into_values().collect::<Vec<_>>(),
        [
            vec![(1_000, 1_000, "inner"), (0, 8_000, "outer"), (11_000, 0, "after")],
            vec![(7_000, 4_000, "across")],
        ]
    );
}

/// A stream has 512 lanes at most: what overlaps with that many is an instant.
#[test]
fn what_overlaps_with_too_many_is_an_instant() {
    const COUNT: i64 = 600;
    let events: String = (0..COUNT)
        .map(|n| {
            let args = Args::none().raw("device", 0).raw("stream", 7);
            slice("kernel", &format!("k{n}"), 0, 7, (1_000 + n, 9_000 + n), args)
        })
        .collect();
    let place = job_of(&events);
    let run = place.run(&["export", "job", "--only", "device", "-o", "said.pftrace"]);
    let said = "warning: 88 slices overlap with too many others, and are instants with dur_ns\n";
    assert!(run.code == 0 && run.stderr.contains(said), "{}", run.stderr);
    let timeline = exported(&place, &["--only", "device"]);
    let kernels = timeline.slices.iter().filter(|(.., name)| name.starts_with('k')).count();
    assert_eq!((kernels, timeline.instants.len()), (512, 88));
    let flat: BTreeSet<String> = timeline.instants.into_iter().collect();
    assert_eq!(flat, (512..COUNT).map(|n| format!("k{n}")).collect());
}

/// Names beyond what a viewer is to keep are written where they are used.
#[test]
fn long_names_come_back() {
    let name = |n: i64| format!("{n} {}", "x".repeat(600_000));
    let events: String = (0..40)
        .map(|n| slice("cpu_op", &name(n % 35), 1, 2, (10 * n, 10 * n + 5), Args::none()))
        .collect();
    let place = job_of(&events);
    let timeline = exported(&place, &[]);
    let names: Vec<&String> = timeline.slices.iter().map(|(.., name)| name).collect();
    assert!(names == (0..40).map(|n| name(n % 35)).collect::<Vec<_>>().iter().collect::<Vec<_>>());
}

/// What a thread does beside lies below it; what a stream does, next to it.
#[test]
fn lanes_of_a_thread_lie_below_it() {
    let op = |name: &str, span| slice("cpu_op", name, 1, 2, span, Args::none());
    let kernel = |name: &str, span| {
        slice("kernel", name, 0, 7, span, Args::none().raw("device", 0).raw("stream", 7))
    };
    let events = [
        op("first", (1_000, 5_000)),
        // What ends with another lies in it.
        op("inside", (2_000, 5_000)),
        op("beside", (4_000, 9_000)),
        kernel("one", (1_000, 5_000)),
        kernel("other", (4_000, 9_000)),
    ]
    .concat();
    let place = job_of(&events);
    let timeline = exported(&place, &[]);
    let track = |name: &str| {
        let mut of = timeline.slices.iter().filter(|(.., of)| of == name);
        let (Some((track, ..)), None) = (of.next(), of.next()) else { panic!("one {name}") };
        *track
    };
    assert_eq!(track("inside"), track("first"));
    assert_eq!(timeline.parents.get(&track("beside")), Some(&track("first")));
    let (one, other) = (track("one"), track("other"));
    assert_ne!(one, other);
    assert_eq!(timeline.parents.get(&other), timeline.parents.get(&one));
}

/// Tables that hold what was recorded, and columns that number their rows.
const RECORDED: [(&str, &str); 6] = [
    ("device_events", "event_id"),
    ("host_events", "event_id"),
    ("comm_args", "event_id"),
    ("flows", ""),
    ("counters", ""),
    ("metadata", ""),
];

#[test]
fn files_of_kineto_come_back_as_the_same_tables() {
    for name in ["llama-tiny-fsdp2-tp2-4", "gloo-ddp-2rank", "fsdp2-cpu-2"] {
        let place = Place::of(&example(name));
        let words = ["export", "job", "--format", "chrome", "-p", "align=false", "-o", "again/"];
        place.run(&words).done();
        place.run(&["ingest", "again", "--name", "again", "-q"]).done();
        for (table, ids) in RECORDED {
            let without = if ids.is_empty() { "trace".to_owned() } else { format!("trace, {ids}") };
            let of = |trace| {
                format!("SELECT * EXCLUDE ({without}) FROM {table} WHERE trace = '{trace}'")
            };
            let sql = format!(
                "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0}))",
                of("job"),
                of("again")
            );
            assert_eq!(number(&place, &sql), 0, "{name}: {table}");
        }
        let steps = |trace| {
            place.lines(&format!(
                "SELECT rank, step, ts_ns, dur_ns FROM steps WHERE trace = '{trace}' ORDER BY ALL"
            ))
        };
        assert_eq!(steps("job"), steps("again"), "{name}");
        let calls = "SELECT trace, collective, count(*), sum(message_bytes), sum(transfer_ns)
                     FROM collective_calls GROUP BY ALL ORDER BY ALL";
        let calls: Vec<String> = place.lines(calls);
        let (again, job) = calls.split_at(calls.len() / 2);
        let bare = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|l| l.split_once(' ').expect("a trace").1.to_owned()).collect()
        };
        assert_eq!(bare(again), bare(job), "{name}");
    }
}

/// Arguments that are no object, and those that are too deep for one, are the same again.
#[test]
fn odd_arguments_come_back_as_they_were() {
    let place = Place::new();
    let event = |name: &str, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":1,"dur":1,{args}}}"#
        )
    };
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let events = [
        event("list", r#""args":[1,"two"]"#),
        event("text", r#""args":"words""#),
        event("deep", &format!(r#""args":{{"deep":{deep}}}"#)),
        event("none", r#""other":1"#),
    ];
    place.write("job/rank0.json", format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")));
    place.run(&["ingest", "job"]).done();
    place.run(&["export", "job", "--format", "chrome", "-o", "again/"]).done();
    place.run(&["ingest", "again", "--name", "again"]).done();
    let args = |trace: &str| {
        let sql = "SELECT name, stream, left(args, 40) FROM device_events WHERE trace = ";
        place.lines(&format!("{sql} '{trace}' ORDER BY name"))
    };
    let job = args("job");
    assert_eq!(job[1], r#"list 7 {"$args":[1,"two"]}"#);
    assert_eq!((job.len(), &args("again")), (4, &job));
}

/// Of a part of the events only arrows whose ends are there would be right, so there are none.
#[test]
fn a_part_of_a_trace_has_no_arrows_as_recorded() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let written = |folder: &str, more: &[&str]| {
        let words = ["export", "job", "--format", "chrome", "-o", folder];
        place.run(&[&words[..], more].concat()).done();
        let mut text = String::new();
        for file in files(&place.input().join(folder)) {
            let file = std::fs::File::open(file).expect("it was written");
            text += &std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("text");
        }
        let slices = text.matches("\"ph\":\"X\"").count();
        (slices, text.matches("\"ph\":\"s\"").count())
    };
    let long = "SELECT count(*) FROM events WHERE dur_ns >= 100000";
    let (slices, arrows) = written("long/", &["--min-dur", "100us"]);
    assert_eq!((slices.to_string(), arrows), (place.lines(long)[0].clone(), 0));
    let (all, arrows) = written("all/", &[]);
    assert!(all > slices && arrows > 0, "{all} slices, {arrows} arrows");
}

/// A process of the host that is no rank has a place of its own.
#[test]
fn events_of_no_rank_are_there_too() {
    let place = Place::new();
    place.database("job.sqlite", include_str!("../../ingest/nsys/old_generation/job.sqlite.sql"));
    place.run(&["ingest", "job.sqlite", "-q"]).done();
    let none = "SELECT count(*) FROM events WHERE rank IS NULL";
    assert_eq!(place.lines(none), ["1"]);
    place.run(&["export", "--format", "chrome", "-o", "all.json"]).done();
    let text = std::fs::read_to_string(place.input().join("all.json")).expect("it was written");
    let all = place.lines("SELECT count(*) FROM events");
    assert_eq!(text.matches("\"event_id\":").count().to_string(), all[0]);
    let write = text.lines().find(|line| line.contains("\"write\"")).expect("its slice");
    assert!(write.contains("\"pid\":2147483647"), "{write}");
}

/// What another profiler recorded comes back in the categories of Kineto.
#[test]
fn files_of_kineto_hold_what_others_recorded() {
    for name in ["pipeline-h200-nsys-4", "jax-h200-2"] {
        let place = Place::of(&example(name));
        let words = ["export", "job", "--format", "chrome", "-p", "align=false", "-o", "again/"];
        place.run(&words).done();
        for file in files(&place.input().join("again")) {
            let packed = std::fs::File::open(&file).expect("it was written");
            let text = std::io::read_to_string(flate2::read::GzDecoder::new(packed));
            let trace: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
            assert_eq!(trace["schemaVersion"], 1, "{}", file.display());
        }
        place.run(&["ingest", "again", "--name", "again", "-q"]).done();
        for (what, sql) in [
            (
                "devices",
                "SELECT rank, class, count(*), sum(dur_ns), min(ts_ns) FROM device_events
                 WHERE TRUE",
            ),
            (
                "hosts",
                "SELECT rank, class, count(*), sum(dur_ns), min(ts_ns) FROM host_events
                 WHERE TRUE",
            ),
            ("ranks", "SELECT rank, world_size, min(device_name) FROM ranks WHERE TRUE"),
        ] {
            let of = |trace| {
                place.lines(&format!("{sql} AND trace = '{trace}' GROUP BY ALL ORDER BY ALL"))
            };
            assert_eq!(of("again"), of("job"), "{name}: {what}");
        }
        let samples = |trace| {
            place.lines(&format!(
                "SELECT rank, regexp_replace(name, '[.]value$', '') AS counter, count(*),
                    sum(value), min(ts_ns)
                 FROM counters WHERE trace = '{trace}' AND isfinite(value)
                 GROUP BY rank, counter ORDER BY rank, counter"
            ))
        };
        assert_eq!(samples("again"), samples("job"), "{name}");
    }
}

#[test]
fn hostile_names_are_valid_text() {
    let long = "ü".repeat(500_000);
    let names = ["\u{1}\u{1b}[31m\"\\</script>\u{202e}", "", long.as_str()];
    let mut events: String = names
        .iter()
        .map(|name| slice("cpu_op", name, 1, 2, (1_000, 5_000), Args::none().text("k", name)))
        .collect();
    events.push_str(
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":-5,\"ts\":3,\"dur\":1,\
         \"args\":{\"x\":1e999,\"y\":123456789012345678901234567890,\"z\":[{\"a\":null}],\
         \"occupancy\":NaN,\"stream\":99999999999}},\
         {\"ph\":\"C\",\"name\":\"c\",\"pid\":0,\"ts\":4,\"args\":{\"v\":1e999}}",
    );
    let place = job_of(&events);
    let timeline = exported(&place, &[]);
    for name in names {
        assert_eq!(timeline.slices.iter().filter(|(.., n)| n == name).count(), 1);
    }
    place.run(&["export", "job", "--format", "chrome", "-o", "t.json"]).done();
    let text = std::fs::read_to_string(place.input().join("t.json")).expect("it is UTF-8");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    let of = |name: &str| {
        let events = json["traceEvents"].as_array().expect("events");
        events.iter().filter(|e| e["ph"] == "X" && e["name"] == name).count()
    };
    for name in names.into_iter().chain(["k"]) {
        assert_eq!(of(name), 1);
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "control characters are escaped");
}

#[test]
fn both_forms_hold_the_same() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let timeline = exported(&place, &[]);
    place.run(&["export", "job", "-o", "t.json.gz", "--format", "chrome"]).done();
    let mut text = String::new();
    let file = std::fs::File::open(place.input().join("t.json.gz")).expect("it was written");
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text)
        .expect("it is packed");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    let count = |phase: &str| {
        let events = json["traceEvents"].as_array().expect("events");
        events.iter().filter(|e| e["ph"] == phase).count()
    };
    assert_eq!(count("X"), timeline.slices.len());
    assert_eq!(count("i"), timeline.instants.len());
    assert_eq!((count("s"), count("f")), (timeline.arrows.0.len(), timeline.arrows.1.len()));
    assert_eq!(json["ccl_sql"]["trace"], "job");
    // The packed file of the other form holds the same bytes.
    place.run(&["export", "job", "-o", "u.pftrace.gz"]).done();
    let (plain, packed) = (place.input().join("t.pftrace"), place.input().join("u.pftrace.gz"));
    let mut unpacked = Vec::new();
    let file = std::fs::File::open(packed).expect("it was written");
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut unpacked)
        .expect("it is packed");
    assert!(unpacked == std::fs::read(plain).expect("it was written"), "the bytes are the same");
}

#[test]
fn rows_of_a_query_need_times_and_names() {
    let place = ingested();
    let run = |sql: &str| place.run(&["sql", sql, "-o", "q.pftrace", "--force"]);
    run("SELECT ts_ns, dur_ns, name FROM device_events").done();
    let bytes = std::fs::read(place.input().join("q.pftrace")).expect("it was written");
    assert_eq!(read(&bytes).slices.len(), 4);
    // Rows of a rank lie below it; what a map holds are arguments.
    let of_ranks = "SELECT rank, ts_ns, dur_ns, name, MAP {'yes': true} AS more \
                    FROM device_events";
    place.run(&["sql", of_ranks, "-o", "ranks.json", "--format", "chrome"]).done();
    let text = std::fs::read_to_string(place.input().join("ranks.json")).expect("it was written");
    for (part, count) in [("\"rank 0\"", 1), ("\"rank 1\"", 1), ("\"more.yes\":true", 4)] {
        assert_eq!(text.matches(part).count(), count, "{part} in {text}");
    }
    assert_snapshot!(shown(&run("SELECT 1 AS ts, 'x' AS name"), &place), @r"
    exit code 2
    --- stderr
    error[usage]: the rows have no column `ts_ns`
      their columns: ts, name
    hint: a timeline is made of ts_ns, dur_ns, name and track; rank puts a row below its rank, and other columns are arguments
    ");
    assert_snapshot!(shown(&run("SELECT 1 AS ts_ns, -1 AS dur_ns, 'x' AS name"), &place), @r"
    exit code 2
    --- stderr
    error[usage]: rows without a time, or with a negative duration
      rows: 1
    hint: leave them out: WHERE ts_ns IS NOT NULL AND dur_ns >= 0
    ");
    let twice = run("SELECT 1 AS ts_ns, 'a' AS name; SELECT 2 AS ts_ns, 'b' AS name");
    assert_eq!((twice.code, twice.errors()), (2, vec!["usage"]));
    let sandboxed = ["sql", "SELECT 1 AS ts_ns, 'x' AS name) ; DROP TABLE (y", "--sandbox"];
    let run = place.run(&[&sandboxed[..], &["-o", "r.pftrace"]].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    // A sandbox may read the files of traces, and a timeline writes none of them either.
    let file = place.data().join("trace=job/x.parquet");
    let copy = format!("COPY (SELECT 1 AS ts_ns, 'x' AS name) TO '{}'", file.display());
    for sql in [copy.clone(), format!("{copy}; SELECT 1 AS ts_ns, 'x' AS name")] {
        let run = place.run(&["sql", &sql, "--sandbox", "-o", "r.pftrace"]);
        assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{}", run.stderr);
        assert!(!file.exists(), "it was written");
    }
}

/// A value of each type of DuckDB, as JSON, as CSV and as an argument of a slice.
#[test]
fn values_of_every_type_are_written() {
    let place = ingested();
    let query = "SELECT 7 AS ts_ns, 'x' AS name, true AS flag, 1::TINYINT AS i8, 2::SMALLINT AS i16,
        3::INTEGER AS i32, 255::UTINYINT AS u8, 65535::USMALLINT AS u16, 4294967295::UINTEGER AS u32,
        18446744073709551615::UBIGINT AS u64, 1.5::FLOAT AS f32, 0.1::DOUBLE AS f64,
        'inf'::DOUBLE AS inf, 170141183460469231731687303715884105727::HUGEINT AS huge,
        12.50::DECIMAL(9, 2) AS dec, DATE '2026-11-28' AS day, INTERVAL 2 DAY AS gap,
        TIMESTAMP '2026-11-28 01:02:03' AS at, [1, NULL, 2] AS list, [1, 2]::INTEGER[2] AS pair,
        {'a': 1, 'b': [true]} AS box, MAP {'k': 1.5, 'l': 2} AS map, MAP {1: 'x'} AS numbered,
        NULL AS nothing, 'a'::ENUM ('a', 'b') AS word, 'ab'::BLOB AS blob";
    let json = place.run(&["sql", query, "--format", "json"]).done();
    let found: Value = serde_json::from_str(&json).expect("JSON");
    let csv = place.run(&["sql", query, "--format", "csv"]).done();
    let row = csv.lines().nth(1).expect("a row");
    place.run(&["sql", query, "--format", "chrome", "-o", "values.json"]).done();
    let text = std::fs::read_to_string(place.input().join("values.json")).expect("it was written");
    let slice = text.lines().find(|line| line.contains("\"x\"")).expect("a slice");
    assert_snapshot!([&found[0].to_string(), row, slice].join("\n"));
}

#[test]
fn slips_are_said_before_the_work() {
    let place = ingested();
    for args in [
        &["--steps", "5..3"][..],
        &["--ranks", "x"],
        &["--from", "10"],
        &["--min-dur", "1h"],
        &["-o", "t.csv"],
        &["-o", "t.pftrace", "--format", "chrome"],
        &["-o", "t.json", "--format", "perfetto"],
        &["--format", "json"],
        &["-o", "folder/"],
    ] {
        let run = place.run(&[&["export"][..], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
    }
    let run = place.run(&["export", "-p", "gap=1", "-o", "t.pftrace"]);
    assert_eq!((run.code, run.errors()), (1, vec!["param-invalid"]));
    let run = place.run(&["export", "-p", "align=maybe", "-o", "t.pftrace"]);
    assert_eq!((run.code, run.errors()), (1, vec!["param-invalid"]));
    assert!(run.stderr.contains("`align` is \"maybe\", which is no BOOLEAN"), "{}", run.stderr);
    place.write("empty/rank0.json", r#"{"traceEvents":[]}"#);
    place.run(&["ingest", "empty", "-q"]).done();
    for (args, said) in [
        (&["job", "--ranks", "77"][..], "sql \"FROM ranks\"` shows the ranks"),
        (&["job", "--steps", "99"], "sql \"FROM steps\"` shows the steps of each rank"),
        (&["empty"], "the trace has no events that a timeline could show"),
    ] {
        let run = place.run(&[&["export", "-o", "t.pftrace"], args].concat());
        assert_eq!((run.code, run.errors()), (1, vec!["nothing-found"]), "{}", run.stderr);
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
    place.write("t.pftrace", "old");
    let run = place.run(&["export", "job", "-o", "t.pftrace"]);
    assert_eq!((run.code, run.errors()), (1, vec!["output-exists"]));
    let left = std::fs::read(place.input().join("t.pftrace")).expect("it is there");
    assert_eq!(left, b"old");
}
