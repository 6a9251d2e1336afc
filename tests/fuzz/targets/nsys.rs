//! An export of Nsight Systems.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::nsys(data));
