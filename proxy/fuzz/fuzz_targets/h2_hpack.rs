//! Field blocks of HPACK: see the check.
#![no_main]

#[path = "../checks/h2_hpack.rs"]
mod h2_hpack;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h2_hpack::check(data));
