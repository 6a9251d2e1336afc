//! Bytes in: files, gzip by content, members of zip archives; a window that slides over them.
//!
//! Nothing in a file is trusted as a size: buffers grow with the bytes that really come, and a
//! single value may not pass [`MAX_VALUE_BYTES`](crate::input::window::MAX_VALUE_BYTES).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::input::progress::Watcher;
use crate::pool::lock;
use crate::remote::{self, Found};

/// Bytes that the window asks for at a time.
pub(crate) const CHUNK: usize = 1 << 20;

/// The place of the bytes of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file as the user named it.
    pub file: PathBuf,
    /// The member, when the file is a zip archive.
    pub member: Option<String>,
}

impl Place {
    /// A plain file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { file: path.into(), member: None }
    }

    /// The text that messages and `sources.path` show.
    pub fn display(&self) -> String {
        match &self.member {
            None => self.file.display().to_string(),
            Some(member) => format!("{}/{member}", self.file.display()),
        }
    }

    /// The path whose folders and name say what the trace is: a zip counts as a folder.
    pub fn logical(&self) -> PathBuf {
        match &self.member {
            None => self.file.clone(),
            Some(member) => self.file.join(member),
        }
    }
}

/// The bytes of a file as it lies there. Both handles of one share a position.
enum Bytes {
    File(File),
    Object(Arc<Mutex<remote::Stream>>),
}

impl Bytes {
    fn other_handle(&self) -> io::Result<Self> {
        Ok(match self {
            Self::File(file) => Self::File(file.try_clone()?),
            Self::Object(stream) => Self::Object(stream.clone()),
        })
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Object(stream) => lock(stream).read(buffer),
        }
    }
}

/// Hashes what is read through it, and tells how much it was.
struct Hashing {
    file: Bytes,
    hash: Arc<Mutex<Sha256>>,
    watcher: Watcher,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        lock(&self.hash).update(&buffer[..n]);
        self.watcher.tell(|w| w.read(n as u64));
        self.watcher.go_on().map_err(|e| io::Error::other(e.message))?;
        Ok(n)
    }
}

/// An open source: its bytes, and the file under them.
pub struct Opened {
    /// The uncompressed bytes.
    pub reader: Box<dyn Read + Send>,
    /// The file as it lies on disk.
    pub file: OnDisk,
}

/// A file that is being read, and the hash of what was read of it so far.
pub struct OnDisk(Option<Hashing>);

impl OnDisk {
    /// SHA-256 of the whole file as it lies on disk; reads what was not read yet.
    ///
    /// # Errors
    /// `file-unreadable` when the rest of the file cannot be read.
    pub fn sha256(self, path: &Path) -> Result<String> {
        match self.0 {
            None => sha256(path),
            Some(mut rest) => {
                io::copy(&mut rest, &mut io::sink()).map_err(|e| {
                    Error::new("file-unreadable", format!("the file cannot be read on: {e}"))
                        .at(path.display().to_string())
                })?;
                let hash = lock(&rest.hash).clone();
                Ok(hex(&hash.finalize()))
            }
        }
    }
}

/// The files right in a folder that is one source, sorted.
///
/// # Errors
/// `io` when it cannot be listed.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    if remote::is_url(folder) {
        let files = remote::entries(folder)?.into_iter().filter(|(_, is_folder)| !is_folder);
        return Ok(files.map(|(file, _)| file).collect());
    }
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| crate::error::io(folder, &e))? {
        let path = entry.map_err(|e| crate::error::io(folder, &e))?.path();
        if path.is_file() {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// SHA-256 of a file, as hexadecimal digits; of a folder that is one source, over the names and
/// hashes of its files.
///
/// # Errors
/// `io` when the file cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    if is_dir(path) {
        for file in files_of(path)? {
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(sha256(&file)?);
        }
        return Ok(hex(&hash.finalize()));
    }
    if remote::is_url(path) {
        return remote::sha256(path);
    }
    let mut file = File::open(path).map_err(|e| crate::error::io(path, &e))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer).map_err(|e| crate::error::io(path, &e))? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// The first bytes of the reader, and a reader that still has them.
fn with_head(
    mut reader: impl Read + Send + 'static,
) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = vec![0; 8];
    let mut have = 0;
    while have < head.len() {
        match reader.read(&mut head[have..])? {
            0 => break,
            n => have += n,
        }
    }
    head.truncate(have);
    Ok((head.clone(), Box::new(io::Cursor::new(head).chain(reader))))
}

fn plain_or_gzip(reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let (head, reader) = with_head(reader)?;
    if head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(BufReader::with_capacity(256 << 10, reader))));
    }
    Ok(reader)
}

/// Opens a source for reading, unpacked.
///
/// # Errors
/// `file-unreadable` when it cannot be opened, `io` when its first bytes cannot be read.
pub fn open(place: &Place, watcher: &Watcher) -> Result<Opened> {
    let unreadable = |e: &dyn std::fmt::Display| unreadable(place, e);
    if remote::is_url(&place.file) {
        let stream = remote::open(&place.file)?;
        return match &place.member {
            Some(member) => of_archive(stream, member).map_err(|e| unreadable(&e)),
            None => {
                let stream = Bytes::Object(Arc::new(Mutex::new(stream)));
                plain(stream, watcher).map_err(|e| unreadable(&e))
            }
        };
    }
    let file = on_disk(place)?;
    match &place.member {
        Some(member) => of_archive(file, member),
        None => plain(Bytes::File(file), watcher),
    }
    .map_err(|e| unreadable(&e))
}

/// A file on a disk.
fn on_disk(place: &Place) -> Result<File> {
    // Asked before it is opened: opening a pipe waits for somebody who writes into it.
    let metadata = std::fs::metadata(&place.file).map_err(|e| unreadable(place, &e))?;
    if !metadata.is_file() {
        let is_folder = metadata.is_dir();
        let why = match is_folder {
            true => "it is a directory",
            false => "it is a pipe or a device, which cannot be read twice",
        };
        return Err(unreadable(place, &why));
    }
    File::open(&place.file).map_err(|e| unreadable(place, &e))
}

fn unreadable(place: &Place, e: &dyn std::fmt::Display) -> Error {
    let hint = match place.member {
        Some(_) => "unpack the archive with another program, and ingest what it holds",
        None => "check that it exists and that you may read it",
    };
    Error::new("file-unreadable", format!("cannot open the file: {e}"))
        .at(place.display())
        .hint(hint)
}

/// A member of an archive, unpacked.
fn of_archive(file: impl Read + Seek + Send + 'static, member: &str) -> io::Result<Opened> {
    let archive = zip::ZipArchive::new(BufReader::new(file))?;
    let reader = plain_or_gzip(ZipMember::new(archive, member)?)?;
    Ok(Opened { reader, file: OnDisk(None) })
}

/// A file, unpacked.
fn plain(file: Bytes, watcher: &Watcher) -> io::Result<Opened> {
    let hash = Arc::new(Mutex::new(Sha256::new()));
    let watcher = watcher.clone();
    // What the decoder leaves unread, `sha256` reads.
    let rest = Hashing { file: file.other_handle()?, hash: hash.clone(), watcher: watcher.clone() };
    let reader = plain_or_gzip(Hashing { file, hash, watcher })?;
    Ok(Opened { reader, file: OnDisk(Some(rest)) })
}

/// Bytes of an object that suffice to see what it is.
const SNIFFED: usize = 16 << 10;

/// Opens a source for a look at its first bytes: of an object, no more than a few are asked for.
///
/// # Errors
/// As [`open`].
pub fn peek(place: &Place) -> Result<Box<dyn Read + Send>> {
    if place.member.is_none() && remote::is_url(&place.file) {
        let bytes = remote::first_bytes(&place.file, SNIFFED)?;
        return plain_or_gzip(io::Cursor::new(bytes))
            .map_err(|e| crate::error::io(&place.file, &e));
    }
    if place.member.is_none() {
        // Nobody asks for the hash.
        return plain_or_gzip(on_disk(place)?).map_err(|e| unreadable(place, &e));
    }
    Ok(open(place, &Watcher::default())?.reader)
}

/// The names in a zip archive, in the order of its directory.
///
/// # Errors
/// `file-unreadable` when it cannot be opened, or is none.
pub fn names_in_archive(path: &Path) -> Result<Vec<String>> {
    fn names(file: impl Read + Seek) -> zip::result::ZipResult<Vec<String>> {
        let archive = zip::ZipArchive::new(file)?;
        let names = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned()));
        Ok(names.collect())
    }
    let names = match remote::is_url(path) {
        true => names(BufReader::new(remote::open(path)?)),
        false => File::open(path).map_err(zip::result::ZipError::Io).and_then(names),
    };
    names.map_err(|e| {
        Error::new("file-unreadable", format!("cannot read the zip archive: {e}"))
            .at(path.display().to_string())
    })
}

/// Why the last reading of a file ended early; of a file on a disk its reader knows it.
pub fn fault_of(path: &Path) -> Option<Error> {
    if remote::is_url(path) { remote::fault_of(path) } else { None }
}

/// Whether a path lies in an object store.
pub fn is_remote(path: &Path) -> bool {
    remote::is_url(path)
}

/// Whether a path is a folder; not where nobody can say it.
pub fn is_dir(path: &Path) -> bool {
    match remote::is_url(path) {
        true => matches!(remote::stat(path), Ok(Some(Found::Folder))),
        false => path.is_dir(),
    }
}

/// Whether a path is a file; not where nobody can say it.
pub fn is_file(path: &Path) -> bool {
    match remote::is_url(path) {
        true => matches!(remote::stat(path), Ok(Some(Found::File(_)))),
        false => path.is_file(),
    }
}

/// Whether there is something under a path. In a store that does not answer there may be.
pub fn exists(path: &Path) -> bool {
    match remote::is_url(path) {
        true => !matches!(remote::stat(path), Ok(None)),
        false => path.exists(),
    }
}

/// Files and folders right in a folder; none where it cannot be listed.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    if remote::is_url(folder) {
        let entries = remote::entries(folder).unwrap_or_default();
        return entries.into_iter().map(|(path, _)| path).collect();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// The text of a file of at most so many bytes.
///
/// # Errors
/// Why it cannot be had, in words.
pub fn small_text(path: &Path, most: u64) -> Result<String, String> {
    let too_large = || format!("it is larger than {} KiB", most >> 10);
    if remote::is_url(path) {
        let bytes = remote::first_bytes(path, most as usize + 1).map_err(|e| e.message)?;
        if bytes.len() as u64 > most {
            return Err(too_large());
        }
        return String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned());
    }
    match std::fs::metadata(path).map_err(|e| e.to_string())? {
        m if m.len() > most => Err(too_large()),
        m if m.is_file() => std::fs::read_to_string(path).map_err(|e| e.to_string()),
        // A pipe would be waited for.
        _ => Err("it is no regular file".to_owned()),
    }
}

/// The error of a source that cannot be read on after so many bytes.
pub fn broken(e: &io::Error, shown: &str, bytes: u64) -> Error {
    let (code, what) = match e.kind() {
        io::ErrorKind::UnexpectedEof => ("trace-truncated", "the compressed file ends early"),
        _ if e.raw_os_error().is_some() => ("file-unreadable", "the file cannot be read on"),
        _ => ("gzip-broken", "the file cannot be unpacked"),
    };
    Error::new(code, format!("{what}: {e}"))
        .at(format!("{shown}, byte {bytes}"))
        .hint("copy the file again")
}

/// A member of a zip archive, unpacked on a thread of its own (the reader of the `zip` crate
/// borrows its archive), through a channel that holds a few chunks.
struct ZipMember {
    chunks: std::sync::mpsc::Receiver<io::Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
}

impl ZipMember {
    fn new<R: Read + Seek + Send + 'static>(
        mut archive: zip::ZipArchive<R>,
        member: &str,
    ) -> io::Result<Self> {
        let index = archive
            .index_for_name(member)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such member"))?;
        let (sender, chunks) = std::sync::mpsc::sync_channel(4);
        std::thread::spawn(move || {
            let mut entry = match archive.by_index(index) {
                Ok(entry) => entry,
                Err(e) => {
                    // The receiver may be gone already; then nobody waits for the error.
                    let _ = sender.send(Err(io::Error::other(e)));
                    return;
                }
            };
            loop {
                let mut chunk = vec![0; 256 << 10];
                let outcome = entry.read(&mut chunk).map(|n| {
                    chunk.truncate(n);
                    chunk
                });
                let last = outcome.as_ref().map_or(true, Vec::is_empty);
                if sender.send(outcome).is_err() || last {
                    return;
                }
            }
        });
        Ok(Self { chunks, current: io::Cursor::new(Vec::new()) })
    }
}

impl Read for ZipMember {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.current.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            match self.chunks.recv() {
                Err(_) => return Ok(0),
                Ok(chunk) => self.current = io::Cursor::new(chunk?),
            }
        }
    }
}

/// Size and modification time of a file, for the fingerprint that a second ingest compares. Of a
/// folder that is one source: the sizes of its files together, and the last change of any. Of an
/// object a number for its version stands for the time.
///
/// # Errors
/// `io` when the file cannot be asked.
pub fn stat(path: &Path) -> Result<(u64, i64)> {
    if remote::is_url(path) {
        return stat_object(path);
    }
    let metadata = std::fs::metadata(path).map_err(|e| crate::error::io(path, &e))?;
    let mtime = metadata
        .modified()
        .ok()
        .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
    if !metadata.is_dir() {
        return Ok((metadata.len(), mtime));
    }
    let mut out = (0, mtime);
    for file in files_of(path)? {
        let (bytes, mtime) = stat(&file)?;
        out = (out.0 + bytes, out.1.max(mtime));
    }
    Ok(out)
}

fn stat_object(path: &Path) -> Result<(u64, i64)> {
    match remote::stat(path)? {
        Some(Found::File(meta)) => Ok((meta.bytes, meta.stamp())),
        Some(Found::Folder) => {
            let mut out = (0, 0);
            for file in files_of(path)? {
                let (bytes, stamp) = stat_object(&file)?;
                // Any order of changes gives another number.
                out = (out.0 + bytes, (out.1 ^ stamp).rotate_left(1));
            }
            Ok(out)
        }
        None => {
            Err(Error::new("file-unreadable", "there is no such object")
                .at(path.display().to_string()))
        }
    }
}

/// The path from the root; of an object its URL. Folders are resolved; the file itself keeps the
/// name it was given, so that links under different rank names are different ranks.
pub fn absolute(path: &Path) -> PathBuf {
    if remote::is_url(path) {
        return path.to_owned();
    }
    let resolved = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !path.is_dir() => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::canonicalize(parent).map(|p| p.join(name))
        }
        _ => std::fs::canonicalize(path),
    };
    resolved.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
