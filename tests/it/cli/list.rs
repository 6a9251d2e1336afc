//! `ccl-sql list` and `ccl-sql show`.

use insta::assert_snapshot;

use crate::cli::shown::shown;
use crate::support::{Csv, Place, Run, files, project};

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
    let metrics = files(&project().join("sql/metrics"));
    let file = metrics.iter().find(|f| f.ends_with("wall_time_s.v1.sql")).expect("it is there");
    let text = std::fs::read_to_string(file).expect("the metric can be read");
    assert_eq!(format!("-- @metric{sql}"), text);
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
fn show_says_what_kind_of_thing_it_is() {
    let place = Place::new();
    for (name, head) in [
        ("late_rank", "late_rank (diagnosis, version 1)\n\nA rank comes late"),
        ("copies", "copies\n\nCopies on the devices"),
        ("device_events", "device_events (made by ingest)\n\nA row is one kernel"),
        ("steps", "steps (derived at the end of an ingest)\n\nA row is one step"),
    ] {
        let shown = place.run(&["show", name]).done();
        assert!(shown.starts_with(head), "{name}: {shown}");
    }
}
