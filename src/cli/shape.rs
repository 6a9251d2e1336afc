//! Less of a result for programs: `--brief`, `--select` and `--limit`.
//!
//! They work on the JSON of a result, whatever command it is of. Fields are left out, and nothing
//! is renamed: what stays is what the schema of the whole result says of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::cli::context::Context;
use crate::error::{Error, Result, suggest};
use crate::report::{Format, pretty};

/// Lists that say what the others are: they are never cut.
const WHOLE: [&str; 8] =
    ["columns", "comparisons", "headline", "params", "runs", "series", "sheets", "tests"];

/// Refuses the options where the result is no JSON.
///
/// # Errors
/// `usage`.
pub fn for_json(context: &Context, format: Format, allowed: &[Format]) -> Result<()> {
    let global = &context.global;
    let given = [
        ("--brief", global.brief),
        ("--select", !global.select.is_empty()),
        ("--limit", global.limit.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) if format != Format::Json => {
            let error = Error::new("usage", format!("{option} is for JSON"));
            Err(match allowed.contains(&Format::Json) {
                true => error.hint("add --format json"),
                false => error,
            })
        }
        _ => Ok(()),
    }
}

/// The bytes of a result as JSON, as the options want it. `brief` are the fields that say most.
///
/// # Errors
/// `usage` for a field that the result does not have.
pub fn json(context: &Context, brief: &[&str], value: Value) -> Result<Vec<u8>> {
    Ok(pretty(&shaped(context, brief, value)?))
}

/// The value of [`json`].
///
/// # Errors
/// `usage` for a field that the result does not have.
pub fn shaped(context: &Context, brief: &[&str], value: Value) -> Result<Value> {
    let global = &context.global;
    let mut out = if global.brief {
        keep(value, brief, &mut vec![false; brief.len()])
    } else if global.select.is_empty() {
        value
    } else {
        selected(value, &global.select)?
    };
    if let Some(limit) = global.limit {
        let mut cut = BTreeMap::new();
        limited(&mut out, limit, "", &mut cut);
        for (path, all) in &cut {
            let of = if path.is_empty() { "rows" } else { path };
            context.printer.note(&format!("note: the first {limit} of {all} {of}"));
        }
        if let Value::Object(map) = &mut out
            && !cut.is_empty()
        {
            map.insert("cut".to_owned(), cut.into_iter().collect::<Map<_, _>>().into());
        }
    }
    Ok(out)
}

/// The fields that are wanted.
///
/// # Errors
/// `usage` for one that nothing in the value has.
fn selected(value: Value, select: &[String]) -> Result<Value> {
    let wanted: Vec<&str> = select.iter().map(|path| path.trim()).collect();
    let mut found = vec![false; wanted.len()];
    let known = names(&value);
    let out = keep(value, &wanted, &mut found);
    match wanted.iter().zip(&found).find(|(_, found)| !**found) {
        // Without rows nobody can say what they would have.
        Some((path, _)) if !known.is_empty() => Err(unknown(path, &known)),
        _ => Ok(out),
    }
}

/// The error of a field that is not there.
pub fn unknown(path: &str, known: &[String]) -> Error {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    Error::new("usage", format!("the result has no field `{path}`"))
        .facts(format!("its fields: {}", known.join(", ")))
        .hint(suggest(path, &names, "--select takes the names of fields, with commas"))
}

/// Names of the outermost fields.
fn names(value: &Value) -> Vec<String> {
    let objects = match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    let mut out: Vec<String> = Vec::new();
    for key in objects.into_iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !out.contains(key) {
            out.push(key.clone());
        }
    }
    out
}

/// What of a value is at some paths; `found` learns which of them are there. A path goes through
/// the elements of a list.
pub fn keep(value: Value, paths: &[&str], found: &mut [bool]) -> Value {
    let map = match value {
        Value::Array(list) => {
            return list.into_iter().map(|one| keep(one, paths, found)).collect();
        }
        Value::Object(map) => map,
        other => return other,
    };
    let mut out = Map::new();
    for (key, value) in map {
        // Names of columns and kernels may hold dots themselves.
        let whole = paths.iter().position(|path| *path == key);
        if let Some(at) = whole {
            found[at] = true;
            out.insert(key, value);
            continue;
        }
        let inside: Vec<(usize, &str)> = (0..paths.len())
            .filter_map(|at| Some((at, paths[at].strip_prefix(&key)?.strip_prefix('.')?)))
            .collect();
        if inside.is_empty() {
            continue;
        }
        let below: Vec<&str> = inside.iter().map(|(_, path)| *path).collect();
        // What is null, or a list without elements, may have the field elsewhere.
        let is_open = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let mut found_below = vec![is_open; below.len()];
        out.insert(key, keep(value, &below, &mut found_below));
        for ((at, _), is_found) in inside.into_iter().zip(found_below) {
            found[at] |= is_found;
        }
    }
    Value::Object(out)
}

/// Leaves the first rows of each table; `cut` learns how many there were, by the path.
pub fn limited(value: &mut Value, limit: usize, path: &str, cut: &mut BTreeMap<String, Value>) {
    let name = path.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Array(list) => {
            let is_rows = name == "rows";
            let is_table = is_rows || list.iter().all(Value::is_object);
            if is_table && list.len() > limit && !WHOLE.contains(&name) {
                let all = cut.entry(path.to_owned()).or_insert(Value::from(0));
                if all.as_u64().is_none_or(|all| all < list.len() as u64) {
                    *all = list.len().into();
                }
                list.truncate(limit);
            }
            if !is_rows {
                list.iter_mut().for_each(|one| limited(one, limit, path, cut));
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                limited(value, limit, &below, cut);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(value: Value, paths: &[&str]) -> (Value, Vec<bool>) {
        let mut found = vec![false; paths.len()];
        (keep(value, paths, &mut found), found)
    }

    #[test]
    fn paths_lead_into_objects_and_through_lists() {
        let value = json!([
            {"a": 1, "d": {"x": 1, "y": [{"z": 1, "w": 2}]}, "b.c": 5},
            {"a": 2, "d": {"x": 3}, "e": 4},
        ]);
        let (out, found) = kept(value.clone(), &["a", "d.y.z", "b.c", "e", "f", "d.q"]);
        let expected = json!([
            {"a": 1, "d": {"y": [{"z": 1}]}, "b.c": 5},
            {"a": 2, "d": {}, "e": 4},
        ]);
        assert_eq!(out, expected);
        assert_eq!(found, [true, true, true, true, false, false]);
        assert_eq!(names(&value), ["a", "d", "b.c", "e"]);
    }

    #[test]
    fn a_field_that_is_nowhere_is_an_error_with_a_near_one() {
        let error = selected(json!({"value": 1, "unit": 2}), &["valu".to_owned()]);
        let error = error.expect_err("it is not there");
        assert_eq!((error.code, error.hint.as_deref()), ("usage", Some("did you mean `value`?")));
        let none = selected(json!([]), &["valu".to_owned()]).expect("no rows, no fields");
        assert_eq!(none, json!([]));
    }

    #[test]
    fn rows_are_cut_and_columns_are_not() {
        let mut value = json!({
            "columns": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "rows": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            "words": ["x", "y", "z"],
            "details": {"per_rank": [{"r": 0}, {"r": 1}, {"r": 2}]},
        });
        let mut cut = BTreeMap::new();
        limited(&mut value, 2, "", &mut cut);
        let expected = json!({
            "columns": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "rows": [[1, 2, 3], [4, 5, 6]],
            "words": ["x", "y", "z"],
            "details": {"per_rank": [{"r": 0}, {"r": 1}]},
        });
        assert_eq!(value, expected);
        assert_eq!(json!(cut), json!({"details.per_rank": 3, "rows": 3}));
    }
}
