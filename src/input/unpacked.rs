//! A source that is read at random: the file where it lies, or its unpacked bytes in the workspace.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, io};
use crate::input::place::{self, Opened, Place};
use crate::input::progress::Watcher;
use crate::pool::{Pool, lock};

/// The size of a file by its first 100 bytes; bytes beyond it are not of the file.
pub type SizeOf = fn(&[u8]) -> Option<u64>;

/// A file that can be read at any place.
pub struct Local {
    /// Path of the file or of its copy.
    pub path: PathBuf,
    /// Whether it lies in the workspace.
    pub is_copy: bool,
    /// The fault for which the copy is not all of it.
    pub cut: Option<Error>,
    hash: Hash,
}

enum Hash {
    Known(String),
    /// Taken by some thread while the file is read.
    Later(Arc<Mutex<Option<Result<String>>>>),
}

impl Local {
    /// The file at `place`; what is compressed, in an archive, or in an object store is unpacked
    /// into `copy`, with `keep_partial` as far as that goes.
    ///
    /// # Errors
    /// `file-unreadable`, `trace-truncated`, `gzip-broken`; `io` when the copy cannot be written.
    pub fn open(
        place: &Place,
        copy: &Path,
        size_of: SizeOf,
        keep_partial: bool,
        pool: &Pool,
        watcher: &Watcher,
    ) -> Result<Self> {
        if is_plain(place)? {
            return Ok(Self::at(place.file.clone(), false, place.file.clone(), pool));
        }
        let (sha256, cut) = unpack(place, copy, size_of, watcher)?;
        if let Some(error) = cut.as_ref().filter(|_| !keep_partial) {
            return Err(error.clone());
        }
        Ok(Self { cut, ..Self::made(copy.to_owned(), sha256) })
    }

    /// A file that was made of a source of this hash.
    pub fn made(path: PathBuf, sha256: String) -> Self {
        Self { path, is_copy: true, cut: None, hash: Hash::Known(sha256) }
    }

    /// A file of which `hashed` is the source.
    pub fn at(path: PathBuf, is_copy: bool, hashed: PathBuf, pool: &Pool) -> Self {
        let hash = Arc::new(Mutex::new(None));
        let later = hash.clone();
        pool.submit(move || *lock(&later) = Some(place::sha256(&hashed)));
        Self { path, is_copy, cut: None, hash: Hash::Later(hash) }
    }

    /// SHA-256 of the source. The copy is removed.
    ///
    /// # Errors
    /// `io` when the source cannot be read.
    pub fn close(self, pool: &Pool) -> Result<String> {
        if self.is_copy {
            // The rows are in the spool; the workspace is removed anyway.
            let _ = std::fs::remove_file(&self.path);
        }
        match self.hash {
            Hash::Known(sha256) => Ok(sha256),
            Hash::Later(hash) => {
                pool.wait(|| lock(&hash).is_some());
                lock(&hash).take().expect("it was waited for")
            }
        }
    }
}

/// Whether the file can be read as it lies: an object is fetched first.
fn is_plain(place: &Place) -> Result<bool> {
    if place.member.is_some() || place::is_remote(&place.file) {
        return Ok(false);
    }
    let unreadable = |e: std::io::Error| {
        Error::new("file-unreadable", format!("cannot open the file: {e}")).at(place.display())
    };
    let mut head = [0; 2];
    let mut file = File::open(&place.file).map_err(unreadable)?;
    Ok(file.read_exact(&mut head).is_err() || head != [0x1f, 0x8b])
}

/// Unpacks a source; SHA-256 of what lies on disk, and why it did not end as it should.
///
/// # Errors
/// `file-unreadable`; `io` when the copy cannot be written.
pub fn unpack(
    place: &Place,
    to: &Path,
    size_of: SizeOf,
    watcher: &Watcher,
) -> Result<(String, Option<Error>)> {
    let Opened { mut reader, file } = place::open(place, watcher)?;
    let mut out = BufWriter::new(File::create(to).map_err(|e| io(to, &e))?);
    let mut buffer = vec![0; 256 << 10];
    let (mut head, mut written, mut cut) = (Vec::new(), 0, None);
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                cut = Some(Error::new("trace-truncated", "the compressed file ends early"));
                break;
            }
            Err(e) => {
                cut = Some(Error::new("gzip-broken", format!("the file cannot be unpacked: {e}")));
                break;
            }
        };
        head.extend_from_slice(&buffer[..n.min(100_usize.saturating_sub(head.len()))]);
        let room = size_of(&head).map_or(u64::MAX, |size| size.saturating_sub(written));
        let kept = n.min(usize::try_from(room).unwrap_or(usize::MAX));
        written += kept as u64;
        out.write_all(&buffer[..kept]).map_err(|e| io(to, &e))?;
    }
    out.flush().map_err(|e| io(to, &e))?;
    drop(reader);
    let cut = cut.map(|e| e.at(place.display()).hint("copy the file again"));
    Ok((file.sha256(&place.file)?, cut))
}
