//! Names: the strings of a file by their ids, and what a name says of its range or kernel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::error::Result;
use crate::readers::comm_kernels::is_comm_kernel;
use crate::readers::nsys::database::{Database, int, text};
use crate::readers::nsys::nccl::{Call, code_of_kernel};
use crate::spool::launches;
use crate::spool::steps::StepPatterns;

/// Bytes of strings that are kept in memory; others are looked up each time.
const CACHE_BYTES: usize = 48 << 20;

/// Bytes of a name that are kept: the longest names of kernels end far below.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// A name as it is kept: a long one up to its last character that fits.
pub fn shortened(bytes: &[u8]) -> &[u8] {
    // What stands inside of a character of UTF-8 begins with these two bits.
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let most = bytes.len().min(MAX_NAME_BYTES);
    let end = (most.saturating_sub(3)..=most).rev().find(|at| !inside(at));
    &bytes[..end.unwrap_or(most)]
}

/// A string of the file.
#[derive(Debug)]
pub struct Name {
    /// The text; None where the file has no string of this id.
    pub text: Option<String>,
    /// Whether bytes that are no UTF-8 were replaced.
    pub lossy: bool,
    /// Whether it was longer.
    pub cut: bool,
    /// Whether a kernel of this name communicates.
    pub is_comm: bool,
    /// The call of NCCL that such a kernel is made for.
    pub kernel_code: i64,
    /// What a range of this name is.
    pub range: RangeName,
}

/// What the message of an NVTX range says.
#[derive(Debug, Clone, Copy)]
pub struct RangeName {
    /// Class of the event.
    pub class: &'static str,
    /// The role of the range for the launches inside it.
    pub kind: Option<i64>,
    /// Pattern and number, when it marks a step.
    pub step: Option<(i64, i64)>,
    /// Call of NCCL, for a range of NCCL's domain.
    pub call: Call,
    /// Whether it may be of NCCL's domain where the domain has no name.
    pub like_nccl: bool,
}

/// The tail that PyTorch's `emit_nvtx` appends: `, seq = N` and `, op_id = N`, each if it has one.
/// Returns the length of the name, and the two numbers.
pub fn torch_tail(text: &str) -> (usize, Option<i64>, Option<i64>) {
    let cut = |text: &str, word: &str| -> Option<(usize, i64)> {
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, digits) = text.split_at(text.len() - digits);
        let at = before.strip_suffix(word)?.len();
        Some((at, digits.parse().ok()?))
    };
    let (length, op) = match cut(text, ", op_id = ") {
        Some((at, op)) => (at, Some(op)),
        None => (text.len(), None),
    };
    match cut(&text[..length], ", seq = ") {
        Some((at, seq)) => (at, Some(seq), op),
        None => (length, None, op),
    }
}

impl RangeName {
    /// What a message says.
    pub fn of(text: &str, steps: &StepPatterns) -> Self {
        let (length, seq, op) = torch_tail(text);
        let name = &text[..length];
        let annotates = name.starts_with("nccl:") || name.starts_with("gloo:");
        let is_op = (seq.is_some() || op.is_some()) && !annotates;
        let class = if is_op { "host_op" } else { "host_annotation" };
        // Every range may be the operator around a launch: a program that annotates itself has no
        // others. record_param_comms says nothing here, for its arguments are not recorded.
        let kind = match launches::kind(class, name) {
            Some(launches::RECORD) | None => Some(launches::OP),
            Some(launches::RANGE) => Some(launches::RANGE_LIKE_OP),
            known => known,
        };
        Self {
            class,
            kind,
            step: steps.find(name),
            call: Call::of(name),
            like_nccl: name.starts_with("nccl"),
        }
    }
}

impl Name {
    fn of(bytes: Option<&[u8]>, steps: &StepPatterns) -> Self {
        let text = bytes.map(|bytes| String::from_utf8_lossy(shortened(bytes)));
        let shown = text.as_deref().unwrap_or_default();
        Self {
            cut: bytes.is_some_and(|bytes| bytes.len() > MAX_NAME_BYTES),
            lossy: matches!(text, Some(std::borrow::Cow::Owned(_))),
            is_comm: is_comm_kernel(shown),
            kernel_code: code_of_kernel(shown),
            range: RangeName::of(shown, steps),
            text: text.map(std::borrow::Cow::into_owned),
        }
    }
}

/// The strings of a file.
pub struct Strings {
    known: Mutex<(HashMap<i64, Arc<Name>>, usize)>,
    steps: Arc<StepPatterns>,
    /// Whether strings that are not known can be looked up.
    present: bool,
}

impl Strings {
    /// The strings of a database; what marks steps is looked for in each.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn new(database: &Database, steps: Arc<StepPatterns>) -> Result<Self> {
        let present = database.has("StringIds", "id") && database.has("StringIds", "value");
        let out = Self { known: Mutex::default(), steps, present };
        if !present || database.finds_by("StringIds", "id")? {
            return Ok(out);
        }
        // Without an index, looking one up is reading them all: so they are read, once.
        let mut known = (HashMap::new(), 0);
        let mut whole = true;
        database.each("StringIds", &["id", "value"], "", usize::MAX >> 1, |row| {
            if let (Some(id), Some(text)) = (int(row, 0), text(row, 1)) {
                whole &= known.1 <= CACHE_BYTES;
                if whole {
                    known.1 += 200 + text.len();
                    known
                        .0
                        .entry(id)
                        .or_insert_with(|| Arc::new(Name::of(Some(text.as_bytes()), &out.steps)));
                }
            }
            Ok(())
        })?;
        Ok(Self { known: Mutex::new(known), present: !whole, ..out })
    }

    /// What a message that is no string of the file says.
    pub fn range(&self, text: &str) -> RangeName {
        RangeName::of(text, &self.steps)
    }

    /// The string of an id.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn get(&self, id: i64, database: &Database, connection: &Connection) -> Result<Arc<Name>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known().0.get(&id) {
            return Ok(name.clone());
        }
        let mut name = None;
        if self.present {
            let fault = |e: rusqlite::Error| database.fault(&e, "reading StringIds");
            let mut statement = connection
                .prepare_cached(r#"SELECT "value" FROM "StringIds" WHERE "id" = ?1 LIMIT 1"#)
                .map_err(fault)?;
            let mut rows = statement.query([id]).map_err(fault)?;
            if let Some(row) = rows.next().map_err(fault)? {
                let value = row.get_ref(0).map_err(fault)?;
                name =
                    value.as_bytes_or_null().ok().flatten().map(|b| Name::of(Some(b), &self.steps));
            }
        }
        let name = Arc::new(name.unwrap_or_else(|| Name::of(None, &self.steps)));
        let mut known = known();
        let bytes = 200 + name.text.as_ref().map_or(0, String::len);
        if known.1 + bytes <= CACHE_BYTES {
            known.1 += bytes;
            known.0.insert(id, name.clone());
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::launches;

    #[test]
    fn tails_of_torch() {
        assert_eq!(torch_tail("aten::mm, seq = 12, op_id = 345"), (8, Some(12), Some(345)));
        assert_eq!(torch_tail("aten::mm, op_id = 345"), (8, None, Some(345)));
        assert_eq!(torch_tail("aten::mm, seq = 12"), (8, Some(12), None));
        for text in
            ["step 3", "a, op_id = ", "a, op_id = x1", "op_id = 3", "a, op_id = 3, seq = 4b"]
        {
            assert_eq!(torch_tail(text), (text.len(), None, None), "{text}");
        }
    }

    #[test]
    fn what_ranges_are() {
        let steps = StepPatterns::known();
        let of = |text: &str| {
            let name = RangeName::of(text, &steps);
            (name.class, name.kind, name.step.is_some(), name.call.matters())
        };
        let op = Some(launches::OP);
        let range = Some(launches::RANGE_LIKE_OP);
        assert_eq!(of("aten::mm, op_id = 3"), ("host_op", op, false, false));
        assert_eq!(
            of("c10d::alltoall_base_, op_id = 3"),
            ("host_op", Some(launches::COMM_OP), false, false)
        );
        assert_eq!(of("record_param_comms, op_id = 3"), ("host_op", op, false, false));
        assert_eq!(
            of("nccl:all_to_all, op_id = 3"),
            ("host_annotation", Some(launches::ANNOTATION), false, false)
        );
        assert_eq!(of("step 3"), ("host_annotation", range, true, false));
        assert_eq!(of("ncclGroupEnd"), ("host_annotation", range, false, true));
    }
    #[test]
    fn a_long_name_ends_with_a_whole_character() {
        let long = |first: &str, of: &str| format!("{first}{}", of.repeat(40_000));
        for (text, bytes) in [
            (long("", "é"), MAX_NAME_BYTES),
            (long("a", "é"), MAX_NAME_BYTES - 1),
            (long("", "漢"), MAX_NAME_BYTES - 1),
            (long("a", "漢"), MAX_NAME_BYTES),
            (long("aa", "漢"), MAX_NAME_BYTES - 2),
            (long("a", "🚀"), MAX_NAME_BYTES - 3),
            ("x".repeat(MAX_NAME_BYTES), MAX_NAME_BYTES),
            ("é".to_owned(), 2),
            (String::new(), 0),
        ] {
            assert_eq!(shortened(text.as_bytes()), &text.as_bytes()[..bytes]);
        }
        // What is no text is cut anywhere.
        assert_eq!(shortened(&[0xBF; MAX_NAME_BYTES + 9]).len(), MAX_NAME_BYTES);
    }

    #[test]
    fn a_name_is_cut_when_it_is_longer_than_the_longest() {
        let of = |bytes: usize| {
            let name = Name::of(Some("x".repeat(bytes).as_bytes()), &StepPatterns::known());
            (name.cut, name.text.map(|text| text.len()))
        };
        assert_eq!(of(MAX_NAME_BYTES), (false, Some(MAX_NAME_BYTES)));
        assert_eq!(of(MAX_NAME_BYTES + 1), (true, Some(MAX_NAME_BYTES)));
    }
}
