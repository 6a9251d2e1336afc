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
use crate::registry::{Registry, SqlFile, lint, pages};
use crate::sql_text::{sql_name, words};

/// Runs the command.
pub fn run(context: &Context, args: &CheckArgs) -> Result<(), Vec<Error>> {
    let registry = &context.registry;
    let project = project();
    if let Some(unknown) = project.as_deref().and_then(|root| not_looked_at(context, root)) {
        return Err(vec![unknown]);
    }
    let looked_at = looked_at(registry);
    let mut faults = faults_of(context, &looked_at).map_err(|e| vec![e])?;
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
        let files = match looked_at.len() {
            1 => "1 SQL file is right".to_owned(),
            files => format!("{files} SQL files are right"),
        };
        context.printer.note(&files);
        return Ok(());
    }
    Err(faults)
}

/// The files that are looked at: those of the user, where a folder of them is given. No file of the
/// program reads one of a user.
fn looked_at(registry: &Registry) -> Vec<&SqlFile> {
    let is_alone = registry.user_folder.is_none();
    registry.files().filter(|file| is_alone || file.of_user).collect()
}

/// The faults of the files. Where a view cannot be made, those of such views alone: what reads them
/// fails for no reason of its own.
fn faults_of(context: &Context, files: &[&SqlFile]) -> Result<Vec<Error>> {
    let registry = &context.registry;
    // A query that is only planned may compute, too.
    let connection = connect(&context.settings().for_files(registry))?;
    let left = make_views(&connection, registry, &below(registry, files))?;
    let of = |file: &SqlFile| -> Result<Vec<Error>> {
        Ok(lint::file(registry, file, &lint_probe(&connection, file)?))
    };
    let mut faults = Vec::new();
    if left.is_empty() {
        for file in files {
            faults.extend(of(file)?);
        }
        return Ok(faults);
    }
    let names: BTreeSet<&str> = left.iter().map(|(view, _)| view.header.name.as_str()).collect();
    let reads_another = |view: &SqlFile| {
        words(view.query()).iter().any(|word| *word != view.header.name && names.contains(&**word))
    };
    // Views that read each other all read another.
    let all = left.iter().all(|(view, _)| reads_another(view));
    for (view, error) in left {
        if all || !reads_another(view) {
            let own = of(view)?;
            faults.extend(if own.is_empty() { vec![error] } else { own });
        }
    }
    Ok(faults)
}

/// Names of the views and derived tables that files may read, at whatever depth: their headers may
/// lack some.
fn below(registry: &Registry, files: &[&SqlFile]) -> BTreeSet<String> {
    let derived = registry.derived();
    let mut seen = BTreeSet::new();
    let mut left: Vec<String> = files.iter().flat_map(|file| words(&file.text)).collect();
    while let Some(name) = left.pop() {
        let of = |file: &&&SqlFile| file.header.name == name;
        if let Some(file) = registry.view(&name).or_else(|| derived.iter().find(of).copied())
            && seen.insert(name)
        {
            left.extend(file.header.inputs().map(str::to_owned));
        }
    }
    seen
}

/// Makes the empty tables of the schema, and the derived tables and views of these names over them;
/// the views that cannot be made.
fn make_views<'r>(
    connection: &Connection,
    registry: &'r Registry,
    names: &BTreeSet<String>,
) -> Result<Vec<(&'r SqlFile, Error)>> {
    empty_tables(connection)?;
    let of_file = |e: duckdb::Error, path: &str| Error::from(e).at(path.to_owned());
    let is_named = |file: &&SqlFile| names.contains(&file.header.name);
    for data in registry.derived_data().filter(is_named) {
        let sql = format!("CREATE VIEW {} AS {}", sql_name(&data.header.name), data.query());
        connection.execute_batch(&sql).map_err(|e| of_file(e, &data.path))?;
    }
    for file in registry.derived().into_iter().filter(is_named) {
        if crate::schema::table(&file.header.name).is_none() {
            let name = sql_name(&file.header.name);
            connection
                .execute_batch(&format!("CREATE TABLE {name} AS {}", file.query()))
                .map_err(|e| of_file(e, &file.path))?;
        }
    }
    let made: BTreeSet<_> = registry.derived_data().map(|data| &data.header.name).collect();
    let is_left = |view: &&SqlFile| is_named(view) && !made.contains(&view.header.name);
    let mut left: Vec<&SqlFile> = registry.views().filter(is_left).collect();
    loop {
        let mut wrong = Vec::new();
        for view in &left {
            // Those that a session computes once are bound once here, or their readers' readers
            // would bind them thousands of times.
            let kind = if view.header.materialize { "TABLE" } else { "VIEW" };
            let sql = format!("CREATE {kind} {} AS {}", sql_name(&view.header.name), view.query());
            if let Err(e) = connection.execute_batch(&sql) {
                wrong.push((*view, of_file(e, &view.path)));
            }
        }
        // No view could be made in a whole round: what they read is not there, or they are wrong.
        if wrong.is_empty() || wrong.len() == left.len() {
            return Ok(wrong);
        }
        left = wrong.into_iter().map(|(view, _)| view).collect();
    }
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
