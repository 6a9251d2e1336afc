//! The sole writer to stdout and stderr: results to one, everything else to the other.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::args::{Color, Errors, Global};
use super::progress;
use crate::error::{Error, Result};
use crate::report::{self, Layout};

/// Longest cell of a table of the shell, in columns of the terminal; other forms never cut.
pub const MAX_CELL: usize = 72;

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

    fn stderr(&self, text: &str) {
        // Nobody is left to tell when stderr is closed.
        progress::beside(|| drop(writeln!(std::io::stderr(), "{text}")));
    }

    fn labelled(&self, text: &str, label: &str, code: &str) {
        let text = wrapped(text);
        match text.strip_prefix(label) {
            Some(rest) if self.color => self.stderr(&format!("\x1b[{code}m{label}\x1b[0m{rest}")),
            _ => self.stderr(&text),
        }
    }

    /// An error.
    pub fn error(&self, error: &Error) {
        match self.global.errors {
            Errors::Text => self.labelled(&clean(&error.render("error")), "error", "1;31"),
            Errors::Json => fault(error),
        }
    }

    /// A line of a summary.
    pub fn note(&self, text: &str) {
        if self.global.quiet {
            return;
        }
        match self.global.errors {
            Errors::Text => self.labelled(&clean(text), "warning", "1;33"),
            Errors::Json => {
                self.stderr(&clean(&json!({"level": "note", "message": text}).to_string()));
            }
        }
    }

    /// Whether to say more.
    pub fn verbose(&self) -> bool {
        self.global.verbose && !self.global.quiet
    }

    /// The format asked for.
    pub fn asked(&self) -> Option<report::Format> {
        self.global.format.map(super::args::Format::form)
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

    /// A result to its place.
    ///
    /// # Errors
    /// `output-exists`, `io`.
    pub fn result(&self, bytes: &[u8]) -> Result<()> {
        match self.file() {
            Some(path) => {
                report::write_file(path, bytes, self.global.force)?;
                self.note(&format!("wrote {}", path.display()));
                Ok(())
            }
            None => self.stdout(bytes).map(|_| ()),
        }
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
}

/// An error for programs, where no options could be read.
pub fn fault(error: &Error) {
    progress::beside(|| drop(writeln!(std::io::stderr(), "{}", clean(&error.json().to_string()))));
}

fn columns(of: impl std::os::fd::AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(width, _)| usize::from(width.0)).filter(|w| *w > 0)
}

/// A message in lines of the terminal that it goes to; as it is where there is none.
fn wrapped(text: &str) -> String {
    if !std::io::stderr().is_terminal() {
        return text.to_owned();
    }
    match columns(std::io::stderr()) {
        Some(width) => wrap(text, width.max(40)),
        None => text.to_owned(),
    }
}

/// Long lines broken at spaces; further ones begin a little to the right.
fn wrap(text: &str, width: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let mut current = " ".repeat(indent);
        let mut begun = false;
        for word in words.split(' ') {
            if begun && current.width() + 1 + word.width() > width {
                out.push(std::mem::replace(&mut current, " ".repeat(indent + 2)));
            } else if begun {
                current.push(' ');
            }
            current.push_str(word);
            begun = true;
        }
        out.push(current);
    }
    out.join("\n")
}

/// Messages quote traces of strangers: no control character but the line break goes out.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_broken_at_spaces() {
        assert_eq!(wrap("note: a b c", 40), "note: a b c");
        assert_eq!(
            wrap("error[x]: y\n  --> place\nhint: z", 40),
            "error[x]: y\n  --> place\nhint: z"
        );
        let long = format!("note: {}", "word ".repeat(20).trim_end());
        let lines = wrap(&long, 40);
        assert!(lines.lines().all(|l| l.width() <= 40), "{lines}");
        assert!(lines.lines().skip(1).all(|l| l.starts_with("  word")), "{lines}");
        assert_eq!(lines.split_whitespace().count(), 21);
    }
}
