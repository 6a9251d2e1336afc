//! `ccl-sql ingest`: what it says, ranks, damage, a second time.

use insta::assert_snapshot;

use crate::cli::shown::{ingested, job, rank_file, shown};
use crate::support::Csv;

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
