//! Modules import in one direction only (`src/lib.rs` says which), and no file imports one that
//! imports it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{files, project};

/// Modules from the outermost to the innermost. A module may import from later lines, and its own.
const LAYERS: [&[&str]; 12] = [
    &["extension"],
    &["api"],
    &["cli"],
    &["export", "report"],
    &["ingest"],
    &["derive"],
    &["engine"],
    &["functions", "registry", "store"],
    &["readers"],
    &["spool"],
    &["input"],
    &["schema"],
];

/// Anyone may import these; they import each other alone.
const LEAVES: [&str; 5] = ["error", "hash", "pool", "remote", "sql_text"];

/// Files that belong to no module.
const ROOTS: [&str; 3] = ["main.rs", "lib.rs", "build.rs"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// A source file: its path below `src/`, the module that it is, and its text without comments.
struct File {
    path: String,
    module: Vec<String>,
    code: String,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        Self {
            path: path.to_owned(),
            module: stem.split('/').map(str::to_owned).collect(),
            code: code.collect::<Vec<_>>().join("\n"),
        }
    }

    /// The line of a place in the code.
    fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Absolute paths of this crate that the code names, each with its place.
    fn paths(&self) -> Vec<(usize, Vec<String>)> {
        let mut out = Vec::new();
        for start in ["crate::", "super::"] {
            for (at, _) in self.code.match_indices(start) {
                let before = &self.code[..at];
                // `super::super::x` counts once.
                if before.ends_with("super::") || before.ends_with(char::is_alphanumeric) {
                    continue;
                }
                let mut rest = &self.code[at..];
                let mut base = if start == "crate::" { Vec::new() } else { self.scope(at) };
                while let Some(after) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = after;
                }
                rest = rest.strip_prefix("crate::").unwrap_or(rest);
                let mut paths = Vec::new();
                tree(rest, &base, &mut paths);
                out.extend(paths.into_iter().map(|path| (at, path)));
            }
        }
        out
    }

    /// The module that a place is in: that of the file, or `tests` in it.
    fn scope(&self, at: usize) -> Vec<String> {
        let mut out = self.module.clone();
        if self.code[..at].contains("\nmod tests {") {
            out.push("tests".to_owned());
        }
        out
    }
}

/// The paths of a tree of `use`, such as `a::{b, c::d}`. Returns the text behind it.
fn tree<'t>(text: &'t str, base: &[String], out: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = base.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = tree(list, &path, out).trim_start();
                match list.strip_prefix(',').map(str::trim_start) {
                    Some(next) if !next.starts_with('}') => list = next,
                    Some(next) => return &next[1..],
                    None => return list.strip_prefix('}').unwrap_or(list),
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !word.is_empty() && word != "self" {
            path.push(word.to_owned());
        }
        match after.strip_prefix("::") {
            Some(after) => rest = after,
            None => {
                out.push(path);
                // `as other` names nothing.
                return match after.trim_start().strip_prefix("as ") {
                    Some(other) => &other[other.find([',', '}', ';']).unwrap_or(other.len())..],
                    None => after,
                };
            }
        }
    }
}

/// What is wrong with the layers that a file imports.
fn violations(file: &File) -> Vec<String> {
    let module = file.module[0].as_str();
    let mut out = Vec::new();
    for (at, path) in file.paths() {
        let Some(import) = path.first().map(String::as_str) else { continue };
        let allowed = match (layer(module), layer(import)) {
            _ if import == module => true,
            (Some(_), None) => LEAVES.contains(&import),
            // Modules of one layer do not know each other.
            (Some(from), Some(to)) => to > from,
            (None, _) => LEAVES.contains(&module) && LEAVES.contains(&import),
        };
        if !allowed {
            out.push(format!("src/{}:{}: {module} imports {import}", file.path, file.line(at)));
        }
    }
    out
}

/// For each file the files that it imports. A parent that only declares a module does not import
/// it; one that names something in it does.
fn imports(files: &[File]) -> BTreeMap<&str, BTreeSet<&str>> {
    let by_module: BTreeMap<&[String], &str> =
        files.iter().map(|file| (file.module.as_slice(), file.path.as_str())).collect();
    let mut out: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let names = |child: &File| {
            let word = format!("{}::", child.module.last().map_or("", String::as_str));
            let is_path =
                |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            file.code.match_indices(&word).any(|(at, _)| !is_path(&file.code[..at]))
        };
        let is_child = |other: &&File| {
            other.module.len() == file.module.len() + 1 && other.module.starts_with(&file.module)
        };
        let of = out.entry(&file.path).or_default();
        let children = files.iter().filter(is_child).filter(|child| names(child));
        of.extend(children.map(|child| child.path.as_str()));
        // The tests of a part may look at the whole.
        let tests = file.code.find("\nmod tests {").unwrap_or(file.code.len());
        for (_, path) in file.paths().into_iter().filter(|(at, _)| *at < tests) {
            let longest = (1..=path.len()).rev().find_map(|n| by_module.get(&path[..n]));
            of.extend(longest.filter(|path| **path != file.path));
        }
    }
    out
}

/// Files that import each other, over any number of others: each circle once.
fn circles(files: &[File]) -> Vec<String> {
    let imports = imports(files);
    let reach = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = imports[from].iter().copied().collect();
        while let Some(file) = next.pop() {
            if seen.insert(file) {
                next.extend(imports.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reach(file))).collect();
    let mut out = BTreeSet::new();
    for (file, of) in &reached {
        if of.contains(file) {
            let mutual = of.iter().filter(|other| reached[*other].contains(file));
            out.insert(mutual.copied().collect::<Vec<_>>().join(" <-> "));
        }
    }
    out.into_iter().collect()
}

fn sources() -> Vec<File> {
    let src = project().join("src");
    let mut out = Vec::new();
    for file in files(&src) {
        let relative = file.strip_prefix(&src).unwrap_or(&file);
        let path = relative.to_string_lossy().replace('\\', "/");
        if path.ends_with(".rs") && !ROOTS.contains(&path.as_str()) {
            out.push(File::new(&path, &read(&file)));
        }
    }
    assert!(out.len() > 20, "only {} files were looked at", out.len());
    out
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the source can be read")
}

#[test]
fn modules_import_to_the_right_only() {
    let sources = sources();
    for file in &sources {
        let module = file.module[0].as_str();
        assert!(
            layer(module).is_some() || LEAVES.contains(&module),
            "src/{} belongs to no layer: add it to the test and to src/lib.rs",
            file.path
        );
    }
    let found: Vec<String> = sources.iter().flat_map(violations).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let found = circles(&sources());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn wrong_imports_are_found() {
    let wrong = |path: &str, line: &str| !violations(&File::new(path, line)).is_empty();
    assert!(!wrong("cli/sql.rs", "use crate::engine::Engine;"));
    assert!(!wrong("ingest/job.rs", "use crate::error::{Error, Result};"));
    assert!(!wrong("engine/run.rs", "// use crate::cli::Cli;"));
    assert!(!wrong("cli/mod.rs", "use crate::{cli::args, error::Error};"));
    assert!(!wrong("spool/mod.rs", "pub(crate) fn f() {}"));
    assert!(wrong("readers/et.rs", "use crate::ingest::Root;"));
    assert!(wrong("engine/mod.rs", "use crate::{error::Error, cli::args};"));
    assert!(wrong("readers/et/mod.rs", "    let x = super::super::derive::Derive;"));
    assert!(wrong("functions/mod.rs", "use crate::registry::Registry;"));
    assert!(wrong("error.rs", "use crate::schema::Type;"));
    assert!(wrong("report/mod.rs", "use crate::unheard_of::Thing;"));
}

#[test]
fn circles_are_found() {
    let found = |files: &[(&str, &str)]| {
        circles(&files.iter().map(|(path, text)| File::new(path, text)).collect::<Vec<_>>())
    };
    let a = ("a/mod.rs", "mod b;\nmod c;\nuse crate::a::b::{self, X};");
    assert!(found(&[a, ("a/b.rs", "use crate::z::Y;"), ("a/c.rs", "")]).is_empty());
    assert_eq!(found(&[a, ("a/b.rs", "use crate::a::{T, U};")]), ["a/b.rs <-> a/mod.rs"]);
    assert_eq!(found(&[a, ("a/b.rs", "use super::T;")]), ["a/b.rs <-> a/mod.rs"]);
    let three = [
        ("a/x.rs", "use crate::a::y::Y;"),
        ("a/y.rs", "use crate::a::{z::Z as Other, w};"),
        ("a/z.rs", "fn f() { crate::a::x::g() }"),
        ("a/w.rs", "#[cfg(test)]\nmod tests {\n    use super::*;\n}"),
    ];
    assert_eq!(found(&three), ["a/x.rs <-> a/y.rs <-> a/z.rs"]);
    assert_eq!(
        found(&[("a/mod.rs", "fn f() { b::g() }"), ("a/b.rs", "use crate::a::T;")]).len(),
        1
    );
}
