//! Derived tables of a trace: made once, at the end of an ingest, and again when their SQL changes.
//!
//! Two steps are not SQL, because a sweep says them in one pass and bounded memory: which operator
//! encloses a launch (`launches`), and the merged busy spans (`busy_intervals`). The rest are the
//! files under `sql/derived/`, in the order of what they read; names with a leading underscore
//! are steps on the way and are not kept.

use std::path::{Path, PathBuf};

use duckdb::Connection;
use duckdb::arrow::array::{Array, AsArray, RecordBatch};
use duckdb::arrow::datatypes::Int64Type;

use crate::engine::select;
use crate::error::{Error, Result, io};
use crate::functions::interval::Merger;
use crate::ingest::{Finish, TableWriter};
use crate::registry::{Registry, SqlFile};
use crate::schema::{self, Made, TABLES};
use crate::sql_text::{sql_name, sql_string};

/// Ranks whose events are looked at together.
const RANKS_AT_A_TIME: usize = 16;

/// Raised when one of the two steps in Rust changes its meaning.
const SWEEP_VERSION: u32 = 1;

/// How derived tables are written.
const COPY_OPTIONS: &str = crate::ingest::assemble::COPY_OPTIONS;

/// Makes the derived tables by the SQL of a registry.
pub struct Derive<'r> {
    /// Where the SQL comes from.
    pub registry: &'r Registry,
}

impl Finish for Derive<'_> {
    fn sha256(&self) -> String {
        crate::hash::sha256_text(&format!("{SWEEP_VERSION} {}", self.registry.derived_sha256()))
    }

    fn derive(&self, directory: &Path, connection: &Connection) -> Result<()> {
        crate::functions::register(connection)?;
        let derived = self.registry.derived();
        let (by_rank, over_ranks): (Vec<&SqlFile>, Vec<&SqlFile>) =
            derived.into_iter().partition(|f| f.header.by_rank);
        // What is per rank is made for a few ranks at a time, so that memory does not grow with them.
        show(directory, connection, None)?;
        let mut ranks = Vec::new();
        let mut statement = connection.prepare("SELECT DISTINCT rank FROM ranks ORDER BY rank")?;
        for rank in statement.query_map([], |row| row.get::<_, i64>(0))? {
            ranks.push(rank?);
        }
        drop(statement);
        let busy_file = table_file(directory, "busy_intervals")?;
        let busy_table = schema::table("busy_intervals").expect("busy_intervals is in the schema");
        let mut busy = TableWriter::new(busy_table, &[], busy_file);
        for (part, ranks) in ranks.chunks(RANKS_AT_A_TIME).enumerate() {
            show(directory, connection, Some(ranks))?;
            launches(directory, connection, part)?;
            for file in &by_rank {
                let name = sql_name(&file.header.name);
                let verb = match part {
                    0 => format!("CREATE OR REPLACE TABLE {name} AS"),
                    _ => format!("INSERT INTO {name}"),
                };
                connection
                    .execute_batch(&format!("{verb} {}", file.query()))
                    .map_err(|e| Error::from(e).at(file.path.clone()))?;
            }
            busy_intervals(connection, ranks, &mut busy)?;
        }
        if busy.finish()?.is_none() {
            let folder = directory.join("busy_intervals");
            std::fs::remove_dir(&folder).map_err(|e| io(&folder, &e))?;
        }
        show(directory, connection, None)?;
        for file in &over_ranks {
            connection
                .execute_batch(&format!(
                    "CREATE OR REPLACE TABLE {} AS {}",
                    sql_name(&file.header.name),
                    file.query()
                ))
                .map_err(|e| Error::from(e).at(file.path.clone()))?;
        }
        for file in by_rank.iter().chain(&over_ranks) {
            let name = &file.header.name;
            if let Some(table) = schema::table(name) {
                let columns: Vec<String> = table
                    .columns
                    .iter()
                    .map(|c| format!("CAST({0} AS {1}) AS {0}", sql_name(c.name), c.ty.sql()))
                    .collect();
                let query = format!("SELECT {} FROM {}", columns.join(", "), sql_name(name));
                keep(connection, &query, || table_file(directory, name))?;
            }
        }
        let findings = directory.join("ingest_log/derived.parquet");
        if findings.exists() {
            // Removed and not written over: it may be shared with the directory still in place.
            std::fs::remove_file(&findings).map_err(|e| io(&findings, &e))?;
        }
        keep(connection, "SELECT * FROM _findings", || {
            table_file(directory, "ingest_log").map(|_| findings.clone())
        })
    }
}

/// Makes the ingested tables visible: of all ranks, or of some.
fn show(directory: &Path, connection: &Connection, ranks: Option<&[i64]>) -> Result<()> {
    for table in TABLES.iter().filter(|t| t.made == Made::Ingest) {
        let mut files = schema::files(directory, table);
        let mut only = String::new();
        if let (Some(ranks), true) = (ranks, table.columns.iter().any(|c| c.name == "rank")) {
            if table.by_rank {
                files.retain(|f| {
                    ranks
                        .iter()
                        .any(|r| f.parent().is_some_and(|p| p.ends_with(format!("rank={r}"))))
                });
            } else {
                let list: Vec<String> = ranks.iter().map(i64::to_string).collect();
                only = format!(" WHERE rank IN ({})", list.join(", "));
            }
        }
        connection.execute_batch(&format!(
            "CREATE OR REPLACE VIEW {} AS {}{only}",
            table.name,
            match only.is_empty() {
                true => select(table, &files),
                false => format!("SELECT * FROM ({})", select(table, &files)),
            }
        ))?;
    }
    Ok(())
}

fn table_file(directory: &Path, name: &str) -> Result<PathBuf> {
    let folder = directory.join(name);
    std::fs::create_dir_all(&folder).map_err(|e| io(&folder, &e))?;
    Ok(folder.join("part-0000.parquet"))
}

/// Writes the rows of a query to a file, unless there are none.
fn keep(
    connection: &Connection,
    query: &str,
    file: impl FnOnce() -> Result<PathBuf>,
) -> Result<()> {
    let rows: i64 =
        connection.query_row(&format!("SELECT count(*) FROM ({query})"), [], |r| r.get(0))?;
    if rows == 0 {
        return Ok(());
    }
    connection.execute_batch(&format!(
        "COPY ({query}) TO {} ({COPY_OPTIONS})",
        sql_string(&file()?.to_string_lossy())
    ))?;
    Ok(())
}

/// An integer column of a batch by name.
fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a duckdb::arrow::array::Int64Array {
    batch.column_by_name(name).expect("the query names the column").as_primitive::<Int64Type>()
}

/// What stands open on a thread: an operator or annotation that encloses what follows.
#[derive(Debug, Clone, Copy)]
struct Open {
    end: i64,
    event_id: i64,
    kind: i64,
}

/// Kinds of rows in the sweep.
const CALL: i64 = 0;
const OP: i64 = 1;
const RECORD: i64 = 2;
const COMM_OP: i64 = 3;
const ANNOTATION: i64 = 4;

/// The enclosing operators of the calls of one thread, found by one sweep over rows that come
/// sorted by start (longer first, calls after what starts with them).
#[derive(Debug, Default)]
struct Sweep {
    open: Vec<Open>,
    /// Operator that ended last, and when: times of older traces are whole microseconds, so that a
    /// launch may fall on the end of its operator.
    ended: Option<Open>,
}

/// Innermost operator, record, annotation and communication operator around a call.
type Around = [Option<i64>; 4];

impl Sweep {
    fn enter(&mut self, start: i64, open: Open) {
        self.leave(start);
        self.open.push(open);
    }

    fn leave(&mut self, now: i64) {
        while let Some(top) = self.open.last() {
            if top.end > now {
                break;
            }
            if top.kind != ANNOTATION && self.ended.is_none_or(|e| e.end < top.end) {
                self.ended = Some(*top);
            }
            self.open.pop();
        }
    }

    fn around(&mut self, now: i64) -> Around {
        self.leave(now);
        let innermost = |kinds: &[i64]| {
            self.open
                .iter()
                .rev()
                .find(|o| o.end > now && kinds.contains(&o.kind))
                .map(|o| o.event_id)
        };
        let op = innermost(&[OP, RECORD, COMM_OP])
            .or_else(|| self.ended.filter(|e| e.end == now).map(|e| e.event_id));
        [op, innermost(&[RECORD]), innermost(&[ANNOTATION]), innermost(&[COMM_OP])]
    }
}

/// `launches`: each device event with its runtime call (by correlation, within a source) and the
/// operators around that call (by time, on the thread of the call).
fn launches(directory: &Path, connection: &Connection, part: usize) -> Result<()> {
    // Of two calls with one id (seen on MI350) the longer one is the launch.
    connection.execute_batch(
        "CREATE OR REPLACE TABLE _calls AS
         SELECT d.rank, d.event_id, d.ts_ns AS device_ts_ns, r.event_id AS runtime_event_id,
             r.pid, r.tid, r.ts_ns
         FROM (SELECT rank, event_id, ts_ns, correlation FROM device_events
               WHERE correlation IS NOT NULL) AS d
         INNER JOIN (SELECT rank, event_id, ts_ns, dur_ns, pid, tid, correlation FROM host_events
                     WHERE class = 'host_runtime' AND correlation IS NOT NULL) AS r
             ON r.rank = d.rank AND r.correlation = d.correlation
             AND r.event_id >> 40 = d.event_id >> 40
         QUALIFY row_number() OVER (
             PARTITION BY d.event_id ORDER BY r.dur_ns DESC NULLS LAST, r.event_id) = 1;
         CREATE OR REPLACE TABLE _around (runtime_event_id BIGINT, op_event_id BIGINT,
             record_event_id BIGINT, annotation_event_id BIGINT, comm_op_event_id BIGINT);",
    )?;
    let other = connection.try_clone()?;
    let mut appender = other.appender("_around")?;
    let mut statement = connection.prepare(
        "WITH threads AS (SELECT DISTINCT rank, pid, tid FROM _calls)
         SELECT h.rank, h.pid, h.tid, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns, h.event_id,
             CASE WHEN h.class <> 'host_op' THEN 4
                  WHEN h.name = 'record_param_comms' THEN 2
                  WHEN h.name LIKE 'c10d::%' THEN 3 ELSE 1 END::BIGINT AS kind
         FROM host_events AS h
         SEMI JOIN threads AS t ON t.rank = h.rank AND t.pid = h.pid AND t.tid = h.tid
         WHERE h.dur_ns IS NOT NULL
             AND (h.class = 'host_op' OR (h.class = 'host_annotation' AND h.name LIKE 'nccl:%'))
         UNION ALL
         SELECT DISTINCT rank, pid, tid, ts_ns, ts_ns, runtime_event_id, 0
         FROM _calls
         ORDER BY rank, pid, tid, ts_ns, end_ns DESC, event_id",
    )?;
    let mut thread = None;
    let mut sweep = Sweep::default();
    // Rows that start together come longest first, so a call (length 0) comes after what starts
    // with it; a call that two rows of equal start enclose sees both.
    for batch in statement.stream_arrow([])? {
        let batch = batch?;
        let column = |name| ints(&batch, name);
        let (rank, pid, tid) = (column("rank"), column("pid"), column("tid"));
        let (start, end) = (column("ts_ns"), column("end_ns"));
        let (event_id, kind) = (column("event_id"), column("kind"));
        for row in 0..batch.num_rows() {
            let of = |c: &duckdb::arrow::array::Int64Array| c.is_valid(row).then(|| c.value(row));
            let now = (of(rank), of(pid), of(tid));
            if thread != Some(now) {
                thread = Some(now);
                sweep = Sweep::default();
            }
            let (id, at) = (event_id.value(row), start.value(row));
            if kind.value(row) == CALL {
                let [op, record, annotation, comm_op] = sweep.around(at);
                appender.append_row(duckdb::params![id, op, record, annotation, comm_op])?;
            } else {
                sweep.enter(at, Open { end: end.value(row), event_id: id, kind: kind.value(row) });
            }
        }
    }
    appender.flush()?;
    drop(appender);
    let query = "SELECT c.rank, c.event_id, a.op_event_id, c.runtime_event_id,
             c.device_ts_ns - c.ts_ns AS launch_delay_ns, c.ts_ns AS launch_ts_ns,
             a.record_event_id, a.annotation_event_id, a.comm_op_event_id
         FROM _calls AS c
         LEFT JOIN _around AS a ON a.runtime_event_id = c.runtime_event_id
         ORDER BY c.rank, c.event_id";
    connection.execute_batch(&format!("CREATE OR REPLACE TABLE launches AS {query}"))?;
    keep(connection, "SELECT * FROM launches", || {
        table_file(directory, "launches")
            .map(|f| f.with_file_name(format!("part-{part:04}.parquet")))
    })?;
    connection.execute_batch("DROP TABLE _calls; DROP TABLE _around;")?;
    Ok(())
}

/// `busy_intervals`: per rank, device and class the union of the spans of its events. On a rank
/// without any device, the spans of the communication on the host (gloo).
fn busy_intervals(connection: &Connection, ranks: &[i64], writer: &mut TableWriter) -> Result<()> {
    let list: Vec<String> = ranks.iter().map(i64::to_string).collect();
    let mut statement = connection.prepare(&format!(
        "SELECT rank, device, class, ts_ns, ts_ns + dur_ns AS end_ns
         FROM device_events
         WHERE class IN ('comm', 'compute', 'copy', 'set') AND dur_ns IS NOT NULL
         UNION ALL
         SELECT rank, NULL, 'comm', ts_ns, ts_ns + dur_ns
         FROM _collective_events
         WHERE device IS NULL AND rank IN ({})
         ORDER BY rank, device, class, ts_ns",
        list.join(", ")
    ))?;
    type Key = (Option<i64>, Option<i64>, String);
    let mut key: Option<Key> = None;
    let mut merger = Merger::default();
    let mut row_of = |key: &Option<Key>, merged: Option<(i64, i64)>| -> Result<()> {
        if let (Some((rank, device, class)), Some((start, end))) = (key, merged) {
            writer.int(*rank).int(*device).text(Some(class)).int(Some(start)).int(Some(end));
            writer.end_row()?;
        }
        Ok(())
    };
    for batch in statement.stream_arrow([])? {
        let batch = batch?;
        let (rank, device) = (ints(&batch, "rank"), ints(&batch, "device"));
        let (start, end) = (ints(&batch, "ts_ns"), ints(&batch, "end_ns"));
        let class = batch.column_by_name("class").expect("the query names it").as_string::<i32>();
        for row in 0..batch.num_rows() {
            let of = |c: &duckdb::arrow::array::Int64Array| c.is_valid(row).then(|| c.value(row));
            let same = key.as_ref().is_some_and(|(r, d, c)| {
                *r == of(rank) && *d == of(device) && c == class.value(row)
            });
            if !same {
                row_of(&key, merger.finish())?;
                key = Some((of(rank), of(device), class.value(row).to_owned()));
            }
            let merged = merger.push((start.value(row), end.value(row)));
            row_of(&key, merged)?;
        }
    }
    row_of(&key, merger.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(end: i64, event_id: i64, kind: i64) -> Open {
        Open { end, event_id, kind }
    }

    #[test]
    fn innermost_of_each_kind() {
        let mut s = Sweep::default();
        s.enter(0, open(100, 1, COMM_OP));
        s.enter(10, open(90, 2, RECORD));
        s.enter(20, open(80, 3, ANNOTATION));
        assert_eq!(s.around(50), [Some(2), Some(2), Some(3), Some(1)]);
        assert_eq!(s.around(80), [Some(2), Some(2), None, Some(1)]);
        assert_eq!(s.around(95), [Some(1), None, None, Some(1)]);
        assert_eq!(s.around(200), [None; 4]);
    }

    #[test]
    fn an_operator_that_ends_with_the_call_counts_when_no_other_does() {
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, OP));
        assert_eq!(s.around(10)[0], Some(1));
        let mut s = Sweep::default();
        s.enter(0, open(20, 1, OP));
        s.enter(5, open(10, 2, OP));
        assert_eq!(s.around(10)[0], Some(1));
    }

    #[test]
    fn ranges_that_only_overlap_do_not_hide_the_outer_one() {
        let mut s = Sweep::default();
        s.enter(0, open(10, 1, OP));
        s.enter(5, open(20, 2, OP));
        s.enter(6, open(7, 3, OP));
        assert_eq!(s.around(12)[0], Some(2));
    }
}
