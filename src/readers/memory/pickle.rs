//! A machine for pickles that knows data only.
//!
//! In: the bytes of a pickle, twice. Out: its value; segments and events of a snapshot, of which
//! there are many, go to a [`Sink`] as soon as they are complete, and are forgotten. The first time
//! the bytes say to what the pickle refers again: that is kept.
//!
//! A pickle is a program; the opcodes that look up or call anything (`GLOBAL`, `REDUCE`, `BUILD`
//! and their kin) are refused by name and offset, and nothing is read on. Lengths are checked
//! against the bytes that are there before anything is made of them, what is made grows no faster
//! than the file times [`CELLS_PER_BYTE`], what is held at a time has [`MAX_CELLS`], and nothing
//! here recurses.

use std::collections::{HashMap, HashSet};
use std::io::{Cursor, Read};

use crate::error::{Error, Result as Answer};
use crate::input::window::{End, Window};
use crate::readers::memory::value::{Arena, CELLS, Value};

/// Unpacked bytes of the largest file that is read. A snapshot of a million events has some 200 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Cells of 16 bytes that a byte of the file may make: real snapshots take less than 0.6.
const CELLS_PER_BYTE: usize = 1;
/// Cells that any file may make: 4 MiB.
const FREE_CELLS: usize = 1 << 18;
/// Cells that are held at a time: 128 MiB. Of a million events with stacks of twenty frames a third
/// of that is held.
const MAX_CELLS: usize = 1 << 23;
/// Bytes of a cell.
const CELL_BYTES: usize = 16;
/// Bytes of a text.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Numbers of the memo of which it is known whether they are recalled; larger ones are kept.
const MAX_KNOWN: u64 = 1 << 28;
/// Marks that are open at a time: one for each container that is being filled. Real snapshots nest
/// six.
const MAX_MARKS: usize = 1000;
/// Bytes of the number of a memo entry in text.
const MAX_LINE: usize = 20;

/// The content of a pickle.
pub struct Pickle {
    /// Objects that its values refer to.
    pub arena: Arena,
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

/// Where parts of a snapshot go as soon as they are complete.
pub(super) trait Sink {
    /// Takes a part. It is forgotten then, but for what the pickle refers to again.
    ///
    /// # Errors
    /// What stops the reading.
    fn take(&mut self, arena: &Arena, part: Part, value: Value) -> Answer<()>;
}

/// A part of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A segment.
    Segment,
    /// An event of the trace of a device.
    Event(i64),
}

/// What the bytes of a pickle say before it is read.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Bits of the numbers of the memo that are recalled.
    recalled: Vec<u64>,
}

impl Known {
    fn add(&mut self, number: u64) {
        if number < MAX_KNOWN {
            let word = (number / 64) as usize;
            if self.recalled.len() <= word {
                self.recalled.resize(word + 1, 0);
            }
            self.recalled[word] |= 1 << (number % 64);
        }
    }

    fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.recalled.get(word));
        number >= MAX_KNOWN || word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Looks through all bytes of a file.
    ///
    /// # Errors
    /// `trace-truncated`, `gzip-broken`, `file-unreadable`, `value-too-large`.
    pub(super) fn of(reader: Box<dyn Read + Send>, shown: &str) -> Answer<Self> {
        let (mut known, mut bytes) = (Self::default(), Bytes(Window::new(reader)));
        // Where the pickle cannot be read on, the machine will say so.
        while known.step(&mut bytes).is_some() {
            bytes.check_size(shown)?;
        }
        loop {
            let have = bytes.0.bytes().len();
            bytes.0.consume(have);
            bytes.check_size(shown)?;
            if !bytes.0.fill() {
                break;
            }
        }
        known.bytes = bytes.0.offset;
        let (code, what) = match bytes.0.end() {
            Some(End::Truncated) => {
                ("trace-truncated", "the compressed file ends early".to_owned())
            }
            Some(End::Broken(why)) => {
                ("gzip-broken", format!("the file cannot be unpacked: {why}"))
            }
            Some(End::Unreadable(why)) => {
                ("file-unreadable", format!("the file cannot be read on: {why}"))
            }
            _ => return Ok(known),
        };
        let at = format!("{shown}, byte {}", known.bytes);
        Err(Error::new(code, what).at(at).hint("copy the file again"))
    }

    /// Looks at an opcode; None at the end, and where the pickle cannot be read on.
    fn step(&mut self, bytes: &mut Bytes) -> Option<()> {
        let [opcode] = bytes.array::<1>()?;
        let skipped = match opcode {
            b'K' | b'q' | 0x80 => 1,
            b'M' => 2,
            b'J' | b'r' => 4,
            b'G' | 0x95 => 8,
            0x8a | 0x8c | b'C' => u64::from(bytes.array::<1>()?[0]),
            0x8b | b'X' | b'B' => u64::from(u32::from_le_bytes(bytes.array()?)),
            0x8d => u64::from_le_bytes(bytes.array()?),
            b'h' => {
                let [number] = bytes.array()?;
                self.add(number.into());
                0
            }
            b'j' => {
                let number = u32::from_le_bytes(bytes.array()?);
                self.add(number.into());
                0
            }
            b'p' | b'g' => {
                let (length, number) = bytes.line()?;
                if opcode == b'g' {
                    self.add(number?);
                }
                length as u64
            }
            b'('
            | b'0'..=b'2'
            | b'N'
            | 0x88
            | 0x89
            | b']'
            | b'l'
            | b'a'
            | b'e'
            | b')'
            | 0x85
            | 0x86
            | 0x87
            | b't'
            | b'}'
            | b'd'
            | b's'
            | b'u'
            | 0x94 => 0,
            _ => return None,
        };
        bytes.skip(skipped)
    }
}

/// The bytes of a pickle.
struct Bytes(Window);

impl Bytes {
    fn check_size(&self, shown: &str) -> Answer<()> {
        if self.0.offset <= MAX_FILE_BYTES {
            return Ok(());
        }
        Err(Error::new("value-too-large", "the snapshot is larger than any that is read")
            .at(shown.to_owned())
            .facts(format!("at most {MAX_FILE_BYTES} bytes are read"))
            .hint(
                "record fewer events: torch.cuda.memory._record_memory_history(max_entries=100000)",
            ))
    }

    /// At least `n` bytes, or as many as there are.
    fn at_least(&mut self, n: usize) -> &[u8] {
        while self.0.bytes().len() < n && self.0.fill() {}
        self.0.bytes()
    }

    /// The next bytes, which are consumed.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.at_least(N).first_chunk::<N>().copied()?;
        self.0.consume(N);
        Some(array)
    }

    fn skip(&mut self, mut n: u64) -> Option<()> {
        loop {
            let now = n.min(self.0.bytes().len() as u64);
            self.0.consume(now as usize);
            n -= now;
            if n == 0 {
                return Some(());
            }
            if !self.0.fill() {
                return None;
            }
        }
    }

    /// The length of the line in hand with its end, and the number that it is.
    fn line(&mut self) -> Option<(usize, Option<u64>)> {
        let rest = self.at_least(MAX_LINE);
        let length = rest.iter().take(MAX_LINE).position(|b| *b == b'\n')?;
        let text = std::str::from_utf8(&rest[..length]).unwrap_or("");
        Some((length + 1, text.trim_end_matches('\r').parse().ok()))
    }
}

struct Machine<'s> {
    bytes: Bytes,
    known: Known,
    /// Offset of the opcode at hand.
    opcode: usize,
    arena: Arena,
    stack: Vec<Value>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    /// What is recalled of what was remembered.
    memo: HashMap<u64, Value>,
    /// Numbers of the memo without gaps.
    near: u64,
    /// Those that leave gaps.
    far: HashSet<u64>,
    cells: usize,
    max_cells: usize,
    /// Cells that are held, without the stack.
    held: usize,
    sink: Option<&'s mut dyn Sink>,
    /// Texts of the keys whose lists go to the sink: segments, traces.
    parts: [u32; 2],
    /// Why the sink took no more.
    failed: Option<Error>,
}

/// Reads a pickle that is in memory.
///
/// # Errors
/// The fault that stopped it.
pub fn read(bytes: &[u8]) -> Result<Pickle, Fault> {
    let again = || Box::new(Cursor::new(bytes.to_vec()));
    let known = Known::of(again(), "").map_err(|error| Fault {
        code: error.code,
        message: error.message,
        offset: 0,
    })?;
    match stream(again(), known, Arena::default(), None) {
        Ok(pickle) => Ok(pickle),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Error(_)) => unreachable!("there is no sink"),
    }
}

/// Why a pickle is not read on.
pub(super) enum Stop {
    /// It is none, or none that is read.
    Fault(Fault),
    /// The sink took no more.
    Error(Error),
}

/// Reads a pickle of which some is known; parts of a snapshot go to the sink.
pub(super) fn stream(
    reader: Box<dyn Read + Send>,
    known: Known,
    mut arena: Arena,
    sink: Option<&mut dyn Sink>,
) -> Result<Pickle, Stop> {
    let made = usize::try_from(known.bytes).unwrap_or(usize::MAX).saturating_mul(CELLS_PER_BYTE);
    let mut machine = Machine {
        bytes: Bytes(Window::new(reader)),
        known,
        opcode: 0,
        parts: [&b"segments"[..], b"device_traces"].map(|name| arena.intern(name)),
        arena,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        near: 0,
        far: HashSet::new(),
        cells: 0,
        max_cells: FREE_CELLS.saturating_add(made),
        held: 0,
        sink,
        failed: None,
    };
    match machine.run() {
        Ok(root) => Ok(Pickle { root, end: machine.at(), arena: machine.arena }),
        Err(fault) => Err(machine.failed.map_or(Stop::Fault(fault), Stop::Error)),
    }
}

impl Machine<'_> {
    fn fault(&self, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), offset: self.opcode }
    }

    fn invalid<T>(&self, message: &str) -> Outcome<T> {
        Err(self.fault("pickle-invalid", message))
    }

    /// The offset of the next byte.
    fn at(&self) -> usize {
        self.bytes.0.offset as usize
    }

    /// Bytes that are left.
    fn left(&self) -> u64 {
        self.known.bytes.saturating_sub(self.bytes.0.offset)
    }

    /// The fault of a pickle that ends before `n` bytes more.
    fn ends_early(&self, n: u64) -> Fault {
        let left = self.left();
        self.fault(
            "trace-truncated",
            format!("the pickle ends early: {n} bytes are wanted, and {left} are left"),
        )
    }

    /// An unsigned number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Outcome<u64> {
        let Some(bytes) = self.bytes.array::<N>() else { return Err(self.ends_early(N as u64)) };
        let mut out = [0; 8];
        out[..N].copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(out))
    }

    /// Makes something of the next `n` bytes.
    fn take<T>(&mut self, n: u64, make: impl FnOnce(&mut Arena, &[u8]) -> T) -> Outcome<T> {
        if n > self.left() {
            return Err(self.ends_early(n));
        }
        if n > MAX_TEXT_BYTES as u64 {
            let message = format!("the pickle holds a value of {n} bytes, as no snapshot does");
            return Err(self.fault("value-too-large", message));
        }
        let n = n as usize;
        if self.bytes.at_least(n).len() < n {
            return Err(self.ends_early(n as u64));
        }
        let out = make(&mut self.arena, &self.bytes.0.bytes()[..n]);
        self.bytes.0.consume(n);
        Ok(out)
    }

    /// A length of `N` bytes, and the text of so many bytes.
    fn counted<const N: usize>(&mut self) -> Outcome<u32> {
        let length = self.number::<N>()?;
        let before = self.arena.texts();
        let text = self.take(length, |arena, text| arena.intern(text))?;
        self.charge(4)?;
        if self.arena.texts() > before {
            self.hold(4 + length as usize / CELL_BYTES)?;
        }
        Ok(text)
    }

    /// A decimal number up to the end of the line.
    fn line(&mut self) -> Outcome<u64> {
        let Some((length, number)) = self.bytes.line() else {
            return match self.left() < MAX_LINE as u64 {
                true => Err(self.fault("trace-truncated", "the pickle ends inside a line")),
                false => self.invalid("a number of the memo is too long"),
            };
        };
        self.bytes.0.consume(length);
        match number {
            Some(number) => Ok(number),
            None => self.invalid("a number of the memo is none"),
        }
    }

    /// Counts what is made.
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

    /// Counts what is held.
    fn hold(&mut self, cells: usize) -> Outcome<()> {
        self.held += cells;
        if self.held + self.stack.len() > MAX_CELLS {
            let most = (MAX_CELLS * CELL_BYTES) >> 20;
            return Err(self.fault(
                "value-too-large",
                format!("more than {most} MiB of the pickle would have to be held in memory"),
            ));
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Outcome<()> {
        self.charge(1)?;
        self.stack.push(value);
        self.hold(0)
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
        self.charge(CELLS + items.len())?;
        self.hold(CELLS + items.len())?;
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
        let Some(part) = self.part(list) else {
            self.hold(items.len())?;
            self.arena.extend(list, items);
            return Ok(());
        };
        for item in items {
            let taken = self.sink.as_mut().map(|sink| sink.take(&self.arena, part, *item));
            if let Some(Err(error)) = taken {
                self.failed = Some(error);
                return self.invalid("not taken");
            }
            self.held -= self.arena.release(*item);
        }
        Ok(())
    }

    /// What the items of the list on top of the stack are: parts of a snapshot, when it is one that
    /// the root holds under the right key, and nothing refers to it again.
    fn part(&self, list: u32) -> Option<Part> {
        if self.sink.is_none() || self.arena.is_kept(Value::List(list)) {
            return None;
        }
        let top = self.stack.len() - 1;
        let [segments, traces] = self.parts;
        if self.is_of_root(top, segments, &self.marks) {
            return Some(Part::Segment);
        }
        // Traces of several devices stand behind a mark, that of one behind their list.
        let (above, before, marks) = match self.marks.split_last() {
            Some((mark, marks)) if *mark > 1 => (mark - 1, top - mark, marks),
            _ => (top.checked_sub(1)?, 0, &self.marks[..]),
        };
        match self.stack[above] {
            Value::List(all)
                if self.is_of_root(above, traces, marks)
                    && !self.arena.is_kept(Value::List(all)) =>
            {
                Some(Part::Event((self.arena.items(all).len() + before) as i64))
            }
            _ => None,
        }
    }

    /// Whether what stands at `at` is to be the value of this key of the root.
    fn is_of_root(&self, at: usize, key: u32, marks: &[usize]) -> bool {
        let is_value = match marks {
            [] => at == 2,
            // Behind a dict it may be a value of that one.
            [1] if at > 2 => at.is_multiple_of(2) && !matches!(self.stack[at - 2], Value::Dict(_)),
            [1] => at == 2,
            _ => false,
        };
        is_value
            && matches!(self.stack[0], Value::Dict(_))
            && self.stack[at - 1] == Value::Text(key)
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
        self.hold(pairs.len() / 2)?;
        self.arena.reserve(dict, pairs.len() / 2);
        for pair in pairs.chunks_exact(2) {
            if matches!(pair[0], Value::List(_) | Value::Dict(_)) {
                return self.invalid("a list or a dict is the key of a dict");
            }
            let new_shape = self.arena.set(dict, pair[0], pair[1]);
            self.charge(if new_shape { 6 } else { 1 })?;
            self.hold(if new_shape { 5 } else { 0 })?;
        }
        Ok(())
    }

    fn remember(&mut self, number: u64, value: Value) -> Outcome<()> {
        if number == self.near {
            self.charge(1)?;
            self.near += 1;
        } else if number > self.near {
            self.charge(4)?;
            self.hold(2)?;
            self.far.insert(number);
        }
        if self.known.has(number) {
            self.hold(3)?;
            self.memo.insert(number, value);
            self.arena.keep(value);
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Outcome<()> {
        match self.memo.get(&number).copied() {
            Some(value) => self.push(value),
            None => self.invalid("the pickle recalls what it did not remember"),
        }
    }

    fn run(&mut self) -> Outcome<Value> {
        loop {
            self.opcode = self.at();
            let Some([opcode]) = self.bytes.array() else {
                return Err(self.fault("trace-truncated", "the pickle ends before its STOP"));
            };
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
            b'2' => {
                let top = self.top()?;
                self.arena.keep(top);
                self.push(top)
            }
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            _ => self.scalar(opcode),
        }
    }

    /// A frame says how many bytes follow at least.
    fn frame(&mut self) -> Outcome<()> {
        let length = self.number::<8>()?;
        let left = self.left();
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
            0x8a => {
                let length = self.number::<1>()?;
                self.take(length, |_, digits| integer(digits)).and_then(|n| self.push(n))
            }
            0x8b => {
                let length = self.number::<4>()? as u32;
                // Signed in the format.
                let Ok(length) = u64::try_from(length.cast_signed()) else {
                    return self.invalid("an integer of negative length");
                };
                self.take(length, |_, digits| integer(digits)).and_then(|n| self.push(n))
            }
            b'G' => {
                let bits = self.number::<8>()?;
                self.push(Value::Float(bits.swap_bytes()))
            }
            0x8c => self.counted::<1>().and_then(|text| self.push(Value::Text(text))),
            b'X' => self.counted::<4>().and_then(|text| self.push(Value::Text(text))),
            0x8d => self.counted::<8>().and_then(|text| self.push(Value::Text(text))),
            b'C' => self.counted::<1>().and_then(|bytes| self.push(Value::Bytes(bytes))),
            b'B' => self.counted::<4>().and_then(|bytes| self.push(Value::Bytes(bytes))),
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
        self.charge(CELLS)?;
        self.hold(CELLS)?;
        Ok(self.arena.new_dict())
    }

    fn memo(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            0x94 => {
                let top = self.top()?;
                self.remember(self.near + self.far.len() as u64, top)
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
