//! The metrics and views that a report shows, in each of its forms.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::registry::{Registry, SqlFile};
use crate::report::grid::format::Format;
use crate::report::sheet::{Sheet, Tables};

/// Views of reports for people.
const TEXT_SHEETS: [&str; 17] = [
    "configuration",
    "time_per_step",
    "trace_findings",
    "gpu_timeline",
    "overlap_summary",
    "overlap_by_rank",
    "network_load",
    "network_by_rank",
    "hockney_fits",
    "traffic",
    "message_sizes",
    "straggler_summary",
    "kernel_class_times",
    "copy_summary",
    "cuda_gpu_kern_sum",
    "cuda_api_sum",
    "nvtx_sum",
];

/// Views of a diagnosis.
const DIAGNOSIS_SHEETS: [&str; 2] = ["account_summary", "what_if"];

/// Views that the JSON report and the page show besides.
const PAGE_SHEETS: [&str; 18] = [
    "gpu_timeline_by_rank",
    "step_overlap",
    "step_overlap_mean",
    "step_timeline",
    "step_short_events",
    "collective_sizes",
    "nccl_summary_implicit_sync",
    "nccl_summary_all2allv",
    "kernel_summary",
    "ops_summary",
    "ops_roofline",
    "short_kernels_summary",
    "memory_timeline",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "osrt_sum",
    "step_stacks",
    "sampled_stacks",
];

/// Views that a workbook holds besides those of the text.
const BOOK_SHEETS: [&str; 27] = [
    "gpu_timeline_by_rank",
    "step_overlap",
    "collective_sizes",
    "nccl_long",
    "nccl_summary_long",
    "nccl_implicit_sync",
    "nccl_summary_implicit_sync",
    "nccl_all2allv",
    "nccl_summary_all2allv",
    "kernel_summary_by_rank",
    "ops_summary_by_category",
    "ops_summary_by_category_by_rank",
    "ops_summary_by_rank",
    "ops_unique_args",
    "ops_unique_args_by_rank",
    "short_kernel_histogram",
    "short_kernel_histogram_by_rank",
    "short_kernels_summary",
    "short_kernels_summary_by_rank",
    "ops_roofline",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_sum",
    "cuda_kern_exec_sum",
    "nvtx_gpu_proj_sum",
    "kernel_sequences",
    "osrt_sum",
];

/// Metrics of a report by section, as the view `report_metrics` lists them.
///
/// # Errors
/// `sql`, `metric-unknown` where the list names a metric that is not there.
pub fn shown_metrics<'r>(
    registry: &'r Registry,
    tables: &mut dyn Tables,
) -> Result<Vec<(String, &'r SqlFile)>> {
    let list = Sheet::query(tables, view(registry, "report_metrics")?, &[])?;
    let text =
        |row: &[Value], column| list.cell(row, column).as_str().unwrap_or_default().to_owned();
    list.rows
        .iter()
        .map(|row| Ok((text(row, "section"), registry.metric(&text(row, "metric"))?)))
        .collect()
}

/// The views that a report shows in a form.
///
/// # Errors
/// `sql-file`.
pub fn views(registry: &Registry, format: Format) -> Result<Vec<&SqlFile>> {
    let more: &[&str] = match format {
        Format::Json | Format::Html => &PAGE_SHEETS,
        Format::Xlsx => &BOOK_SHEETS,
        _ => &[],
    };
    let names = DIAGNOSIS_SHEETS.iter().chain(&TEXT_SHEETS).chain(more);
    names.map(|name| view(registry, name)).collect()
}

/// The views of a diagnosis.
///
/// # Errors
/// `sql-file`.
pub fn diagnosis_views(registry: &Registry) -> Result<Vec<&SqlFile>> {
    DIAGNOSIS_SHEETS.iter().map(|name| view(registry, name)).collect()
}

/// A view that a report shows.
///
/// # Errors
/// `sql-file` where it is not there.
pub fn view<'r>(registry: &'r Registry, name: &str) -> Result<&'r SqlFile> {
    registry.view(name).ok_or_else(|| lacking("view", name))
}

/// A comparison that the program asks for.
///
/// # Errors
/// `sql-file` where it is not there.
pub fn comparison<'r>(registry: &'r Registry, name: &str) -> Result<&'r SqlFile> {
    registry.comparison(name).ok_or_else(|| lacking("comparison", name))
}

fn lacking(kind: &str, name: &str) -> Error {
    Error::new("sql-file", format!("there is no {kind} `{name}`"))
        .hint("the folder of SQL files in CCL_SQL_TREE lacks it")
}
