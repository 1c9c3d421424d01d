//! TLS sessions: see the check.
#![no_main]

#[path = "../checks/tls_session.rs"]
mod tls_session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tls_session::check(data));
