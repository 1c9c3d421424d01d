//! Bodies and their framing: see the check.
#![no_main]

#[path = "../checks/h1_body.rs"]
mod h1_body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h1_body::check(data));
