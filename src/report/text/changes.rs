//! A comparison for people, as text, and for scripts, as CSV. Every number is one of its sheets.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::error::Result;
use crate::registry::units::{human, plain_text};
use crate::report::comparison::Comparison;
use crate::report::grid::Grid;
use crate::report::grid::format::Format;
use crate::report::grid::value::cut;
use crate::report::sheet::Sheet;
use crate::report::text::block::Block;
use crate::report::text::text_block;

/// Labels wider than this stand above the tables only.
const WIDEST_LABEL: usize = 24;

/// Most rows of what changed, and most words of it in a line.
const MOST_CHANGES: (usize, usize) = (12, 4);

/// Most kernels and operators of the text; the page and the workbook have all.
const MOST_COSTS: usize = 12;

/// Names of kernels are cut to this many columns in the text.
const WIDEST_NAME: usize = 56;

/// The runs, the time of their devices, their metrics, what their kernels and operators take, and
/// of several tests their order.
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
        "made by ccl-sql {}; a change is (test - base) / base\n",
        env!("CARGO_PKG_VERSION"),
    ));
    out.push_str(&format!(
        "Similar: up to {} %, within noise, or less than 0.5 % of a step\n",
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
    section(&mut out, "CONFIGURATION", &configuration(comparison, &names));
    for test in 0..tests {
        let of = if tests == 1 { String::new() } else { format!(": {}", names[test + 1]) };
        let Some(sheet) = comparison.sheet(test, "Change_Account") else { continue };
        section(
            &mut out,
            &format!("WHAT CHANGED{of}"),
            &changed(sheet, [&names[0], &names[test + 1]]),
        );
    }
    let (times, caption) = if is_stepped(comparison) {
        (&STEP_TIMES, "What the devices do with their time in a step, mean over ranks.")
    } else {
        (&RUN_TIMES, "What the devices do with their time in the whole run, mean over ranks.")
    };
    section(&mut out, "TIME OF THE DEVICES", &table(comparison, &names, times, caption));
    let caption = if tests == 1 {
        "The largest effect on a step first. change: of the value; of a step: what the change is \
         of a step of the base, + is longer; noise: the standard error of the change that the \
         steps of the runs give."
    } else {
        "The largest effect on a step first; changes of the values."
    };
    section(&mut out, "METRICS", &table(comparison, &names, &METRICS, caption));
    if let Some(note) = notes(comparison) {
        text_block(&mut out, &Block::Note(note));
    }
    for test in 0..tests {
        let of = if tests == 1 { String::new() } else { format!(": {}", names[test + 1]) };
        for (title, sheet, what) in
            [("KERNELS", "Kernel_Cmp", "name"), ("OPERATORS", "Op_Cmp", "op_name")]
        {
            let Some(sheet) = comparison.sheet(test, sheet) else { continue };
            let block = costs(sheet, what, [&names[0], &names[test + 1]]);
            section(&mut out, &format!("{title}{of}"), &block);
        }
    }
    if let Some(sheet) = &comparison.ranking {
        section(&mut out, "RANKING", &ranking(sheet));
    }
    out
}

/// A section with its title.
fn section(out: &mut String, title: &str, block: &Block) {
    out.push_str(&format!("\n\n{title}\n{}\n", "-".repeat(title.width())));
    text_block(out, block);
}

/// A measure of several tests: the sheet and the columns that hold it.
struct Measure {
    sheet: &'static str,
    base: &'static str,
    test: &'static str,
    change: &'static str,
}

const RUN_TIMES: Measure = Measure {
    sheet: "GPU_Summary_Cmp",
    base: "base_time_ms",
    test: "test_time_ms",
    change: "change_pct",
};

const STEP_TIMES: Measure = Measure {
    sheet: "GPU_Summary_Cmp",
    base: "base_step_ms",
    test: "test_step_ms",
    change: "step_change_pct",
};

const METRICS: Measure =
    Measure { sheet: "Metrics_Cmp", base: "base", test: "test", change: "change_pct" };

/// Whether every run has steps: then times of the devices are told per step.
fn is_stepped(comparison: &Comparison) -> bool {
    comparison.sheets.iter().all(|sheets| {
        let times = sheets.iter().find(|s| s.name == STEP_TIMES.sheet);
        times.is_some_and(|s| s.rows.iter().any(|r| !s.cell(r, STEP_TIMES.base).is_null()))
    })
}

/// The meaning of the notes that stand beside metrics. Only the table of a single test has notes.
fn notes(comparison: &Comparison) -> Option<String> {
    let [sheets] = &comparison.sheets[..] else { return None };
    let sheet = sheets.iter().find(|s| s.name == METRICS.sheet)?;
    let said = |note: &str| sheet.rows.iter().any(|row| *sheet.cell(row, "note") == *note);
    let known: Vec<String> = NOTES
        .iter()
        .filter(|(note, _)| said(note))
        .map(|(note, meaning)| format!("{note}: {meaning}"))
        .collect();
    (!known.is_empty()).then(|| format!("Notes. {}.", known.join("; ")))
}

/// Notes of `metric_cmp`.
const NOTES: [(&str, &str); 8] = [
    ("measurement", "of the clocks that measured, not of the run"),
    (
        "unlike work",
        "whole recordings without steps, of unlike numbers of kernels, cannot be judged",
    ),
    ("within noise", "the steps of a run vary as much"),
    ("trifle", "less than 0.5 % of a step"),
    ("other way", "a share of steps of unlike length; the time behind it moved the other way"),
    ("per step", "the runs have unlike numbers of steps, and are judged per step"),
    ("one step", "a value rests on a single step, so that its noise is not known"),
    ("whole run", "there are no steps to compare by"),
];

/// The parts of the configurations that are not the same in all runs.
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

/// A sheet of all tests, a row for each key: value, change and status of each test; of one test
/// what the change is of a step, what the metric varies anyway, and what to know of it.
fn table(comparison: &Comparison, names: &[String], measure: &Measure, caption: &str) -> Block {
    let sheets: Vec<&Sheet> =
        (0..names.len() - 1).filter_map(|test| comparison.sheet(test, measure.sheet)).collect();
    let Some(first) = sheets.first() else {
        return Block::Note("there is no such comparison".to_owned());
    };
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
        return Block::Note(first.why_empty());
    }
    let fixed = first.index(measure.base).and_then(|i| first.columns[i].unit.clone());
    let single = sheets.len() == 1;
    let mut headings = vec![first.columns[0].name.clone(), names[0].clone()];
    let mut numbers = vec![false, true];
    for name in &names[1..] {
        headings.extend([name.clone(), "change".to_owned()]);
        numbers.extend([true, true]);
        if single {
            headings.push("of a step".to_owned());
            numbers.push(true);
        }
        headings.push("status".to_owned());
        numbers.push(false);
    }
    if single {
        headings.extend(["noise".to_owned(), "note".to_owned()]);
        numbers.extend([true, false]);
    }
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
        let word = |v: Value| v.as_str().map(plain_text).unwrap_or_default();
        let mut line = vec![human(key, None), shown(&cell(&any, measure.base))];
        for of in &found {
            line.push(shown(&cell(of, measure.test)));
            line.push(percent(&cell(of, measure.change), true));
            if single {
                line.push(percent(&cell(of, "effect_pct"), true));
            }
            line.push(word(cell(of, "status")));
            if single {
                line.push(percent(&cell(of, "noise_pct"), false));
                line.push(word(cell(of, "note")));
            }
        }
        rows.push(line);
    }
    // Times of the devices have neither noise nor notes.
    while single && rows.iter().all(|row| row.last().is_some_and(String::is_empty)) {
        headings.pop();
        numbers.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    Block::Table { caption: caption.to_owned(), headings, numbers, rows }
}

/// The times of kernels or operators in both runs, the largest effect first.
fn costs(sheet: &Sheet, what: &str, [base, test]: [&String; 2]) -> Block {
    let Some(first) = sheet.rows.first() else {
        return Block::Note(sheet.why_empty());
    };
    let unit = plain_text(sheet.cell(first, "unit").as_str().unwrap_or_default());
    let rows = sheet.rows.iter().take(MOST_COSTS).map(|row| {
        let shown = |column: &str, unit: &str| match sheet.cell(row, column) {
            Value::Null => "-".to_owned(),
            value => human(value, Some(unit)),
        };
        let mut line = vec![cut(&human(sheet.cell(row, what), None), WIDEST_NAME)];
        line.push(shown("base_total_ms", "ms"));
        line.push(shown("test_total_ms", "ms"));
        line.push(percent(sheet.cell(row, "total_change_pct"), true));
        line.push(percent(sheet.cell(row, "effect_pct"), true));
        line.push(sheet.cell(row, "status").as_str().map(plain_text).unwrap_or_default());
        line.push(shown("base_kernel_count", "count"));
        line.push(shown("test_kernel_count", "count"));
        line.push(percent(sheet.cell(row, "mean_change_pct"), true));
        line
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let cut = match sheet.rows.len() {
        all if all > rows.len() => format!(" {} of {all} are shown.", rows.len()),
        _ => String::new(),
    };
    Block::Table {
        caption: format!(
            "Durations of all kernels in a {unit} of a rank, the largest difference first; \
             mean: of a kernel.{cut}"
        ),
        headings: [
            what,
            base,
            test,
            "change",
            &format!("of a {unit}"),
            "status",
            "count (base)",
            "(test)",
            "mean",
        ]
        .map(str::to_owned)
        .to_vec(),
        numbers: vec![false, true, true, true, true, false, true, true, true],
        rows,
    }
}

/// What the change of the step time consists of: in words, and its largest rows.
fn changed(sheet: &Sheet, [base, test]: [&str; 2]) -> Block {
    let Some(first) = sheet.rows.first() else {
        return Block::Note(sheet.why_empty());
    };
    let number = |row: &[Value], column: &str| sheet.cell(row, column).as_f64().unwrap_or(0.0);
    let ms = |ms: f64| human(&ms.into(), Some("ms"));
    let signed = |by: f64| format!("{}{}", if by < 0.0 { "-" } else { "+" }, ms(by.abs()));
    let mut whats: Vec<(String, f64)> = Vec::new();
    for row in &sheet.rows {
        let (what, by) = (human(sheet.cell(row, "what"), None), number(row, "change_ms"));
        match whats.iter_mut().find(|(w, _)| *w == what) {
            Some((_, sum)) => *sum += by,
            None => whats.push((what, by)),
        }
    }
    whats.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let words = whats.iter().take(MOST_CHANGES.1);
    let words: Vec<String> =
        words.map(|(what, by)| format!("{} {}", signed(*by), cut(what, WIDEST_NAME))).collect();
    let (old, new) = (number(first, "base_step_ms"), number(first, "test_step_ms"));
    let unit = human(sheet.cell(first, "per"), None);
    let mut caption = format!(
        "a {unit} takes {} in place of {}: {} = {}",
        ms(new),
        ms(old),
        signed(new - old),
        words.join(", ")
    );
    if whats.len() > MOST_CHANGES.1 {
        caption.push_str(", and smaller ones");
    }
    let rows = sheet.rows.iter().take(MOST_CHANGES.0).map(|row| {
        vec![
            cut(&human(sheet.cell(row, "what"), None), WIDEST_NAME),
            human(sheet.cell(row, "effect"), None),
            ms(number(row, "base_ms")),
            ms(number(row, "test_ms")),
            signed(number(row, "change_ms")),
            percent(sheet.cell(row, "change_pct"), true),
        ]
    });
    let rows = rows.collect();
    if sheet.rows.len() > MOST_CHANGES.0 {
        caption.push_str(&format!(
            ". The first {} of {} rows, which sum to the change",
            MOST_CHANGES.0,
            sheet.rows.len()
        ));
    }
    Block::Table {
        caption: plain_text(&caption),
        headings: ["what", "effect", base, test, "adds", &format!("of a {unit}")]
            .map(str::to_owned)
            .to_vec(),
        numbers: vec![false, false, true, true, true, true],
        rows,
    }
}

fn ranking(sheet: &Sheet) -> Block {
    if sheet.rows.is_empty() {
        return Block::Note(sheet.why_empty());
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
                human(&cell(row, "step_count"), Some("count")),
            ]
        })
        .collect();
    Block::Table {
        caption: plain_text(&sheet.summary),
        headings: ["place", "label", "metric", "value", "behind", "steps"]
            .map(str::to_owned)
            .to_vec(),
        numbers: vec![true, false, false, true, true, true],
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
