//! Wire behaviour of the whole process: one file a property, each test on both drivers.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod access_log;
mod admin;
mod admin_dump;
mod admin_stuck;
mod admin_trace;
mod authorization;
mod backends;
mod bad_config;
mod bad_input;
mod balance;
mod busy_shard;
mod chunked;
mod connection_limits;
mod cores;
mod drain;
mod driver;
mod early_response;
mod effective_fields;
mod ejection;
mod every_pair;
mod expect_continue;
mod external_auth;
mod external_auth_grpc;
mod failures;
mod filters;
mod full_duplex;
mod grpc_deadlines;
mod h2_cases;
mod h2_floods;
mod h2_goaway;
mod h2_liveness;
mod h2_neighbours;
mod h2_streams;
mod h2_upstream;
mod h2_websocket;
mod h2_windows;
mod half_close;
mod inference;
mod invalid_rules;
mod jwks;
mod jwt;
mod jwt_pairs;
mod jwt_refused;
mod keep_alive;
mod large_bodies;
mod late_shard;
mod listeners;
mod long_responses;
mod metrics;
mod mirrors;
mod overload;
mod panic_fence;
mod passthrough;
mod path_options;
mod picker_cost;
mod picker_responses;
mod pipelining;
mod program_log;
mod proxy_protocol;
mod proxy_protocol_out;
mod reload;
mod repeated_call_timeout;
mod request_limits;
mod retries;
mod ring_operations;
mod session;
mod shard_restart;
mod slow_peers;
mod slow_readers;
mod stray_responses;
mod tcp;
mod timeouts;
mod tls;
mod tls_changes;
mod tls_clients;
mod tls_h2;
mod tls_names;
mod tls_reload;
mod tls_streams;
mod tls_upstream;
mod trace_connections;
mod trust;
mod udp;
mod unprocessed_calls;
mod upgrade;
mod upstream_limits;
mod websocket;
mod weights;
