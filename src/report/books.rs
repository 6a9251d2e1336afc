//! Which pages a workbook has: of a report, of a comparison, and the names that scripts look for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::document::{Comparison, Document, Sheet, SheetColumn};
use super::workbook::{Page, Properties, write};
use crate::error::Result;

/// Sheets of one rank of the individual reports: tab, view, column left out.
const INDIVIDUAL: [(&str, &str); 4] = [
    ("gpu_timeline", "gpu_timeline_by_rank"),
    ("kernel_summary", "kernel_summary_by_rank"),
    ("ops_summary", "ops_summary_by_rank"),
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

/// The one workbook of a report: what holds for the run first, event-long sheets last.
///
/// # Errors
/// `io` when it cannot be built.
pub fn report(document: &Document) -> Result<Vec<u8>> {
    let metrics = metrics(document);
    let mut pages = Vec::new();
    let first = ["configuration", "gpu_timeline", "gpu_timeline_by_rank", "overlap_by_rank"];
    let page = |name: &&str| document.sheet(name).map(|s| Page::new(&s.name, s));
    pages.extend(first.iter().filter_map(page));
    pages.insert(1.min(pages.len()), Page::new("metrics", &metrics));
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
const SHOWN: [&str; 6] = [
    "Summary_Dashboard",
    "GPU_Summary_Cmp",
    "GPU_ByRank_Cmp",
    "NCCL_ImplSync_Cmp",
    "NCCL_Long_Cmp",
    "Metrics_Cmp",
];

/// Hidden pages with what was compared: tab, view.
const RAW: [(&str, &str); 4] = [
    ("GPU_Summary_Raw", "gpu_timeline"),
    ("GPU_AllRanks_Raw", "gpu_timeline_by_rank"),
    ("NCCL_ImplSync_Raw", "nccl_summary_implicit_sync"),
    ("NCCL_Long_Raw", "nccl_summary_long"),
];

/// Columns with colours: changes in percent, positive = better.
const SCALES: [&str; 7] = [
    "improvement_pct",
    "mean_latency_us_improvement_pct",
    "mean_algo_bw_gb_per_s_improvement_pct",
    "mean_bus_bw_gb_per_s_improvement_pct",
    "total_latency_ms_improvement_pct",
    "total_us_improvement_pct",
    "mean_us_improvement_pct",
];

/// The one workbook of a comparison of two runs: dashboard first, raw pages hidden at the end.
///
/// # Errors
/// `io` when it cannot be built.
pub fn comparison(comparison: &Comparison, test: usize) -> Result<Vec<u8>> {
    let mut pages = Vec::new();
    pages.extend(SHOWN.iter().filter_map(|name| compared(comparison, test, name)));
    let runs = runs(comparison, test);
    pages.push(Page::new("Runs", &runs));
    let hidden = [raw(comparison, test, &RAW), pivots(comparison, test)].concat();
    pages
        .extend(hidden.iter().map(|(name, sheet)| Page { hidden: true, ..Page::new(name, sheet) }));
    compared_book(comparison, test, &pages)
}

/// The workbooks of a comparison by name: the whole one, and its four parts.
///
/// # Errors
/// `io` when one cannot be built.
pub fn comparison_files(
    comparison: &Comparison,
    test: usize,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let gpu = raw(comparison, test, &RAW[..2]);
    let pivots = pivots(comparison, test);
    let nccl = raw(comparison, test, &RAW[2..]);
    let own = |sheets: &[(String, Sheet)]| -> Result<Vec<u8>> {
        let pages: Vec<Page<'_>> = sheets.iter().map(|(n, s)| Page::new(n, s)).collect();
        compared_book(comparison, test, &pages)
    };
    let parts = |names: &[&str]| -> Result<Vec<u8>> {
        let pages: Vec<Page<'_>> =
            names.iter().filter_map(|n| compared(comparison, test, n)).collect();
        compared_book(comparison, test, &pages)
    };
    let gpu: Vec<(String, Sheet)> = gpu.into_iter().chain(pivots).collect();
    Ok(vec![
        ("gpu_timeline_combined.xlsx", own(&gpu)?),
        ("gpu_timeline_comparison.xlsx", parts(&["GPU_Summary_Cmp", "GPU_ByRank_Cmp"])?),
        ("collective_combined.xlsx", own(&nccl)?),
        ("collective_comparison.xlsx", parts(&["NCCL_ImplSync_Cmp", "NCCL_Long_Cmp"])?),
        ("final_analysis_report.xlsx", self::comparison(comparison, test)?),
    ])
}

/// A page of a comparison, its changes in colour.
fn compared<'a>(comparison: &'a Comparison, test: usize, name: &'a str) -> Option<Page<'a>> {
    let sheet = comparison.sheets[test].iter().find(|s| s.name == name)?;
    Some(Page { scales: &SCALES, ..Page::new(name, sheet) })
}

/// What was compared: the rows of both runs, told apart by the column `source`.
fn raw(comparison: &Comparison, test: usize, pages: &[(&str, &str)]) -> Vec<(String, Sheet)> {
    let runs = [&comparison.runs[0], &comparison.runs[test + 1]];
    let mut out = Vec::new();
    for (tab, view) in pages {
        let mut both: Option<Sheet> = None;
        for run in runs {
            let Some(sheet) = run.sheets.iter().find(|s| s.name == *view) else { continue };
            let rows = sheet
                .rows
                .iter()
                .map(|row| [vec![Value::from(run.label.clone())], row.clone()].concat());
            match &mut both {
                Some(both) => both.rows.extend(rows),
                None => {
                    let source = SheetColumn {
                        name: "source".to_owned(),
                        doc: "Run.".to_owned(),
                        ..SheetColumn::default()
                    };
                    let columns = [vec![source], sheet.columns.clone()].concat();
                    both = Some(Sheet { columns, rows: rows.collect(), ..sheet.clone() });
                }
            }
        }
        out.extend(both.map(|sheet| ((*tab).to_owned(), sheet)));
    }
    out
}

/// Times and shares of both runs, a column for each rank.
fn pivots(comparison: &Comparison, test: usize) -> Vec<(String, Sheet)> {
    let both = raw(comparison, test, &[("", "gpu_timeline_by_rank")]);
    let Some((_, both)) = both.first() else { return Vec::new() };
    [("GPU_Time_Raw", "time_ms"), ("GPU_Pct_Raw", "share_pct")]
        .into_iter()
        .map(|(tab, value)| (tab.to_owned(), pivot(both, &["source", "type"], "rank", value)))
        .collect()
}

/// Which run is which, and what is known of each.
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

fn book(document: &Document, pages: &[Page<'_>]) -> Result<Vec<u8>> {
    let title = format!("Report of {}", document.label);
    let comment = format!("ccl-sql {}, trace {}", env!("CARGO_PKG_VERSION"), document.fingerprint);
    write(pages, &Properties { title: &title, comment: &comment, ..Properties::default() })
}

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

fn named(name: &str) -> SheetColumn {
    SheetColumn { name: name.to_owned(), ..SheetColumn::default() }
}
