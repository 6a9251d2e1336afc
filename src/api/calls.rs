//! Calls that run: how far their ingests are, and the means to stop them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::engine::interrupt::Interrupt;
use crate::input::progress::{Watch, Watcher};

/// The calls of this process.
static CALLS: Mutex<Vec<Weak<Call>>> = Mutex::new(Vec::new());

/// How far an ingest is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The word of [`Data::with_token`](crate::Data::with_token).
    pub token: String,
    /// The folder or file that is read.
    pub job: String,
    /// What is done once its files are read; empty before.
    pub phase: String,
    /// Bytes of its files that were read, as they lie on disk.
    pub bytes_read: u64,
    /// Bytes of its files.
    pub bytes_total: u64,
}

#[derive(Default)]
struct Call {
    token: String,
    job: Mutex<Option<(String, &'static str)>>,
    read: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
    interrupt: Mutex<Option<Interrupt>>,
}

/// What a panic elsewhere leaves is as good as any.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch for Call {
    fn start(&self, job: &str, bytes: u64) {
        self.read.store(0, Ordering::Relaxed);
        self.total.store(bytes, Ordering::Relaxed);
        *held(&self.job) = Some((job.to_owned(), ""));
    }

    fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn phase(&self, what: &'static str) {
        if let Some((_, phase)) = &mut *held(&self.job) {
            *phase = what;
        }
    }

    fn end(&self) {
        *held(&self.job) = None;
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A call that runs as long as this lives.
pub(super) struct Running(Arc<Call>);

/// Begins a call.
pub(super) fn running(token: &str) -> Running {
    let call = Arc::new(Call { token: token.to_owned(), ..Call::default() });
    let mut calls = held(&CALLS);
    calls.retain(|call| call.strong_count() > 0);
    calls.push(Arc::downgrade(&call));
    Running(call)
}

impl Running {
    /// The watcher of its ingests.
    pub(super) fn watcher(&self) -> Watcher {
        Watcher::new(self.0.clone())
    }

    /// Stops these queries too when it is stopped.
    pub(super) fn interrupts(&self, interrupt: &Interrupt) {
        *held(&self.0.interrupt) = Some(interrupt.clone());
    }

    /// Whether somebody stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped()
    }
}

fn calls() -> Vec<Arc<Call>> {
    held(&CALLS).iter().filter_map(Weak::upgrade).collect()
}

/// The ingests of this process that are under way.
pub fn progress() -> Vec<Progress> {
    let of = |call: Arc<Call>| {
        let (job, phase) = held(&call.job).clone()?;
        Some(Progress {
            token: call.token.clone(),
            job,
            phase: phase.to_owned(),
            bytes_read: call.read.load(Ordering::Relaxed),
            bytes_total: call.total.load(Ordering::Relaxed),
        })
    };
    calls().into_iter().filter_map(of).collect()
}

/// Asks calls of this process to end, which then fail; their number. It does not wait. With a token
/// only those that are known by it are meant.
pub fn stop(token: Option<&str>) -> usize {
    let mut calls = calls();
    calls.retain(|call| token.is_none_or(|token| call.token == token));
    for call in &calls {
        call.stopped.store(true, Ordering::Relaxed);
        if let Some(interrupt) = held(&call.interrupt).clone() {
            // Until the query has ended: DuckDB forgets an interrupt that comes too early.
            std::thread::spawn(move || interrupt.ask());
        }
    }
    calls.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingest_is_under_way_from_its_start_to_its_end() {
        let call = running("a token of this test alone");
        let said = || progress().into_iter().find(|p| p.token == "a token of this test alone");
        let watcher = call.watcher();
        assert_eq!(said(), None);
        watcher.tell(|watch| watch.start("/job", 100));
        watcher.tell(|watch| watch.read(30));
        watcher.tell(|watch| watch.read(12));
        watcher.tell(|watch| watch.phase("derive"));
        let wanted = Progress {
            token: "a token of this test alone".to_owned(),
            job: "/job".to_owned(),
            phase: "derive".to_owned(),
            bytes_read: 42,
            bytes_total: 100,
        };
        assert_eq!(said(), Some(wanted));
        watcher.tell(|watch| watch.end());
        assert_eq!(said(), None);
        // The next job of the same call begins anew.
        watcher.tell(|watch| watch.start("/another", 7));
        let next = said().map(|p| (p.job, p.phase, p.bytes_read, p.bytes_total));
        assert_eq!(next, Some(("/another".to_owned(), String::new(), 0, 7)));
        // One that begins meanwhile takes nothing from it.
        let other = running("another token of this test");
        assert!(said().is_some());
        drop((call, watcher));
        assert_eq!(said(), None);
        drop(other);
    }
}
