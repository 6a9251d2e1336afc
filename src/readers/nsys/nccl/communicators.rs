//! The communicators of a process, and what they are to its devices.

use std::collections::BTreeMap;

use crate::readers::share::Communicator;
use crate::spool::launches::some;

/// What a communicator is to a device: its ranks, and which of them the device is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    pub(super) ranks: Option<i64>,
    pub(super) rank: Option<i64>,
}

/// The communicators of a process, as one of its devices sees them.
pub(super) struct Communicators {
    pub(super) all: BTreeMap<(Option<i64>, Option<i64>, i64), Communicator>,
    pub(super) device: Option<i64>,
}

impl Communicators {
    fn of(&self, id: i64) -> impl Iterator<Item = &Communicator> {
        let id = some(id);
        // Those of one number lie together.
        let from = (id, None, i64::MIN);
        self.all.range(from..).take_while(move |(key, _)| key.0 == id).map(|(_, c)| c)
    }

    fn here(&self, c: &Communicator) -> bool {
        c.device.is_none() || c.device == self.device
    }

    /// The ranks of a communicator, and the own one among them. Where versions name no
    /// communicator, all of the device may have the same number.
    pub(super) fn own(&self, id: i64) -> Own {
        let mut of = self.of(id).filter(|c| self.here(c));
        let Some(first) = of.next() else { return Own::default() };
        let (mut ranks, mut rank) = (Some(first.ranks), Some(first.rank));
        for c in of {
            ranks = ranks.filter(|ranks| *ranks == c.ranks);
            rank = rank.filter(|rank| *rank == c.rank);
        }
        Own { ranks, rank: rank.filter(|_| ranks.is_some()) }
    }

    /// Devices of the process that take part in a communicator, as far as is known.
    pub(super) fn devices(&self, id: i64) -> i64 {
        let devices: std::collections::BTreeSet<_> = self.of(id).map(|c| c.device).collect();
        devices.len().max(1) as i64
    }

    /// Whether the calls of a communicator are served by the kernels of another rank of the
    /// process.
    pub(super) fn elsewhere(&self, id: i64) -> bool {
        let mut of = self.of(id).peekable();
        of.peek().is_some() && !of.any(|c| self.here(c))
    }
}
