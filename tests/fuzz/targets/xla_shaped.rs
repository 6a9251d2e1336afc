//! The same as `xla`, of inputs that have the right shape.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| { checks::shaped::xspace::check(data); });
