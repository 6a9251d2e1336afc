//! `ccl-sql`: embedded SQL analytics over the traces of distributed LLM training and inference.
//!
//! [`open`] names a data directory; [`Data`] reads traces into it, computes metrics, runs SQL, and
//! writes reports. Answers are Arrow record batches. This is the whole public interface: the
//! modules below it are those of the program, and change with it.
//!
//! # How the program is built
//!
//! A trace goes in through `ingest`: `readers` turn its files into rows (`spool`), which become a
//! directory of typed Parquet tables (`schema`, `store`). `derive` adds what is computed once per
//! trace. Every metric is a versioned SQL file (`registry`) that DuckDB runs on those tables
//! (`engine`); `report` writes the results. `extension` is all of this inside of another DuckDB.
//!
//! Modules import to the right only: `extension → api → cli → export, report → ingest → derive →
//! engine → functions, registry, store → readers → spool → input → schema`, with `error`, `hash`,
//! `pool`, `remote` and `sql_text` as leaves. No file imports one that imports it. The `layering`
//! test checks both.
//!
//! # Features
//!
//! - `bundled` (default): DuckDB is compiled in.
//! - `engine`: a shared DuckDB is linked, found by `DUCKDB_LIB_DIR`.
//! - `object-stores` (default): traces may lie under `s3://`, `gs://` and `az://`.
//! - `extension`: for a DuckDB that loads this library.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "modules of the program are described for those who work on it"
)]
#![cfg_attr(not(feature = "extension"), forbid(unsafe_code))]
#![cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "an ingest calls it, and derives its tables by the engine")
)]

#[cfg(all(feature = "bundled", feature = "extension"))]
compile_error!("an extension has the DuckDB of its host: build it with --no-default-features");

#[cfg(feature = "sql")]
mod api;
#[cfg(feature = "sql")]
pub use self::api::{Column, Data, Output, Progress, Type, open, progress, stop};
pub use self::error::{Error, Result};

#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod derive;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod error;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod export;
#[cfg(feature = "extension")]
mod extension;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod functions;
#[doc(hidden)]
pub mod hash;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod ingest;
#[doc(hidden)]
pub mod input;
#[doc(hidden)]
pub mod pool;
#[doc(hidden)]
pub mod readers;
#[doc(hidden)]
pub mod registry;
mod remote;
#[cfg(feature = "sql")]
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod spool;
#[doc(hidden)]
pub mod sql_text;
#[doc(hidden)]
pub mod store;
