//! Values as text: bare, as JSON, and within the room of a screen.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A value as scripts read it: text without quotes, all else as in JSON.
pub fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// JSON for people and programs: indented, with a final line break. What steers a terminal or turns
/// the direction of the text is written as its number, and means the same.
pub fn pretty(value: &Value) -> Vec<u8> {
    inert(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// JSON on one line, as [`pretty`] writes its letters.
pub fn json_line(value: &Value) -> Vec<u8> {
    inert(&value.to_string())
}

fn inert(text: &str) -> Vec<u8> {
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c => out.push(c),
        }
    }
    out.push('\n');
    out.into_bytes()
}

/// A value as text, before anything is cut or escaped.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a character turns the direction of the text behind it, or breaks its line.
pub(crate) fn turns(c: char) -> bool {
    matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Names come from traces of strangers: no escape sequence reaches the terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The beginning of a text, with a sign where there is more.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.width() <= max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if width + w >= max {
            break;
        }
        width += w;
        out.push(c);
    }
    out.push('…');
    out
}

/// Words in lines of at most `width` columns.
pub(crate) fn filled(text: &str, first: &str, further: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut begun = false;
    for word in text.split(' ') {
        if begun && line.width() + word.width() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = further.to_owned();
        }
        line.push_str(word);
        line.push(' ');
        begun = true;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}
