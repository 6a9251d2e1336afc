//! The operations of one core in the order of their starts: which of them only enclose others, and
//! which two are the start and the end of one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::readers::xla::event::{Event, Meta};
use crate::readers::xla::hlo::Half;
use crate::readers::xla::stats::Key;
use crate::spool::args::Args;

/// Events that wait for others which may start before them.
const WINDOW: usize = 4096;

/// An event of a line of operations.
#[derive(Debug, Clone)]
pub struct Seen {
    pub place: u64,
    pub meta: Arc<Meta>,
    /// On the clock that counts: of the chip where it says so, else of the line.
    pub start_ps: i128,
    pub dur_ps: i64,
    /// On the clock of the line.
    pub line_ps: i128,
    /// The arguments of the event as JSON; empty for none.
    pub args: Box<str>,
    /// Words of the event in place of those that stand once for all.
    pub flops: Option<i64>,
    pub bytes_accessed: Option<i64>,
}

impl Seen {
    /// Reads an event of the line; what the chip says of its times is moved by `shift_ps`.
    pub fn of(event: &Event<'_>, meta: &Arc<Meta>, shift_ps: i128, args: &mut Args) -> Self {
        let own = event.number(Key::DeviceOffset).zip(event.number(Key::DeviceDuration));
        let (start_ps, dur_ps) = match own {
            Some((offset, dur)) => (shift_ps + i128::from(offset), dur),
            None => (event.start_ps, event.dur_ps.unwrap_or(0)),
        };
        const COLUMNS: [Key; 5] = [
            Key::HloCategory,
            Key::ModelFlops,
            Key::BytesAccessed,
            Key::DeviceOffset,
            Key::DeviceDuration,
        ];
        args.clear();
        event.arguments(&COLUMNS[..if own.is_some() { 5 } else { 3 }], args);
        if let (Some(_), Some(dur)) = (own, event.dur_ps) {
            args.int("$line_dur_ps", dur);
        }
        Self {
            place: event.place,
            meta: meta.clone(),
            start_ps,
            dur_ps,
            line_ps: event.start_ps,
            args: args.object().unwrap_or_default().into(),
            flops: event.number(Key::ModelFlops).or(event.number(Key::Flops)),
            bytes_accessed: event.number(Key::BytesAccessed),
        }
    }

    fn end(&self) -> i128 {
        self.start_ps + i128::from(self.dur_ps)
    }
}

/// What an event turned out to be.
#[derive(Debug)]
pub enum Found {
    /// Work.
    Leaf(Seen),
    /// Encloses others that have rows of their own.
    Parent(Seen),
    /// The start and the end of work that goes on beside others.
    Pair(Seen, Seen),
    /// Half of a pair whose other half is not in the trace.
    Alone(Seen),
}

/// Sorts out the events of one line.
#[derive(Default)]
pub struct Sequence {
    waiting: Vec<Seen>,
    /// What encloses the next event, the outermost first; and whether it encloses any yet.
    open: Vec<(Seen, bool)>,
    started: HashMap<Box<str>, Seen>,
}

impl Sequence {
    /// Takes the next events; gives those that are decided.
    pub fn take(&mut self, events: Vec<Seen>, out: &mut Vec<Found>) {
        self.waiting.extend(events);
        if self.waiting.len() > 2 * WINDOW {
            let keep = self.waiting.len() - WINDOW;
            self.advance(keep, out);
        }
    }

    /// Gives the rest.
    pub fn finish(mut self, out: &mut Vec<Found>) {
        self.advance(self.waiting.len(), out);
        while let Some((seen, encloses)) = self.open.pop() {
            self.close(seen, encloses, out);
        }
        let mut left: Vec<Seen> = self.started.into_values().collect();
        left.sort_by_key(|s| (s.start_ps, s.place));
        out.extend(left.into_iter().map(Found::Alone));
    }

    fn advance(&mut self, count: usize, out: &mut Vec<Found>) {
        // What starts first, and of what starts together the longest.
        self.waiting.sort_by_key(|s| (s.start_ps, -i128::from(s.dur_ps), s.place));
        let rest = self.waiting.split_off(count);
        for seen in std::mem::replace(&mut self.waiting, rest) {
            while let Some((top, _)) = self.open.last()
                && (top.end() <= seen.start_ps || top.end() < seen.end())
            {
                if let Some((top, encloses)) = self.open.pop() {
                    self.close(top, encloses, out);
                }
            }
            // An instant lies in an operation by accident of the clock; halves of a pair are
            // leaves.
            if let Some((top, encloses)) = self.open.last_mut()
                && seen.dur_ps > 0
                && top.meta.op.half == Half::Whole
            {
                *encloses = true;
            }
            self.open.push((seen, false));
        }
    }

    fn close(&mut self, seen: Seen, encloses: bool, out: &mut Vec<Found>) {
        if encloses {
            out.push(Found::Parent(seen));
            return;
        }
        match &seen.meta.op.half {
            Half::Whole => out.push(Found::Leaf(seen)),
            Half::Start => {
                let name = seen.meta.name.clone();
                out.extend(self.started.insert(name, seen).map(Found::Alone));
            }
            Half::Done(of) => {
                let started = match of {
                    Some(of) => self.started.remove(&**of),
                    // Without its text, by its own name.
                    None => self.started.remove(&*seen.meta.name.replacen("-done", "-start", 1)),
                };
                out.push(match started {
                    Some(start) => Found::Pair(start, seen),
                    None => Found::Alone(seen),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::xla::hlo::{Class, Op};

    fn seen(name: &str, start: i128, dur: i64) -> Seen {
        let (half, class) = match name {
            n if n.contains("-start") => (Half::Start, Class::Copy),
            n if n.contains("-done") => {
                (Half::Done(Some(n.replace("-done", "-start"))), Class::Copy)
            }
            _ => (Half::Whole, Class::Compute),
        };
        let meta = Meta {
            id: 0,
            name: name.into(),
            op: Arc::new(Op { half, class, ..Op::compute() }),
            category: None,
            said: Vec::new(),
            has_row: false,
            step: None,
        };
        Seen {
            place: 0,
            meta: Arc::new(meta),
            start_ps: start,
            dur_ps: dur,
            line_ps: start,
            args: "".into(),
            flops: None,
            bytes_accessed: None,
        }
    }

    fn found(events: Vec<Seen>) -> Vec<String> {
        let (mut sequence, mut out) = (Sequence::default(), Vec::new());
        sequence.take(events, &mut out);
        sequence.finish(&mut out);
        let mut out: Vec<String> = out
            .into_iter()
            .map(|f| match f {
                Found::Leaf(s) => format!("leaf {}", s.meta.name),
                Found::Parent(s) => format!("parent {}", s.meta.name),
                Found::Pair(a, b) => {
                    format!("pair {} {} {}", a.meta.name, b.meta.name, b.end() - a.start_ps)
                }
                Found::Alone(s) => format!("alone {}", s.meta.name),
            })
            .collect();
        out.sort();
        out
    }

    #[test]
    fn what_encloses_others_is_a_parent() {
        let events = vec![
            seen("c", 60, 10),
            seen("while", 0, 100),
            seen("inner", 10, 30),
            seen("a", 10, 10),
            seen("b", 20, 20),
            seen("after", 100, 5),
        ];
        assert_eq!(
            found(events),
            ["leaf a", "leaf after", "leaf b", "leaf c", "parent inner", "parent while"]
        );
        // Overlapping is not enclosing, and an instant is no child.
        assert_eq!(found(vec![seen("a", 0, 10), seen("b", 5, 10)]), ["leaf a", "leaf b"]);
        assert_eq!(found(vec![seen("a", 0, 10), seen("b", 5, 0)]), ["leaf a", "leaf b"]);
        assert_eq!(found(vec![seen("a", 0, 10), seen("b", 0, 10)]), ["leaf b", "parent a"]);
        // Of what starts together the longest encloses, in whatever order it comes.
        assert_eq!(found(vec![seen("a", 0, 5), seen("b", 0, 10)]), ["leaf a", "parent b"]);
    }

    #[test]
    fn a_line_that_is_longer_than_the_window_is_sorted_out_as_it_comes() {
        let count = WINDOW;
        let mut events: Vec<Seen> = (0..count)
            .flat_map(|n| {
                let at = n as i128 * 100;
                // Of a file that writes what ends first: the operation after what it encloses.
                [
                    seen("leaf", at + 10, 20),
                    seen("copy-start.1", at + 30, 5),
                    seen("copy-done.1", at + 40, 5),
                    seen("while", at, 90),
                ]
            })
            .collect();
        events.iter_mut().zip(0..).for_each(|(seen, place)| seen.place = place);
        let (mut sequence, mut out, mut most) = (Sequence::default(), Vec::new(), 0);
        for chunk in events.chunks(1001) {
            sequence.take(chunk.to_vec(), &mut out);
            most = most.max(sequence.waiting.len());
        }
        assert!(most <= 2 * WINDOW && out.len() > WINDOW, "{most}, {}", out.len());
        sequence.finish(&mut out);
        let mut places: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for found in out {
            match found {
                Found::Leaf(seen) => places[0].push(seen.place),
                Found::Parent(seen) => places[1].push(seen.place),
                Found::Pair(start, done) => {
                    assert_eq!(start.place + 1, done.place);
                    places[2].push(start.place);
                }
                Found::Alone(seen) => panic!("alone: {}", seen.place),
            }
        }
        let every = |first: u64| (0..count as u64).map(|n| 4 * n + first).collect::<Vec<_>>();
        assert_eq!(places, [every(0), every(3), every(1)]);
    }

    #[test]
    fn starts_and_ends_are_pairs() {
        let events = vec![
            seen("copy-start.1", 0, 1),
            seen("copy-start.2", 1, 1),
            seen("f", 2, 10),
            seen("copy-done.2", 12, 3),
            seen("copy-done.1", 15, 5),
            // The same operation in the next run; then one that is cut off, and one that began
            // before.
            seen("copy-start.1", 30, 1),
            seen("copy-done.1", 31, 9),
            seen("copy-done.7", 40, 1),
            seen("copy-start.1", 50, 1),
        ];
        assert_eq!(
            found(events),
            [
                "alone copy-done.7",
                "alone copy-start.1",
                "leaf f",
                "pair copy-start.1 copy-done.1 10",
                "pair copy-start.1 copy-done.1 20",
                "pair copy-start.2 copy-done.2 14",
            ]
        );
        // Started again without an end.
        let again = vec![seen("copy-start.1", 0, 1), seen("copy-start.1", 5, 1)];
        assert_eq!(found(again), ["alone copy-start.1", "alone copy-start.1"]);
    }
}
