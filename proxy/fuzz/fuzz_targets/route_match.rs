//! The router against a naive reading of Gateway API, on rules and requests made from bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/route/oracle.rs"]
mod oracle;
#[path = "../../tests/route/rules.rs"]
mod rules;

fuzz_target!(|data: &[u8]| oracle::route_match(data));
