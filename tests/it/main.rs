//! The integration tests: one binary, so that it links once.
//!
//! Cases are found by walking `tests/golden`, `tests/fixtures` and `tests/ingest`; a new case is a
//! new file, never a line of Rust. `CCL_SQL_BLESS=1` writes expected files where they differ (an
//! empty file is a new case), and is refused when `CI` is set. `CCL_SQL_CASE=TEXT` runs only the
//! cases whose path holds TEXT.

mod agreement;
mod bench;
mod board;
mod catalogue;
mod cli;
mod collect;
mod compare;
mod example;
mod faults;
mod fixtures;
mod fuzz;
mod generator;
mod golden;
mod html;
mod ingest;
mod kernel_classes;
mod known;
mod layering;
mod memory;
mod names;
mod nsys;
mod nsys_example;
mod pickles;
mod program;
mod properties;
mod readme;
mod real;
mod real_et;
mod real_memory;
mod report;
mod runs;
mod scale;
mod selection;
mod simulated;
mod tables;
mod terminal;
mod traps;
mod xla;
mod xla_real;
mod xspace;
