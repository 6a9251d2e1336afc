//! The data directory: trace directories that appear whole, in one step.
//!
//! Work happens in `.tmp-<n>/` beside the traces, under a file lock that its process holds; what a
//! killed process left is removed by the next one that gets the lock. A finished directory takes
//! its place by an atomic exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Finish;
use super::manifest::Manifest;
use super::record::{self, Record};
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
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let waits = spools(&self.path).iter().any(|(folder, _)| {
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
        Self { path: path.into() }
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
                entry.path().join(super::manifest::FILE).is_file().then_some(trace)
            })
            .collect();
        out.sort();
        out
    }

    /// Directories and manifests of all traces; damaged ones are left out.
    pub fn manifests(&self) -> Vec<(PathBuf, Manifest)> {
        self.traces()
            .into_iter()
            .filter_map(|trace| {
                let directory = self.directory(&trace);
                let manifest = Manifest::read(&directory).ok()?;
                Some((directory, manifest))
            })
            .collect()
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
        let leftovers = abandoned.iter().flat_map(|a| spools(&a.path)).collect();
        for n in 0..u32::MAX {
            let path = self.path.join(format!(".tmp-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(io(&path, &e)),
                Ok(()) => {}
            }
            let lock = match lock(&path, false) {
                Ok(Some(lock)) => lock,
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
                Some(Abandoned { _lock: lock(&path, true).ok()??, path })
            })
            .collect()
    }

    /// Removes what killed processes left, as far as it is of these files or of none.
    pub fn tidy(&self, files: &BTreeSet<PathBuf>) {
        for abandoned in self.abandoned() {
            remove_spools(&spools(&abandoned.path), files);
        }
    }

    /// The turn to put directories in their places, held until it is dropped: one process at a time
    /// looks at what is there and puts its own there. None where there are no locks.
    pub fn turn(&self) -> Option<File> {
        let directory = File::open(&self.path).ok()?;
        directory.lock().ok()?;
        Some(directory)
    }

    /// Refuses a name under which another path was ingested.
    ///
    /// # Errors
    /// `name-clash`.
    pub fn claim(&self, name: &str, root: &Path, sources: &[PathBuf]) -> Result<()> {
        let Ok(old) = Manifest::read(&self.directory(name)) else { return Ok(()) };
        let same_job = old.root == root
            && (old.sources.len() > 1
                || sources.len() > 1
                || old.sources.iter().all(|s| sources.contains(&s.absolute)));
        if same_job {
            return Ok(());
        }
        let path = |p: Option<&PathBuf>| p.map(|p| p.display().to_string()).unwrap_or_default();
        Err(Error::new(
            "name-clash",
            format!("the name `{name}` is taken by a trace from another path"),
        )
        .at(path(sources.first()))
        .facts(format!("ingested before from {}", path(old.sources.first().map(|s| &s.absolute))))
        .hint("give this one a name of its own with --name"))
    }

    /// Puts a finished directory in the place of its name, atomically.
    ///
    /// # Errors
    /// `io`; then what was there before is still there.
    pub fn publish(&self, directory: &Path, name: &str) -> Result<()> {
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
        let old = copy.join(super::manifest::FILE);
        std::fs::remove_file(&old).map_err(|e| io(&old, &e))?;
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
