//! Folders for what a query cannot hold in memory: below the data directory, or the system's
//! temporary folder where that cannot be written. A folder goes with its process; what a killed one
//! left, the next one removes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::store::workspace::lock;

/// The beginning of the names of the folders.
const PREFIX: &str = ".ccl-sql-spill-";
/// The next folder of this process. No name comes twice: who found the folder of that name without
/// its owner, and is about to remove it, would remove the new one.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The time in which a folder that was made has its lock.
const BEGINS: Duration = Duration::from_secs(60);

/// A folder for one connection, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    /// Path of the folder.
    pub path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// A folder below the first of `parents` that is there and can be written; none where none is.
    /// DuckDB takes paths as UTF-8: a folder of another name does not count.
    pub fn below(parents: &[&Path]) -> Option<Self> {
        let usable = parents.iter().filter(|p| p.is_dir() && p.to_str().is_some());
        usable.into_iter().find_map(|parent| {
            sweep(parent);
            (0..1000).find_map(|_| Self::named(parent, NEXT.fetch_add(1, Ordering::Relaxed)))
        })
    }

    fn named(parent: &Path, n: u32) -> Option<Self> {
        let path = parent.join(format!("{PREFIX}{}-{n}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let Ok(Some(lock)) = lock(&path, false) else {
            // Another process took the new folder for an abandoned one.
            let _ = std::fs::remove_dir_all(&path);
            return None;
        };
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        Some(Self { path, _lock: lock })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now, the next process removes.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose processes are gone.
pub(crate) fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        // A link of that name is somebody's trap, and no folder of ours.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder
            && entry.file_name().to_string_lossy().starts_with(PREFIX)
            && !is_begun(&entry.path())
            && let Ok(Some(_lock)) = lock(&entry.path(), true)
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder was just made, and is about to get its lock: whoever took that, and removed the
/// folder, could take what its owner makes there then.
fn is_begun(folder: &Path) -> bool {
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let age = std::fs::metadata(folder).and_then(|found| found.modified()).ok();
    is_empty && age.and_then(|then| then.elapsed().ok()).is_none_or(|age| age < BEGINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_and_what_a_killed_one_left_with_the_next() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let first = Scratch::below(&[parent.path()]).expect("a folder");
        let left = parent.path().join(format!("{PREFIX}1-0"));
        std::fs::create_dir(&left).expect("a folder");
        std::fs::write(left.join("block"), [0; 9]).expect("a file");
        let second = Scratch::below(&[parent.path()]).expect("a second folder");
        assert!(!left.exists(), "nobody holds its lock");
        assert!(first.path.exists(), "its owner lives");
        let path = second.path.clone();
        drop(second);
        assert!(!path.exists());
        let third = Scratch::below(&[parent.path()]).expect("a third folder");
        assert_ne!(third.path, path, "who still removes the second one leaves the third");
    }

    #[test]
    fn a_folder_that_has_no_lock_yet_stays_for_its_owner() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let begun = parent.path().join(format!("{PREFIX}1-0"));
        std::fs::create_dir(&begun).expect("a folder");
        sweep(parent.path());
        assert!(begun.exists());
        let long_ago = std::time::SystemTime::now() - 2 * BEGINS;
        File::open(&begun).and_then(|folder| folder.set_modified(long_ago)).expect("an old folder");
        sweep(parent.path());
        assert!(!begun.exists());
    }

    #[test]
    fn a_folder_that_is_not_there_gives_way_to_the_next() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let missing = parent.path().join("missing");
        let made = Scratch::below(&[&missing, parent.path()]).expect("a folder");
        let parent = std::fs::canonicalize(parent.path()).expect("it is there");
        assert_eq!(made.path.parent(), Some(&*parent));
        assert!(!missing.exists(), "a question makes no data directory");
    }
}
