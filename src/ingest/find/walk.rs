//! Which files a PATH holds, what each one is by its first bytes, and the folder of its job.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::input::place::{self, Place, absolute};
use crate::readers::contract::Kind;
use crate::readers::sniff::{kind_of, names_json};
use crate::store::manifest::Source;

/// A file to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it lies.
    pub place: Place,
    /// What it looks like.
    pub kind: Kind,
    /// Whether the user named this very file.
    pub direct: bool,
    /// Rank given by `--rank`.
    pub rank: Option<i64>,
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
    let folder = |path: &Path, direct| Candidate {
        place: Place::file(path),
        kind: Kind::NsysFolder,
        direct,
        rank,
    };
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
                    out.push(Candidate { place, kind, direct: false, rank });
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
        return Ok(vec![Candidate { place, kind, direct, rank }]);
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
            Candidate { place, kind, direct: false, rank }
        })
        .collect())
}

/// The path by which a candidate is found again.
pub(crate) fn place_of(candidate: &Candidate) -> PathBuf {
    let file = absolute(&candidate.place.file);
    Place { file, ..candidate.place.clone() }.logical()
}

pub(crate) fn source_of(candidate: &Candidate, source_id: i64) -> Result<Source> {
    let (bytes, mtime_ns) = place::stat(&candidate.place.file)?;
    Ok(Source {
        source_id,
        source: candidate.kind.source().to_owned(),
        path: candidate.place.display(),
        absolute: place_of(candidate),
        rank: None,
        rank_flag: candidate.rank,
        bytes,
        mtime_ns,
        sha256: String::new(),
        events: 0,
        skipped: 0,
    })
}
