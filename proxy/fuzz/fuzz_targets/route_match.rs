//! Routing: see the check.
#![no_main]

#[path = "../checks/route_match.rs"]
mod route_match;

libfuzzer_sys::fuzz_target!(|data: &[u8]| route_match::check(data));
