//! A snapshot of memory, or a raw timeline of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::pickle(data));
