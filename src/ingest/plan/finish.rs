//! The last task of a plan: what the others made becomes traces in their places.
//!
//! Tables that no later stage reads need not pass through this machine: in a store they are copied
//! to their places, where plan and data lie in one bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::derive::Derive;
use crate::error::{Error, Result, io};
use crate::ingest::find::walk::Candidate;
use crate::ingest::make::{Hands, Making};
use crate::ingest::options::Options;
use crate::ingest::plan::folder::{Fate, Left};
use crate::ingest::plan::tasks::{MADE, Reads, TABLES, TABLES_BELOW, is_record, may_pass};
use crate::ingest::plan::written::{DONE, Files, LayoutDone, OUTCOME, TablesDone, get};
use crate::ingest::plan::{BETWEEN, Plan, STAGES, Step, early, now_s};
use crate::ingest::read::Read;
use crate::schema;
use crate::store::Store;
use crate::store::files::{RemoteFile, link_tree};
use crate::store::workspace;

impl Plan {
    /// Finishes the traces, and says what the ingest did.
    pub(super) fn finish(
        &self,
        options: &Options,
        derive: &Derive<'_>,
        store: &Store,
    ) -> Result<()> {
        let layout = self.laid_out()?;
        for step in BETWEEN {
            self.all_done(step, layout.sizes(step).len())?;
        }
        // Two that finish at once would only do the same twice; the second waits for no other.
        let here = &self.folder.here;
        let _turn = workspace::lock(here, false)
            .map_err(|e| io(here, &e))?
            .ok_or_else(|| early("another process finishes this plan"))?;
        let reads = Reads::of(self, is_record)?;
        let made = self.made(&layout, &derive.reads(STAGES.len()), store)?;
        let finish = Finish { plan: self, reads, layout, made };
        let outcome = self.jobs(options, derive, store, &finish)?;
        if let Some(error) = outcome.errors.iter().find(|error| may_pass(error)) {
            return Err(error.clone());
        }
        self.folder.put(OUTCOME, &outcome, self.is_durable())?;
        self.folder.settle();
        Ok(())
    }

    /// What all tasks made, by the trace. Here are those tables that the last stage reads; the
    /// others may stay in the store.
    fn made(
        &self,
        layout: &LayoutDone,
        reads: &BTreeSet<String>,
        store: &Store,
    ) -> Result<BTreeMap<String, Made>> {
        let stays = store.is_beside(self.folder.shown());
        let fate = |table: &str| match stays && !reads.contains(table) {
            true => Fate::Left,
            false => Fate::Brought,
        };
        let mut out: BTreeMap<String, Made> = BTreeMap::new();
        let of_layout = |name: &str| match name.split_once(&format!("/{MADE}/")) {
            Some((_, file)) => match file.split_once('/') {
                Some((table, _)) => fate(table),
                None => Fate::Brought,
            },
            None => Fate::None,
        };
        for (folder, left) in self.folder.sort(&[Step::Layout.task(0)], of_layout)? {
            for (key, files) in &layout.files {
                let below = format!("{key}/{MADE}/");
                out.entry(key.clone()).or_default().leave(&left, &below, files)?;
            }
            for entry in std::fs::read_dir(&folder).map_err(|e| io(&folder, &e))?.flatten() {
                let key = entry.file_name().to_string_lossy().into_owned();
                let directory = entry.path().join(MADE);
                if directory.is_dir() {
                    out.entry(key).or_default().directories.push(directory);
                }
            }
        }
        for step in BETWEEN {
            let of_task = |name: &str| {
                let below = name.strip_prefix(TABLES_BELOW);
                let Some((table, _)) = below.and_then(|name| name.split_once('/')) else {
                    return Fate::Brought;
                };
                // Steps of the first stage are kept for the next ingest.
                let is_kept = step == Step::Derive || !table.starts_with('_');
                if is_kept || reads.contains(table) { fate(table) } else { Fate::None }
            };
            let keys: Vec<&str> = match step {
                Step::Join => layout.joins.iter().map(|task| &*task.key).collect(),
                step => layout.tasks(step).into_iter().map(|task| task.key).collect(),
            };
            let tasks: Vec<String> = (0..keys.len()).map(|n| step.task(n)).collect();
            for (key, (folder, left)) in keys.into_iter().zip(self.folder.sort(&tasks, of_task)?) {
                let made = out.entry(key.to_owned()).or_default();
                let done: TablesDone = get(&folder.join(DONE))?;
                made.failed = made.failed.take().or(done.failed);
                made.leave(&left, TABLES_BELOW, &done.files)?;
                // A store knows no empty folders.
                made.directories.extend(Some(folder.join(TABLES)).filter(|tables| tables.is_dir()));
            }
        }
        Ok(out)
    }
}

/// What the tasks made of a trace.
#[derive(Default)]
struct Made {
    /// The fault of the first task whose tables could not be made.
    failed: Option<Error>,
    /// Folders with tables.
    directories: Vec<PathBuf>,
    /// Files that are in the store alone.
    elsewhere: Vec<RemoteFile>,
}

impl Made {
    /// Takes over files that stay in the store, of those whose names begin so.
    fn leave(&mut self, left: &[Left], below: &str, files: &Files) -> Result<()> {
        for Left { name, place, bytes } in left {
            let Some(name) = name.strip_prefix(below) else { continue };
            let table = name.split('/').next().unwrap_or_default();
            let facts = match files.get(name) {
                Some(facts) => *facts,
                // A step on the way.
                None if schema::table(table).is_none() => Default::default(),
                None => {
                    return Err(Error::new("plan-invalid", "the plan lacks what a file says")
                        .at(place.display().to_string()));
                }
            };
            let (name, from) = (name.to_owned(), place.clone());
            self.elsewhere.push(RemoteFile { name, from, bytes: *bytes, facts });
        }
        Ok(())
    }
}

/// Puts together what the tasks made.
struct Finish<'a> {
    plan: &'a Plan,
    reads: Reads,
    layout: LayoutDone,
    made: BTreeMap<String, Made>,
}

impl Hands for Finish<'_> {
    fn read(&self, file: &Candidate) -> Option<Result<Read>> {
        self.reads.get(file)
    }

    fn is_planned(&self) -> bool {
        true
    }

    fn seconds_before(&self) -> f64 {
        (now_s() - self.plan.written.made_s).max(0.0)
    }

    fn tables(&self, making: Making<'_>) -> Result<Option<Vec<RemoteFile>>> {
        let (layout, key) = (&self.layout, &making.key);
        if let Some(error) = layout.failed.get(key) {
            return Err(error.clone());
        }
        let made = self.made.get(key);
        if let Some(error) = made.and_then(|made| made.failed.as_ref()) {
            return Err(error.clone());
        }
        for directory in made.iter().flat_map(|made| &made.directories) {
            link_tree(directory, making.directory)?;
        }
        making.watcher.tell(|w| w.phase("matching calls"));
        if layout.with_ranks.contains(key) {
            let part = layout.part_of(key)?;
            making.derive.make_over_ranks(&making.to_derive(), STAGES.len(), part)?;
        }
        Ok(Some(made.map(|made| made.elsewhere.clone()).unwrap_or_default()))
    }
}
