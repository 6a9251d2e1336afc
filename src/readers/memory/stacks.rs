//! Call stacks of a snapshot, each kept once: events, blocks and segments name it by number.
//!
//! PyTorch writes the list of frames of a stack once and refers to it from then on, and so does the
//! reader: a list is looked at once, and lists of equal frames are one stack.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::Result;
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
    of_frames: HashMap<Box<[u32]>, i64>,
    contents: Vec<([Value; 3], Option<String>)>,
    next: i64,
}

impl Stacks {
    /// Writes into `folder`; numbers count from `first`.
    pub(super) fn new(arena: &Arena<'_>, folder: &Path, first: i64) -> Self {
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
        }
    }

    /// The number of the stack whose frames these are; None for no frames.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub(super) fn id(&mut self, arena: &Arena<'_>, frames: Option<Value>) -> Result<Option<i64>> {
        let Some(Value::List(list) | Value::Tuple(list)) = frames else { return Ok(None) };
        if let Some(id) = self.of_list.get(&list) {
            return Ok(*id);
        }
        let items = arena.items(list).iter();
        let frames: Box<[u32]> = items.map(|item| self.frame(arena, *item)).collect();
        let id = match self.of_frames.get(&frames) {
            _ if frames.is_empty() => None,
            Some(id) => Some(*id),
            None => {
                let id = self.next;
                self.next += 1;
                self.write(arena, id, &frames)?;
                self.of_frames.insert(frames, id);
                Some(id)
            }
        };
        self.of_list.insert(list, id);
        Ok(id)
    }

    fn frame(&mut self, arena: &Arena<'_>, frame: Value) -> u32 {
        let content = match frame {
            Value::Dict(dict) => {
                if let Some(frame) = self.of_dict.get(&dict) {
                    return *frame;
                }
                let (values, rest) = self.fields.of(arena, dict);
                (values.map(|v| v.unwrap_or(Value::None)), rest_json(arena, dict, rest))
            }
            // A frame that is a line of text.
            other => ([other, Value::None, Value::None], None),
        };
        let next = self.contents.len() as u32;
        let number = *self.of_content.entry(content).or_insert_with_key(|content| {
            self.contents.push(content.clone());
            next
        });
        if let Value::Dict(dict) = frame {
            self.of_dict.insert(dict, number);
        }
        number
    }

    fn write(&mut self, arena: &Arena<'_>, id: i64, frames: &[u32]) -> Result<()> {
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
