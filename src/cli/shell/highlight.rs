//! Colours of what is typed, and whether Enter ends it.

use std::borrow::Cow;

use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};

use crate::cli::shell::complete::{Assistant, KEYWORDS};
use crate::cli::split::{Class, Splitter, is_word, pieces};

const KEYWORD: &str = "1;34";
const NUMBER: &str = "36";
const TEXT: &str = "32";
const COMMENT: &str = "90";
const COMMAND: &str = "35";

/// A text with colours for a terminal.
fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut paint = |text: &str, code: Option<&str>| match code {
        Some(code) => out.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
        None => out.push_str(text),
    };
    if text.trim_start().starts_with('.') {
        let end = text.trim_start().find(char::is_whitespace);
        let end = end.map_or(text.len(), |at| at + text.len() - text.trim_start().len());
        paint(&text[..end], Some(COMMAND));
        paint(&text[end..], None);
        return out;
    }
    for (piece, class) in pieces(text) {
        match class {
            Class::Literal => paint(piece, Some(TEXT)),
            Class::Comment => paint(piece, Some(COMMENT)),
            Class::Code => {
                for word in words(piece) {
                    let is_keyword = KEYWORDS.contains(&word.to_uppercase().as_str());
                    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                    paint(word, is_keyword.then_some(KEYWORD).or(is_number.then_some(NUMBER)));
                }
            }
        }
    }
    out
}

/// Words, and what stands between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, left) = rest.split_at(end);
        rest = left;
        Some(word)
    })
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        // A screen of SQL is coloured at every key; what was pasted by the megabyte need not be.
        if !self.colour || line.len() > 1 << 16 { line.into() } else { coloured(line).into() }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.colour && kind != CmdKind::MoveCursor
    }
}

impl Validator for Assistant {
    fn validate(&self, input: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let mut splitter = Splitter::default();
        splitter.feed(input.input());
        Ok(if splitter.is_idle() {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shell::complete::Names;
    use crate::registry::Registry;

    #[test]
    fn colours_follow_the_grammar_and_change_no_letter() {
        let sql = "select 'it''s' AS \"from\", 12 -- where\nFROM steps";
        let out = coloured(sql);
        assert!(
            out.contains("\x1b[1;34mselect\x1b[0m") && out.contains("\x1b[36m12\x1b[0m"),
            "{out}"
        );
        assert!(out.contains("\x1b[32m") && out.contains("\x1b[90m"), "{out}");
        assert!(!out.contains("\x1b[1;34mfrom") && !out.contains("\x1b[1;34mwhere"), "{out}");
        for text in [sql, ".mode json", "  .run x a=1", "", "SELECT 'open", "é漢 ü"] {
            let mut plain = coloured(text);
            while let (Some(from), Some(len)) =
                (plain.find('\x1b'), plain.find('\x1b').and_then(|at| plain[at..].find('m')))
            {
                plain.replace_range(from..=from + len, "");
            }
            assert_eq!(plain, text);
        }
    }

    #[test]
    fn a_line_is_coloured_anew_where_it_changes() {
        let names = || Names::new(&Registry::load(None).expect("they are right"), Vec::new());
        for colour in [true, false] {
            let mut assistant = Assistant::new(names(), false);
            assistant.colour = colour;
            let asks = |kind| assistant.highlight_char("SELECT 1", 8, kind);
            assert_eq!((asks(CmdKind::Other), asks(CmdKind::ForcedRefresh)), (colour, colour));
            assert!(!asks(CmdKind::MoveCursor));
        }
    }
}
