//! The program inside of a DuckDB that loads it: SQL functions, and a command line.
//!
//! `LOAD` registers the functions of [`crate::functions`] and the table functions of [`tables`].
//! These answer out of databases of their own, behind the locks that the program has everywhere;
//! `ccl_open` alone makes something in the database of the host: views.

mod answer;
mod call;
mod entry;
mod host;
mod metric_table;
mod open;
mod tables;

use duckdb::Connection;

use self::answer::register;
use self::host::Host;
use crate::error::{Error, Result};

/// The oldest DuckDB that the program is tested with.
const OLDEST: u64 = 2;

/// Registers everything with the database of a connection, and keeps the connection.
///
/// # Errors
/// `host` in a DuckDB that is too old, `sql` in one that refuses.
fn load(connection: Connection) -> Result<()> {
    let version: String = connection.query_row("SELECT version()", [], |row| row.get(0))?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|n| n.parse().ok());
    // A build of DuckDB's own developers may have another form of version.
    if major.is_some_and(|major: u64| major < OLDEST) {
        let message = format!("ccl_sql needs DuckDB {OLDEST}.0 or newer, and this is {version}");
        return Err(Error::new("host", message).hint("pip install --upgrade duckdb"));
    }
    crate::engine::key::answered_by(version);
    crate::functions::register(&connection)?;
    let host = Host::new();
    register::<open::Open>(&connection, &host)?;
    register::<tables::Traces>(&connection, &host)?;
    register::<tables::Metrics>(&connection, &host)?;
    register::<tables::Metric>(&connection, &host)?;
    metric_table::register(&connection, &host)?;
    register::<tables::Diagnose>(&connection, &host)?;
    register::<tables::Ingest>(&connection, &host)?;
    register::<tables::Report>(&connection, &host)?;
    register::<tables::Compare>(&connection, &host)?;
    register::<tables::Progress>(&connection, &host)?;
    register::<tables::Stop>(&connection, &host)?;
    host.hold(connection);
    Ok(())
}
