//! A snapshot of PyTorch's allocator, as `torch.cuda.memory._dump_snapshot` writes it.
//!
//! In: the value of a pickle. Out: rows of `memory_segments`, `memory_blocks`, `memory_events`,
//! `memory_stacks` and `metadata`. Forms: a dict with `segments` and perhaps `device_traces`,
//! `allocator_settings` and `external_annotations`; before torch 2.0 a bare list of segments, whose
//! blocks have no address, and a `history` in place of `requested_size` and `frames`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::readers::log::{Log, Severity};
use crate::readers::memory::pickle::{Part, Pickle, Sink};
use crate::readers::memory::stacks::Stacks;
use crate::readers::memory::value::{Arena, Fields, Value, rest_json};
use crate::schema::table;
use crate::spool::parquet::TableWriter;
use crate::spool::totals::{Totals, widen};

const SEGMENT: [&str; 12] = [
    "device",
    "address",
    "total_size",
    "allocated_size",
    "active_size",
    "requested_size",
    "stream",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "frames",
    "blocks",
];
const BLOCK: [&str; 6] = ["address", "size", "requested_size", "state", "frames", "history"];
const EVENT: [&str; 11] = [
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "category",
    "compile_context",
    "user_metadata",
    "frames",
    "device_free",
    "device",
];
const HISTORY: [&str; 2] = ["frames", "real_size"];

/// Actions that PyTorch writes.
const ACTIONS: [&str; 11] = [
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "workspace_snapshot",
    "pool_init",
];

/// What a snapshot says.
pub(super) struct Out {
    /// Counts and spans.
    pub totals: Totals,
    /// Findings.
    pub log: Log,
    /// File of each table that has rows.
    pub spool: BTreeMap<&'static str, PathBuf>,
}

/// What a pickle is that is no snapshot.
pub(super) fn not_a_snapshot(pickle: &Pickle) -> Option<String> {
    let arena = &pickle.arena;
    let is_segment = |value: &Value| match value {
        Value::Dict(dict) => arena.get(*dict, "total_size").is_some(),
        _ => false,
    };
    match pickle.root {
        Value::Dict(dict) => match arena.get(dict, "segments") {
            Some(Value::List(_) | Value::Tuple(_)) => None,
            _ => Some("a pickle of a dict without `segments`, no torch memory snapshot".to_owned()),
        },
        Value::List(list) => match &*arena.items(list) {
            [] => Some("a pickle of an empty list, no torch memory snapshot".to_owned()),
            items if items.iter().all(is_segment) => None,
            _ => Some("a pickle of a list of other things, no torch memory snapshot".to_owned()),
        },
        _ => Some("a pickle of a single value, no torch memory snapshot".to_owned()),
    }
}

/// Writes a snapshot.
pub(super) struct Writing {
    shown: String,
    first_id: i64,
    max_rows: u64,
    rows: u64,
    ids: [i64; 3],
    segment_fields: Fields<12>,
    block_fields: Fields<6>,
    event_fields: Fields<11>,
    history_fields: Fields<2>,
    segments: TableWriter,
    blocks: TableWriter,
    events: TableWriter,
    metadata: TableWriter,
    stacks: Stacks,
    totals: Totals,
    log: Log,
    devices: BTreeSet<i64>,
}

impl Sink for Writing {
    fn take(&mut self, arena: &Arena, part: Part, value: Value) -> Result<()> {
        match part {
            Part::Segment => self.segment(arena, value),
            Part::Event(device) => self.event(arena, device, value),
        }
    }
}

fn int(value: Option<Value>) -> Option<i64> {
    match value? {
        Value::Int(n) => Some(n),
        Value::Bool(yes) => Some(yes.into()),
        _ => None,
    }
}

/// The rows of a list, or of nothing.
fn items(arena: &Arena, value: Option<Value>) -> Cow<'_, [Value]> {
    match value {
        Some(Value::List(list) | Value::Tuple(list)) => arena.items(list),
        _ => Cow::Borrowed(&[]),
    }
}

impl Writing {
    /// Into `folder`; ids count from those of the source. `bytes` of the file bound its rows.
    pub(super) fn new(
        arena: &mut Arena,
        shown: String,
        folder: &Path,
        source_id: i64,
        bytes: u64,
    ) -> Self {
        let first_id = source_id << 40;
        let writer = |name: &str, without: &[&str]| {
            let path = folder.join(format!("{name}.parquet"));
            TableWriter::new(table(name).expect("the table is in the schema"), without, path)
        };
        let without = ["source", "rank"];
        Self {
            first_id,
            max_rows: bytes,
            rows: 0,
            ids: [first_id; 3],
            segment_fields: Fields::new(arena, SEGMENT),
            block_fields: Fields::new(arena, BLOCK),
            event_fields: Fields::new(arena, EVENT),
            history_fields: Fields::new(arena, HISTORY),
            segments: writer("memory_segments", &without),
            blocks: writer("memory_blocks", &without),
            events: writer("memory_events", &without),
            metadata: writer("metadata", &["rank"]),
            stacks: Stacks::new(arena, &shown, folder, first_id),
            shown,
            totals: Totals::default(),
            log: Log::default(),
            devices: BTreeSet::new(),
        }
    }

    /// Writes what is left of everything: what no part was taken of before.
    ///
    /// # Errors
    /// `value-too-large` for a pickle that repeats itself by reference; `io`.
    pub(super) fn run(mut self, pickle: &Pickle) -> Result<Out> {
        let arena = &pickle.arena;
        let (segments, dict) = match pickle.root {
            Value::Dict(dict) => (arena.get(dict, "segments"), Some(dict)),
            list => (Some(list), None),
        };
        for segment in items(arena, segments).iter() {
            self.segment(arena, *segment)?;
        }
        if let Some(dict) = dict {
            let traces = items(arena, arena.get(dict, "device_traces"));
            for (device, trace) in traces.iter().enumerate() {
                for event in items(arena, Some(*trace)).iter() {
                    self.event(arena, device as i64, *event)?;
                }
            }
            self.settings(arena, dict)?;
        }
        self.totals.device = self.devices.first().copied();
        let mut spool = BTreeMap::new();
        for (name, path) in [
            ("memory_segments", self.segments.finish()?),
            ("memory_blocks", self.blocks.finish()?),
            ("memory_events", self.events.finish()?),
            ("memory_stacks", self.stacks.finish()?),
            ("metadata", self.metadata.finish()?),
        ] {
            spool.extend(path.map(|path| (name, path)));
        }
        Ok(Out { totals: self.totals, log: self.log, spool })
    }

    /// Counts a row. Lists that are shared could make more rows than the file has bytes, and no
    /// snapshot does.
    fn count(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows <= self.max_rows {
            return Ok(());
        }
        Err(Error::new("value-too-large", "the pickle repeats its parts by reference without end")
            .at(self.shown.clone())
            .facts(format!("{} rows out of {} bytes", self.rows, self.max_rows))
            .hint("write the snapshot again with torch.cuda.memory._dump_snapshot"))
    }

    /// The next id of a table.
    fn id(&mut self, of: usize) -> i64 {
        let id = self.ids[of];
        self.ids[of] += 1;
        id
    }

    fn skip(&mut self, code: &'static str, message: &str) {
        self.totals.skipped += 1;
        self.log.add(Severity::Loss, code, None, || message.to_owned());
    }

    /// Text, else JSON; NULL for None and for what PyTorch writes where there is nothing.
    fn said(arena: &Arena, value: Option<Value>, nothing: &str) -> Option<String> {
        let text = match value? {
            Value::None => return None,
            value => arena.plain(value),
        };
        (text != nothing).then_some(text)
    }

    /// Says that integers are lost that need more than 64 bits.
    fn note_wide(&mut self, values: &[Option<Value>]) {
        if values.contains(&Some(Value::Wide)) {
            self.log.add(Severity::Loss, "number-too-wide", None, || {
                "integers of more than 64 bits; NULL".to_owned()
            });
        }
    }

    /// A segment with its blocks.
    fn segment(&mut self, arena: &Arena, segment: Value) -> Result<()> {
        self.count()?;
        let Value::Dict(dict) = segment else {
            self.skip("memory-segment", "segments that are no dict; left out");
            return Ok(());
        };
        let (values, rest) = self.segment_fields.of(arena, dict);
        let args = rest_json(arena, dict, rest);
        self.note_wide(&values);
        let [
            device,
            address,
            total,
            allocated,
            active,
            requested,
            stream,
            kind,
            pool,
            expandable,
            frames,
            blocks,
        ] = values;
        let id = self.id(0);
        let stack = self.stacks.id(arena, frames)?;
        let (kind, pool) = (Self::said(arena, kind, ""), Self::said(arena, pool, ""));
        let expandable = Self::said(arena, expandable, "");
        let row = self.segments.row();
        row.int(Some(self.first_id >> 40)).int(Some(id)).int(int(device)).int(int(address));
        row.int(int(total)).int(int(allocated)).int(int(active)).int(int(requested));
        row.int(int(stream)).text(kind.as_deref()).text(pool.as_deref());
        row.text(expandable.as_deref()).int(stack).text(args.as_deref());
        self.segments.end_row()?;
        let mut sum = 0_i64;
        for block in items(arena, blocks).iter() {
            let size = self.block(arena, *block, id, int(device), int(address), sum)?;
            sum = sum.saturating_add(size.unwrap_or(0));
        }
        if int(total).is_some_and(|total| total != sum) {
            self.log.add(Severity::Info, "memory-sizes-differ", None, || {
                "segments whose blocks are not as large as they together; kept as recorded"
                    .to_owned()
            });
        }
        self.devices.extend(int(device));
        Ok(())
    }

    /// A block, `before` bytes into its segment; its size.
    fn block(
        &mut self,
        arena: &Arena,
        block: Value,
        segment: i64,
        device: Option<i64>,
        start: Option<i64>,
        before: i64,
    ) -> Result<Option<i64>> {
        self.count()?;
        let Value::Dict(dict) = block else {
            self.skip("memory-block", "blocks that are no dict; left out");
            return Ok(None);
        };
        let (values, rest) = self.block_fields.of(arena, dict);
        let rest = rest_json(arena, dict, rest);
        self.note_wide(&values);
        let [address, size, requested, state, frames, history] = values;
        let mut stack = self.stacks.id(arena, frames)?;
        let (latest, of_history) = self.history(arena, history)?;
        let mut requested = int(requested);
        if let Some((frames, real_size)) = latest {
            stack = stack.or(frames);
            requested = requested.or(real_size);
        }
        let args = match (rest, of_history) {
            (None, None) => None,
            (Some(rest), None) => Some(rest),
            (None, Some(history)) => Some(format!("{{\"history\":{history}}}")),
            (Some(rest), Some(history)) => Some(format!("{{\"history\":{history},{}", &rest[1..])),
        };
        // Before torch 2.1 a block says no address: blocks fill their segment without gaps.
        let address = int(address).or_else(|| start?.checked_add(before));
        let state = Self::said(arena, state, "");
        let id = self.id(1);
        let row = self.blocks.row();
        row.int(Some(self.first_id >> 40)).int(Some(id)).int(Some(segment)).int(device);
        row.int(address).int(int(size)).int(requested).text(state.as_deref());
        row.int(stack).text(args.as_deref());
        self.blocks.end_row()?;
        Ok(int(size))
    }

    /// Stack and requested size of the last allocation in a block's history, and the history as
    /// JSON with the number of each stack in place of its frames.
    #[expect(clippy::type_complexity, reason = "two values of one call site")]
    fn history(
        &mut self,
        arena: &Arena,
        history: Option<Value>,
    ) -> Result<(Option<(Option<i64>, Option<i64>)>, Option<String>)> {
        let entries = items(arena, history);
        if entries.is_empty() {
            return Ok((None, None));
        }
        let (mut latest, mut json) = (None, Vec::new());
        for entry in entries.iter() {
            self.count()?;
            let Value::Dict(dict) = *entry else { continue };
            let ([frames, real_size], rest) = self.history_fields.of(arena, dict);
            let rest = rest_json(arena, dict, rest).unwrap_or_else(|| "{}".to_owned());
            let stack = self.stacks.id(arena, frames)?;
            latest.get_or_insert((stack, int(real_size)));
            let number = |n: Option<i64>| n.map_or("null".to_owned(), |n| n.to_string());
            json.push(format!(
                "{{\"real_size\":{},\"stack_id\":{}{}{}",
                number(int(real_size)),
                number(stack),
                if rest == "{}" { "" } else { "," },
                &rest[1..]
            ));
        }
        Ok((latest, Some(format!("[{}]", json.join(",")))))
    }

    /// What the allocator did.
    fn event(&mut self, arena: &Arena, device: i64, event: Value) -> Result<()> {
        self.count()?;
        self.devices.insert(device);
        let Value::Dict(dict) = event else {
            self.skip("memory-event", "events of the allocator that are no dict; left out");
            return Ok(());
        };
        let (values, rest) = self.event_fields.of(arena, dict);
        let args = rest_json(arena, dict, rest);
        self.note_wide(&values);
        let [action, addr, size, stream, time, category, context, user, frames, free, own_device] =
            values;
        let Some(action) = action.and_then(|a| arena.as_text(a)) else {
            self.skip("memory-event", "events of the allocator that name no action; left out");
            return Ok(());
        };
        if !ACTIONS.contains(&&*action) {
            self.log.add(Severity::Info, "memory-action", None, || {
                format!(
                    "events whose action ({}) is unknown; kept, and in no metric",
                    action.chars().take(40).collect::<String>()
                )
            });
        }
        let stack = self.stacks.id(arena, frames)?;
        // PyTorch writes microseconds since the Unix epoch.
        let ts = int(time).and_then(|us| us.checked_mul(1000));
        if ts.is_none() {
            self.log.add(Severity::Info, "memory-time", None, || {
                "events of the allocator without a time; their order is kept".to_owned()
            });
        }
        let (category, context) =
            (Self::said(arena, category, ""), Self::said(arena, context, "N/A"));
        let user = Self::said(arena, user, "");
        let id = self.id(2);
        let row = self.events.row();
        row.int(Some(self.first_id >> 40)).int(Some(id)).text(Some("snapshot"));
        row.int(int(own_device).or(Some(device))).text(Some(&action)).int(int(addr));
        row.int(int(size)).int(int(stream)).int(ts).text(category.as_deref());
        row.text(context.as_deref()).text(user.as_deref()).int(int(free));
        row.int(stack).text(args.as_deref());
        self.events.end_row()?;
        self.totals.events += 1;
        if let Some(ts) = ts {
            widen(&mut self.totals.span_ns, ts, ts);
        }
        Ok(())
    }

    /// Settings, annotations and whatever else the snapshot says, as metadata.
    fn settings(&mut self, arena: &Arena, root: u32) -> Result<()> {
        let keys = arena.keys(root);
        for (key, value) in keys.into_iter().zip(arena.values(root)) {
            let Some(name) = arena.as_text(key) else { continue };
            match (&*name, *value) {
                ("segments" | "device_traces", _) => {}
                ("external_annotations", annotations) => {
                    for (i, annotation) in items(arena, Some(annotations)).iter().enumerate() {
                        let key = format!("memory.external_annotation:{i}");
                        self.say(&key, arena.json(*annotation))?;
                    }
                }
                (name, Value::Dict(of)) => {
                    let keys = arena.keys(of);
                    for (key, value) in keys.into_iter().zip(arena.values(of)) {
                        let Some(key) = arena.as_text(key) else { continue };
                        self.say(&format!("memory.{name}.{key}"), arena.plain(*value))?;
                    }
                }
                (name, other) => self.say(&format!("memory.{name}"), arena.plain(other))?,
            }
        }
        Ok(())
    }

    fn say(&mut self, key: &str, value: String) -> Result<()> {
        self.count()?;
        self.metadata.row().text(Some(key)).text(Some(&value));
        self.metadata.end_row()
    }
}
