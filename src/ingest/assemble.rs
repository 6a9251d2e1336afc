//! From the files of the ranks to the tables of one trace directory.
//!
//! Host events stay one file per rank. Everything else is joined over the ranks: row groups are
//! copied as they are encoded (`splice`), device events sorted by rank, class and start, so that a
//! metric reads few files and few row groups. Ranks that did not change since the last ingest come
//! from the trace directory that it left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};
use crate::ingest::card::fields::Card;
use crate::ingest::card::torchtitan;
use crate::ingest::ranks::facts::Member;
use crate::ingest::records::{self, ReadFile, Record, Rows, placed};
use crate::pool::each;
use crate::readers::log::Log;
use crate::schema::source::Source;
use crate::schema::table;
use crate::spool::parquet::TableWriter;
use crate::spool::sort_rows::Sorter;
use crate::spool::splice::{Lacks, Splicer, each_batch};
use crate::store::files::{link, rank_folder};
use crate::store::manifest::{self, SourceFile};

/// Device events that go into one file.
const FILE_ROWS: u64 = 4_000_000;

/// Ranks that go into one file.
const FILE_RANKS: usize = 64;

/// Writes every ingested table of a trace under `directory`.
///
/// `files` are all files of the job root, `members` those of this trace with their ranks. `work` is
/// the folder for files on the way, and says how many threads there are.
/// `same_ranks` says that the files that were read before make a trace of the same ranks.
///
/// # Errors
/// `io` when something cannot be read or written.
pub fn write(
    directory: &Path,
    (work, threads): (&Path, usize),
    files: &mut [ReadFile],
    members: &[Member],
    same_ranks: bool,
    card: Option<&Card>,
    log: &Log,
) -> Result<()> {
    let ranks = by_rank(members);
    // Each holds some encoded rows: a small job has one thread's work.
    let files_of_devices = parts(files, &ranks, same_ranks, "device_events").len();
    let at_a_time = threads.min(files_of_devices).max(1);
    each(at_a_time, members, |m| host_events(directory, &files[m.file], m.rank))?;
    let names = [
        "device_events",
        "flows",
        "counters",
        "metadata",
        "launches",
        "comm_args",
        "step_ranges",
        "host_ranges",
        "et_nodes",
        "memory_segments",
        "memory_blocks",
        "memory_events",
        "memory_stacks",
        "benchmarks",
        "requests",
        "expert_loads",
    ];
    let of_table = |name| parts(files, &ranks, same_ranks, name).into_iter().enumerate();
    let to_join: Vec<(&str, usize, Part)> = names
        .into_iter()
        .flat_map(|name| of_table(name).map(move |(i, part)| (name, i, part)))
        .collect();
    let joined_files = each(at_a_time, &to_join, |(name, i, part)| {
        joined(directory, work, files, part, same_ranks, name, *i)
    })?;
    for ((name, _, part), file_name) in to_join.iter().zip(joined_files) {
        for f in part.iter().flat_map(|(_, of)| of) {
            files[*f].record.tables.insert(placed(name), file_name.clone());
        }
    }
    rank_rows(directory, files, members)?;
    sources(directory, files, members)?;
    findings(directory, files, members, log)?;
    if let Some(card) = card {
        match &card.config {
            Some((path, config)) => {
                let world = members.iter().filter_map(|m| m.world_size).max();
                let ranks = members.iter().filter_map(|m| m.rank).collect::<BTreeSet<_>>().len();
                let world = world.or(i64::try_from(ranks).ok().filter(|n| *n > 0));
                cards(directory, &torchtitan::merged(Some(card), path, config, world))?;
            }
            None => cards(directory, card)?,
        }
    }
    let records: Vec<&Record> = members.iter().map(|m| &files[m.file].record).collect();
    records::write(directory, &records)
}

fn folder(directory: &Path, name: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::create_dir_all(&path).map_err(|e| io(&path, &e))?;
    Ok(path)
}

fn host_events(directory: &Path, file: &ReadFile, rank: Option<i64>) -> Result<()> {
    let Some(name) = file.record.tables.get("host_events") else { return Ok(()) };
    let file_name =
        format!("{}-{}.parquet", file.record.source.source, file.record.source.source_id);
    let of_rank = format!("host_events/{}", rank_folder(rank));
    let target = folder(directory, &of_rank)?.join(&file_name);
    match &file.rows {
        Rows::Trace(old) => link(&old.join(of_rank).join(file_name), &target),
        Rows::Spool(spool) if file.record.pending_base_ns == 0 => link(&spool.join(name), &target),
        Rows::Spool(spool) => {
            let schema = table("host_events").expect("the table is in the schema").arrow();
            let mut out = Splicer::new(target, schema);
            out.add(
                &spool.join(name),
                Lacks { base_ns: file.record.pending_base_ns, ..Lacks::default() },
            )?;
            out.finish().map(|_| ())
        }
    }
}

/// The files of each rank.
fn by_rank(members: &[Member]) -> BTreeMap<Option<i64>, Vec<usize>> {
    let mut out: BTreeMap<Option<i64>, Vec<usize>> = BTreeMap::new();
    for m in members {
        out.entry(m.rank).or_default().push(m.file);
    }
    out
}

/// Ranks of one file of a table, with the files that each was read from.
type Part = Vec<(Option<i64>, Vec<usize>)>;

/// The ranks of each file of a table: as the earlier ingest had them when the ranks are the same,
/// so that the files without a changed rank can stay; else filled up one after the other.
fn parts(
    files: &[ReadFile],
    ranks: &BTreeMap<Option<i64>, Vec<usize>>,
    same_ranks: bool,
    name: &str,
) -> Vec<Part> {
    let earlier: Option<Vec<&String>> =
        ranks.values().map(|of| files[of[0]].record.tables.get(&placed(name))).collect();
    let mut out: Vec<Part> = Vec::new();
    if let (Some(earlier), true) = (earlier, same_ranks) {
        let names: BTreeSet<&String> = earlier.iter().copied().collect();
        for wanted in names {
            let part = ranks.iter().zip(&earlier).filter(|(_, name)| **name == wanted);
            out.push(part.map(|((rank, of), _)| (*rank, of.clone())).collect());
        }
        return out;
    }
    let mut rows = 0;
    for (rank, of) in ranks {
        let more = match name {
            "device_events" => of.iter().map(|f| files[*f].record.totals.device_events).sum(),
            _ => 0,
        };
        match out.last_mut() {
            Some(part) if rows + more <= FILE_ROWS && part.len() < FILE_RANKS => {
                rows += more;
                part.push((*rank, of.clone()));
            }
            _ => {
                rows = more;
                out.push(vec![(*rank, of.clone())]);
            }
        }
    }
    out
}

/// Writes one file of a table that holds many ranks; its name.
fn joined(
    directory: &Path,
    work: &Path,
    files: &[ReadFile],
    part: &Part,
    same_ranks: bool,
    name: &str,
    index: usize,
) -> Result<String> {
    let file_name = format!("part-{index:04}.parquet");
    let all = || part.iter().flat_map(|(_, of)| of);
    // Nothing changed: the file stays.
    let stays = same_ranks
        && all().all(|f| {
            matches!(files[*f].rows, Rows::Trace(_))
                && files[*f].record.tables.get(&placed(name)) == Some(&file_name)
        });
    let has_rows = all().any(|f| files[*f].record.tables.contains_key(name));
    if has_rows {
        let target = folder(directory, name)?.join(&file_name);
        match &files[part[0].1[0]].rows {
            Rows::Trace(old) if stays => link(&old.join(name).join(&file_name), &target)?,
            _ => {
                let schema = table(name).expect("the table is in the schema").arrow();
                let mut out = Splicer::new(target, schema);
                for (rank, of) in part {
                    rank_into(&mut out, work, files, *rank, of, name)?;
                }
                out.finish()?;
            }
        }
    }
    Ok(file_name)
}

/// The rows of one rank.
fn rank_into(
    out: &mut Splicer,
    work: &Path,
    files: &[ReadFile],
    rank: Option<i64>,
    of: &[usize],
    name: &str,
) -> Result<()> {
    let spools: Vec<(PathBuf, Lacks)> = of
        .iter()
        .filter_map(|f| match &files[*f].rows {
            Rows::Trace(_) => None,
            Rows::Spool(spool) => {
                let record = &files[*f].record;
                let lacks = Lacks {
                    rank,
                    source: record.source.source.word(),
                    base_ns: record.pending_base_ns,
                };
                Some((spool.join(record.tables.get(name)?), lacks))
            }
        })
        .collect();
    // Files of one rank are all in spools, or the only one is in a trace.
    if let (Rows::Trace(old), Some(earlier)) =
        (&files[of[0]].rows, files[of[0]].record.tables.get(&placed(name)))
    {
        return match files[of[0]].record.tables.contains_key(name) {
            true => out.add_rank(&old.join(name).join(earlier), rank),
            false => Ok(()),
        };
    }
    if spools.len() > 1 && name == "device_events" {
        // Consecutive windows of one rank: each is sorted, and together they must be.
        let schema = table(name).expect("the table is in the schema").arrow();
        let mut sorter = Sorter::new(work, schema, &["class", "ts_ns", "event_id"]);
        for (path, lacks) in &spools {
            each_batch(path, |batch| sorter.push(out.completed(&batch, *lacks)?))?;
        }
        return sorter.finish(&mut |batch| out.join(batch));
    }
    spools.iter().try_for_each(|(path, lacks)| out.add(path, *lacks))
}

fn writer(directory: &Path, name: &str) -> Result<TableWriter> {
    let path = folder(directory, name)?.join("part-0000.parquet");
    Ok(TableWriter::new(table(name).expect("the table is in the schema"), &[], path))
}

fn rank_rows(directory: &Path, files: &[ReadFile], members: &[Member]) -> Result<()> {
    let mut out = writer(directory, "ranks")?;
    // An execution trace beside other traces is no rank of its own.
    let is_beside = manifest::beside(members.iter().map(|m| files[m.file].record.source.source));
    for m in members.iter().filter(|m| m.rank.is_some()) {
        if is_beside && files[m.file].record.source.source == Source::Et {
            continue;
        }
        let record = &files[m.file].record;
        let (row, totals) = (&record.row, &record.totals);
        let w = out.row();
        w.text(Some(record.source.source.word())).int(m.rank).int(Some(record.source.source_id));
        w.text(row.host.as_deref()).int(totals.pid()).int(totals.device);
        w.text(row.device_name.as_deref()).int(row.sm_count).int(row.memory_bytes);
        w.text(row.compute_capability.as_deref())
            .int(m.world_size)
            .text(row.backend.as_deref())
            .text(row.nccl_version.as_deref());
        w.int(row.base_ns);
        w.int(totals.span_ns.map(|s| s.0)).int(totals.span_ns.map(|s| s.1));
        w.text(Some(m.rank_source));
        out.end_row()?;
    }
    out.finish().map(|_| ())
}

fn sources(directory: &Path, files: &[ReadFile], members: &[Member]) -> Result<()> {
    let mut out = writer(directory, "sources")?;
    // A file that holds several ranks is one row.
    let mut of_file: BTreeMap<i64, (&SourceFile, u64, u64)> = BTreeMap::new();
    for m in members {
        let s = &files[m.file].record.source;
        let (_, events, skipped) = of_file.entry(s.source_id).or_insert((s, 0, 0));
        *events += s.events;
        *skipped += s.skipped;
    }
    for (s, events, skipped) in of_file.into_values() {
        let w = out.row();
        w.int(Some(s.source_id)).text(Some(&s.path)).text(Some(s.source.word()));
        w.int(i64::try_from(s.bytes).ok()).text(Some(&s.sha256));
        w.int(i64::try_from(events).ok()).int(i64::try_from(skipped).ok());
        out.end_row()?;
    }
    out.finish().map(|_| ())
}

/// Writes what was odd.
///
/// # Errors
/// `io` when it cannot be written.
pub fn findings(directory: &Path, files: &[ReadFile], members: &[Member], log: &Log) -> Result<()> {
    let of_files = members.iter().flat_map(|m| {
        let record = &files[m.file].record;
        record.log.findings.iter().map(|f| (Some(record.source.source_id), f))
    });
    let mut rows = of_files.chain(log.findings.iter().map(|f| (None, f))).peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let mut out = writer(directory, "ingest_log")?;
    for (source_id, f) in rows {
        let w = out.row();
        w.int(source_id).text(Some(&f.code)).text(Some(f.severity.word()));
        w.int(i64::try_from(f.count).ok()).int(f.first_offset.and_then(|o| i64::try_from(o).ok()));
        w.text(Some(&f.message));
        out.end_row()?;
    }
    out.finish().map(|_| ())
}

fn cards(directory: &Path, card: &Card) -> Result<()> {
    let mut out = writer(directory, "cards")?;
    let w = out.row();
    w.text(Some(&card.path.display().to_string()));
    for field in ["phase", "model_family", "precision", "moe"] {
        w.text(card.text(&[&format!("workload.model.{field}")]).as_deref());
    }
    let counts = [
        "batch_size",
        "seq_len",
        "input_len",
        "output_len",
        "iteration",
        "num_params",
        "num_params_active",
        "num_params_embedding",
        "num_layers",
        "num_heads",
        "head_dim",
    ];
    for column in counts {
        w.int(card.count(column));
    }
    w.text(card.text(&["workload.hardware.xpu_spec.type"]).as_deref());
    w.text(card.text(&["workload.hardware.xpu_spec.model"]).as_deref());
    w.int(card.count("total_count")).int(card.count("count_per_node"));
    w.double(card.bandwidth(0)).double(card.bandwidth(1));
    w.text(card.text(&["Model-executor.framework.name"]).as_deref());
    w.text(card.text(&["Model-executor.communication_library.name"]).as_deref());
    for column in ["dp_replicate", "dp_shard", "tp", "pp", "cp", "ep", "pp_mb"] {
        w.int(card.count(column));
    }
    w.text(Some(&card.value.to_string()));
    out.end_row()?;
    out.finish().map(|_| ())
}
