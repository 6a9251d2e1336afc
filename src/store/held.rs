//! A trace as it is now, for as long as something reads it: an ingest may put another in its place
//! meanwhile, and a query must read all of one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::manifest::identity;

/// How often a trace is taken that another takes the place of at that moment.
const TRIES: usize = 100;

/// Traces that this process held.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Links to all files of a trace directory, in a folder below `parent` that has its name, and which
/// directory that was; None where the file system has no links, or the directory cannot be read.
pub fn hold(directory: &Path, parent: &Path) -> Option<(PathBuf, (u64, u64))> {
    let name = directory.file_name()?;
    for _ in 0..TRIES {
        let place = parent.join(HELD.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir_all(&place).ok()?;
        let before = identity(directory);
        let held = place.join(name);
        let linked = link(directory, &held);
        if identity(directory) == before {
            return linked.is_ok().then_some(held).zip(before);
        }
        // Half of this one and half of the other.
        let _ = std::fs::remove_dir_all(&place);
    }
    None
}

/// Links what lies in a folder, and below; what is hidden is not of the trace's tables.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => link(&entry.path(), &to.join(name))?,
            (_, true) => std::fs::hard_link(entry.path(), to.join(name))?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_when_another_takes_its_place() {
        let data = tempfile::tempdir().expect("a folder");
        let (trace, held) = (data.path().join("trace=a"), data.path().join(".held"));
        std::fs::create_dir_all(trace.join("t/rank=0")).expect("folders");
        std::fs::create_dir(&held).expect("a folder");
        std::fs::write(trace.join("t/rank=0/x.parquet"), "one").expect("a file");
        std::fs::write(trace.join(".answers"), "kept").expect("a file");
        std::os::unix::fs::symlink("/etc", trace.join("t/elsewhere")).expect("a link");
        let (first, one) = hold(&trace, &held).expect("links");
        std::fs::rename(&trace, data.path().join("gone")).expect("renamed");
        std::fs::create_dir_all(trace.join("t/rank=0")).expect("folders");
        std::fs::write(trace.join("t/rank=0/x.parquet"), "two").expect("a file");
        let (second, two) = hold(&trace, &held).expect("links");
        assert_eq!(Some(two), identity(&trace));
        assert_ne!(one, two);
        std::fs::remove_dir_all(data.path().join("gone")).expect("removed");
        let read = |held: &Path| std::fs::read_to_string(held.join("t/rank=0/x.parquet"));
        assert_eq!(read(&first).expect("it stays"), "one");
        assert_eq!(read(&second).expect("the new one"), "two");
        assert_eq!(first.file_name(), trace.file_name());
        assert!(!first.join(".answers").exists() && !first.join("t/elsewhere").exists());
        assert!(hold(&data.path().join("trace=none"), &held).is_none());
    }
}
