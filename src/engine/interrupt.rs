//! Stopping queries from another thread: the open connections, and whether something runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use duckdb::{Connection, InterruptHandle};

use crate::error::Error;

/// Time until a connection is told once more.
const AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct State {
    /// Handles of the open connections; a closed one has let go of its handle.
    handles: Vec<Weak<InterruptHandle>>,
    running: bool,
    /// How many things have begun.
    begun: u64,
    asked: bool,
}

/// A means to stop queries, shared by those who run and those who stop them.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

/// A guard: while it lives, something runs that may be stopped.
#[derive(Debug)]
pub struct Running<'i>(&'i Interrupt);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running = false;
    }
}

impl Interrupt {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half done in these three fields.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the queries of this connection too.
    pub fn watch(&self, connection: &Connection) {
        let mut state = self.state();
        state.handles.retain(|h| h.strong_count() > 0);
        state.handles.push(Arc::downgrade(&connection.interrupt_handle()));
    }

    /// Says that something begins to run, whose end nobody has asked for yet.
    pub fn begin(&self) -> Running<'_> {
        let mut state = self.state();
        state.running = true;
        state.begun += 1;
        state.asked = false;
        Running(self)
    }

    /// Whether the end of what runs, or of what ran last, was asked for.
    pub fn asked(&self) -> bool {
        self.state().asked
    }

    /// Stops what runs; returns when it has ended. Nothing happens when nothing runs.
    ///
    /// DuckDB forgets an interrupt that comes while a statement is being prepared, so it is told
    /// until the work ends. What begins after that is not stopped.
    pub fn ask(&self) {
        let meant = self.state().begun;
        loop {
            {
                let mut state = self.state();
                if !state.running || state.begun != meant {
                    return;
                }
                state.asked = true;
                state.handles.iter().filter_map(Weak::upgrade).for_each(|h| h.interrupt());
            }
            std::thread::sleep(AGAIN);
        }
    }
}

/// The error of work that was stopped.
pub fn error() -> Error {
    Error::new("sql", "the query was interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_when_asked_and_the_connection_lives_on() {
        let connection = Connection::open_in_memory().expect("DuckDB starts");
        let interrupt = Interrupt::default();
        interrupt.watch(&connection);
        interrupt.ask();
        let running = interrupt.begin();
        assert!(!interrupt.asked(), "nothing ran when it was asked");
        let other = interrupt.clone();
        let thread = std::thread::spawn(move || other.ask());
        let sql =
            "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range <> b.range";
        let answer = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert!(answer.is_err() && interrupt.asked());
        drop(running);
        // What begins before the other one has seen the end is not stopped.
        let next = interrupt.begin();
        thread.join().expect("the other thread ends");
        assert!(!interrupt.asked());
        drop(next);
        let one: i64 = connection.query_row("SELECT 1", [], |row| row.get(0)).expect("it answers");
        assert_eq!(one, 1);
    }
}
