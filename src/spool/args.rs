//! The JSON object of the arguments that have no column, under construction.

/// Arguments under construction: text that is made again for each event, in the same memory.
#[derive(Default)]
pub struct Args {
    text: String,
    number: itoa::Buffer,
}

impl Args {
    /// Begins a member; its value has to follow.
    pub fn key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.string(key);
        self.text.push(':');
    }

    /// A value: text.
    pub fn string(&mut self, text: &str) {
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        self.text.push('"');
        let mut from = 0;
        let first = if text.bytes().any(special) { 0 } else { text.len() };
        for (i, byte) in text.bytes().enumerate().skip(first) {
            if !special(byte) {
                continue;
            }
            self.text.push_str(&text[from..i]);
            from = i + 1;
            match byte {
                b'"' => self.text.push_str("\\\""),
                b'\\' => self.text.push_str("\\\\"),
                b'\n' => self.text.push_str("\\n"),
                b'\t' => self.text.push_str("\\t"),
                byte => self.text.push_str(&format!("\\u{byte:04x}")),
            }
        }
        self.text.push_str(&text[from..]);
        self.text.push('"');
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, json: &str) {
        self.text.push_str(json);
    }

    /// A member: an integer.
    pub fn int(&mut self, key: &str, value: impl itoa::Integer) {
        self.key(key);
        self.text.push_str(self.number.format(value));
    }

    /// A member: text.
    pub fn said(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    /// The object, when it has members; to be cleared before the next.
    pub fn object(&mut self) -> Option<&str> {
        if self.text.is_empty() {
            return None;
        }
        self.text.push('}');
        Some(&self.text)
    }

    /// Forgets the members.
    pub fn clear(&mut self) {
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_json() {
        let mut args = super::Args::default();
        assert_eq!(args.object(), None);
        args.int("a", -1);
        args.said("b\"c", "x\\y\n\u{1}é");
        let text = args.object().expect("it has members");
        let value: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
        assert_eq!(value, serde_json::json!({ "a": -1, "b\"c": "x\\y\n\u{1}é" }));
    }
}
