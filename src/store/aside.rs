//! Files that are written beside their places, and renamed when they are whole: what a killed
//! process left of them.

use std::path::Path;
use std::time::Duration;

/// The time after which nobody writes such a file any more.
const STAYS: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes the files of a folder that have such names, and that nobody writes any more.
pub fn sweep(folder: &Path, is_aside: impl Fn(&str) -> bool) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(&is_aside) {
            continue;
        }
        let is_old = entry.metadata().is_ok_and(|found| {
            let age = found.modified().ok().and_then(|then| then.elapsed().ok());
            found.is_file() && age.is_some_and(|age| age > STAYS)
        });
        if is_old {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_files_of_the_name_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, is_old: bool| {
            let file = std::fs::File::create(folder.path().join(name)).expect("a file");
            let then = std::time::SystemTime::now() - 2 * STAYS;
            if is_old {
                file.set_modified(then).expect("an old file");
            }
        };
        make(".aside-1", true);
        make(".aside-2", false);
        make("other", true);
        sweep(folder.path(), |name| name.starts_with(".aside-"));
        let left = |name: &str| folder.path().join(name).exists();
        assert_eq!([".aside-1", ".aside-2", "other"].map(left), [false, true, true]);
    }
}
