//! Any file, admitted and translated: see the check.
#![no_main]

#[path = "../checks/yaml_translate.rs"]
mod yaml_translate;

libfuzzer_sys::fuzz_target!(|data: &[u8]| yaml_translate::check(data));
