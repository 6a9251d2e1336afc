//! An operation, and the collective that it may be: what its text and the HLO of its module say
//! alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use crate::readers::xla::hlo::groups::{Grid, Groups, Ids};
use crate::readers::xla::hlo::shape::{Shape, Size};

/// What a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Compute,
    Comm,
    Copy,
    /// Runs other operations: a loop, a branch, a call.
    Control,
}

/// Whether an opcode only says which operations run.
pub fn is_control(opcode: &str) -> bool {
    matches!(opcode, "while" | "conditional" | "call")
}

impl Class {
    /// The word in the tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Compute | Self::Control => "compute",
            Self::Comm => "comm",
            Self::Copy => "copy",
        }
    }
}

/// Which part of an asynchronous pair an operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Half {
    /// None: it is the whole.
    Whole,
    /// The operation that it starts goes on while others run.
    Start,
    /// Waits for the end of what another operation started: its name.
    Done(Option<String>),
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub class: Class,
    pub half: Half,
    /// Bytes of a copy.
    pub bytes: Option<i64>,
    /// From where to where a copy goes, as Kineto spells it.
    pub direction: Option<&'static str>,
    pub call: Option<Call>,
}

/// A collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The kind of the collective as HLO spells it; `async-collective` where nothing says which.
    pub word: String,
    pub input: Size,
    pub output: Size,
    pub groups: Option<Groups>,
    /// Pairs of a sender and a receiver.
    pub pairs: Vec<(i64, i64)>,
    /// Members of the group, where only the sizes say it.
    pub group_size: Option<i64>,
    pub ids: Ids,
    /// Replicas and partitions of its program.
    pub grid: Option<Grid>,
}

/// A collective whose kind nothing says.
pub const UNKNOWN: &str = "async-collective";

const COLLECTIVES: [&str; 9] = [
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
    "send",
    "recv",
];

/// The collective that the name of an operation says, as HLO or JAX spells it.
fn collective_of_name(name: &str) -> Option<&'static str> {
    let base = name.split('.').next()?.replace('_', "-");
    let (base, _) = half_of(&base);
    let word = match base {
        "psum" | "psum2" | "psum-invariant" | "pmax" | "pmin" | "pmean" => "all-reduce",
        "psum-scatter" | "unreduced-psum-scatter" | "unreduced-reduce-scatter" => "reduce-scatter",
        "all-gather-invariant" | "all-gather-reduced" => "all-gather",
        "ppermute" | "pshuffle" => "collective-permute",
        "pbroadcast" => "collective-broadcast",
        other => other,
    };
    // `send` and `recv` are names of too much else.
    let mut known = COLLECTIVES.iter().filter(|c| !matches!(**c, "send" | "recv"));
    known.find(|c| **c == word).copied()
}

/// The collective that an opcode or a category names, and which half it is.
pub(super) fn collective(word: &str) -> Option<(&str, HalfWord)> {
    let word = word.strip_suffix(" fusion").unwrap_or(word);
    let (base, half) = half_of(word);
    if base == "all-reduce-scatter" {
        return Some(("reduce-scatter", half));
    }
    let known = COLLECTIVES.contains(&base);
    let half = match (base, half) {
        ("send" | "recv", HalfWord::Whole) => HalfWord::Start,
        (_, half) => half,
    };
    known.then_some((base, half))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HalfWord {
    Whole,
    Start,
    Done,
}

pub(super) fn half_of(word: &str) -> (&str, HalfWord) {
    match (word.strip_suffix("-start"), word.strip_suffix("-done")) {
        (Some(base), _) => (base, HalfWord::Start),
        (_, Some(base)) => (base, HalfWord::Done),
        _ => (word, HalfWord::Whole),
    }
}

/// What ids in groups count, by the attributes of the operation.
pub(super) fn ids_of(word: &str, has_channel: bool, global: bool) -> Ids {
    let by_partition =
        ["all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast"];
    match (by_partition.contains(&word), has_channel, global) {
        (_, _, true) => Ids::Global,
        (true, true, _) => Ids::Partitions,
        (_, false, _) => Ids::Replicas,
        (false, true, _) => Ids::ReplicasAndPartitions,
    }
}

/// The size of what a collective gives. The result of a start lies in a tuple behind the operand.
pub(super) fn output_of(word: &str, is_start: bool, result: &Shape, input: &Size) -> Size {
    match (word, result.parts()) {
        // Data, context, token.
        ("recv", [data, ..]) => data.size(),
        ("send", _) => Size::default(),
        // A reduction gives what it takes.
        ("all-reduce", _) if is_start => input.clone(),
        (_, [_, output, ..]) if is_start => output.size(),
        _ if is_start => Size::default(),
        _ => result.size(),
    }
}

/// The size of what a collective takes: its operands, but for those that only steer it.
pub(super) fn input_of(word: &str, operands: impl Iterator<Item = Size>) -> Size {
    match word {
        "recv" => Size::default(),
        "send" | "ragged-all-to-all" => Size::sum(operands.take(1)),
        _ => Size::sum(operands),
    }
}

impl Op {
    /// Devices that its groups name.
    pub fn devices(&self) -> Option<i64> {
        self.call.as_ref()?.groups.as_ref()?.devices()
    }

    /// An operation that computes.
    pub fn compute() -> Self {
        Self { class: Class::Compute, half: Half::Whole, bytes: None, direction: None, call: None }
    }

    /// The collective that the name of an operation says: the last resort. Of one kind it is one
    /// and the same.
    pub fn of_name(name: &str) -> Option<&'static Arc<Self>> {
        static NAMED: LazyLock<HashMap<&str, Arc<Op>>> = LazyLock::new(|| {
            let op = |word: &&'static str| Op {
                class: Class::Comm,
                call: Some(Call::bare(word)),
                ..Op::compute()
            };
            COLLECTIVES.iter().map(|word| (*word, Arc::new(op(word)))).collect()
        });
        NAMED.get(collective_of_name(name)?)
    }
}

impl Call {
    /// A collective of which only the kind is known.
    pub fn bare(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            input: Size::default(),
            output: Size::default(),
            groups: None,
            pairs: Vec::new(),
            group_size: None,
            ids: Ids::Global,
            grid: None,
        }
    }

    /// The ranks of the group of a rank; None where nothing says them. Who is in no pair waits for
    /// nobody.
    pub fn group_of(&self, rank: i64) -> Option<Vec<i64>> {
        if !self.pairs.is_empty() {
            let groups = Groups::of_lists(self.rings())?;
            return Some(groups.of_rank(rank, self.ids, self.grid).unwrap_or_else(|| vec![rank]));
        }
        self.groups.as_ref()?.of_rank(rank, self.ids, self.grid)
    }

    /// Members of the group of any rank.
    pub fn members(&self) -> Option<i64> {
        let by_pairs = || {
            if self.pairs.is_empty() {
                self.groups.as_ref()?.size()
            } else {
                Groups::Listed(self.rings()).size()
            }
        };
        self.group_size.or_else(by_pairs)
    }

    /// The ids that are joined by pairs, directly or through others, each ring by itself.
    fn rings(&self) -> Vec<Vec<i64>> {
        let ids: BTreeSet<i64> = self.pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let at = |id: i64| ids.binary_search(&id).expect("every id of a pair is listed");
        // The first of each ring, as far as it is known: the way there grows shorter with every
        // look.
        let mut first: Vec<usize> = (0..ids.len()).collect();
        let find = |first: &mut Vec<usize>, mut id: usize| {
            while first[id] != id {
                first[id] = first[first[id]];
                id = first[id];
            }
            id
        };
        for (from, to) in &self.pairs {
            let (a, b) = (find(&mut first, at(*from)), find(&mut first, at(*to)));
            first[a.max(b)] = a.min(b);
        }
        let mut rings: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for (place, id) in ids.iter().enumerate() {
            rings.entry(find(&mut first, place)).or_default().push(*id);
        }
        rings.into_values().collect()
    }

    /// Whom a rank sends to, and from whom it receives.
    pub fn peers(&self, rank: i64) -> (Option<i64>, Option<i64>) {
        // Ids of partitions or replicas are of those beside the rank.
        let partitions = self.grid.map_or(1, |g| g.partitions.max(1));
        let (replica, partition) = (rank / partitions, rank % partitions);
        let own = match (self.grid, self.ids) {
            (Some(_), Ids::Partitions) => partition,
            (Some(_), Ids::Replicas) => replica,
            _ => rank,
        };
        let rank_of = |id: i64| match (self.grid, self.ids) {
            (Some(_), Ids::Partitions) => (replica * partitions).saturating_add(id),
            (Some(_), Ids::Replicas) => id.saturating_mul(partitions).saturating_add(partition),
            _ => id,
        };
        let to = self.pairs.iter().find(|(from, _)| *from == own).map(|(_, to)| rank_of(*to));
        let from = self.pairs.iter().find(|(_, to)| *to == own).map(|(from, _)| rank_of(*from));
        (to, from)
    }

    /// What sizes say where groups do not: a reduce-scatter gives each rank its share.
    pub(super) fn settle(mut self) -> Self {
        let ratio = |big: Option<i64>, small: Option<i64>| {
            let (big, small) = (big?, small.filter(|s| *s > 0)?);
            (big > small && big % small == 0).then(|| big / small)
        };
        if self.groups.is_none() && self.word == "reduce-scatter" {
            self.group_size = ratio(self.input.bytes, self.output.bytes);
        }
        if self.word == UNKNOWN
            && let Some(n) = ratio(self.output.bytes, self.input.bytes)
        {
            self.word = "all-gather".to_owned();
            self.group_size = Some(n);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_steers_a_collective_is_no_input() {
        let size = |bytes| Size { bytes: Some(bytes), ..Size::default() };
        let input = |word: &str| input_of(word, [size(8), size(4)].into_iter()).bytes;
        let words = ["recv", "send", "ragged-all-to-all", "all-to-all"];
        assert_eq!(words.map(input), [None, Some(8), Some(8), Some(12)]);
    }

    #[test]
    fn names_of_collectives() {
        for (name, word) in [
            ("psum_invariant.14", Some("all-reduce")),
            ("psum.7", Some("all-reduce")),
            ("all_gather.3", Some("all-gather")),
            ("all-gather-start.3.1", Some("all-gather")),
            ("reduce_scatter.7", Some("reduce-scatter")),
            ("ppermute", Some("collective-permute")),
            ("all-to-all", Some("all-to-all")),
            ("bitcast_add_fusion", None),
            ("psum_fusion", None),
            ("reduce.3", None),
            ("recv.1", None),
            ("", None),
        ] {
            let op = Op::of_name(name);
            let call = op.and_then(|op| op.call.as_ref());
            assert_eq!(call.map(|call| call.word.as_str()), word, "{name}");
        }
    }
}
