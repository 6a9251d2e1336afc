//! A machine for pickles that knows data only.
//!
//! In: the bytes of a pickle. Out: its value. A pickle is a program; the opcodes that look up or
//! call anything (`GLOBAL`, `REDUCE`, `BUILD` and their kin) are refused by name and offset, and
//! nothing is read on. Lengths are checked against the bytes that are there before anything is made
//! of them, memory grows no faster than the file times [`CELLS_PER_BYTE`], up to [`MAX_CELLS`], and
//! nothing here recurses.

use std::collections::HashMap;

use crate::error::Error;
use crate::readers::memory::value::{Arena, Value};

/// Cells of 16 bytes that a byte of the file may make: real snapshots take less than 0.6.
const CELLS_PER_BYTE: usize = 1;
/// Cells that any file may make: 4 MiB.
const FREE_CELLS: usize = 1 << 18;
/// Cells that no file may pass: 4 GiB, a snapshot of some eight million events.
const MAX_CELLS: usize = 1 << 28;
/// Marks that are open at a time: one for each container that is being filled. Real snapshots nest
/// six.
const MAX_MARKS: usize = 1000;
/// Bytes of the number of a memo entry in text.
const MAX_LINE: usize = 20;

/// The content of a pickle.
pub struct Pickle<'a> {
    /// Objects that its values refer to.
    pub arena: Arena<'a>,
    /// The value.
    pub root: Value,
    /// Bytes up to the end of the pickle; more may follow.
    pub end: usize,
}

/// Why a pickle is not read: a code, a sentence, and the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `pickle-code`, `pickle-invalid`, `trace-truncated` or `value-too-large`.
    pub code: &'static str,
    /// The fault.
    pub message: String,
    /// Where.
    pub offset: usize,
}

impl Fault {
    /// The error about a file.
    pub fn error(&self, shown: &str) -> Error {
        let hint = match self.code {
            "pickle-code" => {
                "nothing of it was run; a memory snapshot holds data only: write it again with torch.cuda.memory._dump_snapshot"
            }
            "trace-truncated" => "copy the file again, or write the snapshot again",
            _ => "write the snapshot again with torch.cuda.memory._dump_snapshot",
        };
        Error::new(self.code, self.message.clone())
            .at(format!("{shown}, byte {}", self.offset))
            .hint(hint)
    }
}

type Outcome<T> = Result<T, Fault>;

/// Opcodes that run code, by their byte.
const CODE: [(u8, &str); 16] = [
    (b'c', "GLOBAL"),
    (0x93, "STACK_GLOBAL"),
    (b'R', "REDUCE"),
    (b'b', "BUILD"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (0x81, "NEWOBJ"),
    (0x92, "NEWOBJ_EX"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
    (0x96, "BYTEARRAY8"),
];

/// Opcodes of data that no snapshot has.
const UNUSED: [(u8, &str); 11] = [
    (b'I', "INT"),
    (b'L', "LONG"),
    (b'F', "FLOAT"),
    (b'S', "STRING"),
    (b'T', "BINSTRING"),
    (b'U', "SHORT_BINSTRING"),
    (b'V', "UNICODE"),
    (0x8e, "BINBYTES8"),
    (0x8f, "EMPTY_SET"),
    (0x90, "ADDITEMS"),
    (0x91, "FROZENSET"),
];

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the opcode at hand.
    opcode: usize,
    arena: Arena<'a>,
    stack: Vec<Value>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// Entries whose numbers leave gaps.
    far_memo: HashMap<u64, Value>,
    cells: usize,
    max_cells: usize,
}

/// Reads a pickle.
///
/// # Errors
/// The fault that stopped it.
pub fn read(bytes: &[u8]) -> Result<Pickle<'_>, Fault> {
    let mut machine = Machine {
        bytes,
        at: 0,
        opcode: 0,
        arena: Arena::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        far_memo: HashMap::new(),
        cells: 0,
        max_cells: FREE_CELLS.saturating_add(bytes.len() * CELLS_PER_BYTE).min(MAX_CELLS),
    };
    let root = machine.run()?;
    Ok(Pickle { root, end: machine.at, arena: machine.arena })
}

impl<'a> Machine<'a> {
    fn fault(&self, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), offset: self.opcode }
    }

    fn invalid<T>(&self, message: &str) -> Outcome<T> {
        Err(self.fault("pickle-invalid", message))
    }

    /// The next `n` bytes.
    fn take(&mut self, n: usize) -> Outcome<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if n > rest.len() {
            return Err(self.fault(
                "trace-truncated",
                format!("the pickle ends early: {n} bytes are wanted, and {} are left", rest.len()),
            ));
        }
        self.at += n;
        Ok(&rest[..n])
    }

    /// An unsigned number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Outcome<u64> {
        let mut out = [0; 8];
        out[..N].copy_from_slice(self.take(N)?);
        Ok(u64::from_le_bytes(out))
    }

    /// A length of `N` bytes, and so many bytes.
    fn counted<const N: usize>(&mut self) -> Outcome<&'a [u8]> {
        let length = self.number::<N>()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A decimal number up to the end of the line.
    fn line(&mut self) -> Outcome<u64> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().take(MAX_LINE).position(|b| *b == b'\n') else {
            return match rest.len() < MAX_LINE {
                true => Err(self.fault("trace-truncated", "the pickle ends inside a line")),
                false => self.invalid("a number of the memo is too long"),
            };
        };
        let text = std::str::from_utf8(&rest[..length]).unwrap_or("");
        self.at += length + 1;
        match text.trim_end_matches('\r').parse() {
            Ok(number) => Ok(number),
            Err(_) => self.invalid("a number of the memo is none"),
        }
    }

    /// Counts memory.
    fn charge(&mut self, cells: usize) -> Outcome<()> {
        self.cells += cells;
        if self.cells > self.max_cells {
            return Err(self.fault(
                "value-too-large",
                "the pickle would take many times its size in memory, as no snapshot does",
            ));
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Outcome<()> {
        self.charge(1)?;
        self.stack.push(value);
        Ok(())
    }

    /// The lowest place that an opcode may take from.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Outcome<Value> {
        match self.stack.len() > self.floor() {
            true => Ok(self.stack.pop().unwrap_or(Value::None)),
            false => self.invalid("the pickle takes from an empty stack"),
        }
    }

    fn top(&self) -> Outcome<Value> {
        match self.stack.last() {
            Some(top) if self.stack.len() > self.floor() => Ok(*top),
            _ => self.invalid("the pickle looks at an empty stack"),
        }
    }

    /// Everything above the last mark, which is taken away.
    fn since_mark(&mut self) -> Outcome<Vec<Value>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => self.invalid("the pickle closes a mark that it did not set"),
        }
    }

    fn list(&mut self, items: Vec<Value>) -> Outcome<u32> {
        self.charge(3 + items.len())?;
        Ok(self.arena.new_list(items))
    }

    fn tuple(&mut self, length: usize) -> Outcome<()> {
        if self.stack.len() - self.floor() < length {
            return self.invalid("the pickle takes from an empty stack");
        }
        let items = self.stack.split_off(self.stack.len() - length);
        let tuple = self.list(items)?;
        self.push(Value::Tuple(tuple))
    }

    fn append(&mut self, items: &[Value]) -> Outcome<()> {
        let Value::List(list) = self.top()? else {
            return self.invalid("the pickle appends to what is no list");
        };
        self.charge(items.len())?;
        self.arena.extend(list, items);
        Ok(())
    }

    fn set_items(&mut self, pairs: &[Value]) -> Outcome<()> {
        let Value::Dict(dict) = self.top()? else {
            return self.invalid("the pickle sets a key of what is no dict");
        };
        self.fill(dict, pairs)
    }

    fn fill(&mut self, dict: u32, pairs: &[Value]) -> Outcome<()> {
        if pairs.len() % 2 == 1 {
            return self.invalid("a key of a dict has no value");
        }
        for pair in pairs.chunks_exact(2) {
            if matches!(pair[0], Value::List(_) | Value::Dict(_)) {
                return self.invalid("a list or a dict is the key of a dict");
            }
            let new_shape = self.arena.set(dict, pair[0], pair[1]);
            self.charge(if new_shape { 6 } else { 1 })?;
        }
        Ok(())
    }

    fn remember(&mut self, number: u64, value: Value) -> Outcome<()> {
        let next = self.memo.len() as u64;
        if number < next {
            self.memo[number as usize] = value;
        } else if number == next {
            self.charge(1)?;
            self.memo.push(value);
        } else {
            self.charge(4)?;
            self.far_memo.insert(number, value);
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Outcome<()> {
        let near = usize::try_from(number).ok().and_then(|n| self.memo.get(n));
        match near.or_else(|| self.far_memo.get(&number)).copied() {
            Some(value) => self.push(value),
            None => self.invalid("the pickle recalls what it did not remember"),
        }
    }

    fn text(&mut self, text: &'a [u8]) -> Outcome<()> {
        self.charge(4)?;
        let text = Value::Text(self.arena.intern(text));
        self.push(text)
    }

    fn raw(&mut self, bytes: &'a [u8]) -> Outcome<()> {
        self.charge(4)?;
        let bytes = Value::Bytes(self.arena.intern(bytes));
        self.push(bytes)
    }

    fn run(&mut self) -> Outcome<Value> {
        loop {
            self.opcode = self.at;
            let Some(&opcode) = self.bytes.get(self.at) else {
                return Err(self.fault("trace-truncated", "the pickle ends before its STOP"));
            };
            self.at += 1;
            if opcode == b'.' {
                return match (self.stack.len(), self.marks.len()) {
                    (1, 0) => self.pop(),
                    _ => self.invalid("the pickle ends with another number of values than one"),
                };
            }
            self.step(opcode)?;
        }
    }

    fn step(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            0x80 => match self.number::<1>()? {
                0..=5 => Ok(()),
                _ => self.invalid("the pickle is of a protocol that this version does not know"),
            },
            0x95 => self.frame(),
            b'(' if self.marks.len() == MAX_MARKS => {
                Err(self.fault("value-too-large", "the pickle nests deeper than any snapshot"))
            }
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop_or_mark(),
            b'1' => self.since_mark().map(drop),
            b'2' => self.top().and_then(|top| self.push(top)),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            _ => self.scalar(opcode),
        }
    }

    /// A frame says how many bytes follow at least.
    fn frame(&mut self) -> Outcome<()> {
        let length = self.number::<8>()?;
        let left = (self.bytes.len() - self.at) as u64;
        if length > left {
            return Err(self.fault(
                "trace-truncated",
                format!("the pickle ends early: a frame of {length} bytes, and {left} are left"),
            ));
        }
        Ok(())
    }

    fn pop_or_mark(&mut self) -> Outcome<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn scalar(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            b'J' => {
                let number = self.number::<4>()? as u32;
                self.push(Value::Int(i64::from(number.cast_signed())))
            }
            b'K' => self.number::<1>().and_then(|n| self.push(Value::Int(n as i64))),
            b'M' => self.number::<2>().and_then(|n| self.push(Value::Int(n as i64))),
            0x8a => self.counted::<1>().and_then(|digits| self.push(integer(digits))),
            0x8b => {
                let length = self.number::<4>()? as u32;
                // Signed in the format.
                let Ok(length) = usize::try_from(length.cast_signed()) else {
                    return self.invalid("an integer of negative length");
                };
                self.take(length).and_then(|digits| self.push(integer(digits)))
            }
            b'G' => {
                let mut bits = [0; 8];
                bits.copy_from_slice(self.take(8)?);
                self.push(Value::Float(u64::from_be_bytes(bits)))
            }
            0x8c => self.counted::<1>().and_then(|text| self.text(text)),
            b'X' => self.counted::<4>().and_then(|text| self.text(text)),
            0x8d => self.counted::<8>().and_then(|text| self.text(text)),
            b'C' => self.counted::<1>().and_then(|bytes| self.raw(bytes)),
            b'B' => self.counted::<4>().and_then(|bytes| self.raw(bytes)),
            _ => self.container(opcode),
        }
    }

    fn container(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            b']' => self.list(Vec::new()).and_then(|list| self.push(Value::List(list))),
            b'l' => {
                let items = self.since_mark()?;
                let list = self.list(items)?;
                self.push(Value::List(list))
            }
            b'a' => self.pop().and_then(|item| self.append(&[item])),
            b'e' => self.since_mark().and_then(|items| self.append(&items)),
            b')' => self.tuple(0),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' => {
                let items = self.since_mark()?;
                let tuple = self.list(items)?;
                self.push(Value::Tuple(tuple))
            }
            b'}' => self.empty_dict().and_then(|dict| self.push(Value::Dict(dict))),
            b'd' => {
                let pairs = self.since_mark()?;
                let dict = self.empty_dict()?;
                self.fill(dict, &pairs)?;
                self.push(Value::Dict(dict))
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])
            }
            b'u' => self.since_mark().and_then(|pairs| self.set_items(&pairs)),
            _ => self.memo(opcode),
        }
    }

    fn empty_dict(&mut self) -> Outcome<u32> {
        self.charge(3)?;
        Ok(self.arena.new_dict())
    }

    fn memo(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            0x94 => {
                let top = self.top()?;
                self.remember((self.memo.len() + self.far_memo.len()) as u64, top)
            }
            b'q' => {
                let number = self.number::<1>()?;
                self.top().and_then(|top| self.remember(number, top))
            }
            b'r' => {
                let number = self.number::<4>()?;
                self.top().and_then(|top| self.remember(number, top))
            }
            b'p' => {
                let number = self.line()?;
                self.top().and_then(|top| self.remember(number, top))
            }
            b'h' => self.number::<1>().and_then(|number| self.recall(number)),
            b'j' => self.number::<4>().and_then(|number| self.recall(number)),
            b'g' => self.line().and_then(|number| self.recall(number)),
            _ => Err(self.refused(opcode)),
        }
    }

    fn refused(&self, opcode: u8) -> Fault {
        let name = |list: &[(u8, &'static str)]| {
            list.iter().find(|(byte, _)| *byte == opcode).map(|(_, name)| *name)
        };
        if let Some(name) = name(&CODE) {
            return self.fault(
                "pickle-code",
                format!("the pickle asks for more than data: {name}, which is never followed"),
            );
        }
        let what = name(&UNUSED).map_or_else(
            || format!("byte 0x{opcode:02x} is no opcode of a pickle"),
            |name| format!("the pickle holds {name}, which no memory snapshot does"),
        );
        self.fault("pickle-invalid", what)
    }
}

/// An integer of any number of bytes, the lowest first, in two's complement.
fn integer(digits: &[u8]) -> Value {
    let negative = digits.last().is_some_and(|top| *top >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let mut out = [fill; 8];
    let kept = digits.len().min(8);
    out[..kept].copy_from_slice(&digits[..kept]);
    let value = i64::from_le_bytes(out);
    match digits[kept..].iter().all(|d| *d == fill) && (value < 0) == negative {
        true => Value::Int(value),
        false => Value::Wide,
    }
}

#[cfg(test)]
mod tests;
