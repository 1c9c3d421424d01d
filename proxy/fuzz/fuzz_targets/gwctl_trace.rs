//! Traces as gwctl reads them: see the check.
#![no_main]

#[path = "../checks/gwctl_trace.rs"]
mod gwctl_trace;

libfuzzer_sys::fuzz_target!(|data: &[u8]| gwctl_trace::check(data));
