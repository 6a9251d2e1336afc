//! The files of a trace directory: linked, counted, and where those of a rank lie.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Result, io};
use crate::schema::{self, TABLES, Table};
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

/// What stands for NULL in the name of a folder, wherever folders are parts of a table.
pub(super) const OF_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The folder of a rank in a table whose files lie by rank.
pub fn rank_folder(rank: Option<i64>) -> String {
    match rank {
        Some(rank) => format!("rank={rank}"),
        None => format!("rank={OF_NULL}"),
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

/// What a file of a table says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Rows.
    pub rows: u64,
    /// The least and the greatest rank, where it holds some of the ranks.
    pub span: Option<(i64, i64)>,
}

/// A file of a trace that lies elsewhere in the object store of the data directory: it is copied
/// there, and never here.
#[derive(Debug, Clone)]
pub struct RemoteFile {
    /// Its path in the directory of the trace.
    pub name: String,
    /// Where it lies.
    pub from: PathBuf,
    /// Bytes.
    pub bytes: u64,
    /// What it says of itself.
    pub facts: Facts,
}

impl RemoteFile {
    /// The table that it is a file of; None of steps on the way.
    pub fn table(&self) -> Option<&'static Table> {
        schema::table(self.name.split('/').next()?)
    }
}

/// What the files of all tables in a trace directory say of themselves, by their paths in it.
///
/// # Errors
/// `io` when a file cannot be read.
pub fn facts(directory: &Path) -> Result<BTreeMap<String, Facts>> {
    let mut out = BTreeMap::new();
    for file in TABLES.iter().flat_map(|table| schema::files(directory, table)) {
        let name = file.strip_prefix(directory).ok().and_then(Path::to_str);
        let folder = file.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        let (rows, ranks) = parquet::rows_and_ranks(&file)?;
        let span = match folder.and_then(|folder| folder.strip_prefix("rank=")) {
            Some(rank) => rank.parse().ok().map(|rank| (rank, rank)),
            None => ranks,
        };
        out.extend(name.map(|name| (name.to_owned(), Facts { rows, span })));
    }
    Ok(out)
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
