//! The integration tests: one binary, so that it links once.
//!
//! Cases are found by walking `tests/golden`, `tests/fixtures` and `tests/ingest`; a new case is a
//! new file, never a line of Rust. `CCL_SQL_BLESS=1` writes expected files where they differ (an
//! empty file is a new case), and is refused when `CI` is set. `CCL_SQL_CASE=TEXT` runs only the
//! cases whose path holds TEXT.

mod cli;
mod layering;
mod library;
mod llama;
mod objects;
mod pages;
mod readers;
mod sql;
mod support;
mod tree;
