//! The data directory: trace directories that appear whole, in one step.
//!
//! Work happens in `.tmp-<n>/` beside the traces, under a file lock that its process holds; what a
//! killed process left is removed by the next one that gets the lock. A finished directory takes
//! its place by an atomic exchange.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
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
    /// What killed processes left, each with its lock.
    abandoned: Vec<(PathBuf, File)>,
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
        let to = self.path.join(spool_name(record.source.source_id));
        std::fs::rename(folder, &to).map_err(|e| io(folder, &e))?;
        Ok(to)
    }
}

/// Name of the folder of a file that was read.
pub fn spool_name(source_id: i64) -> String {
    format!("spool-{source_id}")
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now, the next ingest removes.
        match self.keep && !spools(&self.path).is_empty() {
            true => keep_spools(&self.path),
            false => _ = std::fs::remove_dir_all(&self.path),
        }
        for (path, _lock) in &self.abandoned {
            let waits = spools(path).iter().any(|(folder, _)| {
                let age = std::fs::metadata(folder)
                    .and_then(|m| m.modified())
                    .ok()
                    .and_then(|t| t.elapsed().ok());
                age.is_some_and(|age| age < LEFTOVERS_STAY)
            });
            if !waits {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
}

const LOCK: &str = "lock";

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
        std::fs::create_dir_all(&self.path).map_err(|e| io(&self.path, &e))?;
        let (mut leftovers, mut abandoned) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.path).map_err(|e| io(&self.path, &e))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(".tmp-")
                && let Ok(lock) = File::open(entry.path().join(LOCK))
                && lock.try_lock().is_ok()
            {
                leftovers.extend(spools(&entry.path()));
                abandoned.push((entry.path(), lock));
            }
        }
        for n in 0..u32::MAX {
            let path = self.path.join(format!(".tmp-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(io(&path, &e)),
                Ok(()) => {}
            }
            let lock_path = path.join(LOCK);
            let lock = File::create(&lock_path).map_err(|e| io(&lock_path, &e))?;
            match lock.try_lock() {
                Ok(()) | Err(TryLockError::Error(_)) => {} // no locks on this file system: go on
                Err(TryLockError::WouldBlock) => continue,
            }
            return Ok(Workspace {
                path: absolute(&path),
                _lock: lock,
                leftovers,
                abandoned,
                keep: false,
            });
        }
        Err(Error::new("data-dir-locked", "no folder for work in progress could be made")
            .at(self.path.display().to_string()))
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
        if manifest.derived_sha256 == finish.sha256() {
            return Ok(manifest);
        }
        let work = self.workspace()?;
        let copy = work.path.join(format!("trace={}", manifest.trace));
        link_tree(directory, &copy)?;
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
    for entry in std::fs::read_dir(workspace).into_iter().flatten().flatten() {
        if entry.path().is_dir() && !entry.path().join(record::FILE).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A second name for every file below `from`, under `to` (copies where links do not work).
fn link_tree(from: &Path, to: &Path) -> Result<()> {
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
