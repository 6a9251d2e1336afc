//! What a timeline holds, whatever form it is written in: processes with tracks, and on these
//! slices, instants and samples of counters. Times are nanoseconds since the base of the timeline,
//! and never negative.

use std::borrow::Cow;

use crate::error::Result;

/// The bit that numbers of arrows between the events of a collective call have, and those from a
/// launch to its device event have not.
pub const COLLECTIVE: u64 = 1 << 63;

/// A process of the viewer: a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Number of its track.
    pub id: u64,
    /// Number that the viewer shows: none is given twice.
    pub pid: i64,
    /// Its name.
    pub name: String,
    /// What else is known of it.
    pub labels: Vec<String>,
    /// Its place among the processes.
    pub order: i64,
}

/// What a track is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A thread of the process.
    Thread,
    /// Slices of any other kind.
    Slices,
    /// Samples of a counter, with their unit.
    Counter(Option<String>),
}

/// A line of the viewer. Its slices lie inside of each other or one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// Its number, in the whole timeline.
    pub id: u64,
    /// The track that it lies below: that of its process, or, for what a thread has beside, that of
    /// the thread.
    pub parent: Option<u64>,
    /// Number of the process; None for a track of the whole job.
    pub pid: Option<i64>,
    /// Number of the track in its process: of a thread its own where it can be.
    pub tid: i64,
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its place among those of its process.
    pub order: i64,
}

/// A value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(Cow<'a, str>),
    /// JSON as it was recorded.
    Json(&'a str),
}

/// An argument: its name and value.
pub type Arg<'a> = (Cow<'a, str>, Value<'a>);

/// Something that happened on a track.
#[derive(Debug, Clone, Default)]
pub struct Event<'a> {
    /// Start.
    pub ts: u64,
    /// Duration; None for an instant.
    pub dur: Option<u64>,
    /// Its name.
    pub name: &'a str,
    /// Its category.
    pub category: Option<&'a str>,
    /// Its arguments.
    pub args: &'a [Arg<'a>],
    /// Arrows that leave from it.
    pub leaving: &'a [u64],
    /// The arrow that leads to its start.
    pub entering: Option<u64>,
    /// The arrow that leads into it from an event that begins while it lasts, and when that is.
    pub meeting: Option<(u64, u64)>,
}

/// A form that a timeline is written in. Events of a track come in the order of time.
pub trait Sink {
    /// Says something of the timeline as a whole.
    ///
    /// # Errors
    /// `io`, as all of these.
    fn attribute(&mut self, key: &str, value: &Value<'_>) -> Result<()>;
    /// Adds a process.
    ///
    /// # Errors
    /// `io`.
    fn process(&mut self, process: &Process) -> Result<()>;
    /// Adds a track.
    ///
    /// # Errors
    /// `io`.
    fn track(&mut self, track: &Track) -> Result<()>;
    /// Begins a slice, or adds an instant.
    ///
    /// # Errors
    /// `io`.
    fn begin(&mut self, track: &Track, event: &Event<'_>) -> Result<()>;
    /// Ends the slice of a track that began last, with the arrow that meets it.
    ///
    /// # Errors
    /// `io`.
    fn end(&mut self, track: &Track, ts: u64, meeting: Option<u64>) -> Result<()>;
    /// Adds a sample of a counter.
    ///
    /// # Errors
    /// `io`.
    fn sample(&mut self, track: &Track, ts: u64, value: f64) -> Result<()>;
    /// Writes what is left.
    ///
    /// # Errors
    /// `io`.
    fn finish(&mut self) -> Result<()>;
}
