//! Folders for work in progress in the data directory, each under a lock of its process.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result, io};
use crate::store::{Store, absolute, sync};

/// A folder for work in progress, removed when dropped.
pub struct Workspace {
    /// Path of the folder.
    pub path: PathBuf,
    _lock: File,
    /// The folders of files that an ingest had read when it was killed.
    pub leftovers: Vec<PathBuf>,
    /// Workspaces that killed processes left.
    _abandoned: Vec<Abandoned>,
    /// Whether files that were read whole stay for the next ingest.
    pub keep: bool,
}

/// The time that files which a killed ingest had read wait for the ingest that goes on with them.
const LEFTOVERS_STAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

impl Workspace {
    /// Takes the folder of a leftover over; its new path.
    ///
    /// # Errors
    /// `io` when it cannot be moved.
    pub fn adopt(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let to = self.path.join(name);
        std::fs::rename(folder, &to).map_err(|e| io(folder, &e))?;
        Ok(to)
    }

    /// Removes the leftovers of this job that were not taken over: what they hold is not what it
    /// needs.
    pub fn settle(&self, is_of_job: impl Fn(&Path) -> bool) {
        remove_spools(&self.leftovers, is_of_job);
    }
}

/// The workspace that a killed process left, under its lock. When dropped, files that were read
/// whole stay for the ingest that goes on with them, and the rest goes.
pub(crate) struct Abandoned {
    path: PathBuf,
    _lock: File,
    /// Whether the machine ran on since: after a loss of power files may lack what was written.
    is_whole: bool,
}

impl Abandoned {
    fn spools(&self) -> Vec<PathBuf> {
        if self.is_whole { spools(&self.path) } else { Vec::new() }
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let waits = self.spools().iter().any(|folder| {
            let age = std::fs::metadata(folder)
                .and_then(|m| m.modified())
                .ok()
                .and_then(|t| t.elapsed().ok());
            age.is_some_and(|age| age < LEFTOVERS_STAY)
        });
        if waits {
            keep_spools(&self.path);
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
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
        if self.keep && !spools(&self.path).is_empty() {
            keep_spools(&self.path);
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

pub(crate) const LOCK: &str = "lock";

/// The beginning of the name of a trace directory that was moved aside, in a workspace.
pub(crate) const BEFORE: &str = "before=";

/// The identity of this start of the machine; empty where the system does not say it.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Takes the lock of a folder for work in progress, and makes it where it is missing. None while a
/// process holds it, and where the folder goes away. `surely` is for folders of others: where the
/// file system has no locks, nothing says that their process is gone.
pub(crate) fn lock(folder: &Path, surely: bool) -> std::io::Result<Option<File>> {
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

/// The file that is written last into the folder of a file that was read: what was kept of it.
pub const RECORDS: &str = "records.json";

/// The folders of the files that were read whole in a workspace.
fn spools(workspace: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(workspace).into_iter().flatten().flatten();
    folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("spool-"))
        .map(|entry| entry.path())
        .filter(|folder| folder.join(RECORDS).is_file())
        .collect()
}

/// Removes everything but the files that were read whole.
fn keep_spools(workspace: &Path) {
    let whole: BTreeSet<PathBuf> = spools(workspace).into_iter().collect();
    for entry in std::fs::read_dir(workspace).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !whole.contains(&path) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Removes the folders of the files of a job.
fn remove_spools(spools: &[PathBuf], is_of_job: impl Fn(&Path) -> bool) {
    for folder in spools.iter().filter(|folder| is_of_job(folder)) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

impl Store {
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
        self.make()?;
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
                self.put_back(&path).ok()?;
                Some(Abandoned { _lock, path, is_whole: of == boot() })
            })
            .collect()
    }

    /// Puts what killed processes left in order: traces that were moved aside are in their places.
    pub(crate) fn recover(&self) {
        drop(self.abandoned());
    }

    /// Puts the traces back that were moved aside when others were to take their places, and no
    /// other did.
    fn put_back(&self, workspace: &Path) -> std::io::Result<()> {
        // Beside the directory that was to take the place.
        for entry in WalkDir::new(workspace).min_depth(1).max_depth(2) {
            let entry = entry?;
            let name = entry.file_name().to_str().and_then(|name| name.strip_prefix(BEFORE));
            if let Some(target) = name.map(|name| self.directory(name))
                && !target.exists()
            {
                std::fs::rename(entry.path(), target)?;
            }
        }
        Ok(())
    }

    /// Makes the data directory where it is not there.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn make(&self) -> Result<()> {
        let path = std::path::absolute(&self.path).map_err(|e| io(&self.path, &e))?;
        let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
        std::fs::create_dir_all(&path).map_err(|e| io(&self.path, &e))?;
        for above in missing.iter().filter(|_| self.durable).filter_map(|path| path.parent()) {
            // A folder that may not be opened is nobody's loss here.
            let _ = sync::folder(above);
        }
        Ok(())
    }

    /// Removes what killed ingests of a job left, when the job is unchanged.
    pub fn tidy(&self, is_of_job: impl Fn(&Path) -> bool) {
        for abandoned in self.abandoned() {
            remove_spools(&abandoned.spools(), &is_of_job);
        }
    }
}
