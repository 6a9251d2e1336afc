//! The report for people: what stands in it and in which order, before it is text or Markdown.
//! Numbers are chosen and spelt here, never computed.

use serde_json::Value;

use super::document::{Document, Metric, Sheet};
use super::units::{human, plain_text};

/// Most rows of a table in a report for people; the JSON report and the workbook have all.
const MOST_ROWS: usize = 64;

/// A heading with what stands below it.
#[derive(Debug, Clone)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// What stands below it.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// Names with values, and a remark on each.
    Facts(Vec<[String; 3]>),
    /// A table: what it says, headings, cells; the columns that hold numbers.
    Table {
        /// What it says.
        caption: String,
        /// Headings.
        headings: Vec<String>,
        /// Whether a column is aligned to the right.
        numbers: Vec<bool>,
        /// Cells.
        rows: Vec<Vec<String>>,
    },
    /// A sentence.
    Note(String),
}

/// The numbered sections: those of the collectives profiler first, then the others.
const SECTIONS: [(&str, &str, &[&str]); 8] = [
    ("throughput", "THROUGHPUT", &[]),
    (
        "overlap",
        "COMMUNICATION-COMPUTATION OVERLAP",
        &["overlap_summary", "overlap_by_rank", "gpu_timeline"],
    ),
    ("network", "NETWORK LOAD (Alpha-Beta Model)", &["network_load", "hockney_fits"]),
    ("traffic", "TRAFFIC DISTRIBUTION", &["traffic"]),
    ("stragglers", "STRAGGLERS", &["straggler_summary"]),
    ("devices", "DEVICES AND KERNELS", &["kernel_class_times"]),
    ("memory", "MEMORY", &[]),
    ("inference", "INFERENCE", &[]),
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
    let mut out = vec![first];
    for (number, (name, title, sheets)) in SECTIONS.iter().enumerate() {
        let mut blocks = Vec::new();
        let metrics: Vec<&Metric> =
            document.metrics.iter().filter(|m| m.section == *name).collect();
        let (known, lacking): (Vec<&Metric>, Vec<&Metric>) =
            metrics.into_iter().partition(|m| !m.result.value.is_null());
        if !known.is_empty() {
            blocks.push(Block::Facts(known.iter().map(|m| fact(m)).collect()));
        }
        for sheet in sheets.iter().filter_map(|name| document.sheet(name)) {
            blocks.push(table(sheet));
        }
        blocks.extend(reasons(&lacking).into_iter().map(Block::Note));
        blocks.extend(warnings(&known, &general).into_iter().map(Block::Note));
        out.push(Section { title: format!("{}. {title}", number + 1), blocks });
    }
    let caveats = caveats(document);
    if !caveats.is_empty() {
        let blocks = caveats.into_iter().map(Block::Note).collect();
        out.push(Section { title: "NOTES".to_owned(), blocks });
    }
    out
}

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
            "not known: {}; a workload card (`ingest --card FILE`) or TorchTitan's configuration (`--config TOML`) says more",
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

fn fact(metric: &Metric) -> [String; 3] {
    let result = &metric.result;
    let unit = result.unit.as_deref();
    let first = metric.summary.split(['.', ':', ';']).next().unwrap_or_default();
    let spread = spread(metric);
    let remark = if spread.is_empty() { first.to_owned() } else { format!("{spread}; {first}") };
    [result.metric.clone(), human(&result.value, unit), plain_text(&remark)]
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

/// Why metrics have no value.
fn reasons(metrics: &[&Metric]) -> Vec<String> {
    gathered(
        metrics.iter().map(|m| {
            (&*m.result.metric, m.result.reason.as_deref().unwrap_or("there is no value"))
        }),
    )
}

/// What holds for this trace alone, as how much of it a figure rests on: it stands beside the
/// figures, and not among what holds for every trace.
fn warnings(metrics: &[&Metric], general: &[&str]) -> Vec<String> {
    gathered(metrics.iter().flat_map(|m| {
        let own = own_warnings(m).filter(|w| !general.contains(w));
        own.map(|w| (&*m.result.metric, w))
    }))
}

fn own_warnings(metric: &Metric) -> impl Iterator<Item = &str> {
    metric.result.warnings.iter().filter(|w| !metric.caveats.contains(w)).map(|w| &**w)
}

/// Warnings of more than half of the metrics: they hold for the report, and are said once.
fn general(document: &Document) -> Vec<&str> {
    let known: Vec<&Metric> =
        document.metrics.iter().filter(|m| !m.result.value.is_null()).collect();
    let mut out: Vec<&str> = Vec::new();
    for warning in known.iter().flat_map(|m| own_warnings(m)) {
        let count = known.iter().filter(|m| own_warnings(m).any(|w| w == warning)).count();
        if 2 * count > known.len() && known.len() > 1 && !out.contains(&warning) {
            out.push(warning);
        }
    }
    out
}

fn table(sheet: &Sheet) -> Block {
    if sheet.rows.is_empty() {
        let reason = sheet.reason.as_deref().unwrap_or("there are no rows");
        return Block::Note(format!("{}: {}", sheet.name, plain_text(reason)));
    }
    // A column that nothing fills says nothing.
    let shown: Vec<usize> = (0..sheet.columns.len())
        .filter(|i| sheet.rows.iter().any(|row| !row[*i].is_null()))
        .collect();
    let rows = sheet
        .rows
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            shown.iter().map(|i| cell(&row[*i], sheet.columns[*i].unit.as_deref())).collect()
        })
        .collect();
    let number = |i: &usize| {
        sheet.rows.iter().any(|row| row[*i].is_number())
            && sheet.rows.iter().all(|row| row[*i].is_number() || row[*i].is_null())
    };
    let mut caption = format!("{}: {}", sheet.name, sheet.summary);
    if sheet.rows.len() > MOST_ROWS {
        caption.push_str(&format!(
            " The first {MOST_ROWS} of {} rows; --format json has all.",
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
    let units = ["_gb_per_s", "_s_per_gb", "_bytes", "_ratio", "_pct", "_ms", "_us"];
    units.iter().find_map(|u| name.strip_suffix(u)).unwrap_or(name).replace('_', " ")
}

/// When figures and tables of the report mislead, whatever the trace is.
fn caveats(document: &Document) -> Vec<String> {
    let metrics = document.metrics.iter().filter(|m| !m.result.value.is_null());
    let metrics = metrics.flat_map(|m| m.caveats.iter().map(|c| (&*m.result.metric, &**c)));
    let shown = |s: &&Sheet| {
        !s.rows.is_empty() && SECTIONS.iter().any(|(_, _, names)| names.contains(&&*s.name))
    };
    let sheets = document.sheets.iter().filter(shown);
    let sheets = sheets.flat_map(|s| s.caveats.iter().map(|c| (&*s.name, &**c)));
    gathered(metrics.chain(sheets))
}
