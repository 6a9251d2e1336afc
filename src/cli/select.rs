//! The traces that words mean: names, beginnings, patterns and paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::args::ReadingArgs;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::reading::{ingest_paths, options};
use crate::error::{Error, Result, nearest};
use crate::input::place::{absolute, exists, is_remote};
use crate::remote::checked;
use crate::store::Found;
use crate::store::names::valid_name;

/// A trace with all names that find it.
struct NamedTrace {
    /// Name of the trace.
    name: String,
    /// Names that the trace had before.
    aliases: Vec<String>,
    /// Folder of the job.
    root: PathBuf,
    /// Files that the trace was made from.
    sources: Vec<PathBuf>,
}

impl NamedTrace {
    fn of(found: Found) -> Self {
        let manifest = found.manifest;
        Self {
            name: manifest.trace,
            aliases: manifest.aliases,
            root: manifest.root,
            sources: manifest.sources.into_iter().map(|s| s.absolute).collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }
}

/// The traces that can be named. A trace whose manifest is lost is known by its name alone.
fn known(context: &Context) -> Vec<NamedTrace> {
    let mut out: Vec<NamedTrace> = context.store.found().into_iter().map(NamedTrace::of).collect();
    let lost = |name: String| NamedTrace {
        name,
        aliases: Vec::new(),
        root: PathBuf::new(),
        sources: Vec::new(),
    };
    let names: BTreeSet<String> = out.iter().map(|k| k.name.clone()).collect();
    let all = context.store.traces().into_iter();
    out.extend(all.filter(|name| !names.contains(name)).map(lost));
    out
}

/// The meaning of a word.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// Traces by their names.
    Traces(Vec<String>),
    /// A file or folder, which is ingested where it is not yet.
    Path(PathBuf),
}

/// Names of the traces asked for, each once, sorted. A path that is not ingested is ingested first.
/// Without any word all traces are meant, except those that cannot be asked, which are said.
///
/// # Errors
/// `trace-unknown`, `usage`, and those of an ingest.
pub fn traces(
    context: &Context,
    wanted: &[String],
    reading: &ReadingArgs,
) -> Result<Vec<String>, Errors> {
    let mut out = BTreeSet::new();
    if wanted.is_empty() {
        if *reading != ReadingArgs::default() {
            return Err(Error::new("usage", "options of reading traces are given, and no trace")
                .hint("name the trace or the path that they are of")
                .into());
        }
        return Ok(all(context)?);
    }
    for traces in each(context, wanted, reading)? {
        out.extend(traces);
    }
    Ok(out.into_iter().collect())
}

/// The error of a data directory without traces.
pub fn none_yet(context: &Context) -> Error {
    Error::new("trace-unknown", "there are no traces yet").at(context.store.shown())
}

/// The traces that can be asked.
fn all(context: &Context) -> Result<Vec<String>> {
    let out = context.usable()?;
    if out.is_empty() {
        return Err(none_yet(context)
            .hint("ingest one first: ccl-sql ingest PATH, or give a path: --trace PATH"));
    }
    Ok(out)
}

/// The traces of each word, in the order of the words. Paths are ingested all together, so that
/// their names are told apart. A word that is neither name nor path is an error before anything is
/// read.
///
/// # Errors
/// As [`traces`].
pub fn each(
    context: &Context,
    wanted: &[String],
    reading: &ReadingArgs,
) -> Result<Vec<Vec<String>>, Errors> {
    let known = known(context);
    let mut meant: Vec<(usize, Meaning)> = Vec::new();
    let mut errors = Vec::new();
    for (at, word) in wanted.iter().enumerate() {
        match meaning(word, &known) {
            Ok(some) => meant.extend(some.into_iter().map(|one| (at, one))),
            Err(error) => errors.push(error.at(context.store.shown())),
        }
    }
    Errors(errors).result()?;
    if *reading != ReadingArgs::default() {
        for (_, one) in &mut meant {
            reread(one, &known, reading)?;
        }
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for (_, one) in &meant {
        if let Meaning::Path(path) = one
            && !paths.contains(path)
        {
            paths.push(path.clone());
        }
    }
    let made = if paths.is_empty() { Vec::new() } else { ingested(context, &paths, reading)? };
    let mut out = vec![Vec::new(); wanted.len()];
    for (at, one) in meant {
        match one {
            Meaning::Traces(names) => out[at].extend(names),
            Meaning::Path(path) => {
                let found = of_path(&path, &made);
                if found.is_empty() {
                    let error = Error::new("nothing-found", "no trace was found");
                    return Err(error.at(path.display().to_string()).into());
                }
                out[at].extend(found);
            }
        }
    }
    Ok(out)
}

/// Ingests paths; gives the traces that they made.
fn ingested(
    context: &Context,
    paths: &[PathBuf],
    reading: &ReadingArgs,
) -> Result<Vec<NamedTrace>, Errors> {
    let outcome = ingest_paths(context, paths, &options(context, reading))?;
    Errors(outcome.errors).result()?;
    let names: BTreeSet<String> = outcome.traces.into_iter().map(|t| t.trace).collect();
    Ok(known(context).into_iter().filter(|k| names.contains(&k.name)).collect())
}

/// Reads a trace that is named again, for options that are given: by one of its files, from
/// which the ingest finds the whole job.
fn reread(meant: &mut Meaning, known: &[NamedTrace], reading: &ReadingArgs) -> Result<()> {
    let Meaning::Traces(names) = meant else { return Ok(()) };
    let [name] = &names[..] else {
        return Err(Error::new("usage", "options of reading traces are of one trace each")
            .facts(format!("these are {}: {}", names.len(), names.join(", "))));
    };
    if reading.name.is_some() {
        return Err(Error::new("usage", format!("`{name}` has a name"))
            .hint(format!("give it another one: ccl-sql rename {name} NEW")));
    }
    let sources = known.iter().filter(|k| k.name == *name).flat_map(|k| &k.sources);
    match sources.into_iter().find(|path| exists(path)) {
        Some(path) => {
            *meant = Meaning::Path(path.clone());
            Ok(())
        }
        None => Err(Error::new("file-unreadable", "the files of the trace are gone")
            .at(name.clone())
            .hint("without the options it answers from what was ingested")),
    }
}

/// The traces that were made from a path, or of which it is a part.
fn of_path(path: &Path, known: &[NamedTrace]) -> Vec<String> {
    let path = absolute(path);
    let is_of = |k: &&NamedTrace| {
        k.root.starts_with(&path) || k.sources.iter().any(|source| source.starts_with(&path))
    };
    known.iter().filter(is_of).map(|k| k.name.clone()).collect()
}

/// The meaning of a word: a name; a path; the files of a trace that are gone; a list with commas; a
/// pattern; the beginning of names.
fn meaning(word: &str, known: &[NamedTrace]) -> Result<Vec<Meaning>> {
    let one = |meant: Meaning| Ok(vec![meant]);
    if known.iter().any(|k| k.name == word) {
        return one(Meaning::Traces(vec![word.to_owned()]));
    }
    let path = Path::new(word);
    if is_remote(path) {
        return one(Meaning::Path(checked(path)?));
    }
    if !word.is_empty() && path.exists() {
        return one(Meaning::Path(path.to_owned()));
    }
    let is_alias = |k: &&NamedTrace| k.aliases.iter().any(|alias| alias == word);
    if let Some(k) = known.iter().find(is_alias) {
        return one(Meaning::Traces(vec![k.name.clone()]));
    }
    let gone = if word.is_empty() { Vec::new() } else { of_path(path, known) };
    if !gone.is_empty() {
        return one(Meaning::Traces(gone));
    }
    if word.contains(',') {
        let parts = word.split(',').filter(|part| !part.is_empty());
        let lists: Result<Vec<Vec<Meaning>>> = parts.map(|part| meaning(part, known)).collect();
        return Ok(lists?.into_iter().flatten().collect());
    }
    let of = |fits: &dyn Fn(&str) -> bool| -> Vec<String> {
        known.iter().filter(|k| k.names().any(fits)).map(|k| k.name.clone()).collect()
    };
    let is_pattern = word.contains(['*', '?']);
    let below = format!("{word}.");
    let found = if is_pattern {
        of(&|name| fits(word.as_bytes(), name.as_bytes()))
    } else {
        // The run of an iteration means all of them.
        of(&|name| name.starts_with(&below))
    };
    if !found.is_empty() {
        return one(Meaning::Traces(found));
    }
    let begins =
        if is_pattern || word.is_empty() { Vec::new() } else { of(&|name| name.starts_with(word)) };
    match &begins[..] {
        [_] => one(Meaning::Traces(begins)),
        [] => Err(unknown(word, known)),
        _ => Err(Error::new("trace-unknown", format!("several traces begin with `{word}`"))
            .facts(shown(&begins))
            .hint(format!("name one, or all of them with '{word}*'"))),
    }
}

/// The first names, and the number of the others.
fn shown(names: &[String]) -> String {
    let first = names[..names.len().min(8)].join(", ");
    match names.len().saturating_sub(8) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The error of a word that means no trace, with the nearest name.
fn unknown(word: &str, known: &[NamedTrace]) -> Error {
    let error = Error::new("trace-unknown", format!("there is no trace `{word}`"));
    match nearest(word, known.iter().flat_map(NamedTrace::names)) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if known.is_empty() => error.hint("ingest one first: ccl-sql ingest PATH"),
        None => error.hint("`ccl-sql list traces` shows them all"),
    }
}

/// Whether a name fits a pattern: `*` is any text, `?` one byte.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // The place of the last star, and how much of the name it has taken.
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(c) if *c == b'?' || *c == name[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((of, taken)) = star else { return false };
                star = Some((of, taken + 1));
                (at, place) = (of + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

/// The traces that names, patterns and beginnings of names mean, for those who may not read files:
/// a path means the traces that were ingested from it.
///
/// # Errors
/// `trace-unknown` with the nearest name.
pub fn by_name(context: &Context, words: &[String]) -> Result<Vec<String>> {
    let known = known(context);
    let mut out = BTreeSet::new();
    for word in words {
        for meant in meaning(word, &known)? {
            match meant {
                Meaning::Traces(names) => out.extend(names),
                Meaning::Path(path) => match of_path(&path, &known) {
                    names if names.is_empty() => return Err(unknown(word, &known)),
                    names => out.extend(names),
                },
            }
        }
    }
    Ok(out.into_iter().collect())
}

/// The one trace that a word means, if it is no path that would have to be read.
pub fn named(context: &Context, word: &str) -> Option<String> {
    if valid_name(word).is_ok() && context.store.directory(word).is_dir() {
        return Some(word.to_owned());
    }
    let known = known(context);
    let of_path = of_path(Path::new(word), &known);
    let names = if of_path.is_empty() {
        match meaning(word, &known).ok()?.pop()? {
            Meaning::Traces(names) => names,
            Meaning::Path(_) => return None,
        }
    } else {
        of_path
    };
    match &names[..] {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// The one trace of this very name, or of one that it had before.
///
/// # Errors
/// `trace-unknown` with the nearest name; `usage` for what can be no name.
pub fn exact(context: &Context, name: &str) -> Result<String> {
    valid_name(name)?;
    if context.store.directory(name).is_dir() {
        return Ok(name.to_owned());
    }
    let known = known(context);
    let now = known.iter().find(|k| k.aliases.iter().any(|alias| alias == name));
    let error = unknown(name, &known).at(context.store.shown());
    Err(match now {
        Some(now) => error.hint(format!("it is `{}` now", now.name)),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[(&str, &[&str])]) -> Vec<NamedTrace> {
        let one = |(name, aliases): &(&str, &[&str])| NamedTrace {
            name: (*name).to_owned(),
            aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
            root: format!("/gone/{name}").into(),
            sources: Vec::new(),
        };
        names.iter().map(one).collect()
    }

    fn found(word: &str, known: &[NamedTrace]) -> Vec<String> {
        let all = meaning(word, known).expect("it means something");
        all.into_iter()
            .flat_map(|meant| match meant {
                Meaning::Traces(names) => names,
                Meaning::Path(path) => panic!("{} is a path", path.display()),
            })
            .collect()
    }

    #[test]
    fn words_mean_traces() {
        let known = known(&[
            ("jobA.iteration_10", &["iteration_10"]),
            ("jobA.iteration_20", &[]),
            ("jobAB", &[]),
            ("run,1", &[]),
            ("run_a", &[]),
            ("run_b", &["old_b"]),
        ]);
        let all: Vec<&str> = known.iter().map(|k| k.name.as_str()).collect();
        for (word, expected) in [
            ("jobA", &all[..2]),
            ("jobA.iteration_1", &all[..1]),
            ("iteration_10", &all[..1]),
            ("iteration", &all[..1]),
            ("jobAB", &all[2..3]),
            ("run,1", &all[3..4]),
            ("run_*", &all[4..]),
            ("*_b", &all[5..]),
            ("run_?", &all[4..]),
            ("old_b,run_a", &[all[5], all[4]]),
            ("*", &all),
            ("/gone/jobAB", &all[2..3]),
        ] {
            assert_eq!(found(word, &known), expected, "{word}");
        }
        for (word, part) in [
            ("run_", "several traces begin"),
            ("run_c", "did you mean `run_a`"),
            ("", "there is no trace"),
            ("z*", "there is no trace"),
            ("run_a,nothing", "there is no trace `nothing`"),
        ] {
            let error = meaning(word, &known).expect_err(word).to_string();
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    #[test]
    fn patterns_with_many_stars_come_to_an_end() {
        let name = "a".repeat(200);
        assert!(!fits("*a*a*a*a*a*a*a*a*a*b".as_bytes(), name.as_bytes()));
        assert!(fits(b"**", b"") && fits(b"a*", b"a") && !fits(b"a?", b"a"));
    }
}
