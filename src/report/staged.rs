//! Output files: all files of a command appear, each whole, or none does.
//!
//! Files are written under other names beside their places, and renamed when the last one is there.
//! Whatever stops a command before leaves the folders as they were. What a killed one left there,
//! the next one removes when it is a day old.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io};
use crate::store::{aside, sync};

/// The beginning of the names of files that are not yet in their places, and what else they hold.
/// DuckDB adds an ending to the name of a file that it writes.
const ASIDE: (&str, &str) = (".ccl-sql.", ".tmp");

/// A name for a file that is not yet in its place, which no other process takes.
pub fn aside_name(rest: &str) -> String {
    format!("{}{}.{rest}{}", ASIDE.0, std::process::id(), ASIDE.1)
}

/// Removes what killed commands left in a folder.
pub fn sweep(folder: &Path) {
    aside::sweep(folder, |name| name.starts_with(ASIDE.0) && name.contains(ASIDE.1));
}

/// Files that are written, and not yet in their places.
#[derive(Debug)]
pub struct Staged {
    force: bool,
    /// Temporary files, and their places.
    files: Vec<(PathBuf, PathBuf)>,
    /// Folders that were made, outer ones first.
    folders: Vec<PathBuf>,
    /// Folders whose entries change.
    changed: BTreeSet<PathBuf>,
}

impl Staged {
    /// An output without files; with `force` its files take the place of others.
    pub fn new(force: bool) -> Self {
        Self { force, files: Vec::new(), folders: Vec::new(), changed: BTreeSet::new() }
    }

    /// Adds a file for a place. Devices and pipes get the bytes at once.
    ///
    /// # Errors
    /// `output-exists` for an existing file without `force`, `io` when it cannot be written.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = self.open(path)?;
        let written = file.write_all(bytes).and_then(|()| synced(path, &file));
        written.map_err(|e| failed(path, &e))
    }

    /// A file for a place, to be written piece by piece; [`synced`] is called when it is whole.
    ///
    /// # Errors
    /// As [`Staged::add`].
    pub fn open(&mut self, path: &Path) -> Result<File> {
        vacant(path, self.force)?;
        if is_special(path) {
            return File::options().write(true).open(path).map_err(|e| failed(path, &e));
        }
        // The file that a link names is written, and the link stays.
        let place = if path.is_symlink() {
            std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        if let Some(folder) = place.parent().filter(|f| !f.as_os_str().is_empty()) {
            self.folder(folder)?;
        }
        let folder = place.parent().unwrap_or(Path::new(""));
        if self.changed.insert(folder.to_owned()) {
            sweep(folder);
        }
        // A short name: that of the file may be as long as the file system takes.
        let number = self.files.len();
        let temporary = place.with_file_name(aside_name(&number.to_string()));
        let file = File::create(&temporary);
        self.files.push((temporary, place));
        file.map_err(|e| failed(path, &e))
    }

    /// A name for a place, under which a program of its own makes the file: nothing is there.
    ///
    /// # Errors
    /// As [`Staged::add`]; `io` for devices and pipes, which hold no such file.
    pub fn name(&mut self, path: &Path) -> Result<PathBuf> {
        if is_special(path) {
            return Err(Error::new("io", "a device or a pipe is where a file is wanted")
                .at(path.display().to_string())
                .hint("name a file"));
        }
        drop(self.open(path)?);
        let (temporary, _) = self.files.last().expect("it was added");
        std::fs::remove_file(temporary).map_err(|e| io(path, &e))?;
        Ok(temporary.clone())
    }

    /// Makes a folder where it is not there.
    ///
    /// # Errors
    /// `io`.
    pub fn folder(&mut self, folder: &Path) -> Result<()> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
        let above = missing.last().map_or(Some(folder), |f| f.parent());
        if let Some(file) = above.filter(|f| f.exists() && !f.is_dir()) {
            return Err(Error::new("io", "a file is where a folder is wanted")
                .at(file.display().to_string())
                .hint("name another folder, or move the file"));
        }
        for folder in missing.into_iter().rev() {
            std::fs::create_dir(folder).or_else(|e| match e.kind() {
                std::io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(io(folder, &e)),
            })?;
            self.folders.push(folder.to_owned());
            self.changed.extend(folder.parent().map(Path::to_owned));
        }
        Ok(())
    }

    /// Puts all files in their places.
    ///
    /// # Errors
    /// `output-exists` where one has come into the place of another meanwhile, `io`.
    pub fn commit(mut self) -> Result<()> {
        for (_, place) in &self.files {
            vacant(place, self.force)?;
        }
        while let Some((temporary, place)) = self.files.first() {
            std::fs::rename(temporary, place).map_err(|e| io(place, &e))?;
            self.files.remove(0);
            self.folders.clear();
        }
        self.changed.iter().for_each(|folder| settled(folder));
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Nobody needs what is left; that it cannot be removed is no news.
        for (temporary, _) in &self.files {
            let _ = std::fs::remove_file(temporary);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Refuses a place that a file has taken.
///
/// # Errors
/// `output-exists`.
pub fn vacant(path: &Path, force: bool) -> Result<()> {
    if force || !path.exists() || is_special(path) {
        return Ok(());
    }
    Err(Error::new("output-exists", "the output file is there already")
        .at(path.display().to_string())
        .hint("add --force to write over it"))
}

/// Waits until a file is on the disk; devices and pipes are on none.
///
/// # Errors
/// Those of the file.
pub fn synced(path: &Path, file: &File) -> std::io::Result<()> {
    if is_special(path) { Ok(()) } else { file.sync_all() }
}

/// Waits until the entries of a folder are on the disk, as far as it can be opened: each file is
/// whole in any case.
pub fn settled(folder: &Path) {
    let _ = sync::folder(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
}

/// The error of a file that takes no more bytes.
pub fn failed(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Error::new("io", error.to_string())
            .at(path.display().to_string())
            .hint("free some space, or name another place with -o"),
        _ => io(path, error),
    }
}

/// A device or a pipe: to be written to, never to be replaced.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Writes a file whole: under a temporary name beside it, then renamed.
///
/// # Errors
/// `output-exists` for an existing file without `force`, `io` when it cannot be written.
pub fn write_file(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let mut staged = Staged::new(force);
    staged.add(path, bytes)?;
    staged.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_takes_no_more_has_another_hint() {
        let of = |kind: std::io::ErrorKind| failed(Path::new("out.csv"), &kind.into());
        let full = of(std::io::ErrorKind::StorageFull);
        let hint = full.hint.as_deref().unwrap_or_default();
        assert!(hint.contains("name another place with -o") && full.code == "io", "{full}");
        assert!(!of(std::io::ErrorKind::NotFound).to_string().contains("-o"));
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut out: Vec<String> = walkdir::WalkDir::new(folder)
            .min_depth(1)
            .into_iter()
            .map(|e| {
                e.expect("listed").path().strip_prefix(folder).expect("below").display().to_string()
            })
            .collect();
        out.sort();
        out
    }

    #[test]
    fn files_appear_together_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mut staged = Staged::new(false);
        staged.add(&at("new/deep/a"), b"a").expect("written");
        staged.add(&at("b"), b"b").expect("written");
        std::fs::write(at("c"), b"old").expect("written");
        assert_eq!(staged.add(&at("c"), b"c").expect_err("taken").code, "output-exists");
        assert!(!at("b").exists() && !at("new/deep/a").exists());
        drop(staged);
        assert_eq!(names(folder.path()), ["c"]);
        assert_eq!(std::fs::read(at("c")).expect("read"), b"old");

        let mut staged = Staged::new(false);
        staged.add(&at("new/deep/a"), b"a").expect("written");
        staged.add(&at("b"), b"b").expect("written");
        std::fs::write(at("b"), b"meanwhile").expect("written");
        assert_eq!(staged.commit().expect_err("taken").code, "output-exists");
        assert_eq!(names(folder.path()), ["b", "c"]);

        let mut staged = Staged::new(true);
        staged.add(&at("new/deep/a"), b"a").expect("written");
        staged.add(&at("c"), b"c").expect("written");
        staged.commit().expect("renamed");
        assert_eq!(names(folder.path()), ["b", "c", "new", "new/deep", "new/deep/a"]);
        assert_eq!(std::fs::read(at("c")).expect("read"), b"c");
    }

    #[test]
    fn what_a_killed_command_left_goes_when_it_is_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in [".ccl-sql.1.0.tmp", ".ccl-sql.1.duckdb.tmp.wal", ".ccl-sql.mine"] {
            let file = File::create(at(name)).expect("a file");
            let day = std::time::Duration::from_secs(24 * 60 * 60);
            file.set_modified(std::time::SystemTime::now() - 2 * day).expect("an old file");
        }
        File::create(at(".ccl-sql.2.0.tmp")).expect("a file of one that runs");
        write_file(&at("a"), b"a", false).expect("written");
        assert_eq!(names(folder.path()), [".ccl-sql.2.0.tmp", ".ccl-sql.mine", "a"]);
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, b"").expect("written");
        let error = Staged::new(true).add(&file.join("x/y"), b"").expect_err("no folder");
        assert_eq!(error.place.as_deref(), Some(&*file.display().to_string()));
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, b"old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let mut staged = Staged::new(true);
        staged.add(&link, b"new").expect("written");
        staged.commit().expect("renamed");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).expect("read"), b"new");
        // A pipe of its own: whoever replaced a device would harm the machine.
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs");
        assert!(made.success());
        let from = pipe.clone();
        let reader = std::thread::spawn(move || std::fs::read(from));
        let mut staged = Staged::new(false);
        staged.add(&pipe, b"gone").expect("written");
        staged.commit().expect("nothing to rename");
        assert_eq!(reader.join().expect("no panic").expect("read"), b"gone");
        assert!(!pipe.is_file());
    }
}
