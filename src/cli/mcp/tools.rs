//! The table of the tools: names, what a client is told of them, and what runs them.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::mcp::answer::{Answer, LEAST_BYTES, MOST_BYTES, USUAL_BYTES};
use crate::cli::mcp::calls::{self, Call};
use crate::cli::mcp::query;
use crate::error::{Error, Result};

/// The tool that gives further pages, which the server answers by itself.
pub const MORE: &str = "more";

/// Most seconds that a call may ask for.
pub const MOST_SECONDS: u64 = 3600;

/// A tool.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What a client is told.
    about: &'static str,
    /// The list of its answer, and what an element is.
    list: Option<(&'static str, &'static str)>,
    /// The schema of its arguments.
    schema: fn() -> JsonObject,
    /// What runs it.
    pub run: fn(&Call<'_>, JsonObject) -> Result<Answer>,
}

impl Entry {
    /// Whether it changes the data directory.
    pub fn writes(&self) -> bool {
        self.name == "ingest"
    }
}

/// An entry of the table.
macro_rules! tool {
    ($name:literal, $run:path, $args:ty, $list:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            list: $list,
            schema: schema::<$args>,
            run: |call, arguments| $run(call, parsed::<$args>(arguments)?),
        }
    };
}

/// Every tool but [`MORE`].
pub static TOOLS: [Entry; 9] = [
    tool!(
        "list_traces",
        calls::list_traces,
        calls::Word,
        Some(("traces", "trace, source, ranks, events, findings (oddities of its files), path")),
        "Traces (job runs) that are there, and below which folders more may be ingested."
    ),
    tool!(
        "ingest",
        calls::ingest,
        calls::Ingest,
        Some(("traces", "trace, source, ranks, events, bytes, findings")),
        "Read the traces below a folder into tables. Only below the roots of the server. What is \
         unchanged is skipped."
    ),
    tool!(
        "list_metrics",
        calls::list_metrics,
        calls::ListMetrics,
        Some(("metrics", "metric, area, unit, better, summary")),
        "Metrics that can be run. Begin with a word or an area."
    ),
    tool!(
        "list_tables",
        calls::list_tables,
        calls::Word,
        Some(("tables", "table, kind, columns (their number), row (what a row is)")),
        "Tables and views that sql can read. Prefer views: they are steps done right."
    ),
    tool!(
        "describe",
        calls::describe,
        calls::Describe,
        Some(("columns", "name, type, unit, better, doc")),
        "What a metric, diagnosis, table, view, function or trace is: columns with units, \
         parameters, caveats, when there is no value. Read it before you rely on a number."
    ),
    tool!(
        "run_metrics",
        calls::run_metrics,
        calls::RunMetrics,
        Some(("results", "trace, metric, value, unit, reason (why there is no value), answer")),
        "Values of metrics of traces, each with its unit, or the reason why there is none."
    ),
    tool!(
        "diagnose",
        calls::diagnose,
        calls::Diagnose,
        Some((
            "findings",
            "trace, finding, gain_ms, gain_pct (of a step, an upper bound), confidence, advice, \
             evidence (SQL that shows it)"
        )),
        "What is wrong with a trace and what to fix first, the largest gain first. Begin here. Run \
         the evidence of a finding with sql before you act on it."
    ),
    tool!(
        "compare",
        calls::compare,
        calls::Compare,
        Some(("changes", "run, metric, base, test, change_pct, status, effect_pct (of a step)")),
        "Runs beside a baseline: what changed, the largest effect on a step first."
    ),
    tool!(
        "sql",
        query::sql,
        query::Sql,
        Some(("rows", "cells in the order of columns")),
        "One SELECT (DuckDB) over the tables and views of all traces; every table has the column \
         trace. Read-only: no files, no settings. Times are integer nanoseconds (_ns)."
    ),
];

/// A tool by its name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// What a client is told of the tools.
pub fn tools() -> Vec<Tool> {
    let mut out: Vec<Tool> = TOOLS.iter().map(told).collect();
    let about = "The next page of an answer, by its next_cursor.";
    let mut arguments = json!({
        "type": "object", "additionalProperties": false, "required": ["cursor"],
        "properties": {"cursor": {"type": "string"}},
    });
    arguments["properties"]["max_bytes"] = max_bytes();
    let Value::Object(arguments) = arguments else { return out };
    out.push(Tool::new(MORE, about, arguments).with_annotations(annotations(false)));
    out
}

fn annotations(writes: bool) -> ToolAnnotations {
    ToolAnnotations::new().read_only(!writes).destructive(false).idempotent(true).open_world(false)
}

fn told(entry: &Entry) -> Tool {
    let mut schema = (entry.schema)();
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties["max_bytes"] = max_bytes();
    properties["seconds"] = json!({
        "type": "integer", "minimum": 1, "maximum": MOST_SECONDS,
        "description": "Time that it may take",
    });
    let tool = Tool::new(entry.name, entry.about, schema);
    let tool = match (entry.list, output(entry)) {
        (Some(_), Value::Object(output)) => tool.with_raw_output_schema(Arc::new(output)),
        _ => tool,
    };
    tool.with_annotations(annotations(entry.writes()))
}

fn max_bytes() -> Value {
    json!({
        "type": "integer", "minimum": LEAST_BYTES, "maximum": MOST_BYTES,
        "description": format!("Bytes of an answer [default: {USUAL_BYTES}]"),
    })
}

/// The schema of an answer: what all have in common is said once, by the instructions.
fn output(entry: &Entry) -> Value {
    let Some((list, element)) = entry.list else { return Value::Null };
    let mut properties = json!({
        "notice": {"type": "string"},
        "total": {"type": "integer"},
        "cut": {"type": "array"},
        "next_cursor": {"type": "string"},
    });
    properties[list] = json!({"type": "array", "description": element});
    json!({"type": "object", "properties": properties, "required": ["notice"]})
}

/// The schema of arguments, without what a client has no use for.
fn schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut out = match schema.to_value() {
        Value::Object(map) => map,
        _ => JsonObject::new(),
    };
    out.shift_remove("title");
    out.shift_remove("description");
    for property in out.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        // What may be left out need not be null, nor say that it is nothing by default.
        if let Some(map) = property.1.as_object_mut() {
            map.shift_remove("default");
            if let Some([kind, _]) = map.get("type").and_then(Value::as_array).map(Vec::as_slice) {
                let kind = kind.clone();
                map.insert("type".to_owned(), kind);
            }
            map.shift_remove("format");
        }
    }
    out
}

/// The arguments of a call.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|e| {
        Error::new("usage", format!("the arguments are wrong: {e}"))
            .hint("the input schema of the tool says what it takes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_is_told_is_short_and_says_what_every_argument_is() {
        let tools = tools();
        assert_eq!(tools.len(), TOOLS.len() + 1);
        for tool in &tools {
            let schema = Value::Object((*tool.input_schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            for (name, property) in schema["properties"].as_object().expect("properties") {
                let is_told = property["description"].is_string() || name == "cursor";
                assert!(is_told, "{}: {name}", tool.name);
                assert!(property["type"].is_string(), "{}: {name}: {property}", tool.name);
            }
        }
        let bytes = serde_json::to_vec(&tools).expect("JSON").len();
        assert!(bytes < 10_000, "{bytes}");
    }
}
