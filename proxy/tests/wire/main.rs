//! Wire behaviour of the whole process: one file a property, each test on both drivers.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod access_log;
mod bad_config;
mod chunked;
mod connection_limits;
mod drain;
mod early_response;
mod ejection;
mod expect_continue;
mod failures;
mod filters;
mod full_duplex;
mod half_close;
mod keep_alive;
mod large_bodies;
mod panic_fence;
mod path_options;
mod pipelining;
mod proxy_protocol;
mod reload;
mod request_limits;
mod retries;
mod ring_operations;
mod session;
mod slow_peers;
mod timeouts;
mod trust;
mod upgrade;
mod upstream_limits;
mod weights;
