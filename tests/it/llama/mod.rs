//! Makes two example jobs, four ranks of a training job each as Kineto traces, with the workload
//! card and a README with the true answers: `llama-tiny-fsdp2-tp2-4`, which a straggler slows, and
//! `llama-tiny-fsdp2-tp2-4-balanced`, the same without it and with more overlap: before and after.
//!
//! Nothing here was recorded. A small event simulation ([`play`]) plays four steps of a job with
//! dp 2 x tp 2. The answers are computed from what it played, never from the JSON ([`trace`]), so
//! they can judge a reader of it. Both jobs draw the same uneven digits in the same order, so they
//! differ by what [`plan::Plan`] says alone.
//!
//! In: the constants of [`plan`]. Out: [`jobs`], file names with their texts, and the answers as
//! text. Not here: writing to disk, and the comparison with the committed copy ([`example`]).

mod answers;
mod example;
mod plan;
mod play;
mod promises;
mod trace;

use crate::llama::answers::Answer;
use crate::llama::plan::{PLANS, Plan, RANKS, STEPS};
use crate::llama::play::Sim;

/// A generated job.
struct Job {
    /// Name of the job, which is also the folder that holds it.
    name: &'static str,
    /// File name in the job's folder and text of the file.
    files: Vec<(String, String)>,
    /// The true answers, in the order of the README.
    answers: Vec<Answer>,
}

/// The jobs, the one with the straggler first: of each the four traces, the card and the README,
/// the same bytes on every run.
///
/// # Panics
/// When a plan breaks a promise of its README (see [`promises`]): a bug in the constants.
fn jobs() -> Vec<Job> {
    PLANS.iter().map(job).collect()
}

fn job(plan: &'static Plan) -> Job {
    let mut sim = Sim::new(plan);
    for step in 0..STEPS {
        sim.play_step(step);
    }
    sim.verify();
    let answers = sim.answers();
    let mut files: Vec<_> =
        (0..RANKS).map(|r| (format!("rank{r}_trace.json"), sim.trace_json(r))).collect();
    let card = include_str!("workload_card.template.yaml").replace("{card}", plan.card);
    files.push(("workload_card.yaml".to_owned(), card));
    files.push(("README.md".to_owned(), sim.readme(&answers)));
    Job { name: plan.name, files, answers }
}
