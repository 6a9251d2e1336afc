//! Who takes part in a call: replica groups in both spellings, pairs of a permute, and what they
//! become as ranks.

use crate::readers::xla::hlo::proto::IotaGroups;

/// Members of all groups together that are looked at; a job has fewer devices.
const MAX_MEMBERS: i64 = 1 << 20;

/// Groups of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    /// Each with its members.
    Listed(Vec<Vec<i64>>),
    /// All devices: no groups are given.
    All,
    /// Given in a way that cannot be read, or with more members than any job has.
    Unread,
}

/// What the ids in groups count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Replicas; each partition has groups of its own.
    Replicas,
    /// Replicas, with all their partitions.
    ReplicasAndPartitions,
    /// Partitions; each replica has groups of its own.
    Partitions,
    /// Replica x partitions + partition: the rank.
    Global,
}

/// Replicas and partitions of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Copies of the program on other data.
    pub replicas: i64,
    /// Parts of it.
    pub partitions: i64,
}

impl Groups {
    /// Groups of the rule `[groups,size]<=[dims]T(perm)`; None where it says nothing sensible.
    ///
    /// `[4,2]<=[2,4]T(1,0)`: 0..7 as 2 rows of 4, transposed, cut in twos: {0,4},{1,5},{2,6},{3,7}.
    pub fn of_iota(iota: &IotaGroups) -> Option<Self> {
        let dims = &iota.dims;
        let count = dims.iter().try_fold(1_i64, |n, d| n.checked_mul(*d).filter(|n| *n > 0))?;
        let cut = iota.groups.checked_mul(iota.group_size)?;
        if count != cut || count > MAX_MEMBERS || dims.len() > 16 || iota.group_size < 1 {
            return None;
        }
        let perm: Vec<usize> = if iota.perm.is_empty() {
            (0..dims.len()).collect()
        } else {
            iota.perm.iter().map(|p| usize::try_from(*p).ok()).collect::<Option<_>>()?
        };
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        if sorted != (0..dims.len()).collect::<Vec<_>>() {
            return None;
        }
        // Distance in the numbering of each dimension, in the order of the transposed matrix.
        let mut strides = vec![1_i64; dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d] * dims[d];
        }
        let mut members = Vec::with_capacity(usize::try_from(count).ok()?);
        let mut at = vec![0_i64; dims.len()];
        for _ in 0..count {
            members.push(perm.iter().zip(&at).map(|(d, i)| strides[*d] * i).sum::<i64>());
            for (place, d) in perm.iter().enumerate().rev() {
                at[place] += 1;
                if at[place] < dims[*d] {
                    break;
                }
                at[place] = 0;
            }
        }
        let size = usize::try_from(iota.group_size).ok()?;
        Some(Self::Listed(members.chunks(size).map(<[i64]>::to_vec).collect()))
    }

    /// Groups of lists; empty lists are all devices.
    pub fn of_lists(lists: Vec<Vec<i64>>) -> Option<Self> {
        let lists: Vec<Vec<i64>> = lists.into_iter().filter(|l| !l.is_empty()).collect();
        let members: usize = lists.iter().map(Vec::len).sum();
        if lists.is_empty() {
            return Some(Self::All);
        }
        (members as i64 <= MAX_MEMBERS).then_some(Self::Listed(lists))
    }

    /// Groups of a text in either spelling, as HLO prints it: `{{0,1},{2,3}}`, `{}`,
    /// `[2,4]<=[8]T(1,0)`.
    pub fn of_text(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('{') {
            let inner = inner.strip_suffix('}')?;
            return Self::of_lists(lists(inner)?);
        }
        let (head, tail) = text.split_once("<=")?;
        let (dims, perm) = match tail.split_once('T') {
            Some((dims, perm)) => {
                let perm = perm.trim().strip_prefix('(')?.strip_suffix(')')?;
                (dims, numbers(perm)?)
            }
            None => (tail, Vec::new()),
        };
        let bracketed = |text: &str| -> Option<Vec<i64>> {
            numbers(text.trim().strip_prefix('[')?.strip_suffix(']')?)
        };
        let [groups, group_size] = bracketed(head)?[..] else { return None };
        let perm: Option<Vec<i32>> = perm.into_iter().map(|p| i32::try_from(p).ok()).collect();
        Self::of_iota(&IotaGroups { groups, group_size, dims: bracketed(dims)?, perm: perm? })
    }

    /// Members of a group, where all have as many.
    pub fn size(&self) -> Option<i64> {
        let Self::Listed(lists) = self else { return None };
        let size = lists.first()?.len();
        lists.iter().all(|l| l.len() == size).then_some(size as i64)
    }

    /// Devices that are named.
    pub fn devices(&self) -> Option<i64> {
        let Self::Listed(lists) = self else { return None };
        lists.iter().flatten().max().map(|last| last + 1)
    }

    /// The ranks of the group of a rank; None where it is in no group, or the grid is not known and
    /// all devices are meant.
    pub fn of_rank(&self, rank: i64, ids: Ids, grid: Option<Grid>) -> Option<Vec<i64>> {
        let known = grid.filter(|g| g.replicas > 0 && g.partitions > 0);
        let world = known.and_then(|g| g.replicas.checked_mul(g.partitions));
        let world = world.filter(|w| *w <= MAX_MEMBERS);
        if *self == Self::Unread {
            return None;
        }
        let Self::Listed(lists) = self else {
            let (grid, world) = (known?, world?);
            let (replica, partition) = (rank / grid.partitions, rank % grid.partitions);
            let members = (0..world).filter(|r| match ids {
                Ids::Replicas => r % grid.partitions == partition,
                Ids::Partitions => r / grid.partitions == replica,
                Ids::ReplicasAndPartitions | Ids::Global => true,
            });
            return Some(members.collect());
        };
        // Without a grid, ids are taken for ranks.
        let Some(grid) = known.filter(|_| ids != Ids::Global) else {
            return lists.iter().find(|l| l.contains(&rank)).cloned();
        };
        let (replica, partition) = (rank / grid.partitions, rank % grid.partitions);
        let own = if ids == Ids::Partitions { partition } else { replica };
        let list = lists.iter().find(|l| l.contains(&own))?;
        Some(match ids {
            Ids::Replicas => list.iter().map(|r| r * grid.partitions + partition).collect(),
            Ids::Partitions => list.iter().map(|p| replica * grid.partitions + p).collect(),
            _ => {
                let all = list
                    .iter()
                    .flat_map(|r| (0..grid.partitions).map(move |p| r * grid.partitions + p));
                all.take(MAX_MEMBERS as usize).collect()
            }
        })
    }
}

/// Numbers with commas between.
fn numbers(text: &str) -> Option<Vec<i64>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|n| n.trim().parse().ok().filter(|n| *n >= 0)).collect()
}

/// Lists in braces with commas between.
fn lists(text: &str) -> Option<Vec<Vec<i64>>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while let Some(inner) = rest.strip_prefix('{') {
        let (list, after) = inner.split_once('}')?;
        out.push(numbers(list)?);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    rest.is_empty().then_some(out)
}

/// Pairs of a permute, from text: `{{0,1},{1,0}}`.
pub fn pairs_of_text(text: &str) -> Option<Vec<(i64, i64)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    lists(inner)?.into_iter().map(|l| Some((*l.first()?, *l.get(1)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<Vec<i64>> {
        match Groups::of_text(text) {
            Some(Groups::Listed(lists)) => lists,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn both_spellings() {
        assert_eq!(listed("{{0,1},{2,3}}"), [[0, 1], [2, 3]]);
        assert_eq!(listed("[4,2]<=[2,4]T(1,0)"), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(listed("[2,4]<=[8]"), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(listed("[1,4]<=[4]"), [[0, 1, 2, 3]]);
        assert_eq!(listed("[2,1]<=[2]"), [[0], [1]]);
        assert_eq!(listed("[2,2]<=[2,1,2]T(2,1,0)"), [[0, 2], [1, 3]]);
        assert_eq!(Groups::of_text("{}"), Some(Groups::All));
        for wrong in [
            "",
            "{{0,1}",
            "[4,2]<=[9]",
            "[4,2]<=[2,4]T(1,1)",
            "[0,0]<=[0]",
            "{{0,a}}",
            "[9223372036854775807,2]<=[2]",
            "[1,1048577]<=[1048577]",
            "[2,4]",
            "{{-1}}",
        ] {
            assert_eq!(Groups::of_text(wrong), None, "{wrong}");
        }
        assert_eq!(pairs_of_text("{{0,1},{1,0}}"), Some(vec![(0, 1), (1, 0)]));
        assert_eq!(pairs_of_text("{{0}}"), None);
    }

    #[test]
    fn ids_become_ranks() {
        let grid = Some(Grid { replicas: 2, partitions: 2 });
        let groups = Groups::Listed(vec![vec![0, 1]]);
        // Replicas 0 and 1 of the own partition.
        assert_eq!(groups.of_rank(3, Ids::Replicas, grid), Some(vec![1, 3]));
        assert_eq!(groups.of_rank(2, Ids::Partitions, grid), Some(vec![2, 3]));
        assert_eq!(groups.of_rank(2, Ids::ReplicasAndPartitions, grid), Some(vec![0, 1, 2, 3]));
        assert_eq!(groups.of_rank(2, Ids::Global, grid), None);
        assert_eq!(groups.of_rank(1, Ids::Replicas, None), Some(vec![0, 1]));
        assert_eq!(Groups::All.of_rank(1, Ids::Replicas, grid), Some(vec![1, 3]));
        assert_eq!(Groups::All.of_rank(1, Ids::Global, grid), Some(vec![0, 1, 2, 3]));
        assert_eq!(Groups::All.of_rank(1, Ids::Global, None), None);
        // Ranks 0 1 2 are the partitions of the first replica, 3 4 5 those of the second.
        let grid = Some(Grid { replicas: 2, partitions: 3 });
        assert_eq!(Groups::All.of_rank(4, Ids::Partitions, grid), Some(vec![3, 4, 5]));
        assert_eq!(Groups::All.of_rank(4, Ids::Replicas, grid), Some(vec![1, 4]));
    }

    #[test]
    fn the_most_members_of_groups() {
        let most = MAX_MEMBERS;
        assert_eq!(listed(&format!("[1,{most}]<=[{most}]")).concat().len() as i64, most);
        let half = most / 2;
        assert!(Groups::of_lists(vec![(0..half).collect(), (half..most).collect()]).is_some());
        assert_eq!(Groups::of_lists(vec![(0..half).collect(), (half..=most).collect()]), None);
        // Sixteen dimensions.
        let dims = |n: usize| format!("[1,2]<=[2{}]", ",1".repeat(n - 1));
        assert_eq!(listed(&dims(16)), [[0, 1]]);
        assert_eq!(Groups::of_text(&dims(17)), None);
        // All of a grid.
        let all = |partitions: i64| {
            let grid = Some(Grid { replicas: 1, partitions });
            Groups::All.of_rank(0, Ids::Partitions, grid).map(|ranks| ranks.len() as i64)
        };
        assert_eq!((all(most), all(most + 1)), (Some(most), None));
    }
}
