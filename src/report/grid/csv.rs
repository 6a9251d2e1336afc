//! CSV: raw numbers, NULL as an empty field, empty text as `""`.

use serde_json::Value;

fn field(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) if text.is_empty() => return "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// A header line unless it was written before, then a line per row.
pub(super) fn write(columns: &[String], rows: &[Vec<Value>], header: bool) -> String {
    let mut out = String::new();
    if header {
        let names: Vec<String> = columns.iter().map(|c| field(&Value::from(c.as_str()))).collect();
        out.push_str(&names.join(","));
        out.push('\n');
    }
    for row in rows {
        let fields: Vec<String> = row.iter().map(field).collect();
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}
