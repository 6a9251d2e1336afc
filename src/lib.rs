//! `ccl-sql`: embedded SQL analytics over the traces of distributed LLM training and inference.
//!
//! A trace goes in through [`ingest`]: [`readers`] turn its files into rows ([`spool`]), which
//! become a directory of typed Parquet tables ([`schema`], [`store`]). [`derive`] adds what is
//! computed once per trace. Every metric is a versioned SQL file ([`registry`]) that DuckDB runs on
//! those tables ([`engine`]); [`report`] writes the results.
//!
//! Modules import to the right only: `cli → report → ingest → derive → engine → functions,
//! registry, store → readers → spool → input → schema`, with [`error`], [`hash`], [`pool`] and
//! [`sql_text`] as leaves. No file imports one that imports it. The `layering` test checks both.

#![cfg_attr(
    not(feature = "engine"),
    allow(dead_code, reason = "an ingest calls it, and derives its tables by the engine")
)]

#[cfg(feature = "engine")]
pub mod cli;
#[cfg(feature = "engine")]
pub mod derive;
#[cfg(feature = "engine")]
pub mod engine;
pub mod error;
#[cfg(feature = "engine")]
pub mod functions;
pub mod hash;
#[cfg(feature = "engine")]
pub mod ingest;
pub mod input;
pub mod pool;
pub mod readers;
pub mod registry;
#[cfg(feature = "engine")]
pub mod report;
pub mod schema;
pub mod spool;
pub mod sql_text;
pub mod store;
