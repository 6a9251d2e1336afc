//! Reads the Chrome form of an XLA profile (`*.trace.json`): the same events, as converters of
//! xprof and jaxlib print them.
//!
//! Two passes: names, programs and clocks first, then rows. What only the XPlane form has (HLO, the
//! time at which the profile began, properties of the devices) is not there. Traps of the format
//! (section 4 of the format notes): all arguments are text; the list ends with an empty object;
//! operations whose line time is zero are instants; digits beyond the clock's are noise.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::input::json::{self, Scanner};
use crate::input::place::{self, Opened};
use crate::input::time::micros_to_picos;
use crate::readers::contract::Reading;
use crate::readers::document::{EVENTS, Fault};
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::readers::xla::event::{Event, Meta, Said};
use crate::readers::xla::gather::{Device, Facts, Gather};
use crate::readers::xla::hlo::{Class, Op};
use crate::readers::xla::layout::{LineKind, PlaneKind, Ranks, not_too_many};
use crate::readers::xla::meetings::Meetings;
use crate::readers::xla::ops::{Seen, Sequence};
use crate::readers::xla::rows::{Context, Line, Meeting, Module, Outcome};
use crate::readers::xla::stats::{Datum, Key, key};
use crate::spool::args::Args;

/// Events after which rows are handed on.
const BATCH_EVENTS: u64 = 16_384;
/// Members of the header, at most.
const MAX_HEADER: usize = 1000;
/// Operations that are remembered by their text.
const MAX_OPERATIONS: usize = 100_000;

/// Reads the file; what it is, when it is none.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid` with the place in the unpacked file; `io` when
/// the spool cannot be written. With `keep_partial`, the complete events before the fault are kept.
pub fn read(reading: &Reading<'_>, folder: PathBuf) -> Result<(Vec<Share>, String)> {
    let mut known = Known::default();
    let mut log = Log::default();
    let (first, _) = pass(reading, &mut |element| {
        known.element(element);
        Ok(())
    })?;
    if known.late {
        // Events came before the names of their lines.
        known = Known { planes: known.planes, lines: known.lines, ..Known::default() };
        pass(reading, &mut |element| {
            known.element(element);
            Ok(())
        })?;
    }
    if let Some(fault) = first.fault {
        if !reading.keep_partial || first.elements == 0 {
            return Err(fault.error(&reading.place.display(), &EVENTS, Some(first.elements)));
        }
        log.add(Severity::Error, fault.code, Some(fault.offset), || {
            format!("{}; kept {} complete events", fault.message, first.elements)
        });
    }
    log.add(Severity::Info, "no-epoch", None, || {
        "the file does not say when the profile began; times count from there".to_owned()
    });
    log.add_many(Severity::Loss, "header-cut", first.header_cut, None, || {
        format!("more than {MAX_HEADER} members beside the events; the rest is left out")
    });
    let host_computes = known.devices.is_empty();
    let devices = match host_computes {
        true => known.host_devices.iter().map(|d| (*d, None)).collect(),
        false => known.devices.clone(),
    };
    if host_computes && !devices.is_empty() {
        log.add(Severity::Info, "hlo-missing", None, || {
            "this form of the profile has no HLO: kinds of collectives are those of their meetings, or else of their names, and sizes are not known; the .xplane.pb file of the same run has them"
                .to_owned()
        });
    }
    not_too_many(devices.len()).map_err(|e| e.at(reading.place.display()))?;
    let mut ranks = Ranks::find(&devices, &[], &BTreeMap::new(), None)
        .told(reading.said.first_rank, reading.said.rank);
    ranks.told_world(known.world, &mut log);
    for meetings in known.meetings.values_mut() {
        meetings.sort_by_key(|m| m.start_ps);
    }
    for modules in known.modules.values_mut() {
        modules.sort_by_key(|m| m.start_ps);
    }
    let context = Arc::new(Context {
        programs: Arc::default(),
        ranks,
        steps: reading.steps(),
        host_computes,
        says_root: false,
        meetings: std::mem::take(&mut known.meetings),
    });
    let mut gather = Gather::new(reading, context.clone(), folder, log)?;
    known.names(&mut gather)?;
    let mut rows = RowsOf {
        gather,
        context,
        lines: HashMap::new(),
        sequences: BTreeMap::new(),
        metas: HashMap::new(),
        modules: known.modules.into_iter().map(|(pid, m)| (pid, Arc::new(m))).collect(),
        outcome: Outcome::default(),
        since: 0,
        args: Args::default(),
    };
    let (planes, lines, shifts) = (known.planes, known.lines, known.shifts);
    let (second, sha256) =
        pass(reading, &mut |element| rows.element(element, &planes, &lines, &shifts))?;
    for (line, sequence) in std::mem::take(&mut rows.sequences).into_values() {
        let mut found = Vec::new();
        sequence.finish(&mut found);
        rows.outcome.operations(&rows.context, &line, found);
    }
    rows.gather.accept(&mut rows.outcome)?;
    for (key, value) in &second.header {
        rows.gather.metadata(None, key, value)?;
    }
    let facts = Facts {
        devices: devices.keys().map(|d| (*d, Device::default())).collect(),
        bytes: second.bytes,
        ..Facts::default()
    };
    Ok((rows.gather.finish(&facts)?, sha256))
}

/// What a pass over the file found beside its events.
#[derive(Default)]
struct Pass {
    elements: u64,
    header: Vec<(String, String)>,
    /// Members of the header that are left out.
    header_cut: u64,
    bytes: u64,
    fault: Option<Fault>,
}

/// Counts the bytes that are taken.
struct Counting<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + n as u64);
        Ok(n)
    }
}

/// An element of the list of events: its number and its members.
struct Element<'a> {
    number: u64,
    phase: &'a str,
    name: std::borrow::Cow<'a, str>,
    pid: Option<i64>,
    tid: Option<i64>,
    ts: Option<i128>,
    dur: Option<i128>,
    said: Vec<Said<'a>>,
}

type Each<'e> = dyn FnMut(&Element<'_>) -> Result<()> + 'e;

/// Walks over the file.
fn pass(reading: &Reading<'_>, each: &mut Each<'_>) -> Result<(Pass, String)> {
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let taken = Rc::new(Cell::new(0));
    let mut out = Pass::default();
    let reader =
        Counting { inner: BufReader::with_capacity(256 << 10, reader), taken: taken.clone() };
    let mut failed = None;
    let mut scanner = Scanner::default();
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let top = Top { out: &mut out, each, failed: &mut failed, scanner: &mut scanner };
    let outcome = top.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    drop(deserializer);
    if let Some(error) = failed {
        return Err(error);
    }
    if let Err(error) = outcome {
        use serde_json::error::Category;
        let (code, message) = match error.classify() {
            Category::Eof => ("trace-truncated", "the trace ends inside an event".to_owned()),
            Category::Io if error.io_error_kind() == Some(std::io::ErrorKind::UnexpectedEof) => {
                ("trace-truncated", "the compressed file ends early".to_owned())
            }
            Category::Io => ("gzip-broken", format!("the file cannot be read on: {error}")),
            _ => ("json-invalid", format!("what stands here is no JSON: {error}")),
        };
        out.fault = Some(Fault { code, message, offset: taken.get() });
    }
    out.bytes = taken.get();
    Ok((out, file.sha256(&reading.place.file)?))
}

struct Top<'p, 'e> {
    out: &'p mut Pass,
    each: &'p mut Each<'e>,
    failed: &'p mut Option<Error>,
    scanner: &'p mut Scanner,
}

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with `traceEvents`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events {
                    out: &mut *self.out,
                    each: &mut *self.each,
                    failed: &mut *self.failed,
                    scanner: &mut *self.scanner,
                })?;
            } else if self.out.header.len() < MAX_HEADER {
                let value: Box<RawValue> = map.next_value()?;
                let text =
                    json::text(value.get()).map_or(value.get().to_owned(), |t| t.into_owned());
                self.out.header.push((key, text));
            } else {
                map.next_value::<IgnoredAny>()?;
                self.out.header_cut += 1;
            }
        }
        Ok(())
    }
}

struct Events<'p, 'e> {
    out: &'p mut Pass,
    each: &'p mut Each<'e>,
    failed: &'p mut Option<Error>,
    scanner: &'p mut Scanner,
}

impl<'de> DeserializeSeed<'de> for Events<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(text) = seq.next_element::<Box<RawValue>>()? {
            let element = element_of(text.get(), self.out.elements, self.scanner);
            self.out.elements += 1;
            if let Some(element) = element
                && let Err(error) = (self.each)(&element)
            {
                *self.failed = Some(error);
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

/// The members of an element; None for what is no event (the last one is an empty object).
fn element_of<'a>(text: &'a str, number: u64, scanner: &mut Scanner) -> Option<Element<'a>> {
    let mut out = Element {
        number,
        phase: "",
        name: "".into(),
        pid: None,
        tid: None,
        ts: None,
        dur: None,
        said: Vec::new(),
    };
    let mut arguments = None;
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let mut others = Vec::new();
    let members = scanner.members(bytes, 0, |scanner, key, from| {
        let to = scanner.skip(bytes, from)?;
        let value = &text[from..to];
        match &text[key.clone()] {
            "ph" => out.phase = value.trim_matches('"'),
            "name" => out.name = json::text(value).unwrap_or(value.into()),
            "pid" => out.pid = json::integer(value),
            "tid" => out.tid = json::integer(value),
            "ts" => out.ts = micros_to_picos(value.as_bytes()),
            "dur" => out.dur = micros_to_picos(value.as_bytes()),
            "args" => arguments = Some(value),
            _ => others.push((key, value)),
        }
        Ok(to)
    });
    members.ok()?;
    if out.phase.is_empty() {
        return None;
    }
    if let Some(arguments) = arguments.filter(|a| a.starts_with('{')) {
        let bytes = arguments.as_bytes();
        let said = &mut out.said;
        // It was skipped already: it is strict.
        let _ = scanner.members(bytes, 0, |scanner, name, from| {
            let to = scanner.skip(bytes, from)?;
            let (name, value) = (&arguments[name], &arguments[from..to]);
            said.push(Said { key: key(name), name, value: datum(value) });
            Ok(to)
        });
    }
    for (name, value) in others {
        // Members of the event itself that have no meaning here.
        let name = match &text[name] {
            "s" => "$s",
            "cat" => "$cat",
            "id" => "$id",
            "cname" => "$cname",
            "tts" => "$tts",
            "tdur" => "$tdur",
            other => other,
        };
        out.said.push(Said { key: Key::Other, name, value: datum(value) });
    }
    Some(out)
}

fn datum(raw: &str) -> Datum<'_> {
    if let Some(text) = json::text(raw) {
        return Datum::Text(text);
    }
    match (raw.parse::<i64>(), raw.parse::<f64>()) {
        (Ok(value), _) => Datum::Int(value),
        (_, Ok(value)) => Datum::Double(value),
        _ => Datum::Text(raw.into()),
    }
}

impl<'a> Element<'a> {
    /// As an event; None without a time.
    fn event<'s>(&'s self) -> Option<Event<'s>> {
        let dur = match self.phase {
            // What takes no time.
            "i" | "I" => Some(0),
            _ => self.dur,
        };
        Some(Event {
            place: self.number,
            name: std::borrow::Cow::Borrowed(&self.name),
            meta: None,
            start_ps: self.ts?,
            dur_ps: dur.and_then(|d| i64::try_from(d).ok()).filter(|d| *d >= 0),
            said: &self.said,
        })
    }

    fn is_event(&self) -> bool {
        matches!(self.phase, "X" | "i" | "I")
    }

    /// What the device does, by the text that stands with every event.
    fn op(event: &Event<'_>) -> Op {
        Op::of_text(event.text(Key::LongName), event.text(Key::HloCategory))
    }
}

/// What is known after the first pass.
#[derive(Default)]
struct Known {
    planes: BTreeMap<i64, (PlaneKind, String)>,
    lines: BTreeMap<(i64, i64), String>,
    /// Whether a name came after an event that needs it.
    late: bool,
    seen: BTreeSet<(i64, i64)>,
    /// Accelerators with events.
    devices: BTreeMap<i64, Option<i64>>,
    /// Devices whose work the host did.
    host_devices: BTreeSet<i64>,
    modules: BTreeMap<i64, Vec<Module>>,
    /// The place in each line of operations; and whether it is by a collective.
    shifts: BTreeMap<(i64, i64), (i128, bool)>,
    meetings: HashMap<i64, Vec<Meeting>>,
    calls: Meetings,
    /// Whether an operation communicates, by its text and category.
    operations: HashMap<String, bool>,
    /// Devices that groups name.
    world: Option<i64>,
}

impl Known {
    /// Writes the names of processes and threads.
    fn names(&self, gather: &mut Gather<'_>) -> Result<()> {
        for (pid, (kind, name)) in &self.planes {
            let device = match kind {
                PlaneKind::Device(device) => Some(*device),
                _ => None,
            };
            gather.metadata(device, &format!("process_name:{pid}"), name)?;
        }
        for ((pid, tid), name) in &self.lines {
            let device = match self.planes.get(pid) {
                Some((PlaneKind::Device(device), _)) => Some(*device),
                _ => None,
            };
            gather.metadata(device, &format!("thread_name:{pid}:{tid}"), name)?;
        }
        Ok(())
    }

    fn element(&mut self, element: &Element<'_>) {
        let (Some(pid), tid) = (element.pid, element.tid.unwrap_or(0)) else { return };
        if element.phase == "M" {
            let Some(Datum::Text(name)) =
                element.said.iter().find(|s| s.key == Key::Name).map(|s| &s.value)
            else {
                return;
            };
            match &*element.name {
                "process_name" => {
                    self.late |=
                        self.seen.range((pid, i64::MIN)..=(pid, i64::MAX)).next().is_some();
                    self.planes.insert(pid, (PlaneKind::of(name), name.to_string()));
                }
                "thread_name" => {
                    self.late |= self.seen.contains(&(pid, tid));
                    self.lines.insert((pid, tid), name.to_string());
                }
                _ => {}
            }
            return;
        }
        let Some(event) = element.event().filter(|_| element.is_event()) else { return };
        self.seen.insert((pid, tid));
        let plane = self.planes.get(&pid).map_or(PlaneKind::Other, |p| p.0);
        let name = self.lines.get(&(pid, tid)).map_or("", String::as_str);
        match (plane, LineKind::of(plane, name)) {
            (PlaneKind::Device(device), kind) => {
                self.devices.insert(device, None);
                match kind {
                    LineKind::Modules => self.modules.entry(pid).or_default().push(Module {
                        start_ps: event.start_ps,
                        end_ps: event.start_ps + i128::from(event.dur_ps.unwrap_or(0)),
                        run: event.int(Key::Run),
                        name: Arc::from(&*event.name),
                    }),
                    LineKind::Ops => self.operation((pid, tid), &event),
                    _ => {}
                }
            }
            (PlaneKind::Host, _) => {
                if event.get(Key::HloOp).is_some() {
                    self.host_devices.insert(event.int(Key::Device).unwrap_or(0));
                }
                if let Some(meeting) = self.calls.of(&event) {
                    self.groups(&meeting.call);
                    self.meetings.entry(tid).or_default().push(meeting);
                }
            }
            _ => {}
        }
    }

    fn operation(&mut self, line: (i64, i64), event: &Event<'_>) {
        // Each text once: an operation has many events.
        let (text, category) = (event.text(Key::LongName), event.text(Key::HloCategory));
        let key = [text.unwrap_or_default(), category.unwrap_or_default()].join("\0");
        let is_comm = match self.operations.get(&key) {
            Some(is_comm) => *is_comm,
            None => {
                let op = Element::op(event);
                self.groups(&op);
                let is_comm = op.class == Class::Comm;
                if self.operations.len() < MAX_OPERATIONS {
                    self.operations.insert(key, is_comm);
                }
                is_comm
            }
        };
        let Some(offset) = event.int(Key::DeviceOffset) else { return };
        let known = self.shifts.get(&line).copied();
        if known.is_none_or(|(_, by_comm)| is_comm && !by_comm) {
            self.shifts.insert(line, (event.start_ps - i128::from(offset), is_comm));
        }
    }

    fn groups(&mut self, op: &Op) {
        self.world = self.world.max(op.devices());
    }
}

/// Makes the rows.
struct RowsOf<'a> {
    gather: Gather<'a>,
    context: Arc<Context>,
    lines: HashMap<(i64, i64), Arc<Line>>,
    sequences: BTreeMap<(i64, i64), (Arc<Line>, Sequence)>,
    /// Operations by name, text and category.
    metas: HashMap<String, Arc<Meta>>,
    modules: HashMap<i64, Arc<Vec<Module>>>,
    outcome: Outcome,
    since: u64,
    args: Args,
}

impl RowsOf<'_> {
    fn element(
        &mut self,
        element: &Element<'_>,
        planes: &BTreeMap<i64, (PlaneKind, String)>,
        lines: &BTreeMap<(i64, i64), String>,
        shifts: &BTreeMap<(i64, i64), (i128, bool)>,
    ) -> Result<()> {
        if element.phase == "M" {
            return Ok(());
        }
        let key = (element.pid.unwrap_or(0), element.tid.unwrap_or(0));
        let Some(event) = element.event().filter(|_| element.is_event()) else {
            self.outcome.skipped += 1;
            self.outcome.log.add(Severity::Loss, "event-broken", Some(element.number), || {
                "elements that are no slice and no instant, or have no time; left out".to_owned()
            });
            return Ok(());
        };
        if event.dur_ps.is_none() && element.dur.is_some() {
            self.outcome.log.add(Severity::Loss, "dur-invalid", Some(element.number), || {
                "events whose duration is negative, or longer than any clock runs; it is not known".to_owned()
            });
        }
        let line = self.lines.entry(key).or_insert_with(|| {
            let plane = planes.get(&key.0).map_or(PlaneKind::Other, |p| p.0);
            let name = lines.get(&key).cloned().unwrap_or_default();
            Arc::new(Line {
                kind: LineKind::of(plane, &name),
                device: match plane {
                    PlaneKind::Device(device) => Some(device),
                    _ => None,
                },
                id: key.1,
                name,
                pid: Some(key.0),
                shift_ps: shifts.get(&key).map_or(0, |s| s.0),
                modules: self.modules.get(&key.0).cloned().unwrap_or_default(),
            })
        });
        let line = line.clone();
        if line.kind == LineKind::Ops {
            let meta = self.meta(&event);
            let seen = Seen::of(&event, &meta, line.shift_ps, &mut self.args);
            let (_, sequence) =
                self.sequences.entry(key).or_insert_with(|| (line.clone(), Sequence::default()));
            let mut found = Vec::new();
            sequence.take(vec![seen], &mut found);
            self.outcome.operations(&self.context, &line, found);
        } else {
            self.outcome.event(&self.context, &line, &event);
        }
        self.since += 1;
        if self.since == BATCH_EVENTS {
            self.since = 0;
            self.gather.accept(&mut self.outcome)?;
        }
        Ok(())
    }

    fn meta(&mut self, event: &Event<'_>) -> Arc<Meta> {
        let (text, category) = (event.text(Key::LongName), event.text(Key::HloCategory));
        let key = [&event.name, text.unwrap_or_default(), category.unwrap_or_default()].join("\0");
        if let Some(meta) = self.metas.get(&key) {
            return meta.clone();
        }
        let meta = Arc::new(Meta {
            id: 0,
            name: Box::from(&*event.name),
            op: Arc::new(Element::op(event)),
            category: category.map(Box::from),
            said: Vec::new(),
            has_row: false,
            step: None,
        });
        if self.metas.len() < MAX_OPERATIONS {
            self.metas.insert(key, meta.clone());
        }
        meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_elements() {
        let mut scanner = Scanner::default();
        let text = r#"{"ph":"i","s":"t","pid":3,"tid":3827304152,"ts":1.5,"name":"a\"b",
            "args":{"device_offset_ps":"5438997127500","x":7}}"#;
        let element = element_of(text, 4, &mut scanner).expect("it is an event");
        assert_eq!(
            (&*element.name, element.pid, element.tid),
            ("a\"b", Some(3), Some(3_827_304_152))
        );
        let event = element.event().expect("it has a time");
        assert_eq!((event.start_ps, event.dur_ps), (1_500_000, Some(0)));
        assert_eq!(event.int(Key::DeviceOffset), Some(5_438_997_127_500));
        assert_eq!(event.said.len(), 3);
        assert!(element_of("{}", 0, &mut scanner).is_none());
        assert!(element_of("[1]", 0, &mut scanner).is_none());
        let timeless = element_of(r#"{"ph":"X","name":"a"}"#, 0, &mut scanner);
        assert!(timeless.expect("it is an event").event().is_none());
    }
}
