//! Files of each profiler: the tables that they become, damage, and what a second ingest does.

mod bench;
mod cases;
mod fuzz;
mod limits;
mod memory;
pub mod nsys;
mod nsys_example;
mod packed;
mod pickles;
mod real;
mod real_et;
mod real_memory;
mod xla;
mod xla_real;
