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

use crate::error::Result;
use crate::readers::contract::{Answer, Kind, Reading};

/// Reads a file by the reader of its format.
///
/// # Errors
/// What is wrong with the file, as its reader says; `io` when the rows cannot be written.
pub fn read(reading: &Reading<'_>) -> Result<Answer> {
    match reading.kind {
        Kind::Json => kineto::read(reading),
        Kind::Sqlite | Kind::NsysReport | Kind::NsysFolder => nsys::read(reading),
        Kind::XPlane | Kind::XlaJson => xla::read(reading),
        Kind::ExecutionTrace => et::read(reading),
        Kind::Pickle | Kind::MemoryTimeline => memory::read(reading),
        Kind::BenchRecord | Kind::NvlinkSamples => bench::read(reading),
        Kind::Yaml | Kind::Prose | Kind::Other(_) => Ok(Answer::other("no trace")),
    }
}
