//! Configuration dumps as gwctl reads them: see the check.
#![no_main]

#[path = "../checks/gwctl_dump.rs"]
mod gwctl_dump;

libfuzzer_sys::fuzz_target!(|data: &[u8]| gwctl_dump::check(data));
