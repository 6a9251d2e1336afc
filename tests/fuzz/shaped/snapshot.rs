//! Memory snapshots as pickles: values whose meaning is known, in any of the ways that the opcodes
//! of data have to write them.

use std::collections::BTreeMap;

use ccl_sql::readers::memory::pickle::read;

use super::dice::Dice;

/// A snapshot holds what was written, whatever opcodes it was written with. Says whether it is one.
pub fn check(data: &[u8]) -> bool {
    let mut dice = Dice::new(data);
    let mut writer = Writer::default();
    let root = writer.pickle(&mut dice);
    let json = json(&root);
    let pickle = match read(&writer.out) {
        Ok(pickle) => pickle,
        Err(fault) => panic!("{fault:?}: {json}: {:02x?}", writer.out),
    };
    assert_eq!(pickle.arena.json(pickle.root), json, "{:02x?}", writer.out);
    assert_eq!(pickle.end, writer.out.len());
    super::super::pickle(&writer.out);
    json.contains("\"segments\":[{")
}

/// A value of Python.
#[derive(Debug, Clone)]
enum Object {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits.
    Wide(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Object>),
    Tuple(Vec<Object>),
    Dict(Vec<(Object, Object)>),
}

use Object::{Bool, Bytes, Dict, Float, Int, List, Text, Tuple, Wide};

/// What a value says, as the reader writes it: what JSON lacks is null.
fn json(of: &Object) -> String {
    let quoted = |text: &str| serde_json::to_string(text).expect("text is JSON");
    let list =
        |items: &[Object]| format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(","));
    match of {
        Object::None | Wide(_) => "null".to_owned(),
        Bool(yes) => yes.to_string(),
        Int(number) => number.to_string(),
        Float(number) if number.is_finite() => {
            serde_json::to_string(number).expect("a double is JSON")
        }
        Float(_) => "null".to_owned(),
        Text(text) => quoted(text),
        Bytes(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        List(items) | Tuple(items) => list(items),
        Dict(members) => {
            let member = |(key, value): &(Object, Object)| {
                let key = match key {
                    Text(text) => text.clone(),
                    Tuple(_) => "(tuple)".to_owned(),
                    other => json(other),
                };
                format!("{}:{}", quoted(&key), json(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

/// A pickle under construction.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// What can be recalled, by number; of some it is not known what it is.
    memo: BTreeMap<u32, Option<Object>>,
}

impl Writer {
    /// Writes a pickle; its value.
    fn pickle(&mut self, dice: &mut Dice<'_>) -> Object {
        if !dice.one_in(4) {
            self.out.extend([0x80, dice.below(6) as u8]);
        }
        let root = match dice.below(4) {
            0 => self.value(dice, 0),
            _ => {
                let wanted = snapshot(dice);
                self.write(dice, &wanted);
                wanted
            }
        };
        self.out.push(b'.');
        root
    }

    /// Writes some value.
    fn value(&mut self, dice: &mut Dice<'_>, depth: usize) -> Object {
        let known: Vec<u32> =
            self.memo.iter().filter(|(_, of)| of.is_some()).map(|(n, _)| *n).collect();
        if !known.is_empty() && dice.one_in(5) {
            let number = dice.pick(&known);
            self.recall(dice, number);
            return self.memo[&number].clone().expect("it is known");
        }
        let of = any(dice, depth);
        self.write(dice, &of);
        of
    }

    fn recall(&mut self, dice: &mut Dice<'_>, number: u32) {
        match u8::try_from(number) {
            Ok(number) if !dice.one_in(4) => self.out.extend([b'h', number]),
            _ if dice.one_in(3) => self.out.extend(format!("g{number}\n").into_bytes()),
            _ => {
                self.out.push(b'j');
                self.out.extend(number.to_le_bytes());
            }
        }
    }

    /// Remembers what is on top of the stack, perhaps.
    fn memoize(&mut self, dice: &mut Dice<'_>, of: Option<&Object>) {
        if dice.one_in(3) {
            return;
        }
        // The number of MEMOIZE is that of the entries.
        let next = self.memo.len() as u32;
        let number = match dice.below(8) {
            0 => dice.below(300) as u32,
            _ => next,
        };
        match dice.below(4) {
            0 if number < 256 => self.out.extend([b'q', number as u8]),
            1 => {
                self.out.push(b'r');
                self.out.extend(number.to_le_bytes());
            }
            2 => self.out.extend(format!("p{number}\n").into_bytes()),
            _ if number == next => self.out.push(0x94),
            _ => {
                self.out.push(b'r');
                self.out.extend(number.to_le_bytes());
            }
        }
        self.memo.insert(number, of.cloned());
    }

    /// What leaves the stack as it was.
    fn nothing(&mut self, dice: &mut Dice<'_>) {
        match dice.below(64) {
            1 => {
                self.write(dice, &Text("dropped".to_owned()));
                self.out.push(b'0');
            }
            2 => self.out.extend(*b"(NN1"),
            3 => self.out.extend(*b"N200"),
            4 => self.out.extend([0x95, 0, 0, 0, 0, 0, 0, 0, 0]),
            5 => self.out.extend(*b"(0"),
            _ => {}
        }
    }

    /// Writes a value. What it refers to was written before, or is written here.
    fn write(&mut self, dice: &mut Dice<'_>, of: &Object) {
        self.nothing(dice);
        match of {
            Object::None => self.out.push(b'N'),
            Bool(yes) => self.out.push(if *yes { 0x88 } else { 0x89 }),
            Int(number) => self.int(dice, *number),
            Wide(number) => self.long(dice, &number.to_le_bytes()),
            Float(number) => {
                self.out.push(b'G');
                self.out.extend(number.to_be_bytes());
            }
            Text(text) => {
                self.counted(dice, text.as_bytes(), &[0x8c, b'X', 0x8d]);
                self.memoize(dice, Some(of));
            }
            Bytes(bytes) => {
                self.counted(dice, bytes, b"CB");
                self.memoize(dice, Some(of));
            }
            List(items) => self.list(dice, of, items),
            Tuple(items) => self.tuple(dice, of, items),
            Dict(members) => self.dict(dice, of, members),
        }
    }

    fn int(&mut self, dice: &mut Dice<'_>, number: i64) {
        let plain = !dice.one_in(6);
        if let (Ok(small), true) = (u8::try_from(number), plain) {
            self.out.extend([b'K', small]);
        } else if let (Ok(small), true) = (u16::try_from(number), plain) {
            self.out.push(b'M');
            self.out.extend(small.to_le_bytes());
        } else if let (Ok(small), true) = (i32::try_from(number), plain) {
            self.out.push(b'J');
            self.out.extend(small.to_le_bytes());
        } else {
            self.long(dice, &number.to_le_bytes());
        }
    }

    /// An integer by its digits of 8 bits; those that say nothing may be left out.
    fn long(&mut self, dice: &mut Dice<'_>, digits: &[u8]) {
        let mut digits = digits.to_vec();
        while let [.., before, last] = digits[..]
            && (last == 0 && before < 0x80 || last == 0xff && before >= 0x80)
            && !dice.one_in(20)
        {
            digits.pop();
        }
        if digits == [0] && dice.one_in(2) {
            digits.clear();
        }
        if dice.one_in(4) {
            self.out.push(0x8b);
            self.out.extend((digits.len() as u32).to_le_bytes());
        } else {
            self.out.extend([0x8a, digits.len() as u8]);
        }
        self.out.extend(digits);
    }

    /// Bytes behind their number, which has 1, 4 or 8 bytes.
    fn counted(&mut self, dice: &mut Dice<'_>, bytes: &[u8], opcodes: &[u8]) {
        let opcode = dice.pick(opcodes);
        match opcode {
            0x8c | b'C' if bytes.len() < 256 => self.out.extend([opcode, bytes.len() as u8]),
            0x8d => {
                self.out.push(opcode);
                self.out.extend((bytes.len() as u64).to_le_bytes());
            }
            _ => {
                self.out.push(if opcodes[0] == b'C' { b'B' } else { b'X' });
                self.out.extend((bytes.len() as u32).to_le_bytes());
            }
        }
        self.out.extend(bytes);
    }

    /// Adds to the list or dict on top of the stack: one by one, or several behind a mark.
    fn fill<T>(
        &mut self,
        dice: &mut Dice<'_>,
        mut left: &[T],
        [one_by_one, several]: [u8; 2],
        write: impl Fn(&mut Self, &mut Dice<'_>, &T),
    ) {
        while !left.is_empty() {
            let (now, rest) = left.split_at(1 + dice.below(left.len().min(65_536)));
            left = rest;
            match now {
                [one] if !dice.one_in(4) => {
                    write(self, dice, one);
                    self.out.push(one_by_one);
                }
                _ => {
                    self.out.push(b'(');
                    now.iter().for_each(|item| write(self, dice, item));
                    self.out.push(several);
                }
            }
        }
    }

    fn list(&mut self, dice: &mut Dice<'_>, of: &Object, items: &[Object]) {
        if dice.one_in(8) {
            self.out.push(b'(');
            items.iter().for_each(|item| self.write(dice, item));
            self.out.push(b'l');
        } else {
            self.out.push(b']');
            self.memoize(dice, None);
            self.fill(dice, items, *b"ae", Self::write);
        }
        self.memoize(dice, Some(of));
    }

    fn tuple(&mut self, dice: &mut Dice<'_>, of: &Object, items: &[Object]) {
        let short = [b')', 0x85, 0x86, 0x87].get(items.len()).filter(|_| !dice.one_in(4));
        if short.is_none() {
            self.out.push(b'(');
        }
        items.iter().for_each(|item| self.write(dice, item));
        self.out.push(short.copied().unwrap_or(b't'));
        self.memoize(dice, Some(of));
    }

    fn dict(&mut self, dice: &mut Dice<'_>, of: &Object, members: &[(Object, Object)]) {
        let pair = |writer: &mut Self, dice: &mut Dice<'_>, (key, value): &(Object, Object)| {
            writer.write(dice, key);
            writer.write(dice, value);
        };
        if dice.one_in(8) {
            self.out.push(b'(');
            members.iter().for_each(|member| pair(self, dice, member));
            self.out.push(b'd');
        } else {
            self.out.push(b'}');
            self.memoize(dice, None);
            self.fill(dice, members, *b"su", pair);
        }
        self.memoize(dice, Some(of));
    }
}

/// Any value.
fn any(dice: &mut Dice<'_>, depth: usize) -> Object {
    match dice.below(if depth > 3 { 8 } else { 11 }) {
        0 => Object::None,
        1 => Bool(dice.one_in(2)),
        2 | 3 => Int(dice.number()),
        4 => Float(dice.double()),
        5 | 6 => Text(dice.text()),
        7 => match dice.below(3) {
            0 => Wide((1 << 63) + i128::from(dice.number().unsigned_abs())),
            _ => Bytes(dice.bytes(20)),
        },
        8 => List((0..dice.below(5)).map(|_| any(dice, depth + 1)).collect()),
        9 => Tuple((0..dice.below(5)).map(|_| any(dice, depth + 1)).collect()),
        _ => {
            // Keys of their own: what comes twice is another test's.
            let mut members: Vec<(Object, Object)> = Vec::new();
            for i in 0..dice.below(5) {
                let key = match dice.below(4) {
                    0 => Int(i as i64),
                    1 => Tuple(vec![Int(i as i64)]),
                    _ => Text(format!("{i}{}", dice.text())),
                };
                members.push((key, any(dice, depth + 1)));
            }
            Dict(members)
        }
    }
}

/// A member of a dict as PyTorch writes it, unless it lacks or is something else.
fn member(dice: &mut Dice<'_>, key: &str, usual: Object) -> Option<(Object, Object)> {
    let value = match dice.below(24) {
        0 => return None,
        1 => any(dice, 2),
        _ => usual,
    };
    Some((Text(key.to_owned()), value))
}

fn dict(members: Vec<Option<(Object, Object)>>) -> Object {
    Dict(members.into_iter().flatten().collect())
}

fn word(dice: &mut Dice<'_>, of: &[&str]) -> Object {
    Text(dice.pick(of).to_owned())
}

fn frames(dice: &mut Dice<'_>) -> Object {
    let frame = |dice: &mut Dice<'_>| {
        let (name, file) = (word(dice, &["step", "forward", ""]), word(dice, &["a.py", "??"]));
        let line = Int(dice.below(99) as i64);
        let all = vec![member(dice, "name", name), member(dice, "filename", file)];
        dict([all, vec![member(dice, "line", line)]].concat())
    };
    List((0..dice.below(4)).map(|_| frame(dice)).collect())
}

fn block(dice: &mut Dice<'_>) -> Object {
    let size = dice.number();
    let state = word(dice, &["active_allocated", "inactive", "active_pending_free"]);
    let (address, requested, frames) = (dice.number(), dice.number(), frames(dice));
    dict(vec![
        member(dice, "address", Int(address)),
        member(dice, "size", Int(size)),
        member(dice, "requested_size", Int(requested)),
        member(dice, "state", state),
        member(dice, "frames", frames),
    ])
}

fn segment(dice: &mut Dice<'_>) -> Object {
    let blocks = List((0..dice.below(4)).map(|_| block(dice)).collect());
    let (device, address, total) = (dice.below(4) as i64, dice.number(), dice.number());
    let kind = word(dice, &["large", "small"]);
    let frames = frames(dice);
    dict(vec![
        member(dice, "device", Int(device)),
        member(dice, "address", Int(address)),
        member(dice, "total_size", Int(total)),
        member(dice, "allocated_size", Int(total)),
        member(dice, "stream", Int(0)),
        member(dice, "segment_type", kind),
        member(dice, "segment_pool_id", Tuple(vec![Int(0), Int(device)])),
        member(dice, "is_expandable", Bool(true)),
        member(dice, "frames", frames),
        member(dice, "blocks", blocks),
    ])
}

fn event(dice: &mut Dice<'_>) -> Object {
    let action = word(dice, &["alloc", "free_requested", "free_completed", "segment_alloc", "oom"]);
    let (address, size, time) = (dice.number(), dice.number(), dice.number());
    let frames = frames(dice);
    dict(vec![
        member(dice, "action", action),
        member(dice, "addr", Int(address)),
        member(dice, "size", Int(size)),
        member(dice, "stream", Int(7)),
        member(dice, "time_us", Int(time)),
        member(dice, "frames", frames),
    ])
}

fn snapshot(dice: &mut Dice<'_>) -> Object {
    let segments = List((0..dice.below(5)).map(|_| segment(dice)).collect());
    let trace = |dice: &mut Dice<'_>| List((0..dice.below(6)).map(|_| event(dice)).collect());
    let traces = List((0..dice.below(4)).map(|_| trace(dice)).collect());
    if dice.one_in(12) {
        return segments;
    }
    let setting = any(dice, 2);
    let settings = dict(vec![member(dice, "max_split_size", setting)]);
    let mut members = vec![
        member(dice, "segments", segments),
        member(dice, "device_traces", traces),
        member(dice, "allocator_settings", settings),
        member(dice, "external_annotations", List(Vec::new())),
    ];
    let by = dice.below(members.len());
    members.rotate_left(by);
    dict(members)
}
