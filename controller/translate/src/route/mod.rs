//! Routes of every kind: their rules as they are written and as proxies follow them, and where they attach.

#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub(crate) mod attached;
pub(crate) mod candidate;
pub(crate) mod checks;
pub(crate) mod closed;
pub(crate) mod conflict;
pub(crate) mod conflicts_unit;
pub(crate) mod cors;
pub(crate) mod cost;
pub(crate) mod defect;
pub(crate) mod expressions;
pub(crate) mod external_auth;
pub(crate) mod filters;
pub(crate) mod grpc_rule;
pub(crate) mod header_edit;
pub(crate) mod http_rule;
pub(crate) mod l4_rule;
pub(crate) mod lowered;
pub(crate) mod matches;
pub(crate) mod name;
pub(crate) mod object;
pub(crate) mod parent;
pub(crate) mod resolved;
pub(crate) mod rewrite;
pub(crate) mod rule;
pub(crate) mod rule_backends;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod status;
