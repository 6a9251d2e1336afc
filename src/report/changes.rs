//! A comparison for people, as text, and for scripts, as CSV. Every number is one of its sheets.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::document::{Comparison, Sheet};
use super::section::Block;
use super::text::text_block;
use super::units::{human, plain_text};
use super::{Format, Grid};
use crate::error::Result;

/// Labels wider than this stand above the tables only.
const WIDEST_LABEL: usize = 24;

/// The runs, the time of their devices, their metrics, and of several tests their order.
pub fn text(comparison: &Comparison) -> String {
    let runs = &comparison.runs;
    let tests = runs.len() - 1;
    let role = |i: usize| match i {
        0 => "base".to_owned(),
        _ if tests == 1 => "test".to_owned(),
        i => format!("test {i}"),
    };
    let title = format!("Comparison with {}", plain_text(&runs[0].label));
    let mut out = format!("{title}\n{}\n", "=".repeat(title.width()));
    out.push_str(&format!(
        "made by ccl-sql {}; changes up to {} % are Similar\n",
        env!("CARGO_PKG_VERSION"),
        comparison.threshold_pct
    ));
    let legend = runs.iter().enumerate().map(|(i, run)| {
        let trace = if run.trace == run.label { String::new() } else { plain_text(&run.trace) };
        [role(i), plain_text(&run.label), trace]
    });
    text_block(&mut out, &Block::Facts(legend.collect()));
    let names: Vec<String> = (0..runs.len())
        .map(|i| {
            let label = plain_text(&runs[i].label);
            let same = runs.iter().filter(|r| plain_text(&r.label) == label).count();
            if label.width() > WIDEST_LABEL || same > 1 { role(i) } else { label }
        })
        .collect();
    let mut section = |title: &str, block: &Block| {
        out.push_str(&format!("\n\n{title}\n{}\n", "-".repeat(title.width())));
        text_block(&mut out, block);
    };
    section("CONFIGURATION", &configuration(comparison, &names));
    let caption =
        "What the devices do with their time, mean over ranks; better by: less time, in percent.";
    section(
        "TIME OF THE DEVICES",
        &table(comparison, &names, "GPU_Summary_Cmp", "time_ms", caption),
    );
    let caption = match tests {
        1 => {
            "change: of the value; better by: the same, positive is better; noise: the standard error of the change that the steps of the runs give."
        }
        _ => "better by: the change in percent, positive is better.",
    };
    section("METRICS", &table(comparison, &names, "Metrics_Cmp", "", caption));
    if let Some(sheet) = &comparison.ranking {
        section("RANKING", &ranking(sheet));
    }
    out
}

/// What the runs state of themselves, where it is not the same.
fn configuration(comparison: &Comparison, names: &[String]) -> Block {
    let known: Vec<Option<&Sheet>> = comparison
        .runs
        .iter()
        .map(|run| run.sheets.iter().find(|s| s.name == "configuration"))
        .collect();
    let columns = known.iter().flatten().next().map(|s| &s.columns[..]).unwrap_or_default();
    let mut rows = Vec::new();
    for column in columns {
        let cells: Vec<&Value> = known
            .iter()
            .map(|sheet| {
                let row = sheet.and_then(|s| Some((s, s.rows.first()?)));
                row.map_or(&Value::Null, |(sheet, row)| sheet.cell(row, &column.name))
            })
            .collect();
        if cells.iter().any(|c| *c != cells[0]) {
            let name = human(&column.name.replace('_', " ").into(), None);
            let unit = column.unit.as_deref();
            rows.push([vec![name], cells.iter().map(|c| human(c, unit)).collect()].concat());
        }
    }
    if rows.is_empty() {
        return Block::Note("nothing that is known of the runs differs".to_owned());
    }
    Block::Table {
        caption: "What is known of the runs, and not the same in all.".to_owned(),
        headings: [vec!["".to_owned()], names.to_vec()].concat(),
        numbers: vec![false; names.len() + 1],
        rows,
    }
}

/// A sheet of all tests, a row for each key: of one test the change, its status and what the
/// metric varies anyway, of several each with its change.
fn table(
    comparison: &Comparison,
    names: &[String],
    sheet: &str,
    value: &str,
    caption: &str,
) -> Block {
    let sheets: Vec<&Sheet> =
        (0..names.len() - 1).filter_map(|test| comparison.sheet(test, sheet)).collect();
    let Some(first) = sheets.first() else {
        return Block::Note("there is no such comparison".to_owned());
    };
    let place = |side: &str| match value {
        "" => side.to_owned(),
        value => format!("{side}_{value}"),
    };
    let (base, test) = (place("base"), place("test"));
    // Keys of any test: a metric may have a value in one of them alone.
    let mut keys: Vec<&Value> = Vec::new();
    for sheet in &sheets {
        for row in &sheet.rows {
            if !keys.contains(&&row[0]) {
                keys.push(&row[0]);
            }
        }
    }
    if keys.is_empty() {
        let reason = first.reason.as_deref().unwrap_or("there are no rows");
        return Block::Note(plain_text(reason));
    }
    let fixed = first.index(&base).and_then(|i| first.columns[i].unit.clone());
    let single = sheets.len() == 1;
    let change = first.index("change_pct").is_some();
    let mut rows = Vec::new();
    for key in keys {
        let found: Vec<(&Sheet, Option<&Vec<Value>>)> =
            sheets.iter().map(|s| (*s, s.rows.iter().find(|row| row[0] == *key))).collect();
        let cell = |of: &(&Sheet, Option<&Vec<Value>>), column: &str| match of.1 {
            Some(row) => of.0.cell(row, column).clone(),
            None => Value::Null,
        };
        let any = found.iter().find(|f| f.1.is_some()).copied().unwrap_or(found[0]);
        let unit = cell(&any, "unit").as_str().map(str::to_owned).or(fixed.clone());
        let shown = |v: &Value| human(v, unit.as_deref());
        let mut line = vec![human(key, None), shown(&cell(&any, &base))];
        for of in &found {
            line.push(shown(&cell(of, &test)));
            if single && change {
                line.push(percent(&cell(of, "change_pct"), true));
            }
            line.push(percent(&cell(of, "improvement_pct"), true));
            if single {
                line.push(cell(of, "status").as_str().unwrap_or("").to_owned());
                line.push(percent(&cell(of, "noise_pct"), false));
            }
        }
        rows.push(line);
    }
    let mut headings = vec![first.columns[0].name.clone(), names[0].clone()];
    for name in &names[1..] {
        headings.push(name.clone());
        headings.extend((single && change).then(|| "change".to_owned()));
        headings.push("better by".to_owned());
        if single {
            headings.extend(["status".to_owned(), "noise".to_owned()]);
        }
    }
    // What does not rest on steps has no noise.
    let last = headings.len() - 1;
    if single && rows.iter().all(|row| row[last].is_empty()) {
        headings.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    let words = ["status", first.columns[0].name.as_str()];
    let numbers = headings.iter().map(|h| !words.contains(&&**h)).collect();
    Block::Table { caption: caption.to_owned(), headings, numbers, rows }
}

fn ranking(sheet: &Sheet) -> Block {
    if sheet.rows.is_empty() {
        let reason = sheet.reason.as_deref().unwrap_or("there are no rows");
        return Block::Note(plain_text(reason));
    }
    let cell = |row: &[Value], column: &str| sheet.cell(row, column).clone();
    let rows = sheet
        .rows
        .iter()
        .map(|row| {
            let unit = cell(row, "unit");
            vec![
                human(&cell(row, "place"), None),
                human(&cell(row, "label"), None),
                human(&cell(row, "metric"), None),
                human(&cell(row, "value"), unit.as_str()),
                percent(&cell(row, "behind_pct"), false),
            ]
        })
        .collect();
    Block::Table {
        caption: plain_text(&sheet.summary),
        headings: ["place", "label", "metric", "value", "behind"].map(str::to_owned).to_vec(),
        numbers: vec![true, false, false, true, true],
        rows,
    }
}

/// Two decimals, the sign where it says something; nothing where there is no number.
fn percent(value: &Value, signed: bool) -> String {
    let Some(number) = value.as_f64() else { return String::new() };
    // What is cut to zero has no sign.
    let number = if number.abs() < 0.005 { 0.0 } else { number };
    if signed && number != 0.0 { format!("{number:+.2} %") } else { format!("{number:.2} %") }
}

/// A row for each test and metric, values as they are.
///
/// # Errors
/// None in this form.
pub fn csv(comparison: &Comparison) -> Result<Vec<u8>> {
    let mut columns = vec!["base_label".to_owned(), "test_label".to_owned()];
    let mut rows = Vec::new();
    for (test, run) in comparison.runs[1..].iter().enumerate() {
        let Some(sheet) = comparison.sheet(test, "Metrics_Cmp") else { continue };
        columns.truncate(2);
        columns.extend(sheet.columns.iter().map(|c| c.name.clone()));
        for row in &sheet.rows {
            let labels = vec![comparison.runs[0].label.clone().into(), run.label.clone().into()];
            rows.push([labels, row.clone()].concat());
        }
    }
    Grid { columns, rows, ..Grid::default() }.bytes(Format::Csv, usize::MAX)
}
