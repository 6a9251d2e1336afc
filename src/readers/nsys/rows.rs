//! Rows of a table of the file into rows of ours: a range of row numbers at a time, on any thread.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Error, Result};
use crate::readers::nsys::context::Context;
use crate::readers::nsys::database::int;
use crate::readers::nsys::ids::ids;
use crate::readers::nsys::names::Name;
use crate::readers::nsys::nccl;
use crate::readers::nsys::nvtx;
use crate::readers::nsys::reader::{Bundle, Outcome, Reader};
use crate::readers::nsys::recent::Recent;
use crate::readers::nsys::tables::{Kind, Plan};
use crate::readers::share::Communicator;
use crate::spool::args::Args;
use crate::spool::events::{Counter, DeviceEvent, HostEvent};
use crate::spool::launches::{self, NONE};
use crate::spool::tables::{COUNTERS, HOST};
use crate::spool::totals::widen;

/// Rows that are read at a time.
pub const SEGMENT_ROWS: i64 = 16_384;
/// Bytes of values after which a range of rows is cut, to bound memory against values that are
/// huge.
const SEGMENT_BYTES: usize = 16 << 20;
/// Stands for "no stream" in 32 bits.
const NO_STREAM: i64 = u32::MAX as i64;

/// The table of samples of the program counter.
const SAMPLES: &str = "COMPOSITE_EVENTS";

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

/// The word of a code.
fn word<'w>(words: &[&'w str], at: Option<i64>) -> Option<&'w str> {
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

    /// The stream of a row; what is none goes into the arguments.
    fn stream(&mut self, row: &Row<'_>) -> Option<i64> {
        let raw = self.at(row, self.plan.at.stream)?;
        let is_stream = (0..NO_STREAM).contains(&raw);
        if !is_stream {
            self.args.int("streamId", raw);
        }
        is_stream.then_some(raw)
    }

    /// The name of a kernel, the first that the file holds, and its class. Other names than this go
    /// into the arguments.
    fn kernel(&mut self, row: &Row<'_>) -> Result<(Option<Arc<Name>>, &'static str)> {
        let mut names = [None, None, None];
        for (place, slot) in self.plan.at.names.iter().zip(&mut names) {
            if let Some(id) = self.at(row, *place) {
                *slot = Some((id, self.name(id)?));
            }
        }
        let name = names.iter().flatten().map(|(_, n)| n).find(|n| n.text.is_some()).cloned();
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
        let class = match &name {
            None => "other",
            Some(_) if names.iter().flatten().any(|(_, n)| n.is_comm) => "comm",
            Some(_) => "compute",
        };
        Ok((name, class))
    }

    /// What a copy, set or graph is called.
    fn text_of(&self, row: &Row<'_>) -> String {
        let kind = |i: usize| self.at(row, self.plan.at.kinds[i]);
        match self.plan.kind {
            Kind::Copy => {
                let direction = word(&COPIES, kind(0)).unwrap_or("Unknown");
                match (word(&MEMORY, kind(1)), word(&MEMORY, kind(2))) {
                    (Some(from), Some(to)) => format!("Memcpy {direction} ({from} -> {to})"),
                    _ => format!("Memcpy {direction}"),
                }
            }
            Kind::Set => match word(&MEMORY, kind(0)) {
                Some(memory) => format!("Memset ({memory})"),
                None => "Memset".to_owned(),
            },
            _ => "CUDA graph".to_owned(),
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
        let (kernel, class) = match plan.kind {
            Kind::Kernel => self.kernel(row)?,
            Kind::Copy => (None, "copy"),
            Kind::Set => (None, "set"),
            _ => (None, "graph"),
        };
        let text = (plan.kind != Kind::Kernel).then(|| self.text_of(row));
        self.rest(row);
        let int = |place: Option<usize>| int(row, place?);
        let (device, correlation) = (int(at.device), int(at.correlation));
        let stream = self.stream(row);
        let shared_memory = match (int(at.shared[0]), int(at.shared[1])) {
            (None, None) => None,
            (a, b) => a.unwrap_or(0).checked_add(b.unwrap_or(0)),
        };
        let [grid_x, grid_y, grid_z, block_x, block_y, block_z] = at.grid.map(int);
        let place = self.out.elements as i64;
        let code = kernel.as_ref().map_or(0, |n| n.kernel_code);
        let mut args = std::mem::take(&mut self.args);
        self.seen(process);
        let to = self.context.layout.device(process, device.unwrap_or(0));
        let bundle = self.bundle(to);
        bundle.base.totals.events += 1;
        bundle.base.totals.count_device(class);
        widen(&mut bundle.base.totals.span_ns, ts, ts + dur.unwrap_or(0));
        // 0 says that nothing is known.
        if let Some(correlation) = correlation.filter(|c| *c != 0) {
            bundle.base.launches.devices.push([correlation, place, ts]);
        }
        if class == "comm" {
            bundle.kernels.push([place, code]);
        }
        DeviceEvent {
            event_id: place,
            class,
            category: Some(&plan.table),
            name: text.as_deref().or(kernel.as_ref().and_then(|n| n.text.as_deref())),
            ts_ns: ts,
            dur_ns: dur,
            device,
            stream,
            context: int(at.context),
            correlation,
            bytes: int(at.bytes),
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            registers: int(at.registers),
            shared_memory,
            args: args.object(),
            ..DeviceEvent::default()
        }
        .push(bundle.base.class(class));
        args.clear();
        self.args = args;
        Ok(())
    }

    /// A call of CUDA or of the operating system, what the host waits for, anything else on the
    /// host.
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
        let own_text = self.own_text(row).map(Cow::into_owned);
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
        if plan.table == SAMPLES {
            self.chain(row);
        }
        let int = |place: Option<usize>| int(row, place?);
        let thread = int(at.thread);
        let (device, correlation) = (int(at.device), int(at.correlation));
        let stream = self.stream(row);
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
        HostEvent {
            source: "nsys",
            event_id: place,
            class,
            category: Some(&plan.table),
            name: name.as_deref(),
            ts_ns: known.then_some(ts),
            dur_ns: dur,
            pid: ids[0],
            tid: ids[1],
            device,
            stream,
            correlation,
            external_id: None,
            args: args.object(),
        }
        .push(bundle.base.table(HOST));
        args.clear();
        self.args = args;
        Ok(())
    }

    /// The call chain that a sample shows.
    fn chain(&mut self, row: &Row<'_>) {
        let id = self.plan.rest.iter().find(|(_, key)| key == "id");
        let chain = id.and_then(|(place, _)| self.context.chains.of(int(row, *place)?));
        if let Some(chain) = chain {
            self.args.said("callchain", &chain.key);
        }
    }

    /// A range, mark or name of NVTX.
    fn nvtx(&mut self, row: &Row<'_>, process: i64, ts: i64, dur: Option<i64>) -> Result<()> {
        let event = nvtx::Event::of_row(self, row, ts, dur)?;
        self.rest(row);
        let thread = self.at(row, self.plan.at.thread);
        let [pid, tid] = ids(thread, thread);
        let (place, class) = (self.out.elements as i64, event.class());
        let mut args = std::mem::take(&mut self.args);
        self.seen(process);
        let category = Some(&*self.plan.table);
        let to = self.context.layout.host(process, None);
        let bundle = self.bundle(to);
        let totals = &mut bundle.base.totals;
        totals.events += 1;
        match class {
            "host_op" => totals.op_pid = totals.op_pid.or(pid),
            _ => totals.host_pid = totals.host_pid.or(pid),
        }
        widen(&mut totals.span_ns, ts, ts + event.dur.unwrap_or(0));
        HostEvent {
            source: "nsys",
            event_id: place,
            class,
            category,
            name: event.name(),
            ts_ns: Some(ts),
            dur_ns: event.dur,
            pid,
            tid,
            args: args.object(),
            ..HostEvent::default()
        }
        .push(bundle.base.table(HOST));
        if let (Some(dur), Some(thread)) = (event.dur, thread) {
            takes_part(bundle, event, [process, thread, ts, ts + dur, place]);
        }
        args.clear();
        self.args = args;
        Ok(())
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
        Counter { ts_ns: ts, name: &name, device, value, unit: unit.as_deref() }
            .push(self.bundle(to).base.table(COUNTERS));
    }
}

/// Notes what a range of NVTX is to the launches, the steps and the calls of NCCL: one of this
/// process and thread, with this start, end and event.
fn takes_part(
    bundle: &mut Bundle,
    event: nvtx::Event<'_>,
    [process, thread, ts, end, place]: [i64; 5],
) {
    // A range whose name is lost encloses all the same.
    let kind = match &event.range {
        None => Some(launches::OP),
        Some(range) if event.is_nccl && range.call.launches() => Some(launches::RECORD),
        Some(range) => range.kind,
    };
    if let Some(kind) = kind.filter(|_| event.encloses()) {
        bundle.base.launches.around.push([process, thread, ts, end, place, kind]);
    }
    let Some(range) = event.range else { return };
    if !event.is_nccl {
        if let Some((pattern, step)) = range.step.filter(|_| event.is_range) {
            bundle.base.steps.push([pattern, ts, -end, place, step]);
        }
        return;
    }
    let said = event.payload;
    if range.call.matters() {
        let (id, bytes, other) = (said.communicator, said.bytes, said.other_rank);
        bundle.ranges.push(nccl::range(thread, ts, place, range.call, id, bytes, other));
    }
    if let (true, Some(ranks), Some(rank)) = (range.call.is_init(), said.ranks, said.rank) {
        let (id, device) = (said.communicator, said.device);
        bundle.communicators.push(Communicator { id, ranks, rank, device });
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
