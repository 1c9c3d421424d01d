//! The messages of delta xDS, as `proto/discovery.proto` describes them.

#![allow(
    clippy::pedantic,
    missing_docs,
    unused_qualifications,
    reason = "compiled from the protocol file, which documents them"
)]

include!(concat!(env!("OUT_DIR"), "/envoy.service.discovery.v3.rs"));
