//! The numbers that come first: the time of a step and its parts, the work that is done, and the
//! rank that holds it up. All times are of a step. Without steps they are of the whole trace, and
//! say so. Every number is a cell of `time_per_step` or the value of a metric.

use serde_json::{Value, json};

use crate::registry::units::human;
use crate::report::metric::Metric;
use crate::report::sheet::Sheet;

/// A number that comes first.
#[derive(Debug, Clone)]
pub struct Tile {
    /// Words for the number.
    pub title: String,
    /// The number, or a few words.
    pub value: Value,
    /// Unit of the number.
    pub unit: Option<String>,
    /// Words beside the number: what it is of.
    pub note: String,
    /// The metric or view that holds the number.
    pub source: String,
}

impl Tile {
    /// The tile in a JSON report.
    pub fn json(&self) -> Value {
        json!({
            "title": self.title, "value": self.value, "unit": self.unit, "note": self.note,
            "source": self.source,
        })
    }

    /// The value with its unit, for people.
    pub fn shown(&self) -> String {
        human(&self.value, self.unit.as_deref())
    }
}

/// Parts of a step and their titles.
const PARTS: [(&str, &str); 4] = [
    ("compute", "Compute"),
    ("exposed_comm", "Exposed communication"),
    ("exposed_other", "Exposed copies and sets"),
    ("idle", "Idle"),
];

/// Titles, metrics and words beside them; of each line the first metric that has a value counts.
const METRICS: [(&str, &[&str], &str); 8] = [
    ("Model FLOP utilization", &["mfu"], "of the peak of the devices"),
    (
        "Throughput",
        &["throughput", "throughput_tokens", "samples_per_second", "output_tokens_per_s"],
        "of the whole job",
    ),
    ("Time to first token", &["ttft"], "per request"),
    ("Time per output token", &["tpot"], "per token"),
    ("Bus bandwidth", &["bus_bandwidth_percentiles"], "median call"),
    ("Compute imbalance", &["straggler"], "(largest - least) / mean compute of the ranks"),
    ("Idle for the host", &["idle_causes"], "of the idle time: nothing was launched yet"),
    ("Peak memory", &["memory"], "of the rank with most"),
];

/// The numbers that a trace has; `times` are the rows of `time_per_step`.
pub fn headline(times: Option<&Sheet>, metrics: &[Metric]) -> Vec<Tile> {
    let mut out = step(times, metrics);
    out.extend(straggler(metrics));
    for (title, names, note) in METRICS {
        let mut known = names.iter().filter_map(|n| metric(metrics, n));
        if let Some(metric) = known.next() {
            out.push(of_metric(title, metric, note));
        }
    }
    out
}

/// A metric that has a value.
fn metric<'a>(metrics: &'a [Metric], name: &str) -> Option<&'a Metric> {
    metrics.iter().find(|m| m.result.metric == name && !m.result.value.is_null())
}

fn of_metric(title: &str, metric: &Metric, note: &str) -> Tile {
    let (value, unit) = metric.shown();
    Tile {
        title: title.to_owned(),
        value,
        unit: unit.map(str::to_owned),
        note: note.to_owned(),
        source: metric.result.metric.clone(),
    }
}

/// The parts of a step; without devices its time alone.
fn step(times: Option<&Sheet>, metrics: &[Metric]) -> Vec<Tile> {
    let Some(sheet) = times.filter(|s| !s.rows.is_empty()) else {
        let time = metric(metrics, "avg_step_time");
        let tile = time.map(|m| of_metric("Step time", m, "per step, mean of steps and ranks"));
        return tile.into_iter().collect();
    };
    let row = |part: &str| sheet.rows.iter().find(|row| sheet.cell(row, "part") == part);
    let cell = |part: &str, column: &str| row(part).map_or(&Value::Null, |r| sheet.cell(r, column));
    let time = |part: &str| human(cell(part, "time_ms"), Some("ms"));
    let share = |part: &str| human(cell(part, "share_pct"), Some("pct"));
    let per = cell("step", "per").as_str().unwrap_or("step").to_owned();
    let tile = |title: &str, value: &Value, unit: &str, note: String| Tile {
        title: title.to_owned(),
        value: value.clone(),
        unit: Some(unit.to_owned()),
        note,
        source: sheet.name.clone(),
    };
    let count = |part: &str, column: &str, one: &str, many: &str| match cell(part, column) {
        Value::Number(n) if n.as_u64() == Some(1) => format!("1 {one}"),
        number => format!("{} {many}", human(number, Some("count"))),
    };
    let ranks = count("step", "num_ranks", "rank", "ranks");
    let (title, of) = match &*per {
        "trace" => ("Time of the trace", format!("no steps: per trace, {ranks}")),
        _ => {
            let steps = count("step", "window_count", "step", "steps");
            ("Step time", format!("per step, mean of {steps}, {ranks}"))
        }
    };
    let mut out = vec![tile(title, cell("step", "time_ms"), "ms", of)];
    for (part, title) in PARTS {
        let mut note = format!("per {per}, {} of it", share(part));
        if part == "exposed_comm" && !cell("exposed_wait", "time_ms").is_null() {
            let (transfer, wait) = (time("exposed_transfer"), time("exposed_wait"));
            note.push_str(&format!(": transfer {transfer}, waiting for ranks {wait}"));
            if cell(part, "split_pct").as_f64().is_some_and(|split| split < 99.5) {
                note.push_str("; the rest is of calls not matched between ranks");
            }
        }
        out.push(tile(title, cell(part, "time_ms"), "ms", note));
    }
    if !cell("hidden_comm", "share_pct").is_null() {
        let note = format!("per {per}, {} of {}", time("hidden_comm"), time("comm"));
        out.push(tile("Communication overlapped", cell("hidden_comm", "share_pct"), "pct", note));
    }
    out
}

/// The rank that holds up the others, and the reason.
fn straggler(metrics: &[Metric]) -> Option<Tile> {
    let metric = metric(metrics, "straggler")?;
    let listed = metric.result.details.get("stragglers").and_then(Value::as_array)?;
    let (value, note) = match &listed[..] {
        [] => {
            ("none".to_owned(), "no rank computes longer, or is waited for, by enough".to_owned())
        }
        [first, more @ ..] => {
            let rank = human(first.get("rank").unwrap_or(&Value::Null), None);
            let pct = |key: &str| human(first.get(key).unwrap_or(&Value::Null), Some("pct"));
            let compute = format!("computes {} longer than the others", pct("slowdown_pct"));
            let waited = format!("the others wait for it, {} of its time", pct("waited_for_pct"));
            let why = match first.get("reason").and_then(Value::as_str) {
                Some("compute") => compute,
                Some("waited_for") => waited,
                Some("both") => format!("{compute}; {waited}"),
                other => other.unwrap_or_default().to_owned(),
            };
            let more = match more.len() {
                0 => String::new(),
                n => format!("; and {n} more"),
            };
            (format!("rank {rank}"), format!("{why}{more}"))
        }
    };
    Some(Tile {
        title: "Straggler".to_owned(),
        value: value.into(),
        unit: None,
        note,
        source: metric.result.metric.clone(),
    })
}
