//! Values that a shell may complete: names of metrics, traces, areas and tables. The program is
//! asked at every press of Tab, so nothing is opened that need not be.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use crate::functions::FUNCTIONS;
use crate::registry::Registry;
use crate::schema::TABLES;
use crate::store::Store;

/// The value of an option on the command line that is being typed.
fn option(name: &str) -> Option<OsString> {
    let typed: Vec<OsString> = std::env::args_os().skip_while(|a| a != "--").collect();
    let with_sign = format!("{name}=");
    typed.iter().enumerate().find_map(|(i, word)| match word.to_str() {
        Some(word) if word == name => typed.get(i + 1).cloned(),
        Some(word) => word.strip_prefix(&with_sign).map(OsString::from),
        None => None,
    })
}

/// The SQL files that the command line being typed would have.
fn registry() -> Registry {
    let own = option("--sql-dir").map(PathBuf::from);
    // A file of the user's that is wrong hides none of ours.
    Registry::load(own.as_deref()).or_else(|_| Registry::load(None)).unwrap_or_default()
}

/// Words that begin as the one that is typed, with what they are.
pub(super) fn beginning(
    words: impl IntoIterator<Item = (String, Option<String>)>,
    typed: &OsStr,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    words
        .into_iter()
        .filter(|(word, _)| word.starts_with(&*typed))
        .map(|(word, help)| CompletionCandidate::new(word).help(help.map(Into::into)))
        .collect()
}

/// Names of metrics; their other names where none begins like that.
pub fn metrics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let registry = registry();
    let words = registry.metrics().map(|f| {
        let h = &f.header;
        (h.name.clone(), Some(h.summary.clone()))
    });
    let found = beginning(words, typed);
    if !found.is_empty() {
        return found;
    }
    let aliases = registry.metrics().flat_map(|f| {
        let h = &f.header;
        h.aliases.iter().map(|alias| (alias.clone(), Some(h.summary.clone())))
    });
    beginning(aliases, typed)
}

/// Names of ingested traces, and paths.
pub fn traces(typed: &OsStr) -> Vec<CompletionCandidate> {
    let data = option("--data").or_else(|| std::env::var_os("CCL_SQL_DATA"));
    let store = Store::new(data.map_or_else(|| PathBuf::from("ccl-data"), PathBuf::from));
    let mut out = beginning(store.traces().into_iter().map(|trace| (trace, None)), typed);
    if out.is_empty() || typed.to_string_lossy().contains('/') {
        out.extend(PathCompleter::any().complete(typed));
    }
    out
}

/// Areas of metrics.
pub fn areas(typed: &OsStr) -> Vec<CompletionCandidate> {
    let registry = registry();
    let areas: BTreeSet<String> = registry.metrics().map(|f| f.header.area.clone()).collect();
    beginning(areas.into_iter().map(|area| (area, None)), typed)
}

/// Names that `show` explains.
pub fn names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let registry = registry();
    let views = registry.views().filter(|v| !v.header.name.starts_with('_'));
    let files = registry.metrics().chain(registry.diagnoses()).chain(views);
    let files = files.map(|f| (f.header.name.clone(), Some(f.header.summary.clone())));
    let tables = TABLES.iter().map(|t| (t.name.to_owned(), Some(t.doc.to_owned())));
    let functions =
        FUNCTIONS.iter().map(|(name, _, doc)| ((*name).to_owned(), Some((*doc).to_owned())));
    beginning(files.chain(tables).chain(functions), typed)
}
