//! Text for a terminal: without what steers it, within its columns.

use std::io::IsTerminal;

use unicode_width::UnicodeWidthStr;

use crate::report::grid::value::turns;

/// Text for a terminal: no control character but tab and line break, and none that turns
/// its direction.
pub fn printable(text: &str) -> String {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t' || turns(c);
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// A message without control characters but the line break: it may quote traces of strangers.
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        // DuckDB indents by tabs.
        '\t' => ' ',
        c if c.is_control() && c != '\n' || turns(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Columns of the terminal that a stream goes to.
pub fn columns(of: impl std::os::fd::AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(width, _)| usize::from(width.0)).filter(|w| *w > 0)
}

/// Lines of the terminal that a stream goes to.
pub fn lines(of: impl std::os::fd::AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(_, height)| usize::from(height.0)).filter(|h| *h > 0)
}

/// A message in lines of the terminal that it goes to; as it is where there is none.
pub fn wrapped(text: &str) -> String {
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
