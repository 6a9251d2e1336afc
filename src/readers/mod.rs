//! Readers: a file of a profiler into the rows of each of its ranks.

pub mod bench;
pub mod comm_kernels;
pub mod contract;
pub mod document;
pub mod et;
pub mod kineto;
pub mod log;
pub mod memory;
pub mod nsys;
pub mod share;
pub mod sniff;
pub mod xla;
