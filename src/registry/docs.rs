//! What `show` prints of a metric, view or table, from headers and schema.

use serde_json::{Value, json};

use super::SqlFile;
use super::header::{Column, Header, Kind, Param};
use super::units::suffix;
use crate::schema::{Made, Table};

/// A metric or view as plain text.
pub fn file(file: &SqlFile, versions: &[&SqlFile]) -> String {
    let h = &file.header;
    let mut out = h.name.clone();
    match h.kind {
        Kind::Metric => {
            let unit = h.unit().unwrap_or("no unit");
            out.push_str(&format!(" (version {}, {unit})", h.version));
        }
        Kind::Diagnosis => out.push_str(&format!(" (diagnosis, version {})", h.version)),
        Kind::View | Kind::Derived | Kind::Comparison => {}
    }
    out.push_str(&format!("\n\n{}\n", h.summary));
    for (title, lines) in sections(h, versions) {
        if !lines.is_empty() {
            out.push_str(&format!("\n{title}:\n"));
            lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
    }
    out
}

fn sections(h: &Header, versions: &[&SqlFile]) -> Vec<(&'static str, Vec<String>)> {
    let asked = matches!(h.kind, Kind::Metric | Kind::Diagnosis);
    let of_asked = |line: String| if asked { vec![line] } else { Vec::new() };
    let gain = Some(h.gain.clone()).filter(|gain| !gain.is_empty());
    let needs = h.requires.join(", ");
    vec![
        ("Value", h.value.iter().cloned().collect()),
        ("Gain", gain.into_iter().collect()),
        ("Shown by", h.shown.iter().cloned().collect()),
        ("Parameters", h.params.iter().map(param).collect()),
        ("Columns", h.columns.iter().map(column).collect()),
        ("From traces of", of_asked(h.profilers.join(", "))),
        ("Ranges set by hand (NVTX)", of_asked(h.nvtx.clone())),
        ("Needs", if needs.is_empty() { Vec::new() } else { vec![needs] }),
        ("Applies only if not", h.checks.iter().map(|c| c.right.clone()).collect()),
        ("Warns of a trace", h.warns.iter().map(|w| w.right.clone()).collect()),
        ("Beware", h.caveats.clone()),
        ("NULL means", h.nulls.clone()),
        ("Also called", h.aliases.clone()),
        ("Source", h.sources.clone()),
        ("Versions", versions.iter().map(|v| format!("{} ({})", v.id(), v.path)).collect()),
    ]
}

fn param(p: &Param) -> String {
    format!("{} {} = {}: {}", p.name, p.ty, p.default.as_deref().unwrap_or("NULL"), p.doc)
}

fn column(c: &Column) -> String {
    let unit = c.unit.as_deref().map(|u| format!(" [{u}]")).unwrap_or_default();
    let better = c.better.as_deref().map(|b| format!(" ({b} is better)")).unwrap_or_default();
    format!("{} {}{unit}{better}: {}", c.name, c.ty, c.doc)
}

/// A metric or view for programs.
pub fn file_json(file: &SqlFile, versions: &[&SqlFile]) -> Value {
    let h = &file.header;
    let columns: Vec<Value> = h
        .columns
        .iter()
        .map(|c| {
            json!({"name": c.name, "type": c.ty, "unit": c.unit, "better": c.better, "doc": c.doc})
        })
        .collect();
    let params: Vec<Value> = h
        .params
        .iter()
        .map(|p| json!({"name": p.name, "type": p.ty, "default": p.default, "doc": p.doc}))
        .collect();
    let metric = h.kind == Kind::Metric;
    let asked = matches!(h.kind, Kind::Metric | Kind::Diagnosis);
    let mut out = json!({
        "kind": if asked { h.kind.word() } else { "view" },
        "name": h.name, "version": asked.then_some(h.version), "area": metric.then_some(&h.area),
        "summary": h.summary, "value": h.value, "unit": h.unit(),
        "better": h.value_column().and_then(|c| c.better.as_deref()),
        "params": params, "columns": columns, "requires": h.requires,
        "profilers": asked.then_some(&h.profilers), "nvtx": metric.then_some(&h.nvtx),
        "checks": h.checks.iter().map(|c| &c.right).collect::<Vec<_>>(),
        "warns": h.warns.iter().map(|w| &w.right).collect::<Vec<_>>(),
        "caveats": h.caveats, "nulls": h.nulls, "aliases": h.aliases, "sources": h.sources,
        "versions": versions.iter().map(|v| v.header.version).collect::<Vec<_>>(),
        "path": file.path, "sql": file.query(),
    });
    if h.kind == Kind::Diagnosis {
        out["gain"] = h.gain.clone().into();
        out["shown"] = h.shown.clone().into();
    }
    out
}

/// A table for programs.
pub fn table_json(table: &Table) -> Value {
    let column = |name: &str, ty: &str, doc: &str| json!({"name": name, "type": ty, "unit": suffix(name), "doc": doc});
    let trace = column("trace", "VARCHAR", "Name of the ingested trace.");
    let columns = table.columns.iter().map(|c| column(c.name, c.ty.sql(), c.doc));
    json!({
        "kind": if table.made == Made::Ingest { "table" } else { "derived table" },
        "name": table.name, "row": table.doc,
        "columns": std::iter::once(trace).chain(columns).collect::<Vec<Value>>(),
    })
}

/// A table as plain text.
pub fn table(table: &Table) -> String {
    let made = if table.made == Made::Ingest {
        "made by ingest"
    } else {
        "derived at the end of an ingest"
    };
    let mut out = format!("{} ({made})\n\nA row is {}.\n\nColumns:\n", table.name, table.doc);
    out.push_str("  trace VARCHAR: Name of the ingested trace.\n");
    for c in table.columns {
        out.push_str(&format!("  {} {}: {}\n", c.name, c.ty.sql(), c.doc));
    }
    out
}
