//! Policies that attach to objects of others: what they say, at which targets, which of them wins, and what is told
//! to their authors.

pub(crate) mod ancestors;
pub(crate) mod answer;
#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub(crate) mod api_keys;
pub(crate) mod authorization;
pub(crate) mod backend_tls;
pub(crate) mod backend_tls_status;
pub(crate) mod backend_tls_status_unit;
pub(crate) mod backend_tls_target;
pub(crate) mod backend_tls_unit;
pub(crate) mod backend_traffic;
pub(crate) mod backend_traffic_effect;
pub(crate) mod backend_traffic_status;
pub(crate) mod backend_traffic_target;
pub(crate) mod backend_traffic_unit;
pub(crate) mod balance;
pub(crate) mod basic_auth;
pub(crate) mod beside_filters;
pub(crate) mod bodies;
pub(crate) mod checks;
pub(crate) mod effect;
pub(crate) mod error_pages;
pub mod expression;
pub(crate) mod fields;
mod findings;
pub(crate) mod health_check;
pub(crate) mod jwks;
pub(crate) mod jwt;
pub(crate) mod limits;
pub(crate) mod networks;
pub(crate) mod overridden;
pub(crate) mod path_rewrite;
pub(crate) mod precedence;
pub(crate) mod rate_limit;
pub(crate) mod retry_constraint;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod target;
pub(crate) mod tokens;
pub(crate) mod traffic;
pub(crate) mod traffic_targets;
mod unexpected;
mod unprobed;
