//! Files of XLA: each is of one process, and holds the devices of its host.
//!
//! A rank is what `--rank` says (of the first device of the file), then the place of the device
//! among those that a program runs on, which the reader finds, then the name of a file with one
//! device. Files join when both state their ranks, of one world and none twice, and are of one run:
//! of one `plugins/profile/<time>`, or at the same time. What states no rank is a trace of its own,
//! with the numbers of its devices for ranks: the groups of collectives are told in these, so no
//! order of the hosts could be put in their place.
//!
//! Files in JSON never state a rank, and hardly a group, and files without a device that computes
//! have no group at all. Those of one run are one trace: of one `plugins/profile/<time>`, or of one
//! moment below a folder for each process. Their ranks are in the order of the numbers of their
//! devices where no two files share one (several processes on CPUs), else host by host.

use std::collections::{BTreeMap, BTreeSet};

use crate::ingest::find::names::{self, natural};
use crate::ingest::ranks::facts::{Facts, Member};
use crate::input::time::EPOCH_FROM_NS;

/// Seconds between the profiles of the processes of one run: each names its own when it begins.
const RUN_SECONDS: i64 = 60;

/// The files of a trace.
#[derive(Default)]
struct Group {
    members: Vec<Member>,
    /// Ranks, when all are stated.
    ranks: Option<BTreeSet<i64>>,
    world: Option<i64>,
    runs: BTreeSet<String>,
    /// The stem of a file whose name says the rank.
    stem: Option<String>,
    span_ns: Option<(i64, i64)>,
    /// Files that an order of the hosts may join: their ranks, and the folders of processes that
    /// they lie in.
    orderly: Option<(usize, BTreeSet<u64>)>,
}

/// The traces that the shares make.
pub(crate) fn split(files: &[Facts], shares: &[usize]) -> Vec<Vec<Member>> {
    let mut of_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for share in shares {
        of_path.entry(&files[*share].path).or_default().push(*share);
    }
    let mut groups: Vec<Group> = Vec::new();
    for shares in of_path.into_values() {
        let group = of_file(files, shares);
        let home = groups
            .iter()
            .position(|earlier| are_one_run(earlier, &group))
            .or_else(|| groups.iter().position(|earlier| are_hosts(earlier, &group)));
        match home {
            Some(home) => groups[home].join(group),
            None => groups.push(group),
        }
    }
    groups.into_iter().map(|g| g.in_order(files)).collect()
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
    } else if let Some(path) = shares.first().map(|s| files[*s].path.as_str()) {
        let processes = names::process_of(path).into_iter().collect();
        let has_devices = own().any(|s| files[*s].device.is_some());
        out.orderly = (names::is_json(path) || !has_devices).then(|| (own().count(), processes));
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
        if let (Some((ranks, processes)), Some((more, others))) = (&mut self.orderly, other.orderly)
        {
            *ranks += more;
            processes.extend(others);
        }
    }

    /// The members; those of several files without ranks with ranks in their order.
    fn in_order(mut self, files: &[Facts]) -> Vec<Member> {
        let paths: BTreeSet<&str> = self.members.iter().map(|m| &*files[m.file].path).collect();
        if self.orderly.is_none() || paths.len() < 2 {
            return self.members;
        }
        let mut ranked: Vec<usize> =
            (0..self.members.len()).filter(|m| self.members[*m].rank.is_some()).collect();
        let of = |m: usize| &files[self.members[m].file];
        let devices: BTreeSet<Option<i64>> = ranked.iter().map(|m| of(*m).device).collect();
        let distinct = devices.len() == ranked.len();
        ranked.sort_by_key(|m| {
            let host = if distinct { Vec::new() } else { natural(&of(*m).path) };
            (host, of(*m).device, of(*m).place)
        });
        for (rank, m) in ranked.into_iter().enumerate() {
            self.members[m].rank = Some(rank as i64);
        }
        self.members
    }
}

/// Whether two groups of files that an order of the hosts may join are of one run.
fn are_hosts(one: &Group, other: &Group) -> bool {
    let (Some((ours, our_folders)), Some((theirs, their_folders))) = (&one.orderly, &other.orderly)
    else {
        return false;
    };
    let same_run = !one.runs.is_disjoint(&other.runs);
    let by_folder = !our_folders.is_empty()
        && !their_folders.is_empty()
        && our_folders.is_disjoint(their_folders)
        && one.runs.iter().any(|a| other.runs.iter().any(|b| at_one_moment(a, b)));
    // A file whose groups name no more devices than it holds is a job by itself.
    let ranks = (ours + theirs) as i64;
    let fits = [one.world, other.world].iter().flatten().all(|world| ranks <= *world);
    (same_run || by_folder) && fits
}

/// Whether two names of runs (`2026_11_21_03_44_48`) are of about the same time.
fn at_one_moment(one: &str, other: &str) -> bool {
    let seconds = |run: &str| -> Option<i64> {
        let parts: Option<Vec<i64>> = run.split('_').map(|part| part.parse().ok()).collect();
        let [year, month, day, hour, minute, second] = parts?[..] else { return None };
        let plausible = (1970..10_000).contains(&year)
            && [month, day, hour, minute, second].iter().all(|n| (0..100).contains(n));
        // Years from March on: the day of a leap year is their last.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
        plausible.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
    };
    matches!((seconds(one), seconds(other)), (Some(a), Some(b)) if (a - b).abs() <= RUN_SECONDS)
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
    use crate::ingest::ranks;
    use crate::schema::source::Source;

    const EPOCH: i64 = 1_795_000_000_000_000_000;

    /// A file with these ranks, on the devices from 0 on.
    fn file(path: &str, run: &str, ranks: &[Option<i64>], world: i64) -> Vec<Facts> {
        let of = |(i, rank): (usize, &Option<i64>)| Facts {
            source: Source::Xla,
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
        let (traces, errors, _) = ranks::split(files);
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
    fn a_host_joins_all_that_joined_before() {
        let host = |path: &str, run: &str, ranks: [i64; 2], span: (i64, i64)| {
            let mut files = file(path, run, &ranks.map(Some), 6);
            files.iter_mut().for_each(|f| f.span_ns = Some((EPOCH + span.0, EPOCH + span.1)));
            files
        };
        let first = host("t/a.xplane.pb", "t", [0, 1], (0, 100));
        let second = host("t/b.xplane.pb", "u", [2, 3], (50, 200));
        // By the run of the second host, and by its time.
        let third = host("t/c.xplane.pb", "u", [4, 5], (900, 999));
        assert_eq!(ranks(&[&first[..], &second, &third].concat()), [[0, 1, 2, 3, 4, 5]]);
        let third = host("t/c.xplane.pb", "v", [4, 5], (150, 300));
        assert_eq!(ranks(&[&first[..], &second, &third].concat()), [[0, 1, 2, 3, 4, 5]]);
        // Not with the ranks of the second host.
        let third = host("t/c.xplane.pb", "u", [2, 3], (150, 300));
        let found = ranks(&[&first[..], &second, &third].concat());
        assert_eq!(found, [vec![0, 1, 2, 3], vec![2, 3]]);
        // Nor of another world, though of the same run.
        let mut third = host("t/c.xplane.pb", "t", [4, 5], (0, 100));
        third.iter_mut().for_each(|f| f.world_size = Some(8));
        assert_eq!(ranks(&[first, third].concat()), [[0, 1], [4, 5]]);
    }

    #[test]
    fn stated_ranks_stay_as_they_are() {
        let of = |path: &str, ranks: [i64; 2], world: Option<i64>| {
            let mut files = file(path, "t", &ranks.map(Some), 0);
            files.iter_mut().for_each(|f| f.world_size = world);
            files
        };
        for world in [Some(4), None] {
            let files =
                [of("t/a.xplane.pb", [2, 3], world), of("t/b.xplane.pb", [0, 1], world)].concat();
            assert_eq!(ranks(&files), [[0, 1, 2, 3]]);
            let (traces, ..) = ranks::split(&files);
            assert_eq!(files[traces[0][0].file].path, "t/b.xplane.pb");
        }
    }

    #[test]
    fn ranks_that_a_name_says_join_within_one_stem() {
        let of = |stem: &str, rank: i64| {
            let mut files = file(&format!("{stem}_{rank}.xplane.pb"), "", &[None], 0);
            let f = &mut files[0];
            (f.name_rank, f.world_size, f.span_ns) = (Some(rank), None, None);
            f.stem = stem.to_owned();
            files
        };
        assert_eq!(ranks(&[of("job", 0), of("job", 1)].concat()), [[0, 1]]);
        assert_eq!(ranks(&[of("job", 0), of("other", 1)].concat()), [[0], [1]]);
    }

    #[test]
    fn hosts_without_ranks_join_as_many_as_the_job_has() {
        let host = |process: &str, world: Option<i64>| {
            let run = "2026_11_22_14_36_54";
            let path = format!("two/{process}/plugins/profile/{run}/vm.trace.json.gz");
            let mut files = file(&path, run, &[None, None], 0);
            files.iter_mut().for_each(|f| (f.world_size, f.span_ns) = (world, Some((0, 100))));
            files
        };
        let of =
            |world| [host("proc0", world), host("proc1", world), host("proc2", world)].concat();
        assert_eq!(ranks(&of(None)), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(ranks(&of(Some(6))), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(ranks(&of(Some(4))), [vec![0, 1, 2, 3], vec![0, 1]]);
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
    fn hosts_in_json_are_one_trace_in_their_order() {
        let run = "2026_11_22_14_36_54";
        let path =
            |host: &str, run: &str| format!("two/{host}/plugins/profile/{run}/vm.trace.json.gz");
        let on = |host: &str, run: &str, devices: [i64; 2]| {
            let mut files = file(&path(host, run), run, &[None, None], 0);
            for (f, device) in files.iter_mut().zip(devices) {
                (f.device, f.world_size, f.span_ns) = (Some(device), None, Some((0, 100)));
            }
            files
        };
        let named = |files: &[Facts]| {
            let (traces, ..) = ranks::split(files);
            let of = |m: &Member| (files[m.file].path.clone(), m.rank);
            traces.iter().map(|t| t.iter().map(of).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        // The order of the hosts counts where all number their devices from 0.
        let files = [on("proc10", run, [0, 1]), on("proc9", run, [0, 1])].concat();
        let (ten, nine) = (path("proc10", run), path("proc9", run));
        let expected =
            [(nine.clone(), 0), (nine, 1), (ten.clone(), 2), (ten, 3)].map(|(p, r)| (p, Some(r)));
        assert_eq!(named(&files), [expected]);
        // Numbers of the whole job count before the order of the hosts.
        let files = [on("proc0", run, [2048, 2049]), on("proc1", run, [0, 1])].concat();
        let ranks: Vec<_> = named(&files)[0].iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(ranks[0], path("proc1", run));
        // Each process names its own run; a later one is another.
        let soon = [on("proc0", run, [0, 1]), on("proc1", "2026_11_22_14_37_01", [0, 1])].concat();
        assert_eq!(named(&soon).len(), 1);
        let late = [on("proc0", run, [0, 1]), on("proc1", "2026_11_22_15_37_01", [0, 1])].concat();
        assert_eq!(named(&late).len(), 2);
        // A second profile of a process is of another run, whichever process joined before.
        let again = on("proc1", "2026_11_22_14_37_30", [0, 1]);
        let all = [&soon[..], &again].concat();
        assert_eq!(named(&all).iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
        let one = [on("proc1", run, [0, 1]), again].concat();
        assert_eq!(named(&one).len(), 2);
        // Without a folder of a process, only an equal name of the run says so.
        let no_process = |host: &str, run: &str| {
            let mut files = on(host, run, [0, 1]);
            let path = format!("two/plugins/profile/{run}/{host}.trace.json.gz");
            files.iter_mut().for_each(|f| f.path.clone_from(&path));
            files
        };
        let other = "2026_11_22_14_36_55";
        assert_eq!(named(&[no_process("a", run), no_process("b", run)].concat()).len(), 1);
        assert_eq!(named(&[no_process("a", run), no_process("b", other)].concat()).len(), 2);
        // Processes without devices are ranks too, whatever the form.
        let idle = |path: &str| {
            let mut files = file(path, run, &[None], 0);
            (files[0].device, files[0].world_size) = (None, None);
            files
        };
        let files = [idle("t/b.xplane.pb"), idle("t/a.xplane.pb")].concat();
        let ranks: Vec<_> = named(&files).concat();
        assert_eq!(
            ranks,
            [("t/a.xplane.pb".to_owned(), Some(0)), ("t/b.xplane.pb".to_owned(), Some(1))]
        );
        // Whose groups name all its own devices is a job by itself.
        let mut whole = [on("proc0", run, [0, 1]), on("proc1", run, [0, 1])].concat();
        for f in &mut whole {
            f.world_size = Some(2);
        }
        assert_eq!(named(&whole).len(), 2);
    }

    #[test]
    fn moments_are_near_over_the_end_of_any_month() {
        for (one, other) in [
            ("2026_11_30_23_59_30", "2026_12_01_00_00_30"),
            ("2026_10_31_23_59_30", "2026_11_01_00_00_30"),
            ("2026_02_28_23_59_30", "2026_03_01_00_00_30"),
            ("2024_02_28_23_59_30", "2024_02_29_00_00_30"),
            ("2024_02_29_23_59_30", "2024_03_01_00_00_30"),
            ("2100_02_28_23_59_30", "2100_03_01_00_00_30"),
            ("2000_02_29_23_59_30", "2000_03_01_00_00_30"),
            ("2026_12_31_23_59_30", "2027_01_01_00_00_30"),
            ("2027_01_31_23_59_30", "2027_02_01_00_00_30"),
            ("2026_11_22_14_59_30", "2026_11_22_15_00_30"),
            ("1970_01_01_00_00_00", "1970_01_01_00_01_00"),
        ] {
            assert!(at_one_moment(one, other) && at_one_moment(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("2026_11_22_14_59_30", "2026_11_22_15_00_31"),
            ("2026_11_22_14_59_30", "2026_11_23_14_59_30"),
            ("2026_11_22_14_59_30", "2026_12_22_14_59_30"),
            ("2026_11_22_14_59_30", "2027_11_22_14_59_30"),
        ] {
            assert!(!at_one_moment(one, other), "{one} {other}");
        }
        // What only looks like a moment is none.
        for name in ["2026", "run_1_2_3_4_5", "1969_01_01_00_00_00", "2026_100_01_00_00_00"] {
            assert!(!at_one_moment(name, name), "{name}");
        }
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
        let (traces, ..) = ranks::split(&files);
        assert!(traces[0].iter().all(|m| m.rank_source == "flag"));
    }
}
