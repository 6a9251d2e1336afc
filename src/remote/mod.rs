//! Object stores: what lies under `s3://`, `gs://` and `az://`, as if it were folders and files.
//!
//! A path in a store is a [`Path`](std::path::Path) whose text is its URL. What a store lists is
//! remembered until [`forget`]: a file is then what the listing said it is, and every request for
//! its bytes says so too, so that the bytes of two versions are never mixed.
//!
//! Names in a store are given by others. One that is no path (`..`, empty parts, control
//! characters) is told by [`below`], and nothing is read of it.
//!
//! Nothing here starts before a URL is given: no thread, no connection, no look at credentials.

#![cfg_attr(
    not(feature = "object-stores"),
    allow(dead_code, reason = "without stores nothing is found in one")
)]

use serde::{Deserialize, Serialize};

mod url;

#[cfg(feature = "object-stores")]
mod client;
#[cfg(feature = "object-stores")]
mod fault;
#[cfg(feature = "object-stores")]
mod listing;
#[cfg(not(feature = "object-stores"))]
mod missing;
#[cfg(feature = "object-stores")]
mod stream;
#[cfg(feature = "object-stores")]
mod write;

#[cfg(feature = "object-stores")]
pub(crate) use self::listing::{below, entries, forget, stat};
#[cfg(not(feature = "object-stores"))]
pub(crate) use self::missing::{
    Stream, below, copy, entries, fault_of, first_bytes, forget, open, put, ready, remove, send,
    sha256, stat,
};
#[cfg(feature = "object-stores")]
pub(crate) use self::stream::{Stream, fault_of, first_bytes, open, sha256};
pub(crate) use self::url::{checked, is_one_bucket, is_url};
#[cfg(feature = "object-stores")]
pub(crate) use self::write::{copy, put, remove, send};

/// Whether stores can be asked; nothing is asked yet.
#[cfg(feature = "object-stores")]
pub(crate) fn ready(_: &std::path::Path) -> crate::error::Result<()> {
    Ok(())
}

/// What a store has under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// An object.
    File(Meta),
    /// A prefix of objects.
    Folder,
}

/// Size and version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Bytes of the object.
    pub(crate) bytes: u64,
    /// Its ETag, or the time of its last change where a store gives none.
    pub(crate) version: String,
    /// Whether the version is an ETag, which requests can name.
    pub(crate) is_etag: bool,
    /// The number of the version, where a store counts them.
    pub(crate) generation: Option<String>,
    /// When it was written: seconds since 1970.
    pub(crate) written_s: Option<u64>,
}

/// A version of an object, for requests that replace it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) etag: Option<String>,
    pub(crate) generation: Option<String>,
}

/// What an object may take the place of.
pub(crate) enum Writes<'a> {
    /// Nothing.
    New,
    /// This version.
    Over(&'a Version),
}

impl Meta {
    /// Whether it is the same version.
    #[cfg(feature = "object-stores")]
    fn is_same(&self, other: &Self) -> bool {
        (self.bytes, &self.version) == (other.bytes, &other.version)
    }

    /// The version, for requests that replace it.
    pub(crate) fn as_version(&self) -> Version {
        let etag = self.is_etag.then(|| format!("\"{}\"", self.version));
        Version { etag, generation: self.generation.clone() }
    }

    /// A number for the version, in the place of the time when a file was written.
    pub(crate) fn stamp(&self) -> i64 {
        let hash = crate::hash::sha256_text(&self.version);
        i64::from_str_radix(&hash[..15], 16).unwrap_or_default()
    }
}

/// What lies below a path.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// Objects, in the order in which a walk through folders of such names meets them.
    pub(crate) files: Vec<std::path::PathBuf>,
    /// Keys that are no paths, escaped.
    pub(crate) odd: Vec<String>,
}
