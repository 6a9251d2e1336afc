//! Statistics: what an event says of itself, by name.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::hash::hex;
use crate::readers::xla::ids::Ids;
use crate::readers::xla::wire::{Fields, Value, text};
use crate::spool::args::Args;

/// A statistic by its id: its name.
#[derive(Debug)]
pub struct Stat {
    pub key: Key,
    pub name: Box<str>,
}

/// Statistics that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    HloOp,
    HloModule,
    HloCategory,
    Program,
    Run,
    Device,
    Correlation,
    DeviceOffset,
    DeviceDuration,
    StepNumber,
    Root,
    Kernel,
    Copy,
    LongName,
    Flops,
    ModelFlops,
    BytesAccessed,
    Partition,
    Replica,
    Name,
    BytesAllocated,
    Allocator,
    HloProto,
    Other,
}

/// What a name stands for.
pub fn key(name: &str) -> Key {
    match name {
        "hlo_op" => Key::HloOp,
        "hlo_module" => Key::HloModule,
        "hlo_category" => Key::HloCategory,
        "program_id" => Key::Program,
        "run_id" => Key::Run,
        "device_ordinal" => Key::Device,
        "correlation_id" => Key::Correlation,
        "device_offset_ps" => Key::DeviceOffset,
        "device_duration_ps" => Key::DeviceDuration,
        "step_num" => Key::StepNumber,
        "_r" => Key::Root,
        "kernel_details" => Key::Kernel,
        "memcpy_details" => Key::Copy,
        "long_name" => Key::LongName,
        "flops" => Key::Flops,
        "model_flops" => Key::ModelFlops,
        "bytes_accessed" => Key::BytesAccessed,
        "partition" => Key::Partition,
        "replica" => Key::Replica,
        "name" => Key::Name,
        "bytes_allocated" => Key::BytesAllocated,
        "allocator_name" => Key::Allocator,
        "Hlo Proto" | "hlo_proto" => Key::HloProto,
        _ => Key::Other,
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum<'a> {
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
}

impl<'a> Datum<'a> {
    /// As an integer; text that is one, too, because the JSON form writes everything as text. Ids
    /// of 64 bits may be above what is positive.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => Some(*value as i64),
            Self::Double(value) => {
                let whole = value.fract() == 0.0 && value.abs() < 9.0e15;
                whole.then_some(*value as i64)
            }
            Self::Text(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse::<u64>().ok().map(|v| v as i64))
            }
            Self::Bytes(_) => None,
        }
    }

    /// As a count: never negative.
    pub fn count(&self) -> Option<i64> {
        match self {
            Self::Uint(value) => i64::try_from(*value).ok(),
            Self::Text(text) => text.trim().parse().ok().filter(|v| *v >= 0),
            other => other.int().filter(|v| *v >= 0),
        }
    }

    /// As text.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same, in memory of its own; None for bytes.
    pub fn owned(self) -> Option<Datum<'static>> {
        Some(match self {
            Self::Int(value) => Datum::Int(value),
            Self::Uint(value) => Datum::Uint(value),
            Self::Double(value) => Datum::Double(value),
            Self::Text(text) => Datum::Text(Cow::Owned(text.into_owned())),
            Self::Bytes(_) => return None,
        })
    }

    /// As plain text.
    pub fn plain(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => format!("{value:?}"),
            Self::Text(value) => value.to_string(),
            Self::Bytes(value) => hex(value),
        }
    }

    /// Writes it as a member of the arguments.
    pub fn write(&self, name: &str, args: &mut Args) {
        match self {
            Self::Int(value) => args.int(name, *value),
            Self::Uint(value) => args.int(name, *value),
            Self::Double(value) if value.is_finite() => {
                args.key(name);
                args.raw(&format!("{value:?}"));
            }
            Self::Double(value) => args.said(name, &value.to_string()),
            Self::Text(value) => args.said(name, value),
            Self::Bytes(value) => args.said(name, &hex(value)),
        }
    }
}

/// A statistic whose name is not in the file.
static UNNAMED: LazyLock<Stat> =
    LazyLock::new(|| Stat { key: Key::Other, name: Box::from("$unnamed") });

/// The statistic in a message; None where it is broken.
pub fn of_message<'a>(message: &'a [u8], names: &'a Ids<Stat>) -> Option<(&'a Stat, Datum<'a>)> {
    let mut id = 0;
    let mut value = None;
    for field in Fields::new(message) {
        match field.ok()? {
            (1, Value::Int(number)) => id = number as i64,
            (2, Value::Bits(bits)) => value = Some(Datum::Double(f64::from_bits(bits))),
            (3, Value::Int(number)) => value = Some(Datum::Uint(number)),
            (4, Value::Int(number)) => value = Some(Datum::Int(number as i64)),
            (5, Value::Bytes(bytes)) => value = Some(Datum::Text(text(bytes))),
            (6, Value::Bytes(bytes)) => value = Some(Datum::Bytes(bytes)),
            (7, Value::Int(number)) => {
                let said = names.get(number as i64).map_or("", |s| &s.name);
                value = Some(Datum::Text(Cow::Borrowed(said)));
            }
            _ => {}
        }
    }
    // Writers may leave zeros out.
    Some((names.get(id).unwrap_or(&UNNAMED), value.unwrap_or(Datum::Int(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_from_0_on() {
        let text = |text: &'static str| Datum::Text(text.into()).count();
        assert_eq!((text("0"), text(" 7 "), text("-1"), text("x")), (Some(0), Some(7), None, None));
        assert_eq!((Datum::Int(0).count(), Datum::Int(-1).count()), (Some(0), None));
        assert_eq!((Datum::Uint(0).count(), Datum::Uint(u64::MAX).count()), (Some(0), None));
        assert_eq!((Datum::Double(2.0).count(), Datum::Double(2.5).count()), (Some(2), None));
    }
}
