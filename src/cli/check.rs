//! `check`: lints the SQL files; in the project's own folder also the width of their headers, the
//! lock, the generated documents and the golden cases. `--write` mends all but the last.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use duckdb::Connection;

use crate::cli::args::CheckArgs;
use crate::cli::context::Context;
use crate::engine::{connect, empty_tables, lint_probe};
use crate::error::{Error, Result, io};
use crate::registry::wrap::{COLUMNS, wrapped};
use crate::registry::{lint, pages};
use crate::sql_text::sql_name;

/// Runs the command.
pub fn run(context: &Context, args: &CheckArgs) -> Result<(), Vec<Error>> {
    let registry = &context.registry;
    let project = project();
    if let Some(unknown) = project.as_deref().and_then(|root| not_looked_at(context, root)) {
        return Err(vec![unknown]);
    }
    let connection = empty_engine(context).map_err(|e| vec![e])?;
    let mut faults = Vec::new();
    for file in registry.files() {
        let probe = lint_probe(&connection, file).map_err(|e| vec![e])?;
        faults.extend(lint::file(registry, file, &probe));
    }
    match (&project, args.write) {
        (None, true) => {
            return Err(vec![
                Error::new("usage", "--write is for the project's own folder, and this is none")
                    .hint("go to the folder that holds Cargo.toml and sql/"),
            ]);
        }
        (Some(root), true) => write(context, root).map_err(|e| vec![e])?,
        (Some(root), false) => faults.extend(stale(context, root)),
        (None, false) => {}
    }
    if let Some(root) = &project {
        let metrics = registry.metrics().map(|f| (f, format!("tests/golden/{}", f.header.name)));
        let diagnoses =
            registry.diagnoses().map(|f| (f, format!("tests/golden/diagnoses/{}", f.header.name)));
        for (file, golden) in metrics.chain(diagnoses).filter(|(f, _)| !f.of_user) {
            if !root.join(&golden).is_dir() {
                let (kind, name) = (file.header.kind.word(), &file.header.name);
                let message = format!("{kind} `{name}` has no golden case");
                let error = Error::new("check-failed", message).at(file.path.clone());
                faults.push(error.hint(format!("add a case under {golden}")));
            }
        }
    }
    if faults.is_empty() {
        context.printer.note(&format!("{} SQL files are right", registry.files().count()));
        return Ok(());
    }
    Err(faults)
}

/// The empty tables of the schema, with the derived tables and the views over them.
fn empty_engine(context: &Context) -> Result<Connection> {
    // A query that is only planned may compute, too.
    let connection = connect(&context.settings().for_files(&context.registry))?;
    empty_tables(&connection)?;
    let of_file = |e: duckdb::Error, path: &str| Error::from(e).at(path.to_owned());
    for data in context.registry.derived_data() {
        let sql = format!("CREATE VIEW {} AS {}", sql_name(&data.header.name), data.query());
        connection.execute_batch(&sql).map_err(|e| of_file(e, &data.path))?;
    }
    for file in context.registry.derived() {
        if crate::schema::table(&file.header.name).is_none() {
            connection
                .execute_batch(&format!(
                    "CREATE TABLE {} AS {}",
                    sql_name(&file.header.name),
                    file.query()
                ))
                .map_err(|e| of_file(e, &file.path))?;
        }
    }
    let made: BTreeSet<_> = context.registry.derived_data().map(|d| &d.header.name).collect();
    let mut left: Vec<_> =
        context.registry.views().filter(|v| !made.contains(&v.header.name)).collect();
    while !left.is_empty() {
        let before = left.len();
        let mut last = None;
        left.retain(|view| {
            // Those that a session computes once are bound once here, or their readers' readers
            // would bind them thousands of times.
            let kind = if view.header.materialize { "TABLE" } else { "VIEW" };
            let sql = format!("CREATE {kind} {} AS {}", sql_name(&view.header.name), view.query());
            match connection.execute_batch(&sql) {
                Ok(()) => false,
                Err(e) => {
                    last = Some(of_file(e, &view.path));
                    true
                }
            }
        });
        // No view could be made in a whole round: a cycle, or one that is wrong.
        if let Some(error) = last.filter(|_| left.len() == before) {
            return Err(error);
        }
    }
    Ok(connection)
}

/// The project's folder, when the program runs in it.
fn project() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let ours =
        std::fs::read_to_string(here.join("Cargo.toml")).ok()?.contains("name = \"ccl-sql\"");
    (ours && here.join("sql/metrics").is_dir()).then_some(here)
}

/// The error of a file in `sql/` that is another than the one that the program looks at: it was
/// built with the files as they were then.
fn not_looked_at(context: &Context, root: &Path) -> Option<Error> {
    let ours = || context.registry.files().filter(|file| !file.of_user);
    let changed = ours().find(|file| {
        std::fs::read_to_string(root.join(&file.path)).ok().as_deref() != Some(&file.text)
    });
    let known: BTreeSet<PathBuf> = ours().map(|file| root.join(&file.path)).collect();
    let files = walkdir::WalkDir::new(root.join("sql")).sort_by_file_name().into_iter().flatten();
    let added = files
        .map(walkdir::DirEntry::into_path)
        .find(|path| path.extension().is_some_and(|e| e == "sql") && !known.contains(path));
    let place = changed.map(|file| file.path.clone()).or_else(|| {
        Some(added?.strip_prefix(root).unwrap_or(root).to_string_lossy().into_owned())
    })?;
    Some(
        Error::new("check-failed", "the file is not the one that the program was built with")
            .at(place)
            .hint("CCL_SQL_TREE=sql ccl-sql check looks at the files as they are"),
    )
}

/// Generated files: path, text.
fn generated(context: &Context) -> Vec<(&'static str, String)> {
    vec![
        ("sql/metrics.lock", lint::lock(&context.registry)),
        ("docs/metrics.md", pages::metrics(&context.registry)),
        ("docs/diagnoses.md", pages::diagnoses(&context.registry)),
        ("docs/event_tables.md", pages::event_tables()),
        ("docs/views.md", pages::views(&context.registry)),
    ]
}

/// The project's SQL files whose header has a line that is too long, as they lie on the disk: path,
/// text with the header wrapped.
fn too_long(context: &Context, root: &Path) -> Vec<(PathBuf, String)> {
    let ours = context.registry.files().filter(|f| !f.of_user);
    ours.filter_map(|file| {
        let text = std::fs::read_to_string(root.join(&file.path)).ok()?;
        let wrapped = wrapped(&text);
        (wrapped != text).then(|| (PathBuf::from(&file.path), wrapped))
    })
    .collect()
}

fn write(context: &Context, root: &Path) -> Result<()> {
    let generated = generated(context).into_iter().map(|(path, text)| (path.into(), text));
    for (path, text) in too_long(context, root).into_iter().chain(generated) {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| io(folder, &e))?;
        }
        std::fs::write(&path, text).map_err(|e| io(&path, &e))?;
    }
    Ok(())
}

fn stale(context: &Context, root: &Path) -> Vec<Error> {
    if context.global.sql_dir.is_some() {
        return Vec::new();
    }
    let long = |path: &Path| {
        let message = format!("a line of the header is longer than {COLUMNS} columns");
        Error::new("check-failed", message)
            .at(path.display().to_string())
            .hint("`ccl-sql check --write` wraps it")
    };
    let mut out: Vec<Error> = too_long(context, root).iter().map(|(path, _)| long(path)).collect();
    for (path, text) in generated(context) {
        let old = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if old == text {
            continue;
        }
        let mut error = Error::new("check-failed", format!("{path} is stale")).at(path).hint(
            "`ccl-sql check --write` refreshes it; a released metric whose value may change is a new version",
        );
        if path.ends_with(".lock") {
            let changed: Vec<&str> = text
                .lines()
                .filter(|line| !old.lines().any(|o| o == *line))
                .filter_map(|line| line.split(' ').nth(1))
                .collect();
            error = error.facts(format!("changed: {}", changed.join(", ")));
        }
        out.push(error);
    }
    out
}
