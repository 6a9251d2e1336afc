//! Statements and dot commands out of lines of input.
//!
//! A statement ends with a `;` outside of strings, quoted identifiers and comments; a dot command
//! with its line. What is a string and what a comment follows DuckDB's tokenizer
//! (`src/parser/peg/tokenizer/base_tokenizer.cpp` of 2.0): strings in `'`, with backslashes in
//! `E'`, in `$tag$`; identifiers in `"` and in backticks; comments nest. No token of more than one
//! character that opens or closes something spans lines, so input is read a line at a time.

/// The kind of text that a character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Words and signs.
    Code,
    /// Strings, and identifiers in quotes.
    Literal,
    /// Comments.
    Comment,
}

/// The kind of text that the scanner is inside of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    #[default]
    Code,
    /// String or identifier up to this character, which stands for itself when it is doubled.
    Quote {
        end: char,
        backslash: bool,
    },
    /// `$tag$`.
    Dollar(String),
    LineComment,
    /// Comments that are open, one in the other.
    Comment(u32),
}

/// Characters of words: keywords, and identifiers without quotes.
pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// The tag of a dollar quote at the start of `text`; None for a parameter like `$1` or `$name`.
fn dollar_tag(text: &str) -> Option<&str> {
    let (tag, _) = text.strip_prefix('$')?.split_once('$')?;
    (tag.chars().all(is_word) && !tag.starts_with(|c: char| c.is_ascii_digit())).then_some(tag)
}

impl State {
    /// Tells `visit` place, length in bytes and class of each piece, until it says false.
    fn walk(&mut self, text: &str, mut visit: impl FnMut(usize, usize, Class) -> bool) {
        let mut at = 0;
        let mut in_word = false;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let mut length = c.len_utf8();
            let mut class = Class::Literal;
            let mut next = None;
            match self {
                Self::Code => {
                    let after_word = in_word;
                    in_word = if after_word {
                        is_word(c) || c == '$'
                    } else {
                        is_word(c) && !c.is_ascii_digit()
                    };
                    if matches!(c, '\'' | '"' | '`') {
                        next = Some(Self::Quote { end: c, backslash: false });
                    } else if !after_word && (rest.starts_with("e'") || rest.starts_with("E'")) {
                        next = Some(Self::Quote { end: '\'', backslash: true });
                        length = 2;
                        in_word = false;
                    } else if rest.starts_with("--") || rest.starts_with("/*") {
                        let line = c == '-';
                        next = Some(if line { Self::LineComment } else { Self::Comment(1) });
                        class = Class::Comment;
                        length = 2;
                    } else if let Some(tag) = dollar_tag(rest).filter(|_| !after_word) {
                        next = Some(Self::Dollar(tag.to_owned()));
                        length = tag.len() + 2;
                    } else {
                        class = Class::Code;
                    }
                }
                Self::Quote { end, backslash } => {
                    if *backslash && c == '\\' {
                        length += rest[length..].chars().next().map_or(0, char::len_utf8);
                    } else if c == *end && rest[length..].starts_with(*end) {
                        length *= 2;
                    } else if c == *end {
                        next = Some(Self::Code);
                    }
                }
                Self::Dollar(tag) => {
                    let end = format!("${tag}$");
                    if rest.starts_with(&end) {
                        length = end.len();
                        next = Some(Self::Code);
                    }
                }
                Self::LineComment => {
                    class = Class::Comment;
                    if matches!(c, '\n' | '\r') {
                        next = Some(Self::Code);
                    }
                }
                Self::Comment(depth) => {
                    class = Class::Comment;
                    if rest.starts_with("/*") {
                        length = 2;
                        next = Some(Self::Comment(*depth + 1));
                    } else if rest.starts_with("*/") {
                        length = 2;
                        next =
                            Some(if *depth > 1 { Self::Comment(*depth - 1) } else { Self::Code });
                    }
                }
            }
            if let Some(next) = next {
                *self = next;
            }
            if !visit(at, length, class) {
                return;
            }
            at += length;
        }
    }
}

/// Neighbouring pieces of a text, each of one class.
pub fn pieces(text: &str) -> Vec<(&str, Class)> {
    let mut bounds: Vec<(usize, Class)> = Vec::new();
    State::default().walk(text, |at, _, class| {
        if bounds.last().is_none_or(|(_, last)| *last != class) {
            bounds.push((at, class));
        }
        true
    });
    let ends = bounds.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    bounds.iter().zip(ends).map(|((at, class), end)| (&text[*at..end], *class)).collect()
}

/// `text` with strings, quoted identifiers and comments as spaces.
pub fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    State::default().walk(text, |at, length, class| {
        match class {
            Class::Code => out.push_str(&text[at..at + length]),
            _ => out.push(' '),
        }
        true
    });
    out
}

/// A statement or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// SQL, without its semicolon, and without comments in front.
    Statement(String),
    /// A dot command, dot included.
    Command(String),
}

/// A task and the line of the input that it begins in, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The task.
    pub task: Task,
    /// The line that the task begins in.
    pub line: usize,
}

/// A splitter: takes lines, gives the tasks that they complete.
#[derive(Debug, Clone, Default)]
pub struct Splitter {
    inside: State,
    /// The statement that has begun and not ended.
    text: String,
    begun: Option<usize>,
    line: usize,
}

impl Splitter {
    /// Takes lines of input, without the line break after the last one.
    pub fn feed(&mut self, lines: &str) -> Vec<Item> {
        let mut out = Vec::new();
        for line in lines.split('\n') {
            self.line += 1;
            self.take(&format!("{line}\n"), &mut out);
        }
        out
    }

    /// As [`Splitter::feed`], for the part of a line before the cursor.
    pub fn feed_part(&mut self, part: &str) -> Vec<Item> {
        let mut out = Vec::new();
        self.take(part, &mut out);
        out
    }

    fn take(&mut self, text: &str, out: &mut Vec<Item>) {
        let Self { inside, text: statement, begun, line } = self;
        let mut from = 0;
        inside.walk(text, |at, length, class| {
            let piece = &text[at..at + length];
            if class == Class::Code && piece == ";" {
                statement.push_str(&text[from..at]);
                let whole = std::mem::take(statement);
                if let Some(line) = begun.take() {
                    out.push(Item { task: Task::Statement(whole.trim_end().to_owned()), line });
                }
                from = at + length;
            } else if class != Class::Comment && begun.is_none() && !piece.trim().is_empty() {
                if piece == "." {
                    let task = Task::Command(text[at..].trim_end().to_owned());
                    out.push(Item { task, line: *line });
                    from = text.len();
                    return false;
                }
                *begun = Some(*line);
                from = at;
            }
            true
        });
        if begun.is_some() {
            statement.push_str(&text[from..]);
        }
    }

    /// The last task, at the end of the input: a statement that has begun counts as whole.
    pub fn finish(&mut self) -> Option<Item> {
        let text = std::mem::take(&mut self.text);
        let begun = self.begun.take();
        self.clear();
        let line = begun?;
        Some(Item { task: Task::Statement(text.trim_end().to_owned()), line })
    }

    /// Forgets the statement that has begun.
    pub fn clear(&mut self) {
        *self = Self { line: self.line, ..Self::default() };
    }

    /// Whether neither a statement nor a comment has begun.
    pub fn is_idle(&self) -> bool {
        self.begun.is_none() && self.inside == State::Code
    }

    /// Whether the input ends in a string, a quoted identifier or a comment.
    pub fn in_text(&self) -> bool {
        self.inside != State::Code
    }

    /// The statement that has begun.
    pub fn pending(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statements as they are, commands as they are, and what is left after the last line.
    fn split(lines: &[&str]) -> (Vec<String>, String) {
        let mut splitter = Splitter::default();
        let items: Vec<Item> = lines.iter().flat_map(|l| splitter.feed(l)).collect();
        let texts = items
            .into_iter()
            .map(|i| match i.task {
                Task::Statement(text) | Task::Command(text) => text,
            })
            .collect();
        (texts, splitter.pending().to_owned())
    }

    fn whole(line: &str) -> Vec<String> {
        let (items, left) = split(&[line]);
        assert_eq!(left, "", "{line} is whole");
        items
    }

    #[test]
    fn several_statements_on_a_line() {
        assert_eq!(whole("SELECT 1; SELECT 2 ;; ;"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(split(&["SELECT 1; SELECT", "2"]).1, "SELECT\n2\n");
        assert_eq!(split(&["SELECT", "1;"]).0, ["SELECT\n1"]);
    }

    #[test]
    fn strings_and_quoted_identifiers_hide_semicolons() {
        for sql in [
            "SELECT 'a;b'",
            "SELECT 'it''s; so'",
            "SELECT ''';'",
            "SELECT \"a;\"\"b;\"",
            "SELECT 1 AS `a;``;`",
            r"SELECT E'a\';b', e'\\'",
            r"SELECT '\'",
            r"SELECT nameE'\'",
            "SELECT $$a;b$$",
            "SELECT $x$ ; $$ ; $y$ ; $x$",
            "SELECT 'ä;' || $ü$;$ü$",
        ] {
            assert_eq!(whole(&format!("{sql};")), [sql]);
        }
    }

    #[test]
    fn a_string_may_span_lines() {
        assert_eq!(
            split(&["SELECT 'a;", "-- no comment;", "b';"]).0,
            ["SELECT 'a;\n-- no comment;\nb'"]
        );
        assert_eq!(split(&["SELECT $q$", "; $q", "$q$;"]).0, ["SELECT $q$\n; $q\n$q$"]);
    }

    #[test]
    fn parameters_and_dollars_in_names_open_no_string() {
        assert_eq!(whole("SELECT $1; SELECT $1;"), ["SELECT $1", "SELECT $1"]);
        assert_eq!(whole("SELECT $a, $b; SELECT 1;"), ["SELECT $a, $b", "SELECT 1"]);
        assert_eq!(whole("SELECT a$b$; SELECT 1;"), ["SELECT a$b$", "SELECT 1"]);
    }

    #[test]
    fn comments_hide_semicolons_and_are_no_statements() {
        assert_eq!(whole("-- nothing; here"), [""; 0]);
        assert_eq!(whole("/* a; /* nested; */ still; */ ;"), [""; 0]);
        assert_eq!(split(&["SELECT 1 -- one;", ";"]).0, ["SELECT 1 -- one;"]);
        assert_eq!(whole("/* it's */ SELECT 1 /* ; ' */;"), ["SELECT 1 /* ; ' */"]);
        assert_eq!(split(&["/* open;", ".tables", "*/ SELECT 1;"]).0, ["SELECT 1"]);
        assert_eq!(split(&["SELECT 1 - -1; SELECT 2--;", ";"]).0, ["SELECT 1 - -1", "SELECT 2--;"]);
    }

    #[test]
    fn dot_commands_end_with_their_line() {
        assert_eq!(whole(".tables 'a;b'"), [".tables 'a;b'"]);
        assert_eq!(whole("  .mode json  "), [".mode json"]);
        assert_eq!(whole("SELECT 1; .timer on"), ["SELECT 1", ".timer on"]);
        assert_eq!(split(&["SELECT a", ".b FROM x;"]).0, ["SELECT a\n.b FROM x"]);
    }

    #[test]
    fn lines_are_counted_and_a_paste_is_split() {
        let mut splitter = Splitter::default();
        let items = splitter.feed("-- first\nSELECT 1;\n.tables\n\nSELECT\n2; SELECT 3");
        let lines: Vec<usize> = items.iter().map(|i| i.line).collect();
        assert_eq!(lines, [2, 3, 5]);
        assert!(!splitter.is_idle());
        let last = splitter.finish().expect("a statement is left");
        assert_eq!(last, Item { task: Task::Statement("SELECT 3".to_owned()), line: 6 });
        assert!(splitter.is_idle() && splitter.finish().is_none());
    }

    #[test]
    fn the_end_of_the_input_ends_an_open_string_and_clear_forgets_it() {
        let mut splitter = Splitter::default();
        splitter.feed("SELECT 'a");
        assert!(splitter.in_text() && !splitter.is_idle());
        splitter.clear();
        assert!(splitter.is_idle());
        splitter.feed("SELECT 'a");
        assert!(splitter.finish().is_some() && splitter.is_idle());
        splitter.feed("/* a");
        assert!(!splitter.is_idle() && splitter.finish().is_none() && splitter.is_idle());
    }

    #[test]
    fn code_is_what_is_no_string_and_no_comment() {
        assert_eq!(code_of("a 'b' c -- d").split_whitespace().collect::<Vec<_>>(), ["a", "c"]);
    }
}
