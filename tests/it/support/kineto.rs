//! Events as Kineto writes them: text with decimal microseconds, because the form of a decimal
//! number in `serde_json::Value` depends on crate features.

use std::fmt::{Display, Write as _};

use serde_json::Value;

/// Start and end.
pub type Span = (i64, i64);

/// Arguments of an event, as JSON text in the order given.
pub struct Args(pub String);

impl Args {
    /// No arguments yet.
    pub fn none() -> Args {
        Args(String::new())
    }

    /// The id of the CPU op.
    pub fn id(id: i64) -> Args {
        Args::none().raw("External id", id)
    }

    /// The id of the CPU op, in both of its places.
    pub fn op(id: i64) -> Args {
        Args::id(id).raw("Record function id", id)
    }

    /// With a number, or whatever else is JSON.
    pub fn raw(mut self, key: &str, value: impl Display) -> Args {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}\"{key}\":{value}");
        self
    }

    /// With a text.
    pub fn text(self, key: &str, value: &str) -> Args {
        self.raw(key, Value::from(value))
    }
}

/// Nanoseconds as Kineto writes them: microseconds with three decimals.
pub fn us(ns: i64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A complete event (`ph` X) on one line.
pub fn slice(cat: &str, name: &str, pid: i64, tid: i64, (start, end): Span, args: Args) -> String {
    format!(
        "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\
         \"ts\":{},\"dur\":{},\"args\":{{{}}}}},\n",
        Value::from(name),
        us(start),
        us(end - start),
        args.0
    )
}

/// One end of an arrow: `s` on the call, `f` on what it caused.
pub fn flow(ph: &str, cat: &str, id: i64, pid: i64, tid: i64, at: i64) -> String {
    let bind = if ph == "f" { ",\"bp\":\"e\"" } else { "" };
    format!(
        "{{\"ph\":\"{ph}\",\"id\":{id},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\
         \"cat\":\"{cat}\",\"name\":\"{cat}\"{bind}}},\n",
        us(at)
    )
}

/// A place or a count, as the numbers of JSON have it.
pub fn index(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Number over number as decimal text: at most `digits` decimals, half up, no trailing zeros.
pub fn decimal(numerator: i64, denominator: i64, digits: u32) -> String {
    let unit = 10_i128.pow(digits);
    let doubled = 2 * unit * i128::from(numerator) / i128::from(denominator);
    let rounded = (doubled + 1) / 2;
    let width = digits as usize;
    let text = format!("{}.{:0width$}", rounded / unit, rounded % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
