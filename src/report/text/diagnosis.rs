//! What is wrong with a trace, for people.

use serde_json::Value;

use crate::engine::diagnose::Finding;
use crate::registry::units::{human, plain_text};
use crate::report::diagnosis::{Diagnosis, place};
use crate::report::text::block::{Block, Section};

/// Words for the parts of a step.
const PARTS: [(&str, &str); 14] = [
    ("compute", "compute"),
    ("transfer", "communication, in transfer"),
    ("wait", "communication, waiting for a rank"),
    ("unmatched", "communication, not matched over ranks"),
    ("copy", "copies"),
    ("graph", "graphs"),
    ("launch", "idle: launches do not keep up"),
    ("host", "idle: the host does other work"),
    ("data_loading", "idle: the host loads data"),
    ("sync", "idle: the host had waited for the device"),
    ("kernel_gap", "idle: between queued kernels"),
    ("other", "idle: other"),
    ("unknown", "idle: launches not recorded"),
    ("step", "step"),
];

/// Words for a part of a step.
fn part_name(part: &str) -> &str {
    PARTS.iter().find(|(name, _)| *name == part).map_or(part, |(_, words)| words)
}

/// The section that comes first: what to fix.
pub fn section(diagnosis: &Diagnosis) -> Section {
    let mut blocks = vec![Block::Note(first_line(diagnosis))];
    for (number, finding) in diagnosis.findings().into_iter().enumerate() {
        blocks.push(Block::Facts(facts(diagnosis, number + 1, finding)));
    }
    blocks.extend(rest(diagnosis).into_iter().map(Block::Note));
    blocks.extend(account(diagnosis));
    Section { title: "WHAT TO FIX FIRST".to_owned(), blocks }
}

/// The bounds of `--what-if`.
pub fn what_if(diagnosis: &Diagnosis) -> Section {
    let sheet = &diagnosis.what_if;
    let ms = |value: &Value| human(value, Some("ms"));
    let mut rows: Vec<Vec<String>> = sheet
        .rows
        .iter()
        .map(|row| {
            let cell = |column| sheet.cell(row, column);
            vec![
                human(cell("scenario"), None),
                ms(cell("bound_ms")),
                ms(cell("gain_ms")),
                human(cell("gain_pct"), Some("pct")),
                plain_text(&human(cell("definition"), None)),
            ]
        })
        .collect();
    if let Some((bound, finding)) = diagnosis.without_first() {
        let gain = finding.gain_ms.unwrap_or_default();
        rows.push(vec![
            "without the first finding".to_owned(),
            ms(&bound.into()),
            ms(&gain.into()),
            human(&diagnosis.share_pct(gain).into(), Some("pct")),
            plain_text(&finding.finding),
        ]);
    }
    let block = if rows.is_empty() {
        Block::Note(sheet.why_empty())
    } else {
        let headings = ["what if", "step at least", "gain at most", "of it", "definition"];
        Block::Table {
            caption: "What a step would take at least; each line by itself.".to_owned(),
            headings: headings.iter().map(|h| (*h).to_owned()).collect(),
            numbers: vec![false, true, true, true, false],
            rows,
        }
    };
    Section { title: "WHAT IF".to_owned(), blocks: vec![block] }
}

/// The time of a step, and what it could lose.
fn first_line(diagnosis: &Diagnosis) -> String {
    let findings = diagnosis.findings();
    let Some(step_ms) = diagnosis.step_ms() else {
        let reason = diagnosis.account.reason.as_deref().unwrap_or("no device is in the trace");
        return format!("where the time goes is not known: {}", plain_text(reason));
    };
    let unit = diagnosis.unit();
    let found = match (findings.len(), diagnosis.smaller().len()) {
        (0, 0) => "nothing was found that is wrong".to_owned(),
        (0, _) => format!("nothing was found that gains {} % of it", diagnosis.least_pct),
        (1, _) => "one thing was found that is wrong".to_owned(),
        (n, _) => format!("{n} things were found that are wrong, largest gain first"),
    };
    format!("a {unit} takes {}; {found}", human(&step_ms.into(), Some("ms")))
}

/// The lines of a finding.
fn facts(diagnosis: &Diagnosis, number: usize, finding: &Finding) -> Vec<[String; 3]> {
    let row = |name: &str, text: String| [name.to_owned(), String::new(), plain_text(&text)];
    let gain = match finding.gain_ms {
        None => "no time of a step".to_owned(),
        Some(ms) => {
            let share = diagnosis.share_pct(ms).map_or(String::new(), |pct| {
                format!(" ({} of a {})", human(&pct.into(), Some("pct")), diagnosis.unit())
            });
            format!("at most {}{share}", human(&ms.into(), Some("ms")))
        }
    };
    let mut sure = finding.confidence().to_owned();
    if !finding.limits.is_empty() {
        sure.push_str(&format!(": {}", finding.limits.join("; ")));
    }
    let mut out = vec![row(&format!("{number}."), finding.finding.clone())];
    let place = place(finding);
    if !place.is_empty() {
        out.push(row("where", place));
    }
    out.extend([
        row("gain", gain),
        row("sure", sure),
        row("do", finding.advice.clone()),
        row("see", format!("{}; ccl-sql sql \"{}\"", finding.shown, finding.evidence)),
    ]);
    out
}

/// One line each: what is smaller, what was not found, what could not be looked for.
fn rest(diagnosis: &Diagnosis) -> Vec<String> {
    let mut out = Vec::new();
    let smaller = diagnosis.smaller();
    if !smaller.is_empty() {
        let mut names: Vec<&str> = smaller.iter().map(|f| f.diagnosis.as_str()).collect();
        names.dedup();
        out.push(format!(
            "found, but below {} % of a {}: {}",
            diagnosis.least_pct,
            diagnosis.unit(),
            names.join(", ")
        ));
    }
    let absent = diagnosis.absent();
    if !absent.is_empty() {
        out.push(format!("looked for and not found: {}", absent.join(", ")));
    }
    for (reason, names) in diagnosis.lacking() {
        out.push(format!("not looked for: {}: {}", names.join(", "), plain_text(reason)));
    }
    out
}

/// Where the step goes.
fn account(diagnosis: &Diagnosis) -> Option<Block> {
    let sheet = &diagnosis.account;
    if sheet.rows.is_empty() {
        return None;
    }
    let rows = sheet
        .rows
        .iter()
        .map(|row| {
            let cell = |column| sheet.cell(row, column);
            let most = match (cell("max_rank"), cell("max_ms")) {
                (Value::Null, _) => String::new(),
                (rank, ms) => format!("rank {rank}: {}", human(ms, Some("ms"))),
            };
            let cause = match (cell("cause_rank"), cell("cause_ms")) {
                (Value::Null, _) => String::new(),
                (rank, ms) => format!("for rank {rank}: {}", human(ms, Some("ms"))),
            };
            vec![
                part_name(cell("part").as_str().unwrap_or_default()).to_owned(),
                human(cell("time_ms"), Some("ms")),
                human(cell("share_pct"), Some("pct")),
                human(cell("hidden_ms"), Some("ms")),
                most,
                cause,
            ]
        })
        .collect();
    let headings = ["part", "time", "share", "hidden beside", "most", "mostly"];
    Some(Block::Table {
        caption: format!(
            "account_summary: where a {} goes, mean over the ranks; the parts sum to it",
            diagnosis.unit()
        ),
        headings: headings.iter().map(|h| (*h).to_owned()).collect(),
        numbers: vec![false, true, true, true, false, false],
        rows,
    })
}
