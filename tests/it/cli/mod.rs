//! The command line as a user meets it.

mod collect;
mod export;
mod faults;
mod history;
mod ingest;
mod kept;
mod list;
mod metric;
mod names;
mod own_sql;
mod plan;
mod selection;
mod shown;
mod sql;
mod terminal;
mod usage;
