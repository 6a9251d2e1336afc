//! The tasks of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;

use crate::derive::{Derive, Part, ToDerive};
use crate::error::{Error, Result, io};
use crate::ingest::assemble::{Block, is_joined};
use crate::ingest::find::Root;
use crate::ingest::find::walk::Candidate;
use crate::ingest::kept::All;
use crate::ingest::known::Known;
use crate::ingest::make::{Hands, Making};
use crate::ingest::options::{Options, Outcome};
use crate::ingest::plan::join::note;
use crate::ingest::plan::written::{
    DONE, Files, JoinTask, LayoutDone, OUTCOME, PartTask, ReadDone, ReadTask, TablesDone, get, put,
};
use crate::ingest::plan::{Plan, STAGES, Step, early, planned, reads};
use crate::ingest::read::{Read, read_all};
use crate::ingest::records::{self, ReadFile, Rows};
use crate::ingest::{allow_files, ingest_jobs};
use crate::input::place::{Place, absolute};
use crate::input::progress::Watcher;
use crate::pool::lock;
use crate::readers::contract::Kind;
use crate::store::Store;
use crate::store::files::{RemoteFile, facts, link_tree};
use crate::store::workspace;

impl Plan {
    /// Runs a task; does nothing where it is done, or the ingest came to its end. `store` is the
    /// data directory of the plan.
    ///
    /// # Errors
    /// `task-early` where others must be done first. Those of a file that cannot be read, and of
    /// tables that cannot be made: then the task is done, and trying again helps nothing. Any other
    /// fault leaves the task open.
    pub fn run(
        &self,
        step: Step,
        n: usize,
        (threads, watcher): (usize, &Watcher),
        derive: &Derive<'_>,
        store: &Store,
    ) -> Result<()> {
        let options =
            Options { jobs: threads, watcher: watcher.clone(), ..self.written.options.clone() };
        allow_files();
        if self.folder.has(OUTCOME)? {
            return Ok(());
        }
        let ran = match step {
            Step::Read => self.read(n, &options),
            Step::Layout => self.layout(&options, derive, store),
            Step::Join => self.join(n, threads),
            Step::Finish => self.finish(&options, derive, store),
            step => self.derive(step, n, derive),
        };
        match ran {
            // What others need no more was removed meanwhile.
            Err(_) if self.folder.has(OUTCOME)? => Ok(()),
            ran => ran,
        }
    }

    /// Reads a file.
    fn read(&self, n: usize, options: &Options) -> Result<()> {
        let task = self.written.reads.get(n).ok_or_else(|| no_task(n, self.written.reads.len()))?;
        if !self.is_done(Step::Read, n)? {
            let aside = Aside::new(self, Step::Read, n)?;
            let file = candidate(task)?;
            if !is_as_planned(&file, task) {
                return Err(stale(&file.place.display()));
            }
            let mut root = Root::new(task.root.0.clone(), task.root.0.clone());
            root.candidates.push(file);
            let known = Known::numbered(task.id);
            let (files, mut other, mut failed) =
                read_all(&root, &aside.path, options, &known, &|_| None)?;
            let spool = |file: &ReadFile| {
                let of = &file.record;
                workspace::spool_name(of.source.source_id, of.facts.share)
            };
            aside.done(&match (failed.pop(), other.pop()) {
                (Some((_, error)), _) => ReadDone::Failed(error),
                (_, Some((_, what))) => ReadDone::Other(what),
                _ => ReadDone::Files(files.iter().map(spool).collect()),
            })?;
        }
        match self.done(Step::Read, n)? {
            ReadDone::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Lays out the traces that the files make.
    fn layout(&self, options: &Options, derive: &Derive<'_>, store: &Store) -> Result<()> {
        if self.is_done(Step::Layout, 0)? {
            return Ok(());
        }
        self.all_done(Step::Read, self.written.reads.len())?;
        let aside = Aside::new(self, Step::Layout, 0)?;
        let layout = Layout {
            reads: Reads::of(self, is_record)?,
            folder: &aside.path,
            plan: &self.folder.here,
            is_away: self.folder.is_away(),
            done: Mutex::default(),
        };
        let outcome = self.jobs(options, derive, store, &layout)?;
        // What is wrong with a file is said at the end; a disk that is full may be so no more.
        if let Some(error) = outcome.errors.into_iter().find(Error::is_io) {
            return Err(error);
        }
        let done = layout.done.into_inner().unwrap_or_default();
        aside.done(&done)
    }

    /// Puts the rows of a block of ranks into their files.
    fn join(&self, n: usize, threads: usize) -> Result<()> {
        let layout = self.laid_out()?;
        let task = layout.joins.get(n).ok_or_else(|| no_task(n, layout.joins.len()))?;
        let mut rows = Vec::new();
        let joined = self.tables(Step::Join, n, |into, work| {
            self.write_block(task, (into, work, threads), &mut rows)
        });
        match joined {
            Ok(()) => {
                // The last step would do it for all ranks.
                rows.iter().for_each(|file| _ = std::fs::remove_file(file));
                Ok(())
            }
            // Another of the same was first, and has removed what this one was about to read.
            Err(_) if self.is_done(Step::Join, n)? => {
                self.tables(Step::Join, n, |_, _| Err(early("it was done")))
            }
            failed => failed,
        }
    }

    /// Makes the tables of a stage: of a part of the ranks of a trace, or of a trace.
    fn derive(&self, step: Step, n: usize, derive: &Derive<'_>) -> Result<()> {
        let layout = self.laid_out()?;
        let stage = step.stage().unwrap_or_default();
        let task = layout.task(step, n)?;
        self.tables(step, n, |into, work| {
            let gathered = self.gather(&layout, &task, stage, derive, &work.join(MADE))?;
            Ok(gathered.and_then(|directory| {
                let what = ToDerive { directory: &directory, into, work, earlier: None };
                match task.part {
                    Some(part) => derive.make_part(&what, stage, part),
                    None => derive.make_over_ranks(&what, stage, layout.part_of(task.key)?),
                }
            }))
        })
    }

    /// Runs a task that makes tables into a folder, with another for files on the way. The inner
    /// fault is what the tables came to; any other leaves the task open.
    fn tables(
        &self,
        step: Step,
        n: usize,
        make: impl FnOnce(&Path, &Path) -> Result<Result<()>>,
    ) -> Result<()> {
        if !self.is_done(step, n)? {
            let aside = Aside::new(self, step, n)?;
            let (into, work) = (aside.path.join(TABLES), aside.path.join("work"));
            for folder in [&into, &work] {
                std::fs::create_dir(folder).map_err(|e| io(folder, &e))?;
            }
            let is_away = self.folder.is_away();
            let files = || if is_away { facts(&into) } else { Ok(Files::new()) };
            let done = match make(&into, &work)?.and_then(|()| files()) {
                Ok(files) => TablesDone { files, failed: None },
                Err(error) if may_pass(&error) => return Err(error),
                Err(error) => TablesDone { failed: Some(error), ..TablesDone::default() },
            };
            std::fs::remove_dir_all(&work).map_err(|e| io(&work, &e))?;
            aside.done(&done)?;
        }
        let done: TablesDone = self.done(step, n)?;
        done.failed.map_or(Ok(()), Err)
    }

    /// Puts what a stage reads, of a trace or of a part of it, into a folder. The inner fault is
    /// that of a task before it, which says what became of the trace.
    fn gather(
        &self,
        layout: &LayoutDone,
        of: &StageTask<'_>,
        stage: usize,
        derive: &Derive<'_>,
        into: &Path,
    ) -> Result<Result<PathBuf>> {
        let reads = derive.reads(stage);
        let is_read = |name: &str| name.split('/').next().is_some_and(|name| reads.contains(name));
        let is_near = |files: &Files, name: &str| {
            let part = of.part.zip(files.get(name).and_then(|file| file.span));
            part.is_none_or(|(part, span)| part.overlaps(span))
        };
        let made = format!("{}/{MADE}/", of.key);
        // Parts that were taken over lie there, each in files of its name.
        let others: BTreeSet<String> = layout
            .parts(Step::Collect)
            .iter()
            .filter(|other| of.part.is_some_and(|part| !part.is_same(&other.part)))
            .map(|other| other.part.file())
            .collect();
        let (none, files) = (Files::new(), layout.files.get(of.key));
        let is_wanted = |name: &str| {
            let is_others = name.rsplit('/').next().is_some_and(|file| others.contains(file));
            let name = name.strip_prefix(&made).filter(|_| !is_others);
            name.is_some_and(|name| is_read(name) && is_near(files.unwrap_or(&none), name))
        };
        let laid_out = self.bring(Step::Layout, &[0], is_wanted)?.remove(0);
        let mut folders = vec![laid_out.join(of.key).join(MADE)];
        let joins = layout.joins.iter().enumerate().filter(|(_, join)| {
            let is_near = of.part.zip(join.span).is_none_or(|(part, span)| part.overlaps(span));
            join.key == of.key && is_near && reads.iter().any(|name| is_joined(name))
        });
        let mut before = vec![(Step::Join, joins.map(|(n, _)| n).collect::<Vec<usize>>())];
        for step in &STAGES[..stage] {
            let wanted = layout.tasks(*step).into_iter().enumerate().filter(|(_, task)| {
                let is_part = of.part.zip(task.part).is_none_or(|(a, b)| a.is_same(b));
                task.key == of.key && is_part
            });
            before.push((*step, wanted.map(|(n, _)| n).collect()));
        }
        for (step, tasks) in before {
            self.need(step, &tasks)?;
            let mut files = Files::new();
            for folder in self.bring(step, &tasks, |name| name == DONE)? {
                let done: TablesDone = get(&folder.join(DONE))?;
                if let Some(error) = done.failed {
                    return Ok(Err(error));
                }
                files.extend(done.files);
            }
            let is_wanted = |name: &str| {
                let name = name.strip_prefix(TABLES_BELOW);
                name.is_some_and(|name| is_read(name) && is_near(&files, name))
            };
            let made = self.bring(step, &tasks, is_wanted)?;
            folders.extend(made.into_iter().map(|folder| folder.join(TABLES)));
        }
        std::fs::create_dir(into).map_err(|e| io(into, &e))?;
        for (folder, name) in folders.iter().flat_map(|f| reads.iter().map(move |n| (f, n))) {
            if folder.join(name).is_dir() {
                link_tree(&folder.join(name), &into.join(name))?;
            }
        }
        Ok(Ok(into.to_owned()))
    }

    /// Works on the jobs of the plan, once their files are what they were.
    pub(super) fn jobs(
        &self,
        options: &Options,
        derive: &Derive<'_>,
        store: &Store,
        hands: &dyn Hands,
    ) -> Result<Outcome> {
        store.sync()?;
        let store = &Store { durable: store.durable && !options.no_sync, ..store.clone() };
        let paths: Vec<PathBuf> = self.written.paths.iter().map(|path| path.0.clone()).collect();
        let mut outcome = Outcome::default();
        let all = All::of(store);
        let jobs = planned(&paths, options, &all, &mut outcome)?;
        let mut planned: BTreeMap<&Path, Vec<&ReadTask>> = BTreeMap::new();
        for task in &self.written.reads {
            planned.entry(&task.root.0).or_default().push(task);
        }
        for job in &jobs {
            let of_plan = planned.remove(&*job.root.path).unwrap_or_default();
            // One that was finished before the task was killed needs nothing any more.
            if let Some(now) = reads(job, store)?
                && !now.iter().eq(of_plan)
            {
                return Err(stale(&job.root.path.display().to_string()));
            }
        }
        if let Some((root, _)) = planned.into_iter().find(|(_, tasks)| !tasks.is_empty()) {
            return Err(stale(&root.display().to_string()));
        }
        ingest_jobs(&jobs, &all, store, derive, hands, &mut outcome);
        Ok(outcome)
    }

    /// Fails where a task of a step is open.
    pub(super) fn all_done(&self, step: Step, tasks: usize) -> Result<()> {
        self.need(step, &(0..tasks).collect::<Vec<_>>())
    }

    /// Fails where one of some tasks is open.
    fn need(&self, step: Step, tasks: &[usize]) -> Result<()> {
        self.folder.look()?;
        for n in tasks {
            if !self.is_done(step, *n)? {
                return Err(early(&format!("task {} {n} is not done", step.word())));
            }
        }
        Ok(())
    }
}

/// Name of the folder with the tables that a task derives.
pub(super) const TABLES: &str = "tables";
/// What the names of its files begin with.
pub(super) const TABLES_BELOW: &str = "tables/";
/// Name of the directory of a trace that is laid out.
pub(super) const MADE: &str = "trace=made";

/// The folder that a task works in. When it is dropped before the task is done, it goes.
struct Aside<'a> {
    path: PathBuf,
    plan: &'a Plan,
    task: String,
}

impl<'a> Aside<'a> {
    fn new(plan: &'a Plan, step: Step, n: usize) -> Result<Self> {
        let task = step.task(n);
        // Processes of two machines may have one number.
        for k in 0..u32::MAX {
            let path = plan.folder.here.join(format!(".{task}-{}-{k}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, plan, task }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(io(&path, &e)),
            }
        }
        Err(early("there is no name left for a folder"))
    }

    /// Says what the task came to, and gives the folder its name.
    fn done(self, what: &impl Serialize) -> Result<()> {
        put(&self.path.join(DONE), what, false)?;
        self.plan.folder.commit(&self.path, &self.task, self.plan.is_durable())
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // The end of the plan removes what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What tasks read of the files of a plan.
pub(super) struct Reads {
    /// The folder of each, by its path and its name in an archive.
    folders: BTreeMap<(PathBuf, Option<String>), PathBuf>,
}

impl Reads {
    /// Those of a plan, with the files that are wanted of each.
    pub(super) fn of(plan: &Plan, is_wanted: impl Fn(&str) -> bool + Sync) -> Result<Self> {
        let tasks = &plan.written.reads;
        let all: Vec<usize> = (0..tasks.len()).collect();
        let folders = plan.bring(Step::Read, &all, is_wanted)?;
        let file = |task: &ReadTask| (absolute(&task.file.0), task.member.clone());
        Ok(Self { folders: tasks.iter().map(file).zip(folders).collect() })
    }

    pub(super) fn get(&self, file: &Candidate) -> Option<Result<Read>> {
        let folder = self.folders.get(&(file.file.clone(), file.place.member.clone()))?;
        Some(get(&folder.join(DONE)).and_then(|done| match done {
            ReadDone::Failed(error) => Err(error),
            ReadDone::Other(what) => Ok(Read::Other(what)),
            ReadDone::Files(spools) => {
                let share = |name: &String| {
                    let spool = folder.join(name);
                    let record = records::read(&spool).pop()?;
                    Some(ReadFile { record, rows: Rows::Spool(spool), read_now: true })
                };
                Ok(Read::Files(spools.iter().filter_map(share).collect()))
            }
        }))
    }
}

/// A task that derives tables.
pub(super) struct StageTask<'a> {
    /// Folder of the trace.
    pub(super) key: &'a str,
    /// The part of its ranks; None for all.
    part: Option<&'a Part>,
}

impl LayoutDone {
    /// The tasks of a stage.
    pub(super) fn tasks(&self, step: Step) -> Vec<StageTask<'_>> {
        if step.stage().is_some_and(|stage| stage % 2 == 0) {
            let parts = self.parts(step).into_iter();
            return parts.map(|of| StageTask { key: &of.key, part: Some(&of.part) }).collect();
        }
        self.with_ranks.iter().map(|key| StageTask { key, part: None }).collect()
    }

    /// A part of a trace that has ranks.
    pub(super) fn part_of(&self, key: &str) -> Result<&Part> {
        let of_trace = self.parts.iter().find(|task| task.key == key);
        let part = of_trace.map(|task| &task.part);
        part.ok_or_else(|| Error::new("plan-invalid", "a trace of the plan has no parts"))
    }

    /// A task of a stage.
    fn task(&self, step: Step, n: usize) -> Result<StageTask<'_>> {
        let mut tasks = self.tasks(step);
        if n < tasks.len() { Ok(tasks.swap_remove(n)) } else { Err(no_task(n, tasks.len())) }
    }
}

/// Lays traces out, and lists the blocks and the parts of their ranks.
struct Layout<'a> {
    reads: Reads,
    folder: &'a Path,
    /// The folder of the plan.
    plan: &'a Path,
    /// Whether machines will fetch the files, so that it matters which of them hold which ranks.
    is_away: bool,
    done: Mutex<LayoutDone>,
}

impl Layout<'_> {
    /// Makes what there is to make of a trace: the tables that say something of all of it, and the
    /// blocks with rows of an earlier ingest. The other blocks are noted.
    fn lay_out(&self, making: &mut Making<'_>) -> Result<(Vec<JoinTask>, Option<Vec<Part>>)> {
        let blocks = making.blocks();
        let is_here = |block: &Block| {
            let is_read = |n: usize| match &making.files[n].rows {
                Rows::Spool(spool) => spool.starts_with(self.plan),
                Rows::Trace(_) => false,
            };
            !block.files().all(is_read)
        };
        let (here, later): (Vec<_>, Vec<_>) =
            blocks.iter().enumerate().partition(|(_, block)| is_here(block));
        let here: BTreeSet<usize> = here.into_iter().map(|(n, _)| n).collect();
        let later = later.into_iter();
        let joins = later.map(|of| note(self.folder, making, of)).collect::<Result<_>>()?;
        making.assemble(&blocks, |n| here.contains(&n))?;
        Ok((joins, making.derive.parts(&making.to_derive(), &making.counts())?))
    }
}

impl Hands for Layout<'_> {
    fn read(&self, file: &Candidate) -> Option<Result<Read>> {
        self.reads.get(file)
    }

    fn is_planned(&self) -> bool {
        true
    }

    fn publishes(&self) -> bool {
        false
    }

    fn tables(&self, mut making: Making<'_>) -> Result<Option<Vec<RemoteFile>>> {
        let laid_out = self.lay_out(&mut making);
        let mut done = lock(&self.done);
        match laid_out {
            Ok((joins, parts)) => {
                let target = self.folder.join(&making.key).join(MADE);
                link_tree(making.directory, &target)?;
                done.joins.extend(joins);
                for part in parts.iter().flatten() {
                    done.parts.push(PartTask { key: making.key.clone(), part: part.clone() });
                }
                if self.is_away {
                    done.files.insert(making.key.clone(), facts(&target)?);
                }
                if parts.is_some() {
                    done.with_ranks.push(making.key);
                }
            }
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) => _ = done.failed.insert(making.key, error),
        }
        Ok(None)
    }
}

/// Whether a file of a task says what it came to.
pub(super) fn is_record(name: &str) -> bool {
    name == DONE || Path::new(name).file_name() == Some(OsStr::new(workspace::RECORDS))
}

/// The file of a task, as it is now.
fn candidate(task: &ReadTask) -> Result<Candidate> {
    let place = Place { file: task.file.0.clone(), member: task.member.clone() };
    let kind = Kind::of_word(&task.kind).ok_or_else(|| {
        Error::new("plan-invalid", format!("there is no kind of file `{}`", task.kind))
    })?;
    Ok(Candidate::new(place, kind, task.direct, task.rank))
}

/// Whether a file is what it was when it was planned.
fn is_as_planned(file: &Candidate, task: &ReadTask) -> bool {
    let now = file.source(0).map(|now| (now.bytes, now.mtime_ns));
    now == Some((task.bytes, task.mtime_ns))
}

/// Whether a fault may be gone when the task is tried again: that of a disk or a store, or an
/// interruption.
pub(super) fn may_pass(error: &Error) -> bool {
    error.is_io() || ["interrupted", "store-conflict"].contains(&error.code)
}

fn stale(place: &str) -> Error {
    Error::new("plan-stale", "files have changed since the plan was made")
        .at(place)
        .hint("plan again: what has not changed need not be read again")
}

fn no_task(n: usize, tasks: usize) -> Error {
    Error::new("usage", format!("there is no task {n}"))
        .facts(format!("tasks of this step: {tasks}"))
}
