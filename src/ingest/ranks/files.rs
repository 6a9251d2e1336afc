//! The ranks of files that each hold one rank.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::ingest::find::names::natural;
use crate::ingest::ranks::facts::{Facts, Member};
use crate::input::time::EPOCH_FROM_NS;
use crate::schema::source::Source;

/// Files of one rank each.
pub(crate) fn by_file(files: &[Facts], which: &[usize]) -> (Vec<Vec<Member>>, Vec<Error>) {
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
pub(crate) fn are_windows(files: &[Facts], same: &[Member]) -> bool {
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

pub(crate) fn duplicate(files: &[Facts], same: &[Member]) -> Error {
    let names: Vec<&str> = same.iter().map(|m| files[m.file].path.as_str()).collect();
    let rank = same.first().and_then(|m| m.rank).unwrap_or_default();
    let source = same.first().map_or("", |m| m.rank_source);
    let said = match source {
        "trace" if files[same[0].file].source == Source::Nsys => "what the trace says",
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

/// Files that say no rank: ranks in the order of their pids when they ran together. In containers
/// several hosts may give the same pid: then in the order of the names too, unless the files are
/// copies.
fn by_pid(files: &[Facts], group: &[usize]) -> Vec<Vec<Member>> {
    let mut order: Vec<usize> = group.to_vec();
    order.sort_by_key(|f| (files[*f].pid, natural(&files[*f].path)));
    let pids: BTreeSet<i64> = group.iter().filter_map(|f| files[*f].pid).collect();
    let spans: Vec<(i64, i64)> = group.iter().filter_map(|f| files[*f].span_ns).collect();
    let latest_start = spans.iter().map(|s| s.0).max();
    let first_end = spans.iter().map(|s| s.1).min();
    let hashes: BTreeSet<&str> = group.iter().map(|f| files[*f].sha256.as_str()).collect();
    // Times that count from the start of something say nothing of two processes that share a
    // number.
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
