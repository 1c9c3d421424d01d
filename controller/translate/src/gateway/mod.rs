//! Gateways, ListenerSets and classes: their listeners, what these offer to routes, conflicts among them, and what proxies
//! carry of them.

pub(crate) mod address;
pub(crate) mod all_listeners;
pub(crate) mod allowed;
#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub(crate) mod carried;
pub(crate) mod checks;
pub(crate) mod class_status;
pub(crate) mod conflict;
pub(crate) mod features;
pub(crate) mod frontend;
pub(crate) mod infrastructure;
pub(crate) mod listener;
pub(crate) mod listener_filters;
pub(crate) mod listener_limit;
pub(crate) mod listener_set;
pub(crate) mod listener_set_status_unit;
pub(crate) mod listeners_unit;
pub(crate) mod offer;
pub(crate) mod overlap;
pub(crate) mod pods;
pub(crate) mod properties;
pub(crate) mod properties_unit;
pub(crate) mod protocol;
pub(crate) mod release;
pub mod session_keys;
pub(crate) mod set_certificates;
pub(crate) mod socket;
pub(crate) mod socket_unit;
pub(crate) mod status;
pub(crate) mod status_unit;
pub(crate) mod taken;
pub(crate) mod taking;
pub(crate) mod tls;
