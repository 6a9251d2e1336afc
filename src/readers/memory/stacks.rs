//! Call stacks of a snapshot, each kept once: events, blocks and segments name it by number.
//!
//! PyTorch writes the list of frames of a stack once and refers to it from then on, and so does the
//! reader: a list is looked at once, and lists of equal frames are one stack.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::readers::memory::value::{Arena, Fields, Value, rest_json};
use crate::schema::table;
use crate::spool::parquet::TableWriter;

/// Distinct call stacks, written as they come.
pub(super) struct Stacks {
    writer: TableWriter,
    fields: Fields<3>,
    /// Number of the frame that a dict is.
    of_dict: HashMap<u32, u32>,
    /// Number of the frame of a name, file, line and whatever else it says.
    of_content: HashMap<([Value; 3], Option<String>), u32>,
    /// Number of the stack that a list is.
    of_list: HashMap<u32, Option<i64>>,
    /// Number of the stack of a hash of frames.
    of_frames: HashMap<u128, i64>,
    contents: Vec<([Value; 3], Option<String>)>,
    next: i64,
    /// What is held of all of them.
    bytes: usize,
    /// The file, for messages.
    shown: String,
}

/// Bytes that are held of all stacks.
const MAX_BYTES: usize = 96 << 20;
/// What a number of a list or a dict takes, a stack without its frames, and a frame.
const NUMBER_BYTES: usize = 32;
const STACK_BYTES: usize = 64;
const FRAME_BYTES: usize = 256;

/// What is written of a value of a frame: numbers of lists and dicts come to mean others.
fn plain(value: Value) -> Value {
    match value {
        Value::List(_) | Value::Tuple(_) | Value::Dict(_) => Value::None,
        other => other,
    }
}

impl Stacks {
    /// Writes into `folder`; numbers count from `first`.
    pub(super) fn new(arena: &mut Arena, shown: &str, folder: &Path, first: i64) -> Self {
        let stacks = table("memory_stacks").expect("the table is in the schema");
        let path = folder.join("memory_stacks.parquet");
        Self {
            writer: TableWriter::new(stacks, &["rank"], path),
            fields: Fields::new(arena, ["name", "filename", "line"]),
            of_dict: HashMap::new(),
            of_content: HashMap::new(),
            of_list: HashMap::new(),
            of_frames: HashMap::new(),
            contents: Vec::new(),
            next: first,
            bytes: 0,
            shown: shown.to_owned(),
        }
    }

    /// The number of the stack whose frames these are; None for no frames.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub(super) fn id(&mut self, arena: &Arena, frames: Option<Value>) -> Result<Option<i64>> {
        let Some(Value::List(list) | Value::Tuple(list)) = frames else { return Ok(None) };
        // The number of what is not kept may come to mean another list.
        let is_kept = arena.is_kept(Value::List(list));
        if let Some(id) = self.of_list.get(&list).filter(|_| is_kept) {
            return Ok(*id);
        }
        let items = arena.items(list);
        let frames: Vec<u32> = items.iter().map(|item| self.frame(arena, *item)).collect();
        let mut content = Sha256::new();
        frames.iter().for_each(|frame| content.update(frame.to_le_bytes()));
        let content: [u8; 32] = content.finalize().into();
        let content = u128::from_le_bytes(*content.first_chunk().expect("it has 32 bytes"));
        let id = match self.of_frames.get(&content) {
            _ if frames.is_empty() => None,
            Some(id) => Some(*id),
            None => {
                let id = self.next;
                self.next += 1;
                self.write(arena, id, &frames)?;
                self.of_frames.insert(content, id);
                self.bytes += STACK_BYTES;
                Some(id)
            }
        };
        if is_kept {
            self.of_list.insert(list, id);
            self.bytes += NUMBER_BYTES;
        }
        match self.bytes > MAX_BYTES {
            true => Err(Error::new(
                "value-too-large",
                "the call stacks of the snapshot are too many",
            )
            .at(self.shown.clone())
            .facts(format!("at most {} MiB of them are held", MAX_BYTES >> 20))
            .hint(
                "record fewer events: torch.cuda.memory._record_memory_history(max_entries=100000)",
            )),
            false => Ok(id),
        }
    }

    fn frame(&mut self, arena: &Arena, frame: Value) -> u32 {
        let content = match frame {
            Value::Dict(dict) => {
                if let Some(frame) = self.of_dict.get(&dict).filter(|_| arena.is_kept(frame)) {
                    return *frame;
                }
                let (values, rest) = self.fields.of(arena, dict);
                (values.map(|v| v.map_or(Value::None, plain)), rest_json(arena, dict, rest))
            }
            // A frame that is a line of text.
            other => ([plain(other), Value::None, Value::None], None),
        };
        let next = self.contents.len() as u32;
        let number = *self.of_content.entry(content).or_insert_with_key(|content| {
            self.bytes += FRAME_BYTES + 2 * content.1.as_ref().map_or(0, String::len);
            self.contents.push(content.clone());
            next
        });
        if let (Value::Dict(dict), true) = (frame, arena.is_kept(frame)) {
            self.of_dict.insert(dict, number);
            self.bytes += NUMBER_BYTES;
        }
        number
    }

    fn write(&mut self, arena: &Arena, id: i64, frames: &[u32]) -> Result<()> {
        for (depth, frame) in frames.iter().enumerate() {
            let ([name, file, line], args) = &self.contents[*frame as usize];
            let line = match line {
                Value::Int(line) => Some(*line),
                _ => None,
            };
            let row = self.writer.row();
            row.int(Some(id)).int(Some(depth as i64));
            row.text(arena.as_text(*name).as_deref()).text(arena.as_text(*file).as_deref());
            row.int(line).text(args.as_deref());
            self.writer.end_row()?;
        }
        Ok(())
    }

    /// Closes the file; its path when there were stacks.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub(super) fn finish(self) -> Result<Option<PathBuf>> {
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of frames: dicts of a name each, with what has no column where `rest` says so.
    fn list(arena: &mut Arena, names: &[&str], rest: Option<&str>) -> Value {
        let frames = names
            .iter()
            .map(|name| {
                let dict = arena.new_dict();
                for (key, value) in [("name", Some(*name)), ("extra", rest)] {
                    let Some(value) = value else { continue };
                    let key = Value::Text(arena.intern(key.as_bytes()));
                    let value = Value::Text(arena.intern(value.as_bytes()));
                    arena.set(dict, key, value);
                }
                Value::Dict(dict)
            })
            .collect();
        Value::List(arena.new_list(frames))
    }

    #[test]
    fn what_is_held_is_counted() {
        let (mut arena, folder) = (Arena::default(), tempfile::tempdir().expect("a folder"));
        let mut stacks = Stacks::new(&mut arena, "x.pickle", folder.path(), 5);
        let mut of = |arena: &Arena, list: Value| {
            let id = stacks.id(arena, Some(list)).expect("there is room");
            (id, std::mem::take(&mut stacks.bytes))
        };
        let one = list(&mut arena, &["f", "g"], None);
        assert_eq!(of(&arena, one), (Some(5), 2 * FRAME_BYTES + STACK_BYTES));
        // Equal frames in another list.
        let same = list(&mut arena, &["f", "g"], None);
        assert_eq!(of(&arena, same), (Some(5), 0));
        // A list that is referred to again is known by its number.
        arena.keep(same);
        assert_eq!(of(&arena, same), (Some(5), NUMBER_BYTES));
        assert_eq!(of(&arena, same), (Some(5), 0));
        // So is a dict, and what has no column takes its bytes twice.
        let other = list(&mut arena, &["h"], Some("x"));
        let Value::List(number) = other else { panic!("a list") };
        arena.keep(arena.items(number)[0]);
        let rest = r#"{"extra":"x"}"#.len();
        let bytes = FRAME_BYTES + 2 * rest + NUMBER_BYTES + STACK_BYTES;
        assert_eq!(of(&arena, other), (Some(6), bytes));
        let none = list(&mut arena, &[], None);
        assert_eq!(of(&arena, none), (None, 0));
    }

    #[test]
    fn the_most_stacks_that_are_held() {
        let (mut arena, folder) = (Arena::default(), tempfile::tempdir().expect("a folder"));
        let mut stacks = Stacks::new(&mut arena, "x.pickle", folder.path(), 0);
        stacks.bytes = MAX_BYTES - FRAME_BYTES - STACK_BYTES;
        let one = list(&mut arena, &["f"], None);
        assert_eq!(stacks.id(&arena, Some(one)).expect("there is room"), Some(0));
        let two = list(&mut arena, &["f", "f"], None);
        let error = stacks.id(&arena, Some(two)).expect_err("there is none");
        assert_eq!(error.code, "value-too-large");
    }
}
