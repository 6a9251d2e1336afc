//! Remarks of a metric on its row, by its header: columns behind those of the query.

use crate::engine::each::of_trace;
use crate::registry::SqlFile;
use crate::sql_text::sql_name;

/// The column of the answer for people.
pub(super) const ANSWER: &str = "@answer";

/// The column that says whether the warning at place `i` of the header holds.
pub(super) fn remark(i: usize) -> String {
    format!("@warn {i}")
}

/// The query with the columns of the header's remarks behind its own: warnings, then the answer.
/// Of several traces, each row has the remarks of its own trace.
pub(super) fn with_remarks(file: &SqlFile, several: bool) -> String {
    let header = &file.header;
    let own = |expression: &String| match several {
        true => of_trace(header, expression, "result.trace"),
        false => expression.clone(),
    };
    let mut sql = String::new();
    for (i, warn) in header.warns.iter().enumerate() {
        let name = sql_name(&remark(i));
        sql.push_str(&format!(", CAST(({}) AS BOOLEAN) AS {name}", own(&warn.left)));
    }
    if let Some(answer) = header.answer.as_ref().map(own) {
        sql.push_str(&format!(", CAST(({answer}) AS VARCHAR) AS {}", sql_name(ANSWER)));
    }
    if sql.is_empty() {
        return file.query().to_owned();
    }
    format!("SELECT result.*{sql}\nFROM (\n{}\n) AS result", file.query())
}
