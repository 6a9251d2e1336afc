//! A record of a benchmark, a log of gates, or samples of NVLink's counters.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::bench(data));
