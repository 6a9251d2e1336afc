//! Rows of a table of the file into rows of ours: a range of row numbers at a time, on any thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::input::time::MAX_NS;
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::context::Context;
use crate::readers::nsys::database::int;
use crate::readers::nsys::ids::{MAX_PROCESSES, ids, process_of};
use crate::readers::nsys::layout::To;
use crate::readers::nsys::names::{MAX_NAME_BYTES, Name, RangeName, shortened, torch_tail};
use crate::readers::nsys::nccl;
use crate::readers::nsys::payload::bytes_of_digits;
use crate::readers::nsys::recent::{Recent, hash_of, mixed};
use crate::readers::nsys::tables::{Kind, Plan};
use crate::readers::share::Communicator;
use crate::spool::args::Args;
use crate::spool::launches::{self, NONE};
use crate::spool::totals::widen;
use crate::spool::{COUNTERS, HOST, batch};

/// Rows that are read at a time.
pub const SEGMENT_ROWS: i64 = 16_384;
/// Bytes of values after which a range of rows is cut, to bound memory against values that are huge.
const SEGMENT_BYTES: usize = 16 << 20;
/// Stands for "no stream" in 32 bits.
const NO_STREAM: i64 = u32::MAX as i64;

/// Rows of one key.
#[derive(Default)]
pub struct Bundle {
    pub base: batch::Bundle,
    /// Ranges of NCCL.
    pub ranges: Vec<nccl::Range>,
    /// Kernels that communicate, and what their names say of the call.
    pub kernels: Vec<[i64; 2]>,
    pub communicators: Vec<Communicator>,
}

/// What a range of rows became.
#[derive(Default)]
pub struct Outcome {
    /// In the order in which the keys came first.
    pub bundles: Vec<(To, Bundle)>,
    /// Processes with events.
    pub processes: BTreeSet<i64>,
    /// Rows that were read: event ids count them.
    pub elements: u64,
    /// Rows that were left out.
    pub skipped: u64,
    pub log: Log,
    /// The last row number that was read.
    pub last: Option<i64>,
    /// Row number from which the range is still to be read.
    pub rest: Option<i64>,
}

/// Directions of copies (`ENUM_CUDA_MEMCPY_OPER`), as Kineto spells them.
const COPIES: [&str; 14] = [
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "UVM HtoD", "UVM DtoH", "UVM DtoD",
];
/// Kinds of memory (`ENUM_CUDA_MEM_KIND`).
const MEMORY: [&str; 8] = [
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
    "Unknown",
];
/// What is waited for (`ENUM_CUPTI_SYNC_TYPE`).
const SYNCS: [&str; 5] =
    ["Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];

pub(crate) fn word<'w>(words: &[&'w str], at: Option<i64>) -> Option<&'w str> {
    words.get(usize::try_from(at?).ok()?).copied()
}

/// Reads the rows of a table from one row number to another: what was read, and why it ended early.
pub fn read(context: &Context, plan: &Plan, from: i64, to: i64) -> (Outcome, Option<Error>) {
    let mut out = Outcome::default();
    let failed = context.database.with(|connection| {
        let mut reader = Reader {
            context,
            plan,
            connection,
            names: Recent::new(),
            ranges: [Recent::new(), Recent::new()],
            args: Args::default(),
            last_process: None,
            out: std::mem::take(&mut out),
            bytes: 0,
        };
        let read = reader.rows(from, to);
        out = reader.out;
        read
    });
    (out, failed.err())
}

struct Reader<'c> {
    context: &'c Context,
    plan: &'c Plan,
    connection: &'c Connection,
    names: Recent<i64, Arc<Name>>,
    /// What messages that are no strings of the file say: with the tail of PyTorch, and without.
    ranges: [Recent<String, RangeName>; 2],
    args: Args,
    last_process: Option<i64>,
    out: Outcome,
    /// Bytes of text and blobs in the rows so far.
    bytes: usize,
}

/// A name: a string of the file, or a text of the row itself.
enum Said<'r> {
    String(Arc<Name>),
    Text(std::borrow::Cow<'r, str>),
}

impl Reader<'_> {
    fn rows(&mut self, from: i64, to: i64) -> Result<()> {
        let fault = |e: rusqlite::Error| {
            let doing = format!("reading {} from row {from}", self.plan.table);
            self.context.database.fault(&e, &doing)
        };
        let connection = self.connection;
        let mut statement = connection.prepare_cached(&self.plan.sql).map_err(fault)?;
        let mut rows = statement.query([from, to]).map_err(fault)?;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(()),
                Err(e) => {
                    let doing = format!("reading {} from row {from}", self.plan.table);
                    return Err(self.context.database.fault(&e, &doing));
                }
            };
            self.row(row)?;
            self.out.elements += 1;
            self.out.last = int(row, 0);
            if self.bytes > SEGMENT_BYTES || self.out.elements >= 2 * SEGMENT_ROWS as u64 {
                let next = int(row, 0).and_then(|id| id.checked_add(1));
                self.out.rest = next.filter(|id| *id <= to);
                return Ok(());
            }
        }
    }

    fn at(&self, row: &Row<'_>, place: Option<usize>) -> Option<i64> {
        int(row, place?)
    }

    fn name(&mut self, id: i64) -> Result<Arc<Name>> {
        let hash = mixed(0, id as u64);
        if let Some((known, name)) = self.names.slot(hash)
            && *known == id
        {
            self.bytes += name.text.as_ref().map_or(0, String::len);
            return Ok(name.clone());
        }
        let name = self.context.strings.get(id, &self.context.database, self.connection)?;
        if name.text.is_none() {
            let table = &self.plan.table;
            self.out.log.add(Severity::Loss, "string-dangling", None, || {
                format!("ids of strings that the file does not hold (first in {table}); those names are NULL")
            });
        }
        if name.lossy {
            self.lossy();
        }
        if name.cut {
            self.cut();
        }
        self.bytes += name.text.as_ref().map_or(0, String::len);
        *self.names.slot(hash) = Some((id, name.clone()));
        Ok(name)
    }

    fn cut(&mut self) {
        self.out.log.add(Severity::Loss, "name-cut", None, || {
            format!("names longer than {MAX_NAME_BYTES} bytes; they end there")
        });
    }

    fn lossy(&mut self) {
        self.out.log.add(Severity::Info, "invalid-utf8", None, || {
            "bytes that are no UTF-8; replaced by U+FFFD".to_owned()
        });
    }

    fn bundle(&mut self, key: To) -> &mut Bundle {
        let bundles = &mut self.out.bundles;
        let at = match bundles.iter().position(|(k, _)| *k == key) {
            Some(at) => at,
            None => {
                bundles.push((key, Bundle::default()));
                bundles.len() - 1
            }
        };
        &mut bundles[at].1
    }

    /// The process of a global id.
    fn process(&self, global: Option<i64>) -> i64 {
        process_of(global, self.context.by_process)
    }

    /// Remembers the process of a row.
    fn seen(&mut self, process: i64) {
        if self.last_process != Some(process) {
            self.last_process = Some(process);
            if self.out.processes.len() < MAX_PROCESSES {
                self.out.processes.insert(process);
            }
        }
    }

    /// Start on the clock of the rank, and duration; None with a finding when there is no start.
    fn time(&mut self, row: &Row<'_>) -> Option<(i64, Option<i64>)> {
        let base = self.context.base_ns;
        let usable = |t: &i64| (-MAX_NS..MAX_NS).contains(t);
        let at = |place| {
            self.at(row, place).filter(usable).and_then(|t| t.checked_add(base)).filter(usable)
        };
        let (start, end) = (at(self.plan.at.start), at(self.plan.at.end));
        let Some(start) = start else {
            let table = &self.plan.table;
            self.out.log.add(Severity::Loss, "ts-missing", None, || {
                format!("events without a usable start (first in {table}); left out")
            });
            return None;
        };
        let dur = end.and_then(|end| end.checked_sub(start)).filter(|d| *d >= 0);
        let ends = |place| !matches!(row.get_ref(place), Ok(ValueRef::Null) | Err(_));
        let lacks = self.plan.kind.is_device() || self.plan.at.end.is_some_and(ends);
        if dur.is_none() && lacks {
            let table = &self.plan.table;
            self.out.log.add(Severity::Loss, "dur-invalid", None, || {
                format!(
                    "events without a usable end, or that end before they start (first in {table}); their duration is NULL"
                )
            });
        }
        Some((start, dur))
    }

    /// Writes the columns without a place of their own into the arguments.
    fn rest(&mut self, row: &Row<'_>) {
        for (place, key) in &self.plan.rest {
            match row.get_ref(*place) {
                Ok(ValueRef::Integer(value)) => self.args.int(key, value),
                Ok(ValueRef::Real(value)) => {
                    self.args.key(key);
                    match value.is_finite() {
                        true => self.args.raw(&format!("{value:?}")),
                        false => self.args.string(&value.to_string()),
                    }
                }
                Ok(ValueRef::Text(bytes)) => {
                    self.bytes += bytes.len();
                    self.args.said(key, &String::from_utf8_lossy(bytes));
                }
                Ok(ValueRef::Blob(bytes)) => {
                    self.bytes += 2 * bytes.len();
                    self.args.said(key, &hex(bytes));
                }
                Ok(ValueRef::Null) | Err(_) => {}
            }
        }
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        if self.plan.kind == Kind::Metrics {
            self.metric(row);
            return Ok(());
        }
        let process =
            self.process(self.at(row, self.plan.at.process).or(self.at(row, self.plan.at.thread)));
        let Some((ts, dur)) = self.time(row) else {
            self.out.skipped += 1;
            return Ok(());
        };
        self.args.clear();
        match self.plan.kind {
            Kind::Kernel | Kind::Graph | Kind::Copy | Kind::Set => {
                self.device_event(row, process, ts, dur)
            }
            Kind::Nvtx => self.nvtx(row, process, ts, dur),
            _ => self.host_event(row, process, ts, dur),
        }
    }

    /// A kernel, copy, set or graph.
    fn device_event(
        &mut self,
        row: &Row<'_>,
        process: i64,
        ts: i64,
        dur: Option<i64>,
    ) -> Result<()> {
        let (plan, at) = (self.plan, &self.plan.at);
        let mut name = None;
        let class = match plan.kind {
            Kind::Kernel => {
                let mut names = [None, None, None];
                for (place, slot) in at.names.iter().zip(&mut names) {
                    if let Some(id) = self.at(row, *place) {
                        *slot = Some((id, self.name(id)?));
                    }
                }
                name = names.iter().flatten().map(|(_, n)| n).find(|n| n.text.is_some()).cloned();
                let keys = ["demangledName", "shortName", "mangledName"];
                for (key, (id, other)) in
                    keys.iter().zip(&names).filter_map(|(k, n)| Some((k, n.as_ref()?)))
                {
                    match (&other.text, &name) {
                        (None, _) => self.args.int(key, *id),
                        (Some(text), Some(name)) if name.text.as_ref() != Some(text) => {
                            self.args.said(key, text);
                        }
                        _ => {}
                    }
                }
                match &name {
                    None => "other",
                    Some(_) if names.iter().flatten().any(|(_, n)| n.is_comm) => "comm",
                    Some(_) => "compute",
                }
            }
            Kind::Copy => "copy",
            Kind::Set => "set",
            _ => "graph",
        };
        let kind = |i: usize| self.at(row, at.kinds[i]);
        let text = match plan.kind {
            Kind::Kernel => None,
            Kind::Copy => Some(match (word(&MEMORY, kind(1)), word(&MEMORY, kind(2))) {
                (Some(from), Some(to)) => {
                    format!(
                        "Memcpy {} ({from} -> {to})",
                        word(&COPIES, kind(0)).unwrap_or("Unknown")
                    )
                }
                _ => format!("Memcpy {}", word(&COPIES, kind(0)).unwrap_or("Unknown")),
            }),
            Kind::Set => Some(match word(&MEMORY, kind(0)) {
                Some(memory) => format!("Memset ({memory})"),
                None => "Memset".to_owned(),
            }),
            _ => Some("CUDA graph".to_owned()),
        };
        self.rest(row);
        let int = |place: Option<usize>| int(row, place?);
        let (device, correlation) = (int(at.device), int(at.correlation));
        let stream = int(at.stream).filter(|s| (0..NO_STREAM).contains(s));
        if let (Some(raw), None) = (int(at.stream), stream) {
            self.args.int("streamId", raw);
        }
        let shared = match (int(at.shared[0]), int(at.shared[1])) {
            (None, None) => None,
            (a, b) => a.unwrap_or(0).checked_add(b.unwrap_or(0)),
        };
        let grid = at.grid.map(int);
        let (context, bytes, registers) = (int(at.context), int(at.bytes), int(at.registers));
        let place = self.out.elements as i64;
        let code = name.as_ref().map_or(0, |n| n.kernel_code);
        let mut args = std::mem::take(&mut self.args);
        self.seen(process);
        let to = self.context.layout.device(process, device.unwrap_or(0));
        let bundle = self.bundle(to);
        bundle.base.totals.events += 1;
        bundle.base.totals.device_events += 1;
        let end = ts + dur.unwrap_or(0);
        widen(&mut bundle.base.totals.span_ns, ts, end);
        widen(&mut bundle.base.totals.device_span_ns, ts, end);
        // 0 says that nothing is known.
        if let Some(correlation) = correlation.filter(|c| *c != 0) {
            bundle.base.launches.devices.push([correlation, place, ts]);
        }
        if class == "comm" {
            bundle.kernels.push([place, code]);
        }
        let name = text.as_deref().or(name.as_ref().and_then(|n| n.text.as_deref()));
        let w = bundle.base.class(class);
        w.int(Some(place)).text(Some(class)).text(Some(&plan.table)).text(name);
        w.int(Some(ts)).int(dur).nulls(2);
        w.int(device).int(stream).int(context).int(correlation).nulls(1).int(bytes).nulls(5);
        grid.iter().for_each(|value| _ = w.int(*value));
        w.int(registers).int(shared).nulls(3);
        w.text(args.object()).end_row();
        args.clear();
        self.args = args;
        Ok(())
    }

    /// A call of CUDA or of the operating system, what the host waits for, anything else on the host.
    fn host_event(&mut self, row: &Row<'_>, process: i64, ts: i64, dur: Option<i64>) -> Result<()> {
        let (plan, at) = (self.plan, &self.plan.at);
        let mut string = None;
        if let Some(id) = self.at(row, at.names[0]) {
            let name = self.name(id)?;
            if name.text.is_none() {
                self.args.int("nameId", id);
            }
            string = Some(name);
        }
        let own_text = self.own_text(row);
        let (class, name) = match plan.kind {
            Kind::Runtime => {
                let full = string.as_ref().and_then(|n| n.text.as_deref());
                let plain = full.map(without_version);
                if let (Some(full), true) = (full, plain != full) {
                    self.args.said("name", full);
                }
                ("host_runtime", plain.map(str::to_owned))
            }
            Kind::Sync => {
                let word = word(&SYNCS, self.at(row, at.kinds[0]));
                let name =
                    word.unwrap_or(if at.kinds[0].is_some() { "Sync" } else { "CUDA event" });
                ("device_annotation", Some(name.to_owned()))
            }
            _ => {
                let text = own_text.or_else(|| string.as_ref().and_then(|n| n.text.clone()));
                let known = at.names[0].is_none() && at.text.is_none();
                ("other", text.or_else(|| known.then(|| plan.table.clone())))
            }
        };
        self.rest(row);
        let int = |place: Option<usize>| int(row, place?);
        let thread = int(at.thread);
        let (device, correlation) = (int(at.device), int(at.correlation));
        let stream = int(at.stream).filter(|s| (0..NO_STREAM).contains(s));
        if let (Some(raw), None) = (int(at.stream), stream) {
            self.args.int("streamId", raw);
        }
        let ids = ids(int(at.process).or(thread), thread);
        let place = self.out.elements as i64;
        // The completion of a CUDA event that was not collected is recorded as 0.
        let known = plan.kind != Kind::Sync || at.end.is_some() || ts != self.context.base_ns;
        let mut args = std::mem::take(&mut self.args);
        self.seen(process);
        let of_device = device.filter(|_| plan.kind == Kind::Sync);
        let to = self.context.layout.host(process, of_device);
        let bundle = self.bundle(to);
        bundle.base.totals.events += 1;
        bundle.base.totals.host_pid = bundle.base.totals.host_pid.or(ids[0]);
        if known {
            widen(&mut bundle.base.totals.span_ns, ts, ts + dur.unwrap_or(0));
        }
        let calls = correlation.filter(|c| *c != 0 && plan.kind == Kind::Runtime);
        if let Some(correlation) = calls {
            let length = dur.unwrap_or(NONE);
            let thread = thread.unwrap_or(NONE);
            bundle.base.launches.calls.push([correlation, length, place, process, thread, ts]);
        }
        let w = bundle.base.table(HOST);
        w.text(Some("nsys")).int(Some(place)).text(Some(class)).text(Some(&plan.table));
        w.text(name.as_deref()).int(known.then_some(ts)).int(dur).int(ids[0]).int(ids[1]);
        w.int(device).int(stream).int(correlation).nulls(1);
        w.text(args.object()).end_row();
        args.clear();
        self.args = args;
        Ok(())
    }

    /// The text of the row itself.
    fn own_text(&mut self, row: &Row<'_>) -> Option<String> {
        match row.get_ref(self.plan.at.text?) {
            Ok(ValueRef::Text(bytes)) => {
                let short = shortened(bytes);
                self.bytes += short.len();
                let text = String::from_utf8_lossy(short);
                if matches!(text, std::borrow::Cow::Owned(_)) {
                    self.lossy();
                }
                if short.len() < bytes.len() {
                    self.cut();
                }
                Some(text.into_owned())
            }
            _ => None,
        }
    }

    /// A range, mark or name of NVTX.
    fn nvtx(&mut self, row: &Row<'_>, process: i64, ts: i64, dur: Option<i64>) -> Result<()> {
        let (context, plan) = (self.context, self.plan);
        let at = &plan.at;
        // Before there were types, what has an end was a range.
        let event_type = match at.event_type {
            Some(_) => self.at(row, at.event_type),
            None => Some(if dur.is_some() { 59 } else { 34 }),
        };
        let is_range = matches!(event_type, Some(59 | 60));
        let mut dur = dur;
        let open = at.end.is_none_or(|end| matches!(row.get_ref(end), Ok(ValueRef::Null)));
        if is_range && open {
            // It was open when the capture ended.
            dur = context.capture_end_ns.and_then(|end| end.checked_sub(ts)).filter(|d| *d >= 0);
            let message = match dur {
                Some(_) => "ranges that were open when the capture ended; they end there",
                None => "ranges without an end; their duration is NULL",
            };
            self.out.log.add(Severity::Loss, "begin-without-end", None, || message.to_owned());
        }
        // The message: in the row, or a registered string.
        let own = match row.get_ref(at.text.unwrap_or(0)) {
            Ok(ValueRef::Text(bytes)) if at.text.is_some() => {
                let short = shortened(bytes);
                self.bytes += short.len();
                let text = String::from_utf8_lossy(short);
                if matches!(text, std::borrow::Cow::Owned(_)) {
                    self.lossy();
                }
                if short.len() < bytes.len() {
                    self.cut();
                }
                Some(Said::Text(text))
            }
            _ => None,
        };
        let said = match (own, self.at(row, at.names[0])) {
            (Some(own), id) => {
                id.into_iter().for_each(|id| self.args.int("textId", id));
                Some(own)
            }
            (None, Some(id)) => {
                let name = self.name(id)?;
                if name.text.is_none() {
                    self.args.int("textId", id);
                }
                Some(Said::String(name))
            }
            (None, None) => None,
        };
        let (text, range): (Option<&str>, Option<RangeName>) = match &said {
            None => (None, None),
            Some(Said::String(name)) => {
                (name.text.as_deref(), name.text.as_ref().map(|_| name.range))
            }
            Some(Said::Text(text)) => (Some(text), Some(self.range_name(text))),
        };
        let name = match text {
            Some(text) if is_range => {
                let (length, seq, op) = torch_tail(text);
                seq.into_iter().for_each(|seq| self.args.int("seq", seq));
                op.into_iter().for_each(|op| self.args.int("op_id", op));
                Some(&text[..length])
            }
            text => text,
        };
        event_type.into_iter().for_each(|ty| self.args.int("eventType", ty));
        let domain = self.at(row, at.domain);
        let of_process = self.process(self.at(row, at.thread));
        let domain_name = domain.and_then(|d| context.domains.get(&(of_process, d)));
        if let Some(domain) = domain {
            self.args.int("domainId", domain);
        }
        if let Some(name) = domain_name {
            self.args.said("domain", name);
        }
        if let Some(category) = self.at(row, at.category) {
            self.args.int("category", category);
            let key = (of_process, domain.unwrap_or(0), category);
            if let Some(name) = context.categories.get(&key) {
                self.args.said("categoryName", name);
            }
        }
        let is_nccl = is_range
            && match domain_name {
                Some(name) => name == "NCCL",
                None => {
                    domain.is_some_and(|d| d != 0) && range.as_ref().is_some_and(|r| r.like_nccl)
                }
            };
        let mut payload = None;
        if let Some(place) = at.payload {
            let blob = match row.get_ref(place) {
                Ok(ValueRef::Blob(bytes)) => Some(std::borrow::Cow::Borrowed(bytes)),
                Ok(ValueRef::Text(digits)) => {
                    let bytes = bytes_of_digits(digits);
                    if bytes.is_none() {
                        self.args.said("binaryData", &String::from_utf8_lossy(digits));
                        self.unreadable();
                    }
                    bytes.map(std::borrow::Cow::Owned)
                }
                _ => None,
            };
            if let Some(blob) = blob {
                self.bytes += 2 * blob.len();
                self.args.said("binaryData", &hex(&blob));
                payload = context.schemas.decode(domain.unwrap_or(0), &blob);
                match &payload {
                    None => self.unreadable(),
                    Some(payload) => {
                        for (key, value) in &payload.fields {
                            self.args.key(key);
                            self.args.raw(value);
                        }
                    }
                }
            }
        }
        self.rest(row);
        let thread = self.at(row, at.thread);
        let ids = ids(thread, thread);
        let place = self.out.elements as i64;
        let class = match (event_type, &range) {
            (Some(33 | 39 | 75 | 76), _) => "other",
            (_, Some(range)) if is_range => range.class,
            _ => "host_annotation",
        };
        let mut args = std::mem::take(&mut self.args);
        self.seen(process);
        let to = self.context.layout.host(process, None);
        let bundle = self.bundle(to);
        bundle.base.totals.events += 1;
        match class {
            "host_op" => bundle.base.totals.op_pid = bundle.base.totals.op_pid.or(ids[0]),
            _ => bundle.base.totals.host_pid = bundle.base.totals.host_pid.or(ids[0]),
        }
        widen(&mut bundle.base.totals.span_ns, ts, ts + dur.unwrap_or(0));
        if let (Some(59), None, Some(dur), Some(thread)) = (event_type, &range, dur, thread) {
            // A range whose name is lost encloses all the same.
            bundle.base.launches.around.push([process, thread, ts, ts + dur, place, launches::OP]);
        }
        if let (Some(range), Some(dur), Some(thread)) = (&range, dur, thread) {
            let end = ts + dur;
            // Ranges that are pushed and popped enclose what their thread launches.
            let kind = match is_nccl && range.call.launches() {
                true => Some(launches::RECORD),
                false => range.kind,
            };
            if let (Some(59), Some(kind)) = (event_type, kind) {
                bundle.base.launches.around.push([process, thread, ts, end, place, kind]);
            }
            if let (true, false, Some((pattern, step))) = (is_range, is_nccl, range.step) {
                bundle.base.steps.push([pattern, ts, -end, place, step]);
            }
            if is_nccl {
                let said = payload.unwrap_or_default();
                if range.call.matters() {
                    bundle.ranges.push(nccl::range(
                        thread,
                        ts,
                        place,
                        range.call,
                        said.communicator,
                        said.bytes,
                        said.other_rank,
                    ));
                }
                if let (true, Some(ranks), Some(rank)) =
                    (range.call.is_init(), said.ranks, said.rank)
                {
                    let (id, device) = (said.communicator, said.device);
                    bundle.communicators.push(Communicator { id, ranks, rank, device });
                }
            }
        }
        let w = bundle.base.table(HOST);
        w.text(Some("nsys")).int(Some(place)).text(Some(class)).text(Some(&plan.table)).text(name);
        w.int(Some(ts)).int(dur).int(ids[0]).int(ids[1]).nulls(4);
        w.text(args.object()).end_row();
        args.clear();
        self.args = args;
        Ok(())
    }

    /// What a message of a row says.
    fn range_name(&mut self, text: &str) -> RangeName {
        // The tail makes every message of PyTorch another one.
        let (length, seq, op) = torch_tail(text);
        let tailed = usize::from(seq.or(op).is_some());
        let name = &text[..length];
        let slot = self.ranges[tailed].slot(hash_of(name));
        if let Some((known, range)) = slot
            && known == name
        {
            return *range;
        }
        let range = match tailed {
            0 => self.context.strings.range(text),
            _ => self.context.strings.range(&format!("{name}, op_id = 0")),
        };
        *slot = Some((name.to_owned(), range));
        range
    }

    fn unreadable(&mut self) {
        self.out.log.add(Severity::Loss, "nvtx-payload", None, || {
            "payloads of NVTX ranges that do not fit their schema; kept as digits in args, and no size was read from them"
                .to_owned()
        });
    }

    /// A sample of a GPU metric.
    fn metric(&mut self, row: &Row<'_>) {
        let at = &self.plan.at;
        let (ty, metric) = (self.at(row, at.metric[0]), self.at(row, at.metric[1]));
        let value = match at.metric[2].map(|place| row.get_ref(place)) {
            Some(Ok(ValueRef::Integer(value))) => Some(value as f64),
            Some(Ok(ValueRef::Real(value))) => Some(value),
            _ => None,
        };
        let Some((ts, _)) = self.time(row) else {
            self.out.skipped += 1;
            return;
        };
        let known = ty.zip(metric).and_then(|key| self.context.metrics.get(&key));
        let (name, unit) = match known {
            Some((name, unit)) => (name.clone(), unit.clone()),
            None => (format!("metric {}", metric.unwrap_or_default()), None),
        };
        // The low byte of the type is the GPU.
        let device = ty.map(|ty| ty & 0xFF);
        let to = self.context.layout.sample(device);
        let w = self.bundle(to).base.table(COUNTERS);
        w.int(Some(ts)).text(Some(&name)).int(device).double(value).text(unit.as_deref());
        w.end_row();
    }
}

/// The name of a runtime call without the version that CUPTI appends (`cudaLaunchKernel_v7000`).
fn without_version(name: &str) -> &str {
    match name.rfind("_v") {
        Some(at)
            if at > 0
                && at + 2 < name.len()
                && name[at + 2..].bytes().all(|b| b.is_ascii_digit()) =>
        {
            &name[..at]
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::nsys::ids::{THREAD_BITS, pid_of};

    #[test]
    fn versions_of_calls_are_left_out() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuLaunchKernelEx"), "cuLaunchKernelEx");
        assert_eq!(without_version("cuMemcpyAsync_v2"), "cuMemcpyAsync");
        assert_eq!(without_version("_v2"), "_v2");
        assert_eq!(without_version("x_v"), "x_v");
    }

    #[test]
    fn global_ids() {
        assert_eq!(
            ids(Some(281_477_392_629_904), Some(281_477_392_629_904)),
            [Some(144), Some(144)]
        );
        assert_eq!(ids(Some(1), Some(1)), [Some(1), Some(1)]);
        assert_eq!(pid_of(281_477_392_629_904 & !THREAD_BITS), Some(144));
    }
}
