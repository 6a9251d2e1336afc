//! Modules import in one direction only (`src/lib.rs` says which).

use std::path::Path;

use crate::support::{files, project};

/// Modules from the outermost to the innermost; a module may import from later lines, its own too.
const LAYERS: [&[&str]; 7] = [
    &["cli"],
    &["report"],
    &["derive"],
    &["engine"],
    &["functions", "registry"],
    &["ingest"],
    &["schema"],
];

/// Anyone may import these; they import nothing.
const LEAVES: [&str; 3] = ["error", "hash", "sql_text"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The modules that `crate::...` paths of a line name, `use crate::{a::B, c}` among them.
fn imports(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for rest in line.split("crate::").skip(1) {
        let word = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
        let parts: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or(list).split(',').collect(),
            None => vec![rest],
        };
        for part in parts {
            let part = part.trim();
            out.push(&part[..word(part).unwrap_or(part.len())]);
        }
    }
    out
}

/// What is wrong with the imports of a file.
fn violations(path: &str, text: &str) -> Vec<String> {
    let module = path.split(['/', '.']).next().unwrap_or_default();
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for import in imports(code) {
            let allowed = match (layer(module), layer(import)) {
                _ if import == module => true,
                (Some(_), None) => LEAVES.contains(&import),
                // Modules of one layer do not know each other.
                (Some(from), Some(to)) => to > from,
                (None, _) => !LEAVES.contains(&module),
            };
            if !allowed {
                out.push(format!("src/{path}:{}: {module} imports {import}", number + 1));
            }
        }
    }
    out
}

#[test]
fn modules_import_to_the_right_only() {
    let src = project().join("src");
    let mut found = Vec::new();
    let mut known = 0;
    for file in files(&src) {
        let relative = file.strip_prefix(&src).unwrap_or(&file);
        let path = relative.to_string_lossy().replace('\\', "/");
        let module = path.split(['/', '.']).next().unwrap_or_default();
        match module {
            "main" | "lib" | "build" => continue,
            module => assert!(
                layer(module).is_some() || LEAVES.contains(&module),
                "src/{path} belongs to no layer: add it to the test and to src/lib.rs"
            ),
        }
        known += 1;
        found.extend(violations(&path, &read(&file)));
    }
    assert!(known > 20, "only {known} files were looked at");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the source can be read")
}

#[test]
fn wrong_imports_are_found() {
    let wrong = |path: &str, line: &str| !violations(path, line).is_empty();
    assert!(!wrong("cli/sql.rs", "use crate::engine::Engine;"));
    assert!(!wrong("ingest/job.rs", "use crate::error::{Error, Result};"));
    assert!(!wrong("engine/run.rs", "// use crate::cli::Cli;"));
    assert!(!wrong("cli/mod.rs", "use crate::{cli::args, error::Error};"));
    assert!(wrong("ingest/job.rs", "use crate::engine::Engine;"));
    assert!(wrong("ingest/job.rs", "use crate::{error::Error, cli::args};"));
    assert!(wrong("ingest/job.rs", "    let x = crate::derive::Derive;"));
    assert!(wrong("functions/mod.rs", "use crate::registry::Registry;"));
    assert!(wrong("error.rs", "use crate::schema::Type;"));
    assert!(wrong("report/mod.rs", "use crate::unheard_of::Thing;"));
}
