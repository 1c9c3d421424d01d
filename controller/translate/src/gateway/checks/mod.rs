//! Validation of Gateways and ListenerSets.

pub(crate) mod gateway;
pub(crate) mod gateway_tls;
pub(crate) mod listener;
