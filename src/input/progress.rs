//! Who wants to know how far an ingest is.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The words for an ingest that ended before it was done.
const INTERRUPTED: &str = "the ingest was interrupted";

/// Is told how far an ingest is, from any thread.
pub trait Watch: Send + Sync {
    /// A job of so many bytes on disk starts.
    fn start(&self, job: &str, bytes: u64);
    /// More bytes of the files of a trace were read.
    fn read(&self, bytes: u64);
    /// The files of a trace are read; this phase begins.
    fn phase(&self, what: &'static str);
    /// The job is done, or has failed.
    fn end(&self);
    /// Whether the ingest is to end before it is done.
    fn stopped(&self) -> bool {
        false
    }
}

/// A watcher, or nobody.
#[derive(Clone, Default)]
pub struct Watcher(Option<Arc<dyn Watch>>);

impl Watcher {
    /// Somebody watches.
    pub fn new(watch: Arc<dyn Watch>) -> Self {
        Self(Some(watch))
    }

    pub(crate) fn tell(&self, what: impl FnOnce(&dyn Watch)) {
        if let Some(watch) = &self.0 {
            what(watch.as_ref());
        }
    }

    /// Goes on, unless the ingest is to end before it is done.
    ///
    /// # Errors
    /// `interrupted`.
    pub(crate) fn go_on(&self) -> Result<()> {
        match &self.0 {
            Some(watch) if watch.stopped() => Err(Error::new("interrupted", INTERRUPTED)
                .hint("files that were read whole are kept for a day; the same ingest goes on")),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Watcher(somebody)" } else { "Watcher(nobody)" })
    }
}
