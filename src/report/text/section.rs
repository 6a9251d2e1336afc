//! The sections of the report for people, in their order, before they are text or Markdown. Numbers
//! are chosen and spelt here, never computed.

use serde_json::Value;

use crate::registry::units::{human, plain_text};
use crate::report::document::Document;
use crate::report::headline::Tile;
use crate::report::metric::Metric;
use crate::report::sheet::Sheet;
use crate::report::text::block::{Block, Section};
use crate::report::text::diagnosis;

/// Most rows of a table in a report for people; the JSON report and the workbook have all.
const MOST_ROWS: usize = 64;
/// Sheets with a row for each name, of which the first say most, and how many rows are shown.
const SHORT: [&str; 3] = ["cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum"];
const FEW_ROWS: usize = 10;

/// The outline of a numbered section: the section of its metrics, its title, its views, and the
/// nested details of metrics that stand in it as tables.
struct Outline {
    section: &'static str,
    title: &'static str,
    sheets: &'static [&'static str],
    nested: &'static [&'static str],
}

/// The numbered sections: those of the collectives profiler first, then the others.
const SECTIONS: [Outline; 8] = [
    Outline { section: "throughput", title: "THROUGHPUT", sheets: &["time_per_step"], nested: &[] },
    Outline {
        section: "overlap",
        title: "COMMUNICATION-COMPUTATION OVERLAP",
        sheets: &["overlap_summary", "overlap_by_rank", "gpu_timeline"],
        nested: &["exposed_comm_by_group.by_dim", "exposed_comm_by_group.by_group"],
    },
    Outline {
        section: "network",
        title: "NETWORK LOAD (Alpha-Beta Model)",
        sheets: &["network_load", "network_by_rank", "hockney_fits"],
        nested: &[],
    },
    Outline {
        section: "traffic",
        title: "TRAFFIC DISTRIBUTION",
        sheets: &["traffic", "message_sizes"],
        nested: &[],
    },
    Outline {
        section: "stragglers",
        title: "STRAGGLERS",
        sheets: &["straggler_summary"],
        nested: &[
            "straggler.stragglers",
            "straggler.victims",
            "straggler.per_rank",
            "straggler_by_rank.by_kind",
        ],
    },
    Outline {
        section: "devices",
        title: "DEVICES AND KERNELS",
        sheets: &[
            "kernel_class_times",
            "copy_summary",
            "cuda_gpu_kern_sum",
            "cuda_api_sum",
            "nvtx_sum",
        ],
        nested: &[
            "idle_causes.by_rank",
            "idle_causes.by_operator",
            "critical_path.by_rank",
            "critical_path.by_kind_ms",
            "critical_path.by_name",
        ],
    },
    Outline { section: "memory", title: "MEMORY", sheets: &[], nested: &["memory.per_device"] },
    Outline { section: "inference", title: "INFERENCE", sheets: &[], nested: &[] },
];

/// Headings of the configuration, in the words of the field.
const CONFIGURATION: [(&str, &str); 21] = [
    ("sources", "profiler"),
    ("devices", "GPUs"),
    ("rank_count", "ranks ingested"),
    ("world_size", "ranks of the job"),
    ("host_count", "hosts"),
    ("device_name", "device"),
    ("step_count", "iterations"),
    ("model", "model"),
    ("framework", "framework"),
    ("phase", "phase"),
    ("precision", "precision"),
    ("batch_size", "batch size (global)"),
    ("seq_len", "sequence length"),
    ("dp_replicate", "data parallel (replicate)"),
    ("dp_shard", "data parallel (shard)"),
    ("tp", "tensor parallel"),
    ("pp", "pipeline parallel"),
    ("cp", "context parallel"),
    ("ep", "expert parallel"),
    ("comm_library", "communication library"),
    ("comm_env", "its variables"),
];

/// The sections of a report.
pub fn sections(document: &Document) -> Vec<Section> {
    let general = general(document);
    let mut first = configuration(document);
    first.blocks.extend(general.iter().map(|w| Block::Note(plain_text(w))));
    let fix = diagnosis::section(&document.diagnosis);
    let mut out = vec![fix, key_numbers(document), first];
    out.extend(findings(document));
    for (number, plan) in SECTIONS.iter().enumerate() {
        let mut blocks = Vec::new();
        let metrics: Vec<&Metric> =
            document.metrics.iter().filter(|m| m.section == plan.section).collect();
        let (known, lacking): (Vec<&Metric>, Vec<&Metric>) =
            metrics.into_iter().partition(|m| !m.result.value.is_null());
        if !known.is_empty() {
            blocks.push(Block::Facts(known.iter().map(|m| fact(m)).collect()));
        }
        for sheet in plan.sheets.iter().filter_map(|name| document.sheet(name)) {
            blocks.push(table(sheet));
        }
        let nested = plan.nested.iter().filter_map(|name| document.nested(name));
        blocks.extend(nested.map(table));
        blocks.extend(reasons(&lacking).into_iter().map(Block::Note));
        blocks.extend(warnings(&known, &general).into_iter().map(Block::Note));
        out.push(Section { title: format!("{}. {}", number + 1, plan.title), blocks });
    }
    let note = "what a metric or table means, and when it misleads: `ccl-sql show NAME`";
    out.push(Section { title: "NOTES".to_owned(), blocks: vec![Block::Note(note.to_owned())] });
    out
}

/// The numbers that come first.
fn key_numbers(document: &Document) -> Section {
    let tiles = document.headline();
    let block = if tiles.is_empty() {
        Block::Note("none of them is known of this trace".to_owned())
    } else {
        let fact = |t: &Tile| [t.title.clone(), t.shown(), plain_text(&t.note)];
        Block::Facts(tiles.iter().map(fact).collect())
    };
    Section { title: "KEY NUMBERS".to_owned(), blocks: vec![block] }
}

/// Findings of the ingest; those that change nothing are only named.
fn findings(document: &Document) -> Option<Section> {
    let sheet = document.sheet("trace_findings")?;
    let is_info = |severity: &Value| severity == "info";
    let grave = sheet.only("severity", |v| !is_info(v));
    let minor = sheet.only("severity", is_info);
    let mut blocks = Vec::new();
    if !grave.rows.is_empty() {
        blocks.push(table(&grave));
    }
    if !minor.rows.is_empty() {
        let codes = minor.rows.iter().map(|row| human(minor.cell(row, "code"), None));
        let codes: Vec<String> = codes.collect();
        blocks.push(Block::Note(format!(
            "also noted: {}; `ccl-sql sql \"FROM trace_findings\"` says what they are",
            codes.join(", ")
        )));
    }
    (!blocks.is_empty()).then(|| Section { title: "FINDINGS".to_owned(), blocks })
}

/// The configuration of the job, as far as it is known.
fn configuration(document: &Document) -> Section {
    let mut facts = vec![["trace".to_owned(), plain_text(&document.label), String::new()]];
    let mut unknown = Vec::new();
    for (column, heading) in CONFIGURATION {
        match document.fact("configuration", column) {
            Value::Null => unknown.push(heading),
            value => facts.push([heading.to_owned(), human(value, None), String::new()]),
        }
    }
    let mut blocks = vec![Block::Facts(facts)];
    if !unknown.is_empty() {
        blocks.push(Block::Note(format!(
            "not known: {}; a workload card (`ingest --card FILE`) or TorchTitan's configuration \
             (`--config TOML`) says more",
            unknown.join(", ")
        )));
    }
    Section { title: "CONFIGURATION".to_owned(), blocks }
}

/// Details that belong beside a value: the spread that the metric itself gives.
fn spread(metric: &Metric) -> String {
    let details = &metric.result.details;
    let unit = metric.result.unit.as_deref();
    let known = |keys: &[&str]| keys.iter().find_map(|k| details.get(*k).filter(|v| !v.is_null()));
    let least = known(&["min_s", "min_iter_time_ms", "min_lag_us"]);
    let most = known(&["max_s", "max_iter_time_ms", "max_lag_us"]);
    match (least, most) {
        (Some(least), Some(most)) => {
            format!("min {}, max {}", human(least, unit), human(most, unit))
        }
        _ => String::new(),
    }
}

/// A metric with its value and a remark.
fn fact(metric: &Metric) -> [String; 3] {
    let result = &metric.result;
    let (value, unit) = metric.shown();
    let first = metric.summary.split(['.', ':', ';']).next().unwrap_or_default();
    let spread = spread(metric);
    let answer = result.answer.clone().unwrap_or_default();
    let said: Vec<&str> =
        [&*answer, &*spread, first].into_iter().filter(|text| !text.is_empty()).collect();
    let remark = said.join("; ");
    [result.metric.clone(), human(&value, unit), plain_text(&remark)]
}

/// Texts, each once and in one line, with the names that it is of before it.
fn gathered<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut out: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, text) in texts {
        match out.iter_mut().find(|(t, _)| *t == text) {
            Some((_, names)) => names.push(name),
            None => out.push((text, vec![name])),
        }
    }
    out.into_iter()
        .map(|(text, names)| format!("{}: {}", names.join(", "), plain_text(text)))
        .collect()
}

/// Reasons of metrics that have no value.
fn reasons(metrics: &[&Metric]) -> Vec<String> {
    gathered(
        metrics.iter().map(|m| {
            (&*m.result.metric, m.result.reason.as_deref().unwrap_or("there is no value"))
        }),
    )
}

/// Warnings of the metrics that hold for this trace alone, as the share of it that a figure rests
/// on.
fn warnings(metrics: &[&Metric], general: &[&str]) -> Vec<String> {
    gathered(metrics.iter().flat_map(|m| {
        let own = m.result.warnings.iter().map(|w| &**w).filter(|w| !general.contains(w));
        own.map(|w| (&*m.result.metric, w))
    }))
}

/// Warnings of more than half of the metrics: they hold for the report, and are said once.
fn general(document: &Document) -> Vec<&str> {
    let known: Vec<&Metric> =
        document.metrics.iter().filter(|m| !m.result.value.is_null()).collect();
    let mut out: Vec<&str> = Vec::new();
    for warning in known.iter().flat_map(|m| &m.result.warnings) {
        let count = known.iter().filter(|m| m.result.warnings.contains(warning)).count();
        if 2 * count > known.len() && known.len() > 1 && !out.contains(&warning.as_str()) {
            out.push(warning);
        }
    }
    out
}

/// A sheet as a table.
fn table(sheet: &Sheet) -> Block {
    let sheet = &sheet.in_percent();
    if sheet.rows.is_empty() {
        return Block::Note(format!("{}: {}", sheet.name, sheet.why_empty()));
    }
    let most = if SHORT.contains(&&*sheet.name) { FEW_ROWS } else { MOST_ROWS };
    // A column that nothing fills says nothing.
    let shown: Vec<usize> = (0..sheet.columns.len())
        .filter(|i| sheet.rows.iter().any(|row| !row[*i].is_null()))
        .collect();
    let rows = sheet
        .rows
        .iter()
        .take(most)
        .map(|row| {
            shown.iter().map(|i| cell(&row[*i], sheet.columns[*i].unit.as_deref())).collect()
        })
        .collect();
    let number = |i: &usize| {
        sheet.rows.iter().any(|row| row[*i].is_number())
            && sheet.rows.iter().all(|row| row[*i].is_number() || row[*i].is_null())
    };
    let mut caption = format!("{}: {}", sheet.name, sheet.summary);
    if sheet.rows.len() > most {
        caption.push_str(&format!(
            " The first {most} of {} rows; --format json has all.",
            sheet.rows.len()
        ));
    }
    Block::Table {
        caption: plain_text(&caption),
        headings: headings(shown.iter().map(|i| &*sheet.columns[*i].name)),
        numbers: shown.iter().map(number).collect(),
        rows,
    }
}

/// A cell: what is counted says the heading.
fn cell(value: &Value, unit: Option<&str>) -> String {
    match unit {
        Some("calls" | "tokens") => human(value, Some("count")),
        unit => human(value, unit),
    }
}

/// Headings of columns; where two would be the same, as overlap_ms and overlap_ratio, both keep
/// their units.
fn headings<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let short: Vec<String> = names.iter().map(|n| heading(n)).collect();
    let alone = |h: &String| short.iter().filter(|other| *other == h).count() == 1;
    let whole = |name: &str| name.replace('_', " ");
    names.iter().zip(&short).map(|(n, h)| if alone(h) { h.clone() } else { whole(n) }).collect()
}

/// The name of a column for people: without its unit, which stands with each number.
fn heading(name: &str) -> String {
    if let Some(things) = name.strip_suffix("_count") {
        return format!("{}s", things.replace('_', " "));
    }
    let units = ["_gb_per_s", "_s_per_gb", "_bytes", "_ratio", "_pct", "_ms", "_us", "_ns"];
    units.iter().find_map(|u| name.strip_suffix(u)).unwrap_or(name).replace('_', " ")
}
