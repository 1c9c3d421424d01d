//! Heads of requests and responses: see the check.
#![no_main]

#[path = "../checks/h1_head.rs"]
mod h1_head;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h1_head::check(data));
