//! Where things lie in an XPlane file (`XSpace`): planes, their lines, and the tables of names that
//! stand behind the lines that need them.

use std::fs::File;
use std::path::Path;

use crate::error::Result;
use crate::readers::xla::ids::{Ids, Range};
use crate::readers::xla::stats::{self, Datum, Stat, key};
use crate::readers::xla::wire::{Cursor, Field, Fields, Stop, Value, read_at, text};

/// Longest entry of a table of names, or statistic of a plane, that is read.
const MAX_ENTRY_BYTES: u64 = 512 << 20;

/// A line of a plane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub id: i64,
    pub name: String,
    /// What the offsets of its events count from.
    pub base_ns: i64,
    pub at: Range,
    /// Whether it has events.
    pub has_events: bool,
}

/// A plane.
#[derive(Debug, Default)]
pub struct Plane {
    pub name: String,
    pub lines: Vec<Line>,
    /// Entries of the table of events, in runs.
    events: Vec<Range>,
    /// Entries of the table of statistics, in runs.
    stats: Vec<Range>,
    /// Statistics of the plane itself.
    own: Vec<Range>,
}

/// The content of a file.
#[derive(Debug, Default)]
pub struct Space {
    pub planes: Vec<Plane>,
    pub hostnames: Vec<String>,
    /// Errors that the profiler reports.
    pub said: Vec<String>,
    pub fault: Option<Fault>,
}

/// The place at which the file cannot be read on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
    pub offset: u64,
}

/// An open file.
pub struct Source<'f> {
    pub file: &'f File,
    pub path: &'f Path,
    pub size: u64,
}

impl Source<'_> {
    fn bytes(&self, (from, to): Range) -> Result<Vec<u8>> {
        read_at(self.file, self.path, from, to.saturating_sub(from).min(MAX_ENTRY_BYTES) as usize)
    }

    fn cursor(&self, from: u64) -> Cursor<'_> {
        let mut cursor = Cursor::new(self.file, self.path, self.size);
        cursor.seek(from);
        cursor
    }

    fn text(&self, range: Range) -> Result<String> {
        Ok(text(&self.bytes((range.0, range.1.min(range.0 + (64 << 10))))?).into_owned())
    }

    /// Finds everything. A plane that is cut or broken is left out, and all after it.
    ///
    /// # Errors
    /// `io` when the file cannot be read.
    pub fn index(&self) -> Result<Space> {
        let mut out = Space::default();
        let mut cursor = self.cursor(0);
        loop {
            let start = cursor.place();
            match cursor.field(self.size)? {
                Ok(Field::Bytes(1, from, to)) => match self.plane((from, to))? {
                    Ok(plane) => out.planes.push(plane),
                    Err(offset) => {
                        out.fault = Some(wrong(offset));
                        return Ok(out);
                    }
                },
                Ok(Field::Bytes(2 | 3, from, to)) => {
                    if out.said.len() < 20 {
                        out.said.push(self.text((from, to))?);
                    }
                }
                Ok(Field::Bytes(4, from, to)) => {
                    if out.hostnames.len() < 20 {
                        out.hostnames.push(self.text((from, to))?);
                    }
                }
                Ok(_) => {}
                Err(Stop::End) => return Ok(out),
                Err(Stop::Short) => {
                    out.fault = Some(Fault {
                        code: "trace-truncated",
                        message: format!(
                            "the trace ends inside a plane ({} complete before it)",
                            out.planes.len()
                        ),
                        offset: start,
                    });
                    return Ok(out);
                }
                Err(Stop::Wrong) => {
                    out.fault = Some(wrong(start));
                    return Ok(out);
                }
            }
        }
    }

    /// The plane in a range; the place where it is broken.
    fn plane(&self, at: Range) -> Result<Result<Plane, u64>> {
        let mut out = Plane::default();
        let mut cursor = self.cursor(at.0);
        loop {
            let start = cursor.place();
            let field = match cursor.field(at.1)? {
                Ok(field) => field,
                Err(Stop::End) => return Ok(Ok(out)),
                Err(_) => return Ok(Err(start)),
            };
            let end = cursor.place();
            match field {
                Field::Bytes(2, from, to) => out.name = self.text((from, to))?,
                Field::Bytes(3, from, to) => match self.line((from, to))? {
                    Ok(line) => out.lines.push(line),
                    Err(offset) => return Ok(Err(offset)),
                },
                Field::Bytes(4, ..) => extend(&mut out.events, (start, end)),
                Field::Bytes(5, ..) => extend(&mut out.stats, (start, end)),
                Field::Bytes(6, ..) => extend(&mut out.own, (start, end)),
                _ => {}
            }
        }
    }

    /// The head of a line: what stands before its events. Where its name does not stand there, it
    /// is looked for behind them.
    fn line(&self, at: Range) -> Result<Result<Line, u64>> {
        let mut out = Line { at, ..Line::default() };
        let mut display = String::new();
        let mut cursor = self.cursor(at.0);
        loop {
            let start = cursor.place();
            match cursor.field(at.1)? {
                Ok(Field::Int(1, id)) => out.id = id as i64,
                Ok(Field::Int(3, base)) => out.base_ns = base as i64,
                Ok(Field::Bytes(2, from, to)) => out.name = self.text((from, to))?,
                Ok(Field::Bytes(11, from, to)) => display = self.text((from, to))?,
                Ok(Field::Bytes(4, ..)) => {
                    out.has_events = true;
                    if !out.name.is_empty() {
                        return Ok(Ok(out));
                    }
                }
                Ok(_) => {}
                Err(Stop::End) => break,
                Err(_) => return Ok(Err(start)),
            }
        }
        if out.name.is_empty() {
            out.name = display;
        }
        Ok(Ok(out))
    }

    /// The entries of a table: id and message of each. Entries that are broken are passed over; how
    /// many.
    fn entries(&self, runs: &[Range], mut each: impl FnMut(i64, &[u8])) -> Result<u64> {
        let mut broken = 0;
        for run in runs {
            let mut cursor = self.cursor(run.0);
            while let Ok(field) = cursor.field(run.1)? {
                let Field::Bytes(_, from, to) = field else { continue };
                if to - from > MAX_ENTRY_BYTES {
                    broken += 1;
                    continue;
                }
                let bytes = self.bytes((from, to))?;
                let (mut id, mut message) = (0, &[][..]);
                let mut whole = true;
                for field in Fields::new(&bytes) {
                    match field {
                        Ok((1, Value::Int(value))) => id = value as i64,
                        Ok((2, Value::Bytes(value))) => message = value,
                        Ok(_) => {}
                        Err(_) => whole = false,
                    }
                }
                if whole {
                    each(id, message);
                } else {
                    broken += 1;
                }
            }
        }
        Ok(broken)
    }

    /// The names of the statistics of a plane, and how many could not be read.
    ///
    /// # Errors
    /// `io` when the file cannot be read.
    pub fn stats(&self, plane: &Plane) -> Result<(Ids<Stat>, u64)> {
        let mut out = Ids::default();
        let broken = self.entries(&plane.stats, |id, message| {
            let mut name = String::new();
            for field in Fields::new(message).flatten() {
                if let (2, Value::Bytes(bytes)) = field {
                    name = text(bytes).into_owned();
                }
            }
            out.insert(id, Stat { key: key(&name), name: name.into() });
        })?;
        Ok((out, broken))
    }

    /// The messages of the events of a plane: each with its id.
    ///
    /// # Errors
    /// `io` when the file cannot be read.
    pub fn events(&self, plane: &Plane, each: impl FnMut(i64, &[u8])) -> Result<u64> {
        self.entries(&plane.events, each)
    }

    /// The statistics of a plane itself.
    ///
    /// # Errors
    /// `io` when the file cannot be read.
    pub fn own(
        &self,
        plane: &Plane,
        names: &Ids<Stat>,
        mut each: impl FnMut(&Stat, Datum<'_>),
    ) -> Result<()> {
        for run in &plane.own {
            let mut cursor = self.cursor(run.0);
            while let Ok(field) = cursor.field(run.1)? {
                if let Field::Bytes(_, from, to) = field
                    && to - from <= MAX_ENTRY_BYTES
                {
                    let bytes = self.bytes((from, to))?;
                    if let Some((stat, value)) = stats::of_message(&bytes, names) {
                        each(stat, value);
                    }
                }
            }
        }
        Ok(())
    }
}

fn wrong(offset: u64) -> Fault {
    Fault {
        code: "protobuf-invalid",
        message: "what stands here can be no field of a protocol buffer".to_owned(),
        offset,
    }
}

/// Adds a range to runs of neighbours.
fn extend(runs: &mut Vec<Range>, (from, to): Range) {
    match runs.last_mut() {
        Some(last) if last.1 == from => last.1 = to,
        _ => runs.push((from, to)),
    }
}
