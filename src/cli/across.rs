//! Rows over several traces: one database with all of them, opened where an answer is not kept.

use std::path::PathBuf;

use duckdb::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::engine::kept;
use crate::engine::rows::{Rows, rows};
use crate::engine::{Engine, ResultRow, Selection, key};
use crate::error::Result;
use crate::registry::SqlFile;
use crate::report::sheet::{MOST_ROWS, Tables};
use crate::store::cache::Cache;
use crate::store::manifest;

/// Traces beside each other.
pub struct Across<'a, 'c> {
    context: &'c Context,
    selections: Vec<Selection>,
    /// The rows of `metric_results`.
    results: Vec<ResultRow<'a>>,
    /// The files that are asked for.
    files: Vec<&'c SqlFile>,
    /// What every answer depends on.
    terms: Value,
    cache: Cache,
    engine: Option<Engine<'c>>,
}

impl<'a, 'c> Across<'a, 'c> {
    /// No trace: for what the SQL files alone say.
    pub fn none(context: &'c Context) -> Self {
        Self::new(context, Vec::new(), Vec::new(), Vec::new())
    }

    /// The traces shown, and results of metrics of them; `files` are those that are asked for.
    pub fn new(
        context: &'c Context,
        selections: Vec<Selection>,
        results: Vec<ResultRow<'a>>,
        files: Vec<&'c SqlFile>,
    ) -> Self {
        let stamps = stamps(&selections);
        let folder = &context.store.path;
        let is_kept = stamps.is_some() && !context.global.no_cache && folder.is_dir();
        let cache = if is_kept { Cache::open(folder, "all") } else { Cache::default() };
        let terms = json!({"traces": stamps, "results": format!("{results:?}")});
        Self { context, selections, results, files, terms, cache, engine: None }
    }

    /// The database with all traces in its tables.
    fn open(&self) -> Result<Engine<'c>> {
        let directories: Vec<PathBuf> =
            self.selections.iter().map(|s| s.directory.clone()).collect();
        let rows = self.selections.iter().fold(0, |sum: u64, s| sum.saturating_add(s.rows));
        let settings = self.context.settings().for_rows(rows);
        let engine = Engine::open(&directories, &self.context.registry, &settings)?;
        let engine = engine.keeping(&self.files);
        engine.lock_down()?;
        engine.show(self.selections.clone())?;
        engine.fill_results(&self.results)?;
        Ok(engine)
    }
}

impl Tables for Across<'_, '_> {
    fn rows(&mut self, file: &SqlFile, params: &[(&str, SqlValue)]) -> Result<Rows> {
        let terms = json!([self.terms, format!("{params:?}")]);
        let key = key::key(&self.context.registry, file, &terms);
        if let Some(rows) = self.cache.get(&key).and_then(|text| kept::rows(text, file)) {
            return Ok(rows);
        }
        let engine = match self.engine.take() {
            Some(engine) => engine,
            None => self.open()?,
        };
        let answer = rows(&engine, file, params, MOST_ROWS)?;
        self.engine = Some(engine);
        kept::put(&mut self.cache, key, &answer);
        Ok(answer)
    }
}

impl Drop for Across<'_, '_> {
    fn drop(&mut self) {
        // An ingest may have put another trace in the place of one: then tables were read of both.
        if json!(stamps(&self.selections)) == self.terms["traces"] {
            self.cache.save();
        }
    }
}

/// What is asked of which traces; None where one of them has no manifest.
fn stamps(selections: &[Selection]) -> Option<Vec<Value>> {
    let stamp = |s: &Selection| Some(json!([manifest::stamp(&s.directory)?, s.source]));
    selections.iter().map(stamp).collect()
}
