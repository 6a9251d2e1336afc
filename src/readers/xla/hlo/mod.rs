//! What an operation of XLA is: whether it communicates, copies or computes, and the sizes and groups
//! of a collective. Read from the text of the operation or from the HLO of its module; from a name that
//! the user may have given it (`psum_invariant.7` is an all-reduce) only where there is neither.

pub(crate) mod groups;
mod proto;
mod shape;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use prost::Message;

use crate::readers::xla::hlo::groups::{Grid, Groups, Ids, pairs_of_text};
use crate::readers::xla::hlo::proto::{HloComputation, HloInstruction, HloModule, HloProto};
use crate::readers::xla::hlo::shape::{Shape, Size, balanced};

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
    /// What it starts goes on while others run.
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
    /// Its kind as HLO spells it; `async-collective` where nothing says which.
    pub word: String,
    pub input: Size,
    pub output: Size,
    pub groups: Option<Groups>,
    /// Who sends to whom.
    pub pairs: Vec<(i64, i64)>,
    /// Members of the group, where only the sizes say it.
    pub group_size: Option<i64>,
    pub channel: Option<i64>,
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
fn collective(word: &str) -> Option<(&str, HalfWord)> {
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
enum HalfWord {
    Whole,
    Start,
    Done,
}

fn half_of(word: &str) -> (&str, HalfWord) {
    match (word.strip_suffix("-start"), word.strip_suffix("-done")) {
        (Some(base), _) => (base, HalfWord::Start),
        (_, Some(base)) => (base, HalfWord::Done),
        _ => (word, HalfWord::Whole),
    }
}

/// What ids in groups count, by the attributes of the operation.
fn ids_of(word: &str, has_channel: bool, global: bool) -> Ids {
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
fn output_of(word: &str, is_start: bool, result: &Shape, input: &Size) -> Size {
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
fn input_of(word: &str, operands: impl Iterator<Item = Size>) -> Size {
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

    /// One that computes.
    pub fn compute() -> Self {
        Self { class: Class::Compute, half: Half::Whole, bytes: None, direction: None, call: None }
    }

    /// The collective that the name of an operation says: the last resort. Of one kind it is one and the
    /// same.
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

    /// From the text of the operation and the category that the profiler gives it; both may be missing.
    pub fn of_text(text: Option<&str>, category: Option<&str>) -> Self {
        let line = text.and_then(Line::of_text);
        let opcode = line.as_ref().map(|l| l.opcode);
        // A fusion may be a collective, which only the category says; and so may what runs beside others.
        let by_category = || {
            let (word, half) = category.and_then(collective)?;
            let (_, by_opcode) = half_of(opcode.unwrap_or_default());
            Some((word, if by_opcode == HalfWord::Whole { half } else { by_opcode }))
        };
        let of_name = || {
            let name = line.as_ref()?.name;
            let is_custom = category == Some("custom fusion");
            let (_, half) = half_of(name.split('.').next()?);
            let asynchronous = name.starts_with("async-collective-");
            (is_custom && asynchronous && half != HalfWord::Whole).then_some((UNKNOWN, half))
        };
        let found = opcode.and_then(collective).or_else(by_category).or_else(of_name);
        if let Some((word, half)) = found {
            let half = match half {
                HalfWord::Done => Half::Done(line.as_ref().and_then(|l| l.operand_name())),
                HalfWord::Start => Half::Start,
                HalfWord::Whole => Half::Whole,
            };
            let call = line.map(|l| l.call(word, half == Half::Start));
            let call = call.unwrap_or_else(|| Call::bare(word));
            return Self {
                class: Class::Comm,
                half,
                bytes: None,
                direction: None,
                call: Some(call),
            };
        }
        let copies = category.filter(|c| c.starts_with("copy"));
        let word = copies.or(opcode).or(category).unwrap_or_default();
        let half = match word {
            "copy" => Half::Whole,
            "copy-start" => Half::Start,
            "copy-done" => Half::Done(line.as_ref().and_then(|l| l.operand_name())),
            word if is_control(word) => return Self { class: Class::Control, ..Self::compute() },
            _ => return Self::compute(),
        };
        let (bytes, direction) = line.map_or((None, None), |l| l.copied(half == Half::Start));
        Self { class: Class::Copy, half, bytes, direction, call: None }
    }
}

impl Call {
    /// One of which only the kind is known.
    pub fn bare(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            input: Size::default(),
            output: Size::default(),
            groups: None,
            pairs: Vec::new(),
            group_size: None,
            channel: None,
            ids: Ids::Global,
            grid: None,
        }
    }

    /// The ranks of the group of a rank; None where nothing says them. Who is in no pair waits for nobody.
    pub fn group_of(&self, rank: i64) -> Option<Vec<i64>> {
        if !self.pairs.is_empty() {
            let groups = Groups::of_lists(self.rings())?;
            return Some(groups.of_rank(rank, self.ids, self.grid).unwrap_or_else(|| vec![rank]));
        }
        self.groups.as_ref()?.of_rank(rank, self.ids, self.grid)
    }

    /// Members of the group of any rank.
    pub fn members(&self) -> Option<i64> {
        let by_pairs = || match self.pairs.is_empty() {
            true => self.groups.as_ref()?.size(),
            false => Groups::Listed(self.rings()).size(),
        };
        self.group_size.or_else(by_pairs)
    }

    /// Those who are joined by pairs, directly or through others, each ring by itself.
    fn rings(&self) -> Vec<Vec<i64>> {
        let ids: BTreeSet<i64> = self.pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let at = |id: i64| ids.binary_search(&id).expect("every id of a pair is listed");
        // The first of each ring, as far as it is known: the way there grows shorter with every look.
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
    fn settle(mut self) -> Self {
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

/// `%name = shape opcode(operands), attributes`.
struct Line<'t> {
    name: &'t str,
    result_text: &'t str,
    result: Shape,
    opcode: &'t str,
    operands: &'t str,
    attributes: &'t str,
}

impl<'t> Line<'t> {
    fn of_text(text: &'t str) -> Option<Self> {
        let (name, rest) = text.split_once(" = ")?;
        let rest = rest.trim_start();
        let (result, after) = Shape::of_text(rest)?;
        let result_text = &rest[..rest.len() - after.len()];
        let (opcode, tail) = after.trim_start().split_once('(')?;
        // From the bracket on.
        let tail = &after[after.len() - tail.len() - 1..];
        let length = balanced(tail)?;
        let name = name.trim().trim_start_matches("ROOT ").trim_start_matches('%');
        Some(Self {
            name,
            result_text,
            result,
            opcode: opcode.trim(),
            operands: &tail[1..length - 1],
            attributes: &tail[length..],
        })
    }

    /// The value of an attribute: up to the comma after it.
    fn attribute(&self, key: &str) -> Option<&'t str> {
        let mut from = 0;
        let at = loop {
            let at = self.attributes[from..].find(key)? + from;
            let starts = self.attributes[..at].ends_with([' ', ',']);
            if starts && self.attributes[at + key.len()..].starts_with('=') {
                break at + key.len() + 1;
            }
            from = at + key.len();
        };
        let value = &self.attributes[at..];
        let mut end = 0;
        while end < value.len() {
            match value.as_bytes()[end] {
                b',' => break,
                b'{' | b'[' | b'(' => end += balanced(&value[end..])?,
                _ => end += 1,
            }
        }
        value.get(..end)
    }

    /// Name of the first operand.
    fn operand_name(&self) -> Option<String> {
        let text = match Shape::of_text(self.operands) {
            Some((_, after)) => after,
            None => self.operands,
        };
        let name = text.trim_start().strip_prefix('%').unwrap_or(text.trim_start());
        let end = name.find([',', ' ', ')']).unwrap_or(name.len());
        (end > 0).then(|| name[..end].to_owned())
    }

    /// What each operand holds, where the text says their shapes.
    fn inputs(&self) -> Vec<Size> {
        let mut sizes = Vec::new();
        let mut rest = self.operands.trim_start();
        while !rest.is_empty() {
            let Some((shape, after)) = Shape::of_text(rest) else { return Vec::new() };
            sizes.push(shape.size());
            rest = match after.split_once(',') {
                Some((_, after)) => after.trim_start(),
                None => "",
            };
        }
        sizes
    }

    /// What a fused collective takes of its operands, of which others may be for what is fused with it.
    fn input_of_fusion(&self, word: &str, output: &Size) -> Size {
        match word {
            "all-reduce" | "all-to-all" | "collective-permute" => output.clone(),
            "reduce-scatter" => {
                let shares = |input: &Size| {
                    let (all, own) = (input.bytes.unwrap_or(0), output.bytes.unwrap_or(0));
                    input.dtype == output.dtype && own > 0 && all > own && all % own == 0
                };
                let mut found = self.inputs().into_iter().filter(shares);
                match (found.next(), found.next()) {
                    (Some(one), None) => one,
                    _ => Size::default(),
                }
            }
            _ => Size::default(),
        }
    }

    fn call(&self, word: &str, is_start: bool) -> Call {
        let is_fusion = self.opcode == "fusion";
        let (input, output) = match self.result.parts() {
            // A fusion that starts gives the operand, the result and flags.
            [operand, output, ..] if is_fusion && is_start => (operand.size(), output.size()),
            _ if is_fusion => {
                let output = self.result.size();
                (self.input_of_fusion(word, &output), output)
            }
            _ => {
                let input = input_of(word, self.inputs().into_iter());
                let output = output_of(word, is_start, &self.result, &input);
                (input, output)
            }
        };
        let channel = self.attribute("channel_id").and_then(|c| c.parse().ok());
        let global = self.attribute("use_global_device_ids") == Some("true");
        let pairs = self.attribute("source_target_pairs").and_then(pairs_of_text);
        Call {
            word: word.to_owned(),
            input,
            output,
            groups: self
                .attribute("replica_groups")
                .map(|text| Groups::of_text(text).unwrap_or(Groups::Unread)),
            pairs: pairs.unwrap_or_default(),
            group_size: None,
            channel,
            ids: ids_of(word, channel.is_some(), global),
            grid: None,
        }
        .settle()
    }

    /// Bytes and direction of a copy. `S(5)` in a layout is the memory of the host; the result of a start
    /// is the destination, then the source.
    fn copied(&self, is_start: bool) -> (Option<i64>, Option<&'static str>) {
        let [to, ..] = self.result.parts() else { return (None, None) };
        let bytes = to.size().bytes;
        let host = |text: &str| text.contains("S(5)");
        let (to, from) = match (is_start, self.result_text.split_once(", ")) {
            (true, Some((to, rest))) => (
                host(to),
                host(Shape::of_text(rest).map_or(rest, |(_, r)| &rest[..rest.len() - r.len()])),
            ),
            _ => (host(self.result_text), host(self.operands)),
        };
        let direction = match (from, to) {
            (true, false) => "HtoD",
            (false, true) => "DtoH",
            (false, false) => "DtoD",
            (true, true) => "HtoH",
        };
        (bytes, Some(direction))
    }
}

/// The modules of a file, by program id.
#[derive(Debug, Default)]
pub struct Programs {
    programs: HashMap<i64, Program>,
    /// Program ids by the names of the modules; None where several have one name.
    by_name: HashMap<String, Option<i64>>,
}

/// A module.
#[derive(Debug, Default)]
pub struct Program {
    /// Operations that do more than compute, by name.
    ops: HashMap<String, Arc<Op>>,
    /// Device that runs each rank, where the module says it.
    pub devices: Vec<i64>,
    /// Operations in all.
    pub instructions: u64,
}

impl Programs {
    /// Takes the module in these bytes; its id and what is said of it. None where they are no module.
    pub fn add(&mut self, bytes: &[u8]) -> Option<(i64, &Program)> {
        let module = HloProto::decode(bytes).ok()?.module?;
        let id = module.id;
        let of_name = self.by_name.entry(String::from_utf8_lossy(&module.name).into_owned());
        of_name.and_modify(|of| *of = of.filter(|one| *one == id)).or_insert(Some(id));
        self.programs.insert(id, Program::of(&module));
        self.programs.get(&id).map(|p| (id, p))
    }

    /// An operation, by the id of its program, else by the name of its module (`jit_f`, `jit_f(7)`);
    /// None where its module is not in the file.
    pub fn find(
        &self,
        program: Option<i64>,
        module: Option<&str>,
        op: &str,
    ) -> Option<Option<&Arc<Op>>> {
        let by_name = || {
            let module = module?;
            let id = module.strip_suffix(')').and_then(|m| m.rsplit_once('('));
            match id.map(|(name, id)| (name, id.parse::<i128>().ok().map(|id| id as i64))) {
                Some((_, Some(id))) if self.programs.contains_key(&id) => Some(id),
                Some((name, _)) => self.by_name.get(name).copied().flatten(),
                None => self.by_name.get(module).copied().flatten(),
            }
        };
        let id = program.filter(|id| self.programs.contains_key(id)).or_else(by_name)?;
        self.programs.get(&id).map(|p| p.ops.get(op))
    }

    /// Whether no module is known.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// The assignments of devices to ranks that the modules state.
    pub fn devices(&self) -> impl Iterator<Item = &[i64]> {
        self.programs.values().map(|p| &p.devices[..]).filter(|d| !d.is_empty())
    }
}

impl Program {
    fn of(module: &HloModule) -> Self {
        let mut out = Self::default();
        let mut grid = None;
        if let Some(assigned) = &module.device_assignment {
            let (replicas, partitions) =
                (i64::from(assigned.replicas), i64::from(assigned.partitions));
            let fits = assigned.of_partitions.len() as i64 == partitions
                && assigned.of_partitions.iter().all(|p| p.ids.len() as i64 == replicas);
            if fits && replicas > 0 && partitions > 0 {
                grid = Some(Grid { replicas, partitions });
                for replica in 0..assigned.of_partitions[0].ids.len() {
                    out.devices.extend(assigned.of_partitions.iter().map(|p| p.ids[replica]));
                }
            }
        }
        let computations: HashMap<i64, &HloComputation> =
            module.computations.iter().map(|c| (c.id, c)).collect();
        for computation in &module.computations {
            out.instructions += computation.instructions.len() as u64;
            let by_id: HashMap<i64, &HloInstruction> =
                computation.instructions.iter().map(|i| (i.id, i)).collect();
            for instruction in &computation.instructions {
                if let Some(op) = op_of(instruction, &by_id, &computations, grid) {
                    let name = String::from_utf8_lossy(&instruction.name).into_owned();
                    out.ops.insert(name, Arc::new(op));
                }
            }
        }
        out
    }
}

/// What an instruction does; None where it computes.
fn op_of(
    instruction: &HloInstruction,
    by_id: &HashMap<i64, &HloInstruction>,
    computations: &HashMap<i64, &HloComputation>,
    grid: Option<Grid>,
) -> Option<Op> {
    let opcode = std::str::from_utf8(&instruction.opcode).ok()?;
    let size = |i: &HloInstruction| {
        i.shape.as_ref().and_then(Shape::of_proto).map(|s| s.size()).unwrap_or_default()
    };
    let result = instruction.shape.as_ref().and_then(Shape::of_proto);
    let operands = || instruction.operand_ids.iter().filter_map(|id| by_id.get(id));
    let done_of = || operands().next().map(|o| String::from_utf8_lossy(&o.name).into_owned());
    let half_as = |half: HalfWord| match half {
        HalfWord::Whole => Half::Whole,
        HalfWord::Start => Half::Start,
        HalfWord::Done => Half::Done(done_of()),
    };
    let comm = |half: Half, call: Call| Op {
        class: Class::Comm,
        half,
        bytes: None,
        direction: None,
        call: Some(call),
    };
    if let Some((word, half)) = collective(opcode) {
        let half = half_as(half);
        let input = input_of(word, operands().map(|o| size(o)));
        let output = match &result {
            Some(shape) => output_of(word, half == Half::Start, shape, &input),
            None => Size::default(),
        };
        let call = call_of(instruction, word, input, output, grid);
        return Some(comm(half, call));
    }
    if is_control(opcode) {
        return Some(Op { class: Class::Control, ..Op::compute() });
    }
    match half_of(opcode) {
        ("copy", half) => {
            let bytes = result.as_ref().and_then(|s| s.parts().first()?.size().bytes);
            Some(Op { class: Class::Copy, half: half_as(half), bytes, direction: None, call: None })
        }
        ("fusion" | "async", _) => {
            // What the called computation communicates.
            let inside = instruction
                .called_computation_ids
                .iter()
                .filter_map(|id| computations.get(id))
                .flat_map(|c| c.instructions.iter().map(move |i| (*c, i)))
                .find_map(|(c, i)| {
                    let opcode = std::str::from_utf8(&i.opcode).ok()?;
                    let (word, _) = collective(opcode)?;
                    Some((c, i, word))
                });
            let half = half_of_instruction(instruction);
            let Some((computation, inner, word)) = inside else {
                // The second half calls nothing: it is what its first half is.
                let first = (half == HalfWord::Done).then(|| operands().next().copied())??;
                // A file may say that two ends wait for each other.
                if half_of_instruction(first) != HalfWord::Start {
                    return None;
                }
                let of =
                    op_of(first, by_id, computations, grid).filter(|o| o.half == Half::Start)?;
                return Some(Op { half: half_as(half), ..of });
            };
            let by_id: HashMap<i64, &HloInstruction> =
                computation.instructions.iter().map(|i| (i.id, i)).collect();
            let operands = inner.operand_ids.iter().filter_map(|id| by_id.get(id));
            let input = input_of(word, operands.map(|o| size(o)));
            let output = match &inner.shape.as_ref().and_then(Shape::of_proto) {
                Some(shape) => output_of(word, opcode_is_start(inner), shape, &input),
                None => Size::default(),
            };
            // An all-reduce of which each rank keeps its share is a reduce-scatter.
            let scatters = word == "all-reduce"
                && result.as_ref().is_some_and(|r| {
                    let (all, own) = (output.bytes, r.size().bytes);
                    half == HalfWord::Whole
                        && all.zip(own).is_some_and(|(a, o)| o > 0 && a > o && a % o == 0)
                });
            let call = match (scatters, &result) {
                (true, Some(result)) => {
                    call_of(inner, "reduce-scatter", input, result.size(), grid)
                }
                _ => call_of(inner, word, input, output, grid),
            };
            Some(comm(half_as(half), call))
        }
        _ => None,
    }
}

/// Which half an instruction is, by its opcode, or the name that the compiler gives a fusion.
fn half_of_instruction(instruction: &HloInstruction) -> HalfWord {
    let half = |word: &[u8]| {
        let word = std::str::from_utf8(word).unwrap_or_default();
        half_of(word.split('.').next().unwrap_or_default()).1
    };
    match half(&instruction.opcode) {
        HalfWord::Whole => half(&instruction.name),
        by_opcode => by_opcode,
    }
}

fn opcode_is_start(instruction: &HloInstruction) -> bool {
    instruction.opcode.ends_with(b"-start")
}

fn call_of(i: &HloInstruction, word: &str, input: Size, output: Size, grid: Option<Grid>) -> Call {
    let lists = |groups: &[proto::ReplicaGroup]| {
        Groups::of_lists(groups.iter().map(|g| g.ids.clone()).collect())
    };
    let groups = match &i.device_list {
        Some(list) => match &list.iota {
            Some(iota) => Groups::of_iota(iota),
            None => lists(&list.groups),
        },
        None => lists(&i.replica_groups),
    };
    let groups = Some(groups.unwrap_or(Groups::Unread));
    let pairs: Vec<(i64, i64)> =
        i.source_target_pairs.iter().map(|p| (p.source, p.target)).collect();
    Call {
        word: word.to_owned(),
        input,
        output,
        groups: groups.filter(|_| !matches!(word, "send" | "recv")),
        pairs,
        group_size: None,
        channel: Some(i.channel_id).filter(|c| *c != 0),
        ids: ids_of(word, i.channel_id != 0, i.use_global_device_ids),
        grid,
    }
    .settle()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::xla::hlo::proto::{self, DeviceAssignment, DeviceList, Shape as Proto};

    const ALL_REDUCE: &str = "%all-reduce = f32[5,1024,1024,256]{3,2,1,0:T(8,128)} \
        all-reduce(f32[5,1024,1024,256]{3,2,1,0:T(8,128)} %bitcast), channel_id=1, \
        replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true, to_apply=%region_0.3.clone";

    fn call(text: &str, category: &str) -> Call {
        let op = Op::of_text(Some(text), Some(category));
        assert_eq!(op.class, Class::Comm, "{text}");
        op.call.expect("a collective says what it is")
    }

    #[test]
    fn an_all_reduce_in_text() {
        let call = call(ALL_REDUCE, "all-reduce");
        assert_eq!((call.word.as_str(), call.input.bytes), ("all-reduce", Some(5_368_709_120)));
        assert_eq!((call.channel, call.ids), (Some(1), Ids::Global));
        assert_eq!(call.members(), Some(2));
        assert_eq!(call.group_of(1), Some(vec![1, 5]));
        assert_eq!(call.group_of(9), None);
    }

    #[test]
    fn rings_of_a_permute_are_groups_of_their_own() {
        let text = |pairs: &str| {
            format!(
                "%p = f32[8]{{0}} collective-permute(f32[8]{{0}} %x), source_target_pairs={pairs}"
            )
        };
        let two =
            call(&text("{{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4}}"), "collective-permute");
        assert_eq!(two.group_of(2), Some(vec![0, 1, 2, 3]));
        assert_eq!(two.group_of(7), Some(vec![4, 5, 6, 7]));
        assert_eq!(two.members(), Some(4));
        // Who is in no pair waits for nobody; a chain has ends.
        let chain = call(&text("{{5,1},{1,3},{2,2}}"), "collective-permute");
        assert_eq!(chain.group_of(3), Some(vec![1, 3, 5]));
        assert_eq!((chain.group_of(0), chain.group_of(2)), (Some(vec![0]), Some(vec![2])));
        assert_eq!((chain.peers(3), chain.peers(5)), ((None, Some(1)), (Some(1), None)));
        assert_eq!(chain.members(), None);
        // Each replica has pairs of its own.
        let both = Call {
            ids: Ids::Partitions,
            grid: Some(Grid { replicas: 2, partitions: 4 }),
            ..call(&text("{{0,1},{1,0},{2,3},{3,2}}"), "collective-permute")
        };
        assert_eq!((both.group_of(6), both.peers(6)), (Some(vec![6, 7]), (Some(7), Some(7))));
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

    #[test]
    fn an_all_reduce_of_which_a_share_is_kept() {
        let call = call(
            "%fusion.7 = bf16[512,7168]{1,0} fusion(bf16[2048,7168]{1,0} %p), kind=kCustom, \
             calls=%all-reduce-scatter.3",
            "all-reduce-scatter fusion",
        );
        assert_eq!((call.word.as_str(), call.group_size), ("reduce-scatter", Some(4)));
        assert_eq!(call.input.bytes, Some(2048 * 7168 * 2));
    }

    #[test]
    fn halves_of_a_collective() {
        let start = "%all-gather-start.1 = (f32[8]{0}, f32[32]{0}) all-gather-start(f32[8]{0} %p.1), \
                     replica_groups={{0,1,2,3}}, dimensions={0}";
        let op = Op::of_text(Some(start), Some("all-gather-start"));
        assert_eq!(op.half, Half::Start);
        let call = op.call.expect("a collective says what it is");
        assert_eq!((call.input.bytes, call.output.bytes), (Some(32), Some(128)));
        let done = "%all-gather-done.1 = f32[32]{0} all-gather-done((f32[8]{0}, f32[32]{0}) %all-gather-start.1)";
        let op = Op::of_text(Some(done), Some("all-gather-done"));
        assert_eq!(op.half, Half::Done(Some("all-gather-start.1".to_owned())));
    }

    #[test]
    fn a_fused_start_says_its_kind_by_its_sizes_or_not_at_all() {
        let text = |out: &str| {
            format!(
                "%async-collective-start.2 = (bf16[8]{{0}}, bf16[{out}]{{0}}, u32[]) fusion(bf16[8]{{0}} %x), kind=kCustom, calls=%c"
            )
        };
        let gather = call(&text("32"), "custom fusion");
        assert_eq!((gather.word.as_str(), gather.group_size), ("all-gather", Some(4)));
        assert_eq!(call(&text("8"), "custom fusion").word, UNKNOWN);
        // Another operation may be named so by its author.
        let named = "%all-reduce.9 = f32[8]{0} fusion(f32[8]{0} %x), kind=kLoop, calls=%c";
        assert_eq!(Op::of_text(Some(named), Some("loop fusion")), Op::compute());
    }

    #[test]
    fn copies_say_where_from_and_to() {
        let to_device = "%copy-start = (f32[4]{0:T(128)}, f32[4]{0:T(128)S(5)}, u32[]{:S(2)}) \
                         copy-start(f32[4]{0:T(128)S(5)} %param)";
        let op = Op::of_text(Some(to_device), Some("copy-start"));
        assert_eq!((op.half, op.bytes, op.direction), (Half::Start, Some(16), Some("HtoD")));
        let to_host = "%copy-start.3 = (f32[4]{0:T(128)S(5)}, f32[4]{0:T(128)}, u32[]{:S(2)}) \
                       copy-start(f32[4]{0:T(128)} %f)";
        assert_eq!(Op::of_text(Some(to_host), None).direction, Some("DtoH"));
        let done = "%copy-done = f32[4]{0} copy-done((f32[4]{0}, f32[4]{0}, u32[]) %copy-start)";
        let op = Op::of_text(Some(done), Some("copy-done"));
        assert_eq!(op.half, Half::Done(Some("copy-start".to_owned())));
    }

    #[test]
    fn text_that_is_no_operation_computes() {
        for text in ["", "x", "%a = ", "%a = f32[2] add", "%a = f32[2] add(", "%a = f32[2] add)("] {
            assert_eq!(Op::of_text(Some(text), None), Op::compute(), "{text}");
        }
        assert_eq!(Op::of_text(None, Some("all-to-all")).class, Class::Comm);
    }

    #[test]
    fn a_module_says_what_its_operations_are() {
        let shape = |n: i64| Some(Proto { element_type: 11, dimensions: vec![n], tuple: vec![] });
        let of = |name: &str, opcode: &str, id: i64| HloInstruction {
            name: name.into(),
            opcode: opcode.into(),
            id,
            shape: shape(8),
            ..HloInstruction::default()
        };
        let group = |ids: &[i64]| proto::ReplicaGroup { ids: ids.to_vec() };
        let list = DeviceList { groups: vec![group(&[0, 1])], iota: None };
        let reduce = HloInstruction {
            operand_ids: vec![1],
            channel_id: 3,
            use_global_device_ids: true,
            device_list: Some(list),
            ..of("psum.7", "all-reduce", 2)
        };
        let permute = HloInstruction {
            operand_ids: vec![1],
            source_target_pairs: vec![
                proto::SourceTarget { source: 0, target: 1 },
                proto::SourceTarget { source: 1, target: 0 },
            ],
            channel_id: 4,
            ..of("ppermute.3", "collective-permute", 3)
        };
        let instructions = vec![of("p", "parameter", 1), reduce, permute, of("c", "copy", 4)];
        let module = HloModule {
            id: 5,
            computations: vec![HloComputation { instructions, id: 1 }],
            device_assignment: Some(DeviceAssignment {
                replicas: 1,
                partitions: 2,
                of_partitions: vec![group(&[0]), group(&[2048])],
            }),
            ..HloModule::default()
        };
        let mut programs = Programs::default();
        let bytes = HloProto { module: Some(module) }.encode_to_vec();
        let (id, program) = programs.add(&bytes).expect("it is a module");
        assert_eq!((id, &program.devices[..]), (5, &[0, 2048][..]));
        let op = |name: &str| programs.find(Some(5), None, name).expect("the module is there");
        let reduce = op("psum.7").expect("it communicates").call.as_ref().expect("a call");
        assert_eq!((reduce.input.bytes, reduce.group_of(1)), (Some(32), Some(vec![0, 1])));
        let permute = op("ppermute.3").expect("it communicates").call.as_ref().expect("a call");
        assert_eq!((permute.group_of(0), permute.peers(0)), (Some(vec![0, 1]), (Some(1), Some(1))));
        assert_eq!(op("c").map(|o| (o.class, o.bytes)), Some((Class::Copy, Some(32))));
        assert_eq!(op("p"), None);
        assert!(programs.find(Some(6), None, "p").is_none());
        assert!(programs.add(b"\x0a\xff").is_none());
    }
}
