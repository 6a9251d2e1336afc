//! `list` and `show`.

use serde_json::Value;

use super::Context;
use super::args::{ListArgs, ShowArgs, What};
use super::{select, trace};
use crate::error::{Error, Result, nearest};
use crate::functions::FUNCTIONS;
use crate::registry::docs;
use crate::report::Grid;
use crate::schema::{self, Made, TABLES};

fn text(value: &str) -> Value {
    match value {
        "" => Value::Null,
        value => value.into(),
    }
}

/// Runs `list`.
pub fn list(context: &Context, args: &ListArgs) -> Result<()> {
    context.printer.grid(&grid(context, args.what))
}

/// What there is, a row each.
pub fn grid(context: &Context, what: What) -> Grid {
    match what {
        What::Metrics => {
            let rows = context.registry.metrics().map(|f| {
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
        What::Traces => {
            let rows = context.store.manifests().into_iter().map(|(_, m)| {
                let ranks = m.ranks();
                vec![
                    m.trace.as_str().into(),
                    m.kinds().join("+").into(),
                    ranks.len().into(),
                    m.sources.iter().map(|s| s.events).sum::<u64>().into(),
                    m.findings.values().sum::<u64>().into(),
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
            Grid::of_rows(&["table", "kind", "columns", "a row is"], tables.chain(views).collect())
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
    match definition(context, &args.name) {
        Ok(text) => context.printer.result(text.as_bytes()),
        Err(error) => match select::named(context, &args.name) {
            Some(trace) => trace::show(context, &trace),
            None => Err(error),
        },
    }
}

/// The definition of a metric, view, table or function.
pub fn definition(context: &Context, name: &str) -> Result<String> {
    let registry = &context.registry;
    if let Some(view) = registry.view(name) {
        return Ok(docs::file(view, &[]) + "\n" + &view.text);
    }
    if let Some(table) = schema::table(name) {
        return Ok(docs::table(table));
    }
    if let Some((name, signature, doc)) = FUNCTIONS.iter().find(|(n, _, _)| *n == name) {
        return Ok(format!("{name}{signature}\n\n{doc}\n"));
    }
    match registry.metric(name) {
        Ok(file) => {
            let versions = registry.versions(&file.header.name);
            Ok(docs::file(file, &versions) + "\n" + &file.text)
        }
        Err(error) if name.contains('@') => Err(error),
        Err(_) => {
            let names = registry
                .metrics()
                .map(|f| f.header.name.as_str())
                .chain(registry.views().map(|f| f.header.name.as_str()))
                .chain(TABLES.iter().map(|t| t.name))
                .chain(FUNCTIONS.iter().map(|f| f.0))
                .map(str::to_owned)
                .chain(context.store.traces())
                .collect::<Vec<String>>();
            let error = Error::new(
                "metric-unknown",
                format!("there is no metric, view, table, function or trace `{name}`"),
            );
            Err(match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`ccl-sql list` shows metrics, `ccl-sql list tables` the rest"),
            })
        }
    }
}
