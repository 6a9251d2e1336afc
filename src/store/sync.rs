//! What was written, on the disk: a rename that a file system makes durable before the bytes of the
//! files below it would leave, after a loss of power, files of no length under a name that says
//! they are whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Result, io};
use crate::pool::each;

/// Files that are synced at a time: a disk writes several together in little more time than one.
const AT_A_TIME: usize = 16;

/// Everything in a folder and below, then the folders, the innermost first.
///
/// # Errors
/// `io` when the disk does not take it.
pub fn tree(directory: &Path) -> Result<()> {
    let (mut files, mut folders): (Vec<PathBuf>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for entry in WalkDir::new(directory).contents_first(true) {
        let entry = entry.map_err(|e| io(directory, &e.into()))?;
        let of_kind = if entry.file_type().is_dir() { &mut folders } else { &mut files };
        of_kind.push(entry.into_path());
    }
    each(AT_A_TIME, &files, |path| {
        File::open(path).and_then(|file| file.sync_all()).map_err(|e| io(path, &e))
    })?;
    folders.iter().try_for_each(|path| folder(path))
}

/// The entries of a folder.
///
/// # Errors
/// `io` when the disk does not take them.
pub fn folder(path: &Path) -> Result<()> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot sync a folder, and need not.
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome.map_err(|e| io(path, &e)),
    }
}
