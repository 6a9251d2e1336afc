//! The tree of call stacks: frames of one thread that lie in one another, folded into one node for
//! each distinct stack. A pure function on slices.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Deepest stack: what lies deeper counts as time of the frame that it lies in.
const MOST_DEPTH: usize = 512;
/// Most nodes of a tree: what would be one more counts as time of the frame that it lies in.
const MOST_NODES: usize = 1 << 18;

/// A frame: a span of time in which a function, an operator or a range runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Number of its name.
    pub name: i64,
    /// First nanosecond.
    pub start_ns: i64,
    /// End, exclusive.
    pub end_ns: i64,
    /// Calls that it stands for: 0 for the later parts of a frame that was cut.
    pub calls: i64,
    /// Time that is its own beside the elapsed one, as that of the kernels that it launches.
    pub device_ns: i64,
}

/// A distinct stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Place of the stack without its last frame; None for the outermost.
    pub parent: Option<usize>,
    /// Number of the name of its last frame.
    pub name: i64,
    /// Frames of the stack.
    pub depth: usize,
    /// Calls.
    pub calls: i64,
    /// Time in it, and in what it calls.
    pub total_ns: i64,
    /// Time in it alone.
    pub self_ns: i64,
    /// Device time of its own frames.
    pub device_ns: i64,
    /// That, and of what they call.
    pub device_total_ns: i64,
}

/// Folds the frames of a thread. A parent stands before its children.
///
/// A frame lies in the innermost one that has begun and not ended; what reaches beyond the end of
/// that is cut there. Of frames that begin together the one that stands first is outside: those
/// that were cut at one instant say no longer which was. Frames without length are kept, frames
/// that end before they begin are not.
pub fn fold(frames: &mut Vec<Frame>) -> Vec<Node> {
    frames.retain(|f| f.start_ns <= f.end_ns);
    frames.sort_by_key(|f| f.start_ns);
    let mut nodes: Vec<Node> = Vec::new();
    let mut places: HashMap<(Option<usize>, i64), usize> = HashMap::new();
    let mut open: Vec<(usize, i64)> = Vec::new();
    for frame in frames.iter() {
        while open.last().is_some_and(|(_, end)| *end <= frame.start_ns) {
            open.pop();
        }
        let around = open.last().copied();
        let parent = around.map(|(place, _)| place);
        let place = match places.entry((parent, frame.name)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if open.len() >= MOST_DEPTH || nodes.len() >= MOST_NODES => {
                if let Some(parent) = parent {
                    add(&mut nodes[parent].device_ns, frame.device_ns);
                }
                continue;
            }
            Entry::Vacant(free) => {
                nodes.push(Node {
                    parent,
                    name: frame.name,
                    depth: open.len() + 1,
                    calls: 0,
                    total_ns: 0,
                    self_ns: 0,
                    device_ns: 0,
                    device_total_ns: 0,
                });
                *free.insert(nodes.len() - 1)
            }
        };
        let end = around.map_or(frame.end_ns, |(_, end)| frame.end_ns.min(end));
        let length = end.saturating_sub(frame.start_ns);
        let node = &mut nodes[place];
        add(&mut node.calls, frame.calls);
        add(&mut node.total_ns, length);
        add(&mut node.self_ns, length);
        add(&mut node.device_ns, frame.device_ns);
        if let Some(parent) = parent {
            add(&mut nodes[parent].self_ns, -length);
        }
        open.push((place, end));
    }
    for place in (0..nodes.len()).rev() {
        let Node { parent, device_ns, .. } = nodes[place];
        add(&mut nodes[place].device_total_ns, device_ns);
        let total = nodes[place].device_total_ns;
        if let Some(parent) = parent {
            add(&mut nodes[parent].device_total_ns, total);
        }
    }
    nodes
}

fn add(sum: &mut i64, more: i64) {
    *sum = sum.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(name: i64, start_ns: i64, end_ns: i64) -> Frame {
        Frame { name, start_ns, end_ns, calls: 1, device_ns: 0 }
    }

    /// Depth, name, calls, total, self of each node.
    fn folded(frames: &[Frame]) -> Vec<(usize, i64, i64, i64, i64)> {
        let nodes = fold(&mut frames.to_vec());
        nodes.iter().map(|n| (n.depth, n.name, n.calls, n.total_ns, n.self_ns)).collect()
    }

    #[test]
    fn nothing_has_no_stacks() {
        assert_eq!(folded(&[]), []);
        assert_eq!(folded(&[frame(1, 5, 4)]), []);
    }

    #[test]
    fn equal_stacks_are_one_node() {
        // 1 calls 2 twice and 3 once; then 2 runs by itself.
        let frames = [
            frame(2, 20, 30),
            frame(1, 0, 100),
            frame(2, 40, 60),
            frame(3, 60, 70),
            frame(2, 100, 101),
        ];
        assert_eq!(
            folded(&frames),
            [(1, 1, 1, 100, 60), (2, 2, 2, 30, 30), (2, 3, 1, 10, 10), (1, 2, 1, 1, 1)]
        );
    }

    #[test]
    fn a_function_that_calls_itself_is_two_frames() {
        assert_eq!(
            folded(&[frame(1, 0, 10), frame(1, 0, 10)]),
            [(1, 1, 1, 10, 0), (2, 1, 1, 10, 10)]
        );
    }

    #[test]
    fn of_frames_that_begin_together_the_first_is_outside() {
        assert_eq!(folded(&[frame(1, 0, 9), frame(2, 0, 9)]), [(1, 1, 1, 9, 0), (2, 2, 1, 9, 9)]);
        assert_eq!(folded(&[frame(2, 0, 9), frame(1, 0, 9)]), [(1, 2, 1, 9, 0), (2, 1, 1, 9, 9)]);
    }

    #[test]
    fn what_reaches_beyond_its_caller_is_cut() {
        assert_eq!(
            folded(&[frame(1, 0, 10), frame(2, 5, 15)]),
            [(1, 1, 1, 10, 5), (2, 2, 1, 5, 5)]
        );
    }

    #[test]
    fn frames_without_length_count() {
        assert_eq!(
            folded(&[frame(1, 0, 10), frame(2, 3, 3)]),
            [(1, 1, 1, 10, 10), (2, 2, 1, 0, 0)]
        );
    }

    #[test]
    fn too_deep_is_time_of_the_caller() {
        let deep: Vec<Frame> =
            (0..2000).map(|i| Frame { device_ns: 1, ..frame(i, i, 4000 - i) }).collect();
        let nodes = fold(&mut deep.clone());
        assert_eq!(nodes.len(), MOST_DEPTH);
        assert_eq!(nodes.iter().map(|n| n.self_ns).sum::<i64>(), 4000);
        assert_eq!(nodes.iter().map(|n| n.device_ns).sum::<i64>(), 2000);
        assert_eq!((nodes[0].device_total_ns, nodes[1].device_total_ns), (2000, 1999));
    }

    #[test]
    fn too_many_are_time_of_the_caller() {
        let most = MOST_NODES as i64;
        let of = |i| Frame { device_ns: 1, ..frame(i, i, i + 1) };
        let mut frames: Vec<Frame> = (1..=most).map(of).collect();
        frames.insert(0, frame(0, 0, most + 1));
        let nodes = fold(&mut frames);
        assert_eq!(nodes.len(), MOST_NODES);
        assert_eq!((nodes[0].self_ns, nodes[0].device_ns), (2, 1));
        assert_eq!(nodes[0].device_total_ns, most);
    }

    proptest! {
        #[test]
        fn own_times_add_up_to_the_time_that_is_covered(
            spans in prop::collection::vec((0..40i64, 0..20i64, 0..4i64), 0..24)
        ) {
            let frames: Vec<Frame> =
                spans.iter().map(|(start, length, name)| frame(*name, *start, start + length)).collect();
            let nodes = fold(&mut frames.clone());
            let covered = (0..60).filter(|t| frames.iter().any(|f| f.start_ns <= *t && *t < f.end_ns));
            let outermost: i64 = nodes.iter().filter(|n| n.parent.is_none()).map(|n| n.total_ns).sum();
            prop_assert!(nodes.iter().all(|n| n.self_ns >= 0 && n.self_ns <= n.total_ns));
            prop_assert!(nodes.iter().enumerate().all(|(i, n)| n.parent.is_none_or(|p| p < i)));
            prop_assert_eq!(nodes.iter().map(|n| n.self_ns).sum::<i64>(), outermost);
            prop_assert_eq!(nodes.iter().map(|n| n.calls).sum::<i64>(), frames.len() as i64);
            // Outermost frames that overlap hide nothing: each instant is in one stack at most.
            prop_assert!(outermost <= covered.count() as i64);
        }
    }
}
