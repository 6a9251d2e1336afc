//! Reads an XPlane file (`XSpace`): what it says of devices and programs first, then the events of
//! its lines, a megabyte at a time, on all threads.
//!
//! Traps of the format (section numbers of the format notes): names stand behind the lines that
//! need them (1); a device may have two clocks (3); ids of devices and modules mean other things in
//! other planes (1, 6).

mod segments;
mod space;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, io};
use crate::pool::lock;
use crate::readers::contract::Reading;
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::readers::xla::event::{Event, Meta};
use crate::readers::xla::gather::{Device, Facts, Gather};
use crate::readers::xla::hlo::{Class, Programs};
use crate::readers::xla::ids::Ids;
use crate::readers::xla::layout::{LineKind, PlaneKind, Ranks, not_too_many};
use crate::readers::xla::meetings::Meetings;
use crate::readers::xla::rows::{self, Context, Line, Module};
use crate::readers::xla::stats::{Datum, Key, Stat, of_message};
use crate::readers::xla::wire::{self, Fields, Value, read_at};
use crate::readers::xla::xplane::segments::{
    Chunks, Flow, Names, Segment, event_of, messages, rows_of, says_any,
};
use crate::readers::xla::xplane::space::{Fault, Plane, Source, Space};
use crate::spool::args::Args;

/// Times of lines from here on are epoch times already.
const ABSOLUTE_FROM_NS: i64 = 100_000_000_000_000_000;

/// Reads the file at `path`; what it is, when it is none. `cut` says why it is not all of the
/// source.
///
/// # Errors
/// `trace-truncated`, `protobuf-invalid` with the place in the unpacked file; `io` when something
/// cannot be read or written. With `keep_partial`, the planes before the fault are kept.
pub fn read(
    reading: &Reading<'_>,
    path: &Path,
    cut: Option<Error>,
    folder: PathBuf,
) -> Result<Result<Vec<Share>, String>> {
    let file = File::open(path).map_err(|e| io(path, &e))?;
    let size = file.metadata().map_err(|e| io(path, &e))?.len();
    let source = Source { file: &file, path, size };
    let head = read_at(&file, path, 0, 1)?;
    if head.first().is_some_and(|first| ![0x0a, 0x12, 0x1a, 0x22].contains(first)) {
        return Ok(Err("it is named like an XPlane file, and holds no XSpace".to_owned()));
    }
    let space = source.index()?;
    let mut log = Log::default();
    let empty =
        Fault { code: "trace-truncated", message: "the file is empty".to_owned(), offset: 0 };
    if let Some(fault) = space.fault.clone().or((size == 0).then_some(empty)) {
        let place = reading.place.display();
        if let Some(message) = taken_for_text(&source)? {
            return Err(Error::new("protobuf-invalid", message).at(place).hint(
                "copy the file again as binary, or ingest the .trace.json.gz file of the same run by its name",
            ));
        }
        let error =
            Error::new(fault.code, fault.message).at(format!("{place}, byte {}", fault.offset));
        if !reading.keep_partial || space.planes.is_empty() {
            return Err(error.hint(if space.planes.is_empty() {
                "export the trace again"
            } else {
                "export the trace again, or keep the complete planes with --keep-partial"
            }));
        }
        let lost = size - fault.offset.min(size);
        log.add(Severity::Error, error.code, Some(fault.offset), || {
            format!("{}; lost the {lost} bytes from there", error.message)
        });
    }
    if let Some(error) = cut {
        if space.planes.is_empty() {
            return Err(error);
        }
        log.add(Severity::Error, error.code, None, || {
            format!("{}; the complete planes before were kept", error.message)
        });
    }
    for said in &space.said {
        log.say(Severity::Info, "profiler-says", 1, said.chars().take(500).collect());
    }
    Reader { reading, source, space, log, folder }.run().map(Ok)
}

/// What is wrong with a file as a whole, as far as its planes tell it; None where nothing is.
///
/// # Errors
/// `io` when it cannot be read.
pub fn fault(path: &Path) -> Result<Option<String>> {
    let file = File::open(path).map_err(|e| io(path, &e))?;
    let size = file.metadata().map_err(|e| io(path, &e))?.len();
    let source = Source { file: &file, path, size };
    if size == 0 {
        return Ok(Some("the file is empty".to_owned()));
    }
    let Some(fault) = source.index()?.fault else { return Ok(None) };
    Ok(Some(match taken_for_text(&source)? {
        Some(message) => message,
        None => format!("{} (byte {})", fault.message, fault.offset),
    }))
}

/// What happened to a file that was read as text and written again: what was no UTF-8 became
/// U+FFFD. Such a file is UTF-8 throughout, and a sound one is not. None for any other.
fn taken_for_text(source: &Source<'_>) -> Result<Option<String>> {
    const BLOCK: usize = 1 << 20;
    let (mut rest, mut from, mut replaced) = (Vec::new(), 0, 0);
    loop {
        let block = read_at(source.file, source.path, from, BLOCK)?;
        if block.is_empty() {
            break;
        }
        from += block.len() as u64;
        rest.extend(block);
        let whole = match std::str::from_utf8(&rest) {
            Ok(text) => text.len(),
            // The block ends inside a character.
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Err(_) => return Ok(None),
        };
        replaced += memchr::memmem::find_iter(&rest[..whole], "\u{FFFD}").count();
        rest.drain(..whole);
    }
    Ok((replaced > 0).then(|| {
        format!(
            "the file was taken for text: {replaced} times U+FFFD stands where there were bytes, which are lost"
        )
    }))
}

struct Reader<'a> {
    reading: &'a Reading<'a>,
    source: Source<'a>,
    space: Space,
    log: Log,
    folder: PathBuf,
}

/// What is known before the events are read.
#[derive(Default)]
struct Known {
    facts: Facts,
    /// When the profile began.
    epoch_ns: i64,
    programs: Programs,
    /// Rows of `metadata`, of a device or of the file.
    metadata: Vec<(Option<i64>, String, String)>,
    /// Devices that compute, with their numbers in the job.
    devices: BTreeMap<i64, Option<i64>>,
    /// Cores of a TPU, by device.
    cores: BTreeMap<i64, Core>,
    /// Accelerators of the host.
    local: i64,
}

impl Reader<'_> {
    fn run(mut self) -> Result<Vec<Share>> {
        let mut known = self.known()?;
        let host = self.host(&mut known)?;
        not_too_many(known.devices.len()).map_err(|e| e.at(self.reading.place.display()))?;
        let assigned: Vec<Vec<i64>> = known.programs.devices().map(<[i64]>::to_vec).collect();
        let local = (known.local > 0).then_some(known.local);
        let mut ranks = Ranks::find(&known.devices, &assigned, &host.partitions, local)
            .told(self.reading.said.first_rank, self.reading.said.rank);
        if known.programs.is_empty() {
            ranks.told_world(self.named(host.named)?, &mut self.log);
            if host.computes && !known.devices.is_empty() {
                self.log.add(Severity::Info, "hlo-missing", None, || {
                    "the file has no HLO: kinds of collectives are those of their meetings, or else of their names, and sizes are not known".to_owned()
                });
            }
        }
        let context = Arc::new(Context {
            programs: Arc::new(std::mem::take(&mut known.programs)),
            ranks,
            steps: self.reading.steps(),
            host_computes: known.local == 0 || known.devices.is_empty() || host.computes,
            says_root: true,
            meetings: host.meetings,
        });
        let log = std::mem::take(&mut self.log);
        let mut gather = Gather::new(self.reading, context.clone(), self.folder.clone(), log)?;
        for (device, key, value) in std::mem::take(&mut known.metadata) {
            gather.metadata(device, &key, &value)?;
        }
        let planes = std::mem::take(&mut self.space.planes);
        let mut flow = Flow { flying: VecDeque::new(), sequence: None, context: context.clone() };
        for plane in &planes {
            let kind = PlaneKind::of(&plane.name);
            if !matches!(kind, PlaneKind::Metadata | PlaneKind::Environment) {
                self.plane(plane, kind, &known, &context, &mut gather, &mut flow)?;
            }
        }
        while !flow.flying.is_empty() {
            flow.accept(self.reading, &mut gather)?;
        }
        flow.finish_line(&mut gather)?;
        known.facts.bytes = self.source.size;
        gather.finish(&known.facts)
    }

    /// What planes say of themselves, and the programs.
    fn known(&mut self) -> Result<Known> {
        let mut known = Known::default();
        let mut has_epoch = false;
        known.facts.host = self.space.hostnames.iter().find(|h| !h.is_empty()).cloned();
        for plane in &self.space.planes {
            let kind = PlaneKind::of(&plane.name);
            let (names, _) = self.source.stats(plane)?;
            let device = match kind {
                PlaneKind::Device(device) => Some(device),
                _ => None,
            };
            let mut core = None;
            let mut says = Device::default();
            let (facts, metadata, epoch) =
                (&mut known.facts, &mut known.metadata, &mut known.epoch_ns);
            self.source.own(plane, &names, |stat, value| {
                match (&*stat.name, kind) {
                    ("profile_start_time", PlaneKind::Environment) => {
                        if let Some(ns) = value.count().filter(|ns| *ns > 0) {
                            (*epoch, has_epoch) = (ns, true);
                        }
                    }
                    ("process_id", _) => facts.pid = facts.pid.or(value.count()),
                    ("device_type_string" | "device_vendor", PlaneKind::Device(_)) => {
                        says.name = value.clone().text().map(|t| t.into_owned());
                    }
                    ("core_count", PlaneKind::Device(_)) => says.cores = value.count(),
                    ("memory_size", PlaneKind::Device(_)) => says.memory_bytes = value.count(),
                    ("compute_cap_major", PlaneKind::Device(_)) => {
                        says.capability.0 = value.count();
                    }
                    ("compute_cap_minor", PlaneKind::Device(_)) => {
                        says.capability.1 = value.count();
                    }
                    ("core_details", PlaneKind::Device(_)) => {
                        if let Datum::Bytes(bytes) = value {
                            core = Core::of(bytes);
                        }
                    }
                    _ => {}
                }
                let text = value.plain();
                metadata.push((device, format!("{}:{}", plane.name, stat.name), text));
            })?;
            if let Some(device) = device {
                let of = known.facts.devices.entry(device).or_default();
                *of = Device {
                    name: says.name.or(of.name.take()),
                    cores: says.cores.or(of.cores),
                    memory_bytes: says.memory_bytes.or(of.memory_bytes),
                    capability: (
                        says.capability.0.or(of.capability.0),
                        says.capability.1.or(of.capability.1),
                    ),
                };
                known.local = known.local.max(device + 1);
                if plane.lines.iter().any(|l| l.has_events) {
                    known.devices.entry(device).or_default();
                    known.cores.extend(core.map(|core| (device, core)));
                }
            }
            if kind == PlaneKind::Metadata {
                programs(&self.source, plane, &names, &mut known, &mut self.log)?;
            }
        }
        // A chip is one device, unless each of its cores is.
        let by_core = known.cores.values().any(|core| core.of_chip != 0);
        for (device, core) in &known.cores {
            let global = if by_core { core.of_job } else { core.chip };
            known.devices.insert(*device, Some(global));
        }
        if has_epoch {
            known.facts.base_ns = Some(known.epoch_ns);
        } else {
            self.log.add(Severity::Info, "no-epoch", None, || {
                "the file does not say when the profile began; times count from there".to_owned()
            });
        }
        Ok(known)
    }

    /// What the host says before its events are rows: who computes on it, which rank a device of it
    /// runs, and who met whom.
    fn host(&self, known: &mut Known) -> Result<HostFacts> {
        let mut out = HostFacts::default();
        let mut known_meetings = Meetings::default();
        let world = known.programs.devices().map(<[i64]>::len).max().unwrap_or(0);
        out.computes = known.devices.is_empty();
        if !out.computes && world as i64 <= known.local {
            return Ok(out);
        }
        for plane in &self.space.planes {
            if PlaneKind::of(&plane.name) != PlaneKind::Host {
                continue;
            }
            let names = self.names(plane, &Programs::default(), |_, _| Ok(()))?;
            // Who met whom is of use where no HLO says it.
            let meets = known.programs.is_empty();
            let wanted = |key| {
                matches!(key, Key::HloOp | Key::Partition) || meets && matches!(key, Key::Name)
            };
            let wanted: Vec<i64> =
                names.stats.ids().filter(|(_, s)| wanted(s.key)).map(|(id, _)| id).collect();
            for line in &plane.lines {
                let mut meetings = Vec::new();
                let base_ps = known.base_ps(line);
                let look = |message: &[u8]| says_any(message, &wanted);
                self.each_event(line, &names, base_ps, look, |event| {
                    out.event(event);
                    if meets && let Some(meeting) = known_meetings.of(event) {
                        out.named = out.named.max(meeting.call.devices());
                        meetings.push(meeting);
                    }
                    true
                })?;
                meetings.sort_by_key(|m: &rows::Meeting| m.start_ps);
                if !meetings.is_empty() {
                    out.meetings.insert(line.id, meetings);
                }
            }
        }
        if out.computes {
            known.devices = out.devices.iter().map(|d| (*d, None)).collect();
        }
        Ok(out)
    }

    /// How many devices groups name: those of the host, and those in the texts of operations.
    fn named(&self, of_host: Option<i64>) -> Result<Option<i64>> {
        let mut out = of_host;
        for plane in &self.space.planes {
            if matches!(PlaneKind::of(&plane.name), PlaneKind::Device(_)) {
                let names = self.names(plane, &Programs::default(), |_, _| Ok(()))?;
                out = out.max(names.metas.values().filter_map(|m| m.op.devices()).max());
            }
        }
        Ok(out)
    }

    /// The names of a plane; `each` is told the arguments that stand once for all events of an
    /// operation.
    fn names(
        &self,
        plane: &Plane,
        programs: &Programs,
        mut each: impl FnMut(&Meta, &str) -> Result<()>,
    ) -> Result<Names> {
        let (stats, broken) = self.source.stats(plane)?;
        let mut metas = Ids::default();
        let mut args = Args::default();
        let patterns = self.reading.steps();
        let mut failed = None;
        let more = self.source.events(plane, |id, message| {
            args.clear();
            let meta = Meta::of_message(id, message, &stats, programs, &patterns, &mut args);
            if meta.has_row {
                // Already closed when it is looked at.
                let text = meta_json(message, &mut args, &stats);
                if let Err(e) = each(&meta, &text) {
                    failed.get_or_insert(e);
                }
            }
            metas.insert(id, Arc::new(meta));
        })?;
        match failed {
            Some(e) => Err(e),
            None => Ok(Names { stats, metas, broken: broken + more }),
        }
    }

    /// Hands the events of a line at whose messages `look` says yes to `each`, until that says that
    /// it has seen enough.
    fn each_event(
        &self,
        line: &space::Line,
        names: &Names,
        base_ps: i128,
        look: impl Fn(&[u8]) -> bool,
        mut each: impl FnMut(&Event<'_>) -> bool,
    ) -> Result<()> {
        let mut chunks = Chunks::new(&self.source, line);
        while let Some((bytes, offset)) = chunks.next()? {
            let mut said = Vec::new();
            for (place, message) in messages(&bytes, offset) {
                if look(message)
                    && let Some(event) = event_of(message, place, names, base_ps, &mut said)
                    && !each(&event)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn plane(
        &self,
        plane: &Plane,
        kind: PlaneKind,
        known: &Known,
        context: &Arc<Context>,
        gather: &mut Gather<'_>,
        flow: &mut Flow,
    ) -> Result<()> {
        if !plane.lines.iter().any(|l| l.has_events) {
            return Ok(());
        }
        let device = match kind {
            PlaneKind::Device(device) => Some(device),
            _ => None,
        };
        let names = self.names(plane, &context.programs, |meta, text| {
            let key = format!("event_metadata:{}:{}", plane.name, meta.id);
            gather.metadata(device, &key, text)
        })?;
        gather.log.add_many(Severity::Loss, "names-broken", names.broken, None, || {
            "entries of the tables of names that cannot be read or are too large; what they name has no name".to_owned()
        });
        let names = Arc::new(names);
        let modules = Arc::new(self.modules(plane, kind, &names, known)?);
        for line in plane.lines.iter().filter(|l| l.has_events) {
            let line_kind = LineKind::of(kind, &line.name);
            let base_ps = known.base_ps(line);
            let mut of = Line {
                kind: line_kind,
                device,
                id: line.id,
                name: line.name.clone(),
                pid: known.facts.pid,
                shift_ps: 0,
                modules: modules.clone(),
            };
            if line_kind == LineKind::Host {
                let key = format!("thread_name:{}:{}", known.facts.pid.unwrap_or(0), line.id);
                gather.metadata(None, &key, &line.name)?;
            }
            if line_kind == LineKind::Ops {
                of.shift_ps = self.shift(line, &names, base_ps)?;
            }
            let line_of = Arc::new(of);
            let mut chunks = Chunks::new(&self.source, line);
            while let Some((bytes, offset)) = chunks.next()? {
                let segment = Arc::new(Segment {
                    bytes,
                    offset,
                    names: names.clone(),
                    line: line_of.clone(),
                    base_ps,
                    outcome: Mutex::new(None),
                });
                let (task, context) = (segment.clone(), context.clone());
                self.reading.pool.submit(move || {
                    let rows = rows_of(&task, &context);
                    *lock(&task.outcome) = Some(rows);
                });
                flow.flying.push_back(segment);
                while flow.flying.len() > self.reading.pool.threads() {
                    flow.accept(self.reading, gather)?;
                }
            }
            if let Some(fault) = chunks.fault {
                gather.log.add(Severity::Loss, "line-broken", Some(fault), || {
                    "lines whose events cannot be told apart from some place on; the rest of them was left out"
                        .to_owned()
                });
            }
        }
        Ok(())
    }

    /// The programs that ran on a core, by their starts.
    fn modules(
        &self,
        plane: &Plane,
        kind: PlaneKind,
        names: &Names,
        known: &Known,
    ) -> Result<Vec<Module>> {
        let mut out = Vec::new();
        let mut shared: HashMap<String, Arc<str>> = HashMap::new();
        for line in &plane.lines {
            if LineKind::of(kind, &line.name) != LineKind::Modules {
                continue;
            }
            self.each_event(
                line,
                names,
                known.base_ps(line),
                |_| true,
                |event| {
                    let name = shared
                        .entry(event.name.to_string())
                        .or_insert_with(|| Arc::from(&*event.name))
                        .clone();
                    out.push(Module {
                        start_ps: event.start_ps,
                        end_ps: event.start_ps + i128::from(event.dur_ps.unwrap_or(0)),
                        run: event.int(Key::Run),
                        name,
                    });
                    true
                },
            )?;
        }
        out.sort_by_key(|m| m.start_ps);
        Ok(out)
    }

    /// What times of the chip are moved by to be on the clock of the line: one number, by its first
    /// collective, because the profiler shifts each operation by another one.
    fn shift(&self, line: &space::Line, names: &Names, base_ps: i128) -> Result<i128> {
        let communicates = names.metas.values().any(|m| m.op.class == Class::Comm);
        let mut shift = None;
        self.each_event(
            line,
            names,
            base_ps,
            |_| true,
            |event| {
                let Some(offset) = event.int(Key::DeviceOffset) else { return true };
                let is_comm = event.meta.is_some_and(|m| m.op.class == Class::Comm);
                if shift.is_none() || is_comm {
                    shift = Some(event.start_ps - i128::from(offset));
                }
                communicates && !is_comm
            },
        )?;
        Ok(shift.unwrap_or(0))
    }
}

impl Known {
    /// What offsets of a line count from, in picoseconds.
    fn base_ps(&self, line: &space::Line) -> i128 {
        let epoch = if line.base_ns < ABSOLUTE_FROM_NS { self.epoch_ns } else { 0 };
        (i128::from(epoch) + i128::from(line.base_ns)) * 1000
    }
}

/// What the host says before its events are rows.
#[derive(Default)]
struct HostFacts {
    computes: bool,
    devices: BTreeSet<i64>,
    /// Rank that a device of this host runs.
    partitions: BTreeMap<i64, i64>,
    meetings: HashMap<i64, Vec<rows::Meeting>>,
    /// Devices that those who met name.
    named: Option<i64>,
}

impl HostFacts {
    fn event(&mut self, event: &Event<'_>) {
        if self.computes && event.get(Key::HloOp).is_some() {
            self.devices.insert(event.int(Key::Device).unwrap_or(0));
        }
        // `[3] CommonPjRtLoadedExecutable::Execute (...)`: device 3 of this host.
        if let (Some(partition), Some(replica)) =
            (event.int(Key::Partition), event.int(Key::Replica))
            && replica == 0
            && let Some((local, _)) = event.name.strip_prefix('[').and_then(|n| n.split_once(']'))
            && let Ok(local) = local.parse()
            && !self.computes
        {
            self.partitions.insert(local, partition);
        }
    }
}

/// The modules of a plane of HLO.
fn programs(
    source: &Source<'_>,
    plane: &Plane,
    names: &Ids<Stat>,
    known: &mut Known,
    log: &mut Log,
) -> Result<()> {
    let mut unreadable = 0;
    let (programs, metadata) = (&mut known.programs, &mut known.metadata);
    source.events(plane, |_, message| {
        let mut name = String::new();
        let mut module = None;
        for field in Fields::new(message).flatten() {
            match field {
                (2, Value::Bytes(bytes)) => name = wire::text(bytes).into_owned(),
                (5, Value::Bytes(bytes)) => {
                    if let Some((stat, Datum::Bytes(bytes))) = of_message(bytes, names)
                        && stat.key == Key::HloProto
                    {
                        module = Some(bytes);
                    }
                }
                _ => {}
            }
        }
        let Some(bytes) = module else { return };
        match programs.add(bytes) {
            Some((id, program)) => {
                let value = serde_json::json!({
                    "program_id": id,
                    "bytes": bytes.len(),
                    "instructions": program.instructions,
                    "devices": program.devices.len(),
                });
                metadata.push((None, format!("hlo_module:{name}"), value.to_string()));
            }
            None => unreadable += 1,
        }
    })?;
    log.add_many(Severity::Loss, "hlo-unreadable", unreadable, None, || {
        "modules whose HLO cannot be read: their collectives are not known".to_owned()
    });
    Ok(())
}

/// What an entry of the table of events says, whole.
fn meta_json(message: &[u8], args: &mut Args, stats: &Ids<Stat>) -> String {
    args.clear();
    for field in Fields::new(message).flatten() {
        match field {
            (2, Value::Bytes(bytes)) => args.said("$name", &wire::text(bytes)),
            (4, Value::Bytes(bytes)) => args.said("$display_name", &wire::text(bytes)),
            (5, Value::Bytes(bytes)) => {
                if let Some((stat, value)) = of_message(bytes, stats)
                    && stat.key != Key::HloProto
                {
                    value.write(&stat.name, args);
                }
            }
            _ => {}
        }
    }
    args.object().unwrap_or("{}").to_owned()
}

/// A core of a TPU, as its plane says it (`core_details`).
#[derive(Debug, Clone, Copy, Default)]
struct Core {
    /// Number in its chip.
    of_chip: u64,
    /// Number in the job.
    of_job: i64,
    /// Number of its chip in the job.
    chip: i64,
}

impl Core {
    fn of(bytes: &[u8]) -> Option<Self> {
        // Zeros are left out.
        let mut out = Self::default();
        for field in Fields::new(bytes) {
            match field.ok()? {
                (3, Value::Int(number)) => out.of_chip = number,
                (5, Value::Int(number)) => out.chip = i64::try_from(number).ok()?,
                (6, Value::Int(number)) => out.of_job = i64::try_from(number).ok()?,
                _ => {}
            }
        }
        Some(out)
    }
}
