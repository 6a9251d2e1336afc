//! Reads execution traces of PyTorch (`torch_et_0.json`): the operators of a process as nodes, with the
//! values, shapes and types of what went in and came out; no times that could be used.
//!
//! In: the bytes of one file (schema 1.0.1 to 1.1.1, and those of Chakra). Out: a [`Share`] with spool
//! files for `et_nodes` and `metadata`, without the rank. Not here: which rank it is (`job`), and which
//! event of Kineto a node is (`sql/derived/et_links.sql`).
//!
//! The list of nodes is read one node at a time; nothing follows parents, so that no chain of them can
//! be too long or closed.

mod collective;
mod node;

use std::path::Path;

use crate::error::{Error, Result};
use crate::input::json::{self, Found, Scanner, Stop};
use crate::input::place::Place;
use crate::input::window::{End, MAX_VALUE_BYTES, Window};
use crate::pool::Pool;
use crate::readers::document::note_mended;
use crate::readers::et::node::Nodes;
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::schema::table;
use crate::spool::parquet::{BATCH_ROWS, Effort, Sink};
use crate::spool::rows::Rows;
use crate::spool::totals::Totals;

/// How a file is to be read.
pub struct Reading<'a> {
    /// Where it lies.
    pub place: &'a Place,
    /// Folder for the spool files.
    pub spool: &'a Path,
    /// Number of the source.
    pub source_id: i64,
    /// Whether complete nodes of a damaged file are kept.
    pub keep_partial: bool,
    /// Threads that share the work.
    pub pool: &'a Pool,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Content {
    /// An execution trace.
    Trace(Box<Share>),
    /// It has events: a trace of Kineto.
    Kineto,
    /// Readable, and no execution trace: what it is.
    Other(String),
}

/// Text of nodes that is collected before it is written, in bytes.
const BATCH_BYTES: usize = 8 << 20;
/// Members of the header, at most.
const MAX_HEADER: usize = 1000;

/// Reads a file from `reader` into spool files.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid`, `value-too-large` with the offset in the unpacked
/// file; `io` when the spool cannot be written. With `keep_partial`, the first three become findings once
/// a complete node was read.
pub fn read(reading: &Reading<'_>, reader: Box<dyn std::io::Read + Send>) -> Result<Content> {
    let rows_of = |name: &str, without: &[&str]| {
        let rows = Rows::new(table(name).expect("the table is in the schema"), without);
        let path = reading.spool.join(format!("{name}.parquet"));
        let sink = Sink::new(path, rows.schema().clone(), Effort::Usual);
        (rows, sink)
    };
    let (rows, sink) = rows_of("et_nodes", &["rank"]);
    let (metadata, metadata_sink) = rows_of("metadata", &["rank"]);
    let mut file = Reader {
        window: Window::new(reader),
        scanner: Scanner::default(),
        mended: Vec::new(),
        reading,
        nodes: Nodes::default(),
        rows,
        sink,
        waiting_bytes: 0,
        metadata,
        header: 0,
        has_schema: false,
        totals: Totals::default(),
        sound: 0,
        last_end: 0,
        log: Log::default(),
    };
    match file.run() {
        Ok(None) => {}
        Ok(Some(other)) => return Ok(other),
        Err(failure) => file.keep(failure)?,
    }
    if !file.has_schema && file.sound == 0 {
        return Ok(Content::Other("JSON with `nodes` that are no operators".to_owned()));
    }
    if file.totals.events == 0 {
        file.log.add(Severity::Info, "no-events", None, || {
            "the execution trace has no nodes: only its header was read".to_owned()
        });
    }
    file.flush()?;
    let mut share = Share { is_rank: true, bytes: file.window.drain(), ..Share::default() };
    metadata_sink.push(reading.pool, file.metadata.take()?);
    for (name, sink) in [("et_nodes", &file.sink), ("metadata", &metadata_sink)] {
        if let Some(path) = sink.finish(reading.pool)? {
            share.spool.insert(name, path);
        }
    }
    (share.log, share.totals) = (file.log, file.totals);
    Ok(Content::Trace(Box::new(share)))
}

/// A fault of the file, before its place is known.
struct Fault {
    code: &'static str,
    message: String,
    offset: u64,
}

enum Failure {
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

struct Reader<'a> {
    window: Window,
    scanner: Scanner,
    /// Strict form of the current value, when the file's own is not strict.
    mended: Vec<u8>,
    reading: &'a Reading<'a>,
    nodes: Nodes,
    rows: Rows,
    sink: std::sync::Arc<Sink>,
    waiting_bytes: usize,
    metadata: Rows,
    /// Members of the header so far.
    header: usize,
    has_schema: bool,
    totals: Totals,
    /// Nodes with an id and a name.
    sound: u64,
    /// Offset after the last complete node.
    last_end: u64,
    log: Log,
}

impl Reader<'_> {
    fn fault<T>(&self, code: &'static str, message: String, at: usize) -> Result<T, Failure> {
        let offset = self.window.offset + at as u64;
        Err(Failure::Fault(Fault { code, message, offset }))
    }

    /// A byte that must not stand there.
    fn invalid<T>(&self, at: usize) -> Result<T, Failure> {
        let byte = self.window.bytes().get(at).copied().unwrap_or_default() as char;
        self.fault("json-invalid", format!("byte {byte:?} cannot stand there in JSON"), at)
    }

    /// The file ends where it must not.
    fn ended<T>(&self, inside: &str) -> Result<T, Failure> {
        let at = self.window.bytes().len();
        let (code, message) = match self.window.end() {
            Some(End::Broken(why)) => ("gzip-broken", format!("the file cannot be read on: {why}")),
            Some(End::Unreadable(why)) => {
                ("file-unreadable", format!("the file cannot be read on: {why}"))
            }
            Some(End::Truncated) => {
                ("trace-truncated", format!("the compressed file ends early, inside {inside}"))
            }
            _ => ("trace-truncated", format!("the trace ends inside {inside}")),
        };
        self.fault(code, message, at)
    }

    /// What was read before a fault, where that is to be kept.
    fn keep(&mut self, failure: Failure) -> Result<()> {
        let fault = match failure {
            Failure::Fault(fault) => fault,
            Failure::Error(error) => return Err(error),
        };
        let count = self.totals.events;
        let keepable =
            count > 0 && matches!(fault.code, "trace-truncated" | "gzip-broken" | "json-invalid");
        if keepable && self.reading.keep_partial {
            let lost = self.window.drain() - self.last_end;
            let message = format!(
                "{}; kept {count} complete nodes, lost the {lost} bytes after byte {}",
                fault.message, self.last_end
            );
            self.log.add(Severity::Error, fault.code, Some(self.last_end), || message);
            return Ok(());
        }
        let mut at = format!("{}, byte {}", self.reading.place.display(), fault.offset);
        if count > 0 {
            at.push_str(&format!(", node {} ({count} complete nodes before it)", count + 1));
        }
        Err(Error::new(fault.code, fault.message).at(at).hint(match fault.code {
            _ if keepable => {
                "record the execution trace again, or keep the complete nodes with --keep-partial"
            }
            "file-unreadable" => "check the disk that the file lies on",
            _ => "record the execution trace again",
        }))
    }

    /// Finds the value at the front of the window, reading on as needed.
    fn value(&mut self, inside: &str) -> Result<Found, Failure> {
        loop {
            match self.scanner.find(self.window.bytes(), &mut self.mended) {
                Ok(found) => return Ok(found),
                Err(Stop::Incomplete) => {}
                Err(Stop::Invalid(at)) => return self.invalid(at),
            }
            if self.window.bytes().len() > MAX_VALUE_BYTES {
                let message = format!("one value is larger than {} MiB", MAX_VALUE_BYTES >> 20);
                return self.fault("value-too-large", message, 0);
            }
            if !self.window.fill() {
                return self.ended(inside);
            }
        }
    }

    /// The strict text of a found value, which is consumed.
    fn take(&mut self, found: &Found) -> String {
        let bytes = match found.mended {
            Some(_) => self.mended.as_slice(),
            None => {
                let bytes = &self.window.bytes()[..found.length];
                &bytes[json::skip_space(bytes, 0)..]
            }
        };
        let text = String::from_utf8_lossy(bytes).into_owned();
        let offset = self.window.offset;
        self.window.consume(found.length);
        if let Some(mended) = found.mended {
            note_mended(&mut self.log, mended, offset);
        }
        text
    }

    /// The whole file; what it is, when it is no execution trace.
    fn run(&mut self) -> Result<Option<Content>, Failure> {
        while self.window.bytes().len() < 3 && self.window.fill() {}
        if self.window.bytes().starts_with(&[0xEF, 0xBB, 0xBF]) {
            self.window.consume(3);
        }
        match self.window.peek() {
            Some(b'{') => self.window.consume(1),
            Some(_) => return Ok(Some(Content::Other("no JSON object".to_owned()))),
            None => return self.ended("the first value"),
        }
        if let Some(other) = self.object()? {
            return Ok(Some(other));
        }
        if self.window.peek().is_some() {
            let offset = self.window.offset;
            self.log.add(Severity::Loss, "trailing-data", Some(offset), || {
                "there are bytes after the end of the trace; they were left out".to_owned()
            });
        }
        match self.window.end() {
            Some(End::Broken(_) | End::Truncated | End::Unreadable(_)) => {
                self.ended("the end of the compressed file")
            }
            _ => Ok(None),
        }
    }

    fn object(&mut self) -> Result<Option<Content>, Failure> {
        let mut has_nodes = false;
        loop {
            match self.window.peek() {
                Some(b'}') => {
                    self.window.consume(1);
                    break;
                }
                Some(b',') => self.window.consume(1),
                Some(b'"') => {
                    let found = self.value("a key of the header")?;
                    let raw = self.take(&found);
                    let key = json::text(&raw).map(|t| t.into_owned()).unwrap_or_default();
                    match self.window.peek() {
                        Some(b':') => self.window.consume(1),
                        Some(_) => return self.invalid(0),
                        None => return self.ended("the header"),
                    }
                    let is_list = self.window.peek() == Some(b'[');
                    match &*key {
                        "nodes" if is_list && !has_nodes => {
                            has_nodes = true;
                            self.list()?;
                        }
                        "traceEvents" if is_list => return Ok(Some(Content::Kineto)),
                        _ => self.member(&key)?,
                    }
                }
                Some(_) => return self.invalid(0),
                None => return self.ended("the header"),
            }
        }
        Ok((!has_nodes).then(|| {
            Content::Other("JSON like an execution trace, without a list of `nodes`".to_owned())
        }))
    }

    /// A member of the header: a row of `metadata`.
    fn member(&mut self, key: &str) -> Result<(), Failure> {
        let found = self.value("the header")?;
        let raw = self.take(&found);
        let text = json::text(&raw).map_or(raw.clone(), |t| t.into_owned());
        match key {
            "schema" => self.has_schema = true,
            "pid" => {
                self.totals.host_pid = json::integer(&raw).filter(|pid| *pid >= 0);
                if self.totals.events > 0 {
                    self.log.add(Severity::Info, "pid-late", Some(self.window.offset), || {
                        "the process stands after the nodes; theirs is NULL".to_owned()
                    });
                }
            }
            _ => {}
        }
        self.header += 1;
        if self.header <= MAX_HEADER {
            self.metadata.text(Some(&format!("et:{key}"))).text(Some(&text)).end_row();
        } else {
            self.log.add(Severity::Loss, "header-cut", Some(self.window.offset), || {
                format!("more than {MAX_HEADER} members beside the nodes; the rest is left out")
            });
        }
        Ok(())
    }

    /// The list of nodes.
    fn list(&mut self) -> Result<(), Failure> {
        self.window.consume(1);
        loop {
            match self.window.peek() {
                Some(b']') => {
                    self.window.consume(1);
                    return Ok(());
                }
                Some(b',') => self.window.consume(1),
                Some(_) => {
                    let offset = self.window.offset;
                    let found = self.value("a node")?;
                    let text = self.take(&found);
                    self.node(&text, offset)?;
                }
                None => return self.ended("the list of nodes"),
            }
        }
    }

    fn node(&mut self, text: &str, offset: u64) -> Result<()> {
        let source_id = self.reading.source_id;
        let odd = match text.starts_with('{') {
            true => self.nodes.add(&mut self.rows, source_id, self.totals.host_pid, text),
            false => None,
        };
        let Some(odd) = odd else {
            self.totals.skipped += 1;
            self.log.add(Severity::Loss, "node-invalid", Some(offset), || {
                "elements of `nodes` that have neither a name nor an id; left out".to_owned()
            });
            return Ok(());
        };
        if odd.no_id {
            self.log.add(Severity::Loss, "node-id", Some(offset), || {
                "nodes whose id is no integer from 0 on; kept without one".to_owned()
            });
        }
        if odd.text_id {
            self.log.add(Severity::Info, "node-id-text", Some(offset), || {
                "nodes whose id is text; the digits were taken".to_owned()
            });
        }
        self.sound += u64::from(!odd.no_id);
        self.totals.events += 1;
        self.last_end = self.window.offset;
        self.waiting_bytes += text.len();
        if self.rows.len() >= BATCH_ROWS || self.waiting_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        let batch = self.rows.take()?;
        self.sink.push(self.reading.pool, batch);
        Ok(())
    }
}
