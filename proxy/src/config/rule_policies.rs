//! Policies in effect at a rule, and those that are asked before a rule is selected.

use std::sync::Arc;

use crate::policy::authentication::Authentication;
use crate::policy::authorization::Authorization;
use crate::policy::client_networks::ClientNetworks;
use crate::policy::effective_fields::PolicyView;
use crate::policy::rate_limit::RateLimits;

/// Authentication of a rule.
#[derive(Debug)]
pub struct RuleAuthentication {
    /// The credentials that are accepted.
    pub credentials: Authentication,
    /// `kind/namespace/name` of the policy.
    pub policy: Box<str>,
}

/// Authorization rules of one policy.
#[derive(Debug)]
pub struct RuleAuthorization {
    /// The rules.
    pub policy: Arc<Authorization>,
    /// What they see of a request.
    pub view: PolicyView,
}

/// What overriding policies decide once the head of a request is read, before its rule is selected: so for
/// requests too that no rule serves.
#[derive(Debug, Default, PartialEq)]
pub struct HeadPolicies {
    /// Networks of clients, each of which has to accept a request.
    pub networks: Box<[Arc<ClientNetworks>]>,
    /// Rate limits by the address of the client; `None` without.
    pub rate_limits: Option<RateLimits>,
}
