//! `ingest --engine`: the tasks of an ingest on the machines of a cluster.

use std::path::PathBuf;
use std::process::Command;

use crate::cli::args::Engine;
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::reading::say;
use crate::error::{Error, Result};
use crate::ingest::options::Options;
use crate::ingest::plan::Plan;

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
    let plan = Plan::make(None, paths, &context.store, options, &context.derive())?;
    let mut client = Command::new(python());
    client.args(["-c", RAY]).arg(program()?).arg(&plan.folder).arg(&engine.address);
    // What the tasks must know too.
    if let Some(folder) = &context.global.sql_dir {
        client.arg("--sql-dir").arg(crate::input::place::absolute(folder));
    }
    if !context.global.memory_limit.is_empty() {
        client.arg("--memory-limit").arg(&context.global.memory_limit);
    }
    if context.global.quiet {
        client.arg("--quiet");
    }
    let failed = |why: String| {
        Error::new("engine-failed", why)
            .at(plan.folder.display().to_string())
            .hint("what is done stays: the same command goes on with it")
    };
    let name = client.get_program().to_string_lossy().into_owned();
    let status = client.status().map_err(|e| {
        failed(format!("cannot run {name}: {e}"))
            .facts("CCL_SQL_PYTHON names the Python that has Ray")
    })?;
    if !status.success() {
        return Err(failed(format!("the client of Ray ended with {status}")).into());
    }
    let outcome = plan.outcome()?;
    plan.remove()?;
    Errors(say(context, outcome).errors).result()
}

/// The Python that has Ray: of the environment, or the one that loaded this program.
fn python() -> PathBuf {
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
    };
    std::env::var_os("CCL_SQL_PYTHON")
        .map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok().filter(is_python))
        .unwrap_or_else(|| "python3".into())
}

/// The program as tasks are to run it: this one, or where Python loaded it, that of the PATH.
fn program() -> Result<PathBuf> {
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
