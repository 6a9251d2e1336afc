//! The sole writer to stdout and stderr: results to one, everything else to the other.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::json;

use crate::cli::args::{Color, ErrorForm, Format, Global};
use crate::cli::progress;
use crate::cli::terminal::{clean, columns, printable, wrapped};
use crate::error::{Error, Result};
use crate::report;
use crate::report::grid::table::Layout;
use crate::report::staged::write_file;

/// Rows of a nested table of a card on a terminal.
const CARD_ROWS: usize = 20;

/// Writes messages and results as the global options say.
#[derive(Debug, Clone)]
pub struct Printer {
    global: Global,
    color: bool,
}

impl Printer {
    /// By the global options and the terminal.
    pub fn new(global: &Global) -> Self {
        let color = match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
            }
        };
        Self { global: global.clone(), color }
    }

    /// A line to standard error.
    fn stderr(&self, text: &str) {
        // Nobody is left to tell when stderr is closed.
        progress::beside(|| drop(writeln!(std::io::stderr(), "{text}")));
    }

    /// A message whose first word has a colour.
    fn labelled(&self, text: &str, label: &str, code: &str) {
        let text = wrapped(text);
        match text.strip_prefix(label) {
            Some(rest) if self.color => self.stderr(&format!("\x1b[{code}m{label}\x1b[0m{rest}")),
            _ => self.stderr(&text),
        }
    }

    /// Prints an error.
    pub fn error(&self, error: &Error) {
        match self.global.errors {
            ErrorForm::Text => self.labelled(&clean(&error.render("error")), "error", "1;31"),
            ErrorForm::Json => fault(error),
        }
    }

    /// Prints a line of a summary.
    pub fn note(&self, text: &str) {
        if self.global.quiet {
            return;
        }
        match self.global.errors {
            ErrorForm::Text => self.labelled(&clean(text), "warning", "1;33"),
            ErrorForm::Json => {
                self.stderr(&clean(&json!({"level": "note", "message": text}).to_string()));
            }
        }
    }

    /// Whether the user wants to know more.
    pub fn verbose(&self) -> bool {
        self.global.verbose && !self.global.quiet
    }

    /// Whether messages have colours.
    pub fn colours(&self) -> bool {
        self.color
    }

    /// The format asked for.
    pub fn asked(&self) -> Option<report::Format> {
        self.global.format.map(Format::form)
    }

    /// The file that a result goes to.
    fn file(&self) -> Option<&Path> {
        self.global.output.as_deref().filter(|p| p.as_os_str() != "-")
    }

    /// Whether results go to a file.
    pub fn writes_file(&self) -> bool {
        self.file().is_some()
    }

    /// Room for a result: that of the terminal, and no limit where none reads it.
    pub fn layout(&self) -> Layout {
        match self.width() {
            Some(width) => Layout { width: Some(width), rows: None },
            None => Layout::default(),
        }
    }

    /// Room for a card, whose nested tables are short on a terminal.
    pub fn card_layout(&self) -> Layout {
        let layout = self.layout();
        Layout { rows: layout.width.map(|_| CARD_ROWS), ..layout }
    }

    /// Columns of the terminal that results go to.
    pub fn width(&self) -> Option<usize> {
        if self.file().is_some() || !std::io::stdout().is_terminal() {
            return None;
        }
        Some(columns(std::io::stdout()).unwrap_or(80))
    }

    /// Writes a result to its place.
    ///
    /// # Errors
    /// `output-exists`, `io`.
    pub fn result(&self, bytes: &[u8]) -> Result<()> {
        match self.file() {
            Some(path) => {
                write_file(path, bytes, self.global.force)?;
                self.note(&format!("wrote {}", path.display()));
                Ok(())
            }
            None => self.stdout(bytes).map(|_| ()),
        }
    }

    /// Writes bytes to stdout; false when nobody reads there any more.
    ///
    /// # Errors
    /// `io`.
    pub fn stdout(&self, bytes: &[u8]) -> Result<bool> {
        stdout(bytes)
    }
}

/// Writes bytes to stdout, where no options could be read; false when nobody reads there any more.
/// A terminal gets text without what steers it.
///
/// # Errors
/// `io`.
pub fn stdout(bytes: &[u8]) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    // Values come from traces of strangers, and CSV and `value` leave them as they are.
    let text = out.is_terminal().then(|| printable(&String::from_utf8_lossy(bytes)));
    let bytes = text.as_deref().map_or(bytes, str::as_bytes);
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // The reader has what it wants (head, less): a quiet success.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Error::new("io", format!("cannot write the result: {e}"))),
        Ok(()) => Ok(true),
    }
}

/// Prints an error for programs, where no options could be read.
pub fn fault(error: &Error) {
    progress::beside(|| drop(writeln!(std::io::stderr(), "{}", clean(&error.json().to_string()))));
}
