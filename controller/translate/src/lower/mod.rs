//! Lowers objects to resources of the model: rules, backends, services and their workloads,
//! policies.

pub(crate) mod authorization;
pub(crate) mod backend;
pub(crate) mod closed;
pub(crate) mod cors;
pub(crate) mod expressions;
mod external_host;
pub(crate) mod filters;
pub(crate) mod grpc_rule;
pub(crate) mod header_edit;
pub(crate) mod http_rule;
pub(crate) mod jwt;
pub(crate) mod l4_rule;
pub(crate) mod matches;
pub(crate) mod networks;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod rate_limit;
pub(crate) mod retry_constraint;
pub(crate) mod rewrite;
pub(crate) mod route;
pub(crate) mod route_conflict;
pub(crate) mod route_cost;
pub(crate) mod route_object;
pub(crate) mod rule;
pub(crate) mod rule_backends;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod x_backend;
