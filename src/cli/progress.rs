//! How far an ingest or a batch of metrics is: one line on a terminal, nothing anywhere else.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::ingest::watch::{Watch, Watcher};

/// A bar for each job, in bytes of its files.
struct Bar(ProgressBar);

/// The watcher for an ingest: nobody where stderr is no terminal, or the user wants quiet.
pub fn watcher(quiet: bool) -> Watcher {
    if quiet || !std::io::stderr().is_terminal() {
        return Watcher::default();
    }
    Watcher::new(Arc::new(Bar(ProgressBar::hidden())))
}

impl Bar {
    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style.progress_chars("=> "));
        }
    }
}

impl Watch for Bar {
    fn start(&self, job: &str, bytes: u64) {
        self.0.reset();
        self.0.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        self.0.set_length(bytes);
        self.0.set_prefix(super::printer::clean(job));
        self.style("{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} ETA {eta}");
        self.0.enable_steady_tick(Duration::from_millis(200));
    }

    fn read(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn phase(&self, what: &'static str) {
        self.style("{prefix}: {msg} {spinner}");
        self.0.set_message(what);
    }

    fn end(&self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
    }
}

/// How far a batch of metrics is.
pub struct Steps(ProgressBar);

impl Steps {
    /// `total` steps; silent for a few, which are done at once, and where nobody looks.
    pub fn new(quiet: bool, total: usize) -> Self {
        if quiet || total < 10 || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = Bar(ProgressBar::new(total as u64));
        bar.style("{prefix} [{bar:30}] {pos}/{len} {msg}");
        Self(bar.0)
    }

    /// The next one begins.
    pub fn next(&self, trace: &str, metric: &str) {
        self.0.inc(1);
        self.0.set_prefix(super::printer::clean(trace));
        self.0.set_message(super::printer::clean(metric));
    }

    /// The last `count` ones are done again.
    pub fn back(&self, count: usize) {
        self.0.set_position(self.0.position().saturating_sub(count as u64));
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
