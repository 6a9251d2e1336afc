//! An SQLite file that a stranger made: opened so that it is never written, runs nothing, and
//! cannot exhaust memory; its tables and columns looked up, never assumed.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use crate::error::{Error, Result};
use crate::sql_text::sql_name;

/// The largest value that is read: names and payloads end far below.
const MAX_VALUE_BYTES: i32 = 16 << 20;
/// Memory of SQLite itself, all connections together.
const MAX_HEAP_BYTES: i64 = 256 << 20;
/// Length of a statement of the schema.
const MAX_STATEMENT_BYTES: i32 = 1 << 20;

/// An open database, with connections for several threads.
pub struct Database {
    path: PathBuf,
    /// What errors call the file.
    shown: String,
    /// Columns of each table that has rows of its own, and numbers for them.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Views and virtual tables, whose rows are computed, and tables without row numbers: never
    /// read.
    pub left_out: Vec<String>,
    idle: Mutex<Vec<Connection>>,
}

/// A fault of SQLite as an error of the file.
pub fn fault(error: &rusqlite::Error, shown: &str, doing: &str) -> Error {
    let code = error.sqlite_error_code();
    let out = match code {
        Some(ErrorCode::NotADatabase) => {
            Error::new("database-corrupt", "the file is no SQLite database")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            Error::new("database-corrupt", format!("the database is damaged: {error}"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            return Error::new("database-locked", "another program writes the database")
                .at(shown)
                .hint("ingest again when the export is finished");
        }
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => {
            Error::new("value-too-large", format!("a value of the database is too large: {error}"))
        }
        _ => Error::new("database-corrupt", format!("the database cannot be read: {error}")),
    };
    let out = out.facts(doing.to_owned()).at(shown);
    out.hint("export the report again: nsys export --type sqlite REPORT.nsys-rep")
}

/// The path as a URI that says: read only, and nobody changes it.
fn uri(path: &Path) -> String {
    let mut out = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                out.push(char::from(*byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn connect(path: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let options = if immutable { "?mode=ro&immutable=1" } else { "?mode=ro" };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("{}{options}", uri(path)), flags)?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT_BYTES),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    // No memory map: a file that is cut while it is read would end the process.
    connection.execute_batch(&format!(
        "PRAGMA hard_heap_limit = {MAX_HEAP_BYTES}; PRAGMA mmap_size = 0; \
         PRAGMA cell_size_check = ON; PRAGMA query_only = ON; PRAGMA cache_size = -2048;"
    ))?;
    Ok(connection)
}

/// Refuses a file that is shorter than its own header says.
fn whole(path: &Path, shown: &str) -> Result<()> {
    use std::io::Read;
    let unreadable = |e: std::io::Error| {
        Error::new("file-unreadable", format!("cannot open the file: {e}")).at(shown)
    };
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut head = [0; 100];
    let truncated = |facts: String| {
        Error::new("trace-truncated", "the database ends early")
            .at(shown)
            .facts(facts)
            .hint("copy the file again, or export the report again")
    };
    if bytes < head.len() as u64 {
        return Err(truncated(format!("{bytes} bytes, less than the header of a database")));
    }
    file.read_exact(&mut head).map_err(unreadable)?;
    if !head.starts_with(b"SQLite format 3\0") {
        return Err(Error::new("database-corrupt", "the file is no SQLite database").at(shown));
    }
    if let Some(wanted) = size(&head)
        && wanted > bytes
    {
        return Err(truncated(format!(
            "the header says {} pages of {} bytes, and there are {bytes} bytes",
            wanted / page_size(&head),
            page_size(&head)
        )));
    }
    Ok(())
}

fn page_size(head: &[u8]) -> u64 {
    match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65_536,
        n => u64::from(n),
    }
}

/// Bytes of the database that starts so, where its header says it: the count of pages holds when it
/// was written with the last change.
pub fn size(head: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (pages, written, valid) = (word(28)?, word(24)?, word(92)?);
    (head.starts_with(b"SQLite format 3\0") && written == valid && pages > 0)
        .then(|| u64::from(pages) * page_size(head))
}

/// Refuses a database that somebody writes: its newest pages are in a journal beside it, or under a
/// lock.
fn settled(path: &Path, shown: &str) -> Result<()> {
    for ending in ["-wal", "-journal"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(ending);
        let beside = PathBuf::from(beside);
        // A journal that is over stays, with an empty header.
        let head = std::fs::File::open(&beside).and_then(|mut file| {
            let mut head = [0; 1];
            std::io::Read::read(&mut file, &mut head).map(|n| n > 0 && head[0] != 0)
        });
        if head.unwrap_or(false) {
            return Err(Error::new("database-locked", "another program writes the database")
                .at(shown)
                .facts(format!("its journal {} is not empty", beside.display()))
                .hint("ingest again when the export is finished"));
        }
    }
    // A database with a write-ahead log would get files beside it by being asked for its lock.
    let mut head = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut f| {
        use std::io::Read;
        f.read_exact(&mut head)
    });
    if read.is_ok() && head[18] == 1 && head[19] == 1 {
        let asked = connect(path, false).and_then(|c| {
            c.busy_timeout(std::time::Duration::ZERO)?;
            c.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        });
        if let Err(e) = asked
            && matches!(
                e.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            )
        {
            return Err(fault(&e, shown, "looking for a lock"));
        }
    }
    Ok(())
}

impl Database {
    /// Opens the database at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// `trace-truncated`, `database-corrupt`, `database-locked` or `file-unreadable`.
    pub fn open(path: &Path, shown: &str) -> Result<Self> {
        whole(path, shown)?;
        settled(path, shown)?;
        let connection = connect(path, true).map_err(|e| fault(&e, shown, "opening it"))?;
        let mut out = Self {
            path: path.to_owned(),
            shown: shown.to_owned(),
            tables: BTreeMap::new(),
            left_out: Vec::new(),
            idle: Mutex::default(),
        };
        let schema = |e: rusqlite::Error| fault(&e, shown, "reading its schema");
        let mut names = Vec::new();
        {
            let mut all = connection
                .prepare(
                    "SELECT type, name, rootpage FROM sqlite_schema \
                     WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!' \
                     ORDER BY name LIMIT 5000",
                )
                .map_err(schema)?;
            let mut rows = all.query([]).map_err(schema)?;
            while let Some(row) = rows.next().map_err(schema)? {
                let (is_table, name) = (text(row, 0).as_deref() == Some("table"), text(row, 1));
                let Some(name) = name else { continue };
                if is_table && int(row, 2).is_some_and(|page| page > 0) {
                    names.push(name);
                } else {
                    out.left_out.push(name);
                }
            }
        }
        for name in names {
            let mut columns = Vec::new();
            let mut all = connection
                .prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")
                .map_err(schema)?;
            let mut rows = all.query([&name]).map_err(schema)?;
            while let Some(row) = rows.next().map_err(schema)? {
                // Generated columns are computed.
                if let (Some(column), Some(0)) = (text(row, 0), int(row, 1)) {
                    columns.push(column);
                }
            }
            let without: i64 = connection
                .query_row(
                    "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1",
                    [&name],
                    |row| row.get(0),
                )
                .map_err(schema)?;
            if without == 0 && row_number(&columns).is_some() {
                out.tables.insert(name, columns);
            } else {
                out.left_out.push(name);
            }
        }
        out.idle = Mutex::new(vec![connection]);
        Ok(out)
    }

    /// The columns of a table; None where there is no such table.
    pub fn columns(&self, table: &str) -> Option<&[String]> {
        self.tables.get(table).map(Vec::as_slice)
    }

    /// Whether a table has a column.
    pub fn has(&self, table: &str, column: &str) -> bool {
        self.columns(table).is_some_and(|columns| columns.iter().any(|c| c == column))
    }

    /// Lends a connection to `body`.
    ///
    /// # Errors
    /// What `body` returns; `database-corrupt` when no connection can be opened.
    pub fn with<T>(&self, body: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let free = idle().pop();
        let connection = match free {
            Some(connection) => connection,
            None => connect(&self.path, true).map_err(|e| self.fault(&e, "opening it"))?,
        };
        let out = body(&connection);
        idle().push(connection);
        out
    }

    /// A fault of SQLite as an error of this file.
    pub fn fault(&self, error: &rusqlite::Error, doing: &str) -> Error {
        fault(error, &self.shown, doing)
    }

    /// First and last row number of a table; None without rows.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn rowids(&self, table: &str) -> Result<Option<(i64, i64)>> {
        self.with(|c| {
            let number = row_number(self.columns(table).unwrap_or_default()).unwrap_or("rowid");
            // Two queries: of one alone, SQLite looks at the ends only.
            let name = sql_name(table);
            let sql = format!(
                "SELECT (SELECT min({number}) FROM {name}), (SELECT max({number}) FROM {name})"
            );
            let ends = c.query_row(&sql, [], |row| Ok((int(row, 0), int(row, 1))));
            match ends.map_err(|e| self.fault(&e, &format!("reading {table}")))? {
                (Some(first), Some(last)) => Ok(Some((first, last))),
                _ => Ok(None),
            }
        })
    }

    /// Whether a row is found by a column without reading all: the column is the row number, or has
    /// an index.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn finds_by(&self, table: &str, column: &str) -> Result<bool> {
        self.with(|c| {
            let fault = |e: rusqlite::Error| self.fault(&e, "reading its schema");
            let plan = format!(
                "EXPLAIN QUERY PLAN SELECT 1 FROM {} WHERE {} = 1",
                sql_name(table),
                sql_name(column)
            );
            let detail: String = c.query_row(&plan, [], |row| row.get(3)).map_err(fault)?;
            Ok(detail.starts_with("SEARCH"))
        })
    }

    /// Gives the rows of a small table to `each`: the columns asked for, NULL for those that the
    /// table lacks. At most `limit` rows. A missing table has none.
    ///
    /// # Errors
    /// `database-corrupt`; what `each` returns.
    pub fn each(
        &self,
        table: &str,
        columns: &[&str],
        filter: &str,
        limit: usize,
        mut each: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.columns(table).is_none() {
            return Ok(());
        }
        let list: Vec<String> = columns
            .iter()
            .map(|c| if self.has(table, c) { sql_name(c) } else { "NULL".to_owned() })
            .collect();
        let sql = format!(
            "SELECT {} FROM {} NOT INDEXED {filter} LIMIT {limit}",
            list.join(", "),
            sql_name(table)
        );
        self.with(|c| {
            let doing = format!("reading {table}");
            let fault = |e: rusqlite::Error| self.fault(&e, &doing);
            let mut statement = c.prepare(&sql).map_err(fault)?;
            let mut rows = statement.query([]).map_err(fault)?;
            while let Some(row) = rows.next().map_err(fault)? {
                each(row)?;
            }
            Ok(())
        })
    }
}

/// A number that stands in a real or a text.
fn integral(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Real(real) if real.fract() == 0.0 && real.abs() < 9.0e15 => Some(real as i64),
        ValueRef::Text(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

/// A name of the row number that no column hides.
pub fn row_number(columns: &[String]) -> Option<&'static str> {
    let hidden = |name: &&str| columns.iter().any(|c| c.eq_ignore_ascii_case(name));
    ["rowid", "_rowid_", "oid"].into_iter().find(|name| !hidden(name))
}

/// An integer of a row, also one that is written as a real or a text; None for anything else.
pub fn int(row: &Row<'_>, at: usize) -> Option<i64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(value)) => Some(value),
        Ok(ValueRef::Null) | Err(_) => None,
        Ok(other) => integral(other),
    }
}

/// A text of a row, bytes that are no UTF-8 replaced; None for anything else.
pub fn text(row: &Row<'_>, at: usize) -> Option<String> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
