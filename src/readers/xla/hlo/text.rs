//! Operations from their text: a line of HLO, and the category that the profiler gives it.

use crate::readers::xla::hlo::groups::{Groups, pairs_of_text};
use crate::readers::xla::hlo::op::{
    Call, Class, Half, HalfWord, Op, UNKNOWN, collective, half_of, ids_of, input_of, is_control,
    output_of,
};
use crate::readers::xla::hlo::shape::{Shape, Size, balanced};

impl Op {
    /// Reads the text of an operation and the category that the profiler gives it; both may be
    /// missing.
    pub fn of_text(text: Option<&str>, category: Option<&str>) -> Self {
        let line = text.and_then(Line::of_text);
        let opcode = line.as_ref().map(|l| l.opcode);
        // A fusion may be a collective, which only the category says; and so may what runs beside
        // others.
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
        // The text from the bracket on.
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

    /// What a fused collective takes of its operands, of which others may be for what is fused with
    /// it.
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
        let channel = self.attribute("channel_id").and_then(|c| c.parse::<i64>().ok());
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
            ids: ids_of(word, channel.is_some(), global),
            grid: None,
        }
        .settle()
    }

    /// Bytes and direction of a copy. `S(5)` in a layout is the memory of the host; the result of a
    /// start is the destination, then the source.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::xla::hlo::groups::{Grid, Ids};

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
        assert_eq!(call.ids, Ids::Global);
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
    fn the_input_of_a_fused_reduce_scatter_is_the_one_operand_of_shares() {
        let of = |result: &str, operands: &str| {
            let text = format!("%f.7 = {result} fusion({operands}), kind=kCustom, calls=%x");
            call(&text, "reduce-scatter fusion").input.bytes
        };
        let input = |operands: &str| of("f32[4]{0}", operands);
        assert_eq!(input("f32[16]{0} %a"), Some(64));
        // As large as the result, no multiple of it, of another type: something else.
        assert_eq!(input("f32[16]{0} %a, f32[4]{0} %b, f32[6]{0} %c, s32[8]{0} %d"), Some(64));
        // Of two it is not known which.
        assert_eq!(input("f32[16]{0} %a, f32[8]{0} %b"), None);
        // Of nothing all is a multiple.
        assert_eq!(of("f32[0]{0}", "f32[16]{0} %a"), None);
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
}
