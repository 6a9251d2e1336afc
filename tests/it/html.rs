//! The HTML pages in a real browser: plots hold the numbers of the document, tables sort, and
//! what a stranger wrote into a trace stays text.
//!
//! A page gets a script of the test at its end, which its content security policy is made to name.
//! Chromium runs the page from disk without a window and prints what became of it. Without
//! Chromium (`CHROMIUM=PATH` names one) these tests say so and check nothing.

mod documents;

use std::path::PathBuf;
use std::process::Command;

use ccl_sql::report::html::{compare_page, csp_hash, report_page};
use ccl_sql::report::units::human;
use ccl_sql::schema::units::UNITS;
use serde_json::{Value, json};

use crate::program::{project, run};

use documents::{comparison, report};

/// What a stranger may write into the name of a kernel.
const HOSTILE: &str = "</script><img src=x onerror=\"window.__hacked=1\">'&amp;{b|x}=cmd()|' /C calc'!A0 \u{202e}gnp.exe \u{2028}<svg onload=window.__hacked=2>";

fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM") {
        return Some(path.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// What a page did: the value that the script of the test gave, and what the console said.
pub struct Probe {
    /// What the script gave.
    pub value: Value,
    /// What the console said.
    pub console: Vec<String>,
}

/// Runs a page with a script that sets `result`; None without a browser.
#[expect(clippy::print_stderr, reason = "who runs the tests is to know that this one did nothing")]
pub fn probe(page: &str, script: &str) -> Option<Probe> {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: there is no chromium here; CHROMIUM=PATH names one");
        return None;
    };
    let script = format!(
        "const out = document.createElement('pre');\nout.id = 'probe';\nlet result;\n\
         const at = (id) => echarts.getInstanceByDom(document.getElementById(id)).getOption();\n\
         const cells = (table, column) => [...document.querySelectorAll(`#${{table}} tbody tr`)]\
         .map((row) => row.children[column].textContent);\n\
         try {{\n{script}\n}} catch (e) {{ result = {{error: String(e.stack)}}; }}\n\
         out.textContent = encodeURIComponent(JSON.stringify(result));\n\
         document.body.append(out);\n"
    );
    let policy = format!("script-src {} ", csp_hash(&script));
    let page = with_script(&page.replacen("script-src ", &policy, 1), &script);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).expect("the page can be written");
    let output = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=5000", "--window-size=1300,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let console = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains(":CONSOLE"))
        .map(str::to_owned)
        .collect();
    let start = dom.find("<pre id=\"probe\">").map(|i| i + "<pre id=\"probe\">".len());
    let Some(start) = start else { panic!("the page has no result: {console:?}") };
    let end = start + dom[start..].find("</pre>").expect("the result ends");
    let value: Value = serde_json::from_str(&decoded(&dom[start..end])).expect("JSON");
    assert!(value["error"].is_null(), "{value}");
    Some(Probe { value, console })
}

/// A page with a script at its end; the library has the text of that end too.
fn with_script(page: &str, script: &str) -> String {
    let end = page.rfind("</body>").expect("the page ends");
    format!("{}<script>{script}</script>\n{}", &page[..end], &page[end..])
}

/// The inverse of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).expect("digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn the_plots_of_a_report_hold_the_numbers_of_the_document() {
    let script = "const data = (id) => at(id).series.map((s) => [s.name, s.data]);
        result = Object.fromEntries(['breakdown', 'bandwidth', 'overlap', 'stragglers',
            'sizes', 'memory', 'classes'].map((p) => [p, data('plot-' + p)]));
        result.ranks = at('plot-breakdown').yAxis[0].data;
        document.querySelectorAll('#breakdown .choice button')[1].click();
        result.percent = data('plot-breakdown');
        document.querySelectorAll('#bandwidth .choice button')[1].click();
        result.bus = data('plot-bandwidth');
        document.querySelector('#overlap input').click();
        result.lines = data('plot-overlap');
        result.tiles = [...document.querySelectorAll('.tile-value')].map((t) => t.textContent);
        result.shapes = echarts.getInstanceByDom(document.getElementById('plot-timeline')).getZr()
            .storage.getDisplayList(true).filter((e) => e.shape && e.shape.rects && e.shape.rects.length).map((e) => e.shape.rects.length);";
    let Some(probe) = probe(&report_page(&report("")), script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = probe.value;
    assert_eq!(value["ranks"], json!(["rank 0", "rank 1"]));
    assert_eq!(
        value["breakdown"],
        json!([
            ["compute", [10.25, 20.25]],
            ["exposed communication", [20.25, 30.25]],
            ["exposed copies", [30.25, 40.25]],
            ["idle", [40.25, 50.25]]
        ])
    );
    let share = |part: f64, total: f64| 100.0 * part / total;
    assert_eq!(value["percent"][0][1], json!([share(10.25, 101.0), share(20.25, 141.0)]));
    assert_eq!(value["shapes"], json!([1, 2, 1, 1]), "spans that are drawn, by rank and lane");
    let points = &value["bandwidth"];
    assert_eq!(points[0][0], "all_gather × 4 intra");
    assert_eq!(points[0][1], json!([[1_048_576, 20.5, 0], [16_777_216, 41.25, 1]]));
    assert_eq!(points[2][1], json!([[4096, 0.75, 2], [4200, 0.5, 3]]));
    let curve = points[1][1].as_array().expect("a curve");
    for point in curve {
        let (size, bandwidth) = (point[0].as_f64().expect("S"), point[1].as_f64().expect("B"));
        let seconds = 20e-6 + 0.02 * size / 1e9;
        assert!((bandwidth - size / 1e9 / seconds).abs() < 1e-9 * bandwidth, "{point}");
    }
    let ends = [&curve[0][0], &curve[curve.len() - 1][0]].map(|v| v.as_f64().expect("S").round());
    assert_eq!(ends, [1_048_576.0, 16_777_216.0]);
    assert_eq!(value["bus"][0][1], json!([[1_048_576, 30.75, 0], [16_777_216, 61.875, 1]]));
    assert_eq!(value["bus"].as_array().map(Vec::len), Some(2), "the line is of the other one");
    assert_eq!(value["overlap"], json!([["mean over ranks", [0.125, 0, 0.125]]]));
    assert_eq!(value["lines"][2], json!(["rank 1", [0.25, null, 0.25]]));
    assert_eq!(value["stragglers"][0][1], json!([1, 30.25]));
    assert_eq!(value["stragglers"][1][1], json!([40, 5.5]));
    // 4096 and 4200 are of one power of two.
    let sizes = value["sizes"][1][1].as_array().expect("all_reduce");
    assert_eq!(sizes.len(), 13);
    assert_eq!((&sizes[0], &sizes[1]), (&json!(100 * 4096 + 2 * 4200), &Value::Null));
    assert_eq!(value["memory"][0], json!(["rank 0 allocated", [[0, 100], [2.5, 1_000_000_000]]]));
    assert_eq!(value["memory"][1], json!(["rank 0 reserved", [[0, 2048], [2.5, null]]]));
    assert_eq!(value["classes"], json!([["time", [8, 2]]]), "the largest first");
    assert_eq!(value["tiles"], json!(["12.50 ms"]));
}

#[test]
fn the_timeline_zooms_and_tells_what_is_under_the_pointer() {
    let script = "const node = document.getElementById('plot-timeline');
        const chart = echarts.getInstanceByDom(node);
        const canvas = node.querySelector('canvas');
        const window_ = () => at('plot-timeline').dataZoom.map((z) => [z.start, z.end].map(Math.round));
        const box = canvas.getBoundingClientRect();
        const [x, y] = chart.convertToPixel({gridIndex: 0}, [52, 1]);
        const wheel = () => canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, wheelDeltaY: 300, bubbles: true,
            cancelable: true, clientX: box.left + x, clientY: box.top + y}));
        result = {whole: window_()};
        wheel();
        result.page = window_();
        // A window that nobody sees gives no focus.
        node.dispatchEvent(new FocusEvent('focusin', {bubbles: true}));
        wheel();
        const [start, end] = at('plot-timeline').dataZoom[0].start !== undefined ? window_()[0] : [];
        result.nearer = start > 0 && end < 100;
        const key = (k) => node.dispatchEvent(new KeyboardEvent('keydown', {key: k, bubbles: true}));
        key('0');
        result.all = window_();
        key('+');
        result.plus = window_();
        key('ArrowRight');
        result.right = window_();
        [...document.querySelectorAll('#timeline .small')].pop().click();
        result.button = window_();
        const look = (time, place, part) => {
            const [px, py] = chart.convertToPixel({gridIndex: 0}, [time, place]);
            const band = chart.convertToPixel({gridIndex: 0}, [0, 1])[1] - chart.convertToPixel({gridIndex: 0}, [0, 0])[1];
            const offsetX = px;
            const offsetY = py + part * band;
            chart.getZr().handler.dispatch('mousemove', {zrX: offsetX, zrY: offsetY, offsetX, offsetY});
            const tip = document.querySelector('.tip-box');
            return tip.hidden ? null : tip.textContent;
        };
        result.comm = look(60, 0, 0);
        result.compute = look(6, 0, -0.3);
        result.nothing = look(60, 0, -0.3);
        result.copy = look(52, 1, 0.3);";
    let Some(probe) = probe(&report_page(&report("")), script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = probe.value;
    let whole = json!([[0, 100], [0, 100]]);
    assert_eq!(value["whole"], whole);
    assert_eq!(value["page"], whole, "without the focus the wheel turns the page");
    assert_eq!(value["nearer"], true, "{value}");
    assert_eq!((&value["all"], &value["button"]), (&whole, &whole));
    assert_eq!(value["plus"], json!([[25, 75], [25, 75]]));
    assert_eq!(value["right"], json!([[35, 85], [35, 85]]));
    assert_eq!(value["comm"], "ncclKernelrank 0, communicationstart4.250 usduration100.0 us");
    assert_eq!(value["compute"], "gemmrank 0, computestart0 usduration12.50 us");
    assert_eq!(value["nothing"], Value::Null);
    assert_eq!(value["copy"], "Memcpy HtoDrank 1, copiesstart50.00 usduration5.000 us");
}

#[test]
fn tables_sort_by_number_and_filter() {
    let script = "const head = document.querySelectorAll('#table-kernels thead th')[2];
        const button = head.querySelector('button');
        const look = () => [head.getAttribute('aria-sort'), cells('table-kernels', 2)];
        result = {first: look()};
        button.click();
        result.second = look();
        button.click();
        result.third = look();
        const metrics = document.querySelectorAll('#table-metrics thead th button');
        metrics[2].click();
        result.down = cells('table-metrics', 2);
        metrics[2].click();
        result.up = cells('table-metrics', 2);
        result.title = document.querySelector('#table-metrics tbody td.num').title;
        const filter = document.querySelector('#metrics input[type=search]');
        filter.value = 'STEP';
        filter.dispatchEvent(new Event('input'));
        result.filtered = cells('table-metrics', 0);
        result.count = document.querySelector('#metrics .count').textContent;
        filter.value = '';
        filter.dispatchEvent(new Event('input'));
        document.querySelector('#metrics input[type=checkbox]').click();
        result.valued = cells('table-metrics', 0).length;
        result.data = document.querySelectorAll('#breakdown details td').length;
        document.querySelector('#breakdown details').open = true;
        document.querySelector('#breakdown details').dispatchEvent(new Event('toggle'));
        result.rows = document.querySelectorAll('#breakdown details tbody tr').length;";
    let Some(probe) = probe(&report_page(&report("")), script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = probe.value;
    // As the page shows it: the largest total first. As numbers, not as texts.
    let down = json!(["descending", ["100.25", "20.00", "9.50", "3.00"]]);
    let up = json!(["ascending", ["3.00", "9.50", "20.00", "100.25"]]);
    assert_eq!((&value["first"], &value["second"], &value["third"]), (&down, &up, &down));
    // By the raw value; what has none stays last.
    assert_eq!(value["down"], json!(["20,000 calls", "12.50 ms", "-3.000 us", "n/a"]));
    assert_eq!(value["up"], json!(["-3.000 us", "12.50 ms", "20,000 calls", "n/a"]));
    assert_eq!(value["title"], "-3 us");
    assert_eq!(value["filtered"], json!(["avg_step_time"]));
    assert_eq!(value["count"], "1 of 4 rows");
    assert_eq!(value["valued"], 3);
    assert_eq!((&value["data"], &value["rows"]), (&json!(0), &json!(10)), "made when it opens");
}

#[test]
fn hostile_names_stay_text() {
    // Tooltips are shown too: the library would take a text for markup.
    let script = "let tips = 0;
        for (const node of document.querySelectorAll('.plot')) {
            const chart = echarts.getInstanceByDom(node);
            for (let s = 0; s < chart.getOption().series.length; s++) {
                chart.dispatchAction({type: 'showTip', seriesIndex: s, dataIndex: 0});
                tips += node.querySelectorAll('.tip').length;
            }
        }
        const timeline = echarts.getInstanceByDom(document.getElementById('plot-timeline'));
        const [x, y] = timeline.convertToPixel({gridIndex: 0}, [50, 0]);
        timeline.getZr().handler.dispatch('mousemove', {zrX: x, zrY: y, offsetX: x, offsetY: y});
        document.querySelectorAll('details').forEach((d) => { d.open = true; d.dispatchEvent(new Event('toggle')); });
        result = {hacked: window.__hacked === undefined, tips, title: document.title,
            box: document.querySelector('.tip-box').textContent,
            made: document.querySelectorAll('img, svg, iframe, object, b script').length,
            heading: document.querySelector('h1').textContent,
            scripts: document.scripts.length,
            turned: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)};";
    for kind in ["report", "comparison"] {
        let page = match kind {
            "report" => report_page(&report(HOSTILE)),
            _ => compare_page(&comparison(HOSTILE)),
        };
        let script = if kind == "report" {
            script.to_owned()
        } else {
            // There is no timeline.
            let start = script.find("const timeline").expect("it is there");
            let end = script.find("document.querySelectorAll('details')").expect("it is there");
            format!("{}{}", &script[..start], &script[end..])
                .replace("document.querySelector('.tip-box').textContent", "''")
        };
        let Some(probe) = probe(&page, &script) else { return };
        assert_eq!(probe.console, [""; 0], "{kind}");
        let value = probe.value;
        assert_eq!(value["hacked"], true, "{kind}");
        assert_eq!(value["made"], 0, "{kind}");
        assert_eq!(value["turned"], false, "{kind}");
        assert_eq!(value["scripts"], 4, "{kind}: data, library, ours, this one");
        assert!(value["tips"].as_i64() > Some(4), "{kind}: {value}");
        if kind == "report" {
            let shown = HOSTILE.replace(['\u{202e}', '\u{2028}'], "");
            assert_eq!(value["heading"], format!("run{shown}"));
            assert_eq!(value["title"], format!("run{shown} · report"));
            assert!(value["box"].as_str().is_some_and(|t| t.contains("<img src=x")), "{value}");
        }
    }
}

#[test]
fn a_script_that_the_policy_does_not_name_does_not_run() {
    let page = with_script(&report_page(&report("")), "window.__unnamed = 1;");
    let Some(probe) = probe(&page, "result = {ran: window.__unnamed === 1};") else { return };
    assert_eq!(probe.value["ran"], false);
    assert!(probe.console.iter().any(|line| line.contains("Content Security Policy")));
}

#[test]
fn sections_without_rows_say_why() {
    let script = "result = {plots: document.querySelectorAll('.plot').length,
        canvases: document.querySelectorAll('canvas').length,
        reasons: [...document.querySelectorAll('.absent, #lacking dd')].map((n) => n.textContent)};";
    let mut document = report("");
    for sheet in document["sheets"].as_array_mut().expect("sheets") {
        sheet["rows"] = json!([]);
        sheet["reason"] = json!(format!("no {}", sheet["name"].as_str().expect("a name")));
    }
    document["metrics"] = json!([]);
    let Some(empty) = probe(&report_page(&document), script) else { return };
    assert_eq!(empty.console, [""; 0]);
    assert_eq!((&empty.value["plots"], &empty.value["canvases"]), (&json!(0), &json!(0)));
    let reasons = empty.value["reasons"].to_string();
    for sheet in document["sheets"].as_array().expect("sheets") {
        let reason = format!("no {}", sheet["name"].as_str().expect("a name"));
        let reason = match sheet["name"].as_str() {
            Some("hockney_fits") => "no collective_sizes",
            Some("step_overlap_mean") => "no step_overlap",
            _ => &reason,
        };
        assert!(reasons.to_lowercase().contains(reason), "{reason}: {reasons}");
    }
    for bare in [
        report_page(&json!({"report": 1, "trace": "t", "sheets": [], "metrics": []})),
        compare_page(&json!({"comparison": 1, "runs": [], "comparisons": []})),
    ] {
        let bare = probe(&bare, script).expect("the browser is there");
        assert_eq!(bare.console, [""; 0]);
        assert_eq!(bare.value["plots"], 0);
        assert!(bare.value["reasons"].as_array().is_some_and(|r| r.len() > 5), "{}", bare.value);
    }
}

/// A script that gives what is drawn of the timeline: of each shape its lane from the top, and its
/// rectangles in pixels with the part of the lane's height that each fills.
const DRAWN: &str = "const timeline = () => echarts.getInstanceByDom(document.getElementById('plot-timeline'));
    const drawn = () => timeline().getZr().storage.getDisplayList(true)
        .filter((e) => e.shape && e.shape.rects).sort((a, b) => a.shape.y - b.shape.y).map((e) => e.shape.rects);
    const pixels = (from, to) => [from, to].map((t) => timeline().convertToPixel({gridIndex: 0}, [t, 0])[0]);
    const zoom = (from, to) => timeline().dispatchAction({type: 'dataZoom', dataZoomId: 'wheel', startValue: from, endValue: to});
    // How much of each pixel of a lane is filled.
    const columns = (rects) => rects.reduce((all, [from, to, filled]) => {
        for (let x = Math.floor(from); x < to; x++) all[x] = (all[x] || 0) + (Math.min(to, x + 1) - Math.max(from, x)) * filled;
        return all;
    }, []);
    const area = (rects) => rects.reduce((sum, [from, to, filled]) => sum + (to - from) * filled, 0);
";

/// A page of one rank with a timeline of these rows, and these of short events.
fn timeline_page(spans: Vec<Value>, shorts: Vec<Value>) -> String {
    let mut document = report("");
    let sheets = document["sheets"].as_array_mut().expect("sheets");
    let timeline = sheets.iter_mut().find(|s| s["name"] == "step_timeline").expect("it is there");
    timeline["rows"] = Value::Array(spans);
    let columns = ["rank", "device", "lane", "event_count", "start_us", "slice_us", "filled_pct"];
    let columns: Vec<Value> = columns.iter().map(|c| json!({"name": c, "doc": ""})).collect();
    sheets.push(json!({"name": "step_short_events", "summary": "About it.", "caveats": [],
        "columns": columns, "rows": shorts, "reason": null}));
    report_page(&document)
}

/// Compute and communication take turns of 100 us for 600 ms: never both at once.
#[test]
fn the_timeline_draws_no_overlap_that_is_not_there() {
    let spans = (0..6000).map(|i| {
        let lane = if i % 2 == 0 { "compute" } else { "comm" };
        json!([8, 0, 0, lane, 100.0 * f64::from(i), 100.0, lane, null])
    });
    let script = format!(
        "{DRAWN}
        const both = ([compute, comm]) => {{
            const [a, b] = [columns(compute), columns(comm)];
            return Math.max(...Array.from(a, (v, x) => (v || 0) + (b[x] || 0)));
        }};
        const [left, right] = pixels(0, 600000);
        const whole = drawn();
        result = {{whole: both(whole), parts: whole.map((rects) => area(rects) / (right - left))}};
        zoom(300000, 310000);
        const near = drawn();
        result.near = both(near);
        result.count = near.map((rects) => rects.length);
        result.exact = near.flat().every(([, , filled]) => filled === 1);
        const [from, to] = pixels(300000, 300100);
        result.first = near[0][0].map((v, i) => v - [from, to, 1][i]);"
    );
    let Some(probe) = probe(&timeline_page(spans.collect(), Vec::new()), &script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let number = |value: &Value| value.as_f64().expect("a number");
    let value = &probe.value;
    assert!(number(&value["whole"]) < 1.03, "{value}");
    for part in value["parts"].as_array().expect("two lanes") {
        assert!((number(part) - 0.5).abs() < 0.01, "half of the time each: {value}");
    }
    assert!(number(&value["near"]) < 1.0 + 1e-6, "{value}");
    assert_eq!((&value["count"], &value["exact"]), (&json!([50, 50]), &json!(true)));
    for off in value["first"].as_array().expect("a rectangle") {
        // The zoom is kept in percent: a thousandth of a pixel is its rounding.
        assert!(number(off).abs() < 1e-3, "{value}");
    }
}

#[test]
fn what_the_document_only_sums_up_is_drawn_as_filled_parts() {
    let span = json!([8, 0, 0, "compute", 0.0, 1000.0, "gemm", null]);
    let shorts = json!([0, 0, "comm", 7, 0.0, 100.0, [0, 50, 100, 1, 0, 0, 0, 0, 0, 0]]);
    let script = format!(
        "{DRAWN}
        const [left, right] = pixels(0, 1000);
        const rects = drawn()[1];
        result = {{parts: rects.map(([from, to, filled]) => [(from - left) / (right - left), (to - left) / (right - left), filled])}};
        const chart = timeline();
        const [x, y] = chart.convertToPixel({{gridIndex: 0}}, [150, 0]);
        chart.getZr().handler.dispatch('mousemove', {{zrX: x, zrY: y, offsetX: x, offsetY: y}});
        result.tip = document.querySelector('.tip-box').textContent;"
    );
    let Some(probe) = probe(&timeline_page(vec![span], vec![shorts]), &script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let parts = probe.value["parts"].as_array().expect("rectangles");
    let want = [[0.1, 0.2, 0.5], [0.2, 0.3, 0.999], [0.3, 0.4, 0.01]];
    assert_eq!(parts.len(), want.len(), "{}", probe.value);
    for (part, want) in parts.iter().zip(want) {
        for (number, want) in part.as_array().expect("three").iter().zip(want) {
            assert!((number.as_f64().expect("a number") - want).abs() < 1e-6, "{}", probe.value);
        }
    }
    assert_eq!(
        probe.value["tip"],
        "short eventsrank 0, communicationfrom100.0 usslice100.0 usfilled50.0 %7 such events in the step"
    );
}

/// What a plot of the page shall hold, from the sheet of the JSON report that it shows.
fn cells<'a>(document: &'a Value, sheet: &str, column: &str) -> Vec<&'a Value> {
    let sheets = document["sheets"].as_array().expect("sheets");
    let sheet = sheets.iter().find(|s| s["name"] == sheet).expect("the sheet");
    let columns = sheet["columns"].as_array().expect("columns");
    let place = columns.iter().position(|c| c["name"] == column).expect("the column");
    sheet["rows"].as_array().expect("rows").iter().map(|row| &row[place]).collect()
}

/// Numbers in order: plots arrange the rows of a sheet by themselves.
fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Union of the spans of each lane of the timeline after its start, added up.
fn union_us(document: &Value) -> f64 {
    let column = |name| cells(document, "step_timeline", name);
    let lanes = column("rank").into_iter().zip(column("device")).zip(column("lane"));
    let times = column("start_us").into_iter().zip(column("dur_us"));
    // The rows of a lane stand together, by start.
    let (mut sum, mut before, mut reach) = (0.0, None, 0.0_f64);
    for (lane, (start, dur)) in lanes.zip(times) {
        if before != Some(lane) {
            (before, reach) = (Some(lane), 0.0);
        }
        let start = start.as_f64().expect("us");
        let end = start + dur.as_f64().expect("us");
        sum += (end - start.max(reach)).max(0.0);
        reach = reach.max(end);
    }
    sum
}

#[test]
fn the_page_of_a_job_holds_the_numbers_of_its_json_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = project().join("trace_collection/llama-tiny-fsdp2-tp2-4");
    let job = job.to_str().expect("UTF-8");
    let report = |format: &str| {
        run(folder.path(), &["report", "--trace", job, "--data", "data", "--format", format]).done()
    };
    let document: Value = serde_json::from_str(&report("json")).expect("JSON");
    let page = report("html");
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    let script = "result = Object.fromEntries(['breakdown', 'bandwidth', 'memory', 'classes', 'stragglers']
            .map((p) => [p, at('plot-' + p).series.map((s) => s.data)]));
        result.metrics = document.querySelector('#metrics .count').textContent;
        result.tables = [...document.querySelectorAll('table')].map((t) => t.id);
        result.drawn = drawn().map(area).reduce((a, b) => a + b, 0) / (pixels(0, 1)[1] - pixels(0, 1)[0]);";
    let Some(probe) = probe(&page, &format!("{DRAWN}{script}")) else { return };
    assert_eq!(probe.console, [""; 0]);
    let drawn = probe.value["drawn"].as_f64().expect("us");
    let ran = union_us(&document);
    assert!(ran > 0.0 && (drawn - ran).abs() < 0.02 * ran, "{drawn} us are drawn of {ran}");
    let tables = probe.value["tables"].to_string();
    for id in [
        "table-exposed-dims",
        "table-exposed-groups",
        "table-idle-causes",
        "table-path-kinds",
        "table-network",
    ] {
        assert!(tables.contains(id), "{id}: {tables}");
    }
    let numbers = |values: Vec<&Value>| sorted(values.into_iter().filter_map(Value::as_f64));
    let plotted = |plot: &str, place: Option<usize>| {
        let series = probe.value[plot].as_array().expect("series").iter();
        let items = series.flat_map(|s| s.as_array().expect("data").iter());
        sorted(items.filter_map(|item| place.map_or(item, |i| &item[i]).as_f64()))
    };
    let parts = ["computation_time", "exposed_comm_time", "exposed_memcpy_time", "idle_time"];
    let types = cells(&document, "gpu_timeline_by_rank", "type");
    let times = cells(&document, "gpu_timeline_by_rank", "time_ms").into_iter().zip(types);
    let stacked = times.filter(|(_, kind)| parts.contains(&kind.as_str().expect("a type")));
    let want = numbers(stacked.map(|(time, _)| time).collect());
    assert!(want.len() == 16 && want[15] > 1.0, "{want:?}");
    assert_eq!(plotted("breakdown", None), want);
    for (plot, place, sheet, column) in [
        ("memory", Some(1), "memory_timeline", "allocated_bytes"),
        ("classes", None, "kernel_class_times", "time_ms"),
        ("stragglers", None, "straggler_summary", "mean_lag_us"),
    ] {
        let mut want = numbers(cells(&document, sheet, column));
        assert!(!want.is_empty(), "{sheet}");
        // A plot of two columns holds both.
        let second = match plot {
            "memory" => "reserved_bytes",
            "stragglers" => "mean_wait_us",
            _ => "",
        };
        if !second.is_empty() {
            want.extend(numbers(cells(&document, sheet, second)));
            want = sorted(want);
        }
        assert_eq!(plotted(plot, place), want, "{plot} {column}");
    }
    let points = probe.value["bandwidth"].as_array().expect("series").iter();
    let points = points.flat_map(|s| s.as_array().expect("data").iter());
    let points = points.filter(|p| p.as_array().is_some_and(|p| p.len() == 3));
    let want = numbers(cells(&document, "collective_sizes", "median_algo_bw_gb_per_s"));
    assert_eq!(sorted(points.filter_map(|p| p[1].as_f64())), want);
    let metrics = document["metrics"].as_array().expect("metrics").len();
    assert_eq!(probe.value["metrics"], format!("{metrics} rows"));
}

#[test]
fn a_comparison_holds_its_runs_side_by_side() {
    let script = "const data = (id) => at(id).series.map((s) => [s.name, s.data]);
        result = {breakdown: data('plot-breakdown'), ranks: data('plot-ranks'), steps: data('plot-steps'),
            bandwidth: data('plot-bandwidth').filter(([, d]) => d[0].length === 3),
            runs: at('plot-breakdown').yAxis[0].data,
            dashboard: [...document.querySelectorAll('#table-dashboard tbody tr')].map((r) => [...r.children].map((c) => c.textContent)),
            groups: [...document.querySelectorAll('#table-dashboard .groups th')].map((c) => c.textContent),
            worse: document.querySelectorAll('#table-dashboard .badge.worse.small').length,
            better: document.querySelectorAll('#table-dashboard .badge.better.large').length,
            differs: [...document.querySelectorAll('#table-configuration tr.differs th')].map((c) => c.textContent),
            ranking: cells('table-ranking', 1)};
        document.querySelectorAll('#table-metrics thead tr:last-child button')[4].click();
        result.change = cells('table-metrics', 4);
        document.querySelectorAll('#metrics .choice button')[2].click();
        result.only = cells('table-metrics', 0);
        document.querySelectorAll('#table-GPU_ByRank_Cmp thead button')[0].click();
        result.order = cells('table-GPU_ByRank_Cmp', 0);
        const show = document.querySelector('#ranks select');
        show.selectedIndex = 0;
        show.dispatchEvent(new Event('change'));
        result.compute = data('plot-ranks');";
    let Some(probe) = probe(&compare_page(&comparison("")), script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = probe.value;
    assert_eq!(value["runs"], json!(["run0", "run1", "run2"]));
    assert_eq!(value["breakdown"][0], json!(["compute", [15.25, 30.25, 45.25]]));
    assert_eq!(value["ranks"][2], json!(["run2", [60.25, 90.25]]), "exposed communication");
    assert_eq!(value["compute"][1], json!(["run1", [20.25, 40.25]]));
    assert_eq!(value["steps"][1], json!(["run1", [140, 160, 180]]));
    assert_eq!(value["bandwidth"].as_array().map(Vec::len), Some(6), "three runs, two kinds");
    assert_eq!(
        value["bandwidth"][5],
        json!(["run2: all_reduce × 4 intra", [[4096, 0.75, 2], [4200, 0.5, 3]]])
    );
    assert_eq!(value["groups"], json!(["run1", "run2"]));
    assert_eq!(
        value["dashboard"][0],
        json!([
            "GPU_total_time",
            "100.0 ms",
            "90.00 ms",
            "-10.0 %",
            "-8.00 %",
            "▲ Better",
            "90.00 ms",
            "-20.0 %",
            "-8.00 %",
            "▲ Better"
        ])
    );
    // The size of a badge is that of its effect.
    assert_eq!((&value["worse"], &value["better"]), (&json!(2), &json!(2)));
    assert_eq!(value["differs"], json!(["trace", "NCCL_NTHREADS"]));
    assert_eq!(value["ranking"], json!(["run2", "run0base"]));
    assert_eq!(value["change"], json!(["+100 %", "-50.0 %", "-90.0 %"]));
    assert_eq!(value["only"], json!(["mfu"]));
    assert_eq!(
        value["order"],
        json!(["11", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1", "0"])
    );
}

#[test]
fn themes_and_paper_change_the_colours_of_the_plots() {
    let script = "const look = () => [document.documentElement.dataset.theme,
            at('plot-breakdown').series[0].itemStyle.color, document.querySelectorAll('#table-metrics tbody tr').length];
        result = {light: look()};
        document.getElementById('theme').click();
        result.dark = look();
        window.dispatchEvent(new Event('beforeprint'));
        result.paper = look();
        result.zooms = at('plot-timeline').dataZoom.length;
        window.dispatchEvent(new Event('afterprint'));
        result.after = look();";
    let mut document = report("");
    let metrics = document["metrics"].as_array().expect("metrics").clone();
    document["metrics"] = metrics.iter().cycle().take(60).cloned().collect();
    let Some(probe) = probe(&report_page(&document), script) else { return };
    assert_eq!(probe.console, [""; 0]);
    let value = probe.value;
    assert_eq!(value["light"], json!(["light", "#0072b2", 40]));
    assert_eq!(value["dark"], json!(["dark", "#3d9bd9", 40]));
    assert_eq!(value["paper"], json!(["light", "#0072b2", 60]), "the whole table");
    assert_eq!(value["zooms"], 1, "no slider on paper");
    assert_eq!(value["after"], value["dark"]);
}

/// The rules of `src/registry/units.rs` are there twice; here the two meet.
#[test]
fn numbers_are_written_as_in_the_other_outputs() {
    let mut values: Vec<f64> = vec![0.0, 1.0, 5.0, 0.5, 12345.0, 99999.9, 999.96, 999_500.0, 1.225];
    values.extend([38.25, 0.125, 1e40, 1e15, 1e14, 9.9995e14, 4096.0, 2.5, 0.000_012_34]);
    // Every magnitude, and figures that no decimal of few digits is.
    values.extend((-24..24).map(|e| std::f64::consts::PI * 10f64.powi(e)));
    values.extend((-12..16).map(|e| 9.999_96 * 10f64.powi(e)));
    values.extend((0..40).map(|i| -(1.5_f64.powi(i) - 0.75)));
    let units = UNITS.iter().map(|u| Some(u.name)).chain([None, Some("furlongs")]);
    // JavaScript does not tell 1e15 from an integer, which stands as it is where it has no unit.
    let cases: Vec<(Value, Option<&str>)> = units
        .flat_map(|unit| values.iter().map(move |v| (v, unit)))
        .filter(|(v, unit)| unit.is_some() || v.abs() < 1e14)
        .map(|(v, unit)| (json!(v), unit))
        .collect();
    let mut document = report("");
    let metric = document["metrics"][0].clone();
    document["metrics"] = cases
        .iter()
        .map(|(value, unit)| {
            let mut metric = metric.clone();
            metric["value"] = value.clone();
            metric["unit"] = json!(unit);
            metric
        })
        .collect();
    let script = "document.querySelector('#metrics .more').click();
        result = {shown: cells('table-metrics', 2)};";
    let Some(probe) = probe(&report_page(&document), script) else { return };
    let shown = probe.value["shown"].as_array().expect("cells");
    assert_eq!(shown.len(), cases.len());
    for ((value, unit), shown) in cases.iter().zip(shown) {
        assert_eq!(shown, &json!(human(value, *unit)), "{value} {unit:?}");
    }
}

#[test]
fn a_page_of_a_large_job_stays_below_four_megabytes() {
    let kernels: Vec<String> =
        (0..300).map(|i| format!("void kernel_{i}<{}>", "x".repeat(60))).collect();
    // 50,000 spans, and slices of 256 ranks in three lanes: as many as the views give.
    let span = |i: usize| {
        let (rank, lane) = (i / 196, ["comm", "compute", "copy"][i % 196 / 66]);
        let start = (i as f64 * 1234.567).rem_euclid(600_000.0);
        json!([
            8,
            rank,
            rank % 8,
            lane,
            (1e3 * start).round() / 1e3,
            123.456,
            kernels[i % 300],
            if lane == "comm" { json!(1_048_576) } else { Value::Null }
        ])
    };
    let shorts = (0..256).flat_map(|rank| {
        ["comm", "compute", "copy"].map(|lane| {
            let filled: Vec<usize> = (0..520).map(|i| (i * 37 + rank) % 101).collect();
            json!([rank, rank % 8, lane, 5000, 0.0, 1153.846, filled])
        })
    });
    let page = timeline_page((0..50_000).map(span).collect(), shorts.collect());
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains("src=\"http"));
}
