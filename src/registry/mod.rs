//! The SQL files: embedded ones, and a user's own from `--sql-dir`; by name, version and alias.

pub mod areas;
pub mod docs;
pub mod header;
pub mod lint;
pub mod pages;
pub mod units;
pub mod wrap;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self::header::{Header, Kind};
use crate::error::{Error, Result, nearest, suggest};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/sql_files.rs"));
}

/// One SQL file.
#[derive(Debug, Clone)]
pub struct SqlFile {
    /// Path from the project's root, or as the user's folder has it.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Header of the file.
    pub header: Header,
    /// Part of the program, so that `ccl-sql check` has seen it: one `SELECT`.
    pub embedded: bool,
    /// A user's folder, which has any layout; all others have that of `sql/`.
    pub of_user: bool,
}

impl SqlFile {
    fn read(path: String, text: String) -> Result<Self> {
        let header = header::parse(&path, &text)?;
        Ok(Self { path, text, header, embedded: false, of_user: false })
    }

    /// The query: everything after the header.
    pub fn query(&self) -> &str {
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            if !line.starts_with("--") {
                break;
            }
            at += line.len();
        }
        self.text[at..].trim_end()
    }

    /// Hash of the query without comments and layout: what a version stands for.
    pub fn sha256(&self) -> String {
        sha256(&plain(self.query()))
    }

    /// The folder that the file lies in.
    pub fn folder(&self) -> &str {
        let mut parts = self.path.rsplit(['/', '\\']);
        parts.nth(1).unwrap_or_default()
    }

    /// `name@version`.
    pub fn id(&self) -> String {
        format!("{}@{}", self.header.name, self.header.version)
    }
}

fn sha256(text: &str) -> String {
    crate::hash::sha256_text(text)
}

/// SQL without comments, and with every run of white space as one space; strings stay.
fn plain(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut chars = sql.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match quote {
            Some(q) => {
                out.push(c);
                if c == q {
                    quote = None;
                }
            }
            None if c == '-' && chars.peek() == Some(&'-') => {
                for skipped in chars.by_ref() {
                    if skipped == '\n' {
                        break;
                    }
                }
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            None if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            None => {
                if c == '\'' || c == '"' {
                    quote = Some(c);
                }
                out.push(c);
            }
        }
    }
    out.trim().to_owned()
}

/// Names a folder whose files are taken in place of the embedded ones: whoever writes a metric
/// tries it without a build.
const TREE: &str = "CCL_SQL_TREE";

const OF_TREE: &str =
    "set the environment variable CCL_SQL_TREE to a folder laid out like `sql`, or unset it";
const OF_DIR: &str = "give a folder that holds metrics and views: --sql-dir DIR";

/// The SQL files of a folder and below, by path; `hint` says who named the folder.
fn sql_files(folder: &Path, hint: &str) -> Result<Vec<(PathBuf, String)>> {
    let unreadable = |e: String| {
        Error::new("sql-file", format!("cannot read the folder of SQL files: {e}"))
            .at(folder.display().to_string())
            .hint(hint)
    };
    if !folder.is_dir() {
        return Err(unreadable("it is no folder".to_owned()));
    }
    let mut out = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(|e| unreadable(e.to_string()))?;
        if entry.path().extension().is_some_and(|e| e == "sql") {
            let text = std::fs::read_to_string(entry.path())
                .map_err(|e| crate::error::io(entry.path(), &e))?;
            out.push((entry.path().to_owned(), text));
        }
    }
    Ok(out)
}

/// All SQL files.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Metrics by name, each by version.
    metrics: BTreeMap<String, BTreeMap<u32, SqlFile>>,
    /// Views by name.
    views: BTreeMap<String, SqlFile>,
    /// Derived tables by name.
    derived: BTreeMap<String, SqlFile>,
    /// Comparisons by name.
    comparisons: BTreeMap<String, SqlFile>,
    /// Diagnoses by name, each by version.
    diagnoses: BTreeMap<String, BTreeMap<u32, SqlFile>>,
    aliases: BTreeMap<String, String>,
    /// The user's folder of SQL files.
    pub user_folder: Option<PathBuf>,
    /// Fingerprints of the views by name, once one was asked for.
    fingerprints: OnceLock<BTreeMap<String, String>>,
}

impl Registry {
    /// The embedded files, and those below `sql_dir`.
    ///
    /// # Errors
    /// `metric-header` for a header that is wrong, `sql-file` for a name that is taken.
    pub fn load(sql_dir: Option<&Path>) -> Result<Self> {
        let mut registry = Self { user_folder: sql_dir.map(Path::to_owned), ..Self::default() };
        if let Some(tree) = std::env::var_os(TREE) {
            let tree = PathBuf::from(tree);
            for (path, text) in sql_files(&tree, OF_TREE)? {
                let path = Path::new("sql").join(path.strip_prefix(&tree).unwrap_or(&path));
                registry.add(SqlFile::read(path.display().to_string(), text)?)?;
            }
        } else {
            for (path, text) in embedded::FILES {
                let file = SqlFile::read((*path).to_owned(), (*text).to_owned())?;
                registry.add(SqlFile { embedded: true, ..file })?;
            }
        }
        if let Some(dir) = sql_dir {
            for (path, text) in sql_files(dir, OF_DIR)? {
                let file = SqlFile::read(path.display().to_string(), text)?;
                registry.add(SqlFile { of_user: true, ..file })?;
            }
        }
        Ok(registry)
    }

    fn add(&mut self, file: SqlFile) -> Result<()> {
        let path = file.path.clone();
        let taken = |old: &str| {
            Err(Error::new("sql-file", "two SQL files define one name")
                .at(format!("{path} and {old}")))
        };
        let name = file.header.name.clone();
        match file.header.kind {
            Kind::Metric => {
                if let Some(old) = self.aliases.get(&name) {
                    return taken(&format!("the alias of {old}"));
                }
                for alias in &file.header.aliases {
                    match self.aliases.insert(alias.clone(), name.clone()) {
                        Some(old) if old != name => return taken(&format!("the alias of {old}")),
                        _ if self.metrics.contains_key(alias) => return taken(alias),
                        _ => {}
                    }
                }
                let versions = self.metrics.entry(name).or_default();
                if let Some(old) = versions.get(&file.header.version) {
                    return taken(&old.path);
                }
                versions.insert(file.header.version, file);
            }
            Kind::Diagnosis => {
                let versions = self.diagnoses.entry(name).or_default();
                if let Some(old) = versions.get(&file.header.version) {
                    return taken(&old.path);
                }
                versions.insert(file.header.version, file);
            }
            Kind::Derived if file.of_user => {
                let message = "a user's folder holds metrics, views and diagnoses only";
                return Err(Error::new("sql-file", message)
                    .at(path)
                    .hint("derived tables are made at ingest: write a view in place of one"));
            }
            kind => {
                let maps = [&self.views, &self.derived, &self.comparisons];
                if let Some(old) = maps.iter().find_map(|map| map.get(&name)) {
                    return taken(&old.path.clone());
                }
                let map = match kind {
                    Kind::View => &mut self.views,
                    Kind::Derived => &mut self.derived,
                    _ => &mut self.comparisons,
                };
                map.insert(name, file);
            }
        }
        Ok(())
    }

    /// Latest version of every metric, by name.
    pub fn metrics(&self) -> impl Iterator<Item = &SqlFile> {
        self.metrics.values().filter_map(|v| v.values().next_back())
    }

    /// Latest version of every diagnosis, by name.
    pub fn diagnoses(&self) -> impl Iterator<Item = &SqlFile> {
        self.diagnoses.values().filter_map(|v| v.values().next_back())
    }

    /// The latest version of a diagnosis.
    pub fn diagnosis(&self, name: &str) -> Option<&SqlFile> {
        self.diagnoses.get(name)?.values().next_back()
    }

    /// Every file of every kind and version.
    pub fn files(&self) -> impl Iterator<Item = &SqlFile> {
        self.metrics
            .values()
            .chain(self.diagnoses.values())
            .flat_map(BTreeMap::values)
            .chain(self.views.values())
            .chain(self.derived.values())
            .chain(self.comparisons.values())
    }

    /// Every version of a metric or diagnosis, oldest first.
    pub fn versions(&self, name: &str) -> Vec<&SqlFile> {
        let versions = self.metrics.get(name).or_else(|| self.diagnoses.get(name));
        versions.map(|v| v.values().collect()).unwrap_or_default()
    }

    /// Views by name.
    pub fn views(&self) -> impl Iterator<Item = &SqlFile> {
        self.views.values()
    }

    /// The view of a name.
    pub fn view(&self, name: &str) -> Option<&SqlFile> {
        self.views.get(name)
    }

    /// The tables behind some names of tables and views. What views read is not looked at of those
    /// that are `there`.
    pub fn tables_below<'r>(
        &'r self,
        names: impl IntoIterator<Item = &'r str>,
        there: impl Fn(&str) -> bool,
    ) -> BTreeSet<&'r str> {
        let (mut seen, mut tables) = (BTreeSet::new(), BTreeSet::new());
        let mut left: Vec<&str> = names.into_iter().collect();
        while let Some(name) = left.pop() {
            if !seen.insert(name) || there(name) {
                continue;
            }
            match self.view(name) {
                Some(view) => left.extend(view.header.inputs()),
                None => _ = tables.insert(name),
            }
        }
        tables
    }

    /// The comparison of a name.
    pub fn comparison(&self, name: &str) -> Option<&SqlFile> {
        self.comparisons.get(name)
    }

    /// The SQL of the derived tables, each right after what it reads: so little waits in memory
    /// while one is made.
    pub fn derived(&self) -> Vec<&SqlFile> {
        let mut out = Vec::new();
        self.derived.values().for_each(|file| self.place(file, 0, &mut out));
        out
    }

    /// Puts a derived table behind what it reads, unless it is there.
    fn place<'r>(&'r self, file: &'r SqlFile, depth: usize, out: &mut Vec<&'r SqlFile>) {
        assert!(depth <= self.derived.len(), "the derived tables form a cycle");
        if out.iter().any(|o| o.header.name == file.header.name) {
            return;
        }
        let inputs = file.header.inputs().filter_map(|input| self.derived.get(input));
        inputs.for_each(|input| self.place(input, depth + 1, out));
        out.push(file);
    }

    /// A metric by `NAME` or `NAME@VERSION`; aliases count.
    ///
    /// # Errors
    /// `metric-unknown`, with the nearest name or the versions that there are.
    pub fn metric(&self, wanted: &str) -> Result<&SqlFile> {
        let (name, version) = match wanted.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (wanted, None),
        };
        let canonical = self.aliases.get(name).map_or(name, String::as_str);
        let Some(versions) = self.metrics.get(canonical) else {
            // Other names count where no name is near.
            let names: Vec<&str> = self.metrics.keys().map(String::as_str).collect();
            let all: Vec<&str> =
                names.iter().copied().chain(self.aliases.keys().map(String::as_str)).collect();
            let near = nearest(name, all.iter().copied());
            let otherwise = "`ccl-sql list metrics` shows them all";
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => suggest(name, &names, &suggest(name, &all, otherwise)),
            };
            let error = Error::new("metric-unknown", format!("there is no metric `{name}`"));
            return Err(error.hint(hint));
        };
        let found = match version {
            None => versions.values().next_back(),
            Some(v) => v.parse().ok().and_then(|v: u32| versions.get(&v)),
        };
        found.ok_or_else(|| {
            let list: Vec<String> = versions.keys().map(u32::to_string).collect();
            Error::new(
                "metric-unknown",
                format!("metric `{canonical}` has no version {}", version.unwrap_or("")),
            )
            .hint(format!("its versions: {}", list.join(", ")))
        })
    }

    /// A hash over the text of a file and those of all views below it: what its answers depend on
    /// beside the tables.
    pub fn fingerprint(&self, file: &SqlFile) -> String {
        let known = self.fingerprints.get_or_init(|| {
            let mut known = BTreeMap::new();
            for name in self.views.keys() {
                self.fingerprint_of(name, &mut known);
            }
            known
        });
        let inputs = file.header.inputs().filter_map(|input| known.get(input));
        sha256(&inputs.fold(file.text.clone(), |all, one| all + "\n" + one))
    }

    /// Adds the fingerprint of a view, and those of the views that it reads.
    fn fingerprint_of(&self, name: &str, known: &mut BTreeMap<String, String>) {
        let Some(view) = self.views.get(name).filter(|_| !known.contains_key(name)) else { return };
        // A view that reads itself is refused elsewhere.
        known.insert(name.to_owned(), String::new());
        let mut text = view.text.clone();
        for input in view.header.inputs() {
            self.fingerprint_of(input, known);
            text.extend(known.get(input).map(|hash| format!("\n{hash}")));
        }
        known.insert(name.to_owned(), sha256(&text));
    }

    /// Data of ours that the derived tables read.
    pub fn derived_data(&self) -> impl Iterator<Item = &SqlFile> {
        let read = |name: &str| self.derived.values().any(|f| f.header.inputs().any(|i| i == name));
        self.views.values().filter(move |f| f.header.is_data() && read(&f.header.name))
    }

    /// Hash over the SQL of all derived tables, and of the data that they read.
    pub fn derived_sha256(&self) -> String {
        let files = self.derived.values().chain(self.derived_data());
        sha256(&files.map(|f| format!("{} {}\n", f.header.name, f.sha256())).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_and_comments_do_not_count() {
        assert_eq!(plain("SELECT  1 -- one\n  AS x"), "SELECT 1 AS x");
        assert_eq!(plain("SELECT '--  a'"), "SELECT '--  a'");
        assert_eq!(plain("SELECT 'a  b'  AS \"c  d\"  -- e"), "SELECT 'a  b' AS \"c  d\"");
        assert_eq!(plain("a -- b\n-- c\n d"), "a d");
        assert_eq!(plain("a-- b\nc - d"), "a c - d");
    }

    #[test]
    fn a_query_begins_after_the_header() {
        let text = "-- @view v\n-- @summary S.\nSELECT 1\n-- no header\n";
        let file = SqlFile::read("views/v.sql".to_owned(), text.to_owned()).expect("a file");
        assert_eq!(file.query(), "SELECT 1\n-- no header");
        assert_eq!((file.folder(), file.id().as_str()), ("views", "v@1"));
    }

    #[test]
    fn a_name_is_taken_once() {
        let add = |texts: &[&str]| -> Result<(), String> {
            let mut registry = Registry::default();
            for (place, text) in texts.iter().enumerate() {
                let file = SqlFile::read(format!("{place}.sql"), (*text).to_owned());
                registry.add(file.expect("a file")).map_err(|e| e.place.unwrap_or_default())?;
            }
            Ok(())
        };
        let metric = |name: &str, version: u32, alias: &str| {
            let alias =
                if alias.is_empty() { String::new() } else { format!("-- @alias {alias}\n") };
            format!(
                "-- @metric {name}\n-- @version {version}\n-- @area a\n-- @summary S.\n\
                 -- @grain trace\n-- @value {name}\n-- @column {name} DOUBLE value -  | X.\n\
                 -- @source here\n{alias}SELECT 1\n"
            )
        };
        let diagnosis = |version: u32| {
            format!(
                "-- @diagnosis d\n-- @version {version}\n-- @summary S.\n-- @gain 1\n-- @shown x\n\
                 -- @source here\nSELECT 1\n"
            )
        };
        let (view, derived) =
            ("-- @view v\n-- @summary S.\nSELECT 1\n", "-- @derived v\n-- @summary S.\nSELECT 1\n");
        let taken = |by: &str| Err(by.to_owned());
        assert_eq!(add(&[&metric("m", 1, ""), &metric("m", 2, ""), &metric("n", 1, "")]), Ok(()));
        assert_eq!(add(&[&metric("m", 1, ""), &metric("m", 1, "")]), taken("1.sql and 0.sql"));
        // Two versions of a metric may have one alias.
        assert_eq!(add(&[&metric("m", 1, "k"), &metric("m", 2, "k")]), Ok(()));
        let alias = add(&[&metric("m", 1, "k"), &metric("n", 1, "k")]);
        assert_eq!(alias, taken("1.sql and the alias of m"));
        let alias = add(&[&metric("m", 1, "k"), &metric("k", 1, "")]);
        assert_eq!(alias, taken("1.sql and the alias of m"));
        assert_eq!(add(&[&metric("k", 1, ""), &metric("m", 1, "k")]), taken("1.sql and k"));
        assert_eq!(add(&[&diagnosis(1), &diagnosis(2)]), Ok(()));
        assert_eq!(add(&[&diagnosis(1), &diagnosis(1)]), taken("1.sql and 0.sql"));
        assert_eq!(add(&[view, derived]), taken("1.sql and 0.sql"));
        let file = SqlFile::read("d.sql".to_owned(), derived.to_owned()).expect("a file");
        let error = Registry::default().add(SqlFile { of_user: true, ..file });
        assert_eq!(error.map_err(|e| e.code), Err("sql-file"));
    }

    #[test]
    fn derived_tables_are_others_where_their_sql_or_data_are() {
        let hash = |derived: &str, data: &str, other: &str| {
            let mut registry = Registry::default();
            for (path, text) in [
                (
                    "d.sql",
                    format!("-- @derived d\n-- @summary S.\n-- @reads v\nSELECT {derived}\n"),
                ),
                ("v.sql", format!("-- @view v\n-- @summary S.\nSELECT {data}\n")),
                ("w.sql", format!("-- @view w\n-- @summary S.\nSELECT {other}\n")),
            ] {
                let file = SqlFile::read(path.to_owned(), text).expect("a file");
                registry.add(file).expect("another name");
            }
            registry.derived_sha256()
        };
        let one = hash("1", "2", "3");
        assert_ne!(hash("4", "2", "3"), one);
        assert_ne!(hash("1", "4", "3"), one);
        // Nothing derived reads the other view.
        assert_eq!(hash("1", "2", "4"), one);
    }

    #[test]
    fn the_latest_version_is_the_metric() {
        let mut registry = Registry::default();
        for version in [1, 2, 3] {
            let text = format!(
                "-- @diagnosis d\n-- @version {version}\n-- @summary S.\n-- @gain 1\n-- @shown x\n\
                 -- @source here\nSELECT 1\n"
            );
            let file = SqlFile::read("d.sql".to_owned(), text).expect("a file");
            registry.add(file).expect("another version");
        }
        assert_eq!(registry.diagnosis("d").map(SqlFile::id).as_deref(), Some("d@3"));
        let of = |files: Vec<&SqlFile>| files.iter().map(|f| f.header.version).collect::<Vec<_>>();
        assert_eq!(of(registry.versions("d")), [1, 2, 3]);
        assert_eq!(of(registry.diagnoses().collect()), [3]);
    }

    #[test]
    fn embedded_files_load_and_derived_tables_have_an_order() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let order: Vec<&str> = registry.derived().iter().map(|f| f.header.name.as_str()).collect();
        let at = |name| order.iter().position(|n| *n == name).expect("it is there");
        assert!(at("_collective_events") < at("process_groups"));
        assert!(at("_call_places") < at("_calls") && at("_calls") < at("collectives"));
        let names: BTreeSet<&str> = order.iter().copied().collect();
        assert_eq!(names.len(), order.len(), "each comes once");
    }

    #[test]
    fn a_fingerprint_is_of_all_that_is_read() {
        let text = |lowest: &str, own: &str| {
            let mut registry = Registry::default();
            let files = [
                // Named against their order: who is read is not known before.
                ("-- @view z\n-- @summary A.\n", lowest),
                ("-- @view b\n-- @summary B.\n-- @requires z\n", "SELECT * FROM z"),
                ("-- @view c\n-- @summary C.\n-- @requires b\n", own),
            ];
            for (header, query) in files {
                let file = SqlFile::read("x.sql".to_owned(), format!("{header}{query}"));
                registry.add(file.expect("a file")).expect("another name");
            }
            registry.fingerprint(registry.view("c").expect("it is there"))
        };
        let first = text("SELECT 1", "SELECT 2");
        assert_eq!(text("SELECT 1", "SELECT 2"), first);
        assert_ne!(text("SELECT 3", "SELECT 2"), first, "two views below");
        assert_ne!(text("SELECT 1", "SELECT 4"), first);
    }

    #[test]
    fn a_slip_gets_the_nearest_name() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let error = registry.metric("coll_cal_num").expect_err("no such metric");
        assert_eq!(error.hint.as_deref(), Some("did you mean `coll_call_num`?"));
    }
}
