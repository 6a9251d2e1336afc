//! The timeline of a page: what it draws of the spans of a document, near and far.

use ccl_sql::report::html::report_page;
use serde_json::{Value, json};

use crate::pages::html::documents::report;
use crate::support::browser::probe;

/// A script that gives what is drawn of the timeline: of each shape its lane from the top, and its
/// rectangles in pixels with the part of the lane's height that each fills.
pub const DRAWN: &str = "const timeline = () => echarts.getInstanceByDom(document.getElementById('plot-timeline'));
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
pub fn timeline_page(spans: Vec<Value>, shorts: Vec<Value>) -> String {
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
