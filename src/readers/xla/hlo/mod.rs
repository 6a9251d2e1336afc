//! What an operation of XLA is: whether it communicates, copies or computes, and the sizes and
//! groups of a collective. Read from the text of the operation or from the HLO of its module; from
//! a name that the user may have given it (`psum_invariant.7` is an all-reduce) only where there is
//! neither.

pub(crate) mod groups;
mod op;
mod program;
mod proto;
mod shape;
mod text;

pub use crate::readers::xla::hlo::op::{Call, Class, Half, Op, is_control};
pub use crate::readers::xla::hlo::program::Programs;
