//! Protocol buffers as bytes: fields of a message in memory, and messages in a file that are too
//! large to be held.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Result, io};

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of any length.
    Int(u64),
    /// Eight bytes, as a double is written.
    Bits(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// A group, which is passed over: no message of XLA has any.
    Group,
}

/// Groups inside of each other, as many as other readers take.
const MAX_GROUPS: usize = 100;

/// A message that ends inside a field, or holds what no field can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// A number of any length at `at`, which is moved behind it.
pub fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for shift in (7..70).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        // The tenth byte holds one bit.
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message.
pub struct Fields<'a> {
    bytes: &'a [u8],
    /// Place of the next field.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// The fields of a whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(self.bytes, &mut self.at)?;
        Some((key >> 3, if key & 7 == 3 { self.group(key >> 3)? } else { self.value(key)? }))
    }

    /// Passes over a group up to its end.
    fn group(&mut self, field: u64) -> Option<Value<'a>> {
        let mut open = vec![field];
        while let Some(innermost) = open.last() {
            let key = varint(self.bytes, &mut self.at)?;
            match key & 7 {
                3 if open.len() < MAX_GROUPS => open.push(key >> 3),
                4 if key >> 3 == *innermost => _ = open.pop(),
                _ => _ = self.value(key)?,
            }
        }
        Some(Value::Group)
    }

    fn value(&mut self, key: u64) -> Option<Value<'a>> {
        Some(match key & 7 {
            0 => Value::Int(varint(self.bytes, &mut self.at)?),
            1 => Value::Bits(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(self.bytes, &mut self.at)?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Int(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            _ => return None,
        })
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let out = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(out)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field().ok_or(Broken);
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

/// Text that may not be UTF-8.
pub fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Bytes that are read from a file at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Walks over the fields of messages in a file without holding them.
pub struct Cursor<'f> {
    file: &'f File,
    path: &'f Path,
    /// Bytes of the file.
    pub size: u64,
    block: Vec<u8>,
    /// Place of the block in the file.
    from: u64,
    at: usize,
}

/// A field in a file: its number, and where its value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A number.
    Int(u64, u64),
    /// Field, start and end of the value.
    Bytes(u64, u64, u64),
    /// Anything else that could be passed over.
    Other,
}

/// Why there is no next field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The message ends here.
    End,
    /// The message ends inside this field.
    Short,
    /// This can be no field.
    Wrong,
}

impl<'f> Cursor<'f> {
    /// At the start of a file.
    pub fn new(file: &'f File, path: &'f Path, size: u64) -> Self {
        Self { file, path, size, block: Vec::new(), from: 0, at: 0 }
    }

    /// The place of the cursor in the file.
    pub fn place(&self) -> u64 {
        self.from + self.at as u64
    }

    /// Goes to a place.
    pub fn seek(&mut self, to: u64) {
        match to.checked_sub(self.from) {
            Some(ahead) if ahead <= self.block.len() as u64 => self.at = ahead as usize,
            _ => {
                self.block.clear();
                (self.from, self.at) = (to, 0);
            }
        }
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        if self.at == self.block.len() {
            self.from += self.at as u64;
            self.at = 0;
            let left = self.size.saturating_sub(self.from).min(BLOCK_BYTES as u64);
            self.block = read_at(self.file, self.path, self.from, left as usize)?;
            if self.block.is_empty() {
                return Ok(None);
            }
        }
        self.at += 1;
        Ok(Some(self.block[self.at - 1]))
    }

    fn varint(&mut self, end: u64) -> Result<Result<u64, Stop>> {
        let mut bytes = [0; 10];
        for n in 0..bytes.len() {
            if self.place() >= end {
                return Ok(Err(Stop::Short));
            }
            let Some(byte) = self.byte()? else { return Ok(Err(Stop::Short)) };
            bytes[n] = byte;
            if byte < 0x80 {
                return Ok(varint(&bytes[..=n], &mut 0).ok_or(Stop::Wrong));
            }
        }
        Ok(Err(Stop::Wrong))
    }

    /// The next field of a message that ends at `end`; values that are bytes are passed over.
    ///
    /// # Errors
    /// `io` when the file cannot be read.
    pub fn field(&mut self, end: u64) -> Result<Result<Field, Stop>> {
        if self.place() >= end {
            return Ok(Err(Stop::End));
        }
        let key = match self.varint(end)? {
            Ok(key) => key,
            Err(stop) => return Ok(Err(stop)),
        };
        if key & 7 == 3 { self.group(key >> 3, end) } else { self.value(key, end) }
    }

    /// Passes over a group up to its end.
    fn group(&mut self, field: u64, end: u64) -> Result<Result<Field, Stop>> {
        let mut open = vec![field];
        while let Some(innermost) = open.last() {
            let key = match self.varint(end)? {
                Ok(key) => key,
                Err(stop) => return Ok(Err(stop)),
            };
            match key & 7 {
                3 if open.len() < MAX_GROUPS => open.push(key >> 3),
                4 if key >> 3 == *innermost => _ = open.pop(),
                _ => {
                    if let Err(stop) = self.value(key, end)? {
                        return Ok(Err(stop));
                    }
                }
            }
        }
        Ok(Ok(Field::Other))
    }

    fn value(&mut self, key: u64, end: u64) -> Result<Result<Field, Stop>> {
        let pass = |cursor: &mut Self, length: u64| match cursor.place().checked_add(length) {
            Some(to) if to <= end => {
                cursor.seek(to);
                Ok(to)
            }
            _ => Err(Stop::Short),
        };
        Ok(match key & 7 {
            0 => self.varint(end)?.map(|value| Field::Int(key >> 3, value)),
            1 => pass(self, 8).map(|_| Field::Other),
            5 => pass(self, 4).map(|_| Field::Other),
            2 => match self.varint(end)? {
                Ok(length) => {
                    let from = self.place();
                    pass(self, length).map(|to| Field::Bytes(key >> 3, from, to))
                }
                Err(stop) => Err(stop),
            },
            _ => Err(Stop::Wrong),
        })
    }
}

/// Bytes of a file; fewer where it ends.
///
/// # Errors
/// `io` when it cannot be read.
pub fn read_at(file: &File, path: &Path, from: u64, length: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; length];
    let mut have = 0;
    while have < length {
        match file.read_at(&mut out[have..], from + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(io(path, &e)),
        }
    }
    out.truncate(have);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

    use super::*;

    #[test]
    fn numbers_of_any_length() {
        for (bytes, value) in [
            (&[0x00][..], Some(0)),
            (&[0xac, 0x02], Some(300)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(u64::MAX)),
            (&[0x80], None),
            (&[0x80; 11], None),
            (&[], None),
        ] {
            assert_eq!(varint(bytes, &mut 0), value, "{bytes:?}");
        }
    }

    #[test]
    fn fields_in_memory_and_in_a_file() {
        // 1: 5, 2: "ab", 3: a double, 15: a fixed 32.
        let message = [
            0x08, 0x05, 0x12, 0x02, b'a', b'b', 0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x7d, 1, 0, 0,
            0,
        ];
        let fields: Vec<_> = Fields::new(&message).collect();
        let bits = 1.0_f64.to_bits();
        let want = [
            (1, Value::Int(5)),
            (2, Value::Bytes(b"ab")),
            (3, Value::Bits(bits)),
            (15, Value::Int(1)),
        ];
        assert_eq!(fields, want.map(Ok));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m");
        std::fs::write(&path, message).expect("the file can be written");
        let file = File::open(&path).expect("the file is there");
        let end = message.len() as u64;
        let mut cursor = Cursor::new(&file, &path, end);
        let mut next = || cursor.field(end).expect("it can be read");
        assert_eq!(next(), Ok(Field::Int(1, 5)));
        assert_eq!(next(), Ok(Field::Bytes(2, 4, 6)));
        assert_eq!((next(), next()), (Ok(Field::Other), Ok(Field::Other)));
        assert_eq!(next(), Err(Stop::End));
        let cut = |end: u64| {
            let mut cursor = Cursor::new(&file, &path, end);
            loop {
                match cursor.field(end).expect("it can be read") {
                    Ok(_) => {}
                    Err(stop) => return stop,
                }
            }
        };
        assert_eq!(
            (cut(1), cut(5), cut(9), cut(6)),
            (Stop::Short, Stop::Short, Stop::Short, Stop::End)
        );
    }

    /// The fields as prost goes over them: number, kind and value. None where it refuses them.
    fn by_prost(mut rest: &[u8]) -> Option<Vec<(u64, WireType, Vec<u8>)>> {
        let mut out = Vec::new();
        while !rest.is_empty() {
            let (tag, kind) = decode_key(&mut rest).ok()?;
            let before = rest;
            let value = match kind {
                WireType::Varint => decode_varint(&mut rest).ok()?.to_le_bytes().to_vec(),
                WireType::LengthDelimited => {
                    let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                    let (value, after) = rest.split_at_checked(length)?;
                    rest = after;
                    value.to_vec()
                }
                WireType::SixtyFourBit | WireType::ThirtyTwoBit => {
                    skip_field(kind, tag, &mut rest, DecodeContext::default()).ok()?;
                    before[..before.len() - rest.len()].to_vec()
                }
                WireType::StartGroup => {
                    skip_field(kind, tag, &mut rest, DecodeContext::default()).ok()?;
                    Vec::new()
                }
                WireType::EndGroup => return None,
            };
            out.push((tag.into(), kind, value));
        }
        Some(out)
    }

    proptest! {
        #[test]
        fn fields_are_those_of_prost(
            bytes in proptest::collection::vec(prop_oneof![0_u8..48, any::<u8>()], 0..40),
        ) {
            let Some(expected) = by_prost(&bytes) else { return Ok(()) };
            let found: Vec<_> = Fields::new(&bytes).collect();
            prop_assert_eq!(found.len(), expected.len());
            for (field, (tag, kind, value)) in found.into_iter().zip(expected) {
                let (found_tag, found) = field.expect("prost takes it");
                prop_assert_eq!(found_tag, tag);
                match (found, kind) {
                    (Value::Int(n), WireType::Varint) => {
                        prop_assert_eq!(n.to_le_bytes().to_vec(), value);
                    }
                    (Value::Int(n), WireType::ThirtyTwoBit) => {
                        prop_assert_eq!(n.to_le_bytes()[..4].to_vec(), value);
                    }
                    (Value::Bits(n), WireType::SixtyFourBit) => {
                        prop_assert_eq!(n.to_le_bytes().to_vec(), value);
                    }
                    (Value::Bytes(bytes), WireType::LengthDelimited) => {
                        prop_assert_eq!(bytes.to_vec(), value);
                    }
                    (Value::Group, WireType::StartGroup) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }

    #[test]
    fn groups_are_passed_over() {
        // 1: a group of 2: 7 and 3: a group of 4: "a", then 5: 6.
        let message = [0x0b, 0x10, 7, 0x1b, 0x22, 1, b'a', 0x1c, 0x0c, 0x28, 6];
        let fields: Vec<_> = Fields::new(&message).collect();
        assert_eq!(fields, [Ok((1, Value::Group)), Ok((5, Value::Int(6)))]);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m");
        std::fs::write(&path, message).expect("the file can be written");
        let file = File::open(&path).expect("the file is there");
        let fields_to = |end: u64| {
            let mut cursor = Cursor::new(&file, &path, end);
            [(); 3].map(|()| cursor.field(end).expect("it can be read"))
        };
        assert_eq!(fields_to(11), [Ok(Field::Other), Ok(Field::Int(5, 6)), Err(Stop::End)]);
        assert_eq!(fields_to(8)[0], Err(Stop::Short));
    }

    #[test]
    fn what_is_no_message_is_broken() {
        let deep = [0x0b; MAX_GROUPS + 1];
        for bytes in [
            &[0x0f][..],
            &[0x0a, 0x05, 1],
            &[0x80],
            &[0x09, 1, 2],
            // Groups that do not end, end as another, or before they begin.
            &[0x0b],
            &[0x0b, 0x14],
            &[0x0c],
            &deep,
        ] {
            assert!(Fields::new(bytes).any(|f| f.is_err()), "{bytes:?}");
        }
    }

    #[test]
    fn the_most_groups_inside_each_other() {
        // Groups of field 1, one in the other, with the number 7 in the innermost.
        let nested =
            |n: usize| [&vec![0x0b; n][..], &[0x10, 7], &vec![0x0c; n], &[0x28, 6]].concat();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m");
        for (depth, goes) in [(MAX_GROUPS, true), (MAX_GROUPS + 1, false)] {
            let message = nested(depth);
            let fields: Result<Vec<_>, _> = Fields::new(&message).collect();
            let expected = [(1, Value::Group), (5, Value::Int(6))];
            assert_eq!(fields.is_ok_and(|fields| fields == expected), goes, "{depth}");
            std::fs::write(&path, &message).expect("the file can be written");
            let file = File::open(&path).expect("the file is there");
            let mut cursor = Cursor::new(&file, &path, message.len() as u64);
            let first = cursor.field(message.len() as u64).expect("it can be read");
            assert_eq!(first == Ok(Field::Other), goes, "{depth}: {first:?}");
        }
    }

    #[test]
    fn a_message_of_several_blocks() {
        // Numbers of field 1 in a file of several blocks, of which one lies across two.
        let numbers = BLOCK_BYTES + 5;
        let mut message = Vec::new();
        for n in 0..numbers {
            message.extend([0x08, (n % 100) as u8 | 0x80, 1]);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m");
        std::fs::write(&path, &message).expect("the file can be written");
        let file = File::open(&path).expect("the file is there");
        let end = message.len() as u64;
        let mut cursor = Cursor::new(&file, &path, end);
        for n in 0..numbers {
            assert_eq!(cursor.place(), 3 * n as u64);
            let field = cursor.field(end).expect("it can be read");
            assert_eq!(field, Ok(Field::Int(1, (n % 100) as u64 + 128)), "{n}");
        }
        assert_eq!(cursor.field(end).expect("it can be read"), Err(Stop::End));
        // A number that ends behind the end of its message.
        cursor.seek(0);
        assert_eq!(cursor.field(2).expect("it can be read"), Err(Stop::Short));
        // Back to what is no longer in hand.
        cursor.seek(3);
        assert_eq!(cursor.field(end).expect("it can be read"), Ok(Field::Int(1, 129)));
    }
}
