//! Memory snapshots as text: JSON that becomes a pickle of protocol 4.
//!
//! Made from the opcodes of the format alone, so that a mistake of the reader is not made twice.
//! Objects are dicts, keys and texts that come again are recalled from the memo, as CPython writes
//! them. `{"$keep": ["a", value]}` is the value, and `{"$same": "a"}` the very same one again;
//! `{"$tuple": []}` is a tuple, `{"$raw": "00ff"}` bytes of the pickle itself in hexadecimal.

use std::collections::HashMap;

use serde_json::Value;

/// A pickle under construction.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    memo: u32,
    texts: HashMap<String, u32>,
    kept: HashMap<String, u32>,
}

/// The pickle that a text describes.
///
/// # Panics
/// When it describes none.
pub fn encode(text: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(text).expect("the pickle is JSON");
    let mut writer = Writer::default();
    writer.value(&value);
    let mut out = vec![0x80, 4, 0x95];
    out.extend((writer.out.len() as u64 + 1).to_le_bytes());
    out.extend(writer.out);
    out.push(b'.');
    out
}

impl Writer {
    /// Remembers the value on top.
    fn memoize(&mut self) -> u32 {
        self.out.push(0x94);
        self.memo += 1;
        self.memo - 1
    }

    fn recall(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(number) => self.out.extend([b'h', number]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(number.to_le_bytes());
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push(b'N'),
            Value::Bool(yes) => self.out.push(if *yes { 0x88 } else { 0x89 }),
            Value::Number(number) => match number.as_i64() {
                Some(number) => self.int(number),
                None => {
                    self.out.push(b'G');
                    self.out.extend(number.as_f64().expect("a number").to_be_bytes());
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => self.list(items),
            Value::Object(members) => match members.iter().next() {
                Some((key, value)) if key.starts_with('$') => self.special(key, value),
                _ => {
                    self.out.push(b'}');
                    self.memoize();
                    self.out.push(b'(');
                    for (key, value) in members {
                        self.text(key);
                        self.value(value);
                    }
                    self.out.push(b'u');
                }
            },
        }
    }

    fn list(&mut self, items: &[Value]) {
        self.out.push(b']');
        self.memoize();
        match items {
            [] => {}
            [one] => {
                self.value(one);
                self.out.push(b'a');
            }
            _ => {
                self.out.push(b'(');
                items.iter().for_each(|item| self.value(item));
                self.out.push(b'e');
            }
        }
    }

    fn special(&mut self, key: &str, value: &Value) {
        match (key, value) {
            ("$keep", Value::Array(pair)) => {
                self.value(&pair[1]);
                // The value remembers itself; once more does no harm.
                let number = self.memoize();
                self.kept.insert(pair[0].as_str().expect("a name").to_owned(), number);
            }
            ("$same", Value::String(name)) => self.recall(self.kept[name]),
            ("$tuple", Value::Array(items)) => {
                self.out.push(b'(');
                items.iter().for_each(|item| self.value(item));
                self.out.push(b't');
            }
            ("$raw", Value::String(hex)) => {
                let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
                self.out.extend((0..hex.len()).step_by(2).map(byte));
            }
            _ => panic!("{key} is not known"),
        }
    }

    fn int(&mut self, number: i64) {
        if let Ok(small) = u8::try_from(number) {
            self.out.extend([b'K', small]);
        } else if let Ok(small) = u16::try_from(number) {
            self.out.push(b'M');
            self.out.extend(small.to_le_bytes());
        } else if let Ok(small) = i32::try_from(number) {
            self.out.push(b'J');
            self.out.extend(small.to_le_bytes());
        } else {
            self.out.extend([0x8a, 8]);
            self.out.extend(number.to_le_bytes());
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(number) = self.texts.get(text) {
            return self.recall(*number);
        }
        match u8::try_from(text.len()) {
            Ok(length) => self.out.extend([0x8c, length]),
            Err(_) => {
                self.out.push(b'X');
                self.out.extend((text.len() as u32).to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
        let number = self.memoize();
        self.texts.insert(text.to_owned(), number);
    }
}
