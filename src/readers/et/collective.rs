//! What a node says of a communication call, out of its inputs and outputs.
//!
//! `record_param_comms` has them in one order in every version of the format, with more at the end
//! in newer ones: `[tensors, sequence number, group, rank, name, input splits, output splits]`,
//! then the size of the group (1.0.2), or first rank, stride and size (1.0.3 on). The group is a
//! pointer up to 1.0.2, which names nothing outside its process, then `[name, description]`. A wait
//! has no tensors.

use crate::input::json;

/// Lists in lists of tensors, at most: an all-gather has a list of lists.
const DEPTH: usize = 4;

/// What a node says of a call; raw JSON where it is a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub name: String,
    pub dtype: Option<String>,
    pub in_elems: Option<i64>,
    pub out_elems: Option<i64>,
    pub in_split: Option<String>,
    pub out_split: Option<String>,
    pub group_size: Option<i64>,
    pub pg_name: Option<String>,
    pub pg_desc: Option<String>,
    pub rank_start: Option<i64>,
    pub rank_stride: Option<i64>,
    pub seq: Option<i64>,
}

/// Raw lists of values and of their types.
#[derive(Debug, Default, Clone, Copy)]
pub struct Values<'a> {
    pub values: &'a str,
    pub types: &'a str,
}

impl<'a> Values<'a> {
    fn value(&self, at: usize) -> Option<&'a str> {
        list(self.values).nth(at)
    }

    /// The element type of the tensors of a value; None where they differ.
    fn dtype(&self, at: usize) -> Option<String> {
        let said = json::text(list(self.types).nth(at)?)?;
        let mut types = said.split("Tensor(").skip(1).filter_map(|t| t.split(')').next());
        let first = types.next().filter(|t| !t.starts_with("nullptr"))?;
        types.all(|t| t == first).then(|| first.to_owned())
    }
}

/// The elements of a raw list; none of anything else.
fn list(raw: &str) -> impl Iterator<Item = &str> {
    json::elements(if raw.starts_with('[') { raw } else { "[]" })
}

/// Elements of a tensor: `[id, storage, offset, elements, bytes of an element, device]`.
fn tensor(raw: &str) -> Option<i64> {
    let mut parts = list(raw);
    let mut numbers = [0; 5];
    for number in &mut numbers {
        *number = json::integer(parts.next()?)?;
    }
    parts.next()?.starts_with('"').then_some(numbers[3]).filter(|n| *n >= 0)
}

/// Elements of the tensors in a value; None where there is none.
fn elements(raw: &str, depth: usize) -> Option<i64> {
    if depth == 0 || !raw.starts_with('[') {
        return None;
    }
    if let Some(count) = tensor(raw) {
        return Some(count);
    }
    let mut sum = None;
    for count in list(raw).filter_map(|inner| elements(inner, depth - 1)) {
        sum = Some(i64::checked_add(sum.unwrap_or(0), count)?);
    }
    sum
}

/// The text of a value, unless it is empty.
pub(crate) fn word(raw: &str) -> Option<String> {
    json::text(raw).map(|t| t.into_owned()).filter(|t| !t.is_empty())
}

/// What the record of a call says; None where its inputs name no operation.
pub fn of_record(inputs: Values<'_>, outputs: Values<'_>) -> Option<Said> {
    // Objects that are not written out are text too, in angle brackets.
    let at = list(inputs.values).position(|v| v.starts_with('"') && !v.starts_with("\"<"))?;
    let value = |back: usize| inputs.value(at.checked_sub(back)?);
    let tensors = at.checked_sub(4);
    let mut after = list(inputs.values).skip(at + 1).peekable();
    let mut split = || after.next_if(|v| v.starts_with('[')).map(str::to_owned);
    let (in_split, out_split) = (split(), split());
    let numbers: Vec<Option<i64>> = after.take(4).map(json::integer).collect();
    let (rank_start, rank_stride, group_size) = match numbers[..] {
        [size] => (None, None, size),
        [start, stride, size] => (start, stride, size),
        _ => (None, None, None),
    };
    let group: Vec<&str> = value(2).into_iter().flat_map(list).take(3).collect();
    let (pg_name, pg_desc) = match group[..] {
        [name, desc] => (word(name), word(desc)),
        _ => (None, None),
    };
    // Newer versions say whether it is between two ranks: [number, false].
    let seq = value(3).and_then(|v| json::integer(list(v).next().unwrap_or(v)));
    Some(Said {
        name: word(inputs.value(at)?)?,
        dtype: tensors.and_then(|t| inputs.dtype(t)).or_else(|| outputs.dtype(0)),
        in_elems: tensors.and_then(|t| elements(inputs.value(t)?, DEPTH)),
        out_elems: elements(outputs.values, DEPTH + 1),
        in_split,
        out_split,
        group_size: group_size.filter(|n| *n > 0),
        pg_name,
        pg_desc,
        rank_start: rank_start.filter(|n| *n >= 0),
        rank_stride: rank_stride.filter(|n| *n > 0),
        seq,
    })
}

/// What an annotation of a call (`nccl:all_reduce`, `gloo:broadcast`) says: its inputs are the
/// tensors.
pub fn of_annotation(name: &str, inputs: Values<'_>) -> Option<Said> {
    let kind = ["nccl:", "gloo:"].iter().find_map(|word| name.strip_prefix(word))?;
    Some(Said {
        name: kind.to_owned(),
        dtype: inputs.dtype(0),
        in_elems: elements(inputs.values, DEPTH + 1),
        ..Said::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(values: &str, types: &str, outputs: &str) -> Option<Said> {
        let outputs = Values { values: outputs, types: "[]" };
        of_record(Values { values, types }, outputs)
    }

    #[test]
    fn the_first_version_has_a_pointer_for_the_group() {
        let said = record(
            r#"[[1002,658,0,6,4,"cuda:0"],150,94594108284448,0,"all_to_allv",[1,2,3],[4,0,0]]"#,
            r#"["Tensor(int)","Int","Int","Int","String","GenericList[Int,Int,Int]","GenericList[Int,Int,Int]"]"#,
            r#"[[1064,615,0,4,4,"cuda:0"]]"#,
        )
        .expect("it is a call");
        assert_eq!(said.name, "all_to_allv");
        assert_eq!((said.in_elems, said.out_elems), (Some(6), Some(4)));
        assert_eq!(said.dtype.as_deref(), Some("int"));
        assert_eq!(said.in_split.as_deref(), Some("[1,2,3]"));
        assert_eq!(said.out_split.as_deref(), Some("[4,0,0]"));
        assert_eq!((said.seq, said.group_size, said.pg_name), (Some(150), None, None));
    }

    #[test]
    fn tensors_are_looked_for_to_a_depth() {
        let within =
            |lists: usize| format!("{}[1,2,0,7,4,\"cpu\"]{}", "[".repeat(lists), "]".repeat(lists));
        assert_eq!(elements(&within(DEPTH - 1), DEPTH), Some(7));
        assert_eq!(elements(&within(DEPTH), DEPTH), None);
        assert_eq!(elements(&within(0), 0), None);
        assert_eq!(elements("7", DEPTH), None);
        // A tensor may be empty.
        assert_eq!(elements("[1,2,0,0,4,\"cpu\"]", DEPTH), Some(0));
        assert_eq!(elements("[1,2,0,-1,4,\"cpu\"]", DEPTH), None);
    }

    #[test]
    fn later_versions_state_the_group() {
        let said = record(
            r#"[[[3,2,0,53,8,"cuda:1"],[4,2,0,7,8,"cuda:1"]],[33,false],["0","default_pg"],1,"allreduce",[],[],0,1,2]"#,
            r#"["GenericList[Tensor(long),Tensor(long)]","Tuple[Int,Bool]","Tuple[String,String]","Int","String"]"#,
            r#"[[[[19,20,0,1,8,"cuda:0"],[5,23,0,1,8,"cuda:0"]]]]"#,
        )
        .expect("it is a call");
        assert_eq!((said.in_elems, said.out_elems, said.seq), (Some(60), Some(2), Some(33)));
        assert_eq!(
            (said.rank_start, said.rank_stride, said.group_size),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(said.pg_desc.as_deref(), Some("default_pg"));
        assert_eq!(said.dtype.as_deref(), Some("long"));
    }

    #[test]
    fn a_wait_has_no_tensors() {
        let said = record(r#"[141,0,0,"wait",[],[],2]"#, "[]", "[]").expect("it is a record");
        assert_eq!((said.name.as_str(), said.in_elems, said.out_elems), ("wait", None, None));
        assert_eq!((said.seq, said.group_size), (Some(141), Some(2)));
    }

    #[test]
    fn what_is_no_record_says_nothing() {
        for values in ["", "{}", "[]", "null", "[1,2]", r#"["<None>"]"#, r#"[[["x"]]]"#] {
            assert_eq!(record(values, "[]", ""), None, "{values}");
        }
        let deep = format!("[{}1{},1,2,3,\"allreduce\"]", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(record(&deep, "", "").expect("it has a name").in_elems, None);
        let huge = r#"[[[1,1,0,9223372036854775807,4,"cpu"],[1,1,0,1,4,"cpu"]],1,2,3,"x"]"#;
        assert_eq!(record(huge, "", "").expect("it has a name").in_elems, None);
    }

    #[test]
    fn annotations_name_the_call() {
        let inputs = Values { values: r#"[[3,2,0,53,8,"cpu"]]"#, types: r#"["Tensor(float)"]"# };
        let said = of_annotation("gloo:broadcast", inputs).expect("it is one");
        assert_eq!((said.name.as_str(), said.in_elems), ("broadcast", Some(53)));
        assert_eq!(said.dtype.as_deref(), Some("float"));
        assert_eq!(of_annotation("aten::add", inputs), None);
    }
}
