//! The messages of `*.proto`, as `build.rs` compiles them. The protocol files are the reference of
//! the wire form; only `encode` and `decode` use these types.

#![allow(
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "compiled from the protocol files"
)]

include!(concat!(env!("OUT_DIR"), "/gateway_system.model.v1.rs"));
