//! What a reader writes: rows of the tables, in spool files of one rank, without the columns that
//! only the whole job knows.

pub(crate) mod args;
pub(crate) mod batch;
pub(crate) mod events;
pub(crate) mod files;
pub mod launches;
pub(crate) mod parquet;
pub mod rows;
pub(crate) mod sort_ints;
pub(crate) mod sort_rows;
pub(crate) mod splice;
pub mod steps;
pub(crate) mod tables;
pub mod totals;

pub(crate) use crate::spool::files::{CROWD, MANY_RANKS, ONE_RANK, Spool, renumbered};
pub(crate) use crate::spool::tables::{
    Batches, COMM_ARGS, COUNTERS, DEVICE, FLOWS, HOST, METADATA, TABLES, rows, rows_of, take,
};
