//! Rewrites of paths: see the check.
#![no_main]

#[path = "../checks/path_rewrite.rs"]
mod path_rewrite;

libfuzzer_sys::fuzz_target!(|data: &[u8]| path_rewrite::check(data));
