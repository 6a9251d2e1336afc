//! The events of the lines of an XPlane file: cut into pieces of a megabyte, made into rows on all
//! threads, and taken in the order of the file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::pool::lock;
use crate::readers::contract::Reading;
use crate::readers::log::Severity;
use crate::readers::xla::event::{Event, Meta, Said};
use crate::readers::xla::gather::Gather;
use crate::readers::xla::ids::Ids;
use crate::readers::xla::layout::LineKind;
use crate::readers::xla::ops::{Seen, Sequence};
use crate::readers::xla::rows::{Context, Line, Outcome};
use crate::readers::xla::stats::{Stat, of_message};
use crate::readers::xla::wire::{Fields, Value, read_at};
use crate::readers::xla::xplane::space::{self, Source};
use crate::spool::args::Args;

/// Bytes of a line that a thread reads at a time.
const SEGMENT_BYTES: usize = 1 << 20;
/// Longest event that is taken.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Names of a plane, and its operations.
pub struct Names {
    pub stats: Ids<Stat>,
    pub metas: Ids<Arc<Meta>>,
    /// Entries that cannot be read.
    pub broken: u64,
}

/// A task: part of a line.
pub struct Segment {
    pub bytes: Vec<u8>,
    pub offset: u64,
    pub names: Arc<Names>,
    pub line: Arc<Line>,
    pub base_ps: i128,
    pub outcome: Mutex<Option<(Outcome, Vec<Seen>)>>,
}

/// The events of a line, in pieces that end with an event.
pub struct Chunks<'s> {
    source: &'s Source<'s>,
    at: u64,
    end: u64,
    /// Where the events cannot be told apart any more.
    pub fault: Option<u64>,
}

impl<'s> Chunks<'s> {
    pub fn new(source: &'s Source<'s>, line: &space::Line) -> Self {
        Self { source, at: line.at.0, end: line.at.1, fault: None }
    }

    /// The next piece, and where it stands.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let mut wanted = SEGMENT_BYTES;
        while self.at < self.end && self.fault.is_none() {
            let left = self.end - self.at;
            let length = left.min(wanted as u64) as usize;
            let mut bytes = read_at(self.source.file, self.source.path, self.at, length)?;
            let mut fields = Fields::new(&bytes);
            let mut whole = 0;
            while let Some(Ok(_)) = fields.next() {
                whole = fields.at;
            }
            if whole == 0 || (length as u64 == left && whole < length) {
                let is_last = length as u64 == left;
                if is_last || wanted > MAX_EVENT_BYTES {
                    self.fault = Some(self.at + whole as u64);
                    if whole == 0 {
                        break;
                    }
                } else {
                    wanted *= 4;
                    continue;
                }
            }
            let offset = self.at;
            bytes.truncate(whole);
            self.at += whole as u64;
            return Ok(Some((bytes, offset)));
        }
        Ok(None)
    }
}

/// The messages of the events in a piece of a line, each with its place in the file.
pub fn messages(bytes: &[u8], offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut fields = Fields::new(bytes);
    std::iter::from_fn(move || {
        loop {
            let (number, value) = fields.next()?.ok()?;
            if let (4, Value::Bytes(message)) = (number, value) {
                return Some((offset + (fields.at - message.len()) as u64, message));
            }
        }
    })
}

/// Whether an event says any of these statistics.
pub fn says_any(message: &[u8], wanted: &[i64]) -> bool {
    Fields::new(message).flatten().any(|(field, value)| match (field, value) {
        (4, Value::Bytes(stat)) => {
            let id = Fields::new(stat).flatten().find_map(|(field, value)| match (field, value) {
                (1, Value::Int(id)) => Some(id as i64),
                _ => None,
            });
            wanted.contains(&id.unwrap_or(0))
        }
        _ => false,
    })
}

/// An event; None where it is broken, or has no place on the time axis.
pub fn event_of<'a, 's>(
    message: &'a [u8],
    place: u64,
    names: &'a Names,
    base_ps: i128,
    said: &'s mut Vec<Said<'a>>,
) -> Option<Event<'s>>
where
    'a: 's,
{
    said.clear();
    let (mut id, mut offset, mut dur) = (0, 0_i64, 0_i64);
    for field in Fields::new(message) {
        match field.ok()? {
            (1, Value::Int(number)) => id = number as i64,
            (2, Value::Int(number)) => offset = number as i64,
            (3, Value::Int(number)) => dur = number as i64,
            (4, Value::Bytes(bytes)) => {
                let (stat, value) = of_message(bytes, &names.stats)?;
                said.push(Said { key: stat.key, name: &stat.name, value });
            }
            (5, _) => return None,
            _ => {}
        }
    }
    let meta = names.metas.get(id);
    Some(Event {
        place,
        name: meta.map_or("", |m| &*m.name).into(),
        meta,
        start_ps: base_ps + i128::from(offset),
        dur_ps: (dur >= 0).then_some(dur),
        said,
    })
}

/// The rows of a segment; the events of a line of operations, of which the neighbours decide.
pub fn rows_of(segment: &Segment, context: &Context) -> (Outcome, Vec<Seen>) {
    let mut out = Outcome::default();
    let unnamed = Arc::new(Meta::unnamed());
    let mut seen = Vec::new();
    let mut args = Args::default();
    let mut said = Vec::new();
    for (place, message) in messages(&segment.bytes, segment.offset) {
        let names = &*segment.names;
        let Some(event) = event_of(message, place, names, segment.base_ps, &mut said) else {
            out.skipped += 1;
            out.log.add(Severity::Loss, "event-broken", Some(place), || {
                "events that cannot be read, or that stand for many without a place in time; left out"
                    .to_owned()
            });
            continue;
        };
        if event.dur_ps.is_none() {
            out.log.add(Severity::Loss, "dur-invalid", Some(place), || {
                "events whose duration is negative; it is not known".to_owned()
            });
        }
        if event.meta.is_none() {
            out.log.add(Severity::Loss, "name-missing", Some(place), || {
                "events whose name is not in the file; kept without one".to_owned()
            });
        }
        match (segment.line.kind, event.meta) {
            (LineKind::Ops, meta) => {
                let meta = meta.unwrap_or(&unnamed);
                seen.push(Seen::of(&event, meta, segment.line.shift_ps, &mut args));
            }
            _ => out.event(context, &segment.line, &event),
        }
    }
    (out, seen)
}

/// Segments that are being read, and the line of operations that is open.
pub struct Flow {
    pub flying: VecDeque<Arc<Segment>>,
    pub sequence: Option<(Arc<Line>, Sequence)>,
    pub context: Arc<Context>,
}

impl Flow {
    /// Takes the rows of the first segment.
    pub fn accept(&mut self, reading: &Reading<'_>, gather: &mut Gather<'_>) -> Result<()> {
        let Some(segment) = self.flying.pop_front() else { return Ok(()) };
        reading.pool.wait(|| lock(&segment.outcome).is_some());
        let (mut outcome, seen) = lock(&segment.outcome).take().expect("it was waited for");
        reading.watcher.tell(|w| w.read(segment.bytes.len() as u64));
        reading.watcher.go_on()?;
        if self.sequence.as_ref().is_some_and(|(line, _)| !Arc::ptr_eq(line, &segment.line)) {
            self.finish_line(gather)?;
        }
        if segment.line.kind == LineKind::Ops {
            let (_, sequence) =
                self.sequence.get_or_insert_with(|| (segment.line.clone(), Sequence::default()));
            let mut found = Vec::new();
            sequence.take(seen, &mut found);
            outcome.operations(&self.context, &segment.line, found);
        }
        gather.accept(&mut outcome)
    }

    /// The rest of a line of operations.
    pub fn finish_line(&mut self, gather: &mut Gather<'_>) -> Result<()> {
        let Some((line, sequence)) = self.sequence.take() else { return Ok(()) };
        let (mut found, mut outcome) = (Vec::new(), Outcome::default());
        sequence.finish(&mut found);
        outcome.operations(&self.context, &line, found);
        gather.accept(&mut outcome)
    }
}
