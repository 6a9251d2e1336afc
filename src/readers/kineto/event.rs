//! One event of the list: where its members stand, found and checked in one pass.

use crate::input::json::{Scanner, Stop};

/// The members of one event, as they stand in the file.
#[derive(Default)]
pub(super) struct Event<'a> {
    pub(super) ph: Option<&'a str>,
    pub(super) cat: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) pid: Option<&'a str>,
    pub(super) tid: Option<&'a str>,
    pub(super) ts: Option<&'a str>,
    pub(super) dur: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    /// The arguments as a whole; their members when they are an object.
    pub(super) args: Option<&'a str>,
    pub(super) arguments: Vec<(&'a str, &'a str)>,
    /// Members that no table has a column for.
    pub(super) extra: Vec<(&'a str, &'a str)>,
    /// The element as a whole.
    pub(super) raw: &'a str,
    /// Deepest nesting of the arguments, the event itself counted.
    pub(super) depth: usize,
    /// That of all other members.
    pub(super) other_depth: usize,
}

impl<'a> Event<'a> {
    /// Reads the element of the list at `at`, strict JSON; returns its end. An element that is no
    /// object has no members.
    ///
    /// # Errors
    /// As [`Scanner::skip`].
    pub(super) fn scan(
        &mut self,
        scanner: &mut Scanner,
        text: &'a str,
        at: usize,
    ) -> Result<usize, Stop> {
        let (mut arguments, mut extra) =
            (std::mem::take(&mut self.arguments), std::mem::take(&mut self.extra));
        arguments.clear();
        extra.clear();
        *self = Self { arguments, extra, depth: 1, ..Self::default() };
        let b = text.as_bytes();
        if b[at] != b'{' {
            let end = scanner.skip(b, at)?;
            self.raw = &text[at..end];
            return Ok(end);
        }
        let end = scanner.members(b, at, |scanner, key, from| {
            let key = &text[key];
            if key == "args" && b.get(from) == Some(&b'{') {
                self.arguments.clear();
                let end = scanner.members(b, from, |scanner, key, from| {
                    let end = scanner.skip(b, from)?;
                    self.depth = self.depth.max(2 + scanner.depth);
                    self.arguments.push((&text[key], &text[from..end]));
                    Ok(end)
                })?;
                self.args = Some(&text[from..end]);
                return Ok(end);
            }
            let end = scanner.skip(b, from)?;
            let depth = if key == "args" { &mut self.depth } else { &mut self.other_depth };
            *depth = (*depth).max(1 + scanner.depth);
            let value = Some(&text[from..end]);
            match key {
                "ph" => self.ph = value,
                "cat" => self.cat = value,
                "name" => self.name = value,
                "pid" => self.pid = value,
                "tid" => self.tid = value,
                "ts" => self.ts = value,
                "dur" => self.dur = value,
                "id" => self.id = value,
                "args" => {
                    self.arguments.clear();
                    self.args = value;
                }
                _ => self.extra.push((key, &text[from..end])),
            }
            Ok(end)
        })?;
        self.raw = &text[at..end];
        Ok(end)
    }
}
