//! The same without object stores: every question is refused.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::remote::{Below, Found, Version, Writes};

/// What cannot be opened.
pub(crate) enum Stream {}

impl Read for Stream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Seek for Stream {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        match *self {}
    }
}

fn refused<T>(path: &Path) -> Result<T> {
    Err(Error::new("object-stores-missing", "this program was built without object stores")
        .at(path.display().to_string())
        .hint("build it with `--features object-stores`, or copy the files to a disk"))
}

pub(crate) fn ready(path: &Path) -> Result<()> {
    refused(path)
}

pub(crate) fn below(path: &Path) -> Result<Below> {
    refused(path)
}

pub(crate) fn entries(path: &Path) -> Result<Vec<(PathBuf, bool)>> {
    refused(path)
}

pub(crate) fn stat(path: &Path) -> Result<Option<Found>> {
    refused(path)
}

pub(crate) fn open(path: &Path) -> Result<Stream> {
    refused(path)
}

pub(crate) fn first_bytes(path: &Path, _: usize) -> Result<Vec<u8>> {
    refused(path)
}

pub(crate) fn sha256(path: &Path) -> Result<String> {
    refused(path)
}

pub(crate) fn fault_of(_: &Path) -> Option<Error> {
    None
}

pub(crate) fn put(path: &Path, _: Vec<u8>, _: Writes<'_>) -> Result<Option<Version>> {
    refused(path)
}

pub(crate) fn send(_: &Path, to: &Path) -> Result<()> {
    refused(to)
}

pub(crate) fn copy(_: &Path, to: &Path) -> Result<()> {
    refused(to)
}

pub(crate) fn remove(paths: &[PathBuf]) -> Result<()> {
    paths.first().map_or(Ok(()), |path| refused(path))
}

pub(crate) fn forget() {}
