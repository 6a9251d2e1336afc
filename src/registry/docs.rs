//! Documents from headers and schema: what `show` prints, `docs/metrics.md`, `docs/event_tables.md`.

use serde_json::{Value, json};

use super::header::Kind;
use super::{Registry, SqlFile};
use crate::schema::{Made, TABLES, Table};

/// A metric or view as plain text.
pub fn file(file: &SqlFile, versions: &[&SqlFile]) -> String {
    let h = &file.header;
    let mut out = h.name.clone();
    if h.kind == Kind::Metric {
        out.push_str(&format!(" (version {}, {})", h.version, h.unit().unwrap_or("no unit")));
    }
    out.push_str(&format!("\n\n{}\n", h.summary));
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.push_str(&format!("\n{title}:\n"));
            for line in lines {
                out.push_str(&format!("  {line}\n"));
            }
        }
    };
    section("Value", h.value.iter().cloned().collect());
    section(
        "Parameters",
        h.params
            .iter()
            .map(|p| {
                format!(
                    "{} {} = {}: {}",
                    p.name,
                    p.ty,
                    p.default.as_deref().unwrap_or("NULL"),
                    p.doc
                )
            })
            .collect(),
    );
    section(
        "Columns",
        h.columns
            .iter()
            .map(|c| {
                let unit = c.unit.as_deref().map(|u| format!(" [{u}]")).unwrap_or_default();
                let better =
                    c.better.as_deref().map(|b| format!(" ({b} is better)")).unwrap_or_default();
                format!("{} {}{unit}{better}: {}", c.name, c.ty, c.doc)
            })
            .collect(),
    );
    if h.kind == Kind::Metric {
        section("From traces of", vec![h.profilers.join(", ")]);
        section("Ranges set by hand (NVTX)", vec![h.nvtx.clone()]);
    }
    section("Needs", vec![h.requires.join(", ")].into_iter().filter(|l| !l.is_empty()).collect());
    section("Applies only if not", h.checks.iter().map(|c| c.right.clone()).collect());
    section("Warns of a trace", h.warns.iter().map(|w| w.right.clone()).collect());
    section("Beware", h.caveats.clone());
    section("NULL means", h.nulls.clone());
    section("Also called", h.aliases.clone());
    section("Source", h.sources.clone());
    section("Versions", versions.iter().map(|v| format!("{} ({})", v.id(), v.path)).collect());
    out
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
    json!({
        "kind": if metric { "metric" } else { "view" },
        "name": h.name, "version": metric.then_some(h.version), "area": metric.then_some(&h.area),
        "summary": h.summary, "value": h.value, "unit": h.unit(),
        "better": h.value_column().and_then(|c| c.better.as_deref()),
        "params": params, "columns": columns, "requires": h.requires,
        "profilers": metric.then_some(&h.profilers), "nvtx": metric.then_some(&h.nvtx),
        "checks": h.checks.iter().map(|c| &c.right).collect::<Vec<_>>(),
        "warns": h.warns.iter().map(|w| &w.right).collect::<Vec<_>>(),
        "caveats": h.caveats, "nulls": h.nulls, "aliases": h.aliases, "sources": h.sources,
        "versions": versions.iter().map(|v| v.header.version).collect::<Vec<_>>(),
        "path": file.path, "sql": file.query(),
    })
}

/// A table for programs.
pub fn table_json(table: &Table) -> Value {
    let trace = json!({"name": "trace", "type": "VARCHAR", "doc": "Name of the ingested trace."});
    let columns =
        table.columns.iter().map(|c| json!({"name": c.name, "type": c.ty.sql(), "doc": c.doc}));
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

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

/// `docs/metrics.md`.
pub fn metrics_page(registry: &Registry) -> String {
    let mut out = String::from(
        "# Metrics\n\nGenerated by `ccl-sql check --write` from the headers of `sql/metrics`. \
         `ccl-sql show NAME` prints a definition with its SQL.\n",
    );
    let mut files: Vec<&SqlFile> = registry.metrics().collect();
    files.sort_by_key(|f| (&f.header.area, &f.header.name));
    let mut area = "";
    for file in files {
        let h = &file.header;
        if h.area != area {
            area = &h.area;
            out.push_str(&format!("\n## {area}\n"));
        }
        let better = h.value_column().and_then(|c| c.better.as_deref());
        out.push_str(&format!(
            "\n### {}\n\n{}\n\nVersion {}; unit `{}`{}; from traces of {}; needs {}; ranges set by hand: {}.\n",
            h.name,
            h.summary,
            h.version,
            h.unit().unwrap_or("-"),
            better.map(|b| format!(", {b} is better")).unwrap_or_default(),
            h.profilers.join(", "),
            if h.requires.is_empty() {
                "any trace".to_owned()
            } else {
                format!("`{}`", h.requires.join("`, `"))
            },
            h.nvtx,
        ));
        for check in &h.checks {
            out.push_str(&format!("\n- No value when: {}.\n", check.right));
        }
        for warn in &h.warns {
            out.push_str(&format!("\n- Warns of a trace: {}.\n", warn.right));
        }
        for caveat in &h.caveats {
            out.push_str(&format!("\n- Beware: {caveat}\n"));
        }
        if !h.aliases.is_empty() {
            out.push_str(&format!("\nAlso called `{}`.\n", h.aliases.join("`, `")));
        }
        if !h.params.is_empty() {
            out.push_str("\n| parameter | type | default | meaning |\n| --- | --- | --- | --- |\n");
            for p in &h.params {
                out.push_str(&format!(
                    "| `{}` | {} | {} | {} |\n",
                    p.name,
                    p.ty,
                    p.default.as_deref().unwrap_or("NULL"),
                    escape(&p.doc)
                ));
            }
        }
        out.push_str("\n| column | type | unit | meaning |\n| --- | --- | --- | --- |\n");
        for c in &h.columns {
            out.push_str(&format!(
                "| `{}` | {} | {} | {} |\n",
                c.name,
                c.ty,
                c.unit.as_deref().unwrap_or("-"),
                escape(&c.doc)
            ));
        }
        out.push_str(&format!("\nSource: {}.\n", h.sources.join("; ")));
    }
    out
}

/// `docs/event_tables.md`.
pub fn tables_page(registry: &Registry) -> String {
    let mut out = String::from(
        "# Tables and views\n\nGenerated by `ccl-sql check --write` from the schema and the headers of \
         `sql/views`. Every table has `trace` in front, the name of the ingested trace. Times are \
         integer nanoseconds; what a source lacks is NULL.\n",
    );
    for t in TABLES {
        let made = if t.made == Made::Ingest {
            "Made by ingest."
        } else {
            "Derived at the end of an ingest."
        };
        out.push_str(&format!("\n## {}\n\nA row is {}. {made}\n", t.name, t.doc));
        out.push_str("\n| column | type | meaning |\n| --- | --- | --- |\n");
        for c in t.columns {
            out.push_str(&format!("| `{}` | {} | {} |\n", c.name, c.ty.sql(), escape(c.doc)));
        }
    }
    for v in registry.views().filter(|v| !v.header.name.starts_with('_')) {
        out.push_str(&format!("\n## {}\n\nA view. {}\n", v.header.name, v.header.summary));
        out.push_str("\n| column | type | meaning |\n| --- | --- | --- |\n");
        for c in &v.header.columns {
            out.push_str(&format!("| `{}` | {} | {} |\n", c.name, c.ty, escape(&c.doc)));
        }
    }
    out
}
