//! `--engine`: the tasks of an ingest, or the answers of traces, on the machines of a cluster.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::args::Engine;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::reading::say;
use crate::error::{Error, Result};
use crate::ingest::options::Options;
use crate::ingest::plan::Plan;
use crate::input::place::absolute;

/// The client of Ray, a script of Python: it knows which tasks wait for nothing, and no more.
const RAY: &str = include_str!("../../python/src/ccl_sql/_ray.py");

/// Ingests paths on a cluster, and says what came of it as an ingest on one machine does.
///
/// # Errors
/// Those of an ingest; `engine-failed` where the engine did not come to the end. Then the plan
/// stays, and the same command goes on with it.
pub fn ingest(
    context: &Context,
    engine: &Engine,
    paths: &[PathBuf],
    options: &Options,
) -> Result<(), Errors> {
    let cache = &|| context.cache_dir();
    let plan = Plan::make(None, cache, paths, &context.store, options, &context.derive())?;
    run(context, engine, plan.shown().as_os_str(), "")?;
    let outcome = plan.outcome()?;
    plan.remove()?;
    Errors(say(context, outcome).errors).result()
}

/// What a machine of a cluster computes, and keeps, of a trace.
pub struct Part {
    /// What it is large as, beside others.
    pub size: u64,
    /// Memory that it takes, about.
    pub memory_mb: u64,
    /// The words of the command, behind the program.
    pub words: Vec<String>,
}

/// Has a cluster run commands none of which waits for another.
///
/// # Errors
/// `engine-failed` where the engine did not come to the end.
pub fn run_all(context: &Context, engine: &Engine, step: &str, parts: &[Part]) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let task = |(n, part): (usize, &Part)| {
        let Part { size, memory_mb, words } = part;
        json!({"n": n, "size": size, "memory_mb": memory_mb, "words": words})
    };
    let tasks: Vec<Value> = parts.iter().enumerate().map(task).collect();
    let listing = json!({"step": step, "total": tasks.len(), "tasks": tasks});
    run(context, engine, OsStr::new("-"), &listing.to_string())
}

/// Runs the client on a plan, or on the tasks that it reads.
fn run(context: &Context, engine: &Engine, plan: &OsStr, input: &str) -> Result<()> {
    let mut client = Command::new(python());
    // `-P`: no module that lies in the folder of a trace may stand in for one of Python's.
    client.args(["-P", "-c", RAY]).arg(program()?).arg(plan).arg(&engine.address);
    // What the tasks must know too.
    if let Some(folder) = &context.global.sql_dir {
        client.arg("--sql-dir").arg(absolute(folder));
    }
    if let Some(folder) = &context.global.cache_dir {
        client.arg("--cache-dir").arg(absolute(folder));
    }
    let sizes = [
        ("--cache-size", &context.global.cache_size),
        ("--memory-limit", &context.global.memory_limit),
        ("--spill-limit", &context.global.spill_limit),
    ];
    for (option, size) in sizes.into_iter().filter(|(_, size)| !size.is_empty()) {
        client.arg(option).arg(size);
    }
    if let Some(seconds) = context.global.timeout {
        client.arg("--timeout").arg(seconds.to_string());
    }
    if context.global.quiet {
        client.arg("--quiet");
    }
    let failed = |why: String| {
        Error::new("engine-failed", why)
            .hint("what is done stays: the same command goes on with it")
    };
    let name = client.get_program().to_string_lossy().into_owned();
    let cannot = |e: std::io::Error| {
        failed(format!("cannot run {name}: {e}"))
            .facts("CCL_SQL_PYTHON names the Python that has Ray")
    };
    let mut child = client.stdin(Stdio::piped()).spawn().map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A client that cannot read them says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = child.wait().map_err(cannot)?;
    if !status.success() {
        return Err(failed(format!("the client of Ray ended with {status}")));
    }
    Ok(())
}

/// The Python to run: of the environment, or the one that loaded this program.
pub fn python() -> PathBuf {
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
    };
    std::env::var_os("CCL_SQL_PYTHON")
        .map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok().filter(is_python))
        .unwrap_or_else(|| "python3".into())
}

/// The program as others are to run it: this one, or where Python loaded it, that of the PATH.
///
/// # Errors
/// `engine-failed` where it is nowhere.
pub fn program() -> Result<PathBuf> {
    let here = std::env::current_exe().ok();
    let is_program = |path: &PathBuf| path.file_name().is_some_and(|name| name == "ccl-sql");
    if let Some(here) = here.clone().filter(is_program) {
        return Ok(here);
    }
    let beside = here.and_then(|here| Some(here.parent()?.join("ccl-sql")));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&paths).map(|folder| folder.join("ccl-sql"));
    beside.into_iter().chain(of_path).find(|path| path.is_file()).ok_or_else(|| {
        Error::new("engine-failed", "the program `ccl-sql` is not on the PATH")
            .hint("put it there, on every machine")
    })
}
