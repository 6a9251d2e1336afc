//! Rows of views in parts, kept on the disk beside their trace: the next question reads them, and
//! not the events that they were computed from.
//!
//! A file has the rows of one view, of all ranks or of a share of them. Its name has a hash
//! over all that the rows depend on, so that no file of another trace, profiler, program or SQL is
//! ever read. What cannot be read is computed again, and what cannot be written is not kept.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::engine::{Engine, key};
use crate::error::Result;
use crate::registry::SqlFile;
use crate::sql_text::{sql_name, sql_path, sql_string};
use crate::store::aside;
use crate::store::shared::PARTIALS;

/// The beginning of the names of files that are being written.
const ASIDE: &str = ".aside-";
/// The type that stands for whole numbers of 128 bits, which Parquet lacks.
const WIDE: &str = "DECIMAL(38,0)";

/// Files that this process wrote aside.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Some of the ranks of a trace that follow each other: one of a number of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which of them, from 0.
    pub place: usize,
    /// How many there are.
    pub of: usize,
}

impl Share {
    /// All ranks.
    pub(super) const ALL: Self = Self { place: 0, of: 1 };

    /// The places of its ranks among all.
    pub fn of_many(self, ranks: usize) -> Range<usize> {
        let until = |place: usize| {
            let before = (ranks as u128 * place as u128).div_ceil(self.of.max(1) as u128);
            usize::try_from(before).map_or(ranks, |before| before.min(ranks))
        };
        until(self.place)..until(self.place.saturating_add(1))
    }
}

/// Where the rows of a view are kept.
struct Kept {
    folder: PathBuf,
    /// What names of files of the view begin with, whatever they were made of.
    view: String,
    /// The same with the hash.
    stem: String,
}

impl Kept {
    fn file(&self, share: Share) -> PathBuf {
        self.folder.join(format!("{}.{}-{}.parquet", self.stem, share.place, share.of))
    }

    /// The share that a file of the view has.
    fn share(&self, name: &str) -> Option<Share> {
        let rest = name.strip_prefix(&self.stem)?.strip_prefix('.')?.strip_suffix(".parquet")?;
        let (place, of) = rest.split_once('-')?;
        Some(Share { place: place.parse().ok()?, of: of.parse().ok()? })
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The files that have all rows, in the order of the ranks; none where some are missing.
    fn files(&self) -> Option<Vec<PathBuf>> {
        let shares: Vec<Share> = self.names().iter().filter_map(|n| self.share(n)).collect();
        let is_whole =
            |of: usize| (0..of).all(|place| shares.contains(&Share { place, of })).then_some(of);
        // A number out of a name is no size: there are as many files as it says, or it is passed.
        let mut counts: Vec<usize> =
            shares.iter().map(|s| s.of).filter(|of| (1..=shares.len()).contains(of)).collect();
        counts.sort_unstable();
        let of = counts.into_iter().find_map(is_whole)?;
        Some((0..of).map(|place| self.file(Share { place, of })).collect())
    }

    /// Removes the files of the view that were made of something else, or by something else.
    fn sweep(&self) {
        for name in self.names() {
            if name.starts_with(&self.view) && !name.starts_with(&self.stem) {
                let _ = std::fs::remove_file(self.folder.join(name));
            }
        }
    }
}

/// The folder for what is kept of a trace.
pub(super) fn folder(data: &Path, directory: &Path) -> PathBuf {
    // What is held of a trace has its name, and what is kept lies beside the trace itself.
    let named = directory.file_name().map(|name| data.join(name)).filter(|place| place.is_dir());
    named.unwrap_or_else(|| directory.to_owned()).join(PARTIALS)
}

impl Engine<'_> {
    /// Where the rows of a view of the trace shown are kept; None where none are.
    fn kept(&self, view: &SqlFile) -> Option<Kept> {
        let data = self.partials.as_deref()?;
        let shown = self.shown.borrow();
        let [trace] = &shown[..] else { return None };
        let stamp = self.stamp_of(&trace.directory)?;
        let terms = json!({"partial": 1, "stamp": stamp, "source": trace.source});
        let key = key::key(self.registry, view, &terms);
        let source = trace.source.as_deref().unwrap_or("all");
        let view = format!("{}@{source}.", view.header.name);
        let stem = format!("{view}{}", &key[..32]);
        Some(Kept { folder: folder(data, &trace.directory), view, stem })
    }

    /// Whether the rows of a view, or those of a share of the ranks, are kept.
    pub(super) fn has_kept(&self, view: &SqlFile, share: Share) -> bool {
        let is_there = |kept: Kept| kept.file(share).is_file() || kept.files().is_some();
        self.kept(view).is_some_and(is_there)
    }

    /// Makes the table of a view out of what is kept. Says whether it was.
    pub(super) fn take_kept(&self, view: &SqlFile) -> bool {
        let Some(files) = self.kept(view).and_then(|kept| kept.files()) else { return false };
        let list: Vec<String> = files.iter().map(|file| sql_path(file)).collect();
        let from = format!("read_parquet([{}], hive_partitioning = false)", list.join(", "));
        let made = self.columns(&from).and_then(|columns| {
            let column = |(name, ty): &(String, String)| match ty.as_str() {
                WIDE => format!("CAST({0} AS HUGEINT) AS {0}", sql_name(name)),
                _ => sql_name(name),
            };
            let columns: Vec<String> = columns.iter().map(column).collect();
            let name = sql_name(&view.header.name);
            let columns = columns.join(", ");
            let sql = format!("CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM {from}");
            Ok(self.connection.execute_batch(&sql)?)
        });
        if made.is_ok() {
            self.made.borrow_mut().insert(view.header.name.clone());
        }
        made.is_ok()
    }

    /// Keeps the rows of a table as those of a view, if it can be.
    pub(super) fn keep(&self, view: &SqlFile, table: &str, share: Share) {
        let Some(kept) = self.kept(view) else { return };
        let _ = std::fs::create_dir(&kept.folder);
        // A link of that name leads elsewhere.
        if !std::fs::symlink_metadata(&kept.folder).is_ok_and(|found| found.is_dir()) {
            return;
        }
        aside::sweep(&kept.folder, |name| name.starts_with(ASIDE));
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let aside = kept.folder.join(format!("{ASIDE}{}-{number}", std::process::id()));
        let is_written = self.write(table, &aside).unwrap_or(false);
        if !is_written || std::fs::rename(&aside, kept.file(share)).is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        kept.sweep();
    }

    /// Writes the rows of a table. Says whether the file gives them back as they are.
    fn write(&self, table: &str, file: &Path) -> Result<bool> {
        let columns = self.columns(table)?;
        // It would come back as what it stands for.
        if columns.iter().any(|(_, ty)| ty == WIDE) {
            return Ok(false);
        }
        let (mut select, mut expected) = (Vec::new(), Vec::new());
        for (name, ty) in columns {
            let column = sql_name(&name);
            if ty == "HUGEINT" {
                select.push(format!("CAST({column} AS {WIDE}) AS {column}"));
                expected.push((name, WIDE.to_owned()));
            } else {
                select.push(column);
                expected.push((name, ty));
            }
        }
        self.connection.execute_batch(&format!(
            "COPY (SELECT {} FROM {table}) TO {} (FORMAT parquet, COMPRESSION zstd)",
            select.join(", "),
            sql_string(&file.to_string_lossy())
        ))?;
        let from = format!("read_parquet({}, hive_partitioning = false)", sql_path(file));
        // A type that Parquet lacks would come back as another.
        Ok(self.columns(&from)? == expected)
    }

    /// Names and types of the columns of what a query reads.
    fn columns(&self, from: &str) -> Result<Vec<(String, String)>> {
        let sql = format!("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {from})");
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<duckdb::Result<_>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Settings;
    use crate::registry::Registry;

    fn kept(folder: &Path, hash: &str) -> Kept {
        let view = "_view@all.".to_owned();
        Kept { folder: folder.to_owned(), stem: format!("{view}{hash}"), view }
    }

    #[test]
    fn shares_have_every_rank_once() {
        for ranks in [0, 1, 2, 3, 7, 64] {
            for of in [1, 2, 3, 8, 65] {
                let mut next = 0;
                for place in 0..of {
                    let mine = Share { place, of }.of_many(ranks);
                    assert_eq!(mine.start, next, "{ranks} ranks, share {place} of {of}");
                    next = mine.end;
                }
                assert_eq!(next, ranks);
            }
        }
        assert_eq!(Share { place: usize::MAX, of: usize::MAX }.of_many(3), 3..3);
    }

    #[test]
    fn rows_are_there_when_every_share_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = kept(folder.path(), "a");
        let write = |name: &str| std::fs::write(folder.path().join(name), "").expect("a file");
        for name in
            ["_view@all.a.0-3.parquet", "_view@all.a.2-3.parquet", "_view@all.b.1-3.parquet"]
        {
            write(name);
        }
        // Names that nobody of ours writes.
        for name in ["_view@all.a.1-0.parquet", "_view@all.a.x-3.parquet", "_view@all.a.1-3.tmp"] {
            write(name);
        }
        write(&format!("_view@all.a.0-{}.parquet", usize::MAX));
        assert_eq!(kept.files(), None);
        write("_view@all.a.1-3.parquet");
        let file = |place| kept.file(Share { place, of: 3 });
        assert_eq!(kept.files(), Some(vec![file(0), file(1), file(2)]));
        write("_view@all.a.0-1.parquet");
        assert_eq!(kept.files(), Some(vec![kept.file(Share::ALL)]), "the fewest files");
    }

    #[test]
    fn what_was_made_of_something_else_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let names =
            ["_view@all.a.0-1.parquet", "_view@all.b.0-1.parquet", "_view@nsys.b.0-1.parquet"];
        for name in names {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        kept(folder.path(), "a").sweep();
        assert_eq!(names.map(|name| folder.path().join(name).exists()), [true, false, true]);
    }

    #[test]
    fn types_that_a_file_would_change_are_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::load(None).expect("the registry loads");
        let engine = Engine::open(&[], &registry, &Settings::default()).expect("DuckDB starts");
        let is_kept = |ty: &str| {
            let sql = format!("CREATE OR REPLACE TABLE t (a {ty})");
            engine.connection.execute_batch(&sql).expect("a table");
            engine.write("t", &folder.path().join("t.parquet")).expect("it can be written")
        };
        for ty in ["BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "HUGEINT", "STRUCT(x BIGINT[])"] {
            assert!(is_kept(ty), "{ty}");
        }
        // The last stands for a HUGEINT, and would come back as one.
        for ty in ["HUGEINT[]", "UHUGEINT", WIDE] {
            assert!(!is_kept(ty), "{ty}");
        }
    }
}
