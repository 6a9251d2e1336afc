//! The header of an SQL file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::header(data));
