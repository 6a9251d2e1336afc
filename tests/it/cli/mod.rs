//! The command line as a user meets it.

mod collect;
mod diagnose;
mod export;
mod faults;
mod history;
mod ingest;
mod kept;
mod list;
mod mcp;
mod meanwhile;
mod metric;
mod metric_tables;
mod names;
mod one_gpu;
pub mod own_sql;
mod own_tree;
pub mod plan;
mod plan_odd;
mod refusals;
mod schema;
#[cfg(unix)]
mod screen;
mod selection;
pub mod shell;
mod shown;
mod sql;
mod terminal;
mod together;
mod usage;
#[cfg(unix)]
mod verify;
