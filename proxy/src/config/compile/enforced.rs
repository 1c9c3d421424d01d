//! What overriding policies enforce at a target: nearer ones can only tighten it.
//!
//! Of two overriding policies, that of the wider target wins, except for what is evaluated in addition
//! (authorization, networks, rate limits), for answers, of which the next one is for the requests that the wider one
//! excepts (and comes after the credentials and authorization that a wider target enforces), and for limits, of which the
//! tighter one holds.

use std::time::Duration;

use xds::model::{self, AccessLog, Policy, PolicySpec, Precedence, Timeout};

use super::policy::Layer;
use crate::limits::Limits;
use crate::policy::effective_fields::PolicyView;

/// What overriding policies of Gateway, ListenerSet and listener enforce.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Enforced<'a> {
    /// Limits that nearer ones stay within.
    bounds: Vec<&'a model::Limits>,
    pub(super) access_log: Option<&'a AccessLog>,
    /// How clients authenticate themselves.
    pub(super) credentials: Option<&'a Policy>,
    /// Each has to allow a request, the widest first.
    pub(super) authorization: Vec<(&'a Policy, PolicyView)>,
    /// Each has to accept a client.
    pub(super) networks: Vec<&'a Policy>,
    /// Each counts a request.
    pub(super) rate_limits: Vec<(&'a Policy, PolicyView)>,
    /// Each may answer a request before its sender is known, the widest first.
    pub(super) responds: Vec<&'a Policy>,
    /// Those of targets within one that enforces credentials or authorization: they answer only who passes these.
    pub(super) late_responds: Vec<&'a Policy>,
    /// With pages for errors.
    pub(super) error_pages: Option<&'a Policy>,
}

impl<'a> Enforced<'a> {
    /// Adds what a nearer target enforces.
    pub(super) fn add(&mut self, nearer: &'a Layer) {
        if nearer.policies(Precedence::Overrides).next().is_none() {
            return;
        }
        let policy_with =
            |has: fn(&PolicySpec) -> bool| nearer.policy_with(Precedence::Overrides, has);
        let is_open = self.credentials.is_none() && self.authorization.is_empty();
        self.bounds.extend(nearer.bounds());
        let access_log = nearer.of(Precedence::Overrides, |spec| spec.access_log.as_ref());
        self.access_log = self.access_log.or(access_log);
        let credentials = policy_with(PolicySpec::has_credentials);
        self.credentials = self.credentials.or(credentials);
        // Claims of a nearer target would be those of an issuer that its owner brings.
        let view = match self.credentials {
            Some(_) => PolicyView::AsSentWithClaims,
            None => PolicyView::AsSent,
        };
        let authorization = policy_with(|spec| spec.authorization.is_some());
        self.authorization
            .extend(authorization.map(|policy| (policy, view)));
        self.networks
            .extend(policy_with(|spec| spec.networks.is_some()));
        let rate_limit = policy_with(|spec| spec.rate_limit.is_some());
        self.rate_limits
            .extend(rate_limit.map(|policy| (policy, view)));
        let responds = if is_open {
            &mut self.responds
        } else {
            &mut self.late_responds
        };
        responds.extend(policy_with(|spec| spec.respond.is_some()));
        let error_pages = policy_with(|spec| spec.error_pages.is_some());
        self.error_pages = self.error_pages.or(error_pages);
    }

    /// Whether it is the same, of the same policies.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self {
            bounds,
            access_log,
            credentials,
            authorization,
            networks,
            rate_limits,
            responds,
            late_responds,
            error_pages,
        } = self;
        let same_views = |one: &[(&Policy, PolicyView)], other: &[(&Policy, PolicyView)]| {
            let is_same = |((one, seen), (other, sees)): (&(&Policy, _), &(&Policy, _))| {
                std::ptr::eq(*one, *other) && seen == sees
            };
            one.len() == other.len() && one.iter().zip(other).all(is_same)
        };
        let same = |one: &[&Policy], other: &[&Policy]| {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| std::ptr::eq(*one, *other))
        };
        let place = |policy: Option<&Policy>| policy.map(std::ptr::from_ref);
        place(*credentials) == place(other.credentials)
            && same_views(authorization, &other.authorization)
            && same_views(rate_limits, &other.rate_limits)
            && same(networks, &other.networks)
            && same(responds, &other.responds)
            && same(late_responds, &other.late_responds)
            && place(*error_pages) == place(other.error_pages)
            && *bounds == other.bounds
            && *access_log == other.access_log
    }

    /// These limits within the bounds.
    pub(super) fn bound(&self, limits: &Limits) -> Limits {
        let bounds = self.bounds.iter();
        bounds.fold(*limits, |limits, bounds| limits.bounded_by(bounds))
    }

    /// The bound of the time for the head of a response, if there is one.
    pub(super) fn head_bound(&self) -> Option<Duration> {
        let bounds = self.bounds.iter();
        let bounds = bounds.filter_map(|it| match it.response_head_timeout {
            Some(Timeout::After(bound)) => Some(bound),
            Some(Timeout::Default | Timeout::Never) | None => None,
        });
        bounds.min()
    }
}
