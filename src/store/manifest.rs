//! `manifest.json`: what a trace directory was made from.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::input::place::stat;
use crate::schema::source::Source;
use crate::schema::{SCHEMA_VERSION, TABLES, files};
use crate::store::files::RemoteFile;

/// Options of a trace besides those that change the rows of a file ([`Asked`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The paths that were given.
    pub paths: Vec<Stored>,
    /// The only source (`--source`).
    pub source: Option<String>,
    /// Ranks given by hand (`--rank`).
    pub ranks: Vec<(i64, Stored)>,
    /// Snapshots of memory given by hand (`--memory`).
    pub memory: Vec<Stored>,
    /// The card (`--card`).
    pub card: Option<KeptFile>,
    /// The configuration (`--config`).
    pub config: Option<KeptFile>,
}

/// A small file that was given, with what it said: it may be gone when the trace is read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Path of the file.
    pub path: Stored,
    /// Content of the file.
    pub value: Value,
}

impl Kept {
    /// The paths of all files that were given.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = &mut Stored> {
        let files = self.card.iter_mut().chain(&mut self.config).map(|file| &mut file.path);
        let ranks = self.ranks.iter_mut().map(|(_, path)| path);
        self.paths.iter_mut().chain(ranks).chain(&mut self.memory).chain(files)
    }
}

/// Name of the file in a trace directory.
pub const FILE: &str = "manifest.json";

/// Name of the file in the directory of a trace whose other files still lie in an object store.
pub const PARTIAL: &str = ".partial";

/// One file that was read, or set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Number in the trace.
    pub source_id: i64,
    /// Profiler that wrote it.
    pub source: Source,
    /// Path as given.
    pub path: String,
    /// Absolute path, by which a later ingest finds it again.
    #[serde(with = "path_text")]
    pub absolute: PathBuf,
    /// Rank; None for a file that was set aside, and for what is of no rank.
    pub rank: Option<i64>,
    /// Rank given by `--rank`.
    #[serde(default)]
    pub rank_flag: Option<i64>,
    /// Kind of an object, so that its bytes need not be looked at to know it; None for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Size on disk.
    pub bytes: u64,
    /// Modification time, nanoseconds since the Unix epoch; of an object a number for its version.
    pub mtime_ns: i64,
    /// Hash of the bytes on disk; empty for a file that was set aside.
    pub sha256: String,
    /// Events kept.
    pub events: u64,
    /// Events left out.
    pub skipped: u64,
}

/// Whether execution traces of these sources lie beside traces of a profiler. A record of a
/// benchmark is none.
pub fn beside(sources: impl IntoIterator<Item = Source>) -> bool {
    sources.into_iter().any(|source| !matches!(source, Source::Et | Source::Bench))
}

/// The manifest of a trace directory: the files it was made from, and the program that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the trace.
    pub trace: String,
    /// Version of the tables.
    pub schema_version: u32,
    /// Version of the readers that made the rows; 0 where an earlier version wrote the manifest.
    #[serde(default)]
    pub reader_version: u32,
    /// Version of the program.
    pub ccl_sql: String,
    /// Folder of the job.
    #[serde(with = "path_text")]
    pub root: PathBuf,
    /// Whether the user named it (`--name`, `rename`).
    pub named: bool,
    /// The name that the user asked for; where that was taken the trace has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Names that it had before; they still find it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The path that its name comes from: its folder, or its file. None where an earlier version
    /// wrote the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Stored>,
    /// Options that change the rows of a file.
    pub asked: Asked,
    /// Other options. None where an earlier version wrote the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Files that were read: an entry for each rank in each.
    pub sources: Vec<SourceFile>,
    /// Files of the same folder that are no traces of this job.
    pub set_aside: Vec<SourceFile>,
    /// Card that was read: path, size, time.
    pub cards: Vec<SourceFile>,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
    /// Findings by code.
    pub findings: BTreeMap<String, u64>,
    /// Hash over the SQL of the derived tables.
    pub derived_sha256: String,
    /// Size of each Parquet file, by its path in the directory: a trace that lost one would answer
    /// with wrong numbers.
    #[serde(default)]
    pub files: BTreeMap<String, u64>,
    /// The least and the greatest rank in files that hold some of the ranks, by their paths: a
    /// machine fetches those of its own ranks. Of a data directory in an object store.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spans: BTreeMap<String, (i64, i64)>,
    /// The folder of the files beside the manifest in an object store; None on a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A file of a trace that is in an object store, and not here.
#[derive(Debug, Clone)]
pub struct Away {
    name: String,
    /// The least and the greatest rank in it, where it holds some of the ranks.
    span: Option<(i64, i64)>,
}

impl Away {
    /// The table that it is a file of.
    pub fn table(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Whether it may have rows of some ranks, from the first to the last.
    pub fn overlaps(&self, (first, last): (i64, i64)) -> bool {
        self.span.is_none_or(|span| span.0 <= last && first <= span.1)
    }
}

/// A path that is kept; see [`path_text`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stored(#[serde(with = "path_text")] pub PathBuf);

/// Paths as text. One that is no UTF-8 is written as the digits of its bytes, behind a word that no
/// absolute path starts with.
pub(crate) mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    const BYTES: &str = "bytes:";

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let digits = crate::hash::hex(path.as_os_str().as_bytes());
                serializer.serialize_str(&format!("{BYTES}{digits}"))
            }
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Some(digits) = text.strip_prefix(BYTES) else { return Ok(text.into()) };
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2).unwrap_or(""), 16);
        let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
        Ok(OsString::from_vec(bytes.map_err(serde::de::Error::custom)?).into())
    }
}

impl Manifest {
    /// Reads the manifest of a trace directory.
    ///
    /// # Errors
    /// `trace-unknown` when there is none, it cannot be understood, or the directory lacks a file
    /// that it names.
    pub fn read(directory: &Path) -> Result<Self> {
        loop {
            let before = identity(directory);
            let outcome = Self::read_once(directory);
            // What is damaged may be half of this directory and half of the one in its place.
            if outcome.is_ok() || identity(directory) == before {
                return outcome;
            }
        }
    }

    fn read_once(directory: &Path) -> Result<Self> {
        let manifest = Self::parse(directory)?;
        match manifest.damage(directory) {
            None => Ok(manifest),
            Some(why) => Err(damaged(directory, &why, Some(&manifest.root))),
        }
    }

    /// Reads the manifest of a trace directory whose files may be damaged. The name is that of the
    /// directory.
    ///
    /// # Errors
    /// `trace-unknown` when there is none, or it cannot be understood.
    pub fn parse(directory: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(directory.join(FILE))
            .map_err(|e| damaged(directory, &e.to_string(), None))?;
        if text.trim_start_matches('\0').is_empty() {
            return Err(damaged(directory, "its manifest is empty", None));
        }
        let mut manifest: Self = serde_json::from_str(&text)
            .map_err(|e| damaged(directory, &format!("its manifest cannot be read: {e}"), None))?;
        if let Some(name) = name_of(directory) {
            manifest.trace = name;
        }
        Ok(manifest)
    }

    /// The first file that the directory lacks of those that the manifest names; none where they
    /// are to be fetched.
    pub fn damage(&self, directory: &Path) -> Option<String> {
        if directory.join(PARTIAL).exists() {
            return None;
        }
        self.files.iter().find_map(|(name, bytes)| match std::fs::metadata(directory.join(name)) {
            Ok(found) if found.len() == *bytes => None,
            Ok(found) => Some(format!("{name} has {} bytes, and had {bytes}", found.len())),
            Err(e) => Some(format!("{name}: {e}")),
        })
    }

    /// The files that it names, and the directory lacks.
    pub fn away(&self, directory: &Path) -> Vec<Away> {
        let lacks = self.files.keys().filter(|name| !directory.join(name).exists());
        lacks.map(|name| self.file(name)).collect()
    }

    /// A file that it names.
    pub(super) fn file(&self, name: &str) -> Away {
        Away { name: name.to_owned(), span: self.spans.get(name).copied() }
    }

    /// Whether its name comes from this path, as far as the manifest says it.
    pub fn is_labelled(&self, label: &Path) -> bool {
        self.label.as_ref().is_none_or(|own| own.0 == label)
    }

    /// The path that the name comes from.
    pub fn label(&self) -> &Path {
        self.label.as_ref().map_or(&self.root, |label| &label.0)
    }

    /// Refuses a trace whose tables mean something else than those of this version.
    ///
    /// # Errors
    /// `trace-unknown` with what to ingest again.
    pub fn check_version(&self) -> Result<()> {
        if self.schema_version == SCHEMA_VERSION {
            return Ok(());
        }
        Err(Error::new(
            "trace-unknown",
            format!("the tables of `{}` were made by another version of ccl-sql", self.trace),
        )
        .facts(format!(
            "tables of version {}, this one reads {SCHEMA_VERSION}",
            self.schema_version
        ))
        .hint(format!(
            "ingest it again: ccl-sql ingest {}; or remove its directory",
            self.root.display()
        )))
    }

    /// Writes the manifest into a trace directory that is complete but for it.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn write(&mut self, directory: &Path) -> Result<()> {
        self.files.clear();
        for file in TABLES.iter().flat_map(|table| files(directory, table)) {
            let name = file.strip_prefix(directory).unwrap_or(&file).to_string_lossy().into_owned();
            self.files.insert(name, stat(&file)?.0);
        }
        self.replace(directory, &directory.join(".manifest"))
    }

    /// Names files that lie elsewhere, beside those of the directory.
    pub fn add(&mut self, elsewhere: &[RemoteFile]) {
        for (file, table) in elsewhere.iter().filter_map(|file| Some((file, file.table()?))) {
            *self.rows.entry(table.name.to_owned()).or_default() += file.facts.rows;
            self.files.insert(file.name.clone(), file.bytes);
            self.spans.extend(file.facts.span.map(|span| (file.name.clone(), span)));
        }
    }

    /// Writes the manifest in the place of the one that is there, in one step: another name of the
    /// file that is there keeps what it says. `aside` is where it is written, on the same file
    /// system.
    ///
    /// # Errors
    /// `io` when it cannot be written.
    pub fn replace(&self, directory: &Path, aside: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new("io", format!("cannot write the manifest: {e}")))?;
        let write = || {
            let mut file = std::fs::File::create(aside)?;
            file.write_all((text + "\n").as_bytes())?;
            file.sync_all()?;
            std::fs::rename(aside, &path)
        };
        write().map_err(|e| crate::error::io(&path, &e))
    }

    /// Rows of all tables.
    pub fn row_count(&self) -> u64 {
        self.rows.values().sum()
    }

    /// Profilers that its files are of, each once. An execution trace counts where it lies alone:
    /// beside a trace it only tells more of that.
    pub fn kinds(&self) -> Vec<Source> {
        let mut kinds: BTreeSet<Source> = self.sources.iter().map(|s| s.source).collect();
        if beside(kinds.iter().copied()) {
            kinds.remove(&Source::Et);
        }
        kinds.into_iter().collect()
    }

    /// Ranks that were recorded.
    pub fn ranks(&self) -> BTreeSet<i64> {
        let kinds = self.kinds();
        let counted = self.sources.iter().filter(|s| kinds.contains(&s.source));
        counted.filter_map(|s| s.rank).collect()
    }

    /// One hash that says which bytes the trace was made from.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("schema {}\n", self.schema_version);
        for s in &self.sources {
            text.push_str(&format!("{:?} {}\n", s.rank, s.sha256));
        }
        crate::hash::sha256_text(&text)
    }
}

/// A hash over the name of a trace and its manifest, which says of which bytes the tables were
/// made, and by which version. None where there is no manifest.
pub fn stamp(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join(FILE)).ok()?;
    Some(crate::hash::sha256_text(&format!("{:?}\n{text}", name_of(directory))))
}

/// The name that a directory gives its trace.
pub fn name_of(directory: &Path) -> Option<String> {
    directory.file_name()?.to_str()?.strip_prefix("trace=").map(str::to_owned)
}

fn damaged(directory: &Path, why: &str, root: Option<&Path>) -> Error {
    let again = root.map_or_else(|| "PATH".to_owned(), |root| root.display().to_string());
    Error::new("trace-unknown", "the trace directory is damaged")
        .at(directory.display().to_string())
        .facts(why)
        .hint(format!("ingest it again, which mends it: ccl-sql ingest {again}"))
}

/// The identity of a trace directory: another one that takes its place has another.
pub fn identity(directory: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(directory).ok().map(|m| (m.dev(), m.ino()))
}

/// Options that change the rows of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Whether complete events of a damaged file were kept.
    pub keep_partial: bool,
    /// Names of the ranges that mark steps (`--step-range`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_range: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_file_overlaps_the_ranks_from_its_first_to_its_last() {
        let away = |span| Away { name: "launches/ranks-4-7.parquet".to_owned(), span };
        assert_eq!(away(None).table(), "launches");
        let of = away(Some((4, 7)));
        for ranks in [(0, 4), (7, 9), (5, 6), (0, 9), (4, 7)] {
            assert!(of.overlaps(ranks) && away(None).overlaps(ranks), "{ranks:?}");
        }
        for ranks in [(0, 3), (8, 9)] {
            assert!(!of.overlaps(ranks) && away(None).overlaps(ranks), "{ranks:?}");
        }
    }

    #[test]
    fn a_path_comes_back_whatever_its_bytes_are() {
        let bytes = PathBuf::from(OsString::from_vec(b"/a/\xff\x01z".to_vec()));
        for (path, text) in [(bytes, "\"bytes:2f612fff017a\""), ("/a/b".into(), "\"/a/b\"")] {
            let stored = serde_json::to_string(&Stored(path.clone())).expect("it is written");
            assert_eq!(stored, text);
            assert_eq!(serde_json::from_str::<Stored>(&stored).expect("it is read"), Stored(path));
        }
        for odd in ["\"bytes:2f6\"", "\"bytes:zz\"", "\"bytes:2é\""] {
            assert!(serde_json::from_str::<Stored>(odd).is_err(), "{odd}");
        }
    }
}
