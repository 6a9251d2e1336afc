//! Help for several tests: the program and its tables, cases, made files, and a browser.

mod cases;
mod csv;
mod place;
mod program;
mod tables;

pub mod browser;
pub mod fixtures;
pub mod kineto;
pub mod nvlink;
pub mod pftrace;
pub mod pickles;
pub mod property;
pub mod real;
pub mod runs;
#[cfg(feature = "object-stores")]
pub mod s3;
pub mod terminal;
pub mod wild;
pub mod xspace;

pub use cases::{blessing, files, folders, in_parallel, name, selected, settled};
pub use csv::{Cell, Csv, near, rows_differ};
pub use place::{Place, gzip};
pub use program::{Run, command, example, examples, program, project, run};
#[cfg(feature = "object-stores")]
pub use program::{command_of_cargo, command_with_few_files};
pub use tables::{Operator, Tables, registry};

/// The steps of a plan, in their order.
pub const STEPS: [&str; 9] =
    ["read", "layout", "join", "derive", "groups", "place", "match", "collect", "finish"];
