//! The means to stop a call: its queries and its ingest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::input::progress::Watch;

/// What a call is stopped by, and how far its ingest is.
#[derive(Default)]
pub struct Stop {
    stopped: AtomicBool,
    interrupt: Mutex<Option<Interrupt>>,
    read: AtomicU64,
    total: AtomicU64,
}

impl Stop {
    fn held(&self) -> MutexGuard<'_, Option<Interrupt>> {
        // What a panic elsewhere leaves is as good as any.
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the call to end. It does not wait.
    pub fn now(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(interrupt) = self.held().clone() {
            // Until the query has ended: DuckDB forgets an interrupt that comes too early.
            std::thread::spawn(move || interrupt.ask());
        }
    }

    /// Stops these queries too, which are said to run already.
    ///
    /// # Errors
    /// `interrupted` where the end was asked for before.
    pub fn watch(&self, interrupt: &Interrupt) -> Result<()> {
        *self.held() = Some(interrupt.clone());
        self.go_on()
    }

    /// Goes on, unless the call is to end.
    ///
    /// # Errors
    /// `interrupted`.
    pub fn go_on(&self) -> Result<()> {
        match self.stopped.load(Ordering::SeqCst) {
            true => Err(Error::new("interrupted", "the call was stopped")),
            false => Ok(()),
        }
    }

    /// Bytes that an ingest has read, and those of its files.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let total = self.total.load(Ordering::Relaxed);
        (total > 0).then(|| (self.read.load(Ordering::Relaxed), total))
    }
}

/// The watcher of an ingest.
pub struct Ingest(pub Arc<Stop>);

impl Watch for Ingest {
    fn start(&self, _: &str, bytes: u64) {
        // Jobs one after the other: both numbers only grow.
        self.0.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self, bytes: u64) {
        self.0.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn phase(&self, _: &'static str) {}

    fn end(&self) {}

    fn stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingest_of_several_jobs_only_goes_on() {
        let stop = Arc::new(Stop::default());
        let ingest = Ingest(stop.clone());
        assert_eq!(stop.progress(), None);
        ingest.start("one", 100);
        ingest.read(60);
        ingest.read(40);
        assert_eq!(stop.progress(), Some((100, 100)));
        ingest.end();
        ingest.start("two", 50);
        ingest.read(5);
        assert_eq!(stop.progress(), Some((105, 150)));
        assert!(!ingest.stopped());
        stop.now();
        assert!(ingest.stopped());
    }
}
