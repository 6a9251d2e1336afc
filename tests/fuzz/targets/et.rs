//! An execution trace.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::et(data));
