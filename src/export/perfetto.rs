//! Perfetto's own form: a list of packets, each a message of protocol buffers. The numbers of
//! fields are those of `protos/perfetto/trace` in Perfetto's repository.
//!
//! Texts that come again are written once, with a number that later packets name ("interned").
//! Times are nanoseconds since the base of the timeline; a snapshot of the clocks says what time of
//! day that is.

use std::collections::HashMap;
use std::io::Write;

use crate::error::{Error, Result};
use crate::export::timeline::{Event, Kind, Process, Sink, Track, Value};
use crate::export::wire::{bytes, double, fixed, int, uint};

/// Bytes that are collected before they are written.
const PIECE: usize = 1 << 18;
/// Bytes of texts of a kind that are remembered; what comes after is written where it stands.
const REMEMBERED: usize = 16 << 20;

/// The one sequence of packets: numbers of texts hold within it.
const SEQUENCE: u64 = 1;
/// Packets from here on know no earlier texts.
const CLEARED: u64 = 1;
/// The packet names texts of earlier ones.
const NEEDS_STATE: u64 = 2;

/// Fields of `TracePacket`.
mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const TRACE_ATTRIBUTES: u32 = 126;
}

/// Fields of `TrackEvent`, and values of its type.
mod event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK_UUID: u32 = 11;
    pub const CATEGORIES: u32 = 22;
    pub const NAME: u32 = 23;
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;

    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

/// Fields of `TrackDescriptor`.
mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT_UUID: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const SIBLING_ORDER_RANK: u32 = 12;

    pub const EXPLICIT: u64 = 3;
}

/// Fields of `DebugAnnotation`.
mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const BOOL: u32 = 2;
    pub const INT: u32 = 4;
    pub const DOUBLE: u32 = 5;
    pub const STRING: u32 = 6;
    pub const NAME: u32 = 10;
    pub const STRING_IID: u32 = 17;
}

/// Texts of one kind, each with its number.
struct Texts {
    /// Field of `InternedData`.
    field: u32,
    /// Texts are of strangers: the hash is a random one.
    numbers: HashMap<Box<str>, u64, ahash::RandomState>,
    bytes: usize,
}

impl Texts {
    fn new(field: u32) -> Self {
        Self { field, numbers: HashMap::default(), bytes: 0 }
    }

    /// The number of a text, which is written to `news` when it is new; None when there is no room
    /// for it.
    fn number(&mut self, text: &str, news: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Option<u64> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        // With what the table itself takes.
        let size = text.len() + 64;
        if self.bytes + size > REMEMBERED {
            return None;
        }
        self.bytes += size;
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.into(), number);
        scratch.clear();
        uint(scratch, 1, number);
        bytes(scratch, 2, text.as_bytes());
        bytes(news, self.field, scratch);
        Some(number)
    }
}

/// Writes Perfetto's form.
pub struct Perfetto<W: Write> {
    to: W,
    waiting: Vec<u8>,
    categories: Texts,
    names: Texts,
    keys: Texts,
    values: Texts,
    /// Bytes of the messages that are being written.
    body: Vec<u8>,
    message: Vec<u8>,
    inner: Vec<u8>,
    news: Vec<u8>,
    scratch: Vec<u8>,
}

/// The error of a place that takes no more bytes.
fn failed(error: &std::io::Error) -> Error {
    Error::new("io", format!("cannot write the timeline: {error}"))
}

impl<W: Write> Perfetto<W> {
    /// Begins a timeline, at whose base it is `epoch_ns` in nanoseconds since 1970, where that is
    /// known.
    ///
    /// # Errors
    /// `io`.
    pub fn new(to: W, epoch_ns: Option<u64>) -> Result<Self> {
        let mut out = Self {
            to,
            waiting: Vec::with_capacity(PIECE + (1 << 16)),
            categories: Texts::new(1),
            names: Texts::new(2),
            keys: Texts::new(3),
            values: Texts::new(29),
            body: Vec::new(),
            message: Vec::new(),
            inner: Vec::new(),
            news: Vec::new(),
            scratch: Vec::new(),
        };
        if let Some(epoch) = epoch_ns {
            // The clock of the trace (boot time) and the time of day.
            for (clock, time) in [(6, 0), (1, epoch)] {
                out.inner.clear();
                uint(&mut out.inner, 1, clock);
                uint(&mut out.inner, 2, time);
                bytes(&mut out.message, 1, &out.inner);
            }
            uint(&mut out.body, packet::TIMESTAMP, 0);
            bytes(&mut out.body, packet::CLOCK_SNAPSHOT, &out.message);
            out.packet(CLEARED)?;
        } else {
            out.packet(CLEARED)?;
        }
        Ok(out)
    }

    /// Ends the packet in `body`.
    fn packet(&mut self, flags: u64) -> Result<()> {
        uint(&mut self.body, packet::SEQUENCE_ID, SEQUENCE);
        if flags != 0 {
            uint(&mut self.body, packet::SEQUENCE_FLAGS, flags);
        }
        bytes(&mut self.waiting, 1, &self.body);
        self.body.clear();
        self.message.clear();
        if self.waiting.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.to.write_all(&self.waiting).map_err(|e| failed(&e))?;
        self.waiting.clear();
        Ok(())
    }

    /// Ends the packet of the event in `message`.
    fn event_packet(&mut self, ts: u64, flags: u64) -> Result<()> {
        uint(&mut self.body, packet::TIMESTAMP, ts);
        if !self.news.is_empty() {
            bytes(&mut self.body, packet::INTERNED_DATA, &self.news);
            self.news.clear();
        }
        bytes(&mut self.body, packet::TRACK_EVENT, &self.message);
        self.packet(flags)
    }

    /// Ends the packet of the track in `message`.
    fn track_packet(&mut self) -> Result<()> {
        bytes(&mut self.body, packet::TRACK_DESCRIPTOR, &self.message);
        self.packet(0)
    }

    fn annotation(&mut self, key: &str, value: &Value<'_>) {
        self.inner.clear();
        match self.keys.number(key, &mut self.news, &mut self.scratch) {
            Some(number) => uint(&mut self.inner, annotation::NAME_IID, number),
            None => bytes(&mut self.inner, annotation::NAME, key.as_bytes()),
        }
        let text = match value {
            Value::Int(number) => {
                int(&mut self.inner, annotation::INT, *number);
                None
            }
            Value::Real(number) => {
                double(&mut self.inner, annotation::DOUBLE, *number);
                None
            }
            Value::Flag(flag) => {
                uint(&mut self.inner, annotation::BOOL, u64::from(*flag));
                None
            }
            Value::Text(text) => Some(&**text),
            Value::Json(json) => Some(*json),
        };
        if let Some(text) = text {
            match self.values.number(text, &mut self.news, &mut self.scratch) {
                Some(number) => uint(&mut self.inner, annotation::STRING_IID, number),
                None => bytes(&mut self.inner, annotation::STRING, text.as_bytes()),
            }
        }
        bytes(&mut self.message, event::DEBUG_ANNOTATIONS, &self.inner);
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn attribute(&mut self, key: &str, value: &Value<'_>) -> Result<()> {
        self.inner.clear();
        bytes(&mut self.inner, 1, key.as_bytes());
        match value {
            Value::Int(number) => int(&mut self.inner, 2, *number),
            Value::Real(number) => bytes(&mut self.inner, 3, number.to_string().as_bytes()),
            Value::Flag(flag) => bytes(&mut self.inner, 3, flag.to_string().as_bytes()),
            Value::Text(text) => bytes(&mut self.inner, 3, text.as_bytes()),
            Value::Json(json) => bytes(&mut self.inner, 3, json.as_bytes()),
        }
        bytes(&mut self.message, 1, &self.inner);
        bytes(&mut self.body, packet::TRACE_ATTRIBUTES, &self.message);
        self.packet(0)
    }

    fn process(&mut self, process: &Process) -> Result<()> {
        self.inner.clear();
        int(&mut self.inner, 1, process.pid);
        int(&mut self.inner, 3, process.order);
        bytes(&mut self.inner, 6, process.name.as_bytes());
        for label in &process.labels {
            bytes(&mut self.inner, 8, label.as_bytes());
        }
        uint(&mut self.message, track::UUID, process.id);
        bytes(&mut self.message, track::PROCESS, &self.inner);
        uint(&mut self.message, track::CHILD_ORDERING, track::EXPLICIT);
        self.track_packet()
    }

    fn track(&mut self, of: &Track) -> Result<()> {
        uint(&mut self.message, track::UUID, of.id);
        self.inner.clear();
        match &of.kind {
            Kind::Thread => {
                int(&mut self.inner, 1, of.pid.unwrap_or_default());
                int(&mut self.inner, 2, of.tid);
                int(&mut self.inner, 3, of.order);
                bytes(&mut self.inner, 5, of.name.as_bytes());
                bytes(&mut self.message, track::THREAD, &self.inner);
            }
            Kind::Slices => bytes(&mut self.message, track::NAME, of.name.as_bytes()),
            Kind::Counter(unit) => {
                bytes(&mut self.message, track::NAME, of.name.as_bytes());
                match unit.as_deref() {
                    Some("bytes") => uint(&mut self.inner, 3, 3),
                    Some(unit) => bytes(&mut self.inner, 6, unit.as_bytes()),
                    None => {}
                }
                bytes(&mut self.message, track::COUNTER, &self.inner);
            }
        }
        if let Some(parent) = of.parent {
            uint(&mut self.message, track::PARENT_UUID, parent);
        }
        int(&mut self.message, track::SIBLING_ORDER_RANK, of.order);
        self.track_packet()
    }

    fn begin(&mut self, track: &Track, slice: &Event<'_>) -> Result<()> {
        let kind = if slice.dur.is_some() { event::SLICE_BEGIN } else { event::INSTANT };
        uint(&mut self.message, event::TYPE, kind);
        uint(&mut self.message, event::TRACK_UUID, track.id);
        if let Some(category) = slice.category {
            match self.categories.number(category, &mut self.news, &mut self.scratch) {
                Some(number) => uint(&mut self.message, event::CATEGORY_IIDS, number),
                None => bytes(&mut self.message, event::CATEGORIES, category.as_bytes()),
            }
        }
        match self.names.number(slice.name, &mut self.news, &mut self.scratch) {
            Some(number) => uint(&mut self.message, event::NAME_IID, number),
            None => bytes(&mut self.message, event::NAME, slice.name.as_bytes()),
        }
        for (key, value) in slice.args {
            self.annotation(key, value);
        }
        for arrow in slice.leaving {
            fixed(&mut self.message, event::FLOW_IDS, *arrow);
        }
        if let Some(arrow) = slice.entering {
            fixed(&mut self.message, event::TERMINATING_FLOW_IDS, arrow);
        }
        self.event_packet(slice.ts, NEEDS_STATE)
    }

    fn end(&mut self, track: &Track, ts: u64, meeting: Option<u64>) -> Result<()> {
        uint(&mut self.message, event::TYPE, event::SLICE_END);
        uint(&mut self.message, event::TRACK_UUID, track.id);
        // An arrow leads to the event that comes later: of two slices that overlap it can only lead
        // to the one that began first when it stands at its end.
        if let Some(arrow) = meeting {
            fixed(&mut self.message, event::TERMINATING_FLOW_IDS, arrow);
        }
        self.event_packet(ts, 0)
    }

    fn sample(&mut self, track: &Track, ts: u64, value: f64) -> Result<()> {
        uint(&mut self.message, event::TYPE, event::COUNTER);
        uint(&mut self.message, event::TRACK_UUID, track.id);
        double(&mut self.message, event::DOUBLE_COUNTER_VALUE, value);
        self.event_packet(ts, 0)
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.to.flush().map_err(|e| failed(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A viewer keeps what is numbered, and so does the writer: up to a bound.
    #[test]
    fn texts_are_numbered_up_to_a_bound() {
        const LENGTH: usize = 1 << 20;
        let mut texts = Texts::new(2);
        let (mut news, mut scratch) = (Vec::new(), Vec::new());
        let text = |n: usize| format!("{n:02}{}", "x".repeat(LENGTH - 2));
        let room = REMEMBERED / (LENGTH + 64);
        for n in 0..room + 3 {
            news.clear();
            let number = texts.number(&text(n), &mut news, &mut scratch);
            assert_eq!(number, (n < room).then_some(n as u64 + 1), "{n}");
            assert_eq!(news.len() > LENGTH, n < room, "{n}");
        }
        news.clear();
        assert_eq!(texts.number(&text(2), &mut news, &mut scratch), Some(3));
        // What is short still has room.
        assert_eq!(texts.number("short", &mut news, &mut scratch), Some(room as u64 + 1));
        assert!(news.len() < 20);
        assert_eq!(texts.number("short", &mut news, &mut scratch), Some(room as u64 + 1));
    }
}
