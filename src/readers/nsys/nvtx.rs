//! What a range, mark or name of NVTX is.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::Result;
use crate::hash::hex;
use crate::readers::log::Severity;
use crate::readers::nsys::names::{Name, RangeName, torch_tail};
use crate::readers::nsys::payload::{Payload, bytes_of_digits};
use crate::readers::nsys::reader::Reader;
use crate::readers::nsys::recent::hash_of;

/// Types of events (`NsysEventType`): a mark, and ranges of a thread and of a process.
const MARK: i64 = 34;
const RANGE_OF_THREAD: i64 = 59;
const RANGE_OF_PROCESS: i64 = 60;

/// The message of an event: a string of the file, or a text of the row itself.
enum Message<'r> {
    String(Arc<Name>),
    Text(Cow<'r, str>),
}

impl Message<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::String(name) => name.text.as_deref(),
            Self::Text(text) => Some(text),
        }
    }
}

/// An event of NVTX.
pub(super) struct Event<'r> {
    event_type: Option<i64>,
    /// Whether it has a start and an end.
    pub(super) is_range: bool,
    pub(super) dur: Option<i64>,
    message: Option<Message<'r>>,
    /// Bytes of the message that are the name.
    length: usize,
    /// Meaning of the name of the range.
    pub(super) range: Option<RangeName>,
    /// Whether it is a range of NCCL's API.
    pub(super) is_nccl: bool,
    /// The call of NCCL that the payload of the range states.
    pub(super) payload: Payload,
}

impl<'r> Event<'r> {
    /// Reads the event of a row that starts at `ts`; what has no column goes into the arguments.
    ///
    /// # Errors
    /// `database-corrupt` where its name cannot be read.
    pub(super) fn of_row(
        reader: &mut Reader<'_>,
        row: &'r Row<'_>,
        ts: i64,
        dur: Option<i64>,
    ) -> Result<Self> {
        let at = &reader.plan.at;
        // Before there were types, what has an end was a range.
        let event_type = match at.event_type {
            Some(_) => reader.at(row, at.event_type),
            None => Some(if dur.is_some() { RANGE_OF_THREAD } else { MARK }),
        };
        let is_range = matches!(event_type, Some(RANGE_OF_THREAD | RANGE_OF_PROCESS));
        let open = at.end.is_none_or(|end| matches!(row.get_ref(end), Ok(ValueRef::Null)));
        let dur = if is_range && open { until_the_end(reader, ts) } else { dur };
        let message = message(reader, row)?;
        let text = message.as_ref().and_then(Message::text);
        let range = match &message {
            None => None,
            Some(Message::String(name)) => name.text.as_ref().map(|_| name.range),
            Some(Message::Text(text)) => Some(range_name(reader, text)),
        };
        let mut length = text.map_or(0, str::len);
        if let Some(text) = text.filter(|_| is_range) {
            let (name, seq, op) = torch_tail(text);
            seq.into_iter().for_each(|seq| reader.args.int("seq", seq));
            op.into_iter().for_each(|op| reader.args.int("op_id", op));
            length = name;
        }
        event_type.into_iter().for_each(|ty| reader.args.int("eventType", ty));
        let (domain, domain_name) = domain(reader, row);
        let like_nccl = || range.as_ref().is_some_and(|r| r.like_nccl);
        let is_nccl = is_range
            && match domain_name {
                Some(name) => name == "NCCL",
                None => domain.is_some_and(|d| d != 0) && like_nccl(),
            };
        let payload = payload(reader, row, domain.unwrap_or(0)).unwrap_or_default();
        Ok(Self { event_type, is_range, dur, message, length, range, is_nccl, payload })
    }

    /// The name, without the tail of PyTorch.
    pub(super) fn name(&self) -> Option<&str> {
        Some(&self.message.as_ref()?.text()?[..self.length])
    }

    /// The class.
    pub(super) fn class(&self) -> &'static str {
        match (self.event_type, &self.range) {
            // Names of categories and threads; domains that come and go.
            (Some(33 | 39 | 75 | 76), _) => "other",
            (_, Some(range)) if self.is_range => range.class,
            _ => "host_annotation",
        }
    }

    /// Whether it is pushed and popped: then it encloses what its thread launches.
    pub(super) fn encloses(&self) -> bool {
        self.event_type == Some(RANGE_OF_THREAD)
    }
}

/// The duration of a range that was open when the capture ended.
fn until_the_end(reader: &mut Reader<'_>, ts: i64) -> Option<i64> {
    let end = reader.context.capture_end_ns;
    let dur = end.and_then(|end| end.checked_sub(ts)).filter(|d| *d >= 0);
    let message = match dur {
        Some(_) => "ranges that were open when the capture ended; they end there",
        None => "ranges without an end; their duration is NULL",
    };
    reader.out.log.add(Severity::Loss, "begin-without-end", None, || message.to_owned());
    dur
}

/// The message: in the row, or a registered string.
fn message<'r>(reader: &mut Reader<'_>, row: &'r Row<'_>) -> Result<Option<Message<'r>>> {
    let own = reader.own_text(row);
    Ok(match (own, reader.at(row, reader.plan.at.names[0])) {
        (Some(own), id) => {
            id.into_iter().for_each(|id| reader.args.int("textId", id));
            Some(Message::Text(own))
        }
        (None, Some(id)) => {
            let name = reader.name(id)?;
            if name.text.is_none() {
                reader.args.int("textId", id);
            }
            Some(Message::String(name))
        }
        (None, None) => None,
    })
}

/// What a message of a row says.
fn range_name(reader: &mut Reader<'_>, text: &str) -> RangeName {
    // The tail makes every message of PyTorch another one.
    let (length, seq, op) = torch_tail(text);
    let tailed = usize::from(seq.or(op).is_some());
    let name = &text[..length];
    let slot = reader.ranges[tailed].slot(hash_of(name));
    if let Some((known, range)) = slot
        && known == name
    {
        return *range;
    }
    let range = match tailed {
        0 => reader.context.strings.range(text),
        _ => reader.context.strings.range(&format!("{name}, op_id = 0")),
    };
    *slot = Some((name.to_owned(), range));
    range
}

/// The domain and its name; both, and the category, go into the arguments.
fn domain<'c>(reader: &mut Reader<'c>, row: &Row<'_>) -> (Option<i64>, Option<&'c str>) {
    let (context, at) = (reader.context, &reader.plan.at);
    let domain = reader.at(row, at.domain);
    let process = reader.process(reader.at(row, at.thread));
    let name = domain.and_then(|d| context.domains.get(&(process, d)));
    if let Some(domain) = domain {
        reader.args.int("domainId", domain);
    }
    if let Some(name) = name {
        reader.args.said("domain", name);
    }
    if let Some(category) = reader.at(row, at.category) {
        reader.args.int("category", category);
        if let Some(name) = context.categories.get(&(process, domain.unwrap_or(0), category)) {
            reader.args.said("categoryName", name);
        }
    }
    (domain, name.map(String::as_str))
}

/// What the payload says; its bytes and fields go into the arguments.
fn payload(reader: &mut Reader<'_>, row: &Row<'_>, domain: i64) -> Option<Payload> {
    let blob = match row.get_ref(reader.plan.at.payload?) {
        Ok(ValueRef::Blob(bytes)) => Cow::Borrowed(bytes),
        Ok(ValueRef::Text(digits)) => match bytes_of_digits(digits) {
            Some(bytes) => Cow::Owned(bytes),
            None => {
                reader.args.said("binaryData", &String::from_utf8_lossy(digits));
                unreadable(reader);
                return None;
            }
        },
        _ => return None,
    };
    reader.bytes += 2 * blob.len();
    reader.args.said("binaryData", &hex(&blob));
    let payload = reader.context.schemas.decode(domain, &blob);
    match &payload {
        None => unreadable(reader),
        Some(payload) => {
            for (key, value) in &payload.fields {
                reader.args.key(key);
                reader.args.raw(value);
            }
        }
    }
    payload
}

fn unreadable(reader: &mut Reader<'_>) {
    reader.out.log.add(Severity::Loss, "nvtx-payload", None, || {
        "payloads of NVTX ranges that do not fit their schema; kept as digits in args, and no size was read from them"
            .to_owned()
    });
}
