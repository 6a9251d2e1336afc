//! An event of XLA's profiler as both forms of the file tell it, and what stands once for all
//! events of an operation.

use std::borrow::Cow;
use std::sync::Arc;

use crate::readers::xla::hlo::{Class, Op, Programs};
use crate::readers::xla::ids::Ids;
use crate::readers::xla::stats::{Datum, Key, Stat, of_message};
use crate::readers::xla::wire::{Fields, Value, text};
use crate::spool::args::Args;
use crate::spool::steps::StepPatterns;

/// One statistic of an event.
pub struct Said<'a> {
    pub key: Key,
    pub name: &'a str,
    pub value: Datum<'a>,
}

/// An event.
pub struct Event<'a> {
    /// The place of the event in the file.
    pub place: u64,
    pub name: Cow<'a, str>,
    pub meta: Option<&'a Arc<Meta>>,
    /// Picoseconds on the clock of the line.
    pub start_ps: i128,
    pub dur_ps: Option<i64>,
    pub said: &'a [Said<'a>],
}

impl<'a> Event<'a> {
    /// The value of the event under a name; of several, the last. Else what stands once for all
    /// events of its operation.
    pub fn get(&self, key: Key) -> Option<&'a Datum<'a>> {
        let own = self.said.iter().rev().find(|s| s.key == key).map(|s| &s.value);
        own.or_else(|| self.meta?.get(key))
    }

    /// An integer that it says.
    pub fn int(&self, key: Key) -> Option<i64> {
        self.get(key)?.int()
    }

    /// A count that it says.
    pub fn number(&self, key: Key) -> Option<i64> {
        self.get(key)?.count()
    }

    /// Text that it says.
    pub fn text(&self, key: Key) -> Option<&'a str> {
        match self.get(key)? {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Writes what it says as arguments, but for what has columns.
    pub fn arguments(&self, columns: &[Key], args: &mut Args) {
        for said in self.said.iter().filter(|s| !columns.contains(&s.key)) {
            said.value.write(said.name, args);
        }
    }
}

/// What stands once for all events of an operation.
#[derive(Debug)]
pub struct Meta {
    pub id: i64,
    pub name: Box<str>,
    /// What the device does; None for what is of the host.
    pub op: Arc<Op>,
    pub category: Option<Box<str>>,
    /// Statistics that mean something here.
    pub said: Vec<(Key, Datum<'static>)>,
    /// Whether its own arguments are a row of `metadata`.
    pub has_row: bool,
    /// Priority of the pattern of steps that its name matches, and the number that it says.
    pub step: Option<(i64, i64)>,
}

impl Meta {
    /// The operation of an event, where the file does not hold it.
    pub fn unnamed() -> Self {
        Self {
            id: 0,
            name: Box::default(),
            op: Arc::new(Op::compute()),
            category: None,
            said: Vec::new(),
            has_row: false,
            step: None,
        }
    }

    fn get(&self, key: Key) -> Option<&Datum<'static>> {
        self.said.iter().rev().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    /// Reads an entry of the table of events. Its arguments become JSON in `args`.
    pub fn of_message(
        id: i64,
        message: &[u8],
        names: &Ids<Stat>,
        programs: &Programs,
        steps: &StepPatterns,
        args: &mut Args,
    ) -> Self {
        let (mut name, mut display) = (Cow::Borrowed(""), Cow::Borrowed(""));
        let mut said: Vec<(Key, Datum<'static>)> = Vec::new();
        for field in Fields::new(message).flatten() {
            match field {
                (2, Value::Bytes(bytes)) => name = text(bytes),
                (4, Value::Bytes(bytes)) => display = text(bytes),
                (5, Value::Bytes(bytes)) => {
                    let Some((stat, value)) = of_message(bytes, names) else { continue };
                    if stat.key == Key::HloProto {
                        continue;
                    }
                    value.write(&stat.name, args);
                    if stat.key != Key::Other {
                        said.extend(value.owned().map(|value| (stat.key, value)));
                    }
                }
                _ => {}
            }
        }
        let of = |key| said.iter().rev().find(|(own, _)| *own == key).map(|(_, value)| value);
        let program = of(Key::Program).and_then(Datum::int);
        let category = of(Key::HloCategory).and_then(|value| match value {
            Datum::Text(text) => Some(text.to_string()),
            _ => None,
        });
        // The name of an operation on a TPU is its whole text.
        let is_text = name.starts_with('%') || name.starts_with("ROOT %");
        let own_name =
            || name.trim_start_matches("ROOT ").trim_start_matches('%').split(" = ").next();
        let has_row = args.object().is_some() || is_text || !display.is_empty() && display != name;
        let shown = match (display.is_empty(), is_text) {
            (false, _) => &*display,
            (true, true) => own_name().unwrap_or(&name),
            (true, false) => &*name,
        };
        // What the module says of a collective counts before its text: a fusion may hold one.
        let by_hlo = program.and_then(|id| programs.find(Some(id), None, shown)).flatten();
        let op = match by_hlo.filter(|op| op.class == Class::Comm) {
            Some(op) => op.clone(),
            None => Arc::new(Op::of_text(is_text.then_some(&*name), category.as_deref())),
        };
        Self {
            id,
            name: Box::from(shown),
            op,
            category: category.map(Box::from),
            said,
            has_row,
            step: steps.find(shown).filter(|_| !shown.starts_with('$')),
        }
    }
}
