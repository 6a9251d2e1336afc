//! The tables of events: which ones a file has, what each is, and where its columns are.

use crate::error::{Error, Result};
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::database::{Database, row_number};
use crate::sql_text::sql_name;

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Kernels.
    Kernel,
    /// Whole CUDA graphs whose kernels were not recorded.
    Graph,
    /// Copies.
    Copy,
    /// Sets.
    Set,
    /// Calls of the CUDA runtime and driver.
    Runtime,
    /// NVTX ranges, marks, and names.
    Nvtx,
    /// What the host waits for on a device.
    Sync,
    /// Anything else on the host.
    Host,
    /// Samples of GPU metrics.
    Metrics,
}

impl Kind {
    /// Whether the rows are work of a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::Kernel | Self::Graph | Self::Copy | Self::Set)
    }

    fn of(table: &str, database: &Database) -> Option<Self> {
        let has = |column| database.has(table, column);
        Some(match table {
            "CUPTI_ACTIVITY_KIND_KERNEL" => Self::Kernel,
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" => Self::Graph,
            "CUPTI_ACTIVITY_KIND_MEMCPY" => Self::Copy,
            "CUPTI_ACTIVITY_KIND_MEMSET" => Self::Set,
            "CUPTI_ACTIVITY_KIND_RUNTIME" | "CUPTI_ACTIVITY_KIND_DRIVER" => Self::Runtime,
            "NVTX_EVENTS" => Self::Nvtx,
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" | "CUPTI_ACTIVITY_KIND_CUDA_EVENT" => Self::Sync,
            "GPU_METRICS" => Self::Metrics,
            "DIAGNOSTIC_EVENT" => return None,
            // What is said of the machine and the capture holds the environment.
            name if ["META_DATA", "TARGET_INFO", "PROCESS", "ANALYSIS", "EXPORT_"]
                .iter()
                .any(|words| name.starts_with(words)) =>
            {
                return None;
            }
            // Tables of Nsight Systems are written in capitals: OSRT_API, CUBLAS_EVENTS,
            // MPI_P2P_EVENTS.
            name if name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') =>
            {
                let timed = has("start") || has("timestamp");
                let placed = has("globalTid") || has("globalPid");
                if !(timed && placed) {
                    return None;
                }
                Self::Host
            }
            _ => return None,
        })
    }
}

/// Places of the columns that have a meaning, in the list of columns of a [`Plan`].
#[derive(Debug, Clone, Default)]
pub struct Places {
    pub start: Option<usize>,
    pub end: Option<usize>,
    pub process: Option<usize>,
    pub thread: Option<usize>,
    pub device: Option<usize>,
    pub stream: Option<usize>,
    pub context: Option<usize>,
    pub correlation: Option<usize>,
    pub bytes: Option<usize>,
    pub grid: [Option<usize>; 6],
    pub registers: Option<usize>,
    /// Static and dynamic shared memory.
    pub shared: [Option<usize>; 2],
    /// Ids of names, the best first.
    pub names: [Option<usize>; 3],
    pub text: Option<usize>,
    pub event_type: Option<usize>,
    pub domain: Option<usize>,
    pub category: Option<usize>,
    pub payload: Option<usize>,
    /// copyKind, srcKind, dstKind; memKind of a set; syncType.
    pub kinds: [Option<usize>; 3],
    /// typeId, metricId, value.
    pub metric: [Option<usize>; 3],
}

/// How a table is read.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the table.
    pub table: String,
    /// What the rows of the table are.
    pub kind: Kind,
    /// The statement: row number, then the columns, of a range of row numbers.
    pub sql: String,
    /// Where the columns are; place 0 is the row number.
    pub at: Places,
    /// Columns that become arguments, by name.
    pub rest: Vec<(usize, String)>,
    /// First and last row number.
    pub rows: (i64, i64),
}

/// The tables of events of a file that have rows, in the order in which they are read: what runs on
/// devices first, because it says which processes are ranks.
/// With a log, a table whose ends cannot be found is a finding.
///
/// # Errors
/// `nsys-unusable` when a table of kernels lacks a column without which no kernel can be placed;
/// `database-corrupt`.
pub fn plans(database: &Database, shown: &str, mut log: Option<&mut Log>) -> Result<Vec<Plan>> {
    let mut out = Vec::new();
    for (table, columns) in &database.tables {
        let Some(kind) = Kind::of(table, database) else { continue };
        let rows = match (database.rowids(table), &mut log) {
            (Err(e), Some(log)) => {
                let message = format!("{}; the table {table} was left out", e.message);
                log.say(Severity::Error, e.code, 1, message);
                continue;
            }
            (rows, _) => rows?,
        };
        let Some(rows) = rows else { continue };
        if kind == Kind::Kernel {
            let missing: Vec<&str> = ["start", "end", "deviceId"]
                .into_iter()
                .filter(|c| !columns.iter().any(|have| have == c))
                .collect();
            if !missing.is_empty() {
                return Err(Error::new(
                    "nsys-unusable",
                    format!("the table {table} lacks {}", missing.join(", ")),
                )
                .at(shown)
                .facts(format!("its columns: {}", columns.join(", ")))
                .hint("export the report again: nsys export --type sqlite REPORT.nsys-rep"));
            }
        }
        out.push(plan(table, kind, columns, rows));
    }
    out.sort_by(|a, b| (a.kind, &a.table).cmp(&(b.kind, &b.table)));
    Ok(out)
}

fn plan(table: &str, kind: Kind, columns: &[String], rows: (i64, i64)) -> Plan {
    let mut at = Places::default();
    let mut rest = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let place = Some(i + 1);
        let device = kind.is_device() || kind == Kind::Sync;
        let slot = match (column.as_str(), kind) {
            ("start", _) => &mut at.start,
            ("timestamp", _) if !columns.iter().any(|c| c == "start") => &mut at.start,
            ("end", _) => &mut at.end,
            ("globalPid", _) => &mut at.process,
            ("globalTid", _) => &mut at.thread,
            ("deviceId", _) if device => &mut at.device,
            ("streamId", _) if device => &mut at.stream,
            ("contextId", _) if kind.is_device() => &mut at.context,
            ("correlationId", _) => &mut at.correlation,
            ("bytes", Kind::Copy | Kind::Set) => &mut at.bytes,
            ("gridX", Kind::Kernel) => &mut at.grid[0],
            ("gridY", Kind::Kernel) => &mut at.grid[1],
            ("gridZ", Kind::Kernel) => &mut at.grid[2],
            ("blockX", Kind::Kernel) => &mut at.grid[3],
            ("blockY", Kind::Kernel) => &mut at.grid[4],
            ("blockZ", Kind::Kernel) => &mut at.grid[5],
            ("registersPerThread", Kind::Kernel) => &mut at.registers,
            ("staticSharedMemory", Kind::Kernel) => {
                at.shared[0] = place;
                rest.push((i + 1, column.clone()));
                continue;
            }
            ("dynamicSharedMemory", Kind::Kernel) => {
                at.shared[1] = place;
                rest.push((i + 1, column.clone()));
                continue;
            }
            ("demangledName", Kind::Kernel) => &mut at.names[0],
            ("shortName", Kind::Kernel) => &mut at.names[1],
            ("mangledName", Kind::Kernel) => &mut at.names[2],
            ("nameId", Kind::Runtime | Kind::Host) | ("textId", _) => &mut at.names[0],
            ("text" | "name", Kind::Nvtx | Kind::Host) => &mut at.text,
            ("eventType", Kind::Nvtx) => &mut at.event_type,
            ("domainId", Kind::Nvtx) => &mut at.domain,
            ("category", Kind::Nvtx) => &mut at.category,
            ("binaryData", Kind::Nvtx) => &mut at.payload,
            ("copyKind" | "memKind" | "syncType", Kind::Copy | Kind::Set | Kind::Sync) => {
                at.kinds[0] = place;
                rest.push((i + 1, column.clone()));
                continue;
            }
            ("srcKind", Kind::Copy) => {
                at.kinds[1] = place;
                rest.push((i + 1, column.clone()));
                continue;
            }
            ("dstKind", Kind::Copy) => {
                at.kinds[2] = place;
                rest.push((i + 1, column.clone()));
                continue;
            }
            ("typeId", Kind::Metrics) => &mut at.metric[0],
            ("metricId", Kind::Metrics) => &mut at.metric[1],
            ("value", Kind::Metrics) => &mut at.metric[2],
            _ => {
                rest.push((i + 1, column.clone()));
                continue;
            }
        };
        *slot = place;
    }
    let list: Vec<String> = columns.iter().map(|c| sql_name(c)).collect();
    let number = row_number(columns).unwrap_or("rowid");
    let sql = format!(
        "SELECT {number}, {} FROM {} NOT INDEXED WHERE {number} BETWEEN ?1 AND ?2 ORDER BY {number}",
        list.join(", "),
        sql_name(table)
    );
    Plan { table: table.to_owned(), kind, sql, at, rest, rows }
}
