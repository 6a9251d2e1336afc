//! Snapshots of memory: each is of one process, and joins the trace of its rank.
//!
//! A rank is what `--rank` says, then what the name says. Beside traces of profilers a snapshot
//! never makes a rank of its own, because metrics count ranks: one whose rank no trace has, or
//! several have, is left out with a finding. A snapshot that says no rank is that of the only rank
//! beside it, if there is one. Snapshots alone follow the rules of files of one rank each.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::Error;
use crate::ingest::ranks::facts::{Facts, Left, Member};
use crate::ingest::ranks::files::by_file;

/// Joins snapshots to the traces that are there, or makes traces of them where there are none.
/// `lost` says that there is a trace of another source that cannot be made.
pub(crate) fn join(
    files: &[Facts],
    which: &[usize],
    traces: &mut Vec<Vec<Member>>,
    lost: bool,
) -> (Vec<Left>, Vec<Error>) {
    if traces.is_empty() && !lost {
        let (made, errors) = by_file(files, which);
        traces.extend(made);
        return (Vec::new(), errors);
    }
    let mut left = Vec::new();
    let mut joined: Vec<(usize, Member)> = Vec::new();
    let unranked = which.iter().filter(|file| stated(&files[**file]).is_none()).count();
    for file in which.iter().copied() {
        match home(files, file, traces, unranked) {
            Ok(home) => joined.push(home),
            Err(why) => left.push(Left { file, code: "memory-rank-unknown", why }),
        }
    }
    for (trace, member) in joined {
        traces[trace].push(member);
    }
    (left, Vec::new())
}

/// The rank that a snapshot states.
fn stated(file: &Facts) -> Option<(i64, &'static str)> {
    let by_hand = file.flag_rank.map(|rank| (rank, "flag"));
    by_hand.or(file.name_rank.map(|rank| (rank, "name")))
}

/// The trace and the rank that a snapshot belongs to.
fn home(
    files: &[Facts],
    file: usize,
    traces: &[Vec<Member>],
    unranked: usize,
) -> Result<(usize, Member), String> {
    let ranks = |trace: &[Member]| trace.iter().filter_map(|m| m.rank).collect::<BTreeSet<i64>>();
    let member = |trace: usize, rank, rank_source| {
        let world_size =
            traces[trace].iter().find(|m| m.rank == Some(rank)).and_then(|m| m.world_size);
        (trace, Member { file, rank: Some(rank), rank_source, world_size })
    };
    let Some((rank, rank_source)) = stated(&files[file]) else {
        let all: Vec<_> = traces.iter().map(|trace| ranks(trace)).collect();
        return match &all[..] {
            [only] if only.len() == 1 && unranked == 1 => {
                Ok(member(0, only.first().copied().unwrap_or_default(), "order"))
            }
            _ => Err("memory snapshots whose names say no rank, beside traces of several ranks or with others of their kind; left out (--rank N=FILE gives a rank)".to_owned()),
        };
    };
    let having: Vec<usize> =
        (0..traces.len()).filter(|trace| ranks(&traces[*trace]).contains(&rank)).collect();
    let folder = |file: usize| Path::new(&files[file].path).parent();
    let beside: Vec<usize> = having
        .iter()
        .copied()
        .filter(|trace| traces[*trace].iter().any(|m| folder(m.file) == folder(file)))
        .collect();
    match (&having[..], &beside[..]) {
        ([one], _) | (_, [one]) => Ok(member(*one, rank, rank_source)),
        ([], _) => Err(format!(
            "memory snapshots of ranks that no trace beside them has (the first: rank {rank}); left out"
        )),
        _ => Err(format!(
            "memory snapshots of ranks that several traces have (the first: rank {rank}); left out, because nothing says of which run they are"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::find::names;
    use crate::ingest::ranks;
    use crate::schema::source::Source;

    fn file(path: &str, source: &str) -> Facts {
        let p = Path::new(path);
        Facts {
            source: Source::of_word(source).expect("a source"),
            path: path.to_owned(),
            shares: 1,
            is_rank: true,
            name_rank: names::rank_in_name(p, Path::new("")),
            world_size: (source == "kineto").then_some(2),
            stem: names::stem(p),
            sha256: path.to_owned(),
            ..Facts::default()
        }
    }

    /// Members of each trace as source and rank, and what was left out.
    fn split(files: &[Facts]) -> (Vec<Vec<String>>, Vec<usize>) {
        let (traces, errors, left) = ranks::split(files);
        assert_eq!(errors, []);
        let said = |m: &Member| {
            format!("{} {} {}", files[m.file].source, m.rank.unwrap_or(-1), m.rank_source)
        };
        let traces = traces.iter().map(|t| t.iter().map(said).collect()).collect();
        (traces, left.iter().map(|l| l.file).collect())
    }

    #[test]
    fn snapshots_join_the_trace_of_their_ranks() {
        let files = [
            file("rank0_trace.json", "kineto"),
            file("rank1_trace.json", "kineto"),
            file("rank1_memory_snapshot.pickle", "memory"),
            file("rank5_memory_snapshot.pickle", "memory"),
            file("memory_snapshot.pickle", "memory"),
        ];
        let (traces, left) = split(&files);
        assert_eq!(traces, [["kineto 0 name", "kineto 1 name", "memory 1 name"]]);
        // Of rank 5, which no trace has; of no rank, where there are two.
        assert_eq!(left, [3, 4]);
    }

    #[test]
    fn one_snapshot_beside_one_rank_is_of_it() {
        let mut files = [
            file("host_1.pt.trace.json", "kineto"),
            file("a.pickle", "memory"),
            file("b.pickle", "memory"),
        ];
        assert_eq!(
            split(&files[..2]),
            (vec![vec!["kineto 0 order".into(), "memory 0 order".into()]], vec![])
        );
        // Which of two it is cannot be said, but by hand.
        assert_eq!(split(&files), (vec![vec!["kineto 0 order".into()]], vec![1, 2]));
        files[1].flag_rank = Some(0);
        assert_eq!(split(&files[..2]).0, [["kineto 0 order", "memory 0 flag"]]);
    }

    #[test]
    fn snapshots_alone_are_traces() {
        let ranked = [
            file("rank0_memory_snapshot.pickle", "memory"),
            file("rank1_memory_snapshot.pickle", "memory"),
        ];
        assert_eq!(split(&ranked).0, [["memory 0 name", "memory 1 name"]]);
        let models = [file("bert.pickle", "memory"), file("gpt.pickle", "memory")];
        assert_eq!(split(&models).0, [["memory 0 order"], ["memory 0 order"]]);
    }

    #[test]
    fn of_two_runs_the_one_in_the_same_folder_has_it() {
        let mut files = [
            file("a/rank0.json", "kineto"),
            file("b/rank0.json", "kineto"),
            file("b/rank0.pickle", "memory"),
            file("c/rank0.pickle", "memory"),
        ];
        files[1].stem = "other".to_owned();
        let (traces, left) = split(&files);
        assert_eq!(traces, [vec!["kineto 0 name"], vec!["kineto 0 name", "memory 0 name"]]);
        assert_eq!(left, [3]);
    }
}
