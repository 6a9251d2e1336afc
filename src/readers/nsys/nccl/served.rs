//! The calls that one launch serves, and which kernel serves which.

use std::collections::BTreeMap;

use crate::readers::nsys::nccl::calls::{
    ALL_GATHER, ALL_TO_ALL, GATHER, MIXED, RECV, REDUCE_SCATTER, SCATTER, SEND, SEND_RECV, fits,
};
use crate::spool::launches::{NONE, some};

/// Ranks of a communicator whose bytes are listed one by one.
const MAX_SPLITS: i64 = 8192;

/// The calls of one communicator that one launch serves.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) code: i64,
    pub(super) communicator: i64,
    /// Bytes of the calls; of the sends in a group of both.
    pub(super) bytes: Option<i64>,
    /// Bytes of the receives.
    pub(super) received: Option<i64>,
    pub(super) other_rank: i64,
    pub(super) calls: i64,
    /// Bytes of each call, while they are all alike.
    pub(super) alike: Option<i64>,
    /// Bytes to and from each peer; None where a call is no send or receive, or says no peer or
    /// size.
    pub(super) peers: Option<BTreeMap<i64, [i64; 2]>>,
}

impl Served {
    /// The first call of a communicator.
    pub(super) fn one(code: i64, communicator: i64, bytes: i64, other_rank: i64) -> Self {
        let mut out = Self {
            code,
            communicator,
            bytes: Some(0),
            received: Some(0),
            other_rank,
            calls: 0,
            alike: None,
            peers: Some(BTreeMap::new()),
        };
        out.add(code, bytes, other_rank);
        out
    }

    /// The share of one of `devices` that the process calls for with the same communicator: none
    /// says which call is whose, so it is known only where they are alike.
    pub(super) fn of_one_device(mut self, devices: i64) -> Self {
        if devices > 1 {
            let even = self.calls % devices == 0 && self.alike.is_some();
            let part = |bytes: Option<i64>| bytes.filter(|_| even).map(|b| b / devices);
            (self.bytes, self.received) = (part(self.bytes), part(self.received));
            self.peers = None;
        }
        self
    }

    pub(super) fn add(&mut self, code: i64, bytes: i64, other_rank: i64) {
        let plus = |sum: Option<i64>| sum?.checked_add(some(bytes)?);
        match code {
            RECV => self.received = plus(self.received),
            _ => self.bytes = plus(self.bytes),
        }
        self.code = match (self.code, code) {
            (a, b) if a == b => a,
            (SEND | RECV | SEND_RECV, SEND | RECV) => SEND_RECV,
            _ => MIXED,
        };
        if self.calls > 0 && self.other_rank != other_rank {
            self.other_rank = NONE;
        }
        self.alike = some(bytes).filter(|b| self.calls == 0 || self.alike == Some(*b));
        self.calls += 1;
        self.peers = match (self.peers.take(), code, some(bytes), some(other_rank)) {
            (Some(mut peers), SEND | RECV, Some(bytes), Some(peer)) => {
                let sum = &mut peers.entry(peer).or_default()[usize::from(code == RECV)];
                *sum = sum.saturating_add(bytes);
                Some(peers)
            }
            _ => None,
        };
    }

    /// Bytes to each rank of the communicator and from each, as lists; a peer without a call gets
    /// and gives none. Without the number of ranks they end with the last peer.
    pub(super) fn splits(&self, ranks: Option<i64>) -> Option<[String; 2]> {
        let peers = self.peers.as_ref()?;
        let (first, last) = (*peers.keys().next()?, *peers.keys().next_back()?);
        let ranks = ranks.unwrap_or_else(|| last.saturating_add(1));
        if first < 0 || last >= ranks || ranks > MAX_SPLITS {
            return None;
        }
        let list = |at: usize| {
            let of = |peer| peers.get(&peer).map_or(0, |sums| sums[at]).to_string();
            format!("[{}]", (0..ranks).map(of).collect::<Vec<_>>().join(","))
        };
        Some([list(0), list(1)])
    }

    /// Bytes of input and output of this rank.
    pub(super) fn sizes(&self, ranks: Option<i64>) -> (Option<i64>, Option<i64>) {
        let times = |bytes: Option<i64>| bytes?.checked_mul(ranks?);
        match self.code {
            ALL_GATHER => (self.bytes, times(self.bytes)),
            REDUCE_SCATTER => (times(self.bytes), self.bytes),
            ALL_TO_ALL => (times(self.bytes), times(self.bytes)),
            // Only the root has the whole of it.
            GATHER => (self.bytes, None),
            SCATTER => (None, self.bytes),
            SEND => (self.bytes, None),
            RECV => (None, self.received),
            SEND_RECV => (self.bytes, self.received),
            MIXED => (None, None),
            _ => (self.bytes, self.bytes),
        }
    }
}

/// Which part each kernel serves: the group names the communicators in the order of their launches,
/// unless the names of the kernels say otherwise. None where it cannot be told.
pub(super) fn pairs(kernels: &[(i64, i64)], parts: &[Served]) -> Option<Vec<usize>> {
    if kernels.len() != parts.len() {
        return None;
    }
    let in_order = || kernels.iter().zip(parts).all(|((_, kernel), part)| fits(*kernel, part.code));
    if parts.len() == 1 || in_order() {
        return Some((0..parts.len()).collect());
    }
    let mut taken = std::collections::BTreeSet::new();
    kernels
        .iter()
        .map(|(_, kernel)| {
            let mut may = (0..parts.len()).filter(|part| fits(*kernel, parts[*part].code));
            let only = may.next().filter(|_| may.next().is_none())?;
            taken.insert(only).then_some(only)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::nsys::nccl::calls::{FIRST, OTHER};

    #[test]
    fn bytes_in_and_out_of_each_operation() {
        for (code, sizes) in [
            (ALL_GATHER, (Some(8), Some(32))),
            (REDUCE_SCATTER, (Some(32), Some(8))),
            (ALL_TO_ALL, (Some(32), Some(32))),
            (GATHER, (Some(8), None)),
            (SCATTER, (None, Some(8))),
            (SEND, (Some(8), None)),
            (RECV, (None, Some(8))),
            (FIRST, (Some(8), Some(8))),
        ] {
            assert_eq!(Served::one(code, 1, 8, NONE).sizes(Some(4)), sizes, "{code}");
        }
        assert_eq!(Served::one(ALL_GATHER, 1, 8, NONE).sizes(None), (Some(8), None));
        assert_eq!(Served::one(SEND, 1, NONE, 2).sizes(Some(4)), (None, None));
    }

    #[test]
    fn calls_of_one_launch_add_up() {
        let mut both = Served::one(SEND, 1, 8, 2);
        both.add(RECV, 5, 3);
        assert_eq!((both.code, both.sizes(Some(4))), (SEND_RECV, (Some(8), Some(5))));
        assert_eq!((both.other_rank, both.alike, both.calls), (NONE, None, 2));
        let splits = Some(["[0,0,8,0]", "[0,0,0,5]"].map(String::from));
        assert_eq!(both.splits(Some(4)), splits);
        assert_eq!((both.splits(None), both.splits(Some(3))), (splits, None));
        both.add(FIRST, 8, NONE);
        assert_eq!((both.sizes(Some(4)), both.splits(Some(4))), ((None, None), None));
        // Of as many alike calls on each device one has its part.
        let mut alike = Served::one(SEND, 1, 8, 2);
        alike.add(SEND, 8, 2);
        assert_eq!((alike.code, alike.bytes, alike.alike), (SEND, Some(16), Some(8)));
        assert_eq!(
            (alike.other_rank, alike.splits(None)),
            (2, Some(["[0,0,16]", "[0,0,0]"].map(String::from)))
        );
        let of = |devices| alike.clone().of_one_device(devices);
        assert_eq!((of(1).bytes, of(2).bytes, of(3).bytes), (Some(16), Some(8), None));
        assert!(of(1).peers.is_some() && of(2).peers.is_none());
    }

    #[test]
    fn names_of_kernels_tell_communicators_apart() {
        let part = |code| Served {
            code,
            communicator: 0,
            bytes: None,
            received: None,
            other_rank: NONE,
            calls: 1,
            alike: None,
            peers: None,
        };
        let parts = [part(FIRST), part(REDUCE_SCATTER)];
        assert_eq!(pairs(&[(1, FIRST), (2, REDUCE_SCATTER)], &parts), Some(vec![0, 1]));
        assert_eq!(pairs(&[(1, REDUCE_SCATTER), (2, FIRST)], &parts), Some(vec![1, 0]));
        assert_eq!(pairs(&[(1, OTHER), (2, OTHER)], &parts), Some(vec![0, 1]));
        assert_eq!(pairs(&[(1, ALL_GATHER), (2, FIRST)], &parts), None);
        assert_eq!(pairs(&[(1, FIRST)], &parts), None);
    }

    #[test]
    fn the_most_ranks_whose_bytes_are_told() {
        let mut call = Served::one(SEND, 1, 8, 2);
        call.add(RECV, 5, 3);
        assert!(call.splits(Some(MAX_SPLITS)).is_some());
        assert_eq!(call.splits(Some(MAX_SPLITS + 1)), None);
        let last = Served::one(SEND, 1, 8, MAX_SPLITS - 1);
        let beyond = Served::one(SEND, 1, 8, MAX_SPLITS);
        assert_eq!((last.splits(None).is_some(), beyond.splits(None)), (true, None));
    }
}
