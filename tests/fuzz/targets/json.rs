//! Values through the scanner of JSON, beside serde_json.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::json(data));
