//! What was said of a trace when it was ingested, and which traces the files of a job were before:
//! a later ingest of the same files goes by it, unless it says something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Result;
use crate::ingest::card::Given;
use crate::ingest::card::fields::Card;
use crate::ingest::find::walk::Candidate;
use crate::ingest::find::{Root, roots};
use crate::ingest::options::{Kinds, Options, Outcome};
use crate::input::place::{absolute, exists, is_remote};
use crate::store::manifest::{Asked, Kept, KeptFile, Manifest, SourceFile, Stored};
use crate::store::names::names_of;
use crate::store::{Found, Store};

impl Kept {
    /// The words of the options about the trace of a job.
    pub(crate) fn of(root: &Root, paths: &[PathBuf], options: &Options, given: &Given) -> Self {
        let stored = |path: &PathBuf| Stored(absolute(path));
        let file = |path: &Path, value: &Value| KeptFile {
            path: Stored(absolute(path)),
            value: value.clone(),
        };
        Self {
            paths: holding(root, paths).into_iter().map(Stored).collect(),
            source: options.only().map(|source| source.to_string()),
            ranks: options.ranks.iter().map(|(rank, path)| (*rank, stored(path))).collect(),
            memory: options.memory.iter().map(stored).collect(),
            card: given.card.as_ref().map(|card| file(&card.path, &card.value)),
            config: given.config.as_ref().map(|(path, value)| file(path, value)),
        }
    }

    /// Options with what was said before where they say nothing. What gives way is said.
    fn over(&self, asked: &Asked, now: &Options, say: &mut impl FnMut(String)) -> Options {
        let mut out = now.clone();
        let mut replaced = |flag: &str, before: String, after: String| {
            if before != after {
                say(format!("{flag} {after} replaces {before}"));
            }
        };
        match (&now.source, &self.source) {
            (None, before) => out.source.clone_from(before),
            (Some(after), before) => {
                replaced("--source", before.clone().unwrap_or("auto".to_owned()), after.clone());
            }
        }
        let before: Vec<(i64, PathBuf)> =
            self.ranks.iter().map(|(rank, path)| (*rank, path.0.clone())).collect();
        if now.ranks.is_empty() {
            out.ranks = before;
        } else if !before.is_empty() {
            let list = |ranks: &[(i64, PathBuf)]| {
                let one = |(r, p): &(i64, PathBuf)| format!("{r}={}", absolute(p).display());
                ranks.iter().map(one).collect::<Vec<_>>().join(" --rank ")
            };
            replaced("--rank", list(&before), list(&now.ranks));
        }
        let before: Vec<PathBuf> = self.memory.iter().map(|path| path.0.clone()).collect();
        if now.memory.is_empty() {
            out.memory = before;
        } else if !before.is_empty() {
            let list = |paths: &[PathBuf]| {
                let one = |p: &PathBuf| absolute(p).display().to_string();
                paths.iter().map(one).collect::<Vec<_>>().join(" --memory ")
            };
            replaced("--memory", list(&before), list(&now.memory));
        }
        for (flag, kept, given) in
            [("--card", &self.card, &now.card), ("--config", &self.config, &now.config)]
        {
            if let (Some(kept), Some(given)) = (kept, given) {
                let text = |path: &Path| path.display().to_string();
                replaced(flag, text(&kept.path.0), text(&absolute(given)));
            }
        }
        match (&now.asked.step_range, &asked.step_range) {
            (None, before) => out.asked.step_range.clone_from(before),
            (Some(after), Some(before)) => {
                replaced("--step-range", format!("'{before}'"), format!("'{after}'"));
            }
            (Some(_), None) => {}
        }
        out.asked.keep_partial |= asked.keep_partial;
        out
    }

    /// The card and the configuration that are given now, else those given before; of one that
    /// cannot be read any more, what it said then.
    fn given(&self, now: &Given, say: &mut impl FnMut(String)) -> Given {
        let mut out = now.clone();
        let mut gone = |what: &str, file: &KeptFile| {
            let path = file.path.0.display();
            say(format!("the {what} {path} cannot be read any more: what it said before is used"));
        };
        if let (None, Some(file)) = (&now.card, &self.card) {
            let read = Given::read(Some(&file.path.0), None).ok().and_then(|given| given.card);
            out.card = Some(read.unwrap_or_else(|| {
                gone("card", file);
                Card { path: file.path.0.clone(), value: file.value.clone(), config: None }
            }));
        }
        if let (None, Some(file)) = (&now.config, &self.config) {
            let read = Given::read(None, Some(&file.path.0)).ok().and_then(|given| given.config);
            out.config = Some(read.unwrap_or_else(|| {
                gone("configuration", file);
                (file.path.0.clone(), file.value.clone())
            }));
        }
        out
    }
}

/// The paths that hold files of a root, none of them below another.
pub(crate) fn holding(root: &Root, paths: &[PathBuf]) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = root.candidates.iter().map(|c| c.file.clone()).collect();
    let holds = |path: &PathBuf| files.iter().any(|file| file.starts_with(path));
    outermost(paths.iter().map(|path| absolute(path)).filter(holds))
}

/// Paths without those that lie below others of them.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !out.iter().any(|other| path.starts_with(other)) {
            out.retain(|other| !other.starts_with(&path));
            out.push(path);
        }
    }
    out
}

/// A folder that has another path now.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    from: PathBuf,
    to: PathBuf,
}

impl Move {
    /// The folder that must have moved for one path to become another: both end alike.
    fn between(before: &Path, now: &Path) -> Self {
        let (mut from, mut to) = (before, now);
        while let (Some(a), Some(b)) = (from.file_name(), to.file_name())
            && a == b
            && let (Some(above), Some(beyond)) = (from.parent(), to.parent())
        {
            (from, to) = (above, beyond);
        }
        Self { from: from.to_owned(), to: to.to_owned() }
    }

    /// The path that a path has now.
    pub(crate) fn of(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.from).map_or_else(|_| path.to_owned(), |rest| self.to.join(rest))
    }

    /// Writes where the files of a trace are now into its manifest.
    pub(crate) fn apply(&self, manifest: &mut Manifest) {
        let paths = [&mut manifest.root]
            .into_iter()
            .chain(manifest.label.as_mut().map(|label| &mut label.0))
            .chain(manifest.kept.iter_mut().flat_map(Kept::files).map(|path| &mut path.0))
            .chain(manifest.sources.iter_mut().map(|s| &mut s.absolute))
            .chain(manifest.set_aside.iter_mut().map(|s| &mut s.absolute))
            .chain(manifest.cards.iter_mut().map(|s| &mut s.absolute));
        for path in paths {
            *path = self.of(path);
        }
    }
}

/// A trace that was made from the files of a job before.
pub(crate) struct Before {
    pub(crate) directory: PathBuf,
    /// Manifest of the trace, with the paths of now.
    pub(crate) manifest: Manifest,
    /// The damage of its tables.
    pub(crate) damage: Option<String>,
    /// The move of its files, where they lay elsewhere.
    pub(crate) moved: Option<Move>,
}

/// A job to ingest: its files, and what is said of it, now or before.
pub(crate) struct Job {
    pub(crate) root: Root,
    pub(crate) options: Options,
    pub(crate) given: Given,
    pub(crate) kept: Kept,
    /// Traces that its files were before.
    pub(crate) before: Vec<Before>,
    /// Files that were given before, and are gone.
    pub(crate) gone: Vec<PathBuf>,
}

/// All trace directories.
pub(crate) struct All {
    pub(crate) traces: Vec<Found>,
    /// Names of those whose manifests cannot be read.
    lost: BTreeSet<String>,
}

impl All {
    pub(crate) fn of(store: &Store) -> Self {
        let traces = store.found();
        let mut lost: BTreeSet<String> = store.traces().into_iter().collect();
        traces.iter().for_each(|found| _ = lost.remove(&found.manifest.trace));
        Self { traces, lost }
    }

    fn is_lost(&self, name: &str) -> bool {
        self.lost.contains(name)
    }
}

/// The jobs below the paths, each with what was said of it before.
///
/// # Errors
/// As [`roots`].
pub(crate) fn jobs(
    paths: &[PathBuf],
    options: &Options,
    given: &Given,
    found: &All,
    outcome: &mut Outcome,
) -> Result<Vec<Job>> {
    let kinds = Kinds::known(found.traces.iter().map(|found| &found.manifest));
    let options = &Options { kinds, ..options.clone() };
    let mut again = Again::default();
    let mut out = Vec::new();
    for root in roots(paths, options, outcome)? {
        let mut before = traces_before(&root, found, options, outcome);
        let Some(first) = before.first() else {
            let kept = Kept::of(&root, paths, options, given);
            let (options, given) = (options.clone(), given.clone());
            out.push(Job { root, options, given, kept, before, gone: Vec::new() });
            continue;
        };
        let mut kept = first.manifest.kept.clone().unwrap_or_default();
        let name = first.manifest.trace.clone();
        let mut say = |text: String| outcome.notes.push(format!("{name}: {text}"));
        let is_there = |path: &Stored| exists(&path.0);
        kept.paths.retain(is_there);
        let by_hand = kept.memory.iter().chain(kept.ranks.iter().map(|(_, path)| path));
        let mut gone: Vec<PathBuf> = Vec::new();
        for path in by_hand.filter(|path| !is_there(path)) {
            say(format!("{} was given before, and is gone", path.0.display()));
            gone.push(path.0.clone());
        }
        kept.memory.retain(is_there);
        kept.ranks.retain(|(_, path)| is_there(path));
        let files = kept.card.iter().chain(&kept.config).map(|file| &file.path);
        gone.extend(files.filter(|path| !is_there(path)).map(|path| path.0.clone()));
        let merged = kept.over(&first.manifest.asked, options, &mut say);
        let given = kept.given(given, &mut say);
        let asked = holding(&root, paths);
        let of_before = kept.paths.iter().map(|path| path.0.clone());
        let all = outermost(of_before.chain(asked.iter().cloned()));
        let same = all == asked
            && merged.only() == options.only()
            && merged.ranks == options.ranks
            && merged.memory == options.memory;
        let root = if same {
            root
        } else if is_alone(&root, &first.manifest) {
            root.reaching(&all)
        } else {
            let whole = again.root(&all, &merged, root)?;
            if first.moved.is_none() {
                // What is to be said of them was said above.
                before = traces_before(&whole, found, options, &mut Outcome::default());
            }
            whole
        };
        let kept = Kept::of(&root, &all, &merged, &given);
        out.push(Job { root, options: merged, given, kept, before, gone });
    }
    Ok(out)
}

/// Whether the files that are named are one of the traces that lie side by side in a folder: then
/// the others have nothing to do with it.
fn is_alone(root: &Root, manifest: &Manifest) -> bool {
    let files: BTreeSet<PathBuf> = root.candidates.iter().map(|c| c.absolute.clone()).collect();
    root.candidates.iter().all(|c| c.direct)
        && manifest.label() != root.path
        && manifest.sources.iter().all(|s| files.contains(&s.absolute))
}

/// Jobs below paths that were looked through once more, by paths and options.
#[derive(Default)]
struct Again {
    found: Vec<(Vec<PathBuf>, Options, BTreeMap<PathBuf, Root>)>,
}

impl Again {
    /// The job of a root as these paths and options have it.
    fn root(&mut self, paths: &[PathBuf], options: &Options, root: Root) -> Result<Root> {
        let is_it = |(of, other, _): &(Vec<PathBuf>, Options, _)| {
            of == paths
                && other.only() == options.only()
                && other.ranks == options.ranks
                && other.memory == options.memory
        };
        let at = match self.found.iter().position(is_it) {
            Some(at) => at,
            None => {
                // What is odd below the paths was said before.
                let found = roots(paths, options, &mut Outcome::default())?;
                let found = found.into_iter().map(|root| (root.path.clone(), root)).collect();
                self.found.push((paths.to_vec(), options.clone(), found));
                self.found.len() - 1
            }
        };
        Ok(self.found[at].2.remove(&root.path).unwrap_or(root))
    }
}

/// The traces that the files of a root were before.
fn traces_before(
    root: &Root,
    found: &All,
    options: &Options,
    outcome: &mut Outcome,
) -> Vec<Before> {
    let files: BTreeSet<PathBuf> = root.candidates.iter().map(|c| c.absolute.clone()).collect();
    let is_direct = root.candidates.iter().all(|c| c.direct);
    let is_part = |m: &Manifest| {
        files.iter().all(|f| m.sources.iter().chain(&m.set_aside).any(|s| s.absolute == *f))
    };
    let of_files = |m: &Manifest| {
        let is_source = |path: &Stored| m.sources.iter().any(|s| s.absolute == path.0);
        m.kept.as_ref().is_some_and(|kept| kept.paths.iter().all(is_source))
    };
    let is_named = |m: &Manifest, name: &String| {
        m.trace == *name || m.wanted.as_ref() == Some(name) || m.aliases.contains(name)
    };
    let mut here: Vec<&Found> = found
        .traces
        .iter()
        .filter(|f| f.manifest.root == root.path)
        .filter(|f| !(is_direct || of_files(&f.manifest)) || is_part(&f.manifest))
        .filter(|f| options.name.as_ref().is_none_or(|name| is_named(&f.manifest, name)))
        .collect();
    if options.name.is_none() && here.iter().any(|f| !f.manifest.named) {
        here.retain(|f| !f.manifest.named);
    } else if options.name.is_none() && names_of(&root.path).iter().any(|n| found.is_lost(n)) {
        // Its own trace has lost its manifest: that is mended, whatever other names it has.
        return Vec::new();
    }
    if is_direct {
        // A trace of these files alone, where there is one.
        let least = here.iter().map(|f| f.manifest.sources.len()).min();
        here.retain(|f| Some(f.manifest.sources.len()) == least);
        here.truncate(1);
    }
    if let [first, _, ..] = here[..]
        && first.manifest.named
    {
        let names: Vec<&str> = here.iter().map(|f| f.manifest.trace.as_str()).collect();
        let (path, used) = (root.path.display(), names[0]);
        outcome.notes.push(format!(
            "{path} was ingested under several names ({}); this is `{used}`",
            names.join(", ")
        ));
        here.truncate(1);
    }
    if let [one] = here[..]
        && is_direct
        && one.manifest.sources.iter().any(|s| !files.contains(&s.absolute))
    {
        let shown: Vec<String> = root.candidates.iter().map(|c| c.place.display()).collect();
        outcome.notes.push(format!(
            "{} is part of the trace `{}`, which was ingested whole",
            shown.join(", "),
            one.manifest.trace
        ));
    }
    if here.is_empty() {
        let moved = found
            .traces
            .iter()
            .filter(|f| options.name.as_ref().is_none_or(|name| is_named(&f.manifest, name)));
        return moved.filter_map(|f| moved_here(root, f, outcome)).take(1).collect();
    }
    here.into_iter()
        .map(|f| Before {
            directory: f.directory.clone(),
            manifest: f.manifest.clone(),
            damage: f.damage.clone(),
            moved: None,
        })
        .collect()
}

/// A trace whose files are gone where they were, and are these, byte for byte.
fn moved_here(root: &Root, found: &Found, outcome: &mut Outcome) -> Option<Before> {
    // Objects count as there: each would be a question to some store, and a hash of all its bytes.
    let is_there = |s: &SourceFile| {
        is_remote(&s.absolute)
            || s.absolute.exists()
            || s.absolute.ancestors().any(|path| path.is_file())
    };
    let first = found.manifest.sources.first()?;
    if is_there(first) || found.manifest.sources.iter().any(is_there) {
        return None;
    }
    let moved = Move::between(&found.manifest.root, &root.path);
    let mut pairs = Vec::new();
    for source in &found.manifest.sources {
        let path = moved.of(&source.absolute);
        let candidate = root.candidates.iter().find(|c| c.absolute == path)?;
        let now = candidate.source(0).filter(|now| now.bytes == source.bytes)?;
        pairs.push((now, candidate, source));
    }
    // The bytes last: they may have to be read.
    let same = |(now, candidate, source): &(SourceFile, &Candidate, &SourceFile)| {
        let now = SourceFile { rank_flag: source.rank_flag, ..now.clone() };
        candidate.is_same(&now, source)
    };
    if !pairs.iter().all(same) {
        return None;
    }
    let mut manifest = found.manifest.clone();
    moved.apply(&mut manifest);
    outcome.notes.push(format!(
        "{}: its folder moved from {} to {}",
        manifest.trace,
        found.manifest.root.display(),
        root.path.display()
    ));
    Some(Before {
        directory: found.directory.clone(),
        manifest,
        damage: found.damage.clone(),
        moved: Some(moved),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::source::Source;
    use crate::store::manifest::Asked;

    #[test]
    fn what_both_paths_end_with_did_not_move() {
        let moved = Move::between(Path::new("/a/jobA/p/it_1"), Path::new("/b/jobX/p/it_1"));
        assert_eq!(moved.of(Path::new("/a/jobA/memory/x")), Path::new("/b/jobX/memory/x"));
        assert_eq!(moved.of(Path::new("/a/jobB/x")), Path::new("/a/jobB/x"));
        let same = Move::between(Path::new("/a/b"), Path::new("/c/a/b"));
        assert_eq!(same.of(Path::new("/a/b/f")), Path::new("/c/a/b/f"));
    }

    #[test]
    fn new_options_replace_those_of_before_and_say_so() {
        let kept = Kept {
            source: Some("kineto".to_owned()),
            memory: vec![Stored("/m/old".into())],
            ..Kept::default()
        };
        let asked = Asked { keep_partial: true, step_range: Some("a".to_owned()) };
        let mut said = Vec::new();
        let out = kept.over(&asked, &Options::default(), &mut |text| said.push(text));
        assert_eq!((out.only(), out.memory.len()), (Some(Source::Kineto), 1));
        assert_eq!((&out.asked, said.len()), (&asked, 0));
        let now = Options {
            source: Some("auto".to_owned()),
            memory: vec!["/m/new".into()],
            asked: Asked { step_range: Some("b".to_owned()), ..Asked::default() },
            ..Options::default()
        };
        let out = kept.over(&asked, &now, &mut |text| said.push(text));
        assert_eq!((out.only(), &out.memory), (None, &vec![PathBuf::from("/m/new")]));
        assert_eq!(out.asked.step_range.as_deref(), Some("b"));
        assert_eq!(
            said,
            [
                "--source auto replaces kineto",
                "--memory /m/new replaces /m/old",
                "--step-range 'b' replaces 'a'"
            ]
        );
    }
}
