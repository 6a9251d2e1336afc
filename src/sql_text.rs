//! Text that goes into SQL as text: string literals, paths and identifiers, escaped.
//!
//! Values are bound wherever DuckDB takes parameters; `COPY`, `SET` and table functions in views do
//! not.

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
