//! Exports of Nsight Systems: databases of the tables that it writes, whose rows lack something or
//! say something else, and whose pages are damaged where it matters.

use std::path::Path;

use ccl_sql::input::place::Place;
use ccl_sql::readers;
use ccl_sql::readers::contract::{Answer, Kind, Said};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::dice::Dice;

/// Every row of a table of events is an event, or counted as left out; a damaged database has an
/// answer. Says whether the export was read, before it was damaged.
pub fn check(data: &[u8]) -> bool {
    let mut dice = Dice::new(data);
    let folder = super::super::spool();
    let path = folder.path().join("made.sqlite");
    let made = make(&mut dice, &path).expect("SQLite writes it");
    let file = std::fs::read(&path).expect("the file is there");
    let answer =
        super::super::read_as(Kind::Sqlite, &Place::file(&path), Said::default(), readers::read);
    let is_read = matches!(answer, Ok(Answer::Shares { .. }));
    match answer {
        Ok(Answer::Shares { shares, .. }) => {
            let (mut device, mut all, mut skipped) = (0, 0, 0);
            for share in &shares {
                device += share.totals.device_events;
                all += share.totals.events;
                skipped += share.totals.skipped;
            }
            assert!(device <= made.device, "{device} of {}", made.device);
            assert!(device + skipped >= made.device, "{device} + {skipped} of {}", made.device);
            assert!(all <= made.device + made.host, "{all} of {} + {}", made.device, made.host);
        }
        Ok(_) => {}
        Err(error) => assert!(
            matches!(error.code, "nsys-unusable" | "value-too-large" | "database-corrupt"),
            "{error}"
        ),
    }
    super::super::nsys(&damaged(&mut dice, file));
    is_read
}

/// Rows that were written into tables of work of devices, and of all else that happens.
#[derive(Default)]
struct Made {
    device: u64,
    host: u64,
}

/// What is usual in a column.
#[derive(Clone, Copy)]
enum Column {
    Start,
    End,
    Small,
    Process,
    Thread,
    /// A string of `StringIds`.
    Id,
    Bytes,
    Said,
    Payload,
}

use Column::{Bytes, End, Id, Payload, Process, Said as Spoken, Small, Start, Thread};

/// Where rows count.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    Device,
    Host,
    No,
}

type Table = (&'static str, Counts, &'static [(&'static str, Column)]);

const TABLES: [Table; 16] = [
    (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        Counts::Device,
        &[
            ("start", Start),
            ("end", End),
            ("deviceId", Small),
            ("contextId", Small),
            ("streamId", Small),
            ("correlationId", Small),
            ("globalPid", Process),
            ("demangledName", Id),
            ("shortName", Id),
            ("gridX", Small),
            ("blockX", Small),
            ("registersPerThread", Small),
            ("staticSharedMemory", Bytes),
            ("graphNodeId", Small),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        Counts::Device,
        &[
            ("start", Start),
            ("end", End),
            ("deviceId", Small),
            ("streamId", Small),
            ("correlationId", Small),
            ("globalPid", Process),
            ("bytes", Bytes),
            ("copyKind", Small),
            ("srcKind", Small),
            ("dstKind", Small),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMSET",
        Counts::Device,
        &[
            ("start", Start),
            ("end", End),
            ("deviceId", Small),
            ("globalPid", Process),
            ("bytes", Bytes),
            ("memKind", Small),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        Counts::Device,
        &[
            ("start", Start),
            ("end", End),
            ("deviceId", Small),
            ("globalPid", Process),
            ("graphId", Small),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        Counts::Host,
        &[
            ("start", Start),
            ("end", End),
            ("globalTid", Thread),
            ("correlationId", Small),
            ("nameId", Id),
            ("returnValue", Small),
            ("callchainId", Small),
        ],
    ),
    (
        "NVTX_EVENTS",
        Counts::Host,
        &[
            ("start", Start),
            ("end", End),
            ("eventType", Small),
            ("category", Small),
            ("text", Spoken),
            ("globalTid", Thread),
            ("textId", Id),
            ("domainId", Small),
            ("binaryData", Payload),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        Counts::Host,
        &[
            ("start", Start),
            ("end", End),
            ("deviceId", Small),
            ("globalPid", Process),
            ("syncType", Small),
        ],
    ),
    (
        "OSRT_API",
        Counts::Host,
        &[("start", Start), ("end", End), ("globalTid", Thread), ("nameId", Id)],
    ),
    (
        "GPU_METRICS",
        Counts::No,
        &[("timestamp", Start), ("typeId", Small), ("metricId", Small), ("value", Bytes)],
    ),
    ("StringIds", Counts::No, &[("id", Id), ("value", Spoken)]),
    (
        "TARGET_INFO_GPU",
        Counts::No,
        &[("id", Small), ("name", Spoken), ("smCount", Small), ("totalMemory", Bytes)],
    ),
    ("TARGET_INFO_SESSION_START_TIME", Counts::No, &[("utcEpochNs", Bytes)]),
    ("PROCESSES", Counts::No, &[("globalPid", Process), ("pid", Small), ("name", Spoken)]),
    ("ThreadNames", Counts::No, &[("nameId", Id), ("globalTid", Thread)]),
    (
        "NVTX_PAYLOAD_SCHEMAS",
        Counts::No,
        &[("domainId", Small), ("schemaId", Small), ("name", Spoken), ("payloadSize", Small)],
    ),
    ("COMPOSITE_EVENTS", Counts::Host, &[("id", Small), ("start", Start), ("globalTid", Thread)]),
];

const STRINGS: [&str; 8] = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "ampere_sgemm_128x64_nn",
    "cudaLaunchKernel_v7000",
    "ncclAllReduce",
    ":forward",
    "ProfilerStep#4",
    "NCCL",
    "op_id = 3, seq = 7",
];

/// Types that a column may be declared with.
const TYPES: [&str; 5] = ["INTEGER", "", "TEXT", "REAL", "BLOB"];

fn make(dice: &mut Dice<'_>, path: &Path) -> rusqlite::Result<Made> {
    let connection = Connection::open(path)?;
    let pages = dice.pick(&[512, 512, 1024, 4096]);
    connection.execute_batch(&format!(
        "PRAGMA page_size = {pages}; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN"
    ))?;
    let mut made = Made::default();
    for (table, counts, columns) in TABLES {
        // Kernels lack least often, so that there is something to read.
        if dice.one_in(if table.ends_with("KERNEL") { 16 } else { 3 }) {
            continue;
        }
        let columns: Vec<(&str, Column)> =
            columns.iter().copied().filter(|_| !dice.one_in(16)).collect();
        if columns.is_empty() {
            continue;
        }
        let key = |dice: &mut Dice<'_>, column: &str| match dice.below(12) {
            1 if column == "id" => " PRIMARY KEY",
            _ => "",
        };
        let list: Vec<String> = columns
            .iter()
            .map(|(column, _)| {
                let ty = if dice.one_in(8) { dice.pick(&TYPES) } else { "INTEGER" };
                format!("\"{column}\" {ty}{}", key(dice, column))
            })
            .collect();
        connection.execute_batch(&format!("CREATE TABLE {table} ({})", list.join(", ")))?;
        if dice.one_in(10) {
            let column = dice.pick(&columns).0;
            connection
                .execute_batch(&format!("CREATE INDEX {table}_i ON {table} (\"{column}\")"))?;
        }
        let rows = if table == "StringIds" { STRINGS.len() } else { dice.below(8) };
        let holes = vec!["?"; columns.len()].join(", ");
        let mut insert =
            connection.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES ({holes})"))?;
        for row in 0..rows {
            let values: Vec<Value> = columns
                .iter()
                .map(|(_, column)| match dice.one_in(20) {
                    true => odd(dice),
                    false => usual(dice, *column, row),
                })
                .collect();
            // A key that is no integer is refused.
            let added = insert.execute(rusqlite::params_from_iter(values)).unwrap_or(0) as u64;
            match counts {
                Counts::Device => made.device += added,
                Counts::Host => made.host += added,
                Counts::No => {}
            }
        }
        if dice.one_in(24) {
            let odd = dice.number();
            // A row number far from all others.
            let moved = format!("UPDATE OR IGNORE {table} SET rowid = {odd} WHERE rowid = 1");
            connection.execute_batch(&moved)?;
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(made)
}

fn usual(dice: &mut Dice<'_>, column: Column, row: usize) -> Value {
    let process = |dice: &mut Dice<'_>| (0x100_0000 + (dice.below(2) as i64) * 0x20) << 24;
    match column {
        Start => Value::Integer(1000 + dice.below(4096) as i64),
        End => Value::Integer(3000 + dice.below(4096) as i64),
        Small => Value::Integer(dice.below(3) as i64),
        Process => Value::Integer(process(dice)),
        Thread => Value::Integer(process(dice) | dice.below(3) as i64),
        Id => Value::Integer(if row < STRINGS.len() { row as i64 } else { dice.number() }),
        Bytes => Value::Integer(dice.number()),
        Spoken => match dice.one_in(4) {
            true => Value::Text(dice.text()),
            false => Value::Text(dice.pick(&STRINGS).to_owned()),
        },
        Payload => match dice.one_in(2) {
            true => Value::Blob(dice.bytes(48)),
            false => Value::Null,
        },
    }
}

fn odd(dice: &mut Dice<'_>) -> Value {
    match dice.below(5) {
        0 => Value::Null,
        1 => Value::Integer(dice.number()),
        2 => Value::Real(dice.double()),
        3 => Value::Text(dice.text()),
        _ => Value::Blob(dice.bytes(24)),
    }
}

/// The file with some of the bytes changed that say how a page is to be read: kinds of pages,
/// counts and places of cells, pages that follow, lengths of rows.
fn damaged(dice: &mut Dice<'_>, mut file: Vec<u8>) -> Vec<u8> {
    let size = match file.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => usize::from(*high) << 8 | usize::from(*low),
        _ => return file,
    };
    let pages = file.len() / size.max(1);
    for _ in 0..=dice.below(3) {
        let page = dice.below(pages.clamp(1, 65_536)) * size;
        let head = page + if page == 0 { 100 } else { 0 };
        let pointer = |file: &[u8], cell: usize| {
            let inner = file.get(head).is_some_and(|kind| matches!(kind, 2 | 5));
            let at = head + if inner { 12 } else { 8 } + 2 * cell;
            let high = file.get(at).copied().unwrap_or(0);
            (at, usize::from(high) << 8 | usize::from(file.get(at + 1).copied().unwrap_or(0)))
        };
        let cell = dice.below(8);
        let (at_pointer, offset) = pointer(&file, cell);
        let at = match dice.below(8) {
            0 => dice.below(100),
            1 => head,
            2 => head + 1 + dice.below(2),
            3 => head + 3 + dice.below(2),
            4 => head + 5 + dice.below(7),
            5 => at_pointer + dice.below(2),
            // The length, the row number, the types of the columns.
            _ => page + offset + dice.below(12),
        };
        let value = match dice.below(4) {
            0 => 0xff,
            1 => 0,
            _ => dice.byte(),
        };
        if let Some(byte) = file.get_mut(at) {
            *byte = value;
        }
    }
    if dice.one_in(16) {
        let pages = dice.below(pages.clamp(1, 65_536)) + 1;
        file.truncate(pages * size - dice.below(size));
    }
    file
}
