//! Bytes of an HTTP/2 peer: see the check.
#![no_main]

#[path = "../checks/h2_engine.rs"]
mod h2_engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h2_engine::check(data));
