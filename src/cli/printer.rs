//! The sole writer to stdout and stderr: results to one, everything else to the other.

use std::io::{IsTerminal, Write};

use super::args::{Color, Format, Global};
use crate::error::{Error, Result};
use crate::report::{self, Grid};

/// Longest cell of a table, in columns of the terminal; other formats never cut.
pub const MAX_CELL: usize = 72;

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

    fn stderr(&self, text: &str) {
        // Nobody is left to tell when stderr is closed.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn labelled(&self, text: &str, label: &str, code: &str) {
        match text.strip_prefix(label) {
            Some(rest) if self.color => self.stderr(&format!("\x1b[{code}m{label}\x1b[0m{rest}")),
            _ => self.stderr(text),
        }
    }

    /// An error.
    pub fn error(&self, error: &Error) {
        self.labelled(&clean(&error.render("error")), "error", "1;31");
    }

    /// A line of a summary.
    pub fn note(&self, text: &str) {
        if !self.global.quiet {
            self.labelled(&clean(text), "warning", "1;33");
        }
    }

    /// Whether to say more.
    pub fn verbose(&self) -> bool {
        self.global.verbose && !self.global.quiet
    }

    /// The format of a table, asked for or not.
    pub fn format(&self) -> report::Format {
        self.asked().unwrap_or(report::Format::Table)
    }

    /// The format asked for.
    pub fn asked(&self) -> Option<report::Format> {
        Some(match self.global.format? {
            Format::Table => report::Format::Table,
            Format::Json => report::Format::Json,
            Format::Csv => report::Format::Csv,
            Format::Parquet => report::Format::Parquet,
            Format::Value => report::Format::Value,
            Format::Text => report::Format::Text,
            Format::Md => report::Format::Markdown,
            Format::Html => report::Format::Html,
            Format::Xlsx => report::Format::Xlsx,
        })
    }

    /// A result to its place.
    ///
    /// # Errors
    /// `output-exists`, `output-terminal` for Parquet to a terminal, `io`.
    pub fn result(&self, bytes: &[u8]) -> Result<()> {
        if let Some(path) = self.global.output.as_ref().filter(|p| p.as_os_str() != "-") {
            return report::write_file(path, bytes, self.global.force);
        }
        if self.format() == report::Format::Parquet && std::io::stdout().is_terminal() {
            return Err(Error::new("output-terminal", "Parquet is not for a terminal")
                .hint("write it to a file with -o FILE"));
        }
        self.stdout(bytes).map(|_| ())
    }

    /// Bytes to stdout; false when nobody reads there any more.
    ///
    /// # Errors
    /// `io`.
    pub fn stdout(&self, bytes: &[u8]) -> Result<bool> {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            // The reader has what it wants (head, less): a quiet success.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(Error::new("io", format!("cannot write the result: {e}"))),
            Ok(()) => Ok(true),
        }
    }

    /// A grid in the format asked for.
    ///
    /// # Errors
    /// As [`Printer::result`].
    pub fn grid(&self, grid: &Grid) -> Result<()> {
        self.result(&grid.bytes(self.format(), MAX_CELL)?)
    }
}

/// Messages quote traces of strangers: no control character but the line break goes out.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
