//! What machines keep of a trace for each other, beside its files in an object store: rows of views
//! in `.partials/`, and answers in `.answers/`.
//!
//! Names have a hash over all that a file depends on, so that nothing is ever replaced. Who may
//! write there says what the others read, as with the tables themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::pool::each;
use crate::remote;
use crate::store::Store;
use crate::store::cache::{Cache, FILE as ANSWERS, MOST_FILE};
use crate::store::manifest::Manifest;
use crate::store::objects::{AT_A_TIME, fetch};

/// The folder, in that of a trace, for the rows of views.
pub const PARTIALS: &str = ".partials";
/// Most bytes of the name of a file.
const MOST_NAME: usize = 200;

impl Store {
    /// Fetches the rows of views that other machines have kept of a trace. Nothing where the data
    /// directory is in no store.
    ///
    /// # Errors
    /// Those of the store, and `io`.
    pub fn bring_rows(&self, trace: &str, views: &BTreeSet<&str>) -> Result<()> {
        let Some(away) = self.version(trace) else { return Ok(()) };
        remote::forget();
        let (here, from) = (self.directory(trace).join(PARTIALS), away.join(PARTIALS));
        let is_of = |name: &String| name.split('@').next().is_some_and(|v| views.contains(v));
        let rows: Vec<String> = names(&from, ".parquet")?.into_iter().filter(is_of).collect();
        each(AT_A_TIME, &rows, |name| fetch(&from.join(name), &here.join(name), None)).map(drop)
    }

    /// Takes the answers that other machines have kept of a trace over into `cache`. Nothing where
    /// the data directory is in no store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn bring_answers(&self, trace: &str, cache: &mut Cache) -> Result<()> {
        let Some(away) = self.version(trace) else { return Ok(()) };
        remote::forget();
        let answers = names(&away.join(ANSWERS), ".txt")?;
        let texts = each(AT_A_TIME, &answers, |name| {
            remote::first_bytes(&away.join(ANSWERS).join(name), MOST_FILE)
        })?;
        for text in texts {
            cache.take_over(&String::from_utf8_lossy(&text));
        }
        cache.save();
        Ok(())
    }

    /// Sends what this machine has kept of a trace, where the others lack it: rows of views, and
    /// the text of some answers.
    ///
    /// # Errors
    /// Those of the store, and `io`.
    pub fn send_kept(&self, trace: &str, answers: Option<String>) -> Result<()> {
        let Some(away) = self.version(trace) else { return Ok(()) };
        remote::forget();
        let (here, to) = (self.directory(trace).join(PARTIALS), away.join(PARTIALS));
        let there: BTreeSet<String> = names(&to, ".parquet")?.into_iter().collect();
        let entries = std::fs::read_dir(&here).into_iter().flatten().flatten();
        let mine = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let new: Vec<String> =
            mine.filter(|name| is_plain(name, ".parquet") && !there.contains(name)).collect();
        each(AT_A_TIME, &new, |name| remote::send(&here.join(name), &to.join(name)))?;
        if let Some(text) = answers {
            let name = format!("{}.txt", &crate::hash::sha256_text(&text)[..32]);
            // Who was first has sent the same.
            remote::put(&away.join(ANSWERS).join(name), text.into_bytes(), remote::Writes::New)?;
        }
        Ok(())
    }

    /// The folder in the store of the files of a trace, in the version that is known here.
    fn version(&self, trace: &str) -> Option<PathBuf> {
        let manifest = Manifest::parse(&self.directory(trace)).ok()?;
        Some(self.mirror.as_ref()?.folder(trace).join(manifest.at?))
    }
}

/// The names of files right in a folder of a store.
fn names(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let files = remote::below(folder)?.files;
    let name = |file: &PathBuf| Some(file.strip_prefix(folder).ok()?.to_str()?.to_owned());
    Ok(files.iter().filter_map(name).filter(|name| is_plain(name, ending)).collect())
}

/// Whether it is a name as this program gives it: names in a store are given by others.
fn is_plain(name: &str, ending: &str) -> bool {
    let is_of_ours = |b: u8| b.is_ascii_alphanumeric() || b"_@.-".contains(&b);
    name.ends_with(ending)
        && name.len() < MOST_NAME
        && !name.starts_with('.')
        && name.bytes().all(is_of_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for (name, is) in [
            ("_windows@all.0123.0-4.parquet", true),
            ("_windows@nsys.0123.3-4.parquet", true),
            (".parquet", false),
            ("../x.parquet", false),
            ("a/b.parquet", false),
            ("a\n.parquet", false),
            ("x.txt", false),
        ] {
            assert_eq!(is_plain(name, ".parquet"), is, "{name}");
        }
        assert!(!is_plain(&format!("{}.parquet", "a".repeat(MOST_NAME)), ".parquet"));
    }
}
