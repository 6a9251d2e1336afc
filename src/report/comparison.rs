//! A comparison: runs beside a baseline, by the SQL files of `sql/comparisons`. The forms
//! (`html`, `text`, `xlsx`) are written from it.

use duckdb::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::error::Result;
use crate::registry::{Registry, SqlFile};
use crate::report::document::provenance;
use crate::report::sheet::{Sheet, SheetColumn, Tables};
use crate::report::sheets::{comparison, view};

/// Comparisons by the names that workbooks have for them.
const COMPARISONS: [(&str, &str); 9] = [
    ("Change_Account", "change_account"),
    ("Change_ByRank", "change_by_rank"),
    ("GPU_Summary_Cmp", "gpu_summary_cmp"),
    ("GPU_ByRank_Cmp", "gpu_by_rank_cmp"),
    ("Kernel_Cmp", "kernel_cmp"),
    ("Op_Cmp", "op_cmp"),
    ("NCCL_ImplSync_Cmp", "nccl_impl_sync_cmp"),
    ("NCCL_Long_Cmp", "nccl_long_cmp"),
    ("Metrics_Cmp", "metric_cmp"),
];

/// Views of each run that are kept beside the comparisons.
const RUN_SHEETS: [&str; 12] = [
    "configuration",
    "gpu_timeline",
    "gpu_timeline_by_rank",
    "step_overlap_mean",
    "collective_sizes",
    "hockney_fits",
    "network_load",
    "traffic",
    "straggler_summary",
    "kernel_class_times",
    "nccl_summary_implicit_sync",
    "nccl_summary_long",
];

/// Metrics that rank runs where nobody says one; of these one that rests on several steps.
const RANK_BY: &str = "avg_step_time,iter_time,wall_time_s";

/// Name of the page that opens first.
pub const DASHBOARD: &str = "Summary_Dashboard";

/// The beginning of the rows of the dashboard that are times of the devices.
pub const DEVICES: &str = "GPU_";

/// A comparison by its name in workbooks.
pub type Tab<'r> = (&'static str, &'r SqlFile);

/// The comparisons of two runs.
///
/// # Errors
/// `sql-file`.
pub fn tabs(registry: &Registry) -> Result<Vec<Tab<'_>>> {
    COMPARISONS.iter().map(|(tab, name)| Ok((*tab, comparison(registry, name)?))).collect()
}

/// The views of each run; `calls` are those that only its workbooks need.
///
/// # Errors
/// `sql-file`.
pub fn run_views<'r>(registry: &'r Registry, calls: &[&str]) -> Result<Vec<&'r SqlFile>> {
    let names = RUN_SHEETS.iter().chain(calls);
    names.map(|name| view(registry, name)).collect()
}

/// The terms of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'c> {
    /// Changes up to this many percent are Similar.
    pub threshold_pct: f64,
    /// The metric that ranks several tests.
    pub rank_by: Option<&'c SqlFile>,
}

/// Runs beside each other: the first is the baseline of each other one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Changes up to this many percent are Similar.
    pub threshold_pct: f64,
    /// Baseline, then tests.
    pub runs: Vec<Run>,
    /// Sheets against the baseline, of each test.
    pub sheets: Vec<Vec<Sheet>>,
    /// Order of the runs, where there are several tests.
    pub ranking: Option<Sheet>,
}

/// A run of a comparison.
#[derive(Debug, Clone)]
pub struct Run {
    /// The label that the reader has for it.
    pub label: String,
    /// Name of the trace.
    pub trace: String,
    /// Hash over the bytes that the trace was made from.
    pub fingerprint: String,
    /// Sheets of the run by itself.
    pub sheets: Vec<Sheet>,
}

impl Comparison {
    /// Compares the runs with the first of them: `tables` has them all, and their metrics.
    ///
    /// # Errors
    /// `sql`, `sql-file` where a comparison is not there.
    pub fn new(
        registry: &Registry,
        tables: &mut dyn Tables,
        tabs: &[Tab<'_>],
        runs: Vec<Run>,
        terms: Terms<'_>,
    ) -> Result<Self> {
        let sheets = runs[1..]
            .iter()
            .map(|test| against(tables, tabs, &runs[0], test, terms.threshold_pct))
            .collect::<Result<Vec<_>>>()?;
        let ranking = match runs.len() {
            0..=2 => None,
            _ => Some(ranking(tables, registry, &runs, terms.rank_by)?),
        };
        Ok(Self { threshold_pct: terms.threshold_pct, runs, sheets, ranking })
    }

    /// The JSON comparison.
    pub fn json(&self) -> Value {
        let runs: Vec<Value> = self
            .runs
            .iter()
            .enumerate()
            .map(|(i, run)| {
                json!({
                    "label": run.label, "trace": run.trace,
                    "role": if i == 0 { "base" } else { "test" },
                    "provenance": provenance(Some(&run.fingerprint)),
                    "sheets": run.sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
                })
            })
            .collect();
        let comparisons: Vec<Value> = self.runs[1..]
            .iter()
            .zip(&self.sheets)
            .map(|(run, sheets)| {
                json!({
                    "test": run.label,
                    "sheets": sheets.iter().map(Sheet::json).collect::<Vec<Value>>(),
                })
            })
            .collect();
        json!({
            "comparison": 1, "threshold_pct": self.threshold_pct, "provenance": provenance(None),
            "runs": runs, "comparisons": comparisons,
            "ranking": self.ranking.as_ref().map(Sheet::json),
        })
    }

    /// A sheet of a test by its name.
    pub fn sheet(&self, test: usize, name: &str) -> Option<&Sheet> {
        self.sheets.get(test)?.iter().find(|s| s.name == name)
    }
}

/// The sheets of a test against the baseline, the dashboard before them.
fn against(
    tables: &mut dyn Tables,
    tabs: &[Tab<'_>],
    base: &Run,
    test: &Run,
    threshold_pct: f64,
) -> Result<Vec<Sheet>> {
    let text = |run: &Run| SqlValue::Text(run.trace.clone());
    let mut out = Vec::new();
    for (tab, file) in tabs {
        let mut params = vec![("base", text(base)), ("test", text(test))];
        if file.header.params.iter().any(|p| p.name == "threshold") {
            params.push(("threshold", SqlValue::Double(threshold_pct)));
        }
        out.push(Sheet { name: (*tab).to_owned(), ..Sheet::query(tables, file, &params)? });
    }
    let of = |name: &str| out.iter().find(|s| s.name == name);
    if let (Some(times), Some(metrics)) = (of("GPU_Summary_Cmp"), of("Metrics_Cmp")) {
        out.insert(0, dashboard(times, metrics));
    }
    Ok(out)
}

/// The order of the runs by a metric, with labels in place of traces.
fn ranking(
    tables: &mut dyn Tables,
    registry: &Registry,
    runs: &[Run],
    rank_by: Option<&SqlFile>,
) -> Result<Sheet> {
    let metrics = rank_by.map_or(RANK_BY, |file| &file.header.name);
    let params = [("metrics", SqlValue::Text(metrics.to_owned()))];
    let mut out = Sheet::query(tables, comparison(registry, "ranking")?, &params)?;
    let Some(column) = out.index("trace") else { return Ok(out) };
    out.columns[column].name = "label".to_owned();
    for row in &mut out.rows {
        let run = runs.iter().find(|run| row[column] == *run.trace);
        row[column] = run.map(|run| run.label.clone()).into();
    }
    Ok(out)
}

/// The dashboard: rows of the devices, then those metrics that have a better direction.
fn dashboard(times: &Sheet, metrics: &Sheet) -> Sheet {
    let column = |name: &str, heading: &str, unit: Option<&str>, doc: &str| SheetColumn {
        name: name.to_owned(),
        heading: Some(heading.to_owned()),
        unit: unit.map(str::to_owned),
        doc: doc.to_owned(),
        ..SheetColumn::default()
    };
    let columns = vec![
        column(
            "metric",
            "Metric",
            None,
            "GPU_ and the kind of time, mean over ranks; or a metric.",
        ),
        column("base", "Baseline", None, "Value in the baseline."),
        column("test", "Test", None, "Value in the test."),
        column(
            "change_pct",
            "Change (%) (test - baseline)",
            Some("pct"),
            "(test - baseline) / |baseline| x 100.",
        ),
        column("status", "Status", None, "Better, Worse or Similar."),
        column("unit", "Unit", None, "Unit of the values."),
        column(
            "effect_pct",
            "Effect (% of a step)",
            Some("pct"),
            "What the change is of a step of the baseline; + is longer.",
        ),
        column("note", "Note", None, "What to know of the status."),
    ];
    let mut rows = Vec::new();
    for row in &times.rows {
        let cell = |name: &str| times.cell(row, name).clone();
        let kind = cell("type").as_str().map(|kind| format!("{DEVICES}{kind}"));
        rows.push(vec![
            kind.into(),
            cell("base_time_ms"),
            cell("test_time_ms"),
            cell("change_pct"),
            cell("status"),
            "ms".into(),
            cell("effect_pct"),
            Value::Null,
        ]);
    }
    for row in metrics.rows.iter().filter(|row| !metrics.cell(row, "better").is_null()) {
        rows.push(columns.iter().map(|c| metrics.cell(row, &c.name).clone()).collect());
    }
    Sheet {
        name: DASHBOARD.to_owned(),
        summary: "The comparison at a glance: time of the devices in the whole run, then the \
                  metrics by their effect on a step."
            .to_owned(),
        reason: rows.is_empty().then(|| "neither run has devices or metrics".to_owned()),
        columns,
        rows,
        ..Sheet::default()
    }
}
