//! Where results go, and in which form.
//!
//! A result file (`.output`) grows by every result, so unlike other files it does not appear whole;
//! that of `.once` holds one result, and does.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::cli::context::Context;
use crate::cli::shell::commands::Mode;
use crate::cli::terminal::{columns, lines, printable};
use crate::engine::interrupt;
use crate::engine::types::short_type;
use crate::error::{Error, Result, io};
use crate::report::grid::table::{LONGEST_CELL, Layout};
use crate::report::people::People;
use crate::report::staged::write_file;
use crate::report::{Format as Form, Grid};

/// The place of results.
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file that grows.
    File {
        /// The file.
        file: File,
        /// Its path.
        path: PathBuf,
    },
}

/// The place of the next result alone.
#[derive(Debug, Clone)]
pub struct Once {
    /// The file.
    pub path: PathBuf,
    /// Whether to write over one that is there.
    pub force: bool,
}

/// The form of results.
#[derive(Debug, Clone)]
pub struct Look {
    /// The mode.
    pub mode: Mode,
    /// Whether numbers stand as they are on a screen too.
    pub exact: bool,
    /// Rows of a table that are shown.
    pub rows: usize,
    /// Columns of the screen, where they are set by hand.
    pub width: Option<usize>,
    /// Whether results that are longer than the screen go through a pager.
    pub pager: bool,
}

/// The rows of a statement that are kept: all of them, or the first and the last.
pub struct Kept {
    schema: SchemaRef,
    most: usize,
    head: Vec<RecordBatch>,
    tail: VecDeque<RecordBatch>,
    rows: usize,
}

impl Kept {
    /// Keeps `most` rows.
    pub fn new(schema: SchemaRef, most: usize) -> Self {
        Self { schema, most, head: Vec::new(), tail: VecDeque::new(), rows: 0 }
    }

    /// Takes the next rows.
    pub fn add(&mut self, batch: &RecordBatch) {
        let room = self.most.saturating_sub(self.rows).min(batch.num_rows());
        self.rows += batch.num_rows();
        if room > 0 {
            self.head.push(batch.slice(0, room));
        }
        let rest = batch.num_rows() - room;
        if rest == 0 {
            return;
        }
        self.tail.push_back(batch.slice(room, rest));
        let mut held: usize = self.tail.iter().map(RecordBatch::num_rows).sum();
        while let Some(first) = self.tail.front()
            && held - first.num_rows() >= self.most
        {
            held -= first.num_rows();
            self.tail.pop_front();
        }
    }

    /// The first rows, as many as are kept.
    fn first(&self) -> Vec<RecordBatch> {
        if self.head.is_empty() {
            return vec![RecordBatch::new_empty(self.schema.clone())];
        }
        self.head.clone()
    }

    /// The number of all rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The first rows as a grid.
    pub fn grid(&self) -> Grid {
        Grid::of_batches(self.first())
    }

    /// The rows for a screen: where they are too many, half from the beginning and half from the
    /// end.
    pub fn people(&self, exact: bool) -> People {
        let grid = self.grid();
        let mut head = grid.rows;
        let mut tail = Vec::new();
        if self.rows > head.len() {
            let half = self.most / 2;
            let behind = Grid::of_batches(self.tail.iter().cloned().collect()).rows;
            let last: Vec<_> = head.iter().chain(&behind).rev().take(half).cloned().collect();
            tail = last.into_iter().rev().collect();
            head.truncate(self.most - half);
        }
        let fields = self.schema.fields();
        People {
            columns: grid.columns,
            types: fields.iter().map(|f| short_type(f.data_type())).collect(),
            head,
            tail,
            total: Some(self.rows),
            exact,
        }
    }
}

/// The writer of results.
pub struct Sink<'c> {
    /// What the shell runs in.
    pub context: &'c Context,
    /// The place of results.
    pub output: Output,
    /// The place of the next result.
    pub once: Option<Once>,
    /// The form of results.
    pub look: Look,
    /// Whether the shell forbids files.
    pub sandbox: bool,
    /// Whether lines are typed.
    pub interactive: bool,
    /// Whether nobody reads the results any more.
    pub closed: bool,
}

impl Sink<'_> {
    /// The mode of the next result: of a file that is named for it, as its ending says.
    pub fn mode(&self) -> Mode {
        let ending = self.once.as_ref().and_then(|once| once.path.extension());
        ending.and_then(|e| Mode::of_ending(&e.to_string_lossy())).unwrap_or(self.look.mode)
    }

    /// Whether results are read on a screen.
    fn on_screen(&self) -> bool {
        matches!(self.output, Output::Stdout)
            && self.once.is_none()
            && std::io::stdout().is_terminal()
    }

    /// Columns of the screen.
    pub fn width(&self) -> Option<usize> {
        let of_screen = || self.on_screen().then(|| columns(std::io::stdout()).unwrap_or(80));
        self.look.width.or_else(of_screen)
    }

    /// Rows of a statement that have to be kept.
    pub fn most(&self) -> usize {
        match self.mode() {
            Mode::Table | Mode::Box => self.look.rows,
            _ => usize::MAX,
        }
    }

    /// Writes the rows of a statement.
    ///
    /// # Errors
    /// `io`, `output-exists`.
    pub fn rows(&mut self, kept: &Kept) -> Result<()> {
        let mode = self.mode();
        if mode == Mode::Box || mode == Mode::Table && self.on_screen() {
            let text = kept.people(self.look.exact).write(self.width());
            return self.write(text.as_bytes());
        }
        let grid = kept.grid();
        let mut bytes = self.bytes(mode, &grid)?;
        if grid.rows.len() < kept.rows() {
            // Part of the table: whoever reads it must not take it for the whole.
            let (shown, rows) = (grid.rows.len(), kept.rows());
            bytes.extend(format!("({shown} of {rows} rows; other modes show all)\n").into_bytes());
        }
        self.write(&bytes)
    }

    /// Writes rows of the program itself.
    ///
    /// # Errors
    /// `io`, `output-exists`.
    pub fn grid(&mut self, grid: &Grid) -> Result<()> {
        let mode = self.mode();
        let bytes = match mode {
            Mode::Table | Mode::Box if self.on_screen() => {
                grid.table(Layout { width: self.width(), rows: None })
            }
            mode => self.bytes(mode, grid)?,
        };
        self.write(&bytes)
    }

    fn bytes(&self, mode: Mode, grid: &Grid) -> Result<Vec<u8>> {
        Ok(match mode {
            Mode::Table | Mode::Box => grid.bytes(Form::Table, LONGEST_CELL)?,
            Mode::Json => grid.bytes(Form::Json, LONGEST_CELL)?,
            Mode::Jsonl => grid.json_lines(),
            Mode::Csv => grid.bytes(Form::Csv, LONGEST_CELL)?,
            Mode::Tsv => grid.tab_separated(),
            Mode::Markdown => grid.bytes(Form::Markdown, LONGEST_CELL)?,
            Mode::Value => grid.bytes(Form::Value, LONGEST_CELL)?,
            Mode::Parquet => grid.bytes(Form::Parquet, LONGEST_CELL)?,
            Mode::Line => grid.lines(),
            Mode::Trash => Vec::new(),
        })
    }

    /// Bytes to where results go, in pieces, so that Ctrl-C ends a long one.
    ///
    /// # Errors
    /// `io`, `output-exists`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(Once { path, force }) = self.once.take() {
            write_file(&path, bytes, force)?;
            self.context.printer.note(&format!("wrote {}", path.display()));
            return Ok(());
        }
        if let Output::File { file, path } = &mut self.output {
            return file.write_all(bytes).map_err(|e| io(path, &e));
        }
        if !std::io::stdout().is_terminal() {
            return self.stdout(bytes);
        }
        // A pager gets what a terminal does: values come from traces of strangers.
        let text = printable(&String::from_utf8_lossy(bytes));
        let screen = lines(std::io::stdout()).unwrap_or(24);
        let is_long = text.lines().nth(screen.saturating_sub(1)).is_some();
        if self.interactive && self.look.pager && is_long && paged(&text, self.sandbox) {
            return Ok(());
        }
        self.stdout(text.as_bytes())
    }

    fn stdout(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // Between two characters, for a terminal gets text.
            let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
            let most = bytes.len().min(1 << 16);
            let end = (1..=most).rev().find(|at| !inside(at)).unwrap_or(most);
            let (piece, rest) = bytes.split_at(end);
            bytes = rest;
            if self.context.interrupt.asked() {
                return Err(interrupt::error());
            }
            if !self.context.printer.stdout(piece)? {
                self.closed = true;
                break;
            }
        }
        Ok(())
    }
}

/// Shows a text in the pager of the user, else in `less`; false where there is none.
fn paged(text: &str, sandbox: bool) -> bool {
    let wanted = std::env::var("PAGER").unwrap_or_default();
    let mut words = wanted.split_whitespace();
    let (program, given) = match words.next() {
        Some(program) => (program, words.collect()),
        // Long lines are not broken, a short text needs no key, and what was read stays.
        None => ("less", vec!["-S", "-F", "-X", "-K"]),
    };
    let mut command = Command::new(program);
    command.args::<Vec<&str>, _>(given).stdin(Stdio::piped());
    if sandbox {
        // `less` then runs no commands and opens no files.
        command.env("LESSSECURE", "1");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    // 126 and 127 are of a shell that found no program.
    child.wait().is_ok_and(|status| !matches!(status.code(), Some(126 | 127)))
}

/// A file for results.
///
/// # Errors
/// `output-exists`, `io`.
pub fn open_output(path: &Path, force: bool, consent: &str) -> Result<Output> {
    let mut options = OpenOptions::new();
    if force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    match options.open(path) {
        Ok(file) => Ok(Output::File { file, path: path.to_owned() }),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Err(Error::new("output-exists", "the output file is there already")
                .at(path.display().to_string())
                .hint(format!("{consent} to write over it")))
        }
        Err(e) => Err(io(path, &e)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use serde_json::json;

    use super::*;

    fn kept(rows: i64, most: usize, size: i64) -> Kept {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let mut out = Kept::new(schema.clone(), most);
        let mut from = 0;
        while from < rows {
            let to = (from + size).min(rows);
            let array = Arc::new(Int64Array::from_iter_values(from..to));
            out.add(&RecordBatch::try_new(schema.clone(), vec![array]).expect("rows"));
            from = to;
        }
        out
    }

    #[test]
    fn the_first_and_last_rows_are_kept() {
        for size in [1, 3, 7, 100] {
            let people = kept(100, 5, size).people(true);
            let number = |row: &Vec<serde_json::Value>| row[0].clone();
            let head: Vec<_> = people.head.iter().map(number).collect();
            let tail: Vec<_> = people.tail.iter().map(number).collect();
            assert_eq!(
                (head, tail),
                (vec![json!(0), json!(1), json!(2)], vec![json!(98), json!(99)])
            );
            assert_eq!(people.total, Some(100));
            for rows in [0, 1, 4, 5] {
                let people = kept(rows, 5, size).people(true);
                assert_eq!((people.head.len() as i64, people.tail.len()), (rows, 0));
            }
            let six = kept(6, 5, size).people(true);
            assert_eq!(six.tail.iter().map(number).collect::<Vec<_>>(), [json!(4), json!(5)]);
        }
    }
}
