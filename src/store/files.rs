//! The files of a trace directory: linked, counted, and where those of a rank lie.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Result, io};
use crate::schema::{self, TABLES};
use crate::spool::parquet;

/// A second name for a file, or a copy where links do not work.
///
/// # Errors
/// `io` when neither works, or `to` is there: it may be another name of a file that must stay.
pub fn link(from: &Path, to: &Path) -> Result<()> {
    match std::fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(io(to, &e)),
        Err(_) => std::fs::copy(from, to).map(|_| ()).map_err(|e| io(to, &e)),
    }
}

/// The folder of a rank in a table whose files lie by rank; NULL is written as every engine that
/// partitions by folders writes it.
pub fn rank_folder(rank: Option<i64>) -> String {
    match rank {
        Some(rank) => format!("rank={rank}"),
        None => "rank=__HIVE_DEFAULT_PARTITION__".to_owned(),
    }
}

/// A second name for every file below `from`, under `to` (copies where links do not work).
pub(crate) fn link_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(|e| io(to, &e))?;
    for entry in std::fs::read_dir(from).map_err(|e| io(from, &e))? {
        let entry = entry.map_err(|e| io(from, &e))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            link_tree(&entry.path(), &target)?;
        } else {
            link(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Rows of every table in a trace directory, from the footers.
///
/// # Errors
/// `io` when a file cannot be read.
pub fn count_rows(directory: &Path) -> Result<BTreeMap<String, u64>> {
    let mut out = BTreeMap::new();
    for table in TABLES {
        let files = schema::files(directory, table);
        if files.is_empty() {
            continue;
        }
        let mut rows = 0;
        for file in files {
            rows += parquet::count_rows(&file)?;
        }
        out.insert(table.name.to_owned(), rows);
    }
    Ok(out)
}
