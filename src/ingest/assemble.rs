//! From the spool files of the ranks to the tables of one trace directory.
//!
//! Host events stay one file per rank. Everything else is joined over the ranks by DuckDB, under a
//! memory limit with spilling: device events sorted by rank, class and start, so that a metric
//! reads few files and few row groups.

use std::path::{Path, PathBuf};

use duckdb::Connection;
use serde_json::Value;

use super::card::Card;
use super::job::{Facts, Member};
use super::kineto::{EPOCH_FROM_NS, Kineto};
use super::log::Log;
use super::manifest::Source;
use super::parquet::TableWriter;
use crate::error::{Result, io};
use crate::schema::table;
use crate::sql_text::{sql_path, sql_string};

/// Device events that go into one file.
const FILE_ROWS: u64 = 4_000_000;

/// Ranks that go into one file: each is a reader in the query that joins them.
const FILE_RANKS: usize = 64;

/// One file that was read, with what it held.
#[derive(Debug)]
pub struct ReadFile {
    /// What the split knew of it.
    pub facts: Facts,
    /// Its entry in the manifest (the rank is filled here).
    pub source: Source,
    /// Its content.
    pub kineto: Kineto,
}

/// How files are written by DuckDB.
pub const COPY_OPTIONS: &str =
    "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2";

/// Writes every ingested table of a trace under `directory`.
///
/// `files` are all files of the job root, `members` those of this trace with their ranks.
///
/// # Errors
/// `io` or `sql` when something cannot be written.
pub fn write(
    directory: &Path,
    connection: &Connection,
    files: &[ReadFile],
    members: &[Member],
    card: Option<&Card>,
    log: &Log,
) -> Result<()> {
    for m in members {
        host_events(directory, connection, &files[m.file], m.rank)?;
    }
    device_events(directory, connection, files, members)?;
    for name in ["flows", "counters", "metadata"] {
        merged(directory, connection, files, members, name)?;
    }
    ranks(directory, files, members)?;
    sources(directory, files, members)?;
    findings(directory, files, members, log)?;
    if let Some(card) = card {
        cards(directory, card)?;
    }
    Ok(())
}

/// `ts_ns` with what the reader could not add yet.
fn shifted(kineto: &Kineto) -> String {
    match kineto.pending_base_ns {
        0 => "*".to_owned(),
        base => format!(
            "* REPLACE (CASE WHEN ts_ns < {EPOCH_FROM_NS} THEN ts_ns + {base} ELSE ts_ns END AS ts_ns)"
        ),
    }
}

fn folder(directory: &Path, name: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::create_dir_all(&path).map_err(|e| io(&path, &e))?;
    Ok(path)
}

fn host_events(
    directory: &Path,
    connection: &Connection,
    file: &ReadFile,
    rank: i64,
) -> Result<()> {
    let Some(spool) = file.kineto.spool.get("host_events") else { return Ok(()) };
    let target = folder(directory, &format!("host_events/rank={rank}"))?
        .join(format!("kineto-{}.parquet", file.source.source_id));
    if file.kineto.pending_base_ns == 0 {
        return std::fs::rename(spool, &target).map_err(|e| io(&target, &e));
    }
    connection.execute_batch(&format!(
        "COPY (SELECT {} FROM read_parquet({})) TO {} ({COPY_OPTIONS})",
        shifted(&file.kineto),
        sql_path(spool),
        sql_string(&target.to_string_lossy()),
    ))?;
    std::fs::remove_file(spool).map_err(|e| io(spool, &e))
}

/// `SELECT` over the spool files of one table, with rank (and source, where the table has it).
fn union_of(files: &[ReadFile], members: &[Member], name: &str) -> Option<String> {
    let table = table(name).expect("callers name tables of the schema");
    let has_source = name != "flows" && table.columns.iter().any(|c| c.name == "source");
    let source = if has_source { "'kineto' AS source, " } else { "" };
    let selects: Vec<String> = members
        .iter()
        .filter_map(|m| {
            let kineto = &files[m.file].kineto;
            let spool = kineto.spool.get(name)?;
            let columns = if name == "metadata" { "*".to_owned() } else { shifted(kineto) };
            Some(format!(
                "SELECT {source}{}::BIGINT AS rank, {columns} FROM read_parquet({})",
                m.rank,
                sql_path(spool)
            ))
        })
        .collect();
    (!selects.is_empty()).then(|| selects.join(" UNION ALL "))
}

fn device_events(
    directory: &Path,
    connection: &Connection,
    files: &[ReadFile],
    members: &[Member],
) -> Result<()> {
    let mut parts: Vec<(u64, Vec<Member>)> = Vec::new();
    for m in members {
        let rows = files[m.file].kineto.device_events;
        match parts.last_mut() {
            Some((sum, part)) if *sum + rows <= FILE_ROWS && part.len() < FILE_RANKS => {
                *sum += rows;
                part.push(m.clone());
            }
            _ => parts.push((rows, vec![m.clone()])),
        }
    }
    for (i, (_, part)) in parts.iter().enumerate() {
        if let Some(union) = union_of(files, part, "device_events") {
            let target = folder(directory, "device_events")?.join(format!("part-{i:04}.parquet"));
            connection.execute_batch(&format!(
                "COPY ({union} ORDER BY rank, class, ts_ns, event_id) TO {} ({COPY_OPTIONS})",
                sql_string(&target.to_string_lossy())
            ))?;
        }
    }
    Ok(())
}

fn merged(
    directory: &Path,
    connection: &Connection,
    files: &[ReadFile],
    members: &[Member],
    name: &str,
) -> Result<()> {
    for (i, part) in members.chunks(FILE_RANKS).enumerate() {
        if let Some(union) = union_of(files, part, name) {
            let target = folder(directory, name)?.join(format!("part-{i:04}.parquet"));
            connection.execute_batch(&format!(
                "COPY ({union}) TO {} ({COPY_OPTIONS})",
                sql_string(&target.to_string_lossy())
            ))?;
        }
    }
    Ok(())
}

fn writer(directory: &Path, name: &str) -> Result<TableWriter> {
    let path = folder(directory, name)?.join("part-0000.parquet");
    Ok(TableWriter::new(table(name).expect("the table is in the schema"), &[], path))
}

/// Members of the header that `ranks` and the split use.
pub struct Header<'a>(pub &'a [(String, Value)]);

impl Header<'_> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn distributed(&self, key: &str) -> Option<&Value> {
        self.get("distributedInfo")?.get(key)
    }

    /// `distributedInfo.rank`, when it is an integer from 0 on.
    pub fn rank(&self) -> Option<i64> {
        self.distributed("rank")?.as_i64().filter(|r| (0..=10_000_000).contains(r))
    }

    /// `distributedInfo.world_size`, when it is an integer from 1 on.
    pub fn world_size(&self) -> Option<i64> {
        self.distributed("world_size")?.as_i64().filter(|w| (1..=10_000_000).contains(w))
    }

    /// Whether `distributedInfo` states a rank or world size that cannot be one.
    pub fn is_odd(&self) -> bool {
        let odd = |key, ok: bool| self.distributed(key).is_some_and(|v| !v.is_null()) && !ok;
        odd("rank", self.rank().is_some()) || odd("world_size", self.world_size().is_some())
    }

    fn text(&self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::String(s) if !s.is_empty() => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        }
    }

    /// The entry of `deviceProperties` for a device: by id, else the only one (containers renumber
    /// devices, and the list then holds id 0 alone).
    pub fn device(&self, id: Option<i64>) -> Option<&Value> {
        let list = self.get("deviceProperties")?.as_array()?;
        list.iter()
            .find(|d| id.is_some() && d.get("id").and_then(Value::as_i64) == id)
            .or(if list.len() == 1 { list.first() } else { None })
    }

    /// The name of a device; NULL where the trace leaves it empty.
    pub fn device_name(&self, id: Option<i64>) -> Option<String> {
        self.text(self.device(id)?.get("name"))
    }

    /// The host: `host_name` or `hostname`.
    pub fn host(&self) -> Option<String> {
        self.text(self.get("host_name").or(self.get("hostname")))
    }
}

fn ranks(directory: &Path, files: &[ReadFile], members: &[Member]) -> Result<()> {
    let mut w = writer(directory, "ranks")?;
    for m in members {
        let file = &files[m.file];
        let k = &file.kineto;
        let header = Header(&k.header);
        let device = header.device(k.device);
        let number = |key: &str| device.and_then(|d| d.get(key)).and_then(Value::as_i64);
        w.text(Some("kineto")).int(Some(m.rank)).int(Some(file.source.source_id));
        w.text(header.host().as_deref()).int(k.pid).int(k.device);
        w.text(header.device_name(k.device).as_deref());
        w.int(number("numSms")).int(number("totalGlobalMem"));
        w.int(header.world_size());
        w.text(header.text(header.distributed("backend")).as_deref());
        w.text(header.text(header.distributed("nccl_version")).as_deref());
        w.int(k.base_ns).int(k.span_ns.map(|s| s.0)).int(k.span_ns.map(|s| s.1));
        w.text(Some(m.rank_source)).end_row()?;
    }
    w.finish().map(|_| ())
}

fn sources(directory: &Path, files: &[ReadFile], members: &[Member]) -> Result<()> {
    let mut w = writer(directory, "sources")?;
    for m in members {
        let s = &files[m.file].source;
        w.int(Some(s.source_id)).text(Some(&s.path)).text(Some("kineto"));
        w.int(i64::try_from(s.bytes).ok()).text(Some(&s.sha256));
        w.int(i64::try_from(s.events).ok()).int(i64::try_from(s.skipped).ok()).end_row()?;
    }
    w.finish().map(|_| ())
}

fn findings(directory: &Path, files: &[ReadFile], members: &[Member], log: &Log) -> Result<()> {
    let of_files = members.iter().flat_map(|m| {
        let file = &files[m.file];
        file.kineto.log.findings.iter().map(|f| (Some(file.source.source_id), f))
    });
    let mut rows = of_files.chain(log.findings.iter().map(|f| (None, f))).peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let mut w = writer(directory, "ingest_log")?;
    for (source_id, f) in rows {
        w.int(source_id).text(Some(f.code)).text(Some(f.severity.word()));
        w.int(i64::try_from(f.count).ok()).int(f.first_offset.and_then(|o| i64::try_from(o).ok()));
        w.text(Some(&f.message)).end_row()?;
    }
    w.finish().map(|_| ())
}

fn cards(directory: &Path, card: &Card) -> Result<()> {
    let mut w = writer(directory, "cards")?;
    let arch = |field: &str| {
        [format!("workload.model.model_arch.{field}"), format!("workload.model.{field}")]
    };
    let int = |paths: &[String]| card.int(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    w.text(Some(&card.path.display().to_string()));
    for field in ["phase", "model_family", "precision", "moe"] {
        w.text(card.text(&[&format!("workload.model.{field}")]).as_deref());
    }
    for field in ["batch_size", "seq_len", "input_len", "output_len"] {
        w.int(card.int(&[&format!("workload.data.{field}")]));
    }
    w.int(card.int(&["workload.model.iteration"]));
    w.int(int(&arch("num_params")));
    let active = [arch("num_params_active"), arch("num_active_params")].concat();
    w.int(int(&active));
    for field in ["num_params_embedding", "num_layers", "num_heads", "head_dim"] {
        w.int(int(&arch(field)));
    }
    w.text(card.text(&["workload.hardware.xpu_spec.type"]).as_deref());
    w.text(card.text(&["workload.hardware.xpu_spec.model"]).as_deref());
    w.int(card.int(&["workload.hardware.xpu_spec.total_count"]));
    w.int(card.int(&["workload.hardware.xpu_spec.count_per_node"]));
    w.double(card.bandwidth(0)).double(card.bandwidth(1));
    w.text(card.text(&["Model-executor.framework.name"]).as_deref());
    w.text(card.text(&["Model-executor.communication_library.name"]).as_deref());
    for field in ["dp_replicate", "dp_shard", "tp", "pp", "cp", "ep", "pp_mb"] {
        w.int(card.int(&[&format!("Model-executor.model_plan_parallelization.{field}")]));
    }
    w.text(Some(&card.value.to_string())).end_row()?;
    w.finish().map(|_| ())
}
