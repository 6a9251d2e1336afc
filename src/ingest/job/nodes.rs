//! Files of Nsight Systems: each may hold several ranks, and be the file of a node.
//!
//! A rank is what `--rank` says, then the trace (NCCL's init, MPI, the environment of the one process),
//! then the name of a file that holds one rank, then the order: by node, device and process. Two files
//! that both hold local device 0 are two nodes, not one rank.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Member, are_windows, duplicate};
use crate::error::Error;

/// The ranks of one file, and what in it is of no rank.
struct OfFile<'f> {
    path: &'f str,
    /// In the order of their devices.
    ranks: Vec<usize>,
    rest: Vec<usize>,
}

/// The traces that the shares make; then what is wrong with files that make none.
pub(super) fn split(files: &[Facts], shares: &[usize]) -> (Vec<Vec<Member>>, Vec<Error>) {
    let mut of_path: BTreeMap<&str, OfFile<'_>> = BTreeMap::new();
    for share in shares.iter().copied() {
        let path = files[share].path.as_str();
        let file = of_path.entry(path).or_insert_with(|| OfFile {
            path,
            ranks: Vec::new(),
            rest: Vec::new(),
        });
        if files[share].is_rank { file.ranks.push(share) } else { file.rest.push(share) }
    }
    for file in of_path.values_mut() {
        file.ranks.sort_by_key(|s| files[*s].place);
    }
    let (mut stated, mut unstated) = (BTreeMap::new(), BTreeMap::new());
    for file in of_path.into_values() {
        let Some(first) = file.ranks.first().or(file.rest.first()).copied() else { continue };
        let facts = &files[first];
        match says(files, &file) {
            // Stated ranks join over stems; ranks that only a name says join within one stem.
            Some(says) => {
                let stem =
                    if says[0].rank_source == "name" { facts.stem.clone() } else { String::new() };
                let key = (facts.world_size, stem);
                stated.entry(key).or_insert_with(Vec::new).push((file, says));
            }
            None => unstated.entry(facts.stem.clone()).or_insert_with(Vec::new).push(file),
        }
    }
    let (mut traces, mut errors) = (Vec::new(), Vec::new());
    for group in stated.into_values() {
        match distinct(files, &group) {
            Ok(()) => traces
                .push(group.into_iter().flat_map(|(file, says)| with_rest(says, &file)).collect()),
            // The ranks of communicators inside a node: each file counts from 0.
            Err(_) if is_local(files, &group) => {
                let of_files: Vec<_> = group.into_iter().map(|(file, _)| file).collect();
                traces.push(in_order(files, of_files));
            }
            Err(same) => errors.push(duplicate(files, &same)),
        }
    }
    for group in unstated.into_values() {
        if group.len() == 1 || together(files, &group) {
            traces.push(in_order(files, group));
        } else {
            traces.extend(group.into_iter().map(|file| in_order(files, vec![file])));
        }
    }
    (traces, errors)
}

/// The ranks of a file by flag, trace or name, when each is told.
fn says(files: &[Facts], file: &OfFile<'_>) -> Option<Vec<Member>> {
    let member = |share: usize, rank: i64, rank_source| Member {
        file: share,
        rank: Some(rank),
        rank_source,
    };
    let first = *file.ranks.first()?;
    if let Some(rank) = files[first].flag_rank {
        // The rank of its first device.
        let ranks = file.ranks.iter().zip(rank..);
        return Some(ranks.map(|(share, rank)| member(*share, rank, "flag")).collect());
    }
    let by_trace: Option<Vec<i64>> = file.ranks.iter().map(|s| files[*s].trace_rank).collect();
    if let Some(ranks) = by_trace
        && ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len()
    {
        let ranks = file.ranks.iter().zip(ranks);
        return Some(ranks.map(|(share, rank)| member(*share, rank, "trace")).collect());
    }
    match (&file.ranks[..], files[first].name_rank) {
        ([one], Some(rank)) => Some(vec![member(*one, rank, "name")]),
        _ => None,
    }
}

/// The ranks of a file, and with them what in it is of no rank.
fn with_rest(mut ranks: Vec<Member>, file: &OfFile<'_>) -> Vec<Member> {
    ranks.extend(file.rest.iter().map(|share| Member {
        file: *share,
        rank: None,
        rank_source: "",
    }));
    ranks
}

/// Refuses a rank that comes twice, unless its files are consecutive windows of one process.
fn distinct(files: &[Facts], group: &[(OfFile<'_>, Vec<Member>)]) -> Result<(), Vec<Member>> {
    let mut of_rank: BTreeMap<Option<i64>, Vec<Member>> = BTreeMap::new();
    for m in group.iter().flat_map(|(_, says)| says) {
        of_rank.entry(m.rank).or_default().push(m.clone());
    }
    match of_rank.into_values().find(|same| same.len() > 1 && !are_windows(files, same)) {
        Some(same) => Err(same),
        None => Ok(()),
    }
}

/// Whether every file states the same ranks, 0 and on, and together they ran: a communicator of each
/// node, not of the job.
fn is_local(files: &[Facts], group: &[(OfFile<'_>, Vec<Member>)]) -> bool {
    let local = |says: &[Member]| {
        let ranks: BTreeSet<Option<i64>> = says.iter().map(|m| m.rank).collect();
        says.iter().all(|m| m.rank_source == "trace")
            && ranks.into_iter().flatten().eq(0..says.len() as i64)
    };
    let spans = group.iter().flat_map(|(file, _)| &file.ranks).map(|s| files[*s].span_ns);
    let hosts: BTreeSet<_> = group.iter().map(|(file, _)| &files[file.ranks[0]].host).collect();
    hosts.len() == group.len()
        && !hosts.contains(&None)
        && group.iter().all(|(_, says)| local(says))
        && overlap(spans)
}

/// Whether all spans share a moment.
fn overlap(spans: impl Iterator<Item = Option<(i64, i64)>>) -> bool {
    let spans: Option<Vec<(i64, i64)>> = spans.collect();
    let Some(spans) = spans else { return false };
    spans.iter().map(|s| s.0).max() < spans.iter().map(|s| s.1).min()
}

fn together(files: &[Facts], group: &[OfFile<'_>]) -> bool {
    overlap(group.iter().flat_map(|file| &file.ranks).map(|share| files[*share].span_ns))
}

/// Digits of a path as numbers: `node2` comes before `node10`.
fn natural(path: &str) -> Vec<(String, u64)> {
    let mut out = vec![(String::new(), 0_u64)];
    let mut in_digits = false;
    for c in path.chars() {
        if in_digits && !c.is_ascii_digit() {
            out.push((String::new(), 0));
        }
        in_digits = c.is_ascii_digit();
        let Some((text, number)) = out.last_mut() else { continue };
        match c.to_digit(10) {
            Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
            None => text.push(c),
        }
    }
    out
}

/// Ranks by node, device and process.
fn in_order(files: &[Facts], mut group: Vec<OfFile<'_>>) -> Vec<Member> {
    group.sort_by_key(|file| natural(file.path));
    // The node of a file: its host, where all say one. Without hosts, files with devices of their own
    // are of one node. A device that comes twice on a node says that its files count by themselves.
    let hosts: Option<Vec<&str>> = group
        .iter()
        .map(|file| files[*file.ranks.first().or(file.rest.first())?].host.as_deref())
        .collect();
    let mut nodes: Vec<usize> = match &hosts {
        Some(hosts) => {
            hosts.iter().map(|h| hosts.iter().position(|o| o == h).unwrap_or_default()).collect()
        }
        None => vec![0; group.len()],
    };
    let devices: Vec<(usize, Option<i64>)> = group
        .iter()
        .zip(&nodes)
        .flat_map(|(file, node)| {
            let of_file: BTreeSet<_> = file.ranks.iter().map(|s| files[*s].device).collect();
            of_file.into_iter().map(|device| (*node, device))
        })
        .collect();
    if devices.iter().collect::<BTreeSet<_>>().len() < devices.len() {
        nodes = (0..group.len()).collect();
    }
    let mut ranks: Vec<(usize, Option<i64>, usize, usize)> = Vec::new();
    for (i, (file, node)) in group.iter().zip(&nodes).enumerate() {
        // Within a file, the shares are in order already.
        for (place, share) in file.ranks.iter().enumerate() {
            let one_file = nodes.iter().filter(|n| *n == node).count() == 1;
            let device = if one_file { Some(place as i64) } else { files[*share].device };
            ranks.push((*node, device, i, *share));
        }
    }
    ranks.sort_unstable();
    let mut out: Vec<Member> = ranks
        .into_iter()
        .enumerate()
        .map(|(rank, (.., share))| Member {
            file: share,
            rank: Some(rank as i64),
            rank_source: "order",
        })
        .collect();
    for file in &group {
        out = with_rest(out, file);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with ranks on these devices.
    fn file(path: &str, devices: &[i64]) -> Vec<Facts> {
        let p = std::path::Path::new(path);
        let share = |(i, device): (usize, &i64)| Facts {
            source: "nsys".to_owned(),
            path: path.to_owned(),
            share: i,
            place: i,
            shares: devices.len(),
            is_rank: true,
            device: Some(*device),
            name_rank: super::super::super::discover::rank_in_name(p, std::path::Path::new("")),
            pid: Some(100 + i as i64),
            span_ns: Some((0, 100)),
            stem: super::super::super::discover::stem(p),
            ..Facts::default()
        };
        devices.iter().enumerate().map(share).collect()
    }

    /// (path, device, rank) of each trace.
    fn shape(files: &[Facts]) -> Vec<Vec<(&str, i64, i64)>> {
        let (traces, errors) = super::super::split(files);
        assert_eq!(errors, []);
        let of = |m: &Member| {
            let f = &files[m.file];
            (f.path.as_str(), f.device.unwrap_or(-1), m.rank.unwrap_or(-1))
        };
        traces.iter().map(|t| t.iter().map(of).collect()).collect()
    }

    #[test]
    fn devices_of_a_file_are_ranks() {
        let files = file("job.sqlite", &[0, 1]);
        assert_eq!(shape(&files), [[("job.sqlite", 0, 0), ("job.sqlite", 1, 1)]]);
    }

    #[test]
    fn two_files_with_device_0_are_two_nodes() {
        let files = [file("node10.sqlite", &[0, 1]), file("node9.sqlite", &[0, 1])].concat();
        assert_eq!(
            shape(&files),
            [[
                ("node9.sqlite", 0, 0),
                ("node9.sqlite", 1, 1),
                ("node10.sqlite", 0, 2),
                ("node10.sqlite", 1, 3)
            ]]
        );
    }

    #[test]
    fn a_file_for_each_device_of_a_node() {
        let files = [file("report.77.sqlite", &[1]), file("report.78.sqlite", &[0])].concat();
        assert_eq!(shape(&files), [[("report.78.sqlite", 0, 0), ("report.77.sqlite", 1, 1)]]);
    }

    #[test]
    fn names_of_files_of_one_rank_say_it() {
        let files = [file("rank1.sqlite", &[0]), file("rank0.sqlite", &[0])].concat();
        assert_eq!(shape(&files), [[("rank0.sqlite", 0, 0), ("rank1.sqlite", 0, 1)]]);
        // Of a file with several ranks the name says nothing.
        let files = file("rank3.sqlite", &[0, 1]);
        assert_eq!(shape(&files), [[("rank3.sqlite", 0, 0), ("rank3.sqlite", 1, 1)]]);
    }

    #[test]
    fn files_of_other_names_or_times_are_a_trace_each() {
        let files = [file("bert.sqlite", &[0]), file("gpt.sqlite", &[0])].concat();
        assert_eq!(shape(&files).len(), 2);
        let mut files = [file("run_1.sqlite", &[0]), file("run_2.sqlite", &[0])].concat();
        files[1].span_ns = Some((100, 200));
        assert_eq!(shape(&files).len(), 2);
    }

    #[test]
    fn what_the_trace_states_wins_unless_it_counts_by_node() {
        let mut files = [file("a.sqlite", &[0, 1]), file("b.sqlite", &[0, 1])].concat();
        for (f, rank) in files.iter_mut().zip([2, 3, 0, 1]) {
            f.trace_rank = Some(rank);
            f.world_size = Some(4);
        }
        let ranks: Vec<i64> = shape(&files)[0].iter().map(|s| s.1 + 10 * s.2).collect();
        assert_eq!((ranks, shape(&files)[0][0].0), (vec![0, 11, 20, 31], "b.sqlite"));
        for (f, rank) in files.iter_mut().zip([0, 1, 0, 1]) {
            f.trace_rank = Some(rank);
        }
        let (traces, errors) = super::super::split(&files);
        assert_eq!((traces.len(), errors[0].code), (0, "duplicate-rank"));
        for (f, host) in files.iter_mut().zip(["x", "x", "y", "y"]) {
            f.host = Some(host.to_owned());
        }
        assert_eq!(shape(&files)[0].iter().map(|s| s.2).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_of_no_rank_stays_with_its_file() {
        let mut files = file("job.sqlite", &[0, 0]);
        files[1].is_rank = false;
        assert_eq!(shape(&files), [[("job.sqlite", 0, 0), ("job.sqlite", 0, -1)]]);
    }

    #[test]
    fn kineto_and_nsys_of_the_same_ranks_are_one_trace() {
        let mut files = [file("rank0.sqlite", &[0]), file("rank0.json", &[0])].concat();
        files[1].source = "kineto".to_owned();
        assert_eq!(shape(&files), [[("rank0.sqlite", 0, 0), ("rank0.json", 0, 0)]]);
        files[1].name_rank = Some(1);
        assert_eq!(shape(&files).len(), 2);
    }
}
