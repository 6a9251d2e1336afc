//! What lies under a path of an object store: a listing in the place of a walk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::remote::{self, Found};

/// Something under a path of a store.
pub(super) enum Entry {
    File(PathBuf),
    /// An export of Nsight Systems, with the files of such a name in it.
    NsysFolder(PathBuf),
    /// A key that is no path, as a name that is one.
    Odd(PathBuf),
}

/// What lies under a path, in the order of a walk; whether the path is an object itself. `marks`
/// are the files that an export of Nsight Systems has.
///
/// # Errors
/// `file-unreadable` where there is nothing, or the store refuses.
pub(super) fn entries(path: &Path, marks: &[&str]) -> Result<(Vec<Entry>, bool)> {
    match remote::stat(path)? {
        Some(Found::File(_)) => return Ok((vec![Entry::File(path.to_owned())], true)),
        Some(Found::Folder) => {}
        None => {
            return Err(Error::new("file-unreadable", "there is nothing under that URL")
                .at(path.display().to_string())
                .hint(
                    "check the bucket and the spelling; what is left after the bucket is the \
                       beginning of keys, up to a slash",
                ));
        }
    }
    let below = remote::below(path)?;
    let all: BTreeSet<&PathBuf> = below.files.iter().collect();
    let is_nsys = |folder: &Path| marks.iter().all(|name| all.contains(&folder.join(name)));
    if is_nsys(path) {
        return Ok((vec![Entry::NsysFolder(path.to_owned())], true));
    }
    let mut out = Vec::new();
    let mut inside: Option<PathBuf> = None;
    for file in &below.files {
        if inside.as_ref().is_some_and(|folder| file.starts_with(folder)) || is_hidden(path, file) {
            continue;
        }
        let above = file.ancestors().skip(1).take_while(|above| *above != path);
        // The outermost, as a walk from above meets it first.
        match above.filter(|above| is_nsys(above)).last() {
            Some(folder) => {
                out.push(Entry::NsysFolder(folder.to_owned()));
                inside = Some(folder.to_owned());
            }
            None => out.push(Entry::File(file.clone())),
        }
    }
    out.extend(below.odd.iter().map(|name| Entry::Odd(path.join(name))));
    Ok((out, false))
}

/// Whether a walk from a path leaves a file out: it is hidden, or lies in a folder that is, or in
/// the directory of a trace.
fn is_hidden(path: &Path, file: &Path) -> bool {
    let below = file.strip_prefix(path).unwrap_or(file);
    let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    let mut folders = below.ancestors().skip(1).filter_map(Path::file_name);
    below.file_name().is_some_and(is_hidden)
        || folders.any(|name| is_hidden(name) || name.as_encoded_bytes().starts_with(b"trace="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_walk_leaves_out_is_left_out() {
        for (file, is) in [
            ("s3://b/p/x.json", false),
            ("s3://b/p/.x.json", true),
            ("s3://b/p/.git/x.json", true),
            ("s3://b/p/a/trace=t/x.json", true),
            ("s3://b/p/a/trace=t", false),
        ] {
            assert_eq!(is_hidden(Path::new("s3://b/p"), Path::new(file)), is, "{file}");
        }
        // What was named itself is never hidden.
        assert!(!is_hidden(Path::new("s3://b/.p/trace=t"), Path::new("s3://b/.p/trace=t/x")));
    }
}
