//! Validation of routes.

pub(crate) mod filter;
pub(crate) mod grpc_route;
pub(crate) mod header_match;
pub(crate) mod http_route;
pub(crate) mod l4_route;
pub(crate) mod path_match;
pub(crate) mod rules;
pub(crate) mod session;
