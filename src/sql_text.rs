//! Text that goes into SQL as text: string literals, paths and identifiers, escaped.
//!
//! Values are bound wherever DuckDB takes parameters; `COPY`, `SET` and table functions in views do
//! not.

use std::collections::BTreeSet;
use std::path::Path;

/// A string literal.
pub fn sql_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A string literal for a path that is read: what DuckDB takes as a pattern stands for itself.
pub fn sql_path(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            '*' | '?' | '[' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
    }
    sql_string(&out)
}

/// An identifier.
pub fn sql_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The words of a text, in lower case: of SQL they hold every name of a table or view of ours.
pub fn words(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_patterns_stand_for_themselves() {
        assert_eq!(sql_string("it's"), "'it''s'");
        assert_eq!(sql_path(Path::new("/a[1]/b*.parquet")), "'/a[[]1]/b[*].parquet'");
        assert_eq!(sql_name("a\"b"), "\"a\"\"b\"");
    }
}
