//! What a stage reads, as views: ingested tables, and derived tables of stages before it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use duckdb::Connection;

use crate::derive::files::{RankFiles, files_of};
use crate::derive::stages::Stage;
use crate::engine::select;
use crate::error::Result;
use crate::registry::Registry;
use crate::schema::{self, Made, TABLES};
use crate::sql_text::{sql_name, sql_path};
use crate::store::files::rank_folder;

/// Makes ingested tables visible, those of these names: of all ranks, or of some that follow each
/// other.
pub(super) fn show(
    directory: &Path,
    connection: &Connection,
    names: &BTreeSet<&str>,
    of: Option<(&[i64], &RankFiles)>,
) -> Result<()> {
    let wanted = |t: &&schema::Table| t.made == Made::Ingest && names.contains(t.name);
    for table in TABLES.iter().filter(wanted) {
        let mut only = String::new();
        let files = match of {
            // What is of no rank may be of any of them.
            Some((ranks, _)) if table.by_rank => ranks
                .iter()
                .map(|rank| Some(*rank))
                .chain([None])
                .flat_map(|rank| {
                    files_of(directory, &format!("{}/{}", table.name, rank_folder(rank)))
                })
                .collect(),
            Some((ranks @ ([first, .., last] | [first @ last]), files)) => {
                match files.with(table.name, *first, *last) {
                    Some(files) => {
                        only = format!(" WHERE {} OR rank IS NULL", between(ranks));
                        files
                    }
                    None => schema::files(directory, table),
                }
            }
            _ => schema::files(directory, table),
        };
        connection.execute_batch(&format!(
            "CREATE OR REPLACE VIEW {} AS {}{only}",
            table.name,
            match only.is_empty() {
                true => select(table, &files),
                false => format!("SELECT * FROM ({})", select(table, &files)),
            }
        ))?;
    }
    Ok(())
}

/// Makes derived tables of stages before visible: of all ranks, or of a part.
pub(super) fn show_derived(
    registry: &Registry,
    directory: &Path,
    connection: &Connection,
    stage: &Stage<'_>,
    of: Option<(&[i64], &str)>,
) -> Result<()> {
    let is_read = |name: &str| {
        stage.reads.contains(name) && !stage.files.iter().any(|f| f.header.name == name)
    };
    for file in registry.derived().into_iter().filter(|f| is_read(&f.header.name)) {
        let (name, by_rank) = (&*file.header.name, file.header.by_rank);
        let files: Vec<PathBuf> = match of {
            Some((_, part)) if by_rank => {
                let file = directory.join(name).join(format!("{part}.parquet"));
                file.exists().then_some(file).into_iter().collect()
            }
            _ => files_of(directory, name),
        };
        let (all, has_rank) = match schema::table(name) {
            Some(table) => (select(table, &files), table.columns.iter().any(|c| c.name == "rank")),
            None => {
                let list: Vec<String> = files.iter().map(|f| sql_path(f)).collect();
                let list = list.join(", ");
                let all =
                    format!("SELECT * FROM read_parquet([{list}], hive_partitioning = false)");
                (all, file.header.columns.iter().any(|c| c.name == "rank"))
            }
        };
        let only = match of {
            // The file of a part has its ranks alone.
            Some((ranks, _)) if has_rank && !by_rank => format!(" WHERE {}", between(ranks)),
            _ => String::new(),
        };
        connection.execute_batch(&format!(
            "CREATE OR REPLACE VIEW {} AS SELECT * FROM ({all}){only}",
            sql_name(name)
        ))?;
    }
    Ok(())
}

/// The condition that a row is of one of these ranks. They follow each other: a list of many is
/// compared one by one.
fn between(ranks: &[i64]) -> String {
    match ranks {
        [first, .., last] | [first @ last] => format!("rank BETWEEN {first} AND {last}"),
        [] => "false".to_owned(),
    }
}
