//! A request and its response, through the proxy's codec and back: see the check.
#![no_main]

#[path = "../checks/h1_pair.rs"]
mod h1_pair;

libfuzzer_sys::fuzz_target!(|data: &[u8]| h1_pair::check(data));
