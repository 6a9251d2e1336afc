//! An ingest in tasks, for many machines that share a file system or an object store: which tasks
//! there are, and which of them are done.
//!
//! A plan is a folder. Steps follow each other:
//! 1. every file is read (a task each);
//! 2. the files are laid out as traces;
//! 3. the rows of many ranks are put into their files (a task for each block of ranks);
//! 4. tables are derived, in stages: by turns of parts of the ranks (a task each) and over all
//!    ranks of a trace (a task each);
//! 5. the traces are finished, with the last stage.
//!
//! A task works aside, in a folder of its own, and is done when that folder has its name: one that
//! is killed leaves nothing that counts, and two of the same do no harm. Where and when tasks run,
//! and how often they are tried, is the business of whoever runs them.

mod finish;
mod folder;
mod join;
mod tasks;
mod written;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::folder::Folder;
use self::written::{DONE, LayoutDone, OUTCOME, ReadTask, Written, get};
use crate::derive::Derive;
use crate::engine::key::PROGRAM;
use crate::error::{Error, Result, io};
use crate::ingest::card::Given;
use crate::ingest::card::beside::find_card;
use crate::ingest::kept::{All, Job, jobs};
use crate::ingest::known::{Earlier, Known};
use crate::ingest::options::{Options, Outcome};
use crate::ingest::{given, nothing_found};
use crate::input::place::absolute;
use crate::readers::log::Log;
use crate::remote;
use crate::store::Store;
use crate::store::manifest::Stored;
use crate::store::names::valid_name;
use crate::store::objects::{PLAN, PLANS};
use crate::store::sync;

/// Memory that a task needs at most, whatever it reads: an ingest stays below 300 MB.
const TASK_MB: u64 = 512;

/// An ingest in tasks.
pub struct Plan {
    folder: Folder,
    written: Written,
}

/// The steps of a plan, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Files are read: a task each.
    Read,
    /// Which files are a trace: one task.
    Layout,
    /// The rows of some ranks of a trace, in files of many ranks: a task each.
    Join,
    /// Tables of some ranks of a trace, of their events: a task each.
    Derive,
    /// The groups and series of calls of a trace: a task each.
    Groups,
    /// The places of the calls of some ranks in their series: a task each.
    Place,
    /// Which calls of the ranks of a trace are one: a task each.
    Match,
    /// The calls of some ranks, with what others say of them: a task each.
    Collect,
    /// Tables over all ranks, manifests, and the traces in their places: one task.
    Finish,
}

/// The steps between the layout and the end, in their order.
const BETWEEN: [Step; 6] =
    [Step::Join, Step::Derive, Step::Groups, Step::Place, Step::Match, Step::Collect];

/// The steps that derive tables, each a stage; the stage after them is of the last step.
const STAGES: [Step; 5] = [Step::Derive, Step::Groups, Step::Place, Step::Match, Step::Collect];

impl Step {
    /// Whether it is one task, which takes a whole machine: nothing else can be done meanwhile.
    pub fn is_one(self) -> bool {
        matches!(self, Self::Layout | Self::Finish)
    }

    /// Its stage, where it derives tables.
    fn stage(self) -> Option<usize> {
        STAGES.iter().position(|step| *step == self)
    }

    /// Its word in a command.
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Layout => "layout",
            Self::Join => "join",
            Self::Derive => "derive",
            Self::Groups => "groups",
            Self::Place => "place",
            Self::Match => "match",
            Self::Collect => "collect",
            Self::Finish => "finish",
        }
    }

    /// The name of a task, which is that of its folder.
    fn task(self, n: usize) -> String {
        if self.is_one() { self.word().to_owned() } else { format!("{}-{n}", self.word()) }
    }
}

/// What is to be done next: tasks that wait for nothing.
#[derive(Debug, Serialize)]
pub struct Listing {
    /// The step; None when everything is done.
    pub step: Option<Step>,
    /// Tasks of the step.
    pub total: usize,
    /// Those of them that are open.
    pub tasks: Vec<Open>,
}

/// A task that is open.
#[derive(Debug, Serialize)]
pub struct Open {
    /// The number of the task.
    pub n: usize,
    /// How much there is to do: bytes of a file, events of a part.
    pub size: u64,
    /// Megabytes of memory that suffice.
    pub memory_mb: u64,
}

impl Plan {
    /// Plans the ingest of paths. A folder that holds this very plan already keeps what is done.
    /// `cache` is where what is fetched of an object store may lie.
    ///
    /// # Errors
    /// Those of an ingest as a whole, and `io`.
    pub fn make(
        folder: Option<&Path>,
        cache: &dyn Fn() -> Result<PathBuf>,
        paths: &[PathBuf],
        store: &Store,
        options: &Options,
        derive: &Derive<'_>,
    ) -> Result<Self> {
        if let Some(name) = &options.name {
            valid_name(name)?;
        }
        let (paths, options) = &given(paths, options)?;
        store.make()?;
        let here = std::env::current_dir().map_err(|e| io(Path::new("."), &e))?;
        let mut written = Written {
            program: program(derive),
            // Where nothing is relative, it does not matter.
            folder: Stored(if has_relative(paths, options) { here } else { PathBuf::new() }),
            paths: paths.iter().cloned().map(Stored).collect(),
            options: options.clone(),
            data: Stored(absolute(store.given())),
            made_s: now_s(),
            reads: Vec::new(),
        };
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => {
                let asked = serde_json::to_string(&(&written.folder, &written.paths, options))
                    .map_err(|e| Error::new("usage", format!("a path cannot be kept: {e}")))?;
                let hash = crate::hash::sha256_text(&asked);
                absolute(store.given()).join(format!("{PLANS}{}", &hash[..12]))
            }
        };
        let mut outcome = Outcome::default();
        let all = All::of(store);
        let jobs = planned(paths, options, &all, &mut outcome)?;
        if jobs.is_empty() {
            let first = outcome.errors.drain(..).next();
            return Err(first.unwrap_or_else(|| nothing_found(paths, &outcome)));
        }
        for job in &jobs {
            written.reads.extend(reads(job, store)?.unwrap_or_default());
        }
        let mut plan = Self { folder: Folder::at(&folder, cache)?, written };
        let folder = &plan.folder;
        let before = folder.has(PLAN)?.then(|| folder.get::<Written>(PLAN)).and_then(Result::ok);
        if let Some(before) = before.filter(|before| before.is_same(&plan.written))
            && !folder.has(OUTCOME)?
        {
            plan.written = before;
            return Ok(plan);
        }
        folder.clear()?;
        folder.put(PLAN, &plan.written, plan.is_durable())?;
        if let (true, Some(above)) = (plan.is_durable(), folder.here.parent()) {
            // A folder that may not be opened is nobody's loss here.
            let _ = sync::folder(above);
        }
        Ok(plan)
    }

    /// The plan in a folder, or at a URL; `cache` as of [`Self::make`].
    ///
    /// # Errors
    /// `plan-invalid` where there is none, `plan-other` for one of another program or SQL.
    pub fn open(
        folder: &Path,
        cache: &dyn Fn() -> Result<PathBuf>,
        derive: &Derive<'_>,
    ) -> Result<Self> {
        remote::forget();
        let folder = Folder::at(folder, cache)?;
        let shown = folder.shown().display().to_string();
        if !folder.has(PLAN)? {
            return Err(Error::new("plan-invalid", "the folder holds no plan")
                .at(shown)
                .hint("make one: ccl-sql plan PATH"));
        }
        let written: Written = folder.get(PLAN)?;
        if written.program != program(derive) {
            return Err(Error::new(
                "plan-other",
                "the plan is of another program, or of other SQL",
            )
            .at(shown)
            .facts(format!("plan: {}; here: {}", written.program, program(derive)))
            .hint("run the same ccl-sql with the same --sql-dir everywhere, or plan again"));
        }
        Ok(Self { folder, written })
    }

    /// The folder or the URL of the plan.
    pub fn shown(&self) -> &Path {
        self.folder.shown()
    }

    /// The data directory: a folder, or a URL.
    pub fn data(&self) -> &Path {
        &self.written.data.0
    }

    /// Goes to the folder that relative paths of the plan count from.
    ///
    /// # Errors
    /// `plan-invalid` where there are such paths, and the folder is not there.
    pub fn enter(&self) -> Result<()> {
        let folder = &self.written.folder.0;
        if folder.as_os_str().is_empty() {
            return Ok(());
        }
        std::env::set_current_dir(folder).map_err(|e| {
            let why = "paths of the plan are relative to a folder that is not here";
            Error::new("plan-invalid", why)
                .at(folder.display().to_string())
                .facts(e.to_string())
                .hint("plan again with absolute paths")
        })
    }

    /// What is to be done next.
    ///
    /// # Errors
    /// `io`, `plan-invalid`.
    pub fn list(&self) -> Result<Listing> {
        if self.folder.has(OUTCOME)? {
            return Ok(Listing { step: None, total: 0, tasks: Vec::new() });
        }
        let sizes: Vec<u64> = self.written.reads.iter().map(|task| task.bytes).collect();
        self.folder.look()?;
        let reads = self.open_tasks(Step::Read, &sizes)?;
        if !reads.tasks.is_empty() {
            return Ok(reads);
        }
        let one = |step| Listing { step: Some(step), total: 1, tasks: vec![task(0, 0)] };
        if !self.is_done(Step::Layout, 0)? {
            return Ok(one(Step::Layout));
        }
        let layout = self.laid_out()?;
        for step in BETWEEN {
            let open = self.open_tasks(step, &layout.sizes(step))?;
            if !open.tasks.is_empty() {
                return Ok(open);
            }
        }
        Ok(one(Step::Finish))
    }

    /// How many tasks a step of several has: none when the ingest has come to its end.
    ///
    /// # Errors
    /// `task-early` where nothing says it yet.
    pub fn tasks_of(&self, step: Step) -> Result<usize> {
        Ok(match step {
            _ if self.folder.has(OUTCOME)? => 0,
            Step::Read => self.written.reads.len(),
            _ => self.laid_out()?.sizes(step).len(),
        })
    }

    /// How many files are to be read, and their bytes.
    pub fn to_read(&self) -> (usize, u64) {
        (self.written.reads.len(), self.written.reads.iter().map(|task| task.bytes).sum())
    }

    /// What the ingest did.
    ///
    /// # Errors
    /// `io` where it is not done.
    pub fn outcome(&self) -> Result<Outcome> {
        // It was not there when the plan was made.
        remote::forget();
        self.folder.get(OUTCOME)
    }

    /// Removes the plan.
    ///
    /// # Errors
    /// `io`.
    pub fn remove(self) -> Result<()> {
        self.folder.remove()
    }

    /// Whether what is done must survive a loss of power.
    fn is_durable(&self) -> bool {
        !self.written.options.no_sync
    }

    fn is_done(&self, step: Step, n: usize) -> Result<bool> {
        self.folder.is_done(&step.task(n))
    }

    fn open_tasks(&self, step: Step, sizes: &[u64]) -> Result<Listing> {
        let mut tasks = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            if !self.is_done(step, n)? {
                tasks.push(task(n, *size));
            }
        }
        Ok(Listing { step: Some(step), total: sizes.len(), tasks })
    }

    /// What a task that is done came to.
    fn done<T: DeserializeOwned>(&self, step: Step, n: usize) -> Result<T> {
        let folder = self.folder.bring(&[step.task(n)], |name| name == DONE)?.remove(0);
        get(&folder.join(DONE))
    }

    /// The folders of tasks of a step, with those of their files that are wanted.
    fn bring(
        &self,
        step: Step,
        tasks: &[usize],
        is_wanted: impl Fn(&str) -> bool + Sync,
    ) -> Result<Vec<PathBuf>> {
        let tasks: Vec<String> = tasks.iter().map(|n| step.task(*n)).collect();
        self.folder.bring(&tasks, is_wanted)
    }

    fn laid_out(&self) -> Result<LayoutDone> {
        if !self.is_done(Step::Layout, 0)? {
            return Err(early("the traces are not laid out yet"));
        }
        self.done(Step::Layout, 0)
    }
}

/// The fault of a task that must wait for others.
fn early(why: &str) -> Error {
    Error::new("task-early", why)
        .hint("`ccl-sql task list PLAN` says what can be done now, or try again later")
}

fn task(n: usize, size: u64) -> Open {
    Open { n, size, memory_mb: TASK_MB }
}

/// Whether a path that was given counts from the folder that the process is in.
fn has_relative(paths: &[PathBuf], options: &Options) -> bool {
    let of_ranks = options.ranks.iter().map(|(_, path)| path);
    let given = paths.iter().chain(of_ranks).chain(&options.memory);
    let mut given = given.chain(&options.card).chain(&options.config);
    given.any(|path| path.is_relative() && !remote::is_url(path))
}

/// What the files of a plan depend on beside the traces.
fn program(derive: &Derive<'_>) -> String {
    format!("{PROGRAM} {}", &derive.sha256()[..16])
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The jobs below paths.
fn planned(
    paths: &[PathBuf],
    options: &Options,
    all: &All,
    outcome: &mut Outcome,
) -> Result<Vec<Job>> {
    let given = Given::read(options.card.as_deref(), options.config.as_deref())
        .map_err(|mut errors| errors.swap_remove(0))?;
    jobs(paths, options, &given, all, outcome)
}

/// The files of a job that are to be read; None where its traces are as they would be made.
fn reads(job: &Job, store: &Store) -> Result<Option<Vec<ReadTask>>> {
    let card = find_card(&job.root, &job.given, &mut Log::default());
    let earlier = Earlier::find(job, card.as_ref());
    if earlier.unchanged {
        return Ok(None);
    }
    let mut work = store.workspace()?;
    work.leftovers.clear();
    store.fetch(&earlier.names())?;
    let known = Known::find(job, &earlier, &work)?;
    let to_read = job.root.candidates.iter().enumerate().filter(|(_, file)| !known.has(file));
    let read = to_read.filter(|(_, file)| file.kind.is_read()).filter_map(|(i, file)| {
        let now = file.source(0)?;
        Some(ReadTask {
            root: Stored(job.root.path.clone()),
            id: known.id(i),
            file: Stored(file.place.file.clone()),
            member: file.place.member.clone(),
            kind: format!("{:?}", file.kind),
            direct: file.direct,
            rank: file.rank,
            bytes: now.bytes,
            mtime_ns: now.mtime_ns,
        })
    });
    Ok(Some(read.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn each_stage_has_a_step() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let derive = Derive { registry: &registry, memory_limit: String::new(), threads: 1 };
        assert_eq!(derive.stage_count(), STAGES.len() + 1);
        assert!(derive.reads(1).contains("_call_counts"));
        // What is said of all ranks is said without their events.
        for stage in (1..derive.stage_count()).step_by(2) {
            assert!(!derive.reads(stage).contains("_collective_events"), "stage {stage}");
        }
    }
}
