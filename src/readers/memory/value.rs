//! What a pickle holds: values that refer to each other by number, so that what is shared stays
//! shared and a cycle is no trouble to whoever drops it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

/// A value of 16 bytes; texts, lists and dicts are numbers of the [`Arena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// None.
    None,
    /// True or False.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer that needs more.
    Wide,
    /// A double, by its bits.
    Float(u64),
    /// Text.
    Text(u32),
    /// Bytes.
    Bytes(u32),
    /// A list.
    List(u32),
    /// A tuple.
    Tuple(u32),
    /// A dict.
    Dict(u32),
}

/// A dict: its keys are those of a shape, which all dicts of the same keys in the same order share.
#[derive(Debug, Default)]
pub struct Dict {
    shape: u32,
    values: Vec<Value>,
    is_kept: bool,
}

/// A list or a tuple.
#[derive(Debug, Default)]
struct List {
    items: Items,
    is_kept: bool,
}

/// What a list holds. The frames of a call stack are dicts, and there are many such lists.
#[derive(Debug)]
enum Items {
    Any(Vec<Value>),
    Dicts(Box<[u32]>),
}

impl Default for Items {
    fn default() -> Self {
        Self::Any(Vec::new())
    }
}

/// A shape is one with a key less, and that key.
#[derive(Debug)]
struct Shape {
    parent: u32,
    key: Value,
}

/// Cells of a list or a dict beside what it holds.
pub(super) const CELLS: usize = 3;

/// Everything that the values of one pickle refer to.
///
/// What has one place only, and was looked at there, is released: its number is given to another.
/// What the pickle refers to again is kept.
#[derive(Debug)]
pub struct Arena {
    texts: Vec<Rc<[u8]>>,
    by_text: HashMap<Rc<[u8]>, u32>,
    lists: Vec<List>,
    dicts: Vec<Dict>,
    free_lists: Vec<u32>,
    free_dicts: Vec<u32>,
    shapes: Vec<Shape>,
    grown: HashMap<(u32, Value), u32>,
}

/// Nesting of what is written as JSON.
const JSON_DEPTH: usize = 16;
/// Bytes of one value that is written as JSON.
const JSON_BYTES: usize = 1 << 20;

impl Default for Arena {
    fn default() -> Self {
        Self {
            texts: Vec::new(),
            by_text: HashMap::new(),
            lists: Vec::new(),
            dicts: Vec::new(),
            free_lists: Vec::new(),
            free_dicts: Vec::new(),
            // The empty shape.
            shapes: vec![Shape { parent: 0, key: Value::None }],
            grown: HashMap::new(),
        }
    }
}

impl Arena {
    /// The number of a text; equal ones have one number.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        let text: Rc<[u8]> = text.into();
        self.texts.push(text.clone());
        self.by_text.insert(text, number);
        number
    }

    /// How many texts there are.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// A list of these.
    pub fn new_list(&mut self, items: Vec<Value>) -> u32 {
        let list = List { items: Items::Any(items), is_kept: false };
        if let Some(number) = self.free_lists.pop() {
            self.lists[number as usize] = list;
            return number;
        }
        self.lists.push(list);
        (self.lists.len() - 1) as u32
    }

    /// An empty dict.
    pub fn new_dict(&mut self) -> u32 {
        if let Some(number) = self.free_dicts.pop() {
            self.dicts[number as usize] = Dict::default();
            return number;
        }
        self.dicts.push(Dict::default());
        (self.dicts.len() - 1) as u32
    }

    /// Keeps a value that is referred to again.
    pub(super) fn keep(&mut self, value: Value) {
        match value {
            Value::List(list) | Value::Tuple(list) => self.lists[list as usize].is_kept = true,
            Value::Dict(dict) => self.dicts[dict as usize].is_kept = true,
            _ => {}
        }
    }

    /// Whether a value may be met again under its number.
    pub(super) fn is_kept(&self, value: Value) -> bool {
        match value {
            Value::List(list) | Value::Tuple(list) => self.lists[list as usize].is_kept,
            Value::Dict(dict) => self.dicts[dict as usize].is_kept,
            _ => true,
        }
    }

    /// Forgets a value that nothing refers to any more, with what it alone holds; how many cells
    /// that sets free.
    pub(super) fn release(&mut self, value: Value) -> usize {
        let (mut todo, mut freed) = (vec![value], 0);
        while let Some(value) = todo.pop() {
            match value {
                Value::List(number) | Value::Tuple(number) => {
                    let list = &mut self.lists[number as usize];
                    if list.is_kept {
                        freed += list.pack();
                    } else if let Items::Any(items) = std::mem::take(&mut list.items) {
                        freed += CELLS + items.len();
                        todo.extend(items);
                        self.free_lists.push(number);
                    }
                }
                Value::Dict(number) if !self.dicts[number as usize].is_kept => {
                    let values = std::mem::take(&mut self.dicts[number as usize].values);
                    freed += CELLS + values.len();
                    todo.extend(values);
                    self.free_dicts.push(number);
                }
                _ => {}
            }
        }
        freed
    }

    /// Items of a list or tuple.
    pub fn items(&self, list: u32) -> Cow<'_, [Value]> {
        match &self.lists[list as usize].items {
            Items::Any(items) => Cow::Borrowed(items),
            Items::Dicts(dicts) => dicts.iter().map(|dict| Value::Dict(*dict)).collect(),
        }
    }

    /// Adds to a list.
    pub fn extend(&mut self, list: u32, more: &[Value]) {
        let packed = match &mut self.lists[list as usize].items {
            Items::Any(items) => return items.extend_from_slice(more),
            Items::Dicts(dicts) => std::mem::take(dicts),
        };
        let items = packed.iter().map(|dict| Value::Dict(*dict)).chain(more.iter().copied());
        self.lists[list as usize].items = Items::Any(items.collect());
    }

    /// Makes room for so many values of a dict.
    pub(super) fn reserve(&mut self, dict: u32, values: usize) {
        self.dicts[dict as usize].values.reserve_exact(values);
    }

    /// Adds a key to a dict; whether a shape had to be made for it. Of equal keys the last counts.
    pub fn set(&mut self, dict: u32, key: Value, value: Value) -> bool {
        let dict = &mut self.dicts[dict as usize];
        let next = self.shapes.len() as u32;
        let parent = dict.shape;
        let shape = *self.grown.entry((parent, key)).or_insert(next);
        if shape == next {
            self.shapes.push(Shape { parent, key });
        }
        dict.shape = shape;
        dict.values.push(value);
        shape == next
    }

    /// Shape of a dict.
    pub fn shape(&self, dict: u32) -> u32 {
        self.dicts[dict as usize].shape
    }

    /// Values of a dict, in the order of its keys.
    pub fn values(&self, dict: u32) -> &[Value] {
        &self.dicts[dict as usize].values
    }

    /// Keys of a dict.
    pub fn keys(&self, dict: u32) -> Vec<Value> {
        let dict = &self.dicts[dict as usize];
        let mut out = Vec::with_capacity(dict.values.len());
        let mut shape = dict.shape;
        for _ in 0..dict.values.len() {
            let of = &self.shapes[shape as usize];
            out.push(of.key);
            shape = of.parent;
        }
        out.reverse();
        out
    }

    /// The value of a key.
    pub fn get(&self, dict: u32, key: &str) -> Option<Value> {
        let key = Value::Text(*self.by_text.get(key.as_bytes())?);
        let at = self.keys(dict).iter().rposition(|k| *k == key)?;
        Some(self.values(dict)[at])
    }

    /// A text; what is no UTF-8 (surrogates of Python) is replaced.
    pub fn text(&self, text: u32) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.texts[text as usize])
    }

    /// The text that a value is.
    pub fn as_text(&self, value: Value) -> Option<Cow<'_, str>> {
        match value {
            Value::Text(text) => Some(self.text(text)),
            _ => None,
        }
    }

    /// Text as it is, all else as JSON.
    pub fn plain(&self, value: Value) -> String {
        match value {
            Value::Text(text) => self.text(text).into_owned(),
            other => self.json(other),
        }
    }

    /// A value as JSON. What is nested too deep (a list that holds itself), or beyond a million
    /// bytes, is null.
    pub fn json(&self, value: Value) -> String {
        let mut out = String::new();
        self.write_json(value, 0, &mut out);
        out
    }

    fn write_json(&self, value: Value, depth: usize, out: &mut String) {
        if depth > JSON_DEPTH || out.len() > JSON_BYTES {
            out.push_str("null");
            return;
        }
        match value {
            Value::None | Value::Wide => out.push_str("null"),
            Value::Bool(yes) => out.push_str(if yes { "true" } else { "false" }),
            Value::Int(n) => out.push_str(itoa::Buffer::new().format(n)),
            Value::Float(bits) => match serde_json::Number::from_f64(f64::from_bits(bits)) {
                Some(number) => out.push_str(&number.to_string()),
                None => out.push_str("null"),
            },
            Value::Text(text) | Value::Bytes(text) => {
                out.push_str(&serde_json::Value::String(self.text(text).into_owned()).to_string());
            }
            Value::List(list) | Value::Tuple(list) => {
                out.push('[');
                for (i, item) in self.items(list).iter().enumerate() {
                    if out.len() > JSON_BYTES {
                        break;
                    }
                    if i > 0 {
                        out.push(',');
                    }
                    self.write_json(*item, depth + 1, out);
                }
                out.push(']');
            }
            Value::Dict(dict) => {
                out.push('{');
                let keys = self.keys(dict);
                for (i, (key, value)) in keys.into_iter().zip(self.values(dict)).enumerate() {
                    if out.len() > JSON_BYTES {
                        break;
                    }
                    if i > 0 {
                        out.push(',');
                    }
                    let key = serde_json::Value::String(self.plain_key(key));
                    out.push_str(&key.to_string());
                    out.push(':');
                    self.write_json(*value, depth + 1, out);
                }
                out.push('}');
            }
        }
    }

    /// A key as text. A tuple may hold much: its number stands for it.
    fn plain_key(&self, key: Value) -> String {
        match key {
            Value::List(_) | Value::Tuple(_) | Value::Dict(_) => "(tuple)".to_owned(),
            other => self.plain(other),
        }
    }
}

impl List {
    /// Takes less room where it holds dicts alone; how many cells that sets free.
    fn pack(&mut self) -> usize {
        let Items::Any(items) = &self.items else { return 0 };
        let dict = |item: &Value| match item {
            Value::Dict(dict) => Some(*dict),
            _ => None,
        };
        let before = items.len();
        let Some(dicts) = items.iter().map(dict).collect::<Option<Box<[u32]>>>() else { return 0 };
        self.items = Items::Dicts(dicts);
        before - before.div_ceil(4)
    }
}

/// Where the known keys of a shape stand, and which others it has.
#[derive(Debug, Clone)]
pub struct Found<const N: usize> {
    at: [Option<u32>; N],
    /// Keys that have no place, and where they stand.
    pub rest: Vec<(Value, u32)>,
}

/// Known keys of one kind of dict.
pub struct Fields<const N: usize> {
    names: [u32; N],
    known: HashMap<u32, Found<N>>,
}

impl<const N: usize> Fields<N> {
    /// For dicts of a pickle.
    pub fn new(arena: &mut Arena, names: [&str; N]) -> Self {
        Self { names: names.map(|name| arena.intern(name.as_bytes())), known: HashMap::new() }
    }

    /// The values of the keys of a dict; None for a key that it lacks.
    pub fn of(&mut self, arena: &Arena, dict: u32) -> ([Option<Value>; N], &[(Value, u32)]) {
        let names = &self.names;
        let found = self.known.entry(arena.shape(dict)).or_insert_with(|| {
            let mut found = Found { at: [None; N], rest: Vec::new() };
            for (at, key) in arena.keys(dict).into_iter().enumerate() {
                let place = match key {
                    Value::Text(text) => names.iter().position(|name| *name == text),
                    _ => None,
                };
                match place {
                    Some(place) => found.at[place] = Some(at as u32),
                    None => found.rest.push((key, at as u32)),
                }
            }
            found
        });
        let values = arena.values(dict);
        let value = |at: Option<u32>| at.map(|at| values[at as usize]);
        (found.at.map(value), &found.rest)
    }
}

/// What has no column, as a JSON object; None for nothing.
pub fn rest_json(arena: &Arena, dict: u32, rest: &[(Value, u32)]) -> Option<String> {
    if rest.is_empty() {
        return None;
    }
    let mut out = String::from("{");
    for (key, at) in rest {
        if out.len() > JSON_BYTES {
            break;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&serde_json::Value::String(arena.plain_key(*key)).to_string());
        out.push(':');
        arena.write_json(arena.values(dict)[*at as usize], 1, &mut out);
    }
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_released_sets_its_cells_free() {
        let mut arena = Arena::default();
        // [[1, 2], {"a": 3}], of which nothing is referred to again.
        let numbers = Value::List(arena.new_list(vec![Value::Int(1), Value::Int(2)]));
        let dict = arena.new_dict();
        let key = Value::Text(arena.intern(b"a"));
        arena.set(dict, key, Value::Int(3));
        let outer = arena.new_list(vec![numbers, Value::Dict(dict)]);
        assert_eq!(arena.release(Value::List(outer)), 3 * CELLS + 2 + 2 + 1);
        // Twice sets nothing free but what a dict is by itself.
        assert_eq!(arena.release(numbers), CELLS);
        // A list of dicts that is referred to again stays, in a quarter of the room.
        let dicts = (0..8).map(|_| Value::Dict(arena.new_dict())).collect();
        let kept = Value::Tuple(arena.new_list(dicts));
        arena.keep(kept);
        assert_eq!(arena.release(kept), 6);
        assert_eq!(arena.release(kept), 0);
        // Of anything else it takes what it took.
        let mixed = Value::List(arena.new_list(vec![Value::Int(1), Value::None]));
        arena.keep(mixed);
        assert_eq!(arena.release(mixed), 0);
    }

    #[test]
    fn the_most_bytes_of_a_value_as_json() {
        let mut arena = Arena::default();
        // `["aaaa` up to the bound, then more elements.
        let mut of = |bytes: usize| {
            let text = Value::Text(arena.intern("a".repeat(bytes - 3).as_bytes()));
            let list = arena.new_list(vec![text, Value::Int(1), Value::Int(2)]);
            let json = arena.json(Value::List(list));
            json[bytes..].to_owned()
        };
        // The bytes before the second element: the bound, and one more.
        assert_eq!(of(JSON_BYTES), ",null]");
        assert_eq!(of(JSON_BYTES + 1), "]");
        assert_eq!(of(JSON_BYTES - 1), ",1]");
        // The same of a dict, whose keys come first.
        let mut of = |bytes: usize| {
            let dict = arena.new_dict();
            let text = Value::Text(arena.intern("b".repeat(bytes - 7).as_bytes()));
            for (key, value) in [("k", text), ("l", Value::Int(1)), ("m", Value::Int(2))] {
                let key = Value::Text(arena.intern(key.as_bytes()));
                arena.set(dict, key, value);
            }
            arena.json(Value::Dict(dict))[bytes..].to_owned()
        };
        assert_eq!(of(JSON_BYTES), ",\"l\":null}");
        assert_eq!(of(JSON_BYTES + 1), "}");
    }
}
