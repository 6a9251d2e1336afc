//! `schema`: what programs may rely on. The tables, views and metrics that there are, the codes of
//! errors; and of each form of JSON its JSON Schema, by the file `outputs.json`.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::cli::args::{Contract, SchemaArgs, word_of};
use crate::cli::context::Context;
use crate::cli::output::{form, target};
use crate::cli::shape;
use crate::error::{CODES, Result};
use crate::functions::FUNCTIONS;
use crate::registry::{SqlFile, docs};
use crate::report::Format;
use crate::report::document::provenance;
use crate::schema::TABLES;
use crate::schema::units::UNITS;

/// The schemas, and the definitions that they share.
const OUTPUTS: &str = include_str!("outputs.json");

/// The fields of what there is that say most.
const BRIEF: [&str; 13] = [
    "tables.name",
    "tables.row",
    "views.name",
    "views.summary",
    "metrics.name",
    "metrics.unit",
    "metrics.summary",
    "diagnoses.name",
    "diagnoses.summary",
    "functions.name",
    "functions.signature",
    "errors.code",
    "outputs",
];

/// Runs the command.
pub fn run(context: &Context, args: &SchemaArgs) -> Result<()> {
    let target = target(context)?;
    form(context, "schema", &target, &[Format::Json], Format::Json)?;
    let (brief, document) = match args.of {
        Some(output) => (&["title"][..], of_output(&word_of(&output))),
        None => (&BRIEF[..], all(context)),
    };
    context.printer.result(&shape::json(context, brief, document)?)
}

/// The JSON Schema of an output, with the definitions that it uses.
fn of_output(name: &str) -> Value {
    let mut file: Value = serde_json::from_str(OUTPUTS).expect("a test reads it");
    let output = file["outputs"][name].take();
    let all = file["$defs"].take();
    let mut used = BTreeSet::new();
    references(&output, &all, &mut used);
    let mut out = Map::new();
    out.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    if let Value::Object(output) = output {
        out.extend(output);
    }
    let defs: Map<String, Value> = match all {
        Value::Object(all) => all.into_iter().filter(|(name, _)| used.contains(name)).collect(),
        _ => Map::new(),
    };
    if !defs.is_empty() {
        out.insert("$defs".to_owned(), Value::Object(defs));
    }
    Value::Object(out)
}

/// Names of the definitions that a schema uses, and that these use.
fn references(schema: &Value, all: &Value, used: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str);
            if let Some(name) = name.and_then(|path| path.strip_prefix("#/$defs/"))
                && used.insert(name.to_owned())
            {
                references(&all[name], all, used);
            }
            map.values().for_each(|value| references(value, all, used));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, all, used)),
        _ => {}
    }
}

/// Everything that there is to ask.
fn all(context: &Context) -> Value {
    let registry = &context.registry;
    let definition = |file: &SqlFile| {
        let mut out = docs::file_json(file, &registry.versions(&file.header.name));
        // `show` has it, and it is most of the bytes.
        out.as_object_mut().map(|map| map.shift_remove("sql"));
        out
    };
    let public = registry.views().filter(|view| !view.header.name.starts_with('_'));
    let function = |(name, signature, doc): &(&str, &str, &str)| json!({"kind": "function", "name": name, "signature": signature, "result": doc});
    let error = |(code, meaning): &(&str, &str)| json!({"code": code, "meaning": meaning});
    json!({
        "schema": 1,
        "provenance": provenance(None),
        "tables": TABLES.iter().map(docs::table_json).collect::<Vec<_>>(),
        "views": public.map(definition).collect::<Vec<_>>(),
        "metrics": registry.metrics().map(definition).collect::<Vec<_>>(),
        "diagnoses": registry.diagnoses().map(definition).collect::<Vec<_>>(),
        "functions": FUNCTIONS.iter().map(function).collect::<Vec<_>>(),
        "units": UNITS.iter().map(|unit| unit.name).collect::<Vec<_>>(),
        "errors": CODES.iter().map(error).collect::<Vec<_>>(),
        "outputs": Contract::value_variants().iter().map(word_of).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_has_a_schema_and_no_definition_is_of_no_use() {
        let file: Value = serde_json::from_str(OUTPUTS).expect("JSON");
        let mut used = BTreeSet::new();
        for output in Contract::value_variants() {
            let name = word_of(output);
            assert!(file["outputs"][&name].is_object(), "{name}");
            references(&file["outputs"][&name], &file["$defs"], &mut used);
            let whole = of_output(&name);
            assert!(whole["title"].is_string() && whole["$schema"].is_string(), "{name}");
        }
        let outputs = file["outputs"].as_object().expect("an object");
        assert_eq!(outputs.len(), Contract::value_variants().len());
        let defs: BTreeSet<String> =
            file["$defs"].as_object().expect("an object").keys().cloned().collect();
        assert_eq!(used, defs);
    }
}
