//! Questions to traces: one database for all of them, in which each trace is shown in turn, and of
//! small ones several at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::ahead::{self, Answered};
use crate::cli::answers::{Answers, profilers, selection, without_source};
use crate::cli::args::ProfileMode;
use crate::cli::context::Context;
use crate::cli::progress::Steps;
use crate::engine::diagnose::Diagnosed;
use crate::engine::kept::{self, Answer};
use crate::engine::metric::{MetricResult, Params};
use crate::engine::{
    Engine, Own, Selection, Settings, Share, TINY_ROWS, Tables, interrupt, is_small, key,
};
use crate::error::{Error, Result};
use crate::registry::SqlFile;
use crate::schema::source::{Source, joined};
use crate::store::cache::Cache;
use crate::store::manifest::{self, Away, Manifest};

/// The reason why execution traces alone have no measured values.
const ET_ALONE: &str = "the trace holds execution traces alone, which record no times and nothing \
                        of devices; ingest them together with the Kineto traces of the run";

/// The code of the error of a question that needs a table that was not fetched.
const AWAY: &str = "table-away";

/// Most rows of traces that are asked together, and most of the traces.
const ROWS_TOGETHER: u64 = 150_000;
const MOST_TOGETHER: usize = 64;

/// The metrics and views that every trace is asked for, and the database that answers.
pub struct Batch<'a, 'c> {
    context: &'c Context,
    files: &'a [&'c SqlFile],
    /// Views whose rows are wanted too.
    views: &'a [&'c SqlFile],
    /// Diagnoses whose findings are wanted too.
    diagnoses: &'a [&'c SqlFile],
    params: &'a Params,
    mode: ProfileMode,
    directories: &'a [PathBuf],
    engine: Option<Engine<'c>>,
    /// Whether the database gets little memory: no question was in need of more yet.
    is_modest: bool,
    /// Whether tables are fetched for views whose rows are kept, too: those were not there.
    is_whole: bool,
    /// Answers of small traces that were asked together with another, by directory.
    together: BTreeMap<PathBuf, Ahead>,
    /// How many of the directories were looked at for that.
    looked_at: usize,
    steps: Steps,
}

impl<'a, 'c> Batch<'a, 'c> {
    /// Metrics of the traces in `directories`.
    pub fn new(
        context: &'c Context,
        files: &'a [&'c SqlFile],
        params: &'a Params,
        mode: ProfileMode,
        directories: &'a [PathBuf],
    ) -> Self {
        let steps = Steps::new(context.global.quiet, files.len() * directories.len());
        let (views, diagnoses) = (&[], &[]);
        Self {
            context,
            files,
            views,
            diagnoses,
            params,
            mode,
            directories,
            engine: None,
            is_modest: context.global.memory_limit.is_empty(),
            is_whole: false,
            together: BTreeMap::new(),
            looked_at: 0,
            steps,
        }
    }

    /// Views whose rows are asked for beside the metrics.
    #[must_use]
    pub fn with_views(self, views: &'a [&'c SqlFile]) -> Self {
        Self { views, ..self }.counted()
    }

    /// Diagnoses that are asked for beside the metrics.
    #[must_use]
    pub fn with_diagnoses(self, diagnoses: &'a [&'c SqlFile]) -> Self {
        Self { diagnoses, ..self }.counted()
    }

    /// With the number of all questions.
    fn counted(self) -> Self {
        let questions = self.files.len() + self.views.len() + self.diagnoses.len();
        let steps = Steps::new(self.context.global.quiet, questions * self.directories.len());
        Self { steps, ..self }
    }

    /// The directories of the traces.
    pub fn directories(&self) -> &[PathBuf] {
        self.directories
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.params
    }

    /// The profiler whose rows are asked.
    pub fn mode(&self) -> ProfileMode {
        self.mode
    }

    /// A trace, and the files whose answers are not kept of it.
    ///
    /// # Errors
    /// Faults of the trace as a whole.
    pub fn lacking(&self, directory: &Path) -> Result<(Manifest, Vec<&'c SqlFile>)> {
        let manifest = Manifest::read(directory)?;
        let cache = self.context.cache(directory);
        let selection = selection(directory, &manifest, self.mode);
        let is_new = |file: &&SqlFile| cache.get(&self.key(&selection, file)).is_none();
        let files = self.asked().filter(is_new).collect();
        Ok((manifest, files))
    }

    /// Computes what the files read of a share of the ranks of a trace, and keeps it.
    ///
    /// # Errors
    /// `sql`, and faults of the trace as a whole.
    pub fn keep_share(&self, directory: &Path, level: usize, share: Share) -> Result<()> {
        let manifest = Manifest::read(directory)?;
        let selection = selection(directory, &manifest, self.mode);
        // The first to go through the ranks read nothing of what others say of them.
        if level > 0 {
            self.bring_rows(&manifest)?;
        }
        if let Some(own) = self.fetch_share(&manifest, level, share)? {
            match self
                .show(None, vec![selection.clone()])?
                .of_share(Some(own))
                .keep_share(level, share)
            {
                Err(e) if e.code == AWAY => {}
                outcome => return outcome,
            }
        }
        let files: Vec<&SqlFile> = self.asked().collect();
        self.fetch(&manifest, &Tables::of(&self.context.registry, &files, false))?;
        self.show(None, vec![selection])?.keep_share(level, share)
    }

    /// Fetches of a trace in a store what a share of its ranks is computed of; None where nothing
    /// is to be fetched, or the trace is not to be cut.
    fn fetch_share(&self, manifest: &Manifest, level: usize, share: Share) -> Result<Option<Own>> {
        let ranks: Vec<i64> = manifest.ranks().into_iter().collect();
        let mine = &ranks[share.of_many(ranks.len())];
        let (true, [first, ..], [.., last]) = (self.context.store.mirror.is_some(), mine, mine)
        else {
            return Ok(None);
        };
        let files: Vec<&SqlFile> = self.asked().collect();
        let tables = Tables::of_share(&self.context.registry, &files, level);
        let own = Own {
            share,
            ranks: (*first, *last),
            tables: tables.own.iter().map(|name| (*name).to_owned()).collect(),
        };
        self.context.store.fetch_some(&manifest.trace, &|file: &Away| {
            let is_own = tables.own.contains(file.table()) && file.overlaps(own.ranks);
            is_own || tables.whole.contains(file.table())
        })?;
        Ok(Some(own))
    }

    /// Fetches tables of a trace, where it lies in a store.
    fn fetch(&self, manifest: &Manifest, tables: &Tables<'_>) -> Result<()> {
        let is_wanted = |file: &Away| tables.whole.contains(file.table());
        self.context.store.fetch_some(&manifest.trace, &is_wanted)
    }

    /// Takes over what other machines have answered of the traces in a store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn bring_answers(&self) -> Result<()> {
        if self.context.store.mirror.is_none() {
            return Ok(());
        }
        let bring = |directory: &PathBuf| {
            let Some(name) = manifest::name_of(directory) else { return Ok(()) };
            self.context.store.bring_answers(&name, &mut self.context.cache(directory))
        };
        self.directories.iter().try_for_each(bring)
    }

    /// Fetches what other machines have computed of each rank of a trace in a store.
    fn bring_rows(&self, manifest: &Manifest) -> Result<()> {
        if self.context.store.mirror.is_none() || is_small(manifest.row_count()) {
            return Ok(());
        }
        // All that is asked: what is of each rank is computed together.
        let files: Vec<&SqlFile> = self.asked().collect();
        let views = Engine::in_parts_for(&self.context.registry, &files);
        self.context.store.bring_rows(&manifest.trace, &views)
    }

    /// Hands what is kept of a trace in a store on to other machines: rows of views, and the
    /// answers of some files.
    ///
    /// # Errors
    /// Those of the store.
    pub fn send_kept(&self, directory: &Path, files: &[&SqlFile]) -> Result<()> {
        if self.context.store.mirror.is_none() {
            return Ok(());
        }
        let manifest = Manifest::read(directory)?;
        let selection = selection(directory, &manifest, self.mode);
        let keys: Vec<String> = files.iter().map(|file| self.key(&selection, file)).collect();
        let answers = self.context.cache(directory).text_of(&keys);
        self.context.store.send_kept(&manifest.trace, answers)
    }

    /// The result of each metric on a trace, and the rows of each view.
    ///
    /// # Errors
    /// `sql` for queries that were interrupted, and faults of the trace as a whole.
    pub fn trace(&mut self, directory: &Path) -> Result<Answers> {
        loop {
            let stamp = manifest::stamp(directory);
            match self.answers(directory, stamp.as_deref()) {
                Ok(Some((out, mut cache))) => {
                    if manifest::stamp(directory) == stamp {
                        cache.save();
                    }
                    return Ok(out);
                }
                Ok(None) => {}
                Err(e) if e.code == AWAY && !self.is_whole => self.is_whole = true,
                Err(e) => return Err(e),
            }
            self.engine = None;
        }
    }

    /// Says how long a file took, where the user wants to know.
    fn say(&self, name: &str, trace: &str, took: Duration) {
        if self.context.printer.verbose() {
            let ms = took.as_millis();
            self.context.printer.note(&format!("{name} of {trace}: {ms} ms"));
        }
    }

    /// The answers of a trace, and all that are to be kept; None where an ingest has put another in
    /// its place, and not all of them would be of the one whose manifest has this stamp.
    fn answers(
        &mut self,
        directory: &Path,
        stamp: Option<&str>,
    ) -> Result<Option<(Answers, Cache)>> {
        let manifest = Manifest::read(directory)?;
        let sources = manifest.kinds();
        let profilers = profilers(&manifest);
        let wanted = self.mode.source().or(profilers.first().copied());
        let selection = selection(directory, &manifest, self.mode);
        let mut trace = Asking {
            manifest: &manifest,
            stamp,
            is_other: false,
            is_held: true,
            cache: self.context.cache(directory),
            keys: self.asked().map(|file| self.key(&selection, file)).collect(),
            selection,
            shown: false,
            place: 0,
            ahead: BTreeMap::new(),
        };
        if manifest::stamp(directory).as_deref() != stamp {
            return Ok(None);
        }
        self.begin(&mut trace)?;
        if trace.is_other {
            return Ok(None);
        }
        if trace.ahead.is_empty() {
            self.look_ahead(&mut trace)?;
        }
        let mut results = Vec::new();
        for file in self.files {
            let mut outcome: Result<MetricResult> = self.ask(&mut trace, file)?;
            if let (Ok(result), [Source::Et]) = (&mut outcome, &profilers[..])
                && result.value.is_null()
            {
                result.reason = Some(ET_ALONE.to_owned());
            }
            if let (Ok(result), Some(wanted)) = (&mut outcome, wanted) {
                if !sources.contains(&wanted) {
                    without_source(result, wanted);
                } else if profilers.len() > 1
                    && self.mode == ProfileMode::Auto
                    && !result.value.is_null()
                {
                    result.warnings.push(format!(
                        "the trace is of {}; this is of {wanted} (see --profile-mode)",
                        joined(&profilers, " and ")
                    ));
                }
            }
            results.push(outcome);
        }
        let mut rows = Vec::new();
        for view in self.views {
            rows.push(self.ask(&mut trace, view)?);
        }
        let mut diagnosed = Vec::new();
        for file in self.diagnoses {
            let mut outcome: Result<Diagnosed> = self.ask(&mut trace, file)?;
            if let (Ok(one), Some(wanted)) = (&mut outcome, wanted)
                && !sources.contains(&wanted)
            {
                let reason = format!("the trace has no {wanted} source");
                *one = Diagnosed::lacking(&file.header, reason);
            }
            diagnosed.push(outcome);
        }
        // Where it cannot be held, tables may have been read of both.
        let is_replaced = || manifest::stamp(directory).as_deref() != stamp;
        if trace.is_other || !trace.is_held && is_replaced() {
            self.steps.back(self.asked().count());
            return Ok(None);
        }
        let cache = trace.cache;
        Ok(Some((Answers { results, rows, diagnosed, manifest }, cache)))
    }

    /// The files in the order in which they are asked.
    fn asked(&self) -> impl Iterator<Item = &'c SqlFile> {
        self.files.iter().chain(self.views).chain(self.diagnoses).copied()
    }

    /// The files whose answers are not kept, with their places.
    fn not_kept(&self, cache: &Cache, keys: &[String]) -> Vec<(usize, &'c SqlFile)> {
        self.asked().enumerate().filter(|(at, _)| cache.get(&keys[*at]).is_none()).collect()
    }

    /// Finds what is not kept of a trace: what it answered together with others, or the database
    /// with the trace in its tables.
    fn begin(&mut self, trace: &mut Asking<'_>) -> Result<()> {
        let new = self.not_kept(&trace.cache, &trace.keys);
        if new.is_empty() {
            return Ok(());
        }
        let directory = trace.selection.directory.clone();
        self.ask_together(&directory)?;
        if let Some(ahead) = self.together.remove(&directory)
            && ahead.stamp.as_deref() == trace.stamp
        {
            (trace.is_held, trace.ahead) = (ahead.is_held, ahead.answers);
            return Ok(());
        }
        // Of a large trace what is of each rank may be kept. Where it is not, that of all that is
        // asked is computed together.
        let is_large = !is_small(trace.selection.rows);
        let is_kept = is_large && !self.is_whole;
        if is_kept {
            self.bring_rows(trace.manifest)?;
        }
        let read: Vec<&SqlFile> = match is_large && !is_kept {
            true => self.asked().collect(),
            false => new.into_iter().map(|(_, file)| file).collect(),
        };
        self.fetch(trace.manifest, &Tables::of(&self.context.registry, &read, is_kept))?;
        // It is held before anything is computed: from here on nothing takes its place.
        let engine = self.shown(trace)?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Answers what is not kept of a small trace on every core.
    fn look_ahead(&mut self, trace: &mut Asking<'_>) -> Result<()> {
        let files = self.not_kept(&trace.cache, &trace.keys);
        let settings = self.context.settings();
        let threads = ahead::threads(&settings, trace.selection.rows, files.len());
        if threads < 2 {
            return Ok(());
        }
        let engine = self.shown(trace)?;
        let traces = [trace.manifest];
        let answers =
            ahead::answers(&engine, &traces, &files, self.params, (threads, &self.steps))?;
        if self.context.interrupt.asked() {
            return Err(interrupt::error());
        }
        // One that failed may have left a database that is of no more use.
        if answers.len() == files.len() {
            self.engine = Some(engine);
        } else {
            trace.shown = false;
        }
        for (place, each, took) in answers {
            trace.ahead.extend(each.into_iter().map(|one| (place, (one, took))));
        }
        Ok(())
    }

    /// Answers what is not kept of a small trace and of others behind it together: a question is
    /// planned once for all of them. Where one fails, they are asked one by one.
    fn ask_together(&mut self, directory: &Path) -> Result<()> {
        let Some(at) = self.directories.iter().position(|d| d == directory) else { return Ok(()) };
        if at < self.looked_at {
            return Ok(());
        }
        let (mut group, mut files, mut rows) = (Vec::new(), BTreeMap::new(), 0);
        self.looked_at = at;
        for directory in &self.directories[at..] {
            let member = self.member(directory);
            rows += member.as_ref().map_or(0, |(member, _)| member.selection.rows);
            if rows > ROWS_TOGETHER || group.len() == MOST_TOGETHER {
                break;
            }
            self.looked_at += 1;
            if let Some((member, new)) = member {
                group.push(member);
                files.extend(new);
            }
        }
        let read: Vec<&SqlFile> = files.values().copied().collect();
        // Whoever wrote a file of his own may have thought of one trace.
        let files: Vec<(usize, &SqlFile)> =
            files.into_iter().filter(|(_, file)| !file.of_user).collect();
        if group.len() < 2 || files.is_empty() {
            return Ok(());
        }
        let tables = Tables::of(&self.context.registry, &read, false);
        for member in &group {
            self.fetch(&member.manifest, &tables)?;
        }
        let shown = group.iter().map(|member| member.selection.clone()).collect();
        let engine = self.engine.take();
        let engine = self.show(engine, shown)?;
        let threads = ahead::threads(&self.context.settings(), rows, files.len());
        let traces: Vec<&Manifest> = group.iter().map(|member| &member.manifest).collect();
        let answers =
            ahead::answers(&engine, &traces, &files, self.params, (threads, &self.steps))?;
        if self.context.interrupt.asked() {
            return Err(interrupt::error());
        }
        let is_verbose = self.context.printer.verbose();
        if answers.len() < files.len() {
            if is_verbose {
                let text = format!("{} traces cannot be asked together", group.len());
                self.context.printer.note(&text);
            }
            self.steps.back(answers.len() * group.len());
            return Ok(());
        }
        if is_verbose {
            self.context.printer.note(&format!("{} traces are asked together", group.len()));
        }
        let mut together: Vec<Ahead> = Vec::new();
        for member in &group {
            let held = engine.held(&member.selection.directory);
            let is_other = manifest::stamp(&held) != member.stamp;
            together.push(Ahead {
                stamp: member.stamp.clone().filter(|_| !is_other),
                is_held: held != member.selection.directory,
                answers: BTreeMap::new(),
            });
        }
        for (place, each, took) in answers {
            let took = took / u32::try_from(group.len()).unwrap_or(u32::MAX);
            for (ahead, one) in together.iter_mut().zip(each) {
                ahead.answers.insert(place, (one, took));
            }
        }
        let directories = group.into_iter().map(|member| member.selection.directory);
        self.together.extend(directories.zip(together));
        self.engine = Some(engine);
        Ok(())
    }

    /// A trace that may be asked together with others, a small one of one source, and the files
    /// whose answers are not kept of it; None where it is another, or all are kept.
    fn member(&self, directory: &Path) -> Option<(Member, Vec<(usize, &'c SqlFile)>)> {
        let stamp = manifest::stamp(directory);
        let manifest = Manifest::read(directory).ok()?;
        let selection = selection(directory, &manifest, self.mode);
        let is_tiny = selection.rows < TINY_ROWS;
        if !is_tiny || selection.source.is_some() || manifest.kinds().len() > 1 {
            return None;
        }
        let keys: Vec<String> = self.asked().map(|file| self.key(&selection, file)).collect();
        let new = self.not_kept(&self.context.cache(directory), &keys);
        (!new.is_empty()).then_some((Member { manifest, stamp, selection }, new))
    }

    /// The database, with the trace in its tables.
    fn shown(&mut self, trace: &mut Asking<'_>) -> Result<Engine<'c>> {
        let engine = match self.engine.take() {
            Some(engine) if trace.shown => return Ok(engine),
            other => self.show(other, vec![trace.selection.clone()])?,
        };
        let directory = &trace.selection.directory;
        let held = engine.held(directory);
        trace.is_held &= held != *directory;
        trace.is_other |= manifest::stamp(&held).as_deref() != trace.stamp;
        trace.shown = true;
        Ok(engine)
    }

    /// The answer of the next file: that which is kept, or came before its turn, else that of the
    /// database with the trace.
    fn ask<T>(&mut self, trace: &mut Asking<'_>, file: &SqlFile) -> Result<Result<T>>
    where
        T: Answer + TryFrom<Answered>,
    {
        let place = trace.place;
        trace.place += 1;
        let of_kind = |answered: Answered| {
            T::try_from(answered)
                .unwrap_or_else(|_| unreachable!("a kind of file, a kind of answer"))
        };
        let key = std::mem::take(&mut trace.keys[place]);
        if let Some((answered, took)) = trace.ahead.remove(&place) {
            let answer = of_kind(answered);
            kept::put(&mut trace.cache, key, &answer);
            self.say(&file.header.name, &trace.manifest.trace, took);
            return Ok(Ok(answer));
        }
        self.steps.next(&trace.manifest.trace, &file.header.name);
        let began = Instant::now();
        if let Some(answer) = kept::get(&trace.cache, &key, trace.manifest, file) {
            return Ok(Ok(answer));
        }
        let mut engine = self.shown(trace)?;
        let mut outcome = ahead::answer(&engine, trace.manifest, file, self.params);
        if self.is_modest && outcome.as_ref().is_err_and(Error::is_of_memory) {
            // The limits of a database are locked.
            drop(engine);
            (self.is_modest, trace.shown) = (false, false);
            engine = self.shown(trace)?;
            outcome = ahead::answer(&engine, trace.manifest, file, self.params);
        }
        let outcome = outcome.map(of_kind);
        match &outcome {
            Ok(answer) => {
                self.engine = Some(engine);
                kept::put(&mut trace.cache, key, answer);
            }
            Err(_) if self.context.interrupt.asked() => return Err(interrupt::error()),
            Err(e) if e.code == AWAY && !self.is_whole => {
                self.steps.back(trace.place);
                return Err(e.clone());
            }
            // A database that failed once may be of no more use: the next question opens another.
            Err(_) => trace.shown = false,
        }
        self.say(&file.header.name, &trace.manifest.trace, began.elapsed());
        Ok(outcome)
    }

    /// What the answer of a file is kept under.
    fn key(&self, selection: &Selection, file: &SqlFile) -> String {
        let params = file.header.params.iter().filter_map(|p| self.params.get_key_value(&p.name));
        let params: Params = params.map(|(name, value)| (name.clone(), value.clone())).collect();
        let terms = json!({
            "kind": file.header.kind.word(), "params": params, "source": selection.source,
        });
        key::key(&self.context.registry, file, &terms)
    }

    /// A database with some traces in its tables.
    fn show(&self, engine: Option<Engine<'c>>, traces: Vec<Selection>) -> Result<Engine<'c>> {
        let engine = match engine {
            Some(engine) => engine,
            None => {
                let registry = &self.context.registry;
                let rows = |directory: &PathBuf| Some(Manifest::parse(directory).ok()?.row_count());
                let most = self.directories.iter().map(|d| rows(d).unwrap_or(u64::MAX)).max();
                let settings = Settings { modest: self.is_modest, ..self.context.settings() };
                let settings = settings.for_rows(most.unwrap_or(0));
                let files: Vec<&SqlFile> = self.asked().collect();
                let engine = Engine::open(self.directories, registry, &settings)?.keeping(&files);
                // The lock first: views of a user's folder are bound behind it too.
                engine.lock_down()?;
                engine
            }
        };
        engine.show(traces)?;
        Ok(engine)
    }
}

/// A trace while it is asked.
struct Asking<'m> {
    manifest: &'m Manifest,
    /// The stamp of the manifest.
    stamp: Option<&'m str>,
    /// Whether a database showed another trace, which took its place.
    is_other: bool,
    /// Whether each database held it.
    is_held: bool,
    selection: Selection,
    /// Whether the database has it in its tables.
    shown: bool,
    cache: Cache,
    /// What the answers are kept under, in the order of the questions.
    keys: Vec<String>,
    /// The place of the next question.
    place: usize,
    /// Answers that came before their turn, by place.
    ahead: BTreeMap<usize, (Answered, Duration)>,
}

/// A trace that is asked together with others.
struct Member {
    manifest: Manifest,
    /// The stamp of the manifest.
    stamp: Option<String>,
    selection: Selection,
}

/// What a trace that was asked together with others answered, before its turn.
struct Ahead {
    /// The stamp of its manifest; None where another trace took its place meanwhile.
    stamp: Option<String>,
    /// Whether the database held it.
    is_held: bool,
    /// Answers by place, and the time that each took.
    answers: BTreeMap<usize, (Answered, Duration)>,
}
