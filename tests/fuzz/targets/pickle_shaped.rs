//! The same as `pickle`, of inputs that have the right shape.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| { checks::shaped::snapshot::check(data); });
