//! Statements of a user: the connection that they run on, and what they ask for.

use crate::cli::context::Context;
use crate::cli::split::code_of;
use crate::cli::terminal::printable;
use crate::engine::Engine;
use crate::error::Result;
use crate::report::Grid;

/// A plan of EXPLAIN as it is drawn.
pub fn plan(grid: &Grid) -> String {
    let texts = grid.rows.iter().filter_map(|row| row.get(1)?.as_str());
    texts.map(|text| printable(text.trim_end()) + "\n").collect()
}

/// Whether a statement gives rows of the user's.
pub fn asks(sql: &str) -> bool {
    const WORDS: &[&str] = &[
        "SELECT",
        "FROM",
        "WITH",
        "VALUES",
        "(",
        "DESCRIBE",
        "SHOW",
        "SUMMARIZE",
        "EXPLAIN",
        "PIVOT",
        "UNPIVOT",
        "TABLE",
        "CALL",
        "PRAGMA",
    ];
    begins_with(sql, WORDS) || code_of(sql).to_uppercase().contains("RETURNING")
}

/// Whether a statement begins with one of some words.
pub fn begins_with(sql: &str, words: &[&str]) -> bool {
    words.iter().any(|w| sql.get(..w.len()).is_some_and(|start| start.eq_ignore_ascii_case(w)))
}

/// A connection on all traces, with every table and view.
pub fn open(context: &Context, sandbox: bool) -> Result<Engine<'_>> {
    let engine = open_bare(context, sandbox)?;
    engine.make_all()?;
    Ok(engine)
}

/// Runs `work` on a connection of [`open_bare`], with the tables and views that a statement names.
/// Where one is missing all are made, and it is tried again: DuckDB then says what is near.
pub fn with_named<T>(
    engine: &Engine<'_>,
    sql: &str,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    engine.renew()?;
    engine.make_named(sql)?;
    match work() {
        Err(error) if error.message.contains("does not exist") => {
            engine.make_all()?;
            work()
        }
        done => done,
    }
}

/// A connection on all traces, without tables.
pub fn open_bare(context: &Context, sandbox: bool) -> Result<Engine<'_>> {
    let directories = context.directories(&context.usable()?)?;
    let engine = Engine::open(&directories, &context.registry, &context.settings())?;
    if sandbox {
        engine.lock_down()?;
    }
    Ok(engine)
}
