//! The bytes of an object, in order: one request, which goes on where a connection broke.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::pool::lock;
use crate::remote::client;
use crate::remote::fault;
use crate::remote::listing::{meta, stat};
use crate::remote::{Found, Meta};

/// Times that a connection may break before a mebibyte has come.
const BREAKS: u32 = 4;
/// Bytes behind which a connection may break as often again.
const PROGRESS: u64 = 1 << 20;
/// Bytes that are read over rather than asked for anew.
const SKIP: u64 = 128 << 10;

/// Why objects could not be read to their ends, each told once.
static FAULTS: LazyLock<Mutex<HashMap<PathBuf, Error>>> = LazyLock::new(Mutex::default);
/// Hashes of objects that are read several times.
static HASHES: LazyLock<Mutex<HashMap<PathBuf, (Meta, String)>>> = LazyLock::new(Mutex::default);

/// Why an object could not be read to its end, since this was last asked: whoever read it may have
/// taken the end of the bytes for the end of the file.
pub(crate) fn fault_of(path: &Path) -> Option<Error> {
    lock(&FAULTS).remove(path)
}

/// The bytes of an object, of the version that was listed.
pub(crate) struct Stream {
    path: PathBuf,
    meta: Meta,
    /// The place of the next byte.
    at: u64,
    /// The place of the first byte that is not wanted.
    end: u64,
    body: Option<BoxStream<'static, object_store::Result<bytes::Bytes>>>,
    chunk: bytes::Bytes,
    /// Times that the connection broke since `mark`.
    breaks: u32,
    mark: u64,
}

/// Opens an object. Nothing is asked before the first byte is read.
///
/// # Errors
/// `file-unreadable` where there is none, or the store refuses.
pub(crate) fn open(path: &Path) -> Result<Stream> {
    match stat(path)? {
        Some(Found::File(meta)) => Ok(Stream {
            path: path.to_owned(),
            end: meta.bytes,
            meta,
            at: 0,
            body: None,
            chunk: bytes::Bytes::new(),
            breaks: 0,
            mark: 0,
        }),
        Some(Found::Folder) => Err(none(path, "it is a prefix of objects")),
        None => Err(none(path, "there is no such object")),
    }
}

fn none(path: &Path, why: &str) -> Error {
    Error::new("file-unreadable", format!("cannot open the object: {why}"))
        .at(path.display().to_string())
}

/// The first bytes of an object, at most so many.
///
/// # Errors
/// As [`open`], and what stops the reading.
pub(crate) fn first_bytes(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut stream = open(path)?;
    stream.end = stream.end.min(most as u64);
    let mut out = Vec::new();
    match stream.read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(e) => Err(fault_of(path).unwrap_or_else(|| none(path, &e.to_string()))),
    }
}

/// SHA-256 of an object, as hexadecimal digits; of a version that was read before, without a
/// request.
///
/// # Errors
/// As [`open`], and what stops the reading.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let mut stream = open(path)?;
    let of = stream.meta.clone();
    // Whoever asks at the same time waits for the answer.
    let mut hashes = lock(&HASHES);
    if let Some((_, hash)) = hashes.get(path).filter(|(meta, _)| meta.is_same(&of)) {
        return Ok(hash.clone());
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(e) => return Err(fault_of(path).unwrap_or_else(|| none(path, &e.to_string()))),
        }
    }
    let hash = hex(&hash.finalize());
    hashes.insert(path.to_owned(), (of, hash.clone()));
    Ok(hash)
}

impl Stream {
    /// Asks for the bytes from here on.
    fn ask(&mut self) -> Result<(), Stop> {
        let (bucket, key) = client::bucket(&self.path).map_err(Stop::Fault)?;
        let is_whole = self.at == 0 && self.end == self.meta.bytes;
        let options = GetOptions {
            if_match: self.meta.is_etag.then(|| format!("\"{}\"", self.meta.version)),
            range: (!is_whole).then_some(GetRange::Bounded(self.at..self.end)),
            ..GetOptions::default()
        };
        let asked = client::wait(bucket.objects.get_opts(&key, options)).map_err(Stop::Fault)?;
        let found = asked.map_err(|e| self.stop(&e))?;
        // A store may not know the condition.
        if !meta(&found.meta).is_same(&self.meta) {
            return Err(Stop::Fault(fault::changed(&self.path)));
        }
        self.body = Some(found.into_stream());
        Ok(())
    }

    /// Why the bytes do not come.
    fn stop(&self, said: &object_store::Error) -> Stop {
        if fault::is_changed(said) {
            return Stop::Fault(fault::changed(&self.path));
        }
        Stop::Fault(fault::unreadable(&self.path, "cannot read the object", said))
    }

    /// The next bytes; none behind the last.
    fn next(&mut self) -> Result<bytes::Bytes, Stop> {
        if self.body.is_none() {
            self.ask()?;
        }
        let Some(body) = &mut self.body else { return Ok(bytes::Bytes::new()) };
        match client::wait(body.next()).map_err(Stop::Fault)? {
            Some(Ok(chunk)) => Ok(chunk),
            Some(Err(e)) if fault::is_changed(&e) => Err(self.stop(&e)),
            Some(Err(e)) => Err(Stop::Broke(self.stop(&e).error())),
            None => Err(Stop::Broke(none(&self.path, "the store sent less than it said"))),
        }
    }

    /// More bytes into the chunk, tried again where a connection breaks.
    fn fill(&mut self) -> io::Result<()> {
        while self.chunk.is_empty() {
            let error = match self.next() {
                Ok(chunk) => {
                    self.chunk = chunk;
                    continue;
                }
                Err(Stop::Fault(error)) => error,
                Err(Stop::Broke(error)) => {
                    if self.at >= self.mark + PROGRESS {
                        (self.breaks, self.mark) = (0, self.at);
                    }
                    self.body = None;
                    self.breaks += 1;
                    if self.breaks <= BREAKS {
                        std::thread::sleep(Duration::from_millis(50 << self.breaks));
                        continue;
                    }
                    error
                }
            };
            let said = io::Error::other(error.message.clone());
            lock(&FAULTS).insert(self.path.clone(), error);
            return Err(said);
        }
        Ok(())
    }
}

/// Why the bytes of an object do not come.
enum Stop {
    /// They never will.
    Fault(Error),
    /// The connection broke.
    Broke(Error),
}

impl Stop {
    fn error(self) -> Error {
        match self {
            Self::Fault(error) | Self::Broke(error) => error,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        self.fill()?;
        let n = self.chunk.len().min(buffer.len()).min(left);
        buffer[..n].copy_from_slice(&self.chunk.split_to(n));
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        if self.body.is_some() && at > self.at && at - self.at <= SKIP && at <= self.end {
            let over = at - self.at;
            io::copy(&mut self.by_ref().take(over), &mut io::sink())?;
        }
        if at != self.at {
            (self.at, self.mark, self.body) = (at, at, None);
            self.chunk = bytes::Bytes::new();
        }
        Ok(at)
    }
}
