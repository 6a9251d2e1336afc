//! Which files of one folder are one trace, and which rank each of them is.
//!
//! The rules, for the files of one job root:
//! 1. A rank is what `--rank` says, then the trace, then the file name. Files of equal bytes under
//!    different rank names are different ranks, whatever stands inside.
//! 2. Files with distinct ranks and one world size are one trace.
//! 3. A rank that comes twice: consecutive windows of one process are read as one; recordings of a
//!    single rank that say different things are a trace each; anything else is an error.
//! 4. Files without any rank are ranks in the order of their pids when they share stem, device and
//!    world size and ran at the same time; otherwise a trace each.
//! 5. Files of Nsight Systems hold several ranks each, and follow rules of their own (`nodes`). A
//!    trace of Kineto and one of Nsight Systems of the same ranks are one trace.
//! 6. So do files of XLA (`hosts`).
//! 7. Execution traces belong to the ranks of the traces beside them (`beside`); where there are no
//!    traces, the rules for files of one rank each are theirs.
//! 8. Snapshots of memory join the trace of their rank (`memory`).
//! 9. Records of benchmarks are of no rank, and join the trace beside them (`bench`).

mod bench;
mod beside;
mod hosts;
mod memory;
mod nodes;

pub(in crate::ingest) use self::beside::is_execution_trace;
pub use self::beside::left_over;

use std::collections::{BTreeMap, BTreeSet};

use super::time::EPOCH_FROM_NS;
use crate::error::{Error, Result};

/// What the split needs to know of a file.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// Profiler that wrote it.
    pub source: String,
    /// Path as shown.
    pub path: String,
    /// The run that its folders name (`plugins/profile/<run>`).
    #[serde(default)]
    pub run: Option<String>,
    /// Which share of the file it is.
    pub share: usize,
    /// Its place among the ranks of the file, by device.
    pub place: usize,
    /// Shares of the file.
    pub shares: usize,
    /// Whether it is a rank.
    pub is_rank: bool,
    /// Device of the rank.
    pub device: Option<i64>,
    /// Host.
    pub host: Option<String>,
    /// Rank given by hand.
    pub flag_rank: Option<i64>,
    /// Rank that the trace states.
    pub trace_rank: Option<i64>,
    /// Rank that the path states.
    pub name_rank: Option<i64>,
    /// World size that the trace states.
    pub world_size: Option<i64>,
    /// Process.
    pub pid: Option<i64>,
    /// First start and last end.
    pub span_ns: Option<(i64, i64)>,
    /// The communicator of NCCL that may be that of the whole job.
    #[serde(default)]
    pub nccl: Option<Communicator>,
    /// Name of the device.
    pub device_name: Option<String>,
    /// File name without numbers.
    pub stem: String,
    /// Hash of the file.
    pub sha256: String,
}

/// A communicator that a process made: NCCL's init says its ranks and the own one among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Communicator {
    /// The same number on all its ranks; old versions do not say it.
    pub id: Option<i64>,
    /// Its ranks.
    pub ranks: i64,
    /// The rank of this process in it.
    pub rank: i64,
    /// Device of this process.
    pub device: Option<i64>,
}

/// A file's place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Index into the facts.
    pub file: usize,
    /// Its rank; None for what is of no rank.
    pub rank: Option<i64>,
    /// Where the rank was found: `flag`, `trace`, `name` or `order`; of an execution trace also `pid`.
    pub rank_source: &'static str,
    /// Ranks of the job.
    pub world_size: Option<i64>,
}

/// A file that belongs to no trace, and why: no fault, but worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Index into the facts.
    pub file: usize,
    /// The finding.
    pub code: &'static str,
    /// What is said of it and of others like it.
    pub why: String,
}

/// The traces that the files make, each in the order of its ranks; then what is wrong with the
/// files that make none; then what is left out.
pub fn split(files: &[Facts]) -> (Vec<Vec<Member>>, Vec<Error>, Vec<Left>) {
    let (mut nsys, mut xla, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut ets = Vec::new();
    let mut snapshots = Vec::new();
    let mut benches = Vec::new();
    for (i, file) in files.iter().enumerate() {
        match &*file.source {
            "nsys" => nsys.push(i),
            "xla" => xla.push(i),
            "et" => ets.push(i),
            "memory" => snapshots.push(i),
            "bench" => benches.push(i),
            _ => others.push(i),
        }
    }
    let (mut traces, mut errors) = by_file(files, &others);
    let (of_nodes, more) = nodes::split(files, &nsys);
    let ranks = |trace: &[Member]| trace.iter().filter_map(|m| m.rank).collect::<BTreeSet<i64>>();
    match (&mut traces[..], &of_nodes[..]) {
        // Side by side: one job, seen by two profilers.
        ([one], [other])
            if errors.is_empty()
                && more.is_empty()
                && are_one_run(files, one, other)
                && (ranks(one).is_subset(&ranks(other)) || ranks(other).is_subset(&ranks(one))) =>
        {
            one.extend(other.iter().cloned());
        }
        _ => traces.extend(of_nodes),
    }
    traces.extend(hosts::split(files, &xla));
    errors.extend(more);
    if ets.len() + snapshots.len() + benches.len() == files.len() {
        let (alone, more) = by_file(files, &ets);
        traces.extend(alone);
        errors.extend(more);
    } else {
        beside::join(files, &ets, &mut traces);
    }
    let lost = !errors.is_empty();
    let (mut left, more) = memory::join(files, &snapshots, &mut traces, lost);
    errors.extend(more);
    left.extend(bench::join(files, &benches, &mut traces, !errors.is_empty()));
    for trace in &mut traces {
        // What is of no rank comes last, and what only tells more of a rank after the rank.
        trace.sort_by_key(|m| {
            let f = &files[m.file];
            (m.rank.is_none(), m.rank, is_execution_trace(f), f.span_ns, m.file)
        });
    }
    traces.sort_by_key(|trace| trace.iter().map(|m| m.file).min());
    (traces, errors, left)
}

/// Whether traces of two profilers may be of one run: ranks that are known on one side at least, or the
/// same time, or the same name.
fn are_one_run(files: &[Facts], one: &[Member], other: &[Member]) -> bool {
    let known =
        |trace: &[Member]| trace.iter().any(|m| m.rank.is_some() && m.rank_source != "order");
    let span = |trace: &[Member]| {
        let spans = trace.iter().filter_map(|m| files[m.file].span_ns);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let stems = |trace: &[Member]| -> BTreeSet<&str> {
        trace.iter().map(|m| files[m.file].stem.as_str()).collect()
    };
    // Times that count from the start of a capture say nothing.
    let at_once = matches!((span(one), span(other)), (Some(a), Some(b))
        if a.0.min(b.0) >= EPOCH_FROM_NS && a.0 < b.1 && b.0 < a.1);
    known(one) || known(other) || at_once || stems(one) == stems(other)
}

/// Files of one rank each.
fn by_file(files: &[Facts], which: &[usize]) -> (Vec<Vec<Member>>, Vec<Error>) {
    let mut traces = Vec::new();
    let mut errors = Vec::new();
    let names_win = equal_bytes_under_other_names(files, which);
    let mut ranked: BTreeMap<(Option<i64>, String), Vec<Member>> = BTreeMap::new();
    let mut unranked: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let mut by_hand: Vec<Member> = Vec::new();
    for file in which.iter().copied() {
        let f = &files[file];
        let by_name = f.name_rank.map(|rank| (rank, "name"));
        let by_trace = f.trace_rank.map(|rank| (rank, "trace"));
        let (first, second) =
            if names_win.contains(&file) { (by_name, by_trace) } else { (by_trace, by_name) };
        if let Some(rank) = f.flag_rank {
            by_hand.push(Member {
                file,
                rank: Some(rank),
                rank_source: "flag",
                world_size: f.world_size,
            });
            continue;
        }
        match first.or(second) {
            // Stated ranks join over stems; ranks that only a name says join within one stem.
            Some((rank, rank_source)) => {
                let stem = if rank_source == "name" && !names_win.contains(&file) {
                    f.stem.clone()
                } else {
                    String::new()
                };
                ranked.entry((f.world_size, stem)).or_default().push(Member {
                    file,
                    rank: Some(rank),
                    rank_source,
                    world_size: f.world_size,
                });
            }
            None => unranked
                .entry((f.world_size, f.device_name.clone(), f.stem.clone()))
                .or_default()
                .push(file),
        }
    }
    // A rank given by hand belongs to the job beside it; without one, such files are the job.
    let only = (ranked.len() == 1).then(|| ranked.keys().next().cloned()).flatten();
    let none = ranked.is_empty();
    for member in by_hand {
        let own = if none { None } else { files[member.file].world_size };
        let key = only.clone().unwrap_or((own, String::new()));
        ranked.entry(key).or_default().push(member);
    }
    for members in ranked.into_values() {
        match by_rank(files, members) {
            Ok(found) => traces.extend(found),
            Err(error) => errors.push(error),
        }
    }
    for group in unranked.into_values() {
        traces.extend(by_pid(files, &group));
    }
    (traces, errors)
}

/// Files whose bytes are equal to another's while their names say different ranks.
fn equal_bytes_under_other_names(files: &[Facts], which: &[usize]) -> BTreeSet<usize> {
    let mut ranks: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for f in which {
        ranks.entry(&files[*f].sha256).or_default().extend(files[*f].name_rank);
    }
    let several = |f: &usize| ranks[files[*f].sha256.as_str()].len() > 1;
    which.iter().copied().filter(|f| files[*f].name_rank.is_some() && several(f)).collect()
}

fn by_rank(files: &[Facts], members: Vec<Member>) -> Result<Vec<Vec<Member>>> {
    let mut of_rank: BTreeMap<Option<i64>, Vec<Member>> = BTreeMap::new();
    for m in members {
        of_rank.entry(m.rank).or_default().push(m);
    }
    let alone = of_rank.len() == 1;
    if of_rank.values().all(|same| same.len() == 1 || are_windows(files, same)) {
        return Ok(vec![of_rank.into_values().flatten().collect()]);
    }
    if alone {
        let same = of_rank.into_values().next().unwrap_or_default();
        let hashes: BTreeSet<&str> = same.iter().map(|m| files[m.file].sha256.as_str()).collect();
        if hashes.len() == same.len() {
            return Ok(same.into_iter().map(|m| vec![m]).collect());
        }
        return Err(duplicate(files, &same));
    }
    // Two jobs side by side, told apart by their names: each stem with the same ranks, each once.
    let mut of_stem: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
    for m in of_rank.values().flatten() {
        of_stem.entry(&files[m.file].stem).or_default().push(m.clone());
    }
    let ranks: BTreeSet<Option<i64>> = of_rank.keys().copied().collect();
    let complete = |group: &Vec<Member>| {
        group.len() == ranks.len() && group.iter().map(|m| m.rank).collect::<BTreeSet<_>>() == ranks
    };
    if of_stem.len() > 1 && of_stem.values().all(complete) {
        return Ok(of_stem.into_values().collect());
    }
    let twice = of_rank.values().find(|same| same.len() > 1 && !are_windows(files, same));
    Err(duplicate(files, twice.map_or(&[], Vec::as_slice)))
}

/// Whether files that state one rank are consecutive windows of one process.
fn are_windows(files: &[Facts], same: &[Member]) -> bool {
    if same.iter().any(|m| m.rank_source != "trace") {
        return false;
    }
    let mut spans: Vec<(i64, i64)> = same.iter().filter_map(|m| files[m.file].span_ns).collect();
    spans.sort_unstable();
    let pids: BTreeSet<Option<i64>> = same.iter().map(|m| files[m.file].pid).collect();
    spans.len() == same.len()
        && pids.len() == 1
        && !pids.contains(&None)
        && spans.windows(2).all(|w| w[0].1 <= w[1].0)
}

fn duplicate(files: &[Facts], same: &[Member]) -> Error {
    let names: Vec<&str> = same.iter().map(|m| files[m.file].path.as_str()).collect();
    let rank = same.first().and_then(|m| m.rank).unwrap_or_default();
    let source = same.first().map_or("", |m| m.rank_source);
    let said = match source {
        "trace" if files[same[0].file].source == "nsys" => "what the trace says",
        "trace" => "distributedInfo.rank",
        "flag" => "--rank",
        _ => "the file name",
    };
    let last = names.last().copied().unwrap_or_default();
    Error::new("duplicate-rank", format!("{} traces claim rank {rank}", spelled(names.len())))
        .at(names.join(" and "))
        .facts(format!("each by {said}"))
        .hint(format!(
            "remove all but one, give a rank by hand (--rank N={last}), or ingest them one by one \
             with --name"
        ))
}

fn spelled(n: usize) -> String {
    match n {
        2 => "two".to_owned(),
        3 => "three".to_owned(),
        n => n.to_string(),
    }
}

/// Files that say no rank: ranks in the order of their pids when they ran together. In containers several
/// hosts may give the same pid: then in the order of the names too, unless the files are copies.
fn by_pid(files: &[Facts], group: &[usize]) -> Vec<Vec<Member>> {
    let mut order: Vec<usize> = group.to_vec();
    order.sort_by_key(|f| (files[*f].pid, nodes::natural(&files[*f].path)));
    let pids: BTreeSet<i64> = group.iter().filter_map(|f| files[*f].pid).collect();
    let spans: Vec<(i64, i64)> = group.iter().filter_map(|f| files[*f].span_ns).collect();
    let latest_start = spans.iter().map(|s| s.0).max();
    let first_end = spans.iter().map(|s| s.1).min();
    let hashes: BTreeSet<&str> = group.iter().map(|f| files[*f].sha256.as_str()).collect();
    // Times that count from the start of something say nothing of two processes that share a number.
    let by_clock = spans.iter().all(|s| s.0 >= EPOCH_FROM_NS) && hashes.len() == group.len();
    let told_apart = pids.len() == group.len() || (!pids.is_empty() && by_clock);
    let together = told_apart && spans.len() == group.len() && latest_start < first_end;
    let member = |(rank, file): (usize, &usize)| Member {
        file: *file,
        rank: Some(rank as i64),
        rank_source: "order",
        world_size: files[*file].world_size,
    };
    if together {
        vec![order.iter().enumerate().map(member).collect()]
    } else {
        group.iter().map(|file| vec![member((0, file))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, trace_rank: Option<i64>, world: Option<i64>) -> Facts {
        let p = std::path::Path::new(path);
        Facts {
            path: path.to_owned(),
            shares: 1,
            is_rank: true,
            trace_rank,
            name_rank: super::super::discover::rank_in_name(p, std::path::Path::new("")),
            world_size: world,
            pid: Some(100),
            span_ns: Some((0, 100)),
            stem: super::super::discover::stem(p),
            sha256: path.to_owned(),
            ..Facts::default()
        }
    }

    /// Ranks of the files of each trace, by path.
    fn shape(files: &[Facts]) -> Vec<Vec<(String, i64)>> {
        let (traces, errors, _) = split(files);
        assert_eq!(errors, []);
        traces
            .iter()
            .map(|t| t.iter().map(|m| (files[m.file].path.clone(), m.rank.unwrap_or(-1))).collect())
            .collect()
    }

    #[test]
    fn stated_ranks_of_one_world_are_one_trace() {
        let files = [file("b_77.1.json", Some(1), Some(2)), file("a_76.2.json", Some(0), Some(2))];
        assert_eq!(shape(&files), [[("a_76.2.json".into(), 0), ("b_77.1.json".into(), 1)]]);
    }

    #[test]
    fn unrelated_models_are_a_trace_each() {
        let files = [file("bert_1.json", None, None), file("gpt_1.json", None, None)];
        assert_eq!(shape(&files).len(), 2);
    }

    #[test]
    fn recordings_of_one_worker_are_a_trace_each() {
        let files = [
            file("worker0.1.pt.trace.json", None, None),
            file("worker0.2.pt.trace.json", None, None),
        ];
        assert_eq!(shape(&files).len(), 2);
    }

    #[test]
    fn consecutive_windows_of_a_stated_rank_are_one_trace() {
        let mut files = [
            file("h_1.5.json", Some(0), Some(2)),
            file("h_1.6.json", Some(0), Some(2)),
            file("h_2.5.json", Some(1), Some(2)),
        ];
        files[1].span_ns = Some((100, 200));
        assert_eq!(shape(&files)[0].len(), 3);
        files[1].span_ns = Some((99, 200));
        let (traces, errors, _) = split(&files);
        assert!(traces.is_empty());
        assert_eq!(errors[0].code, "duplicate-rank");
    }

    #[test]
    fn a_retry_beside_a_job_is_an_error() {
        let files = [
            file("rank4.json", Some(4), Some(8)),
            file("rank5.json", Some(5), Some(8)),
            file("rank5_retry.json", Some(5), Some(8)),
        ];
        let (_, errors, _) = split(&files);
        assert_eq!(errors[0].message, "two traces claim rank 5");
        assert_eq!(errors[0].place.as_deref(), Some("rank5.json and rank5_retry.json"));
    }

    #[test]
    fn a_copy_of_the_only_file_is_an_error() {
        let mut files = [file("a.json", Some(0), Some(2)), file("b.json", Some(0), Some(2))];
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(split(&files).1[0].code, "duplicate-rank");
    }

    #[test]
    fn equal_bytes_under_other_rank_names_are_other_ranks() {
        let mut files =
            [file("rank0.json", Some(0), Some(8)), file("rank1.json", Some(0), Some(8))];
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(shape(&files), [[("rank0.json".into(), 0), ("rank1.json".into(), 1)]]);
    }

    #[test]
    fn a_rank_by_hand_joins_the_job() {
        let mut files =
            [file("rank0.json", Some(0), Some(8)), file("rank0_retry.json", Some(0), None)];
        files[1].flag_rank = Some(6);
        assert_eq!(shape(&files), [[("rank0.json".into(), 0), ("rank0_retry.json".into(), 6)]]);
    }

    #[test]
    fn two_jobs_side_by_side_are_told_apart_by_name() {
        let files = [
            file("a_rank0.json", Some(0), Some(2)),
            file("a_rank1.json", Some(1), Some(2)),
            file("b_rank0.json", Some(0), Some(2)),
            file("b_rank1.json", Some(1), Some(2)),
        ];
        assert_eq!(shape(&files).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn equal_pids_of_several_hosts_are_ranks_by_name() {
        let mut files = [file("node10_1.json", None, None), file("node9_1.json", None, None)];
        for f in &mut files {
            f.span_ns = Some((EPOCH_FROM_NS, EPOCH_FROM_NS + 100));
        }
        assert_eq!(shape(&files), [[("node9_1.json".into(), 0), ("node10_1.json".into(), 1)]]);
        // A copy is no other process, and neither is what ran at a time that nobody knows.
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(shape(&files).len(), 2);
        let relative = [file("node10_1.json", None, None), file("node9_1.json", None, None)];
        assert_eq!(shape(&relative).len(), 2);
    }

    #[test]
    fn files_without_rank_that_ran_together_are_ranks_by_pid() {
        let mut files = [file("h_9.1.json", None, None), file("h_8.1.json", None, None)];
        files[0].pid = Some(9);
        files[1].pid = Some(8);
        assert_eq!(shape(&files), [[("h_8.1.json".into(), 0), ("h_9.1.json".into(), 1)]]);
    }
}
