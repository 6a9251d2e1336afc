//! Bytes of a file: where it lies, what it is packed in, and its JSON, times and progress.

pub mod json;
pub mod place;
pub mod progress;
pub mod time;
pub(crate) mod unpacked;
pub mod window;
