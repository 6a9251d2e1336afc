//! Files of XLA: each is of one process, and holds the devices of its host.
//!
//! A rank is what `--rank` says (of the first device of the file), then the place of the device among
//! those that a program runs on, which the reader finds, then the name of a file with one device. Files join when both state their ranks, of one
//! world and none twice, and are of one run: of one `plugins/profile/<time>`, or at the same time. What
//! states no rank is a trace of its own, with the numbers of its devices for ranks: the groups of
//! collectives are told in these, so no order of the hosts could be put in their place.

use std::collections::{BTreeMap, BTreeSet};

use super::super::time::EPOCH_FROM_NS;
use super::{Facts, Member};

/// The files of a trace.
#[derive(Default)]
struct Group {
    members: Vec<Member>,
    /// Ranks, when all are stated.
    ranks: Option<BTreeSet<i64>>,
    world: Option<i64>,
    runs: BTreeSet<String>,
    /// Of a file whose name says the rank.
    stem: Option<String>,
    span_ns: Option<(i64, i64)>,
}

/// The traces that the shares make.
pub(super) fn split(files: &[Facts], shares: &[usize]) -> Vec<Vec<Member>> {
    let mut of_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for share in shares {
        of_path.entry(&files[*share].path).or_default().push(*share);
    }
    let mut groups: Vec<Group> = Vec::new();
    for shares in of_path.into_values() {
        let group = of_file(files, shares);
        match groups.iter_mut().find(|earlier| are_one_run(earlier, &group)) {
            Some(earlier) => earlier.join(group),
            None => groups.push(group),
        }
    }
    groups.into_iter().map(|g| g.members).collect()
}

fn of_file(files: &[Facts], mut shares: Vec<usize>) -> Group {
    shares.sort_by_key(|s| files[*s].place);
    let mut out = Group::default();
    let mut ranks = BTreeSet::new();
    let own = || shares.iter().filter(|s| files[**s].is_rank);
    let stated = own().all(|s| files[*s].trace_rank.is_some_and(|rank| ranks.insert(rank)));
    for (place, share) in own().enumerate() {
        let f = &files[*share];
        let by_name = f.name_rank.filter(|_| own().count() == 1);
        let (rank, rank_source) = match (f.flag_rank, f.trace_rank.filter(|_| stated), by_name) {
            (Some(first), ..) => (first.saturating_add(place as i64), "flag"),
            (_, Some(rank), _) => (rank, "trace"),
            (.., Some(rank)) => (rank, "name"),
            _ => (f.device.unwrap_or(place as i64), "order"),
        };
        if rank_source == "name" {
            out.stem = Some(f.stem.clone());
        }
        let member =
            Member { file: *share, rank: Some(rank), rank_source, world_size: f.world_size };
        out.members.push(member);
        out.world = out.world.or(f.world_size);
    }
    for share in shares.iter().filter(|s| !files[**s].is_rank) {
        out.members.push(Member { file: *share, rank: None, rank_source: "", world_size: None });
    }
    if out.members.iter().all(|m| m.rank.is_none() || m.rank_source != "order") {
        out.ranks = Some(out.members.iter().filter_map(|m| m.rank).collect());
    }
    for f in shares.iter().map(|s| &files[*s]) {
        out.runs.extend(f.run.clone());
        out.widen(f.span_ns);
    }
    out
}

impl Group {
    fn widen(&mut self, span: Option<(i64, i64)>) {
        self.span_ns = match (self.span_ns, span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    fn join(&mut self, other: Self) {
        self.members.extend(other.members);
        if let (Some(ranks), Some(more)) = (&mut self.ranks, other.ranks) {
            ranks.extend(more);
        }
        self.runs.extend(other.runs);
        self.widen(other.span_ns);
    }
}

/// Whether two groups are parts of one job.
fn are_one_run(one: &Group, other: &Group) -> bool {
    let (Some(ours), Some(theirs)) = (&one.ranks, &other.ranks) else { return false };
    let by_hand = one.members.iter().chain(&other.members).any(|m| m.rank_source == "flag");
    // Ranks that only a name says join within one stem.
    let by_name = one.stem.is_some() && one.stem == other.stem;
    let same_run = !one.runs.is_disjoint(&other.runs);
    let same_world =
        one.world == other.world && (one.world.is_some() || same_run || by_hand || by_name);
    // Times that count from the start of a capture say nothing.
    let at_once = matches!((one.span_ns, other.span_ns), (Some(a), Some(b))
        if a.0.min(b.0) >= EPOCH_FROM_NS && a.0 < b.1 && b.0 < a.1);
    same_world && ours.is_disjoint(theirs) && (same_run || at_once || by_hand || by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: i64 = 1_795_000_000_000_000_000;

    /// A file with these ranks, on the devices from 0 on.
    fn file(path: &str, run: &str, ranks: &[Option<i64>], world: i64) -> Vec<Facts> {
        let of = |(i, rank): (usize, &Option<i64>)| Facts {
            source: "xla".to_owned(),
            path: path.to_owned(),
            run: Some(run.to_owned()).filter(|run| !run.is_empty()),
            share: i,
            place: i,
            shares: ranks.len(),
            is_rank: true,
            device: Some(i as i64),
            trace_rank: *rank,
            world_size: Some(world),
            span_ns: Some((EPOCH, EPOCH + 100)),
            ..Facts::default()
        };
        ranks.iter().enumerate().map(of).collect()
    }

    /// Ranks of each trace.
    fn ranks(files: &[Facts]) -> Vec<Vec<i64>> {
        let (traces, errors, _) = super::super::split(files);
        assert_eq!(errors, []);
        traces.iter().map(|t| t.iter().map(|m| m.rank.unwrap_or(-1)).collect()).collect()
    }

    #[test]
    fn hosts_of_one_run_are_one_trace() {
        let mut files = [
            file("t/a.xplane.pb", "t", &[Some(0), Some(1)], 4),
            file("t/b.xplane.pb", "t", &[Some(2), Some(3)], 4),
        ]
        .concat();
        assert_eq!(ranks(&files), [[0, 1, 2, 3]]);
        // Another moment, another run.
        for f in &mut files[2..] {
            (f.run, f.span_ns) = (Some("u".to_owned()), Some((EPOCH + 100, EPOCH + 200)));
        }
        assert_eq!(ranks(&files), [[0, 1], [2, 3]]);
        // Processes that began their profiles a second after each other.
        for f in &mut files[2..] {
            f.span_ns = Some((EPOCH + 10, EPOCH + 200));
        }
        assert_eq!(ranks(&files), [[0, 1, 2, 3]]);
    }

    #[test]
    fn what_states_no_rank_is_a_trace_of_its_own() {
        let files = [
            file("t/a.xplane.pb", "t", &[None, None], 4),
            file("t/b.xplane.pb", "t", &[None, None], 4),
        ];
        assert_eq!(ranks(&files.concat()), [[0, 1], [0, 1]]);
    }

    #[test]
    fn runs_after_each_other_are_a_trace_each() {
        let files = [
            file("t/a.xplane.pb", "t", &[Some(0), Some(1)], 2),
            file("u/a.xplane.pb", "u", &[Some(0), Some(1)], 2),
        ];
        assert_eq!(ranks(&files.concat()), [[0, 1], [0, 1]]);
    }

    #[test]
    fn the_rank_of_the_first_device_is_given_by_hand() {
        let mut files =
            [file("a.xplane.pb", "", &[None, None], 4), file("b.xplane.pb", "", &[None, None], 4)]
                .concat();
        for (f, rank) in files.iter_mut().zip([2, 2, 0, 0]) {
            f.flag_rank = Some(rank);
            f.span_ns = Some((0, 100));
        }
        assert_eq!(ranks(&files), [[0, 1, 2, 3]]);
        let (traces, ..) = super::super::split(&files);
        assert!(traces[0].iter().all(|m| m.rank_source == "flag"));
    }
}
