//! A whole trace file through the reader of Kineto traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::kineto(data));
