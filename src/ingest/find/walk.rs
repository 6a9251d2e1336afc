//! Which files a PATH holds, what each one is by its first bytes, and the folder of its job.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::ingest::find::objects::{self, Entry};
use crate::ingest::options::Kinds;
use crate::input::place::{self, Place, absolute, is_remote};
use crate::pool::each;
use crate::readers::contract::Kind;
use crate::readers::sniff::{kind_of, names_json};
use crate::store::manifest::SourceFile;

/// A file to look at. The disk, or the store, is asked once where it lies, how large it is, and
/// when it was written.
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
            kind: is_remote(&self.file)
                .then(|| format!("{:?}", self.kind))
                .filter(|_| self.kind.is_read()),
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
                // To fetch an object for its hash is no less than to read it.
                || !is_remote(&self.place.file)
                    && !then.sha256.is_empty()
                    && place::sha256(&self.place.file).is_ok_and(|h| h == then.sha256))
    }
}

/// Every candidate below `path`, in the order of the names. Objects whose kinds are known are not
/// looked at.
///
/// # Errors
/// `file-unreadable` when `path` itself cannot be read. A file below it that cannot be opened is a
/// candidate like any other: reading it will fail, and say so. So is a link to nowhere whose name
/// says JSON: the file of a rank may be missing.
pub fn below(path: &Path, rank: Option<i64>, kinds: &Kinds) -> Result<Vec<Candidate>> {
    if is_remote(path) {
        return below_url(path, rank, kinds);
    }
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

/// Objects that are looked at side by side: the time goes into waiting.
const SIDE_BY_SIDE: usize = 16;

/// Every candidate below a URL, in the order in which a walk would meet them.
fn below_url(path: &Path, rank: Option<i64>, kinds: &Kinds) -> Result<Vec<Candidate>> {
    let (entries, direct) = objects::entries(path, &OF_NSYS)?;
    let look = |entry: &Entry| match entry {
        Entry::File(file) => match place::stat(file).ok().and_then(|now| kinds.of(file, now)) {
            Some(kind) => Ok(vec![Candidate::new(Place::file(file), kind, direct, rank)]),
            None => candidates_of(file, direct, rank),
        },
        Entry::NsysFolder(folder) => {
            Ok(vec![Candidate::new(Place::file(folder), Kind::NsysFolder, direct, rank)])
        }
        Entry::Odd(name) => {
            let kind = Kind::Other("an object whose key is no path");
            Ok(vec![Candidate::new(Place::file(name), kind, false, rank)])
        }
    };
    Ok(each(SIDE_BY_SIDE, &entries, look)?.into_iter().flatten().collect())
}

/// Files that an export of Nsight Systems into a folder has.
const OF_NSYS: [&str; 2] = ["META_DATA_EXPORT.parquet", "StringIds.parquet"];

/// Whether a folder is one export of Nsight Systems.
fn is_nsys_folder(path: &Path) -> bool {
    OF_NSYS.iter().all(|f| path.join(f).is_file())
}

/// The candidates that a file is: itself, or the members of an archive.
fn candidates_of(path: &Path, direct: bool, rank: Option<i64>) -> Result<Vec<Candidate>> {
    let place = Place::file(path);
    let kind = kind_of(&place);
    if kind != Kind::Other("a zip archive") {
        return Ok(vec![Candidate::new(place, kind, direct, rank)]);
    }
    let mut names = place::names_in_archive(path)?;
    names.retain(|name| !name.ends_with('/'));
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
