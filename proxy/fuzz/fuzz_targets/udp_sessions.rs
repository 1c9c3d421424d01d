//! Sessions of datagrams: see the check.
#![no_main]

#[path = "../checks/udp_sessions.rs"]
mod udp_sessions;

libfuzzer_sys::fuzz_target!(|data: &[u8]| udp_sessions::check(data));
