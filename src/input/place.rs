//! Bytes in: files, gzip by content, members of zip archives; a window that slides over them.
//!
//! Nothing in a file is trusted as a size: buffers grow with the bytes that really come, and a
//! single value may not pass [`MAX_VALUE_BYTES`](crate::input::window::MAX_VALUE_BYTES).

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::input::progress::Watcher;

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

/// Hashes what is read through it, and tells how much it was.
struct Hashing {
    file: File,
    hash: Arc<Mutex<Sha256>>,
    watcher: Watcher,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.hash.lock().unwrap_or_else(PoisonError::into_inner).update(&buffer[..n]);
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
                let hash = rest.hash.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
    if path.is_dir() {
        for file in files_of(path)? {
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(sha256(&file)?);
        }
        return Ok(hex(&hash.finalize()));
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
    let unreadable = |e: &dyn std::fmt::Display| {
        Error::new("file-unreadable", format!("cannot open the file: {e}"))
            .at(place.display())
            .hint("check that it exists and that you may read it")
    };
    // Asked before it is opened: opening a pipe waits for somebody who writes into it.
    let metadata = std::fs::metadata(&place.file).map_err(|e| unreadable(&e))?;
    if !metadata.is_file() {
        let is_folder = metadata.is_dir();
        return Err(unreadable(&match is_folder {
            true => "it is a directory",
            false => "it is a pipe or a device, which cannot be read twice",
        }));
    }
    let file = File::open(&place.file).map_err(|e| unreadable(&e))?;
    if let Some(member) = &place.member {
        let archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| unreadable(&e))?;
        let reader = ZipMember::new(archive, member).map_err(|e| unreadable(&e))?;
        let reader = plain_or_gzip(reader).map_err(|e| unreadable(&e))?;
        return Ok(Opened { reader, file: OnDisk(None) });
    }
    let hash = Arc::new(Mutex::new(Sha256::new()));
    // Both handles share one position: what the decoder leaves unread, `sha256` reads.
    let watcher = watcher.clone();
    let rest = Hashing {
        file: file.try_clone().map_err(|e| unreadable(&e))?,
        hash: hash.clone(),
        watcher: watcher.clone(),
    };
    let reader = plain_or_gzip(Hashing { file, hash, watcher }).map_err(|e| unreadable(&e))?;
    Ok(Opened { reader, file: OnDisk(Some(rest)) })
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
    fn new(mut archive: zip::ZipArchive<BufReader<File>>, member: &str) -> io::Result<Self> {
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
/// folder that is one source: the sizes of its files together, and the last change of any.
///
/// # Errors
/// `io` when the file cannot be asked.
pub fn stat(path: &Path) -> Result<(u64, i64)> {
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

/// The path from the root. Folders are resolved; the file itself keeps the name it was given, so
/// that links under different rank names are different ranks.
pub fn absolute(path: &Path) -> PathBuf {
    let resolved = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !path.is_dir() => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::canonicalize(parent).map(|p| p.join(name))
        }
        _ => std::fs::canonicalize(path),
    };
    resolved.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
