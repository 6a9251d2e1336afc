//! What must hold for any bytes: one function per fuzz target. The targets call them with what the
//! fuzzer makes up, the ordinary tests with the committed corpus. Each panics when something does
//! not hold, with both sides in the message.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use ccl_sql::error::Result;
use ccl_sql::input::json::{self, Mended, Scanner, Stop};
use ccl_sql::input::place::Place;
use ccl_sql::input::progress::Watcher;
use ccl_sql::input::time::{MAX_NS, micros_to_nanos};
use ccl_sql::pool::Pool;
use ccl_sql::readers::contract::{Answer, Kind, Reading, Said};
use ccl_sql::readers::kineto::{self, Kineto};
use ccl_sql::readers::{self, bench, et, memory};
use ccl_sql::registry;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

pub mod shaped;

/// A trace file: three bytes that say how it is read, then its text.
///
/// The first byte is the size of a segment, less one; the second the size of the pieces in which
/// the reader gets the text (0 for the whole at once); the third the place where the text is cut
/// short, in 256ths. How it is read must change nothing, and a part of the text must give no more
/// than the whole.
pub fn kineto(data: &[u8]) {
    let Some((&[segment, piece, part], text)) = data.split_first_chunk() else { return };
    let whole = read(text, 0, kineto::SEGMENT_BYTES);
    let cut = read(text, piece, usize::from(segment) + 1);
    assert_eq!(cut.said, whole.said, "segments of {} bytes", u16::from(segment) + 1);
    assert!(cut.tables == whole.tables, "rows differ: {:?}, {:?}", cut.tables, whole.tables);
    sound(&whole, text);
    as_serde_reads(&whole, text);
    let spool = spool();
    let part = &text[..text.len() * usize::from(part) / 256];
    let part = content(part, 0, kineto::SEGMENT_BYTES, spool.path());
    if let (Ok(Ok(part)), Ok(Ok(whole))) = (&part, &whole.content) {
        assert!(whole.header.starts_with(&part.header), "{:?} {:?}", part.header, whole.header);
        assert!(part.totals.events <= whole.totals.events, "{part:?} {whole:?}");
    }
}

/// An export of Nsight Systems: its bytes.
///
/// Whatever they are, there is an answer: an error with a code that says what is wrong with the
/// file, or shares whose rows are as many as they say, each with a start that has a place in time.
pub fn nsys(data: &[u8]) {
    let folder = spool();
    let file = folder.path().join("export.sqlite");
    std::fs::write(&file, data).expect("the file can be written");
    shares_are_sound(
        read_as(Kind::Sqlite, &Place::file(&file), Said::default(), readers::read),
        &["trace-truncated", "database-corrupt", "value-too-large", "nsys-unusable"],
    );
}

/// What `read` says of a file of a kind, whose rows go into folders beside it.
fn read_as<T>(
    kind: Kind,
    place: &Place,
    said: Said,
    read: impl FnOnce(&Reading<'_>) -> Result<T>,
) -> Result<T> {
    let folder = |share: usize| {
        let path = place.file.with_extension(format!("{share}.spool"));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Ok(path)
    };
    read(&Reading {
        place,
        kind,
        source_id: 3,
        said,
        keep_partial: true,
        folder: &folder,
        pool: &Arc::new(Pool::new(1)),
        own_steps: None,
        watcher: &Watcher::default(),
    })
}

/// A profile of XLA: its bytes, of either form.
///
/// The promise is that of [`nsys`].
pub fn xla(data: &[u8]) {
    let folder = spool();
    let is_json = matches!(data.first(), Some(b'{' | b'['));
    let file = folder.path().join(if is_json { "h.trace.json" } else { "h.xplane.pb" });
    std::fs::write(&file, data).expect("the file can be written");
    let kind = if is_json { Kind::XlaJson } else { Kind::XPlane };
    shares_are_sound(
        read_as(kind, &Place::file(&file), Said::default(), readers::read),
        &["trace-truncated", "protobuf-invalid", "json-invalid", "value-too-large"],
    );
}

/// An execution trace: a byte that says in which pieces the reader gets the text (0 for the whole
/// at once), then the text.
///
/// The pieces change nothing; there is a row for each node that counts, whose lists and arguments
/// are JSON; an error says where.
pub fn et(data: &[u8]) {
    let Some((piece, text)) = data.split_first() else { return };
    let read = |piece: u8| {
        let folder = spool();
        let most = if piece == 0 { usize::MAX } else { usize::from(piece) };
        let reader = Box::new(Pieces(Cursor::new(text.to_vec()), most));
        let place = Place::file(folder.path().join("et.json"));
        let outcome = read_as(Kind::ExecutionTrace, &place, Said::default(), |reading| {
            et::read_bytes(reader, &Reading { place: &Place::file("et.json"), ..*reading })
        });
        let rows = match &outcome {
            Ok(Ok(share)) => share.spool.get("et_nodes").map(|path| rows_of(path)),
            _ => None,
        };
        (outcome, rows)
    };
    let (outcome, rows) = read(0);
    let (pieces, rows_of_pieces) = read(*piece);
    assert_eq!(rows, rows_of_pieces, "pieces of {piece} bytes");
    match (&outcome, &pieces) {
        (Ok(Ok(share)), Ok(Ok(_))) => {
            assert_eq!(rows.as_ref().map_or(0, RecordBatch::num_rows) as u64, share.totals.events);
            for finding in &share.log.findings {
                assert!(finding.first_offset.unwrap_or(0) <= text.len() as u64, "{finding:?}");
            }
        }
        (Ok(_), Ok(_)) => {}
        (Err(error), Err(other)) => {
            assert_eq!(error, other);
            assert!(matches!(error.code, "trace-truncated" | "json-invalid"), "{error:?}");
            let place = error.place.as_deref().unwrap_or_default();
            let byte = place.strip_prefix("et.json, byte ").expect("an error says where");
            let byte: usize = byte.split(',').next().and_then(|b| b.parse().ok()).expect("a byte");
            assert!(byte <= text.len(), "{place}, of {} bytes", text.len());
        }
        _ => panic!("{outcome:?}, and in pieces {pieces:?}"),
    }
    for name in ["inputs", "input_shapes", "outputs", "output_types", "args"] {
        let column = rows.as_ref().and_then(|rows| rows.column_by_name(name));
        for json in column.iter().flat_map(|c| c.as_string::<i32>().iter().flatten()) {
            assert!(serde_json::from_str::<&RawValue>(json).is_ok(), "no JSON: {json}");
        }
    }
}

/// A snapshot of memory, or a raw timeline where it begins like JSON: its bytes.
///
/// There is an answer within the memory that the size of the file allows; what a pickle says is the
/// same whatever stands behind its end, and every beginning of it is refused; rows are as many as
/// they are said to be.
pub fn pickle(data: &[u8]) {
    let is_json = data.first() == Some(&b'[');
    let folder = spool();
    let read = |name: &str, data: &[u8], direct: bool| {
        let file = folder.path().join(name);
        std::fs::write(&file, data).expect("the file can be written");
        let kind = if is_json { Kind::MemoryTimeline } else { Kind::Pickle };
        let said = Said { is_named: direct, ..Said::default() };
        read_as(kind, &Place::file(&file), said, readers::read)
    };
    let outcome = read("a", data, true);
    if !is_json {
        let machine = memory::pickle::read(data);
        if let Ok(pickle) = &machine {
            let json = pickle.arena.json(pickle.root);
            serde_json::from_str::<&RawValue>(&json).expect("what is written is JSON");
            // Not cut at the end: a frame may reach beyond it.
            let longer = [data, b"cos\nsystem\n"].concat();
            let again = memory::pickle::read(&longer).expect("what stands behind is not read");
            assert_eq!((again.end, again.arena.json(again.root)), (pickle.end, json));
            let cut = memory::pickle::read(&data[..pickle.end - 1]);
            assert!(cut.is_err_and(|fault| fault.code == "trace-truncated"));
        }
        if let Err(fault) = &machine {
            assert!(fault.offset <= data.len(), "{fault:?}");
        }
    }
    match outcome {
        Ok(Answer::Is(_) | Answer::Other(_)) => {}
        Ok(Answer::Shares { shares, .. }) => {
            let share = &shares[0];
            let rows = |table: &str| -> u64 {
                let Some(path) = share.spool.get(table) else { return 0 };
                let file = std::fs::File::open(path).expect("the file is there");
                let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("it is Parquet");
                u64::try_from(reader.metadata().file_metadata().num_rows()).expect("a count")
            };
            assert_eq!(rows("memory_events"), share.totals.events, "{share:?}");
            assert!(rows("memory_events") + rows("memory_blocks") <= data.len() as u64 + 1);
        }
        Err(error) => {
            let codes = [
                "pickle-code",
                "pickle-invalid",
                "trace-truncated",
                "json-invalid",
                "gzip-broken",
                "value-too-large",
            ];
            assert!(codes.contains(&error.code), "{error}");
            // The same file in a folder is refused likewise, or set aside.
            let aside = read("b", data, false);
            assert!(!matches!(&aside, Ok(Answer::Shares { .. })), "{error}");
        }
    }
}

/// Holds the shares of a file, or the error instead of them, to their promise.
fn shares_are_sound(read: Result<Answer>, codes: &[&str]) {
    let shares = match read {
        Ok(Answer::Shares { shares, .. }) => shares,
        Ok(_) => return,
        Err(error) => return assert!(codes.contains(&error.code), "{error}"),
    };
    assert!(shares.iter().any(|s| s.is_rank), "no rank: {shares:?}");
    for share in &shares {
        let rows = |table: &str| -> u64 {
            let Some(path) = share.spool.get(table) else { return 0 };
            let file = std::fs::File::open(path).expect("the file is there");
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("it is Parquet");
            u64::try_from(reader.metadata().file_metadata().num_rows()).expect("a count")
        };
        let found = rows("host_events") + rows("device_events");
        assert_eq!(found, share.totals.events, "{share:?}");
        assert_eq!(rows("device_events"), share.totals.device_events, "{share:?}");
    }
}

/// A record of a benchmark, a log of gates, or samples where it begins like them: its bytes.
///
/// There is an answer; rows are as many as they are said to be, and of no rank; what is kept as
/// JSON is JSON; where a file ends is no reason to read other rows before that.
pub fn bench(data: &[u8]) {
    let folder = spool();
    let read = |name: &str, data: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, data).expect("the file can be written");
        let is_samples = data.starts_with(bench::samples::MAGIC);
        let kind = if is_samples { Kind::NvlinkSamples } else { Kind::BenchRecord };
        read_as(kind, &Place::file(&file), Said::default(), readers::read)
    };
    let share = match read("a", data) {
        Ok(Answer::Shares { mut shares, .. }) => shares.remove(0),
        Ok(_) => return,
        Err(error) => {
            let codes = ["trace-truncated", "json-invalid", "value-too-large", "gzip-broken"];
            return assert!(codes.contains(&error.code), "{error}");
        }
    };
    assert!(!share.is_rank);
    let rows: usize = share.spool.values().map(|path| rows_of(path).num_rows()).sum();
    assert_eq!(rows as u64, share.totals.events, "{share:?}");
    if let Some(path) = share.spool.get("benchmarks") {
        let rows = rows_of(path);
        let args = rows.column_by_name("args").expect("it is in the schema");
        for args in args.as_string::<i32>().iter().flatten() {
            serde_json::from_str::<&RawValue>(args).expect("what is kept is JSON");
        }
        let longer = [data, b"\n{}"].concat();
        let again = read("b", &longer).expect("what is behind is none");
        let Answer::Shares { shares: again, .. } = again else { panic!("it is a record") };
        assert_eq!(again[0].totals.events, share.totals.events);
    }
}

/// Gives at most so many bytes at a time.
struct Pieces(Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

/// The outcome of a text.
struct Outcome {
    content: Result<Result<Kineto, Answer>>,
    /// The content as text.
    said: String,
    /// The rows of each table.
    tables: BTreeMap<&'static str, RecordBatch>,
}

impl Outcome {
    /// Rows of a table.
    fn rows(&self, table: &str) -> u64 {
        self.tables.get(table).map_or(0, |rows| rows.num_rows() as u64)
    }
}

/// A folder for files of a few rows, made by the thousand: in memory where there is such a place.
fn spool() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a temporary folder")
}

/// Reads a text on this thread alone.
fn content(
    text: &[u8],
    piece: u8,
    segment_bytes: usize,
    spool: &Path,
) -> Result<Result<Kineto, Answer>> {
    // What is in hand is looked at again with every piece: some hundreds are enough.
    let piece = if piece == 0 { usize::MAX } else { usize::from(piece).max(text.len() / 200) };
    let reader = Box::new(Pieces(Cursor::new(text.to_vec()), piece));
    let place = Place::file(spool.join("trace.json"));
    read_as(Kind::Json, &place, Said::default(), |reading| {
        let reading = Reading { place: &Place::file("trace.json"), source_id: 0, ..*reading };
        kineto::read_bytes(reader, &reading, segment_bytes)
    })
}

/// The outcome of a text, with the rows.
fn read(text: &[u8], piece: u8, segment_bytes: usize) -> Outcome {
    let spool = spool();
    let mut content = content(text, piece, segment_bytes, spool.path());
    let mut tables = BTreeMap::new();
    if let Ok(Ok(trace)) = &mut content {
        let paths = std::mem::take(&mut trace.spool);
        tables = paths.iter().map(|(table, path)| (*table, rows_of(path))).collect();
    }
    Outcome { said: format!("{content:?}"), content, tables }
}

/// The rows of a Parquet file.
fn rows_of(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).expect("the table is there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let schema = reader.schema().clone();
    let reader = reader.build().expect("a Parquet file");
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("rows")).collect();
    concat_batches(&schema, &batches).expect("batches of one schema")
}

/// Holds the outcome of any text to its promise.
fn sound(outcome: &Outcome, text: &[u8]) {
    let trace = match &outcome.content {
        Ok(Ok(trace)) => trace,
        Ok(Err(_)) => return,
        Err(error) => {
            assert!(matches!(error.code, "trace-truncated" | "json-invalid"), "{error:?}");
            let place = error.place.as_deref().unwrap_or_default();
            let byte = place.strip_prefix("trace.json, byte ").expect("an error says where");
            let digits = byte.split(',').next().unwrap_or_default();
            let byte: usize = digits.parse().expect("an offset is a number");
            assert!(byte <= text.len(), "{place}, of {} bytes", text.len());
            return;
        }
    };
    assert_eq!(trace.bytes, text.len() as u64);
    for finding in &trace.log.findings {
        assert!(finding.first_offset.unwrap_or(0) <= trace.bytes, "{finding:?}");
        assert!(finding.count > 0, "{finding:?}");
    }
    let totals = &trace.totals;
    assert_eq!(outcome.rows("device_events"), totals.device_events);
    assert_eq!(outcome.rows("host_events") + totals.device_events, totals.events);
    assert!(outcome.rows("launches") <= totals.device_events);
    assert_eq!(LEFT_OUT.map(|code| found(trace, code)).iter().sum::<u64>(), totals.skipped);
    let mut ids: BTreeSet<i64> = BTreeSet::new();
    for table in ["device_events", "host_events"] {
        let Some(rows) = outcome.tables.get(table) else { continue };
        let column = |name| rows.column_by_name(name).expect("the table has the column");
        ids.extend(column("event_id").as_primitive::<Int64Type>().values());
        for args in column("args").as_string::<i32>().iter().flatten() {
            assert!(args.starts_with('{'), "{args}");
            assert!(serde_json::from_str::<&RawValue>(args).is_ok(), "no JSON: {args}");
        }
    }
    assert_eq!(ids.len() as u64, totals.events, "events have ids of their own");
}

/// The findings of which each stands for an element that was left out.
const LEFT_OUT: [&str; 6] = [
    "event-no-object",
    "phase-missing",
    "ts-missing",
    "name-invalid",
    "flow-id",
    "end-without-begin",
];

/// The findings about text that is no strict JSON.
const NOT_STRICT: [&str; 6] = [
    "control-character",
    "bad-escape",
    "trailing-comma",
    "not-a-number",
    "invalid-utf8",
    "trailing-data",
];

/// Times that a finding came.
fn found(trace: &Kineto, code: &str) -> u64 {
    trace.log.findings.iter().find(|f| f.code == code).map_or(0, |f| f.count)
}

/// The members of an object, in order, the same key perhaps twice.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'a> Members<'a> {
    /// The value of a key as it stands, the last one if there are several.
    fn last(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.get())
    }
}

/// Elements of the list by what the reader is to make of them.
#[derive(Debug, Default)]
struct Expected {
    elements: u64,
    /// Slices, instants and begins.
    events: u64,
    /// Ends with a time: of a slice, or left out.
    ends: u64,
    flows: u64,
    counters: u64,
    names: u64,
    no_object: u64,
    no_phase: u64,
    /// Without what their phase needs.
    lacking: u64,
    process_named: bool,
}

impl Expected {
    fn count(&mut self, element: &str) {
        self.elements += 1;
        let Ok(event) = serde_json::from_str::<Members<'_>>(element) else {
            self.no_object += 1;
            return;
        };
        let phase = match event.last("ph").map(str::as_bytes) {
            Some([b'"', phase, b'"']) => *phase,
            _ => {
                self.no_phase += 1;
                return;
            }
        };
        let usable = |ns: i64| (-MAX_NS..MAX_NS).contains(&ns);
        let timed =
            event.last("ts").is_some_and(|ts| micros_to_nanos(ts.as_bytes()).is_some_and(usable));
        let name = event.last("name").and_then(json::text);
        let id = event.last("id").is_some_and(|id| {
            let hex = |text: Cow<'_, str>| i64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
            json::integer(id).or_else(|| json::text(id).and_then(hex)).is_some()
        });
        self.process_named |= phase == b'M' && name.as_deref() == Some("process_name");
        let (kind, whole) = match phase {
            b'E' => (&mut self.ends, timed),
            b's' | b't' | b'f' => (&mut self.flows, timed && id),
            b'M' => (&mut self.names, name.is_some()),
            b'C' => (&mut self.counters, timed && name.is_some()),
            _ => (&mut self.events, timed && name.is_some()),
        };
        *(if whole { kind } else { &mut self.lacking }) += 1;
    }
}

/// Strict JSON is read as serde_json reads it: every element of the list is taken or counted.
fn as_serde_reads(outcome: &Outcome, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (members, lists) = match serde_json::from_str::<&RawValue>(text) {
        Err(_) => return,
        Ok(array) if array.get().starts_with('[') => (Members(Vec::new()), vec![array]),
        Ok(object) => {
            // Keys with a surrogate alone, and values that are no object.
            let Ok(Members(all)) = serde_json::from_str(object.get()) else { return };
            let is_list = |(key, value): &(String, &RawValue)| {
                key == "traceEvents" && value.get().starts_with('[')
            };
            let (lists, members): (Vec<_>, Vec<_>) = all.into_iter().partition(is_list);
            (Members(members), lists.into_iter().map(|(_, list)| list).collect())
        }
    };
    if lists.is_empty() {
        let is_none = matches!(outcome.content, Ok(Err(_)));
        assert!(is_none, "{}", outcome.said);
        return;
    }
    let content = match &outcome.content {
        Ok(content) => content,
        Err(error) => panic!("strict JSON was refused: {error:?}"),
    };
    if let Ok(trace) = content {
        assert!(trace.log.findings.iter().all(|f| f.code != "trace-truncated"), "{trace:?}");
        assert!(trace.log.findings.iter().all(|f| f.code != "json-invalid"), "{trace:?}");
    }
    // The reader takes keys as they stand, and a surrogate alone is mended.
    if text.contains("\\u") {
        return;
    }
    let mut expected = Expected::default();
    for list in lists {
        let elements: Vec<&RawValue> = serde_json::from_str(list.get()).expect("a list");
        elements.iter().for_each(|element| expected.count(element.get()));
    }
    let trace = match content {
        Ok(trace) => trace,
        Err(Answer::Is(Kind::XlaJson)) => {
            let says = expected.process_named || members.last("metadata").is_some();
            return assert!(says, "{expected:?}");
        }
        Err(Answer::Is(_)) => return assert!(members.last("nodes").is_some()),
        Err(what) => {
            let untyped = expected.elements > 0
                && expected.elements == expected.no_object + expected.no_phase;
            return assert!(untyped, "{what:?}: {expected:?}");
        }
    };
    for code in NOT_STRICT {
        assert_eq!(found(trace, code), 0, "{code}: {trace:?}");
    }
    let header = members.0.iter().map(|(key, value)| {
        let value = serde_json::from_str(value.get());
        (key, value.unwrap_or(Value::Null))
    });
    for ((key, value), (expected_key, expected)) in trace.header.iter().zip(header) {
        assert_eq!(key, expected_key);
        // What is nested too deep for serde_json stays text.
        assert!(*value == expected || expected.is_null() && value.is_string(), "{value}");
    }
    assert_eq!(trace.header.len(), members.0.len());
    let strays = found(trace, "end-without-begin");
    assert_eq!(found(trace, "event-no-object"), expected.no_object, "{expected:?}");
    assert_eq!(found(trace, "phase-missing"), expected.no_phase, "{expected:?}");
    assert_eq!(trace.totals.events, expected.events, "{expected:?}");
    assert_eq!(outcome.rows("flows"), expected.flows, "{expected:?}");
    let names = outcome.rows("metadata") - trace.header.len() as u64;
    assert_eq!(names, expected.names, "{expected:?}");
    assert!(strays <= expected.ends, "{strays} {expected:?}");
    let left_out = expected.no_object + expected.no_phase + expected.lacking + strays;
    assert_eq!(trace.totals.skipped, left_out, "{expected:?}");
    let taken = trace.totals.events + names + outcome.rows("flows");
    let joined = expected.ends - strays;
    let all = taken + expected.counters + joined + trace.totals.skipped;
    assert_eq!(all, expected.elements, "{expected:?}");
}

/// A value: a byte that says where it is cut short, in 256ths, then its text.
pub fn json(data: &[u8]) {
    let Some((&part, text)) = data.split_first() else { return };
    // A number ends with the byte after it; more space shows what looks further ahead.
    let padded = [text, &[b' '; 16]].concat();
    let skipped = skip(&padded);
    let mended = mend(&padded);
    // What is said of the first bytes still holds when more come.
    let part = &padded[..padded.len() * usize::from(part) / 256];
    let early = skip(part);
    assert!(early == Err(Stop::Incomplete) || early == skipped, "{early:?} {skipped:?}");
    let early = mend(part);
    assert!(early == Err(Stop::Incomplete) || early == mended, "{early:?} {mended:?}");
    // What ends by itself waits for no more.
    let first = padded.get(json::skip_space(&padded, 0));
    if let (Some(b'{' | b'[' | b'"'), Ok(mended)) = (first, &mended) {
        assert_eq!(mend(&padded[..mended.end]).as_ref(), Ok(mended));
    }
    mends_to_strict_json(&padded, skipped, &mended);
    let Ok(text) = std::str::from_utf8(text) else { return };
    is_json_for_serde_too(text, skipped);
    let token = text.trim_ascii();
    let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(token);
    assert_eq!(json::integer(token), inner.parse().ok(), "{token}");
    if let Some(expected) = nanos(inner) {
        assert_eq!(micros_to_nanos(token.as_bytes()), expected, "{token}");
    }
}

/// The end of a value, and its depth.
type Skipped = Result<(usize, usize), Stop>;

fn skip(bytes: &[u8]) -> Skipped {
    let mut scanner = Scanner::default();
    let end = scanner.skip(bytes, 0)?;
    Ok((end, scanner.depth))
}

/// A value and its strict form.
#[derive(Debug, PartialEq)]
struct Mend {
    end: usize,
    depth: usize,
    strict: String,
    what: Mended,
}

fn mend(bytes: &[u8]) -> Result<Mend, Stop> {
    let (mut scanner, mut strict) = (Scanner::default(), Vec::new());
    let (end, what) = scanner.mend(bytes, 0, &mut strict)?;
    let strict = String::from_utf8(strict).expect("mended text is UTF-8");
    Ok(Mend { end, depth: scanner.depth, strict, what })
}

/// What is strict stays as it is, but for white space; what can be mended becomes strict.
fn mends_to_strict_json(padded: &[u8], skipped: Skipped, mended: &Result<Mend, Stop>) {
    let Ok(mended) = mended else {
        assert!(skipped.is_err(), "strict, and not to be mended: {skipped:?} {mended:?}");
        return;
    };
    let again = format!("{} ", mended.strict).into_bytes();
    assert_eq!(skip(&again), Ok((mended.strict.len(), mended.depth)), "{mended:?}");
    let again = mend(&again).expect("strict JSON needs no mending");
    assert_eq!((&again.strict, again.what), (&mended.strict, Mended::default()));
    let text = std::str::from_utf8(&padded[..mended.end]);
    // A number ends where no more of it can follow (`1.5px`), a word to be mended after it.
    let same_end = matches!(skipped, Ok((end, _)) if end == mended.end);
    let first = padded[json::skip_space(padded, 0)];
    assert!(same_end || skipped.is_err() || !matches!(first, b'{' | b'[' | b'"'), "{mended:?}");
    let was_strict = same_end && text.is_ok();
    assert_eq!(was_strict, mended.what == Mended::default(), "{skipped:?} {mended:?}");
    if let (true, Ok(text)) = (was_strict, text) {
        assert_eq!(skipped, Ok((mended.end, mended.depth)));
        // What is nested too deep is compared without white space only.
        match serde_json::from_str::<Value>(text) {
            Ok(value) => assert_eq!(serde_json::from_str(&mended.strict).ok(), Some(value)),
            Err(_) => assert!(mended.strict.len() <= text.len(), "{mended:?}"),
        }
    }
}

/// A value is strict JSON when serde_json says so, and has the same parts.
fn is_json_for_serde_too(text: &str, skipped: Skipped) {
    let is_json = |text| serde_json::from_str::<&RawValue>(text).is_ok();
    let Ok((end, _)) = skipped else {
        // serde_json looks at surrogates only when it makes text of them.
        let surrogate = text.contains("\\u") && serde_json::from_str::<Value>(text).is_err();
        return assert!(!is_json(text) || surrogate, "{skipped:?}");
    };
    assert!(is_json(&text[..end]), "{}", &text[..end]);
    assert_eq!(is_json(text), json::skip_space(text.as_bytes(), end) == text.len());
    let value = &text[json::skip_space(text.as_bytes(), 0)..end];
    let b = value.as_bytes();
    match (b[0], serde_json::from_str(value)) {
        (b'{', Ok(Value::Object(expected))) => {
            let mut found = serde_json::Map::new();
            let end = Scanner::default().members(b, 0, |scanner, key, from| {
                let end = scanner.skip(b, from)?;
                let member = serde_json::from_str(&value[from..end]).expect("a member is JSON");
                found.insert(json::unescape(&value[key]).into_owned(), member);
                Ok(end)
            });
            assert_eq!(end, Ok(b.len()));
            assert_eq!(found, expected);
        }
        (b'[', _) => {
            let expected: Vec<&RawValue> = serde_json::from_str(value).expect("a list");
            assert!(json::elements(value).eq(expected.iter().map(|e| e.get())), "{value}");
        }
        (b'"', Ok(Value::String(expected))) => {
            assert_eq!(json::text(value).as_deref(), Some(expected.as_str()));
        }
        _ => {}
    }
}

/// The outer None for what is no decimal number; the inner one where the nanoseconds do not fit.
/// Made of digits only, with the point moved in the text.
fn nanos(token: &str) -> Option<Option<i64>> {
    let (negative, rest) = match token.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, token),
    };
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let exponent = exponent.parse::<i64>().ok().filter(|e| e.abs() < 400)?;
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_digits = |t: &str| !t.is_empty() && t.bytes().all(|c| c.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) {
        return None;
    }
    let mut digits = format!("{whole}{decimals}");
    let mut point = whole.len() as i64 + 3 + exponent;
    if point < 1 {
        digits.insert_str(0, &"0".repeat((1 - point) as usize));
        point = 1;
    }
    let point = point as usize;
    let digits = format!("{digits:0<point$}");
    let (kept, rest) = digits.split_at(point);
    let kept = match kept.trim_start_matches('0') {
        "" => 0,
        kept if kept.len() > 30 => return Some(None),
        kept => kept.parse::<i128>().ok()?,
    };
    let up = match rest.trim_end_matches('0') {
        "5" => kept % 2 == 1,
        rest => rest >= "5",
    };
    let value = i64::try_from(kept + i128::from(up)).ok();
    Some(value.map(|value| if negative { -value } else { value }))
}

/// The text of an SQL file.
pub fn header(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = registry::header::parse("x.sql", text);
    match &parsed {
        Ok(header) => {
            assert!(registry::header::is_name(&header.name), "{header:?}");
            assert!(header.version > 0 && !header.summary.is_empty(), "{header:?}");
            let metric = header.kind == registry::header::Kind::Metric;
            assert!(!metric || header.value_column().is_some(), "{header:?}");
        }
        Err(error) => {
            let place = error.place.as_deref().unwrap_or_default();
            let line = place.strip_prefix("x.sql:").expect("an error says where");
            let line: usize = line.parse().expect("a line is a number");
            assert!((1..=text.lines().count().max(1)).contains(&line), "{place}");
        }
    }
    // The header ends where the query begins.
    let query = "\nSELECT 1 -- @metric again\n-- @grain of the query\n";
    assert_eq!(registry::header::parse("x.sql", &format!("{text}{query}")), parsed);
}
