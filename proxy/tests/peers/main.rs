//! The gateway among programs of others: clients in front of it, origins behind it.
//!
//! The calls of gRPC need nothing but their crate. The rest needs other programs, so it runs only
//! on request: `cargo test -p proxy --all-features --test peers -- --ignored`, after `apt-get install
//! chromium curl golang haproxy nghttp2-client nginx nodejs openjdk-17-jdk-headless php-cli python3-venv`. Under
//! `target`, h2spec is built from its Go module, and a Python environment is created with the packages that
//! `programs/python.txt` names. `peers.md` has the last results.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod autobahn;
mod clients;
mod disagreements;
mod error_pages;
mod grpc;
mod grpc_route;
mod grpc_server;
mod h2spec;
mod load_balancer;
mod origins;
mod program;
