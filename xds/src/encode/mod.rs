//! Encodes the model into its wire form. Cannot fail: a model value is correct by construction.
//!
//! The same value always gives the same bytes, in every process: fields in the order of their
//! numbers (but the listeners of a rule before what it does), lists in the order of the model, and no maps. So a hash of the bytes is a version on
//! which all replicas of a controller agree ([`crate::delta::Version`]).

mod answer;
mod api_keys;
mod authorization;
mod balance;
mod basic_auth;
mod endpoint;
mod filter;
pub(crate) mod former;
mod health_check;
mod jwt;
mod matching;
mod networks;
mod path_rewrite;
mod policy;
mod rate_limit;
mod route;
mod tls;
mod value;

pub(crate) use policy::ANY_NUMBER;
use prost::Message;

use crate::model::{Resource, RouteRule};
use crate::proto;

/// The bytes of a resource's protobuf message.
#[must_use]
pub fn resource(resource: &Resource) -> Vec<u8> {
    match resource {
        Resource::Bind(bind) => proto::Bind::from(&**bind).encode_to_vec(),
        Resource::Listener(listener) => proto::Listener::from(&**listener).encode_to_vec(),
        Resource::Service(service) => proto::Service::from(&**service).encode_to_vec(),
        Resource::Backend(backend) => proto::Backend::from(&**backend).encode_to_vec(),
        Resource::Workload(workload) => proto::Workload::from(&**workload).encode_to_vec(),
        Resource::Route(route) => route::bytes(route),
        Resource::Policy(policy) => proto::Policy::from(&**policy).encode_to_vec(),
    }
}

/// Bytes of a rule in a route's message, without its key and its listeners.
#[must_use]
pub fn rule_bytes(rule: &RouteRule) -> usize {
    let route = proto::Route {
        rule: Some(rule.into()),
        ..proto::Route::default()
    };
    route.encoded_len()
}
