//! `plan` and `task`: an ingest in pieces, for whatever runs them on many machines.

use serde_json::json;

use crate::cli::args::{PlanArgs, TaskArgs, TaskStep};
use crate::cli::context::Context;
use crate::cli::errors::Errors;
use crate::cli::reading::{options, say};
use crate::cli::which::Which;
use crate::derive::Derive;
use crate::error::{Error, Result};
use crate::ingest::options::Options;
use crate::ingest::plan::{Listing, Open, Plan, Step};
use crate::report::units::human;
use crate::store::Store;

/// Runs `plan`: the folder of the plan is the result.
///
/// # Errors
/// Those of an ingest as a whole, `output-exists`, `io`.
pub fn plan(context: &Context, args: &PlanArgs) -> Result<()> {
    let options = Options { force: context.global.force, ..options(context, &args.reading) };
    let (folder, derive) = (context.global.output.as_deref(), context.derive());
    let cache = &|| context.cache_dir();
    let plan = Plan::make(folder, cache, &args.paths, &context.store, &options, &derive)?;
    let (files, bytes) = plan.to_read();
    let is_new = plan.list()?.tasks.len() == files;
    context.printer.note(&format!(
        "{files} file{} to read, {}{}",
        if files == 1 { "" } else { "s" },
        human(&bytes.into(), Some("bytes")),
        if is_new || files == 0 { "" } else { "; the plan was begun, and goes on" },
    ));
    // `-o` is the folder itself.
    context.printer.stdout(format!("{}\n", plan.shown().display()).as_bytes()).map(|_| ())
}

/// Runs `task`.
///
/// # Errors
/// Those of the task.
pub fn task(context: &Context, args: &TaskArgs) -> Result<(), Errors> {
    let plan = Plan::open(&args.plan, &|| context.cache_dir(), &context.derive())?;
    plan.enter()?;
    let store = context.store_at(plan.data())?;
    let step = match args.step {
        TaskStep::List => return Ok(list(context, &plan)?),
        TaskStep::Read => Step::Read,
        TaskStep::Layout => Step::Layout,
        TaskStep::Join => Step::Join,
        TaskStep::Derive => Step::Derive,
        TaskStep::Groups => Step::Groups,
        TaskStep::Place => Step::Place,
        TaskStep::Match => Step::Match,
        TaskStep::Collect => Step::Collect,
        TaskStep::Finish => Step::Finish,
    };
    let one = |n| run(context, (&plan, &store), step, n);
    match (step, args.which) {
        (step, Some(_)) if step.is_one() => {
            return Err(Error::new("usage", "this step is one task, without a number").into());
        }
        (Step::Finish, None) => {
            one(0)?;
            return Errors(say(context, plan.outcome()?).errors).result();
        }
        (Step::Layout, None) => one(0)?,
        (_, Some(Which::One(n))) => one(n)?,
        (_, which) => {
            let total = plan.tasks_of(step)?;
            let is_mine = |n: &usize| match which {
                Some(Which::Share { i, of }) => n % of == i,
                _ => true,
            };
            let errors: Vec<Error> =
                (0..total).filter(is_mine).filter_map(|n| one(n).err()).collect();
            return Errors(errors).result();
        }
    }
    Ok(())
}

fn run(context: &Context, (plan, store): (&Plan, &Store), step: Step, n: usize) -> Result<()> {
    // Whoever runs tasks runs one on each core; beside a step of one task there are no others.
    let given = context.global.jobs;
    let threads = if step.is_one() { given } else { given.max(1) };
    let derive = Derive { threads, ..context.derive() };
    plan.run(step, n, (threads, &context.watcher), &derive, store)
}

/// Prints what can be done now.
fn list(context: &Context, plan: &Plan) -> Result<()> {
    let Listing { step, total, tasks } = plan.list()?;
    let task =
        |Open { n, size, memory_mb }: &Open| json!({"n": n, "size": size, "memory_mb": memory_mb});
    let document = json!({
        "plan": 1, "step": step, "total": total, "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
    });
    context.printer.result(format!("{document:#}\n").as_bytes())
}

/// The exit code of a task that failed: 75 where it may be tried again.
pub fn exit_code(errors: &[Error]) -> u8 {
    let may_pass = |e: &Error| {
        e.is_io()
            || ["data-dir-locked", "interrupted", "store-conflict", "task-early"].contains(&e.code)
    };
    if errors.iter().any(may_pass) { 75 } else { 1 }
}
