//! Objects that are written and removed.

use std::io::Read;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use object_store::{Error as Said, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

use crate::error::{Error, Result, io};
use crate::remote::client;
use crate::remote::fault;
use crate::remote::listing::forget_one;
use crate::remote::{Version, Writes};

/// Bytes that are sent at a time.
const PART: usize = 8 << 20;

/// Puts a small object; its version, or None where another writer was first.
///
/// # Errors
/// `io` when the store does not answer, or refuses.
pub(crate) fn put(path: &Path, bytes: Vec<u8>, writes: Writes<'_>) -> Result<Option<Version>> {
    let (bucket, key) = client::bucket(path)?;
    forget_one(path);
    let mode = match writes {
        Writes::New => PutMode::Create,
        Writes::Over(version) => PutMode::Update(UpdateVersion {
            e_tag: version.etag.clone(),
            version: version.generation.clone(),
        }),
    };
    let options = PutOptions { mode, ..PutOptions::default() };
    match client::wait(bucket.objects.put_opts(&key, bytes.into(), options))? {
        Ok(put) => Ok(Some(Version { etag: put.e_tag, generation: put.version })),
        Err(Said::AlreadyExists { .. } | Said::Precondition { .. } | Said::NotFound { .. }) => {
            Ok(None)
        }
        Err(said) => Err(unwritable(path, &said)),
    }
}

/// Sends a file.
///
/// # Errors
/// `io` when it cannot be read, or the store does not answer, or refuses.
pub(crate) fn send(file: &Path, to: &Path) -> Result<()> {
    let (bucket, key) = client::bucket(to)?;
    let failed = |said: Said| unwritable(to, &said);
    let mut source = std::fs::File::open(file).map_err(|e| io(file, &e))?;
    let mut part = || -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let taken = source.by_ref().take(PART as u64).read_to_end(&mut bytes);
        taken.map(|_| bytes).map_err(|e| io(file, &e))
    };
    let first = part()?;
    if first.len() < PART {
        return client::wait(bucket.objects.put(&key, first.into()))?.map(drop).map_err(failed);
    }
    let mut upload = client::wait(bucket.objects.put_multipart(&key))?.map_err(failed)?;
    let send_all = || -> Result<()> {
        let mut bytes = first;
        while !bytes.is_empty() {
            client::wait(upload.put_part(bytes.into()))?.map_err(failed)?;
            bytes = part()?;
        }
        client::wait(upload.complete())?.map(drop).map_err(failed)
    };
    let sent = send_all();
    if sent.is_err() {
        // What was sent costs room, and is otherwise harmless.
        let _ = client::wait(upload.abort());
    }
    sent
}

/// Copies an object inside of its store, which moves no bytes through this machine.
///
/// # Errors
/// `io` when the store does not answer, or refuses.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let (bucket, source) = client::bucket(from)?;
    let (_, key) = client::bucket(to)?;
    forget_one(to);
    client::wait(bucket.objects.copy(&source, &key))?.map_err(|said| unwritable(to, &said))
}

/// Removes objects. What is not there is removed.
///
/// # Errors
/// `io` when the store does not answer, or refuses.
pub(crate) fn remove(paths: &[PathBuf]) -> Result<()> {
    let Some(first) = paths.first() else { return Ok(()) };
    let (bucket, _) = client::bucket(first)?;
    paths.iter().for_each(|path| forget_one(path));
    let keys: Result<Vec<_>> = paths.iter().map(|path| Ok(client::bucket(path)?.1)).collect();
    let keys = futures_util::stream::iter(keys?.into_iter().map(Ok)).boxed();
    let mut removed = bucket.objects.delete_stream(keys);
    while let Some(one) = client::wait(removed.next())? {
        match one {
            Ok(_) | Err(Said::NotFound { .. }) => {}
            Err(said) => return Err(unwritable(first, &said)),
        }
    }
    Ok(())
}

fn unwritable(path: &Path, said: &Said) -> Error {
    let error = fault::unreadable(path, "cannot write to the store", said);
    Error { code: "io", ..error }
}
