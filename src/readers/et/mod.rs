//! Reads execution traces of PyTorch (`torch_et_0.json`): the operators of a process as nodes, with
//! the values, shapes and types of what went in and came out; no times that could be used.
//!
//! In: the bytes of one file (schema 1.0.1 to 1.1.1, and those of Chakra). Out: a [`Share`] with
//! spool files for `et_nodes` and `metadata`, without the rank. Not here: which rank it is
//! (`ingest::ranks::et`), and which event of Kineto a node is (`sql/derived/et_links.sql`).
//!
//! The list of nodes is read one node at a time; nothing follows parents, so that no chain of them
//! can be too long or closed.

mod collective;
mod node;

use std::io::Read;
use std::sync::Arc;

use crate::error::Result;
use crate::input::json;
use crate::input::place::{self, Opened};
use crate::readers::contract::{Answer, Kind, Reading};
use crate::readers::document::{Document, Failure, Words};
use crate::readers::et::node::Nodes;
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::schema::table;
use crate::spool::parquet::{BATCH_ROWS, Effort, Sink, Stay};
use crate::spool::rows::Rows;
use crate::spool::totals::Totals;

/// Text of nodes that is collected before it is written, in bytes.
const BATCH_BYTES: usize = 8 << 20;
/// Members of the header, at most.
const MAX_HEADER: usize = 1000;

const NODES: Words = Words {
    element: "node",
    again: "record the execution trace again",
    keep: "record the execution trace again, or keep the complete nodes with --keep-partial",
    no_colon: None,
};

/// Reads a file into spool files.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `json-invalid`, `value-too-large` with the offset in the
/// unpacked file; `io` when the spool cannot be written. With `keep_partial`, the first three
/// become findings once a complete node was read.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    let Opened { reader, file } = place::open(reading.place, reading.watcher)?;
    let share = match read_bytes(reader, reading)? {
        Ok(share) => share,
        Err(answer) => return Ok(answer),
    };
    let sha256 = file.sha256(&reading.place.file)?;
    Ok(Answer::Shares { shares: vec![share], sha256 })
}

/// Reads an execution trace from its bytes; the answer in its place where they are none.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(
    reader: Box<dyn Read + Send>,
    reading: &Reading<'_>,
) -> Result<Result<Share, Answer>> {
    let folder = (reading.folder)(0)?;
    let rows_of = |name: &str, without: &[&str]| {
        let rows = Rows::new(table(name).expect("the table is in the schema"), without);
        let path = folder.join(format!("{name}.parquet"));
        let sink = Sink::new(path, rows.schema().clone(), Effort::Usual, Stay::OnTheWay);
        (rows, sink)
    };
    let (rows, sink) = rows_of("et_nodes", &["rank"]);
    let (metadata, metadata_sink) = rows_of("metadata", &["rank"]);
    let mut file = Reader {
        document: Document::new(reader, &NODES),
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
        Ok(Some(answer)) => return Ok(Err(answer)),
        Err(failure) => {
            let kept = (file.totals.events, file.last_end);
            file.document.keep(failure, reading, &mut file.log, kept)?;
        }
    }
    if !file.has_schema && file.sound == 0 {
        return Ok(Err(Answer::other("JSON with `nodes` that are no operators")));
    }
    if file.totals.events == 0 {
        file.log.add(Severity::Info, "no-events", None, || {
            "the execution trace has no nodes: only its header was read".to_owned()
        });
    }
    file.flush()?;
    let bytes = file.document.window.drain();
    let mut share = Share { is_rank: true, bytes, ..Share::default() };
    metadata_sink.push(reading.pool, file.metadata.take()?);
    for (name, sink) in [("et_nodes", &file.sink), ("metadata", &metadata_sink)] {
        if let Some(path) = sink.finish(reading.pool)? {
            share.spool.insert(name, path);
        }
    }
    (share.log, share.totals) = (file.log, file.totals);
    Ok(Ok(share))
}

struct Reader<'a> {
    document: Document,
    reading: &'a Reading<'a>,
    nodes: Nodes,
    rows: Rows,
    sink: Arc<Sink>,
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
    /// The whole file; what it is, when it is no execution trace.
    fn run(&mut self) -> Result<Option<Answer>, Failure> {
        // Its kind was told by the brace.
        match self.document.first() {
            Some(b'{') => self.document.window.consume(1),
            _ => return self.document.ended("the first value"),
        }
        let mut has_nodes = false;
        while let Some(key) = self.document.key(&mut self.log)? {
            let is_list = self.document.window.peek() == Some(b'[');
            match &*key {
                "nodes" if is_list && !has_nodes => {
                    has_nodes = true;
                    self.list()?;
                }
                "traceEvents" if is_list => return Ok(Some(Answer::Is(Kind::Json))),
                _ => self.member(&key)?,
            }
        }
        if !has_nodes {
            let what = "JSON like an execution trace, without a list of `nodes`";
            return Ok(Some(Answer::other(what)));
        }
        self.document.close(&mut self.log)?;
        Ok(None)
    }

    /// A member of the header: a row of `metadata`.
    fn member(&mut self, key: &str) -> Result<(), Failure> {
        let raw = self.document.value("the header", &mut self.log, str::to_owned)?;
        let text = json::text(&raw).map_or(raw.clone(), |t| t.into_owned());
        match key {
            "schema" => self.has_schema = true,
            "pid" => {
                self.totals.host_pid = json::integer(&raw).filter(|pid| *pid >= 0);
                if self.totals.events > 0 {
                    self.log.add(
                        Severity::Info,
                        "pid-late",
                        Some(self.document.window.offset),
                        || "the process stands after the nodes; theirs is NULL".to_owned(),
                    );
                }
            }
            _ => {}
        }
        self.header += 1;
        if self.header <= MAX_HEADER {
            self.metadata.text(Some(&format!("et:{key}"))).text(Some(&text)).end_row();
        } else {
            self.log.add(Severity::Loss, "header-cut", Some(self.document.window.offset), || {
                format!("more than {MAX_HEADER} members beside the nodes; the rest is left out")
            });
        }
        Ok(())
    }

    /// The list of nodes.
    fn list(&mut self) -> Result<(), Failure> {
        self.document.window.consume(1);
        loop {
            match self.document.window.peek() {
                Some(b']') => {
                    self.document.window.consume(1);
                    return Ok(());
                }
                Some(b',') => self.document.window.consume(1),
                Some(_) => {
                    let offset = self.document.window.offset;
                    let text = self.document.value("a node", &mut self.log, str::to_owned)?;
                    self.node(&text, offset)?;
                }
                None => return self.document.ended("the list of nodes"),
            }
        }
    }

    fn node(&mut self, text: &str, offset: u64) -> Result<()> {
        let source_id = self.reading.source_id;
        let pid = self.totals.host_pid;
        let is_object = text.starts_with('{');
        let odd = is_object.then(|| self.nodes.add(&mut self.rows, source_id, pid, text));
        let Some(odd) = odd.flatten() else {
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
        self.last_end = self.document.window.offset;
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
