//! Reads the SQLite export of one report of NVIDIA Nsight Systems.
//!
//! In: a database of any schema from 2020 on, plain, gzip or in a zip archive, or a report that
//! `nsys` turns into one. Out: a `Share` for each rank that the file holds (a process and the
//! device that it drives), and one for what is of no rank. Not here: which rank each of them is
//! (`ingest::ranks::nsys`).
//!
//! Traps of the format (section numbers of the format notes): tables and columns come and go with
//! the version (1), so they are looked up; ids of correlations and domains are unique only within a
//! process (4, 5); a grouped launch of NCCL serves several calls (6); the environment lies in the
//! file twice, secrets included (7).

mod chains;
mod context;
mod database;
mod gather;
mod ids;
mod layout;
mod names;
mod nccl;
mod nvtx;
mod parquet_folder;
mod payload;
mod reader;
mod recent;
mod report;
mod rows;
mod tables;
mod target;

use std::path::Path;

use crate::error::{Result, io};
use crate::input::place::{self, Place};
use crate::input::unpacked::{self, Local};
use crate::readers::contract::{Answer, Kind, Reading};
use crate::readers::nsys::database::Database;
use crate::readers::nsys::gather::Gather;

/// Reads a database, or a report or a folder that is made into one.
///
/// # Errors
/// `trace-truncated`, `database-corrupt`, `database-locked`, `gzip-broken`, `value-too-large`,
/// `nsys-unusable` for the file; `nsys-missing` for a report without the program that reads it;
/// `io` when the spool cannot be written. With `keep_partial`, a damaged part of the database is a
/// finding.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let (place, pool) = (reading.place, reading.pool);
    let shown = place.display();
    let folder = (reading.folder)(0)?;
    let exported = folder.join("export.sqlite");
    // A file that SQLite can open is read where it lies; anything else is made into one first.
    let local = match reading.kind {
        Kind::NsysReport => {
            if place.member.is_some() || place::is_remote(&place.file) {
                let report = folder.join("report.nsys-rep");
                let (sha256, cut) = unpacked::unpack(place, &report, |_| None, reading.watcher)?;
                if let Some(cut) = cut {
                    return Err(cut);
                }
                let done = report::export(&report, &exported, &shown, reading.watcher);
                let _ = std::fs::remove_file(&report);
                done?;
                Local::made(exported, sha256)
            } else {
                report::export(&place.file, &exported, &shown, reading.watcher)?;
                Local::at(exported, true, place.file.clone(), pool)
            }
        }
        Kind::NsysFolder if place::is_remote(&place.file) => {
            let copy = folder.join("parquetdir");
            let sha256 = fetched(&place.file, &copy, reading)?;
            let done = parquet_folder::convert(&copy, &exported, &shown);
            let _ = std::fs::remove_dir_all(&copy);
            done?;
            Local::made(exported, sha256)
        }
        Kind::NsysFolder => {
            parquet_folder::convert(&place.file, &exported, &shown)?;
            Local::at(exported, true, place.file.clone(), pool)
        }
        _ => {
            let copy = folder.join("unpacked.sqlite");
            Local::open(place, &copy, database::size, false, pool, reading.watcher)?
        }
    };
    let out = (|| -> Result<_> {
        let database = Database::open(&local.path, &shown)?;
        if let Some(what) = not_nsys(&database) {
            return Ok(Err(what));
        }
        let bytes = std::fs::metadata(&local.path).map_err(|e| io(&local.path, &e))?.len();
        // What was unpacked was told while it was.
        let gather = Gather::new(reading, database, folder, bytes, !local.is_copy)?;
        gather.run().map(Ok)
    })();
    let sha256 = local.close(pool);
    Ok(match out? {
        Ok(shares) => Answer::Shares { shares, sha256: sha256? },
        Err(what) => Answer::Other(what),
    })
}

/// Fetches the files of a folder in an object store; the hash of the folder.
fn fetched(folder: &Path, to: &Path, reading: &Reading<'_>) -> Result<String> {
    std::fs::create_dir_all(to).map_err(|e| io(to, &e))?;
    for file in place::files_of(folder)? {
        // Only tables are read, and their names are checked again where they are.
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".parquet") && name.len() < 200 && !name.starts_with('.') {
            let place = Place::file(&file);
            if let (_, Some(cut)) =
                unpacked::unpack(&place, &to.join(name), |_| None, reading.watcher)?
            {
                return Err(cut);
            }
        }
    }
    place::sha256(folder)
}

/// What a database is that holds nothing of Nsight Systems.
fn not_nsys(database: &Database) -> Option<String> {
    let marks = ["META_DATA_EXPORT", "EXPORT_META_DATA", "StringIds", "NVTX_EVENTS", "OSRT_API"];
    let is_mark = |table: &str| marks.contains(&table) || table.starts_with("CUPTI_ACTIVITY_KIND_");
    if database.tables.keys().any(|table| is_mark(table)) {
        return None;
    }
    if let Some(view) = database.left_out.iter().find(|view| is_mark(view)) {
        return Some(format!("an SQLite database in which {view} is no table but a view"));
    }
    let some: Vec<&str> = database.tables.keys().take(4).map(String::as_str).collect();
    Some(match some.is_empty() {
        true => "an SQLite database without tables".to_owned(),
        false => format!(
            "an SQLite database that is no export of Nsight Systems (its tables: {})",
            some.join(", ")
        ),
    })
}
