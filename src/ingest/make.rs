//! One trace of a job: its tables, derived tables and manifest, and its place in the data
//! directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::derive::{Counts, Derive, ToDerive};
use crate::error::{Error, Result, io};
use crate::ingest::assemble::{self, Block};
use crate::ingest::card::beside::card_sources;
use crate::ingest::card::fields::Card;
use crate::ingest::find::labels::{Labels, file_label, root_is_one_file, run_label};
use crate::ingest::find::walk::Candidate;
use crate::ingest::job_files::JobFiles;
use crate::ingest::kept::{All, Before, Job};
use crate::ingest::known::Earlier;
use crate::ingest::options::{Outcome, Summary};
use crate::ingest::ranks::facts::Member;
use crate::ingest::ranks::findings::{self, recorded};
use crate::ingest::read::Read;
use crate::ingest::records::{READER_VERSION, ReadFile, Rows};
use crate::input::progress::Watcher;
use crate::readers::log::{Log, Severity};
use crate::schema::SCHEMA_VERSION;
use crate::schema::source::Source;
use crate::store::Store;
use crate::store::files::{RemoteFile, count_rows};
use crate::store::manifest::{Manifest, Stored};
use crate::store::names::Wish;

/// The names that the traces of one call have, had, and may get.
pub(crate) struct Names {
    labels: Labels,
    /// Names that traces had before.
    aliases: BTreeSet<String>,
    /// Names that this call gave.
    given: BTreeSet<String>,
}

impl Names {
    /// The names of a call over these jobs, beside the traces that are there.
    pub(crate) fn new(jobs: &[Job], found: &All) -> Self {
        let aliases = found.traces.iter().flat_map(|found| found.manifest.aliases.iter().cloned());
        Self {
            labels: Labels::of(jobs.iter().map(|job| &job.root)),
            aliases: aliases.collect(),
            given: BTreeSet::new(),
        }
    }

    /// The names that a trace of this path may have, the shortest first.
    pub(crate) fn of_path(&self, path: &Path) -> Vec<String> {
        self.labels.names(path)
    }
}

/// The means by which the traces of one job are made.
pub(crate) struct Maker<'a> {
    /// The job.
    pub(crate) job: &'a Job,
    /// The card of the job.
    pub(crate) card: Option<&'a Card>,
    /// Findings of the whole job.
    pub(crate) log: &'a Log,
    /// The folder for work in progress.
    pub(crate) work: &'a Path,
    /// Traces that were made of its files before.
    pub(crate) earlier: &'a Earlier,
    /// The data directory.
    pub(crate) store: &'a Store,
    /// The maker of derived tables.
    pub(crate) derive: &'a Derive<'a>,
    /// Who makes the tables.
    pub(crate) hands: &'a dyn Hands,
    /// Place of the job among those of the call.
    pub(crate) number: usize,
    /// Seconds that reading took.
    pub(crate) read_seconds: f64,
}

/// What the tables of a trace are made of.
pub(crate) struct Making<'a> {
    /// The place of the trace in its job, and that of the job: the same in every process that looks
    /// at the same files.
    pub(crate) key: String,
    /// The empty directory of the trace.
    pub(crate) directory: &'a Path,
    /// The folder for work in progress.
    pub(crate) work: &'a Path,
    /// The files of the job.
    pub(crate) files: &'a mut [ReadFile],
    /// Those of the trace, with the rank of each.
    pub(crate) members: &'a [Member],
    /// Whether the files that were read before make a trace of the same ranks.
    pub(crate) same_ranks: bool,
    /// The card of the job.
    pub(crate) card: Option<&'a Card>,
    /// Findings of the trace.
    pub(crate) log: &'a Log,
    /// The directory of the same ranks whose derived tables are those of the same SQL.
    pub(crate) earlier: Option<&'a Path>,
    /// The ranks that are not as they were there.
    pub(crate) changed: BTreeSet<i64>,
    /// The maker of derived tables.
    pub(crate) derive: &'a Derive<'a>,
    /// Who is told how far it is.
    pub(crate) watcher: &'a Watcher,
    /// Threads that may work on it.
    pub(crate) threads: usize,
}

impl Making<'_> {
    /// Which ranks go into a file together.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        assemble::blocks(self.files, self.members, self.same_ranks)
    }

    /// Writes the tables that are read from files: those of all ranks, and some of the blocks.
    pub(crate) fn assemble(
        &mut self,
        blocks: &[Block],
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<()> {
        self.watcher.tell(|w| w.phase("joining ranks"));
        let wanted = blocks.iter().enumerate().filter(|(n, _)| is_wanted(*n));
        let wanted: Vec<&Block> = wanted.map(|(_, block)| block).collect();
        assemble::write(self.directory, (self.work, self.threads), self.files, &wanted)?;
        let of = (&mut *self.files, blocks);
        assemble::describe(self.directory, of, self.members, self.card, self.log)?;
        self.watcher.tell(|w| w.phase("matching calls"));
        self.watcher.go_on()
    }

    /// What says which ranks are looked at together.
    pub(crate) fn counts(&self) -> Counts {
        assemble::counts(self.files, self.members)
    }

    /// The derived tables to make.
    pub(crate) fn to_derive(&self) -> ToDerive<'_> {
        ToDerive {
            directory: self.directory,
            into: self.directory,
            work: self.work,
            earlier: self.earlier.map(|directory| (directory, &self.changed)),
        }
    }
}

/// Who makes the tables of traces: one process, or the tasks of a plan, each a piece.
pub(crate) trait Hands: Sync {
    /// What was read of a file elsewhere; None where it is to be read here.
    fn read(&self, _: &Candidate) -> Option<Result<Read>> {
        None
    }

    /// Whether the files are read elsewhere: then nothing that a killed ingest left is taken over.
    fn is_planned(&self) -> bool {
        false
    }

    /// Whether traces are put in their places.
    fn publishes(&self) -> bool {
        true
    }

    /// Seconds that went by elsewhere.
    fn seconds_before(&self) -> f64 {
        0.0
    }

    /// Makes tables of a trace. Where it has all of them now, and lacks its manifest alone: those
    /// of its files that lie elsewhere in the object store.
    fn tables(&self, making: Making<'_>) -> Result<Option<Vec<RemoteFile>>>;
}

/// One process, which makes everything.
pub(crate) struct Alone;

impl Hands for Alone {
    fn tables(&self, mut making: Making<'_>) -> Result<Option<Vec<RemoteFile>>> {
        let blocks = making.blocks();
        making.assemble(&blocks, |_| true)?;
        making.derive.derive(&making.to_derive(), &making.counts())?;
        Ok(Some(Vec::new()))
    }
}

/// One trace to make.
struct Trace<'a> {
    /// Place of the trace among those of the job.
    index: usize,
    /// The path that its name comes from.
    label: PathBuf,
    /// The trace that it was before.
    before: Option<&'a Before>,
    /// Files of the trace, with the rank of each.
    members: &'a [Member],
}

impl Maker<'_> {
    /// Makes every trace of the job that lacks no file. Faults go into the outcome.
    pub(crate) fn make_all(
        &self,
        traces: &[Vec<Member>],
        files: &mut JobFiles,
        names: &mut Names,
        outcome: &mut Outcome,
    ) {
        let mut taken = BTreeSet::new();
        let all_bytes = files.files.iter().map(|f| f.record.bytes).sum::<u64>().max(1);
        for (index, members) in traces.iter().enumerate() {
            if files.is_damaged(members) {
                continue;
            }
            let started = Instant::now();
            let label = self.label(&files.files, members, traces.len());
            let before = match &self.job.before[..] {
                // One is the other, also where it was named after its file and the folder is given
                // now.
                [one] if traces.len() == 1 => Some(one),
                _ => before_of(self.job, &label, members, &files.files, &taken),
            };
            taken.extend(before.map(|before| before.manifest.trace.clone()));
            let trace = Trace { index, label, before, members };
            match self.make(&trace, files, names, outcome) {
                Ok(None) => {}
                Ok(Some(mut summary)) => {
                    let of = members.iter().map(|m| files.files[m.file].record.bytes);
                    let share = of.sum::<u64>() as f64 / all_bytes as f64;
                    summary.seconds = self.read_seconds * share + started.elapsed().as_secs_f64();
                    outcome.traces.push(summary);
                    for m in members {
                        if let Rows::Spool(spool) = &files.files[m.file].rows
                            && spool.starts_with(self.work)
                        {
                            // Its rows are in the trace now; the workspace is removed anyway.
                            let _ = std::fs::remove_dir_all(spool);
                        }
                    }
                }
                Err(error) => outcome.errors.push(error),
            }
        }
    }

    /// The path that the name of a trace comes from: the folder of the job, or one of its files or
    /// runs.
    fn label(&self, files: &[ReadFile], members: &[Member], traces: usize) -> PathBuf {
        let root = &self.job.root;
        let sources: BTreeSet<i64> =
            members.iter().map(|m| files[m.file].record.source.source_id).collect();
        if traces == 1 && !(sources.len() == 1 && root_is_one_file(root)) {
            return root.path.clone();
        }
        let first = &files[members[0].file].record.source.absolute;
        let run = run_label(&root.path, first).filter(|_| sources.len() > 1);
        run.unwrap_or_else(|| file_label(&root.path, first))
    }

    /// Makes a trace and puts it in its place; None where its tables are not complete yet.
    fn make(
        &self,
        trace: &Trace<'_>,
        files: &mut JobFiles,
        names: &mut Names,
        outcome: &mut Outcome,
    ) -> Result<Option<Summary>> {
        let members = trace.members;
        for m in members {
            files.files[m.file].record.source.rank = m.rank;
        }
        let mut log = self.log.clone();
        findings::note(&files.files, members, &mut log);
        let ranks: BTreeSet<Option<i64>> = members.iter().map(|m| m.rank).collect();
        let before = self.earlier.of_ranks(&mut files.files, members, &ranks);

        let is_new = |m: &&Member| matches!(files.files[m.file].rows, Rows::Spool(_));
        let changed = members.iter().filter(is_new).filter_map(|m| m.rank).collect();
        let directory = self.work.join(format!("made-{}", trace.index)).join("trace=made");
        std::fs::create_dir_all(&directory).map_err(|e| io(&directory, &e))?;
        let made = self.hands.tables(Making {
            key: format!("{}-{}", self.number, trace.index),
            directory: &directory,
            work: self.work,
            files: &mut files.files,
            members,
            same_ranks: before.is_some(),
            card: self.card,
            log: &log,
            earlier: before
                .filter(|held| held.manifest.derived_sha256 == self.derive.sha256())
                .map(|held| held.directory.as_path()),
            changed,
            derive: self.derive,
            watcher: &self.job.options.watcher,
            threads: self.job.options.threads(),
        })?;
        let Some(elsewhere) = made else { return Ok(None) };
        let tables = (&*directory, elsewhere);
        let name = self.publish(trace, tables, files, names, &mut log, outcome)?;
        Ok(Some(summary(name, trace, &files.files, &log)))
    }

    /// Puts a directory that is complete but for its manifest in its place; the name that it got.
    fn publish(
        &self,
        trace: &Trace<'_>,
        (directory, mut elsewhere): (&Path, Vec<RemoteFile>),
        files: &JobFiles,
        names: &mut Names,
        log: &mut Log,
        outcome: &mut Outcome,
    ) -> Result<String> {
        // Before the turn: other ingests need not wait for the disk.
        self.store.settle(directory)?;
        let turn = self.store.turn();
        let said = log.findings.len();
        let name = self.name(trace, names, log, outcome)?;
        if let Some(why) = self.damage(trace, &name) {
            log.add(Severity::Info, "trace-damaged", None, || {
                format!("the trace directory was damaged ({why}), and was made again")
            });
        }
        if log.findings.len() > said {
            assemble::findings(directory, &files.files, trace.members, log)?;
        }
        // What was made anew stands for what lies elsewhere.
        elsewhere.retain(|file| !directory.join(&file.name).exists());
        self.manifest(&name, trace, directory, files, log)?.write(directory)?;
        self.store.publish(directory, &name, &elsewhere)?;
        drop(turn);
        names.given.insert(name.clone());
        Ok(name)
    }

    /// The name of a trace, in the turn of this process: that which it has, else what its path or
    /// the user says.
    fn name(
        &self,
        trace: &Trace<'_>,
        names: &mut Names,
        log: &mut Log,
        outcome: &mut Outcome,
    ) -> Result<String> {
        if let Some(before) = trace.before {
            return Ok(self.store.current(&before.manifest.trace, &before.manifest.root));
        }
        let wanted = &self.job.options.name;
        let possible = match wanted {
            Some(name) => vec![name.clone()],
            None => names.of_path(&trace.label),
        };
        let claimed = self.store.claim(&Wish {
            names: &possible,
            is_named: wanted.is_some(),
            root: &self.job.root.path,
            label: &trace.label,
            given: &names.given,
            aliases: &names.aliases,
        })?;
        if let Some(text) = claimed.finding {
            log.add(Severity::Info, "name-taken", None, || text.clone());
            if let Some((from, to)) = claimed.renamed {
                for trace in outcome.traces.iter_mut().filter(|t| t.trace == from) {
                    trace.trace.clone_from(&to);
                }
                if names.given.remove(&from) {
                    names.given.insert(to);
                } else {
                    names.aliases.insert(from);
                }
            }
        }
        Ok(claimed.name)
    }

    /// The damage of the directory that a trace takes the place of.
    fn damage(&self, trace: &Trace<'_>, name: &str) -> Option<String> {
        let directory = self.store.directory(name);
        if let Some(before) = trace.before {
            return before.damage.clone();
        }
        let says = |e: Error| e.facts.unwrap_or(e.message);
        directory.exists().then(|| Manifest::read(&directory).err().map(says)).flatten()
    }

    /// The manifest of a trace.
    fn manifest(
        &self,
        name: &str,
        trace: &Trace<'_>,
        directory: &Path,
        files: &JobFiles,
        log: &Log,
    ) -> Result<Manifest> {
        let records = || trace.members.iter().map(|m| &files.files[m.file].record);
        let mut findings = BTreeMap::new();
        for f in records().flat_map(|record| &record.log.findings).chain(&log.findings) {
            *findings.entry(f.code.clone().into_owned()).or_insert(0) += f.count;
        }
        let was = trace.before.map(|before| &before.manifest);
        let wanted = &self.job.options.name;
        let other = wanted.as_ref().filter(|wanted| **wanted != name);
        Ok(Manifest {
            trace: name.to_owned(),
            schema_version: SCHEMA_VERSION,
            reader_version: READER_VERSION,
            ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
            root: self.job.root.path.clone(),
            named: wanted.is_some() || was.is_some_and(|was| was.named),
            wanted: other.cloned().or_else(|| was.and_then(|was| was.wanted.clone())),
            aliases: was.map(|was| was.aliases.clone()).unwrap_or_default(),
            label: Some(Stored(trace.label.clone())),
            asked: self.job.options.asked.clone(),
            kept: Some(self.job.kept.clone()),
            sources: records().map(|record| record.source.clone()).collect(),
            set_aside: files.set_aside.iter().filter_map(|(c, _)| c.source(-1)).collect(),
            cards: self.card.map(card_sources).unwrap_or_default(),
            rows: count_rows(directory)?,
            findings,
            derived_sha256: self.derive.sha256(),
            files: BTreeMap::new(),
            spans: BTreeMap::new(),
            at: None,
        })
    }
}

/// The trace that one was before, by the path of its name; of several the one with most of its
/// files.
fn before_of<'j>(
    job: &'j Job,
    label: &Path,
    members: &[Member],
    files: &[ReadFile],
    taken: &BTreeSet<String>,
) -> Option<&'j Before> {
    let paths: BTreeSet<&Path> =
        members.iter().map(|m| &*files[m.file].record.source.absolute).collect();
    let shared = |manifest: &Manifest| {
        manifest.sources.iter().filter(|s| paths.contains(&*s.absolute)).count()
    };
    let same = job
        .before
        .iter()
        .filter(|b| b.manifest.is_labelled(label) && !taken.contains(&b.manifest.trace));
    same.max_by_key(|b| (shared(&b.manifest), std::cmp::Reverse(&b.manifest.trace)))
}

/// The summary of a trace that was made.
fn summary(name: String, trace: &Trace<'_>, files: &[ReadFile], log: &Log) -> Summary {
    let members = trace.members;
    let mut findings = Vec::new();
    for m in members {
        let record = &files[m.file].record;
        findings
            .extend(record.log.findings.iter().map(|f| (record.source.path.clone(), f.clone())));
    }
    findings.extend(log.findings.iter().map(|f| (String::new(), f.clone())));
    let sources = || members.iter().map(|m| &files[m.file].record.source);
    let kinds: BTreeSet<Source> = sources().map(|s| s.source).collect();
    let recorded = recorded(files, members);
    let read = |m: &&Member| files[m.file].read_now;
    let ranks_read: BTreeSet<i64> = members.iter().filter(read).filter_map(|m| m.rank).collect();
    Summary {
        trace: name,
        origin: trace.label.clone(),
        sources: kinds.into_iter().collect(),
        ranks: recorded.iter().flatten().count(),
        ranks_read: ranks_read.iter().filter(|rank| recorded.contains(&Some(**rank))).count(),
        events: sources().map(|s| s.events).sum(),
        bytes: members.iter().filter(read).map(|m| files[m.file].record.bytes).sum(),
        seconds: 0.0,
        findings,
        unchanged: false,
    }
}
