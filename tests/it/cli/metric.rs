//! `ccl-sql metric`: the forms of an answer, and where it goes.

use insta::assert_snapshot;
use serde_json::Value;

use crate::cli::shown::{ingested, job, shown};
use crate::support::{Csv, Place, Run, project};

/// Bare values have no names: these are told beside them, as short as the values allow.
#[test]
fn names_of_bare_values_are_told() {
    let place = ingested();
    let told = |words: &[&str]| {
        let run = place.run(&[&["metric"], words, &["--format", "value"]].concat());
        let names = run.stderr.lines().find_map(|line| {
            line.strip_suffix(
                " (--label writes the names \
            beside the values)",
            )
            .map(str::to_owned)
        });
        names.unwrap_or_else(|| panic!("{}", run.stderr))
    };
    let two = ["coll_call_num", "wall_time_s"];
    assert_eq!(told(&two), "note: coll_call_num (calls), wall_time_s (s)");
    place.run(&["ingest", "job", "--name", "twin", "-q"]).done();
    assert_eq!(told(&two[..1]), "note: coll_call_num (calls) of job, twin");
    assert_eq!(
        told(&two),
        "note: coll_call_num of job (calls), wall_time_s of job (s), \
         coll_call_num of twin (calls), wall_time_s of twin (s)"
    );
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
      "answer": null,
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

    // Of several traces some have a value: of the others it is said why not, which the rows of all
    // metrics say themselves.
    place.write("quiet/rank0.json", r#"{"traceEvents":[]}"#);
    place.run(&["ingest", "quiet", "-q"]).done();
    let run = place.run(&["metric", "comm_comp_overlap"]);
    let notes = |run: &Run| run.stderr.matches("note: comm_comp_overlap").count();
    assert!(run.code == 0 && run.stderr.contains(" of quiet: "), "{}", run.stderr);
    assert_eq!((notes(&run), notes(&place.run(&["metric", "--all"]))), (1, 0));
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

#[test]
fn metrics_say_how_long_they_took() {
    let place = ingested();
    let asked = ["metric", "iter_time", "wall_time_s", "--format", "csv", "-v"];
    let said = place.run(&asked).stderr;
    for name in ["iter_time", "wall_time_s"] {
        let line = said.lines().find_map(|l| l.strip_prefix(&format!("{name} of job: ")));
        let ms = line.and_then(|took| took.strip_suffix(" ms"));
        assert!(ms.is_some_and(|ms| ms.parse::<u64>().is_ok()), "{name}: {said}");
    }
}

#[test]
fn parameters_are_of_their_type() {
    let place = ingested();
    let run = |value: &str| {
        let param = format!("batch_size={value}");
        place.run(&["metric", "throughput_tokens", "-p", &param, "-p", "seq_len=10", "-q"])
    };
    let tokens = |value: &str| run(value).done();
    assert_eq!(tokens("2000"), tokens("2e3"));
    assert_eq!(tokens("2000"), tokens("2000.0"));
    assert_ne!(tokens("2000"), tokens("2001"));
    for wrong in ["2.5", "two", "1e16", "nan", "99999999999999999999"] {
        let run = run(wrong);
        assert_eq!(run.errors(), ["param-invalid"], "{wrong}: {}", run.stderr);
        assert!(run.stderr.contains("write a whole number"), "{}", run.stderr);
    }
}

#[test]
fn execution_traces_alone_say_why_they_have_no_times() {
    let place = Place::new();
    let folder = project().join("tests/ingest/et/alone_1_0_2");
    for name in ["dlrm_eg_0.json", "dlrm_eg_1.gz.json"] {
        place.write(&format!("job/{name}"), std::fs::read(folder.join(name)).expect("a case"));
    }
    place.run(&["ingest", "job", "-q"]).done();
    let all = place.run(&["metric", "--all", "--format", "json", "-q"]);
    let all: Vec<Value> = serde_json::from_str(&all.stdout).expect("JSON");
    let silent = all.iter().filter(|result| result["value"].is_null());
    let reasons: Vec<&str> = silent.filter_map(|result| result["reason"].as_str()).collect();
    assert!(reasons.len() > 50, "{reasons:?}");
    let said = "the trace holds execution traces alone, which record no times";
    assert!(reasons.iter().all(|reason| reason.starts_with(said)), "{reasons:?}");
}

#[test]
fn what_is_asked_of_another_profiler_is_not_looked_for() {
    let place = ingested();
    let words = ["diagnose", "--profile-mode", "nsys", "--format", "json", "-q"];
    let diagnosis = place.run(&words).done();
    let diagnosis: Value = serde_json::from_str(&diagnosis).expect("JSON");
    assert_eq!(diagnosis["findings"], serde_json::json!([]));
    let absent = &diagnosis["not_looked_for"];
    assert_eq!(absent[0]["reason"], "the trace has no nsys source", "{absent}");
    let all = place.run(&["list", "diagnoses", "--format", "csv"]).done().lines().count() - 1;
    let count = absent[0]["diagnoses"].as_array().map(Vec::len);
    assert_eq!((count, absent.get(1)), (Some(all), None), "{absent}");
}
