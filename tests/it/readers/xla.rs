//! Profiles of XLA that tables of expected rows cannot show: a fit over many calls, damage, and
//! what a second ingest does.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Place, Tables, gzip, in_parallel, xspace};

/// Seconds of a step of the ring, and of a byte.
const ALPHA_S: f64 = 4e-6;
const BETA_S: f64 = 8e-12;
/// Part by which a transfer may be shorter or longer.
const NOISE: f64 = 0.02;
/// Chips of the host.
const CHIPS: usize = 8;
/// Steps of the program; each calls every operation once.
const CALLS: usize = 6;
/// Message sizes: a megabyte, doubled six times.
const SIZES: usize = 7;

/// Fractions below 1 from a fixed seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// One call on one chip.
struct Share {
    chip: usize,
    op: String,
    text: String,
    bytes: f64,
    group_size: f64,
    start_ps: i64,
    dur_ps: i64,
}

/// Calls in groups of 8 and of 4. Every chip starts at another time, and a call ends for all chips
/// of the group at once: what the last one needs is the transfer, all others wait, too.
fn calls() -> Vec<Share> {
    let mut chance = Chance(20_261_121);
    let mut out = Vec::new();
    let mut now_ps = 1_000_000_i64;
    for _ in 0..CALLS {
        for place in 0..2 * SIZES {
            let (group_size, bytes) = ([8, 4][place % 2], 1_i64 << (20 + place / 2));
            let n = group_size as f64;
            let groups = ["{{0,1,2,3,4,5,6,7}}", "{{0,1,2,3},{4,5,6,7}}"][place % 2];
            let op = format!("all-reduce.{place}");
            let shape = format!("f32[{}]{{0:T(1024)}}", bytes / 4);
            let text = format!(
                "%{op} = {shape} all-reduce({shape} %param.{place}), channel_id={}, \
                 replica_groups={groups}, use_global_device_ids=true, to_apply=%add",
                place + 1
            );
            for first in (0..CHIPS).step_by(group_size) {
                let exact_s = 2.0 * (n - 1.0) * (ALPHA_S + BETA_S * bytes as f64 / n);
                let transfer_s = exact_s * (1.0 + NOISE * (2.0 * chance.next() - 1.0));
                let starts: Vec<i64> =
                    (0..group_size).map(|_| now_ps + (chance.next() * 5e8) as i64).collect();
                let last = starts.iter().max().expect("a group has chips");
                let end_ps = last + (transfer_s * 1e12) as i64;
                out.extend(starts.iter().enumerate().map(|(i, start)| Share {
                    chip: first + i,
                    op: op.clone(),
                    text: text.clone(),
                    bytes: bytes as f64,
                    group_size: n,
                    start_ps: *start,
                    dur_ps: end_ps - start,
                }));
            }
            now_ps += 5_000_000_000;
        }
    }
    out
}

/// Time by which the clock of a chip is ahead of that of the host.
fn ahead_ps(chip: usize) -> i64 {
    7_000_000_000 + 3_123_456 * chip as i64
}

/// The calls as both forms say them: the line of the chip, with its own clock beside that of the
/// host. Of some operations the line says that they took no time.
fn events(calls: &[Share], chip: usize) -> Vec<(&Share, i64, i64)> {
    let of_chip = calls.iter().filter(|c| c.chip == chip).enumerate();
    let line = |(i, c)| {
        let c: &Share = c;
        (c, if i % 5 == 4 { 0 } else { c.dur_ps }, c.start_ps + ahead_ps(chip))
    };
    of_chip.map(line).collect()
}

fn as_xplane(calls: &[Share]) -> Vec<u8> {
    let plane = |chip: usize| {
        let ops = calls.iter().filter(|c| c.chip == chip).map(|c| {
            let stats = json!({"hlo_category": "all-reduce"});
            (c.op.clone(), json!({"text": c.text, "stats": stats}))
        });
        let ops: serde_json::Map<String, Value> = ops.collect();
        let events = events(calls, chip).into_iter().map(|(c, line_dur_ps, own_ps)| {
            json!({"name": c.op, "offset_ps": c.start_ps, "duration_ps": line_dur_ps,
                "stats": {"device_offset_ps": own_ps, "device_duration_ps": {"uint": c.dur_ps}}})
        });
        let events: Vec<Value> = events.collect();
        json!({"id": 2 + 8 * chip, "name": format!("/device:TPU:{chip}"), "ops": ops,
            "lines": [{"id": 3, "name": "XLA Ops", "events": events}]})
    };
    let planes: Vec<Value> = (0..CHIPS).map(plane).collect();
    xspace::space(&json!({"planes": planes}))
}

/// Microseconds with six digits, as the converter prints them.
fn micros(ps: i64) -> String {
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

fn as_chrome(calls: &[Share]) -> String {
    let mut out =
        r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#.to_owned();
    for chip in 0..CHIPS {
        let pid = 3 + 8 * chip;
        let names = [
            json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": format!("/device:TPU:{chip}")}}),
            json!({"ph": "M", "pid": pid, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}}),
        ];
        names.iter().for_each(|name| write!(out, "{name},").expect("text can be written"));
        for (c, line_dur_ps, own_ps) in events(calls, chip) {
            let head = match line_dur_ps {
                0 => r#""ph":"i","s":"t""#.to_owned(),
                dur => format!(r#""ph":"X","dur":{}"#, micros(dur)),
            };
            let args = json!({"long_name": c.text, "hlo_category": "all-reduce",
                "device_offset_ps": own_ps.to_string(), "device_duration_ps": c.dur_ps.to_string()});
            let (ts, name) = (micros(c.start_ps), &c.op);
            write!(
                out,
                r#"{{{head},"pid":{pid},"tid":3,"ts":{ts},"name":"{name}","args":{args}}},"#
            )
            .expect("text can be written");
        }
    }
    out + "{}]}"
}

/// Details of the metrics of the Hockney model, one after the other.
fn figures(place: &Place) -> Vec<Value> {
    let metrics = ["hockney_alpha_s", "hockney_beta_s_per_byte", "hockney_by_collective"];
    let run = place.run(&[&["metric"][..], &metrics, &["--format", "json"]].concat());
    let results: Value = serde_json::from_str(&run.done()).expect("the result is JSON");
    let results = results.as_array().expect("a result for each metric");
    results.iter().map(|result| result["details"].clone()).collect()
}

/// Slope and intercept of least squares.
fn line_through(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let slope = mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x) * (p.0 - x));
    (slope, y - slope * x)
}

/// Most that the noise can move alpha and beta of a ring of n: the line of least squares is a sum
/// of the times with weights, and no time is off by more than its part of noise.
fn bounds(n: f64) -> (f64, f64) {
    let sizes: Vec<f64> = (0..SIZES).map(|i| (1_u64 << (20 + i)) as f64).collect();
    let (mut of_alpha, mut of_beta) = (0.0, 0.0);
    for (i, size) in sizes.iter().enumerate() {
        let one: Vec<(f64, f64)> =
            sizes.iter().enumerate().map(|(j, s)| (*s, f64::from(u8::from(i == j)))).collect();
        let (slope, intercept) = line_through(&one);
        let off_s = NOISE * 2.0 * (n - 1.0) * (ALPHA_S + BETA_S * size / n);
        of_alpha += intercept.abs() * off_s;
        of_beta += slope.abs() * off_s;
    }
    (of_alpha / (2.0 * (n - 1.0)), of_beta * n / (2.0 * (n - 1.0)))
}

#[test]
fn waiting_does_not_reach_the_fit() {
    let calls = calls();
    let (xplane, chrome) = (Place::new(), Place::new());
    xplane.write("host.xplane.pb", as_xplane(&calls)).run(&["ingest", "."]).done();
    chrome.write("host.trace.json.gz", gzip(as_chrome(&calls).as_bytes()));
    chrome.run(&["ingest", "."]).done();
    let figures_of = figures(&xplane);
    assert_eq!(figures_of, figures(&chrome), "the forms differ");
    let [alpha, beta, by_collective] = &figures_of[..] else { panic!("{figures_of:?}") };
    // Both groups of 4 and that of 8: so many calls, each once.
    assert_eq!((&alpha["group_size"], &alpha["samples"]), (&json!(4), &json!(2 * SIZES * CALLS)));
    assert_eq!(alpha["hockney_alpha_s"], alpha["by_group_size"][0]["fit"]["alpha_s"]);
    assert_eq!(
        beta["hockney_beta_s_per_byte"],
        alpha["by_group_size"][0]["fit"]["beta_s_per_byte"]
    );
    for (place, n) in [4.0, 8.0].into_iter().enumerate() {
        let (of_alpha, of_beta) = bounds(n);
        let near = |found: &Value, exact: f64, bound: f64, what: &str| {
            let found = found.as_f64().unwrap_or(f64::NAN);
            let is_near = (found - exact).abs() <= bound;
            assert!(is_near, "{what} of {n}: {found}, not {exact} +- {bound}");
        };
        let fit = &alpha["by_group_size"][place]["fit"];
        near(&fit["alpha_s"], ALPHA_S, of_alpha, "alpha");
        near(&fit["beta_s_per_byte"], BETA_S, of_beta, "beta");
        // Of a transfer as a whole: 2 (n - 1) steps, of a part of the message each.
        let (steps, of_kind) = (2.0 * (n - 1.0), &by_collective["by_collective"][place]);
        near(&of_kind["alpha_s"], steps * ALPHA_S, steps * of_alpha, "latency");
        near(
            &of_kind["beta_s_per_byte"],
            steps * BETA_S / n,
            steps * of_beta / n,
            "time of a byte",
        );
        near(
            &of_kind["bus_bw_gb_per_s"],
            1e-9 / BETA_S,
            2e-9 * of_beta / BETA_S.powi(2),
            "bandwidth",
        );
        // What all chips measured has the waiting in it.
        let own = calls.iter().filter(|c| c.group_size == n);
        let raw: Vec<(f64, f64)> = own.map(|c| (c.bytes, c.dur_ps as f64 / 1e12)).collect();
        let (_, intercept) = line_through(&raw);
        let raw_alpha = intercept / steps;
        assert!(raw_alpha > ALPHA_S + 3.0 * of_alpha, "{raw_alpha} of {n} is no test");
    }
}

/// Three planes, each by itself: two chips around a host.
fn planes() -> Vec<Vec<u8>> {
    let events = json!([
        {"name": "fusion.1", "offset_ps": 1000, "duration_ps": 2000, "stats": {"run_id": 5, "x": {"ref": "y"}}},
        {"name": "fusion.2", "offset_ps": 4000, "duration_ps": 1000},
    ]);
    let of = |id: i64, name: &str, line: &str| {
        let plane = json!({"name": name, "lines": [{"id": 3, "name": line, "events": events}]});
        let mut out = Vec::new();
        xspace::bytes(&mut out, 1, &xspace::plane(&plane, id));
        out
    };
    vec![
        of(2, "/device:TPU:0", "XLA Ops"),
        of(3, "/host:CPU", "python"),
        of(4, "/device:TPU:1", "XLA Ops"),
    ]
}

fn count_of(place: &Place) -> i64 {
    Tables::open(&place.data()).int("SELECT count(*) FROM events")
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_a_trace() {
    let planes = planes();
    let whole = planes.concat();
    let ends: Vec<usize> =
        (1..=planes.len()).map(|n| planes[..n].iter().map(Vec::len).sum()).collect();
    let mut cuts: Vec<usize> = (0..whole.len()).step_by(whole.len() / 12).collect();
    cuts.extend(ends.iter().flat_map(|end| [end - 1, *end]).chain([1, 2, 3]));
    let failures = in_parallel(&cuts, |cut| {
        let place = Place::new();
        let complete = ends.iter().filter(|end| *end <= cut).count();
        let run = place.write("t.xplane.pb", &whole[..*cut]).run(&["ingest", "."]);
        let codes = run.errors();
        let at_end = ends.contains(cut);
        let mut out = Vec::new();
        if at_end != (run.code == 0) || !at_end && codes != ["trace-truncated"] {
            out.push(format!("cut at {cut}: {} {}", run.code, run.stderr));
        }
        let kept = place.run(&["ingest", ".", "--keep-partial"]);
        if (complete == 0) == (kept.code == 0) || kept.code > 1 {
            out.push(format!("cut at {cut}, kept: {} {}", kept.code, kept.stderr));
        } else if complete > 0 && count_of(&place) != 2 * complete as i64 {
            out.push(format!("cut at {cut}: {} events of {complete} planes", count_of(&place)));
        }
        out
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_chrome_form_that_is_cut_keeps_its_complete_events_on_demand() {
    let head = concat!(
        r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#,
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},"#,
        r#"{"ph":"M","pid":3,"tid":3,"name":"thread_name","args":{"name":"XLA Ops"}},"#,
    );
    let event =
        r#"{"ph":"X","pid":3,"tid":3,"ts":1.5,"dur":0.5,"name":"fusion.1","args":{"a":"1"}},"#;
    let whole = format!("{head}{event}{event}{event}{{}}]}}");
    for (kept, beyond) in [(0, 20), (1, 1), (1, 60), (2, 75), (3, 1)] {
        let cut = head.len() + kept * event.len() + beyond;
        let place = Place::new();
        let run = place.write("t.trace.json", &whole[..cut]).run(&["ingest", "."]);
        assert_eq!((run.code, run.errors()), (1, vec!["trace-truncated"]), "{}", run.stderr);
        // With the two that name the process and the thread.
        let before = format!("event {} ({} complete events before it)", kept + 3, kept + 2);
        assert!(run.stderr.contains(&before), "{}", run.stderr);
        let run = place.run(&["ingest", ".", "--keep-partial"]);
        let said = format!("kept {} complete events\n", kept + 2);
        assert!(run.code == 0 && run.stderr.contains(&said), "{}", run.stderr);
        assert_eq!(count_of(&place), kept as i64, "cut at {cut}");
        let log = place.query("SELECT first_offset FROM ingest_log WHERE code = 'trace-truncated'");
        assert_eq!(log.rows, [[Some(cut.to_string())]]);
    }
}

#[test]
fn bytes_that_are_no_field_are_an_error_with_their_place() {
    let planes = planes();
    let at = planes[0].len();
    // Wire type 7 in place of the second plane, and inside it.
    for (offset, byte) in [(at, 0x0f), (at + 2, 0x0f)] {
        let mut bytes = planes.concat();
        let length = bytes.len();
        bytes[offset] = byte;
        let place = Place::new();
        let run = place.write("t.xplane.pb", bytes).run(&["ingest", "."]);
        assert_eq!(run.errors(), ["protobuf-invalid"], "{}", run.stderr);
        assert!(run.stderr.contains(&format!("t.xplane.pb, byte {offset}")), "{}", run.stderr);
        place.run(&["ingest", ".", "--keep-partial"]).done();
        assert_eq!(count_of(&place), 2);
        let log = place
            .query("SELECT severity, first_offset, message FROM ingest_log WHERE code = 'protobuf-invalid'");
        let [severity, place, message] = &log.rows[0][..] else { panic!("three columns") };
        assert_eq!((severity.as_deref(), place), (Some("error"), &Some(offset.to_string())));
        let lost = format!("lost the {} bytes from there", length - offset);
        assert!(message.as_ref().is_some_and(|m| m.ends_with(&lost)), "{lost}: {message:?}");
    }
}

#[test]
fn what_is_no_profile_is_told_so() {
    for (bytes, code) in [
        (&b""[..], "trace-truncated"),
        (b"{\"traceEvents\": []}", "not-a-trace"),
        (b"<!DOCTYPE html>", "not-a-trace"),
        (b"SQLite format 3\0", "not-a-trace"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not-a-trace"),
        // Begins like a field.
        (b"\n\nsome text\n", "protobuf-invalid"),
    ] {
        let place = Place::new();
        for args in [&["ingest", "t.xplane.pb"][..], &["ingest", "t.xplane.pb", "--keep-partial"]] {
            let run = place.write("t.xplane.pb", bytes).run(args);
            let text = String::from_utf8_lossy(bytes);
            assert_eq!((run.code, run.errors()), (1, vec![code]), "{text}: {}", run.stderr);
        }
    }
}

#[test]
fn gzip_is_told_by_its_bytes() {
    let planes = planes();
    let whole = planes.concat();
    for name in ["t.xplane.pb", "t.xplane.pb.gz"] {
        let place = Place::new();
        place.write(name, gzip(&whole)).run(&["ingest", "."]).done();
        assert_eq!(count_of(&place), 6, "{name}");
        let source = place.query("SELECT trace, rank, device FROM ranks ORDER BY rank").rows;
        assert_eq!(source.len(), 2, "{source:?}");
    }
    // Unpacked under the name of a packed one.
    let place = Place::new();
    place.write("t.xplane.pb.gz", &whole).run(&["ingest", "."]).done();
    assert_eq!(count_of(&place), 6);
}

#[test]
fn a_gzip_that_is_cut_or_wrong_is_an_error() {
    let bytes = gzip(&planes().concat());
    let mut wrong = bytes.clone();
    let crc = wrong.len() - 8;
    wrong[crc] ^= 0xff;
    let half = &bytes[..bytes.len() / 2];
    for (bytes, code) in
        [(half, "trace-truncated"), (&bytes[..5], "trace-truncated"), (&wrong, "gzip-broken")]
    {
        let place = Place::new();
        let run = place.write("t.xplane.pb", bytes).run(&["ingest", "."]);
        assert_eq!((run.code, run.errors()), (1, vec![code]), "{}", run.stderr);
    }
    // What can be unpacked is kept when it is asked for; the sum at the end does not fit.
    let place = Place::new();
    place.write("t.xplane.pb", &wrong).run(&["ingest", ".", "--keep-partial"]).done();
    let tables = Tables::open(&place.data());
    assert_eq!(tables.int("SELECT count(*) FROM ingest_log WHERE code = 'gzip-broken'"), 1);
    assert!(tables.int("SELECT count(*) FROM events") > 0);
    let run =
        Place::new().write("t.xplane.pb", &bytes[..5]).run(&["ingest", ".", "--keep-partial"]);
    assert_eq!((run.code, run.errors()), (1, vec!["trace-truncated"]), "{}", run.stderr);
}

#[test]
fn a_million_names_are_no_burden() {
    let mut plane = Vec::new();
    xspace::bytes(&mut plane, 2, b"/device:GPU:0");
    let mut line = Vec::new();
    xspace::int(&mut line, 1, 7);
    xspace::bytes(&mut line, 2, b"Stream #7(Kernel)");
    // The last one lies beyond what a list of names would hold.
    let ids = [0, 500_000, 999_999, 1 << 40];
    for (i, id) in ids.iter().enumerate() {
        let mut event = Vec::new();
        xspace::int(&mut event, 1, *id);
        xspace::int(&mut event, 2, 1000 * i as i64);
        xspace::int(&mut event, 3, 1000);
        xspace::bytes(&mut line, 4, &event);
    }
    xspace::bytes(&mut plane, 3, &line);
    for id in (0..1_000_000).chain([1 << 40]) {
        let (mut entry, mut inner) = (Vec::new(), Vec::new());
        xspace::int(&mut entry, 1, id);
        xspace::bytes(&mut inner, 2, format!("kernel_{id}").as_bytes());
        xspace::bytes(&mut entry, 2, &inner);
        xspace::bytes(&mut plane, 4, &entry);
    }
    let mut space = Vec::new();
    xspace::bytes(&mut space, 1, &plane);
    let place = Place::new();
    place.write("t.xplane.pb", space).run(&["ingest", "."]).done();
    let names = place.query("SELECT name, ts_ns FROM device_events ORDER BY ts_ns").rows;
    let expected: Vec<_> = ids
        .iter()
        .enumerate()
        .map(|(i, id)| vec![Some(format!("kernel_{id}")), Some(i.to_string())])
        .collect();
    assert_eq!(names, expected);
}

/// Lines are read in pieces: an event that is longer than one is read too, and those around it.
#[test]
fn an_event_may_be_longer_than_a_piece_of_its_line() {
    let long = "x".repeat(3 << 20);
    let event = |n: i64, stats: Value| {
        json!({"name": format!("op {n}"), "offset_ps": 1000 * n, "duration_ps": 500,
               "stats": stats})
    };
    let events = [
        event(0, json!({"run_id": 7})),
        event(1, json!({"note": long})),
        event(2, json!({"run_id": 8})),
    ];
    let plane =
        json!({"name": "/host:CPU", "lines": [{"id": 3, "name": "python", "events": events}]});
    let mut space = Vec::new();
    xspace::bytes(&mut space, 1, &xspace::plane(&plane, 2));
    let place = Place::new();
    place.write("t.xplane.pb", space).run(&["ingest", "."]).done();
    let rows = place.lines(
        "SELECT name, length(json_extract_string(args, '$.note')), json_extract(args, '$.run_id')
         FROM host_events ORDER BY ts_ns, name",
    );
    assert_eq!(rows, ["op 0 NULL 7", &format!("op 1 {} NULL", 3 << 20), "op 2 NULL 8"]);
}

/// How far into a file something lies says nothing of its size.
#[test]
fn a_plane_may_lie_far_into_its_file() {
    const FAR: u64 = 300 << 20;
    let event = json!({"name": "op", "offset_ps": 1000, "duration_ps": 500});
    let plane =
        json!({"name": "/host:CPU", "lines": [{"id": 3, "name": "python", "events": [event]}]});
    let mut begin = Vec::new();
    xspace::bytes(&mut begin, 1, &xspace::plane(&json!({"name": "/host:metadata"}), 1));
    // A member of a space that no version has, of which the disk holds nothing.
    xspace::varint(&mut begin, 15 << 3 | 2);
    xspace::varint(&mut begin, FAR);
    let mut end = Vec::new();
    xspace::bytes(&mut end, 1, &xspace::plane(&plane, 2));
    let place = Place::new();
    place.write("t.xplane.pb", &begin);
    let path = place.input().join("t.xplane.pb");
    let file = File::options().write(true).open(path).expect("it was just written");
    file.write_all_at(&end, begin.len() as u64 + FAR).expect("it can be written");
    place.run(&["ingest", "."]).done();
    assert_eq!(place.lines("SELECT name FROM host_events"), ["op"]);
}

/// Rows of the Chrome form are handed on in batches.
#[test]
fn a_chrome_form_may_hold_many_events() {
    const COUNT: usize = 40_000;
    let mut text = concat!(
        r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#,
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/host:CPU"}},"#,
        r#"{"ph":"M","pid":3,"tid":3,"name":"thread_name","args":{"name":"python"}},"#,
    )
    .to_owned();
    for n in 0..COUNT {
        let event = format!(r#"{{"ph":"X","pid":3,"tid":3,"ts":{n},"dur":0.5,"name":"op {n}"}},"#);
        text.push_str(&event);
    }
    let place = Place::new();
    place.write("t.trace.json", text + "{}]}").run(&["ingest", "."]).done();
    let all =
        format!("name = 'op ' || (ts_ns // 1000) AND ts_ns % 1000 = 0 AND ts_ns < {COUNT}000");
    let rows =
        place.lines(&format!("SELECT count(*), count(DISTINCT name) FROM events WHERE {all}"));
    assert_eq!(rows, [format!("{COUNT} {COUNT}")]);
    assert_eq!(count_of(&place), COUNT as i64);
}

/// A host of one device whose rank is stated by its HLO: one of two of the job.
fn of_host(device: i64, epoch_ns: i64) -> Vec<u8> {
    let work = json!({"name": "dot.1", "offset_ps": 1_000_000, "duration_ps": 2000,
        "stats": {"hlo_op": "dot.1", "program_id": 1, "device_ordinal": device}});
    xspace::space(&json!({"planes": [
        {"name": "/host:CPU", "lines": [{"name": "python", "events": [work]}]},
        {"name": "/host:metadata", "modules": [
            {"name": "jit_f", "id": 1, "devices": [[0], [2048]], "computations": {}}]},
        {"name": "Task Environment", "stats": {"profile_start_time": {"uint": epoch_ns}}},
    ]}))
}

const EPOCH_NS: i64 = 1_795_000_000_000_000_000;

#[test]
fn a_second_ingest_reads_what_changed() {
    let place = Place::new();
    let folder = "plugins/profile/2026_11_21";
    place.write(&format!("{folder}/a.xplane.pb"), of_host(0, EPOCH_NS));
    place.write(&format!("{folder}/b.xplane.pb"), of_host(2048, EPOCH_NS));
    place.run(&["ingest", "."]).done();
    let again = place.run(&["ingest", "."]);
    assert!(again.stderr.contains("unchanged, 2 ranks"), "{}", again.stderr);
    place.write(&format!("{folder}/b.xplane.pb"), of_host(2048, EPOCH_NS + 1));
    let changed = place.run(&["ingest", "."]);
    assert!(changed.stderr.contains("2 ranks (1 read)"), "{}", changed.stderr);
    let starts = place.query("SELECT rank, ts_ns FROM device_events ORDER BY rank");
    let row = |rank: i64| [Some(rank.to_string()), Some((EPOCH_NS + 1000 + rank).to_string())];
    assert_eq!(starts.rows, [row(0), row(1)]);
    let anew = place.run(&["ingest", ".", "--force"]);
    assert!(anew.stderr.contains("xla, 2 ranks, 2 events"), "{}", anew.stderr);
}

fn write_both(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let kineto = r#"{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}}]}"#;
    std::fs::write(folder.join("rank0.json"), kineto).expect("a file");
    std::fs::write(folder.join("t.xplane.pb"), planes().concat()).expect("a file");
}

#[test]
fn a_source_leaves_others_out() {
    for (source, kinds) in [("xla", "xla"), ("kineto", "kineto")] {
        let place = Place::new();
        write_both(&place.input());
        place.run(&["ingest", ".", "--source", source]).done();
        let found = place.query("SELECT DISTINCT source FROM ranks ORDER BY source").rows;
        assert_eq!(found, [[Some(kinds.to_owned())]], "--source {source}");
        let aside = place.query("SELECT count FROM ingest_log WHERE code = 'set-aside'").rows;
        assert_eq!(aside, [[Some("1".to_owned())]], "--source {source}");
    }
    let place = Place::new();
    write_both(&place.input());
    let run = place.run(&["ingest", "t.xplane.pb", "--source", "kineto"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
}

#[test]
fn a_profile_mode_of_another_source_is_an_error() {
    let place = Place::new();
    place.write("t.xplane.pb", planes().concat()).run(&["ingest", "."]).done();
    let wall = |mode: &str| place.run(&["metric", "wall_time_s", "--profile-mode", mode]);
    wall("xla").done();
    wall("auto").done();
    for other in ["torch", "nsys"] {
        let run = wall(other);
        assert_eq!(
            (run.code, run.errors()),
            (1, vec!["metric-not-applicable"]),
            "{other}: {}",
            run.stderr
        );
    }
}
