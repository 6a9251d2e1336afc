//! Files of Nsight Systems: each may hold several ranks, and be the file of a node.
//!
//! A rank is what `--rank` says, then NCCL's init, then MPI or the environment of the one process,
//! then the name of a file that holds one rank, then the order: by node, device and process. Two
//! files that both hold local device 0 are two nodes, not one rank.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::ingest::find::names::natural;
use crate::ingest::ranks::facts::{Facts, Member};
use crate::ingest::ranks::files::{are_windows, duplicate};

/// The ranks of one file, and what in it is of no rank.
struct OfFile<'f> {
    path: &'f str,
    /// In the order of their devices.
    ranks: Vec<usize>,
    rest: Vec<usize>,
}

/// The traces that the shares make; then what is wrong with files that make none.
pub(crate) fn split(files: &[Facts], shares: &[usize]) -> (Vec<Vec<Member>>, Vec<Error>) {
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
    let (by_hand, others): (Vec<_>, Vec<_>) = of_path
        .into_values()
        .partition(|file| first(files, file).is_some_and(|f| f.flag_rank.is_some()));
    let (mut groups, others) = by_nccl(files, others);
    let (mut errors, mut unstated) = (Vec::new(), BTreeMap::new());
    let mut stated: BTreeMap<_, Group<'_>> = BTreeMap::new();
    for file in others {
        let Some(facts) = first(files, &file) else { continue };
        if let Some(says) = by_environment(files, &file) {
            stated.entry((facts.world_size, String::new())).or_default().push((file, says));
        } else if let (Some(rank), [one]) = (facts.name_rank, &file.ranks[..]) {
            // Ranks that only a name says join within one stem.
            let says = vec![member(files, *one, rank, "name")];
            stated.entry((None, facts.stem.clone())).or_default().push((file, says));
        } else {
            unstated.entry(facts.stem.clone()).or_insert_with(Vec::new).push(file);
        }
    }
    groups.extend(stated.into_values());
    let mut flagged: Group<'_> = Vec::new();
    for file in by_hand {
        let rank = first(files, &file).and_then(|f| f.flag_rank).unwrap_or_default();
        // The rank of its first device.
        let ranks = file.ranks.iter().zip(rank..);
        let says = ranks.map(|(share, rank)| member(files, *share, rank, "flag")).collect();
        flagged.push((file, says));
    }
    // A rank given by hand belongs to the job beside it.
    match &mut groups[..] {
        [one] => one.append(&mut flagged),
        _ if flagged.is_empty() => {}
        _ => groups.push(flagged),
    }
    let mut traces = Vec::new();
    for group in groups {
        match distinct(files, &group) {
            Ok(()) => {
                traces.push(
                    group.into_iter().flat_map(|(file, says)| with_rest(says, &file)).collect(),
                );
            }
            Err(same) => errors.push(duplicate(files, &same)),
        }
    }
    for group in unstated.into_values() {
        if group.len() == 1 || together(files, group.iter()) {
            traces.push(in_order(files, group));
        } else {
            traces.extend(group.into_iter().map(|file| in_order(files, vec![file])));
        }
    }
    (traces, errors)
}

/// Files with the ranks that they state.
type Group<'f> = Vec<(OfFile<'f>, Vec<Member>)>;

fn first<'f>(files: &'f [Facts], file: &OfFile<'_>) -> Option<&'f Facts> {
    file.ranks.first().or(file.rest.first()).map(|share| &files[*share])
}

fn member(files: &[Facts], share: usize, rank: i64, rank_source: &'static str) -> Member {
    let world_size = files[share].world_size;
    Member { file: share, rank: Some(rank), rank_source, world_size }
}

/// Groups of files whose ranks NCCL's init says; then the files of which it does not.
///
/// The largest communicator of a rank is taken for that of the job. It is not when the ranks of one
/// job name several: those are communicators inside a node or a dimension, whose ranks count from 0
/// each.
fn by_nccl<'f>(files: &[Facts], all: Vec<OfFile<'f>>) -> (Vec<Group<'f>>, Vec<OfFile<'f>>) {
    let mut worlds: BTreeMap<(i64, Option<i64>), Vec<OfFile<'f>>> = BTreeMap::new();
    let mut rest = Vec::new();
    for file in all {
        let of: Option<Vec<_>> = file.ranks.iter().map(|s| files[*s].nccl).collect();
        let keys: BTreeSet<_> = of.iter().flatten().map(|c| (c.ranks, c.id)).collect();
        match (of.is_some(), keys.len()) {
            (true, 1) => {
                worlds.entry(keys.into_iter().next().unwrap_or_default()).or_default().push(file)
            }
            _ => rest.push(file),
        }
    }
    let mut groups: Vec<Group<'f>> = Vec::new();
    let keys: Vec<_> = worlds.keys().copied().collect();
    let stem = |file: &OfFile<'_>| first(files, file).map(|f| f.stem.clone());
    let several: BTreeSet<_> = keys
        .iter()
        .filter(|key| {
            // Files like these, at the same time, in another communicator or in none that they
            // share.
            let ours = &worlds[*key];
            let like = |file: &&OfFile<'_>| ours.iter().any(|our| stem(our) == stem(file));
            let others = keys.iter().filter(|other| other != key).flat_map(|other| &worlds[other]);
            let others: Vec<_> = others.chain(&rest).filter(like).collect();
            !others.is_empty() && together(files, ours.iter().chain(others))
        })
        .copied()
        .collect();
    for (key, of_world) in worlds {
        let says = |file: &OfFile<'_>| -> Vec<Member> {
            let rank = |share: &usize| files[*share].nccl.map_or(0, |c| c.rank);
            let of = file.ranks.iter().map(|share| Member {
                world_size: Some(key.0),
                ..member(files, *share, rank(share), "trace")
            });
            of.collect()
        };
        let group: Group<'f> = of_world
            .into_iter()
            .map(|file| {
                let says = says(&file);
                (file, says)
            })
            .collect();
        match !several.contains(&key) && distinct(files, &group).is_ok() {
            true => groups.push(group),
            false => rest.extend(group.into_iter().map(|(file, _)| file)),
        }
    }
    (groups, rest)
}

/// The ranks of a file that MPI or the environment say.
fn by_environment(files: &[Facts], file: &OfFile<'_>) -> Option<Vec<Member>> {
    let ranks: Option<Vec<i64>> = file.ranks.iter().map(|s| files[*s].trace_rank).collect();
    let ranks = ranks.filter(|ranks| !ranks.is_empty())?;
    (ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len()).then(|| {
        let ranks = file.ranks.iter().zip(ranks);
        ranks.map(|(share, rank)| member(files, *share, rank, "trace")).collect()
    })
}

/// The ranks of a file, and with them what in it is of no rank.
fn with_rest(mut ranks: Vec<Member>, file: &OfFile<'_>) -> Vec<Member> {
    ranks.extend(file.rest.iter().map(|share| Member {
        file: *share,
        rank: None,
        rank_source: "",
        world_size: None,
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

/// Whether all spans share a moment.
fn overlap(spans: impl Iterator<Item = Option<(i64, i64)>>) -> bool {
    let spans: Option<Vec<(i64, i64)>> = spans.collect();
    let Some(spans) = spans else { return false };
    spans.iter().map(|s| s.0).max() < spans.iter().map(|s| s.1).min()
}

fn together<'a>(files: &[Facts], group: impl Iterator<Item = &'a OfFile<'a>>) -> bool {
    overlap(group.flat_map(|file| &file.ranks).map(|share| files[*share].span_ns))
}

/// Ranks by node, device and process.
fn in_order(files: &[Facts], mut group: Vec<OfFile<'_>>) -> Vec<Member> {
    group.sort_by_key(|file| natural(file.path));
    // The node of a file: its host, where all say one. Without hosts, files with devices of their
    // own are of one node. A device that comes twice on a node says that its files count by
    // themselves.
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
        .map(|(rank, (.., share))| member(files, share, rank as i64, "order"))
        .collect();
    for file in &group {
        out = with_rest(out, file);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::find::names;
    use crate::ingest::ranks;
    use crate::readers::share::Communicator;
    use crate::schema::source::Source;

    /// A file with ranks on these devices.
    fn file(path: &str, devices: &[i64]) -> Vec<Facts> {
        let p = std::path::Path::new(path);
        let share = |(i, device): (usize, &i64)| Facts {
            source: Source::Nsys,
            path: path.to_owned(),
            share: i,
            place: i,
            shares: devices.len(),
            is_rank: true,
            device: Some(*device),
            name_rank: names::rank_in_name(p, std::path::Path::new("")),
            pid: Some(100 + i as i64),
            span_ns: Some((0, 100)),
            stem: names::stem(p),
            ..Facts::default()
        };
        devices.iter().enumerate().map(share).collect()
    }

    /// (path, device, rank) of each trace.
    fn shape(files: &[Facts]) -> Vec<Vec<(&str, i64, i64)>> {
        let (traces, errors, _) = ranks::split(files);
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

    /// Gives the files ranks in communicators.
    fn nccl(files: &mut [Facts], of: &[(Option<i64>, i64, i64)]) {
        for (f, (id, ranks, rank)) in files.iter_mut().zip(of) {
            f.nccl = Some(Communicator { id: *id, ranks: *ranks, rank: *rank, device: f.device });
        }
    }

    #[test]
    fn the_ranks_of_nccls_init_win() {
        let mut files = [file("a.sqlite", &[0, 1]), file("b.sqlite", &[0, 1])].concat();
        nccl(&mut files, &[2, 3, 0, 1].map(|rank| (Some(7), 4, rank)));
        let ranks: Vec<i64> = shape(&files)[0].iter().map(|s| s.1 + 10 * s.2).collect();
        assert_eq!((ranks, shape(&files)[0][0].0), (vec![0, 11, 20, 31], "b.sqlite"));
        // So they do where old versions name no communicator.
        nccl(&mut files, &[2, 3, 0, 1].map(|rank| (None, 4, rank)));
        assert_eq!(shape(&files)[0][0].0, "b.sqlite");
        let (traces, ..) = ranks::split(&files);
        assert!(traces[0].iter().all(|m| m.world_size == Some(4) && m.rank_source == "trace"));
    }

    #[test]
    fn ranks_inside_a_node_or_dimension_are_none_of_the_job() {
        // A communicator for each node.
        let mut files = [file("node1.sqlite", &[0, 1]), file("node2.sqlite", &[0, 1])].concat();
        nccl(&mut files, &[(Some(7), 2, 0), (Some(7), 2, 1), (Some(8), 2, 0), (Some(8), 2, 1)]);
        let ranks: Vec<i64> = shape(&files)[0].iter().map(|s| s.2).collect();
        assert_eq!(ranks, [0, 1, 2, 3]);
        assert!(ranks::split(&files).0[0].iter().all(|m| m.world_size.is_none()));
        // One for each pair of devices, a file for each.
        let mut files: Vec<Facts> =
            (0..4).flat_map(|i| file(&format!("r.{i}.sqlite"), &[i])).collect();
        nccl(&mut files, &[(Some(7), 2, 0), (Some(7), 2, 1), (Some(8), 2, 0), (Some(8), 2, 1)]);
        let ranks: Vec<i64> = shape(&files)[0].iter().map(|s| s.2 * 10 + s.1).collect();
        assert_eq!(ranks, [0, 11, 22, 33]);
        // The environment knows better than the order.
        for (f, rank) in files.iter_mut().zip([3, 2, 1, 0]) {
            f.trace_rank = Some(rank);
        }
        let ranks: Vec<i64> = shape(&files)[0].iter().map(|s| s.2 * 10 + s.1).collect();
        assert_eq!(ranks, [3, 12, 21, 30]);
    }

    #[test]
    fn runs_after_each_other_are_a_trace_each() {
        let mut files = [file("run1.sqlite", &[0, 1]), file("run2.sqlite", &[0, 1])].concat();
        nccl(&mut files, &[(Some(7), 2, 0), (Some(7), 2, 1), (Some(8), 2, 0), (Some(8), 2, 1)]);
        for f in &mut files[2..] {
            f.span_ns = Some((100, 200));
        }
        assert_eq!(shape(&files).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_rank_that_two_files_state_is_an_error() {
        let mut files = [file("a.sqlite", &[0]), file("b.sqlite", &[0])].concat();
        for f in &mut files {
            f.trace_rank = Some(0);
        }
        let (traces, errors, _) = ranks::split(&files);
        assert_eq!((traces.len(), errors[0].code), (0, "duplicate-rank"));
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
        files[1].source = Source::Kineto;
        assert_eq!(shape(&files), [[("rank0.sqlite", 0, 0), ("rank0.json", 0, 0)]]);
        files[1].name_rank = Some(1);
        assert_eq!(shape(&files).len(), 2);
    }
}
