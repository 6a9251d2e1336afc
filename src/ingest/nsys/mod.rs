//! Reads the SQLite export of one report of NVIDIA Nsight Systems.
//!
//! In: a database of any schema from 2020 on, plain, gzip or in a zip archive, or a report that `nsys`
//! turns into one. Out: a [`Share`] for each rank that the file holds (a process and the device that it
//! drives), and one for what is of no rank. Not here: which rank each of them is (`job::nodes`).
//!
//! Traps of the format (section numbers of the format notes): tables and columns come and go with the
//! version (1), so they are looked up; ids of correlations and domains are unique only within a process
//! (4, 5); a grouped launch of NCCL serves several calls (6); the environment lies in the file twice,
//! secrets included (7).

mod context;
mod database;
mod gather;
mod layout;
mod names;
mod nccl;
mod parquet_folder;
mod payload;
mod report;
mod rows;
mod tables;
mod target;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use self::database::Database;
use self::gather::Gather;
use super::input::{self, Place};
use super::pool::Pool;
use super::record::Share;
use super::steps::StepPatterns;
use super::watch::Watcher;
use crate::error::{Error, Result, io};

/// What is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An SQLite database.
    Database,
    /// A report, which `nsys` has to export.
    Report,
    /// A folder with a Parquet file for each table.
    Folder,
}

/// How a file is to be read.
pub struct Reading<'a> {
    /// Where it lies.
    pub place: &'a Place,
    /// What it is.
    pub form: Form,
    /// Makes the folder for the spool files of a share.
    pub folder: &'a dyn Fn(usize) -> Result<PathBuf>,
    /// Number of the source, for the ids of events.
    pub source_id: i64,
    /// Whether what can be read of a damaged file is kept.
    pub keep_partial: bool,
    /// Threads that share the work.
    pub pool: &'a Arc<Pool>,
    /// What marks steps.
    pub steps: &'a Arc<StepPatterns>,
    /// Who is told how far it is.
    pub watcher: &'a Watcher,
}

/// What a file held.
#[derive(Debug)]
pub struct Nsys {
    /// The ranks, and what is of none, in the order of their folders.
    pub shares: Vec<Share>,
    /// SHA-256 of the file on disk.
    pub sha256: String,
}

/// Reads a file; what it is, when it is an SQLite database of something else.
///
/// # Errors
/// `trace-truncated`, `database-corrupt`, `database-locked`, `gzip-broken`, `value-too-large`,
/// `nsys-unusable` for the file; `nsys-missing` for a report without the program that reads it; `io`
/// when the spool cannot be written. With `keep_partial`, a damaged part of the database is a finding.
pub fn read(reading: &Reading<'_>) -> Result<Result<Nsys, String>> {
    let shown = reading.place.display();
    let folder = (reading.folder)(0)?;
    // A file that SQLite can open is read where it lies; anything else is unpacked first.
    let mut unpacked = None;
    let (path, sha256) = if reading.form != Form::Database {
        let path = folder.join("export.sqlite");
        match reading.form {
            Form::Report if reading.place.member.is_some() => {
                let report = folder.join("report.nsys-rep");
                unpack(reading, &report)?;
                let exported = report::export(&report, &path, &shown, reading.watcher);
                let _ = std::fs::remove_file(&report);
                exported?;
            }
            Form::Report => report::export(&reading.place.file, &path, &shown, reading.watcher)?,
            _ => parquet_folder::convert(&reading.place.file, &path, &shown)?,
        }
        unpacked = Some(path.clone());
        (path, Hash::Later(reading.place.file.clone()))
    } else if is_plain(reading.place)? {
        (reading.place.file.clone(), Hash::Later(reading.place.file.clone()))
    } else {
        let path = folder.join("unpacked.sqlite");
        let sha256 = unpack(reading, &path)?;
        unpacked = Some(path.clone());
        (path, Hash::Known(sha256))
    };
    let tells = matches!(sha256, Hash::Later(_)) && reading.form == Form::Database;
    let hash = Arc::new(Mutex::new(None));
    if let Hash::Later(file) = &sha256 {
        let (hash, file) = (hash.clone(), file.clone());
        reading.pool.submit(move || {
            *lock(&hash) = Some(input::sha256(&file));
        });
    }
    let out = (|| -> Result<_> {
        let database = Database::open(&path, &shown)?;
        if let Some(what) = not_nsys(&database) {
            return Ok(Err(what));
        }
        let bytes = std::fs::metadata(&path).map_err(|e| io(&path, &e))?.len();
        let gather = Gather::new(reading, database, folder, bytes, tells)?;
        gather.run().map(Ok)
    })();
    if let Hash::Later(_) = sha256 {
        reading.pool.wait(|| lock(&hash).is_some());
    }
    let sha256 = match sha256 {
        Hash::Known(sha256) => sha256,
        Hash::Later(_) => lock(&hash).take().expect("it was waited for")?,
    };
    if let Some(path) = unpacked {
        // The rows are in the spool; the workspace is removed anyway.
        let _ = std::fs::remove_file(path);
    }
    Ok(out?.map(|shares| Nsys { shares, sha256 }))
}

enum Hash {
    Known(String),
    /// Taken while the file is read.
    Later(PathBuf),
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether SQLite can open the file as it lies.
fn is_plain(place: &Place) -> Result<bool> {
    use std::io::Read;
    if place.member.is_some() {
        return Ok(false);
    }
    let unreadable = |e: std::io::Error| {
        Error::new("file-unreadable", format!("cannot open the file: {e}")).at(place.display())
    };
    let mut head = [0; 2];
    let mut file = File::open(&place.file).map_err(unreadable)?;
    Ok(file.read_exact(&mut head).is_err() || head != [0x1f, 0x8b])
}

/// Unpacks a file into the workspace; SHA-256 of what lies on disk.
fn unpack(reading: &Reading<'_>, to: &Path) -> Result<String> {
    let shown = reading.place.display();
    let mut opened = input::open(reading.place, reading.watcher)?;
    let mut out = BufWriter::new(File::create(to).map_err(|e| io(to, &e))?);
    let mut reader = std::mem::replace(&mut opened.reader, Box::new(std::io::empty()));
    let mut buffer = vec![0; 256 << 10];
    let (mut head, mut written) = (Vec::new(), 0);
    loop {
        let n = match std::io::Read::read(&mut reader, &mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(Error::new("trace-truncated", "the compressed file ends early")
                    .at(shown)
                    .hint("copy the file again"));
            }
            Err(e) => {
                return Err(Error::new("gzip-broken", format!("the file cannot be unpacked: {e}"))
                    .at(shown)
                    .hint("copy the file again"));
            }
        };
        // What follows the pages that the header counts is not of the database.
        head.extend_from_slice(&buffer[..n.min(100_usize.saturating_sub(head.len()))]);
        let room = database::size(&head).map_or(u64::MAX, |size| size.saturating_sub(written));
        let kept = n.min(usize::try_from(room).unwrap_or(usize::MAX));
        written += kept as u64;
        std::io::Write::write_all(&mut out, &buffer[..kept]).map_err(|e| io(to, &e))?;
    }
    std::io::Write::flush(&mut out).map_err(|e| io(to, &e))?;
    drop(reader);
    opened.sha256(&reading.place.file)
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
