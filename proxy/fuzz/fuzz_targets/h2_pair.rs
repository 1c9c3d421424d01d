//! Two of our HTTP/2 connections back to back: see the check.
#![no_main]

#[path = "../checks/h2_pair.rs"]
mod h2_pair;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h2_pair::check(data));
