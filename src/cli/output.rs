//! The place and the form of a result.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use duckdb::Connection;

use crate::cli::context::Context;
use crate::cli::shape;
use crate::error::{Error, Result};
use crate::report::Format;
use crate::report::staged::{Staged, vacant};

/// The place of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// One file.
    File(PathBuf),
    /// A folder, in which the program names the files.
    Folder(PathBuf),
}

/// The place that `-o` names: a folder where it ends in a slash, or is one.
///
/// # Errors
/// `output-exists` where a file is there already: the user learns it before the work.
pub fn target(context: &Context) -> Result<Target> {
    match context.global.output.as_ref().filter(|p| p.as_os_str() != "-") {
        None => Ok(Target::Stdout),
        Some(path) if path.is_dir() || path.to_string_lossy().ends_with('/') => {
            Ok(Target::Folder(path.clone()))
        }
        Some(path) => {
            vacant(path, context.global.force)?;
            Ok(Target::File(path.clone()))
        }
    }
}

/// The form asked for; else the form of the ending of the file, else `default`.
///
/// # Errors
/// `usage` for a form that is not among `allowed` or that the ending contradicts; `output-terminal`
/// for a workbook or Parquet to a terminal.
pub fn form(
    context: &Context,
    command: &str,
    target: &Target,
    allowed: &[Format],
    default: Format,
) -> Result<Format> {
    let names = || {
        let names: Vec<&str> = allowed.iter().map(|f| name(*f)).collect();
        let other = if allowed.contains(&Format::Html) || command == "export" {
            ""
        } else {
            "; `ccl-sql report` writes pages and workbooks"
        };
        format!("its forms: {}{other}", names.join(", "))
    };
    let ending = match target {
        Target::File(path) => ending_of(path, allowed).map(|ending| (path, ending)),
        _ => None,
    };
    let format = match (context.printer.asked(), ending) {
        (Some(format), Some((path, ending))) => {
            let says_another = FORMATS.iter().any(|f| endings(*f).contains(&&*ending));
            if says_another && !endings(format).contains(&&*ending) {
                let message =
                    format!("--format {} and the ending .{ending} are two forms", name(format));
                return Err(Error::new("usage", message)
                    .at(path.display().to_string())
                    .hint("leave --format away, or give the file another ending"));
            }
            format
        }
        (Some(format), None) => format,
        (None, Some((path, ending))) => {
            let named = allowed.iter().find(|f| endings(**f).contains(&&*ending));
            *named.ok_or_else(|| {
                Error::new("usage", format!("{command} has no form with the ending .{ending}"))
                    .at(path.display().to_string())
                    .hint(format!("name one with --format; {}", names()))
            })?
        }
        (None, None) => default,
    };
    shape::for_json(context, format, allowed)?;
    if !allowed.contains(&format) {
        return Err(
            Error::new("usage", format!("{command} has no form {}", name(format))).hint(names())
        );
    }
    if *target == Target::Stdout && std::io::stdout().is_terminal() {
        let what = match format {
            Format::Xlsx => "a workbook",
            Format::Parquet => "Parquet",
            Format::Perfetto => "a timeline",
            _ => return Ok(format),
        };
        return Err(Error::new("output-terminal", format!("{what} is not for a terminal"))
            .hint(format!("write it to a file with -o FILE{}", self::ending(format))));
    }
    Ok(format)
}

/// The ending of a file, in small letters. Timelines may be packed: of `job.pftrace.gz` it is that
/// before the last.
fn ending_of(path: &Path, allowed: &[Format]) -> Option<String> {
    let lower = |path: &Path| path.extension().map(|e| e.to_string_lossy().to_lowercase());
    let last = lower(path)?;
    let inner = path.file_stem().map(Path::new).and_then(lower);
    match inner.filter(|_| last == "gz") {
        Some(inner) if allowed.contains(&Format::Perfetto) => Some(inner),
        _ => Some(last),
    }
}

/// The form of a single table, as [`form`] has it; text is the table for people.
///
/// # Errors
/// As [`form`], and `usage` for a folder.
pub fn table_form(context: &Context, command: &str) -> Result<Format> {
    table_form_or(context, command, &[])
}

/// As [`table_form`], or one of some other forms.
///
/// # Errors
/// As [`table_form`].
pub fn table_form_or(context: &Context, command: &str, others: &[Format]) -> Result<Format> {
    let target = target(context)?;
    if let Target::Folder(folder) = &target {
        return Err(Error::new(
            "usage",
            format!("{command} writes one file, and this is a folder"),
        )
        .at(folder.display().to_string())
        .hint(format!("name the file: -o {}", folder.join(format!("{command}.csv")).display())));
    }
    let allowed = [
        Format::Table,
        Format::Json,
        Format::Csv,
        Format::Parquet,
        Format::Markdown,
        Format::Value,
        Format::Text,
    ];
    let allowed = [&allowed, others].concat();
    match form(context, command, &target, &allowed, Format::Table)? {
        Format::Text => Ok(Format::Table),
        format => Ok(format),
    }
}

const FORMATS: [Format; 11] = [
    Format::Table,
    Format::Json,
    Format::Csv,
    Format::Parquet,
    Format::Value,
    Format::Text,
    Format::Markdown,
    Format::Html,
    Format::Xlsx,
    Format::Perfetto,
    Format::Chrome,
];

fn endings(format: Format) -> &'static [&'static str] {
    match format {
        Format::Text | Format::Table | Format::Value => &["txt"],
        Format::Markdown => &["md"],
        Format::Json | Format::Chrome => &["json"],
        Format::Perfetto => &["pftrace", "perfetto-trace"],
        Format::Csv => &["csv"],
        Format::Parquet => &["parquet"],
        Format::Html => &["html", "htm"],
        Format::Xlsx => &["xlsx"],
    }
}

/// The word of the command line.
fn name(format: Format) -> &'static str {
    match format {
        Format::Table => "table",
        Format::Json => "json",
        Format::Csv => "csv",
        Format::Parquet => "parquet",
        Format::Value => "value",
        Format::Text => "text",
        Format::Markdown => "md",
        Format::Html => "html",
        Format::Xlsx => "xlsx",
        Format::Perfetto => "perfetto",
        Format::Chrome => "chrome",
    }
}

/// The ending of a file of a form, with its dot.
pub fn ending(format: Format) -> String {
    format!(".{}", endings(format).first().copied().unwrap_or("txt"))
}

/// Names of files in a folder, each given once.
#[derive(Debug)]
pub struct Names {
    folder: PathBuf,
    taken: BTreeSet<String>,
}

impl Names {
    /// A folder in which no name is given yet.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), taken: BTreeSet::new() }
    }

    /// The path of `stem` and `ending`; of two equal stems the second is told apart by `other`.
    pub fn path(&mut self, stem: &str, other: &str, ending: &str) -> PathBuf {
        let mut name = format!("{stem}{ending}");
        for number in 1.. {
            // Some file systems do not tell cases apart.
            if self.taken.insert(name.to_lowercase()) {
                break;
            }
            let place = if number == 1 { String::new() } else { format!("-{number}") };
            name = format!("{stem}-{}{place}{ending}", safe(other));
        }
        self.folder.join(name)
    }
}

/// Text from a trace or a card as part of a file's name: letters, digits, dots, hyphens.
pub fn safe(text: &str) -> String {
    let kept: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' })
        .take(80)
        .collect();
    let trimmed = kept.trim_matches(['.', '-']);
    if trimmed.is_empty() { "unnamed".to_owned() } else { trimmed.to_owned() }
}

/// Files on their way to their places, and the notes for when they are there.
pub struct Files<'c> {
    context: &'c Context,
    staged: Staged,
    notes: Vec<String>,
}

impl<'c> Files<'c> {
    /// An output without files.
    pub fn new(context: &'c Context) -> Self {
        Self { context, staged: Staged::new(context.global.force), notes: Vec::new() }
    }

    /// Makes the folder of a target: a folder that cannot be made is an error before the work.
    ///
    /// # Errors
    /// `io`.
    pub fn prepare(&mut self, target: &Target) -> Result<()> {
        match target {
            Target::Stdout => Ok(()),
            Target::Folder(folder) => self.staged.folder(folder),
            Target::File(path) => match path.parent() {
                Some(folder) => self.staged.folder(folder),
                None => Ok(()),
            },
        }
    }

    /// A file for a place.
    ///
    /// # Errors
    /// `output-exists`, `io`.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.notes.push(format!("wrote {}", path.display()));
        self.staged.add(path, bytes)
    }

    /// Puts all of them there, or none.
    ///
    /// # Errors
    /// `output-exists`, `io`.
    pub fn commit(self) -> Result<()> {
        self.staged.commit()?;
        self.notes.iter().for_each(|note| self.context.printer.note(note));
        Ok(())
    }
}

/// The time of day as the names of reports hold it, in UTC.
///
/// # Errors
/// `sql` when DuckDB does not start.
pub fn timestamp() -> Result<String> {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(0));
    let connection = Connection::open_in_memory()?;
    let sql = "SELECT strftime(make_timestamp(?), '%Y%m%d-%H%M%S')";
    Ok(connection.query_row(sql, [now], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_stay_in_the_folder() {
        assert_eq!(safe("../../etc/passwd"), "etc-passwd");
        assert_eq!(safe("..."), "unnamed");
        assert_eq!(safe("Llama 3.1 \"8B\"\u{202e}"), "Llama-3.1--8B");
        assert_eq!(safe(&"x".repeat(200)).len(), 80);
    }

    #[test]
    fn a_packed_timeline_is_known_by_the_ending_before_the_last() {
        let of = |path: &str, allowed: &[Format]| ending_of(Path::new(path), allowed);
        let said = |ending: &str| Some(ending.to_owned());
        assert_eq!(of("out/job.PFTrace.gz", &[Format::Perfetto]), said("pftrace"));
        assert_eq!(of("out/job.pftrace.gz", &[Format::Csv]), said("gz"));
        assert_eq!(of("out/job.pftrace", &[Format::Perfetto]), said("pftrace"));
        assert_eq!(of("job.gz", &[Format::Perfetto]), said("gz"));
        assert_eq!(of("job", &[Format::Perfetto]), None);
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names = Names::new(Path::new("out"));
        let given = ["a", "A", "a", "b"].map(|stem| names.path(stem, "x y", ".md"));
        assert_eq!(
            given.map(|p| p.display().to_string()),
            ["out/a.md", "out/A-x-y.md", "out/a-x-y-2.md", "out/b.md"]
        );
    }

    #[test]
    fn timestamps_have_one_length() {
        let text = timestamp().expect("DuckDB formats times");
        assert_eq!((text.len(), text.as_bytes()[8]), (15, b'-'));
    }
}
