//! `list` and `show`.

use serde_json::{Value, json};

use crate::cli::args::{ListArgs, ShowArgs, What, word_of};
use crate::cli::context::Context;
use crate::cli::output::table_form;
use crate::cli::{select, shape, trace};
use crate::error::{Error, Result, nearest};
use crate::functions::FUNCTIONS;
use crate::registry::areas::{area_heading, area_order};
use crate::registry::{SqlFile, docs};
use crate::report::{Entry, Format, Grid, entries};
use crate::schema::source::joined;
use crate::schema::{self, Made, TABLES};

/// The fields of what is listed, and of a definition, that say most.
const BRIEF: [&str; 13] = [
    "metric",
    "diagnosis",
    "trace",
    "table",
    "function",
    "signature",
    "unit",
    "source",
    "ranks",
    "summary",
    "row",
    "result",
    "findings",
];
const BRIEF_DEFINITION: [&str; 15] = [
    "kind",
    "name",
    "signature",
    "summary",
    "row",
    "result",
    "value",
    "unit",
    "better",
    "params",
    "columns.name",
    "columns.type",
    "columns.unit",
    "caveats",
    "nulls",
];

fn text(value: &str) -> Value {
    match value {
        "" => Value::Null,
        value => value.into(),
    }
}

/// Runs `list`.
pub fn list(context: &Context, args: &ListArgs) -> Result<()> {
    let format = table_form(context, "list")?;
    if let Some(area) = &args.area {
        known_area(context, args.what, area)?;
    }
    let metrics: Vec<&SqlFile> = context
        .registry
        .metrics()
        .filter(|f| args.area.as_ref().is_none_or(|area| f.header.area == *area))
        .collect();
    let mut grid = match args.what {
        What::Metrics => of_metrics(&metrics),
        what => grid(context, what),
    };
    if let Some(word) = args.word.as_deref().map(str::to_lowercase) {
        let of_metric = |row: &[Value]| {
            metrics.iter().find(|f| row[0] == f.header.name.as_str()).map(|f| &f.header.aliases)
        };
        grid.rows.retain(|row| {
            let aliases = match args.what {
                What::Metrics => of_metric(row),
                _ => None,
            };
            row.iter()
                .filter_map(Value::as_str)
                .chain(aliases.into_iter().flatten().map(String::as_str))
                .any(|text| text.to_lowercase().contains(&word))
        });
        if grid.rows.is_empty() {
            let what = word_of(&args.what);
            let message = format!("none of the {what} has `{word}` in its name or description");
            return Err(Error::new("nothing-found", message)
                .hint(format!("`ccl-sql list {what}` shows them all")));
        }
    }
    let bytes = match (format, args.what) {
        (Format::Table, What::Traces) => grid.table(context.printer.layout()),
        (Format::Table, what) => people(&grid, what, context.printer.width()).into_bytes(),
        (Format::Json, _) => shape::json(context, &BRIEF, grid.objects())?,
        (format, _) => grid.bytes(format, usize::MAX)?,
    };
    context.printer.result(&bytes)
}

fn known_area(context: &Context, what: What, area: &str) -> Result<()> {
    if what != What::Metrics {
        return Err(Error::new("usage", "only metrics have an area")
            .hint(format!("ccl-sql list metrics --area {area}")));
    }
    let mut areas: Vec<&str> = context.registry.metrics().map(|f| f.header.area.as_str()).collect();
    areas.sort_unstable();
    areas.dedup();
    if areas.contains(&area) {
        return Ok(());
    }
    let error = Error::new("usage", format!("no metric is of the area `{area}`"));
    Err(match nearest(area, areas.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("the areas: {}", areas.join(", "))),
    })
}

/// Names with what they are, in groups.
fn people(grid: &Grid, what: What, width: Option<usize>) -> String {
    let word = |row: &[Value], i: usize| row[i].as_str().unwrap_or("-").to_owned();
    let mut listed: Vec<&Vec<Value>> = grid.rows.iter().collect();
    if what == What::Metrics {
        listed
            .sort_by_key(|row| (area_order(row[1].as_str().unwrap_or_default()), row[0].as_str()));
    }
    let rows: Vec<Entry> = listed
        .into_iter()
        .map(|row| match what {
            What::Metrics => Entry {
                group: area_heading(&word(row, 1)),
                name: word(row, 0),
                kind: word(row, 2),
                text: word(row, 6),
            },
            What::Diagnoses => Entry {
                group: String::new(),
                name: word(row, 0),
                kind: String::new(),
                text: word(row, 2),
            },
            What::Functions => Entry {
                group: String::new(),
                name: format!("{}{}", word(row, 0), word(row, 1)),
                kind: String::new(),
                text: word(row, 2),
            },
            What::Tables | What::Traces => Entry {
                group: format!("{}s", word(row, 1)),
                name: word(row, 0),
                kind: String::new(),
                text: word(row, 3),
            },
        })
        .collect();
    entries(&rows, width)
}

fn of_metrics(metrics: &[&SqlFile]) -> Grid {
    let rows = metrics.iter().map(|f| {
        let h = &f.header;
        vec![
            h.name.clone().into(),
            text(&h.area),
            h.unit().map_or(Value::Null, Value::from),
            h.profilers.join(" ").into(),
            text(&h.nvtx),
            h.version.into(),
            h.summary.clone().into(),
        ]
    });
    let columns = ["metric", "area", "unit", "sources", "nvtx", "version", "summary"];
    Grid::of_rows(&columns, rows.collect())
}

/// The things of a kind, a row each.
pub fn grid(context: &Context, what: What) -> Grid {
    match what {
        What::Metrics => of_metrics(&context.registry.metrics().collect::<Vec<_>>()),
        What::Diagnoses => {
            let rows = context.registry.diagnoses().map(|f| {
                let h = &f.header;
                vec![h.name.clone().into(), h.version.into(), h.summary.clone().into()]
            });
            Grid::of_rows(&["diagnosis", "version", "summary"], rows.collect())
        }
        What::Traces => {
            let rows = context.store.manifests().into_iter().map(|(_, m)| {
                let ranks = m.ranks();
                vec![
                    m.trace.as_str().into(),
                    joined(&m.kinds(), "+").into(),
                    ranks.len().into(),
                    m.sources.iter().map(|s| s.events).sum::<u64>().into(),
                    m.findings.len().into(),
                    m.root.display().to_string().into(),
                ]
            });
            Grid::of_rows(
                &["trace", "source", "ranks", "events", "findings", "path"],
                rows.collect(),
            )
        }
        What::Tables => {
            let kind = |made| if made == Made::Ingest { "table" } else { "derived table" };
            let tables = TABLES.iter().map(|t| {
                vec![t.name.into(), kind(t.made).into(), (t.columns.len() + 1).into(), t.doc.into()]
            });
            let views =
                context.registry.views().filter(|v| !v.header.name.starts_with('_')).map(|v| {
                    vec![
                        v.header.name.clone().into(),
                        "view".into(),
                        v.header.columns.len().into(),
                        v.header.summary.clone().into(),
                    ]
                });
            Grid::of_rows(&["table", "kind", "columns", "row"], tables.chain(views).collect())
        }
        What::Functions => {
            let rows = FUNCTIONS.iter().map(|(name, signature, doc)| {
                vec![(*name).into(), (*signature).into(), (*doc).into()]
            });
            Grid::of_rows(&["function", "signature", "result"], rows.collect())
        }
    }
}

/// Runs `show`.
pub fn show(context: &Context, args: &ShowArgs) -> Result<()> {
    let found = match find(context, &args.name) {
        Ok(found) => found,
        Err(error) => {
            return match select::named(context, &args.name) {
                Some(trace) => trace::show(context, &trace),
                None => Err(error),
            };
        }
    };
    match table_form(context, "show")? {
        Format::Table => context.printer.result(found.text(context).as_bytes()),
        Format::Json => {
            let json = shape::json(context, &BRIEF_DEFINITION, found.json(context))?;
            context.printer.result(&json)
        }
        _ => Err(Error::new("usage", "a definition is text or JSON").hint("--format json")),
    }
}

/// The definition of a metric, diagnosis, view, table or function.
pub fn definition(context: &Context, name: &str) -> Result<String> {
    Ok(find(context, name)?.text(context))
}

/// The same for programs.
pub fn described(context: &Context, name: &str) -> Result<Value> {
    Ok(find(context, name)?.json(context))
}

/// What a name stands for.
enum Found<'c> {
    File(&'c SqlFile),
    Table(&'static schema::Table),
    Function(&'static str, &'static str, &'static str),
}

impl Found<'_> {
    fn text(&self, context: &Context) -> String {
        match self {
            Self::File(file) => {
                let versions = context.registry.versions(&file.header.name);
                docs::file(file, &versions) + "\n" + &file.text
            }
            Self::Table(table) => docs::table(table),
            Self::Function(name, signature, doc) => format!("{name}{signature}\n\n{doc}\n"),
        }
    }

    fn json(&self, context: &Context) -> Value {
        match self {
            Self::File(file) => {
                docs::file_json(file, &context.registry.versions(&file.header.name))
            }
            Self::Table(table) => docs::table_json(table),
            Self::Function(name, signature, doc) => {
                json!({"kind": "function", "name": name, "signature": signature, "result": doc})
            }
        }
    }
}

fn find<'c>(context: &'c Context, name: &str) -> Result<Found<'c>> {
    let registry = &context.registry;
    if let Some(view) = registry.view(name) {
        return Ok(Found::File(view));
    }
    if let Some(diagnosis) = registry.diagnosis(name) {
        return Ok(Found::File(diagnosis));
    }
    if let Some(table) = schema::table(name) {
        return Ok(Found::Table(table));
    }
    if let Some((name, signature, doc)) = FUNCTIONS.iter().find(|(n, _, _)| *n == name) {
        return Ok(Found::Function(name, signature, doc));
    }
    match registry.metric(name) {
        Ok(file) => Ok(Found::File(file)),
        Err(error) if name.contains('@') => Err(error),
        Err(_) => {
            let traces = context.store.traces();
            let names: Vec<&str> = registry
                .metrics()
                .map(|f| f.header.name.as_str())
                .chain(registry.diagnoses().map(|f| f.header.name.as_str()))
                .chain(registry.views().map(|f| f.header.name.as_str()))
                .chain(TABLES.iter().map(|t| t.name))
                .chain(FUNCTIONS.iter().map(|f| f.0))
                .chain(traces.iter().map(String::as_str))
                .collect();
            let error = Error::new(
                "metric-unknown",
                format!("there is no metric, diagnosis, view, table, function or trace `{name}`"),
            );
            Err(error.hint(crate::error::suggest(
                name,
                &names,
                "`ccl-sql list` shows metrics, `ccl-sql list tables` the rest",
            )))
        }
    }
}
