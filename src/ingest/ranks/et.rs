//! Execution traces beside the traces of a job: each belongs to a rank, and is none of its own.
//!
//! The rank is what `--rank` says, then that of the trace which the same process recorded, then
//! what the name says. A process number may come twice (several hosts, several windows): then the
//! name has to decide. What belongs to no rank is in no trace; it would only take the place of one.

use std::collections::BTreeSet;

use crate::ingest::ranks::facts::{Facts, Member};
use crate::schema::source::Source;

/// Whether a file is an execution trace.
pub(crate) fn is_execution_trace(file: &Facts) -> bool {
    file.source == Source::Et
}

/// Adds the execution traces `which` to the traces whose ranks they are of.
pub(crate) fn join(files: &[Facts], which: &[usize], traces: &mut [Vec<Member>]) {
    let mut found = Vec::new();
    for file in which {
        found.extend(home(files, &files[*file], traces).map(|home| (*file, home)));
    }
    for (file, (trace, rank, rank_source)) in found {
        traces[trace].push(Member { file, rank: Some(rank), rank_source, world_size: None });
    }
}

/// Trace and rank of an execution trace, and what says it.
fn home(files: &[Facts], of: &Facts, traces: &[Vec<Member>]) -> Option<(usize, i64, &'static str)> {
    let by_hand = of.flag_rank.map(|rank| (rank, "flag"));
    if by_hand.is_none()
        && let Some(pid) = of.pid
    {
        let mut same: BTreeSet<(usize, i64)> = BTreeSet::new();
        for (at, trace) in traces.iter().enumerate() {
            let own = trace.iter().filter(|m| files[m.file].pid == Some(pid));
            same.extend(own.filter_map(|m| Some((at, m.rank?))));
        }
        if same.len() > 1 {
            same.retain(|(_, rank)| of.name_rank == Some(*rank));
        }
        if let (Some((trace, rank)), true) = (same.first(), same.len() == 1) {
            return Some((*trace, *rank, "pid"));
        }
    }
    let (rank, by) = by_hand.or(of.name_rank.map(|rank| (rank, "name")))?;
    let has = |trace: &&Vec<Member>| trace.iter().any(|m| m.rank == Some(rank));
    let at = match traces {
        [_] => 0,
        // Of several jobs in one folder a name alone does not say which.
        _ if by == "name" || traces.iter().filter(has).count() != 1 => return None,
        _ => traces.iter().position(|trace| has(&trace))?,
    };
    Some((at, rank, by))
}

/// Execution traces that lie beside traces and belong to none of their ranks.
pub fn left_over(files: &[Facts], traces: &[Vec<Member>]) -> Vec<usize> {
    if files.iter().all(is_execution_trace) {
        return Vec::new();
    }
    let taken: BTreeSet<usize> = traces.iter().flatten().map(|m| m.file).collect();
    let left = |i: &usize| is_execution_trace(&files[*i]) && !taken.contains(i);
    (0..files.len()).filter(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::ranks::split;

    fn file(source: &str, path: &str, trace_rank: Option<i64>, pid: i64) -> Facts {
        let (p, root) = (std::path::Path::new(path), std::path::Path::new(""));
        Facts {
            source: Source::of_word(source).expect("a source"),
            path: path.to_owned(),
            shares: 1,
            is_rank: true,
            trace_rank,
            name_rank: match source {
                "et" => crate::ingest::find::names::rank_in_name_of_et(p, root),
                _ => crate::ingest::find::names::rank_in_name(p, root),
            },
            pid: Some(pid),
            span_ns: (source != "et").then_some((0, 100)),
            stem: crate::ingest::find::names::stem(p),
            sha256: path.to_owned(),
            ..Facts::default()
        }
    }

    /// Rank of each execution trace, and what says it.
    fn ranks(files: &[Facts]) -> Vec<(usize, i64, &'static str)> {
        let (traces, errors, _) = split(files);
        assert_eq!(errors, []);
        let of = traces.iter().flatten().filter(|m| is_execution_trace(&files[m.file]));
        let mut out: Vec<_> = of.map(|m| (m.file, m.rank.unwrap_or(-1), m.rank_source)).collect();
        out.sort_unstable();
        out
    }

    #[test]
    fn the_process_says_the_rank_and_then_the_name() {
        let files = [
            file("kineto", "a_1.json", Some(0), 10),
            file("kineto", "b_2.json", Some(1), 11),
            file("et", "torch_et_1.json", None, 10),
            file("et", "torch_et_0.json", None, 99),
            file("et", "other.json", None, 98),
        ];
        assert_eq!(ranks(&files), [(2, 0, "pid"), (3, 0, "name")]);
        let (traces, ..) = split(&files);
        assert_eq!(traces.len(), 1);
        assert_eq!(left_over(&files, &traces), [4]);
        // The file of the rank's own events comes first.
        assert_eq!(traces[0].iter().map(|m| m.file).collect::<Vec<_>>(), [0, 2, 3, 1]);
    }

    #[test]
    fn a_process_number_of_two_hosts_needs_the_name() {
        let files = [
            file("kineto", "a.json", Some(0), 10),
            file("kineto", "b.json", Some(1), 10),
            file("et", "torch_et_1.json", None, 10),
            file("et", "et.json", None, 10),
        ];
        assert_eq!(ranks(&files), [(2, 1, "pid")]);
    }

    #[test]
    fn a_rank_by_hand_wins() {
        let mut files = [
            file("kineto", "a.json", Some(0), 10),
            file("kineto", "b.json", Some(1), 11),
            file("et", "et.json", None, 10),
        ];
        files[2].flag_rank = Some(1);
        assert_eq!(ranks(&files), [(2, 1, "flag")]);
    }

    #[test]
    fn beside_two_jobs_only_the_process_says_which() {
        let files = [
            file("kineto", "bert.json", None, 10),
            file("kineto", "gpt.json", None, 11),
            file("et", "x_et_0.json", None, 12),
            file("et", "y_et_0.json", None, 11),
        ];
        let (traces, ..) = split(&files);
        assert_eq!(traces.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(left_over(&files, &traces), [2]);
    }

    #[test]
    fn alone_they_are_traces_by_their_names() {
        let files = [
            file("et", "dlrm_eg_1.json", None, 11),
            file("et", "dlrm_eg_0.json", None, 10),
            file("et", "linear.json", None, 12),
        ];
        assert_eq!(ranks(&files), [(0, 1, "name"), (1, 0, "name"), (2, 0, "order")]);
        let (traces, ..) = split(&files);
        assert_eq!(traces.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(left_over(&files, &traces), [0; 0]);
    }
}
