//! The description of a trace, for `show TRACE`.

use serde_json::{Map, Value, json};

use crate::cli::context::Context;
use crate::cli::output::table_form;
use crate::cli::shape;
use crate::cli::terminal::clean;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::report::{Format, Grid};
use crate::schema::SCHEMA_VERSION;
use crate::store::manifest::{Manifest, SourceFile, Stored};

/// Parts of the description that the tables hold, with their queries.
const TABLES: [(&str, &str); 4] = [
    (
        "ranks",
        "SELECT rank, source, host, device_name, world_size, backend, rank_source
         FROM ranks ORDER BY rank, source, source_id",
    ),
    (
        "steps",
        "SELECT source, marker, count(DISTINCT step) AS steps, min(step) AS first_step,
             max(step) AS last_step, count(DISTINCT rank) AS ranks
         FROM steps GROUP BY source, marker ORDER BY source, marker",
    ),
    (
        "findings",
        "SELECT l.severity, l.code, l.count, s.path, l.message
         FROM ingest_log AS l LEFT JOIN sources AS s ON s.source_id = l.source_id
         ORDER BY l.severity, l.code, s.path, l.message",
    ),
    ("card", "SELECT * EXCLUDE (trace, card) FROM cards"),
];

/// Longest cell: a finding says in a sentence what was seen, and a path may be long.
const LONGEST_CELL: usize = 400;

/// The fields of a trace that say most.
const BRIEF: [&str; 10] = [
    "trace",
    "unusable",
    "folder",
    "profilers",
    "ranks_count",
    "events",
    "steps",
    "findings.severity",
    "findings.code",
    "findings.message",
];

/// Prints the description of a trace.
///
/// # Errors
/// `trace-unknown` for one that cannot be understood, `sql`, `io`.
pub fn show(context: &Context, trace: &str) -> Result<()> {
    let parts = parts(context, trace)?;
    match table_form(context, "show")? {
        Format::Json => {
            let json = shape::json(context, &BRIEF, as_json(parts))?;
            context.printer.result(&json)
        }
        Format::Table => context.printer.result(text(&parts)?.as_bytes()),
        _ => Err(Error::new("usage", "what a trace is has no such form").hint("table or json")),
    }
}

/// The description of a trace as JSON.
///
/// # Errors
/// As [`show`].
pub fn described(context: &Context, trace: &str) -> Result<Value> {
    Ok(as_json(parts(context, trace)?))
}

/// The parts of a description.
struct Parts {
    facts: Map<String, Value>,
    grids: Vec<(&'static str, Grid)>,
    manifest: Manifest,
}

fn parts(context: &Context, trace: &str) -> Result<Parts> {
    let directory = context.store.directory(trace);
    let manifest = Manifest::parse(&directory)?;
    let unusable = manifest.damage(&directory).or_else(|| {
        let version = manifest.schema_version;
        let other = version != SCHEMA_VERSION;
        other.then(|| format!("its tables are of version {version}, not {SCHEMA_VERSION}"))
    });
    let mut grids = vec![("sources", sources(&manifest))];
    if unusable.is_none() {
        let directories = context.directories(&[trace.to_owned()])?;
        let engine = Engine::open(&directories, &context.registry, &context.settings())?;
        for name in ["ranks", "steps", "ingest_log", "sources", "cards"] {
            engine.make(name)?;
        }
        for (name, sql) in TABLES {
            grids.push((name, query(&engine, sql)?));
        }
    }
    let facts = facts(&manifest, unusable);
    Ok(Parts { facts, grids, manifest })
}

/// The rows of a query.
fn query(engine: &Engine<'_>, sql: &str) -> Result<Grid> {
    let mut statement = engine.connection.prepare(sql)?;
    Ok(Grid::of_batches(statement.query_arrow([])?.collect()))
}

/// Facts about the trace as a whole; those that nobody stated are left out.
fn facts(manifest: &Manifest, unusable: Option<String>) -> Map<String, Value> {
    let text = |path: &std::path::Path| Value::from(path.display().to_string());
    let mut out = Map::new();
    let mut add = |key: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if !is_empty {
            out.insert(key.to_owned(), value);
        }
    };
    add("trace", manifest.trace.clone().into());
    add("earlier_names", manifest.aliases.clone().into());
    add("unusable", unusable.map_or(Value::Null, Value::from));
    add("folder", text(&manifest.root));
    add("profilers", manifest.kinds().iter().map(|source| source.word()).collect());
    add("ranks_count", manifest.ranks().len().into());
    add("events", manifest.sources.iter().map(|s| s.events).sum::<u64>().into());
    add("fingerprint", manifest.fingerprint().into());
    add("ccl_sql", manifest.ccl_sql.clone().into());
    add("schema_version", manifest.schema_version.into());
    let kept = manifest.kept.clone().unwrap_or_default();
    let mut options = Map::new();
    let name = manifest.wanted.as_ref().unwrap_or(&manifest.trace);
    for (key, value) in [
        ("path", kept.paths.iter().map(|path| text(&path.0)).collect()),
        ("name", if manifest.named { name.clone().into() } else { Value::Null }),
        ("source", kept.source.map_or(Value::Null, Value::from)),
        ("rank", {
            let one = |(rank, path): &(i64, Stored)| format!("{rank}={}", path.0.display());
            kept.ranks.iter().map(one).collect()
        }),
        ("memory", kept.memory.iter().map(|path| text(&path.0)).collect()),
        ("card", kept.card.map_or(Value::Null, |f| text(&f.path.0))),
        ("config", kept.config.map_or(Value::Null, |f| text(&f.path.0))),
        ("step_range", manifest.asked.step_range.clone().map_or(Value::Null, Value::from)),
        ("keep_partial", if manifest.asked.keep_partial { true.into() } else { Value::Null }),
    ] {
        if !matches!(&value, Value::Null) && value.as_array().is_none_or(|list| !list.is_empty()) {
            options.insert(key.to_owned(), value);
        }
    }
    add("options", Value::Object(options));
    out
}

/// The files of the trace, and those that were set aside.
fn sources(manifest: &Manifest) -> Grid {
    let row = |s: &SourceFile, role: &str| {
        vec![
            role.into(),
            s.rank.map_or(Value::Null, Value::from),
            if role == "card" { Value::Null } else { s.source.word().into() },
            s.bytes.into(),
            s.events.into(),
            s.skipped.into(),
            s.absolute.display().to_string().into(),
        ]
    };
    let read = manifest.sources.iter().map(|s| row(s, "trace"));
    let cards = manifest.cards.iter().map(|s| row(s, "card"));
    let aside = manifest.set_aside.iter().map(|s| row(s, "set aside"));
    Grid::of_rows(
        &["role", "rank", "source", "bytes", "events", "skipped", "path"],
        read.chain(cards).chain(aside).collect(),
    )
}

/// The description as one JSON object.
fn as_json(Parts { mut facts, grids, manifest }: Parts) -> Value {
    for (name, grid) in &grids {
        let rows = grid.objects();
        let value = match *name {
            "card" => rows.get(0).cloned().unwrap_or_default(),
            _ => rows,
        };
        facts.insert((*name).to_owned(), value);
    }
    facts.insert("tables".to_owned(), json!(manifest.rows));
    Value::Object(facts)
}

/// The description as text.
fn text(Parts { facts, grids, manifest }: &Parts) -> Result<String> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let texts: Vec<String> = list
                .iter()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect();
            texts.join(", ")
        }
        other => other.to_string(),
    };
    let mut out = format!("{}\n\n", manifest.trace);
    for (key, value) in facts.iter().filter(|(key, _)| !matches!(&***key, "trace" | "options")) {
        out.push_str(&format!("  {key:<16} {}\n", shown(value)));
    }
    let options = facts.get("options").and_then(Value::as_object);
    out.push_str("\noptions of reading:\n");
    for (key, value) in options.into_iter().flatten() {
        out.push_str(&format!("  {key:<16} {}\n", shown(value)));
    }
    for (name, grid) in grids {
        out.push_str(&format!("\n{name}:\n"));
        if grid.rows.is_empty() {
            out.push_str("  none\n");
        } else if *name == "card" {
            for (column, value) in grid.columns.iter().zip(&grid.rows[0]) {
                if !value.is_null() {
                    out.push_str(&format!("  {column:<20} {}\n", shown(value)));
                }
            }
        } else {
            let table = grid.bytes(Format::Table, LONGEST_CELL)?;
            for line in String::from_utf8_lossy(&table).lines() {
                out.push_str(&format!("  {line}\n"));
            }
        }
    }
    out.push_str("\nrows of tables:\n");
    for (table, rows) in &manifest.rows {
        out.push_str(&format!("  {table:<24} {rows:>12}\n"));
    }
    // Paths and findings quote what strangers wrote.
    Ok(clean(&out))
}
