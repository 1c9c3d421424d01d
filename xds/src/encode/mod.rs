//! From the model to its wire form. Cannot fail: a model value is correct by construction.
//!
//! The same value always gives the same bytes, in every process: fields go out in the order of
//! their numbers, lists in the order of the model, and there are no maps. So a hash of the bytes is
//! a version on which all replicas of a controller agree.

mod endpoint;
mod filter;
mod jwt;
mod matching;
mod policy;
mod route;
mod tls;
mod value;

use std::fmt::Write;

use prost::Message;
use ring::digest;

use crate::model::Resource;
use crate::proto;

/// The bytes of a resource's protobuf message.
#[must_use]
pub fn resource(resource: &Resource) -> Vec<u8> {
    match resource {
        Resource::Bind(bind) => proto::Bind::from(bind).encode_to_vec(),
        Resource::Listener(listener) => proto::Listener::from(listener).encode_to_vec(),
        Resource::Service(service) => proto::Service::from(service).encode_to_vec(),
        Resource::Backend(backend) => proto::Backend::from(backend).encode_to_vec(),
        Resource::Workload(workload) => proto::Workload::from(workload).encode_to_vec(),
        Resource::Route(route) => proto::Route::from(route).encode_to_vec(),
        Resource::Policy(policy) => proto::Policy::from(policy).encode_to_vec(),
    }
}

/// The version of a resource: the first 128 bits of the SHA-256 of its bytes, in hexadecimal.
#[must_use]
pub fn version(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    let mut version = String::with_capacity(2 * VERSION_BYTES);
    for byte in hash.as_ref().iter().take(VERSION_BYTES) {
        write!(version, "{byte:02x}").expect("writing to a String does not fail");
    }
    version
}

/// Enough that two forms of one resource never meet; versions are sent for every resource again
/// when a stream begins, so they are kept short.
const VERSION_BYTES: usize = 16;
