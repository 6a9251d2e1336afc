//! Profiles of XLA as protocol buffers: planes, lines and events, with fields that nobody knows,
//! in any order.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use ccl_sql::input::place::Place;
use ccl_sql::readers;
use ccl_sql::readers::contract::{Answer, Kind, Said};
use prost::Message;

use super::dice::Dice;

/// Every event is a row as prost reads it, or counted as left out, or the end of another. Says
/// whether the profile was read.
pub fn check(data: &[u8]) -> bool {
    let file = space(&mut Dice::new(data));
    super::super::xla(&file);
    // What prost refuses, as a number where a message is wanted, the reader may take.
    let Ok(expected) = XSpace::decode(&*file) else { return false };
    let folder = super::super::spool();
    let path = folder.path().join("h.xplane.pb");
    std::fs::write(&path, &file).expect("the file can be written");
    let answer =
        super::super::read_as(Kind::XPlane, &Place::file(&path), Said::default(), readers::read);
    let shares = match answer {
        Ok(Answer::Shares { shares, .. }) => shares,
        Ok(_) => {
            // What begins with a field that nobody knows is taken for something else.
            assert!(!matches!(file.first(), Some(0x0a | 0x12 | 0x1a | 0x22)), "{expected:?}");
            return false;
        }
        Err(error) => {
            let is_empty = file.is_empty() && error.code == "trace-truncated";
            assert!(is_empty, "{error}: {expected:?}");
            return false;
        }
    };
    let (mut rows, mut ends, mut skipped) = (BTreeMap::new(), 0, 0);
    for share in &shares {
        skipped += share.totals.skipped;
        for (name, table) in ["host_events", "device_events"].map(|t| (t, share.spool.get(t))) {
            let Some(table) = table else { continue };
            let table = super::super::rows_of(table);
            let column = |name: &str| table.column_by_name(name).expect("it is in the schema");
            let names = column("name").as_string::<i32>();
            let dur = column("dur_ns").as_primitive::<Int64Type>();
            let args = column("args").as_string::<i32>();
            for i in 0..table.num_rows() {
                let is_pair = !args.is_null(i) && args.value(i).contains("\"$done\":");
                ends += u64::from(is_pair);
                if name == "host_events" {
                    let name = if names.is_null(i) { "" } else { names.value(i) };
                    let dur = (!dur.is_null(i)).then(|| dur.value(i));
                    *rows.entry((name.to_owned(), dur)).or_insert(0_u64) += 1;
                }
            }
        }
    }
    let events: u64 = shares.iter().map(|share| share.totals.events).sum();
    let all = expected.planes.iter().filter(|plane| plane.is_read()).flat_map(|p| &p.lines);
    let all: u64 = all.map(|line| line.events.len() as u64).sum();
    assert_eq!(events + skipped + ends, all, "{expected:?}");
    if skipped > 0 {
        return true;
    }
    for (key, count) in expected.of_host() {
        let found = rows.get(&key).copied().unwrap_or(0);
        assert!(found >= count, "{key:?}: {found}, not {count}: {expected:?}");
    }
    true
}

/// The messages, of the fields that the check reads.
#[derive(Clone, PartialEq, Message)]
struct XSpace {
    #[prost(message, repeated, tag = "1")]
    planes: Vec<XPlane>,
}

#[derive(Clone, PartialEq, Message)]
struct XPlane {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<XLine>,
    #[prost(btree_map = "int64, message", tag = "4")]
    events: BTreeMap<i64, XEventMetadata>,
    #[prost(btree_map = "int64, message", tag = "5")]
    stats: BTreeMap<i64, XStatMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct XLine {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(int64, tag = "3")]
    timestamp_ns: i64,
    #[prost(message, repeated, tag = "4")]
    events: Vec<XEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct XEvent {
    #[prost(int64, tag = "1")]
    metadata_id: i64,
    #[prost(int64, tag = "3")]
    duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    stats: Vec<XStat>,
    #[prost(oneof = "When", tags = "2, 5")]
    when: Option<When>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum When {
    #[prost(int64, tag = "2")]
    OffsetPs(i64),
    #[prost(int64, tag = "5")]
    Occurrences(i64),
}

#[derive(Clone, PartialEq, Message)]
struct XStat {
    #[prost(int64, tag = "1")]
    metadata_id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct XEventMetadata {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    display_name: Vec<u8>,
    #[prost(message, repeated, tag = "5")]
    stats: Vec<XStat>,
}

#[derive(Clone, PartialEq, Message)]
struct XStatMetadata {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
}

impl XPlane {
    /// Whether its events are read: neither programs nor the environment.
    fn is_read(&self) -> bool {
        !matches!(&*self.name, b"/host:metadata" | b"Task Environment")
    }
}

impl XSpace {
    /// Names and durations of the events of threads that are no work of a device, in nanoseconds.
    fn of_host(&self) -> BTreeMap<(String, Option<i64>), u64> {
        let mut out = BTreeMap::new();
        for plane in self.planes.iter().filter(|p| p.is_read() && p.name == b"/host:CPU") {
            let ops: Vec<i64> = plane
                .stats
                .iter()
                .filter(|(_, s)| s.name == b"hlo_op")
                .map(|(id, _)| *id)
                .collect();
            for event in plane.lines.iter().flat_map(|line| &line.events) {
                let meta = plane.events.get(&event.metadata_id).cloned().unwrap_or_default();
                if event.stats.iter().chain(&meta.stats).any(|s| ops.contains(&s.metadata_id)) {
                    continue;
                }
                let shown =
                    if meta.display_name.is_empty() { meta.name } else { meta.display_name };
                let name = String::from_utf8_lossy(&shown).into_owned();
                if name.starts_with('%') {
                    continue;
                }
                let dur = match event.when {
                    Some(When::Occurrences(_)) => None,
                    _ => Some(event.duration_ps).filter(|dur| *dur >= 0).map(|dur| dur / 1000),
                };
                *out.entry((name, dur)).or_insert(0) += 1;
            }
        }
        out
    }
}

const PLANES: [&str; 10] = [
    "/device:TPU:0",
    "/device:TPU:1",
    "/device:GPU:0",
    "/host:CPU",
    "/host:CPU",
    "/host:metadata",
    "Task Environment",
    "/device:CUSTOM:Megascale Trace",
    "#Chip0",
    "/device:TPU:600",
];

const LINES: [&str; 10] = [
    "XLA Ops",
    "XLA Modules",
    "Steps",
    "Stream #1(Kernel)",
    "Stream #2(MemcpyD2H,MemcpyP2P)",
    "python",
    "tf_XLAEigen/17",
    "Async XLA Ops",
    "Sparse Core Ops",
    "",
];

const EVENTS: [&str; 16] = [
    "fusion.1",
    "all-reduce.3",
    "all-reduce-start.1",
    "all-reduce-done.1",
    "%all-gather.2 = f32[8]{0} all-gather(f32[4]{0} %p), replica_groups={{0,1}}",
    "%ar-start = (f32[2], f32[2]) all-reduce-start(f32[2] %p), replica_groups=[1,2]<=[2]",
    "while.1",
    "copy.2",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "$file.py:1 step",
    "ThreadpoolListener::Region",
    "Rendezvous",
    "",
    "jit_f(5)",
    "3",
    "train 7",
];

const STATS: [&str; 26] = [
    "hlo_op",
    "hlo_module",
    "hlo_category",
    "program_id",
    "run_id",
    "device_ordinal",
    "correlation_id",
    "device_offset_ps",
    "device_duration_ps",
    "step_num",
    "_r",
    "kernel_details",
    "memcpy_details",
    "long_name",
    "flops",
    "model_flops",
    "bytes_accessed",
    "partition",
    "replica",
    "name",
    "bytes_allocated",
    "allocator_name",
    "Hlo Proto",
    "profile_start_time",
    "core_count",
    "core_details",
];

const VALUES: [&str; 10] = [
    "all-reduce.3",
    "jit_f",
    "grid:8,1,1 block:256,1,1 regs:32 static_shared:0",
    "kind_src:device kind_dst:host size:4096 dest:0 async:1",
    "join data group=[1,0] devices=2 all-reduce.3",
    "GPU_0_bfc",
    "fusion",
    "7",
    "0x7",
    "",
];

/// A message under construction: its fields, in any order.
struct Fields(Vec<Vec<u8>>);

fn varint(dice: &mut Dice<'_>, out: &mut Vec<u8>, mut value: u64) {
    let from = out.len();
    loop {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
        if value == 0 {
            break;
        }
    }
    // Zeros behind a number change nothing.
    while out.len() - from < 9 && dice.one_in(100) {
        out.push(0x80);
    }
    let last = out.len() - 1;
    out[last] &= 0x7f;
}

impl Fields {
    fn int(&mut self, dice: &mut Dice<'_>, field: u64, value: i64) {
        let mut out = Vec::new();
        varint(dice, &mut out, field << 3);
        varint(dice, &mut out, value as u64);
        self.0.push(out);
    }

    fn bits(&mut self, dice: &mut Dice<'_>, field: u64, value: f64) {
        let mut out = Vec::new();
        varint(dice, &mut out, field << 3 | 1);
        out.extend(value.to_le_bytes());
        self.0.push(out);
    }

    fn bytes(&mut self, dice: &mut Dice<'_>, field: u64, value: &[u8]) {
        let mut out = Vec::new();
        varint(dice, &mut out, field << 3 | 2);
        varint(dice, &mut out, value.len() as u64);
        out.extend_from_slice(value);
        self.0.push(out);
    }

    /// The message: its fields, some perhaps in another order, twice, or unknown.
    fn message(mut self, dice: &mut Dice<'_>) -> Vec<u8> {
        match dice.below(40) {
            1 => {
                let (field, value) = (100 + dice.below(1000) as u64, dice.number());
                self.int(dice, field, value);
            }
            2 => {
                let unknown = dice.bytes(12);
                self.bytes(dice, 50, &unknown);
            }
            3 => self.bits(dice, 60, 1.0),
            4 => self.0.push([vec![0xfd, 0x04], vec![1, 2, 3, 4]].concat()),
            // A group of nothing, and one of a number.
            6 => self.0.push(vec![0x53, 0x54]),
            7 => self.0.push(vec![0x53, 0x08, 0x07, 0x54]),
            5 if !self.0.is_empty() => {
                let again = dice.below(self.0.len());
                self.0.push(self.0[again].clone());
            }
            _ => {}
        }
        // What breaks a message is rare, as a profile has hundreds.
        if dice.one_in(4000) {
            self.0.push(dice.bytes(6));
        }
        if dice.one_in(6) && !self.0.is_empty() {
            let by = dice.below(self.0.len());
            self.0.rotate_left(by);
        }
        let mut out = self.0.concat();
        if dice.one_in(4000) {
            out.truncate(dice.below(out.len() + 1));
        }
        out
    }
}

fn space(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out = Fields(Vec::new());
    for _ in 0..=dice.below(4) {
        let plane = plane(dice);
        out.bytes(dice, 1, &plane);
    }
    for field in [2, 3, 4] {
        if dice.one_in(4) {
            let text = dice.text();
            out.bytes(dice, field, text.as_bytes());
        }
    }
    out.message(dice)
}

fn plane(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out = Fields(Vec::new());
    let id = dice.below(4) as i64;
    out.int(dice, 1, id);
    let name = dice.pick(&PLANES);
    out.bytes(dice, 2, name.as_bytes());
    for _ in 0..dice.below(4) {
        let line = line(dice);
        out.bytes(dice, 3, &line);
    }
    for (id, name) in EVENTS.iter().enumerate() {
        if dice.one_in(20) {
            continue;
        }
        let mut meta = Fields(Vec::new());
        meta.int(dice, 1, id as i64);
        meta.bytes(dice, 2, name.as_bytes());
        if dice.one_in(6) {
            let shown = dice.pick(&EVENTS);
            meta.bytes(dice, 4, shown.as_bytes());
        }
        if dice.one_in(4) {
            let stat = stat(dice);
            meta.bytes(dice, 5, &stat);
        }
        entry(dice, &mut out, 4, id as i64, meta);
    }
    for (id, name) in STATS.iter().enumerate() {
        if dice.one_in(40) {
            continue;
        }
        let mut meta = Fields(Vec::new());
        meta.int(dice, 1, id as i64);
        meta.bytes(dice, 2, name.as_bytes());
        entry(dice, &mut out, 5, id as i64, meta);
    }
    for _ in 0..dice.below(3) {
        let stat = stat(dice);
        out.bytes(dice, 6, &stat);
    }
    out.message(dice)
}

/// An entry of a map.
fn entry(dice: &mut Dice<'_>, out: &mut Fields, field: u64, id: i64, value: Fields) {
    let value = value.message(dice);
    let mut entry = Fields(Vec::new());
    if id != 0 {
        entry.int(dice, 1, id);
    }
    entry.bytes(dice, 2, &value);
    let entry = entry.message(dice);
    out.bytes(dice, field, &entry);
}

fn line(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out = Fields(Vec::new());
    let (id, start) = (dice.number(), dice.below(1 << 16) as i64);
    out.int(dice, 1, id);
    let name = dice.pick(&LINES);
    out.bytes(dice, 2, name.as_bytes());
    let start = if dice.one_in(10) { dice.number() } else { start };
    out.int(dice, 3, start);
    let mut at = 0;
    for _ in 0..dice.below(12) {
        let mut event = Fields(Vec::new());
        let meta = if dice.one_in(30) { dice.number() } else { dice.below(EVENTS.len()) as i64 };
        event.int(dice, 1, meta);
        let dur = if dice.one_in(30) { dice.number() } else { dice.below(5000) as i64 };
        match dice.below(16) {
            1 => event.int(dice, 5, 3),
            2 => {
                let odd = dice.number();
                event.int(dice, 2, odd);
            }
            _ => event.int(dice, 2, at),
        }
        event.int(dice, 3, dur);
        // Behind the one before, or inside of it.
        at += if dice.one_in(3) { 1 } else { dur.clamp(0, 1 << 20) };
        for _ in 0..dice.below(4) {
            let stat = stat(dice);
            event.bytes(dice, 4, &stat);
        }
        let event = event.message(dice);
        out.bytes(dice, 4, &event);
    }
    out.message(dice)
}

fn stat(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out = Fields(Vec::new());
    let id = dice.below(STATS.len()) as i64;
    out.int(dice, 1, id);
    let (number, text) = (dice.number(), dice.pick(&VALUES));
    match dice.below(8) {
        0 => {
            let value = dice.double();
            out.bits(dice, 2, value);
        }
        1 => out.int(dice, 3, number),
        2 | 3 => out.int(dice, 4, number),
        4 => out.bytes(dice, 5, text.as_bytes()),
        5 => {
            let bytes = dice.bytes(16);
            out.bytes(dice, 6, &bytes);
        }
        6 => {
            let other = dice.below(STATS.len()) as i64;
            out.int(dice, 7, other);
        }
        _ => {}
    }
    out.message(dice)
}
