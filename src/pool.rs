//! Work shared by the threads of an ingest: whoever waits for something does what lies waiting.
//!
//! A file is read by one thread, which cuts it into segments; scanning a segment and encoding rows
//! are tasks that any thread may take. So one large file uses every core, and so do many small
//! ones.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The value behind a lock, whoever panicked while holding it: the panic is told elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with each, so many at a time; the results in their order, or the first fault in
/// that order. After a fault no more are begun.
///
/// # Panics
/// When the work panics.
pub(crate) fn each<T: Sync, R: Send, E: Send>(
    at_a_time: usize,
    all: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(all.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(at) else { return };
                    let result = work(one);
                    if result.is_err() {
                        next.store(all.len(), Ordering::Relaxed);
                    }
                    lock(&done).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    /// A task panicked: whoever waits must not wait for ever.
    broken: bool,
    closed: bool,
}

/// A queue of tasks and the threads that wait at it.
pub struct Pool {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Pool {
    /// For so many threads, which the caller starts.
    pub fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Threads that work on the tasks.
    pub fn threads(&self) -> usize {
        self.threads
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a task; some thread that waits or helps will run it.
    pub fn submit(&self, task: impl FnOnce() + Send + 'static) {
        self.lock().tasks.push_back(Box::new(task));
        self.changed.notify_one();
    }

    fn run(&self, task: Task) {
        let outcome = catch_unwind(AssertUnwindSafe(task));
        // The lock orders what the task did before the look of anyone who waits for it.
        let mut state = self.lock();
        state.broken |= outcome.is_err();
        drop(state);
        self.changed.notify_all();
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }

    /// Runs tasks until `done` says so; sleeps while there are none.
    ///
    /// # Panics
    /// When a task panicked on another thread, because what is waited for may then never come.
    pub fn wait(&self, done: impl Fn() -> bool) {
        loop {
            let mut state = self.lock();
            let task = loop {
                if done() {
                    return;
                }
                assert!(!state.broken, "a task of the ingest panicked");
                match state.tasks.pop_front() {
                    Some(task) => break task,
                    None => {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(state);
            self.run(task);
        }
    }

    /// Makes something of each item, in their order; not more at a time than there are threads,
    /// because each holds memory and files.
    pub fn map<T: Send + 'static, R: Send + 'static>(
        &self,
        items: impl IntoIterator<Item = T>,
        make: impl Fn(T) -> R + Send + Sync + 'static,
    ) -> Vec<R> {
        let make = Arc::new(make);
        let mut out: Vec<Arc<Mutex<Option<R>>>> = Vec::new();
        for item in items {
            if let Some(at) = out.len().checked_sub(self.threads) {
                self.wait(|| lock(&out[at]).is_some());
            }
            let made = Arc::new(Mutex::new(None));
            out.push(made.clone());
            let make = make.clone();
            self.submit(move || {
                let result = make(item);
                *lock(&made) = Some(result);
            });
        }
        self.wait(|| out.iter().all(|made| lock(made).is_some()));
        let take = |made: Arc<Mutex<Option<R>>>| {
            let result = lock(&made).take();
            result.expect("it was waited for")
        };
        out.into_iter().map(take).collect()
    }

    /// Runs tasks until the pool is closed.
    pub fn help(&self) {
        loop {
            let mut state = self.lock();
            let task = loop {
                match state.tasks.pop_front() {
                    Some(task) => break task,
                    None if state.closed || state.broken => return,
                    None => {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(state);
            self.run(task);
        }
    }

    /// Lets the helpers go once nothing is left to do.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_alone_runs_what_it_waits_for() {
        let pool = Pool::new(1);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let count = count.clone();
            pool.submit(move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        pool.wait(|| count.load(Ordering::Relaxed) == 10);
    }

    #[test]
    fn what_is_made_keeps_the_order() {
        let pool = Arc::new(Pool::new(2));
        let helped = pool.clone();
        let helper = std::thread::spawn(move || helped.help());
        assert_eq!(pool.map(0..9, |n| n * n), [0, 1, 4, 9, 16, 25, 36, 49, 64]);
        pool.close();
        helper.join().expect("it does not panic");
    }

    #[test]
    fn results_of_each_are_in_order_and_a_fault_ends_it() {
        let all: Vec<usize> = (0..1000).collect();
        let doubled = each(7, &all, |n| Ok::<_, ()>(n * 2)).expect("nothing fails");
        assert!(doubled.iter().enumerate().all(|(n, twice)| *twice == n * 2));
        let begun = AtomicUsize::new(0);
        let outcome = each(1, &all, |n| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *n < 10 { Ok(()) } else { Err(*n) }
        });
        assert_eq!((outcome, begun.into_inner()), (Err(10), 11));
        assert_eq!(each(4, &[], |n: &usize| Ok::<_, ()>(*n)), Ok(Vec::new()));
    }

    #[test]
    #[should_panic]
    fn a_panic_of_each_is_not_lost() {
        let _ =
            each(2, &[1, 2, 3], |n| if *n == 2 { panic!("on purpose") } else { Ok::<_, ()>(()) });
    }

    #[test]
    fn helpers_share_the_work_and_leave() {
        let pool = Pool::new(1);
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| pool.help());
            }
            for _ in 0..1000 {
                let count = count.clone();
                pool.submit(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
            pool.wait(|| count.load(Ordering::Relaxed) == 1000);
            pool.close();
        });
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_panic_wakes_who_waits() {
        let pool = Arc::new(Pool::new(1));
        let other = pool.clone();
        pool.submit(|| panic!("on purpose"));
        assert!(std::thread::spawn(move || other.help()).join().is_err());
        pool.wait(|| false);
    }
}
