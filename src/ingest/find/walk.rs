//! Which files a PATH holds, what each one is by its first bytes, and the folder of its job.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::input::place::{self, Place, absolute};
use crate::readers::contract::Kind;
use crate::readers::sniff::{kind_of, names_json};
use crate::store::manifest::SourceFile;

/// A file to look at. The disk is asked once where it lies, how large it is, and when it was
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Place of the file.
    pub place: Place,
    /// Kind of the file, by its first bytes.
    pub kind: Kind,
    /// Whether the user named this very file.
    pub direct: bool,
    /// Rank given by `--rank`.
    pub rank: Option<i64>,
    /// The path of the file from the root of the file system.
    pub file: PathBuf,
    /// The path by which a later ingest finds it again: of a member of an archive also its name.
    pub absolute: PathBuf,
    /// Bytes on disk, and when they were written; None where the file cannot be asked.
    size_and_time: Option<(u64, i64)>,
}

impl Candidate {
    /// The candidate at a place.
    pub(crate) fn new(place: Place, kind: Kind, direct: bool, rank: Option<i64>) -> Self {
        let file = absolute(&place.file);
        let logical = Place { file: file.clone(), ..place.clone() }.logical();
        let size_and_time = place::stat(&place.file).ok();
        Self { place, kind, direct, rank, file, absolute: logical, size_and_time }
    }

    /// Bytes on disk, as far as they are known.
    pub(crate) fn bytes(&self) -> u64 {
        self.size_and_time.map_or(0, |(bytes, _)| bytes)
    }

    /// The entry of the file in a manifest; None where the file could not be asked.
    pub(crate) fn source(&self, source_id: i64) -> Option<SourceFile> {
        let (bytes, mtime_ns) = self.size_and_time?;
        Some(SourceFile {
            source_id,
            source: self.kind.source(),
            path: self.place.display(),
            absolute: self.absolute.clone(),
            rank: None,
            rank_flag: self.rank,
            bytes,
            mtime_ns,
            sha256: String::new(),
            events: 0,
            skipped: 0,
        })
    }

    /// Whether it is the file that was read.
    pub(crate) fn is_same(&self, now: &SourceFile, then: &SourceFile) -> bool {
        now.bytes == then.bytes
            && now.rank_flag == then.rank_flag
            && (now.mtime_ns == then.mtime_ns
                || !then.sha256.is_empty()
                    && place::sha256(&self.place.file).is_ok_and(|h| h == then.sha256))
    }
}

/// Every candidate below `path`, in the order of the names.
///
/// # Errors
/// `file-unreadable` when `path` itself cannot be read. A file below it that cannot be opened is a
/// candidate like any other: reading it will fail, and say so. So is a link to nowhere whose name
/// says JSON: the file of a rank may be missing.
pub fn below(path: &Path, rank: Option<i64>) -> Result<Vec<Candidate>> {
    let metadata = std::fs::metadata(path).map_err(|e| {
        Error::new("file-unreadable", format!("cannot open the path: {e}"))
            .at(path.display().to_string())
            .hint("check the spelling; a relative path counts from the current folder")
    })?;
    if !metadata.is_dir() {
        return candidates_of(path, true, rank);
    }
    let folder =
        |path: &Path, direct| Candidate::new(Place::file(path), Kind::NsysFolder, direct, rank);
    if is_nsys_folder(path) {
        return Ok(vec![folder(path, true)]);
    }
    let hidden = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() > 0
            && (name.starts_with('.') || (entry.file_type().is_dir() && name.starts_with("trace=")))
    };
    let mut out = Vec::new();
    let walk = WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter();
    let mut walk = walk.filter_entry(|e| !hidden(e));
    while let Some(entry) = walk.next() {
        match entry {
            Ok(entry) if entry.file_type().is_dir() && is_nsys_folder(entry.path()) => {
                out.push(folder(entry.path(), false));
                walk.skip_current_dir();
            }
            Ok(entry) if entry.file_type().is_file() => {
                out.extend(candidates_of(entry.path(), false, rank)?);
            }
            Ok(_) => {}
            // A link to a folder that it lies in: what is there is walked already.
            Err(e) if e.loop_ancestor().is_some() => {}
            Err(e) if e.path().is_some_and(Path::is_symlink) => {
                let place = Place::file(e.path().unwrap_or(path));
                let name = place.file.file_name().unwrap_or_default().to_string_lossy();
                if !name.starts_with('.') {
                    let kind = match names_json(&name.to_lowercase()) {
                        true => Kind::Json,
                        false => Kind::Other("a link to nowhere"),
                    };
                    out.push(Candidate::new(place, kind, false, rank));
                }
            }
            Err(e) => {
                return Err(Error::new("file-unreadable", format!("cannot list the folder: {e}"))
                    .at(path.display().to_string()));
            }
        }
    }
    Ok(out)
}

/// Whether a folder is one export of Nsight Systems.
fn is_nsys_folder(path: &Path) -> bool {
    ["META_DATA_EXPORT.parquet", "StringIds.parquet"].iter().all(|f| path.join(f).is_file())
}

fn candidates_of(path: &Path, direct: bool, rank: Option<i64>) -> Result<Vec<Candidate>> {
    let place = Place::file(path);
    let kind = kind_of(&place);
    if kind != Kind::Other("a zip archive") {
        return Ok(vec![Candidate::new(place, kind, direct, rank)]);
    }
    let archive = std::fs::File::open(path)
        .map_err(zip::result::ZipError::Io)
        .and_then(zip::ZipArchive::new)
        .map_err(|e| {
            Error::new("file-unreadable", format!("cannot read the zip archive: {e}"))
                .at(path.display().to_string())
        })?;
    let mut names: Vec<String> = archive
        .file_names()
        .filter_map(|name| Some(name.ok()?.into_owned()))
        .filter(|name| !name.ends_with('/'))
        .collect();
    names.sort();
    Ok(names
        .into_iter()
        .map(|member| {
            let place = Place { file: path.to_owned(), member: Some(member) };
            let kind = kind_of(&place);
            Candidate::new(place, kind, false, rank)
        })
        .collect())
}

/// The entry of a candidate in a manifest, its size and time asked now: it is about to be read.
///
/// # Errors
/// `io` when the file cannot be asked.
pub(crate) fn source_of(candidate: &Candidate, source_id: i64) -> Result<SourceFile> {
    let size_and_time = Some(place::stat(&candidate.place.file)?);
    let asked_now = Candidate { size_and_time, ..candidate.clone() };
    Ok(asked_now.source(source_id).expect("its size and time are known"))
}
