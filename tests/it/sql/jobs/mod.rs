//! Jobs of eight ranks whose truth is known because they are made: who is slow or late, who waits
//! for whom, how far the clocks are apart, and what else costs time. They are training jobs with
//! tp 2 x dp 4, or with experts. The answers are asserted from the plan, which knows nothing of the
//! JSON.
//!
//! In: a [`Plan`]. Out: files in a temporary folder, and what the plan says of its calls and steps.

pub mod plan;
mod play;

pub use self::plan::{Plan, RANKS};
pub use self::play::Sim;
use crate::support::{Csv, Place};

/// An ingested job, and the plan that it was made from.
pub struct Job {
    pub sim: Sim,
    pub place: Place,
}

impl Job {
    pub fn of(plan: Plan) -> Job {
        let sim = Sim::play(plan);
        let place = Place::new();
        for rank in 0..RANKS {
            place.write(&format!("rank{rank}.json"), sim.trace_json(rank));
        }
        place.run(&["ingest", ".", "--name", "job", "-q"]).done();
        Job { sim, place }
    }

    pub fn metric(&self, name: &str, params: &[&str]) -> serde_json::Value {
        self.place.metric(name, params)
    }

    /// The rows of a view that a report shows.
    pub fn view(&self, name: &str) -> Csv {
        let rows = self.place.tables().sheet(name, &[]).expect("the view runs");
        Csv::parse(&rows.expect("the view has rows"))
    }
}
