//! One node of an execution trace as a row of `et_nodes`.
//!
//! Up to 1.0.1 everything is a member of the node; later versions have a list `attrs` of name, type
//! and value, and values, shapes and types of the inputs in one object. Both come into the same
//! columns; what has no column goes into `args` as it stands. Numbers that say "none" (sequence
//! number -1; forward thread, forward parent and record function 0) are NULL.

use crate::input::json::{self, Scanner};
use crate::readers::et::collective::{self, Said, Values};
use crate::spool::args::Args;
use crate::spool::rows::Rows;

/// The types that a member may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An integer from this one on; lower ones down to -1 say "none".
    From(i64),
    /// Text; empty text says "none".
    Text,
    /// Any JSON, kept as it stands.
    Json,
}

/// Members with a column: name, form.
const MEMBERS: [(&str, Form); 34] = [
    ("id", Form::From(0)),
    ("parent", Form::From(0)),
    ("name", Form::Text),
    ("op_schema", Form::Text),
    ("rf_id", Form::From(1)),
    ("seq_id", Form::From(0)),
    ("fw_parent", Form::From(1)),
    ("scope", Form::From(0)),
    ("tid", Form::From(1)),
    ("fw_tid", Form::From(1)),
    ("kernel_backend", Form::Text),
    ("kernel_file", Form::Text),
    ("tensor_range", Form::Text),
    ("inputs", Form::Json),
    ("input_shapes", Form::Json),
    ("input_types", Form::Json),
    ("input_strides", Form::Json),
    ("outputs", Form::Json),
    ("output_shapes", Form::Json),
    ("output_types", Form::Json),
    ("output_strides", Form::Json),
    ("collective_name", Form::Text),
    ("dtype", Form::Text),
    ("in_msg_nelems", Form::From(0)),
    ("out_msg_nelems", Form::From(0)),
    ("in_split_size", Form::Text),
    ("out_split_size", Form::Text),
    ("pg_size", Form::From(1)),
    ("pg_name", Form::Text),
    ("pg_desc", Form::Text),
    ("global_rank_start", Form::From(0)),
    ("global_rank_stride", Form::From(1)),
    // Not a member of any version that was seen: the number in the inputs of a record.
    ("seq", Form::From(0)),
    ("pid", Form::From(0)),
];
const ID: usize = 0;
const PARENT: usize = 1;
const NAME: usize = 2;
const INPUTS: usize = 13;
const OUTPUTS: usize = 17;
/// The first of what is said of a call.
const COLLECTIVE: usize = 21;
const SEQ: usize = 32;
const PID: usize = 33;

/// The place in [`MEMBERS`] of a member.
fn place(key: &str) -> Option<usize> {
    match key {
        // A node waits for the one that it is called by.
        "ctrl_deps" => Some(PARENT),
        _ => MEMBERS.iter().position(|(name, _)| *name == key),
    }
}

/// A fault of a node.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Odd {
    /// The node has no usable id.
    pub no_id: bool,
    /// The id is digits in quotes.
    pub text_id: bool,
}

/// Reads nodes into rows; holds memory so that it is allocated once.
#[derive(Default)]
pub struct Nodes {
    scanner: Scanner,
    args: Args,
}

/// The members of a node.
struct Members<'a> {
    values: [Option<&'a str>; MEMBERS.len()],
    rest: Vec<(String, &'a str)>,
}

impl<'a> Members<'a> {
    /// Takes a member: into its column where it fits and the first of its name, else as it stands.
    fn take(&mut self, key: &str, value: &'a str, whole: &'a str) {
        let fits = |at: usize| match MEMBERS[at].1 {
            _ if value == "null" => true,
            Form::From(_) => json::integer(value).is_some_and(|n| n >= -1),
            Form::Text => value.starts_with('"'),
            Form::Json => true,
        };
        match place(key) {
            Some(at) if self.values[at].is_none() && fits(at) => self.values[at] = Some(value),
            _ => self.rest.push((key.to_owned(), whole)),
        }
    }

    fn int(&self, at: usize) -> Option<i64> {
        let Form::From(least) = MEMBERS[at].1 else { return None };
        self.values[at].and_then(json::integer).filter(|n| *n >= least)
    }

    fn text(&self, at: usize) -> Option<std::borrow::Cow<'a, str>> {
        self.values[at].and_then(json::text).filter(|t| !t.is_empty())
    }

    fn raw(&self, at: usize) -> &'a str {
        self.values[at].unwrap_or("")
    }

    /// The call that the node records.
    fn said(&self) -> Option<Said> {
        let values = |at| Values { values: self.raw(at), types: self.raw(at + 2) };
        match &*self.text(NAME)? {
            "record_param_comms" => collective::of_record(values(INPUTS), values(OUTPUTS)),
            name => collective::of_annotation(name, values(INPUTS)),
        }
    }
}

impl Nodes {
    /// Adds the row (without the rank) of a node: the text of an object in strict JSON. None where
    /// it has neither a name nor an id.
    pub fn add(
        &mut self,
        rows: &mut Rows,
        source_id: i64,
        pid: Option<i64>,
        text: &str,
    ) -> Option<Odd> {
        let mut members = Members { values: [None; MEMBERS.len()], rest: Vec::new() };
        let mut parts = Vec::new();
        each(&mut self.scanner, text, |key, value| match key {
            "attrs" if value.starts_with('[') => parts.push((key.to_owned(), value)),
            "inputs" | "outputs" if value.starts_with('{') => parts.push((key.to_owned(), value)),
            _ => members.take(key, value, value),
        });
        for (key, value) in parts {
            match &*key {
                "attrs" => self.attributes(&mut members, value),
                _ => self.values(&mut members, &key, value),
            }
        }
        let id = members.int(ID);
        if id.is_none() && members.text(NAME).is_none() {
            return None;
        }
        self.row(rows, source_id, pid, &members);
        let text_id = members.raw(ID).starts_with('"');
        Some(Odd { no_id: id.is_none(), text_id: id.is_some() && text_id })
    }

    /// `attrs`: name, type and value of each. One without a column keeps its type.
    fn attributes<'a>(&mut self, members: &mut Members<'a>, list: &'a str) {
        for attribute in json::elements(list) {
            let (mut name, mut value) = (None, None);
            if attribute.starts_with('{') {
                each(&mut self.scanner, attribute, |key, raw| match key {
                    "name" => name = json::text(raw),
                    "value" => value = Some(raw),
                    _ => {}
                });
            }
            match (name, value) {
                (Some(name), Some(value)) => members.take(&name, value, attribute),
                _ => members.rest.push(("attrs".to_owned(), attribute)),
            }
        }
    }

    /// `inputs` or `outputs` with everything that is known of them.
    fn values<'a>(&mut self, members: &mut Members<'a>, which: &str, object: &'a str) {
        let first = if which == "inputs" { INPUTS } else { OUTPUTS };
        each(&mut self.scanner, object, |key, raw| {
            let at = ["values", "shapes", "types", "strides"].iter().position(|k| *k == key);
            match at.map(|at| first + at) {
                Some(at) if members.values[at].is_none() => members.values[at] = Some(raw),
                _ => members.rest.push((format!("{which}.{key}"), raw)),
            }
        });
    }

    fn row(&mut self, rows: &mut Rows, source_id: i64, pid: Option<i64>, members: &Members<'_>) {
        let said = members.said().unwrap_or_default();
        let id = members.int(ID);
        rows.int(Some(source_id)).int(id);
        // The root names itself.
        rows.int(members.int(PARENT).filter(|parent| Some(*parent) != id));
        for (at, (_, form)) in MEMBERS.iter().enumerate().take(COLLECTIVE).skip(NAME) {
            match form {
                Form::From(_) => rows.int(members.int(at)),
                Form::Text => rows.text(members.text(at).as_deref()),
                Form::Json => rows.text(members.values[at]),
            };
        }
        let text = |at: usize, said: Option<String>| {
            members.text(COLLECTIVE + at).map(|t| t.into_owned()).or(said)
        };
        let int = |at: usize, said: Option<i64>| members.int(COLLECTIVE + at).or(said);
        let name = Some(said.name).filter(|n| !n.is_empty());
        rows.text(text(0, name).as_deref()).text(text(1, said.dtype).as_deref());
        rows.int(int(2, said.in_elems)).int(int(3, said.out_elems));
        // The inputs have the whole list, where the attribute may be cut.
        rows.text(said.in_split.or_else(|| text(4, None)).as_deref());
        rows.text(said.out_split.or_else(|| text(5, None)).as_deref());
        rows.int(int(6, said.group_size));
        rows.text(text(7, said.pg_name).as_deref()).text(text(8, said.pg_desc).as_deref());
        rows.int(int(9, said.rank_start)).int(int(10, said.rank_stride));
        rows.int(members.int(SEQ).or(said.seq));
        rows.int(members.int(PID).or(pid));
        self.args.clear();
        for (key, raw) in &members.rest {
            self.args.key(key);
            self.args.raw(raw);
        }
        rows.text(self.args.object());
        rows.end_row();
    }
}

/// Hands on the members of an object of strict JSON.
fn each<'a>(scanner: &mut Scanner, text: &'a str, mut member: impl FnMut(&str, &'a str)) {
    let bytes = text.as_bytes();
    // It was skipped as a whole before: it is strict.
    let _ = scanner.members(bytes, 0, |scanner, key, from| {
        let to = scanner.skip(bytes, from)?;
        member(&json::unescape(&text[key]), &text[from..to]);
        Ok(to)
    });
}
