//! The filters of a rule, compiled for the request path.
//!
//! Two stages: responses before a backend is selected, and filters of the selected backend. A stage without filters is `None`, so a rule without filters costs one branch per
//! stage.

use std::sync::Arc;

use xds::model::{self, Filters, HttpRule, RouteBackend};

use super::answer::Respond;
use super::cors::Cors;
use super::headers::HeaderEdits;
use super::mirror::Mirror;
use super::path_rewrite::PathRewrite;
use super::redirect::Redirect;
use super::rewrite::Rewrite;

/// The compiled filters of a rule.
#[derive(Debug, Clone, Default)]
pub struct RulePolicy {
    /// Responses of the rule itself.
    pub responses: Option<Box<RuleResponses>>,
    /// Filters of each backend, in the order of the rule's backends.
    pub backends: Box<[Option<Box<BackendPolicy>>]>,
}

/// What a policy that rewrites paths targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteTarget {
    /// The route.
    Route,
    /// The rules of a name.
    Rule,
}

/// What applies to responses before a backend is selected: preflights are answered by `cors`, others by
/// `redirect` or `respond`, and errors of the gateway are edited.
#[derive(Debug, Clone, Default)]
pub struct RuleResponses {
    /// Responds to preflights, and adds its headers to every other local response.
    pub cors: Option<Cors>,
    /// Answers every request with a redirect.
    pub redirect: Option<Redirect>,
    /// Answers of policies for senders who are known and allowed. The first one whose exception does not let a request
    /// through answers it.
    pub responds: Box<[Arc<Respond>]>,
    /// Edits of response headers.
    pub response_headers: HeaderEdits,
}

/// The filters of a rule and of one of its backends combined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendPolicy {
    /// The backend's own redirect, which responds in its place.
    pub redirect: Option<Redirect>,
    /// The backend's own filter, otherwise the rule's.
    pub cors: Option<Cors>,
    /// Rewrite of host and path.
    pub rewrite: Option<Rewrite>,
    /// Rewrite of the path by a policy. A filter that rewrites it stands in `rewrite`, and there is none here.
    pub path_rewrite: Option<PathRewrite>,
    /// Edits of request headers.
    pub request_headers: HeaderEdits,
    /// Edits of response headers.
    pub response_headers: HeaderEdits,
    /// The rule's mirrors, then the backend's.
    pub mirrors: Box<[Mirror]>,
}

impl RulePolicy {
    /// Compiles the filters of a rule.
    #[must_use]
    pub fn compile(rule: &HttpRule) -> Self {
        let backends = rule.backends.iter();
        Self {
            responses: RuleResponses::compile(&rule.filters).map(Box::new),
            backends: backends
                .map(|backend| BackendPolicy::compile(&rule.filters, &backend.filters))
                .map(|policy| policy.map(Box::new))
                .collect(),
        }
    }

    /// Rewrites the paths of requests to all backends, as a policy of the route or of the very rule says. A filter
    /// that rewrites paths wins over the route's policy. Beside that of the rule it is ambiguous, so that no
    /// request is sent anywhere.
    #[must_use]
    pub fn with_path_rewrite(
        mut self,
        rule: &HttpRule,
        rewrite: &model::PathRewrite,
        target: RewriteTarget,
    ) -> Self {
        let by_rule = rewrites_path(&rule.filters);
        let by_backend = |backend: &RouteBackend| rewrites_path(&backend.filters);
        let is_ambiguous =
            target == RewriteTarget::Rule && (by_rule || rule.backends.iter().any(by_backend));
        let rewrite = if is_ambiguous {
            PathRewrite::Ambiguous
        } else {
            PathRewrite::compile(rewrite)
        };
        for (policy, backend) in self.backends.iter_mut().zip(&rule.backends) {
            if is_ambiguous || !(by_rule || by_backend(backend)) {
                let policy = policy.get_or_insert_default();
                policy.path_rewrite = Some(rewrite.clone());
            }
        }
        self
    }

    /// Filters of the selected backend.
    #[must_use]
    pub fn of_backend(&self, at: usize) -> Option<&BackendPolicy> {
        self.backends.get(at)?.as_deref()
    }
}

impl RuleResponses {
    fn compile(rule: &Filters) -> Option<Self> {
        let edits = [rule.response_headers.as_ref()];
        let responses = Self {
            cors: rule.cors.as_ref().map(Cors::compile),
            redirect: rule.redirect.as_ref().map(Redirect::compile),
            responds: Box::default(),
            response_headers: HeaderEdits::compose_without(&edits, owned_by(rule.cors.as_ref())),
        };
        (responses.may_respond() || !responses.response_headers.is_empty()).then_some(responses)
    }

    /// Whether a request may be answered here.
    #[must_use]
    pub fn may_respond(&self) -> bool {
        self.cors.is_some() || self.redirect.is_some() || !self.responds.is_empty()
    }
}

impl BackendPolicy {
    fn compile(rule: &Filters, backend: &Filters) -> Option<Self> {
        let cors = backend.cors.as_ref().or(rule.cors.as_ref());
        let policy = Self {
            redirect: backend.redirect.as_ref().map(Redirect::compile),
            cors: cors.map(Cors::compile),
            rewrite: Rewrite::compose(&[rule.rewrite.as_ref(), backend.rewrite.as_ref()]),
            path_rewrite: None,
            request_headers: HeaderEdits::compose(&[
                rule.request_headers.as_ref(),
                backend.request_headers.as_ref(),
            ]),
            response_headers: HeaderEdits::compose_without(
                &[
                    rule.response_headers.as_ref(),
                    backend.response_headers.as_ref(),
                ],
                owned_by(cors),
            ),
            mirrors: rule
                .mirrors
                .iter()
                .chain(&backend.mirrors)
                .map(Mirror::compile)
                .collect(),
        };
        (!policy.is_idle()).then_some(policy)
    }

    fn is_idle(&self) -> bool {
        self.redirect.is_none()
            && self.cors.is_none()
            && self.rewrite.is_none()
            && self.path_rewrite.is_none()
            && self.request_headers.is_empty()
            && self.response_headers.is_empty()
            && self.mirrors.is_empty()
    }
}

fn rewrites_path(filters: &Filters) -> bool {
    let rewrite = filters.rewrite.as_ref();
    rewrite.is_some_and(|rewrite| rewrite.path.is_some())
}

/// The names that edits of response headers leave to a CORS filter: browsers reject a response with a
/// second `access-control-allow-origin`.
fn owned_by(cors: Option<&model::Cors>) -> fn(&[u8]) -> bool {
    match cors {
        Some(_) => Cors::drops,
        None => |_| false,
    }
}

#[cfg(test)]
mod tests;
