//! Operations from the HLO of the modules of a file.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;

use crate::readers::xla::hlo::groups::{Grid, Groups};
use crate::readers::xla::hlo::op::{
    Call, Class, Half, HalfWord, Op, collective, half_of, ids_of, input_of, is_control, output_of,
};
use crate::readers::xla::hlo::proto::{self, HloComputation, HloInstruction, HloModule, HloProto};
use crate::readers::xla::hlo::shape::{Shape, Size};

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
    /// Takes the module in these bytes; its id and what is said of it. None where they are no
    /// module.
    pub fn add(&mut self, bytes: &[u8]) -> Option<(i64, &Program)> {
        let module = HloProto::decode(bytes).ok()?.module?;
        let id = module.id;
        let of_name = self.by_name.entry(String::from_utf8_lossy(&module.name).into_owned());
        of_name.and_modify(|of| *of = of.filter(|one| *one == id)).or_insert(Some(id));
        self.programs.insert(id, Program::of(&module));
        self.programs.get(&id).map(|p| (id, p))
    }

    /// An operation, by the id of its program, else by the name of its module (`jit_f`,
    /// `jit_f(7)`); None where its module is not in the file.
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
        ids: ids_of(word, i.channel_id != 0, i.use_global_device_ids),
        grid,
    }
    .settle()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::xla::hlo::proto::{DeviceAssignment, DeviceList, Shape as Proto};

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
    #[test]
    fn the_end_of_an_asynchronous_pair_is_what_it_waits_for() {
        let of = |name: &str, opcode: &str, id: i64, operand: i64| HloInstruction {
            name: name.into(),
            opcode: opcode.into(),
            id,
            operand_ids: vec![operand],
            ..HloInstruction::default()
        };
        let start =
            HloInstruction { called_computation_ids: vec![2], ..of("begin", "async-start", 10, 1) };
        let instructions = vec![
            start,
            of("end", "async-done", 11, 10),
            of("no begin", "async-done", 12, 1),
            of("waits", "async-done", 13, 14),
            of("waits too", "async-done", 14, 13),
        ];
        let inner = vec![of("inner", "all-gather", 1, 0)];
        let module = HloModule {
            computations: vec![
                HloComputation { instructions, id: 1 },
                HloComputation { instructions: inner, id: 2 },
            ],
            ..HloModule::default()
        };
        let program = Program::of(&module);
        let half = |name: &str| program.ops.get(name).map(|op| (op.class, op.half.clone()));
        assert_eq!(half("begin"), Some((Class::Comm, Half::Start)));
        assert_eq!(half("end"), Some((Class::Comm, Half::Done(Some("begin".to_owned())))));
        for name in ["no begin", "waits", "waits too"] {
            assert!(!half(name).is_some_and(|(class, _)| class == Class::Comm), "{name}");
        }
    }

    #[test]
    fn a_fusion_that_keeps_a_part_of_a_reduction_scatters_it() {
        let shape = |n: i64| Some(Proto { element_type: 11, dimensions: vec![n], tuple: vec![] });
        let word = |opcode: &str, kept: i64| {
            let inner = HloInstruction {
                opcode: "all-reduce".into(),
                id: 1,
                shape: shape(8),
                ..HloInstruction::default()
            };
            let fusion = HloInstruction {
                name: "f".into(),
                opcode: opcode.into(),
                id: 2,
                shape: shape(kept),
                called_computation_ids: vec![2],
                ..HloInstruction::default()
            };
            let computations = vec![
                HloComputation { instructions: vec![fusion], id: 1 },
                HloComputation { instructions: vec![inner], id: 2 },
            ];
            let program = Program::of(&HloModule { computations, ..HloModule::default() });
            program.ops["f"].call.as_ref().map(|call| call.word.clone())
        };
        let scatters = |kept| word("fusion", kept).as_deref() == Some("reduce-scatter");
        // A part of 8 numbers, all, more, what is no part, nothing.
        assert_eq!([4, 8, 16, 3, 0].map(scatters), [true, false, false, false, false]);
        assert_eq!(word("fusion", 8).as_deref(), Some("all-reduce"));
        // What is started is not there yet.
        assert_eq!(word("async-start", 4).as_deref(), Some("all-reduce"));
    }

    #[test]
    fn what_a_fusion_starts_gives_the_second_part_of_it() {
        let shape = |n: i64| Proto { element_type: 11, dimensions: vec![n], tuple: vec![] };
        let output = |opcode: &str| {
            let operand =
                HloInstruction { id: 1, shape: Some(shape(2)), ..HloInstruction::default() };
            let both =
                Proto { element_type: 13, tuple: vec![shape(2), shape(8)], ..Proto::default() };
            let inner = HloInstruction {
                opcode: opcode.into(),
                id: 2,
                operand_ids: vec![1],
                shape: Some(both),
                ..HloInstruction::default()
            };
            let fusion = HloInstruction {
                name: "f".into(),
                opcode: "fusion".into(),
                id: 3,
                called_computation_ids: vec![2],
                ..HloInstruction::default()
            };
            let computations = vec![
                HloComputation { instructions: vec![fusion], id: 1 },
                HloComputation { instructions: vec![operand, inner], id: 2 },
            ];
            let program = Program::of(&HloModule { computations, ..HloModule::default() });
            let call = program.ops["f"].call.clone().expect("a call");
            (call.input.bytes, call.output.bytes)
        };
        // What is started holds its input beside its output.
        assert_eq!(output("all-gather-start"), (Some(8), Some(32)));
        assert_eq!(output("all-gather"), (Some(8), Some(40)));
    }

    #[test]
    fn an_assignment_that_does_not_fit_its_grid_is_none() {
        let devices = |replicas, partitions, of: &[&[i64]]| {
            let of_partitions =
                of.iter().map(|ids| proto::ReplicaGroup { ids: ids.to_vec() }).collect();
            let device_assignment = Some(DeviceAssignment { replicas, partitions, of_partitions });
            Program::of(&HloModule { device_assignment, ..HloModule::default() }).devices
        };
        assert_eq!(devices(2, 2, &[&[0, 1], &[2, 3]]), [0, 2, 1, 3]);
        assert_eq!(devices(2, 2, &[&[0, 1], &[2]]), [0; 0]);
        assert_eq!(devices(2, 2, &[&[0, 1]]), [0; 0]);
        assert_eq!(devices(1, 0, &[]), [0; 0]);
        assert_eq!(devices(0, 1, &[&[]]), [0; 0]);
    }
}
