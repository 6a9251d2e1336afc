//! What need not be read again: traces of unchanged files, unchanged files of a trace, and files
//! that an interrupted ingest had read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::derive::Derive;
use crate::error::Result;
use crate::ingest::card::beside::card_sources;
use crate::ingest::card::fields::Card;
use crate::ingest::find::Root;
use crate::ingest::find::walk::Candidate;
use crate::ingest::kept::{Job, Move};
use crate::ingest::options::Summary;
use crate::ingest::ranks::facts::Member;
use crate::ingest::records::{self, READER_VERSION, ReadFile, Record, Rows, placed};
use crate::schema::SCHEMA_VERSION;
use crate::schema::source::Source;
use crate::store::Store;
use crate::store::files::link_tree;
use crate::store::manifest::{Manifest, SourceFile};
use crate::store::workspace::{Workspace, spool_name};

/// A trace that this version may go on with.
pub(crate) struct Held {
    pub(crate) directory: PathBuf,
    /// Manifest of the trace, with the paths of now.
    pub(crate) manifest: Manifest,
    /// The move of its files, where they lay elsewhere.
    moved: Option<Move>,
}

/// Traces that were made from the files of a root before.
#[derive(Default)]
pub(crate) struct Earlier {
    traces: Vec<Held>,
    /// Whether they hold exactly what an ingest would make now.
    pub(crate) unchanged: bool,
}

impl Earlier {
    /// Finds the traces that were made from the files of a job; none where all is to be made again.
    pub(crate) fn find(job: &Job, card: Option<&Card>) -> Self {
        let mut out = Self::default();
        if job.options.force {
            return out;
        }
        let mut now = BTreeMap::new();
        for (i, candidate) in job.root.candidates.iter().enumerate() {
            let Some(source) = candidate.source(i as i64) else { return out };
            now.insert(source.absolute.clone(), (source, candidate));
        }
        // What was given before and is gone stays as it was read.
        let is_gone = |s: &SourceFile| job.gone.iter().any(|path| s.absolute.starts_with(path));
        let files = |cards: Vec<SourceFile>| -> Vec<_> {
            let cards = cards.into_iter().filter(|c| !is_gone(c));
            cards.map(|c| (c.absolute, c.bytes, c.mtime_ns)).collect()
        };
        let cards = files(card.map(card_sources).unwrap_or_default());
        let mut covered = BTreeSet::new();
        out.unchanged = true;
        for before in &job.before {
            let manifest = &before.manifest;
            if before.damage.is_some()
                || manifest.schema_version != SCHEMA_VERSION
                || manifest.asked != job.options.asked
            {
                continue;
            }
            let is_known = |s: &SourceFile| now.contains_key(&s.absolute) || is_gone(s);
            // Rows of other readers are read again, but those of files that are no more.
            let is_current =
                manifest.reader_version == READER_VERSION || manifest.sources.iter().any(is_gone);
            let mut same = before.moved.is_none()
                && is_current
                && files(manifest.cards.clone()) == cards
                && manifest.sources.iter().all(is_known);
            for source in manifest.sources.iter().chain(&manifest.set_aside) {
                let Some((current, candidate)) = now.get(&source.absolute) else { continue };
                same = same && candidate.is_same(current, source);
                covered.insert(source.absolute.clone());
            }
            out.unchanged &= same;
            out.traces.push(Held {
                directory: before.directory.clone(),
                manifest: manifest.clone(),
                moved: before.moved.clone(),
            });
        }
        out.unchanged &= !out.traces.is_empty() && covered.len() == now.len();
        out
    }

    /// The names of the traces.
    pub(crate) fn names(&self) -> Vec<String> {
        self.traces.iter().map(|held| held.manifest.trace.clone()).collect()
    }

    /// Gives the traces a second name in the workspace: another ingest may put its own in their
    /// place while this one still reads them. One that is no longer what was found is left out.
    pub(crate) fn hold(&mut self, work: &Workspace) {
        for found in std::mem::take(&mut self.traces) {
            let held = work.path.join(format!("earlier={}", found.manifest.trace));
            let is_it = |mut now: Manifest| {
                found.moved.iter().for_each(|moved| moved.apply(&mut now));
                now == found.manifest
            };
            if link_tree(&found.directory, &held).is_ok()
                && Manifest::read(&found.directory).is_ok_and(is_it)
            {
                self.traces.push(Held { directory: held, ..found });
            }
        }
    }

    /// The unchanged traces, their derived tables made again where their SQL has changed.
    pub(crate) fn refresh(
        self,
        root: &Root,
        store: &Store,
        derive: &Derive<'_>,
    ) -> Result<Vec<Summary>> {
        let mut out = Vec::new();
        for held in self.traces {
            let manifest = derive.refresh(store, &held.directory, held.manifest)?;
            let ranks = manifest.ranks();
            out.push(Summary {
                trace: manifest.trace,
                origin: root.path.clone(),
                sources: Vec::new(),
                ranks: ranks.len(),
                ranks_read: 0,
                events: manifest.sources.iter().map(|s| s.events).sum(),
                bytes: 0,
                seconds: 0.0,
                findings: Vec::new(),
                unchanged: true,
            });
        }
        Ok(out)
    }

    /// The earlier trace that the files which were not read again come from, all of them, when it
    /// had these very ranks. The records of the files that were read again then say where the
    /// others lie.
    pub(crate) fn of_ranks(
        &self,
        files: &mut [ReadFile],
        members: &[Member],
        ranks: &BTreeSet<Option<i64>>,
    ) -> Option<&Held> {
        let mut places = members.iter().filter_map(|m| match &files[m.file].rows {
            Rows::Trace(directory) => Some(directory),
            Rows::Spool(_) => None,
        });
        let from = places.next()?.clone();
        // Two jobs of one folder may have become one: its tables are of neither.
        if places.any(|other| *other != from) {
            return None;
        }
        let found = self.traces.iter().find(|held| held.directory == from)?;
        let had: BTreeSet<Option<i64>> = found.manifest.sources.iter().map(|s| s.rank).collect();
        if had != *ranks {
            return None;
        }
        let mut places: BTreeMap<Option<i64>, Vec<(String, String)>> = BTreeMap::new();
        for record in records::read(&from) {
            let of = record.tables.iter().filter(|(key, _)| key.ends_with(&placed("")));
            let of = of.map(|(key, file)| (key.clone(), file.clone())).collect();
            places.insert(record.source.rank, of);
        }
        for m in members {
            files[m.file].record.tables.extend(places.get(&m.rank)?.iter().cloned());
        }
        Some(found)
    }
}

/// Files that are known without reading them.
#[derive(Default)]
pub(crate) struct Known {
    /// The shares of each.
    files: BTreeMap<PathBuf, Vec<ReadFile>>,
    /// Source number of each candidate of the root that is not known.
    ids: Vec<i64>,
}

impl Known {
    /// Finds the known files in the earlier traces and in what interrupted ingests left.
    pub(crate) fn find(job: &Job, earlier: &Earlier, work: &Workspace) -> Result<Self> {
        let (root, options) = (&job.root, &job.options);
        let mut out = Self::default();
        if options.force {
            return Ok(out);
        }
        let mut records: BTreeMap<PathBuf, Vec<ReadFile>> = BTreeMap::new();
        for held in &earlier.traces {
            let mut of_trace = records::read(&held.directory);
            if let Some(moved) = &held.moved {
                for record in &mut of_trace {
                    record.source.absolute = moved.of(&record.source.absolute);
                }
            }
            // A rank of several files is known as a whole or not at all.
            let mut count: BTreeMap<Option<i64>, usize> = BTreeMap::new();
            for record in &of_trace {
                *count.entry(record.source.rank).or_default() += 1;
            }
            for record in of_trace {
                // Rows of a benchmark are of no rank, by which rows are found again.
                if count[&record.source.rank] == 1
                    && record.source.source != Source::Bench
                    && record.is_current(&options.asked)
                {
                    let rows = Rows::Trace(held.directory.clone());
                    let of_file = records.entry(record.source.absolute.clone()).or_default();
                    of_file.push(ReadFile { record, rows, read_now: false });
                }
            }
        }
        let mut left: BTreeMap<PathBuf, Vec<(&PathBuf, Record)>> = BTreeMap::new();
        for folder in &work.leftovers {
            let Some(record) = records::read(folder).pop() else { continue };
            if record.is_current(&options.asked) {
                let of_file = left.entry(record.source.absolute.clone()).or_default();
                of_file.push((folder, record));
            }
        }
        let mut taken = BTreeSet::new();
        for candidate in &root.candidates {
            let Some(now) = candidate.source(0) else { continue };
            // So many shares as the file has, of one reading.
            let fits = |records: &[&Record], taken: &BTreeSet<i64>| {
                let Some(first) = records.first() else { return false };
                let id = first.source.source_id;
                records.len() == first.facts.shares
                    && records.iter().all(|r| r.source.source_id == id)
                    && candidate.is_same(&now, &first.source)
                    && !taken.contains(&id)
            };
            let (of_trace, of_left) = (
                records.remove(&now.absolute).unwrap_or_default(),
                left.remove(&now.absolute).unwrap_or_default(),
            );
            let of = |files: &[ReadFile]| -> bool {
                fits(&files.iter().map(|f| &f.record).collect::<Vec<_>>(), &taken)
            };
            let mut found = Vec::new();
            if of(&of_trace) {
                found = of_trace;
            } else if fits(&of_left.iter().map(|(_, r)| r).collect::<Vec<_>>(), &taken) {
                for (folder, record) in of_left {
                    let name = spool_name(record.source.source_id, record.facts.share);
                    let rows = Rows::Spool(work.adopt(folder, &name)?);
                    found.push(ReadFile { record, rows, read_now: false });
                }
            }
            let Some(first) = found.first() else { continue };
            taken.insert(first.record.source.source_id);
            found.sort_by_key(|f| f.record.facts.share);
            out.files.insert(now.absolute, found);
        }
        // Numbers of the rest: their place in the root where that is free, so that an ingest from
        // scratch and one in pieces give the same numbers.
        let mut above = root.candidates.len() as i64..;
        for (i, candidate) in root.candidates.iter().enumerate() {
            let known = out.files.get(&candidate.absolute).and_then(|files| files.first());
            let id = match known {
                Some(file) => file.record.source.source_id,
                None if !taken.contains(&(i as i64)) => i as i64,
                None => above.find(|id| !taken.contains(id)).unwrap_or_default(),
            };
            out.ids.push(id);
        }
        Ok(out)
    }

    /// Of nothing but the number of the one file of a root.
    pub(crate) fn numbered(id: i64) -> Self {
        Self { ids: vec![id], ..Self::default() }
    }

    /// The source number for the candidate at this place of the root.
    pub(crate) fn id(&self, candidate: usize) -> i64 {
        self.ids.get(candidate).copied().unwrap_or(candidate as i64)
    }

    /// Bytes on disk of the files that are not known.
    pub(crate) fn bytes_to_read(&self, root: &Root) -> u64 {
        root.candidates.iter().filter(|c| !self.has(c)).map(Candidate::bytes).sum()
    }

    /// Whether a candidate is known.
    pub(crate) fn has(&self, candidate: &Candidate) -> bool {
        self.files.contains_key(&candidate.absolute)
    }

    /// The known files of a candidate.
    pub(crate) fn of(&self, candidate: &Candidate) -> Option<Vec<ReadFile>> {
        let now = candidate.source(0)?;
        let mut files = self.files.get(&now.absolute)?.clone();
        for file in &mut files {
            file.record.facts.path.clone_from(&now.path);
            file.record.source.path.clone_from(&now.path);
            file.record.source.mtime_ns = now.mtime_ns;
        }
        Some(files)
    }

    /// Keeps the files that were read now.
    pub(crate) fn add(&mut self, files: &[ReadFile]) {
        self.files.clear();
        for file in files {
            let of_file = self.files.entry(file.record.source.absolute.clone()).or_default();
            of_file.push(file.clone());
        }
    }

    /// Forgets files, which are then read again.
    pub(crate) fn forget(&mut self, files: &[PathBuf]) {
        for file in files {
            self.files.remove(file);
        }
    }
}
