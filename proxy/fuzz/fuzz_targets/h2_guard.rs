//! Frames of HTTP/2 and what they cost: see the check.
#![no_main]

#[path = "../checks/h2_guard.rs"]
mod h2_guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h2_guard::check(data));
