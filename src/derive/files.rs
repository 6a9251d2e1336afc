//! The files of derived tables: written, found, and taken over from an earlier ingest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use duckdb::Connection;

use crate::error::{Result, io};
use crate::registry::header::Header;
use crate::schema::{self, TABLES, Table};
use crate::spool::parquet::rows_and_ranks;
use crate::sql_text::{sql_name, sql_string};

/// Options of `COPY` for derived tables.
const COPY_OPTIONS: &str =
    "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2";

/// Name of the one file of a table that is made over all ranks.
pub(crate) const WHOLE: &str = "part-0000";

/// The columns of a derived table or step without values; None where nothing says their types.
pub(crate) fn empty_columns(header: &Header) -> Option<String> {
    let columns: Vec<(&str, &str)> = match schema::table(&header.name) {
        Some(table) => table.columns.iter().map(|c| (c.name, c.ty.sql())).collect(),
        None => header.columns.iter().map(|c| (&*c.name, &*c.ty)).collect(),
    };
    let column = |(name, ty): &(&str, &str)| format!("CAST(NULL AS {ty}) AS {}", sql_name(name));
    (!columns.is_empty()).then(|| columns.iter().map(column).collect::<Vec<_>>().join(", "))
}

/// `SELECT` of a derived table: the columns of the schema, in its order and types; all of a step.
pub(crate) fn kept_columns(name: &str) -> String {
    let columns = match schema::table(name) {
        None => "*".to_owned(),
        Some(table) => {
            let cast = |c: &schema::Column| {
                format!("CAST({0} AS {1}) AS {0}", sql_name(c.name), c.ty.sql())
            };
            table.columns.iter().map(cast).collect::<Vec<_>>().join(", ")
        }
    };
    format!("SELECT {columns} FROM {}", sql_name(name))
}

/// The files of a table or step in a trace directory.
pub(crate) fn files_of(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(directory.join(name))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "parquet"))
        .collect();
    out.sort();
    out
}

/// A file with the least and the greatest rank in it, where that is known.
type RankFile = (PathBuf, Option<(i64, i64)>);

/// Files of the tables that hold several ranks each.
pub(crate) struct RankFiles(BTreeMap<&'static str, Vec<RankFile>>);

impl RankFiles {
    /// Those of a trace directory.
    ///
    /// # Errors
    /// `io` when one cannot be read.
    pub(crate) fn of(directory: &Path, names: &BTreeSet<&str>) -> Result<Self> {
        let has_ranks = |table: &&Table| table.columns.iter().any(|c| c.name == "rank");
        let several = |table: &&Table| names.contains(table.name) && !table.by_rank;
        let mut out = BTreeMap::new();
        for table in TABLES.iter().filter(several).filter(has_ranks) {
            let files = schema::files(directory, table).into_iter();
            let files = files.map(|file| rows_and_ranks(&file).map(|(_, ranks)| (file, ranks)));
            out.insert(table.name, files.collect::<Result<_>>()?);
        }
        Ok(Self(out))
    }

    /// Those that may hold rows of the ranks from the first to the last, or of no rank; None where
    /// the files of a table are not apart by ranks.
    pub(crate) fn with(&self, table: &str, first: i64, last: i64) -> Option<Vec<PathBuf>> {
        let is_read = |of: &Option<(i64, i64)>| of.is_none_or(|(a, b)| a <= last && first <= b);
        let files = self.0.get(table)?.iter().filter(|(_, of)| is_read(of));
        Some(files.map(|(file, _)| file.clone()).collect())
    }
}

/// The files of one part, as an earlier ingest made them.
pub(crate) fn take_over(
    earlier: &Path,
    directory: &Path,
    names: &[&str],
    part: &str,
) -> Result<()> {
    for name in names {
        let target = part_file(directory, name, part)?;
        let from = earlier.join(name).join(target.file_name().unwrap_or_default());
        if from.exists() {
            crate::store::files::link(&from, &target)?;
        }
    }
    Ok(())
}

pub(crate) fn part_file(directory: &Path, name: &str, part: &str) -> Result<PathBuf> {
    let folder = directory.join(name);
    std::fs::create_dir_all(&folder).map_err(|e| io(&folder, &e))?;
    Ok(folder.join(format!("{part}.parquet")))
}

/// Writes the rows of a query to a file.
pub(crate) fn copy(connection: &Connection, query: &str, target: &Path) -> Result<()> {
    let target = sql_string(&target.to_string_lossy());
    Ok(connection.execute_batch(&format!("COPY ({query}) TO {target} ({COPY_OPTIONS})"))?)
}

/// Whether a query has rows.
pub(super) fn has_rows(connection: &Connection, query: &str) -> Result<bool> {
    let sql = format!("SELECT EXISTS ({query})");
    Ok(connection.query_row(&sql, [], |row| row.get(0))?)
}
