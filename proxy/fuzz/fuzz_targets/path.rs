//! Targets, authorities and their normal forms: see the check.
#![no_main]

#[path = "../checks/path.rs"]
mod path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| path::check(data));
