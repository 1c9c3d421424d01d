//! Policies in effect at a rule, and those that are asked before a rule is selected.

use std::sync::Arc;

use super::error_pages::PagesInForce;
use crate::policy::answer::Respond;
use crate::policy::authentication::Authentication;
use crate::policy::authorization::Authorization;
use crate::policy::client_networks::ClientNetworks;
use crate::policy::effective_fields::PolicyView;
use crate::policy::hash_key::HashKeys;
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

/// What few rules have: what invalid policies mean for their requests, and what overriding ones answer.
#[derive(Debug, Default)]
pub struct RuleExtras {
    /// `kind/namespace/name` of a policy whose restrictions cannot be enforced: it refuses every request.
    pub refused_by: Option<Box<str>>,
    /// Whether a rejected version of a policy reads tokens from the query.
    pub hides_query: bool,
    /// The answers of overriding policies, the widest first. They come before credentials.
    pub enforced_answers: Box<[Arc<Respond>]>,
    /// Pages in the place of the contents of errors.
    pub error_pages: Option<PagesInForce>,
    /// Why its configuration is invalid: it has no backends then.
    pub invalid: Option<Box<str>>,
    /// What backends are drawn by, in the place of chance: all of them are hashed by the same.
    pub hashed_draw: Option<Box<HashKeys>>,
}

impl RuleExtras {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.refused_by.is_none()
            && !self.hides_query
            && self.enforced_answers.is_empty()
            && self.error_pages.is_none()
            && self.invalid.is_none()
            && self.hashed_draw.is_none()
    }
}
