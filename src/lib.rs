//! `ccl-sql`: embedded SQL analytics over the traces of distributed LLM training and inference.
//!
//! A trace goes in through [`ingest`] and becomes a directory of typed Parquet tables ([`schema`]).
//! [`derive`] adds what is computed once per trace. Every metric is a versioned SQL file
//! ([`registry`]) that DuckDB runs on those tables ([`engine`]); [`report`] writes the results.
//!
//! Modules import to the right only:
//! `cli → report → derive → engine → functions, registry → ingest → schema`, with [`error`],
//! [`hash`] and [`sql_text`] as leaves. The `layering` test reads the `use crate::` lines.

pub mod cli;
pub mod derive;
pub mod engine;
pub mod error;
pub mod functions;
pub mod hash;
pub mod ingest;
pub mod registry;
pub mod report;
pub mod schema;
pub mod sql_text;
