//! The database of the host: one connection to it, for as long as anybody else has one.
//!
//! An extension gets a connection at `LOAD` and no other later. A connection keeps its database
//! open, and a file that stays open cannot be opened again: so a thread looks whether it is the
//! last one, and then lets it go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use duckdb::Connection;

use crate::error::{Error, Result};

/// Time between two looks at the connections of the host.
const LOOK: Duration = Duration::from_millis(100);

/// The database that loaded the library.
#[derive(Default)]
pub struct Host {
    connection: Mutex<Option<Connection>>,
    opened: Mutex<Option<(String, Vec<String>)>>,
}

impl Host {
    /// A host whose connection comes later.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Keeps a connection until it is the last one.
    pub fn hold(self: &Arc<Self>, connection: Connection) {
        *self.held() = Some(connection);
        let host = Arc::downgrade(self);
        std::thread::spawn(move || {
            while !let_go(&host) {
                std::thread::sleep(LOOK);
            }
        });
    }

    /// Remembers the data directory that was opened last, with its options.
    pub fn open(&self, folder: &str, options: Vec<String>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        *opened = Some((folder.to_owned(), options));
    }

    /// The data directory that was opened last, with its options.
    pub fn opened(&self) -> Option<(String, Vec<String>)> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn held(&self) -> MutexGuard<'_, Option<Connection>> {
        // A connection is as good as any after a panic elsewhere.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the connection, one caller at a time.
    ///
    /// # Errors
    /// `host` when it was let go, and those of `what`.
    pub fn with<T>(&self, what: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        match &*self.held() {
            Some(connection) => what(connection),
            None => Err(Error::new("host", "the last connection of this database was closed once")
                .hint("open the database anew, and LOAD ccl_sql in it")),
        }
    }
}

/// Lets the connection go where it is the last one; whether there is none any more.
fn let_go(host: &Weak<Host>) -> bool {
    let Some(host) = host.upgrade() else { return true };
    let mut held = host.held();
    let Some(connection) = &*held else { return true };
    let count = connection.query_row("FROM duckdb_connection_count()", [], |row| row.get(0));
    // A database that cannot say it is not kept open.
    if count.is_ok_and(|count: i64| count > 1) {
        return false;
    }
    let last = held.take();
    // The database may end with it, and the functions that hold this host with the database.
    drop(held);
    drop(last);
    true
}
