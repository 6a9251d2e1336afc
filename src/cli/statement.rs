//! Statements of a user: the connection that they run on, and what they ask for.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::args::ReadingArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::metric_tables::MetricTables;
use crate::cli::select;
use crate::cli::split::code_of;
use crate::cli::terminal::printable;
use crate::engine::{Engine, Selection, Settings};
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

/// A connection on traces, whose statements find tables, views and metrics by name.
pub struct Session<'c> {
    /// The connection.
    pub engine: Engine<'c>,
    /// The traces that it shows, and their metrics.
    pub metrics: MetricTables<'c>,
    context: &'c Context,
    made_all: Cell<bool>,
    in_transaction: Cell<bool>,
}

impl<'c> Session<'c> {
    /// A connection on the traces that are wanted, all where none is named. Tables and views are
    /// made when a statement names them.
    ///
    /// # Errors
    /// `trace-unknown`, those of an ingest where a trace is given by path, and `sql`.
    pub fn open(context: &'c Context, wanted: &[String], sandbox: bool) -> Result<Self, Errors> {
        let traces = match wanted {
            [] => context.usable()?,
            wanted => select::traces(context, wanted, &ReadingArgs::default())?,
        };
        Ok(Self::of(context, traces, sandbox)?)
    }

    /// A connection on traces by their names.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn of(context: &'c Context, traces: Vec<String>, sandbox: bool) -> Result<Self> {
        let directories = context.directories(&traces)?;
        let settings = Settings { strange: sandbox, ..context.settings() };
        let engine = Engine::open(&directories, &context.registry, &settings)?;
        // Of a query that takes long it is known how far it is. No session needs it.
        let _ = engine.connection.set_query_progress_tracking(true);
        if sandbox {
            engine.lock_down()?;
        }
        let metrics = MetricTables::new(context, traces, directories);
        Ok(Self {
            engine,
            metrics,
            context,
            made_all: Cell::new(false),
            in_transaction: Cell::new(false),
        })
    }

    /// Shows other traces in the tables and views that there are.
    ///
    /// # Errors
    /// `trace-unknown`, and `sql` when a view cannot be made.
    pub fn show(&self, traces: &[String]) -> Result<()> {
        let directories = self.context.directories(traces)?;
        let all = |directory: &PathBuf| Selection {
            directory: directory.clone(),
            source: None,
            rows: u64::MAX,
        };
        let made = self.engine.made();
        self.engine.show(directories.iter().map(all).collect())?;
        self.metrics.show(&self.engine, traces.to_vec(), directories)?;
        self.engine.make_again(made)
    }

    /// Makes every table and view.
    ///
    /// # Errors
    /// `sql` when a view cannot be made.
    pub fn make_all(&self) -> Result<()> {
        self.made_all.set(true);
        self.engine.make_all()
    }

    /// Makes again what was made of a trace that another has taken the place of.
    fn renew(&self) -> Result<()> {
        let made = self.engine.made();
        self.engine.renew()?;
        if self.engine.made().len() < made.len() {
            self.engine.make_again(made)?;
        }
        self.metrics.renew(&self.engine)
    }

    /// Follows transactions: one that is taken back takes with it what was made since it began.
    fn after(&self, sql: &str, done: bool) -> Result<()> {
        if begins_with(sql, &["BEGIN", "START"]) && done {
            self.in_transaction.set(true);
        } else if begins_with(sql, &["COMMIT", "END"]) {
            self.in_transaction.set(false);
        } else if begins_with(sql, &["ROLLBACK", "ABORT"]) {
            self.in_transaction.set(false);
            self.engine.make_again(self.engine.made())?;
        }
        Ok(())
    }

    /// Runs `work`, which runs a statement, with the tables, views and metrics that it names.
    /// Where one is missing all are made, and it is tried again: DuckDB then says what is near.
    ///
    /// # Errors
    /// Those of `work`, and of making what is named.
    pub fn with_named<T>(&self, sql: &str, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        self.renew()?;
        if !self.made_all.get() {
            self.engine.make_named(sql)?;
        }
        let in_transaction = self.in_transaction.get();
        if in_transaction {
            self.metrics.make_named(&self.engine, sql)?;
        }
        let mut names = BTreeSet::new();
        loop {
            let error = match work() {
                Err(error) if error.message.contains("does not exist") => error,
                done => {
                    self.after(sql, done.is_ok())?;
                    return done.map_err(|error| self.engine.with_limit(error));
                }
            };
            if in_transaction {
                return Err(MetricTables::in_transaction(error));
            }
            // A name that was made and is still missing is one of another schema.
            if names.insert(error.message.clone()) && self.metrics.make(&self.engine, &error)? {
                continue;
            }
            if self.made_all.get() {
                return Err(self.metrics.with_near(error));
            }
            self.make_all()?;
        }
    }
}
