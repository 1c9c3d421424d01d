//! The gateway among programs of others: clients in front of it, origins behind it.
//!
//! The calls of gRPC need nothing but their crate. The rest needs other programs, so it runs only
//! on request: `cargo test -p proxy --all-features --test peers -- --ignored`, after `apt-get
//! install curl nghttp2-client nginx nodejs python3-venv`. A Python environment is created under
//! `target`, with the packages that `programs/python.txt` names.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod autobahn;
mod grpc;
mod grpc_route;
mod grpc_server;
mod origins;
mod program;
