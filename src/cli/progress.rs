//! The progress of an ingest or of a batch of metrics: one line on a terminal, nothing anywhere
//! else.
//!
//! The line is drawn over again and again. Whatever else is written to the terminal goes through
//! [`beside`], or a dead copy of the line would stay above it.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use duckdb::ProgressHandle;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;

use crate::cli::terminal::clean;
use crate::input::progress::{Watch, Watcher};

/// The bar on the screen.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether files are being read, which an interrupted ingest keeps.
static READING: AtomicBool = AtomicBool::new(false);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    // A bar is as good as any after a panic elsewhere.
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    style(&bar, template);
    *shown() = Some(bar.clone());
    bar
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

fn clear() {
    if let Some(bar) = shown().take() {
        bar.disable_steady_tick();
        bar.finish_and_clear();
        // Whoever still holds it draws no more.
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// Calls `write`, which writes to the terminal, with the bar out of the way.
pub fn beside<T>(write: impl FnOnce() -> T) -> T {
    let bar = shown().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Whether whoever started the program has it ignore Ctrl-C (`trap '' INT`, a job in the background
/// of a script). Only Linux tells.
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGINT - 1) & 1 == 1)
}

/// Makes Ctrl-C leave a clean line; `say` is told whether an ingest was under way.
pub fn listen(say: impl FnOnce(bool) + Send + 'static) {
    if is_ignored() {
        return;
    }
    // Without the listener Ctrl-C still ends the program.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT]) else { return };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            clear();
            say(READING.load(Ordering::Relaxed));
            // What the signal does to a program that does not listen: the shell sees it.
            let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
        }
    });
}

/// A bar for each job, in bytes of its files; no bar where nobody looks.
struct Bar {
    visible: bool,
    job: Mutex<Option<ProgressBar>>,
}

/// The watcher of an ingest. It draws nothing where stderr is no terminal, or the user wants quiet.
pub fn watcher(quiet: bool) -> Watcher {
    let visible = !quiet && std::io::stderr().is_terminal();
    Watcher::new(Arc::new(Bar { visible, job: Mutex::new(None) }))
}

impl Bar {
    fn job(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Bar {
    fn start(&self, job: &str, bytes: u64) {
        READING.store(true, Ordering::Relaxed);
        if self.visible {
            let bar =
                draw(bytes, "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} ETA {eta}");
            bar.set_prefix(clean(job));
            bar.enable_steady_tick(Duration::from_millis(200));
            *self.job() = Some(bar);
        }
    }

    fn read(&self, bytes: u64) {
        if let Some(bar) = &*self.job() {
            bar.inc(bytes);
        }
    }

    fn phase(&self, what: &'static str) {
        if let Some(bar) = &*self.job() {
            style(bar, "{prefix}: {msg} {spinner}");
            bar.set_message(what);
        }
    }

    fn end(&self) {
        READING.store(false, Ordering::Relaxed);
        if self.job().take().is_some() {
            clear();
        }
    }
}

/// The progress of a batch of metrics.
pub struct Steps(Option<ProgressBar>);

impl Steps {
    /// `total` steps; silent for a few, which are done at once, and where nobody looks.
    pub fn new(quiet: bool, total: usize) -> Self {
        let visible = !quiet && total >= 10 && std::io::stderr().is_terminal();
        Self(visible.then(|| draw(total as u64, "{prefix} [{bar:30}] {pos}/{len} {msg}")))
    }

    /// Begins the next step.
    pub fn next(&self, trace: &str, metric: &str) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
            bar.set_prefix(clean(trace));
            bar.set_message(clean(metric));
        }
    }

    /// Takes back the last `count` steps, which are done again.
    pub fn back(&self, count: usize) {
        if let Some(bar) = &self.0 {
            bar.set_position(bar.position().saturating_sub(count as u64));
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.0.is_some() {
            clear();
        }
    }
}

/// Time after which a query is a long one.
const LONG: Duration = Duration::from_secs(2);

/// Time between two looks at a query.
const LOOK: Duration = Duration::from_millis(250);

/// A watcher of a query; while it lives, a long query has a line on the terminal.
pub struct Query {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Query {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Then the line is gone from the screen.
            let _ = thread.join();
        }
    }
}

/// Watches the query that a connection is about to run; draws nothing where stderr is no terminal,
/// or the user wants quiet.
pub fn query(handle: ProgressHandle, quiet: bool) -> Option<Query> {
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let began = Instant::now();
    let (end, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        if ended.recv_timeout(LONG) != Err(RecvTimeoutError::Timeout) || shown().is_some() {
            return;
        }
        // No bar of the library: it fills the line, behind which the terminal's own `^C` begins
        // another one.
        let line = |text: &str| {
            let mut stderr = std::io::stderr();
            // Nobody is left to tell when stderr is closed.
            let _ = write!(stderr, "\r\x1b[2K{text}").and_then(|()| stderr.flush());
        };
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            // DuckDB knows it of scans, and not of every plan.
            let percent = handle.query_progress().percentage().filter(|p| *p >= 1.0);
            let percent = percent.map(|p| format!(", {p:.0} %")).unwrap_or_default();
            let seconds = began.elapsed().as_secs();
            line(&format!("the query runs: {seconds} s{percent} (Ctrl-C stops it)"));
        }
        line("");
    });
    Some(Query { end: Some(end), thread: Some(thread) })
}
