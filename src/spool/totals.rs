//! Counts and the span over the events of a rank in a file.

/// First and last of what a run of events said.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Events kept: slices (pairs joined) and instants.
    pub events: u64,
    /// Events left out, each with a finding.
    pub skipped: u64,
    /// Device events among them.
    pub device_events: u64,
    /// Events of communication among those.
    pub comm_events: u64,
    /// First start and last end over all events.
    pub span_ns: Option<(i64, i64)>,
    /// Process of the operators (the first that is seen).
    pub op_pid: Option<i64>,
    /// Process of anything else on the host.
    pub host_pid: Option<i64>,
    /// Device of the first device event.
    pub device: Option<i64>,
    /// Whether any event had a phase: an array of other records is no trace.
    pub typed: bool,
    /// Whether a process name says that the profiler of XLA wrote the file.
    pub is_xla: bool,
}

impl Totals {
    /// The process of the trace.
    pub fn pid(&self) -> Option<i64> {
        self.op_pid.or(self.host_pid)
    }

    /// Counts a device event of a class.
    pub fn count_device(&mut self, class: &str) {
        self.device_events += 1;
        self.comm_events += u64::from(class == "comm");
    }

    /// Adds what a later run said.
    pub fn add(&mut self, later: Self) {
        self.events += later.events;
        self.skipped += later.skipped;
        self.device_events += later.device_events;
        self.comm_events += later.comm_events;
        if let Some((from, to)) = later.span_ns {
            widen(&mut self.span_ns, from, to);
        }
        self.op_pid = self.op_pid.or(later.op_pid);
        self.host_pid = self.host_pid.or(later.host_pid);
        self.device = self.device.or(later.device);
        self.typed |= later.typed;
        self.is_xla |= later.is_xla;
    }
}

/// Widens a span to hold another.
pub fn widen(span: &mut Option<(i64, i64)>, from: i64, to: i64) {
    *span = Some(match *span {
        None => (from, to),
        Some((a, b)) => (a.min(from), b.max(to)),
    });
}
