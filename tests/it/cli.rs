//! The command line as a user meets it: exit code, stdout and stderr together. What changes from run
//! to run (paths, times, hashes, the version) is replaced by a name in brackets, never left out.

use std::path::Path;
use std::process::{Command, Stdio};

use ccl_sql::cli::args::Cli;
use clap::CommandFactory;
use insta::assert_snapshot;
use serde_json::Value;

use crate::ingest::Place;
use crate::program::{Run, files, project};
use crate::tables::Csv;

/// Everything of a run as one text.
fn shown(run: &Run, place: &Place) -> String {
    let root = place.input();
    let root = root.parent().expect("the folder has a parent").to_string_lossy().into_owned();
    let canonical = std::fs::canonicalize(&root).expect("the folder is there");
    let mut out = format!("exit code {}\n", run.code);
    for (name, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
        if !text.is_empty() {
            out.push_str(&format!("--- {name}\n{text}"));
        }
    }
    let out = out.replace(&*canonical.to_string_lossy(), "[DIR]").replace(&root, "[DIR]");
    let version = format!("\"ccl_sql\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let out = out.replace(&version, "\"ccl_sql\": \"[VERSION]\"");
    hashes(&out).split_inclusive('\n').map(untimed).collect()
}

/// A line of a summary with its times replaced.
fn untimed(line: &str) -> String {
    let parts = line
        .split_once(" in ")
        .and_then(|(before, after)| after.split_once("/s), ").map(|(_, after)| (before, after)));
    match parts {
        Some((before, after)) => format!("{before} in [TIME] s ([RATE]/s), {after}"),
        None => line.to_owned(),
    }
}

/// The text with every SHA-256 replaced.
fn hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    text.split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|part| match part.get(..64).filter(|word| is_hash(word)) {
            Some(word) if part.len() <= 65 => part.replace(word, "[SHA256]"),
            _ => part.to_owned(),
        })
        .collect()
}

/// A rank of the job below: a step of 1 ms with compute of 400 us, all of it beside a call of
/// 200 us that begins `late_us` later.
fn rank_file(rank: i64, world: i64, late_us: i64) -> String {
    format!(
        r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{world}}},"traceEvents":[
{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":1000,"dur":1000}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":{rank},"tid":7,"ts":1100,"dur":400,"args":{{"device":{rank},"stream":7}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":{rank},"tid":20,"ts":{},"dur":200,"args":{{"device":{rank},"stream":20,"Collective name":"allreduce","dtype":"Float","In msg nelems":250000,"Out msg nelems":250000,"Group size":2}}}}
]}}
"#,
        1200 + late_us
    )
}

/// Two ranks in the folder `job`, not ingested.
fn job() -> Place {
    let place = Place::new();
    place.write("job/rank0.json", rank_file(0, 2, 0)).write("job/rank1.json", rank_file(1, 2, 30));
    place
}

/// The same, ingested.
fn ingested() -> Place {
    let place = job();
    place.run(&["ingest", "job"]).done();
    place
}

#[test]
fn each_command_has_its_help_page() {
    let place = Place::new();
    let root = place.run(&["--help"]);
    assert_snapshot!("help", shown(&root, &place));
    for command in Cli::command().get_subcommands() {
        let run = place.run(&[command.get_name(), "--help"]);
        assert_snapshot!(format!("help_{}", command.get_name()), shown(&run, &place));
    }
}

#[test]
fn an_ingest_says_what_it_read() {
    let place = job();
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 0
    --- stderr
    job: kineto, 2 ranks, 6 events, 1.08 kB in [TIME] s ([RATE]/s), no findings
    ");
    assert_snapshot!(shown(&place.run(&["list", "traces", "--format", "csv"]), &place), @r"
    exit code 0
    --- stdout
    trace,source,ranks,events,findings,path
    job,kineto,2,6,0,[DIR]/in/job
    ");
}

#[test]
fn one_metric_in_each_format() {
    let place = ingested();
    let metric = |format| place.run(&["metric", "comm_comp_overlap", "--format", format]);
    assert_snapshot!(shown(&metric("table"), &place), @r#"
    exit code 0
    --- stdout
    comm_comp_overlap of job: 1.00
    Sum of |comm ∩ compute| / sum of |comm|, over ranks and devices.

    overlap_ratio_of_comp  0.500
    comm_time_ms           400.0 us
    comp_time_ms           800.0 us
    overlap_time_ms        400.0 us
    exposed_comm_time_ms   0 ms
    comm_kernels           2
    comp_kernels           2
    window_basis           whole_trace

    per_rank
      rank  comm_time_ms  comp_time_ms  overlap_time_ms  exposed_comm_time_ms  overlap_ratio_of_comm
      ----  ------------  ------------  ---------------  --------------------  ---------------------
         0      200.0 us      400.0 us         200.0 us                  0 ms                      1
         1      200.0 us      400.0 us         200.0 us                  0 ms                      1
    "#);
    assert_snapshot!(shown(&metric("csv"), &place), @r#"
    exit code 0
    --- stdout
    trace,overlap_ratio_of_comm,overlap_ratio_of_comp,comm_time_ms,comp_time_ms,overlap_time_ms,exposed_comm_time_ms,comm_kernels,comp_kernels,per_rank,window_basis
    job,1.0,0.5,0.4,0.8,0.4,0.0,2,2,"[{""rank"":0,""comm_time_ms"":0.2,""comp_time_ms"":0.4,""overlap_time_ms"":0.2,""exposed_comm_time_ms"":0.0,""overlap_ratio_of_comm"":1.0},{""rank"":1,""comm_time_ms"":0.2,""comp_time_ms"":0.4,""overlap_time_ms"":0.2,""exposed_comm_time_ms"":0.0,""overlap_ratio_of_comm"":1.0}]",whole_trace
    "#);
    assert_snapshot!(shown(&metric("value"), &place), @r"
    exit code 0
    --- stdout
    1.0
    ");
    assert_snapshot!(shown(&metric("json"), &place), @r#"
    exit code 0
    --- stdout
    {
      "metric": "comm_comp_overlap",
      "version": 1,
      "trace": "job",
      "value": 1.0,
      "unit": "ratio",
      "reason": null,
      "details": {
        "overlap_ratio_of_comm": 1.0,
        "overlap_ratio_of_comp": 0.5,
        "comm_time_ms": 0.4,
        "comp_time_ms": 0.8,
        "overlap_time_ms": 0.4,
        "exposed_comm_time_ms": 0.0,
        "comm_kernels": 2,
        "comp_kernels": 2,
        "per_rank": [
          {
            "rank": 0,
            "comm_time_ms": 0.2,
            "comp_time_ms": 0.4,
            "overlap_time_ms": 0.2,
            "exposed_comm_time_ms": 0.0,
            "overlap_ratio_of_comm": 1.0
          },
          {
            "rank": 1,
            "comm_time_ms": 0.2,
            "comp_time_ms": 0.4,
            "overlap_time_ms": 0.2,
            "exposed_comm_time_ms": 0.0,
            "overlap_ratio_of_comm": 1.0
          }
        ],
        "window_basis": "whole_trace"
      },
      "params": {},
      "warnings": [],
      "provenance": {
        "sql_sha256": "[SHA256]",
        "schema_version": 7,
        "trace_fingerprint": "[SHA256]",
        "ccl_sql": "[VERSION]"
      }
    }
    "#);
}

#[test]
fn parquet_holds_the_row_and_says_which_metric_made_it() {
    let place = ingested();
    let args = ["metric", "comm_comp_overlap", "--format", "parquet", "-o", "out.parquet"];
    assert_snapshot!(shown(&place.run(&args), &place), @r"
    exit code 0
    --- stderr
    wrote out.parquet
    ");
    let read = "SELECT trace, overlap_ratio_of_comm, comm_kernels FROM 'out.parquet'";
    let row = place.run(&["sql", read, "--format", "csv"]).done();
    assert_eq!(row, "trace,overlap_ratio_of_comm,comm_kernels\njob,1.0,2\n");
    let footer =
        "SELECT decode(key) AS k, decode(value) AS v FROM parquet_kv_metadata('out.parquet')
                  WHERE decode(key) <> 'ARROW:schema' ORDER BY k";
    assert_snapshot!(shown(&place.run(&["sql", footer, "--format", "csv"]), &place), @r"
    exit code 0
    --- stdout
    k,v
    metric,comm_comp_overlap
    sql_sha256,[SHA256]
    version,1
    ");
}

#[test]
fn several_metrics_are_long() {
    let place = ingested();
    let metrics = ["metric", "coll_call_num", "wall_time_s"];
    let run = place.run(&[&metrics[..], &["--format", "csv"]].concat());
    assert_snapshot!(shown(&run, &place), @r#"
    exit code 0
    --- stdout
    trace,metric,version,value,unit,reason,details
    job,coll_call_num,1,2,calls,,"{""total_calls"":2,""calls_per_rank"":{""0"":1,""1"":1},""calls_by_type"":{""all_reduce"":2},""calls_per_rank_per_step"":null,""num_traces"":2,""method"":""device_events""}"
    job,wall_time_s,1,0.0004,s,,"{""wall_time_s"":0.0004,""per_rank"":{""0"":0.0004,""1"":0.0004},""trace_span_s"":0.0004,""clock_aligned"":false,""basis"":""device""}"
    "#);
    let run = place.run(&[&metrics[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&run.done()).expect("JSON");
    let names: Vec<&str> =
        json.as_array().expect("a list").iter().filter_map(|r| r["metric"].as_str()).collect();
    assert_eq!(names, ["coll_call_num", "wall_time_s"]);
}

#[test]
fn a_path_is_ingested_first() {
    let place = job();
    let run = place.run(&["metric", "coll_call_num", "--trace", "job", "--format", "value"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 0
    --- stdout
    2
    --- stderr
    job: kineto, 2 ranks, 6 events, 1.08 kB in [TIME] s ([RATE]/s), no findings
    ");
}

#[test]
fn a_metric_that_does_not_apply_is_an_error_when_it_applies_to_no_trace() {
    let place = ingested();
    let run = place.run(&["metric", "throughput_tokens"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[metric-not-applicable]: metric `throughput_tokens@1` has no value: the batch size or the sequence length is not known: a workload card states them, else -p batch_size=N -p seq_len=N give them
      --> job
    hint: `ccl-sql show throughput_tokens` says what it needs
    ");
    // With --all it is a row with a reason, and no error.
    let run = place.run(&["metric", "--all", "--format", "csv"]);
    assert_eq!((run.code, run.errors()), (0, vec![]));
    let csv = Csv::parse(&run.stdout);
    let row = csv.rows.iter().position(|r| r[1].as_deref() == Some("throughput_tokens"));
    let row = row.expect("every metric has a row");
    assert_eq!(csv.get(row, "value"), None);
    assert!(csv.get(row, "reason").is_some());
}

#[test]
fn list_has_every_metric_table_and_function() {
    let place = Place::new();
    let names = |what| {
        let csv = Csv::parse(&place.run(&["list", what, "--format", "csv"]).done());
        csv.rows.into_iter().filter_map(|row| row[0].clone()).collect::<Vec<_>>()
    };
    let metrics = names("metrics");
    for file in files(&project().join("sql/metrics")) {
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let name = stem.split('.').next().unwrap_or_default().to_owned();
        assert!(metrics.contains(&name), "{name} is not listed");
    }
    let tables = names("tables");
    for table in ["device_events", "collectives", "events", "step_events", "ingest_log"] {
        assert!(tables.contains(&table.to_owned()), "{table} is not listed");
    }
    assert!(!tables.iter().any(|t| t.starts_with('_')), "helpers are not for users");
    assert!(names("functions").contains(&"interval_overlap_ns".to_owned()));
    assert_snapshot!(shown(&place.run(&["list", "traces", "--format", "csv"]), &place), @r"
    exit code 0
    --- stdout
    trace,source,ranks,events,findings,path
    ");
}

#[test]
fn show_prints_definition_and_sql() {
    let place = Place::new();
    let run = place.run(&["show", "wall_time_s"]);
    // The definition, then the file as it stands.
    let (definition, sql) = run.stdout.split_once("\n-- @metric").expect("the SQL follows");
    let file = std::fs::read_to_string(project().join("sql/metrics/speed/wall_time_s.v1.sql"));
    assert_eq!(format!("-- @metric{sql}"), file.expect("the metric is there"));
    let definition = Run { stdout: definition.to_owned(), ..run.clone() };
    assert_snapshot!(shown(&definition, &place), @r"
    exit code 0
    --- stdout
    wall_time_s (version 1, s)

    Elapsed time that the trace covers: first start to last end of the device events of a rank, the largest over ranks.

    Value:
      wall_time_s

    Parameters:
      align BOOLEAN = NULL: Take the offsets of the clocks (clock_offsets) from the times of the ranks before they are compared: true or false; without it where an offset exceeds both its uncertainty and the median lag of the calls: only trace_span_s changes.

    Columns:
      trace VARCHAR: The ingested trace.
      wall_time_s DOUBLE [s] (lower is better): Largest window over ranks.
      per_rank MAP [s]: Window of each rank.
      trace_span_s DOUBLE [s]: First start over ranks to last end over ranks; see the parameter align.
      clock_aligned BOOLEAN: Whether the offsets of the clocks were taken away: see the parameter align.
      basis VARCHAR: device, or host where the trace has no device events.

    From traces of:
      kineto, nsys, xla

    Ranges set by hand (NVTX):
      none

    Warns of a trace:
      the clocks of the ranks differ: their offsets (clock_offsets) are taken away from trace_span_s; -p align=false compares the clocks as recorded

    NULL means:
      the trace has no slices

    Also called:
      total_trace_time

    Source:
      metrics 2.A wall_time_s and 1.8 (defects D01 to D03: the device window, per rank)

    Versions:
      wall_time_s@1 (sql/metrics/speed/wall_time_s.v1.sql)
    ");
    assert_snapshot!(shown(&place.run(&["show", "interval_overlap_ns"]), &place), @r"
    exit code 0
    --- stdout
    interval_overlap_ns(a, b) -> BIGINT

    length of what lies in both unions
    ");
    assert_snapshot!(shown(&place.run(&["show", "steps"]), &place), @r"
    exit code 0
    --- stdout
    steps (derived at the end of an ingest)

    A row is one step of a rank, by the marker on the host.

    Columns:
      trace VARCHAR: Name of the ingested trace.
      source VARCHAR: Profiler that recorded it: kineto, nsys or xla.
      rank BIGINT: Global rank; NULL where the source is not of one rank.
      step BIGINT: Number of the step.
      ts_ns BIGINT: Start, nanoseconds on the clock of the rank; since the Unix epoch where the source allows.
      dur_ns BIGINT: Duration in nanoseconds.
      marker VARCHAR: What marked it.
    ");
}

#[test]
fn slips_get_the_nearest_name() {
    let place = ingested();
    assert_snapshot!(shown(&place.run(&["metric", "coll_cal_num"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: there is no metric `coll_cal_num`
    hint: did you mean `coll_call_num`?
    ");
    assert_snapshot!(shown(&place.run(&["metric", "coll_call_num@9"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: metric `coll_call_num` has no version 9
    hint: its versions: 1
    ");
    assert_snapshot!(shown(&place.run(&["metric", "iter_time", "--trace", "jib"]), &place), @r"
    exit code 1
    --- stderr
    error[trace-unknown]: there is no trace `jib`
      --> ../data
    hint: did you mean `job`?
    ");
    assert_snapshot!(shown(&place.run(&["show", "collectivs"]), &place), @r"
    exit code 1
    --- stderr
    error[metric-unknown]: there is no metric, view, table, function or trace `collectivs`
    hint: did you mean `collectives`?
    ");
    let run = place.run(&["metric", "straggler_lag", "-p", "aling=true"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[param-invalid]: metric `straggler_lag` has no parameter `aling`
    hint: did you mean `align`?
    ");
    let run = place.run(&["metric", "straggler_lag", "--n_chips", "8", "--format", "value"]);
    let said = "note: n_chips changes nothing here: it is a parameter of avg_comm_bandwidth_GBps, ";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(run.errors().is_empty(), "{}", run.stderr);
    let run = place.run(&["metric", "straggler_lag", "-p", "align=perhaps"]);
    assert_snapshot!(shown(&run, &place), @r#"
    exit code 1
    --- stderr
    error[param-invalid]: parameter `align` is "perhaps", which is no BOOLEAN
      Take the offsets of the clocks (clock_offsets) from the times of the ranks before they are compared: true or false; without it where an offset exceeds both its uncertainty and the median lag of the calls.
    hint: write true or false
    "#);
    let run = place.run(&["metric", "iter_time", "--sql-dir", "nowhere"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[sql-file]: cannot read the folder of SQL files: it is no folder
      --> nowhere
    hint: give a folder that holds metrics and views: --sql-dir DIR
    ");
}

#[test]
fn without_traces_the_way_in_is_shown() {
    let place = Place::new();
    assert_snapshot!(shown(&place.run(&["metric", "iter_time"]), &place), @r"
    exit code 1
    --- stderr
    error[trace-unknown]: there are no traces yet
      --> ../data
    hint: ingest one first: ccl-sql ingest PATH, or give a path: --trace PATH
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "."]), &place), @r"
    exit code 1
    --- stderr
    error[nothing-found]: no trace was found
      --> .
    hint: give a folder with traces of Kineto (.json, .json.gz), Nsight Systems (.sqlite, .nsys-rep) or XLA (.xplane.pb, .trace.json.gz), with torch memory snapshots (.pickle), or with results of inference benchmarks (.json, .jsonl), or one such file
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "nowhere"]), &place), @r"
    exit code 1
    --- stderr
    error[file-unreadable]: cannot open the path: No such file or directory (os error 2)
      --> nowhere
    hint: check the spelling; a relative path counts from the current folder
    ");
}

#[test]
fn a_card_or_configuration_that_is_named_must_be_one() {
    let place = ingested();
    place.write("card.yaml", "workload:\n  data: [1, 2\n").write("other.yaml", "services: {}\n");
    place.write("broken.toml", "[training]\nsteps = \n").write("other.toml", "[tool]\n");
    let run = place.run(&["ingest", "job", "--card", "nowhere.yaml", "--config", "nowhere.toml"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[card-invalid]: the workload card cannot be used: No such file or directory (os error 2)
      --> nowhere.yaml
    hint: give a workload card (YAML), or leave --card away
    error[config-invalid]: the configuration cannot be used: No such file or directory (os error 2)
      --> nowhere.toml
    hint: give a configuration of TorchTitan (TOML), or leave --config away
    ");
    let run = place.run(&["ingest", "job", "--card", "card.yaml", "--config", "broken.toml"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[card-invalid]: the workload card cannot be used: no valid YAML: unclosed bracket '[' at line 2, column 9
      --> card.yaml
    hint: give a workload card (YAML), or leave --card away
    error[config-invalid]: the configuration cannot be used: no valid TOML: string values must be quoted, expected literal string
      --> broken.toml, line 2
    hint: give a configuration of TorchTitan (TOML), or leave --config away
    ");
    let run = place.run(&["ingest", "job", "--card", "other.yaml", "--config", "other.toml"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[card-invalid]: the workload card cannot be used: it has none of the keys of a workload card (workload, workload_suite)
      --> other.yaml
    hint: give a workload card (YAML), or leave --card away
    error[config-invalid]: the configuration cannot be used: it has none of the tables [training], [parallelism] and [model] of TorchTitan
      --> other.toml
    hint: give a configuration of TorchTitan (TOML), or leave --config away
    ");
    // Nothing was ingested, not even under another name.
    let run = place.run(&["ingest", "job", "--name", "again", "--config", "broken.toml"]);
    assert_eq!((run.code, run.errors()), (1, vec!["config-invalid"]), "{}", run.stderr);
    assert_eq!(place.run(&["list", "traces", "--format", "csv"]).stdout.lines().count(), 2);
}

#[test]
fn a_wrong_command_line_is_2() {
    let place = Place::new();
    for args in [
        &[][..],
        &["metrik"],
        &["metric"],
        &["metric", "iter_time", "--format", "yaml"],
        &["metric", "iter_time", "-p", "align"],
        &["ingest", "--rank", "x=a.json"],
        &["metric", "iter_time", "--all"],
    ] {
        let run = place.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
    }
    let run = place.run(&["ingest", ".", "--name", "a/b"]);
    assert_snapshot!(shown(&run, &place), @r#"
    exit code 2
    --- stderr
    error[usage]: a trace cannot be named "a/b": the name holds '/'
    hint: use letters, digits and . _ - + [ ] ( ) , @
    "#);
}

#[test]
fn a_rank_that_comes_twice_is_an_error() {
    let place = job();
    place.write("job/rank1_retry.json", rank_file(1, 2, 40));
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 1
    --- stderr
    error[duplicate-rank]: two traces claim rank 1
      --> job/rank1.json and job/rank1_retry.json
      each by distributedInfo.rank
    hint: remove all but one, give a rank by hand (--rank N=job/rank1_retry.json), or ingest them one by one with --name
    ");
    assert_snapshot!(shown(&place.run(&["list", "traces", "--format", "csv"]), &place), @r"
    exit code 0
    --- stdout
    trace,source,ranks,events,findings,path
    ");
}

#[test]
fn a_rank_by_hand_joins_the_job() {
    let place = job();
    place.write("job/rank1_retry.json", rank_file(1, 2, 40));
    place.run(&["ingest", "job", "--rank", "2=job/rank1_retry.json", "--name", "three"]).done();
    let rows =
        place.query("SELECT rank, rank_source FROM ranks WHERE trace = 'three' ORDER BY rank");
    assert_eq!(rows, Csv::parse("rank,rank_source\n0,trace\n1,trace\n2,flag\n"));
    let by_hand = ["ingest", "job/rank0.json", "--rank", "1=job/rank1_retry.json", "--name", "two"];
    place.run(&by_hand).done();
    let rows = place.query("SELECT rank, rank_source FROM ranks WHERE trace = 'two' ORDER BY rank");
    assert_eq!(rows, Csv::parse("rank,rank_source\n0,trace\n1,flag\n"));
}

#[test]
fn a_damaged_file_stops_its_job_and_leaves_the_last_one() {
    let place = ingested();
    let whole = rank_file(1, 2, 30);
    place.write("job/rank1.json", &whole[..whole.len() - 60]);
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 1
    --- stderr
    error[trace-truncated]: the trace ends inside an event
      --> job/rank1.json, byte 478, event 3 (2 complete events before it)
    hint: export the trace again, or keep the complete events with --keep-partial
    ");
    let events = "SELECT count(*) FROM events";
    assert_eq!(place.query(events).rows, [[Some("6".to_owned())]], "the old trace is still there");
    assert_snapshot!(shown(&place.run(&["ingest", "job", "--keep-partial"]), &place), @r"
    exit code 0
    --- stderr
    job: kineto, 2 ranks, 5 events, 1.02 kB in [TIME] s ([RATE]/s), 1 finding
    warning[trace-truncated]: 1 x the trace ends inside an event; kept 2 complete events, lost the 197 bytes after byte 281
      --> job/rank1.json, byte 281
    ");
    assert_eq!(place.query(events).rows, [[Some("5".to_owned())]]);
    let strict = place.run(&["ingest", "job", "--keep-partial", "--strict", "--force", "-q"]);
    assert_snapshot!(shown(&strict, &place), @r"
    exit code 1
    --- stderr
    error[strict]: data was lost in `job`, and --strict was given
    hint: `SELECT * FROM ingest_log` says what
    ");
}

#[test]
fn unchanged_files_are_skipped_and_changed_ones_are_read_again() {
    let place = ingested();
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 0
    --- stderr
    job: unchanged, 2 ranks, 6 events
    ");
    let lag = || place.run(&["metric", "straggler_lag", "--format", "value", "-q"]).done();
    assert_eq!(lag(), "30.0\n");
    place.write("job/rank1.json", rank_file(1, 2, 50));
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 0
    --- stderr
    job: kineto, 2 ranks (1 read), 6 events, 538 B in [TIME] s ([RATE]/s), no findings
    ");
    assert_eq!(lag(), "50.0\n");
    // Touched, not changed: the bytes decide.
    place.write("job/rank1.json", rank_file(1, 2, 50));
    assert_snapshot!(shown(&place.run(&["ingest", "job"]), &place), @r"
    exit code 0
    --- stderr
    job: unchanged, 2 ranks, 6 events
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "job", "--force"]), &place), @r"
    exit code 0
    --- stderr
    job: kineto, 2 ranks, 6 events, 1.08 kB in [TIME] s ([RATE]/s), no findings
    ");
}

#[test]
fn a_name_that_is_taken_gets_a_number() {
    let place = ingested();
    place.write("other/rank0.json", rank_file(0, 1, 0));
    assert_snapshot!(shown(&place.run(&["ingest", "other", "--name", "job"]), &place), @r"
    exit code 0
    --- stderr
    job-2: kineto, 1 rank, 3 events, 538 B in [TIME] s ([RATE]/s), 1 finding
    warning[name-taken]: 1 x the name `job` was taken by the trace of [DIR]/in/job; this one is `job-2`
    ");
    assert_snapshot!(shown(&place.run(&["ingest", "other", "--name", "job"]), &place), @r"
    exit code 0
    --- stderr
    job-2: unchanged, 1 rank, 3 events
    ");
    place.run(&["ingest", "other", "--name", "mine"]).done();
    place.run(&["ingest", "job", "--name", "again"]).done();
    let traces = place.query("SELECT trace, rank_count FROM traces ORDER BY trace");
    assert_eq!(traces, Csv::parse("trace,rank_count\nagain,2\njob,2\njob-2,1\nmine,1\n"));
}

#[test]
fn an_existing_output_file_stays() {
    let place = ingested();
    place.write("out.csv", "mine\n");
    let args = ["metric", "coll_call_num", "--format", "csv", "-o", "out.csv"];
    assert_snapshot!(shown(&place.run(&args), &place), @r"
    exit code 1
    --- stderr
    error[output-exists]: the output file is there already
      --> out.csv
    hint: add --force to write over it
    ");
    let text = || std::fs::read_to_string(place.input().join("out.csv")).expect("it is there");
    assert_eq!(text(), "mine\n");
    let run = place.run(&[&args[..], &["--force"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(text().starts_with("trace,total_calls,"));
}

/// A metric of the user's own, whose one number is an SQL expression.
fn own_metric(place: &Place, name: &str, expression: &str) {
    let text = format!(
        "-- @metric   {name}\n-- @version  1\n-- @area     own\n-- @summary  A metric of a user.\n\
         -- @grain    trace\n-- @requires ranks\n-- @value    number\n\
         -- @column   trace VARCHAR dim - | The ingested trace.\n\
         -- @column   number BIGINT value count | A number.\n\
         -- @source   a test\n\
         SELECT trace, CAST({expression} AS BIGINT) AS number\nFROM ranks\nGROUP BY trace\n\
         ORDER BY trace\n"
    );
    place.write(&format!("own/{name}.v1.sql"), text);
}

#[test]
fn a_folder_of_sql_adds_metrics() {
    let place = ingested();
    own_metric(&place, "ranks_here", "count(*)");
    let run = place.run(&["metric", "ranks_here", "--sql-dir", "own", "--format", "csv"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 0
    --- stdout
    trace,number
    job,2
    ");
    let run = place.run(&["metric", "ranks_here"]);
    assert_eq!((run.code, run.errors()), (1, vec!["metric-unknown"]), "only with --sql-dir");
    place.write("own/wrong.v1.sql", "-- @metric wrong\nSELECT 1\n");
    let run = place.run(&["metric", "ranks_here", "--sql-dir", "own"]);
    assert_eq!((run.code, run.errors()), (1, vec!["metric-header"]), "{}", run.stderr);
}

#[test]
fn a_metric_reaches_no_file_and_no_setting() {
    let place = ingested();
    place.write("secret.csv", "a\n42\n");
    let secret = place.input().join("secret.csv");
    let expressions = [
        (
            "read_passwd",
            "(SELECT count(*) FROM read_csv('/etc/passwd', header = false))".to_owned(),
        ),
        ("read_secret", format!("(SELECT max(a) FROM '{}')", secret.display())),
        ("read_text", format!("(SELECT count(*) FROM read_text('{}'))", secret.display())),
        ("list_files", "(SELECT count(*) FROM glob('/etc/*'))".to_owned()),
        ("read_env", "length(getenv('HOME'))".to_owned()),
    ];
    for (name, expression) in &expressions {
        own_metric(&place, name, expression);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
        assert_eq!(run.errors(), ["sql"], "{name}: {}", run.stderr);
    }
}

/// A file of the user's own: the header of `own_metric`, then this text in place of its query.
fn own_text(place: &Place, name: &str, query: &str) {
    own_metric(place, name, "1");
    let path = place.input().join(format!("own/{name}.v1.sql"));
    let text = std::fs::read_to_string(&path).expect("just written");
    let (header, _) = text.split_once("SELECT").expect("it has a query");
    std::fs::write(&path, format!("{header}{query}\n")).expect("it can be written");
}

#[test]
fn statements_of_a_metric_change_nothing_outside() {
    let place = ingested();
    let leak = place.input().join("leak.csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", leak.display());
    let then_copy = format!("SELECT 'job' AS trace, CAST(1 AS BIGINT) AS number; {copy}");
    for (name, query) in [
        ("copies", copy.as_str()),
        ("also_copies", then_copy.as_str()),
        ("attaches", "ATTACH 'other.db'"),
        ("unlocks", "SET enable_external_access = true"),
        ("installs", "INSTALL httpfs"),
        ("loads", "LOAD '/tmp/x.duckdb_extension'"),
    ] {
        own_text(&place, name, query);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
        assert!(!leak.exists(), "{name} wrote a file");
    }
}

#[test]
fn a_metric_is_one_select() {
    let place = ingested();
    for (name, query) in [
        ("two", "SELECT 'job' AS trace, 1 AS number; SELECT 'job' AS trace, 2::BIGINT AS number"),
        ("creates", "CREATE TABLE t AS SELECT 1; SELECT 'job' AS trace, 2::BIGINT AS number"),
    ] {
        own_text(&place, name, query);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
    }
}

#[test]
fn a_metric_cannot_write_into_its_trace() {
    let place = ingested();
    let folder = std::fs::canonicalize(place.data()).expect("it is there");
    let leak = folder.join("trace=job/leak.csv");
    own_text(&place, "writes", &format!("COPY (SELECT 1) TO '{}'", leak.display()));
    place.run(&["metric", "writes", "--sql-dir", "own"]);
    assert!(!leak.exists(), "a metric wrote {}", leak.display());
}

#[test]
fn a_view_is_one_select() {
    let place = ingested();
    let leak = place.input().join("leak.csv");
    let view =
        "-- @view     mine\n-- @summary  A view of a user.\n-- @requires ranks\nSELECT 1 AS a";
    place.write("own/mine.sql", format!("{view}; COPY (SELECT 1) TO '{}'\n", leak.display()));
    own_metric(&place, "reads_mine", "(SELECT max(a) FROM mine)");
    let path = place.input().join("own/reads_mine.v1.sql");
    let text = std::fs::read_to_string(&path).expect("just written");
    std::fs::write(&path, text.replace("-- @value", "-- @reads    mine\n-- @value"))
        .expect("written");
    place.run(&["metric", "reads_mine", "--sql-dir", "own"]);
    assert!(!leak.exists(), "a view wrote {}", leak.display());
}

#[test]
fn sql_may_use_files_unless_it_is_sandboxed() {
    let place = ingested();
    place.write("numbers.csv", "a\n42\n");
    let sql = ["sql", "SELECT a FROM 'numbers.csv'", "--format", "value"];
    assert_eq!(place.run(&sql).done(), "42\n");
    let run = place.run(&[&sql[..], &["--sandbox"]].concat());
    assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{}", run.stderr);
    let tables = ["sql", "SELECT count(*) FROM device_events", "--format", "value", "--sandbox"];
    assert_eq!(place.run(&tables).done(), "4\n");
}

#[test]
fn sql_gives_rows_from_text_file_and_stdin() {
    let place = ingested();
    let query = "SELECT class, count(*) AS n, NULL AS nothing, '' AS empty FROM device_events
                 GROUP BY class ORDER BY class";
    place.write("query.sql", query);
    assert_snapshot!(shown(&place.run(&["sql", query, "--format", "json"]), &place), @r#"
    exit code 0
    --- stdout
    [
      {
        "class": "comm",
        "n": 2,
        "nothing": null,
        "empty": ""
      },
      {
        "class": "compute",
        "n": 2,
        "nothing": null,
        "empty": ""
      }
    ]
    "#);
    let csv = place.run(&["sql", "--file", "query.sql", "--format", "csv"]).done();
    assert_eq!(csv, "class,n,nothing,empty\ncomm,2,,\"\"\ncompute,2,,\"\"\n");
    let mut command = crate::program::command(&place.input());
    let args = ["--data", "../data", "sql", "-", "--format", "csv"];
    let output = command.args(args).write_stdin(query).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), csv);
    assert_snapshot!(shown(&place.run(&["sql", "SELECT nothing FROM steps"]), &place), @r#"
    exit code 1
    --- stderr
    error[sql]: Binder Error: Referenced column "nothing" not found in FROM clause!
    Candidate bindings: "ts_ns"

    LINE 1: SELECT nothing FROM steps
                   ^^^^^^^
    "#);
}

#[test]
fn a_closed_pipe_is_quiet() {
    let place = Place::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ccl-sql"))
        .args(["sql", "SELECT range AS n FROM range(300000)", "--format", "csv"])
        .current_dir(place.input())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn completions_and_manual_come_without_traces() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = place.run(&["completions", shell]).done();
        assert!(text.contains("CCL_SQL_COMPLETE"), "{shell}");
    }
    assert!(place.run(&["man"]).done().starts_with(".ie"), "it is roff");
    assert!(!Path::new(&place.data()).exists(), "nothing was made");
}

#[test]
fn folders_may_hold_the_characters_of_patterns() {
    let place = ingested();
    let input = place.input();
    let data = "../d z[1]*?'s";
    crate::program::run(&input, &["ingest", "job", "--name", "run[x]", "--data", data]).done();
    let args = ["metric", "coll_call_num", "--trace", "run[x]", "--data", data];
    let odd = crate::program::run(&input, &[&args[..], &["--format", "value"]].concat()).done();
    let plain = place.run(&["metric", "coll_call_num", "--format", "value"]).done();
    assert_eq!(odd, plain);
}
