//! Targets and headers of requests to the admin server: see the check.
#![no_main]

#[path = "../checks/admin_request.rs"]
mod admin_request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| admin_request::check(data));
