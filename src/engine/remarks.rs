//! Remarks of a metric on its row, by its header: columns behind those of the query.

use crate::registry::SqlFile;
use crate::sql_text::sql_name;

/// The column of the answer for people.
pub(super) const ANSWER: &str = "@answer";

/// The column that says whether the warning at place `i` of the header holds.
pub(super) fn remark(i: usize) -> String {
    format!("@warn {i}")
}

/// The query with the columns of the header's remarks behind its own: warnings, then the answer.
pub(super) fn with_remarks(file: &SqlFile) -> String {
    let header = &file.header;
    let mut sql = String::new();
    for (i, warn) in header.warns.iter().enumerate() {
        sql.push_str(&format!(", CAST(({}) AS BOOLEAN) AS {}", warn.left, sql_name(&remark(i))));
    }
    if let Some(answer) = &header.answer {
        sql.push_str(&format!(", CAST(({answer}) AS VARCHAR) AS {}", sql_name(ANSWER)));
    }
    if sql.is_empty() {
        return file.query().to_owned();
    }
    format!("SELECT result.*{sql}\nFROM (\n{}\n) AS result", file.query())
}
