//! Profiles of XLA as text: JSON that becomes an XPlane file.
//!
//! Made from the field numbers of the format alone, so that a mistake of the reader is not made
//! twice. Zeros are left out, ids count from 0, and the names stand behind the lines, as profilers
//! write them.
//!
//! ```text
//! {"hostnames": ["a"], "warnings": [], "planes": [{
//!   "name": "/device:TPU:0", "stats": {"core_count": 2},
//!   "ops": {"fusion.1": {"text": "%fusion.1 = f32[2] fusion(...)", "stats": {"flops": 2}}},
//!   "lines": [{"id": 3, "name": "XLA Ops", "timestamp_ns": 5, "events": [
//!     {"name": "fusion.1", "offset_ps": 1000, "duration_ps": 500, "stats": {"run_id": 7}}]}],
//!   "modules": [{"name": "jit_f", "id": 5, "devices": [[0], [1]], "computations": {"main": [
//!     {"name": "p", "opcode": "parameter", "shape": "f32[8]"},
//!     {"name": "psum.1", "opcode": "all-reduce", "shape": "f32[8]", "operands": ["p"],
//!      "channel": 1, "groups": [[0, 1]]}]}}]}]}
//! ```
//!
//! An event whose name is one of `ops` takes what stands there for all of them. `meta_id` in an
//! event is an id that may have no name, `occurrences` a number in place of a time. Of an
//! operation, `groups` are lists or a rule (`"[1,4]<=[4]"`) in field 87, `old_groups` lists in
//! field 49; a tuple is a list of shapes; `devices` of a module has a list of replicas for each
//! partition. `raw` anywhere is bytes in hexadecimal that are added to the message.
//!
//! Values of statistics: integers, doubles, text, null (no value at all), `{"ref": text}`,
//! `{"uint": 1}`, `{"hex": "00ff"}` (bytes), `{"text_hex": "ff"}` (text that may not be UTF-8), and
//! lists (a statistic that comes again). A statistic `#7` has the id 7, and no name.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A number of any length.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field that holds a number; zeros are written, too.
pub fn int(out: &mut Vec<u8>, field: u64, value: i64) {
    varint(out, field << 3);
    varint(out, value as u64);
}

/// A field that holds text, bytes or a message.
pub fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Numbers in one field.
fn packed(out: &mut Vec<u8>, field: u64, values: &[i64]) {
    let mut inner = Vec::new();
    values.iter().for_each(|value| varint(&mut inner, *value as u64));
    if !values.is_empty() {
        bytes(out, field, &inner);
    }
}

fn some(out: &mut Vec<u8>, field: u64, value: i64) {
    if value != 0 {
        int(out, field, value);
    }
}

fn text(out: &mut Vec<u8>, field: u64, value: &str) {
    if !value.is_empty() {
        bytes(out, field, value.as_bytes());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let text: String = text.split_whitespace().collect();
    let byte = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn ints(value: &Value) -> Vec<i64> {
    list(value).iter().map(|v| v.as_i64().unwrap_or_else(|| panic!("no integer: {v}"))).collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn raw(out: &mut Vec<u8>, of: &Value) {
    out.extend(unhex(word(&of["raw"])));
}

/// Keys that nobody reads are mistakes of the case.
fn only(of: &Value, keys: &[&str]) {
    let known = |key: &String| key == "raw" || key == "note" || keys.contains(&key.as_str());
    for key in of.as_object().into_iter().flat_map(Map::keys) {
        assert!(known(key), "what is {key:?} in {of}?");
    }
}

/// Texts with a number each, from 0.
#[derive(Default)]
struct Numbers {
    of: HashMap<String, i64>,
    texts: Vec<String>,
}

impl Numbers {
    fn get(&mut self, text: &str) -> i64 {
        let next = self.texts.len() as i64;
        *self.of.entry(text.to_owned()).or_insert_with(|| {
            self.texts.push(text.to_owned());
            next
        })
    }
}

/// The file that a text describes.
///
/// # Panics
/// When the text is none.
pub fn encode(text: &str) -> Vec<u8> {
    space(&serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

/// The file that a value describes.
pub fn space(of: &Value) -> Vec<u8> {
    only(of, &["planes", "errors", "warnings", "hostnames"]);
    let mut out = Vec::new();
    for (i, of) in list(&of["planes"]).iter().enumerate() {
        bytes(&mut out, 1, &plane(of, i as i64));
    }
    for (field, key) in [(2, "errors"), (3, "warnings"), (4, "hostnames")] {
        list(&of[key]).iter().for_each(|value| bytes(&mut out, field, word(value).as_bytes()));
    }
    raw(&mut out, of);
    out
}

/// A plane by itself.
pub fn plane(of: &Value, id: i64) -> Vec<u8> {
    only(of, &["id", "name", "stats", "ops", "lines", "modules"]);
    let (mut names, mut events) = (Numbers::default(), Numbers::default());
    let mut out = Vec::new();
    some(&mut out, 1, of["id"].as_i64().unwrap_or(id));
    text(&mut out, 2, word(&of["name"]));
    for (i, of) in list(&of["lines"]).iter().enumerate() {
        bytes(&mut out, 3, &line(of, i as i64 + 1, &mut names, &mut events));
    }
    let mut entries = Vec::new();
    for name in &events.texts {
        let op = &of["ops"][name];
        only(op, &["text", "stats"]);
        let (name, display) = match op["text"].as_str() {
            Some(text) => (text, name.as_str()),
            None => (name.as_str(), ""),
        };
        entries.push(metadata(entries.len() as i64, name, display, &op["stats"], &mut names, op));
    }
    for (i, module) in list(&of["modules"]).iter().enumerate() {
        let name = format!("{}({})", word(&module["name"]), number(&module["id"]));
        let proto = match module["hex"].as_str() {
            Some(broken) => unhex(broken),
            None => hlo(module),
        };
        let hex: String = proto.iter().map(|byte| format!("{byte:02x}")).collect();
        let stats = serde_json::json!({ "Hlo Proto": { "hex": hex } });
        // The id of an entry is no id of a program.
        entries.push(metadata(1000 + i as i64, &name, "", &stats, &mut names, &Value::Null));
    }
    let mut own = Vec::new();
    stats(&mut own, 6, &of["stats"], &mut names);
    entries.iter().for_each(|entry| bytes(&mut out, 4, entry));
    for (id, name) in names.texts.iter().enumerate() {
        let (mut inner, mut entry) = (Vec::new(), Vec::new());
        some(&mut inner, 1, id as i64);
        text(&mut inner, 2, name);
        some(&mut entry, 1, id as i64);
        bytes(&mut entry, 2, &inner);
        bytes(&mut out, 5, &entry);
    }
    out.extend(own);
    raw(&mut out, of);
    out
}

fn metadata(
    id: i64,
    name: &str,
    display: &str,
    of_all: &Value,
    names: &mut Numbers,
    op: &Value,
) -> Vec<u8> {
    let (mut inner, mut entry) = (Vec::new(), Vec::new());
    some(&mut inner, 1, id);
    text(&mut inner, 2, name);
    text(&mut inner, 4, display);
    stats(&mut inner, 5, of_all, names);
    raw(&mut inner, op);
    some(&mut entry, 1, id);
    bytes(&mut entry, 2, &inner);
    entry
}

fn line(of: &Value, id: i64, names: &mut Numbers, events: &mut Numbers) -> Vec<u8> {
    only(of, &["id", "name", "display", "timestamp_ns", "events"]);
    let mut out = Vec::new();
    some(&mut out, 1, of["id"].as_i64().unwrap_or(id));
    text(&mut out, 2, word(&of["name"]));
    some(&mut out, 3, number(&of["timestamp_ns"]));
    for of in list(&of["events"]) {
        only(of, &["name", "meta_id", "offset_ps", "duration_ps", "occurrences", "stats"]);
        let mut event = Vec::new();
        let id = of["meta_id"].as_i64();
        some(&mut event, 1, id.unwrap_or_else(|| events.get(word(&of["name"]))));
        some(&mut event, 2, number(&of["offset_ps"]));
        some(&mut event, 3, number(&of["duration_ps"]));
        stats(&mut event, 4, &of["stats"], names);
        some(&mut event, 5, number(&of["occurrences"]));
        raw(&mut event, of);
        bytes(&mut out, 4, &event);
    }
    text(&mut out, 11, word(&of["display"]));
    raw(&mut out, of);
    out
}

fn stats(out: &mut Vec<u8>, field: u64, of: &Value, names: &mut Numbers) {
    for (name, value) in of.as_object().into_iter().flatten() {
        let again = match value {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        for value in again {
            let mut stat = Vec::new();
            let id = name.strip_prefix('#').map(|id| id.parse().expect("an id"));
            some(&mut stat, 1, id.unwrap_or_else(|| names.get(name)));
            said(&mut stat, value, names);
            bytes(out, field, &stat);
        }
    }
}

fn said(stat: &mut Vec<u8>, value: &Value, names: &mut Numbers) {
    match value {
        Value::Null => {}
        Value::String(value) => bytes(stat, 5, value.as_bytes()),
        Value::Number(value) => match value.as_i64() {
            Some(value) => int(stat, 4, value),
            None => {
                varint(stat, 2 << 3 | 1);
                stat.extend(value.as_f64().expect("a double").to_le_bytes());
            }
        },
        Value::Object(value) => match value.iter().next().map(|(k, v)| (k.as_str(), v)) {
            Some(("ref", value)) => int(stat, 7, names.get(word(value))),
            Some(("uint", value)) => int(stat, 3, value.as_u64().expect("a number") as i64),
            Some(("hex", value)) => bytes(stat, 6, &unhex(word(value))),
            Some(("text_hex", value)) => bytes(stat, 5, &unhex(word(value))),
            other => panic!("no value: {other:?}"),
        },
        other => panic!("no value: {other}"),
    }
}

/// A module as profilers attach it.
pub fn hlo(of: &Value) -> Vec<u8> {
    only(of, &["name", "id", "devices", "computations"]);
    let computations = of["computations"].as_object().cloned().unwrap_or_default();
    // Numbers of the operations and of the computations, from 1.
    let (mut ids, mut bodies) = (HashMap::new(), HashMap::new());
    for (name, instructions) in &computations {
        bodies.insert(name.as_str(), bodies.len() as i64 + 1);
        for instruction in list(instructions) {
            ids.insert((name.as_str(), word(&instruction["name"])), ids.len() as i64 + 1);
        }
    }
    let mut module = Vec::new();
    text(&mut module, 1, word(&of["name"]));
    text(&mut module, 2, "main");
    for (name, instructions) in &computations {
        let mut computation = Vec::new();
        text(&mut computation, 1, name);
        for of in list(instructions) {
            let id = |name_of: &str| ids[&(name.as_str(), name_of)];
            bytes(&mut computation, 2, &instruction(of, &id, &bodies));
        }
        some(&mut computation, 5, bodies[name.as_str()]);
        bytes(&mut module, 3, &computation);
    }
    some(&mut module, 5, number(&of["id"]));
    let devices: Vec<Vec<i64>> = list(&of["devices"]).iter().map(ints).collect();
    if !devices.is_empty() {
        let mut assignment = Vec::new();
        some(&mut assignment, 1, devices[0].len() as i64);
        some(&mut assignment, 2, devices.len() as i64);
        for replicas in &devices {
            let mut inner = Vec::new();
            packed(&mut inner, 1, replicas);
            bytes(&mut assignment, 3, &inner);
        }
        bytes(&mut module, 15, &assignment);
    }
    let mut out = Vec::new();
    bytes(&mut out, 1, &module);
    out
}

fn instruction(of: &Value, id: &dyn Fn(&str) -> i64, bodies: &HashMap<&str, i64>) -> Vec<u8> {
    only(
        of,
        &[
            "name",
            "opcode",
            "shape",
            "channel",
            "operands",
            "calls",
            "groups",
            "old_groups",
            "pairs",
            "global_ids",
        ],
    );
    let mut out = Vec::new();
    text(&mut out, 1, word(&of["name"]));
    text(&mut out, 2, word(&of["opcode"]));
    bytes(&mut out, 3, &shape(&of["shape"]));
    some(&mut out, 26, number(&of["channel"]));
    some(&mut out, 35, id(word(&of["name"])));
    packed(&mut out, 36, &list(&of["operands"]).iter().map(|o| id(word(o))).collect::<Vec<_>>());
    packed(&mut out, 38, &list(&of["calls"]).iter().map(|c| bodies[word(c)]).collect::<Vec<_>>());
    for group in list(&of["old_groups"]) {
        let mut inner = Vec::new();
        packed(&mut inner, 1, &ints(group));
        bytes(&mut out, 49, &inner);
    }
    for pair in list(&of["pairs"]).iter().map(ints) {
        let mut inner = Vec::new();
        some(&mut inner, 1, pair[0]);
        some(&mut inner, 2, pair[1]);
        bytes(&mut out, 52, &inner);
    }
    some(&mut out, 71, i64::from(of["global_ids"] == true));
    if !of["groups"].is_null() {
        let mut inner = Vec::new();
        for group in list(&of["groups"]) {
            let mut members = Vec::new();
            packed(&mut members, 1, &ints(group));
            bytes(&mut inner, 1, &members);
        }
        if let Some(rule) = of["groups"].as_str() {
            bytes(&mut inner, 2, &iota(rule));
        }
        bytes(&mut out, 87, &inner);
    }
    out
}

/// `[4,2]<=[2,4]T(1,0)`.
fn iota(rule: &str) -> Vec<u8> {
    let mut lists =
        rule.split(['[', ']', '(', ')']).skip(1).step_by(2).map(|list| {
            list.split(',').map(|n| n.parse().expect("a number")).collect::<Vec<i64>>()
        });
    let mut next = || lists.next().unwrap_or_default();
    let (cut, dims, perm) = (next(), next(), next());
    let mut out = Vec::new();
    int(&mut out, 1, cut[0]);
    int(&mut out, 2, cut[1]);
    packed(&mut out, 3, &dims);
    packed(&mut out, 4, &perm);
    out
}

/// `f32[8,2]`, or a tuple as a list.
fn shape(of: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(array) = of.as_str() else {
        int(&mut out, 2, 13);
        list(of).iter().for_each(|part| bytes(&mut out, 4, &shape(part)));
        return out;
    };
    let (name, dims) = array.trim_end_matches(']').split_once('[').expect("a shape");
    let number = match name {
        "pred" => 1,
        "s8" => 2,
        "s32" => 4,
        "u8" => 6,
        "u32" => 8,
        "f16" => 10,
        "f32" => 11,
        "bf16" => 16,
        "token" => 17,
        "f8e5m2" => 19,
        "f8e4m3fn" => 20,
        "s4" => 21,
        "u4" => 22,
        other => panic!("no element type: {other}"),
    };
    int(&mut out, 2, number);
    let dims = dims.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().expect("a dimension"));
    packed(&mut out, 3, &dims.collect::<Vec<_>>());
    out
}

#[test]
fn a_file_by_hand() {
    let made = encode(
        r#"{"hostnames": ["h"], "planes": [{"name": "p", "stats": {"s": -1}, "lines": [
            {"id": 3, "name": "l", "timestamp_ns": 300, "events": [
                {"name": "e", "duration_ps": 1, "stats": {"t": {"ref": "s"}}}]}]}]}"#,
    );
    // The event: no id (0), no offset, one picosecond, the statistic 0 that refers to the name 1.
    let event = unhex("18 01 22 02 38 01");
    let mut line = unhex("08 03 12 01 6c 18 ac 02");
    bytes(&mut line, 4, &event);
    let mut plane = unhex("12 01 70");
    bytes(&mut plane, 3, &line);
    plane.extend(unhex("22 05 12 03 12 01 65"));
    plane.extend(unhex("2a 05 12 03 12 01 74"));
    plane.extend(unhex("2a 09 08 01 12 05 08 01 12 01 73"));
    plane.extend(unhex("32 0d 08 01 20 ff ff ff ff ff ff ff ff ff 01"));
    let mut whole = Vec::new();
    bytes(&mut whole, 1, &plane);
    whole.extend(unhex("22 01 68"));
    assert_eq!(made, whole);
}
