//! The pages of workbooks: of a report, of a comparison, with the names that scripts look for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Result;
use crate::report::comparison::{Comparison, DASHBOARD, DEVICES};
use crate::report::document::Document;
use crate::report::sheet::{Sheet, SheetColumn};
use crate::report::xlsx::{Bars, Page, Properties, write};

/// Sheets of one rank of the individual reports: tab, view.
const INDIVIDUAL: [(&str, &str); 8] = [
    ("gpu_timeline", "gpu_timeline_by_rank"),
    ("ops_summary_by_category", "ops_summary_by_category_by_rank"),
    ("ops_summary", "ops_summary_by_rank"),
    ("ops_unique_args", "ops_unique_args_by_rank"),
    ("kernel_summary", "kernel_summary_by_rank"),
    ("short_kernel_histogram", "short_kernel_histogram_by_rank"),
    ("short_kernels_summary", "short_kernels_summary_by_rank"),
    ("coll_analysis", "nccl_summary_long"),
];

/// Sheets of all ranks of the collective report.
const COLLECTIVE: [&str; 7] = [
    "nccl_summary_implicit_sync",
    "nccl_summary_long",
    "nccl_summary_all2allv",
    "straggler_summary",
    "nccl_implicit_sync",
    "nccl_all2allv",
    "nccl_long",
];

/// The one workbook of a report: what to fix first, then facts about the run, sheets with a row for
/// each event last.
///
/// # Errors
/// `io` when it cannot be built.
pub fn report(document: &Document) -> Result<Vec<u8>> {
    let metrics = metrics(document);
    let findings = document.diagnosis.sheet();
    let account = &document.diagnosis.account;
    let mut pages = Vec::new();
    let first = ["configuration", "gpu_timeline", "gpu_timeline_by_rank", "overlap_by_rank"];
    let page = |name: &&str| document.sheet(name).map(|s| Page::new(&s.name, s));
    pages.extend(first.iter().filter_map(page));
    pages.insert(1.min(pages.len()), Page::new("metrics", &metrics));
    let fix = [Page::new(&findings.name, &findings), Page::new("account_summary", account)];
    pages.splice(0..0, fix);
    pages.extend(COLLECTIVE[..4].iter().filter_map(page));
    let last = &COLLECTIVE[4..];
    pages.extend(
        document
            .sheets
            .iter()
            .filter(|s| !first.contains(&&*s.name) && !COLLECTIVE.contains(&&*s.name))
            .map(|s| Page::new(&s.name, s)),
    );
    pages.extend(last.iter().filter_map(page));
    book(document, &pages)
}

/// The workbooks of a report by path below its folder: one for each rank, one for the collectives
/// of all ranks, one for their time lines.
///
/// # Errors
/// `io` when one cannot be built.
pub fn report_files(document: &Document) -> Result<Vec<(String, Vec<u8>)>> {
    let mut out = Vec::new();
    let timeline = document.sheet("gpu_timeline_by_rank");
    for (rank, place) in ranks(document) {
        let sheets: Vec<(&str, Sheet)> = INDIVIDUAL
            .iter()
            .filter_map(|(tab, view)| {
                let sheet = document.sheet(view)?.only("rank", |v| *v == rank);
                Some((*tab, without(sheet, "rank")))
            })
            .collect();
        let pages: Vec<Page<'_>> = sheets.iter().map(|(tab, s)| Page::new(tab, s)).collect();
        let name = format!("individual_reports/rank{place}_individual_report.xlsx");
        out.push((name, book(document, &pages)?));
    }
    let pages: Vec<Page<'_>> = COLLECTIVE
        .iter()
        .filter_map(|name| document.sheet(name))
        .map(|s| Page::new(&s.name, s))
        .collect();
    out.push(("collective_reports/collective_all_ranks.xlsx".to_owned(), book(document, &pages)?));
    if let (Some(mean), Some(by_rank)) = (document.sheet("gpu_timeline"), timeline) {
        let times = pivot(by_rank, &["type"], "rank", "time_ms");
        let shares = pivot(by_rank, &["type"], "rank", "share_pct");
        let pages = [
            Page::new("Summary", mean),
            Page::new("All_Ranks_Combined", by_rank),
            Page::new("Per_Rank_Time_ms", &times),
            Page::new("Per_Rank_Percent", &shares),
        ];
        out.push(("gpu_timeline_summary_mean.xlsx".to_owned(), book(document, &pages)?));
    }
    Ok(out)
}

/// Pages of a comparison that are shown, and their tabs.
const SHOWN: [&str; 10] = [
    DASHBOARD,
    "GPU_Summary_Cmp",
    "GPU_ByRank_Cmp",
    "Kernel_Cmp",
    "Op_Cmp",
    "NCCL_ImplSync_Cmp",
    "NCCL_Long_Cmp",
    "Metrics_Cmp",
    "Change_Account",
    "Change_ByRank",
];

/// Pages with the rows behind a comparison: tab where they are hidden, tab in the workbook of their
/// own kind, view.
type Raw = [(&'static str, &'static str, &'static str)];

/// Time of the devices.
const RAW_TIMES: &Raw = &[
    ("GPU_Summary_Raw", "Summary", "gpu_timeline"),
    ("GPU_AllRanks_Raw", "All_Ranks_Combined", "gpu_timeline_by_rank"),
];

/// Time of the devices with a column for each rank: tabs, value.
const ACROSS: [(&str, &str, &str); 2] = [
    ("GPU_Time_Raw", "Per_Rank_Time_ms", "time_ms"),
    ("GPU_Pct_Raw", "Per_Rank_Percent", "share_pct"),
];

/// Communication.
const RAW_CALLS: &Raw = &[
    ("NCCL_ImplSync_Raw", "nccl_summary_implicit_sync", "nccl_summary_implicit_sync"),
    ("NCCL_Long_Raw", "nccl_summary_long", "nccl_summary_long"),
];

/// Call by call: in the workbook of communication alone.
const CALLS: &Raw =
    &[("", "nccl_implicit_sync", "nccl_implicit_sync"), ("", "nccl_long", "nccl_long")];

/// Views of each run, of many rows, that only the workbooks of a comparison need.
pub const CALL_VIEWS: [&str; 2] = [CALLS[0].2, CALLS[1].2];

/// Columns with colours: changes in percent of columns that have a better direction. Where that
/// differs from row to row, the word beside it has the colour.
const SCALES: [&str; 10] = [
    "change_pct",
    "step_change_pct",
    "mean_latency_us_change_pct",
    "mean_algo_bw_gb_per_s_change_pct",
    "mean_bus_bw_gb_per_s_change_pct",
    "total_latency_ms_change_pct",
    "total_us_change_pct",
    "mean_us_change_pct",
    "total_change_pct",
    "mean_change_pct",
];

/// Pages whose rows have each their own better direction.
const MIXED: [&str; 2] = [DASHBOARD, "Metrics_Cmp"];

/// The one workbook of a comparison of two runs: dashboard first, raw pages hidden at the end.
///
/// # Errors
/// `io` when it cannot be built.
pub fn comparison(comparison: &Comparison, test: usize) -> Result<Vec<u8>> {
    let runs = runs(comparison, test);
    let mut pages: Vec<Page<'_>> =
        SHOWN.iter().filter_map(|name| compared(comparison, test, name, name)).collect();
    pages.push(Page::new("Runs", &runs));
    let of_calls = raw(comparison, test, RAW_CALLS);
    let of_times = raw(comparison, test, RAW_TIMES);
    let across = across(comparison, test);
    let hidden = of_times.iter().chain(&of_calls).chain(&across);
    pages.extend(hidden.map(|r| Page { hidden: true, ..Page::new(r.hidden, &r.sheet) }));
    compared_book(comparison, test, &pages)
}

/// The workbooks of a comparison by name: its parts, the comparisons alone, and the whole.
///
/// # Errors
/// `io` when one cannot be built.
pub fn comparison_files(
    comparison: &Comparison,
    test: usize,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let book = |pages: &[Page<'_>]| compared_book(comparison, test, pages);
    let page = |tab, name| compared(comparison, test, tab, name);
    let mut times = raw(comparison, test, RAW_TIMES);
    times.extend(across(comparison, test));
    let mut calls = raw(comparison, test, RAW_CALLS);
    calls.extend(raw(comparison, test, CALLS));
    let times_compared = [
        page("Summary_Comparison", "GPU_Summary_Cmp"),
        page("Comparison_By_Rank", "GPU_ByRank_Cmp"),
    ];
    let calls_compared = [
        page("nccl_implicit_sync_cmp", "NCCL_ImplSync_Cmp"),
        page("nccl_long_cmp", "NCCL_Long_Cmp"),
    ];
    let times_compared: Vec<Page<'_>> =
        times_compared.into_iter().flatten().chain(own(&times)).collect();
    let calls_compared: Vec<Page<'_>> = calls_compared.into_iter().flatten().collect();
    let runs = runs(comparison, test);
    let mut all: Vec<Page<'_>> = SHOWN.iter().filter_map(|name| page(name, name)).collect();
    all.push(Page::new("Runs", &runs));
    Ok(vec![
        ("gpu_timeline_combined.xlsx", book(&own(&times))?),
        ("gpu_timeline_comparison.xlsx", book(&times_compared)?),
        ("collective_combined.xlsx", book(&own(&calls))?),
        ("collective_comparison.xlsx", book(&calls_compared)?),
        ("comparison_report.xlsx", book(&all)?),
        ("final_analysis_report.xlsx", self::comparison(comparison, test)?),
    ])
}

/// A page of a comparison, its changes in colour; the dashboard with bars.
fn compared<'a>(
    comparison: &'a Comparison,
    test: usize,
    tab: &'a str,
    name: &str,
) -> Option<Page<'a>> {
    let sheet = comparison.sheet(test, name)?;
    let scales: &[&str] = if MIXED.contains(&name) { &[] } else { &SCALES };
    let of_devices = |row: &&Vec<Value>| {
        row.first().and_then(Value::as_str).is_some_and(|n| n.starts_with(DEVICES))
    };
    let times = sheet.rows.iter().take_while(of_devices).count();
    let bars = (name == DASHBOARD && times > 0).then_some(Bars {
        title: "What the devices do with their time, mean over ranks (ms)",
        places: "metric",
        values: &["base", "test"],
        rows: times,
    });
    Some(Page { scales, bars, ..Page::new(tab, sheet) })
}

/// The rows of both runs behind a comparison, and their tabs.
struct RawSheet {
    hidden: &'static str,
    own: &'static str,
    sheet: Sheet,
}

/// The rows of both runs behind a comparison, told apart by the last column, `source`.
fn raw(comparison: &Comparison, test: usize, pages: &Raw) -> Vec<RawSheet> {
    let runs = [&comparison.runs[0], &comparison.runs[test + 1]];
    let mut out = Vec::new();
    for (hidden, own, view) in pages {
        let mut both: Option<Sheet> = None;
        for run in runs {
            let Some(sheet) = run.sheets.iter().find(|s| s.name == *view) else { continue };
            let rows = sheet
                .rows
                .iter()
                .map(|row| [row.clone(), vec![Value::from(run.label.clone())]].concat());
            match &mut both {
                Some(both) => both.rows.extend(rows),
                None => {
                    let source = SheetColumn {
                        name: "source".to_owned(),
                        doc: "Run.".to_owned(),
                        ..SheetColumn::default()
                    };
                    let columns = [sheet.columns.clone(), vec![source]].concat();
                    both = Some(Sheet { columns, rows: rows.collect(), ..sheet.clone() });
                }
            }
        }
        out.extend(both.map(|sheet| RawSheet { hidden, own, sheet }));
    }
    out
}

/// Pages of the workbook of their kind.
fn own(sheets: &[RawSheet]) -> Vec<Page<'_>> {
    sheets.iter().map(|r| Page::new(r.own, &r.sheet)).collect()
}

/// Times and shares of both runs, a column for each rank.
fn across(comparison: &Comparison, test: usize) -> Vec<RawSheet> {
    let by_rank = raw(comparison, test, &RAW_TIMES[1..]);
    let Some(both) = by_rank.first() else { return Vec::new() };
    ACROSS
        .into_iter()
        .map(|(hidden, own, value)| {
            let sheet = pivot(&both.sheet, &["source", "type"], "rank", value);
            RawSheet { hidden, own, sheet }
        })
        .collect()
}

/// The runs with their roles, and their configurations.
fn runs(comparison: &Comparison, test: usize) -> Sheet {
    let mut out = Sheet {
        name: "Runs".to_owned(),
        summary: "The runs that are compared.".to_owned(),
        ..Sheet::default()
    };
    let both = [("baseline", &comparison.runs[0]), ("test", &comparison.runs[test + 1])];
    for (role, run) in both {
        let Some(facts) = run.sheets.iter().find(|s| s.name == "configuration") else { continue };
        if out.columns.is_empty() {
            out.columns = ["role", "label", "trace"].map(named).to_vec();
            out.columns.extend(facts.columns.iter().cloned());
        }
        let mut row = vec![role.into(), run.label.clone().into(), run.trace.clone().into()];
        match facts.rows.first() {
            Some(known) => row.extend(known.iter().cloned()),
            None => row.resize(out.columns.len(), Value::Null),
        }
        out.rows.push(row);
    }
    out
}

/// A workbook of a report.
fn book(document: &Document, pages: &[Page<'_>]) -> Result<Vec<u8>> {
    let title = format!("Report of {}", document.label);
    let comment = format!("ccl-sql {}, trace {}", env!("CARGO_PKG_VERSION"), document.fingerprint);
    write(pages, &Properties { title: &title, comment: &comment, ..Properties::default() })
}

/// A workbook of a comparison.
fn compared_book(comparison: &Comparison, test: usize, pages: &[Page<'_>]) -> Result<Vec<u8>> {
    let (base, test) = (&comparison.runs[0], &comparison.runs[test + 1]);
    let title = format!("{} against {}", test.label, base.label);
    let comment = format!(
        "ccl-sql {}, traces {} and {}",
        env!("CARGO_PKG_VERSION"),
        base.fingerprint,
        test.fingerprint
    );
    write(pages, &Properties { title: &title, comment: &comment, ..Properties::default() })
}

/// Ranks of a document in order, as cells and as parts of names.
fn ranks(document: &Document) -> Vec<(Value, i64)> {
    let mut out = BTreeMap::new();
    for (_, view) in INDIVIDUAL {
        let Some(sheet) = document.sheet(view) else { continue };
        for row in &sheet.rows {
            let rank = sheet.cell(row, "rank");
            if let Some(number) = rank.as_i64() {
                out.insert(number, rank.clone());
            }
        }
    }
    out.into_iter().map(|(number, rank)| (rank, number)).collect()
}

/// A sheet without a column.
fn without(mut sheet: Sheet, column: &str) -> Sheet {
    if let Some(i) = sheet.index(column) {
        sheet.columns.remove(i);
        sheet.rows.iter_mut().for_each(|row| drop(row.remove(i)));
    }
    sheet
}

/// Metrics as a table.
fn metrics(document: &Document) -> Sheet {
    let columns = ["section", "metric", "version", "value", "unit", "better", "reason", "warnings"]
        .map(named);
    let rows = document
        .metrics
        .iter()
        .map(|m| {
            let result = &m.result;
            vec![
                m.section.clone().into(),
                result.metric.clone().into(),
                result.version.into(),
                result.value.clone(),
                result.unit.clone().into(),
                m.better.clone().into(),
                result.reason.clone().into(),
                result.warnings.join("; ").into(),
            ]
        })
        .collect();
    Sheet {
        name: "metrics".to_owned(),
        summary: "Metrics of the report; `ccl-sql show NAME` defines them.".to_owned(),
        columns: columns.to_vec(),
        rows,
        ..Sheet::default()
    }
}

/// Rows by `keys`, a column for each value of `across` with the cell of `value`.
fn pivot(sheet: &Sheet, keys: &[&str], across: &str, value: &str) -> Sheet {
    let mut heads: Vec<Value> = Vec::new();
    let mut lines: Vec<(Vec<Value>, BTreeMap<usize, Value>)> = Vec::new();
    for row in &sheet.rows {
        let head = sheet.cell(row, across);
        let place = heads.iter().position(|h| h == head).unwrap_or_else(|| {
            heads.push(head.clone());
            heads.len() - 1
        });
        let name: Vec<Value> = keys.iter().map(|key| sheet.cell(row, key).clone()).collect();
        let line = lines.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
            lines.push((name, BTreeMap::new()));
            lines.len() - 1
        });
        lines[line].1.insert(place, sheet.cell(row, value).clone());
    }
    let unit = sheet.index(value).and_then(|i| sheet.columns[i].unit.clone());
    let mut columns: Vec<SheetColumn> = keys.iter().map(|key| named(key)).collect();
    columns.extend(
        heads.iter().map(|h| SheetColumn { unit: unit.clone(), ..named(&format!("{across}_{h}")) }),
    );
    let rows = lines
        .into_iter()
        .map(|(name, cells)| {
            let filled = (0..heads.len()).map(|i| cells.get(&i).cloned().unwrap_or(Value::Null));
            name.into_iter().chain(filled).collect()
        })
        .collect();
    Sheet { columns, rows, ..sheet.clone() }
}

/// A column that has a name alone.
fn named(name: &str) -> SheetColumn {
    SheetColumn { name: name.to_owned(), ..SheetColumn::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pivot_has_a_column_for_each_value() {
        let mut columns = ["type", "rank", "time_ms"].map(named);
        columns[2].unit = Some("ms".to_owned());
        let rows = [("comp", 0, 1.5), ("comm", 0, 2.5), ("comm", 3, 3.5)];
        let rows = rows.map(|(kind, rank, ms)| vec![json!(kind), json!(rank), json!(ms)]).to_vec();
        let sheet = Sheet { columns: columns.to_vec(), rows, ..Sheet::default() };
        let out = pivot(&sheet, &["type"], "rank", "time_ms");
        let heads: Vec<(&str, Option<&str>)> =
            out.columns.iter().map(|c| (c.name.as_str(), c.unit.as_deref())).collect();
        assert_eq!(heads, [("type", None), ("rank_0", Some("ms")), ("rank_3", Some("ms"))]);
        assert_eq!(
            out.rows,
            [
                vec![json!("comp"), json!(1.5), Value::Null],
                vec![json!("comm"), json!(2.5), json!(3.5)],
            ]
        );
    }
}
