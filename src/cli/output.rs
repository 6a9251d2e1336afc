//! Where a report or a comparison goes, and in which form.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use duckdb::Connection;

use super::Context;
use crate::error::{Error, Result, io};
use crate::report::{Format, write_file};

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// One file.
    File(PathBuf),
    /// Files in a folder, by names of ours.
    Folder(PathBuf),
}

/// What `-o` names: a folder where it ends in a slash, or is one.
pub fn target(context: &Context) -> Target {
    match context.global.output.as_ref().filter(|p| p.as_os_str() != "-") {
        None => Target::Stdout,
        Some(path) if path.is_dir() || path.to_string_lossy().ends_with('/') => {
            Target::Folder(path.clone())
        }
        Some(path) => Target::File(path.clone()),
    }
}

/// The form asked for; else what the ending of the file says, else `default`.
///
/// # Errors
/// `usage` for one that is not among `allowed`, `output-terminal` for a workbook to a terminal.
pub fn form(
    context: &Context,
    command: &str,
    target: &Target,
    allowed: &[Format],
    default: Format,
) -> Result<Format> {
    let by_ending = || match target {
        Target::File(path) => {
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            allowed.iter().copied().find(|f| endings(*f).contains(&ending.as_str()))
        }
        _ => None,
    };
    let format = context.printer.asked().or_else(by_ending).unwrap_or(default);
    if !allowed.contains(&format) {
        let names: Vec<&str> = allowed.iter().map(|f| name(*f)).collect();
        return Err(Error::new("usage", format!("{command} has no form {}", name(format)))
            .hint(format!("its forms: {}", names.join(", "))));
    }
    if format == Format::Xlsx && *target == Target::Stdout && std::io::stdout().is_terminal() {
        return Err(Error::new("output-terminal", "a workbook is not for a terminal")
            .hint("write it to a file with -o FILE.xlsx"));
    }
    Ok(format)
}

fn endings(format: Format) -> &'static [&'static str] {
    match format {
        Format::Text => &["txt"],
        Format::Markdown => &["md"],
        Format::Json => &["json"],
        Format::Csv => &["csv"],
        Format::Html => &["html", "htm"],
        Format::Xlsx => &["xlsx"],
        Format::Table | Format::Parquet | Format::Value => &[],
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
    }
}

/// The ending of a file of a form.
pub fn ending(format: Format) -> &'static str {
    endings(format).first().copied().unwrap_or("txt")
}

/// Files of one run in a folder: no name is given twice.
pub struct Names {
    folder: PathBuf,
    taken: BTreeSet<String>,
}

impl Names {
    /// Names in a folder, which is made where it is not there.
    ///
    /// # Errors
    /// `io`.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| io(folder, &e))?;
        Ok(Self { folder: folder.to_owned(), taken: BTreeSet::new() })
    }

    /// The path of `stem.ending`; of two equal stems the second is told apart by `other`.
    pub fn path(&mut self, stem: &str, other: &str, ending: &str) -> PathBuf {
        let mut name = format!("{stem}.{ending}");
        for number in 1.. {
            // Some file systems do not tell cases apart.
            if self.taken.insert(name.to_lowercase()) {
                break;
            }
            let place = if number == 1 { String::new() } else { format!("-{number}") };
            name = format!("{stem}-{}{place}.{ending}", safe(other));
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

/// Writes files, each whole; where one of them is there already and `--force` is not given, none.
///
/// # Errors
/// `output-exists`, `io`.
pub fn write_all(context: &Context, files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let force = context.global.force;
    if !force && let Some((path, _)) = files.iter().find(|(path, _)| path.exists()) {
        return Err(Error::new("output-exists", "the output file is there already")
            .at(path.display().to_string())
            .hint("add --force to write over it"));
    }
    for (path, bytes) in files {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| io(folder, &e))?;
        }
        write_file(path, bytes, force)?;
        context.printer.note(&format!("wrote {}", path.display()));
    }
    Ok(())
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
    fn timestamps_have_one_length() {
        let text = timestamp().expect("DuckDB formats times");
        assert_eq!((text.len(), text.as_bytes()[8]), (15, b'-'));
    }
}
