//! The HTML pages in a real browser: plots hold the numbers of the document, tables sort, and
//! what a stranger wrote into a trace stays text.

use ccl_sql::report::html::{compare_page, report_page};
use ccl_sql::report::units::human;
use ccl_sql::schema::units::UNITS;
use serde_json::{Value, json};

use crate::support::browser::{probe, with_script};

use crate::pages::html::documents::{comparison, report};
use crate::pages::html::timeline::timeline_page;

/// A name of a kernel as a stranger may write it.
const HOSTILE: &str = "</script><img src=x onerror=\"window.__hacked=1\">'&amp;{b|x}=cmd()|' /C calc'!A0 \u{202e}gnp.exe \u{2028}<svg onload=window.__hacked=2>";

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
