//! What passes through the adapter of HTTP/2, by a script: see the check.
#![no_main]

use proxy::http2::script;

libfuzzer_sys::fuzz_target!(|data: &[u8]| script::check(data));
