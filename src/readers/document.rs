//! A document of JSON, and what was mended in it.

use crate::input::json::Mended;
use crate::readers::log::{Log, Severity};

/// Says what was mended in the value at `offset`.
pub(crate) fn note_mended(log: &mut Log, m: Mended, offset: u64) {
    let mut add = |code, count: u32, message: &str| {
        log.add_many(Severity::Info, code, u64::from(count), Some(offset), || message.to_owned());
    };
    add("control-character", m.control, "raw control characters inside strings; read as they are");
    add("bad-escape", m.escape, "backslashes that start no JSON escape; kept as backslashes");
    add("trailing-comma", m.comma, "commas before a closing bracket; left out");
    add("not-a-number", m.number, "words such as NaN that are no JSON; kept as text");
    add("invalid-utf8", m.utf8, "bytes that are no UTF-8; replaced by U+FFFD");
}
