//! `ccl-sql history` and `compare --baseline`: runs of a series in order of recording.

use crate::support::kineto::{Args, slice};
use crate::support::runs::step_of_rank;
use crate::support::{Csv, Place};

/// The day on which the first run was recorded, in nanoseconds since the Unix epoch: 2026-01-01.
const FIRST_NS: i64 = 1_767_225_600_000_000_000;

const DAY_NS: i64 = 86_400_000_000_000;

/// A run of four steps of so many microseconds, recorded on a day.
fn run_of(place: &Place, name: &str, day: i64, step_us: i64, card: Option<&str>) {
    let step = step_us * 1000;
    let events: String = (0..4)
        .map(|i| {
            let (start, end) = (i * step, (i + 1) * step);
            let name = format!("ProfilerStep#{i}");
            slice("user_annotation", &name, 1, 1, (start, end), Args::none())
                + &slice("kernel", "gemm", 0, 7, (start + 10_000, end - 10_000), Args::id(i))
        })
        .collect();
    let events = events.trim_end().trim_end_matches(',');
    let base = FIRST_NS + day * DAY_NS;
    place.write(
        &format!("{name}/rank0.json"),
        format!(
            "{{\"schemaVersion\":1,\"baseTimeNanoseconds\":{base},\
             \"distributedInfo\":{{\"rank\":0,\"world_size\":1}},\"traceEvents\":[{events}]}}"
        ),
    );
    if let Some(card) = card {
        place.write(&format!("{name}/workload_card.yaml"), card);
    }
    place.run(&["ingest", name, "--name", name, "-q"]).done();
}

const NIGHTLY: &str = "series: nightly\nworkload: {}\n";

/// Ten runs of a series, the later ones slower, with names in another order than their days; and a
/// run of no series.
fn series() -> Place {
    let place = Place::new();
    let times = [1000, 1010, 1000, 1010, 1000, 1200, 1210, 1200, 1210, 1200];
    for (day, time) in (0..).zip(times) {
        run_of(
            &place,
            &format!("run-{}", (b'a' + day as u8) as char),
            20 - day,
            time,
            Some(NIGHTLY),
        );
    }
    run_of(&place, "alone", 3, 5000, None);
    place
}

#[test]
fn runs_stand_in_order_of_recording_and_a_change_is_said() {
    let place = series();
    let csv = Csv::parse(&place.run(&["history", "avg_step_time", "--format", "csv"]).done());
    let column =
        |name| (0..csv.rows.len()).map(|r| csv.get(r, name).unwrap_or("")).collect::<Vec<_>>();
    // The run with the last name was recorded first: so the steps become shorter.
    let order: Vec<String> = ('a'..='j').rev().map(|c| format!("run-{c}")).collect();
    assert_eq!(column("trace"), order);
    assert_eq!(column("recorded")[0], "2026-01-12T00:00:00Z");
    assert_eq!(column("is_change").iter().position(|c| *c == "true"), Some(5));
    assert_eq!(column("status")[5], "Better");
    assert_eq!(column("series"), ["nightly"; 10]);
    let text = place.run(&["history", "avg_step_time"]).done();
    let last = text.lines().last().expect("lines");
    // 1.2 ms to 1.0 ms.
    assert_eq!(last, "Better from run-e on: -16.67 %, 1.200 ms to 1.000 ms");
    // What the card says goes before the clock; one without a zone is UTC.
    for (name, recorded, utc) in [
        ("zone", "2025-12-01T02:30:00+02:00", "2025-12-01T00:30:00Z"),
        ("bare", "2025-12-02T02:30:00", "2025-12-02T02:30:00Z"),
        ("none", "yesterday", "2026-01-13T00:00:00Z"),
    ] {
        let card = format!("series: carded\nrecorded: {recorded}\nworkload: {{}}\n");
        run_of(&place, name, 12, 1000, Some(&card));
        let args = ["history", "avg_step_time", "--series", "carded", "--format", "csv"];
        let csv = Csv::parse(&place.run(&args).done());
        let at = (0..csv.rows.len()).find(|row| csv.get(*row, "trace") == Some(name));
        assert_eq!(csv.get(at.expect("it is there"), "recorded"), Some(utc));
    }
    let few = place.run(&["history", "avg_step_time", "--last", "3", "--series", "nightly"]).done();
    assert!(few.contains("3 runs have a value: a change of level needs 6"), "{few}");
    assert!(few.contains("run-c") && !few.contains("run-d"), "{few}");
}

#[test]
fn a_series_is_named_by_the_cards_or_by_the_names_of_runs() {
    let place = series();
    let traces = |args: &[&str]| {
        let line = [&["history", "avg_step_time", "--format", "csv"], args].concat();
        let csv = Csv::parse(&place.run(&line).done());
        let name = |row| csv.get(row, "trace").expect("a name").to_owned();
        (0..csv.rows.len()).map(name).collect::<Vec<_>>()
    };
    assert_eq!(traces(&["--series", "night*"]).len(), 10);
    assert_eq!(traces(&["--series", "run-?"]).len(), 10);
    assert_eq!(traces(&["--series", "*n*"]).len(), 10, "the cards come first");
    assert_eq!(traces(&["--series", "alo*"]), ["alone"]);
}

#[test]
fn what_has_no_history_says_so() {
    let place = series();
    let run = |args: &[&str]| {
        let run = place.run(&[&["history"], args].concat());
        (run.code, run.errors().into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(run(&["avg_step_time", "--series", "x*"]), (1, vec!["trace-unknown".to_owned()]));
    assert_eq!(run(&["avg_step_tim"]), (1, vec!["metric-unknown".to_owned()]));
    assert_eq!(run(&["straggler"]), (1, vec!["metric-not-applicable".to_owned()]));
    assert_eq!(run(&["avg_step_time", "-o", "x/"]), (2, vec!["usage".to_owned()]));
    assert_eq!(run(&["avg_step_time", "--last", "0"]).0, 2);
    let empty = Place::new().run(&["history", "avg_step_time"]);
    assert_eq!(empty.errors(), ["trace-unknown"]);
    assert!(empty.stderr.contains("there are no traces yet"), "{}", empty.stderr);
    assert!(empty.stderr.contains("hint: ingest the runs first"), "{}", empty.stderr);
    let bare = Place::new();
    run_of(&bare, "alone", 0, 1000, None);
    let none = bare.run(&["history", "avg_step_time"]);
    assert!(none.stderr.contains("no card names a series"), "{}", none.stderr);
    let by_name = bare.run(&["history", "avg_step_time", "--series", "al*"]).done();
    assert!(by_name.contains("2026-01-01T00:00:00Z"), "{by_name}");
}

#[test]
fn a_page_holds_the_document() {
    let place = series();
    place.run(&["history", "avg_step_time", "iter_time", "-o", "h.html"]).done();
    let page = std::fs::read_to_string(place.input().join("h.html")).expect("a page");
    assert!(page.contains("<title>nightly · history</title>"));
    let json = place.run(&["history", "avg_step_time", "--format", "json"]).done();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["series"][0]["runs"].as_array().map(Vec::len), Some(10));
    assert_eq!(json["series"][0]["metrics"][0]["better"], "lower");
}

#[test]
fn a_run_is_judged_by_the_spread_of_those_before() {
    let place = series();
    run_of(&place, "good", 30, 1015, None);
    run_of(&place, "bad", 31, 1100, None);
    let judge = |test: &str, limit: &str| {
        place.run(&["compare", "--baseline", "nightly", "--last", "5", test, "--fail-on", limit])
    };
    // The last five: 1000, 1010, 1000, 1010, 1000. The median of their distances from 1000 is 0,
    // their mean is 4: a spread of 5.01, and a band of 4 x 5.01 x sqrt(1 + 1.571 / 5) = 22.98.
    let run = judge("good", "avg_step_time > +3%");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.starts_with("Baseline: nightly, 5 runs, run-e to run-a\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("977.0 us to 1.023 ms"), "{}", run.stdout);
    let run = judge("bad", "avg_step_time > +3%");
    assert_eq!((run.code, run.errors()), (1, vec!["change-too-large"]));
    assert!(run.stderr.contains("changed by +10.00 %"), "{}", run.stderr);
    // One that communicates, as none before it.
    place.write("talks/rank0.json", step_of_rank(0, 1, 400, 1500));
    place.run(&["ingest", "talks", "-q"]).done();
    for (test, limit, why) in [
        ("bad", "mfu < -2%", "the run or the baseline has no value"),
        ("talks", "communication_fraction > +3%", "the median of the baseline is 0"),
    ] {
        let run = judge(test, limit);
        assert_eq!((run.code, run.errors()), (1, vec!["metric-not-applicable"]), "{}", run.stderr);
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }

    // Over all ten runs 1100 is within the spread.
    let line = ["compare", "--baseline", "run-*", "bad", "--fail-on", "avg_step_time < -0.1%"];
    let run = place.run(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("does not count: the spread of the baseline is"), "{}", run.stderr);
    // One run has no spread.
    let one = |more: &[&str]| {
        let words = ["compare", "--baseline", "nightly", "--last", "1", "bad"];
        place.run(&[&words[..], more].concat())
    };
    let run = one(&["--fail-on", "avg_step_time > +3%"]);
    assert_eq!(run.errors(), ["change-too-large"], "{}", run.stderr);
    assert!(run.stderr.contains("of 1 runs, its spread is not known; 1.1"), "{}", run.stderr);
    let json = one(&["--format", "json"]).done();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["runs"], serde_json::json!(["run-a"]), "{json}");
    let sheet = &json["tests"][0]["sheet"];
    let columns = sheet["columns"].as_array().expect("columns");
    let place_of = |name: &str| columns.iter().position(|c| c["name"] == name).expect(name);
    let mut rows = sheet["rows"].as_array().expect("rows").iter();
    let steps = rows.find(|row| row[place_of("metric")] == "avg_step_time").expect("a row");
    assert_eq!(steps[place_of("low")], serde_json::Value::Null);
    assert_eq!(steps[place_of("run_count")], 1);
    // A run is none of its own baseline.
    let csv = place.run(&["compare", "--baseline", "nightly", "run-a", "--format", "csv"]).done();
    let csv = Csv::parse(&csv);
    assert_eq!(csv.get(0, "run_count"), Some("9"));
    for args in [&["--last", "3", "run-a", "run-b"][..], &["--baseline", "x", "run-a"]] {
        assert_ne!(place.run(&[&["compare"], args].concat()).code, 0, "{args:?}");
    }
}

#[test]
fn runs_of_one_level_have_no_change() {
    let place = Place::new();
    for (name, day) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)] {
        run_of(&place, name, day, 1000, Some(NIGHTLY));
    }
    let text = place.run(&["history", "avg_step_time", "--series", "nightly"]).done();
    assert!(text.contains("no change of level in 6 runs"), "{text}");
}

#[test]
fn a_baseline_is_of_one_series_with_other_runs() {
    let place = Place::new();
    for (name, day, card) in
        [("a", 1, NIGHTLY), ("b", 2, NIGHTLY), ("c", 3, "series: nights\nworkload: {}\n")]
    {
        run_of(&place, name, day, 1000, Some(card));
    }
    for (args, parts) in [
        (&["night*", "a"][..], &["2 series fit `night*`", "nightly, nights", "name one"][..]),
        (&["nightly", "a", "b"], &["the series has no other run to compare with", "--> nightly"]),
    ] {
        let run = place.run(&[&["compare", "--baseline"], args].concat());
        assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{}", run.stderr);
        for part in parts {
            assert!(run.stderr.contains(part), "no {part:?} in\n{}", run.stderr);
        }
    }
}
