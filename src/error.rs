//! The one error type: what happened, where, what to do.
//!
//! Shape of the text (`Display`): `error[code]: what happened`, then ` --> place`, facts, `hint:`.
//! Codes are kebab-case and stable; scripts may test them. The list is [`CODES`].

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// Every error and warning code that the program can print, in alphabetical order, and its meaning.
pub const CODES: &[(&str, &str)] = &[
    ("card-invalid", "a workload card that was given cannot be understood"),
    ("change-too-large", "a metric changed more than --fail-on allows"),
    ("check-failed", "a SQL file breaks a rule of metrics, views or diagnoses"),
    ("config-invalid", "a configuration that was given cannot be understood"),
    ("data-dir-locked", "another process works on the trace; try again"),
    ("database-corrupt", "a file is no SQLite database, or a damaged one"),
    ("database-locked", "another program writes the database; try again"),
    ("duplicate-rank", "several files claim to be the same rank"),
    ("engine-failed", "the engine of `ingest --engine` did not come to its end"),
    ("figures-differ", "`verify` found values that differ from those of the raw files"),
    ("file-changed", "a file changed while it was read; try again"),
    ("file-unreadable", "a file or folder cannot be opened or read"),
    ("gzip-broken", "a packed file is damaged"),
    ("host", "the DuckDB or Python that holds the program cannot be used, or forbids it"),
    ("internal", "the program failed by itself, which is a fault of it"),
    ("interrupted", "the work was stopped before it was done, by somebody or by a limit of time"),
    ("io", "reading or writing failed: the disk is full, access is denied"),
    ("json-invalid", "a file is no JSON at some byte"),
    ("limit", "a query took more time, memory or disk than it may"),
    ("metric-header", "the header of a SQL file breaks its grammar"),
    ("metric-not-applicable", "a metric has no value on any of the traces, and the reason is said"),
    ("metric-unknown", "there is no metric, view, table or function of that name"),
    ("name-clash", "a name is taken"),
    ("not-a-trace", "a file that was named is of no format that is read"),
    ("nothing-found", "nothing fits what was asked for"),
    ("nsys-missing", "`nsys` is needed for the file, and is not on the PATH"),
    ("nsys-unusable", "an export of Nsight Systems lacks what is needed, or `nsys` failed"),
    ("object-stores-missing", "the program was built without object stores"),
    ("output-exists", "the output file is there already"),
    ("output-terminal", "the form of the result is not for a terminal"),
    ("param-invalid", "a parameter is unknown, or its value is of the wrong type"),
    ("pickle-code", "a memory snapshot asks to run code; nothing was run"),
    ("pickle-invalid", "a memory snapshot is damaged"),
    ("plan-invalid", "a plan of an ingest cannot be understood"),
    ("plan-other", "a plan is of another program, or of other SQL"),
    ("plan-stale", "files have changed since a plan was made"),
    ("protobuf-invalid", "a profile of XLA is damaged"),
    ("python-failed", "the Python that `verify` runs cannot be started, or gave no answer"),
    ("sql", "DuckDB refused or failed a query; the message is its own"),
    ("sql-file", "there is no SQL file of that name"),
    ("store-conflict", "another writer was first in an object store; try again"),
    ("strict", "there are warnings or lost data, and --strict was given"),
    ("table-away", "a table of a trace in an object store was not fetched; try again"),
    ("task-early", "a task of a plan needs others that are not done; try again later"),
    ("trace-truncated", "a file ends before its end"),
    ("trace-unknown", "there is no trace of that name"),
    ("usage", "the command line or the arguments of a call are wrong"),
    ("value-too-large", "one value is larger than the program reads or gives"),
];

/// Result of everything that can fail for a reason that a user can act on.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One fault: a stable code, a sentence, and where it helps a place, facts and a hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Error {
    /// Stable kebab-case code out of [`CODES`].
    pub code: &'static str,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// File, byte offset, line or event number.
    pub place: Option<String>,
    /// A line of facts (both values of a disagreement).
    pub facts: Option<String>,
    /// One action that helps.
    pub hint: Option<String>,
}

/// An error as another process wrote it down.
#[derive(Deserialize)]
struct Told {
    code: String,
    message: String,
    place: Option<String>,
    facts: Option<String>,
    hint: Option<String>,
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Told { code, message, place, facts, hint } = Told::deserialize(deserializer)?;
        let code =
            CODES.iter().map(|(known, _)| *known).find(|known| *known == code).unwrap_or("io");
        Ok(Self { code, message, place, facts, hint })
    }
}

impl Error {
    /// An error with a code of [`CODES`] and its sentence.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        debug_assert!(CODES.iter().any(|(known, _)| *known == code), "{code} is not in CODES");
        Self { code, message: message.into(), place: None, facts: None, hint: None }
    }

    /// Says where it happened; an inner place that is already there stays.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place.get_or_insert_with(|| place.into());
        self
    }

    /// Adds a line of facts.
    #[must_use]
    pub fn facts(mut self, facts: impl Into<String>) -> Self {
        self.facts = Some(facts.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether reading or writing failed, which is no fault of a trace.
    pub fn is_io(&self) -> bool {
        self.code == "io"
    }

    /// The text under a severity word: `error` or `warning`.
    pub fn render(&self, severity: &str) -> String {
        let mut text = format!("{severity}[{}]: {}", self.code, self.message);
        if let Some(place) = &self.place {
            text.push_str(&format!("\n  --> {place}"));
        }
        if let Some(facts) = &self.facts {
            text.push_str(&format!("\n  {facts}"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {hint}"));
        }
        text
    }
}

impl Error {
    /// The error for programs: level, code, message, where, facts and hint; null for what it lacks.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "level": "error", "code": self.code, "message": self.message,
            "where": self.place, "facts": self.facts, "hint": self.hint,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render("error"))
    }
}

impl std::error::Error for Error {}

/// An input or output failure, with the path the user gave.
pub fn io(path: &std::path::Path, error: &std::io::Error) -> Error {
    let out = Error::new("io", error.to_string()).at(path.display().to_string());
    match error.kind() {
        std::io::ErrorKind::StorageFull => out.hint(FREE),
        std::io::ErrorKind::PermissionDenied => out.hint("check the permissions of this path"),
        _ => out,
    }
}

#[cfg(feature = "sql")]
impl From<duckdb::Error> for Error {
    fn from(error: duckdb::Error) -> Self {
        let text = match &error {
            duckdb::Error::DuckDBFailure(_, Some(text)) => text.clone(),
            other => other.to_string(),
        };
        of_disk(&text)
            .or_else(|| limit(&text))
            .unwrap_or_else(|| Self::new("sql", text.trim_end().to_owned()))
    }
}

/// The error of a query whose files could not be opened, read or written, if the words of DuckDB
/// are such. A file that is not there where SQL names it has other words.
#[cfg(feature = "sql")]
fn of_disk(text: &str) -> Option<Error> {
    let text = text.trim_end();
    let is_full = text.contains("No space left");
    let failed = text.strip_prefix("IO Error: ").unwrap_or(if is_full { text } else { "" });
    // Of what was written aside DuckDB says it as JSON.
    let aside = failed
        .find('{')
        .and_then(|at| serde_json::from_str::<serde_json::Value>(&failed[at..]).ok());
    let said = aside.as_ref().and_then(|told| told["exception_message"].as_str()).unwrap_or(failed);
    let is_of_file = ["Could not ", "Cannot open file ", "Async write failed "]
        .iter()
        .any(|words| said.starts_with(words));
    let error = (is_full || is_of_file).then(|| Error::new("io", said.to_owned()))?;
    Some(match is_full {
        true => error.hint(FREE),
        false => error,
    })
}

/// What helps where a disk is full.
const FREE: &str = "free some space, or give another place with --data DIR";

/// What is said of a query that went over its memory.
#[cfg(feature = "sql")]
const OF_MEMORY: &str = "the query needs more memory than it may have";

#[cfg(feature = "sql")]
impl Error {
    /// Whether it is a query that went over its memory, and would not have with more.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.code == "limit" && self.message == OF_MEMORY
    }
}

/// The error of a query that went over a limit, if the words of DuckDB are such.
#[cfg(feature = "sql")]
fn limit(text: &str) -> Option<Error> {
    if text.contains("exceeded maximum execution time") {
        return Some(
            Error::new("limit", "the query took longer than it may")
                .hint("ask for less, or give it more time: --timeout SECONDS"),
        );
    }
    let (_, what) = text.split_once("Out of Memory Error: ")?;
    let what = what.lines().next().unwrap_or_default().trim_end_matches('.');
    Some(match text.contains("max_temp_directory_size") {
        true => Error::new("limit", "the query puts more on the disk than it may")
            .facts(what)
            .hint("ask for less, or give it more room: --spill-limit SIZE"),
        false => Error::new("limit", OF_MEMORY)
            .facts(what)
            .hint("ask for less, or give it more: --memory-limit SIZE"),
    })
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::new("io", format!("cannot build a table: {error}"))
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        // Parquet wraps the operating system's error; its text says which (disk full, no access).
        let out = Self::new("io", format!("cannot write or read Parquet: {error}"));
        if error.to_string().contains("No space left") {
            return out.hint(FREE);
        }
        out
    }
}

/// The candidate nearest to `word` by edit distance, when it is near enough to be a slip.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&word.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(distance, c)| *distance <= 1 + c.len().min(word.len()) / 4)
        .min()
        .map(|(_, c)| c)
}

/// Suggestions in place of a name that is not there: the nearest one, those that hold the word or
/// one near to it, or `otherwise`.
pub fn suggest(word: &str, names: &[&str], otherwise: &str) -> String {
    if let Some(near) = nearest(word, names.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let mut low = word.to_lowercase();
    if !names.iter().any(|n| n.to_lowercase().contains(&low)) {
        let parts = names.iter().flat_map(|n| n.split('_')).filter(|part| part.len() > 3);
        match nearest(word, parts) {
            Some(part) => low = part.to_lowercase(),
            None => return otherwise.to_owned(),
        }
    }
    let mut held: Vec<&str> =
        names.iter().copied().filter(|n| n.to_lowercase().contains(&low)).collect();
    held.sort_unstable();
    held.dedup();
    match (&held[..], low.len()) {
        ([], _) | (_, 0..3) => otherwise.to_owned(),
        ([one], _) => format!("did you mean `{one}`?"),
        (some, _) => {
            let more = match some.len().saturating_sub(6) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("these names hold `{low}`: {}{more}", some[..some.len().min(6)].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_hint() {
        use std::io::ErrorKind::{Interrupted, PermissionDenied, StorageFull};
        let hint = |kind: std::io::ErrorKind| io(std::path::Path::new("x"), &kind.into()).hint;
        assert_eq!(hint(StorageFull).as_deref(), Some(FREE));
        let said = hint(PermissionDenied).unwrap_or_default();
        assert_eq!(
            (said.as_str(), hint(Interrupted)),
            ("check the permissions of this path", None)
        );
        let full = parquet::errors::ParquetError::General("No space left on device".to_owned());
        let full = Error::from(full);
        assert_eq!((full.code, full.hint.as_deref()), ("io", Some(FREE)));
        let other = Error::from(parquet::errors::ParquetError::General("eof".to_owned()));
        assert!(other.message.contains("eof") && other.hint.is_none(), "{other}");
        let table = Error::from(arrow::error::ArrowError::ComputeError("odd".to_owned()));
        assert!(table.message.starts_with("cannot build a table: "), "{table}");
    }

    #[test]
    fn text_has_place_and_hint() {
        let error = Error::new("duplicate-rank", "two traces claim rank 5")
            .at("rank5.json.gz and rank5_retry.json.gz")
            .hint("remove one");
        assert_eq!(
            error.to_string(),
            "error[duplicate-rank]: two traces claim rank 5\n  --> rank5.json.gz and \
             rank5_retry.json.gz\nhint: remove one"
        );
    }

    #[cfg(feature = "sql")]
    #[test]
    fn faults_of_the_disk_are_told_from_those_of_a_query() {
        let aside = concat!(
            "IO Error: Async write failed for range [offset=3, size=4]: {\"exception_type\":\"IO\",",
            r#""exception_message":"Could not write file \"a/b.parquet\": File too large"}"#,
        );
        let said = of_disk(aside).expect("a fault of the disk");
        assert_eq!(
            (said.code, &*said.message, said.hint),
            ("io", "Could not write file \"a/b.parquet\": File too large", None)
        );
        let full = "IO Error: Could not write file \"x\": No space left on device\n";
        let said = of_disk(full).expect("a fault of the disk");
        assert_eq!(&*said.message, "Could not write file \"x\": No space left on device");
        assert_eq!(said.hint.as_deref(), Some(FREE));
        assert!(of_disk("IO Error: Cannot open file \"x\": Stale file handle").is_some());
        // One whose reason has another form is told as it is.
        let odd = of_disk("IO Error: Async write failed for range [offset=3, size=4]: {odd");
        let message = odd.map(|error| error.message);
        assert_eq!(
            message.as_deref(),
            Some("Async write failed for range [offset=3, size=4]: {odd")
        );
        for of_query in [
            "IO Error: No files found that match the pattern \"x.parquet\"",
            "Invalid Input Error: Could not write file \"x\": File too large",
            "Conversion Error: Could not convert string 'a' to INT64",
        ] {
            assert!(of_disk(of_query).is_none(), "{of_query}");
        }
    }

    #[test]
    fn codes_are_sorted_and_unique() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn parts_of_names_are_found() {
        let names = ["collective_bandwidth", "copy_bandwidth", "iter_time"];
        assert_eq!(suggest("iter_tim", &names, "-"), "did you mean `iter_time`?");
        assert_eq!(
            suggest("Bandwidth", &names, "-"),
            "these names hold `bandwidth`: collective_bandwidth, copy_bandwidth"
        );
        assert_eq!(
            suggest("bandwith", &names, "-"),
            "these names hold `bandwidth`: collective_bandwidth, copy_bandwidth"
        );
        assert_eq!(
            suggest("bandw", &names, "-"),
            "these names hold `bandw`: collective_bandwidth, copy_bandwidth"
        );
        assert_eq!(suggest("collective", &names, "-"), "did you mean `collective_bandwidth`?");
        assert_eq!(suggest("e", &names, "-"), "-");
        assert_eq!(suggest("nothing", &names, "-"), "-");
    }

    #[test]
    fn nearest_finds_a_slip_and_nothing_far() {
        assert_eq!(nearest("coll_cal_num", ["iter_time", "coll_call_num"]), Some("coll_call_num"));
        assert_eq!(nearest("zzz", ["iter_time", "coll_call_num"]), None);
    }
}
