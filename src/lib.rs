//! `ccl-sql`: embedded SQL analytics over the traces of distributed LLM training and inference.
//!
//! A trace goes in through [`ingest`] and becomes a directory of typed Parquet tables ([`schema`]).
//! [`derive`] adds what is computed once per trace. Every metric is a versioned SQL file
//! ([`registry`]) that DuckDB runs on those tables ([`engine`]); [`report`] writes the results.
//!
//! Modules import to the right only:
//! `cli → report → derive → engine → functions, registry → ingest → schema`, with [`error`],
//! [`hash`] and [`sql_text`] as leaves. The `layering` test reads the `use crate::` lines.

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
pub mod ingest;
pub mod registry;
#[cfg(feature = "engine")]
pub mod report;
pub mod schema;
pub mod sql_text;
