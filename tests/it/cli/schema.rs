//! `ccl-sql schema`, and less of a result: `--brief`, `--select`, `--limit`.

use serde_json::{Value, json};

use crate::support::{Place, example, project};

fn parsed(place: &Place, args: &[&str]) -> Value {
    let text = place.run(args).done();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}\n{text}"))
}

#[test]
fn what_there_is_comes_as_one_json() {
    let place = Place::new();
    let all = parsed(&place, &["schema"]);
    let names = |kind: &str| -> Vec<String> {
        let list = all[kind].as_array().unwrap_or_else(|| panic!("{kind}"));
        list.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let listed = |what: &str, field: &str| -> Vec<String> {
        let rows = parsed(&place, &["list", what, "--format", "json"]);
        let rows = rows.as_array().expect("rows").iter();
        rows.map(|row| row[field].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("metrics"), listed("metrics", "metric"));
    assert_eq!(names("diagnoses"), listed("diagnoses", "diagnosis"));
    assert_eq!(names("functions"), listed("functions", "function"));
    assert_eq!([names("tables"), names("views")].concat(), listed("tables", "table"));
    let events = all["tables"].as_array().expect("tables").iter();
    let events =
        events.clone().find(|table| table["name"] == "device_events").expect("it is there");
    let columns = events["columns"].as_array().expect("columns");
    let unit = |name: &str| &columns.iter().find(|c| c["name"] == name).expect("a column")["unit"];
    assert_eq!(
        (unit("ts_ns"), unit("bytes"), unit("name")),
        (&json!("ns"), &json!("bytes"), &Value::Null)
    );
    for output in all["outputs"].as_array().expect("names") {
        let schema = parsed(&place, &["schema", output.as_str().expect("a name")]);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
    assert_eq!(place.run(&["schema", "mfu"]).code, 2);
}

#[test]
fn every_code_of_an_error_is_on_the_page() {
    let place = Place::new();
    let page = std::fs::read_to_string(project().join("docs/contract.md")).expect("the page");
    let all = parsed(&place, &["schema"]);
    let rows = all["errors"].as_array().expect("errors").iter().map(|error| {
        let text = |field: &str| error[field].as_str().expect("a text");
        format!("| `{}` | {} |", text("code"), text("meaning"))
    });
    let rows: Vec<String> = rows.collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let table = page.split_once("## Errors").expect("a section").1;
    assert_eq!(table.lines().filter(|line| line.starts_with("| `")).count(), rows.len());
}

#[test]
fn less_of_a_result() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let json = |args: &[&str]| parsed(&place, &[args, &["--format", "json", "-q"]].concat());
    let whole = json(&["metric", "straggler"]);
    let brief = json(&["metric", "straggler", "--brief"]);
    let fields = ["metric", "trace", "value", "unit", "reason", "answer"];
    assert_eq!(brief.as_object().map(serde_json::Map::len), Some(fields.len()));
    assert!(fields.iter().all(|field| brief[field] == whole[field]), "{brief}");
    let some = json(&["metric", "--all", "--select", "metric,details.per_rank", "--limit", "3"]);
    assert_eq!(some.as_array().map(Vec::len), Some(3));

    let report = json(&["report", "job", "--limit", "2"]);
    let sheets = report["sheets"].as_array().expect("sheets");
    assert!(
        sheets.len() > 5
            && sheets.iter().all(|s| s["rows"].as_array().is_some_and(|r| r.len() <= 2))
    );
    assert!(sheets.iter().any(|s| s["columns"].as_array().is_some_and(|c| c.len() > 2)));
    assert!(report["cut"]["metrics"].as_u64().is_some_and(|all| all > 20), "{}", report["cut"]);
    for (args, most) in [
        (&["report", "job"][..], 60_000),
        (&["diagnose", "job"], 15_000),
        (&["list", "metrics"], 60_000),
        (&["show", "straggler_lag"], 5_000),
        (&["show", "job"], 3_000),
        (&["history", "iter_time", "--series", "job"], 10_000),
        (&["schema"], 200_000),
    ] {
        let (long, short) = (json(args), json(&[args, &["--brief"]].concat()));
        let (long, short) = (long.to_string().len(), short.to_string().len());
        assert!(short < long && short < most, "{args:?}: {long} to {short}");
    }

    let sql = "SELECT range AS a, range AS b, 0 AS c FROM range(9000)";
    let rows = json(&["sql", sql, "--select", "b,a", "--limit", "2"]);
    assert_eq!(rows, json!([{"b": 0, "a": 0}, {"b": 1, "a": 1}]));
    let run = place.run(&["sql", sql, "--format", "json", "--limit", "5000"]);
    assert_eq!(run.stderr, "note: the first 5000 rows\n");
    assert_eq!(run.stdout.matches("\"a\"").count(), 5000);
    for (args, part) in [
        (&["sql", sql, "--select", "d", "--format", "json"][..], "no field `d`"),
        (&["sql", sql, "--brief", "--format", "json"], "no brief form"),
        (&["sql", sql, "--limit", "2"], "--limit is for JSON"),
        (&["metric", "straggler", "--select", "valu", "--format", "json"], "did you mean `value`?"),
        (&["metric", "straggler", "--brief", "--format", "csv"], "--brief is for JSON"),
        (
            &["metric", "straggler", "--brief", "--select", "a", "--format", "json"],
            "cannot be used",
        ),
    ] {
        let run = place.run(args);
        assert!(run.code == 2 && run.stderr.contains(part), "{args:?}: {}", run.stderr);
    }
}
