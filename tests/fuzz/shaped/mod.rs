//! Inputs of the right shape, made of choices: the bytes of the fuzzer say which.
//!
//! Bytes that are made up seldom get past the first lines of a reader. These get far: most of what
//! they say is as a profiler writes it, and here and there something is not. What was chosen is
//! known, so the answer of a reader is compared with one that was worked out another way.
//!
//! Each has `check`, which makes an input, holds the reader to it, and says whether it got far.

mod dice;

pub mod database;
pub mod events;
pub mod snapshot;
pub mod xspace;
