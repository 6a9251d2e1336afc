//! The data directory: trace directories that appear whole, in one step.
//!
//! Work happens in `.tmp-<n>/` beside the traces, under a file lock that its process holds; what a
//! killed process left is removed by the next one that gets the lock. A finished directory takes
//! its place by an atomic exchange.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use duckdb::{Config, Connection};

use super::manifest::Manifest;
use super::{Finish, Options};
use crate::error::{Error, Result, io};
use crate::schema::TABLES;
use crate::sql_text::{sql_path, sql_string};

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
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now, the next ingest removes.
        let _ = std::fs::remove_dir_all(&self.path);
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

    /// A folder for work in progress; removes what killed processes left.
    ///
    /// # Errors
    /// `io` when the data directory cannot be written.
    pub fn workspace(&self) -> Result<Workspace> {
        std::fs::create_dir_all(&self.path).map_err(|e| io(&self.path, &e))?;
        for entry in std::fs::read_dir(&self.path).map_err(|e| io(&self.path, &e))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(".tmp-") {
                let abandoned = match File::open(entry.path().join(LOCK)) {
                    Ok(lock) => lock.try_lock().is_ok(),
                    Err(_) => false,
                };
                if abandoned {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
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
            return Ok(Workspace { path: absolute(&path), _lock: lock });
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
        let connection = work_connection(&work.path, &Options::default())?;
        finish.derive(&copy, &connection)?;
        manifest.rows = count_rows(&copy, &connection)?;
        manifest.derived_sha256 = finish.sha256();
        let old = copy.join(super::manifest::FILE);
        std::fs::remove_file(&old).map_err(|e| io(&old, &e))?;
        manifest.write(&copy)?;
        drop(connection);
        self.publish(&copy, &manifest.trace)?;
        Ok(manifest)
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
        } else if std::fs::hard_link(entry.path(), &target).is_err() {
            std::fs::copy(entry.path(), &target).map_err(|e| io(&target, &e))?;
        }
    }
    Ok(())
}

/// A DuckDB connection for sorting and joining at the end of an ingest: bounded memory, spilling
/// into the workspace.
pub fn work_connection(work: &Path, options: &Options) -> Result<Connection> {
    let limit = if options.memory_limit.is_empty() { "256MB" } else { &options.memory_limit };
    let mut config = Config::default()
        .max_memory(limit)
        .map_err(|_| {
            Error::new("usage", format!("{limit:?} is no size of memory"))
                .hint("write a number and a unit: --memory-limit 1GB")
        })?
        .enable_autoload_extension(false)?;
    if options.jobs > 0 {
        config = config.threads(i64::try_from(options.jobs).unwrap_or(1))?;
    }
    let connection = Connection::open_in_memory_with_flags(config)?;
    connection.execute_batch(&format!(
        "SET temp_directory = {}; SET enable_progress_bar = false;",
        sql_string(&work.join("spill").to_string_lossy())
    ))?;
    Ok(connection)
}

/// Rows of every table in a trace directory, from the footers.
pub fn count_rows(directory: &Path, connection: &Connection) -> Result<BTreeMap<String, u64>> {
    let mut out = BTreeMap::new();
    for table in TABLES {
        let files = crate::schema::files(directory, table);
        if files.is_empty() {
            continue;
        }
        let list: Vec<String> = files.iter().map(|f| sql_path(f)).collect();
        let rows: u64 = connection.query_row(
            &format!("SELECT count(*) FROM read_parquet([{}])", list.join(", ")),
            [],
            |row| row.get(0),
        )?;
        out.insert(table.name.to_owned(), rows);
    }
    Ok(out)
}
