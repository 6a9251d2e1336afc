//! Cases in folders: which there are, which were asked for, and all of them run in parallel.

use std::path::{Path, PathBuf};

/// Whether to write expected files.
///
/// # Panics
/// When asked to on a build machine, where nobody would read what was written.
pub fn blessing() -> bool {
    let wanted = std::env::var_os("CCL_SQL_BLESS").is_some();
    assert!(!wanted || std::env::var_os("CI").is_none(), "CCL_SQL_BLESS is refused under CI");
    wanted
}

/// Differences from an expected file, each with its place; or none, and the file is written.
pub fn settled(file: &Path, actual: &str, found: Vec<String>) -> Vec<String> {
    if blessing() && !found.is_empty() {
        std::fs::write(file, actual).expect("the expected file can be written");
        return Vec::new();
    }
    found.into_iter().map(|f| format!("{}: {f}", file.display())).collect()
}

/// Whether a case was asked for (`CCL_SQL_CASE`, words with commas; all are when it is not set).
/// A path ends with a slash here, so that a word can name a folder to its end.
pub fn selected(path: &Path) -> bool {
    match std::env::var("CCL_SQL_CASE") {
        Ok(wanted) => wanted.split(",").any(|word| format!("{}/", path.display()).contains(word)),
        Err(_) => true,
    }
}

/// Files of a folder and below, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("the folder can be listed"))
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().to_owned())
        .collect()
}

/// Folders right below a folder, sorted.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.is_dir())
        .collect();
    out.sort();
    out
}

/// The last part of a path as text.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Set where one failure is enough.
const FIRST: &str = "CCL_SQL_FIRST";

/// Runs `body` on every item, on as many threads as there are cores; gives what failed.
pub fn in_parallel<T: Sync>(items: &[T], body: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    let first_alone = std::env::var_os(FIRST).is_some();
    let failed = || failures.lock().expect("no thread panics while it adds");
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(item) =
                    items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    if first_alone && !failed().is_empty() {
                        break;
                    }
                    let found = body(item);
                    failed().extend(found);
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panics while it adds");
    failures.sort();
    failures
}
