//! The data directory: trace directories that appear whole, in one step.
//!
//! Work happens in `.tmp-<n>/` beside the traces, under a file lock that its process holds; what a
//! killed process left is removed by the next one that gets the lock. A finished directory is synced
//! to the disk, and then takes its place by an atomic exchange, which is synced too: what was said to
//! be there is there after a loss of power.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Finish;
use super::manifest::{self, Manifest};
use super::names::numbered;
use super::record::{self, Record};
use super::sync;
use crate::error::{Error, Result, io};
use crate::schema::TABLES;

/// Characters of a trace name.
pub fn allowed(c: char) -> bool {
    c.is_alphanumeric() || "._-+[](),@".contains(c)
}

/// Refuses names that could not be a folder everywhere.
///
/// # Errors
/// `usage` with the offending character.
pub fn valid_name(name: &str) -> Result<()> {
    let bad = name.chars().find(|c| !allowed(*c));
    if name.is_empty() || name.starts_with('.') || name.len() > 200 || bad.is_some() {
        let why = bad.map_or_else(
            || "is empty, too long, or starts with a dot".to_owned(),
            |c| format!("holds {c:?}"),
        );
        return Err(Error::new(
            "usage",
            format!("a trace cannot be named {name:?}: the name {why}"),
        )
        .hint("use letters, digits and . _ - + [ ] ( ) , @"));
    }
    Ok(())
}

/// A data directory.
#[derive(Debug, Clone)]
pub struct Store {
    /// Its path.
    pub path: PathBuf,
    /// Whether what is put in its place must survive a loss of power.
    pub durable: bool,
}

/// A trace directory with a manifest that can be read.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it is.
    pub directory: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// What it lacks of the files that the manifest names.
    pub damage: Option<String>,
}

/// The name that a trace got.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    /// The name.
    pub(super) name: String,
    /// Why it is not the one that was wished for.
    pub(super) finding: Option<String>,
    /// A trace that has a longer name now: before and after.
    pub(super) renamed: Option<(String, String)>,
}

/// The name that a trace is to have.
pub(super) struct Wish<'a> {
    /// Names from the path, the shortest first; one where the user named it.
    pub(super) names: &'a [String],
    /// Whether the user named it.
    pub(super) is_named: bool,
    /// Folder of the job.
    pub(super) root: &'a Path,
    /// The path that the name comes from.
    pub(super) label: &'a Path,
    /// Names that this ingest gave to other traces.
    pub(super) given: &'a BTreeSet<String>,
    /// Names that traces had before.
    pub(super) aliases: &'a BTreeSet<String>,
}

/// A folder for work in progress, removed when dropped.
pub struct Workspace {
    /// Its path.
    pub path: PathBuf,
    _lock: File,
    /// Files that an ingest had read when it was killed, with the folder of each.
    pub leftovers: Vec<(PathBuf, Record)>,
    /// What killed processes left.
    _abandoned: Vec<Abandoned>,
    /// Whether files that were read whole stay for the next ingest.
    pub keep: bool,
}

/// How long files that a killed ingest had read wait for the ingest that goes on with them.
const LEFTOVERS_STAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

impl Workspace {
    /// Takes the folder of a leftover over; its new path.
    ///
    /// # Errors
    /// `io` when it cannot be moved.
    pub fn adopt(&self, folder: &Path, record: &Record) -> Result<PathBuf> {
        let to = self.path.join(spool_name(record.source.source_id, record.facts.share));
        std::fs::rename(folder, &to).map_err(|e| io(folder, &e))?;
        Ok(to)
    }

    /// Removes the leftovers of these files that were not taken over: what they held is not what
    /// their ingest needs.
    pub fn settle(&self, files: &BTreeSet<PathBuf>) {
        remove_spools(&self.leftovers, files);
    }
}

/// What a killed process left, under its lock. When dropped, files that were read whole stay for the
/// ingest that goes on with them, and the rest goes.
struct Abandoned {
    path: PathBuf,
    _lock: File,
    /// Whether the machine ran on since: after a loss of power files may lack what was written.
    is_whole: bool,
}

impl Abandoned {
    fn spools(&self) -> Vec<(PathBuf, Record)> {
        if self.is_whole { spools(&self.path) } else { Vec::new() }
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let waits = self.spools().iter().any(|(folder, _)| {
            let age = std::fs::metadata(folder)
                .and_then(|m| m.modified())
                .ok()
                .and_then(|t| t.elapsed().ok());
            age.is_some_and(|age| age < LEFTOVERS_STAY)
        });
        match waits {
            true => keep_spools(&self.path),
            false => _ = std::fs::remove_dir_all(&self.path),
        }
    }
}

/// Name of the folder of a share of a file that was read.
pub fn spool_name(source_id: i64, share: usize) -> String {
    format!("spool-{source_id}-{share}")
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now, the next ingest removes.
        match self.keep && !spools(&self.path).is_empty() {
            true => keep_spools(&self.path),
            false => _ = std::fs::remove_dir_all(&self.path),
        }
    }
}

const LOCK: &str = "lock";

/// What tells one start of the machine from another; empty where the system does not say it.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Takes the lock of a folder for work in progress, and makes it where it is missing. None while a
/// process holds it, and where the folder goes away. `surely` is for folders of others: where the
/// file system has no locks, nothing says that their process is gone.
pub(super) fn lock(folder: &Path, surely: bool) -> std::io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let gone = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Ok(None),
        _ => Err(e),
    };
    let file = match File::options().create(true).truncate(false).write(true).open(&path) {
        Ok(file) => file,
        Err(e) => return gone(e),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(_)) if !surely => {}
        Err(_) => return Ok(None),
    }
    // The process that held it may have removed the folder before it let go.
    match (file.metadata()?, std::fs::metadata(&path)) {
        (ours, Ok(there)) if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) => {
            Ok(Some(file))
        }
        (_, Ok(_)) => Ok(None),
        (_, Err(e)) => gone(e),
    }
}

impl Store {
    /// The data directory at `path`; it need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durable: true }
    }

    /// The directory of a trace.
    pub fn directory(&self, trace: &str) -> PathBuf {
        self.path.join(format!("trace={trace}"))
    }

    /// Names of the traces, sorted.
    pub fn traces(&self) -> Vec<String> {
        let mut out: Vec<String> = std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let trace = name.strip_prefix("trace=")?.to_owned();
                entry.path().join(manifest::FILE).is_file().then_some(trace)
            })
            .collect();
        out.sort();
        out
    }

    /// All trace directories whose manifests can be read, sorted by name.
    pub fn found(&self) -> Vec<Found> {
        let of = |trace: String| {
            let directory = self.directory(&trace);
            let manifest = Manifest::parse(&directory).ok()?;
            let damage = manifest.damage(&directory);
            Some(Found { directory, manifest, damage })
        };
        self.traces().into_iter().filter_map(of).collect()
    }

    /// Directories and manifests of all traces; damaged ones are left out.
    pub fn manifests(&self) -> Vec<(PathBuf, Manifest)> {
        let whole = self.found().into_iter().filter(|found| found.damage.is_none());
        whole.map(|found| (found.directory, found.manifest)).collect()
    }

    /// A folder for work in progress. What killed processes left is offered to the caller, and
    /// removed with the folder unless it waits for another ingest.
    ///
    /// # Errors
    /// `io` when the data directory cannot be written.
    pub fn workspace(&self) -> Result<Workspace> {
        if self.path.is_file() {
            return Err(Error::new("io", "the data directory is a file")
                .at(self.path.display().to_string())
                .hint("give a folder with --data DIR"));
        }
        std::fs::create_dir_all(&self.path).map_err(|e| io(&self.path, &e))?;
        if absolute(&self.path).to_str().is_none() {
            // DuckDB takes paths as UTF-8.
            return Err(Error::new("io", "the path of the data directory is no UTF-8")
                .at(self.path.display().to_string())
                .hint("give another folder with --data DIR"));
        }
        let abandoned = self.abandoned();
        let leftovers = abandoned.iter().flat_map(Abandoned::spools).collect();
        for n in 0..u32::MAX {
            let path = self.path.join(format!(".tmp-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(io(&path, &e)),
                Ok(()) => {}
            }
            let lock = match lock(&path, false) {
                Ok(Some(mut lock)) => {
                    lock.write_all(boot().as_bytes()).map_err(|e| io(&path, &e))?;
                    lock
                }
                // Another process took the new folder for an abandoned one.
                Ok(None) => continue,
                Err(e) => {
                    let _ = std::fs::remove_dir(&path);
                    return Err(io(&path, &e));
                }
            };
            return Ok(Workspace {
                path: absolute(&path),
                _lock: lock,
                leftovers,
                _abandoned: abandoned,
                keep: false,
            });
        }
        Err(Error::new("data-dir-locked", "no folder for work in progress could be made")
            .at(self.path.display().to_string()))
    }

    /// Folders for work in progress whose processes are gone.
    fn abandoned(&self) -> Vec<Abandoned> {
        let folders = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        folders
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(".tmp-"))
            .filter_map(|entry| {
                let path = entry.path();
                let _lock = lock(&path, true).ok()??;
                let of = std::fs::read_to_string(path.join(LOCK)).unwrap_or_default();
                Some(Abandoned { _lock, path, is_whole: of == boot() })
            })
            .collect()
    }

    /// Removes what killed processes left, as far as it is of these files or of none.
    pub fn tidy(&self, files: &BTreeSet<PathBuf>) {
        for abandoned in self.abandoned() {
            remove_spools(&abandoned.spools(), files);
        }
    }

    /// The turn to put directories in their places, held until it is dropped: one process at a time
    /// looks at what is there and puts its own there. None where there are no locks.
    pub fn turn(&self) -> Option<File> {
        let directory = File::open(&self.path).ok()?;
        directory.lock().ok()?;
        Some(directory)
    }

    /// The name for a trace, in the turn of this process: the shortest one that no other path has. Where
    /// one has it, and its name comes from its path too, both get longer ones, so that names do not depend
    /// on which was first.
    ///
    /// # Errors
    /// `io` when the other trace cannot be renamed.
    pub(super) fn claim(&self, wish: &Wish<'_>) -> Result<Claimed> {
        let shortest = wish.names.first().cloned().unwrap_or_default();
        let other = match self.holder(wish, &shortest) {
            Holder::None => {
                return Ok(Claimed { name: shortest, ..Claimed::default() });
            }
            Holder::Other(other) => Some(other),
            Holder::Unknown => None,
        };
        let is_free = |name: &str| matches!(self.holder(wish, name), Holder::None);
        let theirs = match &other {
            Some(other) if !other.named => super::names::names(other.label()),
            _ => Vec::new(),
        };
        let longer = wish.names[1..].iter().find(|name| !theirs.contains(name) && is_free(name));
        let name = longer.cloned().unwrap_or_else(|| numbered(&shortest, |name| !is_free(name)));
        let mut said = format!("the name `{shortest}` was taken; this trace is `{name}`");
        let mut renamed = None;
        if let Some(other) = other {
            said = format!(
                "the name `{shortest}` was taken by the trace of {}; this one is `{name}`",
                other.label().display()
            );
            let free = |to: &&String| !wish.names.contains(to) && is_free(to) && **to != name;
            let to = theirs.iter().find(free);
            if let (Some(to), true) = (to, longer.is_some() && !wish.is_named) {
                self.rename(&other.trace, to, !wish.given.contains(&other.trace), false)?;
                said.push_str(&format!(", and that one `{to}` now"));
                renamed = Some((other.trace.clone(), to.clone()));
            }
        }
        Ok(Claimed { name, finding: Some(said), renamed })
    }

    /// Who has a name.
    fn holder(&self, wish: &Wish<'_>, name: &str) -> Holder {
        let directory = self.directory(name);
        if !directory.exists() {
            return if wish.aliases.contains(name) { Holder::Unknown } else { Holder::None };
        }
        match Manifest::parse(&directory) {
            // What is there is of no use to anybody.
            Err(_) => Holder::None,
            Ok(m) if wish.given.contains(name) => Holder::Other(Box::new(m)),
            Ok(m) if m.root == wish.root && m.is_labelled(wish.label) => Holder::None,
            Ok(m) => Holder::Other(Box::new(m)),
        }
    }

    /// The name that a trace has now, if another process renamed it.
    pub(super) fn current(&self, name: &str, root: &Path) -> String {
        let is_it = |m: &Manifest| m.root == root && m.aliases.iter().any(|alias| alias == name);
        if self.directory(name).exists() {
            return name.to_owned();
        }
        let found = self.found().into_iter().find(|found| is_it(&found.manifest));
        found.map_or_else(|| name.to_owned(), |found| found.manifest.trace)
    }

    /// Gives a trace another name, in one step; the old one still finds it where `keep` says so.
    ///
    /// # Errors
    /// `trace-unknown`, `name-clash` where the new name is taken, `io`.
    pub fn rename(&self, from: &str, to: &str, keep: bool, by_user: bool) -> Result<()> {
        let (directory, target) = (self.directory(from), self.directory(to));
        let mut manifest = Manifest::parse(&directory)?;
        manifest.aliases.retain(|alias| alias != to);
        if keep {
            manifest.aliases.push(from.to_owned());
        }
        to.clone_into(&mut manifest.trace);
        if by_user {
            manifest.named = true;
            manifest.wanted = None;
        }
        let cwd = rustix::fs::CWD;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let taken = || {
            Error::new("name-clash", format!("there is a trace `{to}` already"))
                .at(target.display().to_string())
                .hint("give it another name, or remove the one that has it: ccl-sql remove")
        };
        if target.exists() {
            return Err(taken());
        }
        // The manifest first: the name that counts is that of the directory.
        manifest.replace(&directory)?;
        match rustix::fs::renameat_with(cwd, &directory, cwd, &target, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(taken()),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                std::fs::rename(&directory, &target).map_err(|e| io(&target, &e))?;
            }
            Err(e) => return Err(io(&target, &e.into())),
        }
        self.synced(&[&self.path])
    }

    /// Removes a trace, in one step; what still reads its files goes on as far as it has them open.
    ///
    /// # Errors
    /// `io`.
    pub fn remove(&self, name: &str) -> Result<()> {
        let work = self.workspace()?;
        let directory = self.directory(name);
        let gone = work.path.join(format!("trace={name}"));
        std::fs::rename(&directory, &gone).map_err(|e| io(&directory, &e))?;
        self.synced(&[&self.path])
    }

    /// Puts a finished directory in the place of its name, atomically, and so that a loss of power
    /// leaves it or the one before.
    ///
    /// # Errors
    /// `io`; then what was there before is still there.
    pub fn publish(&self, directory: &Path, name: &str) -> Result<()> {
        self.settle(directory)?;
        self.exchange(directory, name)?;
        // The folder of the work has lost an entry, or has the directory of before.
        let work = directory.parent().unwrap_or(directory);
        self.synced(&[&self.path, work])?;
        if let (true, Some(above)) = (self.durable, absolute(&self.path).parent()) {
            // The data directory may be new. A folder that may not be opened is nobody's loss here.
            let _ = sync::folder(above);
        }
        Ok(())
    }

    /// Has what is in a directory on the disk. What is there already takes no time.
    ///
    /// # Errors
    /// `io` when the disk does not take it.
    pub fn settle(&self, directory: &Path) -> Result<()> {
        if self.durable { sync::tree(directory) } else { Ok(()) }
    }

    /// Has the entries of folders on the disk.
    fn synced(&self, folders: &[&Path]) -> Result<()> {
        match self.durable {
            true => folders.iter().try_for_each(|folder| sync::folder(folder)),
            false => Ok(()),
        }
    }

    fn exchange(&self, directory: &Path, name: &str) -> Result<()> {
        let target = self.directory(name);
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        if target.exists() {
            match rustix::fs::renameat_with(cwd, directory, cwd, &target, flags) {
                Ok(()) => return Ok(()), // the old one now lies in the workspace, and goes with it
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    // No exchange on this file system: two renames, the old one aside first.
                    let aside = directory.with_extension("old");
                    std::fs::rename(&target, &aside).map_err(|e| io(&target, &e))?;
                    return std::fs::rename(directory, &target).map_err(|e| {
                        // As before, if that can be had.
                        let _ = std::fs::rename(&aside, &target);
                        io(&target, &e)
                    });
                }
                Err(e) => return Err(io(&target, &e.into())),
            }
        }
        std::fs::rename(directory, &target).map_err(|e| io(&target, &e))
    }

    /// Makes the derived tables of a trace again when their SQL has changed since.
    ///
    /// # Errors
    /// `sql` or `io`; then the old ones are still there.
    pub fn refresh(
        &self,
        directory: &Path,
        mut manifest: Manifest,
        finish: &dyn Finish,
    ) -> Result<Manifest> {
        // Tables of another version are not mended but ingested again.
        if manifest.derived_sha256 == finish.sha256() || manifest.check_version().is_err() {
            return Ok(manifest);
        }
        let work = self.workspace()?;
        let copy = work.path.join(format!("trace={}", manifest.trace));
        link_tree(directory, &copy)?;
        if Manifest::read(directory)? != manifest {
            // An ingest came first.
            return self.refresh(directory, Manifest::read(directory)?, finish);
        }
        let before = manifest.clone();
        for table in TABLES.iter().filter(|t| t.made == crate::schema::Made::Derived) {
            let folder = copy.join(table.name);
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(|e| io(&folder, &e))?;
            }
        }
        for entry in std::fs::read_dir(&copy).map_err(|e| io(&copy, &e))?.flatten() {
            // Steps on the way, kept for ranks that do not change.
            if entry.file_name().to_string_lossy().starts_with('_') {
                std::fs::remove_dir_all(entry.path()).map_err(|e| io(&entry.path(), &e))?;
            }
        }
        finish.derive(&super::ToDerive { directory: &copy, work: &work.path, earlier: None })?;
        manifest.rows = count_rows(&copy)?;
        manifest.derived_sha256 = finish.sha256();
        manifest.write(&copy)?;
        let turn = self.turn();
        if Manifest::read(directory)? != before {
            drop(turn);
            return self.refresh(directory, Manifest::read(directory)?, finish);
        }
        self.publish(&copy, &manifest.trace)?;
        Ok(manifest)
    }
}

/// Who has a name that a trace is to have.
enum Holder {
    /// Nobody, or the same job before.
    None,
    /// Another path.
    Other(Box<Manifest>),
    /// A trace that had it once.
    Unknown,
}

/// The files that were read whole in a workspace, with the folder of each.
fn spools(workspace: &Path) -> Vec<(PathBuf, Record)> {
    let folders = std::fs::read_dir(workspace).into_iter().flatten().flatten();
    folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("spool-"))
        .filter_map(|entry| Some((entry.path(), record::read(&entry.path()).pop()?)))
        .collect()
}

/// Removes everything but the files that were read whole.
fn keep_spools(workspace: &Path) {
    let whole: BTreeSet<PathBuf> =
        spools(workspace).into_iter().map(|(folder, _)| folder).collect();
    for entry in std::fs::read_dir(workspace).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !whole.contains(&path) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Removes the folders of these files.
fn remove_spools(spools: &[(PathBuf, Record)], files: &BTreeSet<PathBuf>) {
    for (folder, record) in spools {
        if files.contains(&record.source.absolute) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A second name for every file below `from`, under `to` (copies where links do not work).
pub(super) fn link_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(|e| io(to, &e))?;
    for entry in std::fs::read_dir(from).map_err(|e| io(from, &e))? {
        let entry = entry.map_err(|e| io(from, &e))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            link_tree(&entry.path(), &target)?;
        } else {
            super::assemble::link(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Rows of every table in a trace directory, from the footers.
///
/// # Errors
/// `io` when a file cannot be read.
pub fn count_rows(directory: &Path) -> Result<BTreeMap<String, u64>> {
    let mut out = BTreeMap::new();
    for table in TABLES {
        let files = crate::schema::files(directory, table);
        if files.is_empty() {
            continue;
        }
        let mut rows = 0;
        for file in files {
            rows += super::parquet::count_rows(&file)?;
        }
        out.insert(table.name.to_owned(), rows);
    }
    Ok(out)
}
