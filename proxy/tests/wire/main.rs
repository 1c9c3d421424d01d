//! Wire behaviour of the whole process: one file a property, each test on both drivers.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod bad_config;
mod chunked;
mod drain;
mod early_response;
mod expect_continue;
mod failures;
mod filters;
mod full_duplex;
mod half_close;
mod keep_alive;
mod large_bodies;
mod panic_fence;
mod pipelining;
mod reload;
mod retries;
mod session;
mod slow_peers;
mod timeouts;
mod upgrade;
mod weights;
