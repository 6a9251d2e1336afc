//! Tracks on which slices nest. A viewer draws a slice inside of another or after it; where two
//! overlap in any other way, as on a stream whose kernels run side by side, the later one goes to a
//! lane of its own, which has the name of the track.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use crate::error::Result;
use crate::export::timeline::{Event, Kind, Process, Sink, Track};

/// Most lanes of a track. What overlaps with more is an instant that says how long it took: a file
/// in which a million events overlap would have a million lanes.
const MAX_LANES: usize = 512;

/// First number of a track that is no thread, or whose own number another one has.
const FIRST_TID: i64 = 1 << 30;

/// A number of a thread that viewers can show.
fn is_tid(tid: i64) -> bool {
    (1..FIRST_TID).contains(&tid)
}

/// A track by its place.
pub type Handle = usize;

/// What was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Slices.
    pub slices: u64,
    /// Instants.
    pub instants: u64,
    /// Slices that are written as instants, for too many overlap.
    pub flattened: u64,
    /// Samples of counters.
    pub samples: u64,
    /// Samples that are no finite number.
    pub samples_left_out: u64,
    /// Tracks, and lanes beside them.
    pub tracks: u64,
    /// Arrows.
    pub arrows: u64,
}

struct Lane {
    track: Track,
    /// Ends of the open slices, the outermost first.
    ends: Vec<u64>,
}

/// An open slice, in the order in which slices close: of those that end together the inner one
/// first, which is the one that began last.
type Open = Reverse<(u64, Reverse<u64>, Handle, usize, Option<u64>)>;

/// Writes events in the order of time to lanes of tracks.
pub struct Stage<'s> {
    sink: &'s mut dyn Sink,
    tracks: Vec<Vec<Lane>>,
    open: BinaryHeap<Open>,
    next_id: u64,
    begun: u64,
    processes: HashMap<u64, i64>,
    tids: BTreeSet<(Option<i64>, i64)>,
    /// What was written.
    pub counts: Counts,
}

impl<'s> Stage<'s> {
    /// A stage without tracks.
    pub fn new(sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            tracks: Vec::new(),
            open: BinaryHeap::new(),
            next_id: 1,
            begun: 0,
            processes: HashMap::new(),
            tids: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    /// The form that is written.
    pub fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Adds a process; gives the number of its track.
    ///
    /// # Errors
    /// `io`, as all of these.
    pub fn process(&mut self, pid: i64, name: String, labels: Vec<String>) -> Result<u64> {
        let (id, order) = (self.id(), self.processes.len() as i64);
        self.processes.insert(id, pid);
        self.sink.process(&Process { id, pid, name, labels, order })?;
        Ok(id)
    }

    /// Adds a track below one of a process, or one of the whole job. A thread has a number.
    ///
    /// # Errors
    /// `io`.
    pub fn track(
        &mut self,
        process: Option<u64>,
        kind: Kind,
        name: String,
        order: i64,
        thread: Option<i64>,
    ) -> Result<Handle> {
        let pid = process.map(|id| self.processes[&id]);
        let (id, tid) = (self.id(), self.tid(pid, thread));
        let track = Track { id, parent: process, pid, tid, kind, name, order };
        self.sink.track(&track)?;
        self.counts.tracks += 1;
        self.tracks.push(vec![Lane { track, ends: Vec::new() }]);
        Ok(self.tracks.len() - 1)
    }

    /// A number in a process that no other track has: the one of a thread, where it is free.
    fn tid(&mut self, pid: Option<i64>, thread: Option<i64>) -> i64 {
        if let Some(tid) = thread.filter(|tid| is_tid(*tid))
            && self.tids.insert((pid, tid))
        {
            return tid;
        }
        let last = self.tids.range(..=(pid, i64::MAX)).next_back();
        let last = last.filter(|(of, _)| *of == pid).map_or(0, |(_, tid)| *tid);
        let tid = (last + 1).max(FIRST_TID);
        self.tids.insert((pid, tid));
        tid
    }

    /// Adds a slice or an instant. Of events at one time the longest comes first.
    ///
    /// # Errors
    /// `io`.
    pub fn event(&mut self, handle: Handle, event: &Event<'_>) -> Result<()> {
        self.close(event.ts)?;
        self.counts.arrows += event.leaving.len() as u64;
        let Some(dur) = event.dur else {
            self.counts.instants += 1;
            return self.sink.begin(&self.tracks[handle][0].track, event);
        };
        let end = event.ts.saturating_add(dur);
        let fits = |lane: &Lane| lane.ends.last().is_none_or(|open| *open >= end);
        let at = match self.tracks[handle].iter().position(fits) {
            Some(at) => at,
            None if self.tracks[handle].len() < MAX_LANES => self.lane(handle)?,
            None => return self.flattened(handle, event, dur),
        };
        let lane = &mut self.tracks[handle][at];
        lane.ends.push(end);
        self.counts.slices += 1;
        self.begun += 1;
        let meeting = event.meeting.map(|(arrow, _)| arrow);
        self.open.push(Reverse((end, Reverse(self.begun), handle, at, meeting)));
        self.sink.begin(&lane.track, event)
    }

    /// A slice for which there is no lane.
    fn flattened(&mut self, handle: Handle, event: &Event<'_>, dur: u64) -> Result<()> {
        use crate::export::timeline::Value;
        let mut args = event.args.to_vec();
        args.push(("dur_ns".into(), Value::Int(i64::try_from(dur).unwrap_or(i64::MAX))));
        self.counts.flattened += 1;
        let event = Event { dur: None, meeting: None, args: &args, ..event.clone() };
        self.sink.begin(&self.tracks[handle][0].track, &event)
    }

    /// One more lane of a track.
    fn lane(&mut self, handle: Handle) -> Result<usize> {
        let first = self.tracks[handle][0].track.clone();
        let (id, tid) = (self.id(), self.tid(first.pid, None));
        // What a thread does beside lies below it; other lanes are siblings of one name, which
        // viewers draw as one.
        let parent = if first.kind == Kind::Thread { Some(first.id) } else { first.parent };
        let track = Track { id, parent, tid, kind: Kind::Slices, ..first };
        self.sink.track(&track)?;
        self.counts.tracks += 1;
        self.tracks[handle].push(Lane { track, ends: Vec::new() });
        Ok(self.tracks[handle].len() - 1)
    }

    /// Closes what ends no later than a time.
    fn close(&mut self, ts: u64) -> Result<()> {
        while let Some(Reverse((end, _, handle, at, meeting))) = self.open.peek().copied()
            && end <= ts
        {
            self.open.pop();
            let lane = &mut self.tracks[handle][at];
            lane.ends.pop();
            self.sink.end(&lane.track, end, meeting)?;
        }
        Ok(())
    }

    /// Closes all slices: what comes next may be earlier.
    ///
    /// # Errors
    /// `io`.
    pub fn rewind(&mut self) -> Result<()> {
        self.close(u64::MAX)
    }

    /// Adds a sample of a counter. No viewer draws what is no finite number.
    ///
    /// # Errors
    /// `io`.
    pub fn sample(&mut self, handle: Handle, ts: u64, value: f64) -> Result<()> {
        if !value.is_finite() {
            self.counts.samples_left_out += 1;
            return Ok(());
        }
        self.counts.samples += 1;
        self.sink.sample(&self.tracks[handle][0].track, ts, value)
    }
}
