//! The JSON of Chrome's trace events, which Perfetto, chrome://tracing and many other programs
//! open. Times are microseconds with three digits behind the point, so that no nanosecond is lost.

use std::io::Write;

use crate::error::{Error, Result};
use crate::export::timeline::{Arg, COLLECTIVE, Event, Kind, Process, Sink, Track, Value};

/// Bytes that are collected before they are written.
const PIECE: usize = 1 << 18;

/// Writes JSON of trace events.
pub struct Chrome<W: Write> {
    to: W,
    waiting: Vec<u8>,
    /// Attributes, which stand behind the events.
    attributes: Vec<u8>,
    /// Nanoseconds since 1970 at the base of the timeline.
    epoch_ns: Option<u64>,
}

/// Writes a text of JSON with its quotes.
pub fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to bytes does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// Writes a time or a duration in microseconds.
pub fn micros(out: &mut Vec<u8>, ns: i64) {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let _ = write!(out, "{sign}{}.{:03}", ns / 1000, ns % 1000);
}

/// Writes a number; what JSON has no number for is a text.
pub fn real(out: &mut Vec<u8>, number: f64) {
    let _ = match number.is_finite() {
        true => serde_json::to_writer(&mut *out, &number).map_err(Into::into),
        false => write!(out, "\"{number}\""),
    };
}

fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Real(number) => real(out, *number),
        Value::Flag(flag) => {
            let _ = write!(out, "{flag}");
        }
        Value::Text(text) => string(out, text),
        Value::Json(json) => out.extend_from_slice(json.as_bytes()),
    }
}

/// Writes arguments as an object.
pub fn object(out: &mut Vec<u8>, args: &[Arg<'_>]) {
    out.push(b'{');
    for (i, (key, of)) in args.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        value(out, of);
    }
    out.push(b'}');
}

impl<W: Write> Chrome<W> {
    /// Begins a timeline, at whose base it is `epoch_ns` in nanoseconds since 1970, where that is
    /// known.
    pub fn new(to: W, epoch_ns: Option<u64>) -> Self {
        let mut waiting = Vec::with_capacity(PIECE + (1 << 16));
        waiting.extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        Self { to, waiting, attributes: Vec::new(), epoch_ns }
    }

    /// Begins an event of a phase on a track.
    fn open(&mut self, phase: u8, pid: i64, tid: i64) {
        if self.waiting.last() != Some(&b'[') {
            self.waiting.push(b',');
        }
        self.waiting.extend_from_slice(b"\n{\"ph\":\"");
        self.waiting.push(phase);
        let _ = write!(self.waiting, "\",\"pid\":{pid},\"tid\":{tid}");
    }

    fn name(&mut self, name: &str) {
        self.waiting.extend_from_slice(b",\"name\":");
        string(&mut self.waiting, name);
    }

    fn time(&mut self, key: &str, ns: u64) {
        let _ = write!(self.waiting, ",\"{key}\":");
        micros(&mut self.waiting, i64::try_from(ns).unwrap_or(i64::MAX));
    }

    fn close(&mut self) -> Result<()> {
        self.waiting.push(b'}');
        if self.waiting.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.to.write_all(&self.waiting).map_err(|e| failed(&e))?;
        self.waiting.clear();
        Ok(())
    }

    /// Says something of a process or thread.
    fn about(&mut self, what: &str, pid: i64, tid: i64, args: &[Arg<'_>]) -> Result<()> {
        self.open(b'M', pid, tid);
        self.name(what);
        self.waiting.extend_from_slice(b",\"args\":");
        object(&mut self.waiting, args);
        self.close()
    }

    /// An end of an arrow.
    fn arrow(&mut self, phase: u8, track: &Track, arrow: u64, ts: u64) -> Result<()> {
        self.open(phase, track.pid.unwrap_or_default(), track.tid);
        let kind = if arrow & COLLECTIVE == 0 { "launch" } else { "collective" };
        let _ = write!(
            self.waiting,
            ",\"cat\":\"{kind}\",\"name\":\"{kind}\",\"id\":\"{arrow:#x}\",\"bp\":\"e\""
        );
        self.time("ts", ts);
        self.close()
    }
}

/// The error of a place that takes no more bytes.
fn failed(error: &std::io::Error) -> Error {
    Error::new("io", format!("cannot write the timeline: {error}"))
}

impl<W: Write> Sink for Chrome<W> {
    fn attribute(&mut self, key: &str, of: &Value<'_>) -> Result<()> {
        self.attributes.push(if self.attributes.is_empty() { b'{' } else { b',' });
        string(&mut self.attributes, key);
        self.attributes.push(b':');
        value(&mut self.attributes, of);
        Ok(())
    }

    fn process(&mut self, process: &Process) -> Result<()> {
        let pid = process.pid;
        let name = Value::Text(process.name.as_str().into());
        self.about("process_name", pid, 0, &[("name".into(), name)])?;
        let order = Value::Int(process.order);
        self.about("process_sort_index", pid, 0, &[("sort_index".into(), order)])?;
        if process.labels.is_empty() {
            return Ok(());
        }
        let labels = Value::Text(process.labels.join(", ").into());
        self.about("process_labels", pid, 0, &[("labels".into(), labels)])
    }

    fn track(&mut self, track: &Track) -> Result<()> {
        if matches!(track.kind, Kind::Counter(_)) {
            return Ok(());
        }
        let pid = track.pid.unwrap_or_default();
        let name = Value::Text(track.name.as_str().into());
        self.about("thread_name", pid, track.tid, &[("name".into(), name)])?;
        let order = Value::Int(track.order);
        self.about("thread_sort_index", pid, track.tid, &[("sort_index".into(), order)])
    }

    fn begin(&mut self, track: &Track, event: &Event<'_>) -> Result<()> {
        let phase = if event.dur.is_some() { b'X' } else { b'i' };
        self.open(phase, track.pid.unwrap_or_default(), track.tid);
        self.name(event.name);
        if let Some(category) = event.category {
            self.waiting.extend_from_slice(b",\"cat\":");
            string(&mut self.waiting, category);
        }
        self.time("ts", event.ts);
        match event.dur {
            Some(dur) => self.time("dur", dur),
            None => self.waiting.extend_from_slice(b",\"s\":\"t\""),
        }
        if !event.args.is_empty() {
            self.waiting.extend_from_slice(b",\"args\":");
            object(&mut self.waiting, event.args);
        }
        self.close()?;
        for arrow in event.leaving {
            self.arrow(b's', track, *arrow, event.ts)?;
        }
        if let Some(arrow) = event.entering {
            self.arrow(b'f', track, arrow, event.ts)?;
        }
        match event.meeting {
            Some((arrow, ts)) => self.arrow(b'f', track, arrow, ts),
            None => Ok(()),
        }
    }

    fn end(&mut self, _: &Track, _: u64, _: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn sample(&mut self, track: &Track, ts: u64, value: f64) -> Result<()> {
        self.open(b'C', track.pid.unwrap_or_default(), track.tid);
        self.name(&track.name);
        self.time("ts", ts);
        let unit = match &track.kind {
            Kind::Counter(Some(unit)) => unit.as_str(),
            _ => "value",
        };
        self.waiting.extend_from_slice(b",\"args\":");
        object(&mut self.waiting, &[(unit.into(), Value::Real(value))]);
        self.close()
    }

    fn finish(&mut self) -> Result<()> {
        self.waiting.extend_from_slice(b"\n]");
        if let Some(epoch) = self.epoch_ns {
            let _ = write!(self.waiting, ",\"baseTimeNanoseconds\":{epoch}");
        }
        if !self.attributes.is_empty() {
            self.waiting.extend_from_slice(b",\"ccl_sql\":");
            self.waiting.append(&mut self.attributes);
            self.waiting.push(b'}');
        }
        self.waiting.extend_from_slice(b"}\n");
        self.flush()?;
        self.to.flush().map_err(|e| failed(&e))
    }
}
