//! From the files of the ranks to the tables of one trace directory.
//!
//! Host events stay one file per rank. Everything else is joined over the ranks: row groups are
//! copied as they are encoded (`splice`), device events sorted by rank, class and start, so that a
//! metric reads few files and few row groups. Ranks that did not change since the last ingest come
//! from the trace directory that it left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::derive::{Counts, RankCount};
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

/// Ranks that go into one file, and whose files are written together.
const FILE_RANKS: usize = 64;

/// Tables whose files hold many ranks; those of host events hold one.
const JOINED: [&str; 16] = [
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

/// Ranks of one file of a table, with the files that each was read from.
type Part = Vec<(Option<i64>, Vec<usize>)>;

/// Ranks whose rows are put into their files together.
#[derive(Debug, Serialize, Deserialize)]
pub struct Block {
    ranks: Part,
    /// The files that come of it.
    joined: Vec<Joined>,
    /// Whether the files that were read before make a trace of the same ranks.
    same_ranks: bool,
}

/// A file of many ranks.
#[derive(Debug, Serialize, Deserialize)]
struct Joined {
    table: String,
    /// Its name.
    file: String,
    ranks: Part,
}

impl Block {
    /// The files that it is made of.
    pub fn files(&self) -> impl Iterator<Item = usize> {
        self.ranks.iter().flat_map(|(_, of)| of).copied()
    }

    /// The block with other numbers for its files.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Self {
        let ranks = |part: &Part| {
            let of =
                |(rank, of): &(_, Vec<usize>)| (*rank, of.iter().map(|f| number(*f)).collect());
            part.iter().map(of).collect()
        };
        let joined = |j: &Joined| {
            let (table, file) = (j.table.clone(), j.file.clone());
            Joined { table, file, ranks: ranks(&j.ranks) }
        };
        Self {
            ranks: ranks(&self.ranks),
            joined: self.joined.iter().map(joined).collect(),
            same_ranks: self.same_ranks,
        }
    }

    /// Whether it can be made of so many files: it may come from a file that is damaged.
    pub fn is_of(&self, files: usize) -> bool {
        let has = |of: &Vec<usize>| !of.is_empty() && of.iter().all(|n| *n < files);
        let is_whole = |ranks: &Part| !ranks.is_empty() && ranks.iter().all(|(_, of)| has(of));
        let is_joined = |j: &Joined| JOINED.contains(&&*j.table) && is_name(&j.file);
        is_whole(&self.ranks) && self.joined.iter().all(|j| is_joined(j) && is_whole(&j.ranks))
    }

    /// The least and the greatest rank; None where some of it is of no rank.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.ranks.first()?.0?, self.ranks.last()?.0?))
    }
}

/// Whether a name is that of one file or folder, and leads nowhere else.
pub fn is_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|file| file == name)
}

/// Whether a table is one that blocks make.
pub fn is_joined(table: &str) -> bool {
    table == "host_events" || JOINED.contains(&table)
}

/// Says which ranks of a trace go into a file together.
///
/// `files` are all files of the job root, `members` those of this trace with their ranks.
/// `same_ranks` says that the files that were read before make a trace of the same ranks.
pub fn blocks(files: &[ReadFile], members: &[Member], same_ranks: bool) -> Vec<Block> {
    let ranks = by_rank(members);
    if let Some(joined) = same_ranks.then(|| as_before(files, &ranks)).flatten() {
        return vec![Block { ranks, joined, same_ranks: true }];
    }
    let mut next = BTreeMap::new();
    let of_block = |ranks: &[_]| {
        let joined = JOINED.iter().flat_map(|name| filled(files, ranks, name, &mut next));
        Block { joined: joined.collect(), ranks: ranks.to_vec(), same_ranks: false }
    };
    ranks.chunks(FILE_RANKS).map(of_block).collect()
}

/// The files of all tables as the earlier ingest had them, so that those without a changed rank
/// can stay.
fn as_before(files: &[ReadFile], ranks: &Part) -> Option<Vec<Joined>> {
    let mut out = Vec::new();
    for table in JOINED {
        let mut of_name: BTreeMap<&String, Part> = BTreeMap::new();
        for (rank, of) in ranks {
            let name = files[of[0]].record.tables.get(&placed(table))?;
            of_name.entry(name).or_default().push((*rank, of.clone()));
        }
        out.extend(of_name.into_iter().map(|(file, ranks)| Joined {
            table: table.to_owned(),
            file: file.clone(),
            ranks,
        }));
    }
    Some(out)
}

/// The files of a table for some ranks, filled up one after the other. `next` counts those of each
/// table.
fn filled<'t>(
    files: &[ReadFile],
    ranks: &[(Option<i64>, Vec<usize>)],
    table: &'t str,
    next: &mut BTreeMap<&'t str, usize>,
) -> Vec<Joined> {
    let mut out: Vec<Part> = Vec::new();
    let mut rows = 0;
    for (rank, of) in ranks {
        let more = match table {
            "device_events" => of.iter().map(|f| files[*f].record.totals.device_events).sum(),
            _ => 0,
        };
        match out.last_mut() {
            Some(part) if rows + more <= FILE_ROWS => {
                rows += more;
                part.push((*rank, of.clone()));
            }
            _ => {
                rows = more;
                out.push(vec![(*rank, of.clone())]);
            }
        }
    }
    let mut joined = |ranks| {
        let n = next.entry(table).or_default();
        *n += 1;
        Joined { table: table.to_owned(), file: format!("part-{:04}.parquet", *n - 1), ranks }
    };
    out.into_iter().map(&mut joined).collect()
}

/// Writes the files of blocks under `directory`.
///
/// `work` is the folder for files on the way, and says how many threads there are.
///
/// # Errors
/// `io` when something cannot be read or written.
pub fn write(
    directory: &Path,
    (work, threads): (&Path, usize),
    files: &[ReadFile],
    blocks: &[&Block],
) -> Result<()> {
    let to_join: Vec<(&Joined, bool)> = blocks
        .iter()
        .flat_map(|block| block.joined.iter().map(|joined| (joined, block.same_ranks)))
        .collect();
    // Each holds some encoded rows: a small job has one thread's work.
    let of_devices = to_join.iter().filter(|(j, _)| j.table == "device_events").count();
    let at_a_time = threads.min(of_devices).max(1);
    let ranks: Vec<_> = blocks.iter().flat_map(|block| &block.ranks).collect();
    each(at_a_time, &ranks, |(rank, of)| {
        of.iter().try_for_each(|f| host_events(directory, &files[*f], *rank))
    })?;
    each(at_a_time, &to_join, |(j, same_ranks)| join(directory, work, files, j, *same_ranks))?;
    Ok(())
}

/// Writes the tables that say something of a whole trace, whose other rows are those of `blocks`.
///
/// # Errors
/// `io` when something cannot be written.
pub fn describe(
    directory: &Path,
    (files, blocks): (&mut [ReadFile], &[Block]),
    members: &[Member],
    card: Option<&Card>,
    log: &Log,
) -> Result<()> {
    for joined in blocks.iter().flat_map(|block| &block.joined) {
        for f in joined.ranks.iter().flat_map(|(_, of)| of) {
            files[*f].record.tables.insert(placed(&joined.table), joined.file.clone());
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

/// What says which ranks of a trace are looked at together.
pub fn counts(files: &[ReadFile], members: &[Member]) -> Counts {
    let record = |m: &Member| &files[m.file].record;
    let mut ranks: BTreeMap<i64, RankCount> = BTreeMap::new();
    for rank in with_row(files, members).filter_map(|m| m.rank) {
        ranks.entry(rank).or_insert(RankCount { rank, calls: 0, rows: 0 });
    }
    for m in members {
        if let Some(count) = m.rank.and_then(|rank| ranks.get_mut(&rank)) {
            count.calls += record(m).totals.comm_events;
            count.rows += record(m).totals.device_events + record(m).host_ranges;
        }
    }
    let rows = members.iter().map(|m| record(m).rows()).sum();
    Counts { ranks: ranks.into_values().collect(), rows }
}

/// The files that have a row in `ranks`: an execution trace beside other traces is no rank of its
/// own.
fn with_row<'m>(files: &'m [ReadFile], members: &'m [Member]) -> impl Iterator<Item = &'m Member> {
    let source = |m: &Member| files[m.file].record.source.source;
    let is_beside = manifest::beside(members.iter().map(source));
    members.iter().filter(move |m| m.rank.is_some() && !(is_beside && source(m) == Source::Et))
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
fn by_rank(members: &[Member]) -> Part {
    let mut out: BTreeMap<Option<i64>, Vec<usize>> = BTreeMap::new();
    for m in members {
        out.entry(m.rank).or_default().push(m.file);
    }
    out.into_iter().collect()
}

/// Writes one file of a table that holds many ranks.
fn join(
    directory: &Path,
    work: &Path,
    files: &[ReadFile],
    Joined { table: name, file: file_name, ranks }: &Joined,
    same_ranks: bool,
) -> Result<()> {
    let all = || ranks.iter().flat_map(|(_, of)| of);
    if !all().any(|f| files[*f].record.tables.contains_key(name)) {
        return Ok(());
    }
    // Nothing changed: the file stays.
    let stays = same_ranks
        && all().all(|f| {
            matches!(files[*f].rows, Rows::Trace(_))
                && files[*f].record.tables.get(&placed(name)) == Some(file_name)
        });
    let target = folder(directory, name)?.join(file_name);
    if let (Rows::Trace(old), true) = (&files[ranks[0].1[0]].rows, stays) {
        return link(&old.join(name).join(file_name), &target);
    }
    let schema = table(name).expect("the table is in the schema").arrow();
    let mut out = Splicer::new(target, schema);
    for (rank, of) in ranks {
        rank_into(&mut out, work, files, *rank, of, name)?;
    }
    out.finish().map(drop)
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
    for m in with_row(files, members) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of these parts, as a file says it.
    fn block(ranks: Part, joined: Vec<(&str, &str, Part)>) -> Block {
        let joined = joined.into_iter().map(|(table, file, ranks)| Joined {
            table: table.to_owned(),
            file: file.to_owned(),
            ranks,
        });
        Block { ranks, joined: joined.collect(), same_ranks: false }
    }

    #[test]
    fn a_block_of_a_damaged_file_is_told() {
        let ranks = || vec![(Some(0), vec![0, 2]), (None, vec![1])];
        let joined =
            |table, file, ranks| block(vec![(Some(0), vec![0])], vec![(table, file, ranks)]);
        assert!(block(ranks(), vec![]).is_of(3));
        assert!(joined("launches", "part-0000.parquet", ranks()).is_of(3));
        for wrong in [
            block(ranks(), vec![]).is_of(2),
            block(vec![], vec![]).is_of(3),
            block(vec![(Some(0), vec![])], vec![]).is_of(3),
            joined("nothing", "part-0000.parquet", ranks()).is_of(3),
            joined("launches", "../part-0000.parquet", ranks()).is_of(3),
            joined("launches", "part-0000.parquet", vec![]).is_of(3),
            joined("launches", "part-0000.parquet", vec![(None, vec![3])]).is_of(3),
        ] {
            assert!(!wrong);
        }
    }
}
