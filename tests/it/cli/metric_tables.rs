//! Metrics as tables, in `sql` and in a database file.

use duckdb::Connection;
use serde_json::Value;

use crate::support::runs::step_of_rank;
use crate::support::{Place, Run};

/// The traces `one` and `two`, of two ranks each; rank 1 comes later, in `two` more.
fn traces() -> Place {
    let place = Place::new();
    for (name, late_us) in [("one", 30), ("two", 50)] {
        place
            .write(&format!("{name}/rank0.json"), step_of_rank(0, 2, 300, 1600))
            .write(&format!("{name}/rank1.json"), step_of_rank(1, 2, 450, 1600 + late_us));
        place.run(&["ingest", name, "-q"]).done();
    }
    place
}

fn sql(place: &Place, query: &str) -> Run {
    place.run(&["sql", query, "--format", "csv"])
}

fn csv(place: &Place, query: &str) -> String {
    let run = sql(place, query);
    assert_eq!(run.code, 0, "{query}: {}", run.stderr);
    run.stdout
}

#[test]
fn a_metric_joins_and_filters_as_a_table_does() {
    let place = traces();
    let lag = "SELECT trace, mean_lag_us FROM straggler_lag ORDER BY trace";
    assert_eq!(csv(&place, lag), "trace,mean_lag_us\none,30.0\ntwo,50.0\n");
    let query = "SELECT l.trace, n.total_calls FROM straggler_lag l
                 JOIN Coll_Call_Num n USING (trace) WHERE l.mean_lag_us > 40";
    assert_eq!(csv(&place, query), "trace,total_calls\ntwo,2\n");
    // Whatever takes a table takes it, and the same name may be one of the user's.
    for query in [
        "CREATE TABLE mine AS FROM straggler_lag; SELECT count(*) AS n FROM mine",
        "WITH straggler_lag AS (SELECT 1 UNION ALL SELECT 2) SELECT count(*) AS n FROM straggler_lag",
        "SELECT count(*) AS n FROM \"straggler_lag@1\"",
        "SELECT count(*) AS n FROM (DESCRIBE straggler_lag) WHERE column_name IN ('trace', 'warnings')",
        "SELECT (SELECT count(*) FROM straggler_lag) AS n",
        "SELECT count(*) AS n FROM AVG_COMM_BANDWIDTH_GBPS",
    ] {
        assert_eq!(csv(&place, query), "n\n2\n", "{query}");
    }
    place.run(&["sql", "COPY straggler_lag TO 'lag.csv'"]).done();
    let text = std::fs::read_to_string(place.input().join("lag.csv")).expect("it was written");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn the_table_of_each_metric_says_what_the_metric_says() {
    let place = traces();
    let all: Value =
        serde_json::from_str(&place.run(&["metric", "--all", "--format", "json", "-q"]).stdout)
            .expect("JSON");
    let of_one = || {
        let all = all.as_array().expect("results").iter();
        all.filter(|result| result["trace"] == "one")
    };
    let name = |result: &Value| result["metric"].as_str().expect("a name").to_owned();
    let query: String = of_one().map(|r| format!("FROM {} ORDER BY trace;", name(r))).collect();
    let run = place.run(&["sql", &query, "--format", "json", "-q"]);
    let tables: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
    assert!(of_one().count() > 100);
    for (i, result) in of_one().enumerate() {
        let (name, row) = (name(result), &tables[i][0]);
        assert_eq!(tables[i].as_array().map(Vec::len), Some(2), "{name}");
        assert_eq!(row["trace"], "one", "{name}");
        assert_eq!(row["null_reason"], result["reason"], "{name}");
        assert_eq!(row["warnings"], result["warnings"], "{name}");
        for (key, value) in result["details"].as_object().expect("details") {
            assert_eq!(&row[key], value, "{name}.{key}");
        }
    }
}

#[test]
fn parameters_are_those_of_the_command() {
    let place = traces();
    let query = "SELECT trace, mfu_pct FROM metric('mfu', peak_tflops := 2, trace := 'o*')";
    let run = sql(&place, query);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
    let aligned = "SELECT round(mean_lag_us) AS lag FROM metric('straggler_lag', align := false)
                   ORDER BY trace";
    assert_eq!(csv(&place, aligned), "lag\n30.0\n50.0\n");
    // The same metric with other parameters is another table, also in one statement.
    let both = "SELECT count(*) AS n FROM metric('straggler_lag', align := false) a
                JOIN metric('straggler_lag', align := true) b USING (trace)";
    assert_eq!(csv(&place, both), "n\n2\n");
    let list = "SELECT count(*) AS n FROM metric('straggler_lag', trace := ['one', 'two'])";
    assert_eq!(csv(&place, list), "n\n2\n");
}

#[test]
fn what_cannot_be_computed_is_said() {
    let place = traces();
    for (query, code, text) in [
        ("FROM metric('mfuu')", "metric-unknown", "did you mean `mfu`?"),
        ("FROM metric('mfu', top := 1)", "param-invalid", "has no parameter `top`"),
        ("FROM metric('straggler_lag', align := 'x''\"; DROP')", "param-invalid", "DROP"),
        ("FROM metric('mfu', trace := 'thre')", "trace-unknown", "no trace `thre`"),
        ("FROM metric(NULL)", "usage", "needs the name of a metric"),
        ("FROM metric('mfu', nonsense := 1)", "sql", "n_chips := NULL"),
        ("FROM mfu(top := 2)", "sql", "write metric('mfu', ...)"),
        ("FROM stragler_lag", "sql", "there is a metric `straggler_lag`: FROM straggler_lag"),
        ("FROM nowhere.straggler_lag", "sql", "does not exist"),
        ("FROM \"@metric_zz\"", "sql", "there is no table"),
    ] {
        let run = sql(&place, query);
        assert_eq!(run.errors(), [code], "{query}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{query}: {}", run.stderr);
    }
    // No value is a row of NULL with its reason, as in the table of the command.
    let run = sql(&place, "SELECT mfu_pct, null_reason FROM mfu WHERE trace = 'one'");
    let line = run.stdout.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with(',') && line.len() > 10, "{}", run.stdout);
    assert!(run.stderr.contains("note: metric `mfu@"), "{}", run.stderr);
    let empty = Place::new();
    assert_eq!(sql(&empty, "SELECT mean_lag_us FROM straggler_lag").stdout, "mean_lag_us\n");
}

#[test]
fn a_sandbox_has_metrics_and_no_files() {
    let place = traces();
    let query = "SELECT count(*) AS n FROM metric('straggler_lag', align := false)";
    let run = place.run(&["sql", "--sandbox", query, "--format", "value"]);
    assert_eq!(run.done(), "2\n");
    let one = place.run(&[
        "sql",
        "--trace",
        "two",
        "SELECT trace FROM straggler_lag",
        "--format",
        "value",
    ]);
    assert_eq!(one.done(), "two\n");
    let metrics = "-- @metric twice\n-- @version 1\n-- @area speed\n-- @summary Twice.\n\
        -- @grain trace\n-- @requires steps\n-- @value twice\n\
        -- @param by BIGINT 2 | Factor.\n-- @column trace VARCHAR dim - | The trace.\n\
        -- @column twice BIGINT value - | Twice.\n-- @source ours\n\
        SELECT trace, $by::BIGINT AS twice FROM steps GROUP BY trace\n";
    place.write("own/twice.v1.sql", metrics);
    let own = ["sql", "--sql-dir", "own", "--sandbox", "--format", "csv"];
    let query =
        "SELECT a.twice + b.twice AS n FROM twice a JOIN metric('twice', by := 5) b USING (trace)
                 ORDER BY trace LIMIT 1";
    assert_eq!(place.run(&[&own[..], &[query]].concat()).done(), "n\n7\n");
}

#[test]
fn a_database_file_holds_tables_views_and_metrics() {
    let place = traces();
    let run = place.run(&["export", "--duckdb", "job.duckdb"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.contains("wrote job.duckdb: "), "{}", run.stderr);
    let again = place.run(&["export", "--duckdb", "job.duckdb"]);
    assert_eq!(again.errors(), ["output-exists"], "{}", again.stderr);
    let names: Vec<String> = std::fs::read_dir(place.input())
        .expect("the folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("duckdb"))
        .collect();
    assert_eq!(names, ["job.duckdb"]);
    let path = place.input().join("job.duckdb");
    let file = Connection::open(&path).expect("DuckDB opens it");
    let text = |query: &str| -> String {
        file.query_row(query, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{query}: {e}"))
    };
    for table in ["device_events", "collective_calls", "kernel_summary", "straggler_lag"] {
        let query = format!("SELECT count(*) AS n FROM {table}");
        let own = csv(&place, &query);
        assert_eq!(format!("n\n{}\n", text(&query.replace("count(*)", "count(*)::VARCHAR"))), own);
    }
    let sum = "SELECT string_agg(trace || mean_lag_us, ',' ORDER BY trace) FROM straggler_lag";
    assert_eq!(text(sum), "one30.0,two50.0");
    assert_eq!(text("SELECT version FROM ccl_sql WHERE name = 'straggler_lag'"), "1");
    let said = "SELECT comment FROM duckdb_columns() WHERE table_name = 'straggler_lag'
                AND column_name = 'mean_lag_us'";
    assert!(text(said).ends_with("[us]"), "{}", text(said));
    drop(file);
    let args = [
        "export",
        "two",
        "--duckdb",
        "job.duckdb",
        "--force",
        "--table",
        "strag*",
        "--table",
        "steps",
    ];
    place.run(&args).done();
    let file = Connection::open(&path).expect("DuckDB opens it");
    let names: String = file
        .query_row(
            "SELECT string_agg(table_name, ' ' ORDER BY ALL) FROM duckdb_tables()",
            [],
            |r| r.get(0),
        )
        .expect("names");
    assert!(names.starts_with("ccl_sql steps straggler"), "{names}");
    // A folder that is not there is made, as for all output.
    place.run(&["export", "two", "--duckdb", "new/a/job.duckdb", "--table", "steps"]).done();
    let left = std::fs::read_dir(place.input().join("new/a")).expect("the folder").count();
    assert_eq!(left, 1);
    let trace: String =
        file.query_row("SELECT trace FROM straggler_lag", [], |r| r.get(0)).expect("a row");
    assert_eq!(trace, "two");
}

#[test]
fn a_database_that_cannot_be_written_leaves_nothing() {
    let place = traces();
    place.write("file", "");
    // Neither a file nor a folder.
    let socket = place.input().join("socket");
    let _held = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for (args, code) in [
        (&["export", "--duckdb", "file/job.duckdb"][..], "io"),
        (&["export", "--duckdb", "new/job.duckdb", "--table", "none*"], "nothing-found"),
        (&["export", "--duckdb", "socket", "--force"], "io"),
        (&["export", "--duckdb", "job.duckdb", "--table", "nothing*"], "nothing-found"),
        (&["export", "none", "--duckdb", "job.duckdb"], "trace-unknown"),
        (&["export", "--duckdb", "job.duckdb", "-o", "x"], "usage"),
        (&["export", "--duckdb", "job.duckdb", "-p", "nonsense=1"], "param-invalid"),
    ] {
        let run = place.run(args);
        assert_eq!(run.errors(), [code], "{args:?}: {}", run.stderr);
    }
    let left = std::fs::read_dir(place.input()).expect("the folder").count();
    assert_eq!(left, 4, "the traces alone are there, and what stood in the way");
}
