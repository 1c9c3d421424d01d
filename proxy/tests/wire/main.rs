//! Wire behaviour: one file a property, each test on both drivers.

#[expect(dead_code, reason = "each test crate speaks a part of the language")]
#[path = "../support/mod.rs"]
mod support;

mod keep_alive;
