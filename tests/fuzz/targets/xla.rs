//! A profile of XLA.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::xla(data));
